package conf_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"headway/conf"
	"headway/core"
)

func nodeEnv(name string) (string, bool) {
	v, ok := map[string]string{"VLLM_KEY": "sk-hunter2-vllm", "JOIN": "headway-join-abc"}[name]
	return v, ok
}

// TestNodeReference: the reference has every key of the table, each with a
// comment, and its settings are the defaults.
func TestNodeReference(t *testing.T) {
	if !bytes.Equal(conf.NodeReference(), read(t, "node.yaml")) {
		t.Fatal("NodeReference is not node.yaml")
	}
	n, err := conf.ParseNode("node.yaml", conf.NodeReference(), nodeEnv)
	if err != nil {
		t.Fatal(err)
	}
	def := conf.DefaultNode()
	if n.Data != def.Data || n.LogLevel != def.LogLevel || !n.Join.Empty() || len(n.Notes) > 0 {
		t.Errorf("its settings are %+v, not the defaults %+v", n, def)
	}
	everyKey(t, conf.NodeSchema(), conf.NodeReference())
	c := jsonschema.NewCompiler()
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(conf.NodeSchema()))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.AddResource("node.schema.json", schema); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("node.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	plain, _ := plainYAML(conf.NodeReference())
	if err := compiled.Validate(plain); err != nil {
		t.Error(err)
	}
	// What its comments call an example.
	first, big := n.Upstreams[0], n.Upstreams[1]
	if first.Name != "" || first.URL != "http://127.0.0.1:8081" || first.Format != core.FormatLlamaCpp || first.Slots.V != 4 || first.Queue.V != 16 || first.Offers != nil {
		t.Errorf("the first upstream is %+v", first)
	}
	o := big.Offers[0]
	if big.Name != "big" || big.Format != "" || big.Slots.OK || big.APIKey.Reveal() != "sk-hunter2-vllm" || len(big.Offers) != 2 ||
		o.Model != "qwen3-32b" || o.Upstream != "Qwen/Qwen3-32B" || !slices.Equal(o.Aliases, []core.Model{"qwen3"}) || o.Price.Input != 20_000 ||
		o.Price.Output != 100_000 || o.Price.For(32_769).Input != 40_000 || o.Limits.Context.V != 65_536 || o.Features.V != core.FeatureTools|core.FeatureSchema {
		t.Errorf("the second upstream is %+v", big)
	}
	if every := big.Offers[1]; every.Model != conf.EveryModel || every.Upstream != "" || every.Price.Input != 0 || every.Labels["own"] != "yes" {
		t.Errorf("what every model has is %+v", every)
	}
}

func TestNodeFile(t *testing.T) {
	n, err := conf.ParseNode("etc/node.yaml", []byte(`
join: ${JOIN}
data: d
log: {level: debug}
upstreams:
  - {url: "http://10.0.0.1:8000/v1/", queue: 0, offers: [{model: m}]}
  - {url: "https://gpu.example/llama/", name: b, fixed: true, offers: [{model: m, input_usd_per_mtok: 1}, {model: n, aliases: [o]}]}
`), nodeEnv)
	if err != nil {
		t.Fatal(err)
	}
	want := conf.Node{Path: "etc/node.yaml", Join: core.NewSecret("headway-join-abc"), Data: filepath.Join("etc", "d"), LogLevel: slog.LevelDebug,
		Upstreams: []conf.Upstream{
			{URL: "http://10.0.0.1:8000", Queue: core.Some[int64](0), Offers: []core.NodeModel{{Model: "m", Upstream: "m"}}},
			{URL: "https://gpu.example/llama", Name: "b", Fixed: true, Offers: []core.NodeModel{
				{Model: "m", Upstream: "m", Price: core.Price{Rates: core.Rates{Input: 1_000_000}}}, {Model: "n", Upstream: "n", Aliases: []core.Model{"o"}}}},
		}}
	if got, want := fmt.Sprintf("%+v", *n), fmt.Sprintf("%+v", want); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if n.Join.Reveal() != "headway-join-abc" {
		t.Error("the join string is another")
	}
}

