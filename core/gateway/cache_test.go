package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"headway/core"
	"headway/core/gateway"
	"headway/core/market"
	"headway/embedded/sim"
)

// cachers are simulated providers with caches of every kind, each of them with a
// model of its own name.
func cachers(t *testing.T) *simulated {
	t.Helper()
	kinds := []struct {
		id     core.ProviderID
		format core.Format
		cache  *sim.Cache
	}{
		{"five", core.FormatAnthropic, &sim.Cache{Least: 1024, Life: 5 * time.Minute, Marks: true}},
		{"hour", core.FormatAnthropic, &sim.Cache{Least: 1024, Life: time.Hour, Writes: true}},
		{"writes", core.FormatAnthropic, &sim.Cache{Least: 1024, Life: 5 * time.Minute, Writes: true}},
		{"steps", core.FormatOpenAI, &sim.Cache{Least: 1024, Life: 5 * time.Minute, Step: 128}},
		{"responses", core.FormatResponses, &sim.Cache{Least: 1024, Life: 5 * time.Minute, Step: 128, Writes: true}},
		{"google", core.FormatGoogle, &sim.Cache{Least: 1024, Life: 5 * time.Minute}},
		{"llama", core.FormatLlamaCpp, &sim.Cache{Life: 24 * time.Hour, Answers: true}},
		{"unlike", core.FormatOpenAI, &sim.Cache{Least: 300, Life: 5 * time.Minute, Step: 50, Answers: true}}, // not as its kind is known for
		{"none", core.FormatOpenAI, nil},
	}
	configs, prices := map[core.ProviderID]sim.Config{}, map[core.ProviderID][2]string{}
	var providers []*core.Provider
	var offers []*core.Offer
	for _, k := range kinds {
		cfg := exactly(100*time.Millisecond, 10_000, 1000)
		cfg.Cache = k.cache
		configs[k.id], prices[k.id] = cfg, [2]string{"1", "1"}
		p := &core.Provider{ID: k.id, Format: k.format, BaseURL: "http://" + string(k.id), FromFile: true}
		if k.format == core.FormatOpenAI || k.format == core.FormatResponses {
			p.BaseURL += "/v1"
		}
		providers = append(providers, p)
		offers = append(offers, &core.Offer{ID: core.OfferID(k.id), Provider: p, Model: core.Model(k.id), UpstreamModel: string(k.id),
			Price: core.Price{Rates: core.Rates{Input: 1_000_000, Output: 1_000_000}}})
	}
	s := newSimulated(t, configs, prices)
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

// talk is a conversation of a client that sends all of it with each turn, as
// agents do: with tools, their results, and the answers as they came.
type talk struct {
	format core.Format
	model  string
	seed   int
	turns  []any
}

type object = map[string]any

// text is what a user or a tool says at a turn; others say other things.
func (c *talk) text(n, words int) string {
	all := []string{"measure", "the", "wait", "of", "every", "\"offer\"", "and", "weigh\n", "it", "gegen", "den", "Preis", "für", "价格"}
	var b strings.Builder
	for j := range words {
		fmt.Fprintf(&b, "%s %d ", all[(n*7+j*5+c.seed)%len(all)], n*words+j)
	}
	return b.String()
}

// content is a text as a client writes it: as it is, or as a list of one part,
// which it may mark.
func (c *talk) content(text string, n int, last bool) any {
	part := object{"type": "text", "text": text}
	if c.format == core.FormatAnthropic && last {
		part["cache_control"] = object{"type": "ephemeral"}
		return []any{part}
	}
	if n%2 == 0 {
		return []any{part}
	}
	return text
}

// body is the request of a turn, after say.
func (c *talk) body() (path, body string) {
	system := c.text(1000, 350)
	schema := object{"type": "object", "properties": object{"of": object{"type": "string"}}, "required": []string{"of"}}
	about := c.text(2000, 40)
	req := object{"model": c.model}
	switch c.format {
	case core.FormatOpenAI:
		path = "/v1/chat/completions"
		req["messages"] = append([]any{object{"role": "system", "content": system}}, c.turns...)
		req["tools"] = []any{object{"type": "function", "function": object{"name": "look", "description": about, "parameters": schema}}}
	case core.FormatResponses:
		path = "/v1/responses"
		req["instructions"], req["input"], req["store"] = system, c.turns, false
		req["tools"] = []any{object{"type": "function", "name": "look", "description": about, "parameters": schema}}
	case core.FormatAnthropic:
		path = "/v1/messages"
		req["max_tokens"], req["messages"] = 400, c.turns
		req["system"] = []any{object{"type": "text", "text": system, "cache_control": object{"type": "ephemeral"}}}
		req["tools"] = []any{object{"name": "look", "description": about, "input_schema": schema}}
	case core.FormatGoogle:
		path = "/v1beta/models/" + c.model + ":generateContent"
		delete(req, "model")
		req["systemInstruction"], req["contents"] = object{"parts": []any{object{"text": system}}}, c.turns
		req["tools"] = []any{object{"functionDeclarations": []any{object{"name": "look", "description": about, "parameters": schema}}}}
	}
	raw, err := json.Marshal(req)
	if err != nil {
		panic(err)
	}
	return path, string(raw)
}

// user says what it says at a turn. Marks are at the last message alone, and
// contents are texts or lists as it happens: what was said before is written anew.
func (c *talk) user(n int) {
	ask := c.text(n, 20+n*13%90)
	if n%3 == 2 {
		ask += "Use the tool."
	}
	switch c.format {
	case core.FormatGoogle:
		c.turns = append(c.turns, object{"role": "user", "parts": []any{object{"text": ask}}})
		return
	case core.FormatResponses:
		c.turns = append(c.turns, object{"role": "user", "content": ask})
		return
	}
	for _, turn := range c.turns {
		m := turn.(object)
		if parts, ok := m["content"].([]any); ok && m["role"] == "user" {
			for _, part := range parts {
				delete(part.(object), "cache_control")
			}
			if one := parts[0].(object); len(parts) == 1 && one["type"] == "text" && n%2 == 1 {
				m["content"] = one["text"]
			}
		}
	}
	c.turns = append(c.turns, object{"role": "user", "content": c.content(ask, n, true)})
}

// heard takes an answer, and the result of the tool that it calls; true: it called
// one.
func (c *talk) heard(t *testing.T, n int, body []byte) (called bool) {
	t.Helper()
	var v struct {
		Choices    []struct{ Message object }
		Output     []any
		Content    []any
		Candidates []struct{ Content object }
	}
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatal(err)
	}
	result := c.text(n+500, 150)
	switch c.format {
	case core.FormatOpenAI:
		m := v.Choices[0].Message
		c.turns = append(c.turns, m)
		if calls, ok := m["tool_calls"].([]any); ok {
			c.turns = append(c.turns, object{"role": "tool", "tool_call_id": calls[0].(object)["id"], "content": result})
			return true
		}
	case core.FormatResponses:
		c.turns = append(c.turns, v.Output...)
		for _, item := range v.Output {
			if call := item.(object); call["type"] == "function_call" {
				c.turns = append(c.turns, object{"type": "function_call_output", "call_id": call["call_id"], "output": result})
				return true
			}
		}
	case core.FormatAnthropic:
		c.turns = append(c.turns, object{"role": "assistant", "content": v.Content})
		for _, block := range v.Content {
			if use := block.(object); use["type"] == "tool_use" {
				c.turns = append(c.turns, object{"role": "user", "content": []any{object{"type": "tool_result", "tool_use_id": use["id"], "content": result,
					"cache_control": object{"type": "ephemeral"}}}})
				return true
			}
		}
	case core.FormatGoogle:
		c.turns = append(c.turns, v.Candidates[0].Content)
		for _, part := range v.Candidates[0].Content["parts"].([]any) {
			if call, ok := part.(object)["functionCall"].(object); ok {
				c.turns = append(c.turns, object{"role": "user", "parts": []any{object{"functionResponse": object{"name": call["name"], "response": object{"found": result}}}}})
				return true
			}
		}
	}
	return false
}

