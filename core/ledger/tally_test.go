package ledger_test

import (
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"headway/core"
	"headway/core/ledger"
)

// TestTallyIsExact: the sums of a million receipts are exact to the picodollar and the
// token, over processes that each begin anew, and over more cells than are kept in memory.
func TestTallyIsExact(t *testing.T) {
	vault := core.NewMemory()
	open := func() *ledger.Tally {
		t.Helper()
		tally, err := ledger.LoadTally(vault, vault, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		return tally
	}
	tally := open()
	rng := rand.New(rand.NewPCG(8, 6))
	charge, output, calls := new(big.Int), new(big.Int), int64(0)
	begin := time.Date(2026, 11, 1, 1, 0, 0, 0, time.UTC) // calls that took long end an hour after others
	keep := func() {
		for _, r := range tally.Changed() {
			if err := vault.Put(r.Kind, r.Name, r.Value); err != nil {
				t.Fatal(err)
			}
		}
	}
	const receipts = 1_000_000
	for i := range receipts {
		usd := core.Money(rng.Int64N(3_000_000_000_000)) // up to 3 USD, to the picodollar
		r := &core.Receipt{At: begin.Add(time.Duration(i)*(30*24*time.Hour/receipts) - time.Duration(rng.Int64N(int64(time.Hour)))), Model: core.Model("m" + string(rune('a'+i%5))),
			Provider: core.ProviderID("p" + string(rune('a'+i%3))), Key: core.KeyID("k" + string(rune('a'+i%23)) + string(rune('a'+i/23%7))), Charge: core.Some(usd), Outcome: core.Settled}
		n := rng.Int64N(4000)
		r.Usage.Output = core.Some(n)
		charge.Add(charge, big.NewInt(int64(usd)))
		output.Add(output, big.NewInt(n))
		calls++
		tally.Record(r)
		if i%10_000 == 0 {
			keep()
		}
		if i%300_000 == 299_999 {
			keep()
			tally = open()
		}
	}
	keep()

	got, tokens, n, cells := new(big.Int), new(big.Int), int64(0), 0
	began := time.Now()
	err := tally.Sums("2026-11-01", "2026-12-02", func(c *ledger.Cell, s *ledger.Sum) bool {
		got.Add(got, big.NewInt(int64(s.Charge)))
		tokens.Add(tokens, big.NewInt(s.Usage.Output.V))
		n += s.Calls
		cells++
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	if got.Cmp(charge) != 0 || tokens.Cmp(output) != 0 || n != calls {
		t.Errorf("%v picodollars, %v tokens and %d calls, want %v, %v and %d", got, tokens, n, charge, output, calls)
	}
	if most := 2 * 31 * 5 * 3 * 23 * 7; cells > most {
		t.Errorf("%d sums are kept, want at most %d", cells, most)
	}
	t.Logf("%d sums of %d receipts read in %v", cells, receipts, time.Since(began))
	for range 2 { // a day alone, and nothing of others
		err := tally.Sums("2026-11-07", "2026-11-08", func(c *ledger.Cell, _ *ledger.Sum) bool {
			if c.Day != "2026-11-07" {
				t.Errorf("the sums of a day have one of %s", c.Day)
			}
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestTallyOfOldBook: in a book from before there were sums, days that may have receipts
// from then are not whole.
func TestTallyOfOldBook(t *testing.T) {
	vault := core.NewMemory()
	now := time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
	r := &core.Receipt{ID: core.NewCallID(now), At: now}
	if err := vault.Open(core.Intent{ID: r.ID}); err != nil {
		t.Fatal(err)
	}
	vault.Append(r, nil)
	for range 2 {
		tally, err := ledger.LoadTally(vault, vault, func() time.Time { return now })
		if err != nil {
			t.Fatal(err)
		}
		if got := tally.Since(); got != "2026-11-30" {
			t.Errorf("whole since %q", got)
		}
		now = now.Add(48 * time.Hour)
	}
	if tally, err := ledger.LoadTally(core.NewMemory(), core.NewMemory(), time.Now); err != nil || tally.Since() != "" {
		t.Errorf("a new book: since %q, %v", tally.Since(), err)
	}
}

func BenchmarkTally(b *testing.B) {
	tally, err := ledger.LoadTally(core.NewMemory(), core.NewMemory(), time.Now)
	if err != nil {
		b.Fatal(err)
	}
	r := &core.Receipt{At: time.Now(), Key: "01kbkx3q00rdxhvqqk3f9q9r5w", Model: "gpt-5-mini", Provider: "openai", Charge: core.Some(core.USD)}
	r.Usage.Output, r.Timing.FirstToken = core.Some[int64](10), core.Some(12.5)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		tally.Record(r)
		if n%64 == 63 {
			tally.Changed()
		}
	}
}

// TestDamagedTally: sums that cannot be read are an error, never left out.
func TestDamagedTally(t *testing.T) {
	vault := core.NewMemory()
	tally, err := ledger.LoadTally(vault, vault, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	r := &core.Receipt{At: time.Now(), Key: "k", Model: "m", Charge: core.Some(core.USD)}
	r.Usage.Output, r.Timing.FirstToken = core.Some[int64](10), core.Some(12.5)
	tally.Record(r)
	whole := tally.Changed()[0]
	read := func(value []byte) (calls int64, err error) {
		if err := vault.Put(whole.Kind, whole.Name, value); err != nil {
			t.Fatal(err)
		}
		err = tally.Sums("2000-01-01", "3000-01-01", func(_ *ledger.Cell, s *ledger.Sum) bool {
			calls += s.Calls
			return true
		})
		return calls, err
	}
	if n, err := read(whole.Value); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	for n := range whole.Value {
		if calls, err := read(whole.Value[:n]); calls != 0 || err == nil {
			t.Errorf("%d bytes of %d are %d calls, %v", n, len(whole.Value), calls, err)
		}
	}
	for _, value := range [][]byte{append(whole.Value[:len(whole.Value):len(whole.Value)], 0), append([]byte{2}, whole.Value[1:]...)} {
		if _, err := read(value); err == nil {
			t.Error("what is no sum is read")
		}
	}
}
