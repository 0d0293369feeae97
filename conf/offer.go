package conf

import (
	"math"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"headway/core"
)

// offer is an offer while it is read.
type offer struct {
	core.Offer
	provider core.ProviderID // of an admin call's body alone
}

// Offer reads the JSON body of POST /admin/v1/offers: the object of the file
// with the provider's id beside it, which OfferProvider reads. p is that
// provider. The error is Problems with paths like "offers.model".
func Offer(data []byte, p *core.Provider) (*core.Offer, error) {
	var d offer
	if err := bindJSON("offers", data, offerRecord(true), &d); err != nil {
		return nil, err
	}
	if d.provider != p.ID {
		return nil, Problems{{Path: "offers.provider", Reason: "is not " + string(p.ID)}}
	}
	if d.ID == "" {
		d.ID = defaultID(p.ID, d.Model)
	}
	d.Offer.Provider = p
	return &d.Offer, nil
}

// OfferProvider reads only which provider the body of POST /admin/v1/offers
// names. The error is Problems.
func OfferProvider(data []byte) (core.ProviderID, error) {
	node, err := readJSON(data)
	if err != nil {
		return "", Problems{{Path: "offers", Reason: err.Error()}}
	}
	at := place{node, "offers"}
	if id := at.child("provider"); id.node != node && id.node.Tag == "!!str" && id.node.Value != "" {
		return core.ProviderID(id.node.Value), nil
	}
	return "", Problems{{Path: "offers.provider", Reason: "is missing", Hint: asHint(providerDoc)}}
}

const providerDoc = "The id of the provider that serves it."

// offerRecord is one offer; alone says that it is a body of its own, which
// names its provider.
func offerRecord(alone bool) value[offer] {
	fields := offerFields()
	if alone {
		fields = append(fields, key("provider", providerDoc,
			label[core.ProviderID]("a name"), func(o *offer) *core.ProviderID { return &o.provider }).required())
	}
	return record(fields, checkOffer)
}

// offerFields are what can be said of an offer.
func offerFields() []field[offer] {
	fields := []field[offer]{
		key("model", "What clients ask for.", offered(), func(o *offer) *core.Model { return &o.Model }).required(),
		key("upstream_model", "What the provider calls it; left out: the same.",
			label[string]("a name"), func(o *offer) *string { return &o.UpstreamModel }),
	}
	fields = append(fields, rateFields(func(o *offer) *core.Rates { return &o.Price.Rates })...)
	return append(fields,
		key("above", "The rates of the whole call where all its input is more than input_tokens.",
			maybe(aboveRecord()), func(o *offer) *core.Opt[core.PriceAbove] { return &o.Price.Above }),
		key("context_tokens", "The most input and output tokens of one call together.",
			maybe(whole(1, math.MaxInt32)), func(o *offer) *core.Opt[int64] { return &o.Limits.Context }),
		key("max_output_tokens", "The most output tokens of one call.",
			maybe(whole(1, math.MaxInt32)), func(o *offer) *core.Opt[int64] { return &o.Limits.MaxOutput }),
		key("cache_min_tokens", "The shortest start of a prompt that the provider caches; left out: known by its kind, or learnt.",
			maybe(whole(0, math.MaxInt32)), func(o *offer) *core.Opt[int64] { return &o.Cache.MinTokens }),
		key("cache_lifetime", "How long it stays there after it was last read; left out: known by its kind, and learnt.",
			maybe(duration(time.Second, 7*24*time.Hour)), func(o *offer) *core.Opt[time.Duration] { return &o.Cache.Lifetime }),
		key("capacity", "The most calls at once; left out: no limit.",
			maybe(whole(1, 1_000_000)), func(o *offer) *core.Opt[int64] { return &o.Capacity }),
		key("include_usage", "Whether streams ask for their usage: auto, or never for servers that reject the field.",
			choice[core.IncludeUsage]("value of include_usage", []string{string(core.UsageAuto), string(core.UsageNever)}),
			func(o *offer) *core.IncludeUsage { return &o.IncludeUsage }),
		key("labels", "Words of your own, which strategies can see.",
			labels(), func(o *offer) *map[string]string { return &o.Labels }),
		key("aliases", "Other names that clients may ask for it by.",
			names(offered(), 0), func(o *offer) *[]core.Model { return &o.Aliases }),
		key("id", "The offer's id; left out: provider/model.",
			label[core.OfferID]("a name"), func(o *offer) *core.OfferID { return &o.ID }),
		key("features", "What it can do beyond text: tools, images, schema, audio, documents; left out: everything.",
			maybe(features()), func(o *offer) *core.Opt[core.Feature] { return &o.Features }),
	)
}

