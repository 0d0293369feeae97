package control_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"headway/core"
)

func TestCallsAreListedNewestFirst(t *testing.T) {
	r := newRig(t)
	var ids []string
	for i := range 5 {
		headers := []string{"X-Headway-Job", "build/7", "X-Headway-Step", "plan"}
		if i%2 == 1 {
			headers = nil
		}
		status, id := r.call(clientKey, "small", headers...)
		if status != http.StatusOK {
			t.Fatalf("status %d", status)
		}
		ids = append([]string{id}, ids...)
	}
	seen := func(path string) string {
		var got []string
		for _, c := range r.items(path) {
			got = append(got, c["id"].(string))
			if c["decision"] != nil {
				t.Errorf("%s: a list holds decisions", path)
			}
		}
		return strings.Join(got, " ")
	}
	for _, c := range []struct{ query, want string }{
		{"", strings.Join(ids, " ")},
		{"?limit=2", strings.Join(ids[:2], " ")},
		{"?limit=2&next=" + ids[1], strings.Join(ids[2:4], " ")},
		{"?limit=2&next=" + ids[3], ids[4]},
		{"?next=" + ids[4], ""},
		{"?job=build/7", strings.Join([]string{ids[0], ids[2], ids[4]}, " ")},
		{"?model=small&offer=fast/small&provider=fast&key=ci&outcome=settled&kind=job", strings.Join(ids, " ")},
		{"?model=large", ""}, {"?offer=slow/small", ""}, {"?provider=slow", ""}, {"?key=other", ""}, {"?outcome=failed", ""}, {"?kind=probe", ""},
		{"?since=1h", strings.Join(ids, " ")}, {"?until=1h", ""}, {"?until=2000-01-01", ""}, {"?since=2000-01-01&until=7d", ""},
	} {
		if got := seen("calls" + c.query); got != c.want {
			t.Errorf("calls%s: %s, want %s", c.query, got, c.want)
		}
	}
	if v := r.must("GET", "calls?limit=5", ""); v["next"] != nil {
		t.Errorf("next is %v behind the last page", v["next"])
	}
	if v := r.must("GET", "calls?limit=4", ""); v["next"] != ids[3] {
		t.Errorf("next is %v, want %s", v["next"], ids[3])
	}

	one := r.must("GET", "calls/"+ids[0], "")
	if one["outcome"] != "settled" || one["decision"] == nil || one["charge_usd"] == nil || one["timing"] == nil || one["attempts"] == nil {
		t.Errorf("the whole receipt is %v", one)
	}
	if text := r.log.String(); strings.Contains(text, "good morning") {
		t.Error("the log holds a prompt")
	}
	job := r.items("jobs/build%2F7")
	if len(job) != 3 || job[0]["id"] != ids[4] || job[0]["decision"] == nil {
		t.Errorf("the job has %d calls: %v", len(job), job)
	}
	if alone := r.items("jobs/" + ids[1]); len(alone) != 1 || alone[0]["id"] != ids[1] {
		t.Errorf("the job of one call is %v", alone)
	}
}

// The time filters go by the call's arrival, and a bare day of until is meant
// with its end.
func TestCallsOfADay(t *testing.T) {
	r := newRig(t)
	day := time.Date(2026, 3, 7, 0, 0, 0, 0, time.UTC)
	for _, at := range []time.Time{day.Add(-time.Millisecond), day, day.Add(24*time.Hour - time.Millisecond), day.Add(24 * time.Hour)} {
		r.keep(&core.Receipt{At: at, Model: "small"})
	}
	r.keep(&core.Receipt{At: day.AddDate(0, 1, 0), Model: "small", Owner: "team-x"})
	for query, want := range map[string]int{
		"owner=team-x": 1, "owner=team-y": 0, "since=2026-03-07&until=2026-03-07": 2, "since=2026-03-07&until=2026-03-30": 3, "until=2026-03-07": 3, "until=2026-03-06": 1, "since=2026-03-08&until=2026-03-30": 1,
		"since=2026-03-07T00:00:00.001Z&until=2026-03-08T00:00:00Z": 1, "since=2026-03-07T01:00:00%2B01:00&until=2026-03-30": 3,
	} {
		if got := len(r.items("calls?" + query)); got != want {
			t.Errorf("%s: %d calls, want %d", query, got, want)
		}
	}
}

