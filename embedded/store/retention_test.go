package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"headway/core"
	"headway/embedded/store"
)

// hands is a clock that a test sets.
type hands struct{ at atomic.Pointer[time.Time] }

func (h *hands) set(at time.Time) { h.at.Store(&at) }
func (h *hands) now() time.Time   { return *h.at.Load() }

func clockAt(at time.Time) *hands {
	h := &hands{}
	h.set(at)
	return h
}

// in is the n-th moment of a month of 2026.
func in(month time.Month, n int) time.Time {
	return time.Date(2026, month, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(n) * time.Millisecond)
}

// of is a receipt of that moment, of a job of its own name.
func of(month time.Month, n int) *core.Receipt {
	at := in(month, n)
	r := sample(core.NewCallID(at), at)
	r.Job = core.JobID(fmt.Sprintf("job-%d", n))
	return r
}

// What has expired is not shown from the very moment on, by whatever way it is asked
// for, before anything is dropped; and a clock that went wrong takes nothing away.
func TestExpiredIsNotShown(t *testing.T) {
	h := clockAt(in(6, 0).Add(-1))
	o := options(t)
	o.Clock = h.now
	s := mustOpen(t, t.TempDir(), o)
	run(t, s)
	april, may, june := of(4, 1), of(5, 1), of(6, -1)
	own := of(4, 2)
	own.Job = core.JobID(own.ID) // its own job has no entry in the index
	put(t, s, april, own, may, june)
	shown := func(want ...*core.Receipt) {
		t.Helper()
		var list []core.CallID
		for _, r := range want {
			list = append(list, r.ID)
		}
		slices.Sort(list)
		got := ids(t, s, time.Time{}, time.Time{}, false)
		equal(t, "receipts", len(got), len(list))
		for i := range min(len(got), len(list)) {
			equal(t, "receipt", got[i], list[i])
		}
		equal(t, "the newest first", len(ids(t, s, time.Time{}, time.Time{}, true)), len(list))
		equal(t, "from a time before", len(ids(t, s, in(1, 0), in(12, 0), false)), len(list))
		for _, r := range []*core.Receipt{april, own, may, june} {
			there := slices.Contains(list, r.ID)
			_, err := s.Receipt(r.ID)
			if there != (err == nil) {
				t.Errorf("%s: %v", r.ID, err)
			}
			if !there {
				isKind(t, err, core.NotFound)
			}
			if calls, err := s.JobCalls(r.Job); err != nil || slices.Contains(calls, r.ID) != there {
				t.Errorf("job %s: %v %v", r.Job, calls, err)
			}
		}
	}
	shown(april, own, may, june)
	s.Keep(core.Retention{Receipts: core.Some(1)})
	shown(april, own, may, june) // it is the last moment of May
	h.set(in(6, 0))
	shown(may, june)
	equal(t, "an interval that has expired", len(ids(t, s, in(4, 0), in(5, 0), false)), 0)
	h.set(in(12, 0)) // a clock that went wrong
	shown()
	h.set(in(6, 0))
	shown(may, june)
	s.Keep(core.Retention{Receipts: core.Some(2)})
	shown(april, own, may, june)

	s.Keep(core.Retention{Measurements: core.Some(1)})
	for _, r := range []*core.Receipt{april, may} {
		got, err := s.Receipt(r.ID)
		if err != nil {
			t.Fatal(whole(err))
		}
		want := *r
		if r == april {
			want.Annex = core.Annex{}
		}
		sameReceipt(t, got, &want)
	}
	if err := s.Receipts(in(4, 0), in(5, 0), false, func(r *core.Receipt) bool {
		if r.Attempts != nil || r.Charge != april.Charge {
			t.Errorf("%+v", r)
		}
		return true
	}); err != nil {
		t.Error(whole(err))
	}
}

