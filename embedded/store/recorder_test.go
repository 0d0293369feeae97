package store_test

import (
	"strconv"
	"sync"
	"testing"

	"headway/core"
	"headway/embedded/store"
)

// tape is a Recorder that counts receipts in a record of the Vault, from where
// the record stood when it was made.
type tape struct {
	mu    sync.Mutex
	list  []core.CallID
	count int
	dirty bool
}

func (r *tape) Record(c *core.Receipt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, c.ID)
	r.count++
	r.dirty = true
}

func (r *tape) Changed() []core.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.dirty {
		return nil
	}
	r.dirty = false
	return []core.Record{ // of one name the last holds
		{Kind: "count", Name: "all", Value: []byte("0")},
		{Kind: "count", Name: "all", Value: []byte(strconv.Itoa(r.count))},
	}
}

func (r *tape) ids() []core.CallID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]core.CallID{}, r.list...)
}

func counted(t *testing.T, s *store.Store) int {
	t.Helper()
	text, err := s.Get("count", "all")
	if err != nil {
		t.Fatal(whole(err))
	}
	n, _ := strconv.Atoi(string(text))
	return n
}

// The Recorder is told of each receipt in order, and what it derives is there as
// soon as the receipt is.
func TestRecorder(t *testing.T) {
	tape := &tape{}
	s := mustOpen(t, t.TempDir(), options(t))
	s.SetRecorder(tape)
	run(t, s)
	var want []core.CallID
	var done sync.WaitGroup
	for i := range 600 { // more than one batch holds
		r := receiptAt(i)
		want = append(want, r.ID)
		if err := s.Open(intent(r)); err != nil {
			t.Fatal(err)
		}
		done.Add(1)
		s.Append(r, func() {
			if n := counted(t, s); n < i+1 {
				t.Errorf("receipt %d is durable and the count is %d", i, n)
			}
			done.Done()
		})
		if i%7 == 0 {
			done.Wait()
		}
	}
	done.Wait()
	mustClose(t, s)
	equal(t, "recorded", tape.ids(), want)
}

// What a Recorder says in a receipt is stored with it, and the receipt that was handed
// over stays as it was.
func TestRecorderSays(t *testing.T) {
	s := mustOpen(t, t.TempDir(), options(t))
	s.SetRecorder(late{})
	run(t, s)
	r := receiptAt(0)
	put(t, s, r)
	got, err := s.Receipt(r.ID)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "stored", got.CountedOn, "2026-04-02")
	equal(t, "handed over", r.CountedOn, "")
}

type late struct{}

func (late) Record(r *core.Receipt) { r.CountedOn = "2026-04-02" }
func (late) Changed() []core.Record { return nil }

// A record that the store does not take must not stop the receipts.
func TestRecorderOfTooMuch(t *testing.T) {
	s := mustOpen(t, t.TempDir(), quietly(t))
	s.SetRecorder(tooMuch{})
	run(t, s)
	put(t, s, receiptAt(0))
	got, err := s.Get("good", "a")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "good record", string(got), "x")
}

type tooMuch struct{}

func (tooMuch) Record(*core.Receipt) {}
func (tooMuch) Changed() []core.Record {
	return []core.Record{
		{Kind: "big", Name: "a", Value: make([]byte, 1<<20)}, {Kind: "", Name: "", Value: nil},
		{Kind: "good", Name: "a", Value: []byte("x")},
	}
}
