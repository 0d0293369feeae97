package store_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"headway/core"
	"headway/embedded/store"
)

func logs(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "intents-*.log"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range names {
		names[i] = filepath.Base(names[i])
	}
	return names
}

// copyOf is the folder as a process that is killed now would leave it.
func copyOf(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

// Each call that was dispatched has one receipt after a kill: its own, or a lost
// one, made once however often the store is opened.
func TestLostCalls(t *testing.T) {
	dir := t.TempDir()
	o := options(t)
	recorded := &tape{}
	o.Recorder = recorded
	s := mustOpen(t, dir, o)
	run(t, s)
	kept, gone := receiptAt(0), receiptAt(1)
	gone.Job, gone.Step = "build \"7\"\n", "2"
	put(t, s, kept)
	if err := s.Open(intent(gone)); err != nil {
		t.Fatal(err)
	}
	dir = copyOf(t, dir)
	now := at(60_000)
	o.Clock = func() time.Time { return now }
	again := &tape{count: 1}
	o.Recorder = again

	for i := range 3 {
		s := mustOpen(t, dir, o)
		got, err := s.Receipt(gone.ID)
		if err != nil {
			t.Fatal(whole(err)) // durable before Open returns
		}
		sameReceipt(t, got, &core.Receipt{
			ID: gone.ID, Job: gone.Job, Step: gone.Step, Kind: gone.Kind, Outcome: core.Lost,
			At: gone.At, SettledAt: at(60_000), Key: gone.Key, Owner: gone.Owner, Model: gone.Model,
			Offer: gone.Offer, Provider: gone.Provider,
			Annex: core.Annex{Operation: gone.Operation, Format: gone.Format, Streamed: gone.Streamed},
		})
		equal(t, "receipts", ids(t, s, time.Time{}, time.Time{}, false), []core.CallID{kept.ID, gone.ID})
		calls, err := s.JobCalls(gone.Job)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "calls of the job", calls, []core.CallID{gone.ID})
		now = at(90_000)
		if i == 0 {
			// Killed before the Recorder was told: the next process tells it.
			dir = copyOf(t, dir)
			continue
		}
		run(t, s)
		await(t, "the count", func() bool { return counted(t, s) == 2 })
		mustClose(t, s)
		equal(t, "recorded", again.ids(), []core.CallID{gone.ID})
	}
}

// A lost call is charged what its intent expected; one of an intent that says
// nothing of that is not. The Recorder knows of all of them before the first call
// can come, also where there are more than one commit holds, and it is told once.
func TestLostCharge(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, options(t))
	rates := core.Rates{Input: 1_000_000, Output: 2_500_000}
	var want []core.CallID
	for i := range 700 {
		in := intent(receiptAt(i))
		if i > 0 {
			in.Input, in.Output, in.InputRate, in.OutputRate = int64(i), 500, rates.Input, rates.Output
		}
		if err := s.Open(in); err != nil {
			t.Fatal(err)
		}
		want = append(want, in.ID)
	}
	dir = copyOf(t, dir)
	s = mustOpen(t, dir, options(t))
	told := &tape{}
	s.SetRecorder(told)
	equal(t, "recorded", told.ids(), want)
	equal(t, "the count", counted(t, s), len(want))
	for i, id := range want {
		r, err := s.Receipt(id)
		if err != nil {
			t.Fatal(err)
		}
		charge, from := core.Opt[core.Money]{}, core.UsageFrom("")
		if i > 0 {
			charge, from = core.Some(core.Money(i)*1_000_000+500*2_500_000), core.FromEstimate
		}
		if r.Outcome != core.Lost || r.Charge != charge || r.UsageFrom != from || i > 0 && (r.Usage.UncachedInput.V != int64(i) || *r.Prices != rates) {
			t.Fatalf("call %d: %s, charged %v from %q for %+v at %+v", i, r.Outcome, r.Charge, r.UsageFrom, r.Usage, r.Prices)
		}
	}
	// Killed again, with or without a Run.
	again := &tape{}
	other := mustOpen(t, copyOf(t, dir), options(t))
	other.SetRecorder(again)
	run(t, s)
	put(t, s, receiptAt(1000))
	equal(t, "recorded again", again.ids(), []core.CallID{})
	equal(t, "recorded", len(told.ids()), len(want)+1)
}

