// Package bus is the embedded NATS server of an edge, who may connect to it, and a
// node's connection to one (core/fleet/FLEET.md §1).
package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"headway/core"
)

// The limits of the server and of connections to it.
const (
	// maxPayload is the longest message: a piece of a body is at most a quarter of it.
	maxPayload = 1 << 20
	// maxPending is what may wait to be written to one connection; what goes over it is
	// cut off. Credits allow 1.25 MiB of bodies for each call that a node takes, so this
	// is fifty calls with long bodies on a slow line.
	maxPending = 64 << 20
	// writeWithin is how long one write may take, with all that waited when it began: a
	// node on a line of 20 Mbit/s takes in 24 MB in it. That a node is dead is noticed by
	// its heartbeats, long before.
	writeWithin = 10 * time.Second
	// pingEvery keeps the connection alive in the tables of routers and finds a dead one
	// where nobody beats.
	pingEvery = 15 * time.Second
	// connectWithin bounds each step of a node's way in: dial, TLS, its first message.
	connectWithin = 5 * time.Second
	// maxConnections bounds what strangers can keep open, for connectWithin each.
	maxConnections = 1024
	// maxSubscriptions is of one connection. The edge has a few for each node.
	maxSubscriptions = 8192
	// pendingBytes is what one subscription may hold that its handler has not taken.
	pendingBytes = 64 << 20
	// closeWithin is how long Close waits for connections that do not take their last
	// bytes.
	closeWithin = 1500 * time.Millisecond
)

// Options are what a Server is made of.
type Options struct {
	Folder string // keeps the CA and its key, mode 0700; made where it is missing
	Listen string // host:port; port 0 takes a free one
	Clock  core.Clock
	Log    *slog.Logger
	// Admit tells whose an NKey's public half is; token is what it presented beside it,
	// "" for none. It may write to a disk, and may be called concurrently. The error's
	// text goes to the log alone. One of kind Unavailable, Internal, Timeout or Busy says
	// that it cannot be told now: the node is not refused and comes again.
	Admit func(public, token string) (core.NodeID, error)
	// Joined and Left tell of each session of a node, Left after Joined, from one
	// goroutine. Nothing of a session is read before Joined has returned.
	Joined func(node core.NodeID, session uint64)
	Left   func(node core.NodeID, session uint64)
}

// Server is the NATS server. It does nothing and listens nowhere before Open.
// It is the edge's core.Bus.
type Server struct {
	Options
	bus  atomic.Pointer[conn] // the edge's own connection; nil while the server is not open
	gate atomic.Pointer[gate] // nil while the server is not open
	addr atomic.Pointer[string]
	pin  atomic.Pointer[string]

	mu     sync.Mutex // over Open and Close
	closed bool
}

// New makes a server.
func New(o Options) *Server { return &Server{Options: o} }

// Open starts the server and listens; once it has, it does nothing. Where it fails
// nothing is left open, and it may be called again.
func (s *Server) Open() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return core.Errorf(core.Unavailable, "the bus is closed")
	case s.gate.Load() != nil:
		return nil
	}
	host, port, err := splitListen(s.Listen)
	if err != nil {
		return err
	}
	ca, err := openCA(s.Folder, s.Clock)
	if err != nil {
		return err
	}
	g := newGate(s.Options)
	words := &serverLog{log: s.Log, limit: g.limit, node: g.nodeOf}
	ns, err := server.NewServer(s.natsOptions(host, port, ca, g))
	if err != nil {
		return &core.Error{Kind: core.Internal, Msg: "the bus cannot be made", Err: err}
	}
	ns.SetLoggerV2(words, s.Log.Enabled(context.Background(), slog.LevelDebug), false, false)
	ns.Start()
	address, listening := ns.Addr().(*net.TCPAddr)
	if !listening || address == nil {
		ns.Shutdown()
		return &core.Error{Kind: core.Internal, Msg: fmt.Sprintf("listen %s: %s", s.Listen, reason(words.fatal())),
			Hint: "set another address with nats.listen in the file"}
	}
	if err := s.connect(ns, g); err != nil {
		_ = s.shutdown(g)
		return &core.Error{Kind: core.Internal, Msg: "the bus does not answer", Err: err}
	}
	text, pin := net.JoinHostPort(host, strconv.Itoa(address.Port)), ca.pin()
	s.addr.Store(&text)
	s.pin.Store(&pin)
	s.gate.Store(g)
	close(g.ready)
	return nil
}

// connect makes the edge's own connections, in the process: the bus, and one that is
// told of connections that end.
func (s *Server) connect(ns *server.Server, g *gate) error {
	g.server, g.system = ns, ns.SystemAccount()
	events, err := g.dial(userEvents, nats.ReconnectHandler(func(nc *nats.Conn) {
		_ = nc.FlushTimeout(connectWithin) // it hears again; what it missed before is swept
		g.sweep()
	}))
	if err != nil {
		return err
	}
	g.events = events
	if _, err := events.Subscribe("$SYS.ACCOUNT.*.DISCONNECT", g.ended); err != nil {
		return err
	}
	if err := events.FlushTimeout(connectWithin); err != nil {
		return err
	}
	own, err := g.dial(userEdge, nats.CustomInboxPrefix(edgeInbox), nats.ErrorHandler(g.dropped),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				s.Log.Error("the edge's own connection to the bus ended: it is made again", "reason", err)
			}
		}))
	if err != nil {
		return err
	}
	g.own = own
	c := &conn{nc: own, mayAnswer: repliesHome, rejected: g.rejected}
	g.run()
	s.bus.Store(c)
	return nil
}

