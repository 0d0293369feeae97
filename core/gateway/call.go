package gateway

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"headway/core"
	"headway/core/market"
)

// mostOffers is how many offers one call may try (SPEC §9).
const mostOffers = 3

// call is one client request and its answer.
type call struct {
	g     *Gateway
	setup *Setup
	http.ResponseWriter
	r       *http.Request
	adapter core.Adapter
	forced  *Forced

	id     core.CallID
	t0     time.Time
	timing core.Timing // the local phases
	head   core.RequestHead
	facts  facts
	key    *core.Key
	job    *core.Job
	writer core.Writer
	choice *market.Choice
	tries  []try
	opened bool // an intent is written: a receipt is owed
	status int  // what the client got
	sent   bool
}

// Forced is a call of Headway's own: to one offer, of a kind, without a key.
type Forced struct {
	Offer core.OfferID
	Kind  core.CallKind
}

// call serves one model call, from t0 to t7.
func (g *Gateway) call(w http.ResponseWriter, r *http.Request, a core.Adapter, forced *Forced) {
	t0 := g.Clock()
	c := &call{g: g, setup: g.Setup(), ResponseWriter: w, r: r, adapter: a, forced: forced, id: core.NewCallID(t0), t0: t0,
		head: core.RequestHead{Path: r.URL.Path, Query: r.URL.Query(), Header: r.Header}}
	g.open.Add(1)
	defer g.open.Add(-1)
	if err := c.run(); err != nil {
		c.reply(err)
		if !c.opened { // a refused call leaves a log line and a counter, no receipt
			c.logRefused(err)
		}
	}
}

// run is the path of a call (ARCHITECTURE §4). An error is the answer that the
// client is owed; nil: it has been answered.
func (c *call) run() (err error) {
	if err := c.admit(); err != nil {
		return err
	}
	body, err := c.readBody()
	if err != nil {
		return err
	}
	if c.job, err = c.adapter.Parse(c.head, body); err != nil {
		return err
	}
	c.writer = c.adapter.Writer(c.job)
	if err := c.choose(); err != nil {
		return err
	}
	defer func() {
		if c.opened {
			c.finish(recover(), &err)
		}
	}()
	for i := range c.choice.Picks {
		pick := &c.choice.Picks[i]
		if len(c.tries) == mostOffers {
			break
		}
		if !c.larger(pick) {
			continue
		}
		release, ok := pick.Entry.Acquire()
		if !ok {
			continue // its capacity was lost since the decision
		}
		if err := c.intend(pick); err != nil {
			release()
			return err
		}
		t := c.attempt(pick, c.another(i))
		release()
		c.tries = append(c.tries, t)
		if !t.next {
			return t.answer()
		}
	}
	return c.nothingLeft()
}

// admit checks the key, before the body is asked for, and the headers that are
// meant for Headway.
func (c *call) admit() error {
	if c.forced == nil {
		key, err := c.g.Keys.Admit(secret(c.r), c.t0)
		if err != nil {
			return err
		}
		c.key = key
	}
	var err error
	c.facts, err = readFacts(c.head.Header)
	c.timing.Auth = core.Some(core.Ms(c.g.Clock().Sub(c.t0)))
	return err
}

// secret is the caller's credential, wherever the client's SDK puts it.
func secret(r *http.Request) string {
	if s, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return s
	}
	for _, name := range [...]string{"X-Api-Key", "X-Goog-Api-Key"} {
		if s := r.Header.Get(name); s != "" {
			return s
		}
	}
	return r.URL.Query().Get("key")
}

// facts are what a client may say of a call in headers.
type facts struct {
	job       core.JobID
	step      string
	group     string
	trace     string
	timeValue core.Opt[core.Money]
}

// longestLabel bounds what a client's header may add to every receipt.
const longestLabel = 128

