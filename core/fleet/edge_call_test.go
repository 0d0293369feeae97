package fleet

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"headway/adapters"
	"headway/core"
	"headway/core/estimate"
	"headway/core/gateway"
	"headway/core/ledger"
	"headway/core/market"
	"headway/core/measure"
)

const callKey = "hw_test_0000000000000000000"

// callRig is a gateway before an edge whose nodes are scripted.
type callRig struct {
	*edgeRig
	gw        *gateway.Gateway
	metrics   *gateway.Metrics
	catalogue *market.Catalogue
	front     *httptest.Server
}

// gateway serves what the nodes offer now, in the order of their ids.
func (r *edgeRig) gateway() *callRig {
	r.t.Helper()
	must := func(err error) {
		r.t.Helper()
		if err != nil {
			r.t.Fatal(err)
		}
	}
	c := &callRig{edgeRig: r, metrics: gateway.NewMetrics()}
	board, err := measure.NewBoard(time.Now, r.book)
	must(err)
	accounts, err := ledger.LoadAccounts(r.book)
	must(err)
	estimator, err := estimate.New(time.Now, r.book)
	must(err)
	r.book.Recorder = core.Recorders{board, accounts, estimator}
	pepper := &ledger.Pepper{}
	keys := ledger.NewKeys(pepper)
	keys.Set([]*core.Key{{ID: "test", Name: "test", Hash: pepper.Hash(callKey)}})
	c.gw = gateway.New(gateway.Parts{Clock: time.Now, Log: slog.New(slog.NewTextHandler(r.log, nil)), Adapters: adapters.All(), Providers: adapters.Providers(time.Now),
		Keys: keys, Book: r.book, Board: board, Estimator: estimator, Accounts: accounts, Dialer: r.edge, Metrics: c.metrics})
	providers, offers := r.edge.Offered()
	c.catalogue, err = market.NewCatalogue(providers, offers, nil)
	must(err)
	for _, e := range c.catalogue.Entries() {
		e.State.SetLine(r.edge.Line(e.Offer.Provider.ID))
	}
	settings := core.DefaultSettings()
	settings.Routing.Strategy = "cheapest"
	c.gw.Swap(&gateway.Setup{Settings: settings, Catalogue: c.catalogue})
	c.front = httptest.NewServer(c.gw)
	r.t.Cleanup(c.front.Close)
	return c
}

// called is what a client saw of a call.
type called struct {
	status int
	header http.Header
	body   string
	err    error
}

func (c *callRig) open(ctx context.Context, stream bool) (*http.Response, error) {
	body := fmt.Sprintf(`{"model":"m","stream":%v,"messages":[{"role":"user","content":"hi there"}]}`, stream)
	req, err := http.NewRequestWithContext(ctx, "POST", c.front.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+callKey)
	return c.front.Client().Do(req)
}

func (c *callRig) call(stream bool) (a called) {
	resp, err := c.open(c.t.Context(), stream)
	if err != nil {
		return called{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return called{resp.StatusCode, resp.Header, string(body), err}
}

// of is the receipt of a call.
func (c *callRig) of(h http.Header) (rec *core.Receipt) {
	c.t.Helper()
	id := core.CallID(h.Get("X-Request-Id"))
	c.eventually("the receipt", func() bool {
		var err error
		rec, err = c.book.Receipt(id)
		return err == nil
	})
	return rec
}

func tries(r *core.Receipt) (list []string) {
	for _, a := range r.Attempts {
		list = append(list, string(a.Offer)+" "+string(a.Node)+" "+a.Error)
	}
	return list
}

func (c *callRig) counted(id core.OfferID) int {
	return c.catalogue.Offer(id).Status(time.Now(), core.DefaultSettings().Breaker, core.Opt[float64]{}).CountedFailures
}

const (
	sseRole   = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"
	sseText   = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"tea "},"finish_reason":null}]}` + "\n\n"
	sseFinish = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	sseUsage  = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":8,"completion_tokens":5,"total_tokens":13}}` + "\n\n"
	sseDone   = "data: [DONE]\n\n"
	wholeText = `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"tea"},"finish_reason":"stop"}],"usage":{"prompt_tokens":8,"completion_tokens":1,"total_tokens":9}}`
)

