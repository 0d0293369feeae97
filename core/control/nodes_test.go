package control_test

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"headway/core"
)

// fleet is a control.Fleet: nodes as a test says that they are.
type fleet struct {
	providers []*core.Provider
	offers    []*core.Offer
	status    map[core.NodeID]core.NodeStatus
	forgotten []core.NodeID
	stand     core.Stand
}

func (f *fleet) Offered() ([]*core.Provider, []*core.Offer) { return f.providers, f.offers }
func (f *fleet) Line(core.ProviderID) core.Line             { return f }
func (f *fleet) Stand() core.Stand                          { return f.stand }

func (f *fleet) Status(name core.NodeID) (core.NodeStatus, bool) {
	s, ok := f.status[name]
	return s, ok
}

func (f *fleet) Forget(name core.NodeID)                    { f.forgotten = append(f.forgotten, name) }
func (f *fleet) Calls(core.CallID) ([]core.NodeCall, error) { return nil, nil }
func (f *fleet) DropCalls(time.Time) (int, error)           { return 0, nil }

// serves makes a node offer models, all answered by the rig's upstream.
func (f *fleet) serves(r *rig, name core.NodeID, owner string, models ...core.Model) {
	p := &core.Provider{ID: core.ProviderID(name), Format: core.FormatOpenAI, BaseURL: r.upstream + "/v1", Owner: owner, Node: name, AllowPrivate: true}
	f.providers = append(f.providers, p)
	for _, m := range models {
		f.offers = append(f.offers, &core.Offer{ID: core.OfferID(p.ID) + "/" + core.OfferID(m), Provider: p, Model: m, UpstreamModel: string(m), IncludeUsage: core.UsageAuto})
	}
	f.status = map[core.NodeID]core.NodeStatus{name: {Name: name, State: core.NodeUp, Slots: 2, SlotsInUse: 1, Queue: 3, Models: models}}
	f.stand = core.Stand{Up: true}
}

// gate is a control.Gate without a port.
type gate struct {
	opened       int
	broken       error
	disconnected []core.NodeID
}

func (g *gate) Open() error {
	if g.broken != nil {
		return g.broken
	}
	g.opened++
	return nil
}

func (g *gate) Address() string {
	if g.opened == 0 {
		return ""
	}
	return "edge:4222"
}

func (g *gate) Join(name core.NodeID, address string, token core.Secret) string {
	return fmt.Sprintf("join|%s|%s|%s", name, cmp.Or(address, g.Address()), token.Reveal())
}

func (g *gate) Disconnect(name core.NodeID) { g.disconnected = append(g.disconnected, name) }

// enrol invites a node and gives its token.
func (r *rig) enrol(body string) string {
	r.t.Helper()
	join := r.must("POST", "nodes", body)["join"].(string)
	return join[strings.LastIndex(join, "|")+1:]
}

// refusedNode checks that a key is not let in, and why.
func (r *rig) refusedNode(public, token, why string) {
	r.t.Helper()
	name, err := r.desk.AdmitNode(public, token)
	var e *core.Error
	if name != "" || !errors.As(err, &e) || e.Kind != core.Forbidden || !strings.Contains(e.Msg, why) {
		r.t.Errorf("%s: admitted as %q: %v, want %q", public, name, err, why)
	}
	if token != "" && err != nil && strings.Contains(err.Error(), token) {
		r.t.Errorf("the token is in the error %v", err)
	}
}

func (r *rig) admitted(public, token string, as core.NodeID) {
	r.t.Helper()
	if name, err := r.desk.AdmitNode(public, token); name != as || err != nil {
		r.t.Errorf("%s: admitted as %q, %v, want %s", public, name, err, as)
	}
}

