package fleet

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"headway/core"
)

// still is an upstream that needs no network: each answer is what body gives, of
// which nil is one that never comes.
func still(body func(*http.Request) io.Reader) (Upstream, func(*NodeParts)) {
	return Upstream{URL: "http://one", Format: core.FormatOpenAI, Fixed: true, Slots: core.Some(int64(2)), Offers: []core.NodeModel{{Model: "m"}}}, func(p *NodeParts) {
		p.Transport = tripFunc(func(r *http.Request) (*http.Response, error) {
			resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, ContentLength: -1, Body: http.NoBody, Request: r}
			if r.Method == http.MethodPost {
				resp.Body = io.NopCloser(body(r))
			}
			return resp, nil
		})
	}
}

// endless gives an event and then waits for the end of the request.
func endless(r *http.Request) io.Reader {
	return io.MultiReader(&readOnce{text: event("x")}, contextReader{r.Context()})
}

type readOnce struct{ text string }

func (r *readOnce) Read(p []byte) (int, error) {
	if r.text == "" {
		return 0, io.EOF
	}
	n := copy(p, r.text)
	r.text = r.text[n:]
	return n, nil
}

type contextReader struct{ ctx context.Context }

func (c contextReader) Read([]byte) (int, error) { <-c.ctx.Done(); return 0, c.ctx.Err() }

// brief gives a whole answer.
func brief(*http.Request) io.Reader { return &readOnce{text: event("x") + eventsEnd} }

// A node asks again at once-ish while no edge hears it, and goes on where one does.
func TestNodeHelloUntilHeard(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		u, parts := still(brief)
		r := newNodeRig(t, rigOf{parts: parts, edge: func(e *playedEdge) { e.away, e.deaf = true, true }}, u)
		time.Sleep(5 * time.Second)
		if n, _, _ := r.counts(); n != 0 {
			t.Fatal("heard")
		}
		r.listen()
		at := time.Now()
		until(t, "a hello", func() bool { return len(r.report().Upstreams) == 1 })
		if took := time.Since(at); took > 200*time.Millisecond {
			t.Errorf("the hello came after %v", took)
		}
		r.set(func(e *playedEdge) { e.deaf = false }) // it was heard and not answered
		at = time.Now()
		r.chat().all()
		if took := time.Since(at); took > helloTime+200*time.Millisecond {
			t.Errorf("the session began after %v", took)
		}
	})
}

// A report that the edge does not want is told again later, and whenever it changes.
func TestNodeReportNotTaken(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		u, parts := still(brief)
		up := atomic.Int64{}
		r := newNodeRig(t, rigOf{parts: func(p *NodeParts) { parts(p); p.Up = func(n int) { up.Store(int64(n)) } },
			edge: func(e *playedEdge) { e.welcome.Error = "no" }}, u)
		until(t, "a hello", func() bool { return len(r.report().Upstreams) == 1 })
		time.Sleep(time.Second)
		n, _, _ := r.counts()
		if n > 2 || up.Load() != 0 {
			t.Fatalf("%d hellos in a second, up %d", n, up.Load())
		}
		r.set(func(e *playedEdge) { e.welcome.Error = "" })
		until(t, "up", func() bool { return up.Load() == 1 })
	})
}

// An edge that says nothing for too long is dialled again; its jobs end, and what
// they measured is handed over.
func TestNodeEdgeFallsSilent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		u, parts := still(endless)
		r := newNodeRig(t, rigOf{parts: parts, edge: func(e *playedEdge) { e.welcome.HeartbeatMS, e.welcome.Misses = 1000, 3 }}, u)
		r.ready(1)
		s := r.chat()
		s.kindAt(2, kindData)
		at := time.Now()
		r.set(func(e *playedEdge) { e.silent = true })
		r.mu.Lock()
		first := r.links[0]
		r.mu.Unlock()
		<-first.Done()
		if took := time.Since(at); took < 2*time.Second || took > 4*time.Second {
			t.Errorf("the node left after %v", took)
		}
		until(t, "another session", func() bool { r.mu.Lock(); defer r.mu.Unlock(); return len(r.links) == 2 })
		r.set(func(e *playedEdge) { e.silent = false })
		if c := r.handedOver(string(s.call) + ".1"); c.Outcome != core.Lost || !c.Timing.FirstToken.OK || !c.Timing.Service.OK || c.Timing.SlotWait != core.Some(0.0) {
			t.Errorf("handed over %+v", c)
		}
		if busy, waiting := r.node.servers[0].line.count(); busy+waiting != 0 {
			t.Errorf("busy %d, waiting %d", busy, waiting)
		}
		if h := r.chat().headers(); h.Status != 200 { // its window is a new one
			t.Errorf("headers %+v", h)
		}
	})
}

