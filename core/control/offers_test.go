package control_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestOffersSayHowTheyStand(t *testing.T) {
	r := newRig(t)
	o := r.item("offers", "fast/small")
	if o["state"] != "active" || o["model"] != "small" || o["provider"] != "fast" || o["capacity"] != 64.0 || o["in_flight"] != 0.0 || o["counted_failures"] != 0.0 ||
		o["input_usd_per_mtok"] != "1" || o["from_file"] != true || o["region"] != "eu" || o["ttft_ms"] != nil {
		t.Errorf("the offer is %v", o)
	}
	r.call(clientKey, "small")
	if o := r.must("GET", "offers/fast/small", ""); o["ttft_ms"] == nil {
		t.Errorf("after a call: %v", o)
	}
	m := r.items("models")
	if len(m) != 2 || m[0]["model"] != "large" || m[1]["active"] != 2.0 || m[1]["input_usd_per_mtok"] != "1" || len(m[1]["aliases"].([]any)) != 1 {
		t.Errorf("the models are %v", m)
	}
}

func TestAutoIsAModelOfItsPool(t *testing.T) {
	r := newRig(t)
	r.write("routing: {auto: [tiny, large]}\n" + file)
	r.must("POST", "apply", "")
	m := r.items("models")
	if len(m) != 3 || m[0]["model"] != "auto" || len(m[0]["offers"].([]any)) != 2 || m[0]["active"] != 2.0 ||
		m[0]["input_usd_per_mtok"] != "1" || len(m[0]["pool"].([]any)) != 2 || m[1]["pool"] != nil {
		t.Errorf("the models are %v", m)
	}
	// The key may use small alone, which is tiny.
	status, id := r.call(clientKey, "auto")
	if v := r.receipt(id); status != 200 || v["model"] != "small" || v["offer"] != "fast/small" || v["decision"].(map[string]any)["strategy"] != "auto" {
		t.Errorf("status %d, %v", status, v)
	}
}

// A pause holds over a restart and a reload; resume ends it for good. The id may
// be escaped or not.
func TestPauseHolds(t *testing.T) {
	r := newRig(t)
	if o := r.must("POST", "offers/fast/small/pause", ""); o["state"] != "paused" || o["paused_by"] != "operator" {
		t.Errorf("paused: %v", o)
	}
	if _, id := r.call(clientKey, "small"); r.receipt(id)["offer"] != "slow/small" {
		t.Error("a paused offer took a call")
	}
	r.must("POST", "apply", "")
	r.restart()
	if o := r.item("offers", "fast/small"); o["state"] != "paused" {
		t.Errorf("after a restart: %v", o)
	}
	if o := r.must("POST", "offers/fast%2Fsmall/resume", ""); o["state"] != "active" {
		t.Errorf("resumed: %v", o)
	}
	r.restart()
	if o := r.item("offers", "fast/small"); o["state"] != "active" {
		t.Errorf("resumed, after a restart: %v", o)
	}
	r.refused("POST", "offers/none/pause", "", 404, "there is no offer")
	r.refused("POST", "offers/none/resume", "", 404, "there is no offer")
	r.refused("POST", "offers/none/test", "", 404, "there is no offer")
}

// A test call is made though the offer is paused, and enters no measure.
func TestAnOfferIsTested(t *testing.T) {
	r := newRig(t)
	r.must("POST", "offers/fast/large/pause", "")
	v := r.must("POST", "offers/fast/large/test", "")
	if v["kind"] != "test" || v["outcome"] != "settled" || v["offer"] != "fast/large" || v["key"] != nil {
		t.Errorf("the test is %v", v)
	}
	for _, m := range r.items("measures") {
		if m["jobs"] != 0.0 {
			t.Errorf("a test call is measured: %v", m)
		}
	}
}

const posted = `{"id": "posted", "format": "openai", "base_url": "UPSTREAM/v1", "api_key": "posted-secret", "allow_private": true,
	"headers": {"x-team": "header-secret"}, "offers": [{"model": "posted-model", "input_usd_per_mtok": "1", "output_usd_per_mtok": "1"}]}`

