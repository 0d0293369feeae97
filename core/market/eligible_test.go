package market_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"headway/core"
	"headway/core/market"
)

// spoil makes one offer fail a filter of SPEC §8; they are in its order.
var spoil = []struct {
	reason core.Refusal
	do     func(*market.Query, *core.Offer, func() *market.Entry)
}{
	{core.RefusedModel, func(q *market.Query, _ *core.Offer, _ func() *market.Entry) { q.Key.Models = []core.Model{"other"} }},
	{core.RefusedPrice, func(q *market.Query, _ *core.Offer, _ func() *market.Entry) {
		q.Key.PriceCap.Output = core.Some[core.Rate](1_999_999)
	}},
	{core.RefusedContext, func(q *market.Query, o *core.Offer, _ func() *market.Entry) {
		o.Limits.Context = core.Some[int64](1099)
	}},
	{core.RefusedOutput, func(q *market.Query, o *core.Offer, _ func() *market.Entry) {
		o.Limits.MaxOutput = core.Some[int64](99)
	}},
	{core.RefusedFeature, func(q *market.Query, o *core.Offer, _ func() *market.Entry) {
		o.Features = core.Some(core.FeatureImages)
	}},
	{core.RefusedFormat, func(q *market.Query, o *core.Offer, _ func() *market.Entry) {
		q.Job.Format, q.Job.Bound = core.FormatResponses, "previous_response_id"
	}},
	{core.RefusedPaused, func(q *market.Query, _ *core.Offer, e func() *market.Entry) { e().Account.Refuse() }},
	{core.RefusedOut, func(q *market.Query, _ *core.Offer, e func() *market.Entry) {
		e().State.RetryAfter(start, time.Minute, breaker())
	}},
	{core.RefusedNode, func(_ *market.Query, _ *core.Offer, e func() *market.Entry) { e().State.SetLine(line{}) }},
	{core.RefusedCapacity, func(q *market.Query, o *core.Offer, e func() *market.Entry) {
		o.Capacity = core.Some[int64](1)
		e().Acquire()
	}},
	{core.RefusedOwn, func(q *market.Query, o *core.Offer, _ func() *market.Entry) {
		o.Provider.Owner, q.Key.Owner = "ann", "ann"
	}},
}

// spoiled asks for an offer that fails the filters from first to last.
func spoiled(t *testing.T, first, last int) (*market.Choice, error) {
	t.Helper()
	o := offer(provider("p"), "m")
	c := catalogue(t, nil, o)
	q := ask(c)
	q.Job.MaxOutput = core.Some[int64](100)
	q.Job.Features = core.FeatureTools | core.FeatureImages
	for _, s := range spoil[first : last+1] {
		s.do(&q, o, func() *market.Entry { return c.Offer("p/m") })
	}
	return market.Decide(q)
}

func TestFiltersAndTheirOrder(t *testing.T) {
	if choice, err := spoiled(t, 0, -1); err != nil || len(choice.Picks) != 1 {
		t.Fatalf("nothing is wrong, yet %v", err)
	}
	for first := range spoil {
		for _, last := range []int{first, len(spoil) - 1} {
			choice, err := spoiled(t, first, last)
			if err == nil || choice == nil || len(choice.Picks) != 0 || len(choice.Refused) != 1 {
				t.Fatalf("filters %d to %d: %+v, %v", first, last, choice, err)
			}
			if got := choice.Refused[0].Reason; got != spoil[first].reason {
				t.Errorf("filters %d to %d: %s, want %s", first, last, got, spoil[first].reason)
			}
		}
	}
}