// well answers as a model server does.
func well(wait float64) func(*scriptedJob) {
	return func(j *scriptedJob) {
		j.accept()
		timing := core.NodeTiming{Queued: core.Some(wait + 1), SlotWait: core.Some(wait), FirstToken: core.Some(2.0), PromptTPS: core.Some(800.0), DecodeTPS: core.Some(40.0), FiguresFrom: "server", Service: core.Some(90.0)}
		if !strings.Contains(string(j.body), `"stream":true`) {
			j.headers(200, wait, "Content-Type", "application/json")
			j.data([]byte(wholeText))
			j.end("", timing)
			return
		}
		j.headers(200, wait, "Content-Type", "text/event-stream")
		for _, s := range []string{sseRole, sseText, sseText, sseText, sseText, sseText, sseFinish, sseUsage, sseDone} {
			if !j.data([]byte(s)) {
				return
			}
		}
		j.end("", timing)
	}
}

// TestCallOnNode: a call that a node answers, and its receipt.
func TestCallOnNode(t *testing.T) {
	r := newEdgeRig(t)
	var starts []start
	n := r.join("one", report(2, 4, "m"), func(j *scriptedJob) {
		j.n.set(func() { starts = append(starts, j.start) })
		well(7)(j)
	})
	c := r.gateway()
	for i, stream := range []bool{true, false} {
		a := c.call(stream)
		if a.err != nil || a.status != 200 || a.header.Get("X-Headway-Offer") != "one/m" || a.header.Get(core.NodeTimingTrailer) != "" || strings.Contains(a.body, "slot_wait") {
			t.Fatalf("%+v", a)
		}
		rec := c.of(a.header)
		want := core.NodeTiming{Queued: core.Some(8.0), SlotWait: core.Some(7.0), FirstToken: core.Some(2.0), PromptTPS: core.Some(800.0), DecodeTPS: core.Some(40.0), FiguresFrom: "server", Service: core.Some(90.0)}
		if rec.Outcome != core.Settled || rec.Node != "one" || rec.NodeTiming == nil || *rec.NodeTiming != want || !slices.Equal(tries(rec), []string{"one/m one "}) {
			t.Errorf("%+v %+v", rec, rec.NodeTiming)
		}
		if rec.Timing.Reused.OK || !rec.Timing.UpstreamHeaders.OK || stream && !rec.Timing.FirstToken.OK {
			t.Errorf("%+v", rec.Timing)
		}
		n.set(func() {
			s := starts[i]
			if s.Call != rec.ID || s.Attempt != 1 || s.Model != "m" || s.Operation != core.OpGenerate || s.Streamed != stream || s.AdmissionMS <= 0 || s.AdmissionMS > 1000 || s.Path != "/v1/chat/completions" {
				t.Errorf("%+v", s)
			}
		})
	}
	c.metrics.WatchNodes(r.edge.Nodes)
	w := httptest.NewRecorder()
	c.metrics.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range []string{`headway_node_up{node="one"} 1`, `headway_node_slots{node="one"} 2`, `headway_node_slots_in_use{node="one"} 0`, `headway_node_queue{node="one"} 0`, `headway_node_in_flight{node="one"} 0`,
		`headway_calls_total{model="m",node="one",outcome="settled",provider="one"} 2`} {
		if !strings.Contains(w.Body.String(), line+"\n") {
			t.Errorf("/metrics has no %s", line)
		}
	}
}

