package command_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// TestFleetLongStream: 100,000 events through a node come as they were sent.
func TestFleetLongStream(t *testing.T) {
	r := newFleetRig(t, nil)
	s := newFleetServer(t, fleetModel)
	n := r.join(t, "box", "", s.URL, nil)
	j := newJob(100_000, "0", 40)
	got := r.run(j)
	if err := got.whole(); err != nil {
		t.Fatal(err)
	}
	t.Logf("100,000 events, %d bytes, in %v", len(got.body), got.took)
	if c := r.told(t, got.id); c.Outcome != "settled" || c.Node != n.name || c.NodeTiming == nil || c.NodeTiming.Service == nil || len(c.NodeCalls) > 0 {
		t.Errorf("the receipt is %+v", c)
	}
}

// TestFleetLongRequest: a request of 30 MB with images, which is more than a message
// of the bus may have and more than a node keeps, reaches the model server as it is, at
// once or once it has waited for a slot.
func TestFleetLongRequest(t *testing.T) {
	sums, first, free := make(chan [sha256.Size]byte, 4), make(chan struct{}), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"mini"}]}`)
			return
		}
		if r.ContentLength < 1000 { // it takes the slot until the test lets go of it
			close(first)
			<-free
			_, _ = io.WriteString(w, chatWire(3, 5).whole("free", "{}"))
			return
		}
		h := sha256.New()
		_, _ = io.Copy(h, r.Body)
		sums <- [sha256.Size]byte(h.Sum(nil))
		_, _ = io.WriteString(w, chatWire(3, 5).whole("seen", "{}"))
	}))
	defer s.Close()
	r := newFleetRig(t, nil)
	n := r.join(t, "box", "", s.URL, map[string]any{"slots": 1})

	var parts []any
	for range 6 {
		image := make([]byte, 30_000_000/6*3/4)
		if _, err := rand.Read(image); err != nil {
			t.Fatal(err)
		}
		parts = append(parts, map[string]any{"type": "image_url", "image_url": map[string]any{"url": "data:image/png;base64," + base64.StdEncoding.EncodeToString(image)}})
	}
	body, err := json.Marshal(map[string]any{"model": fleetModel, "messages": []any{map[string]any{"role": "user", "content": append(parts, map[string]any{"type": "text", "text": "what is it?"})}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(body) < 30_000_000 {
		t.Fatalf("the request has %d bytes", len(body))
	}
	ask := func() {
		t.Helper()
		before := memory(t, n.cmd)
		at := time.Now()
		resp, err := r.call(r.client, fleetKey, "/v1/chat/completions", string(body))
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK || !bytes.Contains(answer, []byte("seen")) {
			t.Errorf("status %d, error %v: %s\nthe node says\n%s\nthe edge says\n%s", resp.StatusCode, err, answer, n.log.tail(), r.log.tail())
			return
		}
		t.Logf("%d bytes in %v; the node had %.1f MiB before, and has %.1f", len(body), time.Since(at), before, memory(t, n.cmd))
		if got := <-sums; got != sha256.Sum256(body) {
			t.Error("the model server got another request than was sent")
		}
		if len(sums) > 0 {
			t.Error("the model server was asked more than once")
		}
	}
	ask()

	var calls sync.WaitGroup
	calls.Go(func() {
		if got := r.run(newJob(1, "0", 0)); !bytes.Contains(got.body, []byte("free")) {
			t.Errorf("status %d, error %v: %s", got.status, got.err, got.body)
		}
	})
	<-first
	calls.Go(ask)
	err = poll(func() error {
		v, err := r.get("/admin/v1/nodes/box")
		if err == nil && fmt.Sprint(v["queue"]) != "1" {
			err = fmt.Errorf("%v calls wait", v["queue"])
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	<-time.After(200 * time.Millisecond) // all is sent that may be
	close(free)
	calls.Wait()
}

const (
	slowOthers = 200
	slowEvents = 60
	slowGap    = "25ms"
	slowBytes  = 1024 // that the slow client reads, a second
	// slowMost is how much more memory a process may have for a slow client: its
	// window, and what the garbage collector makes of chance.
	slowMost = 16.0 // MiB
)

// TestFleetSlowClient: a client that reads 1 KB a second of an answer of 64 MB holds
// up none of 200 others at the same node, and has no process keep what it does not read.
func TestFleetSlowClient(t *testing.T) {
	r := newFleetRig(t, nil)
	s := newFleetServer(t, fleetModel)
	n := r.join(t, "box", "", s.URL, nil)

	// phase runs the others and gives how long the slowest took, and the most memory
	// that both processes had.
	phase := func() (slowest time.Duration, edge, node float64) {
		var mu sync.Mutex
		var all sync.WaitGroup
		for range slowOthers {
			all.Go(func() {
				got := r.run(newJob(slowEvents, slowGap, 200))
				mu.Lock()
				defer mu.Unlock()
				if err := got.whole(); err != nil {
					t.Error(err)
				}
				slowest = max(slowest, got.took)
			})
		}
		over := make(chan struct{})
		go func() { all.Wait(); close(over) }()
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			edge, node = max(edge, memory(t, r.cmd)), max(node, memory(t, n.cmd))
			select {
			case <-over:
				return slowest, edge, node
			case <-tick.C:
			}
		}
	}
	phase() // what is made for the first calls stays
	without, edge0, node0 := phase()

	j := newJob(16_000, "0", 4000)
	resp, err := r.begin(j)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	stop, stopped := make(chan struct{}), make(chan struct{})
	var read bytes.Buffer
	go func() {
		defer close(stopped)
		tick := time.NewTicker(time.Second / 4)
		defer tick.Stop()
		for {
			if _, err := io.CopyN(&read, resp.Body, slowBytes/4); err != nil {
				return
			}
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	}()
	with, edge1, node1 := phase()
	t.Logf("the slowest of %d others took %v without the slow client, %v with it", slowOthers, without, with)
	t.Logf("memory, MiB: edge %.1f without, %.1f with; node %.1f without, %.1f with", edge0, edge1, node0, node1)
	if edge1-edge0 > slowMost || node1-node0 > slowMost {
		t.Errorf("a slow client costs %.1f MiB of the edge and %.1f of the node, want %.0f at most", edge1-edge0, node1-node0, slowMost)
	}
	if with > 2*without+time.Second {
		t.Errorf("others took %v beside a slow client, and %v without it", with, without)
	}
	s.note(func() {
		if n := s.sent[j.name]; n == j.events {
			t.Error("the model server was not held up by its slow client: nothing was tested")
		}
	})
	close(stop)
	<-stopped
	if want := fleetAnswer(j.name, j.events, j.size); !bytes.HasPrefix(want, read.Bytes()) || read.Len() == 0 {
		t.Errorf("the slow client read %d bytes that were not sent", read.Len())
	}
	// It is not lost either: it goes on where it was, to the end.
	rest, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(fmt.Errorf("the slow client's answer: %w", err))
	}
	if got := append(read.Bytes(), rest...); !bytes.Equal(got, fleetAnswer(j.name, j.events, j.size)) {
		t.Errorf("the slow client got %d bytes that are not those that were sent", len(got))
	}
	r.idle(t)
}
