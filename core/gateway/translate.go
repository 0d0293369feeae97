package gateway

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"

	"headway/core"
	"headway/core/market"
	"headway/core/relay"
)

// request is what an attempt sends: made before anything is written down of the
// attempt, as a call that no provider can be asked for is none.
type request struct {
	*http.Request
	side    core.ProviderSide
	ctx     context.Context
	cancel  context.CancelCauseFunc
	conn    *connection
	foreign bool           // the provider speaks another format than the client
	dropped []string       // the client's fields that it does not get
	node    *core.Dispatch // what a node is told beside; nil: the provider is none
	err     error          // it could not be made, for what the provider's settings are
}

// prepare makes the request for an offer. The error is Invalid: what the client
// asks for cannot be asked of this offer.
func (c *call) prepare(pick *market.Pick) (*request, error) {
	format := pick.Offer.Provider.Format
	r := &request{side: c.g.providers[format.Wire()], conn: &connection{now: c.g.Clock}, foreign: !format.Native(c.job.Format)}
	r.ctx, r.cancel = context.WithCancelCause(c.r.Context())
	if r.side == nil {
		r.err = core.Errorf(core.Internal, "provider %s: no adapter speaks %s", pick.Offer.Provider.ID, format)
		return r, nil
	}
	job, content, head := c.job, (*core.Content)(nil), c.head
	if !r.foreign {
		job = c.unsealed()
	} else {
		var err error
		if content, err = c.decoded(); err != nil {
			r.cancel(nil)
			return nil, err
		}
		head, r.dropped = c.foreignHead()
	}
	var left []string
	ctx := r.ctx
	if pick.Offer.Provider.Node != "" {
		r.node = &core.Dispatch{Call: c.id, Attempt: len(c.tries) + 1, Model: pick.Offer.Model, Operation: c.job.Operation, Streamed: c.job.Streamed}
		ctx, r.conn = r.node.Into(ctx), nil // it has no connection of its own
	} else {
		ctx = r.conn.trace(ctx)
	}
	r.Request, left, r.err = r.side.Build(ctx, job, content, head, pick.Offer)
	r.dropped = append(r.dropped, left...)
	if e := (*core.Error)(nil); errors.As(r.err, &e) && e.Kind == core.Invalid {
		r.cancel(nil)
		return nil, e
	}
	if r.err == nil {
		c.mark(r.Request, pick.Offer.Provider)
	}
	return r, nil
}

// unsealed is the job for a provider of the client's own format: the client's
// bytes, but for the seals of other providers in them.
func (c *call) unsealed() *core.Job {
	if c.own == nil {
		c.own = c.job
		if body, sealed := c.adapter.Unseal(c.job.Body); sealed {
			if job, err := c.adapter.Parse(c.head, body); err == nil {
				c.own = job
			}
		}
	}
	return c.own
}

// decoded is the request's content, decoded once for all attempts that need it.
func (c *call) decoded() (*core.Content, error) {
	if c.content == nil && c.unread == nil {
		c.content, c.unread = c.adapter.Decode(c.job)
	}
	return c.content, c.unread
}

// foreignHead is what an upstream of another format gets of the client's headers
// and query, and the names of what it does not get of what a provider of the
// client's own format would.
func (c *call) foreignHead() (head core.RequestHead, dropped []string) {
	head = core.RequestHead{Path: c.head.Path, Header: http.Header{}}
	if trace := c.head.Header["Traceparent"]; len(trace) > 0 {
		head.Header["Traceparent"] = trace
	}
	for _, name := range [...]string{"Anthropic-Beta", "Openai-Beta"} {
		if c.head.Header.Get(name) != "" {
			dropped = append(dropped, strings.ToLower(name))
		}
	}
	return head, dropped
}

// translated is the reader of an upstream that speaks another format than the
// client: what it reads is given on in the client's.
type translated struct {
	core.Reader
	to    core.Translator
	shown core.Shown
	sse   bool   // the client reads server-sent events, and comments among them: Google's SDKs take those for broken
	buf   []byte // what the client gets of the frame under way
	came  int    // bytes of the frames so far
	calls int    // of tools
}

// mostCalls is far above the tool calls of any answer.
const mostCalls = 4096

// translate makes it, for one answer. It names the model as the client asked for
// it; where that was the Auto Router, the model that it chose.
func (c *call) translate(r core.Reader, offer *core.Offer) *translated {
	job := c.job
	if market.IsAuto(job.Model, &c.setup.Settings.Routing) {
		named := *job
		named.Model = offer.Model
		job = &named
	}
	return &translated{Reader: r, to: c.adapter.Translator(job, c.t0), shown: c.content.Shown,
		sse: c.job.Streamed && c.job.Format != core.FormatGoogle && strings.HasPrefix(c.writer.ContentType(), "text/event-stream")}
}

// Read looks at a frame as its own reader does and puts what the client gets of
// it in the place of its bytes.
func (t *translated) Read(f *core.Frame) core.Mark {
	mark := t.Reader.Read(f)
	if len(f.Data) == 0 && t.sse && t.Split() == core.SplitSSE && bytes.HasPrefix(f.Raw, []byte(":")) {
		return mark // a comment keeps the client's connection alive too
	}
	t.came += len(f.Raw)
	f.Raw = nil
	if mark.Has(core.MarkError | core.MarkBroken) {
		return mark
	}
	t.buf = t.write(t.buf[:0], t.Events(f))
	if t.came > mostAnswer || t.calls > mostCalls { // most formats need some or all of an answer held
		return core.MarkBroken
	}
	if mark.Has(core.MarkEnd) {
		t.buf = t.End(t.buf)
	}
	t.buf = valid(t.buf)
	f.Raw = t.buf
	return mark
}

// valid is what was written as text: a server may send bytes that are none, which
// the client's format, written anew, must not have.
func valid(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	return bytes.ToValidUTF8(b, []byte("\ufffd"))
}

func (t *translated) write(dst []byte, events []core.Event) []byte {
	for i := range events {
		if events[i].Kind == core.EventTool {
			t.calls++
		}
		switch e := &events[i]; {
		case e.Kind == core.EventReasoning && t.shown != core.ShowAll:
		case e.Kind == core.EventSeal && t.shown == core.ShowNone:
		default:
			dst = t.to.Event(dst, e)
		}
	}
	return dst
}

// End appends what the client gets at the end of an answer that ended well.
func (t *translated) End(dst []byte) []byte {
	a := t.Answer()
	return valid(t.to.End(dst, &a))
}

// whole is an unstreamed answer in the client's format and the shape that it
// asked for.
func (t *translated) whole(body []byte) ([]byte, error) {
	if err := t.ReadWhole(body); err != nil {
		return nil, err
	}
	events, err := t.WholeEvents(body)
	if err != nil {
		return nil, err
	}
	out := t.write(nil, events)
	if t.calls > mostCalls {
		return nil, relay.ErrBroken
	}
	return t.End(out), nil
}

const (
	mostDropped    = 32 // names in x-headway-dropped
	longestDropped = 64 // bytes of one of them
)

// droppedHeader is the value of x-headway-dropped. Names that a client made up
// may hold anything: what no header may have is left out.
func droppedHeader(names []string) string {
	var b strings.Builder
	for i, name := range names[:min(len(names), mostDropped)] {
		if i > 0 {
			b.WriteString(", ")
		}
		for _, r := range name[:min(len(name), longestDropped)] {
			if r > ' ' && r < 0x7f && r != ',' {
				b.WriteRune(r)
			}
		}
	}
	return b.String()
}
