package gateway_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"headway/core"
	"headway/core/gateway"
	"headway/core/market"
	"headway/embedded/sim"
)

// cachers are five providers of the model "m" with caches of every kind.
func cachers(t *testing.T) *simulated {
	t.Helper()
	cached := func(c sim.Cache) sim.Config {
		cfg := exactly(100*time.Millisecond, 10_000, 100)
		cfg.Cache = &c
		return cfg
	}
	configs := map[core.ProviderID]sim.Config{
		"five":  cached(sim.Cache{Least: 1024, Life: 5 * time.Minute, Writes: true}),
		"hour":  cached(sim.Cache{Least: 1024, Life: time.Hour, Writes: true}),
		"auto":  cached(sim.Cache{Least: 1024, Life: 5 * time.Minute, Step: 128}),
		"llama": cached(sim.Cache{Life: time.Hour}),
		"none":  exactly(100*time.Millisecond, 10_000, 100),
	}
	prices := map[core.ProviderID][2]string{}
	for id := range configs {
		prices[id] = [2]string{"1", "1"}
	}
	s := newSimulated(t, configs, prices)
	var providers []*core.Provider
	var offers []*core.Offer
	for id := range configs {
		p := &core.Provider{ID: id, Format: core.FormatOpenAI, BaseURL: "http://" + string(id) + "/v1", FromFile: true}
		switch id {
		case "five", "hour":
			p.Format, p.BaseURL = core.FormatAnthropic, "http://"+string(id)
		case "llama":
			p.Format, p.BaseURL = core.FormatLlamaCpp, "http://"+string(id)
		}
		providers = append(providers, p)
		offers = append(offers, &core.Offer{ID: core.OfferID(id) + "/m", Provider: p, Model: "m",
			Price: core.Price{Rates: core.Rates{Input: 1_000_000, Output: 1_000_000, CacheRead: core.Some[core.Rate](100_000)}}})
	}
	s.offers(providers, offers)
	return s
}

// offers puts another catalogue into force.
func (s *simulated) offers(providers []*core.Provider, offers []*core.Offer) {
	s.t.Helper()
	catalogue, err := market.NewCatalogue(providers, offers, s.gw.Setup().Catalogue)
	if err != nil {
		s.t.Fatal(err)
	}
	s.gw.Swap(&gateway.Setup{Settings: core.DefaultSettings(), Catalogue: catalogue})
}

// turn is the request of a conversation's turn: a system prompt, then what both
// said so far, of different lengths. odd turns write content as a list, as agents
// do that move their cache marks.
func turn(format core.Format, n int) (path, body string) {
	said := func(i int) string {
		words := []string{"measure", "the", "wait", "of", "every", "offer", "and", "weigh", "it", "against", "a", "price"}
		var b strings.Builder
		for j := range 40 + 37*i%90 {
			fmt.Fprintf(&b, "%s%d ", words[(i*7+j*5)%len(words)], i)
		}
		return b.String()
	}
	content := func(text string, list bool, kind string) any {
		if list {
			return []any{map[string]any{"type": kind, "text": text}}
		}
		return text
	}
	system := strings.Repeat("You are careful, and you say what you do not know. ", 60)
	var messages []any
	for i := range 2*n - 1 {
		role := "user"
		if i%2 == 1 {
			role = "assistant"
		}
		messages = append(messages, map[string]any{"role": role, "content": content(said(i), i == 2*n-2, "text")})
	}
	req := map[string]any{"model": "m", "max_tokens": 100, "stream": true}
	switch format {
	case core.FormatAnthropic:
		req["system"], req["messages"], path = system, messages, "/v1/messages"
	default:
		req["messages"] = append([]any{map[string]any{"role": "system", "content": system}}, messages...)
		path = "/v1/chat/completions"
	}
	raw, err := json.Marshal(req)
	if err != nil {
		panic(err)
	}
	return path, string(raw)
}

// asked makes a turn at one offer and gives what was expected to be read from the
// cache and what was.
func (s *simulated) asked(offer core.OfferID, format core.Format, n int) (expected, real, input float64) {
	s.t.Helper()
	path, body := turn(format, n)
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	id, err := s.gw.Own(r, gateway.Forced{Offer: offer, Kind: core.KindJob})
	if err != nil {
		s.t.Fatal(err)
	}
	rec, err := s.book.Receipt(id)
	if err != nil || rec.Outcome != core.Settled {
		s.t.Fatal(rec.Outcome, err)
	}
	for _, o := range rec.Decision.Offers {
		if o.Offer == offer && o.Refused == "" {
			return float64(o.Cached.V), float64(rec.Usage.CacheRead.V), float64(rec.Usage.Input())
		}
	}
	s.t.Fatalf("%s is not in the decision", offer)
	return
}

