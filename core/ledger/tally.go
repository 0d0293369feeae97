package ledger

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"headway/core"
)

// The records of a Tally: a Cell and its Sum each, by DAY/HASH/RUN.
const (
	tallyKind = "tally"
	// tallySince says from which day on the records are whole. It sorts before every day.
	tallySince = "+since"
)

// mostCells bounds the sums that are kept in memory, of some 600 bytes each; where more
// are in use at a time a period has more than one of a cell.
const mostCells = 20_000

// Cell is what the calls of one sum share.
type Cell struct {
	Day      string          `json:"day"` // YYYY-MM-DD in UTC, by when the calls were received
	Key      core.KeyID      `json:"key,omitempty"`
	Model    core.Model      `json:"model"`
	Provider core.ProviderID `json:"provider,omitempty"`
	Node     core.NodeID     `json:"node,omitempty"`
}

// CellOf is a receipt's.
func CellOf(r *core.Receipt) Cell {
	return Cell{Day: utcDay(r.At), Key: r.Key, Model: r.Model, Provider: r.Provider, Node: r.Node}
}

// name is the record's. The parts of a cell may be longer together than a name may be.
func (c *Cell) name() string {
	text, _ := json.Marshal(c) // of strings: cannot fail
	sum := sha256.Sum256(text)
	return c.Day + "/" + hex.EncodeToString(sum[:15])
}

// Sum is what calls used and were charged, and the speeds that they measured.
type Sum struct {
	Calls     int64
	Settled   int64
	Estimated int64      // calls whose usage was estimated, in part or whole
	Usage     core.Usage // of what is known
	Charge    core.Money
	Speed     Speeds // on the edge's clock
	NodeSpeed Speeds // of nodes, on their own clocks
}

// Speeds are the figures of the calls that measured each.
type Speeds struct {
	FirstToken Mean
	Prefill    Mean
	Decode     Mean
	Queued     Mean
}

// Mean is the count of what was measured and its sum.
type Mean struct {
	N   int64
	Sum float64
}

// Value is the mean; absent where nothing was measured.
func (m Mean) Value() core.Opt[float64] {
	if m.N == 0 {
		return core.Opt[float64]{}
	}
	return core.Some(core.Micro(m.Sum / float64(m.N)))
}

func (m *Mean) add(v core.Opt[float64]) {
	if v.OK {
		m.N++
		m.Sum += v.V
	}
}

// Add counts a receipt. What is more than an amount can say stays at the most.
func (s *Sum) Add(r *core.Receipt) {
	s.Calls++
	if r.Outcome == core.Settled {
		s.Settled++
	}
	if r.UsageFrom == core.FromEstimate || r.UsageFrom == core.FromMixed {
		s.Estimated++
	}
	joinUsage(&s.Usage, &r.Usage)
	s.Charge = capped(s.Charge, r.Charge.V)
	s.Speed.FirstToken.add(r.Timing.FirstToken)
	s.Speed.Prefill.add(r.Timing.PromptTPS)
	s.Speed.Decode.add(r.Timing.DecodeTPS)
	s.Speed.Queued.add(r.Timing.Queued)
	if t := r.NodeTiming; t != nil {
		s.NodeSpeed.FirstToken.add(t.FirstToken)
		s.NodeSpeed.Prefill.add(t.PromptTPS)
		s.NodeSpeed.Decode.add(t.DecodeTPS)
		s.NodeSpeed.Queued.add(t.Queued)
	}
}

// Join adds another sum.
func (s *Sum) Join(o *Sum) {
	s.Calls += o.Calls
	s.Settled += o.Settled
	s.Estimated += o.Estimated
	joinUsage(&s.Usage, &o.Usage)
	s.Charge = capped(s.Charge, o.Charge)
	more := o.means()
	for i, m := range s.means() {
		m.N += more[i].N
		m.Sum += more[i].Sum
	}
}

func joinUsage(to, from *core.Usage) {
	more := usages(from)
	for i, n := range usages(to) {
		if v := more[i]; v.OK {
			*n = core.Some(n.V + v.V)
		}
	}
}

// Tally keeps the sums of each day's receipts by key, model, provider and node, so
// that nobody who asks for a month reads a million receipts. It is a core.Recorder:
// a sum becomes durable together with the receipts that it is of.
//
// It never reads what it wrote: a process's sums begin at nothing, under names of its
// own, and those of one cell are joined when they are asked for.
type Tally struct {
	vault core.Vault
	since string // the first day that is whole; "" all

	run   atomic.Pointer[string] // ends the names of the records of cells
	again atomic.Bool            // another run is to be begun

	// The writer's own.
	cells   map[Cell]*Sum
	changed map[Cell]bool
}

// LoadTally opens it. In a book that had receipts before it had sums, those of
// tomorrow are the first that are whole.
func LoadTally(v core.Vault, book core.Book, clock core.Clock) (*Tally, error) {
	t := &Tally{vault: v, cells: map[Cell]*Sum{}, changed: map[Cell]bool{}}
	t.begin()
	text, err := v.Get(tallyKind, tallySince)
	if err != nil {
		return nil, fmt.Errorf("load what was used: %w", err)
	}
	if t.since = string(text); text != nil {
		return t, nil
	}
	err = book.Receipts(time.Time{}, time.Time{}, true, func(*core.Receipt) bool {
		t.since = utcDay(clock().Add(24 * time.Hour))
		return false
	})
	if err == nil {
		err = v.Put(tallyKind, tallySince, []byte(t.since))
	}
	if err != nil {
		return nil, fmt.Errorf("begin the sums of what is used: %w", err)
	}
	return t, nil
}

// begin begins a run: the sums of those before it stay as they are.
func (t *Tally) begin() {
	run := rand.Text()
	t.run.Store(&run)
	clear(t.cells)
}

// Record counts a receipt in its cell.
func (t *Tally) Record(r *core.Receipt) {
	c := CellOf(r)
	s := t.cells[c]
	if s == nil {
		s = &Sum{}
		t.cells[c] = s
	}
	s.Add(r)
	t.changed[c] = true
}

// Changed gives the sums of the cells that were counted in since it was last asked.
func (t *Tally) Changed() []core.Record {
	list := make([]core.Record, 0, len(t.changed))
	run := *t.run.Load()
	for c := range t.changed {
		x := cellSum{c, *t.cells[c]}
		list = append(list, core.Record{Kind: tallyKind, Name: c.name() + "/" + run, Value: x.record()})
	}
	clear(t.changed)
	if t.again.Swap(false) || len(t.cells) > mostCells {
		t.begin()
	}
	return list
}

// Since is the first day whose sums are whole.
func (t *Tally) Since() string { return t.since }

// Sums reads the sums of the days from from (included) to to (excluded), both such as
// 2026-11-29, until yield returns false. One cell may come several times.
func (t *Tally) Sums(from, to string, yield func(c *Cell, s *Sum) bool) error {
	var bad error
	err := t.vault.Scan(tallyKind, from, to, false, func(name string, value []byte) bool {
		var x cellSum
		if bad = x.parse(value); bad != nil {
			bad = damagedSum(name, bad)
			return false
		}
		return yield(&x.Cell, &x.Sum)
	})
	if bad != nil {
		return bad
	}
	return err
}
