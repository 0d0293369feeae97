package core

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Memory is a Book and a Vault in memory, for tests. It enforces the contracts:
// it panics on a receipt without an intent and on a second receipt of one call.
type Memory struct {
	// Recorder, where not nil, is told of each receipt.
	Recorder Recorder
	// Sick, where not nil, is what Healthy and Open say.
	Sick error

	recording sync.Mutex // the Recorder has one caller at a time

	mu       sync.Mutex // guards what follows
	open     map[CallID]bool
	receipts map[CallID]*Receipt
	values   map[[2]string][]byte
}

// NewMemory makes an empty one.
func NewMemory() *Memory {
	return &Memory{open: map[CallID]bool{}, receipts: map[CallID]*Receipt{}, values: map[[2]string][]byte{}}
}

// Open notes an intent.
func (m *Memory) Open(in Intent) error {
	if m.Sick != nil {
		return m.Sick
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open[in.ID] || m.receipts[in.ID] != nil {
		panic(fmt.Sprintf("call %s has an intent already", in.ID))
	}
	m.open[in.ID] = true
	return nil
}

// Append keeps a receipt.
func (m *Memory) Append(r *Receipt, done func()) {
	m.mu.Lock()
	if !m.open[r.ID] {
		m.mu.Unlock()
		panic(fmt.Sprintf("call %s has no open intent", r.ID))
	}
	delete(m.open, r.ID)
	m.receipts[r.ID] = r
	m.mu.Unlock()
	m.record(r)
	if done != nil {
		done()
	}
}

func (m *Memory) record(r *Receipt) {
	if m.Recorder == nil {
		return
	}
	m.recording.Lock()
	defer m.recording.Unlock()
	c := *r // a Recorder says in it what it made of it
	m.Recorder.Record(&c)
	m.mu.Lock()
	m.receipts[c.ID] = &c
	m.mu.Unlock()
	for _, rec := range m.Recorder.Changed() {
		_ = m.Put(rec.Kind, rec.Name, rec.Value)
	}
}

// Unsettled is the number of intents without a receipt.
func (m *Memory) Unsettled() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.open)
}

// CatchUp does not wait: nothing is durable later than Append.
func (m *Memory) CatchUp(context.Context) {}

// Receipt reads one.
func (m *Memory) Receipt(id CallID) (*Receipt, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.receipts[id]; r != nil {
		return r, nil
	}
	return nil, Errorf(NotFound, "there is no call %s", id)
}

// Receipts reads all in a range.
func (m *Memory) Receipts(from, to time.Time, newest bool, yield func(*Receipt) bool) error {
	m.mu.Lock()
	ids := slices.Sorted(maps.Keys(m.receipts))
	m.mu.Unlock()
	if newest {
		slices.Reverse(ids)
	}
	for _, id := range ids {
		r, err := m.Receipt(id)
		at, _ := id.Time()
		if err == nil && (from.IsZero() || !at.Before(from)) && (to.IsZero() || at.Before(to)) && !yield(r) {
			break
		}
	}
	return nil
}

// JobCalls gives a job's calls.
func (m *Memory) JobCalls(job JobID) (ids []CallID, err error) {
	err = m.Receipts(time.Time{}, time.Time{}, false, func(r *Receipt) bool {
		if r.Job == job {
			ids = append(ids, r.ID)
		}
		return true
	})
	return ids, err
}

// Erase takes out of receipts whose they were, and changes values beside them.
func (m *Memory) Erase(ids []CallID, puts, deletes []Record) error {
	m.mu.Lock()
	for _, id := range ids {
		if r := m.receipts[id]; r != nil {
			m.receipts[id] = r.Erased()
		}
	}
	m.mu.Unlock()
	return m.Write(puts, deletes)
}

// Purge has nothing to do: what is overwritten is gone.
func (m *Memory) Purge(ctx context.Context, _ func(string)) error { return ctx.Err() }

// Healthy is Sick.
func (m *Memory) Healthy() error { return m.Sick }

// Get reads a value.
func (m *Memory) Get(kind, name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.values[[2]string{kind, name}], nil
}

// Put keeps a value.
func (m *Memory) Put(kind, name string, value []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values[[2]string{kind, name}] = slices.Clone(value)
	return nil
}

// Delete drops a value.
func (m *Memory) Delete(kind, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values, [2]string{kind, name})
	return nil
}

// Write puts and deletes values as one.
func (m *Memory) Write(puts []Record, deletes []Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range puts {
		m.values[[2]string{r.Kind, r.Name}] = slices.Clone(r.Value)
	}
	for _, r := range deletes {
		delete(m.values, [2]string{r.Kind, r.Name})
	}
	return nil
}

// All reads the values of a kind in the order of their names.
func (m *Memory) All(kind string, yield func(name string, value []byte) bool) error {
	return m.Scan(kind, "", "", false, yield)
}

// Scan reads the values of a kind between two names.
func (m *Memory) Scan(kind, from, to string, newest bool, yield func(name string, value []byte) bool) error {
	m.mu.Lock()
	all := maps.Clone(m.values)
	m.mu.Unlock()
	keys := slices.SortedFunc(maps.Keys(all), func(a, b [2]string) int { return cmp.Compare(a[1], b[1]) })
	if newest {
		slices.Reverse(keys)
	}
	for _, k := range keys {
		if k[0] == kind && k[1] >= from && (to == "" || k[1] < to) && !yield(k[1], slices.Clone(all[k])) {
			break
		}
	}
	return nil
}