func TestAProviderIsMade(t *testing.T) {
	r := newRig(t)
	p := r.must("POST", "providers", r.fill(posted))
	if p["from_file"] != false || p["api_key"] != "***" || p["offers"].([]any)[0] != "posted/posted-model" {
		t.Errorf("it is %v", p)
	}
	key := r.must("POST", "keys", `{"name": "k"}`)["key"].(string)
	works := func(when string) {
		t.Helper()
		if status, _ := r.call(key, "posted-model"); status != http.StatusOK {
			t.Errorf("%s: a call to the posted provider has status %d", when, status)
		}
	}
	works("at once")
	r.restart()
	works("after a restart")
	r.must("POST", "apply", "")
	works("after a reload")

	for _, path := range []string{"providers", "offers", "config", "status", "keys"} {
		_, text := serve(r.desk.Local(), "GET", "/admin/v1/"+path, "", "")
		for _, secret := range []string{"posted-secret", "header-secret", "file-secret-1", clientKey, key} {
			if strings.Contains(text, secret) {
				t.Errorf("%s shows %s: %s", path, secret, text)
			}
		}
	}
	err := r.store.All("provider", func(name string, value []byte) bool {
		if strings.Contains(string(value), "secret") {
			t.Errorf("the store keeps the provider %s in clear: %s", name, value)
		}
		return true
	})
	if err != nil {
		t.Error(err)
	}
	if strings.Contains(r.log.String(), "-secret") {
		t.Error("the log holds a secret")
	}

	r.refused("POST", "providers", r.fill(posted), 409, `there is a provider "posted" already`)
	r.refused("POST", "providers", r.fill(strings.Replace(posted, `"posted"`, `"fast"`, 1)), 409, "from the file")
	r.refused("PUT", "providers/other", r.fill(posted), 400, "providers.id")
	r.refused("PUT", "providers/none", r.fill(strings.Replace(posted, `"posted"`, `"none"`, 1)), 404, "there is no provider")
	r.must("PUT", "providers/posted", r.fill(strings.Replace(posted, "posted-model", "other-model", 1)))
	if r.item("offers", "posted/posted-model") != nil || r.item("offers", "posted/other-model") == nil {
		t.Errorf("the offers are %v", r.items("offers"))
	}
	r.must("DELETE", "providers/posted", "")
	r.restart()
	if r.item("providers", "posted") != nil || r.item("offers", "posted/other-model") != nil {
		t.Error("a deleted provider is there")
	}
	r.refused("DELETE", "providers/posted", "", 404, "there is no provider")
	r.refused("DELETE", "providers/fast", "", 409, "from the file")
}

func TestAnOfferIsMade(t *testing.T) {
	r := newRig(t)
	const body = `{"provider": "fast", "model": "extra/v2", "input_usd_per_mtok": "1", "output_usd_per_mtok": "1"}`
	o := r.must("POST", "offers", body)
	if o["id"] != "fast/extra/v2" || o["from_file"] != false {
		t.Errorf("it is %v", o)
	}
	r.refused("POST", "offers", body, 409, "already")
	r.must("POST", "offers/fast/extra/v2/pause", "")
	r.restart()
	if o := r.must("GET", "offers/fast%2Fextra%2Fv2", ""); o["state"] != "paused" {
		t.Errorf("after a restart: %v", o)
	}

	// Its provider leaves the file: the offer waits for it, and the server runs.
	r.write(strings.Replace(file, "id: fast", "id: quick", 1))
	r.restart()
	if r.item("offers", "fast/extra/v2") != nil || r.item("offers", "quick/small") == nil {
		t.Errorf("the offers are %v", r.items("offers"))
	}
	r.write(file)
	r.must("POST", "apply", "")
	if r.item("offers", "fast/extra/v2") == nil {
		t.Error("the offer did not come back with its provider")
	}

	r.must("POST", "providers", r.fill(posted))
	r.must("POST", "offers", `{"provider": "posted", "model": "second", "input_usd_per_mtok": "1", "output_usd_per_mtok": "1"}`)
	r.refused("DELETE", "providers/posted", "", 409, "still has the offer")
	r.refused("DELETE", "offers/posted/posted-model", "", 409, "a part of its provider")
	r.refused("DELETE", "offers/fast/small", "", 409, "from the file")
	r.must("DELETE", "offers/posted/second", "")
	r.must("DELETE", "providers/posted", "")
	r.must("DELETE", "offers/fast/extra/v2", "")
	r.restart()
	if r.item("offers", "fast/extra/v2") != nil {
		t.Error("a deleted offer is there")
	}
	r.must("POST", "offers", body)
	if o := r.item("offers", "fast/extra/v2"); o["state"] != "active" {
		t.Errorf("made again, it still has the pause of its predecessor: %v", o)
	}
}

// A record that cannot be read stops the start: what is silently gone would be
// worse.
func TestDamagedRecordsAreNamed(t *testing.T) {
	for _, c := range []struct{ kind, name, value, say string }{
		{"key", "abc", "{", "key abc"},
		{"key", "abc", `{"id": "abc", "hash": "12"}`, "its hash is damaged"},
		{"provider", "p", "not sealed", "provider p"},
		{"offer", "o", "not sealed", "offer o"},
	} {
		r := newRig(t)
		if err := r.store.Put(c.kind, c.name, []byte(c.value)); err != nil {
			t.Fatal(err)
		}
		r.stop()
		if err := r.open(); err == nil || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%s %s: %v, want %q", c.kind, c.name, err, c.say)
		}
	}
}

// Changes at the same time all hold.
func TestChangesComeOneByOne(t *testing.T) {
	r := newRig(t)
	made := make(chan string)
	const n = 12
	for range n {
		go func() {
			_, text := serve(r.desk.Local(), "POST", "/admin/v1/keys", `{"name": "k"}`, "")
			made <- text
		}()
		go func() {
			serve(r.desk.Local(), "POST", "/admin/v1/apply", "", "")
			made <- ""
		}()
	}
	for range 2 * n {
		<-made
	}
	if keys := r.items("keys"); len(keys) != n+1 {
		t.Errorf("%d keys, want %d", len(keys), n+1)
	}
	r.restart()
	if keys := r.items("keys"); len(keys) != n+1 {
		t.Errorf("%d keys after a restart, want %d", len(keys), n+1)
	}
}