// TestNodeFileMistakes: each with its place, none with what may be a secret.
func TestNodeFileMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"upstreams: []": "node.yaml:1:12: upstreams: is an empty list",
		"join: [a]":     "node.yaml:1:7: join: want text, not a list",
		"providers: []": "node.yaml:1:1: providers: is no known key",
		"upstreams: [{url: http://user:hunter2@h:1}]":                                                           "node.yaml:1:19: upstreams[0].url: the address has a user name in it",
		"upstreams: [{url: 'ftp://h'}]":                                                                         "node.yaml:1:19: upstreams[0].url: ",
		"upstreams: [{name: a}]":                                                                                "node.yaml:1:13: upstreams[0].url: is missing",
		"upstreams: [{url: 'http://169.254.169.254'}]":                                                          "node.yaml:1:19: upstreams[0].url: ",
		"upstreams: [{url: 'http://h'}, {url: 'http://i'}]":                                                     "node.yaml:1:32: upstreams[1].name: has no name, as upstreams[0]",
		"upstreams: [{url: 'http://h', name: a}, {url: 'http://i', name: a}]":                                   "node.yaml:1:65: upstreams[1].name: is the name of another one, upstreams[0].name",
		"upstreams: [{url: 'http://h', name: A.b}]":                                                             `node.yaml:1:37: upstreams[0].name: "A.b" is no name of a node`,
		"upstreams: [{url: 'http://h', format: anthropic}]":                                                     `node.yaml:1:39: upstreams[0].format: "anthropic" is no format`,
		"upstreams: [{url: 'http://h', slots: 0}]":                                                              "node.yaml:1:38: upstreams[0].slots: 0 is less than 1",
		"upstreams: [{url: 'http://h', fixed: true}]":                                                           "node.yaml:1:38: upstreams[0].fixed: leaves it without a model",
		"upstreams: [{url: 'http://h', fixed: true, offers: [{model: '*'}]}]":                                   `node.yaml:1:61: upstreams[0].offers[0].model: "*" stands for`,
		"upstreams: [{url: 'http://h', offers: [{model: '*', upstream_model: x}]}]":                             `node.yaml:1:69: upstreams[0].offers[0].upstream_model: "*" is every model`,
		"upstreams: [{url: 'http://h', offers: [{model: a}, {model: b, aliases: [a]}]}]":                        "node.yaml:1:73: upstreams[0].offers[1].aliases[0]: a is a name of upstreams[0].offers[0] already",
		"upstreams: [{url: 'http://h', offers: [{model: auto}]}]":                                               "node.yaml:1:48: upstreams[0].offers[0].model: auto is the Auto Router's name",
		"upstreams: [{url: 'http://h', offers: [{model: \"auto:latest\"}]}]":                                    "node.yaml:1:48: upstreams[0].offers[0].model: auto:latest is the Auto Router's name",
		"upstreams: [{url: 'http://h', offers: [{model: a, capacity: 3}]}]":                                     "node.yaml:1:51: upstreams[0].offers[0].capacity: is no known key",
		"upstreams: [{url: 'http://h', offers: [{model: a, above: {input_tokens: 1, input_usd_per_mtok: 1}}]}]": "node.yaml:1:58: upstreams[0].offers[0].above.output_usd_per_mtok: is missing",
	} {
		_, err := conf.ParseNode("node.yaml", []byte(text), nodeEnv)
		var problems conf.Problems
		if !errors.As(err, &problems) || len(problems) != 1 || !strings.HasPrefix(problems.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
		if err != nil && strings.Contains(fmt.Sprintf("%+v", problems), "hunter2") {
			t.Errorf("%s: the secret is shown: %v", text, err)
		}
	}
	var e *core.Error
	if _, err := conf.LoadNode(filepath.Join(t.TempDir(), "none.yaml"), nil); !errors.As(err, &e) || e.Kind != core.NotFound || strings.Contains(e.Hint, "init") {
		t.Errorf("no file: %v", err)
	}
}

func TestEnrol(t *testing.T) {
	e, err := conf.Enrol([]byte(`{"name": "gpu-1", "owner": "ops", "address": "box:4222"}`))
	if err != nil || e != (conf.Enrolment{Name: "gpu-1", Owner: "ops", Address: "box:4222"}) {
		t.Errorf("got %+v, %v", e, err)
	}
	for text, want := range map[string]string{
		`{}`:              "nodes.name: is missing",
		`{"name": "GPU"}`: `nodes.name: "GPU" is no name of a node`,
		`{"name": "-a"}`:  `nodes.name: "-a" is no name of a node`,
		`{"name": "a.b"}`: `nodes.name: "a.b" is no name of a node`,
		`{"name": "` + strings.Repeat("a", 64) + `"}`: `nodes.name: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…" is no name of a node`,
		`{"name": "a", "x": 1}`:                       "nodes.x: is no known key",
		`{"name": "a", "owner": ""}`:                  "nodes.owner: is empty",
		`{"name": "a", "address": "0.0.0.0:4222"}`:    "nodes.address: is no address that a node can dial",
		`{"name": "a", "address": ":4222"}`:           "nodes.address: is no address that a node can dial",
		`{"name": "a", "address": "box:0"}`:           "nodes.address: is no address that a node can dial",
		`{"name": "a", "address": "box"}`:             `nodes.address: "box" is not host:port`,
	} {
		if _, err := conf.Enrol([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}
