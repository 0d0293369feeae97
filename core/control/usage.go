package control

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"headway/core"
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
	usualPeriod = 7 * 24 * time.Hour
	mostGroups  = 100_000 // what bounds the memory of one answer
)

// group is what the calls of one total share.
type group struct {
	day      string
	model    core.Model
	provider core.ProviderID
	node     core.NodeID
	key      core.KeyID
}

// sums are of one group.
type sums struct {
	calls, settled, estimated int64
	usage                     core.Usage
	charge                    core.Money
	first, prefill            mean
	decode, queue             mean
}

type mean struct {
	n   int64
	sum float64
}

func (m *mean) add(v core.Opt[float64]) {
	if v.OK {
		m.n++
		m.sum += v.V
	}
}

func (m mean) value() core.Opt[float64] {
	if m.n == 0 {
		return core.Opt[float64]{}
	}
	return core.Some(core.Micro(m.sum / float64(m.n)))
}

// add counts one receipt. Where the group is a node's the speeds are the node's own,
// on its clock: how long a call waited there for a slot is in them.
func (s *sums) add(r *core.Receipt, ofNode bool) error {
	s.calls++
	if r.Outcome == core.Settled {
		s.settled++
	}
	if r.UsageFrom == core.FromEstimate || r.UsageFrom == core.FromMixed {
		s.estimated++
	}
	for _, c := range [...]struct {
		to *core.Opt[int64]
		v  core.Opt[int64]
	}{
		{&s.usage.UncachedInput, r.Usage.UncachedInput}, {&s.usage.CacheRead, r.Usage.CacheRead},
		{&s.usage.CacheWrite, r.Usage.CacheWrite}, {&s.usage.CacheWrite1h, r.Usage.CacheWrite1h},
		{&s.usage.Output, r.Usage.Output}, {&s.usage.Reasoning, r.Usage.Reasoning},
	} {
		if c.v.OK {
			*c.to = core.Some(c.to.V + c.v.V)
		}
	}
	if t := r.NodeTiming; !ofNode {
		s.first.add(r.Timing.FirstToken)
		s.prefill.add(r.Timing.PromptTPS)
		s.decode.add(r.Timing.DecodeTPS)
		s.queue.add(r.Timing.Queued)
	} else if t != nil {
		s.first.add(t.FirstToken)
		s.prefill.add(t.PromptTPS)
		s.decode.add(t.DecodeTPS)
		s.queue.add(t.Queued)
	}
	var err error
	s.charge, err = s.charge.Plus(r.Charge.V)
	return err
}

func (s *sums) means() Means {
	return Means{s.first.n, s.first.value(), s.prefill.n, s.prefill.value(), s.decode.n, s.decode.value(), s.queue.n, s.queue.value()}
}

// cut is one way to cut usage: by one dimension or by several.
type cut struct {
	name string
	dims []string
	sums map[group]*sums
}

// groupOf keeps of a receipt what the cut asks for.
func (c *cut) groupOf(r *core.Receipt) (g group) {
	for _, d := range c.dims {
		switch d {
		case "day":
			g.day = r.At.UTC().Format(time.DateOnly)
		case "model":
			g.model = r.Model
		case "provider":
			g.provider = r.Provider
		case "node":
			g.node = r.Node
		case "key":
			g.key = r.Key
		}
	}
	return g
}

func newCut(name string) (*cut, error) {
	c := &cut{name: name, dims: strings.Split(name, "+"), sums: map[group]*sums{}}
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
	asked, err := cuts(r.URL.Query().Get("by"))
	if err != nil {
		return nil, err
	}
	whole := &cut{sums: map[group]*sums{}}
	models := &cut{dims: []string{"model", "node"}, sums: map[group]*sums{}}
	var bad error
	err = d.Book.Receipts(from, to, false, func(c *core.Receipt) bool {
		bad = r.Context().Err()
		for _, cut := range append(asked, whole, models) {
			bad = cmp.Or(bad, cut.add(c))
		}
		return bad == nil
	})
	if err := cmp.Or(err, bad); err != nil {
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
		u.Speed = append(u.Speed, ModelSpeed{g.model, g.node, s.means()})
	}
	slices.SortFunc(u.Speed, func(a, b ModelSpeed) int { return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(a.Node, b.Node)) })
	return u, nil
}

// period is what the query asks for, else the last seven days.
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
		from = to.Add(-usualPeriod)
	}
	if !from.Before(to) {
		err = core.Field("from", "is not before to")
	}
	return from, to, err
}

// add counts one receipt.
func (c *cut) add(r *core.Receipt) error {
	g := c.groupOf(r)
	s := c.sums[g]
	if s == nil {
		if len(c.sums) == mostGroups {
			e := core.Field("by", "the period has more than %d totals by %s", mostGroups, c.name)
			e.Hint = "ask for a shorter period"
			return e
		}
		s = &sums{}
		c.sums[g] = s
	}
	return s.add(r, g.node != "")
}

// totals are those of a cut: days in their order, within a day the dearest first.
func (d *Desk) totals(c *cut) []Totals {
	names := map[core.KeyID]string{}
	for _, k := range d.force.Load().keys {
		names[k.ID] = k.Name
	}
	list := make([]Totals, 0, len(c.sums))
	for g, s := range c.sums {
		t := Totals{Day: g.day, Model: g.model, Provider: g.provider, Node: g.node, Key: g.key, KeyName: names[g.key],
			Calls: s.calls, Settled: s.settled, Estimated: s.estimated, Usage: s.usage, Charge: s.charge}
		if !slices.Contains(c.dims, "key") {
			means := s.means()
			t.Means = &means
		}
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b Totals) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(b.Charge, a.Charge), cmp.Compare(b.Calls, a.Calls),
			cmp.Compare(a.Model, b.Model), cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Key, b.Key))
	})
	return list
}
