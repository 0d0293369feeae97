package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"headway/core"
)

// edgeRig is an edge on a bus in memory, whose nodes are scripted.
type edgeRig struct {
	t       testing.TB
	bus     *memBus
	edge    *Edge
	book    *core.Memory
	log     *logText
	changes atomic.Int64
	session atomic.Uint64

	mu    sync.Mutex
	ended []core.NodeID // that were disconnected
}

// logText keeps a log for a test to read.
type logText struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

const (
	rigBeat   = 100 * time.Millisecond
	rigMisses = 3
)

func newEdgeRig(t testing.TB) *edgeRig { return newEdgeRigAt(t, rigBeat) }

// newEdgeRigAt is one with another heartbeat.
func newEdgeRigAt(t testing.TB, beat time.Duration) *edgeRig {
	r := &edgeRig{t: t, bus: newMemBus(t), book: core.NewMemory(), log: &logText{}}
	r.edge = NewEdge(EdgeParts{Clock: time.Now, Log: slog.New(slog.NewTextHandler(r.log, nil)), Bus: r.bus, Book: r.book, Vault: r.book,
		Heartbeat: beat, Misses: rigMisses, Changed: func() { r.changes.Add(1) }, Disconnect: func(n core.NodeID) {
			r.mu.Lock()
			r.ended = append(r.ended, n)
			r.mu.Unlock()
			r.bus.Disconnect(n)
		}})
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() {
		if err := r.edge.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); run.Wait() })
	return r
}

func (r *edgeRig) disconnected() []core.NodeID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ended)
}

// scripted is a node that speaks frames as a test wants it.
type scripted struct {
	r     *edgeRig
	name  core.NodeID
	link  *memLink
	id    uint64
	serve func(*scriptedJob) // each start, in a goroutine of its own
	quit  chan struct{}
	run   sync.WaitGroup

	mu    sync.Mutex // guards what follows
	jobs  map[uint64]*scriptedJob
	mute  bool // it beats no more
	hide  bool // its beats leave every job out
	busy  []upstreamBeat
	beats int // of the edge
	edges []streamID
	stray []frame // frames of jobs that it does not know
}

// report is that of a node with one llama.cpp server.
func report(slots, queue int64, models ...string) core.NodeReport {
	u := core.NodeUpstream{Format: core.FormatLlamaCpp, Server: "llama.cpp b1", Slots: slots, Queue: queue}
	for _, m := range models {
		u.Models = append(u.Models, core.NodeModel{Model: core.Model(m), Upstream: m})
	}
	return core.NodeReport{Version: "v1", Upstreams: []core.NodeUpstream{u}}
}

// join begins a session of a node that reports what it has. serve is called for each
// job; nil: they are left alone.
func (r *edgeRig) join(name core.NodeID, rep core.NodeReport, serve func(*scriptedJob)) *scripted {
	r.t.Helper()
	n := r.connect(name, serve)
	if w := n.hello(rep); w.Error != "" {
		r.t.Fatalf("the report was refused: %s", w.Error)
	}
	return n
}

// connect begins a session without a hello.
func (r *edgeRig) connect(name core.NodeID, serve func(*scriptedJob)) *scripted {
	r.t.Helper()
	n := &scripted{r: r, name: name, link: r.bus.Join(name), id: r.session.Add(1), serve: serve, quit: make(chan struct{}), jobs: map[uint64]*scriptedJob{}}
	if _, err := n.link.Subscribe(subject(subjectJobs, name), n.onFrame); err != nil {
		r.t.Fatal(err)
	}
	if _, err := n.link.Subscribe(subject(subjectEdgeBeat, name), n.onBeat); err != nil {
		r.t.Fatal(err)
	}
	r.edge.Joined(name, n.id, "owner of "+string(name))
	n.run.Go(n.beat)
	r.t.Cleanup(n.leave)
	return n
}

// leave ends the session as the server tells it.
func (n *scripted) leave() {
	n.link.Cut()
	n.r.edge.Left(n.name, n.id)
	n.mu.Lock()
	select {
	case <-n.quit:
	default:
		close(n.quit)
	}
	n.mu.Unlock()
	n.run.Wait()
}

