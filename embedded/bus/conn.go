package bus

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"headway/core"
)

// The beginnings of the subjects of FLEET.md §1.
const (
	nodePrefix = "hw.v1.n." // from nodes; the next part is the node's name
	jobPrefix  = "hw.v1.j." // to nodes
	edgeInbox  = "hw.v1.e.r"

	oustedSubject = ".ousted" // the last part of the subject that says that a newer connection came
)

// conn is one end of the bus: the edge's, or a node's.
type conn struct {
	nc *nats.Conn
	// mayAnswer tells whether a reply subject is the sender's own; nil: all are.
	mayAnswer func(subject, reply string) bool
	rejected  func(subject, reply string)
}

// Publish is core.Bus's.
func (c *conn) Publish(subject string, data []byte) error {
	return publishError(c.nc.Publish(subject, data))
}

func publishError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, nats.ErrMaxPayload):
		return core.Errorf(core.TooLarge, "a message of the bus is longer than %d bytes", maxPayload)
	}
	return &core.Error{Kind: core.Unavailable, Msg: "the connection to the bus has ended", Err: err}
}

// Subscribe is core.Bus's.
func (c *conn) Subscribe(subject string, handle func(subject, reply string, data []byte)) (core.Subscription, error) {
	s := &subscription{}
	sub, err := c.nc.Subscribe(subject, func(m *nats.Msg) {
		if !s.state.CompareAndSwap(idle, busy) {
			return // it was stopped
		}
		reply := m.Reply
		if reply != "" && c.mayAnswer != nil && !c.mayAnswer(m.Subject, reply) {
			c.rejected(m.Subject, reply)
			reply = ""
		}
		handle(m.Subject, reply, m.Data)
		s.state.CompareAndSwap(busy, idle)
	})
	if err != nil {
		return nil, publishError(err)
	}
	if err := sub.SetPendingLimits(-1, pendingBytes); err != nil {
		return nil, publishError(err) // it has ended
	}
	s.sub = sub
	return s, nil
}

// What a subscription is at.
const (
	idle int32 = iota
	busy
	stopped
)

type subscription struct {
	sub   *nats.Subscription
	state atomic.Int32
}

// Stop ends it: no message is handled that was not being handled already.
func (s *subscription) Stop() {
	s.state.Store(stopped)
	_ = s.sub.Unsubscribe() // an error says that the connection has ended
}

// Request is core.Bus's. Unavailable: nobody listens to the subject, or the connection
// has ended.
func (c *conn) Request(ctx context.Context, subject string, data []byte) ([]byte, error) {
	m, err := c.nc.RequestWithContext(ctx, subject, data)
	switch {
	case err == nil:
		return m.Data, nil
	case errors.Is(err, nats.ErrNoResponders):
		return nil, &core.Error{Kind: core.Unavailable, Msg: "nobody listens to " + subject, Err: err}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return nil, &core.Error{Kind: core.Timeout, Msg: "no answer from " + subject + " in time", Err: err}
	case errors.Is(err, context.Canceled):
		return nil, &core.Error{Kind: core.Canceled, Msg: "the wait for an answer from " + subject + " was given up", Err: err}
	}
	return nil, publishError(err)
}

// MaxPayload is core.Bus's.
func (c *conn) MaxPayload() int { return maxPayload }

// repliesHome tells whether a reply subject is of the node that sent the message, so
// that a node cannot have the edge's answers sent to another.
func repliesHome(subject, reply string) bool {
	rest, ok := strings.CutPrefix(subject, nodePrefix)
	if !ok {
		return true // nodes may publish nothing else
	}
	node, _, _ := strings.Cut(rest, ".")
	rest, ok = strings.CutPrefix(reply, jobPrefix)
	return ok && strings.HasPrefix(rest, node+".")
}
