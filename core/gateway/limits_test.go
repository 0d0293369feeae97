package gateway_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"headway/core"
	"headway/core/gateway"
)

// dear is a call that may cost 0.1 USD at an offer of 100 USD per million output
// tokens and nothing for input.
const dear = `{"model":"mini","max_tokens":1000,"messages":[{"role":"user","content":"hi there, how are you"}]}`

func budget(usd core.Money) core.KeyLimits { return core.KeyLimits{BudgetDay: core.Some(usd)} }

// saysOf is an answer's status and code.
func saysOf(a answer) string {
	for _, code := range []string{"budget_exceeded", "too_many_parallel_calls", "rate_limit_exceeded"} {
		if strings.Contains(a.body, `"code":"`+code+`"`) {
			return fmt.Sprintf("%d %s", a.status, code)
		}
	}
	return fmt.Sprint(a.status)
}

// TestBudgetOfCallsAtOnce: 500 calls at once with a key whose budget covers 20 of
// them. At no moment has it spent more, whatever becomes of the calls; only where
// an upstream reports more than was reserved, by that.
func TestBudgetOfCallsAtOnce(t *testing.T) {
	const limit, each = 2 * core.USD, core.USD / 10
	for _, c := range []struct {
		name    string
		reports func(*rand.Rand) int
		over    core.Money // by which it may be over
	}{
		{"all that was reserved", func(*rand.Rand) int { return 1000 }, 0},
		{"a part of it", func(r *rand.Rand) int { return r.IntN(1001) }, 0},
		{"more", func(r *rand.Rand) int { return 1000 + r.IntN(500) }, limit / 2},
	} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprintf("%s %d", c.name, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					rnd := rand.New(rand.NewPCG(seed, 1))
					var scripts [][]step
					for range 600 {
						scripts = append(scripts, ending(rnd, c.reports(rnd)))
					}
					r := newRig(t, nil, offer{name: "a", scripts: scripts, input: "0", output: "100"}, offer{name: "b", scripts: scripts, input: "0", output: "100"})
					r.limit(budget(limit))
					stop := make(chan struct{})
					var watch, calls sync.WaitGroup
					most := core.Money(0)
					watch.Go(func() {
						for {
							s := r.accounts.Standing(r.key, time.Now())
							if most = max(most, s.Spend); s.Spend > limit+c.over || c.over == 0 && s.Spend+s.Reserved > limit {
								t.Errorf("spent %s, reserved %s of %s", s.Spend, s.Reserved, limit)
								return
							}
							select {
							case <-stop:
								return
							case <-time.After(3 * ms):
							}
						}
					})
					var mu sync.Mutex
					seen := map[string]int{}
					for range 500 {
						start, leave := time.Duration(rnd.IntN(300))*ms, time.Duration(0)
						if rnd.IntN(8) == 0 {
							leave = start + time.Duration(rnd.IntN(200))*ms
						}
						calls.Go(func() {
							time.Sleep(start)
							ctx, cancel := context.WithCancel(t.Context())
							if leave > 0 {
								ctx, cancel = context.WithTimeout(t.Context(), leave-start+ms)
							}
							defer cancel()
							a := r.postCtx(ctx, chatPath, dear)
							mu.Lock()
							seen[saysOf(a)]++
							mu.Unlock()
						})
					}
					calls.Wait()
					synctest.Wait()
					close(stop)
					watch.Wait()
					var sum core.Money
					_ = r.book.Receipts(time.Time{}, time.Time{}, false, func(rec *core.Receipt) bool { sum += rec.Charge.V; return true })
					if s := r.accounts.Standing(r.key, time.Now()); s.Spend != sum || s.Reserved != 0 || s.Budgets[0].Spent != sum {
						t.Errorf("the receipts were charged %s, the key stands at %+v", sum, s)
					}
					if seen["402 budget_exceeded"] == 0 || seen["200"] == 0 || most == 0 || c.over > 0 && sum <= limit-each {
						t.Errorf("seen %v, spent %s: nothing was tested", seen, most)
					}
				})
			})
		}
	}
}

