package gateway

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strconv"
	"time"

	"headway/core"
	"headway/core/market"
	"headway/core/relay"
)

// try is one attempt with what the rest of the call needs to know of it.
type try struct {
	core.Attempt
	pick     *market.Pick
	line     core.Timeline
	conn     *connection
	result   core.Answer
	foreign  bool     // the provider speaks another format than the client
	dropped  []string // what of the request it did not get
	inFlight int64    // other calls at the offer at dispatch
	streamed bool     // the answer came as a stream to a call that asked for one
	events   int64
	texts    int64
	arrivals int64

	cut        bool             // the client did not get the end of a complete answer
	next       bool             // nothing was sent, another offer may answer
	node       *core.NodeTiming // a node's own figures; nil: it gave none
	busy       bool             // the upstream asked for fewer calls
	tooLong    bool             // the prompt was too long for this offer
	retryAfter core.Opt[time.Duration]
	err        *core.Error // what the client is owed, if nothing else answers
	pass       *passed     // the upstream's own answer, to go back as it is
}

// passed is an upstream's answer that goes back to the client as it is.
type passed struct {
	header http.Header
	body   []byte
}

// answer is the error that the client is still owed.
func (t *try) answer() error {
	if t.err == nil {
		return nil
	}
	return t.err
}

// attempt is one try of the call at one offer: dispatch (t1), headers (t2), then
// the answer (t3 to t6). more tells whether another offer is left.
// The offer's place is given back by release, whatever happens.
func (c *call) attempt(pick *market.Pick, req *request, release func(), more bool) (t *try) {
	defer release()
	defer req.cancel(nil)
	t = &try{pick: pick, inFlight: pick.Entry.State.InFlight() - 1, line: core.Timeline{T0: c.t0}, conn: req.conn,
		foreign: req.foreign, dropped: req.dropped}
	c.tries = append(c.tries, t)
	t.Offer, t.Node = pick.Offer.ID, pick.Offer.Provider.Node
	defer func() {
		if v := recover(); v != nil {
			c.crashed(t, v)
		}
	}()
	g, lim := c.g, &c.setup.Settings.Limits

	ctx := req.ctx
	if req.err != nil {
		return c.failed(t, c.unmade(t, req.err), req.err)
	}
	transport, err := g.Dialer.RoundTripper(pick.Offer.Provider)
	if err != nil {
		return c.failed(t, verdict{word: "address", counts: false, next: true}, err)
	}

	t.line.T1 = g.Clock()
	if req.node != nil {
		req.node.Admission = t.line.T1.Sub(c.t0)
	}
	limit, cause := lim.HeaderTimeout, relay.ErrHeaders
	first := c.firstOutputLimit(pick, more)
	if first > 0 && first < limit {
		limit, cause = first, relay.ErrFirstOutput
	}
	watch := relay.NewWatch(g.Clock, req.cancel, t.line.T1, limit, cause)
	defer watch.Stop()
	began := t.line.T1 // since when the model server has the call
	if req.node != nil {
		req.node.Placed = func(waits bool) {
			switch {
			case !waits:
				began = g.Clock()
				watch.Fix(began.Add(limit), cause)
			case first > 0:
				watch.Fix(t.line.T1.Add(first), relay.ErrLine)
			default: // a busy node is no slow one: its line takes as long as it takes
				watch.Fix(time.Time{}, nil)
			}
		}
	}

	resp, err := transport.RoundTrip(req.Request)
	for again := 0; err != nil && again < mostStale && ctx.Err() == nil && t.conn.stale(g.Clock().Sub(t.line.T1)) && rewind(req.Request); again++ {
		t.line.T1 = g.Clock()
		resp, err = transport.RoundTrip(req.Request)
	}
	if err != nil {
		t.line.T6 = g.Clock()
		return c.broke(ctx, t, err)
	}
	body := resp.Body
	defer func() {
		_ = body.Close()
		if t.Node != "" { // the figures come behind the answer
			t.node = nodeTiming(resp.Trailer)
		}
	}()
	t.line.T2 = g.Clock()
	t.Status = resp.StatusCode
	if first > 0 {
		watch.Fix(began.Add(first), relay.ErrFirstOutput)
	} else {
		watch.Fix(time.Time{}, nil)
	}
	reader := req.side.Reader(c.job, pick.Offer)
	if req.foreign {
		reader = c.translate(reader, pick.Offer)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		watch.Idle(t.line.T2, min(lim.StreamIdle, errorBodyTime))
		return c.refusedBy(ctx, t, resp, reader)
	}
	watch.Idle(t.line.T2, lim.StreamIdle)
	if err := decode(resp); err != nil {
		t.line.T6 = g.Clock()
		if context.Cause(ctx) != nil {
			return c.broke(ctx, t, err)
		}
		return c.failed(t, verdict{word: "encoding", counts: true, next: true}, err)
	}
	if c.job.Streamed && isEvents(resp, reader.Split()) {
		return c.stream(ctx, t, resp, reader, watch)
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{alive{resp.Body, watch, g.Clock}, body}
	if c.job.Streamed && streams(resp) {
		return c.stream(ctx, t, resp, reader, watch)
	}
	return c.whole(ctx, t, resp, reader)
}

// alive tells the watch of each read.
type alive struct {
	io.Reader
	watch *relay.Watch
	clock core.Clock
}

func (a alive) Read(p []byte) (int, error) {
	n, err := a.Reader.Read(p)
	if n > 0 {
		a.watch.Alive(a.clock())
	}
	return n, err
}

// crashed closes an attempt that panicked. No other offer is tried, as the same
// fault would wait there, and the provider is not blamed.
func (c *call) crashed(t *try, v any) {
	t.Outcome, t.Error, t.next = core.Failed, "internal", false
	e := c.logPanic(v)
	if !c.sent {
		t.err = e
		return
	}
	if c.job.Streamed && !c.complete {
		sink := c.sink(t, &http.Response{StatusCode: c.status})
		_ = sink.Write(c.writer.ErrorEvent(e), c.g.Clock())
		_ = sink.Flush()
	}
}

// firstOutputLimit is the time limit of SPEC §6, 0 for none: it needs a complete
// prediction and another offer, and holds only while nothing has been sent.
func (c *call) firstOutputLimit(p *market.Pick, more bool) time.Duration {
	predicted := p.Prediction.FirstOutput()
	if !c.job.Streamed || !more || !predicted.OK {
		return 0
	}
	lim := &c.setup.Settings.Limits
	return max(lim.FirstOutputMin, time.Duration(predicted.V*lim.FirstOutputFactor*float64(time.Millisecond)))
}

// isEvents tells whether an answer says that it is a stream of events.
func isEvents(resp *http.Response, split core.Splitting) bool {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch split {
	case core.SplitLines:
		return kind == "application/x-ndjson"
	case core.SplitAWS:
		return kind == "application/vnd.amazon.eventstream"
	}
	return kind == "text/event-stream"
}

// streams tells whether an answer comes as a stream though it does not say so:
// some servers name no type, or a wrong one. Its first byte tells.
func streams(resp *http.Response) bool {
	b := bufio.NewReaderSize(resp.Body, 4<<10)
	resp.Body = struct {
		io.Reader
		io.Closer
	}{b, resp.Body}
	for n := 1; ; n++ {
		head, err := b.Peek(n)
		if err != nil {
			return false
		}
		switch head[n-1] {
		case ' ', '\t', '\r', '\n':
			if n == 4<<10 {
				return false
			}
		case '{', '<':
			return false
		default: // a field of an event, a comment, or Google's array
			return true
		}
	}
}

// stream relays a streamed answer.
func (c *call) stream(ctx context.Context, t *try, resp *http.Response, reader core.Reader, watch *relay.Watch) *try {
	lim := &c.setup.Settings.Limits
	var s struct { // one piece of memory: each event touches all
		pump  relay.Pump
		split relay.Splitter
		sink  sink
	}
	s.split.Begin(reader.Split(), int(lim.Event))
	defer s.split.Release()
	s.sink = c.sink(t, resp)
	s.pump = relay.Pump{Body: resp.Body, Split: &s.split, Reader: reader, Sink: &s.sink, Clock: c.g.Clock, Watch: watch, Hold: lim.Hold,
		Withhold: !c.job.AskedUsage && !t.foreign, Line: &t.line, Clean: func(b []byte) []byte { return []byte(hide(string(b), t.pick.Offer.Provider)) }}
	if foreign, ok := reader.(*translated); ok {
		s.pump.Tail = foreign.End
	}
	if c.hold != nil {
		s.pump.Over = c.hold.Ended
	}
	note := func() {
		t.result, t.streamed = reader.Answer(), true
		t.events, t.texts, t.arrivals = s.pump.Counts()
	}
	if c.setup.Settings.Receipts == core.ReceiptsStrict {
		s.pump.Settle = func() error {
			note()
			t.Outcome = core.Settled
			return c.settle(t, resp)
		}
	}
	end := s.pump.Run(ctx)
	c.complete = end.Outcome == core.Settled && end.Err == nil
	note()
	return c.ended(ctx, t, end, &s.sink)
}

// ended is the end of a streamed attempt.
func (c *call) ended(ctx context.Context, t *try, end relay.End, sink *sink) *try {
	if end.Outcome == core.Settled {
		t.Outcome = core.Settled
		if t.cut = end.Err != nil; t.cut {
			return t
		}
		if !end.Sent { // a stream of nothing but its finish
			sink.begin()
		}
		return t
	}
	if end.Outcome == core.ClientGone && stopping(ctx) {
		end.Outcome, end.Err = core.Failed, ErrStopping
	}
	t = c.failed(t, streamVerdict(t, end), end.Err)
	t.Outcome = end.Outcome
	if gone := t.Outcome == core.ClientGone || t.Outcome == core.ClientStalled; gone || end.Sent {
		t.next = false
		if end.Untold && !gone {
			c.hold.Ended()
			_ = sink.Write(c.writer.ErrorEvent(t.err), c.g.Clock())
			_ = sink.Flush()
		}
		t.err = nil // it has been told, or nobody is there to tell
	}
	return t
}

// broke is the end of an attempt that got no response.
func (c *call) broke(ctx context.Context, t *try, err error) *try {
	cause := context.Cause(ctx)
	switch {
	case cause == relay.ErrLine:
		t = c.failed(t, verdict{word: "queue_timeout", next: true, kind: core.Busy}, cause)
	case relay.TimeLimit(cause):
		t = c.failed(t, timeVerdict(cause), cause)
		t.Outcome = core.TimedOut
	case stopping(ctx):
		t = c.failed(t, verdict{word: "stopping"}, ErrStopping)
	case cause != nil:
		t.Outcome, t.Error = core.ClientGone, "client_gone"
	default:
		t = c.failed(t, brokenVerdict(t, err), err)
	}
	return t
}

// failed closes an attempt: the breaker is told, and what the client would be
// told is kept.
func (c *call) failed(t *try, v verdict, err error) *try {
	now := c.g.Clock()
	t.Outcome, t.Error, t.next, t.busy, t.tooLong = core.Failed, v.word, v.next, v.kind == core.Busy, v.tooLong
	state, account, breaker := t.pick.Entry.State, t.pick.Entry.Account, c.setup.Settings.Breaker
	switch {
	case v.auth:
		account.Refuse()
	case v.quota:
		account.Exhaust(now, t.retryAfter)
	case v.wait && t.retryAfter.OK:
		state.RetryAfter(now, t.retryAfter.V, breaker)
	case v.counts:
		state.Fail(now, breaker)
	}
	t.err = v.tell(t, err)
	return t
}

// verdict is what a failure means (SPEC §9).
type verdict struct {
	word    string // for the attempt's record
	next    bool   // another offer may answer
	counts  bool   // the breaker counts it
	auth    bool   // the provider's credential was refused
	quota   bool   // its quota is used up
	wait    bool   // a readable Retry-After takes the offer out and is not counted
	tooLong bool
	kind    core.Kind // of what the client is told; Internal: Upstream
	why     string    // what more there is to say, safe to show
}

// tell is the client's word for a failure. The upstream's own text is in it, as
// the caller alone sees it, but not where it may speak of the credential.
func (v verdict) tell(t *try, err error) *core.Error {
	kind := v.kind
	if kind == core.Internal {
		kind = core.Upstream
	}
	e := core.Errorf(kind, "%s: %s", t.Offer, v.say(t))
	e.Err = err
	e.RetryAfter = t.retryAfter.V
	if up := t.result.Err; up != nil && !v.auth {
		e.Code = hide(up.Type, t.pick.Offer.Provider)
		if up.Message != "" {
			e.Msg += ": " + hide(up.Message, t.pick.Offer.Provider)
		}
	}
	if v.tooLong {
		e.Code = "context_length_exceeded"
	}
	return e
}

// unmade is the verdict on a request that the provider's settings do not let be
// made. Only whoever runs Headway can mend that, so the log says how.
func (c *call) unmade(t *try, err error) verdict {
	v := verdict{word: "build", next: true}
	var e *core.Error
	if !errors.As(err, &e) {
		return v
	}
	v.word, v.why = cmp.Or(e.Code, v.word), e.Msg
	c.g.Log.LogAttrs(context.Background(), slog.LevelWarn, "the call could not be made", slog.String("id", string(c.id)),
		slog.String("offer", string(t.Offer)), slog.String("error", e.Msg), slog.String("hint", e.Hint))
	return v
}

func (v verdict) say(t *try) string {
	switch v.word {
	case "connect":
		return "the upstream could not be reached or broke the connection"
	case "dns":
		return "the upstream's name has no address"
	case "refused":
		return "nothing listens at the upstream's address"
	case "tls":
		return "no secure connection to the upstream could be made"
	case "address":
		return "the upstream's address may not be called"
	case "status":
		return "the upstream answered " + strconv.Itoa(t.Status)
	case "auth":
		return "the upstream refused Headway's credential"
	case "quota":
		return "the provider's quota is used up"
	case "redirect":
		return "the upstream answered with a redirect, which is not followed"
	case "header_timeout", "first_output_timeout", "stream_idle":
		return "a time limit ran out (" + v.word + ")"
	case "bad_answer":
		return "the upstream's answer is not one of its format"
	case "encoding":
		return "the upstream compressed its answer in a way that is not read"
	case "no_output":
		return "the stream ended before any output"
	case "cut":
		return "the stream ended before it was complete"
	case "event_too_large":
		return "an event of the stream is larger than limits.event_mib allows"
	case "stream_error":
		return "the upstream reported an error"
	case "prompt_too_long":
		return "the prompt is too long for it"
	case "stopping":
		return "the server is stopping"
	case core.NodeGone:
		return "its machine is gone or does not answer"
	case core.NodeBusy:
		return "its machine has no free slot, and no more calls may wait there"
	case "queue_timeout":
		return "its machine had no free slot in time"
	case core.NodeStopping:
		return "its machine is stopping"
	case core.NodeRefused:
		return "its machine does not take the call"
	case core.NodeGap:
		return "a part of the answer was lost on the way from its machine"
	case core.NodeFault:
		return "its machine broke the protocol"
	case core.NodeTooSlow:
		return "its machine gave up, as the answer was not taken in time"
	}
	if v.why != "" {
		return "the call could not be made: " + v.why
	}
	return "the call could not be made"
}