func (n *scripted) hello(rep core.NodeReport) (w welcome) {
	n.r.t.Helper()
	text, err := json.Marshal(rep)
	if err != nil {
		n.r.t.Fatal(err)
	}
	return n.helloText(text)
}

func (n *scripted) helloText(text []byte) (w welcome) {
	n.r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	answer, err := n.link.Request(ctx, subject(subjectHello, n.name), text)
	if err != nil {
		n.r.t.Fatalf("hello: %v", err)
	}
	if err := json.Unmarshal(answer, &w); err != nil {
		n.r.t.Fatal(err)
	}
	return w
}

// beat reports every heartbeat.
func (n *scripted) beat() {
	tick := time.NewTicker(rigBeat)
	defer tick.Stop()
	for {
		select {
		case <-n.quit:
			return
		case <-tick.C:
			n.mu.Lock()
			mute := n.mute
			n.mu.Unlock()
			if !mute {
				n.beatOnce()
			}
		}
	}
}

func (n *scripted) beatOnce() {
	n.mu.Lock()
	b := beat{Jobs: []streamID{}, Upstreams: n.busy}
	if !n.hide {
		for id := range n.jobs {
			b.Jobs = append(b.Jobs, streamID(id))
		}
	}
	n.mu.Unlock()
	text, _ := json.Marshal(b)
	_ = n.link.Publish(subject(subjectBeat, n.name), text)
}

func (n *scripted) onBeat(_, _ string, data []byte) {
	var b beat
	if err := json.Unmarshal(data, &b); err != nil {
		n.r.t.Errorf("the edge's beat: %v", err)
	}
	n.mu.Lock()
	n.beats++
	n.edges = b.Jobs
	n.mu.Unlock()
}

func (n *scripted) set(do func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	do()
}

func (n *scripted) send(f frame) error {
	return n.link.Publish(subject(subjectFrames, n.name), f.append(nil))
}

func (n *scripted) onFrame(_, _ string, data []byte) {
	f, err := parseFrame(data)
	if err != nil {
		n.r.t.Errorf("the edge sent what is no frame: %x", data[:min(len(data), 64)])
		return
	}
	n.mu.Lock()
	j := n.jobs[f.stream]
	if j == nil && f.kind != kindStart {
		n.stray = append(n.stray, f)
	}
	n.mu.Unlock()
	switch {
	case f.kind == kindStart:
		s, body, err := parseStart(f.payload)
		if err != nil || j != nil || f.seq != 1 {
			n.r.t.Errorf("a start that is none: %v", err)
			return
		}
		j = &scriptedJob{n: n, id: f.stream, start: s, frames: windowFrames, bytes: windowBytes, wake: make(chan struct{}, 1), gone: make(chan struct{})}
		j.body, j.whole, j.upSeq = append([]byte(nil), body...), f.last, 1
		n.mu.Lock()
		defer n.mu.Unlock()
		select {
		case <-n.quit: // leave waits for those that began before
			return
		default:
		}
		n.jobs[f.stream] = j
		if n.serve != nil {
			n.run.Go(func() { n.serve(j) })
		}
	case j != nil:
		j.on(f)
	}
}

// scriptedJob is one job of a scripted node.
type scriptedJob struct {
	n     *scripted
	id    uint64
	start start
	seq   uint32

	mu     sync.Mutex // guards what follows
	frames int64      // credit
	bytes  int64
	body   []byte
	whole  bool
	upSeq  uint32
	cut    bool
	wake   chan struct{}
	gone   chan struct{} // closed on cancel
}

