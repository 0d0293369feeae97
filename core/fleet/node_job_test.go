package fleet

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"headway/core"
)

func TestNodeServesACall(t *testing.T) {
	next := make(chan struct{})
	srv := modelServerOf(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, s := range []string{"one", "two", "three"} {
			write(w, event(s))
			select {
			case <-next:
			case <-r.Context().Done():
			}
		}
		write(w, eventsEnd)
	})
	r := newNodeRig(t, rigOf{}, openAI(srv))
	r.ready(1)
	s := r.chat()
	h := s.headers()
	if h.Status != 200 || h.SlotWaitMS != 0 || h.ContentLength != -1 || h.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("headers %+v", h)
	}
	// Each piece is a frame of its own, here before the next one was written.
	for i, want := range []string{"one", "two", "three"} {
		if f := s.kindAt(2+i, kindData); string(f.payload) != event(want) || f.micros == 0 {
			t.Fatalf("frame %d: %q at %d µs", i, f.payload, f.micros)
		}
		next <- struct{}{}
	}
	s.kindAt(5, kindData)
	e := s.end(6)
	tm := e.Timing
	if e.Error != "" || tm.FiguresFrom != "stream" || !tm.FirstToken.OK || !tm.Service.OK || !tm.UpstreamHeaders.OK || tm.Waited() || !tm.SlotWait.OK {
		t.Fatalf("end %+v", e)
	}
	if tm.UpstreamHeaders.V > tm.FirstToken.V || tm.FirstToken.V > tm.Service.V {
		t.Fatalf("timing %+v", tm)
	}
}

// What the edge had the call for before is a part of what it was queued.
func TestNodeQueuedHoldsTheAdmission(t *testing.T) {
	srv := modelServerOf(t, func(w http.ResponseWriter, r *http.Request) { write(w, `{"choices":[]}`) })
	r := newNodeRig(t, rigOf{}, openAI(srv))
	r.ready(1)
	st := chatStart()
	st.AdmissionMS = 12.5
	_, _, e := r.start(st, []byte("{}"), true).all()
	if e.Timing.Queued != core.Some(12.5) || e.Timing.SlotWait != core.Some(0.0) {
		t.Fatalf("timing %+v", e.Timing)
	}
}

func TestNodeSlots(t *testing.T) {
	release := make(chan struct{})
	srv := modelServerOf(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		write(w, event("x"))
		select {
		case <-release:
		case <-r.Context().Done():
		}
		write(w, eventsEnd)
	})
	u := openAI(srv)
	u.Slots, u.Queue = core.Some(int64(1)), core.Some(int64(1))
	r := newNodeRig(t, rigOf{}, u)
	r.ready(1)
	a := r.chat()
	a.headers()
	b := r.chat()
	b.kindAt(0, kindAccepted)
	until(t, "a beat with the line", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.heard) == 0 {
			return false
		}
		last := r.heard[len(r.heard)-1]
		return len(last.Jobs) == 2 && len(last.Upstreams) == 1 && last.Upstreams[0] == upstreamBeat{Busy: 1, Waiting: 1}
	})
	if why := r.chat().refusedAs(reasonBusy); why.RetryAfterMS != 1000 {
		t.Fatalf("retry after %d ms", why.RetryAfterMS)
	}
	release <- struct{}{}
	a.all()
	if h := b.headers(); h.SlotWaitMS <= 0 {
		t.Fatalf("a call that waited: %+v", h)
	}
	release <- struct{}{}
	_, _, e := b.all()
	if !e.Timing.Waited() || e.Timing.SlotWait.V > e.Timing.Queued.V {
		t.Fatalf("timing %+v", e.Timing)
	}
}

