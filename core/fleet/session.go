package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"headway/core"
)

// Why a job is cancelled.
var (
	errCancelled = errors.New("the edge wants no more")
	errReaped    = errors.New("the edge does not know the stream any more")
	errSession   = errors.New("the session with the edge has ended")
	errStopping  = errors.New("the node is stopping")
	errOusted    = errors.New("another connection has come with this node's key: where it is not this machine's own, revoke the node on the edge")
	errGap       = errors.New("a frame of the edge was lost, or none that fits")
)

const (
	helloTime  = 2 * time.Second        // how long a hello waits for its answer
	helloAgain = 100 * time.Millisecond // until the next one, where nobody heard it
	helloEvery = 5 * time.Second        // where the edge did not want it
	// unheard is how long a session may go on without an edge that answers.
	unheard = 30 * time.Second
	// lastWords is how long jobs that the stop of the node cut off may take to say so.
	lastWords = time.Second

	leastBeat   = 10 * time.Millisecond
	mostBeat    = time.Minute
	mostMisses  = 100
	looksPer    = 4       // heartbeat: how often the edge's silence is looked at
	mostSeen    = 1 << 15 // streams that are remembered, in each of two halves
	mostLate    = 1 << 12 // refusals that wait to be sent
	mostUntaken = 1 << 16 // ends of which it is not known whether the edge took them
	reportRest  = 4 << 10 // of a hello, beside its models

	// beatsToEnd is how many beats in a row must leave a stream out for it to be over.
	beatsToEnd = 2
)

// nodeSession is one session of a node with its edge.
type nodeSession struct {
	n      *Node
	link   core.Link
	frames string // the subject that frames go out on
	began  time.Time
	ctx    context.Context // of all jobs; its cause is why the session ended
	cancel context.CancelCauseFunc
	jobs   sync.WaitGroup

	terms    atomic.Pointer[welcome]
	welcomed chan struct{} // closed once terms is set
	heard    atomic.Int64  // ns since began: the last sign of life of the edge
	stopping atomic.Bool
	ousted   atomic.Bool   // a newer connection has come with this node's key
	tell     chan struct{} // of one: beat now
	nudge    chan struct{} // of one: a job has ended, or an end was taken

	mu      sync.Mutex // guards what follows
	over    bool       // no job begins any more
	streams map[uint64]*nodeJob
	untaken map[uint64]*ended
	seen    [2]map[uint64]bool // the newer half comes first

	lateMu   sync.Mutex // guards what follows
	flushes  []*outlet
	refusals [][]byte
	late     chan struct{} // of one
}

// ended is a job of which it is not known whether the edge took its end.
type ended struct {
	call   core.NodeCall
	absent int // beats of the edge in a row that did not name it
}

func newNodeSession(ctx context.Context, n *Node, link core.Link) *nodeSession {
	s := &nodeSession{n: n, link: link, frames: subject(subjectFrames, n.Name), began: n.Clock(), welcomed: make(chan struct{}), nudge: make(chan struct{}, 1), tell: make(chan struct{}, 1), late: make(chan struct{}, 1),
		streams: map[uint64]*nodeJob{}, untaken: map[uint64]*ended{}}
	s.seen[0], s.seen[1] = map[uint64]bool{}, map[uint64]bool{}
	s.ctx, s.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	return s
}

// run serves the session until it ends, or until ctx has ended and all jobs with
// it. It tells whether the edge took the node.
func (s *nodeSession) run(ctx context.Context) bool {
	var work sync.WaitGroup
	var subs []core.Subscription
	listen := func(of string, handle func(subject, reply string, data []byte)) error {
		sub, err := s.link.Subscribe(subject(of, s.n.Name), handle)
		if err == nil {
			subs = append(subs, sub)
		}
		return err
	}
	oust := func(string, string, []byte) {
		s.ousted.Store(true)
		s.nudged()
	}
	why := cmp.Or(listen(subjectJobs, s.take), listen(subjectEdgeBeat, s.takeBeat), listen(subjectOusted, oust))
	if why == nil {
		work.Go(s.send)
		work.Go(s.hello)
		work.Go(s.beats)
		why = s.watch(ctx)
	}
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.n.spool.detach()
	s.cancel(errSession)
	s.dropAll(errSession)
	s.link.Close() // whoever waits for the network waits no more
	for _, sub := range subs {
		sub.Stop()
	}
	s.jobs.Wait()
	work.Wait()
	s.n.spool.add(s.left()...)
	if ctx.Err() == nil {
		s.n.Log.Warn("the session with the edge has ended", "reason", cmp.Or(why, errSession))
	}
	return s.terms.Load() != nil
}

