package control_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"headway/core"
)

func TestAKeyIsMadeUsedChangedAndRevoked(t *testing.T) {
	r := newRig(t)
	k := r.must("POST", "keys", `{"name": "agent", "models": ["large"], "expires_at": "2099-01-31", "labels": {"team": "a"}, "time_value_usd_per_hour": 2.5,
		"price_cap_usd_per_mtok": {"input": "5"}}`)
	text, id := k["key"].(string), k["id"].(string)
	if !strings.HasPrefix(text, "hw_"+id+"_") || k["state"] != "active" || k["spend_usd"] != 0.0 {
		t.Errorf("it is %v", k)
	}
	use := func(model string, want int) {
		t.Helper()
		if status, _ := r.call(text, model); status != want {
			t.Errorf("a call for %s has status %d, want %d", model, status, want)
		}
	}
	use("large", http.StatusOK)
	use("small", http.StatusForbidden)
	r.restart()
	use("large", http.StatusOK)
	listed := r.item("keys", id)
	if listed["key"] != nil || listed["spend_usd"] == 0.0 || listed["expires_at"] != "2099-01-31T00:00:00Z" {
		t.Errorf("it is listed as %v", listed)
	}

	changed := r.must("PATCH", "keys/"+id, `{"models": null, "owner": "me"}`)
	if changed["models"] != nil || changed["owner"] != "me" || changed["name"] != "agent" || changed["labels"].(map[string]any)["team"] != "a" ||
		changed["time_value_usd_per_hour"] != 2.5 || changed["price_cap_usd_per_mtok"].(map[string]any)["input"] != "5" || changed["created_at"] != k["created_at"] {
		t.Errorf("changed: %v", changed)
	}
	use("small", http.StatusOK)
	r.refused("POST", "keys/"+id, `{"key": "another-text-of-16-characters"}`, 400, "cannot be changed")
	r.refused("PATCH", "keys/"+id, `{"nothing": 1}`, 400, "keys.nothing: is no known key")
	r.refused("PATCH", "keys/"+id, `{"name": null}`, 400, "keys.name")
	r.restart()
	use("small", http.StatusOK)

	if v := r.must("DELETE", "keys/"+id, ""); v["state"] != "revoked" {
		t.Errorf("revoked: %v", v)
	}
	use("small", http.StatusUnauthorized)
	r.restart()
	use("small", http.StatusUnauthorized)
	if v := r.item("keys", id); v["state"] != "revoked" || v["spend_usd"] == 0.0 {
		t.Errorf("revoked, it is listed as %v", v)
	}
	r.refused("PATCH", "keys/"+id, `{"owner": "x"}`, 409, "is revoked")
	r.must("POST", "keys/"+id+"/revoke", "") // again: nothing changes
	for _, what := range [][2]string{{"PATCH", "keys/ci"}, {"DELETE", "keys/ci"}, {"POST", "keys/ci/revoke"}} {
		r.refused(what[0], what[1], `{}`, 409, "from the file")
	}
	r.refused("DELETE", "keys/none", "", 404, "there is no key")
}

