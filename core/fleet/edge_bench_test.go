//go:build unix

package fleet

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// used is the processor time that this process has used.
func used(t testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkPaced prints what an event costs in processor time that comes alone, every
// 10 ms on each of some streams: read from a server over HTTP, or through both ends
// and the bus between them. The server and whoever reads are in it.
func BenchmarkPaced(b *testing.B) {
	const every = 10 * time.Millisecond
	event := "data: " + strings.Repeat("x", 230) + "\n\n"
	serve := func(events int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(200)
			tick := time.NewTicker(every)
			defer tick.Stop()
			for range events {
				_, _ = io.WriteString(w, event)
				w.(http.Flusher).Flush()
				<-tick.C
			}
		}
	}
	for _, streams := range []int{1, 50, 500} {
		run := func(b *testing.B, get func() (*http.Response, error)) {
			var all sync.WaitGroup
			from := used(b)
			b.ResetTimer()
			for range streams {
				all.Go(func() {
					resp, err := get()
					if err == nil {
						_, err = io.Copy(io.Discard, resp.Body)
						_ = resp.Body.Close()
					}
					if err != nil {
						b.Error(err)
					}
				})
			}
			all.Wait()
			b.StopTimer()
			b.ReportMetric(float64((used(b)-from).Nanoseconds())/1e3/float64(max(b.N/streams, 1)*streams), "cpu-µs/event")
		}
		b.Run(fmt.Sprintf("http/%d", streams), func(b *testing.B) {
			up := httptest.NewServer(serve(max(b.N/streams, 1)))
			defer up.Close()
			client := transport(b)
			run(b, func() (*http.Response, error) {
				req, err := http.NewRequest("POST", up.URL, strings.NewReader("{}"))
				if err != nil {
					return nil, err
				}
				return client.RoundTrip(req)
			})
		})
		b.Run(fmt.Sprintf("bus/%d", streams), func(b *testing.B) {
			ends := newBoth(b, true, int64(streams), serve(max(b.N/streams, 1)))
			run(b, func() (*http.Response, error) { return ends.post(b.Context(), "box", "{}") })
		})
	}
}