// left are the calls whose end the edge may not have taken.
func (s *nodeSession) left() (calls []core.NodeCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, stream := range slices.Sorted(maps.Keys(s.untaken)) {
		calls = append(calls, s.untaken[stream].call)
	}
	clear(s.untaken)
	return calls
}

// watch waits for the end of the session: of the connection, of the edge's signs of
// life, or of the last job once ctx has ended.
func (s *nodeSession) watch(ctx context.Context) error {
	stop := ctx.Done()
	var deadline <-chan time.Time
	cut := false
	look := time.NewTimer(helloAgain)
	defer look.Stop()
	for {
		select {
		case <-s.link.Done():
			if s.ousted.Load() {
				return errOusted
			}
			return errors.New("the connection was lost")
		case <-look.C:
			if err := s.silence(); err != nil {
				return err
			}
			look.Reset(s.lookEvery())
		case <-stop:
			stop = nil
			s.stopping.Store(true)
			select {
			case s.tell <- struct{}{}:
			default:
			}
			timer := time.NewTimer(stopTime)
			defer timer.Stop()
			deadline = timer.C
		case <-s.nudge:
			if s.ousted.Load() {
				return errOusted
			}
		case <-deadline:
			if cut {
				return nil
			}
			cut = true
			s.dropAll(errStopping)
			timer := time.NewTimer(lastWords)
			defer timer.Stop()
			deadline = timer.C
		}
		if s.stopping.Load() && s.quiet(cut) {
			return nil
		}
	}
}

// quiet tells whether nothing is under way any more; last, whether it is too late to
// wait for the edge to take what ended.
func (s *nodeSession) quiet(last bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.streams) == 0 && (last || len(s.untaken) == 0)
}

func (s *nodeSession) dropAll(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.streams {
		j.drop(why)
	}
}

// silence is nil while the edge gives signs of life.
func (s *nodeSession) silence() error {
	quiet := s.n.Clock().Sub(s.began) - time.Duration(s.heard.Load())
	switch t := s.terms.Load(); {
	case t == nil && quiet > unheard:
		return errors.New("no edge answers there")
	case t != nil && quiet > time.Duration(t.Misses)*t.heartbeat():
		return errors.New("the edge has fallen silent")
	}
	return nil
}

func (s *nodeSession) lookEvery() time.Duration {
	if t := s.terms.Load(); t != nil {
		return t.heartbeat() / looksPer
	}
	return helloAgain
}

func (s *nodeSession) hear() { s.heard.Store(int64(s.n.Clock().Sub(s.began))) }

func (w *welcome) heartbeat() time.Duration { return time.Duration(w.HeartbeatMS) * time.Millisecond }

// sound brings what an edge said within what a node does.
func (w *welcome) sound() {
	if w.HeartbeatMS == 0 {
		w.HeartbeatMS = 2000
	}
	w.HeartbeatMS = min(max(w.HeartbeatMS, leastBeat.Milliseconds()), mostBeat.Milliseconds())
	w.Misses = min(max(w.Misses, 1), mostMisses)
	w.WindowFrames = cmp.Or(w.WindowFrames, windowFrames)
	w.WindowBytes = cmp.Or(w.WindowBytes, windowBytes)
	w.UploadBytes = min(cmp.Or(w.UploadBytes, uploadBytes), uploadBytes)
}

// hello tells the edge what the node is, at once and whenever that changes.
func (s *nodeSession) hello() {
	for {
		again := make(<-chan time.Time)
		stop := func() bool { return true }
		if wait := s.sayHello(); wait > 0 {
			timer := time.NewTimer(wait)
			again, stop = timer.C, timer.Stop
		}
		select {
		case <-s.ctx.Done():
			stop()
			return
		case <-again:
		case <-s.n.change:
		}
		stop()
	}
}