// fill keeps n receipts of each of those months.
func fillMonths(t *testing.T, s *store.Store, n int, months ...time.Month) {
	t.Helper()
	for _, m := range months {
		var list []*core.Receipt
		for i := range n {
			list = append(list, of(m, i))
			if len(list) == 500 || i == n-1 {
				put(t, s, list...)
				list = nil
			}
		}
	}
}

// tables is what Badger's tables have in bytes.
func tables(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "db", "*.sst"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		if info, err := os.Stat(name); err == nil {
			bytes += info.Size()
		}
	}
	return bytes
}

// Dropping gives the space back, while the writer goes on; what is kept is not
// touched, and a second time finds nothing.
func TestDropReceipts(t *testing.T) {
	dir := filepath.Join(fastDir(t, 512<<20), "store")
	h := clockAt(in(6, 0))
	o := options(t)
	o.Clock = h.now
	s := mustOpen(t, dir, o)
	run(t, s)
	const each = 3000
	fillMonths(t, s, each, 3, 4, 5)
	settle := func() int64 {
		t.Helper()
		if err := s.Purge(context.Background(), nil); err != nil {
			t.Fatal(whole(err))
		}
		return tables(t, dir)
	}
	before := settle()

	stop := make(chan struct{})
	var writer sync.WaitGroup
	var written atomic.Int64
	writer.Go(func() {
		for n := each; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			put(t, s, of(5, n))
			if err := s.Put("key", itoa(n), []byte("x")); err != nil {
				t.Error(whole(err))
			}
			written.Add(1)
		}
	})
	await(t, "the writer to write", func() bool { return written.Load() > 0 })
	s.Keep(core.Retention{Receipts: core.Some(1)})
	n, err := s.DropReceipts(context.Background(), in(5, 0))
	if err != nil || n != 2*each {
		t.Fatalf("%d dropped, %v", n, err)
	}
	await(t, "the writer to go on", func() bool { w := written.Load(); return w > 3 })
	close(stop)
	writer.Wait()
	if n, err := s.DropReceipts(context.Background(), in(5, 0)); n != 0 || err != nil {
		t.Errorf("a second time %d are dropped, %v", n, err)
	}
	after := settle()
	t.Logf("%d receipts of 3 months: %d KiB; two dropped: %d KiB, with %d written meanwhile", 3*each, before>>10, after>>10, written.Load())
	if after > before/2 {

		t.Errorf("the store takes %d bytes, and took %d with three months", after, before)
	}
	// Nothing is left of them that another rule would show.
	s.Keep(core.Retention{})
	want := each + int(written.Load())
	equal(t, "receipts", len(ids(t, s, time.Time{}, time.Time{}, false)), want)
	if calls, err := s.JobCalls("job-1"); err != nil || len(calls) != 1 {
		t.Errorf("%v %v", calls, err)
	}
	for n := each; n < want; n++ {
		if v, err := s.Get("key", itoa(n)); err != nil || string(v) != "x" {
			t.Fatalf("record %d: %q %v", n, v, err)
		}
	}
}

// budgetOf bounds how many commits of a store succeed, at first by nothing.
func budgetOf(s *store.Store) *atomic.Int64 {
	budget := new(atomic.Int64)
	budget.Store(1 << 40)
	s.WrapCommit(func(commit func() error) error {
		if budget.Add(-1) < 0 {
			return errors.New("broken")
		}
		return commit()
	})
	return budget
}

