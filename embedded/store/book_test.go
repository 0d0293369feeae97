package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"headway/core"
	"headway/embedded/store"
)

func TestReceiptIsWhatWasAppended(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, options(t))
	run(t, s)
	want := receiptAt(0)
	_, err := s.Receipt(want.ID)
	isKind(t, err, core.NotFound)
	put(t, s, want)
	check := func(s *store.Store) {
		got, err := s.Receipt(want.ID)
		if err != nil {
			t.Fatal(whole(err))
		}
		sameReceipt(t, got, want)
	}
	check(s)
	mustClose(t, s)
	_, err = s.Receipt(want.ID)
	isKind(t, err, core.Unavailable)
	s = mustOpen(t, dir, options(t))
	check(s)
	for _, id := range []core.CallID{"", "x", core.NewCallID(at(0)), "../../etc/passwd"} {
		_, err := s.Receipt(id)
		isKind(t, err, core.NotFound)
	}
}

// What Receipt answers has been synced: while the commit is under way there is
// nothing to see, and done has not been called.
func TestReceiptIsSeenOnlyWhenDurable(t *testing.T) {
	s := mustOpen(t, t.TempDir(), options(t))
	entered, release := make(chan struct{}), make(chan struct{})
	s.WrapCommit(func(commit func() error) error {
		entered <- struct{}{}
		<-release
		return commit()
	})
	run(t, s)
	r := receiptAt(0)
	if err := s.Open(intent(r)); err != nil {
		t.Fatal(err)
	}
	var done atomic.Bool
	seen := make(chan struct{})
	s.Append(r, func() {
		if _, err := s.Receipt(r.ID); err != nil {
			t.Errorf("done before the receipt is there: %v", err)
		}
		done.Store(true)
		close(seen)
	})
	<-entered
	_, err := s.Receipt(r.ID)
	isKind(t, err, core.NotFound)
	if done.Load() {
		t.Error("done was called before the commit")
	}
	close(release)
	<-seen
}

// Who asks right after a call finds its receipt: CatchUp ends the writer's wait for
// more of them. Where it cannot write, ctx ends CatchUp, and so does Close.
func TestCatchUp(t *testing.T) {
	s := mustOpen(t, t.TempDir(), options(t))
	s.Group(time.Hour)
	s.CatchUp(t.Context()) // nothing is there to wait for
	var stuck atomic.Bool
	free := make(chan struct{})
	s.WrapCommit(func(commit func() error) error {
		if stuck.Load() {
			<-free
		}
		return commit()
	})
	run(t, s)
	hand := func(i int) *core.Receipt {
		r := receiptAt(i)
		if err := s.Open(intent(r)); err != nil {
			t.Fatal(whole(err))
		}
		s.Append(r, nil)
		return r
	}
	for i := range 20 {
		r := hand(i)
		s.CatchUp(t.Context())
		if _, err := s.Receipt(r.ID); err != nil {
			t.Fatal(whole(err))
		}
	}
	stuck.Store(true)
	hand(20)
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stop()
	if s.CatchUp(ctx); ctx.Err() == nil {
		t.Error("it did not wait")
	}
	gone := make(chan struct{})
	go func() { s.CatchUp(context.Background()); close(gone) }()
	closed := make(chan struct{})
	go func() { mustClose(t, s); close(closed) }()
	<-gone
	close(free)
	<-closed
}

// Who has the end of an answer may ask before its receipt is handed over.
func TestReceiptOfACallThatHasJustEnded(t *testing.T) {
	s := mustOpen(t, t.TempDir(), options(t))
	r := receiptAt(0)
	if err := s.Open(intent(r)); err != nil {
		t.Fatal(whole(err))
	}
	s.Group(time.Millisecond)
	_, err := s.Receipt(r.ID)
	isKind(t, err, core.NotFound) // it is under way
	s.Group(time.Minute)
	run(t, s)
	asked := make(chan error)
	go func() {
		_, err := s.Receipt(r.ID)
		asked <- err
	}()
	select {
	case err := <-asked:
		t.Fatal("it did not wait:", err)
	case <-time.After(20 * time.Millisecond):
	}
	s.Append(r, func() {}) // who waits ends the gathering
	if err := <-asked; err != nil {
		t.Fatal(whole(err))
	}
}

