package conf

import (
	_ "embed" // the reference
	"fmt"
	"slices"
	"strings"

	"headway/core"
)

//go:embed headway.yaml
var reference string

// Reference is the commented file with every key: conf/headway.yaml.
func Reference() []byte { return []byte(reference) }

// pricesKnown is the month that the list prices below were last known to be
// right in.
const pricesKnown = "November 2025"

// preset is a common provider with a few of its models.
type preset struct {
	id       core.ProviderID
	format   core.Format
	dialect  string
	url      string // "" where the format has one
	settings string // more lines of its own, with the usual variables
	variable string // of its credential; "" for a server of one's own
	other    bool   // a second way to a provider that another preset reaches
	note     string
	offers   []presetOffer
}

// presetOffer has its rates in US dollars per million tokens; "" is left out.
type presetOffer struct {
	model, upstream                     string
	input, output, read, write, write1h string
	context, most                       int64
	above                               string // a whole above: value
}

// The settings of the clouds, whose credentials are in their usual places.
const (
	awsSettings    = "region: ${AWS_REGION:-us-east-1}\n"
	awsNote        = "credentials: AWS's usual places, or api_key, or access_key_id and secret_access_key"
	googleSettings = "project: ${GOOGLE_CLOUD_PROJECT}\nlocation: ${GOOGLE_CLOUD_LOCATION:-global}\n"
	googleNote     = "credentials: Google's usual places (gcloud auth application-default login), or api_key"
)

// Presets names the providers that Init knows, in the order that it writes
// them.
func Presets() []string {
	var ids []string
	for _, p := range presets() {
		ids = append(ids, string(p.id))
	}
	return ids
}

