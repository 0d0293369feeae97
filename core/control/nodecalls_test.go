package control_test

import (
	"errors"
	"testing"
	"time"

	"headway/core"
	"headway/core/control"
)

// telling is a fleet whose nodes told of calls.
type telling struct {
	control.Fleet
	calls map[core.CallID][]core.NodeCall
	err   error
}

func (t telling) Calls(id core.CallID) ([]core.NodeCall, error) { return t.calls[id], t.err }

// What a node told of a call stands beside its receipt.
func TestNodeCalls(t *testing.T) {
	r := newRig(t)
	rec := &core.Receipt{At: time.Now().UTC(), Model: "small", Node: "box", Outcome: core.ClientGone, Annex: core.Annex{
		NodeTiming: &core.NodeTiming{SlotWait: core.Some(5.0)}, Attempts: []core.Attempt{{Offer: "box/small", Node: "box", Outcome: core.ClientGone}}}}
	r.keep(rec)
	other := &core.Receipt{At: time.Now().UTC().Add(time.Second), Model: "small"}
	r.keep(other)
	fleet := telling{r.desk.Fleet, map[core.CallID][]core.NodeCall{rec.ID: {{Call: rec.ID, Attempt: 1, Node: "box", Provider: "box", Model: "small", Outcome: core.Settled,
		Timing: core.NodeTiming{SlotWait: core.Some(5.0), Service: core.Some(80.0)}}}}, nil}
	r.desk.Fleet = fleet
	one := r.must("GET", "calls/"+string(rec.ID), "")
	told, _ := one["node_calls"].([]any)
	if len(told) != 1 || one["node"] != "box" || one["node_timing"].(map[string]any)["slot_wait_ms"] != 5.0 || one["attempts"].([]any)[0].(map[string]any)["node"] != "box" {
		t.Fatalf("%v", one)
	}
	if c := told[0].(map[string]any); c["outcome"] != "settled" || c["attempt"] != 1.0 || c["node_timing"].(map[string]any)["service_ms"] != 80.0 {
		t.Errorf("%v", c)
	}
	if job := r.items("jobs/" + string(rec.ID)); len(job) != 1 || len(job[0]["node_calls"].([]any)) != 1 {
		t.Errorf("%v", job)
	}
	if two := r.must("GET", "calls/"+string(other.ID), ""); two["node_calls"] != nil || two["node_timing"] != nil {
		t.Errorf("%v", two)
	}
	fleet.err = &core.Error{Kind: core.Unavailable, Msg: "damaged", Err: errors.New("damaged")}
	r.desk.Fleet = fleet
	if status, body := r.admin("GET", "calls/"+string(rec.ID), ""); status != 503 {
		t.Errorf("%d %v", status, body)
	}
}

// The speed of a node's own servers is the node's own figures; that of all is the
// edge's.
func TestUsageOfNodes(t *testing.T) {
	r := newRig(t)
	now := time.Now().UTC()
	edge := core.Timing{FirstToken: core.Some(5100.0), Queued: core.Some(2.0), PromptTPS: core.Some(10.0), DecodeTPS: core.Some(39.0)}
	for i, node := range []*core.NodeTiming{{Queued: core.Some(5002.0), SlotWait: core.Some(5000.0), FirstToken: core.Some(90.0), PromptTPS: core.Some(700.0), DecodeTPS: core.Some(41.0)}, {Queued: core.Some(2.0), SlotWait: core.Some(0.0), FirstToken: core.Some(110.0)}, nil} {
		r.keep(&core.Receipt{At: now.Add(-time.Hour + time.Duration(i)*time.Second), Model: "small", Provider: "box", Node: "box", Annex: core.Annex{Timing: edge, NodeTiming: node}})
	}
	r.keep(&core.Receipt{At: now.Add(-time.Minute), Model: "small", Provider: "fast", Annex: core.Annex{Timing: core.Timing{FirstToken: core.Some(100.0), Queued: core.Some(2.0)}}})
	u := r.must("GET", "usage", "")
	if total := u["total"].(map[string]any); total["firstTokenMs"] != 3850.0 || total["queueMs"] != 2.0 || total["timedCalls"] != 4.0 {
		t.Errorf("%v", total)
	}
	speed := u["speed_by_model"].([]any)
	if len(speed) != 2 {
		t.Fatalf("%v", speed)
	}
	if s := speed[0].(map[string]any); s["node"] != nil || s["firstTokenMs"] != 100.0 {
		t.Errorf("%v", s)
	}
	if s := speed[1].(map[string]any); s["node"] != "box" || s["timedCalls"] != 2.0 || s["firstTokenMs"] != 100.0 || s["queuedCalls"] != 2.0 || s["queueMs"] != 2502.0 ||
		s["prefillCalls"] != 1.0 || s["prefillTps"] != 700.0 || s["decodeTps"] != 41.0 {
		t.Errorf("%v", s)
	}
	for _, v := range u["by"].(map[string]any)["node"].([]any) {
		if v := v.(map[string]any); v["node"] == "box" && (v["queueMs"] != 2502.0 || v["calls"] != 3.0) {
			t.Errorf("%v", v)
		}
	}
}
