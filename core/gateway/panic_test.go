package gateway_test

import (
	"context"
	"log"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"headway/core"
	"headway/core/gateway"
)

// crashing is an adapter that panics at a place, with content as the value.
type crashing struct {
	core.Adapter
	at *atomic.Pointer[string]
}

func (c crashing) check(place string) {
	if at := c.at.Load(); at != nil && strings.Contains(*at, place+";") {
		panic("crash of " + prompt + " with sk-a")
	}
}

func (c crashing) Parse(h core.RequestHead, b []byte) (*core.Job, error) {
	c.check("Parse")
	return c.Adapter.Parse(h, b)
}
func (c crashing) Build(ctx context.Context, j *core.Job, content *core.Content, h core.RequestHead, o *core.Offer) (*http.Request, []string, error) {
	c.check("Build")
	return c.Adapter.Build(ctx, j, content, h, o)
}
func (c crashing) Reader(j *core.Job, o *core.Offer) core.Reader {
	c.check("Reader")
	return crashingReader{c.Adapter.Reader(j, o), c}
}
func (c crashing) Writer(j *core.Job) core.Writer {
	c.check("Writer")
	return crashingWriter{c.Adapter.Writer(j), c}
}

type crashingReader struct {
	core.Reader
	c crashing
}

func (r crashingReader) Split() core.Splitting { r.c.check("Split"); return r.Reader.Split() }
func (r crashingReader) Read(f *core.Frame) core.Mark {
	r.c.check("Read")
	mark := r.Reader.Read(f)
	if mark.Has(core.MarkFinish) {
		r.c.check("Read the finish")
	}
	return mark
}
func (r crashingReader) ReadWhole(b []byte) error {
	r.c.check("ReadWhole")
	return r.Reader.ReadWhole(b)
}
func (r crashingReader) ReadError(s int, b []byte) core.UpstreamError {
	r.c.check("ReadError")
	return r.Reader.ReadError(s, b)
}
func (r crashingReader) Answer() core.Answer { r.c.check("Answer"); return r.Reader.Answer() }

type crashingWriter struct {
	core.Writer
	c crashing
}

func (w crashingWriter) ErrorBody(e *core.Error) []byte {
	w.c.check("ErrorBody")
	return w.Writer.ErrorBody(e)
}
func (w crashingWriter) ErrorEvent(e *core.Error) []byte {
	w.c.check("ErrorEvent")
	return w.Writer.ErrorEvent(e)
}
func (w crashingWriter) Fold(f core.Frame)       { w.c.check("Fold"); w.Writer.Fold(f) }
func (w crashingWriter) Folded() ([]byte, error) { w.c.check("Folded"); return w.Writer.Folded() }
func (w crashingWriter) Unfold(b []byte) ([][]byte, error) {
	w.c.check("Unfold")
	return w.Writer.Unfold(b)
}
func (w crashingWriter) ContentType() string { w.c.check("ContentType"); return w.Writer.ContentType() }

