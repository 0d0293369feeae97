package command_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	auctionSlots     = 2    // of the near node
	auctionTimeValue = 3.60 // USD per hour: a millisecond is worth a millionth of a USD
)

// auctionServer has some models, and answers with a first output after a time, then
// with texts so far apart that the answer came as a stream. Calls of "held" do not end.
func auctionServer(t *testing.T, first time.Duration, models ...string) string {
	s := modelServer(t, func(w http.ResponseWriter, r *http.Request, body []byte, model string, _ bool) {
		if r.Method == http.MethodGet {
			list := []any{}
			for _, m := range models {
				list = append(list, map[string]any{"id": m})
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": list})
			return
		}
		f := chatWire(len(body)/4, 30)
		if model == "held" {
			begin(w, f.open, f.text("held"))
			<-r.Context().Done()
			return
		}
		wait := func(d time.Duration) {
			select {
			case <-time.After(d):
			case <-r.Context().Done():
			}
		}
		begin(w, f.open)
		wait(first)
		for range 6 {
			send(w, f.text("five "))
			wait(12 * time.Millisecond)
		}
		send(w, f.end)
	})
	return s.URL
}

// auction is a fleet of two nodes, with what the near one's calls have taken.
type auction struct {
	*fleetRig
	mean float64 // of how long a call of the near node holds its slot, ms
	held []context.CancelFunc
}

// learn takes in a call that the near node has served.
func (a *auction) learn(t *testing.T, c fleetReceipt) {
	t.Helper()
	if c.Node != "near" || c.Outcome != "settled" || c.NodeTiming == nil || c.NodeTiming.Service == nil {
		t.Fatalf("the receipt of a call that the near node has served is %+v", c)
	}
	if ms := *c.NodeTiming.Service; a.mean == 0 {
		a.mean = ms
	} else {
		a.mean = 0.8*a.mean + 0.2*ms
	}
}

// ask makes a call with a prompt of so many bytes, and gives its receipt once it has
// ended, or ctx has.
func (a *auction) ask(t *testing.T, ctx context.Context, prompt int) (c fleetReceipt) {
	t.Helper()
	job := newJob(0, "0", 0).name
	body := fmt.Sprintf(`{"model":%q,"stream":true,"messages":[{"role":"user","content":%q}]}`, fleetModel, strings.Repeat("some ", prompt/5))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+a.addr+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+fleetKey)
	req.Header.Set("X-Headway-Job", job)
	if resp, err := a.client.Do(req); err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	err = poll(func() error {
		status, raw, err := a.adminBy(a.client, "/admin/v1/jobs/"+job)
		var list struct{ Items []fleetReceipt }
		if err == nil {
			err = json.Unmarshal(raw, &list)
		}
		if err != nil || len(list.Items) != 1 {
			return fmt.Errorf("job %s: status %d, error %v: %s", job, status, err, raw)
		}
		c = list.Items[0]
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// hold has one more call in the near node's slots or its line.
func (a *auction) hold(t *testing.T) {
	t.Helper()
	ctx, end := context.WithCancel(context.Background())
	a.held = append(a.held, end)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+a.addr+"/v1/chat/completions", strings.NewReader(`{"model":"held","stream":true,"messages":[{"role":"user","content":"stay"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+fleetKey)
	var call sync.WaitGroup
	call.Go(func() {
		if resp, err := a.client.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	})
	t.Cleanup(func() { end(); call.Wait() })
	a.near(t, len(a.held))
}

// near waits until so many calls are at the near node.
func (a *auction) near(t *testing.T, calls int) {
	t.Helper()
	err := poll(func() error {
		v, err := a.get("/admin/v1/nodes/near")
		if err == nil && fmt.Sprint(v["in_flight"]) != fmt.Sprint(calls) {
			err = fmt.Errorf("%v calls are at the near node, want %d", v["in_flight"], calls)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// decide makes a call and gives its receipt. One that joins the line is not waited
// for: its client leaves.
func (a *auction) decide(t *testing.T) (c fleetReceipt) {
	t.Helper()
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	over := make(chan struct{})
	go func() { defer close(over); c = a.ask(t, ctx, 400) }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return c
		case <-tick.C:
			if v, err := a.get("/admin/v1/nodes/near"); err == nil && fmt.Sprint(v["in_flight"]) == fmt.Sprint(len(a.held)+1) && len(a.held) >= auctionSlots {
				leave()
			}
		}
	}
}

// check holds a decision against SPEC §6 and §7.
func (a *auction) check(t *testing.T, c fleetReceipt) {
	t.Helper()
	close := func(got *float64, want float64) bool { return got != nil && math.Abs(*got-want) <= 0.01 }
	before := -1.0
	for _, o := range c.Decision.Offers {
		terms := o.Terms
		if o.Refused != "" || o.Wait == nil || o.Score == nil || terms.Base == nil || terms.Prefill == nil || terms.Output == nil {
			t.Fatalf("the decision is not complete: %+v", c.Decision)
		}
		queue := 0.0
		if o.Offer == "near/"+fleetModel {
			queue = float64(max(len(a.held)-auctionSlots+1, 0)) / auctionSlots * a.mean
		}
		if !close(terms.Queue, queue) {
			t.Errorf("with %d calls there the line of %s costs %v ms, want %v", len(a.held), o.Offer, show(terms.Queue), queue)
		}
		if want := *terms.Base + *terms.Prefill + *terms.Output + queue; !close(o.Wait, want) {
			t.Errorf("the predicted wait of %s is %v ms, its terms make %v", o.Offer, *o.Wait, want)
		}
		if want := *o.Wait * auctionTimeValue / time.Hour.Seconds() / 1000; math.Abs(*o.Score-want) > 1e-9 {
			t.Errorf("the score of %s, which is free, is %v USD, want %v", o.Offer, *o.Score, want)
		}
		if *o.Score < before {
			t.Errorf("the order is not that of the scores: %+v", c.Decision.Offers)
		}
		before = *o.Score
	}
	if len(c.Decision.Offers) != 2 || len(c.Attempts) != 1 || c.Attempts[0].Offer != c.Decision.Offers[0].Offer {
		t.Errorf("the call was not sent to the first of two offers: %+v", c)
	}
}

// TestFleetAuction: of two nodes the near one is chosen exactly as long as its
// predicted wait, with the line before it, is the shorter; the terms are those of SPEC
// §6, and the line's is made of the calls before it and of how long calls were served.
func TestFleetAuction(t *testing.T) {
	a := &auction{fleetRig: newFleetRig(t, func(config map[string]any) {
		config["routing"] = map[string]any{"strategy": "price-and-wait", "time_value_usd_per_hour": auctionTimeValue}
	})}
	a.join(t, "near", "", auctionServer(t, 10*time.Millisecond, fleetModel, "held"), map[string]any{"slots": auctionSlots, "queue": 50})
	a.join(t, "far", "", auctionServer(t, 350*time.Millisecond, fleetModel), map[string]any{"slots": 50})

	// Both are measured, each while the other is paused: short prompts and long ones.
	for node, other := range map[string]string{"near": "far", "far": "near"} {
		a.actOn(t, other, "pause")
		for _, prompt := range []int{100, 100, 100, 90_000, 90_000, 90_000} {
			if c := a.ask(t, context.Background(), prompt); node == "near" {
				a.learn(t, c)
			}
		}
		a.actOn(t, other, "resume")
	}

	first := map[string]int{}
	for first["far/"+fleetModel] < 2 && len(a.held) < 12 {
		c := a.decide(t)
		a.check(t, c)
		first[c.Decision.Offers[0].Offer]++
		if c.Node == "near" && c.Outcome == "settled" {
			a.learn(t, c)
		}
		a.near(t, len(a.held))
		a.hold(t)
	}
	t.Logf("a call of the near node holds a slot for %.1f ms; with 0 to %d calls in its %d slots and its line the order was: %v", a.mean, len(a.held)-1, auctionSlots, first)
	if first["near/"+fleetModel] < auctionSlots+1 || first["far/"+fleetModel] < 2 {
		t.Error("the line made no difference: nothing was tested")
	}
}

// actOn pauses or resumes the offer of a node.
func (a *auction) actOn(t *testing.T, node, act string) {
	t.Helper()
	status, raw, err := a.admin(http.MethodPost, "/admin/v1/offers/"+node+"/"+fleetModel+"/"+act, nil)
	if err != nil || status != http.StatusOK {
		t.Fatalf("%s %s: status %d, error %v: %s", act, node, status, err, raw)
	}
}
