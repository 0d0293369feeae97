package fleet

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"headway/core"
	"headway/embedded/bus"
)

// bothBeat is long enough for a machine that has much else to do.
const bothBeat = 2 * time.Second

// both are an edge and a node that is none of a script, with a bus between them.
type both struct {
	*edgeRig
	node *Node
	up   *httptest.Server
	cut  func() // ends the node's connection
}

// newBoth runs both ends on a bus in memory or on the real one, over TLS on loopback.
func newBoth(t testing.TB, real bool, slots int64, serve http.HandlerFunc) *both {
	t.Helper()
	b := &both{}
	b.up = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/chat/completions" {
			serve(w, r)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(b.up.Close)
	parts := NodeParts{Clock: time.Now, Log: slog.New(slog.NewTextHandler(testLog{t}, &slog.HandlerOptions{Level: slog.LevelDebug})), Name: "box", Version: "test", Formats: formats(), Vault: core.NewMemory(), Transport: transport(t),
		Upstreams: []Upstream{{URL: b.up.URL, Format: core.FormatLlamaCpp, Slots: core.Some(slots), Queue: core.Some[int64](1000), Fixed: true, Offers: []core.NodeModel{{Model: "m", Upstream: "m"}}}}}
	if real {
		b.edgeRig = b.onBus(t, &parts)
	} else {
		b.edgeRig = newEdgeRigAt(t, bothBeat)
		b.cut = func() { b.bus.Disconnect("box") }
		parts.Dial = func(context.Context) (core.Link, error) {
			l, id := b.bus.Join("box"), b.session.Add(1)
			b.edge.Joined("box", id, "")
			context.AfterFunc(linkContext(l), func() { b.edge.Left("box", id) })
			return l, nil
		}
	}
	b.node = NewNode(parts)
	ctx, stop := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() {
		if err := b.node.Run(ctx); err != nil {
			t.Errorf("the node: %v", err)
		}
	})
	t.Cleanup(func() { stop(); run.Wait() })
	b.eventually("the node is here", func() bool { return b.edge.Line("box").Stand().Up })
	return b
}

// linkContext ends with a link.
func linkContext(l core.Link) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-l.Done(); cancel() }()
	return ctx
}

// onBus makes the edge's side of a real bus.
func (b *both) onBus(t testing.TB, parts *NodeParts) *edgeRig {
	t.Helper()
	r := &edgeRig{t: t, book: core.NewMemory(), log: &logText{}}
	log := slog.New(slog.NewTextHandler(r.log, nil))
	server := bus.New(bus.Options{Folder: t.TempDir(), Listen: "127.0.0.1:0", Clock: time.Now, Log: log,
		Admit:  func(string, string) (core.NodeID, error) { return "box", nil },
		Joined: func(n core.NodeID, id uint64) { r.edge.Joined(n, id, "") },
		Left:   func(n core.NodeID, id uint64) { r.edge.Left(n, id) }})
	r.edge = NewEdge(EdgeParts{Clock: time.Now, Log: log, Bus: server, Book: r.book, Vault: r.book, Heartbeat: bothBeat, Misses: 3,
		Changed: func() { r.changes.Add(1) }, Disconnect: server.Disconnect})
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { _ = r.edge.Run(ctx) })
	if err := server.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		cancel()
		run.Wait()
	})
	credential, err := bus.NewCredential(bus.Join{Name: "box", Address: server.Addr(), Pin: server.Pin(), Token: core.NewSecret("token")})
	if err != nil {
		t.Fatal(err)
	}
	parts.Dial = func(ctx context.Context) (core.Link, error) { return bus.Dial(ctx, credential) }
	b.cut = func() { server.Disconnect("box") }
	return r
}

func onBoth(t *testing.T, test func(t *testing.T, real bool)) {
	t.Run("memory", func(t *testing.T) { test(t, false) })
	t.Run("bus", func(t *testing.T) { test(t, true) })
}

