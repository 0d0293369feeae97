package fleet

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"headway/core"
)

const (
	mostFaults  = 10     // breaches of the protocol that a session survives, less one
	mostStreams = 40_000 // of a session: their list still is one message
	mostStrays  = 64     // frames of unknown streams that are answered between two looks
	mostHellos  = 20     // a second: each makes the list of all offers anew
)

// edgeSession is one connection of a node, as the edge sees it. Its subscriptions
// have a goroutine each.
type edgeSession struct {
	edge  *Edge
	name  core.NodeID
	id    uint64
	began time.Time
	jobs  string        // the subject of frames to the node
	beats string        // and of beats
	heard atomic.Bool   // a message came since the last look
	up    atomic.Bool   // its hello was taken, and it has not ended
	stops atomic.Bool   // it lets no more jobs in: it is stopping
	gone  chan struct{} // closed once it has ended
	fault atomic.Int64  // breaches of the protocol

	// The goroutine of hellos alone:
	hellos int
	since  time.Time // when the first of them came

	mu      sync.Mutex // guards what follows
	over    bool
	last    time.Time // the last sign of life, to a look
	quiet   int       // looks since then
	streams map[uint64]*stream
	strays  []uint64 // streams that the node has and the edge does not
	subs    []core.Subscription
}

func newEdgeSession(e *Edge, node core.NodeID, id uint64) *edgeSession {
	now := e.Clock()
	return &edgeSession{edge: e, name: node, id: id, began: now, last: now, jobs: subject(subjectJobs, node), beats: subject(subjectEdgeBeat, node),
		streams: map[uint64]*stream{}, gone: make(chan struct{})}
}

// listen subscribes to what the node sends.
func (s *edgeSession) listen() error {
	for _, of := range [...]struct {
		subject string
		handle  func(subject, reply string, data []byte)
	}{{subjectFrames, s.onFrame}, {subjectBeat, s.onBeat}, {subjectCalls, s.onCalls}, {subjectHello, s.onHello}} {
		sub, err := s.edge.Bus.Subscribe(subject(of.subject, s.name), of.handle)
		if err != nil {
			return err
		}
		s.mu.Lock()
		over := s.over
		if !over {
			s.subs = append(s.subs, sub)
		}
		s.mu.Unlock()
		if over {
			s.edge.later(sub.Stop)
		}
	}
	return nil
}

// end ends the session and its jobs, once.
func (s *edgeSession) end(why error) {
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return
	}
	s.over = true
	s.up.Store(false)
	close(s.gone)
	streams, subs := s.streams, s.subs
	s.streams, s.subs = nil, nil
	s.mu.Unlock()
	for _, st := range streams {
		st.finish(why)
	}
	s.edge.later(func() {
		for _, sub := range subs {
			sub.Stop()
		}
	})
}

// add makes a stream one of the session's; false: the session is over, or has too
// many.
func (s *edgeSession) add(st *stream) (ok, full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || !s.up.Load() {
		return false, false
	}
	if len(s.streams) >= mostStreams {
		return false, true
	}
	s.streams[st.id] = st
	return true, false
}

func (s *edgeSession) remove(id uint64) {
	s.mu.Lock()
	delete(s.streams, id)
	s.mu.Unlock()
}

func (s *edgeSession) find(id uint64) *stream {
	s.mu.Lock()
	st := s.streams[id]
	s.mu.Unlock()
	return st
}

// alive notes a sign of life.
func (s *edgeSession) alive() {
	if !s.heard.Load() {
		s.heard.Store(true)
	}
}

func (s *edgeSession) seenAt() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// look ends streams that the node has not taken in time, and cancels those that it
// alone knows. false: it has been silent for too long. Looks are counted and not the
// time between them, so that an edge that did not get to run itself blames no node for
// it.
func (s *edgeSession) look(now time.Time) bool {
	most := s.edge.Misses * looks
	var late []*stream
	s.mu.Lock()
	s.quiet++
	if s.heard.Swap(false) {
		s.last, s.quiet = now, 0
	}
	silent := s.quiet > most
	for _, st := range s.streams {
		if st.looks++; st.looks > most && !st.accepted.Load() {
			late = append(late, st)
		}
	}
	strays := s.strays
	s.strays = nil
	s.mu.Unlock()
	if silent {
		return false
	}
	for _, st := range late {
		st.drop(&core.NodeError{Word: core.NodeGone})
	}
	for _, id := range strays {
		s.cancel(id)
	}
	return true
}

// beat tells the node which jobs the edge has.
func (s *edgeSession) beat() {
	b := beat{Jobs: []streamID{}}
	s.mu.Lock()
	for id := range s.streams {
		b.Jobs = append(b.Jobs, streamID(id))
	}
	s.mu.Unlock()
	s.say(s.beats, b)
}

// say publishes JSON.
func (s *edgeSession) say(subject string, v any) {
	text, err := json.Marshal(v)
	if err == nil {
		err = s.edge.Bus.Publish(subject, text)
	}
	if err != nil {
		s.edge.Log.Debug("a message to a node was not sent", "node", s.name, "error", err)
	}
}

