package bus

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"headway/core"
)

// TestJoin: a token lets a key in once, later the key alone does; nothing else does.
func TestJoin(t *testing.T) {
	e := openEdge(t)
	first, c := e.join(t, "box")
	first.Close()
	byKey := c
	byKey.Token = core.Secret{}
	dial(t, byKey).Close()

	again, err := NewCredential(c.Join) // the used token with another key
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string, c Credential) {
		t.Helper()
		from := time.Now()
		_, err := Dial(t.Context(), c)
		if kindOf(err) != core.Forbidden {
			t.Errorf("%s: %v", what, err)
		} else if took := time.Since(from); took > time.Second {
			t.Errorf("%s: refused after %v", what, took)
		}
	}
	refused("a used token with another key", again)
	old := e.invite(t, "old")
	e.desk.set(func() { clear(e.desk.tokens) }) // ten minutes passed
	refused("an old token", old)
	refused("a key that nobody knows", Credential{Join: Join{Name: "box", Address: c.Address, Pin: c.Pin}, Seed: again.Seed})
	e.desk.set(func() { clear(e.desk.keys) })
	refused("a revoked key", byKey)
	if n := strings.Count(e.log.String(), "level=WARN msg=\"a connection to the bus was refused\""); n != 4 {
		t.Errorf("%d refusals in the log:\n%s", n, e.log)
	}
	for _, secret := range []string{c.Token.Reveal(), c.Seed.Reveal(), old.Token.Reveal()} {
		if strings.Contains(e.log.String(), secret) {
			t.Error("a secret is in the log")
		}
	}
	var hint *core.Error
	if _, err := Dial(t.Context(), old); !errors.As(err, &hint) || !strings.Contains(hint.Hint, "headway nodes enrol NAME") {
		t.Error("no hint:", err)
	}
}

// TestAdmitNotNow: where the desk cannot tell, the node is not refused for good.
func TestAdmitNotNow(t *testing.T) {
	e := openEdge(t)
	_, c := e.join(t, "box")
	e.desk.set(func() { e.desk.err = core.Errorf(core.Unavailable, "the store cannot be written") })
	if _, err := Dial(t.Context(), c); kindOf(err) != core.Upstream {
		t.Error(err)
	}
	e.desk.set(func() { e.desk.err = nil })
	dial(t, c)
}

// TestSlowAdmit: a disk that takes its time for one node holds up no other.
func TestSlowAdmit(t *testing.T) {
	e := openEdge(t)
	there, _ := e.join(t, "there")
	slow := make(chan struct{})
	late, other := e.invite(t, "late"), e.invite(t, "other")
	e.desk.set(func() { e.desk.slow = slow })
	came := make(chan error, 1)
	go func() {
		_, err := Dial(t.Context(), late)
		came <- err
	}()
	until(t, "the slow one is asked for", func() bool { return strings.Count(e.log.String(), "Client connection created") > 0 })
	var heard atomic.Int64
	if _, err := e.Subscribe("hw.v1.n.there.>", func(_, _ string, _ []byte) { heard.Add(1) }); err != nil {
		t.Fatal(err)
	}
	until(t, "others talk", func() bool { _ = there.Publish("hw.v1.n.there.beat", nil); return heard.Load() > 0 })
	e.desk.set(func() { e.desk.slow = nil })
	dial(t, other)
	close(slow)
	if err := <-came; err != nil {
		t.Fatal(err)
	}
}

// TestHelloIsHeard: what Joined subscribes to is in force before a node's first word.
func TestHelloIsHeard(t *testing.T) {
	e := newEdge(t, t.TempDir())
	e.Joined = func(node core.NodeID, session uint64) {
		if _, err := e.Subscribe("hw.v1.n."+string(node)+".>", func(_, reply string, _ []byte) { _ = e.Publish(reply, []byte("welcome")) }); err != nil {
			t.Error(err)
		}
	}
	if err := e.Open(); err != nil {
		t.Fatal(err)
	}
	var worst time.Duration
	for i := range 20 {
		c := e.invite(t, fmt.Sprintf("box-%d", i))
		from := time.Now()
		l := dial(t, c)
		worst = max(worst, time.Since(from))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		if _, err := l.Request(ctx, fmt.Sprintf("hw.v1.n.box-%d.hello", i), nil); err != nil {
			t.Fatal(err)
		}
		cancel()
	}
	t.Logf("the way in took at most %v", worst)
}

