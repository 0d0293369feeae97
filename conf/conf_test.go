package conf_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"headway/conf"
	"headway/core"
)

var update = flag.Bool("update", false, "rewrite the schemas")

// TestSchema holds the committed schema against the table.
func TestSchema(t *testing.T) {
	if *update {
		for name, text := range map[string][]byte{"headway.schema.json": conf.Schema(), "node.schema.json": conf.NodeSchema()} {
			if err := os.WriteFile(name, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !bytes.Equal(read(t, "headway.schema.json"), conf.Schema()) || !bytes.Equal(read(t, "node.schema.json"), conf.NodeSchema()) {
		t.Error("the committed schemas are not those of the tables: go test ./conf -run TestSchema -update")
	}
}

// TestReference: the reference has every key of the table, each with a comment,
// and its settings are the defaults.
func TestReference(t *testing.T) {
	if !bytes.Equal(conf.Reference(), read(t, "headway.yaml")) {
		t.Fatal("Reference is not headway.yaml")
	}
	f, err := conf.Parse("headway.yaml", conf.Reference(), env)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Notes) > 0 {
		t.Errorf("it needs advice: %q", f.Notes)
	}

	def, got := conf.Default(), *f
	got.Settings.Routing.PriceCap, got.Settings.Routing.AllowModels, got.Settings.Routing.BlockModels = core.PriceCap{}, nil, nil
	got.Settings.Routing.Auto, got.Settings.Routing.ScriptHeaders, got.Settings.Probes.PerDay = nil, nil, core.Opt[core.Money]{}
	got.NATS.Advertise, got.Settings.Retention = "", core.Retention{}
	settings := func(f conf.File) string {
		return fmt.Sprintf("%+v", []any{f.Dir, f.Listen, f.Data, f.AdminToken.Reveal(), f.Settings, f.NATS, f.LogLevel, f.LogFileBytes})
	}
	if settings(got) != settings(def) {
		t.Errorf("its settings are\n%s\nnot the defaults\n%s", settings(got), settings(def))
	}
	// What its comments call an example.
	o := f.Offers[0]
	if len(f.Offers) != 7 || o.ID != "openai/gpt-5-mini" || o.UpstreamModel != "gpt-5-mini-2025-08-07" || o.Price.Input != 250_000 ||
		o.Price.CacheRead != core.Some[core.Rate](25_000) || o.Limits.Context.V != 400_000 || o.Capacity.V != 64 ||
		o.Features.V != core.FeatureTools|core.FeatureImages|core.FeatureSchema|core.FeatureDocuments ||
		o.Provider.APIKey.Reveal() != "sk-hunter2-openai" || o.Provider.Headers["OpenAI-Project"].Reveal() != "proj_example" {
		t.Errorf("the first offer is %+v of %+v", o, o.Provider)
	}
	if a := f.Offers[2].Price.For(200_001); a.Input != 2_500_000 || f.Offers[2].Price.For(200_000).Input != 1_250_000 {
		t.Errorf("the tiered price is %+v", f.Offers[2].Price)
	}
	if f.Offers[1].Features.OK || f.Offers[1].Capacity.OK || f.Offers[3].Limits.MaxOutput.OK {
		t.Error("what is left out is not absent")
	}
	k := f.Keys[0]
	if k.ID != "ci" || !k.FromFile || k.Secret.Reveal() != "0123456789-hunter2-ci" || k.PriceCap.Output.V != 25_000_000 ||
		k.TimeValue.V != core.USD/2 || !k.ExpiresAt.V.Equal(time.Date(2030, 1, 31, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("the key is %+v", k)
	}

	everyKey(t, conf.Schema(), conf.Reference())
}

// everyKey: a reference has every key of its schema, each with a comment.
func everyKey(t *testing.T, text, reference []byte) {
	t.Helper()
	var schema any
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	var doc yaml.Node
	if err := yaml.Load(reference, &doc); err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	comments(doc.Content[0], "", documented)
	for _, path := range paths(schema, "") {
		commented, there := documented[path]
		switch {
		case !there:
			t.Errorf("%s is not in it", path)
		case !commented && !explained[path]:
			t.Errorf("%s has no comment", path)
		}
	}
}

// explained are the keys whose comment stands at another place.
var explained = map[string]bool{
	"providers[].offers[].above.input_usd_per_mtok": true, "providers[].offers[].above.output_usd_per_mtok": true,
	"providers[].offers[].above.cache_read_usd_per_mtok": true, "providers[].offers[].above.cache_write_1h_usd_per_mtok": true,
	"keys[].price_cap_usd_per_mtok.input": true, "keys[].price_cap_usd_per_mtok.output": true,
}

// paths are the keys that a schema knows.
func paths(schema any, at string) []string {
	var all []string
	m, _ := schema.(map[string]any)
	properties, _ := m["properties"].(map[string]any)
	for name, s := range properties {
		path := strings.TrimPrefix(at+"."+name, ".")
		all = append(append(all, path), paths(s, path)...)
	}
	if items, ok := m["items"]; ok {
		all = append(all, paths(items, at+"[]")...)
	}
	slices.Sort(all)
	return all
}

// comments tells of each key of a file whether it stands below a comment of its
// own anywhere.
func comments(n *yaml.Node, at string, into map[string]bool) {
	switch n.Kind {
	case yaml.SequenceNode:
		for _, c := range n.Content {
			comments(c, at+"[]", into)
			if len(c.Content) > 0 && c.HeadComment != "" { // the comment above "- key:" is the element's
				into[at+"[]."+c.Content[0].Value] = true
			}
		}
	case yaml.MappingNode:
		for i := 0; i < len(n.Content); i += 2 {
			path := strings.TrimPrefix(at+"."+n.Content[i].Value, ".")
			into[path] = into[path] || n.Content[i].HeadComment != ""
			comments(n.Content[i+1], path, into)
		}
	}
}

func TestInit(t *testing.T) {
	all := func(name string) (string, bool) { return "sk-0123456789abcdef", true }
	none := func(string) (string, bool) { return "", false }
	for _, c := range []struct {
		names []string
		env   func(string) (string, bool)
		want  []string
	}{
		{conf.Presets(), all, conf.Presets()},
		{nil, env, []string{"openai", "anthropic", "google"}},
		{nil, none, nil},
		{nil, nil, nil},
		{[]string{"ollama", "openai-responses"}, none, []string{"openai-responses", "ollama"}},
	} {
		data, err := conf.Init(c.names, c.env)
		if err != nil {
			t.Fatal(err)
		}
		f, err := conf.Parse("headway.yaml", data, all)
		if err != nil {
			t.Fatalf("what Init(%v) wrote does not load: %v\n%s", c.names, err, data)
		}
		if len(f.Notes) > 0 {
			t.Errorf("Init(%v) needs advice: %v", c.names, f.Notes)
		}
		var got []string
		for _, p := range f.Providers {
			got = append(got, string(p.ID))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("Init(%v) wrote %v, want %v", c.names, got, c.want)
		}
		if !bytes.Contains(data, []byte("as known in ")) {
			t.Errorf("Init(%v) does not say how old its prices are", c.names)
		}
		if bytes.Contains(data, []byte("sk-")) {
			t.Errorf("Init(%v) wrote a secret", c.names)
		}
	}
	// The example in the comments is one that loads.
	data, err := conf.Init(nil, none)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(data, []byte("# providers:\n")) {
		t.Fatalf("no example in\n%s", data)
	}
	at := bytes.Index(data, []byte("# providers:\n"))
	example, rest, _ := bytes.Cut(data[at:], []byte("\n\n"))
	live := append(data[:at:at], bytes.ReplaceAll(append([]byte("\n"), example...), []byte("\n# "), []byte("\n"))...)
	live = append(append(live, "\n\n"...), rest...)
	if f, err := conf.Parse("headway.yaml", live, all); err != nil || len(f.Providers) != 1 {
		t.Errorf("the example does not load: %v", err)
	}

	var e *core.Error
	if _, err := conf.Init([]string{"opnai"}, none); !errors.As(err, &e) || e.Msg != `"opnai" is no provider that init knows, did you mean openai` {
		t.Errorf("got %v", err)
	}
}

func TestLoadMissing(t *testing.T) {
	var e *core.Error
	_, err := conf.Load(filepath.Join(t.TempDir(), "headway.yaml"), env)
	if !errors.As(err, &e) || e.Kind != core.NotFound || !strings.HasSuffix(e.Msg, "headway.yaml: there is no such file") {
		t.Errorf("got %v", err)
	}
	_, err = conf.Load(t.TempDir(), env)
	if !errors.As(err, &e) || e.Kind != core.Invalid || !strings.HasSuffix(e.Msg, ": cannot be read") {
		t.Errorf("got %v", err)
	}
}

func TestExpand(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"plain": "a b c", "newline": "abc\n", "crlf": "abc\r\n", "two": "abc\n\n", "inner": "a\nb\n", "big": strings.Repeat("x", 64<<10+1),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	vars := func(name string) (string, bool) {
		v, ok := map[string]string{"A": "alpha", "EMPTY": "", "DOLLAR": "${A}$$", "_x1": "ok"}[name]
		return v, ok
	}
	for _, c := range []struct{ text, want, wrong string }{
		{"${A}", "alpha", ""},
		{"x${A}y${_x1}", "xalphayok", ""},
		{"$$A $${A} $$$$", "$A ${A} $$", ""},
		{"${DOLLAR}", "${A}$$", ""}, // what a variable holds is not expanded again
		{"${NONE:-d e}", "d e", ""},
		{"${EMPTY:-d}", "d", ""},
		{"${A:-d}", "alpha", ""},
		{"x${EMPTY}", "x", ""},
		{"${file:plain}", "a b c", ""},
		{"${file:newline}", "abc", ""},
		{"${file:crlf}", "abc", ""},
		{"${file:" + filepath.Join(dir, "newline") + "}!", "abc!", ""},
		{"${file:two}", "", "has a control character in it"},
		{"${file:inner}", "", "has a control character in it"},
		{"${file:big}", "", "the file big is over 64 KiB"},
		{"${file:none}", "", "the file none cannot be read"},
		{"${NONE}", "", "the environment variable NONE is not set"},
		{"${}", "", "is not a reference"},
		{"${1A}", "", "is not a reference"},
		{"${A", "", "is not closed"},
		{"$A", "", "a lone $"},
		{"a$", "", "a lone $"},
		{"${cmd:ls}", "", "is not a reference"},
	} {
		data, err := json.Marshal(c.text)
		if err != nil {
			t.Fatal(err)
		}
		f, err := conf.Parse(filepath.Join(dir, "headway.yaml"),
			fmt.Appendf(nil, "providers: [{id: a, format: openai, base_url: https://a.example/v1, region: %s}]", data), vars)
		switch {
		case c.wrong == "" && err != nil:
			t.Errorf("%s: %v", c.text, err)
		case c.wrong == "" && f.Providers[0].Region != c.want:
			t.Errorf("%s is %q, want %q", c.text, f.Providers[0].Region, c.want)
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%s: got %v, want %q", c.text, err, c.wrong)
		}
	}
}

// TestAdminToken: no form of an unset token may end as a token that is empty
// text, and none is a mistake (SPEC §24).
func TestAdminToken(t *testing.T) {
	for text, want := range map[string]string{
		"${NOT_SET}": "", "${EMPTY}": "", "x${NOT_SET}": "", "${NOT_SET:-a-token-of-ours}": "a-token-of-ours", "plain-token": "plain-token",
	} {
		f, err := conf.Parse("headway.yaml", []byte("admin_token: "+text), env)
		if err != nil || f.AdminToken.Reveal() != want || f.AdminToken.Empty() != (want == "") {
			t.Errorf("%s: %q, %v", text, f.AdminToken.Reveal(), err)
		}
	}
	if _, err := conf.Parse("headway.yaml", []byte("admin_token: ''"), env); err == nil {
		t.Error("an empty token was taken")
	}
}

func TestPaths(t *testing.T) {
	for _, c := range []struct{ name, text, data, scripts string }{
		{"headway.yaml", "{}", "data", ""},
		{"/etc/headway/headway.yaml", "{data: ./d, routing: {scripts: ../s}}", "/etc/headway/d", "/etc/s"},
		{"etc/headway.yaml", "{data: /var/d, routing: {scripts: s}}", "/var/d", "etc/s"},
		{"etc/headway.yaml", "{}", "etc/data", ""},
	} {
		f, err := conf.Parse(c.name, []byte(c.text), nil)
		if err != nil || f.Data != c.data || f.Scripts != c.scripts || f.Dir != filepath.Dir(c.name) || f.Path != c.name {
			t.Errorf("%s of %s: %q, %q, %v", c.text, c.name, f.Data, f.Scripts, err)
		}
	}
}

// TestSettings: each setting ends in its own place, in the unit of core.
func TestSettings(t *testing.T) {
	f, err := conf.Parse("headway.yaml", []byte(`
listen: "[::1]:0"
routing: {strategy: balanced, time_value_usd_per_hour: 0.000001, serve_own: true, auto: [a], block_models: [b], allow_models: [c],
  script_headers: [x-tenant, x-plan], price_cap_usd_per_mtok: {output: 3}}
nats: {listen: ":1", advertise: "box:2", heartbeat: 300ms, heartbeat_misses: 4}
limits: {body_mib: 1, event_mib: 2, header_timeout: 1s, first_output_min: 2s, first_output_factor: 1.5, hold: 3s, stream_idle: 4s,
  client_write: 5s, drain: 6s, script: 7ms}
breaker: {within: 1s, out: 2s, max_retry_after: 3s}
slow: {headers: 1s, first_event: 2s, first_output: 3s, output_after_event: 4s, text_after_output: 5s, visible_tps: 6.5, auth: 7s,
  routing: 8s, upload: 9s}
probes: {usd_per_day: "0.5", every: 2m}
log: {level: debug}
cors: ["*", "http://localhost:3000"]
store: {log_file_bytes: 16777216}
receipts: optional
retention: {receipts_months: 3, measurements_months: 1, audit_months: 2}
witness: {url: "https://w.example/x", key: w.example/x+8fe2e6b8+BAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := time.Second
	f.Notes = nil // TestNotes
	want := conf.File{Path: "headway.yaml", Dir: ".", Listen: "[::1]:0", Data: "data",
		Settings: core.Settings{
			Routing: core.Routing{Strategy: "balanced", TimeValue: 1_000_000, ServeOwn: true, BlockModels: []core.Model{"b"},
				AllowModels: []core.Model{"c"}, Auto: []core.Model{"a"}, ScriptHeaders: []string{"x-tenant", "x-plan"}, PriceCap: core.PriceCap{Output: core.Some[core.Rate](3_000_000)}},
			Limits: core.Limits{Body: 1 << 20, Event: 2 << 20, HeaderTimeout: s, FirstOutputMin: 2 * s, FirstOutputFactor: 1.5,
				Hold: 3 * s, StreamIdle: 4 * s, ClientWrite: 5 * s, Drain: 6 * s, Script: 7 * time.Millisecond},
			Breaker: core.Breaker{Within: s, Out: 2 * s, MaxRetryAfter: 3 * s},
			Probes:  core.Probes{PerDay: core.Some(core.USD / 2), Every: 2 * time.Minute},
			Slow: core.SlowLimits{Headers: s, FirstEvent: 2 * s, FirstOutput: 3 * s, OutputAfterEvent: 4 * s, TextAfterOutput: 5 * s,
				VisibleTPS: 6.5, Auth: 7 * s, Routing: 8 * s, Upload: 9 * s},
			Receipts:  core.ReceiptsOptional,
			Retention: core.Retention{Receipts: core.Some(3), Measurements: core.Some(1), Audit: core.Some(2)},
		},
		Witness: conf.Witness{URL: "https://w.example/x", Key: "w.example/x+8fe2e6b8+BAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
		NATS:    conf.NATS{Listen: ":1", Advertise: "box:2", Heartbeat: 300 * time.Millisecond, HeartbeatMisses: 4},
		CORS:    []string{"*", "http://localhost:3000"}, LogLevel: slog.LevelDebug, LogFileBytes: 16 << 20,
	}
	if got, want := fmt.Sprintf("%+v", *f), fmt.Sprintf("%+v", want); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestNotes: what is allowed and likely not meant is said, and does not stop
// the file.
func TestNotes(t *testing.T) {
	f, err := conf.Parse("headway.yaml", []byte(`
admin_token: short
routing: {auto: [smal, small, s], allow_models: [other], block_models: [smalll, unrelated]}
keys: [{name: k, key: 0123456789abcdef, models: [mini]}, {name: l, key: 0123456789abcdeF, models: [auto, s], allow_models: [s, auto], block_models: [auto]}]
probes: {every: 2h}
providers:
  - {id: a, format: openai, base_url: "https://a.example", offers: [{model: small, aliases: [s], input_usd_per_mtok: 0, output_usd_per_mtok: 0,
     context_tokens: 10, max_output_tokens: 11}]}
  - {id: b, format: anthropic, base_url: "https://b.example/anthropic"}
  - {id: c, format: openai, base_url: "https://c.example/v1beta/openai"}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range f.Notes {
		got = append(got, n.Path+": "+n.Reason)
	}
	want := []string{
		"admin_token: is short",
		"routing.auto[0]: no offer of this file serves smal, did you mean small",
		"routing.allow_models[0]: no offer of this file serves other",
		"routing.block_models[0]: no offer of this file serves smalll, did you mean small",
		"keys[0].models[0]: no offer of this file serves mini",
		"keys[1].models[0]: auto is no model: it opens nothing here",
		"keys[1].allow_models[1]: auto is no model: it opens nothing here",
		"probes: makes no probes",
		"providers[0].base_url: has no /v1",
		"providers[0].offers[0].max_output_tokens: is more than context_tokens, which holds input and output together",
		"providers[1].base_url: has a path: calls go to /anthropic/v1…",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
