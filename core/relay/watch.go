package relay

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"headway/core"
)

// The causes that a Watch ends an attempt with.
var (
	ErrHeaders     = errors.New("no response headers within limits.header_timeout")
	ErrFirstOutput = errors.New("no output within the first-output limit")
	ErrIdle        = errors.New("the stream was silent for limits.stream_idle")
	// ErrLine is no limit of a provider's: the call waited too long for a node's slot
	// while another offer was left.
	ErrLine = errors.New("no free slot within the first-output limit")
)

// TimeLimit tells whether err is one of a Watch's causes.
func TimeLimit(err error) bool { return err == ErrHeaders || err == ErrFirstOutput || err == ErrIdle }

// Watch ends an attempt, by cancelling its context with a cause, when a time
// limit runs out. It has one timer for all limits and does not touch it for
// each event: a limit that moves on is found out when the timer fires.
type Watch struct {
	clock  core.Clock
	cancel context.CancelCauseFunc

	mu    sync.Mutex // guards all below
	alive *pulse     // idle counts from its last beat
	fixed time.Time  // a limit that does not move, zero for none
	cause error      // of fixed
	idle  time.Duration
	armed time.Time // when the timer fires
	timer *time.Timer
	done  bool
}

// NewWatch starts with one fixed limit.
func NewWatch(clock core.Clock, cancel context.CancelCauseFunc, now time.Time, limit time.Duration, cause error) *Watch {
	w := &Watch{clock: clock, cancel: cancel, alive: &pulse{since: now}, fixed: now.Add(limit), cause: cause}
	w.armed = w.fixed
	w.timer = time.AfterFunc(limit, w.fire)
	return w
}

// Fix replaces the fixed limit; a zero time is none.
func (w *Watch) Fix(until time.Time, cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fixed, w.cause = until, cause
	w.arm()
}

// Idle sets the longest silence from now on, 0 for none.
func (w *Watch) Idle(now time.Time, longest time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Alive(now)
	w.idle = longest
	w.arm()
}

// Alive says that something came.
func (w *Watch) Alive(now time.Time) { w.alive.beat(now) }

// follow makes another pulse the one that counts, from its first beat now.
func (w *Watch) follow(p *pulse, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.since = now
	w.alive = p
}

// pulse is when something last came.
type pulse struct {
	since time.Time
	after atomic.Int64 // ns since then
}

func (p *pulse) beat(now time.Time) { p.after.Store(int64(now.Sub(p.since))) }

func (p *pulse) last() time.Time { return p.since.Add(time.Duration(p.after.Load())) }

// Stop ends the watch.
func (w *Watch) Stop() {
	w.mu.Lock()
	w.done = true
	w.mu.Unlock()
	w.timer.Stop()
}

// due is when the first limit runs out, zero for never.
func (w *Watch) due() (time.Time, error) {
	at, cause := w.fixed, w.cause
	if w.idle > 0 {
		if end := w.alive.last().Add(w.idle); at.IsZero() || end.Before(at) {
			at, cause = end, ErrIdle
		}
	}
	return at, cause
}

// arm moves the timer forward where a limit now ends before it fires.
func (w *Watch) arm() {
	at, _ := w.due()
	if w.done || at.IsZero() || !w.armed.IsZero() && !at.Before(w.armed) {
		return
	}
	w.armed = at
	w.timer.Reset(at.Sub(w.clock()))
}

func (w *Watch) fire() {
	w.mu.Lock()
	at, cause := w.due()
	left := at.Sub(w.clock())
	switch {
	case w.done:
	case at.IsZero():
		w.armed = time.Time{}
	case left > 0:
		w.armed = at
		w.timer.Reset(left)
	default:
		w.done = true
		defer w.cancel(cause)
	}
	w.mu.Unlock()
}