func readFacts(h http.Header) (f facts, err error) {
	for _, x := range [...]struct {
		name string
		into *string
	}{{"X-Headway-Job", (*string)(&f.job)}, {"X-Headway-Step", &f.step}, {"X-Headway-Group", &f.group}} {
		v := h.Get(x.name)
		if len(v) > longestLabel || strings.ContainsFunc(v, func(c rune) bool { return c < ' ' || c > '~' }) {
			return f, core.Field(strings.ToLower(x.name), "at most %d printable ASCII characters are allowed", longestLabel)
		}
		*x.into = v
	}
	if v := h.Get("X-Headway-Time-Value"); v != "" {
		m, err := core.ParseMoney(v)
		if err != nil || m < 0 {
			return f, core.Field("x-headway-time-value", "want USD per hour as a decimal, such as 1.50")
		}
		f.timeValue = core.Some(m)
	}
	// traceparent: version-traceid-parentid-flags
	if parts := strings.Split(h.Get("Traceparent"), "-"); len(parts) >= 4 && len(parts[1]) == 32 {
		if _, err := hex.DecodeString(parts[1]); err == nil {
			f.trace = parts[1]
		}
	}
	return f, nil
}

const (
	uploadStart  = 30 * time.Second // for the first bytes of a body …
	uploadPerMiB = 30 * time.Second // … and for each MiB more
)

// readBody reads the request within limits.body_mib. A slow upload is legal, a
// stalled one is cut.
func (c *call) readBody() ([]byte, error) {
	limit := c.setup.Settings.Limits.Body
	tooLarge := core.Errorf(core.TooLarge, "the request body is larger than %d MiB", limit>>20)
	if c.r.ContentLength > limit {
		return nil, tooLarge
	}
	if enc := c.r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return nil, core.Field("content-encoding", "a compressed request is not read, send it plain")
	}
	start := c.g.Clock()
	rc := http.NewResponseController(c.ResponseWriter)
	room := max(c.r.ContentLength, 0) + bytes.MinRead
	_ = rc.SetReadDeadline(start.Add(uploadStart + time.Duration(room>>20)*uploadPerMiB))
	buf := bytes.NewBuffer(make([]byte, 0, room))
	_, err := buf.ReadFrom(io.LimitReader(c.r.Body, limit+1))
	_ = rc.SetReadDeadline(time.Time{})
	c.timing.BodyRead = core.Some(core.Ms(c.g.Clock().Sub(start)))
	switch {
	case err == nil && int64(buf.Len()) > limit:
		return nil, tooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, core.Errorf(core.Invalid, "the request body did not arrive in time")
	case err != nil:
		return nil, &core.Error{Kind: core.Canceled, Msg: "the request body ended early", Err: err}
	}
	return buf.Bytes(), nil
}

// choose estimates, filters, predicts and ranks (SPEC §6 to §8).
func (c *call) choose() error {
	start := c.g.Clock()
	s := c.setup
	name := s.Settings.Routing.Strategy
	if c.key != nil && c.key.Strategy != "" {
		name = c.key.Strategy
	}
	strategy, ok := market.ByName(name)
	if !ok {
		return core.Errorf(core.Internal, "strategy %q is not there", name)
	}
	choice, err := market.Decide(market.Query{Job: c.job, Key: c.key, Settings: &s.Settings, Catalogue: s.Catalogue, Board: c.g.Board,
		Strategy: strategy, TimeValue: c.facts.timeValue, Now: start})
	c.choice = choice
	if c.forced != nil && choice != nil {
		err = c.force()
	}
	if err != nil {
		return err
	}
	c.timing.Distribution = core.Some(core.Ms(c.g.Clock().Sub(start)))
	return nil
}

// force leaves only the offer that the call is for, also where it is paused or
// out: a call of Headway's own may find out whether it is well again.
func (c *call) force() error {
	for _, p := range c.choice.Picks {
		if p.Offer.ID == c.forced.Offer {
			c.choice.Picks = []market.Pick{p}
			return nil
		}
	}
	for _, r := range c.choice.Refused {
		if o := r.Entry.Offer; o.ID == c.forced.Offer && (r.Reason == core.RefusedPaused || r.Reason == core.RefusedOut) {
			c.choice.Picks = []market.Pick{{Candidate: &core.Candidate{Offer: o, Estimate: market.Estimate(c.job, o)}, Entry: r.Entry}}
			return nil
		}
	}
	return core.Errorf(core.NoOffer, "offer %s cannot take this call now", c.forced.Offer)
}

