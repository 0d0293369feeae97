package ledger

import (
	"fmt"
	"strings"

	"headway/core"
)

// erasedRun ends the names of the sums of calls that were erased: they have no key.
const erasedRun = "erased"

// Rest lets the sums of all that was recorded so far be changed by Without once Changed
// was called the next time. It tells how to see that it was.
func (t *Tally) Rest() (rested func() bool) {
	was := t.run.Load()
	t.again.Store(true)
	return func() bool { return t.run.Load() != was }
}

// Without gives what to put and delete so that the sums of receipts, which were recorded
// before Rest, are no more their keys' but of no key. All of it is to be written as one,
// together with the receipts without their keys, and before it is asked again.
func (t *Tally) Without(receipts []*core.Receipt) (puts, deletes []core.Record, err error) {
	cells := map[Cell]*Sum{}
	for _, r := range receipts {
		c := CellOf(r)
		if c.Key == "" {
			continue
		}
		if cells[c] == nil {
			cells[c] = &Sum{}
		}
		cells[c].Add(r)
	}
	to := map[Cell]*Sum{}
	for c, moved := range cells {
		names, sum, err := t.rested(&c)
		if err != nil {
			return nil, nil, err
		}
		if len(names) == 0 {
			continue
		}
		// What is of before the sums are whole is shown nowhere.
		if whole := c.Day >= t.since; whole {
			sum.less(moved)
			free := c
			free.Key = ""
			if to[free] == nil {
				to[free] = &Sum{}
			}
			to[free].Join(moved)
			if sum.Calls > 0 {
				x := cellSum{c, *sum}
				puts = append(puts, core.Record{Kind: tallyKind, Name: names[0], Value: x.record()})
				names = names[1:]
			}
		}
		for _, name := range names {
			deletes = append(deletes, core.Record{Kind: tallyKind, Name: name})
		}
	}
	for c, sum := range to {
		name := c.name() + "/" + erasedRun
		text, err := t.vault.Get(tallyKind, name)
		if err != nil {
			return nil, nil, err
		}
		x := cellSum{Cell: c}
		if text != nil {
			if err := x.parse(text); err != nil {
				return nil, nil, damagedSum(name, err)
			}
		}
		x.Join(sum)
		puts = append(puts, core.Record{Kind: tallyKind, Name: name, Value: x.record()})
	}
	return puts, deletes, nil
}

// rested are the names of a cell's records that the writer is done with, and their sum.
func (t *Tally) rested(c *Cell) (names []string, sum *Sum, err error) {
	sum = &Sum{}
	prefix, run := c.name()+"/", *t.run.Load()
	var bad error
	err = t.vault.Scan(tallyKind, prefix, c.name()+"0", false, func(name string, value []byte) bool {
		if strings.TrimPrefix(name, prefix) == run {
			return true
		}
		var x cellSum
		if bad = x.parse(value); bad != nil {
			bad = damagedSum(name, bad)
			return false
		}
		names = append(names, name)
		sum.Join(&x.Sum)
		return true
	})
	if err == nil {
		err = bad
	}
	return names, sum, err
}

func damagedSum(name string, err error) error {
	return &core.Error{Kind: core.Unavailable, Msg: fmt.Sprintf("the sums %s of what was used cannot be read", name),
		Hint: "restore the data folder from a backup, or start the version of headway that wrote it", Err: err}
}

// less takes a part of a sum out of it. Speeds that the sum does not have any more go
// from the part too.
func (s *Sum) less(part *Sum) {
	s.Calls -= part.Calls
	s.Settled -= part.Settled
	s.Estimated -= part.Estimated
	s.Charge -= part.Charge
	some := usages(&part.Usage)
	for i, n := range usages(&s.Usage) {
		if v := some[i]; v.OK {
			n.V -= v.V
		}
	}
	means := part.means()
	for i, m := range s.means() {
		m.less(means[i])
	}
}

func (m *Mean) less(part *Mean) {
	if m.N < part.N {
		*part = Mean{}
		return
	}
	if m.N -= part.N; m.N == 0 {
		m.Sum = 0
	} else {
		m.Sum -= part.Sum
	}
}

var _ core.Signer = (*Tally)(nil)

// Due tells that Rest waits for Changed (core.Signer).
func (t *Tally) Due() bool { return t.again.Load() }

// Durable has nothing to sign.
func (t *Tally) Durable() error { return nil }