func TestNodeRefuses(t *testing.T) {
	var called atomic.Int64
	srv := modelServerOf(t, func(http.ResponseWriter, *http.Request) { called.Add(1) })
	r := newNodeRig(t, rigOf{}, openAI(srv))
	r.ready(1)
	st := chatStart()
	st.Upstream = "other"
	r.start(st, []byte("{}"), true).refusedAs(reasonUnknown)
	for name, change := range map[string]func(*start){
		"another method":        func(s *start) { s.Method = http.MethodDelete },
		"no path":               func(s *start) { s.Path = "" },
		"an address":            func(s *start) { s.Path = "http://other.example/v1/chat/completions" },
		"another host":          func(s *start) { s.Path = "//other.example/v1/chat/completions" },
		"a way up":              func(s *start) { s.Path = "/v1/../api/delete" },
		"a way up, escaped":     func(s *start) { s.Path = "/v1/%2e%2e/api/delete" },
		"what administers":      func(s *start) { s.Path = "/api/delete" },
		"a query in the path":   func(s *start) { s.Path = "/v1/chat/completions?x" },
		"a line in the query":   func(s *start) { s.Query = "a=b\r\nX: y" },
		"a space in the query":  func(s *start) { s.Query = "a b" },
		"a fragment":            func(s *start) { s.Query = "a#b" },
		"a long query":          func(s *start) { s.Query = strings.Repeat("a", mostQuery+1) },
		"a large header":        func(s *start) { s.Header.Set("X", strings.Repeat("a", mostHeader)) },
		"less than its body":    func(s *start) { s.ContentLength = 1 },
		"more than its body":    func(s *start) { s.ContentLength = 3 }, // which is the last of it
		"a negative length":     func(s *start) { s.ContentLength = -2 },
		"a call that is a path": func(s *start) { s.Call = "../x" },
		"a model of two lines":  func(s *start) { s.Model = "a\nb" },
	} {
		st := chatStart()
		change(&st)
		s := r.start(st, []byte("{}"), true)
		f := s.frame(0)
		if f.kind != kindRefused || !strings.Contains(string(f.payload), reasonBad) {
			t.Errorf("%s: kind %d, %s", name, f.kind, f.payload)
		}
	}
	s := r.begin()
	s.send(kindStart, []byte("\xff\xff\xff\xff{}"), true)
	s.refusedAs(reasonBad)
	if n := called.Load(); n > 0 {
		t.Errorf("the server was asked %d times", n)
	}
	for _, junk := range []string{"", "junk", strings.Repeat("\x00", headerBytes), strings.Repeat("\x01", headerBytes)} {
		if err := r.bus.Publish("hw.v1.j.den.f", []byte(junk)); err != nil {
			t.Fatal(err)
		}
	}
	if h, _, _ := r.chat().all(); h.Status != 200 { // it lives on
		t.Fatalf("headers %+v", h)
	}
}