// TestNodeLostOnce: a node that is lost with three calls under way has failed once, and
// is called again when it is back.
func TestNodeLostOnce(t *testing.T) {
	r := newEdgeRig(t)
	n := r.join("one", report(4, 4, "m"), func(j *scriptedJob) {
		j.accept()
		j.headers(200, 0, "Content-Type", "text/event-stream")
		j.data([]byte(sseRole + sseText))
	})
	c := r.gateway()
	var bodies []*http.Response
	for range 3 {
		resp, err := c.open(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		bodies = append(bodies, resp)
	}
	n.leave()
	for _, resp := range bodies {
		_, _ = io.ReadAll(resp.Body)
		c.of(resp.Header)
	}
	r.join("one", report(4, 4, "m"), well(0))
	if st := c.catalogue.Offer("one/m").Status(time.Now(), core.DefaultSettings().Breaker, core.Opt[float64]{}); st.State != "active" || st.CountedFailures != 1 {
		t.Errorf("%+v", st)
	}
	if a := c.call(true); a.err != nil || a.status != 200 {
		t.Errorf("%+v", a)
	}
}

// TestStoppingNode: a node that says that it stops gets no more calls, and nothing is
// counted.
func TestStoppingNode(t *testing.T) {
	r := newEdgeRig(t)
	n := r.join("one", report(4, 4, "m"), well(0))
	text, _ := json.Marshal(beat{Jobs: []streamID{}, Stopping: true})
	if err := n.link.Publish(subject(subjectBeat, "one"), text); err != nil {
		t.Fatal(err)
	}
	r.eventually("the line is not up", func() bool { return !r.edge.Line("one").Stand().Up })
	_, err := r.post(t.Context(), "one", "{}")
	var e *core.NodeError
	if !errors.As(err, &e) || e.Word != core.NodeStopping || !e.Unsent {
		t.Error(err)
	}
}

// TestNodeLostBefore: a node that is lost before the first output is replaced by
// another, and counts one failure.
func TestNodeLostBefore(t *testing.T) {
	for _, when := range []string{"accepted", "headers", "role"} {
		t.Run(when, func(t *testing.T) {
			r := newEdgeRig(t)
			r.join("one", report(2, 4, "m"), func(j *scriptedJob) {
				j.accept()
				if when != "accepted" {
					j.headers(200, 0, "Content-Type", "text/event-stream")
				}
				if when == "role" {
					j.data([]byte(sseRole))
				}
				go j.n.leave()
			})
			r.join("two", report(2, 4, "m"), well(0))
			c := r.gateway()
			a := c.call(true)
			if a.err != nil || a.status != 200 || a.header.Get("X-Headway-Offer") != "two/m" || a.header.Get("X-Headway-Attempts") != "2" || strings.Count(a.body, "tea") != 5 || strings.Contains(a.body, "error") {
				t.Errorf("%+v", a)
			}
			rec := c.of(a.header)
			if !slices.Equal(tries(rec), []string{"one/m one node_lost", "two/m two "}) || rec.Outcome != core.Settled || rec.Node != "two" {
				t.Errorf("%v %s", tries(rec), rec.Outcome)
			}
			if n := c.counted("one/m"); n != 1 {
				t.Errorf("%d failures are counted", n)
			}
		})
	}
}

// TestNodeLostAfter: a node that is lost after output ends the answer as a stream's
// error, and nothing else answers.
func TestNodeLostAfter(t *testing.T) {
	r := newEdgeRig(t)
	r.join("one", report(2, 4, "m"), func(j *scriptedJob) {
		j.accept()
		j.headers(200, 3, "Content-Type", "text/event-stream")
		j.data([]byte(sseRole + sseText))
	})
	r.join("two", report(2, 4, "m"), well(0))
	c := r.gateway()
	resp, err := c.open(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, "tea") {
			break
		}
	}
	r.edge.Left("one", r.edge.find("one").session.Load().id)
	rest, err := io.ReadAll(lines)
	if err != nil || !strings.Contains(string(rest), `"error"`) || strings.Contains(string(rest), "tea") || strings.Contains(string(rest), "[DONE]") {
		t.Errorf("%q, %v", rest, err)
	}
	rec := c.of(resp.Header)
	if rec.Outcome != core.Truncated || !slices.Equal(tries(rec), []string{"one/m one node_lost"}) || rec.Node != "one" || rec.NodeTiming == nil || rec.NodeTiming.SlotWait.V != 3 || rec.NodeTiming.Service.OK {
		t.Errorf("%s %v %+v", rec.Outcome, tries(rec), rec.NodeTiming)
	}
	if n := c.counted("one/m"); n != 1 {
		t.Errorf("%d failures are counted", n)
	}
}

// TestNodesBusy: a full node is passed over without a failure; where all are full the
// caller is told when to come again.
func TestNodesBusy(t *testing.T) {
	r := newEdgeRig(t)
	busy := func(after time.Duration) func(*scriptedJob) {
		return func(j *scriptedJob) { j.refuse(reasonBusy, after) }
	}
	is := map[core.NodeID]*scripted{}
	become := func(name core.NodeID, serve func(*scriptedJob)) {
		if n := is[name]; n != nil {
			n.leave()
		}
		is[name] = r.join(name, report(2, 4, "m"), serve)
	}
	become("one", busy(9*time.Second))
	become("two", well(0))
	c := r.gateway()
	a := c.call(true)
	rec := c.of(a.header)
	if a.status != 200 || !slices.Equal(tries(rec), []string{"one/m one node_busy", "two/m two "}) {
		t.Errorf("%d %v", a.status, tries(rec))
	}
	become("two", busy(4*time.Second))
	a = c.call(true)
	rec = c.of(a.header)
	if a.status != 429 || a.header.Get("Retry-After") != "4" || !slices.Equal(tries(rec), []string{"one/m one node_busy", "two/m two node_busy"}) || rec.Charge.V != 0 {
		t.Errorf("%d %v %s %v", a.status, a.header, a.body, tries(rec))
	}
	become("two", func(j *scriptedJob) { j.refuse(reasonStopping, 0) })
	a = c.call(false)
	if rec = c.of(a.header); a.status != 502 || !slices.Equal(tries(rec), []string{"one/m one node_busy", "two/m two node_stopping"}) {
		t.Errorf("%d %v", a.status, tries(rec))
	}
	for _, id := range []core.OfferID{"one/m", "two/m"} {
		st := c.catalogue.Offer(id).Status(time.Now(), core.DefaultSettings().Breaker, core.Opt[float64]{})
		if st.CountedFailures != 0 || st.State != "active" {
			t.Errorf("%+v", st)
		}
	}
	// One that has nothing to say of when.
	become("one", busy(0))
	become("two", busy(0))
	if a = c.call(true); a.status != 429 || a.header.Get("Retry-After") != "1" {
		t.Errorf("%d %v", a.status, a.header)
	}
}