// another tells whether an offer is left that could answer after pick i.
func (c *call) another(i int) bool {
	return i+1 < len(c.choice.Picks) && len(c.tries)+1 < mostOffers
}

// larger tells whether an offer may hold a prompt that was too long for those
// tried before (SPEC §9).
func (c *call) larger(p *market.Pick) bool {
	for i := range c.tries {
		t := &c.tries[i]
		was, is := t.pick.Offer.Limits.Context, p.Offer.Limits.Context
		if t.tooLong && was.OK && is.OK && is.V <= was.V {
			return false
		}
	}
	return true
}

// intend writes down, once, that the call is about to be dispatched.
func (c *call) intend(p *market.Pick) error {
	if c.opened {
		return nil
	}
	in := core.Intent{ID: c.id, Job: c.jobID(), Step: c.facts.step, Kind: c.kind(), At: c.t0.UTC(), Model: c.job.Model, Offer: p.Offer.ID,
		Provider: p.Offer.Provider.ID, Operation: c.job.Operation, Format: c.job.Format, Streamed: c.job.Streamed}
	if c.key != nil {
		in.Key, in.Owner = c.key.ID, c.key.Owner
	}
	if err := c.g.Book.Open(in); err != nil {
		return err
	}
	c.opened = true
	return nil
}

func (c *call) jobID() core.JobID {
	if c.facts.job != "" {
		return c.facts.job
	}
	return core.JobID(c.id)
}

func (c *call) kind() core.CallKind {
	if c.forced != nil {
		return c.forced.Kind
	}
	return core.KindJob
}

// finish leaves the receipt, whatever happened.
func (c *call) finish(panicked any, err *error) {
	if panicked != nil {
		c.g.Log.Error("a call panicked", "id", c.id, "panic", panicWord(panicked), "stack", string(debug.Stack()))
		*err = core.Errorf(core.Internal, "an internal error, its log line has id %s", c.id)
		if n := len(c.tries); n == 0 || !c.tries[n-1].next && c.tries[n-1].Outcome == core.Settled {
			c.tries = append(c.tries, try{Attempt: core.Attempt{Outcome: core.Failed, Error: "internal"}, pick: &c.choice.Picks[0]})
		}
	}
	if *err != nil {
		c.reply(*err)
		*err = nil
	}
	r := c.receipt()
	c.g.Metrics.observe(r, c.last().pick)
	c.logDone(r)
	c.g.Book.Append(r, nil)
}

// panicWord keeps a panic's value out of the log where it may hold content.
func panicWord(v any) string {
	if e, ok := v.(interface{ RuntimeError() }); ok {
		return e.(error).Error()
	}
	return "not a runtime error"
}

// last is the attempt that answered, or the last that was tried.
func (c *call) last() *try { return &c.tries[len(c.tries)-1] }

func (c *call) logDone(r *core.Receipt) {
	c.g.Log.LogAttrs(context.Background(), slog.LevelInfo, "call", slog.String("id", string(r.ID)), slog.String("outcome", string(r.Outcome)),
		slog.Int("status", r.Status), slog.String("model", string(r.Model)), slog.String("offer", string(r.Offer)), slog.String("key", string(r.Key)),
		slog.Int("attempts", len(r.Attempts)), slog.Float64("total_ms", r.Timing.TotalHandler.V))
}

func (c *call) logRefused(err error) {
	status, name := http.StatusInternalServerError, "internal_error"
	var e *core.Error
	if errors.As(err, &e) {
		status, name = e.Status(), core.Kinds[e.Kind].Name
	}
	c.g.Metrics.refused(name)
	attrs := []slog.Attr{slog.String("id", string(c.id)), slog.String("refused", name), slog.Int("status", status)}
	if c.key != nil {
		attrs = append(attrs, slog.String("key", string(c.key.ID)))
	}
	c.g.Log.LogAttrs(context.Background(), slog.LevelInfo, "call", attrs...)
}
