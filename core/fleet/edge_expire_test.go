package fleet

import (
	"testing"
	"time"

	"headway/core"
)

// TestDropCalls: what nodes told of calls of before a time goes, over more than one
// write has, and what is left is counted.
func TestDropCalls(t *testing.T) {
	r := newEdgeRig(t)
	before := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	put := func(at time.Time) core.CallID {
		t.Helper()
		id := core.NewCallID(at)
		if err := r.edge.keep([]core.Record{{Kind: kindTold, Name: toldName(id, 1), Value: []byte(`{"call":"` + string(id) + `","attempt":1}`)}}); err != nil {
			t.Fatal(err)
		}
		return id
	}
	const old = dropTold + 20
	for i := range old {
		put(before.Add(-time.Duration(old-i) * time.Millisecond))
	}
	kept := put(before)
	if n, err := r.edge.DropCalls(before); n != old || err != nil {
		t.Errorf("%d dropped, %v", n, err)
	}
	if list, err := r.edge.Calls(kept); len(list) != 1 || err != nil {
		t.Errorf("%v %v", list, err)
	}
	if n := r.edge.calls.n; n != 1 {
		t.Errorf("%d are counted", n)
	}
	if n, err := r.edge.DropCalls(before); n != 0 || err != nil {
		t.Errorf("%d dropped, %v", n, err)
	}
}