// ending is what becomes of an attempt, mostly an answer.
func ending(rnd *rand.Rand, output int) []step {
	at := time.Duration(10+rnd.IntN(300)) * ms
	switch rnd.IntN(8) {
	case 0:
		return []step{{at, status(500, "", `{"error":{"message":"busy","type":"server_error"}}`)}}
	case 1:
		return []step{{at, cutOff}}
	case 2:
		return []step{{at, status(400, "", `{"error":{"message":"no","type":"invalid_request_error"}}`)}}
	}
	return []step{{at, status(200, "", whole("fine", 8, output))}}
}

// TestFallbackWithinBudget: an offer that does not fit is passed over; what the
// client is told is why nothing else answered.
func TestFallbackWithinBudget(t *testing.T) {
	fails := []step{{10 * ms, status(500, "", `{"error":{"message":"busy","type":"server_error"}}`)}}
	fine := []step{{10 * ms, status(200, "", whole("fine", 8, 10))}}
	a := func(script []step) offer { return offer{name: "a", script: script, input: "0", output: "100"} }
	b := func(script []step) offer { return offer{name: "b", script: script, input: "0", output: "300"} }
	for _, c := range []struct {
		name   string
		limit  core.Money
		offers []offer
		want   string
		has    string
		calls  [2]int
	}{
		{"both fit", core.USD, []offer{a(fails), b(fine)}, "200", "fine", [2]int{1, 1}},
		{"the second does not: the first one's error", core.USD / 5, []offer{a(fails), b(fine)}, "502", "a/mini: the upstream answered 500", [2]int{1, 0}},
		{"and is told of the budget", core.USD / 5, []offer{a(fails), b(fine)}, "502", "another was not asked: budget_usd_per_day: 0.2 of 0.2 USD are left", [2]int{1, 0}},
		{"none does", core.USD / 20, []offer{a(fine), b(fine)}, "402 budget_exceeded", "budget_usd_per_day: 0.05 of 0.05 USD are left, and the call may cost up to 0.", [2]int{0, 0}},
		{"nothing is left at all", 0, []offer{a(fine)}, "402 budget_exceeded", "0 of 0 USD are left", [2]int{0, 0}},
		{"only the second fits", core.USD / 5, []offer{{name: "a", script: fine, input: "1000", output: "250"}, b(fails)}, "402 budget_exceeded", "0.2 USD are left", [2]int{0, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil, c.offers...)
				r.limit(budget(c.limit))
				got := r.post(chatPath, dear)
				if saysOf(got) != c.want || !strings.Contains(got.body, c.has) {
					t.Errorf("%s: %s", saysOf(got), got.body)
				}
				for i, o := range c.offers {
					if n := r.upstreams[o.name].calls(); n != c.calls[i] {
						t.Errorf("%s got %d calls, want %d", o.name, n, c.calls[i])
					}
				}
			})
		})
	}
}

// TestBudgetBeyond: of a request that has the model read what the provider keeps, or a
// file, the whole context is set aside, and the error says so; what would help it does.
func TestBudgetBeyond(t *testing.T) {
	file := strings.Replace(dear, `"hi there, how are you"`, `[{"type":"file","file":{"file_id":"f"}}]`, 1)
	for _, c := range []struct {
		body, want, has string
		limit           core.Money
	}{
		{dear, "200", "fine", core.USD / 5},
		{file, "402 budget_exceeded", "may cost up to 1.1; the budget renews at ", core.USD / 10},
		{file, "402 budget_exceeded", "Z; the request has the model read what only the provider knows the size of, so the offer's whole context is set aside", core.USD / 10},
		{file, "402 budget_exceeded", "Z; a call with a lower output maximum may fit before", core.USD + core.USD/20},
		{file, "200", "fine", 2 * core.USD},
	} {
		synctest.Test(t, func(t *testing.T) {
			fine := []step{{10 * ms, status(200, "", whole("fine", 8, 10))}}
			r := newRig(t, nil, offer{name: "a", script: fine, input: "10", output: "100", context: 100_000})
			r.limit(budget(c.limit))
			got := r.post(chatPath, c.body)
			if saysOf(got) != c.want || !strings.Contains(got.body, c.has) {
				t.Errorf("%v: %s: %s, want %s, %q", c.limit, saysOf(got), got.body, c.want, c.has)
			}
		})
	}
}

