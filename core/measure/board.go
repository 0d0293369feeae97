package measure

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"headway/core"
)

const (
	// keepDays is how long day sketches are kept, for charts.
	keepDays = 35
	// clockCheck is how often Run looks at the clock besides: timers do not see
	// a clock that was set.
	clockCheck = time.Minute
	// refreshEvery is the least time between two refreshes of today's values.
	refreshEvery = 250 * time.Millisecond
)

// Board is what a router knows of its providers: it is told of every receipt
// (core.Recorder), keeps a sketch per day, provider, model and measure in the
// vault, and answers with the medians of the window. Measures and TTFT take no
// lock and may be called from anywhere; Record and Changed are called by the one
// goroutine that writes receipts.
type Board struct {
	clock  core.Clock
	vault  core.Vault
	view   atomic.Pointer[view]
	recent *recent
	late   atomic.Int64
	wake   chan struct{} // holds one token while today's values are behind

	// mu guards the fields below, which Record changes and refresh reads.
	mu        sync.Mutex
	days      map[day]*daySketches
	dirty     map[entry]*Sketch
	dirtyTTFT map[core.OfferID]bool
	strict    *span // of the window that ends at strictTo
	strictTo  day
	partial   bool // strict has no jobs at all for some measure
}

// daySketches are what was settled on one day.
type daySketches struct {
	pairs  map[Pair]*sketches
	errors map[core.OfferID]*offErrors
}

// NewBoard reads what an earlier Board left in the vault and has its first
// snapshot when it returns. It fails where the vault does (the vault's error) and
// where a record cannot be read (core.Unavailable).
func NewBoard(clock core.Clock, vault core.Vault) (*Board, error) {
	b := &Board{
		clock: clock, vault: vault,
		recent:    newRecent(),
		wake:      make(chan struct{}, 1),
		days:      map[day]*daySketches{},
		dirty:     map[entry]*Sketch{},
		dirtyTTFT: map[core.OfferID]bool{},
	}
	if err := b.load(); err != nil {
		return nil, err
	}
	b.refresh()
	return b, nil
}

// Record takes one receipt: its values into the sketches of the day on which it
// was settled, its first token into the offer's live estimate, the errors of what
// was predicted into the offer's. What settled on a day that the window already has
// counts on today's instead, so that a published median never changes: the receipt
// then says so, and Late rises.
func (b *Board) Record(r *core.Receipt) {
	v := valuesOf(r)
	off := errorsOf(r)
	first := firstToken(r)
	if r.Provider == "" || r.Model == "" || v == (values{}) && off == (wrong{}) && !first.OK {
		return
	}
	now := b.clock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if first.OK {
		b.recent.fold(r.Offer, first.V, r.SettledAt)
		b.dirtyTTFT[r.Offer] = true
	}
	if v == (values{}) && off == (wrong{}) {
		return
	}
	d := dayOf(r.SettledAt)
	if d <= sealed(now) {
		d = dayOf(now)
		r.CountedOn = d.String()
		b.late.Add(1)
	}
	adds(r, d, v, off, func(e entry, v int64) {
		s := sketchOf(b.days, e)
		s.Add(v)
		b.dirty[e] = s
	})
	if b.partial {
		select {
		case b.wake <- struct{}{}:
		default: // Run has yet to take the last one
		}
	}
}

// adds gives each value that a receipt adds to a day, and to which of its sketches.
func adds(r *core.Receipt, d day, v values, off wrong, add func(entry, int64)) {
	for m, v := range v {
		if v > 0 {
			add(entry{day: d, what: measureNames[m], pair: Pair{r.Provider, r.Model}}, v)
		}
	}
	for kind, e := range off {
		if e.OK {
			add(entry{day: d, what: errorNames[kind], offer: r.Offer}, e.V)
		}
	}
}

