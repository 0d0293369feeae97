// Package prices reads the price sheets that others publish for many providers and
// models, exactly: what is not understood, or is no whole picodollar for a token, is
// named and left out.
package prices

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"headway/core"
)

// Format is which sheet it is.
type Format string

// The formats that are known.
const (
	LiteLLM    Format = "litellm"    // model_prices_and_context_window.json
	ModelsDev  Format = "models.dev" // api.json
	OpenRouter Format = "openrouter" // /api/v1/models
)

// Sheet is a price sheet.
type Sheet struct {
	Format  Format
	Entries []Entry
	// Unread counts what was not read, by what it is: fields that are about prices and
	// are none that an offer has, and entries that are of no model.
	Unread map[string]int
}

// Entry is what a sheet says of one model at one provider. What it does not say is
// absent.
type Entry struct {
	Provider string // as the sheet calls it
	Model    string // as the provider calls it
	Name     string // as the sheet calls it, to be shown
	Region   string // where the entry is of one alone
	Prices
	Above core.Opt[Above]
	// Context is the most input and output together, MaxInput the most input alone: a
	// sheet has one of them.
	Context, MaxInput core.Opt[int64]
	MaxOutput         core.Opt[int64]
	// Problems are what is wrong with it, a sentence each, Unread the names of what was
	// not read of it.
	Problems []string
	Unread   []string
}

// Prices are the rates that an entry has.
type Prices struct {
	Input, Output, CacheRead, CacheWrite, CacheWrite1h core.Opt[core.Rate]
}

// Above are the rates of the whole call where its input is more.
type Above struct {
	InputTokens int64
	Prices
}

// Read reads a sheet and finds out which it is.
func Read(text []byte) (*Sheet, error) {
	root, err := parse(bytes.TrimPrefix(text, []byte("\ufeff")))
	if err != nil {
		return nil, err
	}
	s := &Sheet{Unread: map[string]int{}}
	switch {
	case root.kind == isObject && isOpenRouter(root):
		s.Format = OpenRouter
		s.openRouter(root.get("data"))
	case root.kind == isObject && slices.ContainsFunc(root.names, func(n string) bool { m := root.get(n).get("models"); return m != nil && m.kind == isObject }):
		s.Format = ModelsDev
		s.modelsDev(root)
	case root.kind == isObject && slices.ContainsFunc(root.names, func(n string) bool { return root.get(n).get("litellm_provider") != nil }):
		s.Format = LiteLLM
		s.liteLLM(root)
	default:
		e := core.Errorf(core.Invalid, "it is none of the price sheets that are known")
		e.Hint = "those of litellm (model_prices_and_context_window.json), models.dev (api.json) and OpenRouter (/api/v1/models) are"
		return nil, e
	}
	for i := range s.Entries {
		slices.Sort(s.Entries[i].Unread)
		for _, name := range s.Entries[i].Unread {
			s.Unread[name]++
		}
	}
	return s, nil
}

func isOpenRouter(root *value) bool {
	data := root.get("data")
	return data != nil && data.kind == isList && slices.ContainsFunc(data.list, func(v value) bool { return v.get("pricing") != nil && v.get("id") != nil })
}

func (e *Entry) problem(name string, err error) {
	e.Problems = append(e.Problems, name+": "+err.Error())
}

// rate reads a price; texts says that the sheet writes them as text.
func (e *Entry) rate(name string, v *value, places int, texts bool) (r core.Opt[core.Rate]) {
	switch {
	case v == nil:
		return r
	case v.kind != isNumber && !(texts && v.kind == isText):
		e.problem(name, core.Errorf(core.Invalid, "it is no number"))
		return r
	}
	n, err := exactly(v.text, places)
	if err != nil {
		e.problem(name, err)
		return r
	}
	return core.Some(n)
}

// tokens reads a number of tokens; one that is none says nothing.
func (e *Entry) tokens(name string, v *value) (n core.Opt[int64]) {
	if v == nil {
		return n
	}
	if c, ok := count(v.text); ok && v.kind == isNumber {
		return core.Some(c)
	}
	if v.text != "0" {
		e.problem(name, core.Errorf(core.Invalid, "it is no number of tokens"))
	}
	return n
}

// spares tells whether a value says nothing: absent, nothing, or 0.
func spares(v *value) bool {
	if v == nil || v.kind == isNull || v.kind == isBool {
		return true
	}
	n, err := exactly(v.text, perToken)
	return err == nil && n == 0 && (v.kind == isNumber || v.kind == isText)
}