// TestBothByteForByte: a long stream, and a large body, through both ends.
func TestBothByteForByte(t *testing.T) {
	const events = 100_000
	onBoth(t, func(t *testing.T, real bool) {
		sent := make(chan [32]byte, 1)
		b := newBoth(t, real, 4, func(w http.ResponseWriter, r *http.Request) {
			sum := sha256.New()
			if r.ContentLength > 100 {
				n, _ := io.Copy(sum, r.Body)
				fmt.Fprintf(w, "%d %x", n, sum.Sum(nil))
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			out := io.MultiWriter(w, sum)
			for i := range events {
				fmt.Fprintf(out, "data: %d %s\n\n", i, strings.Repeat("x", i*7919%300))
				if i%100 == 0 {
					w.(http.Flusher).Flush()
				}
			}
			sent <- [32]byte(sum.Sum(nil))
		})
		start := time.Now()
		resp, err := b.post(t.Context(), "box", "{}")
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.New()
		if _, err := io.Copy(sum, resp.Body); err != nil || [32]byte(sum.Sum(nil)) != <-sent {
			t.Errorf("the bytes differ, or %v", err)
		}
		t.Logf("%d events in %v", events, time.Since(start))
		body := make([]byte, 30<<20)
		rand.NewChaCha8([32]byte{1}).Read(body)
		if resp, err = b.postTo(t.Context(), "box", bytes.NewReader(body)); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(resp.Body)
		if want := fmt.Sprintf("%d %x", len(body), sha256.Sum256(body)); err != nil || string(answer) != want {
			t.Errorf("%s, %v", answer, err)
		}
		var timing core.NodeTiming
		if err := json.Unmarshal([]byte(resp.Trailer.Get(core.NodeTimingTrailer)), &timing); err != nil || timing.SlotWait != core.Some(0.0) || timing.Service.V <= 0 {
			t.Errorf("%v %v", resp.Trailer, err)
		}
	})
}

// TestBothCancels: callers that leave at any time free their slots, at both ends.
func TestBothCancels(t *testing.T) {
	onBoth(t, func(t *testing.T, real bool) {
		var open atomic.Int64
		b := newBoth(t, real, 8, func(w http.ResponseWriter, r *http.Request) {
			open.Add(1)
			defer open.Add(-1)
			_, _ = io.Copy(io.Discard, r.Body)
			for range 30 {
				if _, err := io.WriteString(w, "data: x\n\n"); err != nil || r.Context().Err() != nil {
					return
				}
				w.(http.Flusher).Flush()
				select {
				case <-time.After(200 * time.Microsecond):
				case <-r.Context().Done():
					return
				}
			}
		})
		before := runtime.NumGoroutine()
		var callers sync.WaitGroup
		var left, whole atomic.Int64
		for i := range 40 {
			callers.Go(func() {
				rnd := rand.New(rand.NewPCG(11, uint64(i)))
				for range 25 {
					ctx, cancel := context.WithCancel(t.Context())
					leaves := time.Duration(rnd.IntN(60_000)) * time.Microsecond
					if rnd.IntN(4) == 0 {
						leaves = time.Minute
					}
					timer := time.AfterFunc(leaves, cancel)
					resp, err := b.post(ctx, "box", strings.Repeat("x", rnd.IntN(3000)))
					if err == nil {
						_, err = io.Copy(io.Discard, resp.Body)
						_ = resp.Body.Close()
					}
					switch {
					case err == nil:
						whole.Add(1)
					case ctx.Err() != nil:
						left.Add(1)
					default:
						t.Errorf("%v", err)
					}
					timer.Stop()
					cancel()
				}
			})
		}
		callers.Wait()
		t.Logf("%d left, %d stayed", left.Load(), whole.Load())
		if left.Load() < 100 || whole.Load() < 100 {
			t.Error("the test shows little")
		}
		b.eventually("nothing is under way", func() bool {
			st, _ := b.edge.Status("box")
			return b.quiet("box")() && open.Load() == 0 && st.SlotsInUse == 0
		})
		resp, err := b.post(t.Context(), "box", "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
		b.eventually("no goroutine is left", func() bool {
			b.node.Transport.(*http.Transport).CloseIdleConnections()
			return runtime.NumGoroutine() <= before+2 // the server's end of a connection may be new
		})
	})
}

// TestBothCut: a connection that breaks ends its jobs; the node comes back by itself,
// and tells what became of them.
func TestBothCut(t *testing.T) {
	onBoth(t, func(t *testing.T, real bool) {
		b := newBoth(t, real, 2, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "data: x\n\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		id := core.NewCallID(time.Now())
		d := &core.Dispatch{Call: id, Attempt: 1, Model: "m", Operation: core.OpGenerate, Streamed: true}
		resp, err := b.post(d.Into(t.Context()), "box", "{}")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(resp.Body, make([]byte, 9)); err != nil {
			t.Fatal(err)
		}
		b.cut()
		start := time.Now()
		if _, err := resp.Body.Read(make([]byte, 1)); word(err) != core.NodeGone {
			t.Errorf("%v", err)
		}
		_ = resp.Body.Close()
		lost := time.Since(start)
		b.eventually("the node is back", func() bool { return b.edge.Line("box").Stand().Up })
		t.Logf("lost after %v, back after %v", lost, time.Since(start))
		if calls, err := b.edge.Calls(id); err != nil || len(calls) != 0 {
			t.Errorf("before its receipt: %+v %v", calls, err)
		}
		b.receipt(id, &core.NodeTiming{SlotWait: core.Some(0.0)}, "box")
		var calls []core.NodeCall
		b.eventually("the node tells of it", func() bool {
			calls, err = b.edge.Calls(id)
			return len(calls) == 1
		})
		if c := calls[0]; c.Node != "box" || c.Provider != "box" || c.Model != "m" || !c.Timing.Service.OK {
			t.Errorf("%+v", c)
		}
	})
}