// sayHello asks the edge to take the report, and tells when to ask again where it
// did not.
func (s *nodeSession) sayHello() time.Duration {
	select {
	case <-s.n.change: // it will be in this one
	default:
	}
	report, models := s.n.report(s.link.MaxPayload() - reportRest)
	data, err := json.Marshal(report)
	if err != nil {
		s.n.Log.Error("the report could not be written", "error", err)
		return helloEvery
	}
	ctx, cancel := context.WithTimeout(s.ctx, helloTime)
	defer cancel()
	answer, err := s.link.Request(ctx, subject(subjectHello, s.n.Name), data)
	if err != nil {
		return helloAgain
	}
	var w welcome
	if json.Unmarshal(answer, &w) != nil {
		s.n.Log.Warn("the edge's answer to the report cannot be read")
		return helloEvery
	}
	s.hear()
	w.sound()
	first := s.terms.Swap(&w) == nil
	if first {
		close(s.welcomed)
		s.n.spool.attach(s.link)
	}
	if w.Error != "" {
		s.n.Log.Warn("the edge did not take the report", "error", w.Error[:min(len(w.Error), 200)])
		return helloEvery
	}
	if first {
		s.n.Log.Info("the edge has taken the node", "models", models)
	}
	if s.n.Up != nil {
		s.n.Up(models)
	}
	return 0
}

// beats tells the edge every heartbeat what is under way.
func (s *nodeSession) beats() {
	select {
	case <-s.welcomed:
	case <-s.ctx.Done():
		return
	}
	for s.ctx.Err() == nil {
		b := beat{Jobs: []streamID{}, Stopping: s.stopping.Load()}
		for _, m := range s.n.servers {
			busy, waiting := m.line.count()
			b.Upstreams = append(b.Upstreams, upstreamBeat{Name: m.Name, Busy: busy, Waiting: waiting, Others: m.others.Load()})
		}
		s.mu.Lock()
		for stream := range s.streams {
			b.Jobs = append(b.Jobs, streamID(stream))
		}
		s.mu.Unlock()
		if data, err := json.Marshal(b); err == nil {
			_ = s.link.Publish(subject(subjectBeat, s.n.Name), data) // one that is lost is one that is missed
		}
		timer := time.NewTimer(s.terms.Load().heartbeat())
		select {
		case <-timer.C:
		case <-s.tell:
		case <-s.ctx.Done():
		}
		timer.Stop()
	}
}

// takeBeat takes a beat of the edge: what it left out twice in a row is over.
func (s *nodeSession) takeBeat(_, _ string, data []byte) {
	t := s.terms.Load()
	var b beat
	if t == nil || json.Unmarshal(data, &b) != nil {
		return
	}
	s.hear()
	named := make(map[uint64]bool, len(b.Jobs))
	for _, stream := range b.Jobs {
		named[uint64(stream)] = true
	}
	now := s.n.Clock()
	s.mu.Lock()
	for stream, j := range s.streams {
		if j.absent++; named[stream] {
			j.absent = 0
		}
		if j.absent >= beatsToEnd && now.Sub(j.began) > beatsToEnd*t.heartbeat() {
			j.drop(errReaped)
		}
	}
	for stream, e := range s.untaken {
		if e.absent++; named[stream] {
			e.absent = 0
		}
		if e.absent >= beatsToEnd {
			delete(s.untaken, stream)
		}
	}
	s.mu.Unlock()
	s.nudged()
}

func (s *nodeSession) nudged() {
	select {
	case s.nudge <- struct{}{}:
	default:
	}
}

// take takes a frame of the edge. Before the edge's answer to the first hello is
// here, its terms are not known: frames wait for it.
func (s *nodeSession) take(_, _ string, data []byte) {
	select {
	case <-s.welcomed:
	default:
		select {
		case <-s.welcomed:
		case <-s.ctx.Done():
			return
		}
	}
	s.hear()
	f, err := parseFrame(data)
	if err != nil {
		return
	}
	if f.kind == kindStart {
		s.begin(&f)
		return
	}
	s.mu.Lock()
	j := s.streams[f.stream]
	var lost []core.NodeCall
	if e := s.untaken[f.stream]; e != nil && f.kind == kindCancel { // it came too late, or was not whole
		lost = append(lost, e.call)
		delete(s.untaken, f.stream)
	}
	s.mu.Unlock()
	s.n.spool.add(lost...)
	if j == nil {
		return
	}
	switch f.kind {
	case kindCredit:
		j.out.credit(parseCredit(f.payload))
	case kindCancel:
		j.drop(errCancelled)
	case kindBody:
		j.next++
		if f.seq != j.next || j.in.push(f.payload, f.last) != nil {
			j.drop(errGap)
		}
	}
}

