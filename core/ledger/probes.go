package ledger

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"headway/core"
)

const (
	probesKind = "probes"
	probesName = "spend" // {"YYYY-MM-DD": "USD", …}
	// probeDays are kept: a clock that is set back finds what it had spent.
	probeDays = 4
)

// Probes keep what calls of kind probe have cost on each of the last UTC days. It
// is a core.Recorder, so that a restart forgets nothing that a receipt knows.
type Probes struct {
	mu      sync.Mutex // guards both
	days    map[string]core.Money
	changed bool
}

// LoadProbes reads the sums. One that cannot be read is an error (Unavailable),
// never nothing: the limit of a day would begin anew.
func LoadProbes(v core.Vault) (*Probes, error) {
	p := &Probes{days: map[string]core.Money{}}
	text, err := v.Get(probesKind, probesName)
	if err != nil {
		return nil, fmt.Errorf("load what probes have cost: %w", err)
	}
	if text == nil {
		return p, nil
	}
	if err := json.Unmarshal(text, &p.days); err != nil || p.days == nil {
		return nil, &core.Error{Kind: core.Unavailable, Msg: "what probes have cost cannot be read",
			Hint: "restore the data folder from a backup, or start the version of headway that wrote it", Err: err}
	}
	return p, nil
}

// Record adds the charge of a probe to the day that it settled on.
func (p *Probes) Record(r *core.Receipt) {
	if r.Kind != core.KindProbe || !r.Charge.OK || r.Charge.V == 0 {
		return
	}
	day := utcDay(r.SettledAt)
	p.mu.Lock()
	defer p.mu.Unlock()
	sum, err := p.days[day].Plus(r.Charge.V)
	if err != nil {
		return // nine million dollars: the sum stays at what can be said
	}
	p.days[day], p.changed = sum, true
	if len(p.days) > probeDays {
		days := slices.Sorted(maps.Keys(p.days))
		delete(p.days, days[slices.IndexFunc(days, func(d string) bool { return d != day })]) // the oldest other one
	}
}

// Changed gives the sums, where they changed.
func (p *Probes) Changed() []core.Record {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.changed {
		return nil
	}
	p.changed = false
	value, err := json.Marshal(p.days)
	if err != nil { // of texts and numbers: cannot fail
		return nil
	}
	return []core.Record{{Kind: probesKind, Name: probesName, Value: value}}
}

// Spent is what probes have cost on the UTC day of a time.
func (p *Probes) Spent(at time.Time) core.Money {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.days[utcDay(at)]
}

func utcDay(at time.Time) string { return at.UTC().Format(time.DateOnly) }
