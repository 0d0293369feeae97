package fleet

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"headway/core"
)

// memBus is a bus in memory: the edge's side is the memBus itself, each node's is a
// memLink that Join makes. Each subscription has a goroutine of its own that handles
// its messages one after the other, as the real one's has; what one side publishes
// reaches each subscription in its order, and order between subscriptions is not
// promised. A link may publish and subscribe only what FLEET.md §1 allows it.
//
// Hook sees each message before it is delivered: it may drop it (what it returns
// says so), delay it (later messages to the same subscriptions wait behind it), or
// block, which is a connection that takes no more: Publish waits. Cut ends a session
// as a lost connection does: what was not handled yet is gone.
//
// It uses no clock but the runtime's, so that it works in testing/synctest too.
// Close ends every goroutine of it and waits for them.
type memBus struct {
	max int

	mu     sync.Mutex
	hook   func(memMessage) memFate
	subs   []*memSub
	links  []*memLink
	inbox  int
	closed bool
	run    sync.WaitGroup
}

// memMessage is what a hook sees. From is the node that sent it, "" for the edge.
type memMessage struct {
	From    core.NodeID
	Subject string
	Reply   string
	Data    []byte // not the hook's to keep or to change
}

// memFate is what becomes of a message.
type memFate struct {
	Drop  bool
	Delay time.Duration
}

// errors of a memBus.
var (
	errMemClosed       = errors.New("the session has ended")
	errMemPermission   = errors.New("permissions violation")
	errMemTooLarge     = errors.New("maximum payload exceeded")
	errMemNoResponders = errors.New("no responders available for request")
)

// newMemBus makes a bus whose messages hold 1 MiB; the test's end closes it.
func newMemBus(t testing.TB) *memBus {
	b := &memBus{max: 1 << 20}
	t.Cleanup(b.Close)
	return b
}

// Hook sets what sees each message; nil: nothing does. It is called without locks,
// in the goroutine that publishes.
func (b *memBus) Hook(f func(memMessage) memFate) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hook = f
}