func TestModelLists(t *testing.T) {
	type lists struct{ models, allow, block, routingAllow, routingBlock []core.Model }
	in := func(m ...core.Model) []core.Model { return m }
	for name, c := range map[string]struct {
		lists lists
		asked core.Model
		ok    bool
	}{
		"none":                         {lists{}, "m", true},
		"models":                       {lists{models: in("x", "m")}, "m", true},
		"models, another":              {lists{models: in("x")}, "m", false},
		"both lists":                   {lists{models: in("m"), allow: in("m")}, "m", true},
		"models but not allowed":       {lists{models: in("m"), allow: in("x")}, "m", false},
		"allowed but not models":       {lists{models: in("x"), allow: in("m")}, "m", false},
		"blocked":                      {lists{block: in("m")}, "m", false},
		"allowed and blocked":          {lists{allow: in("m"), block: in("m")}, "m", false},
		"routing allows":               {lists{routingAllow: in("m")}, "m", true},
		"routing allows another":       {lists{models: in("m"), routingAllow: in("x")}, "m", false},
		"routing blocks":               {lists{models: in("m"), routingBlock: in("m")}, "m", false},
		"alias of what is allowed":     {lists{models: in("m")}, "alias", true},
		"list has the alias":           {lists{models: in("alias")}, "m", true},
		"alias of what is blocked":     {lists{block: in("m")}, "alias", false},
		"latest of what is blocked":    {lists{block: in("m")}, "m:latest", false},
		"blocked as latest":            {lists{routingBlock: in("m:latest")}, "m", false},
		"latest of what is allowed":    {lists{models: in("m")}, "m:latest", true},
		"case is part of a model name": {lists{models: in("M")}, "m", false},
	} {
		o := offer(provider("p"), "m")
		o.Aliases = []core.Model{"alias"}
		q := ask(catalogue(t, nil, o))
		q.Job.Model = c.asked
		q.Key.Models, q.Key.AllowModels, q.Key.BlockModels = c.lists.models, c.lists.allow, c.lists.block
		q.Settings.Routing.AllowModels, q.Settings.Routing.BlockModels = c.lists.routingAllow, c.lists.routingBlock
		_, err := market.Decide(q)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
		var e *core.Error
		if err != nil && (!errors.As(err, &e) || e.Kind != core.Forbidden || e.Param != "model") {
			t.Errorf("%s: %v, want Forbidden", name, err)
		}
	}
}

func TestPriceCap(t *testing.T) {
	capped := func(input, output string) (c core.PriceCap) {
		for _, x := range []struct {
			to   *core.Opt[core.Rate]
			text string
		}{{&c.Input, input}, {&c.Output, output}} {
			if x.text != "" {
				r, err := core.ParseRate(x.text)
				if err != nil {
					t.Fatal(err)
				}
				*x.to = core.Some(r)
			}
		}
		return c
	}
	for _, c := range []struct {
		routing, key core.PriceCap
		ok           bool
	}{
		{core.PriceCap{}, core.PriceCap{}, true},
		{capped("1", "2"), core.PriceCap{}, true}, // at the cap
		{capped("2", "2"), capped("2", "2"), true},
		{core.PriceCap{}, capped("0.999999", ""), false},
		{capped("", "1.999999"), core.PriceCap{}, false},
		{capped("5", "5"), capped("5", "1"), false},
		{core.PriceCap{}, capped("0", "0"), false},
	} {
		q := ask(catalogue(t, nil, offer(provider("p"), "m")))
		q.Settings.Routing.PriceCap, q.Key.PriceCap = c.routing, c.key
		if _, err := market.Decide(q); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
	// The rates that would apply count: here those above 999 tokens.
	o := offer(provider("p"), "m")
	o.Price.Above = core.Some(core.PriceAbove{InputTokens: 999, Rates: core.Rates{Input: 3_000_000, Output: 3_000_000}})
	q := ask(catalogue(t, nil, o))
	q.Key.PriceCap = capped("2", "2")
	if _, err := market.Decide(q); err == nil {
		t.Error("the price of a long prompt passed the cap")
	}
	q.Job.PromptBytes = 999 * 4
	if _, err := market.Decide(q); err != nil {
		t.Error(err)
	}
}

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		name                string
		context, most, want int64 // 0: not given
		op                  core.Operation
		reason              core.Refusal
	}{
		{"fits exactly", 1100, 0, 100, core.OpGenerate, ""},
		{"one too many", 1099, 0, 100, core.OpGenerate, core.RefusedContext},
		{"no output asked", 1000, 0, 0, core.OpGenerate, ""},
		{"prompt alone too long", 999, 0, 0, core.OpGenerate, core.RefusedContext},
		{"most", 0, 100, 100, core.OpGenerate, ""},
		{"more than most", 0, 100, 101, core.OpGenerate, core.RefusedOutput},
		{"huge request", 1 << 20, 0, 1<<63 - 1, core.OpGenerate, core.RefusedContext},
		{"embeddings", 999, 0, 0, core.OpEmbeddings, core.RefusedContext},
		{"counting", 999, 0, 0, core.OpCountTokens, ""},
	} {
		o := offer(provider("p"), "m")
		o.Limits = core.OfferLimits{Context: core.Opt[int64]{V: c.context, OK: c.context != 0}, MaxOutput: core.Opt[int64]{V: c.most, OK: c.most != 0}}
		q := ask(catalogue(t, nil, o))
		q.Job.Operation = c.op
		q.Job.MaxOutput = core.Opt[int64]{V: c.want, OK: c.want != 0}
		choice, _ := market.Decide(q)
		var got core.Refusal
		if len(choice.Refused) > 0 {
			got = choice.Refused[0].Reason
		}
		if got != c.reason {
			t.Errorf("%s: %q, want %q", c.name, got, c.reason)
		}
	}
}