// TestPanics: a panic anywhere in an adapter is a 500 in the caller's format, or
// its stream's error, with a receipt where the call was to be dispatched. It
// holds no place, tells no content, and the server goes on.
func TestPanics(t *testing.T) {
	for _, w := range wires() {
		stream := []step{{10 * ms, w.head() + chunk(w.opening+w.says("tea"))}, {20 * ms, chunk(w.ending) + lastChunk}}
		whole := []step{{10 * ms, status(200, "", w.whole("tea"))}}
		page := []step{{10 * ms, "HTTP/1.1 404 No\r\nContent-Length: 4\r\n\r\npage"}}
		refusal := []step{{10 * ms, status(500, "", "{}")}}
		cut := []step{{10 * ms, w.head() + chunk(w.opening+w.says("tea"))}, {20 * ms, cutOff}}
		for _, c := range []struct {
			at       string // the places, each with a semicolon
			script   []step
			streamed bool
			receipt  bool
			begun    bool // the client has seen output
			whole    bool // … and the end
			bare     bool // not even the error can be written in the format
		}{
			{at: "Parse;", script: stream, streamed: true},
			{at: "Writer;", script: stream, streamed: true, bare: true},
			{at: "Build;", script: stream, streamed: true},
			{at: "Build;ErrorBody;", script: stream, streamed: true, bare: true},
			{at: "Reader;", script: stream, streamed: true, receipt: true},
			{at: "Split;", script: stream, streamed: true, receipt: true},
			{at: "Read;", script: stream, streamed: true, receipt: true},
			{at: "Read the finish;", script: stream, streamed: true, receipt: true, begun: true},
			{at: "Read the finish;ErrorEvent;", script: stream, streamed: true, receipt: true, begun: true, bare: true},
			{at: "Answer;", script: cut, streamed: true, receipt: true, begun: true},
			{at: "Answer;", script: stream, streamed: true, receipt: true, begun: true, whole: true},
			{at: "ErrorEvent;", script: cut, streamed: true, receipt: true, begun: true, bare: true},
			{at: "Unfold;", script: whole, streamed: true, receipt: true},
			{at: "ContentType;", script: whole, receipt: true},
			{at: "ReadWhole;", script: whole, receipt: true},
			{at: "ReadError;", script: refusal, receipt: true},
			{at: "ErrorBody;", script: page, receipt: true, bare: true},
			{at: "Folded;", script: stream, receipt: true},
			{at: "Fold;", script: stream, receipt: true},
		} {
			if w.name == "google array" && !c.streamed {
				continue
			}
			t.Run(w.name+" "+c.at, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, nil, offer{name: "a", format: w.format, scripts: [][]step{c.script}}, w.good("b", "fine", c.streamed))
					var at atomic.Pointer[string]
					gw, client := r.crashing(&at)
					at.Store(&c.at)
					r.client = client
					a := w.post(r, c.streamed)
					switch {
					case c.begun && c.bare:
						if a.err == nil {
							t.Errorf("the stream looks complete: %s", a.body)
						}
					case c.whole:
						if got, err := w.sdk(a.body); err != nil || a.err != nil || got != (read{"tea", true, ""}) {
							t.Errorf("an SDK reads %+v, %v, %v of %s", got, err, a.err, a.body)
						}
					case c.begun:
						if got, err := w.sdk(a.body); err != nil || a.err != nil || got.failed == "" || got.ended || a.status != 200 {
							t.Errorf("%d, an SDK reads %+v, %v, %v of %s", a.status, got, err, a.err, a.body)
						}
					case a.status != 500:
						t.Errorf("%d %v %s", a.status, a.err, a.body)
					case c.bare:
						failure(t, "", a.status, a.header.Get("Content-Type"), strings.Replace(a.body, `}}`, `,"code":null}}`, 1))
					default:
						w.failure(t, a)
					}
					synctest.Wait()
					want := 0
					if c.receipt {
						want = 1
						if rec := r.only(); rec.Outcome != core.Failed && c.at != "ErrorEvent;" || rec.Offer != "a/mini" || len(rec.Attempts) != 1 || strings.Contains(c.at, "Read") && rec.Attempts[0].Error != "internal" {
							t.Errorf("outcome %s at %s, attempts %+v", rec.Outcome, rec.Offer, rec.Attempts)
						}
					}
					if r.receipts() != want || gw.Open() != 0 || r.upstreams["b"].calls() != 0 {
						t.Errorf("%d receipts, %d open calls, %d calls to b", r.receipts(), gw.Open(), r.upstreams["b"].calls())
					}
					if !strings.Contains(r.log.String(), "a call panicked") || strings.Contains(r.log.String(), prompt) || strings.Contains(r.log.String(), "sk-a") || strings.Contains(a.body, prompt) {
						t.Errorf("the log is %s\nthe client got %s", r.log, a.body)
					}
					at.Store(nil)
					r.upstreams["a"].scripts = [][]step{w.good("a", "fine", c.streamed).script}
					w.isFine(t, w.post(r, c.streamed), c.streamed)
				})
			})
		}
	}
}

// crashing is a second front of the rig whose adapters panic where at says.
func (r *rig) crashing(at *atomic.Pointer[string]) (*gateway.Gateway, *http.Client) {
	parts := r.gw.Parts
	parts.Adapters = nil
	for _, a := range r.gw.Adapters {
		parts.Adapters = append(parts.Adapters, crashing{a, at})
	}
	gw := gateway.New(parts)
	gw.Swap(r.gw.Setup())
	front := newPipes()
	server := &http.Server{Handler: gw, ErrorLog: log.New(r.log, "net/http: ", 0)}
	go func() { _ = server.Serve(front) }()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return front.dial(ctx) }}}
	r.t.Cleanup(func() {
		client.CloseIdleConnections()
		_ = server.Close()
		synctest.Wait()
	})
	return gw, client
}