func TestNodeStartsAJobOnce(t *testing.T) {
	var called atomic.Int64
	srv := modelServerOf(t, func(http.ResponseWriter, *http.Request) { called.Add(1) })
	r := newNodeRig(t, rigOf{}, openAI(srv))
	r.ready(1)
	s := r.chat()
	s.all()
	payload, err := appendStart(nil, new(chatStart()), []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	s.raw(frame{kind: kindStart, last: true, seq: 1, stream: s.id, payload: payload})
	r.chat().all()
	if n := called.Load(); n != 2 || s.count() != 3 {
		t.Fatalf("%d calls for two starts, %d frames", n, s.count())
	}
}

// What a server is asked with: its own credential, nobody else's, and nothing that
// is of a connection.
func TestNodeHeaders(t *testing.T) {
	got := make(chan *http.Request, 1)
	srv := modelServerOf(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		got <- r
		w.Header().Set("X-Own", "yes")
		w.Header().Set("Keep-Alive", "timeout=5")
		w.Header().Set("Location", "http://other.example/")
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	u := openAI(srv)
	u.APIKey = core.NewSecret("own-key")
	r := newNodeRig(t, rigOf{}, u)
	r.ready(1)
	st := chatStart()
	st.Query = "beta=true"
	st.Header = http.Header{"authorization": {"Bearer other"}, "X-Api-Key": {"other"}, "Connection": {"keep-alive, x-hop"}, "X-Hop": {"1"}, "Te": {"trailers"},
		"Host": {"other.example"}, "Transfer-Encoding": {"chunked"}, "Anthropic-Version": {"2023-06-01"}, "User-Agent": {"headway"}}
	h, _, e := r.start(st, []byte("{}"), true).all()
	req := <-got
	body, _ := io.ReadAll(req.Body)
	if req.URL.Path != "/v1/chat/completions" || req.URL.RawQuery != "beta=true" || string(body) != "{}" || req.ContentLength != 2 || "http://"+req.Host != srv.URL {
		t.Errorf("asked for %s of %s with %q, %d bytes", req.URL, req.Host, body, req.ContentLength)
	}
	want := http.Header{"Authorization": {"Bearer own-key"}, "Anthropic-Version": {"2023-06-01"}, "User-Agent": {"headway"}, "Accept-Encoding": {"identity"}, "Content-Length": {"2"}}
	if fmt.Sprint(req.Header) != fmt.Sprint(want) {
		t.Errorf("header %v", req.Header)
	}
	// A redirect is passed on, not followed.
	if h.Status != http.StatusTemporaryRedirect || h.Header.Get("X-Own") != "yes" || h.Header.Get("Keep-Alive") != "" || e.Error != "" {
		t.Errorf("answer %+v, %+v", h, e)
	}
}

func TestNodeTrailerAndCompression(t *testing.T) {
	srv := modelServerOf(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		w.Header().Set("Content-Encoding", "gzip") // what it says it is, goes on as it came
		write(w, "\x1f\x8bnot gzip at all")
		w.Header().Set("X-Sum", "7")
	})
	r := newNodeRig(t, rigOf{}, openAI(srv))
	r.ready(1)
	h, body, e := r.chat().all()
	if string(body) != "\x1f\x8bnot gzip at all" || h.Header.Get("Content-Encoding") != "gzip" || e.Trailer.Get("X-Sum") != "7" {
		t.Fatalf("%+v, %q, %+v", h, body, e)
	}
	if e.Timing.FiguresFrom != "" || !e.Timing.Service.OK {
		t.Fatalf("timing %+v", e.Timing)
	}
}

// Every way in which a server does not answer has its word.
func TestNodeServerFaults(t *testing.T) {
	raw := func(answer string) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					b := make([]byte, 4096)
					_, _ = c.Read(b)
					answer := answer
					for {
						if _, err := io.WriteString(c, answer); err != nil || !strings.HasSuffix(answer, "…") {
							return
						}
						answer = "X: " + strings.Repeat("endless", 100) + "\r\n…"
					}
				}()
			}
		}()
		return "http://" + l.Addr().String()
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + closed.Addr().String()
	_ = closed.Close()
	var upstreams []Upstream
	want := map[string]string{}
	for name, of := range map[string][2]string{
		"nobody":   {nobody, endRefused},
		"nowhere":  {"http://no-such-host.invalid", endDNS},
		"no-tls":   {strings.Replace(raw("HTTP/1.1 400 Bad Request\r\n\r\n"), "http:", "https:", 1), endTLS},
		"silent":   {raw(""), endConnect},
		"no-http":  {raw("SSH-2.0-OpenSSH\r\n"), endConnect},
		"endless":  {raw("HTTP/1.1 200 OK\r\n…"), endConnect},
		"switches": {raw("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"), endConnect},
		"escaped":  {raw("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("\xff", 60<<10) + "\r\n\r\n"), endConnect}, // six times as long in JSON
		"cut":      {raw("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"), endCut},
		"chunk":    {raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), endCut},
	} {
		upstreams = append(upstreams, Upstream{Name: name, URL: of[0], Format: core.FormatOpenAI, Offers: []core.NodeModel{{Model: "m"}}, Fixed: true})
		want[name] = of[1]
	}
	r := newNodeRig(t, rigOf{}, upstreams...)
	until(t, "a report", func() bool { return len(r.report().Upstreams) == len(upstreams) })
	for name, word := range want {
		st := chatStart()
		st.Upstream = name
		s := r.start(st, []byte("{}"), true)
		s.kindAt(0, kindAccepted)
		last := 1
		if word == endCut {
			s.kindAt(1, kindHeaders)
			last = 2
			if f := s.frame(2); f.kind == kindData {
				last = 3
				if string(f.payload) != "abc" {
					t.Errorf("%s: %q", name, f.payload)
				}
			}
		}
		if e := s.end(last); e.Error != word {
			t.Errorf("%s: ended with %q, not %q", name, e.Error, word)
		}
	}
}