// firstToken is the sample of a live estimate: of settled, streamed, real calls.
func firstToken(r *core.Receipt) core.Opt[float64] {
	if !counts(r) || r.Offer == "" || !r.Streamed || micros(r.Timing.FirstToken) == 0 {
		return core.Opt[float64]{}
	}
	return r.Timing.FirstToken
}

// Changed gives the records that changed since it was last asked, to be stored
// together with the receipts that changed them.
func (b *Board) Changed() []core.Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []core.Record
	for e, s := range b.dirty {
		out = append(out, core.Record{Kind: kindDay, Name: e.name(), Value: s.Append(nil)})
	}
	for o := range b.dirtyTTFT {
		value, _ := json.Marshal(b.recent.sample(o)) // a finite number and a time: never fails
		out = append(out, core.Record{Kind: kindTTFT, Name: string(o), Value: value})
	}
	clear(b.dirty)
	clear(b.dirtyTTFT)
	return out
}

// Run swaps the snapshot once per UTC day at 01:00, follows a clock that was set
// within a minute, and brings today's values up to date as jobs settle, at most
// four times a second. It returns nil when ctx ends.
func (b *Board) Run(ctx context.Context) error {
	last := b.refresh().to
	for {
		if !b.wait(ctx, clockCheck, b.wake) {
			return nil
		}
		to := b.refresh().to
		if to == last+1 {
			// Only as days pass: a clock that jumped must not cost a week of data.
			b.drop(dayOf(b.clock()) - keepDays)
		}
		last = to
		if !b.wait(ctx, refreshEvery, nil) {
			return nil
		}
	}
}

// wait ends after a time, at the next 01:00 UTC or with wake, whichever is
// first; false: ctx ended.
func (b *Board) wait(ctx context.Context, most time.Duration, wake <-chan struct{}) bool {
	now := b.clock()
	roll := (sealed(now) + 2).start().Add(joinsAfter)
	timer := time.NewTimer(min(most, roll.Sub(now)))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-wake:
	}
	return true
}

// refresh makes the snapshot that the clock asks for and swaps it in. Everything
// it needs is in memory, so it cannot fail.
func (b *Board) refresh() *view {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock()
	if to := sealed(now); b.strict == nil || to != b.strictTo {
		b.strict, b.strictTo = spanOf(b.days, to-windowDays+1, to), to
		b.partial = b.strict.lacking()
	}
	today := &span{}
	if b.partial {
		today = spanOf(b.days, b.strictTo+1, dayOf(now))
	}
	v := newView(b.strictTo, b.strict, today)
	b.view.Store(v)
	return v
}

// Measures are the figures of a provider and model in the snapshot; those of the
// model or of all where that pair has no jobs. They are shared: a caller reads.
func (b *Board) Measures(p core.ProviderID, m core.Model) *core.Measures {
	return b.view.Load().measures(p, m)
}

// TTFT is the live estimate of an offer's first token in ms; absent where no
// streamed call settled in the last 24 hours.
func (b *Board) TTFT(o core.OfferID) core.Opt[float64] {
	ms, _ := b.recent.get(o, b.clock())
	return ms
}

// TTFTAt is TTFT for a decision: for one who has read the clock, and to the
// microsecond, so that receipts keep it as it was used.
func (b *Board) TTFTAt(o core.OfferID, now time.Time) core.Opt[float64] {
	_, micro := b.recent.get(o, now)
	return micro
}

// Rows are the measures of every pair that has jobs in the window or since, and
// of those given, up to date to the last receipt, in the order of provider and
// model.
func (b *Board) Rows(known []Pair) []Row {
	v := b.refresh()
	return rows(slices.Concat(known, v.pairs), func(p Pair) core.Measures {
		return *v.measures(p.Provider, p.Model)
	})
}

// Window are the days of the snapshot.
func (b *Board) Window() Window { return windowTo(b.view.Load().to) }

// Late counts the receipts since the start that came after their day had joined
// the window.
func (b *Board) Late() int64 { return b.late.Load() }
