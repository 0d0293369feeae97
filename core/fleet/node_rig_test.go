package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"headway/adapters"
	"headway/core"
)

// within is how long a test waits for what must come.
const within = 30 * time.Second

// until waits for a condition.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, within)
		}
	}
}

// formats are the readers of what model servers answer.
func formats() (all []core.ProviderSide) {
	for _, a := range adapters.All() {
		all = append(all, a)
	}
	return append(all, adapters.Providers(time.Now)...)
}

// transport calls servers as a node's does.
func transport(t testing.TB) *http.Transport {
	tr := &http.Transport{DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext, DisableCompression: true,
		MaxIdleConnsPerHost: 64, MaxResponseHeaderBytes: 64 << 10, ReadBufferSize: 8 << 10}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// testLog writes what a node logs to the test.
type testLog struct{ t testing.TB }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// nodeRig is a node on a bus in memory, with an edge that the test plays.
type nodeRig struct {
	*playedEdge
	node  *Node
	vault *core.Memory
	stop  context.CancelFunc
	done  chan error // what Run gives
}

// rigOf are parts of a rig that are not the usual ones.
type rigOf struct {
	parts func(*NodeParts)
	edge  func(*playedEdge)
}

// newNodeRig runs a node with those upstreams and an edge that hears it.
func newNodeRig(t testing.TB, of rigOf, upstreams ...Upstream) *nodeRig {
	t.Helper()
	r := &nodeRig{playedEdge: newPlayedEdge(t), vault: core.NewMemory(), done: make(chan error, 1)}
	p := NodeParts{Clock: time.Now, Log: slog.New(slog.NewTextHandler(testLog{t}, nil)), Name: "den", Version: "test", Formats: formats(),
		Upstreams: upstreams, Vault: r.vault, Transport: transport(t)}
	p.Dial = func(context.Context) (core.Link, error) { return r.join(), nil }
	if of.parts != nil {
		of.parts(&p)
	}
	if of.edge != nil {
		of.edge(r.playedEdge)
	}
	r.node = NewNode(p)
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	r.play()
	go func() { r.done <- r.node.Run(ctx); close(r.done) }()
	t.Cleanup(func() {
		stop()
		r.cutAll() // a test that waits for a slow end does so itself
		select {
		case <-r.done:
		case <-time.After(within):
			t.Error("the node has not ended")
		}
	})
	return r
}

// ready waits until the edge knows so many models.
func (r *nodeRig) ready(models int) core.NodeReport {
	r.t.Helper()
	var got core.NodeReport
	until(r.t, fmt.Sprintf("a report with %d models", models), func() bool {
		got = r.report()
		n := 0
		for _, u := range got.Upstreams {
			if !u.Down {
				n += len(u.Models)
			}
		}
		return n == models
	})
	return got
}

// playedEdge is an edge by FLEET.md that does what the test says.
type playedEdge struct {
	t   testing.TB
	bus *memBus

	mu      sync.Mutex // guards what follows
	welcome welcome
	away    bool // does not hear anything, before listen
	deaf    bool // does not answer a hello
	silent  bool // sends no beats
	hellos  []core.NodeReport
	heard   []beat
	streams map[uint64]*playedStream
	last    uint64
	calls   map[string]core.NodeCall // by id
	handed  int                      // messages of calls
	reject  func(core.NodeCall) bool
	links   []*memLink
	ended   chan struct{}
}

func newPlayedEdge(t testing.TB) *playedEdge {
	return &playedEdge{t: t, bus: newMemBus(t), streams: map[uint64]*playedStream{}, calls: map[string]core.NodeCall{}, ended: make(chan struct{}),
		welcome: welcome{HeartbeatMS: 100, Misses: 100, WindowFrames: windowFrames, WindowBytes: windowBytes, UploadBytes: uploadBytes, InlineBytes: pieceBytes}}
}

func (e *playedEdge) join() *memLink {
	l := e.bus.Join("den")
	e.mu.Lock()
	defer e.mu.Unlock()
	e.links = append(e.links, l)
	return l
}

// cutAll ends every session.
func (e *playedEdge) cutAll() { e.bus.Disconnect("den") }

func (e *playedEdge) set(f func(e *playedEdge)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f(e)
}

// counts are how many reports came, how many messages of calls, and how many calls.
func (e *playedEdge) counts() (hellos, handed, calls int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.hellos), e.handed, len(e.calls)
}

