package ledger

import (
	"fmt"
	"sync"
	"time"

	"headway/core"
)

const spendKind = "spend"

// Accounts know what each key has spent and what its calls under way take up of
// its limits (SPEC §10). It is a core.Recorder: what was spent becomes durable
// together with the receipts that it is made of. Reservations, rates and open
// calls are in memory alone, so that the death of the process releases them.
//
// A key's account is its own for good: what is changed of the key, its limits
// above all, holds from its next call on.
type Accounts struct {
	byKey sync.Map // *account by core.KeyID; reading it never waits

	mu      sync.Mutex // guards changed
	changed map[core.KeyID]*account
}

// account is what one key has spent and what is open of it. About 2.5 KiB with
// both rates, and 0.2 KiB more for each call under way.
type account struct {
	mu       sync.Mutex // guards all that follows; no other is taken while it is held
	spend    spend
	reserved core.Money            // of all that is open
	open     map[core.CallID]*Hold // those with a reservation, until their receipt is recorded
	parallel int64                 // calls under way
	requests *window               // nil: never limited
	tokens   *window
}

// LoadAccounts reads what was spent. Unavailable: a record cannot be read.
func LoadAccounts(v core.Vault) (*Accounts, error) {
	a := &Accounts{changed: map[core.KeyID]*account{}}
	var bad error
	err := v.All(spendKind, func(name string, value []byte) bool {
		s, err := readSpend(value)
		if err != nil {
			bad = &core.Error{Kind: core.Unavailable, Msg: fmt.Sprintf("what key %s has spent cannot be read", name), Err: err}
			return false
		}
		a.of(core.KeyID(name)).spend = s
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

// of is the account of a key, made where there is none.
func (a *Accounts) of(id core.KeyID) *account {
	if x, ok := a.byKey.Load(id); ok {
		return x.(*account)
	}
	x, _ := a.byKey.LoadOrStore(id, &account{open: map[core.CallID]*Hold{}})
	return x.(*account)
}

// Record turns the reservation of a receipt's call into what it was charged, and
// adds the charge of a call that has none: one of Headway's own, or from before a
// restart.
func (a *Accounts) Record(r *core.Receipt) {
	if r.Key == "" {
		return
	}
	x := a.of(r.Key)
	x.mu.Lock()
	if h := x.open[r.ID]; h != nil {
		h.settle(r)
		h.release()
	}
	charged := r.Charge.V > 0
	if charged {
		x.spend.add(r.Charge.V, r.SettledAt)
	}
	x.mu.Unlock()
	if charged {
		a.mu.Lock()
		a.changed[r.Key] = x
		a.mu.Unlock()
	}
}

// Changed gives the records of the keys that were charged since it was last
// asked.
func (a *Accounts) Changed() []core.Record {
	a.mu.Lock()
	changed := a.changed
	a.changed = make(map[core.KeyID]*account, len(changed))
	a.mu.Unlock()
	out := make([]core.Record, 0, len(changed))
	for id, x := range changed {
		x.mu.Lock()
		s := x.spend
		x.mu.Unlock()
		out = append(out, core.Record{Kind: spendKind, Name: string(id), Value: s.write()})
	}
	return out
}

// Standing is where a key stands with its budgets.
type Standing struct {
	Spend    core.Money // charged in all
	Reserved core.Money // set aside for calls whose receipts are not recorded yet
	Budgets  []BudgetStanding
}

// BudgetStanding is where a key stands with one budget. A key whose upstreams
// reported more than was reserved has Spent above Limit; Left is then 0.
type BudgetStanding struct {
	Period                       string // day, week or month
	Limit, Spent, Reserved, Left core.Money
	Renews                       time.Time // UTC
}

// Standing tells where a key stands at a time.
func (a *Accounts) Standing(k *core.Key, now time.Time) Standing {
	v, ok := a.byKey.Load(k.ID)
	x, _ := v.(*account)
	if !ok {
		x = &account{} // nothing was ever asked of it; none is made for being looked at
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	s := Standing{Spend: x.spend.total, Reserved: x.reserved}
	for p := day; p <= month; p++ {
		limit := p.budget(&k.KeyLimits)
		if !limit.OK {
			continue
		}
		spent := x.spend.used(p, now)
		s.Budgets = append(s.Budgets, BudgetStanding{Period: p.String(), Limit: limit.V, Spent: spent, Reserved: x.reserved,
			Left: left(limit.V, spent, x.reserved), Renews: p.renews(now)})
	}
	return s
}