// natsOptions are the server's settings: what is not named is off by its defaults.
func (s *Server) natsOptions(host string, port int, ca *authority, g *gate) *server.Options {
	if port == 0 {
		port = server.RANDOM_PORT
	}
	o := &server.Options{
		ServerName: serverName, Host: host, Port: port,
		NoSigs:                     true, // signals are main's
		CustomClientAuthentication: g,
		AlwaysEnableNonce:          true, // what an NKey signs
		TLSConfig:                  ca.serverConfig(),
		TLSTimeout:                 connectWithin.Seconds(),
		AuthTimeout:                connectWithin.Seconds(),
		MaxPayload:                 maxPayload,
		MaxPending:                 maxPending,
		MaxConn:                    maxConnections,
		MaxSubs:                    maxSubscriptions,
		MaxClosedClients:           1, // what monitoring would show: there is none
		PingInterval:               pingEvery,
		MaxPingsOut:                2,
		WriteDeadline:              writeWithin,
		// Where three quarters of MaxPending wait, whoever publishes is slowed down, by some
		// ms for each read; without that the server would drop messages untold.
		NoFastProducerStall: false,
	}
	o.Cluster.NoAdvertise = true // this machine's addresses are nobody's business
	return o
}

func splitListen(listen string) (host string, port int, err error) {
	bad := func(why string) error {
		return &core.Error{Kind: core.Invalid, Param: "nats.listen", Msg: fmt.Sprintf("nats.listen: %q %s", listen, why), Hint: "write host:port, such as 127.0.0.1:4222"}
	}
	host, number, err := net.SplitHostPort(listen)
	if err != nil {
		return "", 0, bad("is not host:port")
	}
	port, err = strconv.Atoi(number)
	if err != nil || port < 0 || port > math.MaxUint16 {
		return "", 0, bad("has no port of 0 to 65535")
	}
	if host == "" {
		host = "0.0.0.0"
	}
	return host, port, nil
}

// reason is the system's own word of why an address cannot be had.
func reason(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	if err == nil {
		return errors.New("it does not listen")
	}
	return err
}

// Addr is the host:port that it listens on; "" before Open.
func (s *Server) Addr() string { return text(s.addr.Load()) }

// Pin is the SHA-256 of the CA certificate, in hex; "" before Open.
func (s *Server) Pin() string { return text(s.pin.Load()) }

func text(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

// Disconnect ends every session of a node, at once. One that is about to be
// admitted is asked for again.
func (s *Server) Disconnect(node core.NodeID) {
	g := s.gate.Load()
	if g == nil {
		return
	}
	for _, cid := range g.kick(node) {
		_ = g.server.DisconnectClientByID(cid) // an error says that it has ended already
	}
}

// Close ends all sessions and the server; it is not opened again. An error says that
// connections had not taken their last bytes in time: they end a little later.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if g := s.gate.Swap(nil); g != nil {
		return s.shutdown(g)
	}
	return nil
}

// shutdown ends what Open started, wherever it had got to.
func (s *Server) shutdown(g *gate) error {
	g.stop()
	if c := s.bus.Swap(nil); c != nil {
		c.nc.Close()
	}
	if g.events != nil {
		g.events.Close()
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g.server.Shutdown()
	}()
	late := time.NewTimer(closeWithin)
	defer late.Stop()
	var err error
	select {
	case <-ended:
	case <-late.C:
		err = core.Errorf(core.Timeout, "the bus: connections have not ended within %v", closeWithin)
	}
	g.finish()
	return err
}

func errNotOpen() error { return core.Errorf(core.Unavailable, "the bus is not open") }

// Publish is core.Bus's.
func (s *Server) Publish(subject string, data []byte) error {
	c := s.bus.Load()
	if c == nil {
		return errNotOpen()
	}
	return c.Publish(subject, data)
}

// Subscribe is core.Bus's; it is in force when it returns. A node's message whose reply
// subject is not of that node arrives without one.
func (s *Server) Subscribe(subject string, handle func(subject, reply string, data []byte)) (core.Subscription, error) {
	c := s.bus.Load()
	if c == nil {
		return nil, errNotOpen()
	}
	sub, err := c.Subscribe(subject, handle)
	if err != nil {
		return nil, err
	}
	if err := c.nc.FlushTimeout(connectWithin); err != nil {
		sub.Stop()
		return nil, publishError(err)
	}
	return sub, nil
}

// Request is core.Bus's.
func (s *Server) Request(ctx context.Context, subject string, data []byte) ([]byte, error) {
	c := s.bus.Load()
	if c == nil {
		return nil, errNotOpen()
	}
	return c.Request(ctx, subject, data)
}

// MaxPayload is core.Bus's.
func (s *Server) MaxPayload() int { return maxPayload }

var _ core.Bus = (*Server)(nil)
