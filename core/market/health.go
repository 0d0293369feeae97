package market

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"headway/core"
)

// MaxQuotaPause is the longest that an exhausted quota pauses a provider
// (SPEC §9).
const MaxQuotaPause = 15 * time.Minute

// longestRetryAfter is what ParseRetryAfter cuts to, so that no sum with it
// leaves the range of a time. Breaker.MaxRetryAfter cuts to what is allowed.
const longestRetryAfter = 365 * 24 * time.Hour

// State is how one offer stands at this moment: calls in flight, failures, an
// operator's pause. It outlives reloads of the catalogue, by the offer's id.
// All methods may be called concurrently.
type State struct {
	inFlight atomic.Int64
	line     atomic.Pointer[core.Line]
	// marked: out or paused was set since the last Resume. A decision looks at
	// every offer of a model; one that never failed costs it no mutex.
	marked atomic.Bool

	// mu guards what follows, so that a failure and the time that it takes the
	// offer out for are seen together.
	mu      sync.Mutex
	failed  time.Time // the last counted failure
	counted int       // counted failures, each less than Breaker.Within after the one before
	out     time.Time // out of the running until then; zero: never was
	paused  bool      // by an operator
}

// SetLine gives a node's offer the line that its calls wait in for a free slot, so
// that a full node stays in the running (SPEC §8); nil: the offer is not a node's.
func (s *State) SetLine(l core.Line) {
	if l == nil {
		s.line.Store(nil)
		return
	}
	s.line.Store(&l)
}

// stand is how the offer's line stands; false: it has none.
func (s *State) stand() (core.Stand, bool) {
	l := s.line.Load()
	if l == nil {
		return core.Stand{}, false
	}
	return (*l).Stand(), true
}

// Full tells whether the offer is a node's and a call would wait there for a slot.
func (s *State) Full() bool {
	stand, ok := s.stand()
	return ok && stand.Full
}

// InFlight is the count of calls that hold the offer now.
func (s *State) InFlight() int64 { return s.inFlight.Load() }

// Acquire takes a place for one call; false where capacity is used up. A node's
// offer always has one: the call queues there. Calling release again does
// nothing.
func (s *State) Acquire(capacity core.Opt[int64]) (release func(), ok bool) {
	for {
		n := s.inFlight.Load()
		if capacity.OK && n >= capacity.V && s.line.Load() == nil {
			return nil, false
		}
		if s.inFlight.CompareAndSwap(n, n+1) {
			break
		}
	}
	var released atomic.Bool
	return func() {
		if released.CompareAndSwap(false, true) {
			s.inFlight.Add(-1)
		}
	}, true
}

// Fail counts one failure. Two less than b.Within apart take the offer out for
// b.Out; one while it is out does not prolong that, and nothing but time clears
// the count (SPEC §9).
func (s *State) Fail(now time.Time, b core.Breaker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	again := s.recent(now, b)
	if now.After(s.failed) { // calls that end together may report in any order
		s.failed = now
	}
	if !again {
		s.counted = 1
		return
	}
	s.counted++
	if !now.Before(s.out) {
		s.out = now.Add(b.Out)
		s.marked.Store(true)
	}
}

// RetryAfter takes the offer out at once for d, at most b.MaxRetryAfter, and
// counts nothing. It never brings an offer back sooner.
func (s *State) RetryAfter(now time.Time, d time.Duration, b core.Breaker) {
	until := now.Add(min(d, b.MaxRetryAfter))
	s.mu.Lock()
	defer s.mu.Unlock()
	if until.After(s.out) {
		s.out = until
		s.marked.Store(true)
	}
}

// Pause keeps the offer out of the running until Resume: an operator's word.
func (s *State) Pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = true
	s.marked.Store(true)
}

// Resume ends an operator's pause, and brings an offer that is out back with
// its failures forgotten: the operator says that it works.
func (s *State) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused, s.counted, s.failed, s.out = false, 0, time.Time{}, time.Time{}
	s.marked.Store(false)
}

// recent tells whether the last counted failure still counts. s.mu is held.
func (s *State) recent(now time.Time, b core.Breaker) bool {
	return !s.failed.IsZero() && now.Sub(s.failed) < b.Within
}

