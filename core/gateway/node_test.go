package gateway_test

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"headway/adapters"
	"headway/core"
	"headway/core/gateway"
	"headway/core/ledger"
	"headway/core/market"
	"headway/core/measure"
)

// nodeRig is a gateway whose offers are those of nodes; what their round trips give is
// the test's.
type nodeRig struct {
	gw        *gateway.Gateway
	board     *measure.Board
	book      *core.Memory
	catalogue *market.Catalogue
}

type dials func(*core.Provider) (http.RoundTripper, error)

func (d dials) RoundTripper(p *core.Provider) (http.RoundTripper, error) { return d(p) }

func newNodeRig(t *testing.T, trip func(core.NodeID, *http.Request) (*http.Response, error), nodes ...core.NodeID) *nodeRig {
	t.Helper()
	r := &nodeRig{book: core.NewMemory()}
	var providers []*core.Provider
	var offers []*core.Offer
	for _, n := range nodes {
		p := &core.Provider{ID: core.ProviderID(n), Format: core.FormatOpenAI, BaseURL: "http://" + string(n) + "/v1", Node: n}
		providers = append(providers, p)
		offers = append(offers, &core.Offer{ID: core.OfferID(n) + "/mini", Provider: p, Model: "mini", UpstreamModel: "mini"})
	}
	var err error
	if r.catalogue, err = market.NewCatalogue(providers, offers, nil); err != nil {
		t.Fatal(err)
	}
	board, err := measure.NewBoard(time.Now, r.book)
	if err != nil {
		t.Fatal(err)
	}
	r.board = board
	pepper := &ledger.Pepper{}
	keys := ledger.NewKeys(pepper)
	keys.Set([]*core.Key{{ID: "test", Hash: pepper.Hash(clientKey)}})
	r.gw = gateway.New(gateway.Parts{Clock: time.Now, Log: slog.New(slog.DiscardHandler), Adapters: adapters.All(), Keys: keys, Book: r.book, Board: board,
		Estimator: newEstimator(t, r.book), Accounts: newAccounts(t, r.book), Metrics: gateway.NewMetrics(),
		Dialer: dials(func(p *core.Provider) (http.RoundTripper, error) {
			return roundTrip(func(req *http.Request) (*http.Response, error) { return trip(p.Node, req) }), nil
		})})
	settings := core.DefaultSettings()
	settings.Routing.Strategy = "cheapest"
	r.gw.Swap(&gateway.Setup{Settings: settings, Catalogue: r.catalogue})
	return r
}

// post makes an unstreamed call and gives its answer and its receipt.
func (r *nodeRig) post(t *testing.T) (*httptest.ResponseRecorder, *core.Receipt) {
	t.Helper()
	req := httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(ask))
	req.Header.Set("Authorization", "Bearer "+clientKey)
	w := httptest.NewRecorder()
	r.gw.ServeHTTP(w, req)
	rec, err := r.book.Receipt(core.CallID(w.Header().Get("X-Request-Id")))
	if err != nil {
		t.Fatal(err)
	}
	return w, rec
}

// TestNodeLine: a call that waits in a node's line meets no limit of a slow server, as
// the node has not begun; its limits count from when it has a slot.
func TestNodeLine(t *testing.T) {
	answer := func(req *http.Request) *http.Response {
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(whole("fine", 8, 1))), Request: req}
	}
	wait := func(req *http.Request, d time.Duration) error {
		select {
		case <-time.After(d):
			return nil
		case <-req.Context().Done():
			return req.Context().Err()
		}
	}
	for name, c := range map[string]struct {
		line, serves time.Duration
		status       int
		failures     int
	}{
		"a long line":                    {20 * time.Minute, time.Minute, 200, 0},
		"no line":                        {0, time.Minute, 200, 0},
		"a slow server behind a line":    {20 * time.Minute, 3 * time.Minute, 504, 1},
		"a slow server without any line": {0, 3 * time.Minute, 504, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newNodeRig(t, func(_ core.NodeID, req *http.Request) (*http.Response, error) {
					d := core.DispatchOf(req.Context())
					d.Placed(c.line > 0)
					if c.line > 0 {
						if err := wait(req, c.line); err != nil {
							return nil, err
						}
						d.Placed(false)
					}
					if err := wait(req, c.serves); err != nil {
						return nil, err
					}
					return answer(req), nil
				}, "one")
				w, rec := r.post(t)
				st := r.catalogue.Offer("one/mini").Status(time.Now(), core.DefaultSettings().Breaker, core.Opt[float64]{})
				if w.Code != c.status || st.CountedFailures != c.failures {
					t.Errorf("%d with %d counted failures: %s, %+v", w.Code, st.CountedFailures, w.Body, rec.Attempts)
				}
			})
		})
	}
}

