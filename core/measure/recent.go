package measure

import (
	"maps"
	"sync/atomic"
	"time"

	"headway/core"
)

// The live estimate of SPEC §5.
const (
	ttftKept    = 0.8 // what a new sample leaves of the old estimate
	ttftExpires = 24 * time.Hour
)

// sample is an estimate of the time to the first token, and when it last had a
// call. Its JSON is the stored record.
type sample struct {
	MS    float64   `json:"ms"`
	At    time.Time `json:"at"`
	micro float64   // MS to the microsecond, which put works out
}

// alive tells whether there was a sample in the last 24 hours. One that lies as
// far ahead is of a clock that has since been put right.
func (s *sample) alive(now time.Time) bool {
	return s != nil && now.Sub(s.At).Abs() < ttftExpires
}

// recent holds the live estimates. One goroutine adds, any number read: the map
// is replaced where an offer is new and never changed, the samples are swapped.
type recent struct {
	offers atomic.Pointer[map[core.OfferID]*atomic.Pointer[sample]]
}

func newRecent() *recent {
	r := &recent{}
	r.offers.Store(&map[core.OfferID]*atomic.Pointer[sample]{})
	return r
}

// get is an offer's estimate at a time; absent where there is none. micro is the
// same as a decision uses and a receipt keeps it.
func (r *recent) get(o core.OfferID, now time.Time) (ms, micro core.Opt[float64]) {
	if s := r.sample(o); s.alive(now) {
		return core.Some(s.MS), core.Some(s.micro)
	}
	return ms, micro
}

// fold takes one call's first token in ms, settled at a time.
func (r *recent) fold(o core.OfferID, ms float64, at time.Time) {
	if old := r.sample(o); old.alive(at) {
		ms = ttftKept*old.MS + (1-ttftKept)*ms
	}
	r.put(o, sample{MS: ms, At: at})
}

func (r *recent) sample(o core.OfferID) *sample {
	if p := (*r.offers.Load())[o]; p != nil {
		return p.Load()
	}
	return nil
}

func (r *recent) put(o core.OfferID, s sample) {
	offers := *r.offers.Load()
	p := offers[o]
	if p == nil {
		p = &atomic.Pointer[sample]{}
		offers = maps.Clone(offers)
		offers[o] = p
		r.offers.Store(&offers)
	}
	s.micro = core.Micro(s.MS)
	p.Store(&s)
}
