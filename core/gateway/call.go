package gateway

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"headway/core"
	"headway/core/estimate"
	"headway/core/ledger"
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

	id       core.CallID
	t0       time.Time
	timing   core.Timing // the local phases
	head     core.RequestHead
	facts    facts
	key      *core.Key
	hold     *ledger.Hold // what of the key's limits the call takes up; nil without a key
	job      *core.Job
	reading  *estimate.Reading
	writer   core.Writer
	choice   *market.Choice
	tries    []*try
	own      *core.Job     // the job as a provider of the client's own format gets it, where one was asked
	content  *core.Content // decoded, where an attempt needed it
	unread   error         // or why it could not be
	opened   bool          // an intent is written: a receipt is owed
	unkept   bool          // it was dispatched though no receipt can be kept (receipts: optional)
	told     bool          // its receipt was made
	read     bool          // the request's body was, to its end
	status   int           // what the client got
	sent     bool          // its answer has begun
	complete bool          // … and has come to its end
	torn     bool          // … and could not be ended
	kept     *core.Receipt // what was handed over to the book
}

// Forced is a call of Headway's own: to one offer, of a kind, without a key.
type Forced struct {
	Offer core.OfferID
	Kind  core.CallKind
	Kept  func() // where not nil, called once the receipt is durable, as Book.Append says
}

// call serves one model call, from t0 to t7.
func (g *Gateway) call(w http.ResponseWriter, r *http.Request, a core.Adapter, forced *Forced) {
	t0 := g.Clock()
	c := &call{g: g, setup: g.Setup(), ResponseWriter: w, r: r, adapter: a, forced: forced, id: core.NewCallID(t0), t0: t0,
		head: core.RequestHead{Path: r.URL.Path, Query: r.URL.Query(), Header: r.Header}}
	g.open.Add(1)
	defer g.open.Add(-1)
	defer func() { c.choice.Release() }() // the last that looks at it is the receipt
	defer func() {
		c.lastResort(recover())
		if c.torn && forced == nil {
			panic(http.ErrAbortHandler) // net/http ends the connection: a clean end would look complete
		}
	}()
	if err := c.run(); err != nil {
		c.reply(err)
		if !c.dispatched() { // a refused call leaves a log line and a counter, no receipt
			g.noteRefused(c.id, c.key, err)
		}
	}
}

// run is the path of a call (ARCHITECTURE §4). An error is the answer that the
// client is owed; nil: it has been answered.
func (c *call) run() (err error) {
	defer func() { c.finish(recover(), &err) }()
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
	var unfit, denied error // why an offer cannot take the call: what it asks for, or the key's limits
	for i := range c.choice.Picks {
		pick := &c.choice.Picks[i]
		if len(c.tries) == mostOffers {
			break
		}
		if !c.larger(pick) {
			continue
		}
		if c.forced == nil && !pick.Entry.Ready(c.g.Clock()) {
			continue // it went out, or its node did, since the decision
		}
		request, err := c.prepare(pick)
		if err != nil { // another offer may have what the client asks for
			unfit = err
			continue
		}
		release, ok := pick.Entry.Acquire()
		if !ok {
			request.cancel(nil)
			continue // its capacity was lost since the decision
		}
		if err := c.reserve(pick); err != nil {
			request.cancel(nil)
			release()
			if denied == nil || known(err).Kind == core.OverBudget {
				denied = err
			}
			continue // a cheaper offer may still fit
		}
		if err := c.intend(pick); err != nil {
			request.cancel(nil)
			release()
			return err
		}
		t := c.attempt(pick, request, release, c.another(i))
		// One that stopped writing may still read: it must not take what it got for
		// an answer.
		c.torn = t.cut || t.Outcome == core.ClientGone || t.Outcome == core.ClientStalled
		if !t.next {
			return t.answer()
		}
	}
	if err := cmp.Or(denied, unfit); len(c.tries) == 0 && err != nil {
		return err
	}
	return c.nothingLeft(denied)
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
		if c.hold, err = c.g.Accounts.Enter(key, c.t0); err != nil {
			return err
		}
	}
	if err := c.g.looped(c.head.Header); err != nil {
		return err
	}
	var err error
	c.facts, err = readFacts(c.head.Header)
	c.timing.Auth = core.Some(core.Ms(c.g.Clock().Sub(c.t0)))
	return err
}

