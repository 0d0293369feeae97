package control_test

import (
	"net/http"
	"strings"
	"testing"
	"time"
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

func TestAKeyOfOnesOwn(t *testing.T) {
	r := newRig(t)
	k := r.must("POST", "keys", `{"name": "own", "key": "0123456789abcdef"}`)
	if status, _ := r.call("0123456789abcdef", "small"); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	r.refused("POST", "keys", `{"name": "same", "key": "0123456789abcdef"}`, 409, "have the same text")
	r.refused("POST", "keys", `{"name": "same", "key": "`+clientKey+`"}`, 409, "have the same text")
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
