package relay

import "time"

// Apart is how far a read that held output must be from the last one counted to
// count as an arrival of its own (SPEC §4).
const Apart = 10 * time.Millisecond

// Arrivals counts the separate times at which output reached the router. The
// zero value is ready.
type Arrivals struct {
	count int64
	last  time.Duration
}

// Add takes the time of a read that held output, since the stream began.
func (a *Arrivals) Add(at time.Duration) {
	if a.count == 0 || at-a.last >= Apart {
		a.count++
		a.last = at
	}
}

// Count is the number of arrivals so far.
func (a *Arrivals) Count() int64 { return a.count }
