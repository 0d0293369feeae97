package ledger_test

import (
	"errors"
	"testing"
	"time"

	"headway/core"
	"headway/core/ledger"
)

// stubborn is a vault whose writes fail once so many were made.
type stubborn struct {
	core.Vault
	writes int
}

func (s *stubborn) Write(puts, deletes []core.Record) error {
	if s.writes--; s.writes < 0 {
		return errors.New("the disk is full")
	}
	return s.Vault.Write(puts, deletes)
}

// TestTallyDrops: sums of before a day go, or their speeds alone, over more records than
// one write has; where one fails the rest is there still, and the next one ends it.
func TestTallyDrops(t *testing.T) {
	memory := core.NewMemory()
	vault := &stubborn{memory, 1 << 30}
	tally, err := ledger.LoadTally(vault, memory, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	const days, keys = 60, 10
	first := time.Date(2026, 9, 1, 5, 0, 0, 0, time.UTC)
	for d := range days {
		for k := range keys {
			r := &core.Receipt{At: first.AddDate(0, 0, d), Model: "small", Key: core.KeyID(rune('a' + k)), Outcome: core.Settled, Charge: core.Some[core.Money](3),
				Annex: core.Annex{Timing: core.Timing{FirstToken: core.Some(100.0)}}}
			tally.Record(r)
		}
	}
	for _, r := range tally.Changed() {
		if err := memory.Put(r.Kind, r.Name, r.Value); err != nil {
			t.Fatal(err)
		}
	}
	count := func() (sums, timed int, charge core.Money) {
		t.Helper()
		if err := tally.Sums("2026-01-01", "2027-01-01", func(_ *ledger.Cell, s *ledger.Sum) bool {
			sums++
			if s.Speed.FirstToken.N > 0 {
				timed++
			}
			charge += s.Charge
			return true
		}); err != nil {
			t.Fatal(err)
		}
		return sums, timed, charge
	}
	want := func(sums, timed int) {
		t.Helper()
		if s, n, charge := count(); s != sums || n != timed || charge != core.Money(3*sums) {
			t.Errorf("%d sums, %d with speeds, %d charged; want %d and %d", s, n, charge, sums, timed)
		}
	}
	october := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	vault.writes = 1
	if n, err := tally.DropSpeeds(october); n != 200 || err == nil {
		t.Errorf("%d %v", n, err)
	}
	want(600, 400)
	vault.writes = 1 << 30
	if n, err := tally.DropSpeeds(october); n != 100 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	want(600, 300)
	if n, err := tally.DropSpeeds(october); n != 0 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	vault.writes = 1
	if n, err := tally.Drop(october); n != 200 || err == nil {
		t.Errorf("%d %v", n, err)
	}
	vault.writes = 1 << 30
	if n, err := tally.Drop(october); n != 100 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	want(300, 300)
	if again, err := ledger.LoadTally(memory, memory, time.Now); err != nil || again.Since() != tally.Since() {
		t.Errorf("since %q, %v", again.Since(), err)
	}
}
