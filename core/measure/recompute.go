package measure

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"headway/core"
)

// DaySketch is one sketch of one day as others see it: what it is of, and its bytes
// as they are stored. A measure's has a provider and a model, an error's an offer.
type DaySketch struct {
	Day      string          `json:"day"` // YYYY-MM-DD in UTC
	Measure  string          `json:"measure"`
	Provider core.ProviderID `json:"provider,omitempty"`
	Model    core.Model      `json:"model,omitempty"`
	Offer    core.OfferID    `json:"offer,omitempty"`
	Jobs     int64           `json:"jobs"`
	Sketch   []byte          `json:"sketch"`
}

// entry is what the sketch is of; false: of nothing that this version knows.
func (s *DaySketch) entry() (entry, bool) {
	at, err := time.Parse(time.DateOnly, s.Day)
	e := entry{day: dayOf(at), what: s.Measure}
	switch {
	case err != nil:
		return e, false
	case slices.Contains(errorNames[:], s.Measure):
		e.offer = s.Offer
		return e, s.Offer != ""
	}
	e.pair = Pair{s.Provider, s.Model}
	return e, slices.Contains(measureNames[:], s.Measure) && s.Provider != "" && s.Model != ""
}

// shown is a sketch as others see it.
func (e entry) shown(s *Sketch) DaySketch {
	return DaySketch{e.day.String(), e.what, e.pair.Provider, e.pair.Model, e.offer, s.Jobs(), s.Append(nil)}
}

// daysPage is how many stored sketches are in memory at once.
const daysPage = 256

// OldestDay is the first day, at a time, whose sketches are surely kept.
func OldestDay(at time.Time) string { return (dayOf(at) - keepDays).String() }

// Stored gives the sketches that the vault has, day by day, until yield fails: each
// as its bytes are there, and all of a page as they were at one time.
func (b *Board) Stored(yield func(DaySketch) error) error {
	from := ""
	for {
		var page []core.Record
		err := b.vault.Scan(kindDay, from, "", false, func(name string, value []byte) bool {
			page = append(page, core.Record{Kind: kindDay, Name: name, Value: bytes.Clone(value)})
			return len(page) < daysPage
		})
		if err != nil {
			return err
		}
		for _, r := range page {
			e, ok := parseEntry(r.Name)
			s, err := ParseSketch(r.Value)
			if !ok || err != nil {
				return damaged(kindDay, r.Name, err)
			}
			shown := e.shown(s)
			shown.Sketch = r.Value
			if err := yield(shown); err != nil {
				return err
			}
		}
		if len(page) < daysPage {
			return nil
		}
		from = page[len(page)-1].Name + "\x00"
	}
}

// Rebuilt are day sketches that are made from receipts alone, by the rules of a
// Board, and held against those that one has stored. It is not safe for concurrent
// use.
type Rebuilt struct {
	from day
	days map[day]*daySketches
}

// NewRebuilt is empty; from is the first day that is wanted, YYYY-MM-DD, "" for all.
func NewRebuilt(from string) (*Rebuilt, error) {
	r := &Rebuilt{days: map[day]*daySketches{}}
	if from != "" {
		at, err := time.Parse(time.DateOnly, from)
		if err != nil {
			return nil, core.Field("oldest", "%q is not a day", from)
		}
		r.from = dayOf(at)
	}
	return r, nil
}

// CountedOn is the day on which a receipt counts, if it does.
func CountedOn(r *core.Receipt) string { return dayCounted(r).String() }

func dayCounted(r *core.Receipt) day {
	if at, err := time.Parse(time.DateOnly, r.CountedOn); err == nil {
		return dayOf(at)
	}
	return dayOf(r.SettledAt)
}

// MayCount tells whether a receipt is of those that measures are made of, whatever
// was measured.
func MayCount(r *core.Receipt) bool { return r.Provider != "" && r.Model != "" && counts(r) }

// Add counts a receipt.
func (b *Rebuilt) Add(r *core.Receipt) {
	d := dayCounted(r)
	if r.Provider == "" || r.Model == "" || d < b.from {
		return
	}
	adds(r, d, valuesOf(r), errorsOf(r), func(e entry, v int64) { sketchOf(b.days, e).Add(v) })
}

// All gives every sketch in the order of days, measures and names.
func (b *Rebuilt) All(yield func(DaySketch) error) error {
	var list []entry
	for d, s := range b.days {
		for p, of := range s.pairs {
			for m := range of {
				if of[m].Jobs() > 0 {
					list = append(list, entry{day: d, what: measureNames[m], pair: p})
				}
			}
		}
		for o, of := range s.errors {
			for kind := range of {
				if of[kind].Jobs() > 0 {
					list = append(list, entry{day: d, what: errorNames[kind], offer: o})
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.day, b.day), cmp.Compare(a.what, b.what), cmp.Compare(a.pair.Provider, b.pair.Provider),
			cmp.Compare(a.pair.Model, b.pair.Model), cmp.Compare(a.offer, b.offer))
	})
	for _, e := range list {
		if err := yield(e.shown(sketchOf(b.days, e))); err != nil {
			return err
		}
	}
	return nil
}