func TestReceiptsInOrder(t *testing.T) {
	s := mustOpen(t, t.TempDir(), options(t))
	run(t, s)
	// Across the border of a month, and appended in another order.
	var all []*core.Receipt
	for _, ms := range []int{5000, 0, 2000, 999, 1000, 1001} {
		all = append(all, receiptAt(ms))
	}
	put(t, s, all...)
	slices.SortFunc(all, func(a, b *core.Receipt) int { return a.At.Compare(b.At) })
	pick := func(ms ...int) []core.CallID {
		list := []core.CallID{}
		for _, r := range all {
			for _, m := range ms {
				if r.At.Equal(at(m)) {
					list = append(list, r.ID)
				}
			}
		}
		return list
	}
	none := time.Time{}
	for _, c := range []struct {
		name     string
		from, to time.Time
		want     []core.CallID
	}{
		{"all", none, none, pick(0, 999, 1000, 1001, 2000, 5000)},
		{"from, included", at(1000), none, pick(1000, 1001, 2000, 5000)},
		{"to, excluded", none, at(1000), pick(0, 999)},
		{"between", at(999), at(2000), pick(999, 1000, 1001)},
		{"a part of a millisecond rounds up", at(999).Add(1), at(1000).Add(1), pick(1000)},
		{"empty", at(2001), at(4999), pick()},
		{"turned round", at(5000), at(0), pick()},
		{"before there was time", time.Unix(-5, 0), time.Unix(-1, 0), pick()},
		{"after the last id", time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC), none, pick()},
		{"until after the last id", none, time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC), pick(0, 999, 1000, 1001, 2000, 5000)},
	} {
		t.Run(c.name, func(t *testing.T) {
			equal(t, "oldest first", ids(t, s, c.from, c.to, false), c.want)
			want := slices.Clone(c.want)
			slices.Reverse(want)
			equal(t, "newest first", ids(t, s, c.from, c.to, true), want)
		})
	}
	var first []core.CallID
	if err := s.Receipts(none, none, true, func(r *core.Receipt) bool {
		first = append(first, r.ID)
		return len(first) < 2
	}); err != nil {
		t.Fatal(err)
	}
	equal(t, "stopped after two", first, []core.CallID{all[5].ID, all[4].ID})
}

// A panic of the caller's is not taken for damage.
func TestReceiptsPassesAPanicOn(t *testing.T) {
	s := mustOpen(t, t.TempDir(), options(t))
	run(t, s)
	put(t, s, receiptAt(0))
	defer func() { equal(t, "panic", recover(), any("mine")) }()
	_ = s.Receipts(time.Time{}, time.Time{}, false, func(*core.Receipt) bool { panic("mine") })
}

func TestJobCalls(t *testing.T) {
	s := mustOpen(t, t.TempDir(), options(t))
	run(t, s)
	with := func(ms int, job core.JobID) *core.Receipt {
		r := receiptAt(ms)
		r.Job = job
		return r
	}
	long := core.JobID(make([]byte, 60_000))
	a1, a2, a3 := with(3, "a"), with(1, "a"), with(2, "a")
	nul, l1 := with(4, "a\x00b"), with(5, long)
	alone := receiptAt(6)
	joined := with(7, core.JobID(alone.ID)) // a job named like a call's own
	put(t, s, a1, a2, a3, nul, l1, alone, joined)
	for _, c := range []struct {
		job  core.JobID
		want []core.CallID
	}{
		{"a", []core.CallID{a2.ID, a3.ID, a1.ID}},
		{"a\x00b", []core.CallID{nul.ID}},
		{long, []core.CallID{l1.ID}},
		{core.JobID(alone.ID), []core.CallID{alone.ID, joined.ID}},
		{"b", nil},
		{"", nil},
		{core.JobID(core.NewCallID(at(0))), nil},
	} {
		got, err := s.JobCalls(c.job)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, fmt.Sprintf("calls of a job of %d bytes", len(c.job)), got, c.want)
	}
}

// A call has one receipt, the first, however often one is handed over.
func TestSameCallIsWrittenOnce(t *testing.T) {
	tape := &tape{}
	o := options(t)
	o.Recorder = tape
	s := mustOpen(t, t.TempDir(), o)
	r := receiptAt(0)
	again := *r
	again.Outcome = core.Failed
	if err := s.Open(intent(r)); err != nil {
		t.Fatal(err)
	}
	isKind(t, s.Open(intent(r)), core.Internal)
	var done sync.WaitGroup
	done.Add(3)
	s.Append(r, done.Done)
	s.Append(&again, done.Done) // in the same batch
	run(t, s)
	await(t, "the first", func() bool { _, err := s.Receipt(r.ID); return err == nil })
	s.Append(&again, done.Done) // and when it is durable
	done.Wait()
	got, err := s.Receipt(r.ID)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "outcome", got.Outcome, core.Settled)
	equal(t, "recorded", tape.ids(), []core.CallID{r.ID})
	equal(t, "all", ids(t, s, time.Time{}, time.Time{}, false), []core.CallID{r.ID})
}

// A receipt that is beyond every bound must not stop those behind it.
func TestHugeReceipt(t *testing.T) {
	o := options(t)
	s := mustOpen(t, t.TempDir(), o)
	run(t, s)
	huge, next := receiptAt(0), receiptAt(1)
	for range 20_000 {
		huge.Decision.Offers = append(huge.Decision.Offers, core.Ranked{Offer: "some/offer", Refused: core.RefusedOwn})
	}
	huger := receiptAt(2)
	huger.FinishReason = string(make([]byte, 1<<20))
	put(t, s, huge, huger, next)
	got, err := s.Receipt(huge.ID)
	if err != nil {
		t.Fatal(err)
	}
	want := *huge
	want.Decision, want.Expected = nil, huge.ExpectedThere()
	sameReceipt(t, got, &want)
	if got, err = s.Receipt(huger.ID); err != nil {
		t.Fatal(err)
	}
	equal(t, "charge", got.Charge, huger.Charge)
	// What measures are recomputed from stays.
	equal(t, "timing", got.Timing, huger.Timing)
	equal(t, "expected", *got.Expected, *huger.ExpectedThere())
}

