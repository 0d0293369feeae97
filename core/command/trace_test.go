package command

import (
	"strings"
	"testing"
	"time"

	"headway/core"
	"headway/core/control"
)

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
	var lines []string
	for line := range strings.Lines(b.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	text := strings.Join(lines, "\n") + "\n"
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