func presets() []preset {
	gpt5 := []presetOffer{
		{model: "gpt-5", input: "1.25", output: "10", read: "0.125", context: 400000, most: 128000},
		{model: "gpt-5-mini", input: "0.25", output: "2", read: "0.025", context: 400000, most: 128000},
		{model: "gpt-5-nano", input: "0.05", output: "0.4", read: "0.005", context: 400000, most: 128000},
	}
	gemini := []presetOffer{
		{model: "gemini-2.5-pro", input: "1.25", output: "10", read: "0.125", context: 1048576, most: 65536,
			above: `{input_tokens: 200000, input_usd_per_mtok: "2.5", output_usd_per_mtok: "15", cache_read_usd_per_mtok: "0.25"}`},
		{model: "gemini-2.5-flash", input: "0.3", output: "2.5", read: "0.03", context: 1048576, most: 65536},
		{model: "gemini-2.5-flash-lite", input: "0.1", output: "0.4", read: "0.01", context: 1048576, most: 65536},
	}
	return []preset{
		{id: "openai", format: core.FormatOpenAI, url: "https://api.openai.com/v1", variable: "OPENAI_API_KEY",
			offers: append(slices.Clone(gpt5), presetOffer{model: "text-embedding-3-small", input: "0.02", output: "0", context: 8192})},
		{id: "openai-responses", format: core.FormatResponses, url: "https://api.openai.com/v1", variable: "OPENAI_API_KEY", other: true, offers: gpt5},
		{id: "anthropic", format: core.FormatAnthropic, url: "https://api.anthropic.com", variable: "ANTHROPIC_API_KEY", offers: []presetOffer{
			{model: "claude-opus-4-5", input: "5", output: "25", read: "0.5", write: "6.25", write1h: "10", context: 200000, most: 64000},
			{model: "claude-sonnet-4-5", input: "3", output: "15", read: "0.3", write: "3.75", write1h: "6", context: 200000, most: 64000},
			{model: "claude-haiku-4-5", input: "1", output: "5", read: "0.1", write: "1.25", write1h: "2", context: 200000, most: 64000}}},
		{id: "google", format: core.FormatGoogle, url: "https://generativelanguage.googleapis.com", variable: "GEMINI_API_KEY", offers: gemini},
		{id: "openrouter", format: core.FormatOpenAI, dialect: "openrouter", url: "https://openrouter.ai/api/v1", variable: "OPENROUTER_API_KEY", offers: []presetOffer{
			{model: "claude-sonnet-4-5", upstream: "anthropic/claude-sonnet-4.5", input: "3", output: "15", read: "0.3", write: "3.75", context: 200000, most: 64000},
			{model: "gpt-5-mini", upstream: "openai/gpt-5-mini", input: "0.25", output: "2", read: "0.025", context: 400000, most: 128000},
			{model: "gemini-2.5-flash", upstream: "google/gemini-2.5-flash", input: "0.3", output: "2.5", context: 1048576, most: 65536}}},
		{id: "deepseek", format: core.FormatOpenAI, dialect: "deepseek", url: "https://api.deepseek.com/v1", variable: "DEEPSEEK_API_KEY", offers: []presetOffer{
			{model: "deepseek-chat", input: "0.28", output: "0.42", read: "0.028", context: 128000, most: 8192},
			{model: "deepseek-reasoner", input: "0.28", output: "0.42", read: "0.028", context: 128000, most: 65536}}},
		{id: "groq", format: core.FormatOpenAI, dialect: "groq", url: "https://api.groq.com/openai/v1", variable: "GROQ_API_KEY", offers: []presetOffer{
			{model: "gpt-oss-120b", upstream: "openai/gpt-oss-120b", input: "0.15", output: "0.6", context: 131072, most: 65536},
			{model: "llama-3.3-70b", upstream: "llama-3.3-70b-versatile", input: "0.59", output: "0.79", context: 131072, most: 32768},
			{model: "llama-3.1-8b", upstream: "llama-3.1-8b-instant", input: "0.05", output: "0.08", context: 131072, most: 131072}}},
		{id: "mistral", format: core.FormatOpenAI, dialect: "mistral", url: "https://api.mistral.ai/v1", variable: "MISTRAL_API_KEY", offers: []presetOffer{
			{model: "mistral-medium", upstream: "mistral-medium-latest", input: "0.4", output: "2", context: 131072},
			{model: "mistral-small", upstream: "mistral-small-latest", input: "0.1", output: "0.3", context: 131072},
			{model: "codestral", upstream: "codestral-latest", input: "0.3", output: "0.9", context: 256000}}},
		{id: "xai", format: core.FormatOpenAI, dialect: "xai", url: "https://api.x.ai/v1", variable: "XAI_API_KEY", offers: []presetOffer{
			{model: "grok-4", input: "3", output: "15", read: "0.75", context: 256000,
				above: `{input_tokens: 128000, input_usd_per_mtok: "6", output_usd_per_mtok: "30"}`},
			{model: "grok-4-fast", upstream: "grok-4-fast-reasoning", input: "0.2", output: "0.5", read: "0.05", context: 2000000,
				above: `{input_tokens: 128000, input_usd_per_mtok: "0.4", output_usd_per_mtok: "1"}`}}},
		{id: "together", format: core.FormatOpenAI, dialect: "together", url: "https://api.together.xyz/v1", variable: "TOGETHER_API_KEY", offers: []presetOffer{
			{model: "gpt-oss-120b", upstream: "openai/gpt-oss-120b", input: "0.15", output: "0.6", context: 131072},
			{model: "llama-3.3-70b", upstream: "meta-llama/Llama-3.3-70B-Instruct-Turbo", input: "0.88", output: "0.88", context: 131072}}},
		{id: "llamacpp", format: core.FormatLlamaCpp, url: "http://127.0.0.1:8081",
			note:   "llama-server --port 8081 (its own default, 8080, is Headway's here); the model's name is yours to choose",
			offers: []presetOffer{{model: "local", input: "0", output: "0"}}},
		{id: "bedrock", format: core.FormatBedrock, settings: awsSettings, other: true, note: awsNote, offers: []presetOffer{
			{model: "claude-opus-4-5", upstream: "global.anthropic.claude-opus-4-5-20251101-v1:0", input: "5", output: "25", read: "0.5", write: "6.25", write1h: "10", context: 200000, most: 64000},
			{model: "claude-sonnet-4-5", upstream: "global.anthropic.claude-sonnet-4-5-20250929-v1:0", input: "3", output: "15", read: "0.3", write: "3.75", write1h: "6", context: 200000, most: 64000},
			{model: "claude-haiku-4-5", upstream: "global.anthropic.claude-haiku-4-5-20251001-v1:0", input: "1", output: "5", read: "0.1", write: "1.25", write1h: "2", context: 200000, most: 64000}}},
		{id: "bedrock-converse", format: core.FormatConverse, settings: awsSettings, other: true, note: awsNote, offers: []presetOffer{
			{model: "nova-pro", upstream: "amazon.nova-pro-v1:0", input: "0.8", output: "3.2", read: "0.2", context: 300000},
			{model: "nova-lite", upstream: "amazon.nova-lite-v1:0", input: "0.06", output: "0.24", read: "0.015", context: 300000}}},
		{id: "vertex-anthropic", format: core.FormatVertexAnthropic, settings: googleSettings, other: true, note: googleNote, offers: []presetOffer{
			{model: "claude-opus-4-5", upstream: "claude-opus-4-5@20251101", input: "5", output: "25", read: "0.5", write: "6.25", write1h: "10", context: 200000, most: 64000},
			{model: "claude-sonnet-4-5", upstream: "claude-sonnet-4-5@20250929", input: "3", output: "15", read: "0.3", write: "3.75", write1h: "6", context: 200000, most: 64000},
			{model: "claude-haiku-4-5", upstream: "claude-haiku-4-5@20251001", input: "1", output: "5", read: "0.1", write: "1.25", write1h: "2", context: 200000, most: 64000}}},
		{id: "vertex-google", format: core.FormatVertexGoogle, settings: googleSettings, other: true, note: googleNote, offers: gemini},
		{id: "ollama", format: core.FormatOllama, url: "http://127.0.0.1:11434",
			note:   "list what it has with `ollama list`",
			offers: []presetOffer{{model: "qwen3:8b", input: "0", output: "0"}}},
		{id: "vllm", format: core.FormatOpenAI, dialect: "vllm", url: "http://127.0.0.1:8000/v1",
			note:   "the name that `vllm serve` was given",
			offers: []presetOffer{{model: "qwen3-8b", upstream: "Qwen/Qwen3-8B", input: "0", output: "0"}}},
	}
}

