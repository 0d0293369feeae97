package gateway

import (
	"strings"

	"headway/core"
	"headway/core/estimate"
	"headway/core/ledger"
	"headway/core/measure"
)

// receipt is what is kept of the call. t7 is stamped here: the receipt's own
// writing is not in it.
func (c *call) receipt() *core.Receipt {
	t := c.last()
	settings := &c.setup.Settings
	offer := t.pick.Offer
	line := t.line
	line.T0, line.T7 = c.t0, c.g.Clock()
	r := &core.Receipt{
		ID: c.id, Job: c.jobID(), Step: c.facts.step, Kind: c.kind(), Outcome: t.Outcome,
		At: c.t0.UTC(), SettledAt: line.T7.UTC(),
		Model: offer.Model, Offer: offer.ID, Provider: offer.Provider.ID,
		Annex: core.Annex{
			Status: c.status, Operation: c.job.Operation, Format: c.job.Format, UpstreamFormat: offer.Provider.Format,
			Streamed: t.streamed, FinishReason: finishReason(t.result.Finish),
			Timing:   measure.Figures(line, t.result, t.streamed, int(t.arrivals)),
			Decision: c.choice.Decision(), PredictedWait: predictedWait(t), ActualWait: actualWait(t),
			InFlight: core.Some(max(t.inFlight, 0)), Region: offer.Provider.Region, TraceID: c.facts.trace, Group: c.facts.group,
			PromptBytes: c.job.PromptBytes, NodeTiming: t.node,
		},
	}
	r.Node = t.Node
	c.reading.Describe(&r.Annex)
	if c.key != nil {
		r.Key, r.Owner = c.key.ID, c.key.Owner
		if r.Group == "" {
			r.Group = c.key.Labels["group"]
		}
	}
	if t.streamed {
		r.StreamEvents, r.TextDeltas = core.Some(t.events), core.Some(t.texts)
	}
	r.Timing.Auth, r.Timing.BodyRead, r.Timing.Distribution = c.timing.Auth, c.timing.BodyRead, c.timing.Distribution
	r.Timing.Connection = t.conn.facts()
	r.Slow = measure.Slow(r.Timing, settings.Slow)
	c.usage(r, t)
	r.Attempts = make([]core.Attempt, len(c.tries))
	for i := range c.tries {
		r.Attempts[i] = c.tries[i].record(c)
	}
	if r.Kind == core.KindTest {
		r.Timing, r.NodeTiming = core.Timing{}, nil
	}
	return r
}

// record is an attempt as a receipt keeps it, with its own marks.
func (t *try) record(c *call) core.Attempt {
	a := t.Attempt
	line := t.line
	line.T0 = c.t0
	a.Timing = core.Timing{UpstreamHeaders: line.Headers(), Queued: line.Queued(), UpstreamDone: line.Done(), Connection: t.conn.facts()}
	if t.streamed {
		a.Timing.FirstEvent, a.Timing.FirstResponse, a.Timing.FirstText = line.FirstEvent(), line.FirstResponse(), line.FirstText()
		a.Timing.FirstToken = line.FirstToken()
	}
	return a
}

// finishReason is a reason as a receipt keeps it: a word. What an upstream puts
// there else could be anything, content too.
func finishReason(s string) string {
	other := func(r rune) bool {
		return !('a' <= r|0x20 && r|0x20 <= 'z' || '0' <= r && r <= '9' || strings.ContainsRune("_-.:", r))
	}
	if len(s) > 64 || strings.ContainsFunc(s, other) {
		return ""
	}
	return s
}

// predictedWait is the prediction of the offer that answered, to the microsecond.
func predictedWait(t *try) core.Opt[float64] {
	w := t.pick.Prediction.Wait()
	if w.OK {
		w.V = core.Micro(w.V)
	}
	return w
}

// actualWait is what a prediction is held against: dispatch to the last output
// of a stream, to the whole answer otherwise.
func actualWait(t *try) core.Opt[float64] {
	if t.Outcome != core.Settled {
		return core.Opt[float64]{}
	}
	line := t.line
	if t.streamed && !line.TL.IsZero() {
		line.T6 = line.TL
	}
	return line.Upstream()
}

// usage fills in the counts and the charge: what the provider reported, and an
// estimate for what it left out of an answer that was given, or that it may have
// worked on unheard (SPEC §11).
func (c *call) usage(r *core.Receipt, t *try) {
	if c.job.Operation == core.OpCountTokens {
		r.Charge = core.Some(core.Money(0))
		return
	}
	u := t.result.Usage
	// A caller that leaves does not take the answer back.
	left := t.Outcome == core.ClientGone || t.Outcome == core.ClientStalled
	answered := t.Outcome == core.Settled || !t.line.T4.IsZero() || left && t.result.OutputBytes > 0
	unheard := !answered && t.unheard()
	estimated := false
	if (answered || unheard) && u.Input() == 0 && c.job.PromptBytes > 0 {
		u.UncachedInput = core.Some(t.pick.Estimate.Input())
		estimated = true
	}
	if (answered || unheard) && c.job.Operation.Generates() {
		written := estimate.Tokens(t.result.OutputBytes)
		if unheard {
			written = c.unheardOutput(t)
		}
		toldAll := u.Output.V > 0 && !t.result.Opening
		if !toldAll && (written > u.Output.V || answered && !u.Output.OK) {
			u.Output = core.Some(written)
			estimated = true
		}
	}
	switch {
	case !t.result.Reported && !answered && !unheard:
		return // nothing is known: nothing is charged
	case !estimated:
		r.UsageFrom = core.FromProvider
	case t.result.Reported:
		r.UsageFrom = core.FromMixed
	default:
		r.UsageFrom = core.FromEstimate
	}
	r.Usage = u
	charge, rates, err := ledger.Charge(u, t.pick.Offer.Price)
	if err != nil {
		c.g.Log.Error("a charge is out of range", "id", c.id, "offer", r.Offer)
		return
	}
	r.Charge, r.Prices = core.Some(charge), &rates
}

// unheard tells whether the provider got the request and may have worked on an
// answer that nobody heard the end of, through no failure of its own: the client
// left, a time limit ran out, or Headway itself ended the call. Its owner pays for
// that, or a caller that always leaves early would pass every budget.
func (t *try) unheard() bool {
	if !t.reached() {
		return false
	}
	switch t.Outcome {
	case core.ClientGone, core.ClientStalled, core.TimedOut:
		return true
	case core.Failed:
		return t.Error == "stopping" || t.Error == "internal"
	}
	return false
}

// reached tells whether there was a connection that the request went out on.
func (t *try) reached() bool {
	return t.conn.facts().Reused.OK || !t.line.T2.IsZero() || !t.line.T1.IsZero() && t.pick.Offer.Provider.Node != ""
}

// unheardOutput is how many tokens of an unheard answer are charged. Where no
// stream was asked for the provider finds out that nobody listens when it is done:
// the expected output. A stream ends with its connection: as much as the prediction
// says is written by then, out of sight (reasoning); without one nothing.
func (c *call) unheardOutput(t *try) int64 {
	expected := t.pick.Estimate.Output
	if !c.job.Streamed {
		return expected
	}
	p := &t.pick.Prediction
	first, took := p.FirstOutput(), t.line.Upstream()
	if !first.OK || !took.OK || p.Output.V <= 0 {
		return 0
	}
	return int64(float64(expected) * min(max((took.V-first.V)/p.Output.V, 0), 1))
}
