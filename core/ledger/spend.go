package ledger

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"time"

	"headway/core"
)

// period is what a budget is for (SPEC §10): a day, a week from Monday, or a
// month, all in UTC.
type period int

const (
	day period = iota
	week
	month
	periods
)

func (p period) String() string { return [...]string{"day", "week", "month"}[p] }

// budget is a key's for the period.
func (p period) budget(l *core.KeyLimits) core.Opt[core.Money] {
	switch p {
	case week:
		return l.BudgetWeek
	case month:
		return l.BudgetMonth
	}
	return l.BudgetDay
}

const secondsOfDay = 24 * 60 * 60

// start is the first day of the period that a time is in, in days since 1970.
func (p period) start(at time.Time) int64 {
	days := at.Unix() / secondsOfDay
	switch p {
	case week:
		return days - (days+3)%7 // 1970 began on a Thursday
	case month:
		return days - int64(at.UTC().Day()-1)
	}
	return days
}

// next is the first day of the period after the one that starts on a day.
func (p period) next(start int64) int64 {
	switch p {
	case week:
		return start + 7
	case month:
		return dayOf(start).AddDate(0, 1, 0).Unix() / secondsOfDay
	}
	return start + 1
}

// renews is when the period that a time is in ends.
func (p period) renews(at time.Time) time.Time { return dayOf(p.next(p.start(at))) }

func dayOf(days int64) time.Time { return time.Unix(days*secondsOfDay, 0).UTC() }

// spend is what a key was charged: in all, and in the last few periods of each kind
// in which it was charged anything. A few, as receipts of calls that ended before
// midnight may be recorded after others, and a clock may have run ahead for a while.
type spend struct {
	total core.Money
	in    [periods][4]slot
}

type slot struct {
	start int64 // in days since 1970; 0: unused
	spent core.Money
}

// add counts a charge of a call that ended at a time.
func (s *spend) add(charge core.Money, at time.Time) {
	s.total = capped(s.total, charge)
	for p := range periods {
		x := s.slot(p, p.start(at))
		x.spent = capped(x.spent, charge)
	}
}

// slot is the one of the period that starts on a day. Where there is none, one that
// is unused becomes it, else the one that is farthest from it: the oldest, or one of a
// time that a clock which was put right again had run ahead to.
func (s *spend) slot(p period, start int64) *slot {
	far := func(x *slot) int64 {
		if x.start == 0 {
			return math.MaxInt64
		}
		return max(x.start-start, start-x.start)
	}
	at := &s.in[p][0]
	for i := range s.in[p] {
		x := &s.in[p][i]
		if x.start == start {
			return x
		}
		if far(x) > far(at) {
			at = x
		}
	}
	*at = slot{start: start}
	return at
}

// capped adds amounts that are not negative, up to the most that can be said.
func capped(a, b core.Money) core.Money {
	sum, err := a.Plus(b)
	if err != nil {
		return math.MaxInt64
	}
	return sum
}

// used is what counts against a budget at a time: what was spent in the period
// that the time is in. Where the clock was set back over its end, or the caller
// looked at it before, there is spend of the next period already, and the more of
// the two counts: the money is safe either way.
func (s *spend) used(p period, now time.Time) core.Money {
	start, most := p.start(now), core.Money(0)
	for _, x := range s.in[p] {
		if x.start == start || x.start > start && x.start == p.next(start) {
			most = max(most, x.spent)
		}
	}
	return most
}

// left is what neither was spent nor is reserved; never negative.
func left(limit, spent, reserved core.Money) core.Money {
	if spent >= limit || reserved >= limit-spent {
		return 0
	}
	return limit - spent - reserved
}

// spendRecord is a spend as it is stored.
type spendRecord struct {
	Total core.Money   `json:"total_usd"`
	Day   []slotRecord `json:"day,omitempty"`
	Week  []slotRecord `json:"week,omitempty"`
	Month []slotRecord `json:"month,omitempty"`
}

type slotRecord struct {
	From  string     `json:"from"` // its first day, 2026-03-01
	Spent core.Money `json:"usd"`
}

func (r *spendRecord) of(p period) *[]slotRecord {
	return [...]*[]slotRecord{&r.Day, &r.Week, &r.Month}[p]
}

func (s *spend) write() []byte {
	r := spendRecord{Total: s.total}
	for p := range periods {
		slots := s.in[p]
		slices.SortFunc(slots[:], func(a, b slot) int { return cmp.Compare(b.start, a.start) })
		for _, x := range slots {
			if x.start > 0 {
				*r.of(p) = append(*r.of(p), slotRecord{dayOf(x.start).Format(time.DateOnly), x.spent})
			}
		}
	}
	text, err := json.Marshal(&r)
	if err != nil { // of numbers and dates: cannot fail
		panic(err)
	}
	return text
}

// readSpend reads a stored spend, also one of before there were budgets: the
// total alone, as a decimal.
func readSpend(value []byte) (s spend, err error) {
	if len(value) == 0 || value[0] != '{' {
		s.total, err = core.ParseMoney(string(value))
		return s, err
	}
	var r spendRecord
	if err := json.Unmarshal(value, &r); err != nil {
		return s, err
	}
	s.total = r.Total
	for p := range periods {
		for i, x := range (*r.of(p))[:min(len(*r.of(p)), len(s.in[p]))] {
			from, err := time.Parse(time.DateOnly, x.From)
			if err != nil {
				return s, err
			}
			s.in[p][i] = slot{p.start(from), x.Spent}
		}
	}
	return s, nil
}