func TestOwnOffers(t *testing.T) {
	for _, c := range []struct {
		name              string
		key, provider     string
		serveOwn, routing bool
		ok                bool
	}{
		{"own", "ann", "ann", false, false, false},
		{"another's", "ann", "bob", false, false, true},
		{"nobody's", "", "", false, false, true},
		{"key lifts it", "ann", "ann", true, false, true},
		{"routing lifts it", "ann", "ann", false, true, true},
	} {
		p := provider("p")
		p.Owner = c.provider
		q := ask(catalogue(t, nil, offer(p, "m")))
		q.Key.Owner, q.Key.ServeOwn, q.Settings.Routing.ServeOwn = c.key, c.serveOwn, c.routing
		if _, err := market.Decide(q); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestLlamaServerSpeaksOpenAI(t *testing.T) {
	p := provider("p")
	p.Format = core.FormatLlamaCpp
	if _, err := market.Decide(ask(catalogue(t, nil, offer(p, "m")))); err != nil {
		t.Error(err)
	}
}

func TestKeylessCallHasNoRestrictions(t *testing.T) {
	p := provider("p")
	p.Owner = "ann"
	q := ask(catalogue(t, nil, offer(p, "m")))
	q.Key = nil
	if got := picked(decide(t, q)); !slices.Equal(got, []core.OfferID{"p/m"}) {
		t.Errorf("%v", got)
	}
}

// refusal makes a query of two offers fail and gives the error.
func refusal(t *testing.T, change func(q *market.Query, a, b *core.Offer, e func(core.OfferID) *market.Entry)) *core.Error {
	t.Helper()
	a, b := offer(provider("a"), "m"), offer(provider("b"), "m")
	c := catalogue(t, nil, a, b)
	q := ask(c)
	change(&q, a, b, c.Offer)
	_, err := market.Decide(q)
	var e *core.Error
	if !errors.As(err, &e) {
		t.Fatalf("%v, want a core.Error", err)
	}
	return e
}

func TestNothingLeft(t *testing.T) {
	type change = func(q *market.Query, a, b *core.Offer, e func(core.OfferID) *market.Entry)
	limit := func(n int64) core.Opt[int64] { return core.Some(n) }
	for name, c := range map[string]struct {
		change     change
		kind       core.Kind
		param      string
		code       string
		msg        string
		hint       string
		retryAfter time.Duration
	}{
		"unknown": {func(q *market.Query, _, _ *core.Offer, _ func(core.OfferID) *market.Entry) { q.Job.Model = "n" },
			core.NotFound, "model", "model_not_found", `model "n": no such model; near it: "m"`, `ask for "m"`, 0},
		"nothing near": {func(q *market.Query, _, _ *core.Offer, _ func(core.OfferID) *market.Entry) { q.Job.Model = "mistral" },
			core.NotFound, "model", "model_not_found", `model "mistral": no such model`, "GET /v1/models lists the models that this key may use", 0},
		"hostile name": {func(q *market.Query, _, _ *core.Offer, _ func(core.OfferID) *market.Entry) {
			q.Job.Model = core.Model("\x1b\xff" + strings.Repeat("é", 1000))
		}, core.NotFound, "model", "model_not_found", `model "\x1b\xff` + strings.Repeat("é", 78) + `"…: no such model`,
			"GET /v1/models lists the models that this key may use", 0},
		"forbidden": {func(q *market.Query, _, _ *core.Offer, _ func(core.OfferID) *market.Entry) {
			q.Key.BlockModels = []core.Model{"m"}
		},
			core.Forbidden, "model", "model_not_allowed", `model "m": this key may not use it`, "GET /v1/models lists the models that it may use", 0},
		"price": {func(q *market.Query, a, b *core.Offer, _ func(core.OfferID) *market.Entry) {
			q.Key.PriceCap.Input = core.Some[core.Rate](5)
		}, core.NoOffer, "", "", `model "m": no offer is available: 2 over_price_cap`,
			"none of them returns by itself: whoever runs this gateway sees each reason in its list of offers", time.Minute},
		"of the key's owner": {func(q *market.Query, a, b *core.Offer, _ func(core.OfferID) *market.Entry) {
			a.Provider.Owner, b.Provider.Owner, q.Key.Owner = "ann", "ann", "ann"
		}, core.NoOffer, "", "", `model "m": no offer is available: 2 own_offer`,
			"the key's owner is the owner of what serves the model, and such offers serve others; headway key set KEY --serve-own lets them serve this key too", time.Minute},
		"out and full": {func(q *market.Query, a, b *core.Offer, e func(core.OfferID) *market.Entry) {
			e("a/m").State.RetryAfter(start, 90*time.Second, breaker())
			e("b/m").Account.Exhaust(start, core.Some(80*time.Second))
		}, core.NoOffer, "", "", `model "m": no offer is available: 1 paused, 1 breaker_open`, "the first of them returns in 80 s", 80 * time.Second},
		"part of a second": {func(q *market.Query, a, b *core.Offer, e func(core.OfferID) *market.Entry) {
			e("a/m").State.RetryAfter(start, 1500*time.Millisecond, breaker())
			e("b/m").State.Pause()
		}, core.NoOffer, "", "", `model "m": no offer is available: 1 paused, 1 breaker_open`, "the first of them returns in 2 s", 1500 * time.Millisecond},
		"capacity": {func(q *market.Query, a, b *core.Offer, e func(core.OfferID) *market.Entry) {
			a.Capacity = limit(0)
			e("b/m").State.RetryAfter(start, 200*time.Millisecond, breaker())
		}, core.NoOffer, "", "", `model "m": no offer is available: 1 breaker_open, 1 no_capacity`, "the first of them returns in 1 s", time.Second},
		"a retry may mend one": {func(q *market.Query, a, b *core.Offer, e func(core.OfferID) *market.Entry) {
			a.Limits.Context = limit(10)
			e("b/m").State.RetryAfter(start, 3*time.Second, breaker())
		}, core.NoOffer, "", "", `model "m": no offer is available: 1 context_too_small, 1 breaker_open`, "the first of them returns in 3 s", 3 * time.Second},
		"too long": {func(q *market.Query, a, b *core.Offer, _ func(core.OfferID) *market.Entry) {
			a.Limits.Context, b.Limits.Context = limit(500), limit(800)
			q.Job.MaxOutput = limit(50)
		}, core.Invalid, "messages", "context_length_exceeded",
			`messages: about 1000 tokens and 50 of output do not fit the context of model "m", which is 800 tokens`,
			"send a shorter prompt or ask for less output", 0},
		"too long for Google": {func(q *market.Query, a, b *core.Offer, _ func(core.OfferID) *market.Entry) {
			a.Provider.Format, b.Provider.Format, q.Job.Format = core.FormatGoogle, core.FormatGoogle, core.FormatGoogle
			a.Limits.Context, b.Limits.Context = limit(500), limit(800)
		}, core.Invalid, "contents", "context_length_exceeded",
			`contents: about 1000 tokens do not fit the context of model "m", which is 800 tokens`,
			"send a shorter prompt or ask for less output", 0},
		"too much": {func(q *market.Query, a, b *core.Offer, _ func(core.OfferID) *market.Entry) {
			a.Limits.MaxOutput, b.Limits.MaxOutput = limit(500), limit(800)
			q.Job.MaxOutput = limit(801)
		}, core.Invalid, "max_tokens", "", `max_tokens: 801 is more than model "m" can write, which is 800 tokens`, "ask for at most 800", 0},
		"no tools": {func(q *market.Query, a, b *core.Offer, _ func(core.OfferID) *market.Entry) {
			a.Features, b.Features = core.Some(core.Feature(0)), core.Some(core.FeatureImages)
			q.Job.Features = core.FeatureTools | core.FeatureImages
		}, core.Invalid, "tools", "unsupported_feature", `tools: model "m" does not take tools here`, "leave it out or ask for another model", 0},
		"no schema": {func(q *market.Query, a, b *core.Offer, _ func(core.OfferID) *market.Entry) {
			a.Features, b.Provider.Format = core.Some(core.FeatureTools), core.FormatAnthropic
			q.Job.Features, q.Job.Bound = core.FeatureSchema, "state"
		}, core.Invalid, "response_format", "unsupported_feature", `response_format: model "m" does not take schema here`, "leave it out or ask for another model", 0},
		"format": {func(q *market.Query, a, b *core.Offer, _ func(core.OfferID) *market.Entry) {
			q.Job.Format, b.Provider.Format = core.FormatAnthropic, core.FormatGoogle
			q.Job.Operation = core.OpCountTokens
		}, core.Invalid, "model", "format_not_spoken", `model: "m" is served in google and openai, and token counts of the anthropic format go to providers of that format alone`,
			"ask for a model that is served in anthropic", 0},
		"state of another provider's": {func(q *market.Query, a, b *core.Offer, _ func(core.OfferID) *market.Entry) {
			q.Job.Format, q.Job.Bound = core.FormatResponses, "previous_response_id"
		}, core.Invalid, "previous_response_id", "state_not_held", `previous_response_id: is kept by a provider of the openai-responses format, and model "m" is served by none`,
			"send the whole conversation in its place", 0},
		"another format is out": {func(q *market.Query, a, b *core.Offer, e func(core.OfferID) *market.Entry) {
			b.Provider.Format, q.Job.Operation = core.FormatGoogle, core.OpEmbeddings
			e("a/m").State.RetryAfter(start, 3*time.Second, breaker())
		}, core.NoOffer, "", "", `model "m": no offer is available: 1 format_not_spoken, 1 breaker_open`, "the first of them returns in 3 s", 3 * time.Second},
	} {
		e := refusal(t, c.change)
		if e.Kind != c.kind || e.Param != c.param || e.Code != c.code || e.Msg != c.msg || e.Hint != c.hint || e.RetryAfter != c.retryAfter {
			t.Errorf("%s:\ngot  %v %q %q %v\n     %s\n     %s\nwant %v %q %q %v\n     %s\n     %s", name,
				e.Kind, e.Param, e.Code, e.RetryAfter, e.Msg, e.Hint, c.kind, c.param, c.code, c.retryAfter, c.msg, c.hint)
		}
	}
}

// The field that an error names is the one that the caller's format has.
func TestFieldsByFormat(t *testing.T) {
	const chat, responses, anthropic, google = core.FormatOpenAI, core.FormatResponses, core.FormatAnthropic, core.FormatGoogle
	for _, c := range []struct {
		format                               core.Format
		op                                   core.Operation
		content, maximum, schema, attachment string
	}{
		{chat, core.OpGenerate, "messages", "max_tokens", "response_format", "messages"},
		{chat, core.OpCompletions, "prompt", "max_tokens", "response_format", "prompt"},
		{chat, core.OpEmbeddings, "input", "", "", ""},
		{responses, core.OpGenerate, "input", "max_output_tokens", "text.format", "input"},
		{anthropic, core.OpGenerate, "messages", "max_tokens", "output_config.format", "messages"},
		{google, core.OpGenerate, "contents", "generationConfig.maxOutputTokens", "generationConfig.responseSchema", "contents"},
	} {
		check := func(what, want string, change func(*market.Query, *core.Offer)) {
			t.Helper()
			if want == "" {
				return
			}
			e := refusal(t, func(q *market.Query, a, b *core.Offer, _ func(core.OfferID) *market.Entry) {
				q.Job.Format, q.Job.Operation = c.format, c.op
				for _, o := range []*core.Offer{a, b} {
					o.Provider.Format = c.format
					change(q, o)
				}
			})
			if e.Kind != core.Invalid || e.Param != want {
				t.Errorf("%s %s, %s: %v names %q, want %q", c.format, c.op, what, e.Kind, e.Param, want)
			}
		}
		check("too long", c.content, func(_ *market.Query, o *core.Offer) { o.Limits.Context = core.Some[int64](1) })
		check("too much", c.maximum, func(q *market.Query, o *core.Offer) {
			q.Job.MaxOutput, o.Limits.MaxOutput = core.Some[int64](2), core.Some[int64](1)
		})
		check("schema", c.schema, func(q *market.Query, o *core.Offer) {
			q.Job.Features, o.Features = core.FeatureSchema, core.Some(core.FeatureTools)
		})
		check("audio", c.attachment, func(q *market.Query, o *core.Offer) {
			q.Job.Features, o.Features = core.FeatureAudio, core.Some(core.FeatureTools)
		})
	}
}
