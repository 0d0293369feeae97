package market

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"headway/core"
)

// unknownReturn is the Retry-After where no refused offer returns by itself:
// only a person can change that, and no caller should ask every second.
const unknownReturn = time.Minute

// lostReturn is the Retry-After where nodes are lost: one that can dials again every
// second, and nobody knows when it can.
const lostReturn = 5 * time.Second

// unknown is the error for a model that is not in the catalogue: 404 naming the
// near ones that the key may use. auto says that it is the Auto Router's name, of
// whose pool nothing is served.
func unknown(q *Query, auto bool) error {
	if auto {
		err := core.Errorf(core.NotFound, "model %s: none of the Auto Router's models is served", quoted(q.Job.Model))
		err.Param, err.Code = "model", "model_not_found"
		err.Hint = "GET /v1/models lists the models that this key may use"
		return err
	}
	err := core.Errorf(core.NotFound, "model %s: no such model", quoted(q.Job.Model))
	err.Param, err.Code = "model", "model_not_found"
	near := q.Catalogue.Near(q.Job.Model, q.Key, &q.Settings.Routing)
	if len(near) == 0 {
		err.Hint = "GET /v1/models lists the models that this key may use"
		return err
	}
	names := make([]string, len(near))
	for i, n := range near {
		names[i] = quoted(n)
	}
	err.Msg += "; near it: " + strings.Join(names, ", ")
	err.Hint = "ask for " + strings.Join(names, " or ")
	return err
}

// quoted writes a model's name, which a caller may have made of anything.
func quoted(m core.Model) string {
	if len(m) > longestName {
		return fmt.Sprintf("%.80q…", string(m))
	}
	return fmt.Sprintf("%q", string(m))
}

// noneLeft says why no offer is in the running. Where every one of them was
// refused for what the request itself is, no retry mends it and the error names
// the field (Invalid); a model restriction alone is Forbidden; else NoOffer,
// with the count by reason and when the first returns.
func noneLeft(q *Query, refused []Refused) error {
	has := func(reasons ...core.Refusal) bool {
		return slices.ContainsFunc(refused, func(r Refused) bool { return slices.Contains(reasons, r.Reason) })
	}
	only := func(reasons ...core.Refusal) bool {
		return !slices.ContainsFunc(refused, func(r Refused) bool { return !slices.Contains(reasons, r.Reason) })
	}
	switch {
	case only(core.RefusedModel):
		return forbidden(q)
	case !only(core.RefusedModel, core.RefusedContext, core.RefusedOutput, core.RefusedFeature, core.RefusedFormat):
		return later(q, refused)
	case has(core.RefusedContext):
		return tooLong(q, refused)
	case has(core.RefusedOutput):
		return tooMuch(q, refused)
	case has(core.RefusedFeature):
		return missing(q, refused)
	}
	return wrongFormat(q, refused)
}

func forbidden(q *Query) error {
	err := core.Errorf(core.Forbidden, "model %s: this key may not use it", quoted(q.Job.Model))
	err.Param, err.Code = "model", "model_not_allowed"
	err.Hint = "GET /v1/models lists the models that it may use"
	return err
}

func tooLong(q *Query, refused []Refused) error {
	var largest, input int64
	for _, r := range refused {
		if r.Reason == core.RefusedContext {
			est := q.Reading.At(r.Entry.Offer)
			input, largest = est.Input(), max(largest, r.Entry.Offer.Limits.Context.V)
		}
	}
	wanted := fmt.Sprintf("about %d tokens", input)
	if q.Job.MaxOutput.OK {
		wanted += fmt.Sprintf(" and %d of output", q.Job.MaxOutput.V)
	}
	err := core.Field(contentField(q.Job), "%s do not fit the context of model %s, which is %d tokens",
		wanted, quoted(q.Job.Model), largest)
	err.Code = "context_length_exceeded"
	err.Hint = "send a shorter prompt or ask for less output"
	return err
}

func tooMuch(q *Query, refused []Refused) error {
	var largest int64
	for _, r := range refused {
		if r.Reason == core.RefusedOutput {
			largest = max(largest, r.Entry.Offer.Limits.MaxOutput.V)
		}
	}
	field := "max_tokens"
	switch q.Job.Format {
	case core.FormatResponses:
		field = "max_output_tokens"
	case core.FormatGoogle:
		field = "generationConfig.maxOutputTokens"
	}
	err := core.Field(field, "%d is more than model %s can write, which is %d tokens",
		q.Job.MaxOutput.V, quoted(q.Job.Model), largest)
	err.Hint = fmt.Sprintf("ask for at most %d", largest)
	return err
}

