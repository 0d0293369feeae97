package ledger

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"headway/core"
)

// TestWithout: after receipts were erased the sums are those that the erased receipts
// give, in whatever runs and records they were, and nothing names the key.
func TestWithout(t *testing.T) {
	vault := core.NewMemory()
	now := time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	var all []*core.Receipt
	var tally *Tally
	commit := func() {
		t.Helper()
		if err := vault.Write(tally.Changed(), nil); err != nil {
			t.Fatal(err)
		}
	}
	add := func(n int) {
		for range n {
			i := len(all)
			r := &core.Receipt{ID: core.NewCallID(now), Outcome: core.Settled, At: now.Add(time.Duration(i%3) * 24 * time.Hour), Key: core.KeyID(fmt.Sprintf("key-%d", i%3)), Owner: "o",
				Model: core.Model(fmt.Sprintf("m%d", i%2)), Provider: "p", Charge: core.Some(core.Money(i * 1_000_003)), UsageFrom: core.FromMixed}
			r.Usage.Output, r.Usage.CacheRead = core.Some(int64(i)), core.Some(int64(3))
			r.Timing.FirstToken = core.Some(float64(i) / 8)
			if i%5 == 0 {
				r.NodeTiming = &core.NodeTiming{}
				r.NodeTiming.DecodeTPS = core.Some(float64(i))
			}
			all = append(all, r)
			tally.Record(r)
			if i%7 == 0 {
				commit()
			}
		}
		commit()
	}
	for range 3 { // processes
		var err error
		if tally, err = LoadTally(vault, vault, clock); err != nil {
			t.Fatal(err)
		}
		add(50)
	}
	check := func() {
		t.Helper()
		want, got := map[Cell]*Sum{}, map[Cell]*Sum{}
		for _, r := range all {
			c := CellOf(r)
			if want[c] == nil {
				want[c] = &Sum{}
			}
			want[c].Add(r)
		}
		err := tally.Sums("0", "", func(c *Cell, s *Sum) bool {
			if got[*c] == nil {
				got[*c] = &Sum{}
			}
			got[*c].Join(s)
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range got { // sums of eighths are exact, taken in any order
			if s.Calls <= 0 || s.Speed.FirstToken.N < 0 || math.IsNaN(s.Speed.FirstToken.Sum) {
				t.Errorf("%+v", s)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%d cells, %d", len(got), len(want))
			for c, s := range want {
				if !reflect.DeepEqual(got[c], s) {
					t.Errorf("%+v:\n%+v\n%+v", c, got[c], s)
				}
			}
		}
	}
	check()
	erase := func(is func(i int, r *core.Receipt) bool) {
		t.Helper()
		var erased []*core.Receipt
		for i, r := range all {
			if is(i, r) {
				erased, all[i] = append(erased, r), r.Erased()
			}
		}
		puts, deletes, err := tally.Without(erased)
		if err != nil {
			t.Fatal(err)
		}
		if err := vault.Write(puts, deletes); err != nil {
			t.Fatal(err)
		}
	}
	erased := len(all)
	rested := tally.Rest()
	if rested() {
		t.Error("it rests at once")
	}
	add(10)
	if !rested() {
		t.Error("it does not rest")
	}
	erase(func(i int, r *core.Receipt) bool { return i%10 == 1 && i < erased })
	check()
	add(30) // the key calls on
	check()
	erase(func(i int, r *core.Receipt) bool { return r.Key == "key-1" && i < erased })
	check()
	erase(func(i int, r *core.Receipt) bool { return r.Key == "" }) // for nothing
	check()
	rested = tally.Rest()
	commit()
	if !rested() {
		t.Error("it does not rest")
	}
	erase(func(i int, r *core.Receipt) bool { return r.Key == "key-1" })
	check()
	if err := vault.All(tallyKind, func(name string, value []byte) bool {
		if strings.Contains(string(value), "key-1") {
			t.Errorf("%s names the key: %s", name, value)
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
}