// cancel tells the node that the edge wants no more of a stream.
func (s *edgeSession) cancel(id uint64) {
	f := frame{kind: kindCancel, stream: id}
	_ = s.edge.Bus.Publish(s.jobs, f.append(nil)) // a session that has ended has no jobs
}

// breach notes that the node broke the protocol. Where it does so again and again it
// is disconnected.
func (s *edgeSession) breach(what string) {
	n := s.fault.Add(1)
	if n > mostFaults {
		return
	}
	s.edge.note(slog.LevelWarn, s.name, "a node broke the protocol", "fault", what, "faults", n)
	if n == mostFaults {
		s.edge.end(s)
		s.edge.later(func() { s.edge.Disconnect(s.name) })
	}
}

// onFrame gives each frame to its stream. It never waits: what one caller does not
// read must not hold up the others.
func (s *edgeSession) onFrame(_, _ string, data []byte) {
	s.alive()
	f, err := parseFrame(data)
	if err != nil || f.kind < kindAccepted && f.kind != kindCredit {
		s.breach("a malformed frame")
		return
	}
	if st := s.find(f.stream); st != nil {
		st.take(&f)
		return
	}
	if f.kind == kindEnd || f.kind == kindRefused || f.kind == kindCredit {
		return // it ends by itself, or asks for nothing
	}
	s.mu.Lock()
	if len(s.strays) < mostStrays && !slices.Contains(s.strays, f.stream) {
		s.strays = append(s.strays, f.stream)
	}
	s.mu.Unlock()
}

// onHello takes a report.
func (s *edgeSession) onHello(_, reply string, data []byte) {
	s.alive()
	if !s.inbox(reply) {
		s.breach("a hello without an inbox of its own")
		return
	}
	e := s.edge
	w := welcome{HeartbeatMS: e.Heartbeat.Milliseconds(), Misses: e.Misses, WindowFrames: windowFrames, WindowBytes: windowBytes,
		UploadBytes: uploadBytes, InlineBytes: pieceBytes}
	r, err := readReport(data)
	switch {
	case err != nil:
		w.Error = err.Error()
		e.note(slog.LevelWarn, s.name, "a node's report was not taken", "error", err)
	case s.tooMany():
		w.Error = "reports come too often"
	case !e.accept(s, r):
		return // the session is over
	}
	s.say(reply, w)
}

// tooMany tells whether a report is one of more than mostHellos within a second.
func (s *edgeSession) tooMany() bool {
	if now := s.edge.Clock(); s.hellos == 0 || now.Sub(s.since) >= time.Second {
		s.hellos, s.since = 0, now
	}
	if s.hellos++; s.hellos == mostHellos+1 {
		s.edge.note(slog.LevelWarn, s.name, "a node's reports come too often: some are not taken", "most", mostHellos, "within", time.Second)
	}
	return s.hellos > mostHellos
}

// inbox tells whether answers may go to a subject: to the node's own alone, as the
// edge may publish to those of other nodes too.
func (s *edgeSession) inbox(reply string) bool {
	own := fmt.Sprintf("hw.v1.j.%s.r", s.name)
	return reply == own || strings.HasPrefix(reply, own+".")
}

// accept puts a session's report into force; false: the session is over.
func (e *Edge) accept(s *edgeSession, r *core.NodeReport) bool {
	e.mu.Lock()
	n := e.nodes[s.name]
	if n == nil || n.session != s {
		e.mu.Unlock()
		return false
	}
	e.take(n, r)
	first := !s.up.Swap(true)
	providers, offers := len(n.providers), len(n.offers)
	e.mu.Unlock()
	e.wakeUp()
	if first {
		e.note(slog.LevelInfo, s.name, "a node is here", "version", r.Version, "servers", providers, "offers", offers)
	}
	return true
}

// mostTaken bounds what a node may say of its slots.
const mostTaken = 1 << 20

// onBeat takes what a node says every heartbeat.
func (s *edgeSession) onBeat(_, _ string, data []byte) {
	s.alive()
	var b beat
	if err := json.Unmarshal(data, &b); err != nil {
		s.breach("a malformed beat")
		return
	}
	if b.Stopping && !s.stops.Swap(true) {
		s.edge.note(slog.LevelInfo, s.name, "a node is stopping: it gets no more calls")
	}
	e := s.edge
	e.mu.RLock()
	for _, u := range b.Upstreams {
		if of := e.servers[providerID(s.name, u.Name)]; of != nil && of.session.Load() == s {
			of.others.Store(min(max(u.Others, 0), mostTaken))
		}
	}
	e.mu.RUnlock()
	var left []*stream
	s.mu.Lock()
	if len(s.streams) > 0 {
		there := make(map[uint64]bool, len(b.Jobs))
		for _, id := range b.Jobs {
			there[uint64(id)] = true
		}
		for id, st := range s.streams {
			switch { // one that was not accepted yet has a time limit of its own
			case there[id] || st.heard.Swap(false) || !st.accepted.Load():
				st.missed = 0
			case st.missed >= 1 && st.looks > 2*looks:
				left = append(left, st)
			default:
				st.missed++
			}
		}
	}
	s.mu.Unlock()
	for _, st := range left {
		st.drop(&core.NodeError{Word: core.NodeGone})
	}
}