// TestNodeLineGivesWay: where another offer is left a call leaves a line that is much
// longer than was predicted, and the node is not blamed.
func TestNodeLineGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newNodeRig(t, func(node core.NodeID, req *http.Request) (*http.Response, error) {
			if node == "one" {
				core.DispatchOf(req.Context()).Placed(true)
				<-req.Context().Done()
				return nil, req.Context().Err()
			}
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(role + text("fine") + finish + done)), Request: req}, nil
		}, "one", "two")
		for _, fresh := range []int64{10, 20_000} {
			for _, p := range []core.ProviderID{"one", "two"} {
				rec := &core.Receipt{Kind: core.KindJob, Outcome: core.Settled, Provider: p, Model: "mini", At: time.Now(), SettledAt: time.Now()}
				rec.Operation, rec.Streamed, rec.UsageFrom = core.OpGenerate, true, core.FromProvider
				rec.Usage.UncachedInput, rec.Usage.Output = core.Some(fresh), core.Some[int64](100)
				rec.Timing.DispatchToFirstToken, rec.Timing.FirstTokenToEnd, rec.Timing.Arrivals = core.Some(200.), core.Some(1000.), core.Some[int64](50)
				rec.NodeTiming = &core.NodeTiming{SlotWait: core.Some(0.)}
				r.board.Record(rec)
			}
		}
		r.board.Rows(nil)
		req := httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(strings.Replace(ask, "{", `{"stream":true,`, 1)))
		req.Header.Set("Authorization", "Bearer "+clientKey)
		w := httptest.NewRecorder()
		began := time.Now()
		r.gw.ServeHTTP(w, req)
		if took := time.Since(began); w.Code != 200 || !strings.Contains(w.Body.String(), "fine") || took < 10*time.Second || took > 11*time.Second {
			t.Fatalf("%d after %v: %s", w.Code, took, w.Body)
		}
		rec, err := r.book.Receipt(core.CallID(w.Header().Get("X-Request-Id")))
		if err != nil || len(rec.Attempts) != 2 || rec.Attempts[0].Error != "queue_timeout" || rec.Node != "two" {
			t.Errorf("%+v, %v", rec, err)
		}
		st := r.catalogue.Offer("one/mini").Status(time.Now(), core.DefaultSettings().Breaker, core.Opt[float64]{})
		if st.CountedFailures != 0 || st.State != "active" {
			t.Errorf("%+v", st)
		}
	})
}

// TestNodeErrors: what each failure of a node's round trip means.
func TestNodeErrors(t *testing.T) {
	for word, counts := range map[string]int{core.NodeGone: 1, core.NodeBusy: 0, core.NodeStopping: 0, core.NodeRefused: 1, core.NodeGap: 1, core.NodeFault: 1, core.NodeTooSlow: 0, "refused": 1, "dns": 1, "tls": 1, "connect": 1} {
		r := newNodeRig(t, func(core.NodeID, *http.Request) (*http.Response, error) {
			return nil, &core.NodeError{Word: word}
		}, "one", "two")
		w, rec := r.post(t)
		status := 502
		if word == core.NodeBusy {
			status = 429
		}
		if w.Code != status || (w.Header().Get("Retry-After") == "1") != (word == core.NodeBusy) || rec.Outcome != core.Failed {
			t.Errorf("%s: %d %v", word, w.Code, w.Header())
		}
		for _, a := range rec.Attempts {
			if a.Error != word || a.Node == "" || core.OfferID(a.Node)+"/mini" != a.Offer {
				t.Errorf("%s: %+v", word, a)
			}
		}
		if len(rec.Attempts) != 2 || rec.Node != "two" || rec.NodeTiming != nil {
			t.Errorf("%s: %+v", word, rec)
		}
		if strings.Contains(w.Body.String(), "could not be made") {
			t.Errorf("%s has no words: %s", word, w.Body)
		}
		st := r.catalogue.Offer("one/mini").Status(time.Now(), core.DefaultSettings().Breaker, core.Opt[float64]{})
		if st.CountedFailures != counts || st.State != "active" {
			t.Errorf("%s: %+v", word, st)
		}
	}
}

