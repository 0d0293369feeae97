package sim_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"headway/core"
	"headway/embedded/sim"
)

func newDemo(t *testing.T) *sim.Demo {
	t.Helper()
	d, err := sim.NewDemo(func(server string) string { return "http://" + server + ".test" })
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// upstream is the request that an offer's provider would get for a demo model.
func upstream(t *testing.T, o *core.Offer) *http.Request {
	t.Helper()
	i := slices.IndexFunc(formats, func(f format) bool {
		return strings.HasPrefix(map[core.Format]string{core.FormatOpenAI: "chat", core.FormatResponses: "responses",
			core.FormatAnthropic: "messages", core.FormatGoogle: "google"}[o.Provider.Format], f.name)
	})
	f := formats[i]
	path := f.path(o.UpstreamModel, false)
	if strings.HasSuffix(o.Provider.BaseURL, "/v1") {
		path = strings.TrimPrefix(path, "/v1")
	}
	r, err := http.NewRequest("POST", o.Provider.BaseURL+path, strings.NewReader(f.body(o.UpstreamModel, "Hi", false, 20, "")))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestDemoOffers(t *testing.T) {
	d := newDemo(t)
	ids := map[any]bool{}
	offered := map[string]int{}
	for _, p := range d.Providers {
		if ids[p.ID] || d.Behind(p.ID) == nil {
			t.Errorf("provider %s is there twice or has no server behind it", p.ID)
		}
		ids[p.ID] = true
		if err := core.CheckURL(p.BaseURL, true, true); err != nil {
			t.Errorf("%s: %v", p.ID, err)
		}
	}
	for _, o := range d.Offers {
		if ids[o.ID] || !ids[o.Provider.ID] || o.ID != core.OfferID(o.Provider.ID)+"/"+core.OfferID(o.Model) {
			t.Errorf("offer %s is there twice, misnamed or without its provider", o.ID)
		}
		ids[o.ID] = true
		offered[string(o.Provider.Format)+" "+string(o.Model)]++
		// Its server answers it: now and then with its faults, but not with 404.
		statuses := map[int]bool{}
		for range 60 {
			res, err := d.Behind(o.Provider.ID).Transport(sim.NewClock(start)).RoundTrip(upstream(t, o))
			if err != nil {
				t.Fatal(err)
			}
			statuses[res.StatusCode] = true
		}
		if flaky := strings.HasPrefix(string(o.ID), "moth/"); !statuses[200] || statuses[503] != flaky || len(statuses) > 2 {
			t.Errorf("%s answers with %v", o.ID, statuses)
		}
	}
	for _, f := range []core.Format{core.FormatOpenAI, core.FormatResponses, core.FormatAnthropic, core.FormatGoogle} {
		if n := offered[string(f)+" "+string(sim.DemoSmall)]; n < 2 {
			t.Errorf("%s has %d offers of demo-small, want a choice", f, n)
		}
		if offered[string(f)+" "+string(sim.DemoLarge)] == 0 {
			t.Errorf("%s has no offer of demo-large", f)
		}
	}
	if d.Behind("stranger") != nil {
		t.Error("a stranger has a server of the demo")
	}
}

// TestDemoCharacters: what the demo's servers are known for shows in their waits.
func TestDemoCharacters(t *testing.T) {
	d := newDemo(t)
	wait := func(server core.ProviderID, prompt string) time.Duration {
		i := slices.IndexFunc(d.Offers, func(o *core.Offer) bool { return o.Provider.ID == server && o.Model == sim.DemoSmall })
		clock := sim.NewClock(start)
		f := formats[0]
		least := time.Duration(0)
		for range 15 { // jitter and faults: the quickest whole answer
			h := f.ask(t, d.Behind(server).Transport(clock), clock.Now, d.Offers[i].UpstreamModel+"@output=60,prompt="+prompt, "Hi", true, 0, "")
			if h.finish != nil && (least == 0 || h.end < least) {
				least = h.end
			}
		}
		return least
	}
	if hare, turtle := wait("hare", "500"), wait("turtle", "500"); 4*hare > turtle {
		t.Errorf("hare takes %v and turtle %v", hare, turtle)
	}
	for _, other := range []core.ProviderID{"turtle", "hare", "moth"} {
		if owl, took := wait("owl", "40000"), wait(other, "40000"); owl > took {
			t.Errorf("with a long prompt owl takes %v and %s %v", owl, other, took)
		}
	}
	price := map[core.ProviderID]core.Rate{}
	for _, o := range d.Offers {
		if o.Model == sim.DemoSmall {
			price[o.Provider.ID] = o.Price.Output
		}
	}
	for id, p := range price {
		if p < price["turtle"] || p > price["hare"] {
			t.Errorf("%s asks %v: turtle is the cheapest with %v, hare the dearest with %v", id, p, price["turtle"], price["hare"])
		}
	}
	if price["turtle"].String() != "0.2" || price["hare"].String() != "2.4" {
		t.Errorf("turtle asks %v and hare %v USD per million, want 0.2 and 2.4", price["turtle"], price["hare"])
	}
}

func TestHistory(t *testing.T) {
	d := newDemo(t)
	now := time.Date(2026, 3, 12, 16, 40, 0, 0, time.FixedZone("", 3600))
	today := time.Date(2026, 3, 12, 0, 0, 0, 0, time.UTC)
	clock := sim.NewClock(today)
	every := build(t, exact(nil)) // serves every model
	var last time.Time
	var count, streamed, tools, long int
	days, probes, steps, formats := map[int]int{}, map[core.OfferID]map[string]int{}, map[string]int{}, map[string]int{}
	for r := range d.History(now, 5) {
		if r.At.Before(last) || r.At.Before(today.Add(-7*24*time.Hour)) || r.At.After(now.Add(-10*time.Minute)) {
			t.Fatalf("request %d is at %v, the one before at %v", count, r.At, last)
		}
		last = r.At
		count++
		days[int(r.At.Sub(today.Add(-7*24*time.Hour))/(24*time.Hour))]++
		steps[r.Header.Get("X-Headway-Job")]++
		path, _, _ := strings.Cut(r.Path, "?")
		if strings.Contains(path, "/v1beta/") {
			path = "google"
		}
		formats[path]++
		if bytes.Contains(r.Body, []byte(`"tools"`)) {
			tools++
		}
		req, err := http.NewRequest("POST", "http://sim.test"+r.Path, bytes.NewReader(r.Body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := every.Transport(clock).RoundTrip(req)
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("%s %.300s: status %d, %v", r.Path, r.Body, res.StatusCode, err)
		}
		prompt := len(r.Body) / 4 // the answer's own figure, to within the JSON around it
		if prompt < 200 || prompt > 41_000 {
			t.Errorf("a prompt of about %d tokens", prompt)
		}
		if res.ContentLength < 0 {
			streamed++
		}
		size := "short"
		if prompt > 17_000 {
			size = "long"
			long++
		}
		if r.Offer != "" {
			if probes[r.Offer] == nil {
				probes[r.Offer] = map[string]int{}
			}
			probes[r.Offer][size]++
		} else if r.Header.Get("X-Headway-Time-Value") == "" || r.Header.Get("X-Headway-Job") == "" {
			t.Errorf("a request without headers: %v", r.Header)
		}
	}
	if count < 1100 || count > 1350 || streamed*10 < count*7 || long < 200 || tools < 50 {
		t.Errorf("%d requests, %d streamed, %d long, %d with tools", count, streamed, long, tools)
	}
	for i := range 8 {
		if least := map[bool]int{true: 100, false: 60}[i < 7]; days[i] < least {
			t.Errorf("day %d has %d requests, want %d or more", i, days[i], least)
		}
	}
	for _, o := range d.Offers {
		if p := probes[o.ID]; p["short"] < 7 || p["long"] < 7 {
			t.Errorf("%s has probes %v, want 7 of each", o.ID, p)
		}
	}
	several := 0
	for job, n := range steps {
		if job != "" && n > 1 {
			several++
		}
	}
	if several < 50 || len(formats) != 4 {
		t.Errorf("%d jobs of several steps, formats %v", several, formats)
	}
}

func TestHistoryIsRepeatable(t *testing.T) {
	d := newDemo(t)
	first := func(now time.Time, seed uint64) (all []sim.Request) {
		for r := range d.History(now, seed) {
			if all = append(all, r); len(all) == 60 {
				break
			}
		}
		return all
	}
	if !reflect.DeepEqual(first(start, 1), first(start, 1)) {
		t.Error("the same seed gave other requests")
	}
	if reflect.DeepEqual(first(start, 1), first(start, 2)) {
		t.Error("another seed gave the same requests")
	}
	// Just after midnight the last day is as good as empty, and nothing is late.
	midnight := start.Truncate(24 * time.Hour)
	for r := range d.History(midnight.Add(5*time.Minute), 1) {
		if r.At.After(midnight.Add(-10 * time.Minute)) {
			t.Errorf("a request at %v", r.At)
		}
	}
}

func TestTraffic(t *testing.T) {
	every := build(t, exact(nil))
	for _, most := range []int{0, 1000, 4000} {
		traffic := sim.NewTraffic(3, most)
		bound := max(most, 400)
		largest := 0
		for range 120 {
			r, pause := traffic.Next()
			if pause < 2*time.Second || pause > 12*time.Second || !r.At.IsZero() || r.Offer != "" {
				t.Fatalf("pause %v, at %v, offer %q", pause, r.At, r.Offer)
			}
			// Unstreamed: the figures are in one place.
			body := bytes.Replace(r.Body, []byte(`"stream":true`), []byte(`"stream":false`), 1)
			path := strings.Replace(r.Path, ":streamG", ":g", 1)
			_, v, _ := do(t, every, "POST", path, string(body))
			n := 0
			for _, p := range [][]any{{"usage", "prompt_tokens"}, {"usage", "input_tokens"}, {"usageMetadata", "promptTokenCount"}} {
				f, _ := at(v, p...).(float64)
				n += int(f)
			}
			var asked map[string]any
			if err := json.Unmarshal(body, &asked); err != nil {
				t.Fatal(err)
			}
			for _, p := range [][]any{{"max_tokens"}, {"max_output_tokens"}, {"generationConfig", "maxOutputTokens"}} {
				f, _ := at(asked, p...).(float64)
				n += int(f)
			}
			largest = max(largest, n)
		}
		if largest > bound || largest < bound/2 {
			t.Errorf("with at most %d tokens the largest call has %d", bound, largest)
		}
	}
}

func FuzzRequest(f *testing.F) {
	paths := []string{"/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/messages",
		"/v1/messages/count_tokens", "/v1beta/models/m:generateContent", "/v1beta/models/m:streamGenerateContent", "/v1beta/models/m:countTokens"}
	for _, x := range formats {
		for i := range paths {
			f.Add(i, []byte(x.body("m@prompt=10,output=3", "Use a tool.", i%2 == 0, 5, x.tools)))
		}
	}
	f.Add(2, []byte(`{"model":"m","input":[[1,2],[null]]}`))
	f.Add(0, []byte(`{"model":"m","messages":[{"role":"user","content":[[[{"text":5}]]]}],"tools":[{"function":{"name":"f","parameters":[]}}],"tool_choice":[]}`))
	p, err := sim.New(sim.Default())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, i int, body []byte) {
		r, _ := http.NewRequest("POST", "http://sim.test"+paths[uint(i)%uint(len(paths))], bytes.NewReader(body))
		res, err := p.Transport(sim.NewClock(start)).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != 200 && res.StatusCode != 400 {
			t.Errorf("status %d", res.StatusCode)
		}
		if res.StatusCode == 200 && !json.Valid(body) {
			t.Errorf("%q was taken for JSON", body)
		}
		if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
			for line := range strings.SplitSeq(string(all), "\n") {
				if data, ok := strings.CutPrefix(line, "data: "); ok && data != "[DONE]" && !json.Valid([]byte(data)) {
					t.Errorf("event %q", data)
				}
			}
		} else if !json.Valid(all) {
			t.Errorf("answer %q", all)
		}
	})
}