// Join begins a session of a node.
func (b *memBus) Join(node core.NodeID) *memLink {
	l := &memLink{bus: b, node: node, done: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.links = append(b.links, l)
	return l
}

// Disconnect cuts every session of a node, as the edge's server does.
func (b *memBus) Disconnect(node core.NodeID) {
	b.mu.Lock()
	var cut []*memLink
	for _, l := range b.links {
		if l.node == node {
			cut = append(cut, l)
		}
	}
	b.mu.Unlock()
	for _, l := range cut {
		l.Cut()
	}
}

// Close ends everything. It must not be called by a handler.
func (b *memBus) Close() {
	b.mu.Lock()
	b.closed = true
	links, subs := b.links, b.subs
	b.mu.Unlock()
	for _, l := range links {
		l.Cut()
	}
	for _, s := range subs {
		s.Stop()
	}
	b.run.Wait()
}

func (b *memBus) MaxPayload() int { return b.max }

func (b *memBus) Publish(subject string, data []byte) error {
	_, err := b.send(nil, subject, "", data)
	return err
}

func (b *memBus) Subscribe(subject string, handle func(subject, reply string, data []byte)) (core.Subscription, error) {
	return b.subscribe(nil, subject, handle)
}

func (b *memBus) Request(ctx context.Context, subject string, data []byte) ([]byte, error) {
	return b.request(ctx, nil, "_INBOX", subject, data)
}

// send gives a message to the subscriptions of its subject and tells how many those are.
func (b *memBus) send(from *memLink, subject, reply string, data []byte) (int, error) {
	if len(data) > b.max {
		return 0, errMemTooLarge
	}
	b.mu.Lock()
	hook, gone := b.hook, b.closed
	b.mu.Unlock()
	if gone || from.gone() {
		return 0, errMemClosed
	}
	m := memMessage{Subject: subject, Reply: reply, Data: data}
	if from != nil {
		m.From = from.node
	}
	var fate memFate
	if hook != nil {
		fate = hook(m)
	}
	var due time.Time
	if fate.Delay > 0 {
		due = time.Now().Add(fate.Delay)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if from.gone() {
		return 0, errMemClosed
	}
	n := 0
	for _, s := range b.subs {
		if s.link.gone() || !matches(s.subject, subject) {
			continue
		}
		n++
		if !fate.Drop {
			s.push(memSent{subject: subject, reply: reply, data: append([]byte(nil), data...), due: due})
		}
	}
	return n, nil
}

func (b *memBus) request(ctx context.Context, from *memLink, inbox, subject string, data []byte) ([]byte, error) {
	b.mu.Lock()
	b.inbox++
	reply := inbox + "." + string(streamText(b.inbox))
	b.mu.Unlock()
	answer := make(chan []byte, 1)
	sub, err := b.subscribe(from, reply, func(_, _ string, data []byte) {
		select {
		case answer <- data:
		default:
		}
	})
	if err != nil {
		return nil, err
	}
	defer sub.Stop()
	n, err := b.send(from, subject, reply, data)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, errMemNoResponders
	}
	var done <-chan struct{}
	if from != nil {
		done = from.done
	}
	select {
	case data := <-answer:
		return data, nil
	case <-done:
		return nil, errMemClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func streamText(n int) []byte { b, _ := streamID(n).MarshalText(); return b }

func (b *memBus) subscribe(from *memLink, subject string, handle func(subject, reply string, data []byte)) (core.Subscription, error) {
	s := &memSub{bus: b, link: from, subject: subject, wake: make(chan struct{}, 1), stop: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || from.gone() {
		return nil, errMemClosed
	}
	b.subs = append(b.subs, s)
	b.run.Add(1)
	go s.loop(handle)
	return s, nil
}

// matches tells whether a subject is one that a subscription asked for.
func matches(pattern, subject string) bool {
	p, s := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, part := range p {
		if part == ">" {
			return len(s) > i
		}
		if i >= len(s) || part != "*" && part != s[i] {
			return false
		}
	}
	return len(p) == len(s)
}

// memSub is one subscription.
type memSub struct {
	bus     *memBus
	link    *memLink // nil: the edge's
	subject string
	wake    chan struct{}
	stop    chan struct{}
	once    sync.Once

	mu    sync.Mutex
	queue []memSent
}

type memSent struct {
	subject, reply string
	data           []byte
	due            time.Time // zero: now
}

func (s *memSub) push(m memSent) {
	s.mu.Lock()
	s.queue = append(s.queue, m)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *memSub) pop() (m memSent, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return m, false
	}
	m = s.queue[0]
	s.queue = s.queue[1:]
	return m, true
}

func (s *memSub) loop(handle func(subject, reply string, data []byte)) {
	defer s.bus.run.Done()
	ended := s.link.ended()
	for {
		m, ok := s.pop()
		if !ok {
			select {
			case <-s.wake:
				continue
			case <-s.stop:
				return
			case <-ended:
				return
			}
		}
		if !m.due.IsZero() {
			if d := time.Until(m.due); d > 0 {
				timer := time.NewTimer(d)
				select {
				case <-timer.C:
				case <-s.stop:
				case <-ended:
				}
				timer.Stop()
			}
		}
		select {
		case <-s.stop:
			return
		case <-ended:
			return
		default:
			handle(m.subject, m.reply, m.data)
		}
	}
}

// Stop ends the subscription. A message that is being handled may still be.
func (s *memSub) Stop() {
	s.once.Do(func() { close(s.stop) })
	s.bus.mu.Lock()
	defer s.bus.mu.Unlock()
	for i, o := range s.bus.subs {
		if o == s {
			s.bus.subs = append(s.bus.subs[:i:i], s.bus.subs[i+1:]...)
			return
		}
	}
}

// memLink is a node's side of one session: a core.Link.
type memLink struct {
	bus  *memBus
	node core.NodeID
	done chan struct{}
	once sync.Once
	lost atomic.Bool
}

// gone tells whether the session has ended; the edge's side, nil, never has.
func (l *memLink) gone() bool {
	if l == nil {
		return false
	}
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

func (l *memLink) ended() <-chan struct{} {
	if l == nil {
		return nil
	}
	return l.done
}

// Lose is what a publisher finds of a lost connection before Cut tells the session.
func (l *memLink) Lose() { l.lost.Store(true) }

// Cut ends the session as a lost connection does.
func (l *memLink) Cut() { l.once.Do(func() { close(l.done) }) }

func (l *memLink) Close()                { l.Cut() }
func (l *memLink) Done() <-chan struct{} { return l.done }
func (l *memLink) MaxPayload() int       { return l.bus.max }

func (l *memLink) Publish(subject string, data []byte) error {
	if !strings.HasPrefix(subject, "hw.v1.n."+string(l.node)+".") {
		return errMemPermission
	}
	if l.lost.Load() {
		return errMemClosed
	}
	_, err := l.bus.send(l, subject, "", data)
	return err
}

func (l *memLink) Subscribe(subject string, handle func(subject, reply string, data []byte)) (core.Subscription, error) {
	if !strings.HasPrefix(subject, "hw.v1.j."+string(l.node)+".") {
		return nil, errMemPermission
	}
	return l.bus.subscribe(l, subject, handle)
}

func (l *memLink) Request(ctx context.Context, subject string, data []byte) ([]byte, error) {
	if !strings.HasPrefix(subject, "hw.v1.n."+string(l.node)+".") {
		return nil, errMemPermission
	}
	return l.bus.request(ctx, l, "hw.v1.j."+string(l.node)+".r", subject, data)
}

// TestMemBus holds the bus of the other tests to what they take from it.
func TestMemBus(t *testing.T) {
	b := newMemBus(t)
	n1, n2 := b.Join("one"), b.Join("two")
	if _, err := n1.Request(t.Context(), "hw.v1.n.one.hello", nil); !errors.Is(err, errMemNoResponders) {
		t.Fatalf("a request that nobody hears: %v", err)
	}
	if err := n1.Publish("hw.v1.n.two.f", nil); !errors.Is(err, errMemPermission) {
		t.Fatalf("another node's subject: %v", err)
	}
	if _, err := n1.Subscribe("hw.v1.j.>", nil); !errors.Is(err, errMemPermission) {
		t.Fatalf("every node's jobs: %v", err)
	}
	got := make(chan string, 100)
	hello, err := b.Subscribe("hw.v1.n.*.hello", func(subject, reply string, data []byte) {
		if err := b.Publish(reply, append([]byte("to "), data...)); err != nil {
			t.Errorf("answer: %v", err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := n2.Request(t.Context(), "hw.v1.n.two.hello", []byte("me"))
	if err != nil || string(answer) != "to me" {
		t.Fatalf("answer %q, %v", answer, err)
	}
	if _, err := n1.Subscribe("hw.v1.j.one.>", func(_, _ string, data []byte) { got <- string(data) }); err != nil {
		t.Fatal(err)
	}
	b.Hook(func(m memMessage) memFate {
		return memFate{Drop: string(m.Data) == "b", Delay: map[string]time.Duration{"a": 20 * time.Millisecond}[string(m.Data)]}
	})
	for _, s := range []string{"a", "b", "c"} {
		if err := b.Publish("hw.v1.j.one.f", []byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	if a, c := <-got, <-got; a != "a" || c != "c" {
		t.Fatalf("got %q then %q", a, c)
	}
	hello.Stop()
	b.Disconnect("one")
	<-n1.Done()
	if err := n1.Publish("hw.v1.n.one.f", nil); !errors.Is(err, errMemClosed) {
		t.Fatalf("after the end: %v", err)
	}
	if n2.gone() {
		t.Fatal("the other node's session has ended too")
	}
}
