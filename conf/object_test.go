package conf_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"headway/conf"
	"headway/core"
)

// TestObjects: what a file holds reads, as the objects of admin calls, to the
// same, but for its secrets, which are not there.
func TestObjects(t *testing.T) {
	for _, path := range append(glob(t, "*.good.yaml"), "headway.yaml") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			f, err := conf.Load(path, env)
			if err != nil {
				t.Fatal(err)
			}
			var all bytes.Buffer
			same := func(what string, is, want any) {
				t.Helper()
				if is, want := fmt.Sprintf("%+v", is), fmt.Sprintf("%+v", want); is != want {
					t.Errorf("%s reads as\n%s\nnot\n%s", what, is, want)
				}
			}
			for _, p := range f.Providers {
				text := conf.ProviderObject(p)
				all.Write(text)
				again := *p
				again.FromFile = false // as one that is posted
				q, _, err := conf.Provider(conf.ProviderObject(&again))
				if err != nil {
					t.Fatalf("%s: %v", text, err)
				}
				same(string(p.ID), *q, again)
			}
			for _, o := range f.Offers {
				text := conf.OfferObject(o)
				all.Write(text)
				q, err := conf.Offer(text, o.Provider)
				if err != nil {
					t.Fatalf("%s: %v", text, err)
				}
				same(string(o.ID), *q, *o)
			}
			for _, k := range f.Keys {
				text := conf.KeyObject(&k.Key)
				all.Write(text)
				q, secret, err := conf.Key(text)
				if err != nil || !secret.Empty() {
					t.Fatalf("%s: %v", text, err)
				}
				q.ID, q.FromFile = k.ID, true
				same(string(k.ID), *q, k.Key)
			}
			for _, text := range conf.SettingObjects(f) {
				var v map[string]any
				if err := json.Unmarshal(text, &v); err != nil || len(v) == 0 {
					t.Errorf("not an object of settings: %s, %v", text, err)
				}
				all.Write(text)
			}
			if strings.Contains(all.String(), "hunter2") {
				t.Errorf("a secret is shown: %s", all.String())
			}
		})
	}
}

func TestSettingObjects(t *testing.T) {
	f, err := conf.Parse("headway.yaml", []byte(`
listen: 127.0.0.1:1
admin_token: 0123456789-hunter2
routing: {strategy: cheapest, block_models: [a$$b]}
limits: {drain: 5s, body_mib: 3}
cors: ["https://a.example"]
`), env)
	if err != nil {
		t.Fatal(err)
	}
	got, def := conf.SettingObjects(f), conf.Default()
	for group, want := range map[string]string{
		"cors": `{"cors":["https://a.example"]}`, "routing": `{"block_models":["a$b"],"serve_own":false,"strategy":"cheapest","time_value_usd_per_hour":"1"}`,
		"breaker": string(conf.SettingObjects(&def)["breaker"]), "listen": "", "admin_token": "", "data": "", "keys": "", "providers": "",
	} {
		if string(got[group]) != want {
			t.Errorf("%s is %s, want %s", group, got[group], want)
		}
	}
	if limits := string(got["limits"]); !strings.Contains(limits, `"body_mib":3,"client_write":"30s","drain":"5s"`) {
		t.Errorf("limits are %s", limits)
	}
}

func TestCheckScripts(t *testing.T) {
	f, err := conf.Parse("headway.yaml", []byte(`
routing: {strategy: cheepest}
keys:
  - {name: a, key: 0123456789abcdef, strategy: mine}
  - {name: b, key: 0123456789abcdeg, strategy: "${OPENAI_API_KEY}"}
  - {name: c, key: 0123456789abcdeh, strategy: balanced}
`), env)
	if err != nil {
		t.Fatal(err)
	}
	err = f.CheckScripts([]string{"mine", "theirs"})
	const want = `headway.yaml:2:21: routing.strategy: "cheepest" is no strategy, did you mean cheapest
headway.yaml:5:48: keys[1].strategy: ${OPENAI_API_KEY} is no strategy`
	var e *core.Error
	if !errors.As(err, &e) || err.Error() != want || e.Hint != "built in are price-and-wait, cheapest, fastest, fastest-first-token, balanced; the scripts are mine, theirs" {
		t.Errorf("got %v, %q", err, e.Hint)
	}
	if err := f.CheckScripts(nil); err == nil || !strings.Contains(err.Error(), `4:48: keys[0].strategy: "mine" is no strategy`) {
		t.Errorf("without scripts: %v", err)
	}
	if err := f.CheckScripts([]string{"mine", "cheepest", "sk-hunter2-openai"}); err != nil {
		t.Error(err)
	}
}