// TestBudgetBeforeOtherReasons: where the budget kept the call from an offer, the
// client hears of it and not of what kept it from another.
func TestBudgetBeforeOtherReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fine := []step{{10 * ms, status(200, "", whole("fine", 8, 10))}}
		// An Anthropic provider gives one answer to a call.
		r := newRig(t, nil, offer{name: "a", script: fine, input: "0", output: "100"}, offer{name: "b", format: core.FormatAnthropic, script: fine, input: "0", output: "200"})
		r.limit(budget(core.USD / 20))
		got := r.post(chatPath, strings.Replace(dear, `"max_tokens"`, `"n":2,"max_tokens"`, 1))
		if saysOf(got) != "402 budget_exceeded" {
			t.Errorf("%d %s", got.status, got.body)
		}
		// The same with money enough is refused by b alone, which is never asked.
		r.limit(budget(core.USD))
		if got := r.post(chatPath, strings.Replace(dear, `"max_tokens"`, `"n":2,"max_tokens"`, 1)); got.status != 200 || r.upstreams["b"].calls() != 0 {
			t.Errorf("%d %s", got.status, got.body)
		}
	})
}

// TestNoFallbackNoLimit: an attempt is not hurried for an offer that the budget
// does not reach.
func TestNoFallbackNoLimit(t *testing.T) {
	for name, c := range map[string]struct {
		limit  core.Money
		status int
		after  time.Duration
	}{
		"another could answer": {core.USD, 200, 10*time.Second + 150*ms}, "none could": {core.USD / 5, 200, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answers := func(input int) []step { // as measures want it
					script := []step{{10 * ms, streamHead + chunk(role)}}
					for i := range 5 {
						script = append(script, step{time.Duration(50+20*i) * ms, chunk(text("word "))})
					}
					return append(script, step{150 * ms, chunk(finish+usage(input, 100)+done) + lastChunk})
				}
				slow := []step{{30 * time.Second, streamHead + chunk(role+text("late")+finish+usage(8, 10)+done) + lastChunk}}
				r := newRig(t, nil, offer{name: "a", scripts: [][]step{answers(8), answers(20_000), slow}, input: "0", output: "100"},
					offer{name: "b", script: answers(8), input: "0", output: "300"})
				body := strings.Replace(dear, `"max_tokens"`, `"stream":true,"max_tokens"`, 1)
				for range 2 { // so that waits can be predicted
					r.post(chatPath, body)
				}
				synctest.Wait()
				r.board.Rows(nil)
				r.limit(budget(c.limit + r.accounts.Standing(r.key, time.Now()).Spend))
				got := r.post(chatPath, body)
				if got.status != c.status || got.after != c.after {
					t.Errorf("%d after %v, want %d after %v: %s", got.status, got.after, c.status, c.after, got.body)
				}
			})
		})
	}
}

