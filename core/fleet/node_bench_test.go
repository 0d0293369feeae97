package fleet

import (
	"context"
	"io"
	"net/http"
	"testing"

	"headway/core"
)

// sink is a link that takes everything; what the node must hear comes from the
// bench.
type sink struct {
	*memLink
	frames func(frame)
}

func (s sink) Publish(subject string, data []byte) error {
	if subject != "hw.v1.n.den.f" {
		return s.memLink.Publish(subject, data)
	}
	f, err := parseFrame(data)
	if err == nil {
		s.frames(f)
	}
	return err
}

// BenchmarkNodeFrames is what one event of a stream costs a node, from its server's
// connection to the bus (which costs nothing here), the server that sends it
// included. plain is a client that reads the same stream and does nothing with it.
func BenchmarkNodeFrames(b *testing.B) {
	text, events := event("token "), 0
	srv := modelServerOf(b, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		flush := http.NewResponseController(w)
		for range events {
			if _, err := io.WriteString(w, text); err != nil {
				return
			}
			_ = flush.Flush()
		}
	})
	b.Run("node", func(b *testing.B) {
		end := make(chan struct{}, 1)
		reads := 0
		r := newNodeRig(b, rigOf{parts: func(p *NodeParts) {
			dial := p.Dial
			p.Dial = func(ctx context.Context) (core.Link, error) {
				l, err := dial(ctx)
				return sink{l.(*memLink), func(f frame) {
					switch f.kind {
					case kindData:
						reads++
					case kindEnd:
						end <- struct{}{}
					}
				}}, err
			}
		}, edge: func(e *playedEdge) { e.welcome.WindowFrames, e.welcome.WindowBytes = 1<<31, 1<<31 }}, openAI(srv))
		r.ready(1)
		events = b.N
		b.ReportAllocs()
		b.ResetTimer()
		r.chat()
		<-end
		b.StopTimer()
		b.ReportMetric(float64(b.N)/float64(max(reads, 1)), "events/frame")
	})
	b.Run("plain", func(b *testing.B) {
		tr := transport(b)
		events = b.N
		b.ReportAllocs()
		b.ResetTimer()
		req, err := http.NewRequest(http.MethodPost, srv.URL+"/v1/chat/completions", http.NoBody)
		if err != nil {
			b.Fatal(err)
		}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			b.Fatal(err)
		}
		buf, reads := make([]byte, joinedBytes), 0
		for err == nil {
			_, err = resp.Body.Read(buf)
			reads++
		}
		_ = resp.Body.Close()
		b.StopTimer()
		b.ReportMetric(float64(b.N)/float64(reads), "events/frame")
	})
}