// tier sets the second tier where there is one alone.
func (e *Entry) tier(tiers map[int64]*Prices) {
	if len(tiers) > 1 {
		e.Problems = append(e.Problems, "it has "+strconv.Itoa(len(tiers))+" tiers of prices, and an offer has one")
		return
	}
	for at, p := range tiers {
		if !p.Input.OK || !p.Output.OK {
			e.Problems = append(e.Problems, "its tier above "+strconv.FormatInt(at, 10)+" tokens has no price for input or for output")
			return
		}
		e.Above = core.Some(Above{at, *p})
	}
}

// aboutPrices tells whether a field's name is about what something costs.
func aboutPrices(name string) bool {
	return strings.Contains(name, "cost") || strings.Contains(name, "price") || strings.Contains(name, "pricing")
}

// liteLLM reads a map of models by their names, with a provider each.
func (s *Sheet) liteLLM(root *value) {
	for _, name := range root.names {
		of := root.get(name)
		if name == "sample_spec" { // it documents the fields
			continue
		}
		if of == nil || of.kind != isObject || of.get("litellm_provider") == nil || of.get("litellm_provider").kind != isText {
			s.Unread["entries without litellm_provider"]++
			continue
		}
		e := Entry{Provider: of.get("litellm_provider").text, Name: name}
		e.Model, e.Region = liteLLMModel(name, e.Provider)
		tiers := map[int64]*Prices{}
		for _, field := range of.names {
			v := of.get(field)
			if v == nil {
				continue
			}
			base, above, _ := strings.Cut(field, "_above_")
			if rest, hour := strings.CutPrefix(above, "1hr"); hour && (rest == "" || strings.HasPrefix(rest, "_above_")) {
				base, above = base+"_above_1hr", strings.TrimPrefix(rest, "_above_")
			}
			into := &e.Prices
			if k, ok := strings.CutSuffix(above, "k_tokens"); ok {
				n, ok := count(k)
				if !ok || n > 1<<20 {
					e.Unread = append(e.Unread, field)
					continue
				}
				if tiers[n*1000] == nil {
					tiers[n*1000] = &Prices{}
				}
				into = tiers[n*1000]
			} else if above != "" {
				base = field
			}
			switch base {
			case "input_cost_per_token":
				into.Input = e.rate(field, v, perToken, false)
			case "output_cost_per_token":
				into.Output = e.rate(field, v, perToken, false)
			case "cache_read_input_token_cost":
				into.CacheRead = e.rate(field, v, perToken, false)
			case "cache_creation_input_token_cost":
				into.CacheWrite = e.rate(field, v, perToken, false)
			case "cache_creation_input_token_cost_above_1hr":
				into.CacheWrite1h = e.rate(field, v, perToken, false)
			default:
				if into != &e.Prices && *into == (Prices{}) {
					delete(tiers, tierOf(above))
				}
				if aboutPrices(field) && !spares(v) {
					e.Unread = append(e.Unread, field)
				}
			}
		}
		e.tier(tiers)
		e.MaxInput, e.MaxOutput = e.tokens("max_input_tokens", of.get("max_input_tokens")), e.tokens("max_output_tokens", of.get("max_output_tokens"))
		s.Entries = append(s.Entries, e)
	}
}

// tierOf is the limit that the name of a tier says.
func tierOf(above string) int64 {
	n, _ := count(strings.TrimSuffix(above, "k_tokens"))
	return n * 1000
}

// liteLLMModel takes from a sheet's name what it puts in front of a provider's own:
// the provider, and of a cloud the region.
func liteLLMModel(name, provider string) (model, region string) {
	front, rest, ok := strings.Cut(name, "/")
	if !ok {
		return name, ""
	}
	family, _, _ := strings.Cut(provider, "-")
	family, _, _ = strings.Cut(family, "_converse")
	switch {
	case front == "bedrock":
		if at, of, ok := strings.Cut(rest, "/"); ok && strings.Count(at, "-") >= 2 {
			return of, at
		}
		return rest, ""
	case front == provider, front == family, front == "vertex_ai" && strings.HasPrefix(provider, "vertex_ai"),
		strings.TrimSuffix(provider, "_chat") == front:
		return rest, ""
	}
	return name, ""
}

