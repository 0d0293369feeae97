package sim

import (
	"sync/atomic"
	"time"
)

// Clock is a simulated clock: it stands still until something moves it. Its Now
// is a core.Clock. It may be used concurrently.
type Clock struct {
	start time.Time
	since atomic.Int64 // nanoseconds
}

// NewClock makes a clock that shows start. A monotonic reading is left out of
// it: with one, differences would mix two clocks.
func NewClock(start time.Time) *Clock { return &Clock{start: start.Round(0)} }

// Now is the simulated time.
func (c *Clock) Now() time.Time { return c.start.Add(time.Duration(c.since.Load())) }

// Advance moves the clock on by d. It never moves back: a d below 0 does nothing.
func (c *Clock) Advance(d time.Duration) {
	if d > 0 {
		c.since.Add(int64(d))
	}
}

// AdvanceTo moves the clock on to t, and does nothing where t has passed.
func (c *Clock) AdvanceTo(t time.Time) {
	to := int64(t.Sub(c.start))
	for {
		now := c.since.Load()
		if now >= to || c.since.CompareAndSwap(now, to) {
			return
		}
	}
}
