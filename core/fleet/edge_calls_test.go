package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"headway/core"
)

// tell hands calls over as a node does, and gives the ids that need not be told again.
func (n *scripted) tell(calls ...core.NodeCall) []string {
	n.r.t.Helper()
	text, err := json.Marshal(calls)
	if err != nil {
		n.r.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	answer, err := n.link.Request(ctx, subject(subjectCalls, n.name), text)
	if err != nil {
		n.r.t.Fatal(err)
	}
	var k kept
	if err := json.Unmarshal(answer, &k); err != nil {
		n.r.t.Fatal(err)
	}
	return k.Kept
}

// receipt makes a call durable that ended at a node's offers.
func (r *edgeRig) receipt(id core.CallID, timing *core.NodeTiming, nodes ...core.NodeID) {
	r.t.Helper()
	if err := r.book.Open(core.Intent{ID: id}); err != nil {
		r.t.Fatal(err)
	}
	rec := &core.Receipt{ID: id, Outcome: core.ClientGone, Annex: core.Annex{NodeTiming: timing}}
	for _, n := range nodes {
		rec.Node = n
		rec.Attempts = append(rec.Attempts, core.Attempt{Node: n})
	}
	if len(nodes) == 0 {
		rec.Outcome = core.Lost
	}
	r.book.Append(rec, nil)
}

func told(id core.CallID, attempt int) core.NodeCall {
	return core.NodeCall{Call: id, Attempt: attempt, Node: "a lie", Provider: "box", Model: "m", Outcome: core.Settled,
		Usage: core.Usage{Output: core.Some[int64](7)}, Timing: core.NodeTiming{SlotWait: core.Some(1.0), Service: core.Some(20.0)}}
}

func TestToldCalls(t *testing.T) {
	r := newEdgeRig(t)
	n := r.join("box", report(2, 4, "m"), nil)
	id := func() core.CallID { return core.NewCallID(time.Now()) }
	whole := &core.NodeTiming{SlotWait: core.Some(1.0), Service: core.Some(20.0)}
	part := &core.NodeTiming{SlotWait: core.Some(1.0)}
	open, there, partly, none, lost, second, elsewhere := id(), id(), id(), id(), id(), id(), id()
	r.receipt(there, whole, "box")
	r.receipt(partly, part, "box")
	r.receipt(none, nil, "box")
	r.receipt(lost, nil)
	r.receipt(second, whole, "box", "box")
	r.receipt(elsewhere, whole, "other", "")
	got := n.tell(told(open, 1), told(there, 1), told(partly, 1), told(none, 1), told(lost, 1), told(lost, 2), told(second, 1), told(second, 2), told(second, 3), told(elsewhere, 1), told(elsewhere, 2))
	var want []string
	for _, x := range []core.NodeCall{told(there, 1), told(partly, 1), told(none, 1), told(lost, 1), told(lost, 2), told(second, 1), told(second, 2), told(second, 3), told(elsewhere, 1), told(elsewhere, 2)} {
		want = append(want, toldName(x.Call, x.Attempt))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("kept %v\nwant %v", got, want)
	}
	for of, attempts := range map[core.CallID][]int{open: nil, there: nil, partly: {1}, none: {1}, lost: {1, 2}, second: {1}, elsewhere: nil, "x": nil} {
		list, err := r.edge.Calls(of)
		if err != nil {
			t.Fatal(err)
		}
		var are []int
		for _, c := range list {
			are = append(are, c.Attempt)
			if c.Node != "box" || c.Call != of || c.Timing.Service.V != 20 || c.Usage.Output.V != 7 || c.Provider != "box" {
				t.Errorf("%+v", c)
			}
		}
		if !slices.Equal(are, attempts) {
			t.Errorf("%s: attempts %v, want %v", of, are, attempts)
		}
	}
	// Told again, nothing changes; a receipt that comes while the node waits for its
	// answer is soon enough.
	timer := time.AfterFunc(2*askReceipt, func() { r.receipt(open, nil, "box") })
	defer timer.Stop()
	if got := n.tell(told(open, 1), told(none, 1)); len(got) != 2 {
		t.Errorf("%v", got)
	}
	if list, _ := r.edge.Calls(none); len(list) != 1 {
		t.Errorf("%+v", list)
	}
	if list, _ := r.edge.Calls(open); len(list) != 1 {
		t.Errorf("%+v", list)
	}
}

// TestToldNonsense: what a hostile node tells is dropped or mended, and it does not
// tell it for ever.
func TestToldNonsense(t *testing.T) {
	r := newEdgeRig(t)
	n := r.join("box", report(2, 4, "m"), nil)
	id := core.NewCallID(time.Now())
	r.receipt(id, nil, "box")
	long := func(k int) string { return fmt.Sprintf("%0*d", k, 0) }
	for name, change := range map[string]func(*core.NodeCall){
		"no id": func(c *core.NodeCall) { c.Call = "" }, "id": func(c *core.NodeCall) { c.Call = "../../key/x" }, "attempt 0": func(c *core.NodeCall) { c.Attempt = 0 },
		"attempts": func(c *core.NodeCall) { c.Attempt = 99 }, "another's": func(c *core.NodeCall) { c.Provider = "other" }, "provider": func(c *core.NodeCall) { c.Provider = "box.A B" },
		"model": func(c *core.NodeCall) { c.Model = core.Model(long(1000)) }, "control": func(c *core.NodeCall) { c.Model = "\x1b[2J" },
	} {
		c := told(id, 1)
		change(&c)
		if got := n.tell(c); len(got) != 1 {
			t.Errorf("%s: %v", name, got)
		}
		if list, _ := r.edge.Calls(id); len(list) != 0 {
			t.Errorf("%s: it was kept: %+v", name, list)
		}
	}
	c := told(id, 1)
	c.Outcome, c.Usage.Output, c.Timing = "text of a prompt", core.Some[int64](-4), core.NodeTiming{SlotWait: core.Some(-1.0), Service: core.Some(1e300), FirstToken: core.Some(3.00049), FiguresFrom: "text"}
	n.tell(c)
	list, err := r.edge.Calls(id)
	if want := (core.NodeTiming{FirstToken: core.Some(3.0)}); err != nil || len(list) != 1 || list[0].Outcome != core.Failed || list[0].Usage.Output.OK || list[0].Timing != want {
		t.Errorf("%+v %v", list, err)
	}
	c.Outcome = core.Lost
	n.tell(c)
	if list, err := r.edge.Calls(id); err != nil || len(list) != 1 || list[0].Outcome != core.Lost {
		t.Errorf("%+v %v", list, err)
	}
	for _, bad := range [][]byte{[]byte("{"), make([]byte, 1000)} {
		_, _ = r.bus.send(n.link, subject(subjectCalls, "box"), "hw.v1.j.box.r", bad)
	}
	var many []core.NodeCall
	for range mostCalls + 1 {
		many = append(many, c)
	}
	text, _ := json.Marshal(many)
	_, _ = r.bus.send(n.link, subject(subjectCalls, "box"), "hw.v1.j.box.r", text)
	r.eventually("the faults were seen", func() bool { return r.edge.find("box").session.Load().fault.Load() == 3 })
}

// TestToldWithoutReceipt: a call that no receipt comes of is let go after a day.
func TestToldWithoutReceipt(t *testing.T) {
	r := newEdgeRig(t)
	n := r.join("box", report(2, 4, "m"), nil)
	for age, kept := range map[time.Duration]int{0: 0, noReceipt - time.Hour: 0, noReceipt + time.Second: 1} {
		id := core.NewCallID(time.Now().Add(-age))
		if got := n.tell(told(id, 1)); len(got) != kept {
			t.Errorf("%v old: %v", age, got)
		}
		if list, _ := r.edge.Calls(id); len(list) != 0 {
			t.Errorf("%+v", list)
		}
	}
}

// fullVault is a vault that refuses to write, and one that says how many records it has.
type fullVault struct {
	*core.Memory
	broken bool
	extra  int
}

func (v *fullVault) Write(puts, deletes []core.Record) error {
	if v.broken {
		return errors.New("disk full")
	}
	return v.Memory.Write(puts, deletes)
}

func (v *fullVault) All(kind string, yield func(string, []byte) bool) error {
	for range v.extra {
		yield("x", nil)
	}
	return v.Memory.All(kind, yield)
}

// TestToldBounds: what cannot be written is told again, and the oldest go where there
// are too many.
func TestToldBounds(t *testing.T) {
	r := newEdgeRig(t)
	v := &fullVault{Memory: r.book, broken: true, extra: mostTold - 2}
	r.edge.Vault = v
	n := r.join("box", report(2, 4, "m"), nil)
	start := time.Now()
	ids := make([]core.CallID, 4)
	for i := range ids {
		ids[i] = core.NewCallID(start.Add(time.Duration(i) * time.Second))
		r.receipt(ids[i], nil, "box")
	}
	if got := n.tell(told(ids[0], 1)); len(got) != 0 {
		t.Errorf("kept %v on a full disk", got)
	}
	v.broken = false
	for i, want := range []int{1, 1, 1, 1} {
		if got := n.tell(told(ids[i], 1)); len(got) != want {
			t.Errorf("%d: kept %v", i, got)
		}
	}
	// The third was one too many: those before it went.
	for i, want := range []int{0, 0, 1, 1} {
		if list, _ := r.edge.Calls(ids[i]); len(list) != want {
			t.Errorf("%d: %+v", i, list)
		}
	}
	if err := r.book.Put(kindTold, toldName(ids[3], 2), []byte("{")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.edge.Calls(ids[3]); err == nil {
		t.Error("a damaged record is none")
	}
}