// TestNodeLife is a node from its invitation to its end.
func TestNodeLife(t *testing.T) {
	r := newRig(t)
	if err := r.desk.OpenNodes(); err != nil || r.gate.opened != 0 {
		t.Fatalf("the port was opened %d times before any node, %v", r.gate.opened, err)
	}
	r.now = time.Now()
	v := r.must("POST", "nodes", `{"name": "gpu", "owner": "ops"}`)
	if r.gate.opened == 0 || v["name"] != "gpu" || v["address"] != "edge:4222" || !strings.HasPrefix(fmt.Sprint(v["join"]), "join|gpu|edge:4222|") {
		t.Fatalf("the invitation is %v, opened %d times", v, r.gate.opened)
	}
	if at, err := time.Parse(time.RFC3339, v["expires_at"].(string)); err != nil || at.Sub(r.now).Round(time.Second) != 10*time.Minute {
		t.Errorf("it expires at %v", v["expires_at"])
	}
	token := strings.Split(v["join"].(string), "|")[3]
	if n := r.must("GET", "nodes/gpu", ""); n["state"] != "invited" || n["owner"] != "ops" || n["expires_at"] == nil || n["models"] == nil {
		t.Errorf("it is listed as %v", n)
	}
	r.refused("POST", "nodes", `{"name": "gpu"}`, http.StatusConflict, "was invited and has not joined")
	if _, ok := r.desk.Node("gpu"); ok {
		t.Error("it may come before it joined")
	}

	r.refusedNode("UKEY", "", "no token")
	r.refusedNode("UKEY", "wrong", "no join string")
	// What cannot be kept does not happen, and uses the token up as little.
	r.onWrite = func() error { return errors.New("disk") }
	var e *core.Error
	if _, err := r.desk.AdmitNode("UKEY", token); !errors.As(err, &e) || e.Kind != core.Unavailable {
		t.Errorf("without a record: %v", err)
	}
	r.onWrite = nil
	r.admitted("UKEY", token, "gpu")
	r.admitted("UKEY", token, "gpu") // it died before it knew
	r.admitted("UKEY", "", "gpu")
	r.refusedNode("UOTHER", token, "used by another key")
	r.refused("POST", "nodes", `{"name": "gpu"}`, http.StatusConflict, "there is a node")
	if owner, ok := r.desk.Node("gpu"); !ok || owner != "ops" {
		t.Errorf("whose it is: %q, %v", owner, ok)
	}
	if n := r.must("GET", "nodes/gpu", ""); n["state"] != "lost" || n["expires_at"] != nil {
		t.Errorf("a node that is not here is listed as %v", n)
	}

	r.restart()
	if err := r.desk.OpenNodes(); err != nil || r.gate.opened < 2 {
		t.Errorf("after a restart the port is not opened: %v", err)
	}
	r.admitted("UKEY", token, "gpu") // its token is not looked at
	r.fleet.serves(r, "gpu", "ops", "small")
	if n := r.items("nodes")[0]; n["state"] != "up" || n["slots"] != 2.0 || n["slots_in_use"] != 1.0 || n["queue"] != 3.0 || fmt.Sprint(n["models"]) != "[small]" || n["owner"] != "ops" {
		t.Errorf("it is listed as %v", n)
	}
	if st := r.must("GET", "status", ""); fmt.Sprint(st["nodes"]) != "map[up:1]" || st["nodes_listen"] != "edge:4222" {
		t.Errorf("the status is %v", st)
	}

	if n := r.must("DELETE", "nodes/gpu", ""); n["state"] != "revoked" {
		t.Errorf("it is listed as %v", n)
	}
	if fmt.Sprint(r.gate.disconnected, r.fleet.forgotten) != "[gpu] [gpu]" {
		t.Errorf("disconnected %v, forgotten %v", r.gate.disconnected, r.fleet.forgotten)
	}
	r.must("POST", "nodes/gpu/revoke", "") // changes nothing
	r.refusedNode("UKEY", "", "was revoked")
	r.refusedNode("UKEY", token, "was revoked")
	r.refused("DELETE", "nodes/other", "", http.StatusNotFound, "there is no node")

	// The same machine may come back by a new invitation, with another key: the one that
	// was revoked may be somebody else's by now.
	again := r.enrol(`{"name": "gpu"}`)
	for _, given := range []string{"", token, again} {
		r.refusedNode("UKEY", given, "wants a new key")
	}
	r.admitted("UKEY2", again, "gpu")
	r.refusedNode("UKEY", "", "was revoked")
	r.must("DELETE", "nodes/gpu", "")
	third := r.enrol(`{"name": "gpu"}`)
	r.must("DELETE", "nodes/gpu", "")
	other := r.enrol(`{"name": "gpu2"}`)
	r.restart()
	for _, key := range []string{"UKEY", "UKEY2"} {
		r.refusedNode(key, "", "was revoked")
		r.refusedNode(key, other, "wants a new key") // nor under another name
	}
	r.refusedNode("UKEY3", third, "was revoked")
	r.admitted("UKEY3", other, "gpu2")
	for range 20 {
		r.admitted("UKEY3", "", "gpu2")
	}

	var log []string
	for _, e := range r.items("audit?target=gpu") {
		log = append(log, fmt.Sprint(e["action"], " ", e["who"]))
		for _, side := range []string{"before", "after"} {
			if text := fmt.Sprint(e[side]); strings.Contains(text, token) || strings.Contains(text, again) {
				t.Errorf("a token is in the audit log: %s", text)
			}
		}
	}
	want := "node.revoke socket, node.enrol socket, node.revoke socket, node.join node gpu, node.enrol socket, node.revoke socket, node.join node gpu, node.enrol socket"
	if got := strings.Join(log, ", "); got != want {
		t.Errorf("the audit log has %s, want %s", got, want)
	}
	if strings.Contains(r.log.String(), token) {
		t.Error("the token is in the log")
	}
}

