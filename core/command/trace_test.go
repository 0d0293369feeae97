package command

import (
	"strings"
	"testing"
	"time"

	"headway/core"
	"headway/core/control"
	"headway/core/ledger"
)

// squeezed is text with one space between words, whatever the width of its columns.
func squeezed(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	return b.String()
}

// A call at a node is shown with the node's own figures, apart from the timeline, and
// with what it told later.
func TestTraceOfNode(t *testing.T) {
	some := core.Some[float64]
	r := &core.Receipt{ID: "01k", Kind: core.KindJob, Outcome: core.ClientGone, At: time.Unix(0, 0), Model: "m", Offer: "box/m", Node: "box"}
	r.Timing.Queued, r.Timing.UpstreamHeaders = some(2), some(1003)
	r.NodeTiming = &core.NodeTiming{Queued: some(1002), SlotWait: some(1000)}
	r.Attempts = []core.Attempt{{Offer: "box/m", Node: "box"}, {Offer: "box/m", Node: "box"}}
	call := control.Call{Receipt: r, NodeCalls: []core.NodeCall{{Call: "01k", Attempt: 1, Node: "box", Outcome: core.Settled, Usage: core.Usage{Output: core.Some[int64](7)},
		Timing: core.NodeTiming{SlotWait: some(1000), FirstToken: some(40), Prompt: some(38), DecodeTPS: some(41.5), FiguresFrom: "server", Service: some(900)}}}}
	var b strings.Builder
	traceCall(&b, call)
	text := squeezed(b.String())
	for _, want := range []string{
		"ON THE CLOCK OF NODE box TIME COUNTED FROM\nqueued: at the edge, then for a slot 1002 ms\nwaited for a free slot 1000 ms\nnode box told later of attempt 1: settled, 7 tokens out\n",
		"first token 40.0 ms from the node's upstream send\nprompt processing 38.0 ms the model server's own figure\nheld the slot 900 ms\ngeneration speed 41.5 tok/s the model server's own figure\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s\nhas no\n%s", text, want)
		}
	}
	call.NodeCalls[0].Attempt = 2 // of the same one: what the receipt has is a part of it
	b.Reset()
	traceCall(&b, call)
	if n := strings.Count(b.String(), "CLOCK"); n != 1 {
		t.Errorf("%d clocks: %s", n, b.String())
	}
	call.NodeCalls, r.NodeTiming = nil, nil
	b.Reset()
	traceCall(&b, call)
	if strings.Contains(b.String(), "CLOCK") {
		t.Errorf("%s", b.String())
	}
}

// A step of a job shows the figures of its last call that succeeded and the charge of all
// its calls; the table ends with the charge of the job.
func TestTraceOfJob(t *testing.T) {
	call := func(id, step string, is core.Outcome, charge core.Opt[core.Money]) *core.Receipt {
		return &core.Receipt{ID: core.CallID(id), Step: step, Outcome: is, Model: "m", Offer: "a/m", Charge: charge}
	}
	usd := func(m core.Money) core.Opt[core.Money] { return core.Some(m) }
	calls := []*core.Receipt{
		call("c1", "plan", core.Settled, usd(231_250_000)), call("c2", "plan", core.Settled, usd(25_600_001)), call("c3", "plan", core.Failed, core.Opt[core.Money]{}),
		call("c4", "write", core.ClientGone, usd(1_000_000)), call("c5", "read", core.Failed, core.Opt[core.Money]{}), call("c6", "", core.Settled, usd(0)),
	}
	var b strings.Builder
	modelTimings(&b, calls)
	text := squeezed(b.String())
	for _, want := range []string{
		"plan c2 settled m a/m - - - - - $0.000256850001\n1 of 3 c1 settled m a/m - - - - - $0.00023125\n2 of 3 c2 settled m a/m - - - - - $0.000025600001\n3 of 3 c3 failed m a/m - - - - - -\n",
		"\nwrite - no call succeeded - - - - - - - $0.000001\nread - no call succeeded - - - - - - - -\n(no step) c6 settled m a/m - - - - - $0\n",
		"\ntotal - 6 calls - - - - - - - $0.000257850001\nA step's figures are those of its last call that succeeded; its charge is that of all its calls.\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s\nhas no\n%s", text, want)
		}
	}
	b.Reset()
	modelTimings(&b, calls[:1])
	if text := b.String(); strings.Contains(text, "total") || strings.Contains(text, "charge is") {
		t.Errorf("of one call: %s", text)
	}
	b.Reset()
	modelTimings(&b, []*core.Receipt{calls[2], calls[4]})
	if text := squeezed(b.String()); !strings.Contains(text, "\ntotal - 2 calls - - - - - - - -\n") {
		t.Errorf("what is not known is no 0: %s", text)
	}
}

// The charge of a call can be worked out from the prices and tokens that its trace shows.
func TestTracePrices(t *testing.T) {
	n, usd := core.Some[int64], func(text string) core.Rate {
		r, err := core.ParseRate(text)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	plain := core.Rates{Input: usd("0.25"), Output: usd("2")}
	cached := plain
	cached.CacheRead, cached.CacheWrite, cached.CacheWrite1h = core.Some(usd("0.025")), core.Some(usd("0.3125")), core.Some(usd("0.5"))
	for want, c := range map[string]struct {
		usage core.Usage
		rates core.Rates
	}{
		"$0.00025685 at $0.25 in, $0.025 cache read, $2 out":                       {core.Usage{UncachedInput: n(213), CacheRead: n(1024), CacheWrite: n(0), Output: n(89)}, cached},
		"$0.0000535 at $0.25 in, $0.25 cache read, $2 out":                         {core.Usage{UncachedInput: n(10), CacheRead: n(196), Output: n(1)}, plain},
		"$0.0000045 at $0.25 in, $2 out":                                           {core.Usage{UncachedInput: n(10), Output: n(1)}, cached},
		"$0.0004 at $0.25 in, $0.3125 cache written, $0.5 written for 1 h, $2 out": {core.Usage{CacheWrite: n(1040), CacheWrite1h: n(400), Output: n(0)}, cached},
		"$0.0002 at $0.25 in, $0.5 written for 1 h, $2 out":                        {core.Usage{CacheWrite: n(400), CacheWrite1h: n(400)}, cached},
	} {
		charge, rates, err := ledger.Charge(c.usage, core.Price{Rates: c.rates})
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		traceUsage(&b, &core.Receipt{Usage: c.usage, Prices: &rates, Charge: core.Some(charge)})
		if !strings.HasSuffix(b.String(), "  charge: "+want+" per million tokens\n") {
			t.Errorf("want %s, is %s", want, b.String())
		}
	}
}

// A server that refuses calls does not say that all is well with receipts.
func TestStatusOfReceipts(t *testing.T) {
	for want, s := range map[string]control.Status{
		"every one is kept":                             {Healthy: true, ReceiptLog: &control.ReceiptLogStatus{Problems: []string{"the newest leaves are not signed"}}},
		"not kept: no room":                             {Trouble: "no room", ReceiptLog: &control.ReceiptLogStatus{Held: true}},
		"calls are refused: theirs could not be signed": {Healthy: true, ReceiptLog: &control.ReceiptLogStatus{Held: true}},
	} {
		if got := health(s); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