func TestExpectedCacheReads(t *testing.T) {
	for _, format := range []core.Format{core.FormatOpenAI, core.FormatAnthropic} {
		for _, id := range []core.OfferID{"five/m", "hour/m", "auto/m", "llama/m", "none/m"} {
			t.Run(string(format)+"/"+string(id), func(t *testing.T) {
				s := cachers(t)
				for n := 1; n <= 18; n++ {
					expected, real, input := s.asked(id, format, n)
					t.Logf("turn %d: expected %.0f, read %.0f of %.0f", n, expected, real, input)
					from := 3
					if id == "none/m" {
						from = 4 // the third is the first that is long enough to have been cached
					}
					if n >= from && math.Abs(expected-real) > 0.1*real {
						t.Errorf("turn %d: %.0f expected, %.0f read", n, expected, real)
					}
					s.clock.Advance(20 * time.Second)
				}
				if id == "none/m" {
					return
				}
				// A pause that the cache does not outlive, and one that it does.
				s.clock.Advance(6 * time.Minute)
				expected, real, _ := s.asked(id, format, 19)
				if long := id == "hour/m"; long && (real == 0 || !within(expected, real, 0.1)) || !long && id != "llama/m" && (expected != 0 || real != 0) {
					t.Errorf("after six minutes: %.0f expected, %.0f read", expected, real)
				}
				s.clock.Advance(2 * time.Hour)
				if expected, real, _ := s.asked(id, format, 20); expected != 0 || real != 0 {
					t.Errorf("after two hours: %.0f expected, %.0f read", expected, real)
				}
			})
		}
	}
}

// TestStaysWhereTheCacheIs: a slow cheap server that has the conversation in its
// cache against a quick dear one, with an hour worth a dollar.
func TestStaysWhereTheCacheIs(t *testing.T) {
	slow, quick := exactly(100*time.Millisecond, 200, 100), exactly(100*time.Millisecond, 10_000, 100)
	slow.Cache = &sim.Cache{Life: 10 * time.Minute}
	s := newSimulated(t, map[core.ProviderID]sim.Config{"slow": slow, "quick": quick},
		map[core.ProviderID][2]string{"slow": {"0.2", "1"}, "quick": {"1", "1"}})
	for i, id := range []core.OfferID{"slow/m", "quick/m"} { // every measure is there
		for j := range 12 {
			for _, tokens := range []int{50, 17_000} {
				s.at(id, strings.Replace(body(tokens), "four", fmt.Sprintf("%d%03d", i, j), 1))
			}
		}
	}
	s.board.Rows(nil)
	price := func(quick core.Rate) {
		p := map[core.ProviderID]*core.Provider{}
		for _, id := range []core.ProviderID{"slow", "quick"} {
			p[id] = &core.Provider{ID: id, Format: core.FormatLlamaCpp, BaseURL: "http://" + string(id), FromFile: true}
		}
		s.offers([]*core.Provider{p["slow"], p["quick"]}, []*core.Offer{
			{ID: "slow/m", Provider: p["slow"], Model: "m", Price: core.Price{Rates: core.Rates{Input: 200_000, Output: 1_000_000}}},
			{ID: "quick/m", Provider: p["quick"], Model: "m", Price: core.Price{Rates: core.Rates{Input: quick, Output: 1_000_000}}}})
	}
	price(1_000_000)
	ask := func(n int, want core.OfferID) {
		t.Helper()
		_, body := turn(core.FormatOpenAI, n)
		r := s.call(body)
		if r.Offer != want || r.Decision.RankedOn != "price-and-wait" {
			t.Errorf("turn %d went to %s on %s, want %s: %+v", n, r.Offer, r.Decision.RankedOn, want, r.Decision.Offers)
		}
		s.clock.Advance(20 * time.Second)
	}
	ask(1, "quick/m")
	s.asked("slow/m", core.FormatOpenAI, 2)
	for n := 3; n < 8; n++ {
		ask(n, "slow/m")
	}
	s.clock.Advance(time.Hour)
	ask(8, "quick/m") // it has forgotten all of it
	ask(9, "quick/m")
	s.asked("slow/m", core.FormatOpenAI, 10)
	ask(11, "slow/m")
	price(1_000)
	ask(12, "quick/m") // the other is so cheap by now that the cache is worth less
	price(1_000_000)
	ask(13, "slow/m") // it still has what was said up to turn 11
}
