package control

import (
	"context"
	"time"
)

// Watch decides as of when things have expired for sure.
type Watch = watch

// At takes a look at a clock that says wall, when the process has run for ran.
func (w *watch) At(wall time.Time, ran time.Duration, known time.Time) (time.Time, time.Duration) {
	return w.at(look{wall, ran}, known)
}

// ExpireOnce is one round of Expire.
func (d *Desk) ExpireOnce(ctx context.Context, w *Watch) time.Duration { return d.expire(ctx, w) }

// The times of Expire.
const (
	SureAfter   = sureAfter
	DoubtAfter  = doubtAfter
	ExpireEvery = expireEvery
)
