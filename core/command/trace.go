package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"headway/core"
	"headway/core/control"
	"headway/core/market"
)

func traceCommand() *cli.Command {
	return &cli.Command{
		Name: "trace", Usage: "show everything that is kept of a call or a job", UsageText: "headway trace ID [--json]",
		Description: "ID is a call's (x-request-id of its answer), a job's (x-headway-job of its requests), or the word last\n" +
			"for the newest call. Each figure is shown with where it counts from; figures of different origins are not to be subtracted.\n\n" +
			"Example:\n   headway trace nightly-build-17",
		Flags:  serverFlags(jsonFlag()),
		Action: onServer([]string{"ID"}, trace),
	}
}

func trace(ctx context.Context, c *cli.Context, s *control.Client, args []string) error {
	id, err := newest(ctx, s, args[0])
	if err != nil {
		return err
	}
	job, err := s.Job(ctx, id)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, job)
	}
	w := c.App.Writer
	receipts := make([]*core.Receipt, len(job.Items))
	for i, r := range job.Items {
		traceCall(w, r)
		fmt.Fprintln(w)
		receipts[i] = r.Receipt
	}
	modelTimings(w, receipts)
	return nil
}

// newest gives the id that "last" stands for.
func newest(ctx context.Context, s *control.Client, id string) (string, error) {
	if id != "last" {
		return id, nil
	}
	calls, err := s.Calls(ctx, url.Values{"limit": {"1"}})
	if err != nil {
		return "", err
	}
	if len(calls.Items) == 0 {
		return "", &core.Error{Kind: core.NotFound, Msg: "there is no call yet", Hint: "make one, then ask again"}
	}
	return string(calls.Items[0].ID), nil
}

// figureOf is one figure of a timeline with its name and origin.
type figureOf struct {
	name, origin string
	ms           core.Opt[float64]
}

func traceCall(w io.Writer, call control.Call) {
	r := call.Receipt
	fmt.Fprintf(w, "call %s  %s", r.ID, r.Outcome)
	if r.Status != 0 {
		fmt.Fprintf(w, " (status %d)", r.Status)
	}
	fmt.Fprintf(w, "  %s\n", at(r.At))
	facts := []string{"kind " + string(r.Kind), "model " + string(r.Model), "offer " + orDash(string(r.Offer))}
	for _, f := range [...]struct{ name, is string }{
		{"job", string(r.Job)}, {"step", r.Step}, {"group", r.Group}, {"key", string(r.Key)}, {"node", string(r.Node)}, {"region", r.Region},
		{"format", formats(r)}, {"finish", r.FinishReason}, {"trace", r.TraceID},
	} {
		if f.is != "" {
			facts = append(facts, f.name+" "+f.is)
		}
	}
	fmt.Fprintf(w, "  %s\n", printable(strings.Join(facts, " · ")))
	traceUsage(w, r)
	if r.Slow != "" {
		fmt.Fprintf(w, "  slow: %s\n", r.Slow)
	}
	traceTimeline(w, r)
	// What the node told later of the same attempt has all that it had said by then.
	told := slices.ContainsFunc(call.NodeCalls, func(c core.NodeCall) bool { return c.Attempt == len(r.Attempts) })
	if r.NodeTiming != nil && !told {
		traceNode(w, r.Node, r.NodeTiming)
	}
	for i := range call.NodeCalls {
		c := &call.NodeCalls[i]
		fmt.Fprintf(w, "  node %s told later of attempt %d: %s", printable(string(c.Node)), c.Attempt, c.Outcome)
		if c.Usage.Output.OK {
			fmt.Fprintf(w, ", %s tokens out", number(c.Usage.Output))
		}
		fmt.Fprintln(w)
		traceNode(w, c.Node, &c.Timing)
	}
	traceAttempts(w, r)
	if r.Decision != nil {
		traceDecision(w, r.Decision)
	}
}

// formats says what the client spoke and, where that is something else, the
// provider.
func formats(r *core.Receipt) string {
	switch {
	case r.UpstreamFormat == "" || r.UpstreamFormat == r.Format:
		return string(r.Format)
	case r.UpstreamFormat.Native(r.Format):
		return fmt.Sprintf("%s, passed on to %s", r.Format, r.UpstreamFormat)
	}
	return fmt.Sprintf("%s, translated to %s", r.Format, r.UpstreamFormat)
}

