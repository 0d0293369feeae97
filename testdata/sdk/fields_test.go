package sdktest

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write adapters/FIELDS.md anew")

// spoken is what the table says of one client format: the documented fields and,
// for each, a request that has it.
type spoken struct {
	api, title string
	path       string // where calls go; %s is the model
	// base is what every request has that its sample does not give.
	base map[string]string
	// documented are the fields that the SDK's types have.
	documented func(whole func(path string) bool) []string
	// shared are pieces of samples, by the name that samples have for them.
	shared []string
	// samples are the members of a request's body, by field. What stands between
	// « and » is there with the field and not without it; «this|that» is this with
	// it and that without.
	samples []sample
	// needless are what a provider of another format is not asked, and why.
	needless []needless
}

// needless is a field that means nothing to providers of the formats named (all
// where none is), so that nobody need be told that it is left out.
type needless struct{ field, formats, why string }

func (n needless) holds(field, format string) bool {
	return n.field == field && (n.formats == "" || slices.Contains(strings.Fields(n.formats), format))
}

// sample shows a field. What the upstream must get with the field alone is seek;
// where that is empty, one of the marks that the sample has. Where there is none,
// or seek is "*", it must get anything else than without the field.
type sample struct{ field, members, seek string }

// marks are values that no request has but where a sample has them.
var marks = []string{"zebra", "0.37", "4321"}

// target is a provider's format, a usual model of such a provider, as what it
// takes is for some formats the model's own affair, and what the configuration
// needs.
type target struct{ format, short, model, settings string }

var targets = []target{
	{"openai", "openai", "gpt-oss-120b", "    base_url: %s/v1\n    api_key: KEY\n"},
	{"openai-responses", "responses", "gpt-5.1", "    base_url: %s/v1\n    api_key: KEY\n"},
	{"anthropic", "anthropic", "claude-sonnet-4-5", "    base_url: %s\n    api_key: KEY\n"},
	{"google", "google", "gemini-3-pro-preview", "    base_url: %s\n    api_key: KEY\n"},
	{"bedrock", "bedrock", "eu.anthropic.claude-sonnet-4-5-20250929-v1:0", "    base_url: %s\n    region: eu-west-1\n    api_key: KEY\n"},
	{"bedrock-converse", "converse", "eu.anthropic.claude-sonnet-4-5-20250929-v1:0", "    base_url: %s\n    region: eu-west-1\n    api_key: KEY\n"},
	{"vertex-anthropic", "vertex-a", "claude-sonnet-4-5@20250929", "    base_url: %s\n    project: p\n    location: global\n    api_key: KEY\n"},
	{"vertex-google", "vertex-g", "gemini-3-pro-preview", "    base_url: %s\n    project: p\n    location: global\n    api_key: KEY\n"},
	{"ollama", "ollama", "gpt-oss:20b", "    base_url: %s\n"},
	{"llamacpp", "llamacpp", "qwen3", "    base_url: %s\n"},
}

// outcome is what became of a field.
type outcome string

const (
	arrived outcome = "✓"
	dropped outcome = "dropped"
	refused outcome = "refused"
	idle    outcome = "–"
	lost    outcome = "LOST"
)