func TestOldInvitation(t *testing.T) {
	r := newRig(t)
	r.now = time.Now()
	token := r.enrol(`{"name": "gpu", "address": "10.0.0.1:4222"}`)
	r.now = r.now.Add(10 * time.Minute)
	r.refusedNode("UKEY", token, "older than 10m")
	if n := r.items("nodes"); len(n) != 0 {
		t.Errorf("it is listed as %v", n)
	}
	next := r.enrol(`{"name": "gpu"}`) // its name is free
	r.refusedNode("UKEY", token, "no join string")
	r.now = r.now.Add(10*time.Minute - time.Second)
	r.admitted("UKEY", next, "gpu")
	// One that was taken back is listed, as what was revoked.
	taken := r.enrol(`{"name": "cpu"}`)
	r.must("DELETE", "nodes/cpu", "")
	r.refusedNode("UOTHER", taken, "was revoked")
	if n := r.must("GET", "nodes/cpu", ""); n["state"] != "revoked" {
		t.Errorf("it is listed as %v", n)
	}
}

// TestOneTokenOneNode: whoever comes first with a token has it, whatever else happens
// at that moment.
func TestOneTokenOneNode(t *testing.T) {
	r := newRig(t)
	token := r.enrol(`{"name": "gpu"}`)
	var in atomic.Int64
	var all sync.WaitGroup
	for n := range 16 {
		all.Go(func() {
			if _, err := r.desk.AdmitNode(fmt.Sprint("UKEY", n), token); err == nil {
				in.Add(1)
			}
			r.desk.NodesChanged()
			r.desk.Reload()
		})
	}
	all.Wait()
	if in.Load() != 1 {
		t.Errorf("%d keys came in by one token", in.Load())
	}
	joins := 0
	for _, e := range r.items("audit?target=gpu") {
		if e["action"] == "node.join" {
			joins++
		}
	}
	if joins != 1 {
		t.Errorf("the audit log has %d joins", joins)
	}
}

// TestNodeNames: a node and a provider never have one name.
func TestNodeNames(t *testing.T) {
	r := newRig(t)
	r.write(strings.ReplaceAll(file, "id: slow", "id: lab.one"))
	r.desk.Reload()
	r.refused("POST", "nodes", `{"name": "fast"}`, http.StatusConflict, `provider "fast" has that name`)
	r.refused("POST", "nodes", `{"name": "lab"}`, http.StatusConflict, `provider "lab.one" has that name`)
	r.refused("POST", "nodes", `{"name": "Lab"}`, http.StatusBadRequest, `nodes.name: "Lab" is no name of a node`)
	if r.gate.opened != 0 {
		t.Error("a refused name opened the port")
	}
	r.gate.broken = core.Errorf(core.Unavailable, "nats.listen is taken")
	r.refused("POST", "nodes", `{"name": "gpu"}`, http.StatusServiceUnavailable, "nats.listen is taken")
	if len(r.items("nodes")) != 0 {
		t.Error("a node is invited to a port that is not open")
	}
	r.gate.broken = nil
	token := r.enrol(`{"name": "gpu"}`)
	for range 2 {
		for _, id := range []string{"gpu", "gpu.two"} {
			body := `{"id": "` + id + `", "format": "openai", "base_url": "https://a.example/v1"}`
			r.refused("POST", "providers", body, http.StatusConflict, `there is a node "gpu"`)
			r.write(strings.ReplaceAll(file, "id: slow", "id: "+id))
			r.refused("POST", "apply", "", http.StatusConflict, `there is a node "gpu"`)
		}
		r.admitted("UKEY", token, "gpu") // as for one that was invited, so for one that has joined
	}
	r.must("POST", "providers", `{"id": "gpux", "format": "openai", "base_url": "https://a.example/v1"}`)
	r.must("DELETE", "nodes/gpu", "")
	r.must("POST", "apply", "")
	r.refused("POST", "nodes", `{"name": "gpu"}`, http.StatusConflict, `provider "gpu.two" has that name`)
}