func checkOffer(b *binder, at place, o *offer) {
	if o.IncludeUsage == "" {
		o.IncludeUsage = core.UsageAuto
	}
	if o.UpstreamModel == "" {
		o.UpstreamModel = string(o.Model)
	}
	if c, m := o.Limits.Context, o.Limits.MaxOutput; c.OK && m.OK && m.V > c.V {
		b.note(at.child("max_output_tokens"), "", "is more than context_tokens, which holds input and output together")
	}
}

// offered is a model's name that an offer may have: auto is the Auto Router's.
func offered() value[core.Model] {
	v := model("a model's name")
	read := v.read
	v.read = func(b *binder, at place, to *core.Model) bool {
		if !read(b, at, to) {
			return false
		}
		if name := *to; name.IsAuto() {
			*to = ""
			return b.fail(at, "name the model otherwise", "%s is the Auto Router's name", name)
		}
		return true
	}
	return v
}

func rateFields[T any](in func(*T) *core.Rates) []field[T] {
	return []field[T]{
		key("input_usd_per_mtok", `US dollars per million uncached input tokens; "0" where calls are free.`,
			rate(), func(t *T) *core.Rate { return &in(t).Input }).required(),
		key("output_usd_per_mtok", `US dollars per million output tokens; "0" where calls are free.`,
			rate(), func(t *T) *core.Rate { return &in(t).Output }).required(),
		key("cache_read_usd_per_mtok", "Input that is read from the provider's cache; left out: the input rate.",
			maybe(rate()), func(t *T) *core.Opt[core.Rate] { return &in(t).CacheRead }),
		key("cache_write_usd_per_mtok", "Input that is written to the provider's cache; left out: the input rate.",
			maybe(rate()), func(t *T) *core.Opt[core.Rate] { return &in(t).CacheWrite }),
		key("cache_write_1h_usd_per_mtok", "Input that is written there for an hour; left out: the write rate.",
			maybe(rate()), func(t *T) *core.Opt[core.Rate] { return &in(t).CacheWrite1h }),
	}
}

func aboveRecord() value[core.PriceAbove] {
	fields := []field[core.PriceAbove]{
		key("input_tokens", "The limit, exclusive: uncached, cached and written input together.",
			whole(1, math.MaxInt32), func(p *core.PriceAbove) *int64 { return &p.InputTokens }).required(),
	}
	return record(append(fields, rateFields(func(p *core.PriceAbove) *core.Rates { return &p.Rates })...), nil)
}

// features is a list of core.FeatureNames.
func features() value[core.Feature] {
	l := names(choice[string]("feature", core.FeatureNames[:]), 0)
	return value[core.Feature]{
		schema: func(*core.Feature) object { return l.schema(nil) },
		read: func(b *binder, at place, to *core.Feature) bool {
			var words []string
			if !l.read(b, at, &words) {
				return false
			}
			for _, w := range words {
				*to |= 1 << slices.Index(core.FeatureNames[:], w)
			}
			return true
		},
		show: func(f *core.Feature) *yaml.Node {
			node := &yaml.Node{Kind: yaml.SequenceNode}
			for _, name := range f.Names() {
				node.Content = append(node.Content, plainNode(name))
			}
			return node
		},
	}
}

// labels are words of the operator's own.
func labels() value[map[string]string] {
	return dict(label[string]("text"), func(name string) string {
		if name == "" || len(name) > 128 || strings.TrimSpace(name) != name {
			return "is no name of a label"
		}
		return ""
	}, func(name string) string { return name })
}
