package adapters

import (
	"slices"
	"strings"

	"headway/core"
)

// chatDialect is what a server of chat completions takes beside, or in place of,
// what all of them take, for requests that are written anew.
type chatDialect struct {
	names []string // what a provider's dialect may call it
	hosts []string // parts of the base_url that tell it, where no dialect is named

	// thoughts is the member of an assistant's message that takes its reasoning
	// back; "" where the server wants none, or refuses it.
	thoughts string
	// parts: text and reasoning stand in one list of parts (Mistral).
	parts bool
	// details: reasoning_details and extra_content go back as they came.
	details bool
	images  bool // a message may have pictures that a model made

	completion bool     // max_completion_tokens, not max_tokens
	effort     wish     // how much reasoning is asked for
	levels     []string // only models whose name holds one of these have levels of it
	noLevels   []string // … and none of these
	topK       bool
	seed       string // its name, where it is not seed
	noUser     bool   // a tag of the end user is refused
	cache      bool   // cache_control is understood
	single     bool   // no n
	noSchema   bool   // answers in JSON, but by no schema
	files      string // what a document is written as; "" where there are none
	fileURLs   bool   // … also by its address
	stops      int    // the most stop sequences; 0 for no limit
	// prefill is said with an assistant's message that the answer goes on from,
	// and goOn beside the messages.
	prefill, goOn string
	shortIDs      bool // ids of tool calls are nine letters and digits
	// template: the model's own template writes the prompt, and many take system
	// text at the start alone and no two messages of the same role.
	template bool
}

// wish is the way in which a server is asked for reasoning.
type wish uint8

const (
	wishEffort   wish = iota // reasoning_effort
	wishOpenAI               // … of the levels that OpenAI's models have
	wishThree                // … of three levels and none
	wishNone                 // reasoning_effort: none at most; a level is the model's own
	wishNothing              // no such thing
	wishObject               // reasoning: {effort | max_tokens, exclude} (OpenRouter)
	wishSwitch               // thinking: {type} (Z.ai, Moonshot)
	wishDeepSeek             // the switch, and an effort of three levels of its own
	wishQwen                 // enable_thinking and thinking_budget
	wishTemplate             // an argument of the model's template, and reasoning_effort
)