// TestNodeOffers: what a node offers is an offer as any other, and goes with it.
func TestNodeOffers(t *testing.T) {
	r := newRig(t)
	r.admitted("UKEY", r.enrol(`{"name": "gpu", "owner": "lab"}`), "gpu")
	r.fleet.serves(r, "gpu", "lab", "small", "own", core.AutoModel)
	r.fleet.serves(r, "stranger", "", "small") // no operator knows it
	r.desk.NodesChanged()
	o := r.item("offers", "gpu/small")
	if o == nil || o["node"] != "gpu" || o["owner"] != "lab" || o["from_file"] != false || o["state"] != "active" {
		t.Fatalf("its offer is %v", o)
	}
	if r.item("offers", "stranger/small") != nil || r.item("offers", "gpu/auto") != nil {
		t.Error("an offer is there that may not be")
	}
	if p := r.item("providers", "gpu"); p == nil || p["node"] != "gpu" || fmt.Sprint(p["offers"]) != "[gpu/small gpu/own]" {
		t.Errorf("its provider is %v", p)
	}
	if said := strings.Count(r.log.String(), "gpu/auto"); said != 1 {
		t.Errorf("what was left out was said %d times", said)
	}
	r.must("POST", "offers/gpu/small/pause", "")
	r.write(file + "routing: {strategy: cheapest}\n")
	r.desk.Reload()
	r.desk.NodesChanged()
	if o := r.item("offers", "gpu/small"); o["state"] != "paused" {
		t.Errorf("after a reload it is %v", o)
	}
	r.must("POST", "offers/gpu/small/resume", "")
	if said := strings.Count(r.log.String(), "gpu/auto"); said != 1 {
		t.Errorf("what was left out was said %d times", said)
	}

	if v := r.must("POST", "apply", ""); !strings.Contains(fmt.Sprint(v["notes"]), "offer gpu/auto of a node is left out") {
		t.Errorf("apply tells %v", v["notes"])
	}

	// It is free, so it is the cheapest; its owner's own calls go elsewhere, and a
	// node that is not there gets none.
	key := func(body string) string { return r.must("POST", "keys", body)["key"].(string) }
	anyone, owners := key(`{"name": "a"}`), key(`{"name": "b", "owner": "lab"}`)
	offer := func(k string) string {
		t.Helper()
		status, id := r.call(k, "small")
		if status != http.StatusOK {
			t.Fatalf("status %d", status)
		}
		return fmt.Sprint(r.receipt(id)["offer"])
	}
	if got := offer(anyone); got != "gpu/small" {
		t.Errorf("a call went to %s", got)
	}
	if got := offer(owners); got != "fast/small" {
		t.Errorf("its owner's call went to %s", got)
	}
	r.fleet.stand.Up = false
	if got := offer(anyone); got != "fast/small" {
		t.Errorf("a call went to %s while the node is lost", got)
	}
	if o := r.item("offers", "gpu/small"); o["state"] != "out" || o["out_by"] != "node" {
		t.Errorf("an offer of a lost node is %v", o)
	}
	if st := r.must("GET", "status", ""); fmt.Sprint(st["offers"]) != "map[active:3 out:2]" {
		t.Errorf("the status has the offers %v", st["offers"])
	}
	before := len(r.items("audit"))
	r.must("POST", "offers/gpu/small/resume", "") // there is nothing to resume
	if n := len(r.items("audit")); n != before {
		t.Errorf("the audit log has %d entries more", n-before)
	}

	r.refused("POST", "offers", `{"provider": "gpu", "model": "x", "input_usd_per_mtok": 0, "output_usd_per_mtok": 0}`, http.StatusConflict, "is a node's")
	r.refused("DELETE", "offers/gpu/small", "", http.StatusConflict, `is of the node "gpu"`)
	r.refused("DELETE", "providers/gpu", "", http.StatusConflict, `is of the node "gpu"`)

	// An id that is taken: the file's offer is the one.
	r.write(strings.Replace(file, "model: small, input", "id: gpu/own, model: small, input", 1))
	r.must("POST", "apply", "")
	if o := r.item("offers", "gpu/own"); o["provider"] != "fast" {
		t.Errorf("the offer is %v", o)
	}
	if said := strings.Count(r.log.String(), "offer=gpu/own"); said != 1 {
		t.Errorf("it was said %d times", said)
	}

	before = len(r.items("audit"))
	r.desk.NodesChanged()
	if n := len(r.items("audit")); n != before {
		t.Errorf("the audit log has %d entries more", n-before)
	}
	r.must("DELETE", "nodes/gpu", "")
	if r.item("offers", "gpu/small") != nil || r.item("providers", "gpu") != nil {
		t.Error("what a revoked node offers is still there")
	}
}