// Difference is a sketch that is not the same in both places; jobs of 0: there is none.
type Difference struct {
	Day      string          `json:"day"`
	Measure  string          `json:"measure"`
	Provider core.ProviderID `json:"provider,omitempty"`
	Model    core.Model      `json:"model,omitempty"`
	Offer    core.OfferID    `json:"offer,omitempty"`
	Stored   int64           `json:"stored_jobs"`
	Rebuilt  int64           `json:"recomputed_jobs"`
	// Within: the stored one holds all that was recomputed, and more. That is no
	// difference where only a part of the day's receipts is at hand.
	Within bool `json:"-"`
}

// DayCheck is how the sketches of one day compare.
type DayCheck struct {
	Day string `json:"day"`
	// Sketches are those that are in either place, Equal those that are the same.
	Sketches int `json:"sketches"`
	Equal    int `json:"equal"`
	// Stored and Rebuilt count what is in all sketches of the day.
	Stored  int64 `json:"stored_values"`
	Rebuilt int64 `json:"recomputed_values"`
	// Different are the others.
	Different []Difference `json:"different,omitempty"`
}

// Compare holds stored sketches against those that were made, day by day. An error
// says which stored one is none.
func (b *Rebuilt) Compare(stored []DaySketch) ([]DayCheck, error) {
	days := map[string]*DayCheck{}
	seen := map[entry]bool{}
	check := func(e entry, is, was *Sketch) {
		c := made(days, e.day.String())
		c.Day = e.day.String()
		c.Sketches++
		c.Stored += is.Jobs()
		c.Rebuilt += was.Jobs()
		if bytes.Equal(is.Append(nil), was.Append(nil)) {
			c.Equal++
			return
		}
		c.Different = append(c.Different, Difference{c.Day, e.what, e.pair.Provider, e.pair.Model, e.offer, is.Jobs(), was.Jobs(), was.within(is)})
	}
	for i := range stored {
		s := &stored[i]
		e, ok := s.entry()
		is, err := ParseSketch(s.Sketch)
		if !ok || err != nil || is.Jobs() != s.Jobs || seen[e] {
			return nil, &core.Error{Kind: core.Invalid, Msg: "the stored sketch of " + s.Day + ", " + s.Measure + " of " + cmp.Or(string(s.Offer), string(s.Provider)+" "+string(s.Model)) + " is none, or is there twice"}
		}
		seen[e] = true
		if e.day >= b.from {
			check(e, is, b.find(e))
		}
	}
	_ = b.All(func(s DaySketch) error {
		if e, _ := s.entry(); !seen[e] {
			check(e, &Sketch{}, b.find(e))
		}
		return nil
	})
	list := make([]DayCheck, 0, len(days))
	for _, c := range days {
		slices.SortFunc(c.Different, func(a, b Difference) int {
			return cmp.Or(cmp.Compare(a.Measure, b.Measure), cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Offer, b.Offer))
		})
		list = append(list, *c)
	}
	slices.SortFunc(list, func(a, b DayCheck) int { return cmp.Compare(a.Day, b.Day) })
	return list, nil
}

// find is the sketch of an entry, an empty one where there is none.
func (b *Rebuilt) find(e entry) *Sketch {
	if b.days[e.day] == nil {
		return &Sketch{}
	}
	return sketchOf(b.days, e)
}

// within tells whether another sketch holds all that this one does.
func (s *Sketch) within(o *Sketch) bool {
	for i, k := range s.at {
		j, found := slices.BinarySearch(o.at, k)
		if !found || o.count[j] < s.count[i] {
			return false
		}
	}
	return true
}

// Rows are the measures of pairs, as a Board gives them whose window is w at a time.
func (b *Rebuilt) Rows(w Window, at time.Time, pairs []Pair) ([]Row, error) {
	end, err := time.Parse(time.DateOnly, w.To)
	if err != nil || windowTo(dayOf(end)) != w {
		return nil, core.Field("window", "%s to %s is no window of a week", w.From, w.To)
	}
	to := dayOf(end)
	strict, today := spanOf(b.days, to-windowDays+1, to), &span{}
	if strict.lacking() {
		today = spanOf(b.days, to+1, dayOf(at))
	}
	v := newView(to, strict, today)
	return rows(slices.Clone(pairs), func(p Pair) core.Measures { return *v.measures(p.Provider, p.Model) }), nil
}