// Init writes a short commented headway.yaml with the providers of those names,
// of Presets. Without names it takes those whose usual variable env knows, and
// where there is none it writes an example in comments. The error is a
// *core.Error (Invalid) for a name that is no preset.
func Init(names []string, env func(string) (string, bool)) ([]byte, error) {
	var chosen []preset
	for _, name := range names {
		if !slices.Contains(Presets(), name) {
			return nil, &core.Error{Kind: core.Invalid, Msg: fmt.Sprintf("%q is no provider that init knows%s", name, DidYouMean(name, Presets())),
				Hint: "one of " + strings.Join(Presets(), ", ")}
		}
	}
	for _, p := range presets() {
		set := ""
		if env != nil && p.variable != "" {
			set, _ = env(p.variable)
		}
		if slices.Contains(names, string(p.id)) || len(names) == 0 && set != "" && !p.other {
			chosen = append(chosen, p)
		}
	}
	var out strings.Builder
	out.WriteString(initHead)
	fmt.Fprintf(&out, "# List prices in US dollars per million tokens, as known in %s: models and prices change, so check each one\n"+
		"# with its provider before you rely on a charge.\n", pricesKnown)
	if len(chosen) == 0 {
		out.WriteString("#\n# No provider was named, and no usual variable (OPENAI_API_KEY …) is set. Take the # away from this example, or run\n" +
			"# `headway init` with names: " + strings.Join(Presets(), ", ") + ".\n")
		for line := range strings.Lines("providers:\n" + presets()[0].yaml()) {
			out.WriteString("# " + line)
		}
	} else {
		out.WriteString("providers:\n")
		for _, p := range chosen {
			out.WriteString(p.yaml())
		}
	}
	out.WriteString(initTail)
	return []byte(out.String()), nil
}

const initHead = `# Headway's configuration. Every key there is, with what it does: conf/headway.yaml in Headway's repository.
# ` + "`headway check FILE` checks it, `headway serve --config FILE`" + ` starts with it; left out, FILE is ./headway.yaml.

# One address for the model APIs and the admin API. Other machines can call only if it is not a loopback address.
listen: 127.0.0.1:8080
data: ./data

routing:
  strategy: price-and-wait        # charge + predicted wait × what your time is worth
  time_value_usd_per_hour: "1"    # higher: faster and dearer offers

`

const initTail = `
# Callers' keys are made with ` + "`headway key create`" + `. A key can also stand here:
# keys:
#   - name: ci
#     key: ${CI_KEY}              # 16 characters or more
`

// yaml is the provider as an element of providers:.
func (p preset) yaml() string {
	var out strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	line("  - id: %s", p.id)
	line("    format: %s", p.format)
	if p.dialect != "" {
		line("    dialect: %s", p.dialect)
	}
	if p.url != "" {
		line("    base_url: %s", p.url)
	}
	for setting := range strings.Lines(p.settings) {
		out.WriteString("    " + setting)
	}
	if p.variable != "" {
		line("    api_key: ${%s}", p.variable)
	}
	if p.note != "" {
		line("    # %s", p.note)
	}
	line("    offers:")
	for _, o := range p.offers {
		line("      - model: %s", o.model)
		if o.upstream != "" {
			line("        upstream_model: %s", o.upstream)
		}
		for _, r := range []struct{ name, rate string }{
			{"input", o.input}, {"output", o.output}, {"cache_read", o.read}, {"cache_write", o.write}, {"cache_write_1h", o.write1h},
		} {
			if r.rate != "" {
				line("        %s_usd_per_mtok: %q", r.name, r.rate)
			}
		}
		if o.above != "" {
			line("        above: %s", o.above)
		}
		if o.context > 0 {
			line("        context_tokens: %d", o.context)
		}
		if o.most > 0 {
			line("        max_output_tokens: %d", o.most)
		}
	}
	return out.String()
}
