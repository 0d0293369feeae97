package conf_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"headway/conf"
	"headway/core"
)

func TestProviderBody(t *testing.T) {
	p, offers, err := conf.Provider([]byte(`{"id": "x", "format": "openai", "base_url": "http://127.0.0.1:9/", "allow_private": true,
		"api_key": "$HOME ${NOT_SET} \ud83d\ude00", "region": null, "offers": [{"model": "mini", "input_usd_per_mtok": 0.1, "output_usd_per_mtok": "2",
		"above": {"input_tokens": 1000, "input_usd_per_mtok": 1, "output_usd_per_mtok": 1e1}, "labels": {"tier": "a"}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if p.ID != "x" || p.BaseURL != "http://127.0.0.1:9" || !p.AllowPrivate || p.FromFile || p.APIKey.Reveal() != "$HOME ${NOT_SET} 😀" || p.Region != "" {
		t.Errorf("the provider is %+v", p)
	}
	o := offers[0]
	if len(offers) != 1 || o.Provider != p || o.ID != "x/mini" || o.UpstreamModel != "mini" || o.IncludeUsage != core.UsageAuto ||
		o.Price.Input != 100_000 || o.Price.Output != 2_000_000 || o.Price.Above.V.Output != 10_000_000 || o.Labels["tier"] != "a" {
		t.Errorf("the offer is %+v", o)
	}
}

func TestCloudBodies(t *testing.T) {
	p, _, err := conf.Provider([]byte(`{"id": "x", "format": "vertex-google", "project": "p", "location": "global", "base_url": null}`))
	if err != nil || p.Project != "p" || p.Location != "global" || p.BaseURL != "" {
		t.Errorf("the provider is %+v, %v", p, err)
	}
	p, _, err = conf.Provider([]byte(`{"id": "x", "format": "bedrock", "region": "eu-central-1", "access_key_id": "id", "secret_access_key": "secret", "session_token": "session"}`))
	if err != nil || p.Region != "eu-central-1" || p.AccessKeyID != "id" || p.SecretKey.Reveal() != "secret" || p.SessionToken.Reveal() != "session" {
		t.Errorf("the provider is %+v, %v", p, err)
	}
}

func TestBadBodies(t *testing.T) {
	local := &core.Provider{ID: "local"}
	provider := func(rest string) string {
		return `{"id": "x", "format": "openai", "base_url": "https://api.example.com/v1"` + rest + `}`
	}
	at := func(url string) string {
		return fmt.Sprintf(`{"id": "x", "format": "openai", "base_url": %q}`, url)
	}
	for _, c := range []struct{ what, body, want string }{
		{"provider", at("http://127.0.0.1:9/"), "providers.base_url: 127.0.0.1 is a loopback or private address"},
		{"provider", at("http://169.254.169.254/latest/"), "providers.base_url: 169.254.169.254 is a link-local address, which is never called"},
		{"provider", at("gopher://127.0.0.1:70/"), "providers.base_url: not an http or https address"},
		{"provider", provider(`, "offers": [{"model": "m"}]`), "providers.offers[0].input_usd_per_mtok: is missing\nproviders.offers[0].output_usd_per_mtok: is missing"},
		{"provider", provider(`, "offers": [{"provider": "x", "model": "m", "input_usd_per_mtok": 1, "output_usd_per_mtok": 1}]`), "providers.offers[0].provider: is no known key"},
		{"provider", provider(`, "api_key": "a\r\nb"`), "providers.api_key: has a line break or another control character in it"},
		{"provider", provider(`, "id": "y"`), "providers.id: stands twice in one mapping"},
		{"provider", provider(`, "capacity": 1`), "providers.capacity: is no known key"},
		{"provider", `{"id": null}`, "providers.id: is missing\nproviders.format: is missing\nproviders.base_url: is missing"},
		{"provider", `{"id": "x", "format": "ollama", "base_url": null}`, "providers.base_url: is missing"},
		{"provider", `{"id": "x", "format": "vertex-google", "project": null, "location": "global"}`, "providers.project: is missing"},
		{"provider", `{"id": "x"} {}`, "providers: has data behind the JSON"},
		{"provider", `{"id": "x"`, "providers: is not JSON: it ends too early"},
		{"provider", ``, "providers: is not JSON: it ends too early"},
		{"provider", `id: x`, "providers: is not JSON at byte 1"},
		{"provider", `{"id": [1}`, "providers: is not JSON at byte 9"},
		{"provider", "{\"id\": \"\xff\"}", "providers: is not UTF-8"},
		{"provider", strings.Repeat(`[`, 100_000), "providers: is nested too deeply"},
		{"provider", `[]`, "providers: want a mapping of keys, not a list"},
		{"provider", `null`, "providers: is empty, want a mapping of keys"},
		{"offer", `{"provider": "local", "model": "m", "input_usd_per_mtok": -1, "output_usd_per_mtok": "1"}`, "offers.input_usd_per_mtok: -1 is negative"},
		{"offer", `{"provider": "other", "model": "m", "input_usd_per_mtok": 1, "output_usd_per_mtok": "1"}`, "offers.provider: is not local"},
		{"offer", `{"model": "m", "input_usd_per_mtok": 1, "output_usd_per_mtok": "1", "capacity": "2"}`, "offers.capacity: want a whole number, not text\noffers.provider: is missing"},
		{"key", `{"name": "k", "key": "hunter2"}`, "keys.key: has 7 characters, want 16 or more"},
		{"key", `{"name": "k", "budget_usd_per_day": "-0.5", "max_parallel": 0}`, `keys.budget_usd_per_day: "-0.5" is negative` + "\nkeys.max_parallel: 0 is less than 1"},
		{"key", `{"name": "k", "requests_per_minute": "10", "tokens_per_minute": 1e20}`, "keys.requests_per_minute: want a whole number, not text\nkeys.tokens_per_minute: 1e20 is no whole number in plain digits"},
		{"key", `{"name": "k", "budget_usd_per_day": "99999999999999", "budget_usd_per_week": 9000000, "budget_usd_per_month": 1e30, "time_value_usd_per_hour": "-99999999999999"}`,
			`keys.budget_usd_per_day: "99999999999999" is more than 1000000` + "\nkeys.budget_usd_per_week: 9000000 is more than 1000000\nkeys.budget_usd_per_month: 1e30 is more than 1000000\n" +
				`keys.time_value_usd_per_hour: "-99999999999999" is negative`},
		{"key", `{"name": "k", "max_parallel": 99999999999999999999, "price_cap_usd_per_mtok": {"input": "99999999999999", "output": "0.0000001"}}`,
			`keys.max_parallel: 99999999999999999999 is more than 1000000` + "\n" + `keys.price_cap_usd_per_mtok.input: "99999999999999" is more than 100000` + "\n" +
				`keys.price_cap_usd_per_mtok.output: "0.0000001" is no decimal number with at most 6 decimals`},
		{"key", `{"name": "k", "budget_usd_per_day": "99999999999999.5.5", "budget_usd_per_week": "99999999999999999999999x"}`,
			`keys.budget_usd_per_day: "99999999999999.5.5" is no decimal number with at most 12 decimals` + "\n" +
				`keys.budget_usd_per_week: "99999999999999999999999x" is no decimal number with at most 12 decimals`},
		{"key", `{"name": "k", "strategy": "../x"}`, `keys.strategy: "../x" is no name of a strategy`},
		{"key", `{"models": ["a", 2, null]}`, "keys.models[1]: want a model's name, not a number\nkeys.models[2]: is empty, want a model's name\nkeys.name: is missing"},
	} {
		var err error
		switch c.what {
		case "provider":
			_, _, err = conf.Provider([]byte(c.body))
		case "offer":
			_, err = conf.Offer([]byte(c.body), local)
		case "key":
			_, _, err = conf.Key([]byte(c.body))
		}
		var problems conf.Problems
		if !errors.As(err, &problems) || err.Error() != c.want {
			t.Errorf("%s %.80s: got\n%v\nwant\n%s", c.what, c.body, err, c.want)
		}
	}
}

func TestOfferBody(t *testing.T) {
	local := &core.Provider{ID: "local"}
	body := []byte(`{"provider": "local", "model": "m", "input_usd_per_mtok": 0, "output_usd_per_mtok": 0, "features": []}`)
	if id, err := conf.OfferProvider(body); id != "local" || err != nil {
		t.Errorf("OfferProvider gives %q, %v", id, err)
	}
	o, err := conf.Offer(body, local)
	if err != nil || o.Provider != local || o.ID != "local/m" || o.Features != core.Some[core.Feature](0) {
		t.Errorf("the offer is %+v, %v", o, err)
	}
	for _, bad := range []string{`{}`, `{"provider": 1}`, `[]`, `{`, `{"provider": ""}`} {
		if id, err := conf.OfferProvider([]byte(bad)); err == nil {
			t.Errorf("%s names %q", bad, id)
		}
	}
}

func TestKeyBody(t *testing.T) {
	k, secret, err := conf.Key([]byte(`{"name": "k", "time_value_usd_per_hour": 2.5, "expires_at": "2030-01-31", "serve_own": false}`))
	if err != nil || !secret.Empty() || k.ID != "" || k.FromFile || k.TimeValue.V != 5*core.USD/2 || !k.ExpiresAt.OK || len(k.Models) != 0 {
		t.Errorf("the key is %+v, %v", k, err)
	}
	_, secret, err = conf.Key([]byte(`{"name": "k", "key": "0123456789abcdef"}`))
	if err != nil || secret.Reveal() != "0123456789abcdef" {
		t.Errorf("the text is %q, %v", secret.Reveal(), err)
	}
}
