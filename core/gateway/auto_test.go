package gateway_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"headway/core"
	"headway/core/gateway"
	"headway/core/ledger"
	"headway/core/market"
)

// autoRig is a rig whose upstreams each serve a model of their own, named as they
// are, with an Auto Router over all of them. What they are called upstream is
// left to the model's name, but for the last.
func autoRig(t *testing.T, key core.Key, offers ...offer) *rig {
	t.Helper()
	r := newRig(t, nil, offers...)
	var providers []*core.Provider
	var list []*core.Offer
	for i, o := range offers {
		old := r.catalogue.Offer(core.OfferID(o.name + "/mini")).Offer
		of := *old
		of.ID, of.Model, of.UpstreamModel = core.OfferID(o.name), core.Model("model-"+o.name), ""
		if i == len(offers)-1 {
			of.UpstreamModel = "upstream-" + o.name
		}
		providers, list = append(providers, of.Provider), append(list, &of)
	}
	var err error
	if r.catalogue, err = market.NewCatalogue(providers, list, nil); err != nil {
		t.Fatal(err)
	}
	settings := r.gw.Setup().Settings
	for _, o := range list {
		settings.Routing.Auto = append(settings.Routing.Auto, o.Model)
	}
	r.gw.Swap(&gateway.Setup{Settings: settings, Catalogue: r.catalogue})
	key.ID, key.Hash = "test", (&ledger.Pepper{}).Hash(clientKey)
	r.gw.Keys.Set([]*core.Key{&key})
	return r
}

// asksAuto is a call for the model auto.
func (w wire) asksAuto(r *rig, streamed bool) answer {
	path := w.path
	if streamed {
		path = w.stream
	}
	return r.post(strings.Replace(path, "models/mini", "models/auto", 1), strings.Replace(w.ask(prompt, streamed), `"mini"`, `"auto"`, 1),
		"anthropic-version", "2023-06-01")
}

// asked is the model that an upstream was asked for.
func (u *upstream) asked(t *testing.T, i int) string {
	t.Helper()
	if name, google := strings.CutPrefix(u.requests[i].URL.Path, "/v1beta/models/"); google {
		name, _, _ = strings.Cut(name, ":")
		return name
	}
	var body struct{ Model string }
	if err := json.Unmarshal([]byte(u.bodies[i]), &body); err != nil {
		t.Error(err)
	}
	return body.Model
}

// TestAutoCall asks for auto in every format, of a provider of the same format
// and of another one: the first of the pool fails, the second answers, each asked
// for its own model by the name that its provider has for it.
func TestAutoCall(t *testing.T) {
	for _, client := range wires() {
		for _, provider := range wires() {
			if client.format == provider.format && client.name != provider.name || provider.name == "google array" && client.name != provider.name {
				continue
			}
			for _, streamed := range []bool{true, false} {
				if client.name == "google array" && !streamed {
					continue
				}
				name := client.name + " to " + provider.name
				if streamed {
					name += " streamed"
				}
				t.Run(name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						fails := provider.offer("a", step{10 * ms, status(500, "", `{"error":{"message":"down","type":"server_error"}}`)})
						r := autoRig(t, core.Key{Strategy: "cheapest"}, fails, provider.good("b", "tea", streamed))
						a := client.asksAuto(r, streamed)
						client.reads(t, a, "tea", streamed)
						if got := r.upstreams["a"].asked(t, 0); got != "model-a" {
							t.Errorf("the first was asked for %q", got)
						}
						if got := r.upstreams["b"].asked(t, 0); got != "upstream-b" {
							t.Errorf("the second was asked for %q", got)
						}
						if strings.Contains(strings.Join(append(r.upstreams["a"].bodies, r.upstreams["b"].bodies...), ""), `"auto"`) {
							t.Error("an upstream was told of auto")
						}
						// A translated answer is written anew; it names the model that answered.
						if client.format != provider.format && !strings.Contains(a.body, `"model-b"`) || strings.Contains(a.body, `odel":"auto"`) {
							t.Errorf("the answer does not name the model: %.600s", a.body)
						}
						rec := r.only()
						if rec.Model != "model-b" || rec.Offer != "b" || rec.Outcome != core.Settled || len(rec.Attempts) != 2 {
							t.Errorf("receipt of model %s, offer %s: %s after %d attempts", rec.Model, rec.Offer, rec.Outcome, len(rec.Attempts))
						}
						if d := rec.Decision; d.Strategy != "auto" || d.RankedOn != "output-speed" || len(d.Offers) != 2 {
							t.Errorf("decision %+v", d)
						}
					})
				})
			}
		}
	}
}

// TestAutoFollowsSpeed lets one of the pool be measured: it then goes first,
// though it is the dearest.
func TestAutoFollowsSpeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fast := offer{name: "c", script: []step{{10 * ms, streamHead + chunk(role)}, {20 * ms, chunk(text("one "))}, {30 * ms, chunk(text("two "))},
			{40 * ms, chunk(text("three "))}, {50 * ms, chunk(text("four "))}, {60 * ms, chunk(finish+usage(8, 40)+done) + lastChunk}}}
		r := autoRig(t, core.Key{}, good("a", "fine"), fast)
		ask := func(model string) string {
			a := r.post("/v1/chat/completions", strings.Replace(askStream, "mini", model, 1))
			if a.status != 200 {
				t.Fatalf("status %d: %s", a.status, a.body)
			}
			return a.header.Get("X-Headway-Offer")
		}
		if got := ask("auto"); got != "a" {
			t.Errorf("nothing is measured: %s, want the cheapest", got)
		}
		for range 4 {
			ask("model-c")
		}
		r.board.Rows(nil)
		if got := ask("auto"); got != "a" {
			t.Errorf("four jobs are too few: %s", got)
		}
		ask("model-c")
		r.board.Rows(nil)
		if got := ask("auto"); got != "c" {
			t.Errorf("%s, want the one that is measured", got)
		}
	})
}