// chatDialects are the servers that differ. The first is that of a provider
// whose dialect is not named or not known.
var chatDialects = []chatDialect{
	{files: "file"},
	{
		names: []string{"openai", "azure"}, hosts: []string{"openai.com", "openai.azure.com"}, completion: true, effort: wishOpenAI, files: "file", stops: 4,
		noLevels: []string{"gpt-3.5", "gpt-4", "chatgpt", "-chat", "o1-mini", "o1-preview"}, // they do not reason, and say so with a 400
	},
	{
		names: []string{"openrouter"}, hosts: []string{"openrouter.ai"}, thoughts: "reasoning", details: true, images: true, effort: wishObject, topK: true, cache: true,
		files: "file", fileURLs: true,
	},
	{names: []string{"vercel", "vercel-ai-gateway"}, hosts: []string{"ai-gateway.vercel"}, details: true, effort: wishObject, files: "file"},
	{names: []string{"gemini"}, hosts: []string{"generativelanguage.googleapis.com"}, details: true},
	{names: []string{"deepseek"}, hosts: []string{"api.deepseek.com"}, thoughts: "reasoning_content", effort: wishDeepSeek, single: true, noSchema: true, stops: 16},
	{names: []string{"moonshot", "kimi"}, hosts: []string{"api.moonshot."}, thoughts: "reasoning_content", effort: wishSwitch, prefill: `"partial":true`, stops: 5},
	{names: []string{"zai", "zhipu"}, hosts: []string{"api.z.ai", "bigmodel.cn"}, thoughts: "reasoning_content", effort: wishSwitch, single: true, noSchema: true, stops: 1},
	{names: []string{"qwen", "alibaba-qwen", "dashscope"}, hosts: []string{"dashscope"}, thoughts: "reasoning_content", effort: wishQwen, topK: true, prefill: `"partial":true`},
	{
		names: []string{"mistral"}, hosts: []string{"api.mistral.ai"}, parts: true, effort: wishNothing, seed: "random_seed", noUser: true,
		files: "document_url", fileURLs: true, prefill: `"prefix":true`, shortIDs: true,
	},
	{names: []string{"groq"}, hosts: []string{"api.groq.com"}, thoughts: "reasoning", completion: true, effort: wishThree, levels: []string{"gpt-oss"}, single: true, stops: 4},
	{names: []string{"xai"}, hosts: []string{"api.x.ai"}, effort: wishThree, levels: []string{"grok-3-mini", "grok-4.3", "grok-4.5"}},
	{names: []string{"cerebras"}, hosts: []string{"api.cerebras.ai"}, thoughts: "reasoning", completion: true, single: true, levels: []string{"gpt-oss"}, effort: wishThree},
	{names: []string{"together"}, hosts: []string{"api.together."}, topK: true},
	{names: []string{"fireworks"}, hosts: []string{"api.fireworks.ai"}, thoughts: "reasoning_content", topK: true},
	{names: []string{"perplexity"}, hosts: []string{"api.perplexity.ai"}, topK: true, single: true},
	{names: []string{"ollama", "ollama-openai"}, thoughts: "reasoning", effort: wishNone, single: true},
	{
		names: []string{"llamacpp", "llama-server", "llama-cpp"}, thoughts: "reasoning_content", effort: wishTemplate, topK: true, single: true, template: true,
	},
	{
		names: []string{"vllm"}, thoughts: "reasoning", effort: wishTemplate, topK: true, template: true,
		goOn: `"add_generation_prompt":false,"continue_final_message":true`,
	},
	{names: []string{"sglang"}, thoughts: "reasoning_content", effort: wishTemplate, topK: true, template: true, goOn: `"continue_final_message":true`},
	{names: []string{"gpustack", "lmstudio", "tgi"}, topK: true, template: true},
}

// dialectOf is the dialect that an offer's provider speaks.
func dialectOf(offer *core.Offer) *chatDialect {
	p := offer.Provider
	name := p.Dialect
	if p.Format == core.FormatLlamaCpp {
		name = "llamacpp"
	}
	for i := range chatDialects {
		d := &chatDialects[i]
		if name != "" && slices.Contains(d.names, name) || name == "" && slices.ContainsFunc(d.hosts, func(h string) bool { return strings.Contains(p.BaseURL, h) }) {
			return d
		}
	}
	return &chatDialects[0]
}

// leveled tells whether a model has levels of reasoning there.
func (d *chatDialect) leveled(model string) bool {
	holds := func(part string) bool { return strings.Contains(model, part) }
	return (len(d.levels) == 0 || slices.ContainsFunc(d.levels, holds)) && !slices.ContainsFunc(d.noLevels, holds)
}

// isMistral tells whether a model is one of Mistral's, which refuses a user
// message behind a tool's result and system text that is not at the start,
// whoever serves it.
func isMistral(model string) bool {
	model = strings.ToLower(model)
	return strings.Contains(model, "stral") || strings.Contains(model, "xtral") // devstral, pixtral …
}

// openAILevel is the nearest level of reasoning that a model of OpenAI's has: the
// o models have no none, GPT-5 itself has minimal in its place, later ones have
// no minimal.
func openAILevel(model, effort string) string {
	old := len(model) > 1 && model[0] == 'o' && model[1] >= '1' && model[1] <= '9'
	first := strings.HasPrefix(model, "gpt-5") && !strings.HasPrefix(model, "gpt-5.")
	switch {
	case effort == "none" && old, effort == "minimal" && !first:
		return "low"
	case effort == "none" && first:
		return "minimal"
	}
	return effort
}

// threeLevels is the nearest of low, medium, high and none.
func threeLevels(effort string) string {
	switch effort {
	case "minimal":
		return "low"
	case "xhigh":
		return "high"
	}
	return effort
}
