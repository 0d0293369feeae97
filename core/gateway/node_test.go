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
