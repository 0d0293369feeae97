package control_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"headway/core"
)

func TestDecisionsHaveWhatAStrategySaw(t *testing.T) {
	r := newRig(t)
	r.write(file + "routing: {script_headers: [x-team]}\n")
	r.restart()
	_, id := r.call(clientKey, "small", "X-Team", "blue", "X-Headway-Time-Value", "3")
	v := r.must("GET", "decisions?since=1h&until=2999-01-01", "")
	item := v["items"].([]any)[0].(map[string]any)
	d := item["decision"].(map[string]any)
	offer := d["offers"].([]any)[0].(map[string]any)
	basis := offer["basis"].(map[string]any)
	if item["id"] != id || item["model"] != "small" || item["streamed"] != true || item["outcome"] != "settled" || item["offer"] != "fast/small" ||
		item["charge_usd"] == nil || item["actual_wait_ms"] == nil || item["at"] == nil || item["operation"] != "generate" {
		t.Errorf("decision %v", item)
	}
	if d["time_value_usd_per_hour"] != 3.0 || basis["input_usd_per_mtok"] != "1" || basis["output_usd_per_mtok"] != "2" || offer["expected_output_tokens"] == nil {
		t.Errorf("decision %v", d)
	}
	since, err := time.Parse(time.RFC3339, v["since"].(string))
	if err != nil || time.Since(since) < time.Hour || time.Since(since) > 2*time.Hour || v["until"] != "2999-01-02T00:00:00Z" {
		t.Errorf("since %v, until %v", v["since"], v["until"])
	}
	if h, ok := v["script_headers"].([]any); !ok || len(h) != 1 || h[0] != "x-team" {
		t.Errorf("script_headers %v", v["script_headers"])
	}
	_, text := serve(r.desk.Local(), "GET", "/admin/v1/decisions", "", "")
	for _, private := range []string{"good morning", "blue", clientKey} {
		if strings.Contains(text, private) {
			t.Errorf("%q is in %s", private, text)
		}
	}
}

func TestDecisionsArePaged(t *testing.T) {
	r := newRig(t)
	day := time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC)
	wide := func(n int) *core.Decision {
		return &core.Decision{Strategy: "cheapest", Offers: make([]core.Ranked, n)}
	}
	var ids []string
	for i, c := range []*core.Receipt{
		{Annex: core.Annex{Decision: wide(3)}},
		{Annex: core.Annex{Decision: wide(1)}, Kind: core.KindProbe},
		{Annex: core.Annex{Decision: wide(9_000)}},
		{Annex: core.Annex{Decision: wide(9_000)}, Outcome: core.Failed},
		{Outcome: core.Lost}, // of a killed process: without a decision
		{Annex: core.Annex{Decision: wide(9_000)}},
	} {
		c.At = day.Add(time.Duration(i) * time.Minute)
		r.keep(c)
		ids = append(ids, string(c.ID))
	}
	for _, c := range []struct{ query, want, next string }{
		{"", ids[5] + " " + ids[3], ids[3]}, // the third has no room in the page
		{"?next=" + ids[3], ids[2] + " " + ids[0], ""},
		{"?limit=1", ids[5], ids[5]},
		{"?limit=1&next=" + ids[2], ids[0], ""},
		{"?outcome=settled&next=" + ids[5], ids[2] + " " + ids[0], ""},
		{"?outcome=failed", ids[3], ""},
		{"?until=2026-02-01T12:01:00Z", ids[0], ""},
		{"?since=2026-02-01T12:05:00Z", ids[5], ""},
		{"?since=2026-02-01T12:06:00Z", "", ""},
	} {
		v := r.must("GET", "decisions"+c.query, "")
		var got []string
		for _, i := range v["items"].([]any) {
			got = append(got, i.(map[string]any)["id"].(string))
		}
		next, _ := v["next"].(string)
		if strings.Join(got, " ") != c.want || next != c.next {
			t.Errorf("decisions%s: %v, next %q; want %s, next %q", c.query, got, next, c.want, c.next)
		}
	}
	r.refused("GET", "decisions?limit=1001", "", http.StatusBadRequest, "1 to 1000")
	r.refused("GET", "decisions?next=x", "", http.StatusBadRequest, "earlier page")
	r.refused("GET", "decisions?since=soon", "", http.StatusBadRequest, "not a time")

	// Nobody waits for it any more.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	w := httptest.NewRecorder()
	r.desk.Local().ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/admin/v1/decisions", nil))
	if w.Body.Len() > 0 {
		t.Errorf("%d bytes for nobody", w.Body.Len())
	}
}