func traceUsage(w io.Writer, r *core.Receipt) {
	if parts := tokensOf(r.Usage); len(parts) > 0 {
		fmt.Fprintf(w, "  tokens: %s (from the %s)\n", strings.Join(parts, ", "), usageFrom(r.UsageFrom))
	}
	fmt.Fprintf(w, "  charge: %s", dollars(r.Charge))
	if r.Prices != nil {
		fmt.Fprintf(w, " at %s per million tokens", strings.Join(pricesOf(r.Usage, r.Prices), ", "))
	}
	fmt.Fprintln(w)
}

// tokensOf are the tokens of a call, by what they were.
func tokensOf(u core.Usage) (parts []string) {
	for _, p := range [...]struct {
		name string
		n    core.Opt[int64]
	}{
		{"uncached in", u.UncachedInput}, {"cache read", u.CacheRead}, {"cache written", u.CacheWrite}, {"of it for 1 h", u.CacheWrite1h},
		{"out", u.Output}, {"of it reasoning", u.Reasoning},
	} {
		if p.n.OK {
			parts = append(parts, number(p.n)+" "+p.name)
		}
	}
	return parts
}

// pricesOf are the prices of a call, those of the cache where it used it: its charge can
// be worked out from them (ledger.Charge).
func pricesOf(u core.Usage, p *core.Rates) []string {
	write := p.CacheWrite.Or(p.Input)
	hour := min(u.CacheWrite1h.V, u.CacheWrite.V)
	list := []string{"$" + p.Input.String() + " in"}
	for _, c := range [...]struct {
		tokens int64
		rate   core.Rate
		name   string
	}{{u.CacheRead.V, p.CacheRead.Or(p.Input), "cache read"}, {u.CacheWrite.V - hour, write, "cache written"}, {hour, p.CacheWrite1h.Or(write), "written for 1 h"}} {
		if c.tokens > 0 {
			list = append(list, "$"+c.rate.String()+" "+c.name)
		}
	}
	return append(list, "$"+p.Output.String()+" out")
}

func usageFrom(f core.UsageFrom) string {
	switch f {
	case core.FromEstimate:
		return "router's estimate"
	case core.FromMixed:
		return "provider, in part the router's estimate"
	}
	return "provider"
}

func traceTimeline(w io.Writer, r *core.Receipt) {
	t := r.Timing
	const arrival, sent, span = "from the request's arrival", "from the upstream send", ""
	from := ""
	if t.FiguresFrom != "" {
		from = "measured from the stream"
		if t.FiguresFrom == "server" {
			from = "the model server's own figure"
		}
	}
	lines := table{head: []string{"  TIMELINE", ">TIME", "COUNTED FROM"}}
	for _, f := range [...]figureOf{
		{"key check", span, t.Auth}, {"request body read", span, t.BodyRead}, {"choosing the offer", span, t.Distribution},
		{"queued until the upstream send", arrival, t.Queued},
		{"connection: DNS", span, t.DNS}, {"connection: connect", span, t.Connect}, {"connection: TLS", span, t.TLS},
		{"upstream headers", sent, t.UpstreamHeaders}, {"first token", sent, t.FirstToken},
		{"first stream event", arrival, t.FirstEvent}, {"first response", arrival, t.FirstResponse}, {"first visible text", arrival, t.FirstText},
		{"first to last output", span, t.FirstTokenToEnd}, {"upstream done", arrival, t.UpstreamDone}, {"whole call", arrival, t.TotalHandler},
		{"prompt processing", from, t.Prompt}, {"generation", from, t.Decode},
	} {
		if f.ms.OK {
			lines.add("  "+f.name, ms(f.ms), f.origin+" ")
		}
	}
	for _, f := range [...]struct {
		name, origin string
		tps          core.Opt[float64]
	}{
		{"prompt speed", from, t.PromptTPS}, {"generation speed", from, t.DecodeTPS}, {"visible output speed", "what a person saw", t.VisibleTPS},
	} {
		if f.tps.OK {
			lines.add("  "+f.name, unit(f.tps, " tok/s"), f.origin+" ")
		}
	}
	for _, f := range [...]struct {
		name string
		n    core.Opt[int64]
	}{
		{"separate arrivals of output", t.Arrivals}, {"stream events", r.StreamEvents}, {"text deltas", r.TextDeltas},
		{"output tokens streamed", t.StreamedOutputTokens}, {"fresh input tokens at the start", t.FreshInputTokens}, {"calls in flight there at dispatch", r.InFlight},
	} {
		if f.n.OK {
			lines.add("  "+f.name, number(f.n), " ")
		}
	}
	if t.Reused.OK {
		word := "new"
		if t.Reused.V {
			word = "reused"
		}
		lines.add("  connection", word, " ")
	}
	if r.PredictedWait.OK || r.ActualWait.OK {
		lines.add("  predicted wait", ms(r.PredictedWait), sent+" ")
		lines.add("  actual wait", ms(r.ActualWait), sent+" ")
	}
	if len(lines.rows) > 0 {
		lines.write(w)
	}
}

