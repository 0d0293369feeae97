package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"headway/core"
	"headway/core/ledger"
)

func usd(t testing.TB, s string) core.Money {
	t.Helper()
	m, err := core.ParseMoney(s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// noon is a Wednesday.
var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func load(t testing.TB, v core.Vault) *ledger.Accounts {
	t.Helper()
	a, err := ledger.LoadAccounts(v)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func enter(t testing.TB, a *ledger.Accounts, k *core.Key, now time.Time) *ledger.Hold {
	t.Helper()
	h, err := a.Enter(k, now)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// paid is the receipt of a call.
func paid(k *core.Key, id core.CallID, charge core.Money, at time.Time) *core.Receipt {
	return &core.Receipt{ID: id, Key: k.ID, Charge: core.Some(charge), SettledAt: at}
}

// code is an error's code and its kind's status.
func code(err error) string {
	if err == nil {
		return ""
	}
	e, ok := err.(*core.Error)
	if !ok {
		return err.Error()
	}
	return fmt.Sprintf("%d %s", e.Status(), e.Code)
}

// TestBudgetRace: 500 calls at once on a budget for 20 of them. What upstreams
// charge within the reservation never passes the budget, at no moment; what they
// charge beyond passes it by those surpluses and no more.
func TestBudgetRace(t *testing.T) {
	const calls, covered = 500, 20
	each := usd(t, "0.05")
	for _, c := range []struct {
		name   string
		charge func(*rand.Rand) core.Money
	}{
		{"as reserved", func(*rand.Rand) core.Money { return each }},
		{"less", func(r *rand.Rand) core.Money { return core.Money(r.Int64N(int64(each))) }},
		{"nothing, or all", func(r *rand.Rand) core.Money { return each * core.Money(r.IntN(2)) }},
		{"more", func(r *rand.Rand) core.Money { return each + core.Money(r.Int64N(int64(each))) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(8) {
				budgetRace(t, calls, covered*each, each, seed, c.charge)
			}
		})
	}
}

func budgetRace(t *testing.T, calls int, limit, each core.Money, seed uint64, charge func(*rand.Rand) core.Money) {
	vault := core.NewMemory()
	a := load(t, vault)
	k := &core.Key{ID: "k", KeyLimits: core.KeyLimits{BudgetDay: core.Some(limit), BudgetMonth: core.Some(limit + 1)}}
	receipts := make(chan *core.Receipt, calls)
	var surplus, spent, let, over atomic.Int64
	var callers, writer, observer sync.WaitGroup
	over1 := func(what string) {
		if s := a.Standing(k, noon); s.Spend > limit+core.Money(surplus.Load()) || s.Budgets[0].Left < 0 {
			over.Add(1)
			t.Errorf("seed %d, %s: spent %s of %s, left %s, surplus %s", seed, what, s.Spend, limit, s.Budgets[0].Left, core.Money(surplus.Load()))
		}
	}
	stop := make(chan struct{})
	observer.Go(func() {
		for over.Load() == 0 {
			select {
			case <-stop:
				return
			default:
				over1("meanwhile")
			}
		}
	})
	writer.Go(func() { // the one receipt writer
		for r := range receipts {
			a.Record(r)
			for _, rec := range a.Changed() {
				_ = vault.Put(rec.Kind, rec.Name, rec.Value)
			}
		}
	})
	for i := range calls {
		callers.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			id := core.CallID(fmt.Sprintf("call-%d", i))
			h, err := a.Enter(k, noon)
			if err != nil {
				t.Error(err)
				return
			}
			// A cheaper attempt first, for some.
			if r.IntN(2) == 0 && h.Reserve(id, each/2, 0, noon) != nil {
				h.Leave(nil)
				return
			}
			if err := h.Reserve(id, each, 0, noon); err != nil {
				if code(err) != "402 budget_exceeded" {
					t.Error(err)
				}
				h.Leave(nil)
				return
			}
			let.Add(1)
			if r.IntN(10) == 0 { // it could not be dispatched
				h.Leave(nil)
				return
			}
			x := charge(r)
			surplus.Add(int64(max(x-each, 0)))
			spent.Add(int64(x))
			receipt := paid(k, id, x, noon)
			receipts <- receipt
			h.Ended()
			h.Leave(receipt)
		})
	}
	callers.Wait()
	close(receipts)
	writer.Wait()
	close(stop)
	observer.Wait()
	over1("at the end")
	s := a.Standing(k, noon)
	if s.Reserved != 0 || s.Spend != core.Money(spent.Load()) || s.Budgets[0].Spent != s.Spend {
		t.Errorf("seed %d: spent %s, reserved %s, standing %+v", seed, core.Money(spent.Load()), s.Reserved, s)
	}
	if let.Load() < 10 {
		t.Errorf("seed %d: only %d calls were let through", seed, let.Load())
	}
	if again := load(t, vault).Standing(k, noon); again.Spend != s.Spend || again.Budgets[0] != s.Budgets[0] || again.Budgets[1] != s.Budgets[1] {
		t.Errorf("seed %d: after a restart %+v, was %+v", seed, again, s)
	}
}

// TestSurplus: what an upstream reports beyond the reservation is charged, and
// the key is shown to be over by it, before and after the receipt is recorded.
func TestSurplus(t *testing.T) {
	a := load(t, core.NewMemory())
	k := &core.Key{ID: "k", KeyLimits: core.KeyLimits{BudgetWeek: core.Some(usd(t, "1"))}}
	h := enter(t, a, k, noon)
	if err := h.Reserve("c", usd(t, "0.9"), 0, noon); err != nil {
		t.Fatal(err)
	}
	r := paid(k, "c", usd(t, "1.3"), noon)
	h.Leave(r)
	if b := a.Standing(k, noon).Budgets[0]; b.Reserved != usd(t, "1.3") || b.Left != 0 || b.Spent != 0 {
		t.Errorf("before it is recorded: %+v", b)
	}
	a.Record(r)
	if b := a.Standing(k, noon).Budgets[0]; b.Reserved != 0 || b.Left != 0 || b.Spent != usd(t, "1.3") || b.Limit != usd(t, "1") {
		t.Errorf("after: %+v", b)
	}
	h = enter(t, a, k, noon)
	if got := code(h.Reserve("d", 1, 0, noon)); got != "402 budget_exceeded" {
		t.Errorf("the next call: %s", got)
	}
	if err := h.Reserve("d", 0, 0, noon); err != nil {
		t.Errorf("a call that costs nothing: %v", err)
	}
	h.Leave(nil)
}

// TestReserveRaises: a second attempt raises what is set aside, a cheaper one
// leaves it, and one that does not fit changes nothing.
func TestReserveRaises(t *testing.T) {
	a := load(t, core.NewMemory())
	k := &core.Key{ID: "k", KeyLimits: core.KeyLimits{BudgetDay: core.Some(core.Money(100))}}
	other := enter(t, a, k, noon)
	if err := other.Reserve("other", 30, 0, noon); err != nil {
		t.Fatal(err)
	}
	h := enter(t, a, k, noon)
	for _, c := range []struct {
		most, reserved core.Money
		code           string
	}{
		{40, 70, ""}, {60, 90, ""}, {10, 90, ""}, {71, 90, "402 budget_exceeded"}, {70, 100, ""},
	} {
		if fits := h.Fits(c.most, noon); fits != (c.code == "") {
			t.Errorf("%d fits: %v", c.most, fits)
		}
		if got := code(h.Reserve("c", c.most, 0, noon)); got != c.code {
			t.Errorf("%d: %q, want %q", c.most, got, c.code)
		}
		if got := a.Standing(k, noon).Reserved; got != c.reserved {
			t.Errorf("after %d reserved are %d, want %d", c.most, got, c.reserved)
		}
	}
	a.Record(paid(k, "c", 5, noon)) // before the call has left
	h.Leave(paid(k, "c", 5, noon))
	if s := a.Standing(k, noon); s.Reserved != 30 || s.Spend != 5 {
		t.Errorf("recorded before it left: %+v", s)
	}
	other.Leave(nil)
	if s := a.Standing(k, noon); s.Reserved != 0 || s.Budgets[0].Left != 95 {
		t.Errorf("at the end: %+v", s)
	}
}

// TestPeriods: what counts for which day, week and month.
func TestPeriods(t *testing.T) {
	at := func(s string) time.Time {
		x, err := time.Parse("2006-01-02 15:04:05.000", s)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	type charge struct {
		at   string
		cost core.Money
	}
	for _, c := range []struct {
		name             string
		charges          []charge
		now              string
		day, week, month core.Money
		renews           [3]string
	}{
		{"a Sunday", []charge{{"2026-03-01 00:00:00.000", 1}, {"2026-03-01 23:59:59.999", 2}}, "2026-03-01 23:59:59.999", 3, 3, 3,
			[3]string{"2026-03-02", "2026-03-02", "2026-04-01"}},
		{"Monday after it", []charge{{"2026-03-01 23:59:59.999", 2}}, "2026-03-02 00:00:00.000", 0, 0, 2,
			[3]string{"2026-03-03", "2026-03-09", "2026-04-01"}},
		{"a month ends within a week", []charge{{"2026-03-31 10:00:00.000", 4}, {"2026-04-01 10:00:00.000", 5}}, "2026-04-01 11:00:00.000", 5, 9, 5,
			[3]string{"2026-04-02", "2026-04-06", "2026-05-01"}},
		{"a year ends", []charge{{"2026-12-31 23:00:00.000", 4}, {"2027-01-01 01:00:00.000", 5}}, "2027-01-01 02:00:00.000", 5, 9, 5,
			[3]string{"2027-01-02", "2027-01-04", "2027-02-01"}},
		{"a leap day", []charge{{"2028-02-29 12:00:00.000", 4}}, "2028-02-29 13:00:00.000", 4, 4, 4,
			[3]string{"2028-03-01", "2028-03-06", "2028-03-01"}},
		{"recorded after the next day's", []charge{{"2026-03-05 00:00:00.100", 1}, {"2026-03-04 23:59:59.900", 2}}, "2026-03-05 00:00:01.000", 1, 3, 3,
			[3]string{"2026-03-06", "2026-03-09", "2026-04-01"}},
		{"the clock was set back over midnight", []charge{{"2026-03-04 23:00:00.000", 1}, {"2026-03-05 00:00:00.100", 7}}, "2026-03-04 23:30:00.000", 7, 8, 8,
			[3]string{"2026-03-05", "2026-03-09", "2026-04-01"}},
		{"the clock was a year ahead", []charge{{"2026-03-04 11:00:00.000", 1}, {"2027-03-04 11:00:00.000", 7}, {"2026-03-04 12:00:00.000", 2}}, "2026-03-04 12:30:00.000", 3, 3, 3,
			[3]string{"2026-03-05", "2026-03-09", "2026-04-01"}},
		{"the clock was ahead for days, and the first of its days was let go", []charge{{"2026-03-04 11:00:00.000", 1}, {"2027-03-04 11:00:00.000", 1}, {"2027-03-05 11:00:00.000", 1},
			{"2027-03-06 11:00:00.000", 1}, {"2027-03-07 11:00:00.000", 1}, {"2027-03-08 11:00:00.000", 1}, {"2026-03-04 12:00:00.000", 2}, {"2026-03-04 12:10:00.000", 3}},
			"2026-03-04 12:30:00.000", 5, 6, 6, [3]string{"2026-03-05", "2026-03-09", "2026-04-01"}},
		{"long ago", []charge{{"2026-01-10 11:00:00.000", 7}}, "2026-03-04 12:30:00.000", 0, 0, 0,
			[3]string{"2026-03-05", "2026-03-09", "2026-04-01"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			vault := core.NewMemory()
			a := load(t, vault)
			vault.Recorder = a
			k := &core.Key{ID: "k", KeyLimits: core.KeyLimits{BudgetDay: core.Some(core.Money(9)), BudgetWeek: core.Some(core.Money(9)), BudgetMonth: core.Some(core.Money(9))}}
			var total core.Money
			for i, x := range c.charges {
				id := core.CallID(fmt.Sprint("c", i))
				_ = vault.Open(core.Intent{ID: id})
				vault.Append(paid(k, id, x.cost, at(x.at)), nil)
				total += x.cost
			}
			for name, a := range map[string]*ledger.Accounts{"kept": a, "read again": load(t, vault)} {
				s := a.Standing(k, at(c.now))
				if s.Spend != total {
					t.Errorf("%s: spent %d in all, want %d", name, s.Spend, total)
				}
				for i, want := range []core.Money{c.day, c.week, c.month} {
					b := s.Budgets[i]
					if b.Spent != want || b.Left != 9-want || b.Renews.Format(time.DateOnly) != c.renews[i] || b.Renews.Location() != time.UTC {
						t.Errorf("%s: %+v, want %d spent and renewal on %s", name, b, want, c.renews[i])
					}
				}
			}
		})
	}
}

// TestOverMidnight: a call that is reserved before midnight and ends after it
// counts for the day in which it ends, and is never free between.
func TestOverMidnight(t *testing.T) {
	before := time.Date(2026, 3, 4, 23, 59, 59, 0, time.UTC)
	after := before.Add(2 * time.Second)
	a := load(t, core.NewMemory())
	k := &core.Key{ID: "k", KeyLimits: core.KeyLimits{BudgetDay: core.Some(core.Money(10))}}
	h := enter(t, a, k, before)
	if err := h.Reserve("late", 8, 0, before); err != nil {
		t.Fatal(err)
	}
	next := enter(t, a, k, after)
	if got := code(next.Reserve("next", 3, 0, after)); got != "402 budget_exceeded" {
		t.Errorf("what is reserved from the day before is not kept from the new day: %q", got)
	}
	late := paid(k, "late", 8, after)
	h.Leave(late)
	a.Record(late)
	if was, is := a.Standing(k, before), a.Standing(k, after); is.Budgets[0].Spent != 8 || is.Budgets[0].Left != 2 {
		t.Errorf("the day before %+v, the new day %+v", was, is)
	}
	if err := next.Reserve("next", 2, 0, after); err != nil {
		t.Error(err)
	}
	// A caller whose look at the clock is from before midnight ends in the new day too.
	slow := enter(t, a, k, before)
	if got := code(slow.Reserve("slow", 1, 0, before)); got != "402 budget_exceeded" {
		t.Errorf("a slow caller: %q", got)
	}
	slow.Leave(nil)
	next.Leave(nil)
}

// TestWhichBudget: the message names the budget, what is left of it and when it
// renews; of several the one that renews last.
func TestWhichBudget(t *testing.T) {
	a := load(t, core.NewMemory())
	k := &core.Key{ID: "k", KeyLimits: core.KeyLimits{
		BudgetDay: core.Some(usd(t, "0.5")), BudgetWeek: core.Some(usd(t, "0.6")), BudgetMonth: core.Some(usd(t, "5"))}}
	h := enter(t, a, k, noon)
	if err := h.Reserve("c", usd(t, "0.45"), 0, noon); err != nil {
		t.Fatal(err)
	}
	for most, want := range map[string]string{
		"0.1": "budget_usd_per_day: 0.05 of 0.5 USD are left, and the call may cost up to 0.1; 0.45 are set aside for calls under way|" +
			"the budget renews at 2026-03-05T00:00:00Z",
		"0.2": "budget_usd_per_week: 0.15 of 0.6 USD are left, and the call may cost up to 0.2; 0.45 are set aside for calls under way|" +
			"the budget renews at 2026-03-09T00:00:00Z",
		"9": "budget_usd_per_month: 4.55 of 5 USD are left, and the call may cost up to 9; 0.45 are set aside for calls under way|" +
			"the budget renews at 2026-04-01T00:00:00Z",
	} {
		x := enter(t, a, k, noon)
		err := x.Reserve("x", usd(t, most), 0, noon)
		e, ok := err.(*core.Error)
		if !ok || e.Msg+"|"+e.Hint != want || e.Kind != core.OverBudget || e.Code != "budget_exceeded" {
			t.Errorf("%s USD: %#v", most, err)
		}
		x.Leave(nil)
	}
	h.Leave(nil)
}

// TestChangedKey: a key that is applied again keeps its account; its new limits
// hold from its next call on.
func TestChangedKey(t *testing.T) {
	a := load(t, core.NewMemory())
	was := &core.Key{ID: "k", KeyLimits: core.KeyLimits{BudgetDay: core.Some(core.Money(10)), MaxParallel: core.Some[int64](5)}}
	h := enter(t, a, was, noon)
	if err := h.Reserve("c", 8, 0, noon); err != nil {
		t.Fatal(err)
	}
	is := &core.Key{ID: "k", KeyLimits: core.KeyLimits{BudgetDay: core.Some(core.Money(12)), MaxParallel: core.Some[int64](2)}}
	next := enter(t, a, is, noon)
	if got := code(next.Reserve("d", 5, 0, noon)); got != "402 budget_exceeded" {
		t.Errorf("beyond the new budget: %q", got)
	}
	if err := next.Reserve("d", 4, 0, noon); err != nil {
		t.Errorf("within it: %v", err)
	}
	if _, err := a.Enter(is, noon); code(err) != "429 too_many_parallel_calls" {
		t.Errorf("a third call at once: %v", err)
	}
	h.Leave(nil)
	next.Leave(nil)
}

// TestOldRecords: what was spent before there were budgets is still known.
func TestOldRecords(t *testing.T) {
	vault := core.NewMemory()
	_ = vault.Put("spend", "k", []byte("12.345678901234"))
	a := load(t, vault)
	k := &core.Key{ID: "k", KeyLimits: core.KeyLimits{BudgetMonth: core.Some(usd(t, "5"))}}
	if s := a.Standing(k, noon); s.Spend != usd(t, "12.345678901234") || s.Budgets[0].Spent != 0 {
		t.Errorf("%+v", s)
	}
	a.Record(paid(k, "c", usd(t, "0.000000000001"), noon))
	for _, rec := range a.Changed() {
		_ = vault.Put(rec.Kind, rec.Name, rec.Value)
	}
	if s := load(t, vault).Standing(k, noon); s.Spend != usd(t, "12.345678901235") || s.Budgets[0].Spent != 1 {
		t.Errorf("%+v", s)
	}
	for _, bad := range []string{"", "x", "{", `{"total_usd":1,"day":[{"from":"soon","usd":1}]}`, `{"total_usd":1e-20}`} {
		v := core.NewMemory()
		_ = v.Put("spend", "k", []byte(bad))
		if _, err := ledger.LoadAccounts(v); err == nil {
			t.Errorf("%q is read as a spend", bad)
		}
	}
}

// TestNoLimits: a key without any limit, and a call without a key.
func TestNoLimits(t *testing.T) {
	a := load(t, core.NewMemory())
	k := &core.Key{ID: "k"}
	var holds []*ledger.Hold
	for i := range 3 { // more than money can count
		h := enter(t, a, k, noon)
		if err := h.Reserve(core.CallID(fmt.Sprint(i)), 1<<62, 1<<40, noon); err != nil {
			t.Fatal(err)
		}
		holds = append(holds, h)
	}
	if s := a.Standing(k, noon); s.Reserved <= 0 || len(s.Budgets) != 0 {
		t.Errorf("%+v", s)
	}
	for i, h := range holds {
		r := paid(k, core.CallID(fmt.Sprint(i)), 1<<62, noon)
		h.Leave(r)
		a.Record(r)
	}
	if s := a.Standing(k, noon); s.Reserved != 0 || s.Spend != 1<<63-1 {
		t.Errorf("%+v", s)
	}
	var none *ledger.Hold
	if err := none.Reserve("x", 1, 1, noon); err != nil || !none.Fits(1, noon) {
		t.Error("a call without a key is held")
	}
	none.Ended()
	none.Leave(nil)
	a.Record(&core.Receipt{ID: "probe", Charge: core.Some(core.Money(5)), SettledAt: noon})
	if s := a.Standing(&core.Key{ID: ""}, noon); s.Spend != 0 {
		t.Errorf("a call without a key is charged to %+v", s)
	}
}

func BenchmarkHold(b *testing.B) {
	k := &core.Key{ID: "k", KeyLimits: core.KeyLimits{BudgetDay: core.Some(core.USD), BudgetWeek: core.Some(core.USD), BudgetMonth: core.Some(core.USD),
		MaxParallel: core.Some[int64](1000), RequestsPerMinute: core.Some[int64](1 << 40), TokensPerMinute: core.Some[int64](1 << 50)}}
	for name, key := range map[string]*core.Key{"all": k, "none": {ID: "n"}} {
		b.Run(name, func(b *testing.B) {
			a := load(b, core.NewMemory())
			now := time.Now()
			b.ReportAllocs()
			for b.Loop() {
				h, err := a.Enter(key, now)
				if err == nil {
					err = h.Reserve("call", 1000, 100, now)
				}
				if err != nil {
					b.Fatal(err)
				}
				h.Leave(nil)
			}
		})
	}
}
