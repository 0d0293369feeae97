package command_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var fleetKills = flag.Int("fleet-kills", 3, "how often TestFleetEdgeKilled kills the edge, and every second time the node too")

// backWithin is how soon a node that was killed serves again after its start.
const backWithin = 2 * time.Second

// TestFleetNodeKilled: what a node that dies had not begun to answer is answered by
// another offer; what it had begun ends as an error of the stream, in the format of each
// client; and it is back at once.
func TestFleetNodeKilled(t *testing.T) {
	s, spare := newFleetServer(t, fleetModel), newFleetServer(t, fleetModel)
	spare.quick = true
	r := newFleetRig(t, func(config map[string]any) {
		config["breaker"] = map[string]any{"out": "2s"}
		config["providers"] = []any{asking("spare", "openai", spare.URL, fleetModel)}
	})
	n := r.join(t, "box", "", s.URL, nil)

	// Before the first output: nothing at all came, or the head of a stream.
	var early sync.WaitGroup
	results := make([]fleetResult, 2)
	jobs := []fleetJob{newJob(0, "never", 0), newJob(0, "hold", 0)}
	for i, j := range jobs {
		early.Go(func() { results[i] = r.run(j) })
	}
	s.wait(t, jobs...)
	// After it: each client has read a text.
	var begun []*http.Response
	var late []fleetJob
	for _, f := range wires() {
		j := newJob(1, "hold", 0)
		path, body := f.ask(fleetModel, fmt.Sprintf("%s %d %s %d", j.name, j.events, j.gap, j.size), true)
		resp, err := r.call(r.client, fleetKey, path, body)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := readUntil(resp.Body, fleetText(j.name, 0, 0)); err != nil {
			t.Fatalf("%s: %v", f.format, err)
		}
		begun, late = append(begun, resp), append(late, j)
	}
	at := time.Now()
	if err := n.kill("KILL"); err != nil {
		t.Fatal(err)
	}
	for i, f := range wires() {
		rest, err := io.ReadAll(begun[i].Body)
		a := clientAnswer{call: &caseCall{Path: begun[i].Request.URL.Path}, header: begun[i].Header, body: rest}
		if said := a.read(); err != nil || !said.InStream {
			t.Errorf("%s: the stream of a node that died: %v\n%s", f.format, err, rest)
		}
		if strings.Contains(string(rest), f.last()) {
			t.Errorf("%s: the stream of a node that died looks complete:\n%s", f.format, rest)
		}
	}
	early.Wait()
	t.Logf("all calls of a node that was killed were answered or ended %v later", time.Since(at))
	offers, err := r.items("/admin/v1/offers?limit=1000")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range offers {
		if want := map[string]string{"spare": "0", "box": "1"}[fmt.Sprint(o["provider"])]; fmt.Sprint(o["counted_failures"]) != want {
			t.Errorf("offer %v has %v counted failures, want %s: a loss counts once, and none is the spare's: %s", o["id"], o["counted_failures"], want, show(o))
		}
	}
	for i, got := range results {
		if got.err != nil || got.status != http.StatusOK || !strings.Contains(string(got.body), jobs[i].name) {
			t.Errorf("a call that the node had not begun to answer: status %d, error %v: %s", got.status, got.err, got.body)
			continue
		}
		c := r.told(t, got.id)
		if c.Outcome != "settled" || len(c.Attempts) != 2 || c.Attempts[0].Node != "box" || c.Attempts[0].Error != "node_lost" || c.Attempts[1].Offer != "spare/"+fleetModel {
			t.Errorf("the receipt of a call that fell back is %+v", c)
		}
	}
	for i, f := range wires() {
		c := r.told(t, begun[i].Header.Get("X-Request-Id"))
		if c.Outcome != "truncated" || c.Node != "box" || len(c.Attempts) != 1 || c.Attempts[0].Error != "node_lost" {
			t.Errorf("%s: the receipt of a call that was cut off is %+v", f.format, c)
		}
	}
	for _, j := range append(jobs, late...) {
		if _, err := s.closed(j.name); err != nil {
			t.Error(err)
		}
	}

	at = time.Now()
	n.start(t, r)
	r.up(t, n)
	if took := time.Since(at); took > backWithin {
		t.Errorf("a node was back %v after its start, want %v at most", took, backWithin)
	} else {
		t.Logf("a node that was killed is back %v after its start", took)
	}
	// The breaker lets it in again.
	err = poll(func() error {
		got := r.run(newJob(1, "0", 0))
		if err := got.whole(); err != nil {
			return err
		}
		if c := r.told(t, got.id); c.Node != "box" {
			return fmt.Errorf("the call went to %s", c.Offer)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	r.idle(t)
	if twice := s.twice(); len(twice) > 0 {
		t.Errorf("jobs were asked for more than once: %v", twice)
	}
}

// wait waits until jobs have been asked for.
func (s *fleetServer) wait(t *testing.T, jobs ...fleetJob) {
	t.Helper()
	err := poll(func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, j := range jobs {
			if s.asked[j.name] == 0 {
				return fmt.Errorf("job %s does not reach the model server", j.name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestFleetEdgeKilled kills the edge under load, again and again: its node cancels
// what it works on, comes back to the edge that starts at the same address, and what the
// node measured of each call is there once: in the receipt, or beside one that is lost.
// Every second time the node is killed too, and started anew before or after the edge.
func TestFleetEdgeKilled(t *testing.T) {
	s := newFleetServer(t, fleetModel)
	r := newFleetRig(t, nil)
	n := r.join(t, "box", "", s.URL, map[string]any{"slots": 24})
	for round := range *fleetKills {
		const workers = 8
		var all sync.WaitGroup
		var mu sync.Mutex
		recent := map[string]time.Time{} // ids of calls that ended well, by when
		held := map[string]string{}      // jobs of those that do not end, by id
		for i := range 12 {
			all.Go(func() { // these never end; the others run beside them
				j := newJob(1+i, "hold", 0)
				resp, err := r.begin(j)
				if err != nil {
					t.Error(err)
					return
				}
				defer resp.Body.Close()
				if _, err := readUntil(resp.Body, fleetText(j.name, 0, 0)); err != nil {
					t.Error(err)
				}
				mu.Lock()
				held[resp.Header.Get("X-Request-Id")] = j.name
				mu.Unlock()
				_, _ = io.ReadAll(resp.Body)
			})
		}
		gaps := []string{"0", "1ms", "7ms"}
		for w := range workers {
			all.Go(func() {
				for i := 0; r.alive(); i++ {
					got := r.run(newJob(1+i%9, gaps[(i+w)%len(gaps)], 100))
					if got.whole() == nil {
						mu.Lock()
						recent[got.id] = time.Now()
						mu.Unlock()
					}
				}
			})
		}
		err := poll(func() error {
			mu.Lock()
			defer mu.Unlock()
			if len(held) < 12 || len(recent) < 20 {
				return fmt.Errorf("%d calls are held and %d have ended", len(held), len(recent))
			}
			return nil
		})
		if err != nil {
			t.Fatalf("%v\n%s", err, n.log.tail())
		}
		<-time.After(time.Duration(round*370%1000) * time.Millisecond)
		at := time.Now()
		r.kill()
		all.Wait()
		var latest time.Duration
		for _, job := range held {
			closed, err := s.closed(job)
			if err != nil {
				t.Error(err)
			}
			latest = max(latest, closed.Sub(at))
		}
		t.Logf("round %d: %d calls had ended, %d were held; the model server was left %v after the edge was killed", round, len(recent), len(held), latest)

		start := func() { r.start(t, r.data) }
		if round%2 == 1 {
			// What the node keeps on disk before it dies.
			want := held
			for id, ended := range recent {
				if at.Sub(ended) < time.Second/2 {
					want[id] = "ended"
				}
			}
			folder := filepath.Join(filepath.Dir(n.file), "node")
			err := poll(func() error {
				for id := range want {
					if !keeps(folder, id) {
						return fmt.Errorf("the node has not kept call %s (%s)", id, want[id])
					}
				}
				return nil
			})
			if err != nil {
				t.Errorf("%v\n%s", err, n.log.tail())
			}
			if err := n.kill("KILL"); err != nil {
				t.Fatal(err)
			}
			if round%4 == 1 {
				n.start(t, r)
				start()
			} else {
				start()
				n.start(t, r)
			}
		} else {
			start()
		}
		back := time.Now()
		r.up(t, n)
		t.Logf("round %d: the node is back %v after the edge", round, time.Since(back))
	}
	r.once(t, s)
	if twice := s.twice(); len(twice) > 0 {
		t.Errorf("jobs were asked for more than once: %v", twice)
	}
	r.idle(t)
	if err := n.kill("TERM"); err != nil || n.cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("stopping the node: %v, exit code %d\n%s", err, n.cmd.ProcessState.ExitCode(), n.log.tail())
	}
	// It is all durable.
	r.kill()
	r.start(t, r.data)
	r.once(t, s)
}

// once waits until there is, of each job that a model server was asked for, one
// receipt, and what the node measured of it in one place.
func (r *fleetRig) once(t *testing.T, s *fleetServer) {
	t.Helper()
	s.mu.Lock()
	var jobs []string
	for job := range s.asked {
		jobs = append(jobs, job)
	}
	s.mu.Unlock()
	slices.Sort(jobs)
	kept, beside := 0, 0
	check := func(job string) (final bool, err error) {
		status, raw, err := r.adminBy(r.client, "/admin/v1/jobs/"+job)
		if err != nil || status != http.StatusOK {
			return false, fmt.Errorf("job %s: status %d, error %v", job, status, err)
		}
		var list struct{ Items []fleetReceipt }
		if err := json.Unmarshal(raw, &list); err != nil {
			return false, err
		}
		if len(list.Items) != 1 {
			return true, fmt.Errorf("job %s has %d receipts: %s", job, len(list.Items), raw)
		}
		c := list.Items[0]
		in := c.NodeTiming != nil && c.NodeTiming.Service != nil
		switch {
		case in && len(c.NodeCalls) > 0 || len(c.NodeCalls) > 1:
			return true, fmt.Errorf("the node's figures of job %s are there twice: %s", job, raw)
		case c.Outcome == "settled" && in:
			kept++
		case c.Outcome == "lost" && len(c.NodeCalls) == 1 && !in:
			beside++
			if told := c.NodeCalls[0]; told.Call != c.ID || told.Node != "box" || told.Attempt != 1 || told.Timing.Service == nil {
				return true, fmt.Errorf("what the node told of job %s is %s", job, raw)
			}
		default:
			return false, fmt.Errorf("the node's figures of job %s are not there: %s", job, raw)
		}
		return true, nil
	}
	for _, job := range jobs {
		err := poll(func() error {
			final, err := check(job)
			if final && err != nil {
				t.Error(err)
				return nil
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("of %d jobs the node's figures are in the receipts of %d and beside those of %d", len(jobs), kept, beside)
	if kept == 0 || beside == 0 {
		t.Error("no call was cut off, or none ended well: nothing was tested")
	}
}