func TestUsageIsTheSumOfReceipts(t *testing.T) {
	r := newRig(t)
	r.now = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	some := core.Some[int64]
	timed := func(first, queue float64) core.Annex {
		return core.Annex{Timing: core.Timing{FirstToken: core.Some(first), Queued: core.Some(queue)}}
	}
	for _, c := range []*core.Receipt{
		{At: r.now.Add(-time.Hour), Model: "small", Provider: "fast", Key: "ci", Charge: core.Some[core.Money](1), UsageFrom: core.FromProvider,
			Usage: core.Usage{UncachedInput: some(10), Output: some(5)}, Annex: timed(100, 1)},
		{At: r.now.Add(-25 * time.Hour), Model: "small", Provider: "slow", Key: "other", Charge: core.Some(core.USD), UsageFrom: core.FromEstimate,
			Usage: core.Usage{UncachedInput: some(1), CacheRead: some(7), Output: some(1)}, Annex: timed(200, 2)},
		{At: r.now.Add(-26 * time.Hour), Model: "large", Provider: "fast", Key: "ci", Outcome: core.Failed},
		{At: r.now.Add(-27 * time.Hour), Model: "small", Provider: "fast", Kind: core.KindProbe, Charge: core.Some[core.Money](2)},
		{At: r.now.Add(-8 * 24 * time.Hour), Model: "small", Provider: "fast", Key: "ci", Charge: core.Some[core.Money](1000)}, // before the period
	} {
		r.keep(c)
	}
	u := r.must("GET", "usage", "")
	total := u["total"].(map[string]any)
	if total["calls"] != 4.0 || total["settled"] != 3.0 || total["estimated"] != 1.0 || total["timedCalls"] != 2.0 || total["firstTokenMs"] != 150.0 || total["queueMs"] != 1.5 || total["decodeTps"] != nil || total["decodeCalls"] != 0.0 {
		t.Errorf("the total is %v", total)
	}
	_, text := serve(r.desk.Local(), "GET", "/admin/v1/usage", "", "")
	if !strings.Contains(text, `"charge_usd":1.000000000003`) {
		t.Errorf("the charge is not exact: %s", text)
	}
	by := u["by"].(map[string]any)
	group := func(cut, field string, value any) map[string]any {
		for _, v := range by[cut].([]any) {
			if v := v.(map[string]any); v[field] == value {
				return v
			}
		}
		t.Fatalf("by %s: nothing with %s %v in %v", cut, field, value, by[cut])
		return nil
	}
	if g := group("model", "model", "small"); g["calls"] != 3.0 || g["usage"].(map[string]any)["uncached_input_tokens"] != 11.0 || g["firstTokenMs"] != 150.0 {
		t.Errorf("small: %v", g)
	}
	if g := group("model", "model", "large"); g["firstTokenMs"] != nil || g["timedCalls"] != 0.0 || g["usage"].(map[string]any)["output_tokens"] != nil {
		t.Errorf("large measured nothing and says %v", g)
	}
	if g := group("day", "day", "2026-03-09"); g["calls"] != 3.0 {
		t.Errorf("the day before: %v", g)
	}
	if g := group("key", "key", nil); g["calls"] != 1.0 {
		t.Errorf("Headway's own calls: %v", g)
	}
	if g := group("key", "key", "ci"); g["calls"] != 2.0 || g["key_name"] != "ci" {
		t.Errorf("the key's calls: %v", g)
	}
	if speed := u["speed_by_model"].([]any); len(speed) != 2 || speed[1].(map[string]any)["firstTokenMs"] != 150.0 {
		t.Errorf("speed by model: %v", speed)
	}
}

// Speed is never cut by key, alone or together with anything else.
func TestNoSpeedByKey(t *testing.T) {
	r := newRig(t)
	r.call(clientKey, "small")
	by := r.must("GET", "usage?by=key,model,model%2Bkey,day%2Bkey%2Bmodel%2Bprovider%2Bnode", "")["by"].(map[string]any)
	for cut, list := range by {
		for _, item := range list.([]any) {
			for _, field := range []string{"timedCalls", "firstTokenMs", "prefillCalls", "prefillTps", "decodeCalls", "decodeTps", "queuedCalls", "queueMs"} {
				_, there := item.(map[string]any)[field]
				if there && strings.Contains(cut, "key") {
					t.Errorf("by %s: %s is there", cut, field)
				}
				if !there && cut == "model" && strings.HasSuffix(field, "Calls") {
					t.Errorf("by %s: %s is not there", cut, field)
				}
			}
		}
	}
	if len(by) != 4 {
		t.Errorf("%d cuts, want 4: %v", len(by), by)
	}
}

func TestSpeedAndStatus(t *testing.T) {
	r := newRig(t)
	r.call(clientKey, "small")
	v := r.must("GET", "speed", "")
	if len(v["items"].([]any)) != 9 || v["window"] == nil || !strings.Contains(v["limits"].(string), "network") {
		t.Errorf("speed is %v", v)
	}
	off := map[any]any{}
	for _, e := range v["estimate_errors"].([]any) {
		e := e.(map[string]any)
		if e["jobs"] != 1.0 || e["offer"] == "" || e["median"] != e["p90"] {
			t.Errorf("estimate error %v", e)
		}
		off[e["estimate"]] = e["median"]
	}
	if len(off) != 3 || off["prompt"] == 0.0 || off["output"] == 0.0 {
		t.Errorf("estimate errors %v", off)
	}
	r.desk.Listening("127.0.0.1:1234")
	s := r.must("GET", "status", "")
	if s["version"] != "test" || s["listen"] != "127.0.0.1:1234" || s["open_calls"] != 0.0 || s["healthy"] != true || s["offers"].(map[string]any)["active"] != 3.0 {
		t.Errorf("status is %v", s)
	}
	c := r.must("GET", "config", "")["yaml"].(string)
	if !strings.Contains(c, "base_url: "+r.upstream) || strings.Contains(c, "file-secret-1") || strings.Contains(c, clientKey) {
		t.Errorf("the configuration shows:\n%s", c)
	}
}
