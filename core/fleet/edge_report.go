package fleet

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"headway/core"
)

// What one report may hold.
const (
	reportSlots     = 10_000 // of an upstream, and calls that wait for one
	reportUpstreams = 64
	reportModels    = 1_000 // in all
	reportNames     = 32    // aliases or labels of a model
	reportName      = 256   // bytes of a model's name, a label, a version
	reportCost      = core.Rate(core.USD)
	reportTokens    = 1 << 40 // tokens
)

// readReport reads what a node says of itself, and refuses what no node may say. The
// error's text goes back to it.
func readReport(data []byte) (*core.NodeReport, error) {
	r := &core.NodeReport{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, refusedReport("it is not the JSON of a report")
	}
	if !isName(r.Version, true) {
		return nil, refusedReport("version: at most %d printable bytes", reportName)
	}
	if len(r.Upstreams) > reportUpstreams {
		return nil, refusedReport("there are more than %d upstreams", reportUpstreams)
	}
	models, names := 0, map[string]bool{}
	for i := range r.Upstreams {
		u := &r.Upstreams[i]
		if u.Name != "" && !isLabel(u.Name) {
			return nil, refusedReport("an upstream's name is at most 63 of a-z, 0-9 and -")
		}
		if names[u.Name] {
			return nil, refusedReport("upstream %q is there twice", u.Name)
		}
		names[u.Name] = true
		if models += len(u.Models); models > reportModels {
			return nil, refusedReport("there are more than %d models", reportModels)
		}
		if err := checkUpstream(u); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func checkUpstream(u *core.NodeUpstream) error {
	switch {
	case u.Format != core.FormatLlamaCpp && u.Format != core.FormatOllama && u.Format != core.FormatOpenAI:
		return refusedReport("upstream %q: its format is none of llamacpp, ollama, openai", u.Name)
	case u.Slots < 1 || u.Slots > reportSlots:
		return refusedReport("upstream %q: slots are 1 to %d", u.Name, reportSlots)
	case u.Queue < 0 || u.Queue > reportSlots:
		return refusedReport("upstream %q: its queue is 0 to %d", u.Name, reportSlots)
	case !isName(u.Credential, true):
		return refusedReport("upstream %q: credential: at most %d printable bytes", u.Name, reportName)
	case !isName(u.Server, true):
		return refusedReport("upstream %q: server: at most %d printable bytes", u.Name, reportName)
	}
	models := map[core.Model]bool{}
	for i := range u.Models {
		m := &u.Models[i]
		if !isName(string(m.Model), false) || !isName(m.Upstream, false) {
			return refusedReport("upstream %q: a model's name has 1 to %d printable bytes", u.Name, reportName)
		}
		if models[m.Model] {
			return refusedReport("upstream %q: model %q is there twice", u.Name, m.Model)
		}
		models[m.Model] = true
		if err := checkModel(m); err != nil {
			return refusedReport("upstream %q: model %q: %v", u.Name, m.Model, err)
		}
	}
	return nil
}

func checkModel(m *core.NodeModel) error {
	if len(m.Aliases) > reportNames || len(m.Labels) > reportNames {
		return fmt.Errorf("it has more than %d aliases or labels", reportNames)
	}
	for _, a := range m.Aliases {
		if !isName(string(a), false) {
			return fmt.Errorf("an alias has 1 to %d printable bytes", reportName)
		}
	}
	for name, v := range m.Labels {
		if !isName(name, false) || !isName(v, true) {
			return fmt.Errorf("a label has at most %d printable bytes", reportName)
		}
	}
	rates := []core.Rates{m.Price.Rates}
	if m.Price.Above.OK {
		rates = append(rates, m.Price.Above.V.Rates)
		if m.Price.Above.V.InputTokens < 0 {
			return fmt.Errorf("above: input_tokens is negative")
		}
	}
	for _, r := range rates {
		for _, rate := range [...]core.Rate{r.Input, r.Output, r.CacheRead.V, r.CacheWrite.V, r.CacheWrite1h.V} {
			if rate < 0 || rate > reportCost {
				return fmt.Errorf("its price is out of range")
			}
		}
	}
	for _, limit := range [...]core.Opt[int64]{m.Limits.Context, m.Limits.MaxOutput} {
		if limit.OK && (limit.V < 1 || limit.V > reportTokens) {
			return fmt.Errorf("its limits are out of range")
		}
	}
	return nil
}

func refusedReport(format string, args ...any) error {
	return core.Errorf(core.Invalid, format, args...)
}

// isName tells whether a text may be shown and kept as a name.
func isName(s string, empty bool) bool {
	return (s != "" || empty) && len(s) <= reportName && utf8.ValidString(s) &&
		!strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// isLabel tells whether a text is a name as nodes have (FLEET.md §1).
func isLabel(s string) bool {
	return len(s) >= 1 && len(s) <= 63 && s[0] != '-' && s[len(s)-1] != '-' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// offersOf makes the providers and offers of a report that was checked.
func offersOf(node core.NodeID, owner string, r *core.NodeReport) (providers []*core.Provider, offers []*core.Offer) {
	for i := range r.Upstreams {
		u := &r.Upstreams[i]
		// Nothing dials this address: it is where the round trip begins.
		p := &core.Provider{ID: providerID(node, u.Name), Format: u.Format, Dialect: dialectOf(u), BaseURL: "http://" + string(node),
			Owner: owner, Node: node, NodeCredential: u.Credential, AllowPrivate: true}
		if u.Format == core.FormatOpenAI {
			p.BaseURL += "/v1"
		}
		providers = append(providers, p)
		for j := range u.Models {
			m := &u.Models[j]
			offers = append(offers, &core.Offer{ID: core.OfferID(string(p.ID) + "/" + string(m.Model)), Provider: p, Model: m.Model,
				Aliases: slices.Clone(m.Aliases), UpstreamModel: m.Upstream, Price: m.Price, Limits: m.Limits, Features: m.Features,
				IncludeUsage: core.UsageAuto, Labels: maps.Clone(m.Labels)})
		}
	}
	slices.SortFunc(offers, func(a, b *core.Offer) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return providers, offers
}

// dialectOf is the dialect of a server that says what it is.
func dialectOf(u *core.NodeUpstream) string {
	server := strings.ToLower(u.Server)
	for _, name := range [...]string{"vllm", "sglang"} {
		if u.Format == core.FormatOpenAI && strings.HasPrefix(server, name) {
			return name
		}
	}
	return ""
}