// A drop that fails in its middle, or whose process is stopped, is gone on with; what
// is half dropped is no damage.
func TestDropIsGoneOnWith(t *testing.T) {
	h := clockAt(in(6, 0))
	o := quietly(t)
	o.Clock = h.now
	dir := t.TempDir()
	s := mustOpen(t, dir, o)
	budget := budgetOf(s)
	run(t, s)
	const each = 1600
	fillMonths(t, s, each, 4, 5)
	budget.Store(5) // of the index three batches, of receipts two
	if n, err := s.DropReceipts(context.Background(), in(5, 0)); n == 0 || n == each || err == nil {
		t.Fatalf("%d dropped, %v", n, err)
	}
	mustClose(t, s) // nothing waits, so that closing writes nothing
	s = mustOpen(t, dir, o)
	run(t, s)
	left := len(ids(t, s, time.Time{}, in(5, 0), false))
	if left == 0 || left == each {
		t.Fatalf("%d are left", left)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if n, err := s.DropReceipts(ctx, in(5, 0)); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d %v", n, err)
	}
	if n, err := s.DropReceipts(context.Background(), in(5, 0)); n != left || err != nil {
		t.Errorf("%d of %d dropped, %v", n, left, err)
	}
	equal(t, "receipts", len(ids(t, s, time.Time{}, time.Time{}, false)), each)
}

// A process that is killed at any moment while it drops and writes leaves a store in
// which nothing is damaged and nothing kept is gone, and the next one ends the work.
func TestDropKilled(t *testing.T) {
	dir := filepath.Join(fastDir(t, 512<<20), "store")
	kept := map[core.CallID]bool{}
	for n := range 8 { // each drops from its first line on
		killChild(t, "drop", dir, false, time.Duration(n)*15*time.Millisecond, func(line string) {
			var id string
			if n, _ := fmt.Sscanf(line, "durable %s", &id); n == 1 && len(id) == 26 {
				kept[core.CallID(id)] = true
			}
		})
	}
	o := options(t)
	o.Clock = clockAt(in(6, 0)).now
	s := mustOpen(t, dir, o)
	run(t, s)
	found := map[core.CallID]bool{}
	for _, id := range ids(t, s, in(5, 0), time.Time{}, false) {
		found[id] = true
	}
	for id := range kept {
		if !found[id] {
			t.Errorf("%s was acknowledged and is gone", id)
		}
	}
	left := len(ids(t, s, time.Time{}, in(5, 0), false))
	n, err := s.DropReceipts(context.Background(), in(5, 0))
	if err != nil || n < left {
		t.Errorf("%d of %d dropped, %v", n, left, err)
	}
	equal(t, "receipts of before", len(ids(t, s, time.Time{}, in(5, 0), false)), 0)
	t.Logf("%d kept, %d were left to drop", len(kept), left)
}

// dropping is the child: it writes, and drops what is of before May.
func dropping(dir string) error {
	s, err := store.Open(dir, store.Options{LogFileBytes: 1 << 20, Clock: clockAt(in(6, 0)).now, Log: silent})
	if err != nil {
		return err
	}
	s.Group(time.Millisecond)
	var all sync.WaitGroup
	all.Go(func() { _ = s.Run(context.Background()) })
	start := int(time.Now().UnixMilli() % 1e9)
	write := func(r *core.Receipt, done func()) {
		if err := s.Open(intent(r)); err != nil {
			fmt.Fprintln(os.Stderr, whole(err))
			os.Exit(1)
		}
		s.Append(r, done)
	}
	for round := 0; ; round++ {
		var old sync.WaitGroup
		for i := range 600 {
			old.Add(1)
			write(of(4, start+600*round+i), old.Done)
		}
		old.Wait()
		say("dropping", "")
		if round == 0 {
			all.Go(func() {
				for n := 0; ; n++ {
					r := of(5, start+n)
					write(r, func() { say("durable", r.ID) })
					time.Sleep(100 * time.Microsecond)
				}
			})
		}
		if _, err := s.DropReceipts(context.Background(), in(5, 0)); err != nil {
			return err
		}
	}
}