func TestAutoIsAKeysOwn(t *testing.T) {
	for _, c := range []struct {
		name   string
		key    core.Key
		listed bool
		offer  string // that answers
		status int
	}{
		{"no restriction", core.Key{}, true, "a", 200},
		{"one of the pool", core.Key{Models: []core.Model{"model-b"}}, true, "b", 200},
		{"one is blocked", core.Key{BlockModels: []core.Model{"model-a"}}, true, "b", 200},
		{"none of the pool", core.Key{Models: []core.Model{"another"}}, false, "", 403},
		{"auto alone", core.Key{Models: []core.Model{"auto"}}, false, "", 403},
		{"auto blocked", core.Key{BlockModels: []core.Model{"auto"}}, false, "", 403},
		{"too dear", core.Key{PriceCap: core.PriceCap{Input: core.Some(core.Rate(1))}}, true, "", 503},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := autoRig(t, c.key, good("a", "tea"), good("b", "tea"))
				a := r.post("/v1/chat/completions", strings.Replace(askStream, "mini", "auto", 1))
				if a.status != c.status || a.header.Get("X-Headway-Offer") != c.offer {
					t.Errorf("status %d from %q, want %d from %q: %s", a.status, a.header.Get("X-Headway-Offer"), c.status, c.offer, a.body)
				}
				for path, field := range map[string]string{"/v1/models": "id", "/v1beta/models": "name", "/v1/models?anthropic": "id"} {
					var headers []string
					if strings.HasSuffix(path, "anthropic") {
						headers = []string{"anthropic-version", "2023-06-01"}
					}
					names := r.models(path, field, headers...)
					if slices.Contains(names, "auto") != c.listed {
						t.Errorf("%s lists %q", path, names)
					}
					if !slices.IsSorted(names) {
						t.Errorf("%s is not in order: %q", path, names)
					}
				}
				want := 404
				if c.listed {
					want = 200
				}
				for _, path := range []string{"/v1/models/auto", "/v1beta/models/auto"} {
					if got := r.list(path).status; got != want {
						t.Errorf("%s: status %d, want %d", path, got, want)
					}
				}
				near := r.post("/v1/chat/completions", strings.Replace(askStream, "mini", "autos", 1))
				if near.status != 404 || strings.Contains(near.body, `\"auto\"`) != c.listed {
					t.Errorf("near autos: %d %s", near.status, near.body)
				}
			})
		})
	}
}

func TestNoAutoWithoutAPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, good("a", "tea"))
		if a := r.post("/v1/chat/completions", strings.Replace(askStream, "mini", "auto", 1)); a.status != 404 {
			t.Errorf("status %d: %s", a.status, a.body)
		}
		if names := r.models("/v1/models", "id"); slices.Contains(names, "auto") {
			t.Errorf("listed: %q", names)
		}
	})
}

// TestAliasCountsForItsModel asks by another name: the receipt, and with it the
// measures, are of the model.
func TestAliasCountsForItsModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, good("a", "tea"))
		o := *r.catalogue.Offer("a/mini").Offer
		o.Aliases = []core.Model{"tiny"}
		var err error
		if r.catalogue, err = market.NewCatalogue([]*core.Provider{o.Provider}, []*core.Offer{&o}, nil); err != nil {
			t.Fatal(err)
		}
		r.gw.Swap(&gateway.Setup{Settings: r.gw.Setup().Settings, Catalogue: r.catalogue})
		for _, name := range []string{"tiny", "mini", "tiny:latest"} {
			a := r.post("/v1/chat/completions", strings.Replace(askStream, "mini", name, 1))
			if a.status != 200 {
				t.Fatalf("%s: status %d: %s", name, a.status, a.body)
			}
			if rec := r.receipt(a.id()); rec.Model != "mini" {
				t.Errorf("%s: the receipt is of model %q", name, rec.Model)
			}
		}
		r.board.Rows(nil)
		if m := r.board.Measures("a", "mini").BaseLatency; m.Jobs != 3 || m.Basis != core.BasisToday {
			t.Errorf("the model's base latency is of %d jobs, %s", m.Jobs, m.Basis)
		}
		if m := r.board.Measures("a", "tiny").BaseLatency; m.Jobs != 0 {
			t.Errorf("the alias has %d jobs of its own", m.Jobs)
		}
		if c := r.board.Counts("a", "mini"); c.BaseLatency != 3 {
			t.Errorf("%+v", c)
		}
		for i, body := range r.upstreams["a"].bodies {
			if got := r.upstreams["a"].asked(t, i); got != "mini" {
				t.Errorf("the upstream was asked for %q: %s", got, body)
			}
		}
		w := r.list("/metrics").body
		if strings.Contains(w, `model="tiny`) || !strings.Contains(w, `model="mini"`) {
			t.Error("the metrics name the alias")
		}
	})
}

// list reads a path with the client's key.
func (r *rig) list(path string, headers ...string) answer {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), "GET", "http://gateway"+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+clientKey)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return answer{status: resp.StatusCode, header: resp.Header, body: string(data), err: err}
}

// models are the names that a list has.
func (r *rig) models(path, field string, headers ...string) (names []string) {
	r.t.Helper()
	a := r.list(path, headers...)
	var list struct{ Data, Models []map[string]any }
	if err := json.Unmarshal([]byte(a.body), &list); err != nil {
		r.t.Fatalf("%s: %v: %s", path, err, a.body)
	}
	for _, m := range append(list.Data, list.Models...) {
		name, _ := m[field].(string)
		names = append(names, strings.TrimPrefix(name, "models/"))
	}
	return names
}
