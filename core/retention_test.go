package core

import (
	"testing"
	"time"
)

func TestKept(t *testing.T) {
	for _, c := range []struct {
		months Opt[int]
		now    string
		want   string // "": all is kept
	}{
		{Opt[int]{}, "2026-11-30T12:00:00Z", ""},
		{Some(1), "2026-11-30T23:59:59.999Z", "2026-10-01"},
		{Some(1), "2026-12-01T00:00:00Z", "2026-11-01"},
		{Some(2), "2026-01-31T00:00:00Z", "2025-11-01"},
		{Some(13), "2026-03-31T00:00:00Z", "2025-02-01"},
		{Some(1), "2026-12-01T00:30:00+01:00", "2026-10-01"}, // it is November in UTC
		{Some(1200), "2026-11-30T00:00:00Z", "1926-11-01"},
	} {
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if at := Kept(c.months, now); !at.IsZero() {
			got = at.Format(time.DateOnly)
		}
		if got != c.want {
			t.Errorf("%v months at %s: since %q, want %q", c.months, c.now, got, c.want)
		}
	}
	kept := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	if id := NewCallID(kept); id.Expired(kept) || id.Expired(time.Time{}) {
		t.Error("the first of a kept month has expired")
	}
	if !NewCallID(kept.Add(-time.Millisecond)).Expired(kept) {
		t.Error("the last of an expired month has not expired")
	}
	if CallID("no id").Expired(kept) {
		t.Error("what has no time has expired")
	}
}
