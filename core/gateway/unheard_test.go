package gateway_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"headway/core"
	"headway/core/gateway"
)

// TestUnheard: what a call is charged whose answer nobody heard the end of. The
// prompt is 13 tokens by its bytes, and 500 of output are expected before there is
// history.
func TestUnheard(t *testing.T) {
	const never = time.Hour
	stream := strings.Replace(dear, `"max_tokens"`, `"stream":true,"max_tokens"`, 1)
	short := strings.Replace(dear, "1000", "20", 1)
	silent := []step{{never, ""}}
	bare := strings.Replace(whole("fine", 8, 5), `"usage"`, `"other"`, 1)
	for _, c := range []struct {
		name    string
		script  []step
		far     bool
		body    string
		path    string
		leave   time.Duration
		stop    bool
		outcome core.Outcome
		output  core.Opt[int64] // charged; absent: only the prompt
		nothing bool            // is charged
	}{
		{name: "the client leaves", script: silent, leave: 50 * ms, outcome: core.ClientGone, output: core.Some[int64](500)},
		{name: "the client leaves at once", script: silent, leave: ms, outcome: core.ClientGone, output: core.Some[int64](500)},
		{name: "and had asked for little", script: silent, body: short, leave: 50 * ms, outcome: core.ClientGone, output: core.Some[int64](20)},
		{name: "the client leaves, the headers were there", script: []step{{10 * ms, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 400\r\n\r\n{"}, {never, ""}},
			leave: 50 * ms, outcome: core.ClientGone, output: core.Some[int64](500)},
		{name: "the client leaves before there is a connection", script: silent, far: true, leave: 50 * ms, outcome: core.ClientGone, nothing: true},
		{name: "a time limit", script: silent, outcome: core.TimedOut, output: core.Some[int64](500)},
		{name: "a time limit of a stream that was predicted nothing", script: silent, body: stream, outcome: core.TimedOut},
		{name: "a time limit before there is a connection", script: silent, far: true, outcome: core.TimedOut, nothing: true},
		{name: "a stop", script: silent, leave: 0, stop: true, outcome: core.Failed, output: core.Some[int64](500)},
		{name: "the client leaves a stream", script: silent, body: stream, leave: 50 * ms, outcome: core.ClientGone},
		{name: "the client leaves a stream that has begun", script: []step{{10 * ms, streamHead + chunk(role+text("eight ch"))}, {never, ""}}, body: stream,
			leave: 50 * ms, outcome: core.ClientGone, output: core.Some[int64](2)},
		{name: "embeddings", script: silent, path: "/v1/embeddings", body: `{"model":"mini","input":"sixteen letters."}`, leave: 50 * ms, outcome: core.ClientGone},
		// What the provider failed to do is not charged.
		{name: "an error", script: []step{{10 * ms, status(500, "", "{}")}}, outcome: core.Failed, nothing: true},
		{name: "a broken connection", script: []step{{10 * ms, cutOff}}, outcome: core.Failed, nothing: true},
		{name: "a page", script: []step{{10 * ms, status(200, "", "<html>")}}, outcome: core.Failed, nothing: true},
		{name: "a refusal", script: []step{{10 * ms, status(400, "", `{"error":{"message":"no"}}`)}}, outcome: core.Failed, nothing: true},
		// An answer that came is charged for what is in it, usage or not.
		{name: "an answer without usage", script: []step{{10 * ms, status(200, "", bare)}}, outcome: core.Settled, output: core.Some[int64](1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(s *core.Settings) { s.Limits.HeaderTimeout = 20 * time.Second },
					offer{name: "a", script: c.script, far: c.far, input: "1", output: "100"})
				ctx := t.Context()
				if c.leave > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.leave)
					defer cancel()
				}
				if c.stop {
					time.AfterFunc(50*ms, func() { r.cancel(gateway.ErrStopping) })
				}
				path, body := c.path, c.body
				if path == "" {
					path = chatPath
				}
				if body == "" {
					body = dear
				}
				r.postCtx(ctx, path, body)
				got := r.only()
				if got.Outcome != c.outcome {
					t.Fatalf("outcome %s, want %s: %+v", got.Outcome, c.outcome, got.Attempts)
				}
				if c.nothing {
					if got.Charge.OK || got.UsageFrom != "" || got.Usage != (core.Usage{}) {
						t.Errorf("charged %s for %+v", got.Charge.V, got.Usage)
					}
					return
				}
				in := got.Usage.UncachedInput
				if !in.OK || in.V <= 0 || got.Usage.Output != c.output || got.UsageFrom != core.FromEstimate {
					t.Errorf("%+v from %s", got.Usage, got.UsageFrom)
				}
				if want := core.Money(in.V)*core.USD/1_000_000 + core.Money(c.output.V)*core.USD/10_000; got.Charge != core.Some(want) {
					t.Errorf("charged %s, want %s", got.Charge.V, want)
				}
			})
		})
	}
}