// A cancelled call frees its slot and its connection at once.
func TestNodeCancelFreesTheSlot(t *testing.T) {
	came, gone := make(chan struct{}, 8), make(chan struct{}, 8)
	srv := modelServerOf(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or the server does not see that its client leaves
		came <- struct{}{}
		if r.URL.RawQuery != "hang" { // without headers
			w.Header().Set("Content-Type", "text/event-stream")
			write(w, event("x"))
		}
		<-r.Context().Done()
		gone <- struct{}{}
	})
	u := openAI(srv)
	u.Slots = core.Some(int64(1))
	r := newNodeRig(t, rigOf{}, u)
	r.ready(1)
	for _, query := range []string{"", "hang"} {
		st := chatStart()
		st.Query = query
		a := r.start(st, []byte("{}"), true)
		b, c := r.chat(), r.chat()
		c.kindAt(0, kindAccepted)
		if <-came; query == "" {
			a.kindAt(2, kindData)
		}
		b.cancel() // in the line
		at := time.Now()
		a.cancel()
		<-gone
		<-came
		c.kindAt(2, kindData)
		if took := time.Since(at); took > 100*time.Millisecond {
			t.Errorf("the slot was free after %v", took)
		}
		if b.count() != 1 {
			t.Errorf("a call that was cancelled in the line got %d frames", b.count())
		}
		c.cancel()
		<-gone
		for _, s := range []*playedStream{a, b, c} {
			if call := r.handedOver(string(s.call) + ".1"); call.Outcome != core.ClientGone || call.Node != "den" || call.Provider != "den" || call.Model != "m" {
				t.Errorf("handed over %+v", call)
			}
		}
		until(t, "a free line", func() bool { busy, waiting := r.node.servers[0].line.count(); return busy+waiting == 0 })
	}
}

// pieces of a body, as credit allows; held is the most that the node can have had
// unread by what it gave back.
func upload(t *testing.T, r *nodeRig, st start, body []byte) (s *playedStream, held int) {
	t.Helper()
	first := min(len(body), pieceBytes)
	s = r.start(st, body[:first], first == len(body))
	sent := first
	for sent < len(body) {
		n := min(len(body)-sent, pieceBytes)
		until(t, "credit for the next piece", func() bool { return sent+n-int(s.credited().bytes) <= uploadBytes })
		held = max(held, sent+n-int(s.credited().bytes))
		s.send(kindBody, body[sent:sent+n], sent+n == len(body))
		sent += n
	}
	return s, held
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	rnd := rand.NewChaCha8([32]byte{1})
	_, _ = rnd.Read(b)
	return b
}

func TestNodeTakesALargeBodyInPieces(t *testing.T) {
	srv := modelServerOf(t, func(w http.ResponseWriter, r *http.Request) {
		h := sha256.New()
		n, err := io.Copy(h, r.Body)
		fmt.Fprintf(w, "%d %d %x %v", r.ContentLength, n, h.Sum(nil), err)
	})
	r := newNodeRig(t, rigOf{}, openAI(srv))
	r.ready(1)
	for _, unknown := range []bool{false, true} {
		st := chatStart()
		length, body := int64(30<<20), randomBytes(30<<20)
		if unknown {
			length, body = -1, body[:3<<20]
		}
		st.ContentLength = length
		s, held := upload(t, r, st, body)
		_, answer, e := s.all()
		if want := fmt.Sprintf("%d %d %x <nil>", length, len(body), sha256.Sum256(body)); string(answer) != want || e.Error != "" {
			t.Errorf("length %d: %s, %+v", length, answer, e)
		}
		if held > uploadBytes {
			t.Errorf("%d bytes at once", held)
		}
	}
}

