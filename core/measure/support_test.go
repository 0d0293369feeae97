package measure_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"headway/core"
	"headway/core/measure"
)

// vault is a core.Vault in memory. Like a real one it hands out bytes that are
// valid only during the call, and can be made to fail.
type vault struct {
	mu      sync.Mutex
	records map[string][]byte // kind, a zero byte, name
	fails   bool
}

var errVault = errors.New("the vault is broken")

func newVault() *vault { return &vault{records: map[string][]byte{}} }

func (v *vault) Get(kind, name string) ([]byte, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.fails {
		return nil, errVault
	}
	return slices.Clone(v.records[kind+"\x00"+name]), nil
}

func (v *vault) Put(kind, name string, value []byte) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.fails {
		return errVault
	}
	v.records[kind+"\x00"+name] = slices.Clone(value)
	return nil
}

func (v *vault) Delete(kind, name string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.fails {
		return errVault
	}
	delete(v.records, kind+"\x00"+name)
	return nil
}

func (v *vault) Write(puts []core.Record, deletes []core.Record) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.fails {
		return errVault
	}
	for _, r := range puts {
		v.records[r.Kind+"\x00"+r.Name] = slices.Clone(r.Value)
	}
	for _, r := range deletes {
		delete(v.records, r.Kind+"\x00"+r.Name)
	}
	return nil
}

func (v *vault) All(kind string, yield func(name string, value []byte) bool) error {
	return v.Scan(kind, "", "", false, yield)
}

func (v *vault) Scan(kind, from, to string, newest bool, yield func(name string, value []byte) bool) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.fails {
		return errVault
	}
	keys := slices.Sorted(maps.Keys(v.records))
	if newest {
		slices.Reverse(keys)
	}
	for _, key := range keys {
		name, ok := strings.CutPrefix(key, kind+"\x00")
		if !ok || name < from || to != "" && name >= to {
			continue
		}
		lent := slices.Clone(v.records[key])
		more := yield(name, lent)
		clear(lent)
		if !more {
			return nil
		}
	}
	return nil
}

// names are the names of all records of a kind, in order.
func (v *vault) names(t *testing.T, kind string) []string {
	t.Helper()
	var out []string
	if err := v.All(kind, func(name string, _ []byte) bool { out = append(out, name); return true }); err != nil {
		t.Fatal(err)
	}
	return out
}

// take stores what changed, as the receipt writer does.
func (v *vault) take(t *testing.T, b *measure.Board) {
	t.Helper()
	for _, r := range b.Changed() {
		if err := v.Put(r.Kind, r.Name, r.Value); err != nil {
			t.Fatal(err)
		}
	}
}

func newBoard(t *testing.T, clock core.Clock, v core.Vault) *measure.Board {
	t.Helper()
	b, err := measure.NewBoard(clock, v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// streamedCall is a settled job of p/m with some fresh input and a first token,
// too short to have an output speed.
func streamedCall(at time.Time, fresh int64, firstMS float64) *core.Receipt {
	r := &core.Receipt{
		Kind: core.KindJob, Outcome: core.Settled, SettledAt: at,
		Provider: "p", Model: "m", Offer: "p/m",
		Usage: core.Usage{UncachedInput: core.Some(fresh), Output: core.Some(int64(100))},
	}
	r.Streamed = true
	r.Timing.FirstToken = core.Some(firstMS)
	r.Timing.DispatchToFirstToken = core.Some(firstMS)
	return r
}