// missing names the features that the offer lacks which lacks the fewest.
func missing(q *Query, refused []Refused) error {
	var lacking []string
	var first core.Feature
	for _, r := range refused {
		if r.Reason != core.RefusedFeature {
			continue
		}
		lacks := q.Job.Features &^ r.Entry.Offer.Features.V
		names := lacks.Names()
		if lacking == nil || len(names) < len(lacking) {
			lacking, first = names, lacks&-lacks
		}
	}
	field := contentField(q.Job)
	switch first {
	case core.FeatureTools:
		field = "tools"
	case core.FeatureSchema:
		switch q.Job.Format {
		case core.FormatResponses:
			field = "text.format"
		case core.FormatAnthropic:
			field = "output_config.format"
		case core.FormatGoogle:
			field = "generationConfig.responseSchema"
		default:
			field = "response_format"
		}
	}
	err := core.Field(field, "model %s does not take %s here", quoted(q.Job.Model), strings.Join(lacking, ", "))
	err.Code = "unsupported_feature"
	err.Hint = "leave it out or ask for another model"
	return err
}

func wrongFormat(q *Query, refused []Refused) error {
	var formats []string
	for _, r := range refused {
		if f := string(r.Entry.Offer.Provider.Format.Wire()); r.Reason == core.RefusedFormat && !slices.Contains(formats, f) {
			formats = append(formats, f)
		}
	}
	if q.Job.Bound != "" {
		err := core.Field(q.Job.Bound, "is kept by a provider of the %s format, and model %s is served by none", q.Job.Format, quoted(q.Job.Model))
		err.Code = "state_not_held"
		err.Hint = "send the whole conversation in its place"
		return err
	}
	slices.Sort(formats)
	asked := "such calls"
	switch q.Job.Operation {
	case core.OpEmbeddings:
		asked = "embeddings"
	case core.OpCountTokens:
		asked = "token counts"
	case core.OpCompletions:
		asked = "old completions"
	}
	err := core.Field("model", "%s is served in %s, and %s of the %s format go to providers of that format alone",
		quoted(q.Job.Model), strings.Join(formats, " and "), asked, q.Job.Format)
	err.Code = "format_not_spoken"
	err.Hint = "ask for a model that is served in " + string(q.Job.Format)
	return err
}

// contentField is where a format has what the model reads.
func contentField(job *core.Job) string {
	switch {
	case job.Format == core.FormatGoogle:
		return "contents"
	case job.Operation == core.OpCompletions:
		return "prompt"
	case job.Format == core.FormatResponses || job.Operation == core.OpEmbeddings:
		return "input"
	}
	return "messages"
}

func later(q *Query, refused []Refused) error {
	var counts []string
	for _, reason := range refusals() {
		n := 0
		for _, r := range refused {
			if r.Reason == reason {
				n++
			}
		}
		if n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, reason))
		}
	}
	err := core.Errorf(core.NoOffer, "model %s: no offer is available: %s", quoted(q.Job.Model), strings.Join(counts, ", "))
	first := core.Opt[time.Time]{}
	for _, r := range refused {
		if r.Back.OK && (!first.OK || r.Back.V.Before(first.V)) {
			first = r.Back
		}
	}
	lost := slices.ContainsFunc(refused, func(r Refused) bool { return r.Reason == core.RefusedNode })
	if lost && (!first.OK || first.V.Sub(q.Now) > lostReturn) {
		err.RetryAfter = lostReturn
		err.Hint = "a node's offer returns as soon as the node is connected and its model server answers it in time"
		return err
	}
	if !first.OK && slices.ContainsFunc(refused, func(r Refused) bool { return r.Reason == core.RefusedOwn }) {
		err.RetryAfter = unknownReturn
		err.Hint = "the key's owner is the owner of what serves the model, and such offers serve others; headway key set KEY --serve-own lets them serve this key too"
		return err
	}
	if !first.OK && slices.ContainsFunc(refused, func(r Refused) bool { return r.Reason == core.RefusedStrategy }) {
		err.RetryAfter = unknownReturn
		err.Hint = fmt.Sprintf("the strategy %s leaves out offers that could answer such a call; headway strategy test shows what it does", q.Asked)
		return err
	}
	if !first.OK {
		err.RetryAfter = unknownReturn
		err.Hint = "none of them returns by itself: whoever runs this gateway sees each reason in its list of offers"
		return err
	}
	err.RetryAfter = max(first.V.Sub(q.Now), time.Second)
	seconds := int64((err.RetryAfter + time.Second - 1) / time.Second)
	err.Hint = fmt.Sprintf("the first of them returns in %d s", seconds)
	return err
}