// TestUnheardStream: of a stream that was left before it said anything, as much is
// charged as the prediction says was written by then.
func TestUnheardStream(t *testing.T) {
	body := strings.Replace(dear, `"max_tokens"`, `"stream":true,"max_tokens"`, 1)
	for _, c := range []struct {
		leave time.Duration
		want  core.Opt[int64]
	}{
		// 50 ms to the first output, then a token a ms: 500 of them are expected.
		{40 * ms, core.Opt[int64]{}},
		{150 * ms, core.Some[int64](100)},
		{10 * time.Minute, core.Some[int64](500)},
	} {
		t.Run(fmt.Sprint(c.leave), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answers := func(input int) []step { // as measures want it
					script := []step{{10 * ms, streamHead + chunk(role)}}
					for i := range 5 {
						script = append(script, step{time.Duration(50+25*i) * ms, chunk(text("word "))})
					}
					return append(script, step{150 * ms, chunk(finish+usage(input, 100)+done) + lastChunk})
				}
				r := newRig(t, func(s *core.Settings) { s.Limits.HeaderTimeout = time.Hour },
					offer{name: "a", scripts: [][]step{answers(8), answers(20_000_000), {{time.Hour, ""}}}, input: "0", output: "100"})
				for range 2 { // so that waits can be predicted, and the prompt takes no time
					r.post(chatPath, body)
				}
				synctest.Wait()
				r.board.Rows(nil)
				ctx, cancel := context.WithTimeout(t.Context(), c.leave)
				defer cancel()
				r.postCtx(ctx, chatPath, body)
				synctest.Wait()
				var got *core.Receipt
				_ = r.book.Receipts(time.Time{}, time.Time{}, true, func(rec *core.Receipt) bool { got = rec; return false })
				if got.Outcome != core.ClientGone || !got.PredictedWait.OK {
					t.Fatalf("%s, predicted %v", got.Outcome, got.PredictedWait)
				}
				if n := got.Usage.Output; n.OK != c.want.OK || n.V < c.want.V*9/10 || n.V > c.want.V*11/10 {
					t.Errorf("%+v, want about %v; predicted %+v", got.Usage, c.want, got.Decision.Offers[0].Terms)
				}
			})
		})
	}
}

// TestUnheardBudget: a caller that never waits for its answers stops at its
// budget all the same, which is what a provider asks for that writes them to
// their end.
func TestUnheardBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 2 * core.USD
		r := newRig(t, nil, offer{name: "a", script: []step{{time.Hour, ""}}, input: "0", output: "100"})
		r.limit(budget(limit))
		calls := 0
		for {
			ctx, cancel := context.WithTimeout(t.Context(), 5*ms)
			got := r.postCtx(ctx, chatPath, dear)
			cancel()
			synctest.Wait()
			if got.err == nil {
				if saysOf(got) != "402 budget_exceeded" {
					t.Fatalf("%d %s", got.status, got.body)
				}
				break
			}
			if calls++; calls > 100 {
				t.Fatal("the calls have no end")
			}
		}
		// 500 tokens each at 100 USD a million; one may cost twice that.
		if s := r.accounts.Standing(r.key, time.Now()); calls != 39 || s.Spend != 39*core.USD/20 || r.upstreams["a"].calls() != calls {
			t.Errorf("%d calls, %d of them at the provider, %s spent", calls, r.upstreams["a"].calls(), s.Spend)
		}
	})
}