// traceNode shows a node's own figures: they stand beside the timeline and are not to
// be taken from it.
func traceNode(w io.Writer, node core.NodeID, t *core.NodeTiming) {
	const sent = "from the node's upstream send"
	from := "measured from the stream"
	if t.FiguresFrom == "server" {
		from = "the model server's own figure"
	}
	lines := table{head: []string{"  ON THE CLOCK OF NODE " + string(node), ">TIME", "COUNTED FROM"}}
	for _, f := range [...]figureOf{
		{"queued: at the edge, then for a slot", "", t.Queued}, {"waited for a free slot", "", t.SlotWait},
		{"upstream headers", sent, t.UpstreamHeaders}, {"first token", sent, t.FirstToken},
		{"prompt processing", from, t.Prompt}, {"generation", from, t.Decode}, {"held the slot", "", t.Service},
	} {
		if f.ms.OK {
			lines.add("  "+f.name, ms(f.ms), f.origin+" ")
		}
	}
	for _, f := range [...]struct {
		name string
		tps  core.Opt[float64]
	}{{"prompt speed", t.PromptTPS}, {"generation speed", t.DecodeTPS}} {
		if f.tps.OK {
			lines.add("  "+f.name, unit(f.tps, " tok/s"), from+" ")
		}
	}
	if len(lines.rows) > 0 {
		lines.write(w)
	}
}

func traceAttempts(w io.Writer, r *core.Receipt) {
	if len(r.Attempts) == 0 {
		return
	}
	t := table{head: []string{"  ATTEMPT", "OFFER", "OUTCOME", ">STATUS", "WHY", ">SENT AFTER", ">HEADERS AFTER", ">FIRST TOKEN AFTER"}}
	for i, a := range r.Attempts {
		t.add("  "+strconv.Itoa(i+1), string(a.Offer), string(a.Outcome), status(a.Status), a.Error, ms(a.Timing.Queued), ms(a.Timing.UpstreamHeaders), ms(a.Timing.FirstToken))
	}
	t.write(w)
}

