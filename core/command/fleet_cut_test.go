package command_test

import (
	"flag"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

var longestCut = flag.Duration("longest-cut", 10*time.Second, "the longest time that TestFleetCut cuts the network for: 1s, 10s or 1m")

// What FLEET.md §2 says of a node that is not heard of, by the file's defaults: a
// heartbeat of 1 s, 3 of which may be missed, looked at four times in each.
const (
	cutSilence = 3 * time.Second
	cutLook    = time.Second / 4
	// cutSlack is what a machine with other work to do may add to a limit.
	cutSlack = 2 * time.Second
	// cutBack is how soon a node is back once the network is: a dial that waits for it
	// goes on, and a new one is made within 1 s of the end of one that had given up.
	cutBack = time.Second + cutSlack
)

// TestFleetCut cuts the network between an edge and its node, in both directions and
// in each, for less than the limit of silence and for more. Nothing hangs longer than
// that limit, no job is run twice, and nothing is left of it.
func TestFleetCut(t *testing.T) {
	for _, cut := range []time.Duration{time.Second, 10 * time.Second, time.Minute} {
		for _, way := range []string{"both", "to the edge", "to the node"} {
			if cut > *longestCut {
				continue
			}
			t.Run(fmt.Sprintf("%v %s", cut, way), func(t *testing.T) {
				t.Parallel()
				testFleetCut(t, cut, way)
			})
		}
	}
}

func testFleetCut(t *testing.T, cut time.Duration, way string) {
	s, spare := newFleetServer(t, fleetModel), newFleetServer(t, fleetModel)
	spare.quick = true
	r := newFleetRig(t, func(config map[string]any) {
		config["providers"] = []any{asking("spare", "openai", spare.URL, fleetModel)}
	})
	between := newFleetNet(t, r.config["nats"].(map[string]any)["listen"].(string))
	n := r.join(t, "box", between.address(), s.URL, nil)
	if err := r.run(newJob(2, "1ms", 0)).whole(); err != nil {
		t.Fatal(err)
	}
	r.client.CloseIdleConnections()
	baseline := r.goroutines(t)

	// Streams under way, longer than the cut, and calls that come while it lasts.
	const streams, every = 10, 150 * time.Millisecond
	gap := 20 * time.Millisecond
	var all sync.WaitGroup
	open := make([]fleetResult, streams)
	var jobs []fleetJob
	for i := range streams {
		j := newJob(int(min(cut, 6*time.Second)/gap)+100, gap.String(), 50)
		jobs = append(jobs, j)
		all.Go(func() { open[i] = r.run(j) })
	}
	s.wait(t, jobs...)
	<-time.After(200 * time.Millisecond) // they are in the middle

	at := time.Now()
	if way != "to the node" {
		between.up.set(false)
	}
	if way != "to the edge" {
		between.down.set(false)
	}
	var mu sync.Mutex
	var came []fleetResult
	tick := time.NewTicker(every)
	defer tick.Stop()
	for end := time.After(cut); ; {
		select {
		case <-tick.C:
			all.Go(func() {
				got := r.run(newJob(2, "1ms", 20))
				mu.Lock()
				defer mu.Unlock()
				came = append(came, got)
			})
			continue
		case <-end:
		}
		break
	}
	between.up.set(true)
	between.down.set(true)
	healed := time.Now()
	r.up(t, n)
	back := time.Since(healed)
	if back > cutBack {
		t.Errorf("the node is back %v after the network, want %v at most", back, cutBack)
	}
	all.Wait()

	short := cut < cutSilence-time.Second // a heartbeat may have gone out just before the cut
	limit := cutSilence + cutLook + cutSlack
	var slowest time.Duration
	for _, got := range open {
		ended := got.ended.Sub(at)
		if short {
			if err := got.whole(); err != nil {
				t.Errorf("a stream through a cut of %v: %v", cut, err)
			}
			continue
		}
		if err := got.cutOff(); err != nil {
			t.Errorf("a stream through a cut of %v: %v", cut, err)
		}
		slowest = max(slowest, ended)
		if ended > limit {
			t.Errorf("a stream ended %v after the cut, want %v at most", ended, limit)
		}
		err := poll(func() error { // what the node measured of it comes behind
			c := r.told(t, got.id)
			if c.Outcome != "truncated" || c.Attempts[0].Error != "node_lost" || len(c.NodeCalls) != 1 || c.NodeTiming != nil && c.NodeTiming.Service != nil {
				return fmt.Errorf("the receipt of a stream that was cut off is %+v", c)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	served := map[string]int{}
	for _, got := range came {
		if got.err != nil || got.status != http.StatusOK || !strings.Contains(string(got.body), "[DONE]") {
			t.Errorf("a call during the cut: status %d, error %v: %.300s", got.status, got.err, got.body)
			continue
		}
		most := limit
		if short {
			most = cut + cutSlack
		}
		if got.took > most {
			t.Errorf("a call during the cut took %v, want %v at most", got.took, most)
		}
		slowest = max(slowest, got.took)
		c := r.told(t, got.id)
		served[c.Offer]++
		if len(c.NodeCalls) > 0 && c.NodeTiming != nil && c.NodeTiming.Service != nil {
			t.Errorf("the node's figures are there twice: %+v", c)
		}
	}
	t.Logf("the longest call that met the cut took %v; of those that came during it %v; the node is back %v after the network", slowest, served, back)
	if !short && served["spare/"+fleetModel] == 0 {
		t.Error("no call fell back: nothing was tested")
	}
	for _, at := range []*fleetServer{s, spare} {
		if twice := at.twice(); len(twice) > 0 {
			t.Errorf("jobs were asked for more than once: %v", twice)
		}
	}

	// And all is as before.
	got := r.run(newJob(2, "1ms", 20))
	if err := got.whole(); err != nil {
		t.Error(err)
	} else if c := r.told(t, got.id); c.Node != "box" {
		err := poll(func() error { // the breaker lets the node in again
			got := r.run(newJob(2, "1ms", 20))
			if c := r.told(t, got.id); c.Node != "box" {
				return fmt.Errorf("calls go to %s", c.Offer)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	r.idle(t)
	r.settled(t, baseline)
	n.atRest(t)
}
