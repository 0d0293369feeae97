package ledger

import (
	"fmt"
	"sync"
	"time"

	"headway/core"
)

const spendKind = "spend"

// Accounts keep what each key has been charged in all. It is a core.Recorder: the
// totals become durable together with the receipts that they are made of.
type Accounts struct {
	mu      sync.Mutex // guards both
	total   map[core.KeyID]core.Money
	changed map[core.KeyID]bool
}

// LoadAccounts reads the totals.
func LoadAccounts(v core.Vault) (*Accounts, error) {
	a := &Accounts{total: map[core.KeyID]core.Money{}, changed: map[core.KeyID]bool{}}
	var bad error
	err := v.All(spendKind, func(name string, value []byte) bool {
		m, err := core.ParseMoney(string(value))
		if err != nil {
			bad = core.Errorf(core.Unavailable, "what key %s has spent cannot be read", name)
			return false
		}
		a.total[core.KeyID(name)] = m
		return true
	})
	if err == nil {
		err = bad
	}
	if err != nil {
		return nil, fmt.Errorf("load spend: %w", err)
	}
	return a, nil
}

// Record adds a receipt's charge to its key.
func (a *Accounts) Record(r *core.Receipt) {
	if r.Key == "" || !r.Charge.OK {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	sum, err := a.total[r.Key].Plus(r.Charge.V)
	if err != nil {
		return // nine million dollars: the total stays at what can be said
	}
	a.total[r.Key] = sum
	a.changed[r.Key] = true
}

// Changed gives the totals that changed.
func (a *Accounts) Changed() []core.Record {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []core.Record
	for id := range a.changed {
		out = append(out, core.Record{Kind: spendKind, Name: string(id), Value: []byte(a.total[id].String())})
	}
	clear(a.changed)
	return out
}

// Of is what a key has been charged so far.
func (a *Accounts) Of(id core.KeyID) core.Money {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.total[id]
}

// Enter begins a call of a key.
func (a *Accounts) Enter(k *core.Key, now time.Time) (*Hold, error) { return nil, nil }

// Hold is what one call takes up of its key's limits. A nil Hold, of a call
// without a key, takes up nothing.
type Hold struct{}

// Reserve sets aside the most that the call can cost and the tokens that it is
// likely to need.
func (h *Hold) Reserve(id core.CallID, most core.Money, tokens int64, now time.Time) error {
	return nil
}

// Leave ends the call's stay; dispatched tells whether a receipt will follow.
func (h *Hold) Leave(dispatched bool) {}
