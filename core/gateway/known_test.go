package gateway_test

import (
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
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
	"headway/embedded/sim"
)

// simulated is a gateway over simulated providers on a simulated clock.
type simulated struct {
	t     *testing.T
	clock *sim.Clock
	book  *core.Memory
	board *measure.Board
	gw    *gateway.Gateway
	sims  map[core.ProviderID]*sim.Provider
}

func (s *simulated) RoundTripper(p *core.Provider) (http.RoundTripper, error) {
	return s.sims[p.ID].Transport(s.clock), nil
}

// newSimulated makes one; the prices of each provider are USD per million input
// and output tokens.
func newSimulated(t *testing.T, configs map[core.ProviderID]sim.Config, prices map[core.ProviderID][2]string) *simulated {
	t.Helper()
	s := &simulated{t: t, clock: sim.NewClock(time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)), book: core.NewMemory(), sims: map[core.ProviderID]*sim.Provider{}}
	var err error
	if s.board, err = measure.NewBoard(s.clock.Now, s.book); err != nil {
		t.Fatal(err)
	}
	estimator, err := estimate.New(s.clock.Now, s.book)
	if err != nil {
		t.Fatal(err)
	}
	s.book.Recorder = core.Recorders{s.board, estimator}
	var providers []*core.Provider
	var offers []*core.Offer
	for id, c := range configs {
		if s.sims[id], err = sim.New(c); err != nil {
			t.Fatal(err)
		}
		p := &core.Provider{ID: id, Format: core.FormatOpenAI, BaseURL: "http://" + string(id) + "/v1", FromFile: true}
		in, err1 := core.ParseRate(prices[id][0])
		out, err2 := core.ParseRate(prices[id][1])
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		providers = append(providers, p)
		offers = append(offers, &core.Offer{ID: core.OfferID(id) + "/m", Provider: p, Model: "m", UpstreamModel: "m", Price: core.Price{Rates: core.Rates{Input: in, Output: out}}})
	}
	catalogue, err := market.NewCatalogue(providers, offers, nil)
	if err != nil {
		t.Fatal(err)
	}
	pepper := &ledger.Pepper{}
	keys := ledger.NewKeys(pepper)
	keys.Set([]*core.Key{{ID: "test", Hash: pepper.Hash(clientKey)}})
	s.gw = gateway.New(gateway.Parts{Clock: s.clock.Now, Log: slog.New(slog.DiscardHandler), Adapters: adapters.All(), Keys: keys, Book: s.book,
		Board: s.board, Estimator: estimator, Accounts: newAccounts(t, s.book), Dialer: s, Metrics: gateway.NewMetrics()})
	s.gw.Swap(&gateway.Setup{Settings: core.DefaultSettings(), Catalogue: catalogue})
	return s
}

func body(tokens int) string {
	return fmt.Sprintf(`{"model":"m","stream":true,"max_tokens":100,"messages":[{"role":"user","content":"%s"}]}`, strings.Repeat("four", tokens))
}

// call makes a call and gives its receipt.
func (s *simulated) call(body string) *core.Receipt {
	s.t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+clientKey)
	s.gw.ServeHTTP(w, r)
	if w.Code != 200 {
		s.t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	rec, err := s.book.Receipt(core.CallID(w.Header().Get("X-Request-Id")))
	if err != nil {
		s.t.Fatal(err)
	}
	s.clock.Advance(time.Second)
	return rec
}

// at makes a call of Headway's own at one offer.
func (s *simulated) at(offer core.OfferID, body string) *core.Receipt {
	s.t.Helper()
	r := httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(body))
	id, err := s.gw.Own(r, gateway.Forced{Offer: offer, Kind: core.KindJob})
	if err != nil {
		s.t.Fatal(err)
	}
	rec, err := s.book.Receipt(id)
	if err != nil {
		s.t.Fatal(err)
	}
	s.clock.Advance(time.Second)
	return rec
}

func within(got, want, share float64) bool { return math.Abs(got-want) <= share*math.Abs(want) }

func exactly(base time.Duration, prefill, output float64) sim.Config {
	c := sim.Default()
	c.Base, c.PrefillTPS, c.OutputTPS, c.OutputTokens = base, prefill, output, 300 // cut to the 100 asked for
	return c
}

