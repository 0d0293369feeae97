//go:build unix

package bus

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// cpu is the processor time that this process has used.
func cpu(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

const (
	benchFrame = 300
	benchBurst = 200
)

// BenchmarkFrames sends frames of 300 bytes from a node to the edge over TLS on
// loopback, both in this process, and prints what a message costs in processor time,
// user and system. burst: 200 at once, then a wait for the last; paced: streams that
// each send one every 10 ms. http is the same over one chunked HTTP answer each, in
// the clear, for comparison.
func BenchmarkFrames(b *testing.B) {
	data := make([]byte, benchFrame)
	report := func(b *testing.B, from time.Duration) {
		b.ReportMetric(float64((cpu(b)-from).Nanoseconds())/1e3/float64(b.N), "cpu-µs/msg")
	}
	bus := func(b *testing.B) (publish func() error, count *atomic.Int64) {
		e := openEdge(b)
		count = &atomic.Int64{}
		if _, err := e.Subscribe("hw.v1.n.box.f", func(_, _ string, _ []byte) { count.Add(1) }); err != nil {
			b.Fatal(err)
		}
		l, _ := e.join(b, "box")
		return func() error { return l.Publish("hw.v1.n.box.f", data) }, count
	}
	b.Run("bus/burst", func(b *testing.B) {
		publish, count := bus(b)
		from := cpu(b)
		b.ResetTimer()
		for sent := 0; sent < b.N; {
			for range min(benchBurst, b.N-sent) {
				if err := publish(); err != nil {
					b.Fatal(err)
				}
				sent++
			}
			for count.Load() < int64(sent) {
				time.Sleep(20 * time.Microsecond)
			}
		}
		b.StopTimer()
		report(b, from)
	})
	for _, streams := range []int{1, 10, 50} {
		b.Run(fmt.Sprintf("bus/paced/%d", streams), func(b *testing.B) {
			publish, count := bus(b)
			from := cpu(b)
			b.ResetTimer()
			paced(b, streams, func(int) error { return publish() })
			for count.Load() < int64(b.N) {
				time.Sleep(time.Millisecond)
			}
			b.StopTimer()
			report(b, from)
		})
		b.Run(fmt.Sprintf("http/paced/%d", streams), func(b *testing.B) {
			var bodies []chan []byte
			for range streams {
				bodies = append(bodies, make(chan []byte))
			}
			var next atomic.Int64
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				flush := http.NewResponseController(w)
				_ = flush.Flush()
				for d := range bodies[next.Add(1)-1] {
					_, _ = w.Write(d)
					_ = flush.Flush()
				}
			}))
			defer s.Close()
			var readers sync.WaitGroup
			for range streams {
				resp, err := s.Client().Get(s.URL)
				if err != nil {
					b.Fatal(err)
				}
				readers.Go(func() {
					defer resp.Body.Close()
					buf := make([]byte, 32<<10)
					for {
						if _, err := resp.Body.Read(buf); err == io.EOF {
							return
						} else if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			from := cpu(b)
			b.ResetTimer()
			paced(b, streams, func(i int) error { bodies[i] <- data; return nil })
			b.StopTimer()
			report(b, from)
			for _, c := range bodies {
				close(c)
			}
			readers.Wait()
		})
	}
}

// paced sends b.N messages from streams that each send one every 10 ms.
func paced(b *testing.B, streams int, send func(stream int) error) {
	var all sync.WaitGroup
	for i := range streams {
		all.Go(func() {
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			time.Sleep(time.Duration(i) * 10 * time.Millisecond / time.Duration(streams))
			for n := i; n < b.N; n += streams {
				<-tick.C
				if err := send(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// BenchmarkBulk sends pieces of 256 KiB from the edge to a node, both in this process.
func BenchmarkBulk(b *testing.B) {
	e := openEdge(b)
	l, _ := e.join(b, "box")
	var got atomic.Int64
	if _, err := l.Subscribe("hw.v1.j.box.f", func(_, _ string, _ []byte) { got.Add(1) }); err != nil {
		b.Fatal(err)
	}
	until(b, "it listens", func() bool { _ = e.Publish("hw.v1.j.box.f", nil); return got.Load() > 0 })
	data := make([]byte, 256<<10)
	until(b, "nothing is under way", func() bool { n := got.Load(); time.Sleep(20 * time.Millisecond); return got.Load() == n })
	got.Store(0)
	from := cpu(b)
	b.SetBytes(int64(len(data)))
	b.ResetTimer()
	for i := range b.N {
		if err := e.Publish("hw.v1.j.box.f", data); err != nil {
			b.Fatal(err)
		}
		for got.Load() < int64(i)-3 {
			time.Sleep(20 * time.Microsecond)
		}
	}
	for got.Load() < int64(b.N) {
		time.Sleep(20 * time.Microsecond)
	}
	b.StopTimer()
	b.ReportMetric(float64((cpu(b)-from).Nanoseconds())/1e3/float64(b.N), "cpu-µs/msg")
}