// A call that waits for a slot holds what came with it and what there is credit
// for, and is given no more credit until its server reads.
func TestNodeHoldsNoMoreOfABodyThanItsCredit(t *testing.T) {
	release := make(chan struct{})
	srv := modelServerOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery == "hold" {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}
		<-release
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n)
	})
	u := openAI(srv)
	u.Slots = core.Some(int64(1))
	r := newNodeRig(t, rigOf{}, u)
	r.ready(1)
	a := r.chat()
	st := chatStart()
	st.ContentLength = 3 << 20
	body := randomBytes(3 << 20)
	b := r.start(st, body[:pieceBytes], false)
	for i := 1; i < uploadBytes/pieceBytes; i++ {
		b.send(kindBody, body[i*pieceBytes:(i+1)*pieceBytes], false)
	}
	b.kindAt(0, kindAccepted)
	if c := b.credited(); c != (credit{}) {
		t.Fatalf("credit %+v for what nobody has read", c)
	}
	close(release)
	a.all()
	for i := uploadBytes / pieceBytes; i < 12; i++ {
		until(t, "credit", func() bool { return int(b.credited().bytes) >= (i+1)*pieceBytes-uploadBytes })
		b.send(kindBody, body[i*pieceBytes:(i+1)*pieceBytes], i == 11)
	}
	if _, answer, _ := b.all(); string(answer) != fmt.Sprint(3<<20) {
		t.Fatalf("the server read %s", answer)
	}
	// More than there is credit for ends the job, here in the line.
	hold := chatStart()
	hold.Query = "hold"
	d := r.start(hold, []byte("{}"), true)
	d.kindAt(0, kindAccepted)
	c := r.start(st, body[:pieceBytes], false)
	for range uploadBytes / pieceBytes {
		c.send(kindBody, body[:pieceBytes], false)
	}
	c.kindAt(0, kindAccepted)
	if e := c.end(1); e.Error != endCut {
		t.Fatalf("too much of a body: %+v", e)
	}
	d.cancel()
}

func TestNodeBodyWithAHole(t *testing.T) {
	srv := modelServerOf(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	r := newNodeRig(t, rigOf{}, openAI(srv))
	r.ready(1)
	st := chatStart()
	st.ContentLength = 30
	for name, spoil := range map[string]func(*playedStream){
		"a lost frame":     func(s *playedStream) { s.seq++; s.send(kindBody, []byte("0123456789"), false) },
		"too long a body":  func(s *playedStream) { s.send(kindBody, make([]byte, 30), false) },
		"too short a body": func(s *playedStream) { s.send(kindBody, make([]byte, 10), true) },
	} {
		s := r.start(st, []byte("0123456789"), false)
		s.kindAt(0, kindAccepted)
		spoil(s)
		if e := s.end(1); e.Error != endCut {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// A server that answers before it has read all of the body is not waited for.
func TestNodeAnswerBeforeTheBody(t *testing.T) {
	srv := modelServerOf(t, func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
	})
	r := newNodeRig(t, rigOf{}, openAI(srv))
	r.ready(1)
	st := chatStart()
	st.ContentLength = 30 << 20
	s := r.start(st, make([]byte, pieceBytes), false)
	if h, body, e := s.all(); h.Status != http.StatusRequestEntityTooLarge || string(body) != "too large\n" || e.Error != "" {
		t.Fatalf("%+v %q %+v", h, body, e)
	}
	s.send(kindBody, make([]byte, pieceBytes), false) // on its way meanwhile
	if busy, _ := r.node.servers[0].line.count(); busy != 0 {
		t.Fatalf("%d slots are taken", busy)
	}
}

// A connection that the server closes instead of reading the next request is passed
// over, also where the body comes in pieces.
func TestNodeStaleConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var conns atomic.Int64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Add(1)
			go func() {
				defer c.Close()
				buf := make([]byte, 64<<10)
				head, n := []byte(nil), 0
				for !bytes.Contains(head, []byte("\r\n\r\n")) {
					if n, err = c.Read(buf); err != nil {
						return
					}
					head = append(head, buf[:n]...)
				}
				var length int
				for line := range strings.Lines(string(head)) {
					_, _ = fmt.Sscanf(line, "Content-Length: %d", &length)
				}
				for rest := length - (len(head) - bytes.Index(head, []byte("\r\n\r\n")) - 4); rest > 0; rest -= n {
					if n, err = c.Read(buf); err != nil {
						return
					}
				}
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				_, _ = c.Read(buf[:1]) // the next request, which it does not answer
			}()
		}
	}()
	r := newNodeRig(t, rigOf{}, Upstream{URL: "http://" + l.Addr().String(), Format: core.FormatOpenAI, Fixed: true, Offers: []core.NodeModel{{Model: "m"}}})
	until(t, "a report", func() bool { return len(r.report().Upstreams) == 1 })
	body := randomBytes(200 << 10)
	for i := range 6 {
		st := chatStart()
		st.ContentLength = int64(len(body))
		s := r.start(st, body[:100<<10], false)
		s.send(kindBody, body[100<<10:], true)
		if _, answer, e := s.all(); string(answer) != "ok" || e.Error != "" {
			t.Fatalf("call %d: %q, %+v", i, answer, e)
		}
	}
	if n := conns.Load(); n < 6 {
		t.Fatalf("%d connections", n)
	}
}

