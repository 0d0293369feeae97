package gateway

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"headway/core"
	"headway/core/ledger"
	"headway/core/market"
	"headway/core/measure"
)

const (
	probeLook    = 15 * time.Second // between two looks at what is needed; one probe at each
	enoughJobs   = 10               // of a measure; from there on a pair's own median weighs most (SPEC §5)
	longestPause = 24 * time.Hour   // between two probes that bring nothing
	longestProbe = 5 * time.Minute  // of one call
)

// Prober makes small calls of Headway's own where an offer's own jobs are too few
// for its measures (SPEC §5): a short prompt for base latency and output speed, a
// long one for prefill. One at a time, each only where the most that it can cost
// fits what is left of the day's limit, and none where there is no limit.
type Prober struct {
	gateway *Gateway
	board   *measure.Board
	spent   *ledger.Probes

	mu     sync.Mutex // guards what follows
	probed map[probe]*probed
}

// NewProber makes a prober of a gateway, whose Book tells board and spent of each
// receipt.
func NewProber(g *Gateway, board *measure.Board, spent *ledger.Probes) *Prober {
	return &Prober{gateway: g, board: board, spent: spent, probed: map[probe]*probed{}}
}

// probe is what one is made for: a provider and model, with a prompt of one length.
type probe struct {
	measure.Pair
	long bool
}

func (p probe) length() string {
	if p.long {
		return "long"
	}
	return "short"
}

// probed is what is known of a probe that was made, or was too dear.
type probed struct {
	at     time.Time // of the last one; zero: none
	had    int64     // jobs that counted then
	misses int       // how many before it brought nothing, in a row
	held   time.Time // not before: it did not fit what was left of the day …
	under  *Setup    // … with these settings
}

// due is when the next may be made: every after the last, and twice as long after
// each that brought nothing, so that an offer that fails is not asked for ever.
func (p *probed) due(every time.Duration, has int64, s *Setup) time.Time {
	at := p.at
	if !at.IsZero() {
		pause := every
		for range p.missed(has) {
			pause = max(min(2*pause, longestPause), every)
		}
		at = at.Add(pause)
	}
	if p.under == s && p.held.After(at) {
		at = p.held
	}
	return at
}

// missed is how many probes in a row brought nothing, up to the last one.
func (p *probed) missed(has int64) int {
	if p.at.IsZero() || has > p.had {
		return 0
	}
	return min(p.misses+1, 32)
}

// Run makes probes until ctx ends; it returns nil then.
func (p *Prober) Run(ctx context.Context) error {
	for {
		timer := time.NewTimer(probeLook)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
			p.look(ctx)
		}
	}
}

// look makes the probe that is needed most, if one is due and fits the limit.
func (p *Prober) look(ctx context.Context) {
	g := p.gateway
	s, now := g.Setup(), g.Clock()
	limit := s.Settings.Probes.PerDay
	if !limit.OK || g.draining.Load() || g.Book.Healthy() != nil {
		return
	}
	left := limit.V - p.spent.Spent(now)
	for _, w := range p.wanted(s, now) {
		if w.due.After(now) {
			return
		}
		call, most, err := p.request(w.entry.Offer, w.long)
		if err != nil || most > left {
			p.hold(w.probe, s, nextDay(now)) // a cheaper one may fit
			continue
		}
		p.begun(w, now)
		p.make(ctx, w.entry.Offer.ID, call)
		return
	}
}

// make makes one probe and waits until its receipt counts, which is when its
// measures and what it cost are known.
func (p *Prober) make(ctx context.Context, offer core.OfferID, call ownCall) {
	limited, cancel := context.WithTimeout(ctx, longestProbe)
	defer cancel()
	r, err := call.request(limited)
	if err != nil {
		return
	}
	kept := make(chan struct{})
	if _, err := p.gateway.Own(r, Forced{Offer: offer, Kind: core.KindProbe, Kept: func() { close(kept) }}); err != nil {
		return // it was not dispatched: no receipt follows
	}
	select {
	case <-kept:
	case <-ctx.Done():
	}
}

// want is a probe that is needed.
type want struct {
	probe
	entry *market.Entry
	has   int64 // jobs that count towards what is needed
	least int64 // of the measure that has the fewest
	due   time.Time
}

