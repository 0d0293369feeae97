package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"headway/core"
)

// desk admits nodes as an edge's desk does: by a token once, then by the key.
type desk struct {
	mu     sync.Mutex
	tokens map[string]core.NodeID
	keys   map[string]core.NodeID
	slow   chan struct{} // where not nil Admit waits for it
	err    error         // where not nil what Admit says
	asked  int
}

func (d *desk) admit(public, token string) (core.NodeID, error) {
	d.mu.Lock()
	slow := d.slow
	d.mu.Unlock()
	if slow != nil {
		<-slow
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	if d.err != nil {
		return "", d.err
	}
	if name, ok := d.keys[public]; ok {
		return name, nil
	}
	name, ok := d.tokens[token]
	if !ok {
		return "", core.Errorf(core.Forbidden, "a key that no node has, and a token that is of no join string")
	}
	delete(d.tokens, token)
	d.keys[public] = name
	return name, nil
}

// set changes the desk.
func (d *desk) set(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

// happened is what a server told of sessions, in order: +name or -name with the
// session's number.
type happened struct {
	mu  sync.Mutex
	all []string
}

func (h *happened) add(sign string, node core.NodeID, session uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, fmt.Sprintf("%s%s %d", sign, node, session))
}

func (h *happened) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.all, ", ")
}

// syncBuffer is a log that is read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// edge is an open server with its desk.
type edge struct {
	*Server
	desk     *desk
	happened *happened
	log      *syncBuffer
}

func newEdge(t testing.TB, folder string) *edge {
	t.Helper()
	e := &edge{desk: &desk{tokens: map[string]core.NodeID{}, keys: map[string]core.NodeID{}}, happened: &happened{}, log: &syncBuffer{}}
	e.Server = New(Options{Folder: folder, Listen: "127.0.0.1:0", Clock: time.Now,
		Log:    slog.New(slog.NewTextHandler(e.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Admit:  e.desk.admit,
		Joined: func(n core.NodeID, s uint64) { e.happened.add("+", n, s) },
		Left:   func(n core.NodeID, s uint64) { e.happened.add("-", n, s) }})
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error("close:", err)
		}
	})
	return e
}

func openEdge(t testing.TB) *edge {
	t.Helper()
	e := newEdge(t, t.TempDir())
	if err := e.Open(); err != nil {
		t.Fatal(err)
	}
	return e
}

// invite makes a credential that may join as name.
func (e *edge) invite(t testing.TB, name string) Credential {
	t.Helper()
	token := "token-of-" + name + fmt.Sprint(time.Now().UnixNano())
	e.desk.set(func() { e.desk.tokens[token] = core.NodeID(name) })
	j, err := ParseJoin(Join{core.NodeID(name), e.Addr(), e.Pin(), core.NewSecret(token)}.String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewCredential(j)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// join is a node that has joined.
func (e *edge) join(t testing.TB, name string) (core.Link, Credential) {
	t.Helper()
	c := e.invite(t, name)
	return dial(t, c), c
}

func dial(t testing.TB, c Credential) core.Link {
	t.Helper()
	l, err := Dial(t.Context(), c)
	if err != nil {
		t.Fatal(err, cause(err))
	}
	t.Cleanup(l.Close)
	return l
}

// until waits for a condition.
func until(t testing.TB, what string, met func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !met(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never came: " + what)
		}
	}
}

func kindOf(err error) core.Kind {
	var e *core.Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return 255
}

func TestJoinAndTalk(t *testing.T) {
	e := openEdge(t)
	if _, port, err := net.SplitHostPort(e.Addr()); err != nil || port == "0" {
		t.Fatal("address", e.Addr())
	}
	type message struct{ subject, reply, data string }
	heard := make(chan message, 10)
	if _, err := e.Subscribe("hw.v1.n.box.>", func(subject, reply string, data []byte) {
		heard <- message{subject, reply, string(data)}
		if reply != "" {
			if err := e.Publish(reply, []byte("welcome "+string(data))); err != nil {
				t.Error(err)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	l, _ := e.join(t, "box")
	if err := l.Publish("hw.v1.n.box.beat", []byte("tick")); err != nil {
		t.Fatal(err)
	}
	if m := <-heard; m != (message{"hw.v1.n.box.beat", "", "tick"}) {
		t.Fatal(m)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	answer, err := l.Request(ctx, "hw.v1.n.box.hello", []byte("hi"))
	if err != nil || string(answer) != "welcome hi" {
		t.Fatal(string(answer), err)
	}
	if m := <-heard; !strings.HasPrefix(m.reply, "hw.v1.j.box.r.") {
		t.Fatal(m)
	}
	if _, err := l.Subscribe("hw.v1.j.box.>", func(subject, reply string, data []byte) {
		if reply != "" {
			_ = l.Publish(reply, append([]byte("node says "), data...))
		}
	}); err != nil {
		t.Fatal(err)
	}
	until(t, "the node's answer", func() bool {
		answer, err = e.Request(ctx, "hw.v1.j.box.ask", []byte("x"))
		return err == nil
	})
	if string(answer) != "node says x" {
		t.Fatal(string(answer))
	}
	l.Close()
	<-l.Done()
	until(t, "left", func() bool { return e.happened.String() == "+box 1, -box 1" })
}
