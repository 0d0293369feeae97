package fleet

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"headway/core"
)

// answers serves each job with a text.
func answers(text string) func(*scriptedJob) {
	return func(j *scriptedJob) {
		j.accept()
		j.headers(200, 0, "Content-Type", "text/plain")
		if j.data([]byte(text)) {
			j.end("", core.NodeTiming{SlotWait: core.Some(0.0), Service: core.Some(100.0)})
		}
	}
}

func TestRoundTrip(t *testing.T) {
	r := newEdgeRig(t)
	got := make(chan *scriptedJob, 1)
	r.join("box", report(2, 4, "m"), func(j *scriptedJob) {
		j.accept()
		j.headers(201, 12.5, "content-type", "text/event-stream", "X-Other", "1", "Connection", "close")
		j.data([]byte("data: a\n\n"))
		j.data(nil)
		j.data([]byte("data: b\n\n"))
		got <- j
		j.end("", core.NodeTiming{Queued: core.Some(13.0), SlotWait: core.Some(12.5), FirstToken: core.Some(4.0), Service: core.Some(50.0), FiguresFrom: "server"})
	})
	d := &core.Dispatch{Call: core.NewCallID(time.Now()), Attempt: 2, Model: "m", Operation: core.OpGenerate, Streamed: true, Admission: 1500 * time.Microsecond}
	p := r.provider("box")
	rt, err := r.edge.RoundTripper(p)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(d.Into(t.Context()), "POST", p.BaseURL+"/v1/chat/completions?key=secret&a=b", strings.NewReader(`{"model":"m"}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]string{"Content-Type": "application/json", "Authorization": "Bearer s", "X-Api-Key": "s", "X-Goog-Api-Key": "s", "Cookie": "s",
		"Proxy-Authorization": "s", "Connection": "X-Hop", "X-Hop": "s", "Te": "s", "Traceparent": "00-1"} {
		req.Header.Set(name, v)
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || string(body) != "data: a\n\ndata: b\n\n" {
		t.Errorf("body %q, %v", body, err)
	}
	j := <-got
	s := j.start
	if s.Call != d.Call || s.Attempt != 2 || s.Upstream != "" || s.Method != "POST" || s.Path != "/v1/chat/completions" || s.Query != "a=b" ||
		s.ContentLength != 13 || s.AdmissionMS != 1.5 || s.Model != "m" || s.Operation != core.OpGenerate || !s.Streamed || string(j.body) != `{"model":"m"}` || !j.whole {
		t.Errorf("start %+v with %q", s, j.body)
	}
	if len(s.Header) != 2 || s.Header.Get("Content-Type") == "" || s.Header.Get("Traceparent") == "" {
		t.Errorf("the node got the header %v", s.Header)
	}
	if resp.StatusCode != 201 || resp.Status != "201 Created" || resp.ContentLength != -1 || resp.Request != req {
		t.Errorf("%+v", resp)
	}
	if h := resp.Header; len(h) != 2 || h.Get("Content-Type") != "text/event-stream" || h.Get("X-Other") != "1" {
		t.Errorf("header %v", h)
	}
	var timing core.NodeTiming
	if err := json.Unmarshal([]byte(resp.Trailer.Get(core.NodeTimingTrailer)), &timing); err != nil || timing.Service.V != 50 || timing.FirstToken.V != 4 || timing.Queued.V != 13 {
		t.Errorf("timing %+v, %v", resp.Trailer, err)
	}
	if err := resp.Body.Close(); err != nil || !r.quiet("box")() {
		t.Errorf("%v, %d are under way", err, r.held("box"))
	}
	if st := r.edge.Line("box").Stand(); st.Service.V != 50 {
		t.Errorf("service time %v", st.Service)
	}
}

// TestClosedEarly: what the headers said is known, though the end is not.
func TestClosedEarly(t *testing.T) {
	r := newEdgeRig(t)
	jobs := make(chan *scriptedJob, 2)
	r.join("box", report(2, 4, "m"), func(j *scriptedJob) {
		j.accept()
		j.headers(200, 7)
		j.data([]byte("hello"))
		if j.start.Method == "POST" && string(j.body) == "end" {
			j.end("", core.NodeTiming{SlotWait: core.Some(7.0), Service: core.Some(9.0)})
		}
		jobs <- j
	})
	d := &core.Dispatch{Admission: time.Millisecond}
	for body, service := range map[string]bool{"": false, "end": true} {
		resp, err := r.post(d.Into(t.Context()), "box", body)
		if err != nil {
			t.Fatal(err)
		}
		j := <-jobs
		if service { // the end is here, though nobody has read as far
			r.eventually("the end came", func() bool { return r.held("box") == 0 })
		}
		for range 2 {
			if err := resp.Body.Close(); err != nil {
				t.Error(err)
			}
		}
		var timing core.NodeTiming
		if err := json.Unmarshal([]byte(resp.Trailer.Get(core.NodeTimingTrailer)), &timing); err != nil || timing.SlotWait != core.Some(7.0) || timing.Service.OK != service ||
			!service && timing.Queued != core.Some(8.0) {
			t.Errorf("%q: timing %v, %v", body, resp.Trailer, err)
		}
		if _, err := resp.Body.Read(make([]byte, 1)); err != http.ErrBodyReadAfterClose {
			t.Errorf("read after close: %v", err)
		}
		if !service {
			<-j.gone
			j.forget()
		}
	}
	r.eventually("nothing is under way", r.quiet("box"))
}

// TestByteForByte: a long stream of pieces of all sizes comes as it was sent, whatever
// sizes it is read in.
func TestByteForByte(t *testing.T) {
	const events = 100_000
	r := newEdgeRig(t)
	sent := make(chan [32]byte, 1)
	r.join("box", report(2, 4, "m"), func(j *scriptedJob) {
		rnd, sum := rand.New(rand.NewPCG(1, 2)), sha256.New()
		j.accept()
		j.headers(200, 0)
		var b bytes.Buffer
		for i := range events {
			b.Reset()
			fmt.Fprintf(&b, "data: %d %s\n\n", i, strings.Repeat("x", rnd.IntN(300)))
			if i%5000 == 0 {
				b.Write(make([]byte, rnd.IntN(joinedBytes)))
			}
			sum.Write(b.Bytes())
			if !j.data(b.Bytes()) {
				return
			}
		}
		sent <- [32]byte(sum.Sum(nil))
		j.end("", core.NodeTiming{})
	})
	resp, err := r.post(t.Context(), "box", "")
	if err != nil {
		t.Fatal(err)
	}
	rnd, sum, buf := rand.New(rand.NewPCG(3, 4)), sha256.New(), make([]byte, 40_000)
	for err == nil {
		var n int
		n, err = resp.Body.Read(buf[:1+rnd.IntN(len(buf))])
		sum.Write(buf[:n])
	}
	if err != io.EOF || [32]byte(sum.Sum(nil)) != <-sent {
		t.Errorf("the bytes differ, or it ended with %v", err)
	}
}

// TestSlowClient: a caller that does not read holds no more than its window, and up
// nobody else.
func TestSlowClient(t *testing.T) {
	r := newEdgeRig(t)
	var sent atomic.Int64
	r.join("box", report(100, 4, "m"), func(j *scriptedJob) {
		j.accept()
		j.headers(200, 0)
		size := 16 << 10
		if string(j.body) == "quick" {
			size = 10
		}
		for i := range 2000 {
			if !j.data(bytes.Repeat([]byte{byte(i)}, size)) {
				return
			}
			if size > 10 {
				sent.Add(int64(size))
			}
		}
		j.end("", core.NodeTiming{})
	})
	const slow = 20
	var open []*http.Response
	for range slow {
		resp, err := r.post(t.Context(), "box", "slow")
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, resp)
	}
	r.eventually("all windows are full", func() bool { return sent.Load() == slow*windowBytes })
	start := time.Now()
	for range 5 {
		resp, err := r.post(t.Context(), "box", "quick")
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, resp.Body); n != 20_000 || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
	}
	t.Logf("%d callers that do not read hold %d KiB each; five others of 2,000 events each took %v", slow, sent.Load()/slow>>10, time.Since(start))
	if sent.Load() != slow*windowBytes {
		t.Errorf("%d bytes came for callers that do not read", sent.Load())
	}
	for _, resp := range open {
		n, err := io.Copy(io.Discard, resp.Body)
		if n != 2000*16<<10 || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
	}
	r.eventually("nothing is under way", r.quiet("box"))
}

// TestUpload: a large body goes as the node takes it.
func TestUpload(t *testing.T) {
	const size = 30 << 20
	body := make([]byte, size)
	rnd := rand.New(rand.NewPCG(5, 6))
	for i := range body {
		body[i] = byte(rnd.Uint32())
	}
	for name, reader := range map[string]func() io.Reader{
		"length known":   func() io.Reader { return bytes.NewReader(body) },
		"length unknown": func() io.Reader { return struct{ io.Reader }{bytes.NewReader(body)} },
	} {
		t.Run(name, func(t *testing.T) {
			r := newEdgeRig(t)
			var most atomic.Int64
			release := make(chan bool)
			r.join("box", report(2, 4, "m"), func(j *scriptedJob) {
				j.accept()
				<-release
				taken := int64(0)
				for {
					j.mu.Lock()
					have, whole := int64(len(j.body)), j.whole
					j.mu.Unlock()
					if lies := have - taken; lies > most.Load() {
						most.Store(lies)
					}
					if whole {
						break
					}
					if have > taken {
						step := min(have-taken, 100_000)
						taken += step
						_ = j.n.send(frame{kind: kindCredit, stream: j.id, payload: credit{0, uint32(step)}.append(nil)})
						continue
					}
					if !j.wait(func() bool { return int64(len(j.body)) > taken || j.whole }) {
						return
					}
				}
				same := "no"
				j.mu.Lock()
				if bytes.Equal(j.body, body) {
					same = "yes"
				}
				j.mu.Unlock()
				j.headers(200, 0)
				j.data([]byte(same))
				j.end("", core.NodeTiming{})
			})
			// The edge must not run ahead while nobody reads.
			go func() {
				r.eventually("the upload's credit is used up", func() bool {
					s := r.edge.find("box").session.Load()
					s.mu.Lock()
					defer s.mu.Unlock()
					for _, st := range s.streams {
						return st.room.Load() == 0
					}
					return false
				})
				close(release)
			}()
			resp, err := r.postTo(t.Context(), "box", reader())
			if err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(resp.Body)
			if err != nil || string(answer) != "yes" {
				t.Errorf("%q, %v", answer, err)
			}
			if most.Load() > uploadBytes {
				t.Errorf("%d bytes lay at the node", most.Load())
			}
			t.Logf("at most %d KiB of the body lay at the node", most.Load()>>10)
		})
	}
}

// TestEarlyAnswer: a server may answer before it has read the request, and go on
// reading it.
func TestEarlyAnswer(t *testing.T) {
	r := newEdgeRig(t)
	r.join("box", report(2, 4, "m"), func(j *scriptedJob) {
		j.accept()
		j.headers(200, 0)
		j.data([]byte("early "))
		for given := int64(0); ; {
			var have int64
			var whole bool
			if !j.wait(func() bool { have, whole = int64(len(j.body)), j.whole; return have > given || whole }) {
				return
			}
			if whole {
				break
			}
			_ = j.n.send(frame{kind: kindCredit, stream: j.id, payload: credit{1, uint32(have - given)}.append(nil)})
			given = have
		}
		j.data(fmt.Appendf(nil, "%d", len(j.body)))
		j.end("", core.NodeTiming{})
	})
	resp, err := r.postTo(t.Context(), "box", bytes.NewReader(make([]byte, 5<<20)))
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(resp.Body); err != nil || string(answer) != fmt.Sprintf("early %d", 5<<20) {
		t.Errorf("%q, %v", answer, err)
	}
}

// TestBodyBroken: a request whose body cannot be read is given up at the node.
func TestBodyBroken(t *testing.T) {
	r := newEdgeRig(t)
	jobs := make(chan *scriptedJob, 2)
	r.join("box", report(2, 4, "m"), func(j *scriptedJob) { j.accept(); jobs <- j })
	broken := errors.New("broken")
	if _, err := r.postTo(t.Context(), "box", io.MultiReader(bytes.NewReader(make([]byte, 600_000)), iotestErr{broken})); err != broken {
		t.Errorf("%v", err)
	}
	j := <-jobs
	<-j.gone
	j.forget()
	r.eventually("nothing is under way", r.quiet("box"))
}

type iotestErr struct{ error }

func (e iotestErr) Read([]byte) (int, error) { return 0, e.error }

// TestWords: each way that a job fails before its answer has its word.
func TestWords(t *testing.T) {
	r := newEdgeRig(t)
	r.join("box", report(2, 4, "m"), func(j *scriptedJob) {
		how, arg, _ := strings.Cut(string(j.body), " ")
		if how != "refused" {
			j.accept()
		}
		switch how {
		case "refused":
			j.refuse(arg, 1500*time.Millisecond)
		case "end":
			j.end(arg, core.NodeTiming{SlotWait: core.Some(1234.0)})
		case "headers":
			j.send(kindHeaders, []byte(arg))
		}
	})
	for body, want := range map[string]string{
		"refused busy": core.NodeBusy, "refused unknown": core.NodeRefused, "refused bad": core.NodeRefused, "refused stopping": core.NodeStopping, "refused ": core.NodeRefused,
		"end refused": "refused", "end dns": "dns", "end tls": "tls", "end connect": "connect", "end cut": "connect", "end cancelled": core.NodeStopping,
		"end too_slow": core.NodeTooSlow, "end ": core.NodeFault,
		"headers {": core.NodeFault, `headers {"status":99}`: core.NodeFault, `headers {"status":200,"content_length":-2}`: core.NodeFault,
	} {
		_, err := r.post(t.Context(), "box", body)
		if word(err) != want {
			t.Errorf("%s: %s, want %s", body, word(err), want)
		}
		var e *core.NodeError
		if errors.As(err, &e) && (e.RetryAfter == core.Some(1500*time.Millisecond)) != (want == core.NodeBusy) {
			t.Errorf("%s: retry after %v", body, e.RetryAfter)
		}
		if told := e != nil && e.Timing != nil && e.Timing.SlotWait == core.Some(1234.0); told != (strings.HasPrefix(body, "end ") && body != "end ") {
			t.Errorf("%s: the node's figures: %v", body, told)
		}
	}
	r.eventually("nothing is under way", r.quiet("box"))
}

// TestBrokenAnswers: what ends an answer that has begun.
func TestBrokenAnswers(t *testing.T) {
	for how, want := range map[string]string{
		"cut": "*errors.errorString unexpected EOF", "cancelled": core.NodeStopping, "too_slow": core.NodeTooSlow, "left": core.NodeGone, "again": core.NodeGone,
		"gap": core.NodeGap, "twice": core.NodeGap, "headers": core.NodeFault, "end": core.NodeFault, "credit": core.NodeFault, "bytes": core.NodeFault, "accepted": core.NodeFault, "refused": core.NodeFault,
	} {
		t.Run(how, func(t *testing.T) {
			r := newEdgeRig(t)
			jobs := make(chan *scriptedJob, 1)
			n := r.join("box", report(2, 4, "m"), func(j *scriptedJob) {
				j.accept()
				j.headers(200, 3)
				j.data([]byte("hello"))
				jobs <- j
			})
			resp, err := r.post(t.Context(), "box", "")
			if err != nil {
				t.Fatal(err)
			}
			j := <-jobs
			buf := make([]byte, 100)
			if k, err := io.ReadFull(resp.Body, buf[:5]); err != nil || string(buf[:k]) != "hello" {
				t.Fatalf("%q %v", buf[:k], err)
			}
			told := false // the node
			switch how {
			case "cut", "cancelled", "too_slow":
				j.end(how, core.NodeTiming{})
			case "left":
				n.leave()
			case "again":
				r.connect("box", nil)
			case "gap":
				j.seq++
				j.send(kindData, []byte("lost"))
				told = true
			case "twice":
				j.seq--
				j.send(kindData, []byte("hello"))
				told = true
			case "headers":
				j.headers(200, 0)
				told = true
			case "accepted":
				j.accept()
				told = true
			case "refused":
				j.refuse("busy", 0)
			case "end":
				j.send(kindEnd, []byte("{"))
			case "credit":
				for range windowFrames { // one was used for hello
					j.send(kindData, []byte("x"))
				}
				told = true
			case "bytes":
				for range windowBytes / (32 << 10) {
					j.send(kindData, make([]byte, 32<<10))
				}
				told = true
			}
			if how == "credit" || how == "bytes" {
				r.eventually("the stream was given up", func() bool { return r.held("box") == 0 })
			}
			_, err = io.Copy(io.Discard, resp.Body)
			if word(err) != want {
				t.Errorf("%s, want %s", word(err), want)
			}
			_ = resp.Body.Close()
			if !strings.Contains(resp.Trailer.Get(core.NodeTimingTrailer), "slot_wait_ms") && how != "cut" && how != "cancelled" && how != "too_slow" {
				t.Errorf("the slot wait is not known any more: %v", resp.Trailer)
			}
			if r.held("box") != 0 {
				t.Errorf("%d are held", r.held("box"))
			}
			if told {
				<-j.gone
			}
			blamed := func() bool { return strings.Contains(r.log.String(), "broke the protocol") }
			if want == core.NodeFault {
				r.eventually("the fault is logged", blamed)
			} else if blamed() {
				t.Errorf("the log: %s", r.log)
			}
		})
	}
}

// TestNoBody: a status that has no body comes without one, as of any server.
func TestNoBody(t *testing.T) {
	r := newEdgeRig(t)
	r.join("box", report(2, 4, "m"), func(j *scriptedJob) {
		status, data, _ := strings.Cut(string(j.body), " ")
		code, _ := strconv.Atoi(status)
		j.accept()
		j.headers(code, 0)
		if data != "" {
			j.data([]byte(data))
		}
		j.end("", core.NodeTiming{})
	})
	for body, want := range map[string]string{"204": "", "304": "", "204 hello": core.NodeFault, "304 hello": core.NodeFault, "205 hello": ""} {
		resp, err := r.post(t.Context(), "box", body)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		if word(err) != want && (err != nil || want != "") {
			t.Errorf("%s: %q %s, want %q", body, got, word(err), want)
		}
		_ = resp.Body.Close()
	}
	r.eventually("nothing is under way", r.quiet("box"))
}

// TestFaultsDisconnect: a node that goes on breaking the protocol is disconnected.
func TestFaultsDisconnect(t *testing.T) {
	raw := func(f frame) []byte { return f.append(nil) }
	for name, bad := range map[string][]byte{
		"empty": nil, "short": make([]byte, 20), "version": append([]byte{2}, raw(frame{kind: kindData, seq: 1, stream: 1})[1:]...),
		"kind": raw(frame{kind: 99, stream: 1}), "start": raw(frame{kind: kindStart, seq: 1, stream: 1}), "body": raw(frame{kind: kindBody, seq: 1, stream: 1}),
		"cancel": raw(frame{kind: kindCancel, stream: 1}), "no number": raw(frame{kind: kindData, stream: 1}), "number": raw(frame{kind: kindCredit, seq: 1, stream: 1, payload: make([]byte, 8)}),
		"credit": raw(frame{kind: kindCredit, stream: 1, payload: make([]byte, 7)}), "stream 0": raw(frame{kind: kindData, seq: 1}),
	} {
		t.Run(name, func(t *testing.T) {
			r := newEdgeRig(t)
			n := r.join("box", report(2, 4, "m"), func(j *scriptedJob) { j.accept() })
			failed := make(chan error, 1)
			go func() {
				_, err := r.post(context.Background(), "box", "")
				failed <- err
			}()
			r.eventually("the job is there", func() bool { return r.held("box") == 1 })
			for range mostFaults - 1 {
				if err := n.link.Publish(subject(subjectFrames, "box"), bad); err != nil {
					t.Fatal(err)
				}
			}
			r.eventually("the faults were seen", func() bool { return r.edge.find("box").session.Load().fault.Load() == mostFaults-1 })
			if r.held("box") != 1 || len(r.disconnected()) != 0 {
				t.Error("a few faults ended what is not concerned")
			}
			_ = n.link.Publish(subject(subjectFrames, "box"), bad)
			<-n.link.Done()
			if err := <-failed; word(err) != core.NodeGone {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestOthersStreams: a node cannot speak for another node's jobs, and frames of jobs
// that there are not are cancelled.
func TestOthersStreams(t *testing.T) {
	r := newEdgeRig(t)
	jobs := make(chan *scriptedJob, 1)
	r.join("box", report(2, 4, "m"), func(j *scriptedJob) {
		j.accept()
		j.headers(200, 0)
		jobs <- j
	})
	evil := r.join("evil", report(2, 4, "m"), nil)
	resp, err := r.post(t.Context(), "box", "")
	if err != nil {
		t.Fatal(err)
	}
	j := <-jobs
	for range 1000 {
		_ = evil.send(frame{kind: kindData, seq: 3, stream: j.id, payload: []byte("evil")})
	}
	_ = evil.send(frame{kind: kindEnd, seq: 3, stream: j.id + 7, payload: []byte("{}")})
	r.eventually("the strange stream is cancelled", func() bool {
		evil.mu.Lock()
		defer evil.mu.Unlock()
		return len(evil.stray) > 0
	})
	evil.set(func() {
		for _, f := range evil.stray {
			if f.kind != kindCancel || f.stream != j.id {
				t.Errorf("to the node: %+v", f)
			}
		}
		if len(evil.stray) > 5 {
			t.Errorf("%d cancels for one stream", len(evil.stray))
		}
	})
	j.data([]byte("good"))
	j.end("", core.NodeTiming{})
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "good" {
		t.Errorf("%q %v", body, err)
	}
}

// TestCancel: a caller that leaves is told at once, and so is the node.
func TestCancel(t *testing.T) {
	r := newEdgeRig(t)
	jobs := make(chan *scriptedJob, 1)
	r.join("box", report(2, 4, "m"), func(j *scriptedJob) {
		j.accept()
		if string(j.body) != "silent" {
			j.headers(200, 0)
			j.data([]byte("hello"))
		}
		jobs <- j
	})
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	failed := make(chan error)
	go func() {
		_, err := r.post(ctx, "box", "silent")
		failed <- err
	}()
	j := <-jobs
	cancel(why)
	if err := <-failed; err != why {
		t.Errorf("RoundTrip: %v", err)
	}
	<-j.gone
	j.forget()
	if _, err := r.post(ctx, "box", ""); err != why {
		t.Errorf("RoundTrip of a context that has ended: %v", err)
	}

	ctx, cancel = context.WithCancelCause(t.Context())
	resp, err := r.post(ctx, "box", "")
	if err != nil {
		t.Fatal(err)
	}
	j = <-jobs
	cancel(why)
	<-j.gone
	j.forget()
	if n, err := resp.Body.Read(make([]byte, 10)); n != 0 || err != why {
		t.Errorf("Read: %d, %v", n, err)
	}
	_ = resp.Body.Close()
	r.eventually("nothing is under way", r.quiet("box"))
	if _, err := resp.Body.Read(make([]byte, 10)); err != why {
		t.Errorf("Read after Close: %v", err)
	}
}

// TestRandomCancels: a thousand callers that leave at any time leave nothing behind.
func TestRandomCancels(t *testing.T) {
	r := newEdgeRig(t)
	n := r.join("box", report(100, 4, "m"), func(j *scriptedJob) {
		defer j.forget()
		j.accept()
		j.headers(200, 0)
		for range 50 {
			if !j.data([]byte("data: x\n\n")) {
				return
			}
			runtime.Gosched()
		}
		j.end("", core.NodeTiming{})
	})
	r.eventually("a beat", func() bool { n.mu.Lock(); defer n.mu.Unlock(); return n.beats > 0 })
	before := runtime.NumGoroutine()
	var left, whole, failed atomic.Int64
	var callers sync.WaitGroup
	for i := range 50 {
		callers.Go(func() {
			rnd := rand.New(rand.NewPCG(9, uint64(i)))
			for range 20 {
				ctx, cancel := context.WithCancel(t.Context())
				leaves := time.Duration(rnd.IntN(8000)) * time.Microsecond
				if rnd.IntN(3) == 0 {
					leaves = time.Minute
				}
				timer := time.AfterFunc(leaves, cancel)
				resp, err := r.post(ctx, "box", strings.Repeat("x", rnd.IntN(2000)))
				if err == nil {
					if rnd.IntN(5) == 0 {
						_, err = resp.Body.Read(make([]byte, 20))
					} else {
						_, err = io.Copy(io.Discard, resp.Body)
					}
					_ = resp.Body.Close()
				}
				switch {
				case err == nil:
					whole.Add(1)
				case ctx.Err() != nil:
					left.Add(1)
				default:
					failed.Add(1)
					t.Errorf("%v", err)
				}
				timer.Stop()
				cancel()
			}
		})
	}
	callers.Wait()
	if left.Load() < 100 || whole.Load() < 100 {
		t.Errorf("%d left, %d stayed: the test shows little", left.Load(), whole.Load())
	}
	r.eventually("nothing is under way", r.quiet("box"))
	r.eventually("the node has no job", func() bool { n.mu.Lock(); defer n.mu.Unlock(); return len(n.jobs) == 0 })
	r.eventually("no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
	t.Logf("%d left, %d stayed", left.Load(), whole.Load())
	if len(r.disconnected()) > 0 || strings.Contains(r.log.String(), "protocol") {
		t.Errorf("the node is blamed: %s", r.log)
	}
}

// TestNotAccepted: a node that does not take a job in time has lost it.
func TestNotAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEdgeRig(t)
		n := r.join("box", report(2, 4, "m"), nil)
		start := time.Now()
		_, err := r.post(t.Context(), "box", "")
		if took := time.Since(start); word(err) != core.NodeGone || took < rigMisses*rigBeat || took > (rigMisses+1)*rigBeat {
			t.Errorf("%v after %v", err, took)
		}
		synctest.Wait()
		n.set(func() {
			for _, j := range n.jobs {
				<-j.gone
			}
		})
	})
}

// TestLeftOut: a job that the node's beats leave out twice has ended there.
func TestLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEdgeRig(t)
		n := r.join("box", report(2, 4, "m"), func(j *scriptedJob) { j.accept(); j.headers(200, 0) })
		resp, err := r.post(t.Context(), "box", "")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * rigBeat)
		n.set(func() { n.hide = true })
		start := time.Now()
		_, err = resp.Body.Read(make([]byte, 1))
		if took := time.Since(start); word(err) != core.NodeGone || took > 3*rigBeat {
			t.Errorf("%v after %v", err, took)
		}
		if len(r.disconnected()) > 0 {
			t.Error("the node is disconnected for it")
		}
	})
}