// A stream that the edge's beats leave out twice in a row is ended; one that is
// named in between, or young, is not.
func TestNodeReapsWhatTheEdgeForgot(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		u, parts := still(endless)
		r := newNodeRig(t, rigOf{parts: parts, edge: func(e *playedEdge) { e.welcome.HeartbeatMS = 1000 }}, u)
		r.ready(1)
		a, b := r.chat(), r.chat()
		a.kindAt(2, kindData)
		b.kindAt(2, kindData)
		time.Sleep(10 * time.Second)
		at := time.Now()
		b.forget()
		call := r.handedOver(string(b.call) + ".1")
		if took := time.Since(at); took < time.Second || took > 3*time.Second || call.Outcome != core.ClientGone {
			t.Errorf("%v after %v", call.Outcome, took)
		}
		time.Sleep(10 * time.Second)
		if busy, _ := r.node.servers[0].line.count(); busy != 1 || a.count() != 3 {
			t.Errorf("busy %d, %d frames", busy, a.count())
		}
		a.cancel()
	})
}

// A lost connection ends all jobs, and another session begins at once-ish.
func TestNodeSessionCut(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		u, parts := still(endless)
		r := newNodeRig(t, rigOf{parts: parts}, u)
		r.ready(1)
		var all []*playedStream
		for range 4 { // two of them wait for a slot
			all = append(all, r.chat())
		}
		for _, s := range all {
			s.kindAt(0, kindAccepted)
		}
		all[0].kindAt(2, kindData)
		at := time.Now()
		r.cutAll()
		for _, s := range all {
			if c := r.handedOver(string(s.call) + ".1"); c.Outcome != core.Lost {
				t.Errorf("%v", c.Outcome)
			}
		}
		if took := time.Since(at); took > 500*time.Millisecond {
			t.Errorf("handed over after %v", took)
		}
		if busy, waiting := r.node.servers[0].line.count(); busy+waiting != 0 {
			t.Errorf("busy %d, waiting %d", busy, waiting)
		}
		r.chat().headers()
	})
}

// A job that finds the connection lost before the session does has lost it, whatever
// it was about to send: its call is no failure of the server's.
func TestNodeJobFindsTheLoss(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		answer := make(chan struct{})
		u, parts := still(endless)
		r := newNodeRig(t, rigOf{parts: func(p *NodeParts) {
			parts(p)
			trip := p.Transport
			p.Transport = tripFunc(func(req *http.Request) (*http.Response, error) {
				if req.Method == http.MethodPost {
					<-answer
				}
				return trip.RoundTrip(req)
			})
		}}, u)
		r.ready(1)
		all := []*playedStream{r.chat(), r.chat(), r.chat()} // the last waits for a slot
		for _, s := range all {
			s.kindAt(0, kindAccepted)
		}
		r.links[0].Lose()
		close(answer)
		synctest.Wait()
		r.cutAll()
		for _, s := range all {
			if c := r.handedOver(string(s.call) + ".1"); c.Outcome != core.Lost {
				t.Errorf("%v", c.Outcome)
			}
		}
	})
}

// Dials are 0.1 to 1 s apart while there is no edge.
func TestNodeDialsAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		u, parts := still(brief)
		var at []time.Time
		var refuse atomic.Bool
		log := &logText{}
		r := newNodeRig(t, rigOf{parts: func(p *NodeParts) {
			parts(p)
			p.Log = slog.New(slog.NewTextHandler(log, nil))
			p.Dial = func(context.Context) (core.Link, error) {
				at = append(at, time.Now())
				if refuse.Load() {
					return nil, &core.Error{Kind: core.Forbidden, Msg: "the node is not known"}
				}
				if len(at) > 20 {
					return nil, &core.Error{Kind: core.Upstream, Msg: "another edge is there"}
				}
				return nil, errors.New("nobody there")
			}
		}}, u)
		time.Sleep(20 * time.Second)
		for _, why := range []string{"nobody there", "another edge is there"} {
			if n := strings.Count(log.String(), why); n != 1 {
				t.Errorf("%q is logged %d times", why, n)
			}
		}
		refuse.Store(true)
		err := <-r.done
		var e *core.Error
		if !errors.As(err, &e) || e.Kind != core.Forbidden {
			t.Fatalf("ended with %v", err)
		}
		if len(at) < 20 || len(at) > 60 {
			t.Errorf("%d dials in 20 s", len(at))
		}
		for i := 1; i < len(at); i++ {
			if d := at[i].Sub(at[i-1]); d < 100*time.Millisecond || d > time.Second {
				t.Errorf("dial %d after %v", i, d)
			}
		}
	})
}

// A node that is to stop refuses new jobs, lets those under way end, and ends once
// the edge has taken them.
func TestNodeStops(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		next := make(chan struct{})
		u, parts := still(func(r *http.Request) io.Reader {
			return io.MultiReader(&readOnce{text: event("x")}, blocked(next), &readOnce{text: eventsEnd})
		})
		r := newNodeRig(t, rigOf{parts: parts}, u)
		r.ready(1)
		a := r.chat()
		a.kindAt(2, kindData)
		r.stop()
		until(t, "a refusal", func() bool {
			s := r.chat()
			f := s.frame(0)
			s.cancel()
			return f.kind == kindRefused && string(f.payload) == `{"reason":"stopping"}`
		})
		time.Sleep(5 * time.Second)
		close(next)
		if _, body, e := a.all(); string(body) != event("x")+eventsEnd || e.Error != "" {
			t.Errorf("%q, %+v", body, e)
		}
		at := time.Now()
		if err := <-r.done; err != nil || time.Since(at) > time.Second {
			t.Errorf("ended with %v after %v", err, time.Since(at))
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if _, handed := r.calls[string(a.call)+".1"]; handed {
			t.Error("a call whose end the edge took was handed over")
		}
		if n := vaultNames(t, r.vault); len(n) != 0 {
			t.Errorf("kept %v", n)
		}
	})
}