// TestFields sends every documented field of every client format to every
// provider format and sees that it arrived, was refused, or was named among what
// was left out. The outcome is adapters/FIELDS.md.
func TestFields(t *testing.T) {
	sinks := make([]*sink, len(targets))
	var config strings.Builder
	fmt.Fprintf(&config, "listen: 127.0.0.1:0\nadmin_token: ${HEADWAY_ADMIN_TOKEN}\nbreaker: {within: 1ms, out: 1ms}\n")
	fmt.Fprintf(&config, "keys:\n  - {name: sdk, key: %s}\nproviders:\n", callerKey)
	for i, to := range targets {
		sinks[i] = &sink{}
		server := httptest.NewServer(sinks[i])
		t.Cleanup(server.Close)
		fmt.Fprintf(&config, "  - id: %s\n    format: %s\n", to.format, to.format)
		config.WriteString(strings.ReplaceAll(fmt.Sprintf(to.settings, server.URL), "KEY", providerKey))
		fmt.Fprintf(&config, "    offers:\n      - {model: to-%s, upstream_model: %q, input_usd_per_mtok: \"1\", output_usd_per_mtok: \"1\"}\n", to.format, to.model)
	}
	h := serve(t, config.String())

	all := []*spoken{chatFields(), responsesFields(), messagesFields(), generateFields()}
	tables := make([]map[string][]outcome, len(all))
	for i, s := range all {
		s.check(t)
		s.sort()
		tables[i] = map[string][]outcome{}
		for _, sample := range s.samples {
			tables[i][sample.field] = make([]outcome, len(targets))
		}
	}
	t.Run("targets", func(t *testing.T) {
		for n, to := range targets {
			t.Run(to.format, func(t *testing.T) {
				t.Parallel()
				for i, s := range all {
					if to.format == providerOf(s.api) {
						continue
					}
					c := &courier{t: t, base: h.base, spoken: s, model: "to-" + to.format, sink: sinks[n], known: map[string]reply{}}
					for _, sample := range s.samples {
						what, why := c.outcome(sample)
						if what == lost && slices.ContainsFunc(s.needless, func(n needless) bool { return n.holds(sample.field, to.format) }) {
							what = idle
						}
						if tables[i][sample.field][n] = what; what == lost {
							t.Errorf("%s: %s", sample.field, why)
						}
					}
				}
			})
		}
	})
	for i, s := range all {
		for _, n := range s.needless {
			if row := tables[i][n.field]; !slices.Contains(row, idle) {
				t.Errorf("%s: %s is said to mean nothing to others, but became %v", s.title, n.field, row)
			}
		}
	}
	document(t, all, tables)
}

// check holds the samples against the documented fields.
func (s *spoken) check(t *testing.T) {
	sampled := map[string]bool{}
	for _, sample := range s.samples {
		if sampled[sample.field] {
			t.Errorf("%s: %s has two samples", s.title, sample.field)
		}
		sampled[sample.field] = true
	}
	for _, field := range slices.Compact(s.documented(func(path string) bool { return sampled[path] })) {
		if !sampled[field] {
			t.Errorf("%s: the SDK's types have %s, for which no sample says how to ask for it", s.title, field)
		}
	}
}

// sort puts the samples of one member of the body together.
func (s *spoken) sort() {
	var tops []string
	top := func(field string) int {
		name := member.FindString(field)
		if !slices.Contains(tops, name) {
			tops = append(tops, name)
		}
		return slices.Index(tops, name)
	}
	for _, sample := range s.samples {
		top(sample.field)
	}
	slices.SortStableFunc(s.samples, func(a, b sample) int { return top(a.field) - top(b.field) })
}

var member = regexp.MustCompile(`^\w+`)

// body is a request with a sample's field, or without.
func (s *spoken) body(t *testing.T, sample sample, model string, with bool) string {
	shared := strings.NewReplacer(s.shared...)
	members := choice.ReplaceAllStringFunc(sample.members, func(m string) string {
		here, there, _ := strings.Cut(strings.Trim(m, "«»"), "|")
		if with {
			return here
		}
		return there
	})
	members = shared.Replace(shared.Replace(members)) // pieces have pieces in them
	own := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte("{"+members+"}"), &own); err != nil {
		t.Fatalf("%s: the sample makes %s: %v", sample.field, members, err)
	}
	for name, value := range s.base {
		if own[name] == nil {
			own[name] = json.RawMessage(strings.ReplaceAll(shared.Replace(value), "$MODEL", model))
		}
	}
	body, err := json.Marshal(own)
	if err != nil {
		t.Fatalf("%s: %v", sample.field, err)
	}
	return string(body)
}

var choice = regexp.MustCompile(`«[^»]*»`)