// 100,000 events go through with hardly any credit, byte for byte.
func TestNodeIsFaithfulWithLittleCredit(t *testing.T) {
	var want bytes.Buffer
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 100_000 {
		want.WriteString(event(strings.Repeat("ü", rnd.IntN(8))))
	}
	want.WriteString(eventsEnd)
	srv := modelServerOf(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		rnd := rand.New(rand.NewPCG(5, 6))
		for b := want.Bytes(); len(b) > 0; {
			n := min(1+rnd.IntN(6000), len(b))
			_, _ = w.Write(b[:n])
			b = b[n:]
		}
	})
	r := newNodeRig(t, rigOf{edge: func(e *playedEdge) { e.welcome.WindowFrames, e.welcome.WindowBytes = 2, 3000 }}, openAI(srv))
	r.ready(1)
	s := r.chat()
	s.headers()
	var got bytes.Buffer
	var gave, took credit
	give := func(c credit) { gave.frames += c.frames; gave.bytes += c.bytes; s.give(c.frames, c.bytes) }
	for i := 2; ; i++ {
		f := s.frame(i)
		if f.kind == kindEnd {
			if e := s.end(i); e.Error != "" || e.Timing.FiguresFrom != "stream" {
				t.Fatalf("end %+v", e)
			}
			break
		}
		got.Write(f.payload)
		took.frames++
		took.bytes += uint32(len(f.payload))
		if took.frames > gave.frames+2 || took.bytes > gave.bytes+3000 || len(f.payload) > joinedBytes {
			t.Fatalf("frame %d of %d bytes: took %+v of %+v", i, len(f.payload), took, gave)
		}
		switch rnd.IntN(3) { // in odd steps, sometimes for nothing, mostly for more than came
		case 0:
			give(credit{1, 0})
			give(credit{0, uint32(len(f.payload))})
		case 1:
			give(credit{1, uint32(len(f.payload) + rnd.IntN(2000))})
		default:
			give(credit{2, uint32(len(f.payload))})
		}
	}
	if !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Fatalf("%d bytes came, not the %d that were sent", got.Len(), want.Len())
	}
}

// Without credit a node joins what comes, reads 64 KiB ahead and no further, and
// sends it in large frames as soon as there is credit.
func TestNodeJoinsAndReadsAhead(t *testing.T) {
	var wrote atomic.Int64
	srv := modelServerOf(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for r.Context().Err() == nil && wrote.Load() < 64<<20 {
			n, err := io.WriteString(w, strings.Repeat(event("x"), 16))
			if wrote.Add(int64(n)); err != nil {
				return
			}
		}
	})
	r := newNodeRig(t, rigOf{edge: func(e *playedEdge) { e.welcome.WindowFrames = 3 }}, openAI(srv))
	r.ready(1)
	s := r.chat()
	s.headers()
	s.kindAt(4, kindData)
	var last int64 = -1
	until(t, "the server to be held up", func() bool {
		now := wrote.Load()
		still := now == last
		last = now
		time.Sleep(20 * time.Millisecond)
		return still
	})
	if s.count() != 5 {
		t.Fatalf("%d frames with credit for 3", s.count()-2)
	}
	s.give(1, windowBytes)
	if f := s.kindAt(5, kindData); len(f.payload) != joinedBytes {
		t.Fatalf("%d bytes were joined", len(f.payload))
	}
	s.give(2, 0)
	first, second := s.kindAt(6, kindData), s.kindAt(7, kindData)
	if len(first.payload) != joinedBytes || len(first.payload)+len(second.payload) > aheadBytes {
		t.Fatalf("frames of %d and %d bytes", len(first.payload), len(second.payload))
	}
	s.cancel()
}