// TestEveryWayOut: whatever becomes of a call, its place and its money are free
// again at once; a call that was not dispatched has not used up its request
// either.
func TestEveryWayOut(t *testing.T) {
	answers := []step{{10 * ms, status(200, "", whole("fine", 8, 1))}}
	for _, c := range []struct {
		name       string
		script     []step
		path       string
		body       string
		headers    []string
		leave      time.Duration
		stop       bool
		status     int // of the client's answer; 0: none
		dispatched bool
	}{
		{name: "an answer", script: answers, status: 200, dispatched: true},
		{name: "a stream", script: []step{{10 * ms, streamHead + chunk(role+text("x")+finish+usage(8, 1)+done) + lastChunk}}, body: strings.Replace(dear, `"max_tokens"`, `"stream":true,"max_tokens"`, 1), status: 200, dispatched: true},
		{name: "a time limit", script: []step{{time.Hour, ""}}, status: 504, dispatched: true},
		{name: "a reset", script: []step{{10 * ms, cutOff}}, status: 502, dispatched: true},
		{name: "an upstream's error", script: []step{{10 * ms, status(500, "", "{}")}}, status: 502, dispatched: true},
		{name: "an upstream's refusal", script: []step{{10 * ms, status(400, "", `{"error":{"message":"no"}}`)}}, status: 400, dispatched: true},
		{name: "a page", script: []step{{10 * ms, status(200, "", "<html>")}}, status: 502, dispatched: true},
		{name: "a cut stream", script: []step{{10 * ms, streamHead + chunk(role+text("x"))}, {20 * ms, cutOff}}, body: strings.Replace(dear, `"max_tokens"`, `"stream":true,"max_tokens"`, 1), status: 200, dispatched: true},
		{name: "an error in a stream", script: []step{{10 * ms, streamHead + chunk(role+text("x")+`data: {"error":{"message":"no"}}`+"\n\n") + lastChunk}}, body: strings.Replace(dear, `"max_tokens"`, `"stream":true,"max_tokens"`, 1), status: 200, dispatched: true},
		{name: "a client that leaves", script: []step{{time.Hour, ""}}, leave: 50 * ms, dispatched: true},
		{name: "a client that leaves a stream", script: []step{{10 * ms, streamHead + chunk(role+text("x"))}, {time.Hour, ""}}, body: strings.Replace(dear, `"max_tokens"`, `"stream":true,"max_tokens"`, 1), leave: 50 * ms, status: 200, dispatched: true},
		{name: "a stop", script: []step{{time.Hour, ""}}, stop: true, status: 502, dispatched: true},
		{name: "an unknown model", body: strings.Replace(dear, "mini", "maxi", 1), status: 404},
		{name: "broken JSON", body: `{"model":`, status: 400},
		{name: "a bad header", headers: []string{"X-Headway-Time-Value", "much"}, status: 400},
		{name: "a compressed body", headers: []string{"Content-Encoding", "gzip"}, status: 400},
		{name: "too large", body: strings.Repeat(" ", 2<<20), status: 413},
		{name: "more than the budget", body: strings.Replace(dear, "1000", "2000", 1), status: 402},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if c.script == nil {
					c.script = answers
				}
				r := newRig(t, func(s *core.Settings) { s.Limits.Body, s.Limits.HeaderTimeout = 1<<20, 20*time.Second }, offer{name: "a", scripts: [][]step{c.script, answers}, input: "0", output: "100"})
				tight := budget(core.USD / 10)
				tight.MaxParallel, tight.RequestsPerMinute = core.Some[int64](1), core.Some[int64](1)
				r.limit(tight)
				ctx := t.Context()
				if c.leave > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.leave)
					defer cancel()
				}
				if c.stop {
					time.AfterFunc(50*ms, func() { r.cancel(gateway.ErrStopping) })
				}
				body := c.body
				if body == "" {
					body = dear
				}
				got := r.postCtx(ctx, chatPath, body, c.headers...)
				if got.status != c.status {
					t.Fatalf("status %d, want %d: %v %s", got.status, c.status, got.err, got.body)
				}
				synctest.Wait()
				if n := r.receipts(); (n == 1) != c.dispatched {
					t.Errorf("%d receipts", n)
				}
				s := r.accounts.Standing(r.key, time.Now())
				if s.Reserved != 0 {
					t.Errorf("%s USD are still reserved", s.Reserved)
				}
				if c.stop {
					return // the rig serves no more
				}
				if again := r.post(chatPath, dear); c.dispatched && saysOf(again) != "429 rate_limit_exceeded" || !c.dispatched && again.status != 200 {
					t.Errorf("the next call: %d %s", again.status, again.body)
				}
				time.Sleep(renewed)
				tight.BudgetDay = core.Some(s.Spend + core.USD)
				r.limit(tight)
				if again := r.post(chatPath, dear); again.status != 200 {
					t.Errorf("a minute later: %d %s", again.status, again.body)
				}
			})
		})
	}
}

// renewed is when a rate is free again, and a breaker closed.
const renewed = 61 * time.Second

