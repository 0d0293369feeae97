package command_test

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var fleetSpeed = flag.Duration("fleet-speed", 0, "how long each round of TestFleetSpeed lasts; 0: a short one, and no limit is held")

const (
	busMost  = 6.0  // MiB that an edge has more with its NATS server open
	nodeMost = 30.0 // MiB of a node without calls
)

// TestFleetMemory: what the NATS server adds to an edge, and what a node has without
// calls. The median of three processes each.
func TestFleetMemory(t *testing.T) {
	s := newFleetServer(t, fleetModel)
	var without, with, nodes []float64
	for range 3 {
		a, b := newFleetRig(t, nil), newFleetRig(t, nil)
		b.invite(t, "box", "") // which opens the port
		c := newFleetRig(t, nil)
		n := c.join(t, "box", "", s.URL, nil)
		<-time.After(4 * time.Second) // what only the start needed is given back after three
		without, with, nodes = append(without, memory(t, a.cmd)), append(with, memory(t, b.cmd)), append(nodes, memory(t, n.cmd))
		for _, r := range []*fleetRig{a, b, c} {
			r.kill()
		}
		if err := n.kill("KILL"); err != nil {
			t.Fatal(err)
		}
	}
	middle := func(list []float64) float64 {
		slices.Sort(list)
		return list[len(list)/2]
	}
	t.Logf("MiB: an edge without the NATS server %.1f, with it %.1f; a node %.1f", without, with, nodes)
	if more := middle(with) - middle(without); more > busMost {
		t.Errorf("the NATS server adds %.1f MiB to an edge, want %.0f at most", more, busMost)
	}
	if is := middle(nodes); is > nodeMost {
		t.Errorf("a node without calls has %.1f MiB, want %.0f at most", is, nodeMost)
	}
}

const (
	costMost  = 2.2                    // what a stream through a node costs, where one without costs 1
	delayMost = 500 * time.Microsecond // of the first output, in the middle
)

// TestFleetSpeed: what streams of 200 events through a node cost in processor time,
// edge and node together, against the same from the same server by HTTP: as fast as they
// go, and one every 20 ms; and how much later the first output comes. Rounds of both
// alternate; the median of their ratios counts, as other programs run beside.
func TestFleetSpeed(t *testing.T) {
	rounds, lasts, calls := 5, *fleetSpeed, 300
	if *fleetSpeed == 0 {
		rounds, lasts, calls = 1, 700*time.Millisecond, 40
	}
	s := newFleetServer(t, fleetModel)
	r := newFleetRig(t, func(config map[string]any) {
		config["log"] = map[string]any{"level": "info"}
		config["providers"] = []any{asking("direct", "openai", s.URL, "straight")}
	})
	n := r.join(t, "box", "", s.URL, nil)
	warm := func(model string) {
		if got := r.runModel(newJob(200, "0", 40), model); got.whole() != nil {
			t.Fatal(got.whole())
		}
	}
	warm(fleetModel)
	warm("straight")

	// cost is the processor time for an event, with so many streams at once.
	cost := func(model, gap string, streams int) time.Duration {
		before := processor(t, r.cmd) + processor(t, n.cmd)
		var all sync.WaitGroup
		events := make([]int, streams)
		end := time.Now().Add(lasts)
		for i := range streams {
			all.Go(func() {
				for time.Now().Before(end) {
					got := r.runModel(newJob(200, gap, 40), model)
					if got.err != nil || got.status != http.StatusOK || len(got.body) != len(fleetAnswer(got.job.name, 200, 40)) {
						t.Errorf("status %d, %d bytes, error %v", got.status, len(got.body), got.err)
						return
					}
					events[i] += 200
				}
			})
		}
		all.Wait()
		sum := 0
		for _, n := range events {
			sum += n
		}
		return (processor(t, r.cmd) + processor(t, n.cmd) - before) / time.Duration(max(sum, 1))
	}
	for _, of := range []struct {
		name, gap string
		streams   int
	}{{"32 streams without pause", "0", 32}, {"100 streams, 20 ms between events", "20ms", 100}} {
		var ratios []float64
		var last string
		for range rounds {
			straight, through := cost("straight", of.gap, of.streams), cost(fleetModel, of.gap, of.streams)
			ratios = append(ratios, float64(through)/float64(straight))
			last = fmt.Sprintf("%v and %v", through, straight)
		}
		slices.Sort(ratios)
		t.Logf("%s: an event through a node costs %.2f times what it costs without (%.2f); at last %s", of.name, ratios[len(ratios)/2], ratios, last)
		if *fleetSpeed > 0 && ratios[len(ratios)/2] > costMost {
			t.Errorf("%s: want %.1f at most", of.name, costMost)
		}
	}

	// One call after another, to each in turn.
	first := func(model string) time.Duration {
		j := newJob(3, "4ms", 0)
		body := strings.Replace(j.body(), `"mini"`, `"`+model+`"`, 1)
		at := time.Now()
		resp, err := r.call(r.client, fleetKey, "/v1/chat/completions", body)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := readUntil(resp.Body, fleetText(j.name, 0, 0)); err != nil {
			t.Fatal(err)
		}
		took := time.Since(at)
		_, _ = io.Copy(io.Discard, resp.Body)
		return took
	}
	var straight, through []time.Duration
	for range calls {
		straight, through = append(straight, first("straight")), append(through, first(fleetModel))
	}
	slices.Sort(straight)
	slices.Sort(through)
	delay := through[calls/2] - straight[calls/2]
	t.Logf("the first output, which its server sends after 4 ms: in the middle after %v, through a node after %v: %v later", straight[calls/2], through[calls/2], delay)
	if *fleetSpeed > 0 && delay > delayMost {
		t.Errorf("want %v at most", delayMost)
	}
}