func (e *playedEdge) report() (r core.NodeReport) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.hellos) > 0 {
		r = e.hellos[len(e.hellos)-1]
	}
	return r
}

// play answers until the test ends.
func (e *playedEdge) play() {
	if !e.away {
		e.listen()
	}
	var beats sync.WaitGroup
	beats.Go(func() {
		for {
			e.mu.Lock()
			b, every, silent := beat{Jobs: []streamID{}}, e.welcome.HeartbeatMS, e.silent
			for id, s := range e.streams {
				if !s.forgotten {
					b.Jobs = append(b.Jobs, streamID(id))
				}
			}
			e.mu.Unlock()
			if data, err := json.Marshal(b); err == nil && !silent {
				_ = e.bus.Publish("hw.v1.j.den.beat", data)
			}
			select {
			case <-e.ended:
				return
			case <-time.After(time.Duration(every) * time.Millisecond):
			}
		}
	})
	e.t.Cleanup(func() { close(e.ended); beats.Wait() })
}

// listen subscribes.
func (e *playedEdge) listen() {
	for subject, handle := range map[string]func(reply string, data []byte){"hello": e.onHello, "beat": e.onBeat, "calls": e.onCalls, "f": e.onFrame} {
		if _, err := e.bus.Subscribe("hw.v1.n.den."+subject, func(_, reply string, data []byte) { handle(reply, data) }); err != nil {
			e.t.Fatal(err)
		}
	}
}

func (e *playedEdge) answer(reply string, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		e.t.Error(err)
	}
	_ = e.bus.Publish(reply, data)
}

func (e *playedEdge) onHello(reply string, data []byte) {
	var r core.NodeReport
	if err := json.Unmarshal(data, &r); err != nil {
		e.t.Errorf("hello: %v", err)
	}
	e.mu.Lock()
	e.hellos = append(e.hellos, r)
	w, deaf := e.welcome, e.deaf
	e.mu.Unlock()
	if !deaf {
		e.answer(reply, w)
	}
}