// TestOneCallAfterAnother: a client that makes one call after another never meets
// itself, also where an upstream leaves its connection open behind the end.
func TestOneCallAfterAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := strings.Repeat("word ", 20_000)
		lingers := []step{{10 * ms, streamHead + chunk(role+text("x")+finish+usage(8, 1)+done)}, {time.Second, lastChunk}}
		r := newRig(t, nil, offer{name: "a", scripts: [][]step{lingers, {{10 * ms, status(200, "", whole(long, 8, 1))}}}})
		r.limit(core.KeyLimits{MaxParallel: core.Some[int64](1)})
		req, err := http.NewRequestWithContext(t.Context(), "POST", "http://gateway"+chatPath, strings.NewReader(askStream))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+clientKey)
		stream, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Body.Close()
		for seen, buf := "", make([]byte, 4<<10); !strings.Contains(seen, done); {
			n, err := stream.Body.Read(buf)
			if seen += string(buf[:n]); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 50 {
			if got := r.post(chatPath, ask); got.status != 200 {
				t.Fatalf("call %d: %d %s", i, got.status, got.body)
			}
		}
	})
}

// TestCallsAtOnce: max_parallel.
func TestCallsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, offer{name: "a", script: []step{{100 * ms, status(200, "", whole("fine", 8, 1))}}})
		r.limit(core.KeyLimits{MaxParallel: core.Some[int64](3)})
		var calls sync.WaitGroup
		var mu sync.Mutex
		seen := map[string]int{}
		for range 10 {
			calls.Go(func() {
				a := r.post(chatPath, ask)
				mu.Lock()
				defer mu.Unlock()
				if seen[saysOf(a)]++; a.status == 429 && a.header.Get("Retry-After") != "1" {
					t.Errorf("Retry-After %q", a.header.Get("Retry-After"))
				}
			})
		}
		calls.Wait()
		if seen["200"] != 3 || seen["429 too_many_parallel_calls"] != 7 {
			t.Errorf("%v", seen)
		}
	})
}

// TestRates: requests and tokens per minute, and what takes none of them.
func TestRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fine := []step{{10 * ms, status(200, "", whole("fine", 50, 50))}}
		r := newRig(t, nil, offer{name: "a", script: fine})
		r.limit(core.KeyLimits{RequestsPerMinute: core.Some[int64](2)})
		for range 5 {
			if got := r.list("/v1/models"); got.status != 200 {
				t.Errorf("%d %s", got.status, got.body)
			}
			if got := r.post(chatPath, `{}`); got.status != 400 {
				t.Errorf("%d %s", got.status, got.body)
			}
			if _, err := r.gw.Try(t.Context(), "a/mini", core.KindProbe); err != nil {
				t.Error(err)
			}
		}
		for _, want := range []string{"200", "200", "429 rate_limit_exceeded", "429 rate_limit_exceeded"} {
			got := r.post(chatPath, ask)
			if saysOf(got) != want || got.status == 429 && got.header.Get("Retry-After") != "60" {
				t.Errorf("%s, Retry-After %q: %s", saysOf(got), got.header.Get("Retry-After"), got.body)
			}
		}
		time.Sleep(time.Minute)
		if got := r.post(chatPath, ask); got.status != 200 {
			t.Errorf("a minute later: %d %s", got.status, got.body)
		}

		// A call is likely to need 10 tokens of its maximum of 100, and uses 100.
		limited := strings.Replace(ask, `"messages"`, `"max_tokens":100,"messages"`, 1)
		r.limit(core.KeyLimits{TokensPerMinute: core.Some[int64](250)})
		for i, want := range []string{"200", "200", "429 rate_limit_exceeded"} {
			got := r.post(chatPath, limited)
			synctest.Wait()
			if saysOf(got) != want {
				t.Errorf("call %d: %s: %s", i, saysOf(got), got.body)
			}
		}
		if got := r.post(chatPath, strings.Replace(ask, "hi there", strings.Repeat("word ", 1000), 1)); saysOf(got) != "429 rate_limit_exceeded" || !strings.Contains(got.body, "this call alone needs about") {
			t.Errorf("%d %s", got.status, got.body)
		}
	})
}
