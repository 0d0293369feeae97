package ledger

import (
	"fmt"
	"time"

	"headway/core"
)

// Hold is what one call takes up of its key's limits. Its methods may be called
// in any order and on a nil Hold, that of a call without a key, which takes up
// nothing.
type Hold struct {
	account *account
	key     *core.Key

	// The account's mutex guards what follows.
	requestAt time.Duration // when the request was taken from requests …
	requested bool          // … if it was
	counted   bool          // among the parallel calls
	id        core.CallID   // "": nothing is reserved
	most      core.Money    // reserved
	tokens    int64         // taken from tokens …
	tokensAt  time.Duration // … at this time; 0 tokens: none were
}

// Enter begins a call of a key, or says why it may not begin (Busy, with
// RetryAfter): more calls at once than max_parallel, or more in a minute than
// requests_per_minute. A call that may not has used up nothing.
func (a *Accounts) Enter(k *core.Key, now time.Time) (*Hold, error) {
	x := a.of(k.ID)
	h := &Hold{account: x, key: k, counted: true}
	x.mu.Lock()
	if k.MaxParallel.OK && x.parallel >= k.MaxParallel.V {
		x.mu.Unlock()
		e := core.Errorf(core.Busy, "max_parallel: this key may have %s under way, and has", calls(k.MaxParallel.V))
		e.Code, e.RetryAfter = "too_many_parallel_calls", time.Second
		e.Hint = "wait for one of them to end"
		return nil, e
	}
	if limit := k.RequestsPerMinute; limit.OK {
		w := begun(&x.requests, now)
		at := w.at(now)
		if w.used(at) >= limit.V {
			wait := w.wait(at, 1, limit.V)
			x.mu.Unlock()
			return nil, tooOften("requests_per_minute", wait, "this key may make %s a minute, and has", calls(limit.V))
		}
		w.take(at, 1)
		h.requestAt, h.requested = at, true
	}
	x.parallel++
	x.mu.Unlock()
	return h, nil
}

func calls(n int64) string {
	if n == 1 {
		return "1 call"
	}
	return fmt.Sprintf("%d calls", n)
}

// begun is a window, made where there is none yet.
func begun(w **window, now time.Time) *window {
	if *w == nil {
		*w = &window{began: now}
	}
	return *w
}

// tooOften is the refusal of a rate.
func tooOften(limit string, wait time.Duration, format string, args ...any) error {
	e := core.Errorf(core.Busy, limit+": "+format, args...)
	e.Code, e.RetryAfter = "rate_limit_exceeded", wait
	e.Hint = fmt.Sprintf("try again in %d s", int64((wait+time.Second-1)/time.Second))
	return e
}

// Reserve sets aside the most that the call can cost, and the tokens that it is
// likely to need. Asked again, for another offer, it raises what is set aside to
// that and never lowers it. Where not all of it fits it changes nothing and the
// error says what there is too little of: OverBudget, or Busy for
// tokens_per_minute.
func (h *Hold) Reserve(id core.CallID, most core.Money, tokens int64, now time.Time) error {
	if h == nil {
		return nil
	}
	x := h.account
	x.mu.Lock()
	short, ok := h.fits(most, now)
	if !ok {
		x.mu.Unlock()
		return short.refusal()
	}
	if limit := h.key.TokensPerMinute; limit.OK && tokens > h.tokens {
		w := begun(&x.tokens, now)
		at := w.at(now)
		others := w.used(at) - h.stillTaken(at)
		if tokens > limit.V || others > limit.V-tokens {
			wait := w.wait(at, tokens, limit.V+h.stillTaken(at))
			x.mu.Unlock()
			return tooManyTokens(tokens, limit.V, limit.V-others, wait)
		}
		w.give(h.tokensAt, h.tokens)
		w.take(at, tokens)
		h.tokens, h.tokensAt = tokens, at
	}
	if more := most - h.most; more > 0 {
		// Without a budget nothing bounds the sum; what cannot be said of it is left out.
		if sum, err := x.reserved.Plus(more); err == nil {
			x.reserved, h.most = sum, most
		}
	}
	if h.id == "" {
		h.id = id
		x.open[id] = h
	}
	x.mu.Unlock()
	return nil
}

// stillTaken is what of the hold's own tokens is in the window.
func (h *Hold) stillTaken(at time.Duration) int64 {
	if h.tokens == 0 || at-h.tokensAt >= span {
		return 0
	}
	return h.tokens
}

