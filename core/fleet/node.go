package fleet

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"headway/core"
)

// Upstream is a model server of this machine, as it was configured.
type Upstream struct {
	Name   string      // "" for the first
	URL    string      // its root, without a slash at the end and without /v1
	Format core.Format // "": found out
	APIKey core.Secret
	Slots  core.Opt[int64] // absent: what the server says, else 1 of an Ollama and 8 of others
	Queue  core.Opt[int64] // absent: usualQueue
	// Offers are what is known of its models beside what it says. One whose Model is
	// "*" is what those have that are not named.
	Offers []core.NodeModel
	// Fixed: only those models are there that Offers name, and the server is not asked
	// for them.
	Fixed bool
}

// NodeParts are what a node works with.
type NodeParts struct {
	Clock     core.Clock
	Log       *slog.Logger
	Name      core.NodeID
	Version   string
	Formats   []core.ProviderSide // that read what the servers answer
	Upstreams []Upstream
	Vault     core.Vault // keeps the figures of calls that the edge has not taken
	// Dial begins a session. An error of kind Forbidden is final: the edge does not
	// know this node, or not any more.
	Dial func(context.Context) (core.Link, error)
	// Transport calls the model servers.
	Transport http.RoundTripper
	// Up, where not nil, is called whenever the edge has taken what the node serves.
	Up func(models int)
}

const (
	firstPoll = time.Second // how long the first hello waits for what the servers say
	dialTime  = 15 * time.Second
	leastWait = 100 * time.Millisecond // between two dials
	mostWait  = time.Second
	// oustedWait is the wait behind a session that a newer one has thrown out.
	oustedWait = 2 * time.Second
	// stopTime is how long jobs under way may go on once the node is to stop.
	stopTime = 10 * time.Second
)

// Node serves the model servers of one machine to an edge.
type Node struct {
	NodeParts
	servers []*modelServer
	spool   *spool
	change  chan struct{} // of one: what a server is or has is another than was told
	buffers sync.Pool     // *[]byte: room for a header and joinedBytes
}

// NewNode makes a node; Run runs it.
func NewNode(p NodeParts) *Node {
	n := &Node{NodeParts: p, change: make(chan struct{}, 1)}
	n.spool = newSpool(&n.NodeParts)
	n.buffers.New = func() any { b := make([]byte, headerBytes+joinedBytes); return &b }
	return n
}

// Run keeps a session with the edge until ctx ends, then lets no more jobs in and
// gives those under way 10 s to end. The error is final: the edge has refused the
// node, or an upstream's address is none.
func (n *Node) Run(ctx context.Context) error {
	for _, u := range n.Upstreams {
		m, err := newModelServer(u, &n.NodeParts)
		if err != nil {
			return err
		}
		n.servers = append(n.servers, m)
	}
	// What a session needs goes on until the last job has ended.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	var work sync.WaitGroup
	defer work.Wait()
	defer end()
	var polled sync.WaitGroup
	for _, m := range n.servers {
		polled.Add(1)
		work.Go(func() { m.watch(life, polled.Done, n.changed) })
	}
	work.Go(func() { n.spool.run(life) })
	known := make(chan struct{})
	work.Go(func() { polled.Wait(); close(known) })
	timer := time.NewTimer(firstPoll)
	defer timer.Stop()
	select {
	case <-known:
	case <-timer.C:
	case <-ctx.Done():
	}
	return n.sessions(ctx)
}

// changed says that the edge is to be told anew what there is.
func (n *Node) changed() {
	select {
	case n.change <- struct{}{}:
	default:
	}
}

// server is the model server of a name.
func (n *Node) server(name string) *modelServer {
	for _, m := range n.servers {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// side reads what a server of a format answers; nil: nothing does.
func (n *Node) side(f core.Format) core.ProviderSide {
	for _, s := range n.Formats {
		if s.Format() == f.Wire() {
			return s
		}
	}
	return nil
}

// sessions dials, and again whenever a session has ended, until ctx does.
func (n *Node) sessions(ctx context.Context) error {
	wait, away := leastWait, "" // why it cannot be reached, as it was logged last
	for ctx.Err() == nil {
		dial, cancel := context.WithTimeout(ctx, dialTime)
		link, err := n.Dial(dial)
		cancel()
		var e *core.Error
		switch {
		case errors.As(err, &e) && e.Kind == core.Forbidden:
			return err
		case err == nil:
			s := newNodeSession(ctx, n, link)
			if s.run(ctx) {
				wait, away = leastWait, ""
			}
			if s.ousted.Load() { // whoever has the key too would be thrown out at once, and so on
				wait = oustedWait
			}
		case ctx.Err() == nil && away != dialWord(err):
			away = dialWord(err)
			n.Log.Warn("the edge cannot be reached; it is dialled until it can", "error", err)
		}
		sleep(ctx, wait+rand.N(wait))
		wait = min(2*wait, mostWait/2)
	}
	return nil
}

// dialWord is why the edge cannot be reached without what differs from one dial to the
// next, such as a port.
func dialWord(err error) string {
	if known := (*core.Error)(nil); errors.As(err, &known) {
		return known.Msg
	}
	return "it cannot be reached"
}

// sleep waits for a time or for the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
