package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"headway/core"
)

// script is all that one answer does, with times that count from the arrival of
// the request.
type script struct {
	status int
	header http.Header
	head   time.Duration // when status and headers are sent
	length int           // of the body in bytes; -1: a stream
	steps  int
	step   func(i int) (time.Duration, []byte) // when, and what of the body
	end    time.Duration                       // when the body ends
	broken bool                                // and the connection with it
}

// largestBody is the largest request that Anthropic takes.
const largestBody = 32 << 20

// Handler serves the provider in real time. clock is the one that the timers of
// the standard library follow, time.Now outside of tests. Every event is flushed
// at its time; a client that leaves ends the call at once.
func (p *Provider) Handler(clock core.Clock) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := clock()
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, largestBody))
		var large *http.MaxBytesError
		var s script
		if err != nil && !errors.As(err, &large) { // broken, or the client left and nobody reads this
			s = refuse(wireOf(r), core.Errorf(core.Invalid, "the body could not be read"))
		} else {
			s = p.script(r, body, large != nil, start)
		}
		until := func(at time.Duration) bool { return wait(r.Context(), start.Add(at).Sub(clock())) }
		if !until(s.head) {
			return
		}
		for name, values := range s.header {
			w.Header()[name] = values
		}
		if s.length >= 0 {
			w.Header().Set("Content-Length", strconv.Itoa(s.length))
		}
		w.WriteHeader(s.status)
		out := http.NewResponseController(w)
		if s.length < 0 && out.Flush() != nil {
			return
		}
		for i := range s.steps {
			at, data := s.step(i)
			if !until(at) {
				return
			}
			if _, err := w.Write(data); err != nil || out.Flush() != nil {
				return
			}
		}
		if until(s.end) && s.broken {
			panic(http.ErrAbortHandler) // net/http's way to break a connection
		}
	})
}

// wait waits for d; false: ctx ended.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Transport plays the provider on a simulated clock, without waiting: RoundTrip
// moves clock on to the time of the headers, and each Read of the body to the
// time of the one event that it returns. A gateway whose core.Clock is clock.Now
// then measures exact figures. It is for one call at a time: calls that overlap
// would each move the clock for the other.
func (p *Provider) Transport(clock *Clock) http.RoundTripper { return transport{p, clock} }

type transport struct {
	p     *Provider
	clock *Clock
}

// RoundTrip answers as Handler does.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	var err error
	if r.Body != nil {
		body, err = io.ReadAll(io.LimitReader(r.Body, largestBody+1))
		r.Body.Close()
	}
	if err != nil {
		return nil, err
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	start := t.clock.Now()
	s := t.p.script(r, body, len(body) > largestBody, start)
	t.clock.AdvanceTo(start.Add(s.head))
	return &http.Response{
		Status: fmt.Sprintf("%d %s", s.status, http.StatusText(s.status)), StatusCode: s.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: s.header, ContentLength: int64(s.length), Request: r,
		Body: &simulatedBody{ctx: r.Context(), clock: t.clock, start: start, script: s},
	}, nil
}

// simulatedBody reads a script.
type simulatedBody struct {
	ctx    context.Context
	clock  *Clock
	start  time.Time
	script script
	next   int
	rest   bytes.Reader // of the event that the last Read did not have room for
	closed bool
}

// Read returns one event, or what is left of one.
func (b *simulatedBody) Read(into []byte) (int, error) {
	switch {
	case b.closed:
		return 0, http.ErrBodyReadAfterClose
	case b.ctx.Err() != nil:
		return 0, b.ctx.Err()
	case len(into) == 0:
		return 0, nil
	case b.rest.Len() > 0:
		return b.rest.Read(into)
	case b.next < b.script.steps:
		at, data := b.script.step(b.next)
		b.next++
		b.clock.AdvanceTo(b.start.Add(at))
		b.rest.Reset(data)
		return b.rest.Read(into)
	}
	b.clock.AdvanceTo(b.start.Add(b.script.end))
	if b.script.broken {
		return 0, io.ErrUnexpectedEOF
	}
	return 0, io.EOF
}

// Close ends the answer; the clock stays where it is.
func (b *simulatedBody) Close() error {
	b.closed = true
	return nil
}
