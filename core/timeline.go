package core

import (
	"math"
	"time"
)

// Timeline is the marks of one attempt of a call, all from this process's
// monotonic clock (SPEC §2). A mark that was not reached is the zero time, and
// every figure that needs it is absent. No other code subtracts two marks.
type Timeline struct {
	T0 time.Time // request received
	T1 time.Time // this attempt's upstream request started
	T2 time.Time // its response headers
	T3 time.Time // its first non-empty stream event
	T4 time.Time // its first effective output
	T5 time.Time // its first visible text
	TL time.Time // its last output
	T6 time.Time // its body complete or closed
	T7 time.Time // handler finished
}

// Queued is t0→t1: the wait before this attempt was sent.
func (t Timeline) Queued() Opt[float64] { return between(t.T0, t.T1) }

// Headers is t1→t2; its origin is the upstream start, unlike the next five.
func (t Timeline) Headers() Opt[float64] { return between(t.T1, t.T2) }

// FirstEvent is t0→t3; the event may be metadata only.
func (t Timeline) FirstEvent() Opt[float64] { return between(t.T0, t.T3) }

// FirstResponse is t0→t4: text, reasoning, function arguments, tool input.
func (t Timeline) FirstResponse() Opt[float64] { return between(t.T0, t.T4) }

// FirstText is t0→t5, only where text was visible.
func (t Timeline) FirstText() Opt[float64] { return between(t.T0, t.T5) }

// Done is t0→t6; a close is not a success.
func (t Timeline) Done() Opt[float64] { return between(t.T0, t.T6) }

// Total is t0→t7, nearest to the caller's view.
func (t Timeline) Total() Opt[float64] { return between(t.T0, t.T7) }

// FirstToken is t1→t4, the dispatch to the first output.
func (t Timeline) FirstToken() Opt[float64] { return between(t.T1, t.T4) }

// Output is t4→last output.
func (t Timeline) Output() Opt[float64] { return between(t.T4, t.TL) }

// Upstream is t1→t6: all the time that the provider had.
func (t Timeline) Upstream() Opt[float64] { return between(t.T1, t.T6) }

// VisibleTPS is output tokens ÷ (t6−t5) in seconds: what a person saw, not a
// system's throughput.
func (t Timeline) VisibleTPS(tokens int64) Opt[float64] {
	return PerSecond(tokens, between(t.T5, t.T6))
}

// PerSecond is a count over a time in ms; absent where the time is absent or
// not positive, or the count is not positive, or the speed is none that a record shows.
func PerSecond(n int64, ms Opt[float64]) Opt[float64] {
	if !ms.OK || ms.V <= 0 || n <= 0 {
		return Opt[float64]{}
	}
	v := Micro(float64(n) / ms.V * 1000)
	return Opt[float64]{V: v, OK: v > 0}
}

// Micro rounds a figure to three decimals, so that records stay short. One that is too
// large to have any stays as it is.
func Micro(v float64) float64 {
	if math.Abs(v) > 1<<53 {
		return v
	}
	return math.Round(v*1000) / 1000
}

// Ms is a duration in ms to the microsecond.
func Ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func between(from, to time.Time) Opt[float64] {
	if from.IsZero() || to.IsZero() {
		return Opt[float64]{}
	}
	return Some(Ms(to.Sub(from)))
}