// secret is the caller's credential, wherever the client's SDK puts it.
func secret(r *http.Request) string {
	if scheme, s, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
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
	uploadPiece = 1 << 20          // each piece of a body …
	uploadTime  = 30 * time.Second // … must have come within this
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
	// A length is a claim: the buffer grows with what really comes.
	buf := bytes.NewBuffer(make([]byte, 0, min(max(c.r.ContentLength, 0), uploadPiece)+bytes.MinRead))
	var err error
	for err == nil && int64(buf.Len()) <= limit {
		_ = rc.SetReadDeadline(c.g.Clock().Add(uploadTime))
		_, err = io.CopyN(buf, c.r.Body, min(uploadPiece, limit+1-int64(buf.Len())))
	}
	_ = rc.SetReadDeadline(time.Time{})
	c.timing.BodyRead = core.Some(core.Ms(c.g.Clock().Sub(start)))
	switch {
	case err == nil:
		return nil, tooLarge
	case err == io.EOF:
		c.read = true
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, core.Errorf(core.Invalid, "the request body did not arrive in time")
	case hungUp(err):
		return nil, &core.Error{Kind: core.Canceled, Msg: "the request body ended early", Err: err}
	default:
		return nil, &core.Error{Kind: core.Invalid, Msg: "the request body is not well-formed HTTP", Err: err}
	}
	return buf.Bytes(), nil
}

// hungUp tells whether reading failed because the peer is gone.
func hungUp(err error) bool {
	var op *net.OpError
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.ErrClosedPipe) || errors.As(err, &op)
}

// intend writes down, once, that the call is about to be dispatched.
func (c *call) intend(p *market.Pick) error {
	if c.dispatched() {
		return nil
	}
	optional := c.setup.Settings.Receipts == core.ReceiptsOptional
	if held := c.g.held(); held != nil && !optional {
		return held
	}
	in := core.Intent{ID: c.id, Job: c.jobID(), Step: c.facts.step, Kind: c.kind(), At: c.t0.UTC(), Model: p.Offer.Model, Offer: p.Offer.ID,
		Provider: p.Offer.Provider.ID, Node: p.Offer.Provider.Node, Operation: c.job.Operation, Format: c.job.Format, Streamed: c.job.Streamed}
	if c.key != nil {
		in.Key, in.Owner = c.key.ID, c.key.Owner
	}
	c.expect(&in, p)
	err := c.g.Book.Open(in)
	if err != nil && optional {
		c.unkept = true
		c.g.Metrics.unkept.Inc()
		return nil
	}
	c.opened = err == nil
	return err
}

// dispatched tells whether the call went out, or was about to.
func (c *call) dispatched() bool { return c.opened || c.unkept }

// expect notes what the call is likely to need, for the case that nobody is left to
// say what it did. Counting tokens costs nothing.
func (c *call) expect(in *core.Intent, p *market.Pick) {
	if c.job.Operation == core.OpCountTokens {
		return
	}
	if c.job.PromptBytes > 0 {
		in.Input = c.reading.Prompt(p.Offer.Model)
	}
	if c.job.Operation.Generates() {
		in.Output = p.Estimate.Output
	}
	rates := p.Offer.Price.For(in.Input)
	in.InputRate, in.OutputRate = rates.Input, rates.Output
}

func (c *call) jobID() core.JobID {
	if c.facts.job != "" {
		return c.facts.job
	}
	return core.JobID(c.id)
}

func (c *call) keyID() core.KeyID {
	if c.key == nil {
		return ""
	}
	return c.key.ID
}

func (c *call) kind() core.CallKind {
	if c.forced != nil {
		return c.forced.Kind
	}
	return core.KindJob
}

// last is the attempt that answered, or the last that was tried.
func (c *call) last() *try { return c.tries[len(c.tries)-1] }
