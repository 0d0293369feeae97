package ledger

import (
	"fmt"
	"sync"

	"headway/core"
)

const spendKind = "spend"

// Spend keeps what each key has been charged in all. It is a core.Recorder: the
// totals become durable together with the receipts that they are made of.
type Spend struct {
	mu      sync.Mutex // guards both
	total   map[core.KeyID]core.Money
	changed map[core.KeyID]bool
}

// LoadSpend reads the totals.
func LoadSpend(v core.Vault) (*Spend, error) {
	s := &Spend{total: map[core.KeyID]core.Money{}, changed: map[core.KeyID]bool{}}
	var bad error
	err := v.All(spendKind, func(name string, value []byte) bool {
		m, err := core.ParseMoney(string(value))
		if err != nil {
			bad = core.Errorf(core.Unavailable, "what key %s has spent cannot be read", name)
			return false
		}
		s.total[core.KeyID(name)] = m
		return true
	})
	if err == nil {
		err = bad
	}
	if err != nil {
		return nil, fmt.Errorf("load spend: %w", err)
	}
	return s, nil
}

// Record adds a receipt's charge to its key.
func (s *Spend) Record(r *core.Receipt) {
	if r.Key == "" || !r.Charge.OK {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sum, err := s.total[r.Key].Plus(r.Charge.V)
	if err != nil {
		return // nine million dollars: the total stays at what can be said
	}
	s.total[r.Key] = sum
	s.changed[r.Key] = true
}

// Changed gives the totals that changed.
func (s *Spend) Changed() []core.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []core.Record
	for id := range s.changed {
		out = append(out, core.Record{Kind: spendKind, Name: string(id), Value: []byte(s.total[id].String())})
	}
	clear(s.changed)
	return out
}

// Of is what a key has been charged so far.
func (s *Spend) Of(id core.KeyID) core.Money {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total[id]
}