// TestAKeysModelsThatNobodyServes: names of models that no offer has are allowed, as
// a node may bring them, and said.
func TestAKeysModelsThatNobodyServes(t *testing.T) {
	r := newRig(t)
	says := func(v map[string]any, want ...string) {
		t.Helper()
		notes, _ := v["notes"].([]any)
		if len(notes) != len(want) {
			t.Errorf("notes %q, want %q", notes, want)
			return
		}
		for i := range want {
			if notes[i] != want[i] {
				t.Errorf("note %q, want %q", notes[i], want[i])
			}
		}
	}
	k := r.must("POST", "keys", `{"name": "typo", "models": ["smal", "large"], "allow_models": ["auto"], "block_models": ["lorge", "nothing-like-it"]}`)
	says(k, `models: no offer has "smal" now; did you mean "small"?`, "allow_models: auto is no model and opens nothing: name those models of routing.auto that may be used",
		`block_models: no offer has "lorge" now; did you mean "large"?`, "the key can use no model as it is")
	path := "keys/" + k["id"].(string)
	if v := r.item("keys", k["id"].(string)); v["notes"] != nil {
		t.Errorf("it is listed with %v", v["notes"])
	}
	says(r.must("PATCH", path, `{"owner": "me"}`)) // of what was not changed nothing is said
	says(r.must("PATCH", path, `{"allow_models": null, "block_models": null, "models": ["gpt-9"]}`), `models: no offer has "gpt-9" now`, "the key can use no model as it is")
	says(r.must("PATCH", path, `{"models": ["small", "gpt-9"]}`), `models: no offer has "gpt-9" now`)
	says(r.must("PATCH", path, `{"models": ["small"]}`))
}

func TestAKeyOfOnesOwn(t *testing.T) {
	r := newRig(t)
	k := r.must("POST", "keys", `{"name": "own", "key": "0123456789abcdef"}`)
	if status, _ := r.call("0123456789abcdef", "small"); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	// The refusal names the key that there is, and no id that was never given.
	r.refused("POST", "keys", `{"name": "same", "key": "0123456789abcdef"}`, 409, `key "`+k["id"].(string)+`" (own) has this text already`)
	r.refused("POST", "keys", `{"name": "same", "key": "`+clientKey+`"}`, 409, `key "ci" has this text already`)
	r.must("DELETE", "keys/"+k["id"].(string), "")
	r.must("POST", "keys", `{"name": "again", "key": "0123456789abcdef"}`)
	err := r.store.All("key", func(name string, value []byte) bool {
		if strings.Contains(string(value), "0123456789abcdef") {
			t.Errorf("the store keeps the text of key %s: %s", name, value)
		}
		return true
	})
	if err != nil {
		t.Error(err)
	}
	if strings.Contains(r.log.String(), "0123456789abcdef") {
		t.Error("the log holds a key")
	}
}

func TestAKeyExpires(t *testing.T) {
	r := newRig(t)
	k := r.must("POST", "keys", `{"name": "short", "expires_at": "2099-01-31"}`)
	r.now = time.Date(2099, 1, 31, 0, 0, 0, 0, time.UTC)
	if v := r.item("keys", k["id"].(string)); v["state"] != "expired" {
		t.Errorf("it is %v", v)
	}
	if status, _ := r.call(k["key"].(string), "small"); status != http.StatusUnauthorized {
		t.Errorf("status %d", status)
	}
}

// A key that could never be used is not made; one may be ended by its time.
func TestAKeyThatHasExpired(t *testing.T) {
	r := newRig(t)
	r.now = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	r.refused("POST", "keys", `{"name": "dead", "expires_at": "2020-01-01"}`, 400, "keys.expires_at: 2020-01-01T00:00:00Z is past")
	r.refused("POST", "keys", `{"name": "dead", "expires_at": "2026-11-25T12:00:00Z"}`, 400, "is past")
	k := r.must("POST", "keys", `{"name": "soon", "expires_at": "2026-11-25T12:00:01Z"}`)
	path := "keys/" + k["id"].(string)
	v := r.must("PATCH", path, `{"expires_at": "2020-01-01"}`)
	if notes, _ := v["notes"].([]any); v["state"] != "expired" || len(notes) != 1 || notes[0] != "expires_at: 2020-01-01T00:00:00Z is past: calls with this key get 401 from now on" {
		t.Errorf("it is %v", v)
	}
	for _, body := range []string{`{"owner": "me"}`, `{"expires_at": "2027-01-01"}`, `{"expires_at": null}`} {
		if v := r.must("PATCH", path, body); v["notes"] != nil {
			t.Errorf("%s: %v", body, v["notes"])
		}
	}
}