// TestKnownUpstream measures a provider whose figures are known: the medians are
// what SPEC §5's formulas give for it, predictions are SPEC §6 of those medians,
// and what follows is held against them.
func TestKnownUpstream(t *testing.T) {
	const base, prefill, output = 350.0, 8000.0, 60.0
	s := newSimulated(t, map[core.ProviderID]sim.Config{"known": exactly(350*time.Millisecond, prefill, output)}, map[core.ProviderID][2]string{"known": {"1", "2"}})
	sizes := []int{200, 4000, 40000, 120000}
	for range 30 {
		for _, n := range sizes {
			s.at("known/m", body(n))
		}
	}
	s.clock.AdvanceTo(time.Date(2026, 3, 3, 1, 0, 0, 0, time.UTC)) // the day joins the window
	rows := map[string]measure.Row{}
	for _, r := range s.board.Rows(nil) {
		rows[r.Measure] = r
	}
	// Base latency is of the 30 jobs with fewer than 1,000 fresh tokens, and has
	// their prefill in it. Prefill is of the 60 with 16,000 or more, and has the
	// base in it; the lower median is one of those with 40,000.
	wantBase := base + 200/prefill*1000
	wantPrefill := 40000 / (base/1000 + 40000/prefill)
	for _, w := range []struct {
		name string
		jobs int64
		want float64
	}{{"base_latency_ms", 30, wantBase}, {"prefill_tps", 60, wantPrefill}, {"output_tps", 120, output}} {
		r := rows[w.name]
		if !within(r.Value.V, w.want, .01) || r.Jobs != w.jobs || r.Basis != core.BasisOwn {
			t.Errorf("%s is %v of %d jobs (%s), want %v of %d", w.name, r.Value.V, r.Jobs, r.Basis, w.want, w.jobs)
		}
	}
	for _, n := range sizes {
		rec := s.call(body(n))
		terms := rec.Decision.Offers[0]
		fresh, out := float64(terms.Fresh.V), float64(terms.Output.V)
		want := rows["base_latency_ms"].Value.V + fresh/rows["prefill_tps"].Value.V*1000 + out/rows["output_tps"].Value.V*1000
		if !rec.PredictedWait.OK || !within(rec.PredictedWait.V, want, .01) || !within(fresh, float64(n), .05) {
			t.Errorf("%d tokens: predicted %v for %v fresh, want %v", n, rec.PredictedWait.V, fresh, want)
		}
		// What happened: 100 output tokens.
		actual := base + float64(n)/prefill*1000 + 100/output*1000
		if !within(rec.ActualWait.V, actual, .001) {
			t.Errorf("%d tokens: it took %v, want %v", n, rec.ActualWait.V, actual)
		}
	}
	e := s.board.Errors()["known/m"].Wait.V
	if e.Jobs != int64(len(sizes)) || e.Median <= 0 || e.Median > .2 {
		t.Errorf("prediction error %+v", e)
	}
}

// TestCrossover finds the prompt size at which two offers change places, and
// sees the order flip there.
func TestCrossover(t *testing.T) {
	s := newSimulated(t, map[core.ProviderID]sim.Config{
		"cheap": exactly(300*time.Millisecond, 1500, 80),   // reads slowly
		"quick": exactly(1500*time.Millisecond, 20000, 80), // starts slowly
	}, map[core.ProviderID][2]string{"cheap": {"1", "2"}, "quick": {"1.05", "2"}})
	for range 30 {
		for _, id := range []core.OfferID{"cheap/m", "quick/m"} {
			for _, n := range []int{200, 40000} {
				s.at(id, body(n))
			}
		}
	}
	s.clock.AdvanceTo(time.Date(2026, 3, 3, 1, 0, 0, 0, time.UTC))
	s.board.Rows(nil) // the day joins the window
	// Both costs are linear in the fresh tokens n; an hour is worth 1 USD:
	// n × price + (base + n ÷ prefill + output ÷ speed) ÷ 3600. They meet at:
	c, q := s.board.Measures("cheap", "m"), s.board.Measures("quick", "m")
	fixed := func(m *core.Measures) float64 { return (m.BaseLatency.Value.V/1000 + 100/m.Output.Value.V) / 3600 }
	each := func(m *core.Measures, price float64) float64 { return price/1e6 + 1/m.Prefill.Value.V/3600 }
	crossover := (fixed(q) - fixed(c)) / (each(c, 1) - each(q, 1.05))
	if !(crossover > 1000 && crossover < 10000) {
		t.Fatalf("the crossover is at %v tokens", crossover)
	}
	for _, x := range []struct {
		share float64
		want  core.OfferID
	}{{.5, "cheap/m"}, {.97, "cheap/m"}, {1.03, "quick/m"}, {2, "quick/m"}} {
		// The estimate counts the message around the text too.
		rec := s.call(body(int(crossover*x.share) - len(`{"role":"user","content":""}`)/4))
		if got := rec.Decision.Offers[0]; got.Offer != x.want || rec.Offer != x.want || rec.Decision.RankedOn != "price-and-wait" {
			t.Errorf("%v tokens at a crossover of %v: %s first, ranked on %s, want %s", got.Fresh.V, crossover, got.Offer, rec.Decision.RankedOn, x.want)
		}
	}
}