func tooManyTokens(tokens, limit, left int64, wait time.Duration) error {
	const format = "this key may use %d tokens a minute, "
	if tokens > limit {
		e := tooOften("tokens_per_minute", wait, format+"and this call alone needs about %d", limit, tokens).(*core.Error)
		e.Hint = "send a shorter prompt or ask for less output"
		return e
	}
	return tooOften("tokens_per_minute", wait, format+"%d are left, and the call needs about %d", limit, max(left, 0), tokens)
}

// Fits tells whether Reserve would set aside that much money now.
func (h *Hold) Fits(most core.Money, now time.Time) bool {
	if h == nil {
		return true
	}
	h.account.mu.Lock()
	defer h.account.mu.Unlock()
	_, ok := h.fits(most, now)
	return ok
}

// shortage is a budget that a call does not fit.
type shortage struct {
	period                      period
	limit, left, reserved, most core.Money
	renews                      time.Time
}

// fits tells whether the hold could have most reserved; of the budgets that it
// does not fit it gives the one that renews last.
func (h *Hold) fits(most core.Money, now time.Time) (short shortage, ok bool) {
	ok = true
	if most <= h.most {
		return short, ok // it is reserved already
	}
	x := h.account
	for p := day; p <= month; p++ {
		limit := p.budget(&h.key.KeyLimits)
		if !limit.OK {
			continue
		}
		others := x.reserved - h.most
		rest := left(limit.V, x.spend.used(p, now), others)
		if most <= rest {
			continue
		}
		if renews := p.renews(now); ok || renews.After(short.renews) {
			short = shortage{p, limit.V, rest, others, most, renews}
		}
		ok = false
	}
	return short, ok
}

// refusal says which budget it is, what is left of it and when it renews.
func (s *shortage) refusal() error {
	e := core.Errorf(core.OverBudget, "budget_usd_per_%s: %s of %s USD are left, and the call may cost up to %s", s.period, s.left, s.limit, s.most)
	if s.reserved > 0 {
		e.Msg += fmt.Sprintf("; %s are set aside for calls under way", s.reserved)
	}
	e.Code = "budget_exceeded"
	e.Hint = fmt.Sprintf("the budget renews at %s", s.renews.Format(time.RFC3339))
	if s.limit == 0 {
		e.Hint = "this key may spend nothing"
	}
	return e
}

// Ended tells that the client is about to have all of its answer: its next call
// may come before this one has left, and must find its place free.
func (h *Hold) Ended() {
	if h == nil {
		return
	}
	h.account.mu.Lock()
	h.uncount()
	h.account.mu.Unlock()
}

func (h *Hold) uncount() {
	if h.counted {
		h.counted = false
		h.account.parallel--
	}
}

// Leave ends the call's stay. With its receipt, which has been handed to the
// writer, what is set aside becomes what the call was charged, until the receipt
// is recorded; without one the call was never dispatched, and all that it took is
// given back.
func (h *Hold) Leave(r *core.Receipt) {
	if h == nil {
		return
	}
	x := h.account
	x.mu.Lock()
	defer x.mu.Unlock()
	h.uncount()
	switch {
	case r == nil:
		if h.requested {
			h.requested = false
			x.requests.give(h.requestAt, 1)
		}
		if h.tokens > 0 {
			x.tokens.give(h.tokensAt, h.tokens)
			h.tokens = 0
		}
		h.release()
	case h.id != "" && x.open[h.id] == h: // else it has been recorded already
		h.settle(r)
	}
}

// settle corrects what is set aside to what the call turned out to need. Tokens
// that it did not need are given back to the moment in which they were taken;
// more than that count when the call ends.
func (h *Hold) settle(r *core.Receipt) {
	x := h.account
	x.reserved -= h.most
	h.most = 0
	if sum, err := x.reserved.Plus(r.Charge.V); err == nil {
		x.reserved, h.most = sum, r.Charge.V
	}
	if h.tokens == 0 {
		return
	}
	switch more := r.Usage.Input() + r.Usage.Output.V - h.tokens; {
	case more < 0:
		x.tokens.give(h.tokensAt, -more)
	case more > 0:
		x.tokens.take(x.tokens.at(r.SettledAt), more)
	}
	h.tokens = 0 // it has been corrected
}

// release gives the reservation back.
func (h *Hold) release() {
	x := h.account
	x.reserved -= h.most
	h.most = 0
	if h.id != "" {
		delete(x.open, h.id)
		h.id = ""
	}
}