func (e *playedEdge) onBeat(_ string, data []byte) {
	var b beat
	if err := json.Unmarshal(data, &b); err != nil {
		e.t.Errorf("beat: %v", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard = append(e.heard, b)
}

func (e *playedEdge) onCalls(reply string, data []byte) {
	var calls []core.NodeCall
	if err := json.Unmarshal(data, &calls); err != nil || len(calls) > mostCalls {
		e.t.Errorf("calls: %d, %v", len(calls), err)
	}
	k := kept{Kept: []string{}}
	e.mu.Lock()
	e.handed++
	for _, c := range calls {
		if e.reject != nil && e.reject(c) {
			continue
		}
		e.calls[callName(&c)] = c
		k.Kept = append(k.Kept, callName(&c))
	}
	e.mu.Unlock()
	e.answer(reply, k)
}

// handedOver waits for a call that the node hands over.
func (e *playedEdge) handedOver(id string) (c core.NodeCall) {
	e.t.Helper()
	until(e.t, "the call "+id, func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		var ok bool
		c, ok = e.calls[id]
		return ok
	})
	return c
}

func (e *playedEdge) onFrame(_ string, data []byte) {
	f, err := parseFrame(data)
	if err != nil {
		e.t.Errorf("frame: %v", err)
		return
	}
	e.mu.Lock()
	s := e.streams[f.stream]
	e.mu.Unlock()
	if s != nil {
		s.take(f)
	}
}

// playedStream is one job as the edge sees it.
type playedStream struct {
	e    *playedEdge
	id   uint64
	call core.CallID
	seq  uint32 // of ours

	mu        sync.Mutex
	more      sync.Cond
	frames    []frame // numbered ones, but for running
	ran       bool    // running came
	implied   bool    // accepted is the one that what came first means
	credit    credit  // given back for the request's body
	forgotten bool    // e.mu: the beats do not name it
}

func (s *playedStream) take(f frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.kind == kindCredit {
		c := parseCredit(f.payload)
		s.credit.frames += c.frames
		s.credit.bytes += c.bytes
	} else {
		if len(s.frames) == 0 && f.kind != kindAccepted && f.kind != kindRefused {
			s.frames, s.implied = append(s.frames, frame{kind: kindAccepted}), true
		}
		want := uint32(len(s.frames) + 1)
		if s.implied {
			want--
		}
		if s.ran {
			want++
		}
		if f.seq != want {
			s.e.t.Errorf("stream %d: frame %d has number %d", s.id, want, f.seq)
		}
		if waits := len(s.frames) > 0 && string(s.frames[0].payload) == string([]byte{acceptedWaits}); f.kind == kindRunning {
			if !waits || s.ran || len(s.frames) != 1 {
				s.e.t.Errorf("stream %d: running out of place", s.id)
			}
			s.ran = true
		} else {
			if f.kind == kindHeaders && waits != s.ran {
				s.e.t.Errorf("stream %d: waits %t, and running came %t", s.id, waits, s.ran)
			}
			s.frames = append(s.frames, f)
		}
	}
	s.more.Broadcast()
}

// frame waits for one by its place, from 0.
func (s *playedStream) frame(i int) frame {
	s.e.t.Helper()
	f, ok := s.frameWithin(i, within)
	if !ok {
		s.e.t.Fatalf("stream %d: frame %d has not come", s.id, i+1)
	}
	return f
}

func (s *playedStream) frameWithin(i int, d time.Duration) (f frame, ok bool) {
	timer := time.AfterFunc(d, func() { s.mu.Lock(); s.more.Broadcast(); s.mu.Unlock() })
	defer timer.Stop()
	end := time.Now().Add(d)
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.frames) <= i {
		if !time.Now().Before(end) {
			return f, false
		}
		s.more.Wait()
	}
	return s.frames[i], true
}

// kindAt waits for a frame and holds it to its kind.
func (s *playedStream) kindAt(i int, k kind) frame {
	s.e.t.Helper()
	f := s.frame(i)
	if f.kind != k {
		s.e.t.Fatalf("stream %d: frame %d is of kind %d, not %d: %s", s.id, i+1, f.kind, k, f.payload)
	}
	return f
}

// count is how many numbered frames came.
func (s *playedStream) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.frames)
}

func (s *playedStream) credited() credit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.credit
}

// chatStart is a start of a streamed chat.
func chatStart() start {
	return start{Call: core.NewCallID(time.Now()), Attempt: 1, Method: http.MethodPost, Path: "/v1/chat/completions", Header: http.Header{"Content-Type": {"application/json"}},
		ContentLength: 2, Model: "m", Operation: core.OpGenerate, Streamed: true}
}

// begin makes a stream that no start was sent for.
func (e *playedEdge) begin() *playedStream {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last++
	s := &playedStream{e: e, id: e.last}
	s.more.L = &s.mu
	e.streams[s.id] = s
	return s
}

// start sends a start, with as much of the body as goes with it.
func (e *playedEdge) start(st start, body []byte, last bool) *playedStream {
	e.t.Helper()
	s := e.begin()
	s.call = st.Call
	payload, err := appendStart(nil, &st, body)
	if err != nil {
		e.t.Fatal(err)
	}
	s.send(kindStart, payload, last)
	return s
}

// chat asks for a streamed chat.
func (e *playedEdge) chat() *playedStream { return e.start(chatStart(), []byte("{}"), true) }

func (s *playedStream) send(k kind, payload []byte, last bool) {
	s.e.t.Helper()
	f := frame{kind: k, last: last, stream: s.id, payload: payload}
	if k.numbered() {
		s.seq++
		f.seq = s.seq
	}
	s.raw(f)
}

func (s *playedStream) raw(f frame) {
	s.e.t.Helper()
	if err := s.e.bus.Publish("hw.v1.j.den.f", f.append(nil)); err != nil {
		s.e.t.Fatal(err)
	}
}

func (s *playedStream) give(frames, bytes uint32) {
	s.send(kindCredit, credit{frames, bytes}.append(nil), false)
}