// told makes the call of a turn and gives its answer and receipt.
func (s *simulated) told(path, body string) ([]byte, *core.Receipt) {
	s.t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+clientKey)
	s.gw.ServeHTTP(w, r)
	if w.Code != 200 {
		s.t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	rec, err := s.book.Receipt(core.CallID(w.Header().Get("X-Request-Id")))
	if err != nil || rec.Outcome != core.Settled {
		s.t.Fatal(rec, err)
	}
	return w.Body.Bytes(), rec
}

// TestExpectedCacheReads: a conversation of 18 turns in each format with each kind
// of cache: from the third turn on what is expected to be read is what is read,
// within 10%, pauses that a cache does not outlive included.
func TestExpectedCacheReads(t *testing.T) {
	for _, client := range []core.Format{core.FormatOpenAI, core.FormatResponses, core.FormatAnthropic, core.FormatGoogle} {
		for i, id := range []string{"five", "hour", "writes", "steps", "responses", "google", "llama", "unlike", "none"} {
			t.Run(string(client)+" to "+id, func(t *testing.T) {
				s := cachers(t)
				c := &talk{format: client, model: id, seed: i}
				read := map[int]float64{}
				called := false
				for n := 1; n <= 18; n++ {
					if !called {
						c.user(n)
					}
					switch s.clock.Advance(50 * time.Second); n {
					case 8:
						s.clock.Advance(6 * time.Minute)
					case 14:
						s.clock.Advance(70 * time.Minute)
					}
					answer, rec := s.told(c.body())
					d := rec.Decision.Offers[0]
					expected, real := float64(d.Cached.V), float64(rec.Usage.CacheRead.V)
					t.Logf("turn %d: expected %v, read %v of %d, estimated %d", n, expected, real, rec.Usage.Input(), d.Cached.V+d.Fresh.V)
					read[n] = real
					if n >= 3 && !within(expected, real, 0.1) && expected != real && !(id == "llama" && n == 14) {
						t.Errorf("turn %d: %v expected, %v read of %d", n, expected, real, rec.Usage.Input())
					}
					called = c.heard(t, n, answer)
				}
				// The caches did what they are to do.
				cached := id != "none" && (id != "five" || client == core.FormatAnthropic)
				if long := id == "hour" || id == "llama"; (read[7] > 0) != cached || (read[18] > 0) != cached || (read[8] > 0) != long || (read[14] > 0) != (id == "llama") {
					t.Errorf("read at the turns 7, 8, 14 and 18: %v %v %v %v", read[7], read[8], read[14], read[18])
				}
			})
		}
	}
}

