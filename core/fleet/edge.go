package fleet

import (
	"context"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"headway/core"
)

// EdgeParts are what an edge works with.
type EdgeParts struct {
	Clock core.Clock
	Log   *slog.Logger
	Bus   core.Bus
	Book  core.Book  // tells which calls have a node's figures in their receipts
	Vault core.Vault // keeps those of the others
	// Heartbeat is how often both sides report, Misses how many reports that fail to
	// come make a node lost.
	Heartbeat time.Duration
	Misses    int
	// Changed is called, from a goroutine of Run's, when what Offered gives has changed.
	Changed func()
	// Disconnect ends a node's connection.
	Disconnect func(core.NodeID)
}

// Edge is the end of the fleet that calls come from: it knows which nodes are here
// and what they offer, and makes the round trips to them. Its methods may be called
// concurrently.
type Edge struct {
	EdgeParts
	streams atomic.Uint64 // the last that was made: none is used twice, whatever the session
	buffers sync.Pool     // *[]byte, of messages while they are made
	offered atomic.Pointer[offered]
	calls   toldCalls
	said    said

	mu      sync.RWMutex // guards what follows, and the nodes; taken before a session's
	nodes   map[core.NodeID]*edgeNode
	servers map[core.ProviderID]*server
	changed bool
	tasks   []func() // what may wait on others, for Run
	wake    chan struct{}
}

// edgeNode is what is known of one node. Edge.mu guards it.
type edgeNode struct {
	name      core.NodeID
	owner     string
	session   *edgeSession     // nil: it is not here
	report    *core.NodeReport // the last that was taken; never written
	seen      time.Time        // the last sign of life of its last session
	providers []*core.Provider
	offers    []*core.Offer
}

// offered is one snapshot of what all nodes offer.
type offered struct {
	providers []*core.Provider
	offers    []*core.Offer
}

// NewEdge makes an edge without nodes. Run must run for it to work.
func NewEdge(p EdgeParts) *Edge {
	e := &Edge{EdgeParts: p, nodes: map[core.NodeID]*edgeNode{}, servers: map[core.ProviderID]*server{}, wake: make(chan struct{}, 1), said: said{of: map[core.NodeID]*saidOf{}}}
	e.buffers.New = func() any { return new([]byte) }
	e.offered.Store(&offered{})
	return e
}

// looks is how often in a heartbeat Run looks for what has fallen silent.
const looks = 4

// Run keeps the heartbeats, until ctx ends.
func (e *Edge) Run(ctx context.Context) error {
	var work sync.WaitGroup
	work.Go(func() { e.work(ctx) })
	defer work.Wait()
	tick := time.NewTicker(max(e.Heartbeat/looks, time.Millisecond))
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := e.Clock()
		for _, s := range e.sessions() {
			if !s.look(now) {
				e.end(s)
				e.note(slog.LevelWarn, s.name, "a node has fallen silent and counts as lost")
				e.later(func() { e.Disconnect(s.name) })
				continue
			}
			if n%looks == 0 {
				s.beat()
			}
		}
	}
}

// sessions are those that there are now.
func (e *Edge) sessions() []*edgeSession {
	e.mu.RLock()
	defer e.mu.RUnlock()
	list := make([]*edgeSession, 0, len(e.nodes))
	for _, n := range e.nodes {
		if n.session != nil {
			list = append(list, n.session)
		}
	}
	return list
}

// later has Run do what may have to wait: whoever asks for it may hold up a bus.
func (e *Edge) later(do func()) {
	e.mu.Lock()
	e.tasks = append(e.tasks, do)
	e.mu.Unlock()
	e.wakeUp()
}

func (e *Edge) wakeUp() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// work does what later was asked for, and tells of changes.
func (e *Edge) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.wake:
		}
		e.mu.Lock()
		tasks, changed := e.tasks, e.changed
		e.tasks, e.changed = nil, false
		e.mu.Unlock()
		for _, do := range tasks {
			do()
		}
		if changed && e.Changed != nil {
			e.Changed()
		}
	}
}

// Joined says that a node's session has begun, and that sessions of it before this
// one count no more; owner is whose machine it is. It does not wait.
func (e *Edge) Joined(node core.NodeID, session uint64, owner string) {
	s := newEdgeSession(e, node, session)
	e.mu.Lock()
	n := e.nodes[node]
	if n == nil {
		n = &edgeNode{name: node}
		e.nodes[node] = n
	}
	before := n.session
	n.session, n.seen = s, s.began
	if n.owner != owner {
		n.owner = owner
		if n.report != nil {
			e.take(n, n.report)
		}
	}
	e.mu.Unlock()
	e.wakeUp()
	if before != nil {
		before.end(&core.NodeError{Word: core.NodeGone})
	}
	if err := s.listen(); err != nil {
		e.Log.Error("a node's messages cannot be listened to", "node", node, "error", err)
		e.end(s)
		e.later(func() { e.Disconnect(node) })
	}
}

// Left says that a session has ended. It does not wait.
func (e *Edge) Left(node core.NodeID, session uint64) {
	e.mu.RLock()
	n := e.nodes[node]
	var s *edgeSession
	if n != nil && n.session != nil && n.session.id == session {
		s = n.session
	}
	e.mu.RUnlock()
	if s != nil {
		e.end(s)
		e.note(slog.LevelInfo, node, "a node has left")
	}
}

// end ends a session and its jobs.
func (e *Edge) end(s *edgeSession) {
	e.mu.Lock()
	if n := e.nodes[s.name]; n != nil && n.session == s {
		n.session, n.seen = nil, s.seenAt()
	}
	e.mu.Unlock()
	s.end(&core.NodeError{Word: core.NodeGone})
}

