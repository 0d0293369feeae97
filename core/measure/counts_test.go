package measure_test

import (
	"testing"
	"time"

	"headway/core"
	"headway/core/measure"
)

// TestCounts: the jobs of the window and those since count, of their own pair.
func TestCounts(t *testing.T) {
	now := date(1, 12, 0)
	v := newVault()
	b := newBoard(t, func() time.Time { return now }, v)
	want := func(c measure.Counts) {
		t.Helper()
		if got := b.Counts("p", "m"); got != c {
			t.Errorf("at %s: %+v, want %+v", now, got, c)
		}
	}
	want(measure.Counts{})
	b.Record(streamedCall(now, 500, 100))
	other := streamedCall(now, 500, 100)
	other.Model = "another"
	b.Record(other)
	long := streamedCall(now, 500, 100)
	long.Usage.UncachedInput = core.Some(int64(measure.LongPrompt))
	long.Kind = core.KindProbe
	b.Record(long)
	counted := b.Counts("p", "m")
	if counted.BaseLatency != 1 || counted.Prefill != 1 {
		t.Errorf("%+v", counted)
	}
	v.take(t, b)
	b = newBoard(t, func() time.Time { return now }, v)
	want(counted)
	// The first of March is in the window until the ninth, 01:00.
	now = date(9, 0, 59)
	want(counted)
	now = date(9, 1, 0)
	want(measure.Counts{})
}