func (j *scriptedJob) on(f frame) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch f.kind {
	case kindCredit:
		c := parseCredit(f.payload)
		j.frames += int64(c.frames)
		j.bytes += int64(c.bytes)
		if j.frames > windowFrames || j.bytes > windowBytes {
			j.n.r.t.Errorf("the edge gave more credit than was used: %d frames, %d bytes", j.frames, j.bytes)
		}
	case kindCancel:
		if !j.cut {
			j.cut = true
			close(j.gone)
		}
	case kindBody:
		if j.upSeq++; f.seq != j.upSeq || len(f.payload) > pieceBytes || j.whole {
			j.n.r.t.Errorf("body frame %d of %d bytes, want number %d", f.seq, len(f.payload), j.upSeq)
		}
		j.body = append(j.body, f.payload...)
		j.whole = f.last
	default:
		j.n.r.t.Errorf("kind %d to a node", f.kind)
	}
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// wait waits until ok, which is asked with j.mu held; false: the job was cancelled or
// the session has ended.
func (j *scriptedJob) wait(ok func() bool) bool {
	for {
		j.mu.Lock()
		is, cut := ok(), j.cut
		j.mu.Unlock()
		if is || cut {
			return is && !cut
		}
		select {
		case <-j.wake:
		case <-j.n.quit:
			return false
		}
	}
}

func (j *scriptedJob) send(k kind, payload []byte) {
	j.seq++
	_ = j.n.send(frame{kind: k, seq: j.seq, stream: j.id, payload: payload})
}

func (j *scriptedJob) accept() { j.send(kindAccepted, nil) }

func (j *scriptedJob) headers(status int, slotWait float64, header ...string) {
	h := headers{Status: status, Header: http.Header{}, SlotWaitMS: slotWait, ContentLength: -1}
	for i := 0; i+1 < len(header); i += 2 {
		h.Header.Set(header[i], header[i+1])
	}
	text, _ := json.Marshal(h)
	j.send(kindHeaders, text)
}

// data sends one frame once there is credit for it.
func (j *scriptedJob) data(b []byte) bool {
	if !j.wait(func() bool { return j.frames > 0 && j.bytes >= int64(len(b)) }) {
		return false
	}
	j.mu.Lock()
	j.frames--
	j.bytes -= int64(len(b))
	j.mu.Unlock()
	j.send(kindData, b)
	return true
}

func (j *scriptedJob) end(word string, timing core.NodeTiming) {
	text, _ := json.Marshal(end{Error: word, Timing: timing})
	j.send(kindEnd, text)
	j.forget()
}

func (j *scriptedJob) refuse(reason string, after time.Duration) {
	text, _ := json.Marshal(refused{Reason: reason, RetryAfterMS: after.Milliseconds()})
	j.send(kindRefused, text)
	j.forget()
}

func (j *scriptedJob) forget() { j.n.set(func() { delete(j.n.jobs, j.id) }) }

// provider is that of an offer of the edge.
func (r *edgeRig) provider(id core.ProviderID) *core.Provider {
	r.t.Helper()
	providers, _ := r.edge.Offered()
	for _, p := range providers {
		if p.ID == id {
			return p
		}
	}
	r.t.Fatalf("no provider %s", id)
	return nil
}

// post makes a round trip to a node's server.
func (r *edgeRig) post(ctx context.Context, node core.ProviderID, body string) (*http.Response, error) {
	return r.postTo(ctx, node, strings.NewReader(body))
}

func (r *edgeRig) postTo(ctx context.Context, node core.ProviderID, body io.Reader) (*http.Response, error) {
	p := r.provider(node)
	rt, err := r.edge.RoundTripper(p)
	if err != nil {
		r.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, "POST", p.BaseURL+"/v1/chat/completions", body)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	return rt.RoundTrip(req)
}

// eventually polls until ok, for ten seconds at most.
func (r *edgeRig) eventually(what string, ok func() bool) {
	r.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(10 * time.Second); ; {
		if ok() {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			r.t.Fatal("not in ten seconds: " + what)
		}
	}
}

// held is how many round trips a server has under way.
func (r *edgeRig) held(id core.ProviderID) int64 { return r.edge.find(id).held.Load() }

// quiet tells that nothing is under way with a node.
func (r *edgeRig) quiet(id core.ProviderID) func() bool {
	return func() bool {
		s := r.edge.find(id)
		session := s.session.Load()
		if session == nil {
			return s.held.Load() == 0
		}
		session.mu.Lock()
		defer session.mu.Unlock()
		return s.held.Load() == 0 && len(session.streams) == 0
	}
}

// word is what a node's failed round trip says.
func word(err error) string {
	if e, ok := err.(*core.NodeError); ok {
		return e.Word
	}
	return fmt.Sprintf("%T %v", err, err)
}