// Forget makes the offers of a node go away for good: it was revoked.
func (e *Edge) Forget(node core.NodeID) {
	e.mu.Lock()
	n := e.nodes[node]
	if n == nil {
		e.mu.Unlock()
		return
	}
	delete(e.nodes, node)
	for id, s := range e.servers {
		if s.node == node {
			delete(e.servers, id)
		}
	}
	if len(n.providers) > 0 {
		e.publish()
	}
	e.mu.Unlock()
	if n.session != nil {
		n.session.end(&core.NodeError{Word: core.NodeGone})
	}
	e.wakeUp()
}

// take puts a report that was checked in the place of a node's last one; e.mu is
// held. What does not change keeps its values.
func (e *Edge) take(n *edgeNode, r *core.NodeReport) {
	n.report = r
	providers, offers := offersOf(n.name, n.owner, r)
	if !reflect.DeepEqual(providers, n.providers) || !reflect.DeepEqual(offers, n.offers) {
		n.providers, n.offers = providers, offers
		e.publish()
	}
	in := map[core.ProviderID]bool{}
	for i := range r.Upstreams {
		u := &r.Upstreams[i]
		s := e.server(providerID(n.name, u.Name))
		s.slots.Store(u.Slots)
		s.down.Store(u.Down)
		s.session.Store(n.session)
		in[s.provider] = true
	}
	for id, s := range e.servers {
		if s.node == n.name && !in[id] {
			s.session.Store(nil)
			if s.held.Load() == 0 {
				delete(e.servers, id)
			}
		}
	}
}

// publish makes a snapshot of what all nodes offer and has Run tell of it; e.mu is
// held, and wakeUp is the caller's to call.
func (e *Edge) publish() {
	o := &offered{}
	names := make([]core.NodeID, 0, len(e.nodes))
	for name := range e.nodes {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		o.providers = append(o.providers, e.nodes[name].providers...)
		o.offers = append(o.offers, e.nodes[name].offers...)
	}
	e.offered.Store(o)
	e.changed = true
}

// server is the one of a provider, made where there is none; e.mu is held.
func (e *Edge) server(id core.ProviderID) *server {
	s := e.servers[id]
	if s == nil {
		node, name, _ := strings.Cut(string(id), ".")
		s = &server{edge: e, provider: id, node: core.NodeID(node), name: name}
		e.servers[id] = s
	}
	return s
}

// find is the server of a provider.
func (e *Edge) find(id core.ProviderID) *server {
	e.mu.RLock()
	s := e.servers[id]
	e.mu.RUnlock()
	if s == nil {
		e.mu.Lock()
		s = e.server(id)
		e.mu.Unlock()
	}
	return s
}

// RoundTripper is the transport for a node's provider.
func (e *Edge) RoundTripper(p *core.Provider) (http.RoundTripper, error) {
	if p.Node == "" {
		return nil, core.Errorf(core.Internal, "provider %s is not a node's", p.ID)
	}
	return e.find(p.ID), nil
}

// Line is the line before the model server that a provider is; never nil.
func (e *Edge) Line(p core.ProviderID) core.Line { return e.find(p) }

// Offered are the providers and offers of all nodes that were here since the start,
// also of those that are lost now. The values never change.
func (e *Edge) Offered() ([]*core.Provider, []*core.Offer) {
	o := e.offered.Load()
	return o.providers, o.offers
}

// Status is how a node stands that has been here since the start; false: it has not.
func (e *Edge) Status(node core.NodeID) (core.NodeStatus, bool) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	n := e.nodes[node]
	if n == nil {
		return core.NodeStatus{}, false
	}
	return e.status(n), true
}

// Nodes are all nodes that have been here since the start, by their names.
func (e *Edge) Nodes() []core.NodeStatus {
	e.mu.RLock()
	defer e.mu.RUnlock()
	list := make([]core.NodeStatus, 0, len(e.nodes))
	for _, n := range e.nodes {
		list = append(list, e.status(n))
	}
	slices.SortFunc(list, func(a, b core.NodeStatus) int { return strings.Compare(string(a.Name), string(b.Name)) })
	return list
}

// status is how a node stands; e.mu is held.
func (e *Edge) status(n *edgeNode) core.NodeStatus {
	st := core.NodeStatus{Name: n.name, State: core.NodeLost, Owner: n.owner, Models: []core.Model{}}
	seen := n.seen
	if s := n.session; s != nil {
		seen = s.seenAt()
		if s.up.Load() {
			st.State = core.NodeUp
		}
	}
	st.SeenAt = core.Some(seen.UTC())
	if n.report == nil {
		return st
	}
	st.Version, st.Upstreams = n.report.Version, slices.Clone(n.report.Upstreams)
	for i := range st.Upstreams {
		st.Upstreams[i].Credential = "" // it says nothing to anybody
	}
	for _, u := range n.report.Upstreams {
		for _, m := range u.Models {
			st.Models = append(st.Models, m.Model)
		}
		st.Slots += u.Slots
		if s := e.servers[providerID(n.name, u.Name)]; s != nil {
			held, free := s.held.Load(), u.Slots
			if n.session != nil { // else nobody knows of others
				free = max(free-s.others.Load(), 0)
			}
			st.InFlight += held
			st.SlotsInUse += min(u.Slots, held+u.Slots-free)
			st.Queue += max(held-free, 0)
		}
	}
	slices.Sort(st.Models)
	st.Models = slices.Compact(st.Models)
	return st
}

// Calls are what nodes told of the attempts of a call beside its receipt, the first
// attempt first.
func (e *Edge) Calls(id core.CallID) ([]core.NodeCall, error) { return readCalls(e.Vault, id) }