// turn is a turn of a plain conversation with the model "m".
func turn(n int) string {
	c := &talk{format: core.FormatOpenAI, model: "m"}
	for i := range 2*n - 1 {
		c.turns = append(c.turns, object{"role": []string{"user", "assistant"}[i%2], "content": c.text(i, 40+37*i%90)})
	}
	_, body := c.body()
	return strings.Replace(body, `{`, `{"max_tokens":100,`, 1)
}

// TestStaysWhereTheCacheIs: a slow cheap server that has the conversation in its
// cache against a quick dear one, with an hour worth a dollar. It stays while the
// total with the cache is the better one, and leaves when it is not; without the
// cache it would be with the other.
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
	rates := map[core.OfferID]core.Rate{}
	price := func(quick core.Rate) {
		rates["slow/m"], rates["quick/m"] = 200_000, quick
		var providers []*core.Provider
		var offers []*core.Offer
		for _, id := range []core.ProviderID{"slow", "quick"} {
			p := &core.Provider{ID: id, Format: core.FormatLlamaCpp, BaseURL: "http://" + string(id), FromFile: true}
			o := &core.Offer{ID: core.OfferID(id) + "/m", Provider: p, Model: "m", Cache: core.OfferCache{Lifetime: core.Some(10 * time.Minute)}}
			o.Price.Rates = core.Rates{Input: rates[o.ID], Output: 1_000_000, CacheRead: core.Some(rates[o.ID] / 10)}
			providers, offers = append(providers, p), append(offers, o)
		}
		s.offers(providers, offers)
	}
	price(1_000_000)
	var last time.Time // when the last turn was sent
	ask := func(n int, want core.OfferID, because bool) {
		t.Helper()
		last = s.clock.Now()
		_, r := s.told("/v1/chat/completions", turn(n))
		if r.Offer != want || r.Decision.RankedOn != "price-and-wait" || len(r.Decision.Offers) != 2 {
			t.Errorf("turn %d went to %s on %s, want %s: %+v", n, r.Offer, r.Decision.RankedOn, want, r.Decision.Offers)
		}
		totals, without := map[core.OfferID]float64{}, map[core.OfferID]float64{}
		for _, o := range r.Decision.Offers {
			m := s.board.Measures(core.ProviderID(strings.TrimSuffix(string(o.Offer), "/m")), "m")
			total := func(fresh, cached float64) float64 {
				out, rate := float64(o.Output.V), float64(rates[o.Offer])/1e12
				wait := m.BaseLatency.Value.V/1000 + fresh/m.Prefill.Value.V + out/m.Output.Value.V
				return fresh*rate + cached*rate/10 + out/1e6 + wait/3600
			}
			totals[o.Offer] = total(float64(o.Fresh.V), float64(o.Cached.V))
			without[o.Offer] = total(float64(o.Fresh.V+o.Cached.V), 0)
			if !within(o.Score.V, totals[o.Offer], 1e-6) {
				t.Errorf("turn %d at %s: the score is %v, want %v", n, o.Offer, o.Score.V, totals[o.Offer])
			}
		}
		if slow := totals["slow/m"] < totals["quick/m"]; slow != (want == "slow/m") {
			t.Errorf("turn %d: totals %v", n, totals)
		}
		if because != (totals["slow/m"] < totals["quick/m"] && without["slow/m"] > without["quick/m"]) {
			t.Errorf("turn %d: totals %v, without caches %v", n, totals, without)
		}
		if real := r.Usage.CacheRead.V; want == "slow/m" && !within(float64(r.Decision.Offers[0].Cached.V), float64(real), 0.02) {
			t.Errorf("turn %d: %d expected, %d read", n, r.Decision.Offers[0].Cached.V, real)
		}
		s.clock.Advance(20 * time.Second)
	}
	ask(1, "quick/m", false)
	s.at("slow/m", turn(2))
	for n := 3; n < 8; n++ {
		ask(n, "slow/m", true)
	}
	s.clock.AdvanceTo(last.Add(10*time.Minute - time.Second))
	ask(8, "slow/m", true) // it remembers for a second more
	s.clock.AdvanceTo(last.Add(10 * time.Minute))
	ask(9, "quick/m", false) // it has forgotten all of it
	ask(10, "quick/m", false)
	s.at("slow/m", turn(10))
	ask(11, "slow/m", true)
	price(1_000)
	ask(12, "quick/m", false) // the other is so cheap by now that the cache is worth less
	price(1_000_000)
	ask(13, "slow/m", true) // it still has what was said up to turn 11
}
