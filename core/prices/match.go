package prices

import (
	"fmt"
	"slices"
	"strings"

	"headway/core"
)

// Asked is what an offer is looked up by.
type Asked struct {
	Host   string // of the provider's address; "" for a cloud's own
	Format core.Format
	Region string
	Model  string // what the provider calls it
}

// vendor is one who sells models, as the sheets call it.
type vendor struct {
	hosts     []string // it, and what ends in "." and it
	formats   []core.Format
	liteLLM   []string
	modelsDev []string
}

var vendors = []vendor{
	{formats: []core.Format{core.FormatBedrock, core.FormatConverse}, liteLLM: []string{"bedrock", "bedrock_converse"}, modelsDev: []string{"amazon-bedrock"}},
	{formats: []core.Format{core.FormatVertexAnthropic}, liteLLM: []string{"vertex_ai-anthropic_models"}, modelsDev: []string{"google-vertex-anthropic", "google-vertex"}},
	{formats: []core.Format{core.FormatVertexGoogle}, liteLLM: []string{"vertex_ai-language-models", "vertex_ai"}, modelsDev: []string{"google-vertex"}},
	{hosts: []string{"api.openai.com"}, liteLLM: []string{"openai"}, modelsDev: []string{"openai"}},
	{hosts: []string{"openai.azure.com", "services.ai.azure.com", "cognitiveservices.azure.com"}, liteLLM: []string{"azure", "azure_ai"}, modelsDev: []string{"azure"}},
	{hosts: []string{"api.anthropic.com"}, liteLLM: []string{"anthropic"}, modelsDev: []string{"anthropic"}},
	{hosts: []string{"generativelanguage.googleapis.com"}, liteLLM: []string{"gemini"}, modelsDev: []string{"google"}},
	{hosts: []string{"openrouter.ai"}, liteLLM: []string{"openrouter"}, modelsDev: []string{"openrouter"}},
	{hosts: []string{"api.deepseek.com"}, liteLLM: []string{"deepseek"}, modelsDev: []string{"deepseek"}},
	{hosts: []string{"api.groq.com"}, liteLLM: []string{"groq"}, modelsDev: []string{"groq"}},
	{hosts: []string{"api.mistral.ai", "codestral.mistral.ai"}, liteLLM: []string{"mistral"}, modelsDev: []string{"mistral"}},
	{hosts: []string{"api.x.ai"}, liteLLM: []string{"xai"}, modelsDev: []string{"xai"}},
	{hosts: []string{"api.together.xyz", "api.together.ai"}, liteLLM: []string{"together_ai"}, modelsDev: []string{"togetherai"}},
	{hosts: []string{"api.fireworks.ai"}, liteLLM: []string{"fireworks_ai"}, modelsDev: []string{"fireworks-ai"}},
	{hosts: []string{"api.cerebras.ai"}, liteLLM: []string{"cerebras"}, modelsDev: []string{"cerebras"}},
	{hosts: []string{"api.perplexity.ai"}, liteLLM: []string{"perplexity"}, modelsDev: []string{"perplexity"}},
	{hosts: []string{"api.cohere.ai", "api.cohere.com"}, liteLLM: []string{"cohere_chat", "cohere"}, modelsDev: []string{"cohere"}},
	{hosts: []string{"api.deepinfra.com"}, liteLLM: []string{"deepinfra"}, modelsDev: []string{"deepinfra"}},
	{hosts: []string{"api.moonshot.ai"}, liteLLM: []string{"moonshot"}, modelsDev: []string{"moonshotai"}},
	{hosts: []string{"api.sambanova.ai"}, liteLLM: []string{"sambanova"}, modelsDev: []string{"sambanova"}},
	{hosts: []string{"dashscope-intl.aliyuncs.com"}, liteLLM: []string{"dashscope"}, modelsDev: []string{"alibaba"}},
	{hosts: []string{"api.z.ai"}, liteLLM: []string{"zai"}, modelsDev: []string{"zai"}},
}

// names are those of a vendor in a sheet.
func (v *vendor) names(f Format) []string {
	switch f {
	case LiteLLM:
		return v.liteLLM
	case ModelsDev:
		return v.modelsDev
	}
	if slices.Contains(v.hosts, "openrouter.ai") { // its list is of its own prices alone
		return []string{"openrouter"}
	}
	return nil
}

func (v *vendor) sells(a *Asked) bool {
	if slices.Contains(v.formats, a.Format) {
		return true
	}
	host := strings.ToLower(a.Host)
	return slices.ContainsFunc(v.hosts, func(h string) bool { return host == h || strings.HasSuffix(host, "."+h) })
}

// Known tells whether a sheet's name of a provider is one that offers are looked up by.
func Known(f Format, provider string) bool {
	return slices.ContainsFunc(vendors, func(v vendor) bool { return slices.Contains(v.names(f), provider) })
}

// profiles are what Bedrock's names of models begin with that are served in a part of
// the world.
var profiles = []string{"global.", "us.", "us-gov.", "eu.", "apac.", "ap.", "au.", "jp.", "ca.", "sa."}

// Find gives the entry of an offer's model. why says in words why there is none: the
// provider is not known by its address, the model is not in the sheet, or is there more
// than once with other figures.
func (s *Sheet) Find(a Asked) (e *Entry, why string) {
	i := slices.IndexFunc(vendors, func(v vendor) bool { return v.sells(&a) })
	if i < 0 {
		return nil, "its provider is none that sheets name: it is looked up by its address (base_url)"
	}
	names := vendors[i].names(s.Format)
	if len(names) == 0 {
		return nil, "this sheet is of the prices of another provider"
	}
	model := ownName(a.Model)
	var found, regional []*Entry
	bare := ""
	for i := range s.Entries {
		of := &s.Entries[i]
		switch {
		case !slices.Contains(names, of.Provider):
		case of.Model == model && of.Region == "":
			found = append(found, of)
		case of.Model == model && of.Region == a.Region:
			regional = append(regional, of)
		case of.Region == "" && isProfile(model, of.Model):
			bare = of.Name
		}
	}
	if len(regional) > 0 {
		found = regional
	}
	switch {
	case len(found) == 0 && bare != "":
		return nil, fmt.Sprintf("the sheet does not have it; it has %s, without the region, whose prices may be others", quoted(bare))
	case len(found) == 0:
		return nil, "the sheet does not have it"
	}
	for _, other := range found[1:] {
		if other.figures() != found[0].figures() {
			var all []string
			for _, e := range found {
				all = append(all, quoted(e.Name))
			}
			return nil, "the sheet has it more than once, with other figures: " + strings.Join(all, ", ")
		}
	}
	return found[0], ""
}

// figures are all that an entry says of a model.
func (e *Entry) figures() any {
	return struct {
		Prices
		core.Opt[Above]
		context, input, output core.Opt[int64]
		problems               string
	}{e.Prices, e.Above, e.Context, e.MaxInput, e.MaxOutput, strings.Join(e.Problems, "\n")}
}

// ownName takes from a model's name the path that some clouds put in front of it.
func ownName(model string) string {
	switch {
	case strings.HasPrefix(model, "arn:"), strings.HasPrefix(model, "publishers/"):
		return model[strings.LastIndexByte(model, '/')+1:]
	}
	return strings.TrimPrefix(model, "models/")
}

// isProfile tells whether a name is another one in a part of the world.
func isProfile(name, of string) bool {
	return slices.ContainsFunc(profiles, func(p string) bool { return name == p+of })
}
