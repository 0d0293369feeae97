package command_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

// cancelWithin is how soon a call that its client has left gives its slot back
// (SPEC §14).
const cancelWithin = 100 * time.Millisecond

// TestFleetCancel: a call whose client leaves gives its slot at once to the one that
// waits, and its model server's connection is closed.
func TestFleetCancel(t *testing.T) {
	s := newFleetServer(t, fleetModel)
	r := newFleetRig(t, nil)
	r.join(t, "box", "", s.URL, map[string]any{"slots": 1})
	var closed, freed []time.Duration
	for range 15 {
		first, second := newJob(1, "hold", 0), newJob(1, "0", 0)
		ctx, leave := context.WithCancel(context.Background())
		resp, err := r.beginFor(ctx, first)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := readUntil(resp.Body, fleetText(first.name, 0, 0)); err != nil {
			t.Fatal(err)
		}
		var next sync.WaitGroup
		next.Go(func() {
			if err := r.run(second).whole(); err != nil {
				t.Error(err)
			}
		})
		err = poll(func() error {
			v, err := r.get("/admin/v1/nodes/box")
			if err == nil && fmt.Sprint(v["queue"]) != "1" {
				err = fmt.Errorf("%v calls wait", v["queue"])
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		at := time.Now()
		leave()
		resp.Body.Close()
		next.Wait()
		left, err := s.closed(first.name)
		if err != nil {
			t.Fatal(err)
		}
		closed = append(closed, left.Sub(at))
		s.note(func() { freed = append(freed, s.when[second.name].Sub(at)) })
	}
	slices.Sort(closed)
	slices.Sort(freed)
	n := len(closed)
	t.Logf("after a client left, its model server was left within %v (median), %v (most); the next call was begun within %v, %v", closed[n/2], closed[n-1], freed[n/2], freed[n-1])
	// The median: what else runs on the machine is not the cancel's doing.
	if closed[n/2] > cancelWithin || freed[n/2] > cancelWithin {
		t.Errorf("want %v", cancelWithin)
	}
	r.idle(t)
}

// TestFleetCancels: clients that leave at any moment, a thousand times, leave nothing
// behind: no slot, no goroutine at either end (each subscription has one), no
// connection to the model server, and what the node measured of them is there once.
func TestFleetCancels(t *testing.T) {
	const cancels, clients, slots = 1000, 40, 16
	s := newFleetServer(t, fleetModel)
	r := newFleetRig(t, nil)
	n := r.join(t, "box", "", s.URL, map[string]any{"slots": slots})
	for range 3 {
		if err := r.run(newJob(3, "1ms", 0)).whole(); err != nil {
			t.Fatal(err)
		}
	}
	r.client.CloseIdleConnections()
	baseline := r.goroutines(t)

	var all sync.WaitGroup
	var mu sync.Mutex
	var jobs []string
	ends := map[string]int{}
	for range clients {
		all.Go(func() {
			for range cancels / clients {
				j := newJob(20, "3ms", 100)
				ctx, leave := context.WithTimeout(context.Background(), rand.N(150*time.Millisecond))
				resp, err := r.beginFor(ctx, j)
				end := "before its headers"
				if err == nil {
					end = "in its answer"
					if _, err = io.ReadAll(resp.Body); err == nil {
						end = "never"
					}
					resp.Body.Close()
				}
				leave()
				mu.Lock()
				jobs = append(jobs, j.name)
				ends[end]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	t.Logf("of %d calls the client left: %v", cancels, ends)
	if ends["in its answer"] < cancels/20 || ends["before its headers"] < cancels/20 {
		t.Error("hardly any client left in the middle: nothing was tested")
	}

	r.idle(t)
	err := poll(func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		for job := range s.asked {
			if s.left[job].IsZero() && !s.ended[job] {
				return fmt.Errorf("the model server still works on job %s", job)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if twice := s.twice(); len(twice) > 0 {
		t.Errorf("jobs were asked for more than once: %v", twice)
	}
	r.settled(t, baseline)

	// What the node measured: of each call that its server was asked for.
	outcomes, beside := map[string]int{}, 0
	for _, job := range jobs {
		s.mu.Lock()
		asked := s.asked[job] > 0
		s.mu.Unlock()
		err := poll(func() error {
			status, raw, err := r.adminBy(r.client, "/admin/v1/jobs/"+job)
			if err != nil || status == http.StatusNotFound && !asked {
				return err
			}
			var list struct{ Items []fleetReceipt }
			if err := json.Unmarshal(raw, &list); err != nil || len(list.Items) != 1 {
				return fmt.Errorf("job %s: status %d, error %v: %s", job, status, err, raw)
			}
			c := list.Items[0]
			in := c.NodeTiming != nil && c.NodeTiming.Service != nil
			if asked && in == (len(c.NodeCalls) == 1) || len(c.NodeCalls) > 1 {
				return fmt.Errorf("the node's figures of job %s: %s", job, raw)
			}
			outcomes[c.Outcome]++
			beside += len(c.NodeCalls)
			return nil
		})
		if err != nil {
			t.Error(err)
			break
		}
	}
	t.Logf("outcomes: %v; the node told of %d beside their receipts", outcomes, beside)
	if got := r.run(newJob(3, "1ms", 0)); got.whole() != nil {
		t.Error(got.whole())
	}
	n.atRest(t)
}