// 1,000 calls that are cancelled anywhere leave nothing behind.
func TestNodeRandomCancels(t *testing.T) {
	srv := modelServerOf(t, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for i := 0; i < 20 && r.Context().Err() == nil; i++ {
			write(w, event("token"))
			time.Sleep(time.Millisecond)
		}
		write(w, eventsEnd)
	})
	u := openAI(srv)
	u.Slots, u.Queue = core.Some(int64(16)), core.Some(int64(2000))
	r := newNodeRig(t, rigOf{}, u)
	r.ready(1)
	r.chat().all()
	goroutines := func() int {
		r.node.Transport.(*http.Transport).CloseIdleConnections()
		return runtime.NumGoroutine()
	}
	before := goroutines()
	var all sync.WaitGroup
	gate := make(chan struct{}, 100)
	rnd := rand.New(rand.NewPCG(7, 8))
	for i := range 1000 {
		gate <- struct{}{}
		wait := time.Duration(rnd.IntN(40_000)) * time.Microsecond
		all.Go(func() {
			defer func() { <-gate }()
			st := chatStart()
			s := r.begin()
			s.call = st.Call
			body := make([]byte, 1000)
			if i%3 == 0 { // cancelled with a part of the body on its way
				st.ContentLength = 2000
			} else {
				st.ContentLength = 1000
			}
			payload, err := appendStart(nil, &st, body)
			if err != nil {
				t.Error(err)
			}
			s.send(kindStart, payload, false)
			time.Sleep(wait)
			s.cancel()
		})
	}
	all.Wait()
	until(t, "a free line", func() bool { busy, waiting := r.node.servers[0].line.count(); return busy+waiting == 0 })
	until(t, "no more goroutines than before", func() bool { return goroutines() <= before })
	until(t, "a beat without jobs", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.heard[len(r.heard)-1].Jobs) == 0
	})
	if h, _, e := r.chat().all(); h.Status != 200 || e.Error != "" || h.SlotWaitMS != 0 {
		t.Fatalf("%+v, %+v", h, e)
	}
}

// An edge that takes nothing of an answer for two minutes is not waited for longer.
func TestNodeEndsWhatIsTooSlow(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		served := make(chan struct{})
		body := io.NopCloser(io.MultiReader(bytes.NewReader(make([]byte, windowBytes+2*aheadBytes)), blocked(served)))
		r := newNodeRig(t, rigOf{parts: func(p *NodeParts) { p.Transport = bodyTransport(body) }}, Upstream{URL: "http://one", Format: core.FormatOpenAI, Fixed: true, Offers: []core.NodeModel{{Model: "m"}}})
		r.ready(1)
		at := time.Now()
		s := r.chat()
		s.headers()
		var e end
		for i, sent := 2, 0; ; i++ {
			f, ok := s.frameWithin(i, 3*time.Minute)
			if !ok {
				t.Fatal("it has not ended")
			}
			if sent += len(f.payload); f.kind == kindEnd {
				if err := json.Unmarshal(f.payload, &e); err != nil {
					t.Fatal(err)
				}
				break
			}
		}
		if took := time.Since(at); e.Error != endTooSlow || took < creditTime || took > creditTime+time.Second {
			t.Fatalf("%+v after %v", e, took)
		}
		if busy, _ := r.node.servers[0].line.count(); busy != 0 {
			t.Fatalf("%d slots are taken", busy)
		}
		close(served)
	})
}