// begin lets a job in, or refuses it.
func (s *nodeSession) begin(f *frame) {
	if s.known(f.stream) {
		return
	}
	st, body, err := parseStart(f.payload)
	if err != nil || f.seq != 1 {
		s.refuse(f.stream, refused{Reason: reasonBad})
		return
	}
	m := s.n.server(st.Upstream)
	switch {
	case m == nil:
		s.refuse(f.stream, refused{Reason: reasonUnknown})
		return
	case s.stopping.Load():
		s.refuse(f.stream, refused{Reason: reasonStopping})
		return
	case s.crowded():
		s.refuse(f.stream, refused{Reason: reasonBusy, RetryAfterMS: unknownService.Milliseconds()})
		return
	}
	j := newJob(s, m, f.stream, st)
	if why := j.enter(body, f.last); why.Reason != "" {
		j.cancel(errEnded)
		s.refuse(f.stream, why)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		j.cancel(errEnded)
		m.line.leave(j.ticket, j.began, 0)
		return
	}
	s.streams[f.stream] = j
	s.jobs.Go(j.run)
}

// crowded tells whether there are so many jobs that no more fit into a beat.
func (s *nodeSession) crowded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.streams) >= mostStreams
}

// known tells whether a start of the stream came before, and remembers it.
func (s *nodeSession) known(stream uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[0][stream] || s.seen[1][stream] {
		return true
	}
	if len(s.seen[0]) >= mostSeen {
		s.seen[1], s.seen[0] = s.seen[0], map[uint64]bool{}
	}
	s.seen[0][stream] = true
	return false
}

// end takes a job that has ended; told, that the edge was sent its end. A job that is
// of no call of the edge's leaves nothing.
func (s *nodeSession) end(j *nodeJob, told bool, call core.NodeCall) {
	s.mu.Lock()
	delete(s.streams, j.stream)
	told = told && len(s.untaken) < mostUntaken
	if told && call.Call != "" {
		s.untaken[j.stream] = &ended{call: call}
	}
	s.mu.Unlock()
	if !told && call.Call != "" {
		s.n.spool.add(call)
	}
	s.nudged()
}

// refuse has a job refused, by the sender.
func (s *nodeSession) refuse(stream uint64, why refused) {
	payload, err := json.Marshal(why)
	if err != nil {
		return
	}
	f := frame{kind: kindRefused, seq: 1, stream: stream, payload: payload}
	s.lateMu.Lock()
	if len(s.refusals) < mostLate { // beyond that the edge finds out by itself
		s.refusals = append(s.refusals, f.append(nil))
	}
	s.lateMu.Unlock()
	s.wakeSender()
}

// flush has the sender flush an outlet.
func (s *nodeSession) flush(o *outlet) {
	s.lateMu.Lock()
	s.flushes = append(s.flushes, o)
	s.lateMu.Unlock()
	s.wakeSender()
}

func (s *nodeSession) wakeSender() {
	select {
	case s.late <- struct{}{}:
	default:
	}
}

// send publishes what the subscription's goroutine must not wait for.
func (s *nodeSession) send() {
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.late:
		}
		s.lateMu.Lock()
		flushes, refusals := s.flushes, s.refusals
		s.flushes, s.refusals = nil, nil
		s.lateMu.Unlock()
		for _, o := range flushes {
			o.flush()
		}
		for _, msg := range refusals {
			_ = s.publish(msg) // one that is lost is one that the edge misses
		}
	}
}

// publish sends a frame to the edge.
func (s *nodeSession) publish(msg []byte) error {
	return s.link.Publish(s.frames, msg)
}

// shares are how many of most each gets that has a count: what is not needed by one is
// another's.
func shares(counts []int, most int) []int {
	order := make([]int, len(counts))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(counts[a], counts[b]) })
	out := make([]int, len(counts))
	for i, of := range order {
		out[of] = min(counts[of], most/(len(order)-i))
		most -= out[of]
	}
	return out
}

// report is what the node tells of itself, in at most room bytes, and how many
// models it has.
func (n *Node) report(room int) (r core.NodeReport, models int) {
	r = core.NodeReport{Version: n.Version, Upstreams: []core.NodeUpstream{}}
	counts := make([]int, len(n.servers))
	for i, m := range n.servers {
		counts[i] = m.count()
	}
	most := shares(counts, mostModels)
	for i, m := range n.servers {
		if u, ok := m.report(most[i], room/len(n.servers)); ok {
			r.Upstreams = append(r.Upstreams, u)
			models += len(u.Models)
		}
	}
	return r, models
}