// TestNodeTimingTrailer: a node's own figures are read where they can be, and whatever
// else comes in their place is left out.
func TestNodeTimingTrailer(t *testing.T) {
	some := core.Some[float64]
	for text, want := range map[string]*core.NodeTiming{
		`{"slot_wait_ms":3,"service_ms":20,"figures_from":"server"}`: {SlotWait: some(3), Service: some(20), FiguresFrom: "server"},
		`{"slot_wait_ms":0}`: {SlotWait: some(0)},
		`{"slot_wait_ms":-3,"service_ms":1e300,"first_token_ms":5,"figures_from":"` + strings.Repeat("x", 100) + `"}`: {FirstToken: some(5)},
		``: nil, `{}`: nil, `null`: nil, `[]`: nil, `{"slot_wait_ms":"3"}`: nil, `{`: nil, `{"slot_wait_ms":-1}`: nil,
		`{"slot_wait_ms":3` + strings.Repeat(" ", 5000) + `}`: nil,
	} {
		r := newNodeRig(t, func(_ core.NodeID, req *http.Request) (*http.Response, error) {
			d := core.DispatchOf(req.Context())
			if d == nil || d.Attempt != 1 || d.Model != "mini" || d.Operation != core.OpGenerate || d.Streamed || d.Admission <= 0 {
				t.Errorf("dispatch %+v", d)
			}
			resp := &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: -1, Trailer: http.Header{}}
			// As a node's: the trailer is there once the body is closed.
			resp.Body = onClose{strings.NewReader(whole("tea", 8, 1)), func() { resp.Trailer[core.NodeTimingTrailer] = []string{text} }}
			return resp, nil
		}, "one")
		w, rec := r.post(t)
		if w.Code != 200 || rec.Node != "one" || w.Header().Get(core.NodeTimingTrailer) != "" {
			t.Errorf("%d %+v", w.Code, rec)
		}
		if (want == nil) != (rec.NodeTiming == nil) || want != nil && *rec.NodeTiming != *want {
			t.Errorf("%.80s: %+v, want %+v", text, rec.NodeTiming, want)
		}
	}
}

type onClose struct {
	io.Reader
	do func()
}

func (c onClose) Close() error { c.do(); return nil }

// TestOnlyNodesHaveTimings: a provider over HTTP cannot pass itself off as a node.
func TestOnlyNodesHaveTimings(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", core.NodeTimingTrailer)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, whole("tea", 8, 1))
		w.Header().Set(core.NodeTimingTrailer, `{"slot_wait_ms":3}`)
	}))
	defer up.Close()
	s := newSocket(t, up.URL+"/v1", true, 0)
	if status, answer := s.post(t.Context(), ask); status != 200 {
		t.Fatalf("%d %s", status, answer)
	}
	_ = s.book.Receipts(time.Time{}, time.Time{}, false, func(r *core.Receipt) bool {
		if r.NodeTiming != nil || r.Node != "" || r.Attempts[0].Node != "" {
			t.Errorf("%+v", r)
		}
		return true
	})
}

// TestNodeGone: two lost nodes and one that answers.
func TestNodeGone(t *testing.T) {
	var asked []core.NodeID
	r := newNodeRig(t, func(n core.NodeID, req *http.Request) (*http.Response, error) {
		asked = append(asked, n)
		if n != "three" {
			return nil, errors.Join(errors.New("wrapped"), &core.NodeError{Word: core.NodeGone})
		}
		if d := core.DispatchOf(req.Context()); d.Attempt != 3 {
			t.Errorf("attempt %d", d.Attempt)
		}
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(whole("tea", 8, 1)))}, nil
	}, "one", "other", "three")
	w, rec := r.post(t)
	if w.Code != 200 || !slices.Equal(asked, []core.NodeID{"one", "other", "three"}) || rec.Node != "three" {
		t.Errorf("%d %v %s", w.Code, asked, rec.Node)
	}
}