func TestQueueFull(t *testing.T) {
	o := options(t)
	s := mustOpen(t, t.TempDir(), o)
	var done sync.WaitGroup
	open := receiptAt(0)
	if err := s.Open(intent(open)); err != nil {
		t.Fatal(err)
	}
	for i := range store.QueueLimit {
		r := receiptAt(i)
		if err := s.Open(intent(r)); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
		done.Add(1)
		s.Append(r, done.Done)
	}
	e := isKind(t, s.Open(intent(receiptAt(0))), core.Unavailable)
	if e.RetryAfter <= 0 {
		t.Error("no word on when to try again")
	}
	if err := s.Healthy(); err != nil {
		t.Errorf("a full queue is no fault of the store: %v", err)
	}
	done.Add(1)
	s.Append(open, done.Done) // a call that is open always has room
	run(t, s)
	done.Wait()
	put(t, s, receiptAt(1))
	equal(t, "receipts", len(ids(t, s, time.Time{}, time.Time{}, false)), store.QueueLimit+2)
}

// Close writes what is waiting, whether the writer runs or never did.
func TestCloseFlushes(t *testing.T) {
	for _, running := range []bool{false, true} {
		t.Run(fmt.Sprintf("running %v", running), func(t *testing.T) {
			dir := t.TempDir()
			s := mustOpen(t, dir, options(t))
			if running {
				run(t, s)
			}
			var done atomic.Int64
			for i := range 1000 {
				r := receiptAt(i)
				if err := s.Open(intent(r)); err != nil {
					t.Fatal(err)
				}
				s.Append(r, func() { done.Add(1) })
			}
			mustClose(t, s)
			equal(t, "done", done.Load(), 1000)
			isKind(t, s.Open(intent(receiptAt(0))), core.Unavailable)
			isKind(t, s.Put("key", "a", nil), core.Unavailable)
			s = mustOpen(t, dir, options(t))
			equal(t, "receipts", len(ids(t, s, time.Time{}, time.Time{}, false)), 1000)
		})
	}
}

// A write that fails, lost or landed, is told to nobody, refuses new calls, and
// is tried until it works: nothing is lost and nothing is there twice.
func TestFailingWrites(t *testing.T) {
	for _, landed := range []bool{false, true} {
		t.Run(fmt.Sprintf("landed %v", landed), func(t *testing.T) {
			tape := &tape{}
			o := quietly(t)
			o.Recorder = tape
			dir := t.TempDir()
			s := mustOpen(t, dir, o)
			var failing atomic.Bool
			failing.Store(true)
			tried := make(chan struct{}, 100)
			s.WrapCommit(func(commit func() error) error {
				if !failing.Load() {
					return commit()
				}
				if landed {
					_ = commit()
				}
				tried <- struct{}{}
				return errors.New("input/output error")
			})
			run(t, s)
			rs := []*core.Receipt{receiptAt(0), receiptAt(1), receiptAt(2)}
			var done sync.WaitGroup
			for _, r := range rs {
				if err := s.Open(intent(r)); err != nil {
					t.Fatal(err)
				}
			}
			done.Add(len(rs))
			var early atomic.Int64
			s.Append(rs[0], func() { early.Add(1); done.Done() })
			<-tried
			<-tried // it is tried again
			s.Append(rs[1], done.Done)
			s.Append(rs[2], done.Done)
			e := isKind(t, s.Healthy(), core.Unavailable)
			equal(t, "message", e.Msg, "receipts cannot be written")
			isKind(t, s.Open(intent(receiptAt(3))), core.Unavailable)
			equal(t, "acknowledged", early.Load(), 0)
			failing.Store(false)
			done.Wait()
			await(t, "health", func() bool { return s.Healthy() == nil })
			put(t, s, receiptAt(4))
			equal(t, "receipts", len(ids(t, s, time.Time{}, time.Time{}, false)), 4)
			equal(t, "recorded", len(tape.ids()), 4)
			mustClose(t, s)
			s = mustOpen(t, dir, options(t))
			equal(t, "count that was derived", counted(t, s), 4)
			equal(t, "receipts", len(ids(t, s, time.Time{}, time.Time{}, false)), 4)
		})
	}
}

// What cannot be written at a stop is told, and its call is lost at the next start.
func TestCloseTellsWhatItCouldNotWrite(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, quietly(t))
	s.WrapCommit(func(func() error) error { return errors.New("input/output error") })
	run(t, s)
	r := receiptAt(0)
	if err := s.Open(intent(r)); err != nil {
		t.Fatal(err)
	}
	s.Append(r, func() { t.Error("acknowledged") })
	err := s.Close()
	if err == nil {
		t.Fatal("no word of the receipt")
	}
	s = mustOpen(t, dir, options(t))
	got, err := s.Receipt(r.ID)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "outcome", got.Outcome, core.Lost)
}
