package bus

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"headway/core"
)

// Dial begins a session. Forbidden: the edge refused the node. Any other error may
// pass; so may one that says that another server than the edge answered, as whoever
// can answer in the edge's place could else end a node for good.
func Dial(ctx context.Context, c Credential) (core.Link, error) {
	key, err := nkeys.FromSeed([]byte(c.Seed.Reveal()))
	if err != nil {
		return nil, &core.Error{Kind: core.Internal, Msg: "the node's key cannot be used", Err: err}
	}
	public, err := key.PublicKey()
	if err != nil {
		return nil, &core.Error{Kind: core.Internal, Msg: "the node's key cannot be used", Err: err}
	}
	d := &dialer{ctx: ctx, address: c.Address, config: clientConfig(c.Pin)}
	giveUp := context.AfterFunc(ctx, d.close)
	ended := make(chan struct{})
	nc, err := nats.Connect("tls://"+serverName, nats.SetCustomDialer(d), nats.SkipHostLookup(), nats.Secure(d.config),
		nats.Nkey(public, key.Sign), nats.Token(c.Token.Reveal()), nats.Name(string(c.Name)),
		nats.CustomInboxPrefix(jobPrefix+string(c.Name)+".r"), nats.IgnoreDiscoveredServers(),
		nats.NoReconnect(), nats.ReconnectOnFlusherError(), nats.Timeout(connectWithin), nats.FlusherTimeout(writeWithin),
		nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(2),
		nats.ErrorHandler(slow), // the default writes to stderr
		nats.ClosedHandler(func(*nats.Conn) { close(ended) }))
	if err != nil {
		giveUp()
		return nil, d.explain(err)
	}
	if !giveUp() {
		nc.Close()
		return nil, d.explain(ctx.Err())
	}
	return &link{conn{nc: nc}, d, ended}, nil
}

// slow ends a session of which messages were dropped because what takes them is too
// slow: nobody here could be told otherwise.
func slow(nc *nats.Conn, _ *nats.Subscription, err error) {
	if errors.Is(err, nats.ErrSlowConsumer) {
		nc.Close()
	}
}

// dialer dials the edge's address, whatever it is asked for, and keeps what it made.
type dialer struct {
	ctx     context.Context
	address string
	config  *tls.Config

	mu  sync.Mutex
	raw net.Conn
	err error
}

// Dial is nats.CustomDialer's.
func (d *dialer) Dial(string, string) (net.Conn, error) {
	raw, err := (&net.Dialer{Timeout: connectWithin}).DialContext(d.ctx, "tcp", d.address)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.raw, d.err = raw, err
	return raw, err
}

// close ends what was made, at once.
func (d *dialer) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.raw != nil {
		_ = d.raw.Close()
	}
}

// explain says why there is no session.
func (d *dialer) explain(err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case errors.Is(d.ctx.Err(), context.Canceled):
		return &core.Error{Kind: core.Canceled, Msg: "the way to the edge was given up", Err: d.ctx.Err()}
	case d.ctx.Err() != nil:
		return &core.Error{Kind: core.Timeout, Msg: "the edge at " + d.address + " did not answer in time", Err: d.ctx.Err()}
	case d.err != nil:
		return &core.Error{Kind: core.Upstream, Msg: "the edge at " + d.address + " cannot be reached: " + reason(d.err).Error(),
			Hint: "see that it runs, that nats.listen there is an address that this machine can reach, and that no firewall is between", Err: d.err}
	case errors.Is(err, errPin):
		return &core.Error{Kind: core.Upstream, Msg: "the server at " + d.address + " is not the edge that this node joined: it has another certificate",
			Hint: "see that the address is the edge's; where the edge was set up anew, make a new join string there with `headway nodes enrol NAME`", Err: err}
	case errors.Is(err, nats.ErrAuthorization):
		return &core.Error{Kind: core.Forbidden, Msg: "the edge has refused this node",
			Hint: "the join string was used or is older than 10 minutes, or the node was revoked: make a new one on the edge with `headway nodes enrol NAME`", Err: err}
	}
	return &core.Error{Kind: core.Upstream, Msg: "the edge at " + d.address + " does not answer as one", Err: err}
}

// link is a node's end of a session.
type link struct {
	conn
	dialer *dialer
	ended  chan struct{}
}

// Done is core.Link's.
func (l *link) Done() <-chan struct{} { return l.ended }

// Close ends the session. What was published goes out before, where the edge takes it
// in time.
func (l *link) Close() {
	late := time.AfterFunc(closeWithin, l.dialer.close)
	defer late.Stop()
	l.nc.Close()
	<-l.ended
}

var _ core.Link = (*link)(nil)
