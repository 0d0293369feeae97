package control

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"headway/core"
	"headway/core/ledger"
)

// Usage is what a period's calls used and were charged, exactly: it is the sum
// of their receipts. Every kind of call that costs is in it.
type Usage struct {
	From time.Time `json:"from"` // included, by when the call was received, UTC
	To   time.Time `json:"to"`   // excluded
	// Total is of all calls of the period, By of the calls of each value of what
	// was asked for: {"model": […], "day+key": […]}.
	Total Totals              `json:"total"`
	By    map[string][]Totals `json:"by"`
	// Speed is the mean speeds of each model, and of each node's own servers.
	Speed []ModelSpeed `json:"speed_by_model"`
}

// Totals are of the calls that share what the first fields say. A field that is
// not there was not asked for, or the calls have none: Headway's own have no key.
type Totals struct {
	Day      string          `json:"day,omitempty"` // YYYY-MM-DD in UTC
	Model    core.Model      `json:"model,omitempty"`
	Provider core.ProviderID `json:"provider,omitempty"`
	Node     core.NodeID     `json:"node,omitempty"`
	Key      core.KeyID      `json:"key,omitempty"`
	KeyName  string          `json:"key_name,omitempty"`

	Calls     int64      `json:"calls"`
	Settled   int64      `json:"settled"`
	Estimated int64      `json:"estimated"` // calls whose usage was estimated, in part or whole
	Usage     core.Usage `json:"usage"`     // sums of what is known
	Charge    core.Money `json:"charge_usd"`
	// Means is nil, and its fields are left out, where the calls are those of one
	// key: speed is never cut by person (SPEC §12).
	*Means
}

// Means are over the calls that measured each figure; a figure that none
// measured is absent.
type Means struct {
	TimedCalls   int64             `json:"timedCalls"`
	FirstToken   core.Opt[float64] `json:"firstTokenMs,omitzero"`
	PrefillCalls int64             `json:"prefillCalls"`
	PrefillTPS   core.Opt[float64] `json:"prefillTps,omitzero"`
	DecodeCalls  int64             `json:"decodeCalls"`
	DecodeTPS    core.Opt[float64] `json:"decodeTps,omitzero"`
	QueuedCalls  int64             `json:"queuedCalls"`
	Queue        core.Opt[float64] `json:"queueMs,omitzero"`
}

// ModelSpeed is one line of Speed by model.
type ModelSpeed struct {
	Model core.Model  `json:"model"`
	Node  core.NodeID `json:"node,omitempty"`
	Means
}

// dimensions are what usage can be cut by.
var dimensions = [...]string{"model", "provider", "key", "node", "day"}

const (
	usualDays  = 7
	mostGroups = 100_000 // what bounds the memory of one answer
)

// group is what the calls of one total share; what was not asked for is "".
type group = ledger.Cell

func means(s *ledger.Speeds) Means {
	return Means{s.FirstToken.N, s.FirstToken.Value(), s.Prefill.N, s.Prefill.Value(),
		s.Decode.N, s.Decode.Value(), s.Queued.N, s.Queued.Value()}
}

// cut is one way to cut usage: by one dimension or by several.
type cut struct {
	name string
	dims []string
	sums map[group]*ledger.Sum
}

// groupOf keeps of a cell what the cut asks for.
func (c *cut) groupOf(of *ledger.Cell) (g group) {
	for _, d := range c.dims {
		switch d {
		case "day":
			g.Day = of.Day
		case "model":
			g.Model = of.Model
		case "provider":
			g.Provider = of.Provider
		case "node":
			g.Node = of.Node
		case "key":
			g.Key = of.Key
		}
	}
	return g
}

func newCut(name string) (*cut, error) {
	c := &cut{name: name, dims: strings.Split(name, "+"), sums: map[group]*ledger.Sum{}}
	for _, d := range c.dims {
		if !slices.Contains(dimensions[:], d) {
			e := core.Field("by", "%s is nothing that usage is cut by", quoted(d))
			e.Hint = "it is cut by " + strings.Join(dimensions[:], ", ") + ", or by several joined by +"
			return nil, e
		}
	}
	return c, nil
}