// modelsDev reads a map of providers, each with a map of models. Prices are in USD for
// a million tokens.
func (s *Sheet) modelsDev(root *value) {
	for _, provider := range root.names {
		models := root.get(provider).get("models")
		if models == nil || models.kind != isObject {
			s.Unread["providers without models"]++
			continue
		}
		for _, model := range models.names {
			of := models.get(model)
			e := Entry{Provider: provider, Model: model, Name: provider + "/" + model}
			if of == nil || of.kind != isObject {
				s.Unread["models that are none"]++
				continue
			}
			cost := of.get("cost")
			if cost != nil && cost.kind != isObject {
				e.problem("cost", core.Errorf(core.Invalid, "it is no object"))
				cost = nil
			}
			tiers := map[int64]*Prices{}
			e.Prices = e.modelsDevPrices("cost.", cost)
			if over := cost.get("context_over_200k"); over != nil && cost.get("tiers") == nil {
				p := e.modelsDevPrices("cost.context_over_200k.", over)
				tiers[200_000] = &p
			}
			if list := cost.get("tiers"); list != nil {
				e.modelsDevTiers(list, tiers)
			}
			e.tier(tiers)
			limit := of.get("limit")
			if limit != nil && limit.kind != isObject {
				e.problem("limit", core.Errorf(core.Invalid, "it is no object"))
			}
			e.Context, e.MaxOutput = e.tokens("limit.context", limit.get("context")), e.tokens("limit.output", limit.get("output"))
			s.Entries = append(s.Entries, e)
		}
	}
}

func (e *Entry) modelsDevPrices(at string, cost *value) (p Prices) {
	if cost == nil {
		return p
	}
	for _, field := range cost.names {
		v, to := cost.get(field), (*core.Opt[core.Rate])(nil)
		switch field {
		case "input":
			to = &p.Input
		case "output":
			to = &p.Output
		case "cache_read":
			to = &p.CacheRead
		case "cache_write":
			to = &p.CacheWrite
		case "context_over_200k", "tiers", "tier":
			continue
		default:
			if !spares(v) {
				e.Unread = append(e.Unread, at+field)
			}
			continue
		}
		*to = e.rate(at+field, v, perMillion, false)
	}
	return p
}

// modelsDevTiers reads the newer list of tiers, each with its rates and, as tier, what
// it begins at.
func (e *Entry) modelsDevTiers(list *value, tiers map[int64]*Prices) {
	if list.kind != isList {
		e.problem("cost.tiers", core.Errorf(core.Invalid, "it is no list"))
	}
	for i := range list.list {
		of := &list.list[i]
		tier := of.get("tier")
		size, ok := int64(0), false
		if n := tier.get("size"); n != nil && n.kind == isNumber {
			size, ok = count(n.text)
		}
		if t := tier.get("type"); !ok || t == nil || t.text != "context" || tiers[size] != nil {
			e.Problems = append(e.Problems, "cost.tiers: a tier is not of the length of the context")
			continue
		}
		p := e.modelsDevPrices("cost.tiers.", of)
		tiers[size] = &p
	}
}

// openRouter reads a list of models. Prices are in USD for a token, as text.
func (s *Sheet) openRouter(data *value) {
	for i := range data.list {
		of := &data.list[i]
		id, pricing := of.get("id"), of.get("pricing")
		if id == nil || id.kind != isText || pricing == nil || pricing.kind != isObject {
			s.Unread["models without id or pricing"]++
			continue
		}
		e := Entry{Provider: "openrouter", Model: id.text, Name: id.text}
		for _, field := range pricing.names {
			v, to := pricing.get(field), (*core.Opt[core.Rate])(nil)
			switch field {
			case "prompt":
				to = &e.Input
			case "completion":
				to = &e.Output
			case "input_cache_read":
				to = &e.CacheRead
			case "input_cache_write":
				to = &e.CacheWrite
			default:
				if !spares(v) {
					e.Unread = append(e.Unread, "pricing."+field)
				}
				continue
			}
			*to = e.rate("pricing."+field, v, perToken, true)
		}
		e.Context = e.tokens("context_length", of.get("context_length"))
		e.MaxOutput = e.tokens("top_provider.max_completion_tokens", of.get("top_provider").get("max_completion_tokens"))
		s.Entries = append(s.Entries, e)
	}
}

// Counted is what was not read, the most frequent first.
func (s *Sheet) Counted() []Unread {
	list := make([]Unread, 0, len(s.Unread))
	for _, name := range slices.Sorted(maps.Keys(s.Unread)) {
		list = append(list, Unread{name, s.Unread[name]})
	}
	slices.SortStableFunc(list, func(a, b Unread) int { return cmp.Compare(b.Count, a.Count) })
	return list
}

// Unread is one thing that was not read, and how often it is there.
type Unread struct {
	What  string `json:"what"`
	Count int    `json:"count"`
}