func traceDecision(w io.Writer, d *core.Decision) {
	fmt.Fprintf(w, "  decision: strategy %s", d.Strategy)
	if d.RankedOn != "" {
		fmt.Fprintf(w, ", ranked on %s", d.RankedOn)
	}
	if d.TimeUSD.OK {
		fmt.Fprintf(w, ", waiting at $%s an hour", d.TimeUSD.V)
	}
	fmt.Fprintln(w)
	if d.ScriptError != "" {
		fmt.Fprintf(w, "  the script failed: %s\n", printable(d.ScriptError))
	}
	scripted := slices.ContainsFunc(d.Offers, func(o core.Ranked) bool { return o.ScriptScore.OK })
	if scripted {
		fmt.Fprintln(w, "  the script's own scores: lower tiers first, then lower scores")
	}
	bySpeed := d.RankedOn == market.RankedOnOutputSpeed
	if bySpeed {
		fmt.Fprintln(w, "  the highest output speed of an offer's own jobs comes first; those with fewer than five of them follow, by price")
	}
	head := []string{"  #", "OFFER", ">SCORE"}
	switch {
	case scripted:
		head = []string{"  #", "OFFER", ">TIER", ">SCORE"}
	case bySpeed:
		head = []string{"  #", "OFFER", ">OWN JOBS", ">OWN TOK/S"}
	}
	t := table{head: append(head, ">CHARGE", ">WAIT", ">BASE", ">PREFILL", ">OUTPUT", ">QUEUE", ">TTFT", ">FRESH", ">CACHED", ">EXPECTED OUT", "REFUSED")}
	for i, o := range d.Offers {
		place := strconv.Itoa(i + 1)
		if o.Refused != "" {
			place = absent
		}
		score := absent
		switch {
		case o.Score.OK:
			score = "$" + strconv.FormatFloat(o.Score.V, 'g', 6, 64)
		case o.ScriptScore.OK:
			score = strconv.FormatFloat(o.ScriptScore.V, 'g', 6, 64)
		}
		cells := []string{"  " + place, string(o.Offer)}
		if scripted {
			tier := absent // of what the script did not rank
			if o.ScriptScore.OK {
				tier = strconv.Itoa(int(o.Tier.V))
			}
			cells = append(cells, tier)
		}
		if bySpeed {
			jobs := absent
			if score = absent; o.Basis != nil {
				jobs, score = strconv.FormatInt(o.Basis.OwnJobs, 10), unit(o.Basis.OwnTPS, "")
			}
			cells = append(cells, jobs)
		}
		t.add(append(cells, score, dollars(o.Charge), ms(o.PredictedWait), ms(o.Terms.Base), ms(o.Terms.Prefill), ms(o.Terms.Output), ms(o.Terms.Queue),
			ms(o.TTFT), number(o.Fresh), number(o.Cached), number(o.Output), string(o.Refused))...)
	}
	t.write(w)
}

// modelTimings lists each step's last successful call, and each call of a step
// that took more than one (SPEC §12). A step's charge is that of all its calls: those
// that failed or whose client left may have cost something too.
func modelTimings(w io.Writer, calls []*core.Receipt) {
	type step struct {
		name  string
		calls []*core.Receipt
	}
	var steps []*step
	for _, r := range calls {
		at := slices.IndexFunc(steps, func(s *step) bool { return s.name == r.Step })
		if at < 0 {
			at = len(steps)
			steps = append(steps, &step{name: r.Step})
		}
		steps[at].calls = append(steps[at].calls, r)
	}
	t := table{head: []string{"STEP", "CALL", "OUTCOME", "MODEL", "OFFER", ">QUEUED", ">FIRST TOKEN", ">PROMPT", ">GENERATION", ">TOTAL", ">CHARGE"}}
	row := func(name string, r *core.Receipt, charge core.Opt[core.Money]) {
		g := r.Timing
		t.add(name, string(r.ID), string(r.Outcome), string(r.Model), string(r.Offer), ms(g.Queued), ms(g.FirstToken), unit(g.PromptTPS, " tok/s"),
			unit(g.DecodeTPS, " tok/s"), ms(g.TotalHandler), dollars(charge))
	}
	for _, s := range steps {
		var last *core.Receipt
		for _, r := range s.calls {
			if r.Outcome == core.Settled {
				last = r
			}
		}
		name := cmp.Or(s.name, "(no step)")
		if last != nil {
			row(name, last, chargeOf(s.calls))
		} else {
			t.add(name, absent, "no call succeeded", "", "", "", "", "", "", "", dollars(chargeOf(s.calls)))
		}
		if len(s.calls) > 1 {
			for i, r := range s.calls {
				row(fmt.Sprintf("  %d of %d", i+1, len(s.calls)), r, r.Charge)
			}
		}
	}
	if len(calls) > 1 {
		all := several(len(calls), "call")
		if len(calls) >= pageItems {
			all = "newest " + all // the server gives no more of a job
		}
		t.add("total", "", all, "", "", "", "", "", "", "", dollars(chargeOf(calls)))
	}
	fmt.Fprintln(w, "Model timings")
	t.write(w)
	if len(calls) > len(steps) {
		fmt.Fprintln(w, "A step's figures are those of its last call that succeeded; its charge is that of all its calls.")
	}
}

// chargeOf is what calls were charged together; absent where none was.
func chargeOf(calls []*core.Receipt) (sum core.Opt[core.Money]) {
	for _, r := range calls {
		if !r.Charge.OK {
			continue
		}
		v, err := sum.V.Plus(r.Charge.V)
		if err != nil {
			return core.Opt[core.Money]{} // more than an amount can be
		}
		sum = core.Some(v)
	}
	return sum
}
