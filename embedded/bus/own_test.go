package bus

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

// own is the server's number of one of the edge's own connections.
func own(t *testing.T, e *edge, user string) uint64 {
	t.Helper()
	all, err := e.gate.Load().server.Connz(&server.ConnzOptions{Username: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all.Conns {
		if c.Name == user {
			return c.Cid
		}
	}
	return 0
}

// TestOwnConnection: the edge's own connection is made again, with its subscriptions.
func TestOwnConnection(t *testing.T) {
	e := openEdge(t)
	l, _ := e.join(t, "box")
	var heard atomic.Int64
	if _, err := e.Subscribe("hw.v1.n.box.>", func(_, _ string, _ []byte) { heard.Add(1) }); err != nil {
		t.Fatal(err)
	}
	until(t, "it hears", func() bool { _ = l.Publish("hw.v1.n.box.beat", nil); return heard.Load() > 0 })
	before := own(t, e, userEdge)
	if err := e.gate.Load().server.DisconnectClientByID(before); err != nil {
		t.Fatal(err)
	}
	until(t, "it is another", func() bool { cid := own(t, e, userEdge); return cid != 0 && cid != before })
	n := heard.Load()
	until(t, "it hears again", func() bool { _ = l.Publish("hw.v1.n.box.beat", nil); return heard.Load() > n })
	until(t, "it speaks again", func() bool { return e.Publish("hw.v1.j.box.beat", nil) == nil })
	until(t, "the log tells", func() bool { return strings.Contains(e.log.String(), "it is made again") })
	if got := e.happened.String(); got != "+box 1" {
		t.Error(got)
	}
}

// TestUntold: what ended while nobody could be told is found out.
func TestUntold(t *testing.T) {
	e := openEdge(t)
	l, _ := e.join(t, "box")
	stays, _ := e.join(t, "stays")
	g := e.gate.Load()
	events := own(t, e, userEvents)
	cid := uint64(0)
	g.mu.Lock()
	for c, s := range g.sessions {
		if s.node == "box" {
			cid = c
		}
	}
	g.mu.Unlock()
	if err := g.server.DisconnectClientByID(events); err != nil {
		t.Fatal(err)
	}
	if err := g.server.DisconnectClientByID(cid); err != nil {
		t.Fatal(err)
	}
	<-l.Done()
	until(t, "left", func() bool { return e.happened.String() == "+box 1, +stays 2, -box 1" })
	until(t, "events come again", func() bool { cid := own(t, e, userEvents); return cid != 0 && cid != events })
	stays.Close()
	until(t, "left", func() bool { return strings.HasSuffix(e.happened.String(), "-stays 2") })
}
