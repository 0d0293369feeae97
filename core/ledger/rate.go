package ledger

import "time"

const (
	span    = time.Minute
	buckets = 61 // one for each second of a span and of the moment that it begins and ends in
)

// window counts what was taken in the last minute, in one bucket for each second.
// A bucket leaves the window a minute after the last that was put in it: no 60
// seconds ever hold more than what fits. Its times are since its own beginning, so
// that a clock that is set does not move it.
type window struct {
	began  time.Time
	latest time.Duration
	of     [buckets]bucket
}

type bucket struct {
	last time.Duration
	n    int64
}

// at is a time in the window, which never runs backwards.
func (w *window) at(now time.Time) time.Duration {
	w.latest = max(w.latest, now.Sub(w.began))
	return w.latest
}

// second is the bucket of a time, and whether it holds that second.
func (w *window) second(at time.Duration) (b *bucket, holds bool) {
	s := int64(at / time.Second)
	b = &w.of[s%buckets]
	return b, int64(b.last/time.Second) == s
}

// used is what was taken in the minute before a time.
func (w *window) used(at time.Duration) (n int64) {
	for i := range w.of {
		if b := &w.of[i]; b.n > 0 && at-b.last < span {
			n += b.n
		}
	}
	return n
}

// wait is how long it takes until n more fit within limit, at least a second;
// where they never do, a minute.
func (w *window) wait(at time.Duration, n, limit int64) time.Duration {
	over := w.used(at) + n - limit
	now := int64(at / time.Second)
	for s := now + 1; s <= now+buckets; s++ { // the oldest first
		b := &w.of[s%buckets]
		if b.n > 0 && at-b.last < span {
			if over -= b.n; over <= 0 {
				return max(b.last+span-at, time.Second)
			}
		}
	}
	return span
}

// take counts n.
func (w *window) take(at time.Duration, n int64) {
	b, holds := w.second(at)
	if !holds {
		b.n = 0
	}
	b.n += n
	b.last = at
}

// give takes n back that were taken at a time, if they still count.
func (w *window) give(at time.Duration, n int64) {
	if b, holds := w.second(at); holds {
		b.n = max(b.n-n, 0)
	}
}
