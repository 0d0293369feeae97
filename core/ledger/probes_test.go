package ledger_test

import (
	"errors"
	"testing"
	"time"

	"headway/core"
	"headway/core/ledger"
)

func TestProbesKeepWhatTheyCost(t *testing.T) {
	book := core.NewMemory()
	load := func() *ledger.Probes {
		t.Helper()
		p, err := ledger.LoadProbes(book)
		if err != nil {
			t.Fatal(err)
		}
		book.Recorder = p
		return p
	}
	p := load()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	settle := func(kind core.CallKind, at time.Time, charge core.Opt[core.Money]) {
		t.Helper()
		id := core.NewCallID(at)
		if err := book.Open(core.Intent{ID: id, Kind: kind}); err != nil {
			t.Fatal(err)
		}
		book.Append(&core.Receipt{ID: id, Kind: kind, SettledAt: at, Charge: charge}, nil)
	}
	spent := func(at time.Time, want core.Money) {
		t.Helper()
		if got := p.Spent(at); got != want {
			t.Errorf("on %s: %s, want %s", at.Format(time.DateOnly), got, want)
		}
	}
	settle(core.KindProbe, noon, core.Some(core.Money(7)))
	settle(core.KindProbe, noon.Add(11*time.Hour+59*time.Minute), core.Some(core.Money(5)))
	settle(core.KindJob, noon, core.Some(core.USD))
	settle(core.KindTest, noon, core.Some(core.USD))
	settle(core.KindProbe, noon, core.Opt[core.Money]{}) // lost, or nothing is known of it
	spent(noon, 12)
	p = load() // a restart
	spent(noon.Add(-11*time.Hour), 12)
	spent(noon.Add(12*time.Hour), 0)
	settle(core.KindProbe, noon.Add(12*time.Hour).In(time.FixedZone("east", 3*3600)), core.Some(core.Money(3))) // midnight, UTC
	spent(noon, 12)
	spent(noon.Add(24*time.Hour), 3)
	// A clock that was set back finds what it had spent.
	settle(core.KindProbe, noon, core.Some(core.Money(1)))
	spent(noon, 13)
	for day := range 400 {
		settle(core.KindProbe, noon.Add(time.Duration(day+2)*24*time.Hour), core.Some(core.Money(1)))
	}
	value, err := book.Get("probes", "spend")
	if err != nil || len(value) > 200 {
		t.Errorf("what is kept grows: %d bytes, %v", len(value), err)
	}
	spent(noon.Add(401*24*time.Hour), 1)
	// Also where every day that is kept lies ahead.
	settle(core.KindProbe, noon, core.Some(core.Money(9)))
	settle(core.KindProbe, noon, core.Some(core.Money(9)))
	spent(noon, 18)
}

func TestProbesThatCannotBeRead(t *testing.T) {
	for _, text := range []string{"", "null", "{", `{"2026-03-01": "x"}`, `[1]`} {
		book := core.NewMemory()
		if err := book.Put("probes", "spend", []byte(text)); err != nil {
			t.Fatal(err)
		}
		var e *core.Error
		if _, err := ledger.LoadProbes(book); !errors.As(err, &e) || e.Kind != core.Unavailable || e.Hint == "" {
			t.Errorf("%q: %v", text, err)
		}
	}
}