// cancel tells the node that no more is wanted, and forgets the stream.
func (s *playedStream) cancel() {
	s.forget()
	s.send(kindCancel, nil, false)
}

// forget has the beats not name the stream any more.
func (s *playedStream) forget() {
	s.e.mu.Lock()
	s.forgotten = true
	s.e.mu.Unlock()
}

// refusedAs waits for a refusal.
func (s *playedStream) refusedAs(reason string) (r refused) {
	s.e.t.Helper()
	f := s.kindAt(0, kindRefused)
	if err := json.Unmarshal(f.payload, &r); err != nil || r.Reason != reason {
		s.e.t.Fatalf("refused with %s, not %s", f.payload, reason)
	}
	s.forget()
	return r
}

// headers waits for the head of the answer.
func (s *playedStream) headers() (h headers) {
	s.e.t.Helper()
	s.kindAt(0, kindAccepted)
	if err := json.Unmarshal(s.kindAt(1, kindHeaders).payload, &h); err != nil {
		s.e.t.Fatal(err)
	}
	return h
}

// all takes the answer to its end, giving back credit for each frame that came.
func (s *playedStream) all() (h headers, body []byte, e end) {
	s.e.t.Helper()
	h = s.headers()
	for i := 2; ; i++ {
		switch f := s.frame(i); f.kind {
		case kindData:
			body = append(body, f.payload...)
			s.give(1, uint32(len(f.payload)))
		case kindEnd:
			return h, body, s.end(i)
		default:
			s.e.t.Fatalf("a frame of kind %d in the answer", f.kind)
		}
	}
}

// end waits for the end at a place, and forgets the stream.
func (s *playedStream) end(i int) (e end) {
	s.e.t.Helper()
	if err := json.Unmarshal(s.kindAt(i, kindEnd).payload, &e); err != nil {
		s.e.t.Fatal(err)
	}
	s.forget()
	return e
}

// modelServerOf is an HTTP server with one model, as an OpenAI-compatible one lists
// it, and what answers its chats.
func modelServerOf(t testing.TB, chat http.HandlerFunc) *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"object":"list","data":[{"id":"m","object":"model"}]}`)
	})
	if chat != nil {
		mux.HandleFunc("POST /v1/", chat)
	}
	return serverOf(t, mux)
}

// serverOf serves until the test ends, and cuts what is under way then.
func serverOf(t testing.TB, h http.Handler) *httptest.Server {
	srv := httptest.NewUnstartedServer(h)
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	srv.Start()
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return srv
}

// openAI is an upstream of a server.
func openAI(srv *httptest.Server) Upstream { return Upstream{URL: srv.URL, Format: core.FormatOpenAI} }

// write sends a piece of an answer at once.
func write(w http.ResponseWriter, s string) {
	_, _ = io.WriteString(w, s)
	_ = http.NewResponseController(w).Flush()
}

// event is a chunk of a chat with text.
func event(text string) string {
	b, _ := json.Marshal(text)
	return `data: {"choices":[{"index":0,"delta":{"content":` + string(b) + `}}]}` + "\n\n"
}

const eventsEnd = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":9}}` + "\n\ndata: [DONE]\n\n"

// inBubble runs a test on a clock that jumps from one event to the next. What it
// calls must stay in memory.
func inBubble(t *testing.T, f func(*testing.T)) { synctest.Test(t, f) }

// bodyTransport is a transport whose every answer to a POST is a body; what is asked with
// GET is well.
func bodyTransport(body io.ReadCloser) http.RoundTripper {
	return tripFunc(func(r *http.Request) (*http.Response, error) {
		resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, ContentLength: -1, Body: http.NoBody, Request: r}
		if r.Method == http.MethodPost {
			resp.Body = body
		}
		return resp, nil
	})
}

type tripFunc func(*http.Request) (*http.Response, error)

func (f tripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// blocked is a reader that waits.
func blocked(until <-chan struct{}) io.Reader { return blockedReader{until} }

type blockedReader struct{ until <-chan struct{} }

func (b blockedReader) Read([]byte) (int, error) { <-b.until; return 0, io.EOF }
