package control_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// An offer that was made is changed in place, alone or inside its provider: what it is
// paused for stays, the audit log has the difference, and a restart keeps it.
func TestSetOffer(t *testing.T) {
	r := newRig(t)
	r.must("POST", "offers", `{"provider":"fast","model":"extra","id":"extra/one","input_usd_per_mtok":"1","output_usd_per_mtok":"2","cache_read_usd_per_mtok":"0.5","context_tokens":1000}`)
	r.must("POST", "providers", fmt.Sprintf(`{"id":"mine","format":"openai","base_url":"%s/v1","allow_private":true,"api_key":"a-secret-of-mine",
		"offers":[{"model":"a","input_usd_per_mtok":"1","output_usd_per_mtok":"2"},{"model":"b","input_usd_per_mtok":"3","output_usd_per_mtok":"4"}]}`, r.upstream))
	r.must("POST", "offers/extra%2Fone/pause", "")
	set := func(id, body string, want ...string) {
		t.Helper()
		got := fmt.Sprint(r.must("PATCH", "offers/"+id, body))
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s of %s: %s, want %s", body, id, got, w)
			}
		}
	}
	set("extra%2Fone", `{"input_usd_per_mtok":"1.25","cache_read_usd_per_mtok":null,"above":{"input_tokens":200000,"input_usd_per_mtok":"2","output_usd_per_mtok":"3"}}`,
		"input_usd_per_mtok:1.25", "context_tokens:1000", "state:paused", "input_tokens:200000")
	set("mine/b", `{"output_usd_per_mtok":"4.5","max_output_tokens":100}`, "output_usd_per_mtok:4.5", "input_usd_per_mtok:3", "max_output_tokens:100")
	set("mine/b", `{"output_usd_per_mtok":"4.5"}`) // no entry
	check := func() {
		t.Helper()
		one, b := r.item("offers", "extra/one"), r.item("offers", "mine/b")
		if one["input_usd_per_mtok"] != "1.25" || one["cache_read_usd_per_mtok"] != nil || one["state"] != "paused" || b["output_usd_per_mtok"] != "4.5" ||
			r.item("offers", "mine/a")["input_usd_per_mtok"] != "1" {
			t.Errorf("%v %v", one, b)
		}
	}
	check()
	var entries []string
	for _, e := range r.items("audit?action=offer.set") {
		entries = append(entries, fmt.Sprint(e["target"], e["before"], e["after"]))
	}
	want := []string{"mine/b map[output_usd_per_mtok:4] map[max_output_tokens:100 output_usd_per_mtok:4.5]",
		"extra/one map[cache_read_usd_per_mtok:0.5 input_usd_per_mtok:1] map[above:map[input_tokens:200000 input_usd_per_mtok:2 output_usd_per_mtok:3] input_usd_per_mtok:1.25]"}
	if len(entries) != len(want) {
		t.Fatalf("%q", entries)
	}
	for i := range want {
		if strings.ReplaceAll(entries[i], " ", "") != strings.ReplaceAll(want[i], " ", "") {
			t.Errorf("%q, want %q", entries[i], want[i])
		}
	}
	r.restart()
	check()
	if status, v := r.admin("POST", "offers/mine%2Fb/test", ""); status != http.StatusOK { // its credential is there still
		t.Errorf("%d %v", status, v)
	}

	r.refused("PATCH", "offers/fast/small", `{"input_usd_per_mtok":"9"}`, http.StatusConflict, "is from the file")
	r.refused("PATCH", "offers/none/small", `{"input_usd_per_mtok":"9"}`, http.StatusNotFound, "there is no offer")
	for body, say := range map[string]string{`[]`: "JSON object", `{"model":"z"}`: "cannot be changed", `{"id":"z"}`: "cannot be changed", `{"provider":"slow"}`: "cannot be changed",
		`{"input_usd_per_mtok":"-1"}`: "negative", `{"output_usd_per_mtok":null}`: "missing", `{"what":1}`: "what"} {
		r.refused("PATCH", "offers/extra/one", body, http.StatusBadRequest, say)
		r.refused("PATCH", "offers/mine/b", body, http.StatusBadRequest, say)
	}
	check()
}