// TestLostUnwritten: what the disk does not take when the Recorder is set is told
// once, and written when it does.
func TestLostUnwritten(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, options(t))
	if err := s.Open(intent(receiptAt(0))); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, copyOf(t, dir), quietly(t))
	var failing atomic.Bool
	failing.Store(true)
	tried := make(chan struct{}, 100)
	s.WrapCommit(func(commit func() error) error {
		if !failing.Load() {
			return commit()
		}
		tried <- struct{}{}
		return errors.New("no room")
	})
	told := &tape{}
	s.SetRecorder(told)
	<-tried
	run(t, s)
	<-tried // it is tried again
	equal(t, "the count", counted(t, s), 0)
	failing.Store(false)
	await(t, "the count", func() bool { return counted(t, s) == 1 })
	equal(t, "recorded", len(told.ids()), 1)
}

func TestTornIntents(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, options(t))
	a, b := receiptAt(0), receiptAt(1)
	for _, r := range []*core.Receipt{a, b} {
		if err := s.Open(intent(r)); err != nil {
			t.Fatal(err)
		}
	}
	killed := copyOf(t, dir)
	name := filepath.Join(killed, logs(t, killed)[0])
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.TrimRight(text, "\x00") // the file has its whole size from the start
	whole := bytes.Trim(text, "\n")
	for _, c := range []struct {
		name string
		text string
		want []core.CallID
	}{
		{"as it was", string(text), []core.CallID{a.ID, b.ID}},
		{"the last line cut", string(text[:len(text)-20]), []core.CallID{a.ID}},
		{"without its last end", string(text[:len(text)-1]), []core.CallID{a.ID, b.ID}},
		{"a line cut and others behind it", string(text[:40]) + string(text), []core.CallID{a.ID, b.ID}},
		{"twice", string(text) + string(text), []core.CallID{a.ID, b.ID}},
		{"zeros behind", string(text) + strings.Repeat("\x00", 5000), []core.CallID{a.ID, b.ID}},
		{"other JSON", "{}\n[1]\n{\"id\":\"x\"}\n" + string(whole), []core.CallID{a.ID, b.ID}},
		{"nothing", "", []core.CallID{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := copyOf(t, killed)
			if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			s := mustOpen(t, dir, options(t))
			equal(t, "receipts", ids(t, s, time.Time{}, time.Time{}, false), c.want)
		})
	}
}

// A file of intents goes once all of them have their receipts, and not before.
func TestIntentFiles(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, options(t))
	run(t, s)
	equal(t, "files", logs(t, dir), []string{"intents-1.log"})
	old := receiptAt(0)
	if err := s.Open(intent(old)); err != nil {
		t.Fatal(err)
	}
	// Until two files are full: 8 MiB, with a name of 32 KiB in each line.
	step := strings.Repeat("s", 32<<10)
	for n := 0; !slices.Contains(logs(t, dir), "intents-3.log"); n++ {
		rs := make([]*core.Receipt, 32)
		for i := range rs {
			rs[i] = receiptAt(n*len(rs) + i + 1)
			rs[i].Step = step
		}
		put(t, s, rs...)
		if n > 100 {
			t.Fatal("the files do not turn over")
		}
	}
	equal(t, "files with an old call open", logs(t, dir), []string{"intents-1.log", "intents-3.log"})
	s.Append(old, nil)
	await(t, "the first file to go", func() bool { return len(logs(t, dir)) == 1 })
	mustClose(t, s)
	equal(t, "files after a clean stop", logs(t, dir), []string(nil))
	s = mustOpen(t, dir, options(t))
	if _, err := s.Receipt(old.ID); err != nil {
		t.Error(err)
	}
}

func TestOpenChecksTheID(t *testing.T) {
	s := mustOpen(t, t.TempDir(), options(t))
	isKind(t, s.Open(core.Intent{ID: "x"}), core.Internal)
}

var _ core.Book = (*store.Store)(nil)