// wanted are the probes that offers need: those that are due first, the ones with
// the fewest jobs before the others, then the cheaper; then the rest by when they
// are due. What is out, paused, at work within a capacity, at a full node, or kept
// from everybody by the routing is left alone.
func (p *Prober) wanted(s *Setup, now time.Time) []want {
	cheapest := map[measure.Pair]*market.Entry{}
	for _, e := range s.Catalogue.Entries() {
		if !probeable(e, s, now) {
			continue
		}
		pair := measure.Pair{Provider: e.Offer.Provider.ID, Model: e.Offer.Model}
		if c := cheapest[pair]; c == nil || e.Offer.Price.Input < c.Offer.Price.Input {
			cheapest[pair] = e
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(s)
	var out []want
	for pair, e := range cheapest {
		c := p.board.Counts(pair.Provider, pair.Model)
		short := want{probe: probe{pair, false}, entry: e, least: min(c.BaseLatency, c.Output),
			has: min(c.BaseLatency, enoughJobs) + min(c.Output, enoughJobs)}
		long := want{probe: probe{pair, true}, entry: e, least: c.Prefill, has: c.Prefill}
		for _, w := range [...]want{short, long} {
			if w.least >= enoughJobs || w.long && (!holdsLong(e.Offer) || c == measure.Counts{}) {
				continue // a long prompt goes only where a short one was answered
			}
			if known := p.probed[w.probe]; known != nil {
				w.due = known.due(s.Settings.Probes.Every, w.has, s)
			}
			if w.due.Before(now) {
				w.due = now
			}
			out = append(out, w)
		}
	}
	slices.SortFunc(out, func(a, b want) int {
		return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.least, b.least), cmp.Compare(a.entry.Offer.Price.Input, b.entry.Offer.Price.Input),
			cmp.Compare(a.entry.Offer.ID, b.entry.Offer.ID), cmp.Compare(a.length(), b.length()))
	})
	return out
}

// forget drops what is known of pairs that are not configured any more.
func (p *Prober) forget(s *Setup) {
	configured := map[measure.Pair]bool{}
	for _, e := range s.Catalogue.Entries() {
		configured[measure.Pair{Provider: e.Offer.Provider.ID, Model: e.Offer.Model}] = true
	}
	for known := range p.probed {
		if !configured[known.Pair] {
			delete(p.probed, known)
		}
	}
}

// probeable tells whether a probe may be sent to an offer now.
func probeable(e *market.Entry, s *Setup, now time.Time) bool {
	r := &s.Settings.Routing
	st := e.Status(now, s.Settings.Breaker, core.Opt[float64]{})
	return st.State == "active" && e.Allowed(nil, r) && r.PriceCap.Allows(&e.Offer.Price.Rates) && (!st.Capacity.OK || st.InFlight == 0) && !e.State.Full()
}

// begun notes that a probe is being made.
func (p *Prober) begun(w want, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := &probed{at: now, had: w.has}
	if last := p.probed[w.probe]; last != nil {
		next.misses = last.missed(w.has)
	}
	p.probed[w.probe] = next
}

// hold puts a probe off: it did not fit.
func (p *Prober) hold(of probe, s *Setup, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.probed[of]
	if known == nil {
		known = &probed{}
		p.probed[of] = known
	}
	known.held, known.under = until, s
}

// nextDay is the end of the UTC day.
func nextDay(now time.Time) time.Time { return now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour) }

// Probing is how the probes stand, for the status.
type Probing struct {
	PerDay core.Opt[core.Money] `json:"usd_per_day,omitzero"` // absent: none are made
	Spent  core.Money           `json:"spent_usd"`            // by calls of kind probe today (UTC)
	// When the next is made, where one is needed: to which offer, and whether
	// its prompt is short or long.
	NextAt     core.Opt[time.Time] `json:"next_at,omitzero"`
	NextOffer  core.OfferID        `json:"next_offer,omitempty"`
	NextPrompt string              `json:"next_prompt,omitempty"`
}

// Standing is how the probes stand now.
func (p *Prober) Standing() Probing {
	s, now := p.gateway.Setup(), p.gateway.Clock()
	out := Probing{PerDay: s.Settings.Probes.PerDay, Spent: p.spent.Spent(now)}
	if !out.PerDay.OK {
		return out
	}
	if all := p.wanted(s, now); len(all) > 0 {
		next := all[0]
		out.NextAt, out.NextOffer, out.NextPrompt = core.Some(next.due.UTC()), next.entry.Offer.ID, next.length()
	}
	return out
}