func cuts(by string) ([]*cut, error) {
	names := dimensions[:]
	if by != "" {
		names = strings.Split(by, ",")
	}
	var list []*cut
	for _, name := range names {
		c, err := newCut(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(list, func(o *cut) bool { return o.name == c.name }) {
			list = append(list, c)
		}
	}
	return list, nil
}

func (d *Desk) getUsage(r *http.Request) (any, error) {
	from, to, err := d.period(r)
	if err != nil {
		return nil, err
	}
	if since := d.kept().receipts; from.Before(since) && since.Before(to) {
		from = since // what the answer is of
	}
	asked, err := cuts(r.URL.Query().Get("by"))
	if err != nil {
		return nil, err
	}
	whole := &cut{sums: map[group]*ledger.Sum{}}
	models := &cut{dims: []string{"model", "node"}, sums: map[group]*ledger.Sum{}}
	all := append(asked, whole, models)
	err = d.sum(r.Context(), from, to, func(c *ledger.Cell, s *ledger.Sum) error {
		for _, cut := range all {
			if err := cut.add(c, s); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	u := Usage{From: from, To: to, By: map[string][]Totals{}, Speed: []ModelSpeed{}}
	for _, t := range d.totals(whole) {
		u.Total = t
	}
	if u.Total.Means == nil {
		u.Total.Means = &Means{} // of no calls
	}
	for _, c := range asked {
		u.By[c.name] = d.totals(c)
	}
	for g, s := range models.sums {
		u.Speed = append(u.Speed, ModelSpeed{g.Model, g.Node, means(speeds(g, s))})
	}
	slices.SortFunc(u.Speed, func(a, b ModelSpeed) int { return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(a.Node, b.Node)) })
	return u, nil
}

// sum gives the sums of a period, several of one cell perhaps. Those of whole days are
// the tally's; what the period has of other days is read receipt by receipt.
func (d *Desk) sum(ctx context.Context, from, to time.Time, yield func(*ledger.Cell, *ledger.Sum) error) error {
	k := d.kept()
	if from = later(from, k.receipts); !from.Before(to) {
		return nil
	}
	all := yield
	yield = func(c *ledger.Cell, s *ledger.Sum) error { return all(c, k.shown(c, s)) }
	first, end := wholeDays(from, to, d.Clock())
	if since := d.Tally.Since(); since != "" {
		if day, err := time.Parse(time.DateOnly, since); err == nil && day.After(first) {
			first = day
		}
	}
	if !first.Before(end) {
		return d.sumReceipts(ctx, from, to, yield)
	}
	var bad error
	err := d.Tally.Sums(first.Format(time.DateOnly), end.Format(time.DateOnly), func(c *ledger.Cell, s *ledger.Sum) bool {
		bad = cmp.Or(ctx.Err(), yield(c, s))
		return bad == nil
	})
	if err := cmp.Or(err, bad); err != nil {
		return err
	}
	if from.Before(first) {
		if err := d.sumReceipts(ctx, from, first, yield); err != nil {
			return err
		}
	}
	if end.Before(to) {
		return d.sumReceipts(ctx, end, to, yield)
	}
	return nil
}

// wholeDays are the whole days of a period, from first (included) to end (excluded). No
// call has come later than now: where the period reaches so far, today is whole.
func wholeDays(from, to, now time.Time) (first, end time.Time) {
	const day = 24 * time.Hour
	first, end = from.UTC().Truncate(day), to.UTC().Truncate(day)
	if first.Before(from) {
		first = first.Add(day)
	}
	if !to.Before(now) && end.Before(to) {
		end = end.Add(day)
	}
	return first, end
}

func (d *Desk) sumReceipts(ctx context.Context, from, to time.Time, yield func(*ledger.Cell, *ledger.Sum) error) error {
	var bad error
	err := d.Book.Receipts(from, to, false, func(r *core.Receipt) bool {
		cell, sum := ledger.CellOf(r), ledger.Sum{}
		sum.Add(r)
		bad = cmp.Or(ctx.Err(), yield(&cell, &sum))
		return bad == nil
	})
	return cmp.Or(err, bad)
}

// period is what the query asks for, else the last seven days, the one of now being
// the last.
func (d *Desk) period(r *http.Request) (from, to time.Time, err error) {
	q, now := r.URL.Query(), d.Clock().UTC()
	if from, err = moment("from", q.Get("from"), now, false); err != nil {
		return from, to, err
	}
	if to, err = moment("to", q.Get("to"), now, true); err != nil {
		return from, to, err
	}
	if to.IsZero() {
		to = now
	}
	if from.IsZero() {
		from = to.UTC().Add(-1).Truncate(24*time.Hour).AddDate(0, 0, 1-usualDays)
	}
	if !from.Before(to) {
		e := core.Field("from", "is not before to")
		e.Hint = "from is the first time, to the last"
		if q.Get("to") == "" {
			e = core.Field("from", "%s is not in the past", quoted(q.Get("from")))
			e.Hint = "name a time that calls were made in, such as the day 2026-11-30, or an age such as 7d"
		}
		err = e
	}
	return from, to, err
}

// add counts a sum in.
func (c *cut) add(of *ledger.Cell, sum *ledger.Sum) error {
	g := c.groupOf(of)
	s := c.sums[g]
	if s == nil {
		if len(c.sums) == mostGroups {
			e := core.Field("by", "the period has more than %d totals by %s", mostGroups, c.name)
			e.Hint = "ask for a shorter period"
			return e
		}
		s = &ledger.Sum{}
		c.sums[g] = s
	}
	s.Join(sum)
	return nil
}

// speeds are the node's own where a group is a node's, on its clock: how long a call
// waited there for a slot is in them.
func speeds(g group, s *ledger.Sum) *ledger.Speeds {
	if g.Node != "" {
		return &s.NodeSpeed
	}
	return &s.Speed
}

// totals are those of a cut: days in their order, within a day the dearest first.
func (d *Desk) totals(c *cut) []Totals {
	names := map[core.KeyID]string{}
	for _, k := range d.force.Load().keys {
		names[k.ID] = k.Name
	}
	list := make([]Totals, 0, len(c.sums))
	for g, s := range c.sums {
		t := Totals{Day: g.Day, Model: g.Model, Provider: g.Provider, Node: g.Node, Key: g.Key, KeyName: names[g.Key],
			Calls: s.Calls, Settled: s.Settled, Estimated: s.Estimated, Usage: s.Usage, Charge: s.Charge}
		if !slices.Contains(c.dims, "key") {
			speed := means(speeds(g, s))
			t.Means = &speed
		}
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b Totals) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(b.Charge, a.Charge), cmp.Compare(b.Calls, a.Calls),
			cmp.Compare(a.Model, b.Model), cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Key, b.Key))
	})
	return list
}