func (s *State) standing() (paused bool, out time.Time) {
	if !s.marked.Load() {
		return false, time.Time{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.paused, s.out
}

// Account is how a provider's account stands: what pauses all of its offers at
// once. A provider whose credential changes gets a new one, so that an answer
// to the old credential pauses nothing any more. All methods may be called
// concurrently.
type Account struct {
	provider *core.Provider // whose credential it stands for
	marked   atomic.Bool    // as State's

	// mu guards what follows.
	mu      sync.Mutex
	refused bool      // the credential was not accepted
	quota   time.Time // its quota is used up until then
}

// marked tells whether the offer may be out or paused. Most were never: no more is
// asked of them.
func (e *Entry) marked() bool { return e.State.marked.Load() || e.Account.marked.Load() }

// Ready tells whether an offer that was in the running still is: nothing has paused it or
// taken it out, and a node's is there.
func (e *Entry) Ready(now time.Time) bool {
	if e.marked() {
		refused, quota := e.Account.standing()
		paused, out := e.State.standing()
		if paused || refused || now.Before(quota) || now.Before(out) {
			return false
		}
	}
	stand, ok := e.State.stand()
	return !ok || stand.Up
}

// Refuse pauses the provider's offers after an authentication failure, until
// the credential changes or an operator resumes (SPEC §9).
func (a *Account) Refuse() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused = true
	a.marked.Store(true)
}

// Exhaust pauses the provider's offers after an exhausted quota, for as long as
// the upstream asked for where it did, at most MaxQuotaPause.
func (a *Account) Exhaust(now time.Time, asked core.Opt[time.Duration]) {
	d := asked.Or(MaxQuotaPause)
	if d <= 0 || d > MaxQuotaPause {
		d = MaxQuotaPause
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.quota = now.Add(d)
	a.marked.Store(true)
}

// Resume ends both pauses of the account.
func (a *Account) Resume() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused, a.quota = false, time.Time{}
	a.marked.Store(false)
}

func (a *Account) standing() (refused bool, quota time.Time) {
	if !a.marked.Load() {
		return false, time.Time{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused, a.quota
}

// Status is one offer of the list of SPEC §24.
type Status struct {
	ID       core.OfferID    `json:"id"`
	Provider core.ProviderID `json:"provider"`
	Model    core.Model      `json:"model"`
	// State is active, out, paused, or gone: no longer configured, with calls
	// still in flight.
	State           string              `json:"state"`
	OutUntil        core.Opt[time.Time] `json:"out_until,omitzero"`    // UTC
	OutBy           string              `json:"out_by,omitempty"`      // node: its node is not here, or the model server there does not answer
	PausedBy        string              `json:"paused_by,omitempty"`   // operator, auth or quota
	PausedUntil     core.Opt[time.Time] `json:"paused_until,omitzero"` // UTC; absent: until resumed
	CountedFailures int                 `json:"counted_failures"`      // those that still count
	InFlight        int64               `json:"in_flight"`
	Capacity        core.Opt[int64]     `json:"capacity,omitzero"`
	TTFT            core.Opt[float64]   `json:"ttft_ms,omitzero"`
}

// Status says how the offer stands at now. ttft is its live estimate.
func (e *Entry) Status(now time.Time, b core.Breaker, ttft core.Opt[float64]) Status {
	o := e.Offer
	st := Status{ID: o.ID, Provider: o.Provider.ID, Model: o.Model, State: "active",
		InFlight: e.State.InFlight(), Capacity: o.Capacity, TTFT: ttft}
	paused, out := e.State.standing()
	if now.Before(out) {
		st.State, st.OutUntil = "out", core.Some(out.UTC())
	}
	st.CountedFailures = e.State.failures(now, b)
	refused, quota := e.Account.standing()
	switch {
	case paused:
		st.State, st.PausedBy = "paused", "operator"
	case refused:
		st.State, st.PausedBy = "paused", "auth"
	case now.Before(quota):
		st.State, st.PausedBy, st.PausedUntil = "paused", "quota", core.Some(quota.UTC())
	}
	if stand, ok := e.State.stand(); ok && !stand.Up && st.State == "active" {
		st.State, st.OutBy = "out", "node"
	}
	if e.gone {
		st.State, st.OutBy = "gone", ""
	}
	return st
}

func (s *State) failures(now time.Time, b core.Breaker) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.recent(now, b) {
		return 0
	}
	return s.counted
}

// ParseRetryAfter reads a Retry-After header: seconds, also with a fraction, or
// an HTTP date, which now is taken from; a date that has passed is 0. False
// where it cannot be read. A huge value is cut to a year.
func ParseRetryAfter(value string, now time.Time) (time.Duration, bool) {
	value = strings.TrimSpace(value)
	if value == "" {
		return 0, false
	}
	// Digits and one point only: ParseFloat alone would take "inf" and "0x1p9".
	if strings.Trim(value, "0123456789.") == "" {
		seconds, err := strconv.ParseFloat(value, 64)
		if err != nil && seconds == 0 {
			return 0, false
		}
		if seconds >= longestRetryAfter.Seconds() {
			return longestRetryAfter, true
		}
		return time.Duration(seconds * float64(time.Second)), true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	// Sub saturates, so that a far date is huge and not negative.
	return min(max(at.Sub(now), 0), longestRetryAfter), true
}