// Measurements go, and the charge part stays; a pass that failed is gone on with, and
// one that is done is not made again.
func TestDropMeasurements(t *testing.T) {
	h := clockAt(in(6, 0))
	o := quietly(t)
	o.Clock = h.now
	dir := t.TempDir()
	s := mustOpen(t, dir, o)
	budget := budgetOf(s)
	run(t, s)
	const each = 300
	fillMonths(t, s, each, 3, 4, 5)
	budget.Store(1)
	if n, err := s.DropMeasurements(context.Background(), in(5, 0)); err == nil || n == 0 || n >= 2*each {
		t.Fatalf("%d, %v", n, err)
	}
	mustClose(t, s)
	s = mustOpen(t, dir, o)
	run(t, s)
	if n, err := s.DropMeasurements(context.Background(), in(5, 0)); err != nil || n == 0 || n >= 2*each {
		t.Fatalf("%d, %v", n, err)
	}
	was := s.Version()
	if n, err := s.DropMeasurements(context.Background(), in(5, 0)); err != nil || n != 0 || s.Version() != was {
		t.Fatalf("done again: %d, %v", n, err)
	}
	count := 0
	if err := s.Receipts(time.Time{}, time.Time{}, false, func(r *core.Receipt) bool {
		n := count % each
		month := 3 + time.Month(count/each)
		want := of(month, n)
		want.ID = r.ID
		if month < 5 {
			want.Annex = core.Annex{}
		}
		sameReceipt(t, r, want)
		count++
		return !t.Failed()
	}); err != nil {
		t.Fatal(whole(err))
	}
	equal(t, "receipts", count, 3*each)
	// The next month goes alone.
	if n, err := s.DropMeasurements(context.Background(), in(6, 0)); err != nil || n != each {
		t.Errorf("%d, %v", n, err)
	}
}

// Nothing is dropped on a full disk, and all of it once there is room.
func TestDropOnAFullDisk(t *testing.T) {
	dir, disk, fill, free := smallDisk(t, 128<<20)
	o := options(t)
	o.LogFileBytes = 0
	o.Clock = clockAt(in(6, 0)).now
	s := mustOpen(t, filepath.Join(dir, "store"), o)
	disk(s)
	run(t, s)
	fillMonths(t, s, 100, 4, 5)
	fill(0)
	await(t, "the full disk to be seen", func() bool { return s.Healthy() != nil })
	n, err := s.DropReceipts(context.Background(), in(5, 0))
	isKind(t, err, core.Unavailable)
	m, err := s.DropMeasurements(context.Background(), in(5, 0))
	isKind(t, err, core.Unavailable)
	equal(t, "dropped", n+m, 0)
	equal(t, "receipts", len(ids(t, s, time.Time{}, time.Time{}, false)), 200)
	free()
	await(t, "room", func() bool { return s.Healthy() == nil })
	if n, err := s.DropReceipts(context.Background(), in(5, 0)); n != 100 || err != nil {
		t.Errorf("%d %v", n, err)
	}
}

// A receipt that is damaged, or has lost its witness, expires too.
func TestDropDamaged(t *testing.T) {
	o := options(t)
	o.Clock = clockAt(in(6, 0)).now
	s := mustOpen(t, t.TempDir(), o)
	run(t, s)
	list := []*core.Receipt{of(4, 1), of(4, 2), of(4, 3), of(4, 4), of(5, 1)}
	put(t, s, list...)
	key := func(i int) string { return "r/2026-04/" + string(list[i].ID) }
	for k, v := range map[string][]byte{key(0): []byte("not what was kept"), key(1): nil, "w/" + key(2): nil} {
		if err := s.Raw(k, v); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.DropMeasurements(context.Background(), in(5, 0)); err != nil || n != 1 {
		t.Errorf("the measurements of %d go, %v", n, err)
	}
	for i := range 3 { // reading them still says what they are
		if _, err := s.Receipt(list[i].ID); err == nil {
			t.Errorf("receipt %d is whole", i)
		}
	}
	if _, err := s.DropReceipts(context.Background(), in(5, 0)); err != nil {
		t.Fatal(whole(err))
	}
	equal(t, "receipts", ids(t, s, time.Time{}, time.Time{}, false), []core.CallID{list[4].ID})
	for i := range 4 {
		_, err := s.Receipt(list[i].ID)
		isKind(t, err, core.NotFound)
	}
}