// TestStolenName: a node reaches nothing of another's and nothing of the server's,
// and the others do not notice.
func TestStolenName(t *testing.T) {
	e := openEdge(t)
	good, _ := e.join(t, "good")
	bad, _ := e.join(t, "bad")
	var toEdge, toGood atomic.Int64
	for _, s := range []string{"hw.v1.n.good.>", "hw.v1.n.bad.>", "hw.v1.>"} {
		if _, err := e.Subscribe(s, func(subject, _ string, data []byte) {
			if string(data) == "forged" {
				t.Error("the edge heard", subject)
			}
			toEdge.Add(1)
		}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := good.Subscribe("hw.v1.j.good.>", func(_, _ string, data []byte) {
		if string(data) == "forged" {
			t.Error("another node reached this one")
		}
		toGood.Add(1)
	}); err != nil {
		t.Fatal(err)
	}
	var stolen atomic.Int64
	for _, s := range []string{"hw.v1.j.good.>", "hw.v1.j.good.f", "hw.v1.j.*.f", "hw.v1.j.>", "hw.>", ">", "*.*.*.*.*", "_INBOX.>", "$SYS.>", "$SYS.ACCOUNT.*.DISCONNECT",
		"hw.v1.e.r.>", "hw.v1.n.good.>", "hw.v1.n.bad.>"} {
		if _, err := bad.Subscribe(s, func(subject, _ string, _ []byte) { stolen.Add(1); t.Error("heard", subject) }); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []string{"hw.v1.n.good.hello", "hw.v1.n.good.f", "hw.v1.j.good.f", "hw.v1.j.bad.f", "hw.v1.e.r.x.y", "_INBOX.x", "$SYS.REQ.SERVER.PING", "$SYS.ACCOUNT.$G.DISCONNECT"} {
		if err := bad.Publish(s, []byte("forged")); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "the violations are logged", func() bool {
		log := e.log.String()
		return strings.Contains(log, "Publish Violation - Subject \\\"hw.v1.n.good.hello\\\"") && strings.Contains(log, "Subscription Violation - Subject \\\"hw.v1.j.good.>\\\"") &&
			strings.Contains(log, "node=bad")
	})
	before := toEdge.Load()
	until(t, "the others go on", func() bool {
		_ = good.Publish("hw.v1.n.good.beat", []byte("x"))
		_ = e.Publish("hw.v1.j.good.beat", []byte("x"))
		_ = bad.Publish("hw.v1.n.bad.beat", []byte("x")) // so does the thief, as itself
		return toGood.Load() > 0 && toEdge.Load() > before+4
	})
	if got := e.happened.String(); got != "+good 1, +bad 2" {
		t.Error(got)
	}
}

// TestReplyIsOnesOwn: a node cannot have the edge's answer sent to another node.
func TestReplyIsOnesOwn(t *testing.T) {
	e := openEdge(t)
	good, _ := e.join(t, "good")
	bad := speak(t, e.invite(t, "bad"))
	replies := make(chan string, 10)
	if _, err := e.Subscribe("hw.v1.n.bad.>", func(_, reply string, _ []byte) { replies <- reply }); err != nil {
		t.Fatal(err)
	}
	if _, err := good.Subscribe("hw.v1.j.good.>", func(subject, _ string, _ []byte) { t.Error("reached", subject) }); err != nil {
		t.Fatal(err)
	}
	for _, reply := range []string{"hw.v1.j.good.beat", "hw.v1.j.badly.beat", "hw.v1.n.bad.f", "$SYS.x", "hw.v1.j.bad"} {
		say(t, bad, "PUB hw.v1.n.bad.hello "+reply+" 1\r\nx\r\n")
		if got := <-replies; got != "" {
			t.Errorf("the reply %q went through as %q", reply, got)
		}
	}
	say(t, bad, "PUB hw.v1.n.bad.hello hw.v1.j.bad.r.1 1\r\nx\r\n")
	if got := <-replies; got != "hw.v1.j.bad.r.1" {
		t.Error(got)
	}
}

// TestOneConnection: a second connection with one key closes the first, which is told
// so; nothing that the first sends is heard any more, and the log names the node, once
// in a while.
func TestOneConnection(t *testing.T) {
	e := openEdge(t)
	var from [3]atomic.Int64
	if _, err := e.Subscribe("hw.v1.n.box.>", func(_, _ string, data []byte) { from[data[0]-'0'].Add(1) }); err != nil {
		t.Fatal(err)
	}
	a, c := e.join(t, "box")
	var told atomic.Int64
	if _, err := a.Subscribe("hw.v1.j.box.ousted", func(string, string, []byte) { told.Add(1) }); err != nil {
		t.Fatal(err)
	}
	until(t, "the first is heard", func() bool { _ = a.Publish("hw.v1.n.box.beat", []byte("1")); return from[1].Load() > 0 })
	b := dial(t, c)
	select {
	case <-a.Done():
	case <-time.After(5 * time.Second):
		t.Fatal("the older connection lives on")
	}
	if told.Load() != 1 {
		t.Error("the older connection was not told why")
	}
	until(t, "the second is heard", func() bool { _ = b.Publish("hw.v1.n.box.beat", []byte("2")); return from[2].Load() > 0 })
	until(t, "the first left", func() bool { return strings.Contains(e.happened.String(), "-box 1") })
	for range 5 {
		b = dial(t, c)
	}
	if n := strings.Count(e.log.String(), "two connections with one node's credential"); n != 1 {
		t.Errorf("the log has %d lines of it", n)
	}
	n := from[2].Load()
	until(t, "the last is heard", func() bool {
		_ = b.Publish("hw.v1.n.box.beat", []byte("2"))
		return from[2].Load() > n
	})
}

// TestDisconnect: a node's session ends when it is disconnected; a revoked key does not
// come back.
func TestDisconnect(t *testing.T) {
	e := openEdge(t)
	a, c := e.join(t, "box")
	other, _ := e.join(t, "other")
	if got := e.happened.String(); got != "+box 1, +other 2" {
		t.Fatal(got)
	}
	e.desk.set(func() {
		for k, n := range e.desk.keys {
			if n == "box" {
				delete(e.desk.keys, k)
			}
		}
	})
	from := time.Now()
	e.Disconnect("box")
	<-a.Done()
	took := time.Since(from)
	until(t, "it left", func() bool { return strings.Count(e.happened.String(), "-box") == 1 })
	told := time.Since(from)
	t.Logf("disconnected: the node's ends are told after %v, Left after %v", took, told)
	if told > 500*time.Millisecond {
		t.Error("too slow")
	}
	if _, err := Dial(t.Context(), c); kindOf(err) != core.Forbidden {
		t.Error("a revoked node came back:", err)
	}
	if err := a.Publish("hw.v1.n.box.beat", nil); kindOf(err) != core.Unavailable {
		t.Error("publish on an ended link:", err)
	}
	select {
	case <-other.Done():
		t.Error("another node was disconnected")
	default:
	}
}

// TestRevokedWhileAdmitted: a node that is revoked between the desk's yes and its
// session is asked for again.
func TestRevokedWhileAdmitted(t *testing.T) {
	e := newEdge(t, t.TempDir())
	var once sync.Once
	admit := e.Admit
	e.Admit = func(public, token string) (core.NodeID, error) {
		node, err := admit(public, token)
		once.Do(func() {
			e.desk.set(func() { clear(e.desk.keys) })
			e.Disconnect(node)
		})
		return node, err
	}
	if err := e.Open(); err != nil {
		t.Fatal(err)
	}
	if _, err := Dial(t.Context(), e.invite(t, "box")); kindOf(err) != core.Forbidden {
		t.Fatal("a revoked node came in:", err)
	}
	if got := e.happened.String(); got != "" {
		t.Error(got)
	}
}

// TestKilledConnection: Left follows Joined when the connection is cut from outside,
// within some ms, each time.
func TestKilledConnection(t *testing.T) {
	e := openEdge(t)
	p := newProxy(t, e.Addr())
	c := e.invite(t, "box")
	c.Address = p.addr()
	var want []string
	var worst time.Duration
	for i := 1; i <= 10; i++ {
		l := dial(t, c)
		want = append(want, fmt.Sprintf("+box %d", i))
		if got := e.happened.String(); got != strings.Join(want, ", ") {
			t.Fatal(got)
		}
		from := time.Now()
		p.cut()
		<-l.Done()
		want = append(want, fmt.Sprintf("-box %d", i))
		until(t, "left", func() bool { return e.happened.String() == strings.Join(want, ", ") })
		worst = max(worst, time.Since(from))
	}
	t.Logf("Left at most %v after the cut", worst)
	if worst > 250*time.Millisecond {
		t.Error("too slow")
	}
}

// TestFrozenPeer: a node that reads nothing more is cut off once what waits for it
// is too much, and holds up neither the edge nor the others.
func TestFrozenPeer(t *testing.T) {
	e := openEdge(t)
	p := newProxy(t, e.Addr())
	c := e.invite(t, "frozen")
	c.Address = p.addr()
	l := dial(t, c)
	var heard, froze atomic.Int64
	if _, err := l.Subscribe("hw.v1.j.frozen.>", func(_, _ string, _ []byte) { froze.Add(1) }); err != nil {
		t.Fatal(err)
	}
	other, _ := e.join(t, "other")
	if _, err := other.Subscribe("hw.v1.j.other.>", func(_, _ string, _ []byte) { heard.Add(1) }); err != nil {
		t.Fatal(err)
	}
	until(t, "both listen", func() bool {
		_ = e.Publish("hw.v1.j.other.f", nil)
		_ = e.Publish("hw.v1.j.frozen.f", nil)
		return heard.Load() > 0 && froze.Load() > 0
	})
	p.freeze()
	piece := make([]byte, 256<<10)
	for range 2 * maxPending / len(piece) {
		if err := e.Publish("hw.v1.j.frozen.f", piece); err != nil {
			t.Fatal(err)
		}
	}
	n := heard.Load()
	from := time.Now()
	if err := e.Publish("hw.v1.j.other.f", nil); err != nil {
		t.Fatal(err)
	}
	until(t, "the other hears", func() bool { return heard.Load() > n })
	t.Logf("a message to another took %v", time.Since(from))
	until(t, "the frozen one is cut off", func() bool { // once the sockets between are full too
		_ = e.Publish("hw.v1.j.frozen.f", piece)
		return strings.Contains(e.happened.String(), "-frozen")
	})
	if !strings.Contains(e.log.String(), "Slow Consumer") {
		t.Error("the log does not say why")
	}
}

// TestPayload: 1 MiB passes, more is the sender's error and the connection lives.
func TestPayload(t *testing.T) {
	e := openEdge(t)
	l, _ := e.join(t, "box")
	sizes := make(chan int, 10)
	if _, err := e.Subscribe("hw.v1.n.box.f", func(_, _ string, data []byte) { sizes <- len(data) }); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Subscribe("hw.v1.j.box.f", func(_, _ string, data []byte) { sizes <- len(data) }); err != nil {
		t.Fatal(err)
	}
	if l.MaxPayload() != 1<<20 || e.MaxPayload() != 1<<20 {
		t.Fatal(l.MaxPayload(), e.MaxPayload())
	}
	most := make([]byte, 1<<20)
	until(t, "the node listens", func() bool {
		_ = e.Publish("hw.v1.j.box.f", nil)
		select {
		case <-sizes:
			return true
		case <-time.After(5 * time.Millisecond):
			return false
		}
	})
	for len(sizes) > 0 {
		<-sizes
	}
	for _, b := range []struct {
		core.Bus
		subject string
	}{{l, "hw.v1.n.box.f"}, {e, "hw.v1.j.box.f"}} {
		if err := b.Publish(b.subject, append(most, 'x')); kindOf(err) != core.TooLarge {
			t.Error(err)
		}
		if err := b.Publish(b.subject, most); err != nil {
			t.Error(err)
		}
		if n := <-sizes; n != len(most) {
			t.Error(n)
		}
		if err := b.Publish(b.subject, nil); err != nil {
			t.Error(err)
		}
		if n := <-sizes; n != 0 {
			t.Error(n)
		}
	}
}

// TestNobodyListens: a request that nobody can answer fails at once, one that nobody
// answers with its context.
func TestNobodyListens(t *testing.T) {
	e := openEdge(t)
	l, _ := e.join(t, "box")
	for _, b := range []struct {
		core.Bus
		subject string
	}{{l, "hw.v1.n.box.hello"}, {e, "hw.v1.j.box.ask"}} {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		from := time.Now()
		if _, err := b.Request(ctx, b.subject, nil); kindOf(err) != core.Unavailable {
			t.Error(err)
		}
		if took := time.Since(from); took > time.Second {
			t.Error("after", took)
		}
		cancel()
	}
	if _, err := e.Subscribe("hw.v1.n.box.hello", func(_, _ string, _ []byte) {}); err != nil {
		t.Fatal(err)
	}
	until(t, "the edge listens and does not answer", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := l.Request(ctx, "hw.v1.n.box.hello", nil)
		return kindOf(err) == core.Timeout
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Request(ctx, "hw.v1.n.box.hello", nil); kindOf(err) != core.Canceled {
		t.Error(err)
	}
	going := make(chan error, 1)
	go func() {
		_, err := l.Request(t.Context(), "hw.v1.n.box.hello", nil)
		going <- err
	}()
	time.Sleep(20 * time.Millisecond) // so that it waits; it may as well not have begun
	l.Close()
	if err := <-going; kindOf(err) != core.Unavailable {
		t.Error("a request on a link that was closed:", err)
	}
}

// TestSlowSubscriber: what a handler of the edge has not taken waits up to a bound;
// what is dropped beyond it is in the log.
func TestSlowSubscriber(t *testing.T) {
	e := openEdge(t)
	l, _ := e.join(t, "box")
	hold := make(chan struct{})
	var got atomic.Int64
	var order atomic.Bool
	last := -1
	if _, err := e.Subscribe("hw.v1.n.box.f", func(_, _ string, data []byte) {
		<-hold
		if n := int(data[0])<<8 | int(data[1]); n <= last {
			order.Store(true)
		} else {
			last = n
		}
		got.Add(1)
	}); err != nil {
		t.Fatal(err)
	}
	var others atomic.Int64
	if _, err := e.Subscribe("hw.v1.n.box.beat", func(_, _ string, _ []byte) { others.Add(1) }); err != nil {
		t.Fatal(err)
	}
	piece := make([]byte, 1<<20)
	const sent = 80
	for i := range sent {
		piece[0], piece[1] = byte(i>>8), byte(i)
		if err := l.Publish("hw.v1.n.box.f", piece); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "another subscription goes on", func() bool { _ = l.Publish("hw.v1.n.box.beat", nil); return others.Load() > 0 })
	until(t, "the log tells", func() bool { return strings.Contains(e.log.String(), "messages of nodes were dropped") })
	close(hold)
	until(t, "the rest is handled", func() bool { return got.Load() >= 60 })
	if n := got.Load(); n > 66 {
		t.Errorf("%d MiB waited", n)
	}
	if order.Load() {
		t.Error("out of order")
	}
}

// TestSlowNode: a node that does not take what it is sent loses its session, not
// messages.
func TestSlowNode(t *testing.T) {
	e := openEdge(t)
	l, _ := e.join(t, "box")
	hold := make(chan struct{})
	var got atomic.Int64
	if _, err := l.Subscribe("hw.v1.j.box.f", func(_, _ string, _ []byte) { got.Add(1); <-hold }); err != nil {
		t.Fatal(err)
	}
	until(t, "it listens", func() bool { _ = e.Publish("hw.v1.j.box.f", nil); return got.Load() > 0 })
	piece := make([]byte, 1<<20)
	for range 80 {
		if err := e.Publish("hw.v1.j.box.f", piece); err != nil {
			t.Fatal(err)
		}
	}
	<-l.Done()
	close(hold)
	until(t, "left", func() bool { return e.happened.String() == "+box 1, -box 1" })
}

// TestKeptData: what a handler was given stays as it was.
func TestKeptData(t *testing.T) {
	e := openEdge(t)
	l, _ := e.join(t, "box")
	var mu sync.Mutex
	var kept [][]byte
	if _, err := e.Subscribe("hw.v1.n.box.f", func(_, _ string, data []byte) {
		mu.Lock()
		defer mu.Unlock()
		kept = append(kept, data)
	}); err != nil {
		t.Fatal(err)
	}
	size := func(i int) int { return []int{0, 1, 24, 300, 700, 5000, 40000, 200000}[i%8] }
	const n = 200
	buf := make([]byte, 200000)
	for i := range n {
		b := buf[:size(i)]
		for j := range b {
			b[j] = byte(i)
		}
		if err := l.Publish("hw.v1.n.box.f", b); err != nil {
			t.Fatal(err)
		}
		clear(b) // Publish kept nothing
	}
	until(t, "all came", func() bool { mu.Lock(); defer mu.Unlock(); return len(kept) == n })
	for i, b := range kept {
		if len(b) != size(i) {
			t.Fatal(i, len(b))
		}
		for _, c := range b {
			if c != byte(i) {
				t.Fatal("changed:", i)
			}
		}
		_ = append(b, 'x') // must not reach another's
	}
}

// TestStop: no message is handled after Stop, also where many wait.
func TestStop(t *testing.T) {
	e := openEdge(t)
	l, _ := e.join(t, "box")
	var over atomic.Bool
	handled := make(chan struct{}, 1000)
	sub, err := e.Subscribe("hw.v1.n.box.f", func(_, _ string, _ []byte) {
		if over.Load() {
			t.Error("handled after Stop")
		}
		handled <- struct{}{}
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 500 {
		_ = l.Publish("hw.v1.n.box.f", []byte("x"))
	}
	<-handled
	sub.Stop()
	n := len(handled)
	time.Sleep(time.Millisecond) // one that was being handled
	over.Store(true)
	_ = l.Publish("hw.v1.n.box.f", nil)
	time.Sleep(50 * time.Millisecond)
	if len(handled) > n+1 {
		t.Error("handled", len(handled)-n)
	}
	sub.Stop() // again does nothing
}

// TestAnotherEdge: a server with another CA gets nothing, whatever it sends along.
func TestAnotherEdge(t *testing.T) {
	e := openEdge(t)
	c := e.invite(t, "box")
	wrong := c
	wrong.Pin = strings.Repeat("ab", 32)
	if _, err := Dial(t.Context(), wrong); kindOf(err) != core.Upstream || !strings.Contains(err.Error(), "another certificate") {
		t.Error("wrong pin:", err)
	}
	ca, _ := os.ReadFile(filepath.Join(e.Folder, caFile))
	_, real, err := parseCA(ca)
	if err != nil {
		t.Fatal(err)
	}
	other, err := openCA(t.TempDir(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	forged, _ := other.certificate()
	selfSigned := func(name string) *tls.Certificate {
		key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		like := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
		raw, err := x509.CreateCertificate(rand.Reader, like, like, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		return &tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}
	}
	alone := selfSigned(serverName)
	for _, evil := range []struct {
		what  string
		chain [][]byte
		key   any
	}{
		{"another CA's certificate and the real CA beside it", [][]byte{forged.Certificate[0], real.Raw}, forged.PrivateKey},
		{"and the other CA as well", [][]byte{forged.Certificate[0], other.cert.Raw, real.Raw}, forged.PrivateKey},
		{"one signed by itself", [][]byte{alone.Certificate[0], real.Raw}, alone.PrivateKey},
		{"the CA's certificate itself", [][]byte{real.Raw}, forged.PrivateKey},
	} {
		if err := handshake(t, e.Pin(), &tls.Certificate{Certificate: evil.chain, PrivateKey: evil.key}); err == nil {
			t.Error("taken:", evil.what)
		}
	}
	// A certificate of the real CA for another name is not the edge's.
	key, cert, _ := parseCA(ca)
	leafKey, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	raw, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: []string{"other"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, cert, &leafKey.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	if err := handshake(t, e.Pin(), &tls.Certificate{Certificate: [][]byte{raw, cert.Raw}, PrivateKey: leafKey}); err == nil {
		t.Error("a certificate for another name was taken")
	}
	// The real one is taken, also with others beside it, and by a clock that is far off.
	a := &authority{clock: func() time.Time { return time.Unix(0, 0) }, key: key, cert: cert}
	leaf, err := a.certificate()
	if err != nil {
		t.Fatal(err)
	}
	leaf.Certificate = [][]byte{leaf.Certificate[0], other.cert.Raw, forged.Certificate[0], cert.Raw}
	if err := handshake(t, e.Pin(), leaf); err != nil {
		t.Error("the real edge was refused:", err)
	}
}

// handshake lets a node meet a server with a certificate.
func handshake(t *testing.T, pin string, cert *tls.Certificate) error {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_ = tls.Server(c, &tls.Config{Certificates: []tls.Certificate{*cert}}).Handshake()
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	return tls.Client(c, clientConfig(pin)).Handshake()
}

// TestStrangers: plain NATS, garbage, silence and TLS below 1.3 get nothing and hurt
// nobody.
func TestStrangers(t *testing.T) {
	e := openEdge(t)
	l, c := e.join(t, "box")
	open := func() net.Conn {
		s, err := net.Dial("tcp", e.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		_ = s.SetDeadline(time.Now().Add(8 * time.Second))
		return s
	}
	ended := func(s net.Conn) string { b, _ := io.ReadAll(s); return string(b) }

	plain := open()
	key, _ := nkeys.FromSeed([]byte(c.Seed.Reveal()))
	public, _ := key.PublicKey()
	line, err := bufio.NewReader(plain).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "INFO ") {
		t.Fatal(line, err)
	}
	var info map[string]any
	if err := json.Unmarshal([]byte(line[5:]), &info); err != nil || info["tls_required"] != true || info["nonce"] == nil || info["connect_urls"] != nil {
		t.Error(line)
	}
	sig, _ := key.Sign([]byte(info["nonce"].(string)))
	fmt.Fprintf(plain, "CONNECT {\"nkey\":%q,\"sig\":%q,\"auth_token\":\"not-to-be-logged\"}\r\nPING\r\n", public, base64.RawURLEncoding.EncodeToString(sig))
	if said := ended(plain); strings.Contains(said, "PONG") {
		t.Error("plain TCP was let in:", said)
	}
	garbage := open()
	junk := make([]byte, 64<<10)
	_, _ = rand.Read(junk)
	_, _ = garbage.Write(junk)
	ended(garbage)

	old := tls.Client(after(t, open()), &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12})
	if err := old.Handshake(); err == nil {
		t.Error("TLS 1.2 was let in")
	}
	silent := tls.Client(after(t, open()), &tls.Config{InsecureSkipVerify: true})
	if err := silent.Handshake(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(silent, "SUB hw.v1.j.box.> 1\r\n") // before a CONNECT
	if said := ended(silent); !strings.Contains(said, "-ERR") && said != "" {
		t.Error(said)
	}
	forged := tls.Client(after(t, open()), &tls.Config{InsecureSkipVerify: true})
	if err := forged.Handshake(); err != nil {
		t.Fatal(err)
	}
	// Somebody else's key with a signature of another nonce.
	fmt.Fprintf(forged, "CONNECT {\"nkey\":%q,\"sig\":%q}\r\nPING\r\n", public, base64.RawURLEncoding.EncodeToString(sig))
	if said := ended(forged); !strings.Contains(said, "Authorization Violation") {
		t.Error(said)
	}
	// The names of the edge's own connections mean nothing out here.
	inside := tls.Client(after(t, open()), &tls.Config{InsecureSkipVerify: true})
	fmt.Fprintf(inside, "CONNECT {\"user\":\"edge\",\"pass\":\"\"}\r\nPING\r\n")
	if said := ended(inside); !strings.Contains(said, "Authorization Violation") {
		t.Error(said)
	}
	var heard atomic.Int64
	if _, err := e.Subscribe("hw.v1.n.box.>", func(_, _ string, _ []byte) { heard.Add(1) }); err != nil {
		t.Fatal(err)
	}
	until(t, "the node goes on", func() bool { _ = l.Publish("hw.v1.n.box.beat", nil); return heard.Load() > 0 })
	if strings.Contains(e.log.String(), "not-to-be-logged") {
		t.Error("a token is in the log")
	}
	if got := e.happened.String(); got != "+box 1" {
		t.Error(got)
	}
}

// after reads the line that the server begins with.
func after(t *testing.T, c net.Conn) net.Conn {
	t.Helper()
	one := make([]byte, 1)
	for one[0] != '\n' {
		if _, err := c.Read(one); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// TestSecondConnect: a node cannot come in again on the connection that it has.
func TestSecondConnect(t *testing.T) {
	e := openEdge(t)
	c := e.invite(t, "box")
	s := speak(t, c)
	say(t, s, "CONNECT {\"user\":\"x\"}\r\n")
	if said, _ := io.ReadAll(s); !strings.Contains(string(said), "Authorization Violation") {
		t.Error(string(said))
	}
	until(t, "left", func() bool { return e.happened.String() == "+box 1, -box 1" })
}

// TestMalformed: what is not NATS ends the connection, and its text is not logged.
func TestMalformed(t *testing.T) {
	e := openEdge(t)
	for i, line := range []string{"PUB hw.v1.n.box.f not-a-number the-prompt-of-somebody\r\n", "the-prompt-of-somebody\r\n", "PUB hw.v1.n.box.f 5\r\nthe-prompt-of-somebody\r\n",
		"PUB hw.v1.n.box.f 99999999\r\nthe-prompt-of-somebody\r\n", "CONNECT the-prompt-of-somebody\r\n", "CONNECT {\"auth_token\":the-prompt-of-somebody\r\n", "INFO {the-prompt-of-somebody}\r\n"} {
		s := speak(t, e.invite(t, fmt.Sprintf("box-%d", i)))
		say(t, s, line)
		if _, err := io.ReadAll(s); err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%q went through", line)
		}
	}
	until(t, "all left", func() bool { return strings.Count(e.happened.String(), "-box") == 7 })
	if strings.Contains(e.log.String(), "the-prompt-of-somebody") {
		t.Error("what was sent is in the log:\n", e.log)
	}
}

// TestOpen: a mistake leaves nothing open, and Open may be called again.
func TestOpen(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	e := newEdge(t, t.TempDir())
	e.Listen = taken.Addr().String()
	if e.Addr() != "" || e.Publish("x", nil) == nil {
		t.Error("open before Open")
	}
	e.Disconnect("box")
	var fault *core.Error
	if err := e.Open(); !errors.As(err, &fault) || !strings.Contains(fault.Msg, e.Listen) || !strings.Contains(fault.Hint, "nats.listen") || !strings.Contains(fault.Msg, "in use") {
		t.Fatal(err)
	}
	until(t, "nothing is left", func() bool { return runtime.NumGoroutine() <= before })
	for _, bad := range []string{"", "nonsense", "127.0.0.1:99999", "127.0.0.1:http2", "localhost"} {
		s := New(e.Options)
		s.Listen = bad
		if err := s.Open(); kindOf(err) != core.Invalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
	_ = taken.Close()
	if err := e.Open(); err != nil {
		t.Fatal(err)
	}
	if err := e.Open(); err != nil {
		t.Fatal("a second Open:", err)
	}
	e.join(t, "box")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := e.Open(); kindOf(err) != core.Unavailable {
		t.Error("open after Close:", err)
	}
}

// TestRestart: the CA stays with the folder, so that nodes know the edge again; a
// damaged one is told of.
func TestRestart(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "nats")
	one := newEdge(t, folder)
	if err := one.Open(); err != nil {
		t.Fatal(err)
	}
	l, c := one.join(t, "box")
	pin := one.Pin()
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	<-l.Done()
	for name, mode := range map[string]os.FileMode{folder: 0o700, filepath.Join(folder, caFile): 0o600} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != mode {
			t.Error(name, info.Mode(), err)
		}
	}
	two := newEdge(t, folder)
	two.desk = one.desk
	two.Admit = one.desk.admit
	if err := two.Open(); err != nil {
		t.Fatal(err)
	}
	if two.Pin() != pin {
		t.Error("another CA")
	}
	c.Address = two.Addr()
	dial(t, c)

	ca := filepath.Join(folder, caFile)
	good, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	another, err := newCA(time.Now)
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(good), "-----BEGIN PRIVATE")
	for what, text := range map[string]string{"empty": "", "cut": string(good[:len(good)/2]), "flipped": strings.Replace(string(good), "M", "N", 3),
		"key of another": string(good[:at]) + string(another[strings.Index(string(another), "-----BEGIN PRIVATE"):]), "no key": string(good[:at])} {
		if err := os.WriteFile(ca, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		three := New(one.Options)
		three.Folder = folder
		var fault *core.Error
		if err := three.Open(); !errors.As(err, &fault) || !strings.Contains(fault.Msg, ca) || fault.Hint == "" || strings.Contains(fault.Msg, "PRIVATE") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestClose ends everything: sessions are told of, nothing is left running.
func TestClose(t *testing.T) {
	before := runtime.NumGoroutine()
	e := openEdge(t)
	var links []core.Link
	for i := range 10 {
		l, _ := e.join(t, fmt.Sprintf("box-%d", i))
		if _, err := l.Subscribe(fmt.Sprintf("hw.v1.j.box-%d.>", i), func(_, _ string, _ []byte) {}); err != nil {
			t.Fatal(err)
		}
		links = append(links, l)
	}
	if _, err := e.Subscribe("hw.v1.n.>", func(_, _ string, _ []byte) {}); err != nil {
		t.Fatal(err)
	}
	from := time.Now()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	took := time.Since(from)
	t.Logf("closed with ten nodes in %v", took)
	if took > time.Second {
		t.Error("too slow")
	}
	if n := strings.Count(e.happened.String(), "-box"); n != 10 {
		t.Error("told of", n, e.happened)
	}
	for _, l := range links {
		<-l.Done()
		l.Close()
	}
	until(t, "all goroutines have ended", func() bool { return runtime.NumGoroutine() <= before })
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// TestCloseWithStuckPeers: neither end waits long for another that reads nothing.
func TestCloseWithStuckPeers(t *testing.T) {
	e := openEdge(t)
	p := newProxy(t, e.Addr())
	c := e.invite(t, "box")
	c.Address = p.addr()
	l := dial(t, c)
	p.freeze()
	full := make(chan struct{})
	go func() { // until the sockets take no more
		defer close(full)
		for l.Publish("hw.v1.n.box.f", make([]byte, 1<<20)) == nil {
		}
	}()
	time.Sleep(200 * time.Millisecond)
	from := time.Now()
	l.Close()
	<-full
	if took := time.Since(from); took > 2500*time.Millisecond {
		t.Error("the node's close took", took)
	}
	c2 := e.invite(t, "box2")
	p2 := newProxy(t, e.Addr())
	c2.Address = p2.addr()
	l2 := dial(t, c2)
	if _, err := l2.Subscribe("hw.v1.j.box2.>", func(_, _ string, _ []byte) {}); err != nil {
		t.Fatal(err)
	}
	p2.freeze()
	for range 40 {
		_ = e.Publish("hw.v1.j.box2.f", make([]byte, 1<<20))
	}
	from = time.Now()
	_ = e.Close() // may say that one has not ended
	if took := time.Since(from); took > 2500*time.Millisecond {
		t.Error("the edge's close took", took)
	}
	p2.cut()
}

// TestCloseWhileAdmitting: a desk that hangs does not keep Close, and the node is not
// told that it is refused.
func TestCloseWhileAdmitting(t *testing.T) {
	e := openEdge(t)
	c := e.invite(t, "box")
	hang := make(chan struct{})
	e.desk.set(func() { e.desk.slow = hang })
	came := make(chan error, 1)
	go func() {
		_, err := Dial(t.Context(), c)
		came <- err
	}()
	until(t, "it is being admitted", func() bool {
		g := e.gate.Load()
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.entering) > 0
	})
	from := time.Now()
	if err := e.Close(); kindOf(err) != core.Timeout {
		t.Error(err)
	}
	if took := time.Since(from); took > 3*closeWithin {
		t.Error("closed after", took)
	}
	close(hang)
	if err := <-came; kindOf(err) != core.Upstream {
		t.Error(err)
	}
	if got := e.happened.String(); got != "" {
		t.Error(got)
	}
}

// TestDialGivesUp: neither an address that nobody answers on nor a server that says
// nothing keeps a node for long, and the context ends it at once.
func TestDialGivesUp(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	c, err := NewCredential(Join{Name: "box", Address: mute.Addr().String(), Pin: strings.Repeat("ab", 32), Token: core.NewSecret("t")})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	from := time.Now()
	if _, err := Dial(ctx, c); kindOf(err) != core.Timeout {
		t.Error(err)
	}
	if took := time.Since(from); took > time.Second {
		t.Error("after", took)
	}
	_ = mute.Close()
	if _, err := Dial(t.Context(), c); kindOf(err) != core.Upstream || !strings.Contains(err.Error(), "refused") {
		t.Error(err)
	}
}

// speak connects as a node does, but lets the test say anything afterwards.
func speak(t *testing.T, c Credential) *tls.Conn {
	t.Helper()
	tcp, err := net.Dial("tcp", c.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tcp.Close() })
	_ = tcp.SetDeadline(time.Now().Add(10 * time.Second))
	line := readLine(t, tcp)
	var info struct{ Nonce string }
	if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "INFO ")), &info); err != nil {
		t.Fatal(line, err)
	}
	s := tls.Client(tcp, clientConfig(c.Pin))
	key, err := nkeys.FromSeed([]byte(c.Seed.Reveal()))
	if err != nil {
		t.Fatal(err)
	}
	public, _ := key.PublicKey()
	sig, _ := key.Sign([]byte(info.Nonce))
	say(t, s, fmt.Sprintf(`CONNECT {"nkey":%q,"sig":%q,"auth_token":%q,"verbose":false,"headers":true,"no_responders":true}`+"\r\nPING\r\n",
		public, base64.RawURLEncoding.EncodeToString(sig), c.Token.Reveal()))
	if line := readLine(t, s); line != "PONG" {
		t.Fatal(line)
	}
	return s
}

func say(t *testing.T, c net.Conn, line string) {
	t.Helper()
	if _, err := io.WriteString(c, line); err != nil {
		t.Fatal(err)
	}
}

// readLine reads no more than a line.
func readLine(t *testing.T, c net.Conn) string {
	t.Helper()
	var line []byte
	for one := make([]byte, 1); one[0] != '\n'; line = append(line, one[0]) {
		if _, err := c.Read(one); err != nil {
			t.Fatal(err)
		}
	}
	return strings.TrimSpace(string(line))
}

// proxy stands between a node and the edge, on TCP.
type proxy struct {
	l      net.Listener
	to     string
	mu     sync.Mutex
	conns  []net.Conn
	frozen chan struct{} // closed: nothing is passed on any more
}

func newProxy(t testing.TB, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{l: l, to: to, frozen: make(chan struct{})}
	go p.serve()
	t.Cleanup(func() { _ = l.Close(); p.cut() })
	return p
}

func (p *proxy) addr() string { return p.l.Addr().String() }

func (p *proxy) serve() {
	for {
		a, err := p.l.Accept()
		if err != nil {
			return
		}
		b, err := net.Dial("tcp", p.to)
		if err != nil {
			_ = a.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, a, b)
		p.mu.Unlock()
		go p.pass(a, b)
		go p.pass(b, a)
	}
}

func (p *proxy) pass(from, to net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		select {
		case <-p.frozen:
			return // neither reads nor writes nor closes
		default:
		}
		if err != nil {
			_ = to.Close()
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			_ = from.Close()
			return
		}
	}
}

func (p *proxy) freeze() { close(p.frozen) }

// cut closes what passes now.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	}
	p.conns = nil
}