// Of a price cap and of labels a PATCH changes the members that it names, too.
func TestMembersOfAKeysFields(t *testing.T) {
	r := newRig(t)
	k := r.must("POST", "keys", `{"name": "a", "price_cap_usd_per_mtok": {"input": "5", "output": "10"}, "labels": {"team": "x", "env": "test"}}`)
	path := "keys/" + k["id"].(string)
	for _, c := range []struct{ body, caps, labels string }{
		{`{"price_cap_usd_per_mtok": {"output": "100"}}`, "map[input:5 output:100]", "map[env:test team:x]"},
		{`{"price_cap_usd_per_mtok": {"input": null}}`, "map[output:100]", "map[env:test team:x]"},
		{`{"labels": {"env": "prod"}, "price_cap_usd_per_mtok": {"input": 7}}`, "map[input:7 output:100]", "map[env:prod team:x]"},
		{`{"labels": {"team": null, "none": null, "seat": "9"}}`, "map[input:7 output:100]", "map[env:prod seat:9]"},
		{`{"labels": {}, "price_cap_usd_per_mtok": {}}`, "map[input:7 output:100]", "map[env:prod seat:9]"},
		{`{"labels": {"env": null, "seat": null}}`, "map[input:7 output:100]", "<nil>"},
		{`{"labels": {"b": "1"}, "price_cap_usd_per_mtok": null}`, "<nil>", "map[b:1]"},
		{`{"labels": null, "price_cap_usd_per_mtok": {"input": null}}`, "<nil>", "<nil>"},
		{`{"price_cap_usd_per_mtok": {"output": "1"}}`, "map[output:1]", "<nil>"},
		{`{"price_cap_usd_per_mtok": {"output": null}}`, "<nil>", "<nil>"},
	} {
		r.must("PATCH", path, c.body)
		v := r.item("keys", k["id"].(string))
		if caps, labels := fmt.Sprint(v["price_cap_usd_per_mtok"]), fmt.Sprint(v["labels"]); caps != c.caps || labels != c.labels {
			t.Errorf("%s: the cap is %s, the labels %s, want %s and %s", c.body, caps, labels, c.caps, c.labels)
		}
	}
	r.refused("PATCH", path, `{"price_cap_usd_per_mtok": {"inptu": null}}`, 400, "keys.price_cap_usd_per_mtok.inptu: is no known key")
	r.refused("PATCH", path, `{"price_cap_usd_per_mtok": "5"}`, 400, "keys.price_cap_usd_per_mtok: want a mapping")
	r.refused("PATCH", path, `{"price_cap_usd_per_mtok": {"input": ""}}`, 400, "keys.price_cap_usd_per_mtok.input: is empty")
	r.refused("PATCH", path, `{"labels": ["a"]}`, 400, "keys.labels: want a mapping")
	r.refused("PATCH", path, `{"labels": {"a": "1", "a": "2"}}`, 400, "keys.labels.a: stands twice")
	r.refused("PATCH", path, `{"owner": "a", "owner": "b"}`, 400, "keys.owner: stands twice")
	r.refused("PATCH", path, `{"labels": {"a": 1}}`, 400, "keys.labels.a: want text")

	// Members that are changed at the same time are all changed.
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if status, v := r.admin("PATCH", path, fmt.Sprintf(`{"labels": {"l%d": "x"}}`, i)); status != http.StatusOK {
				t.Errorf("label %d: status %d: %v", i, status, v)
			}
		})
	}
	all.Wait()
	if v := r.item("keys", k["id"].(string)); len(v["labels"].(map[string]any)) != 20 {
		t.Errorf("of 20 labels there are %v", v["labels"])
	}
}