// TestNodesLost: with every node lost no call is dispatched, and the answer says why.
func TestNodesLost(t *testing.T) {
	r := newEdgeRig(t)
	n := r.join("one", report(2, 4, "m"), well(0))
	c := r.gateway()
	n.leave()
	a := c.call(true)
	if a.status != 503 || a.header.Get("Retry-After") == "" || !strings.Contains(a.body, "1 node_lost") {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	r.join("one", report(2, 4, "m"), well(0))
	if a := c.call(true); a.status != 200 {
		t.Errorf("back: %d %s", a.status, a.body)
	}
}

// TestNodeUpstreamFails: what a node says of its model server has a provider's words.
func TestNodeUpstreamFails(t *testing.T) {
	r := newEdgeRig(t)
	how := make(chan string, 1)
	r.join("one", report(2, 4, "m"), func(j *scriptedJob) { j.accept(); j.end(<-how, core.NodeTiming{SlotWait: core.Some(0.0)}) })
	r.join("two", report(2, 4, "m"), well(0))
	c := r.gateway()
	for _, word := range []string{"refused", "connect"} {
		how <- word
		a := c.call(false)
		if rec := c.of(a.header); a.status != 200 || !slices.Equal(tries(rec), []string{"one/m one " + word, "two/m two "}) {
			t.Errorf("%d %v", a.status, tries(rec))
		}
	}
	if st := c.catalogue.Offer("one/m").Status(time.Now(), core.DefaultSettings().Breaker, core.Opt[float64]{}); st.State != "out" {
		t.Errorf("%+v", st)
	}
}

// TestFailedCallHasTheNodesFigures: what a node measured of a call that its server did
// not answer is in the receipt; nobody else has told how long it waited for a slot.
func TestFailedCallHasTheNodesFigures(t *testing.T) {
	r := newEdgeRig(t)
	r.join("one", report(2, 4, "m"), func(j *scriptedJob) { j.accept(); j.end(endCut, core.NodeTiming{SlotWait: core.Some(4800.0)}) })
	c := r.gateway()
	a := c.call(false)
	if rec := c.of(a.header); a.status != 502 || rec.NodeTiming == nil || rec.NodeTiming.SlotWait != core.Some(4800.0) {
		t.Errorf("%d %+v", a.status, rec.NodeTiming)
	}
}

// TestClientLeavesNode: a client that leaves cancels the job at its node, and the node
// is not blamed.
func TestClientLeavesNode(t *testing.T) {
	r := newEdgeRig(t)
	jobs := make(chan *scriptedJob, 1)
	r.join("one", report(2, 4, "m"), func(j *scriptedJob) {
		j.accept()
		j.headers(200, 3, "Content-Type", "text/event-stream")
		j.data([]byte(sseRole + sseText))
		jobs <- j
	})
	c := r.gateway()
	ctx, cancel := context.WithCancel(t.Context())
	resp, err := c.open(ctx, true)
	if err != nil {
		t.Fatal(err)
	}
	j := <-jobs
	cancel()
	_ = resp.Body.Close()
	select {
	case <-j.gone:
	case <-time.After(5 * time.Second):
		t.Fatal("the node was not told")
	}
	rec := c.of(resp.Header)
	if rec.Outcome != core.ClientGone || c.counted("one/m") != 0 || rec.NodeTiming == nil || rec.NodeTiming.SlotWait.V != 3 {
		t.Errorf("%s %v %+v", rec.Outcome, tries(rec), rec.NodeTiming)
	}
}
