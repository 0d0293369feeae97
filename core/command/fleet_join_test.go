package command_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"
)

// joinWithin is how long a node may take from its start to its first served call
// (SPEC §14).
const joinWithin = time.Second

// TestFleetJoin: a node's models are there, and serve, within a second of its start;
// and they come and go as its server loads and drops them.
func TestFleetJoin(t *testing.T) {
	r := newFleetRig(t, nil)
	s := newFleetServer(t, fleetModel)
	// The best of three: what else runs on the machine is not the node's doing.
	var best, last time.Duration
	var n *fleetNode
	for i := range 3 {
		if n != nil {
			if err := n.kill("TERM"); err != nil {
				t.Fatal(err)
			}
			if status, _, err := r.admin(http.MethodDelete, "/admin/v1/nodes/"+n.name, nil); err != nil || status != http.StatusOK {
				t.Fatalf("revoking node %s: status %d, error %v", n.name, status, err)
			}
		}
		n = r.prepare(t, fmt.Sprintf("box-%d", i), "", s.URL, nil)
		at := time.Now()
		n.start(t, r)
		err := poll(func() error { return r.run(newJob(1, "0", 0)).whole() })
		if last = time.Since(at); err != nil {
			t.Fatalf("%v\nthe node says\n%s\nthe edge says\n%s", err, n.log.tail(), r.log.tail())
		}
		t.Logf("from the start of a node to its first served call: %v", last)
		if i == 0 || last < best {
			best = last
		}
	}
	if best > joinWithin {
		t.Errorf("a node's first served call came after %v, want %v at most", best, joinWithin)
	}

	for _, models := range [][]string{{fleetModel, "fresh"}, {"fresh"}, {}, {fleetModel}} {
		s.note(func() { s.models = models })
		at := time.Now()
		err := poll(func() error {
			offers, err := r.items("/admin/v1/offers?limit=1000")
			if err != nil {
				return err
			}
			var have []string
			for _, o := range offers {
				if o["node"] == n.name {
					have = append(have, fmt.Sprint(o["model"]))
				}
			}
			slices.Sort(have)
			if want := slices.Sorted(slices.Values(models)); !slices.Equal(have, want) {
				return fmt.Errorf("the server has %v, the node's offers are of %v", want, have)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("the server's models became %v: in force after %v", models, time.Since(at))
	}
	if err := r.run(newJob(3, "1ms", 0)).whole(); err != nil {
		t.Error(err)
	}
}