// A key's limits are listed as they were set, and its budgets with what is left.
func TestAKeysLimits(t *testing.T) {
	r := newRig(t)
	r.now = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC) // a Wednesday
	k := r.must("POST", "keys", `{"name": "capped", "requests_per_minute": 60, "tokens_per_minute": 1000000, "max_parallel": 2,
		"budget_usd_per_day": "1.5", "budget_usd_per_week": 4, "budget_usd_per_month": 0.5}`)
	id := k["id"].(string)
	budget := func(v map[string]any) (text []string) {
		for _, b := range v["budget"].([]any) {
			b := b.(map[string]any)
			text = append(text, fmt.Sprint(b["period"], " ", b["limit_usd"], " ", b["spent_usd"], " ", b["reserved_usd"], " ", b["left_usd"], " ", b["over_usd"], " ", b["renews_at"]))
		}
		return text
	}
	check := func(want ...string) {
		t.Helper()
		if got := budget(r.item("keys", id)); !slices.Equal(got, want) {
			t.Errorf("its budgets are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	if k["requests_per_minute"] != 60.0 || k["tokens_per_minute"] != 1e6 || k["max_parallel"] != 2.0 || k["budget_usd_per_week"] != 4.0 || k["reserved_usd"] != 0.0 {
		t.Errorf("it is %v", k)
	}
	const day, week, month = "2026-11-26T00:00:00Z", "2026-11-30T00:00:00Z", "2026-12-01T00:00:00Z"
	check("day 1.5 0 0 1.5 <nil> "+day, "week 4 0 0 4 <nil> "+week, "month 0.5 0 0 0.5 <nil> "+month)
	// A charge as its receipt leaves it, above the month's budget.
	r.keep(&core.Receipt{Key: core.KeyID(id), Model: "small", At: r.now, Charge: core.Some(core.USD * 3 / 4)})
	check("day 1.5 0.75 0 0.75 <nil> "+day, "week 4 0.75 0 3.25 <nil> "+week, "month 0.5 0.75 0 0 0.25 "+month)
	if status, _ := r.call(k["key"].(string), "small"); status != http.StatusPaymentRequired {
		t.Errorf("a call above the budget has status %d", status)
	}
	r.restart()
	check("day 1.5 0.75 0 0.75 <nil> "+day, "week 4 0.75 0 3.25 <nil> "+week, "month 0.5 0.75 0 0 0.25 "+month)
	r.now = r.now.Add(24 * time.Hour)
	check("day 1.5 0 0 1.5 <nil> 2026-11-27T00:00:00Z", "week 4 0.75 0 3.25 <nil> "+week, "month 0.5 0.75 0 0 0.25 "+month)

	v := r.must("PATCH", "keys/"+id, `{"budget_usd_per_week": null, "budget_usd_per_month": 1, "budget_usd_per_day": 0, "max_parallel": null}`)
	if v["max_parallel"] != nil || v["requests_per_minute"] != 60.0 || len(v["budget"].([]any)) != 2 || v["spend_usd"] != 0.75 {
		t.Errorf("changed, it is %v", v)
	}
	check("day 0 0 0 0 <nil> 2026-11-27T00:00:00Z", "month 1 0.75 0 0.25 <nil> "+month)
	r.restart()
	check("day 0 0 0 0 <nil> 2026-11-27T00:00:00Z", "month 1 0.75 0 0.25 <nil> "+month)
	if v := r.item("keys", "ci"); v["budget"] != nil || v["reserved_usd"] != 0.0 {
		t.Errorf("a key without limits is %v", v)
	}
	r.refused("PATCH", "keys/"+id, `{"budget_usd_per_day": -1}`, 400, "keys.budget_usd_per_day: -1 is negative")
	r.refused("POST", "keys", `{"name": "x", "tokens_per_minute": 0}`, 400, "keys.tokens_per_minute: 0 is less than 1")
	r.write(strings.Replace(file, "models: [small]", "models: [small], budget_usd_per_day: 2", 1))
	r.must("POST", "apply", "")
	if v := r.item("keys", "ci"); len(v["budget"].([]any)) != 1 || v["budget_usd_per_day"] != 2.0 {
		t.Errorf("of the file it is %v", v)
	}
}
