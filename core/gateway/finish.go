package gateway

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"headway/core"
)

// finish ends the path of a call, whatever happened: a call that was dispatched
// leaves its receipt.
func (c *call) finish(panicked any, err *error) {
	defer func() { c.hold.Leave(c.kept) }()
	if panicked != nil {
		*err = c.logPanic(panicked)
		c.torn = c.sent && !c.complete
		if c.dispatched() && len(c.tries) == 0 {
			c.tries = append(c.tries, &try{Attempt: core.Attempt{Outcome: core.Failed, Error: "internal"}, pick: &c.choice.Picks[0]})
		}
	}
	if !c.dispatched() || c.told {
		return
	}
	defer c.keep(nil) // also where the reply panics
	if *err != nil {
		c.hold.Ended()
		c.reply(*err)
		*err = nil
	}
}

// settle hands the receipt of a complete answer over before the client gets its end, and
// waits until it is durable, where receipts are strict (SPEC §11).
func (c *call) settle(t *try, resp *http.Response) error {
	if c.setup.Settings.Receipts != core.ReceiptsStrict || !c.opened {
		return nil
	}
	if c.status == 0 {
		c.status = resp.StatusCode
	}
	if t.Node != "" {
		t.node = nodeTiming(resp.Trailer)
	}
	durable := make(chan struct{})
	c.keep(func() { close(durable) })
	late := time.NewTimer(c.setup.Settings.Limits.ClientWrite)
	defer late.Stop()
	select {
	case <-durable:
		return nil
	case <-late.C:
		return core.Errorf(core.Unavailable, "the answer is complete, and its receipt cannot be kept now")
	}
}

// keep makes the receipt and hands it over; durable, where not nil, is called once it is.
func (c *call) keep(durable func()) {
	r := c.receipt()
	c.told = true
	c.g.Metrics.observe(r, c.tries)
	c.logDone(r)
	if c.unkept {
		return
	}
	if c.forced != nil && c.forced.Kept != nil {
		kept, then := c.forced.Kept, durable
		durable = func() {
			kept()
			if then != nil {
				then()
			}
		}
	}
	c.g.Book.Append(r, durable)
	c.kept = r
	// Where tools ran at the provider it read the prompt several times over.
	if r.Outcome == core.Settled && r.UsageFrom == core.FromProvider && !r.Timing.FreshInputTokens.OK {
		c.g.Estimator.Answered(c.reading, c.last().pick.Offer, r.Usage)
	}
}

// logPanic notes a panic, without its value, and gives the client's word for it.
func (c *call) logPanic(v any) *core.Error {
	c.g.Log.Error("a call panicked", "id", c.id, "panic", panicWord(v), "stack", string(debug.Stack()))
	return core.Errorf(core.Internal, "an internal error, its log line has id %s", c.id)
}

// lastResort answers where even the answer panicked.
func (c *call) lastResort(panicked any) {
	if panicked == nil {
		return
	}
	e := c.logPanic(panicked)
	if c.torn = c.sent && !c.complete; !c.sent {
		c.Header()["Content-Type"] = []string{"application/json"}
		c.WriteHeader(e.Status())
		_, _ = io.WriteString(c.ResponseWriter, `{"error":{"message":"`+e.Msg+`","type":"internal_error"}}`)
	}
}

// panicWord keeps a panic's value out of the log where it may hold content.
func panicWord(v any) string {
	if e, ok := v.(interface{ RuntimeError() }); ok {
		return e.(error).Error()
	}
	return "not a runtime error"
}

func (c *call) logDone(r *core.Receipt) {
	attrs := append(make([]slog.Attr, 0, 8), slog.String("id", string(r.ID)), slog.String("outcome", string(r.Outcome)),
		slog.Int("status", r.Status), slog.String("model", string(r.Model)), slog.String("offer", string(r.Offer)), slog.Int("attempts", len(r.Attempts)))
	if r.Key != "" {
		attrs = append(attrs, slog.String("key", string(r.Key)))
	}
	if total := r.Timing.TotalHandler; total.OK {
		attrs = append(attrs, slog.Float64("total_ms", total.V))
	}
	c.g.Log.LogAttrs(context.Background(), slog.LevelInfo, "call", attrs...)
}

// noteRefused leaves what a call leaves that was refused before any dispatch.
func (g *Gateway) noteRefused(id core.CallID, key *core.Key, err error) {
	status, name := http.StatusInternalServerError, "internal_error"
	var e *core.Error
	if errors.As(err, &e) {
		status, name = e.Status(), core.Kinds[e.Kind].Name
	}
	g.Metrics.refused(name)
	attrs := []slog.Attr{slog.String("id", string(id)), slog.String("refused", name), slog.Int("status", status)}
	if e != nil && e.Code != "" { // a word of Headway's own: nothing was asked of a provider
		attrs = append(attrs, slog.String("code", e.Code))
	}
	if key != nil {
		attrs = append(attrs, slog.String("key", string(key.ID)))
	}
	g.Log.LogAttrs(context.Background(), slog.LevelInfo, "call", attrs...)
}