// Jobs that do not end are cut off after 10 s, and the edge is told.
func TestNodeStopsWhatDoesNotEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		u, parts := still(endless)
		r := newNodeRig(t, rigOf{parts: parts}, u)
		r.ready(1)
		s := r.chat()
		s.kindAt(2, kindData)
		at := time.Now()
		r.stop()
		if err := <-r.done; err != nil {
			t.Errorf("ended with %v", err)
		}
		if took := time.Since(at); took < stopTime || took > stopTime+2*time.Second {
			t.Errorf("ended after %v", took)
		}
		if e := s.end(3); e.Error != endCancelled {
			t.Errorf("%+v", e)
		}
	})
}

// A frame that comes before the edge's answer to the first hello waits for it.
func TestNodeFramesWaitForTheTerms(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		u, parts := still(func(*http.Request) io.Reader {
			return io.MultiReader(&readOnce{text: event("x")}, &readOnce{text: eventsEnd})
		})
		r := newNodeRig(t, rigOf{parts: parts, edge: func(e *playedEdge) { e.welcome.WindowFrames = 1 }}, u)
		r.bus.Hook(func(m memMessage) memFate {
			if m.From == "" && len(m.Subject) > len("hw.v1.j.den.r.") && m.Subject[:len("hw.v1.j.den.r.")] == "hw.v1.j.den.r." {
				return memFate{Delay: time.Second}
			}
			return memFate{}
		})
		until(t, "a hello", func() bool { return len(r.report().Upstreams) == 1 })
		s := r.chat()
		s.kindAt(2, kindData)
		time.Sleep(time.Second)
		if s.count() != 3 {
			t.Errorf("%d frames with a window of one", s.count()-2)
		}
		s.give(1, windowBytes)
		s.kindAt(3, kindData)
		s.end(4)
	})
}

// An edge that restarts within a session (its subscriptions end, the connection does
// not) is told again what there is.
func TestNodeTellsOfChanges(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var models atomic.Pointer[string]
		one, two := `{"data":[{"id":"a"}]}`, `{"data":[{"id":"a"},{"id":"b"}]}`
		models.Store(&one)
		r := newNodeRig(t, rigOf{parts: func(p *NodeParts) {
			p.Transport = tripFunc(func(r *http.Request) (*http.Response, error) {
				list := models.Load()
				if list == nil {
					return nil, errors.New("connection refused")
				}
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(&readOnce{text: *list}), Request: r}, nil
			})
		}}, Upstream{URL: "http://one", Format: core.FormatOpenAI})
		r.ready(1)
		at := time.Now()
		models.Store(&two)
		r.ready(2)
		models.Store(nil)
		until(t, "down", func() bool { return r.report().Upstreams[0].Down })
		if took := time.Since(at); took > 2*pollEvery+time.Second {
			t.Errorf("two changes were told after %v", took)
		}
		if got := r.report().Upstreams[0]; len(got.Models) != 2 {
			t.Errorf("a server that is down has %d models", len(got.Models))
		}
		n, _, _ := r.counts()
		time.Sleep(10 * pollEvery)
		if more, _, _ := r.counts(); more != n {
			t.Errorf("%d reports without a change", more-n)
		}
		models.Store(&one)
		r.ready(1)
		r.mu.Lock()
		defer r.mu.Unlock()
		if !slices.ContainsFunc(r.hellos, func(h core.NodeReport) bool { return h.Upstreams[0].Down }) {
			t.Error("never down")
		}
	})
}

func vaultNames(t *testing.T, v core.Vault) (names []string) {
	t.Helper()
	if err := v.All(spoolKind, func(name string, _ []byte) bool { names = append(names, name); return true }); err != nil {
		t.Fatal(err)
	}
	return names
}

// TestOustedNode: a node that a newer connection throws out says why, and does not come
// back at once.
func TestOustedNode(t *testing.T) {
	log := &logText{}
	r := newNodeRig(t, rigOf{parts: func(p *NodeParts) { p.Log = slog.New(slog.NewTextHandler(log, nil)) }})
	until(t, "the first hello", func() bool { n, _, _ := r.counts(); return n > 0 })
	before, _, _ := r.counts()
	from := time.Now()
	if err := r.bus.Publish(subject(subjectOusted, "den"), nil); err != nil {
		t.Fatal(err)
	}
	until(t, "it comes again", func() bool { n, _, _ := r.counts(); return n > before })
	if took := time.Since(from); took < oustedWait {
		t.Error("it came back after", took)
	}
	if !strings.Contains(log.String(), "another connection has come with this node's key") {
		t.Error(log)
	}
}
