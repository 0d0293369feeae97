package store_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"headway/core"
	"headway/embedded/store"
)

// traces are what the tests look for on the disk. Nothing that receipts are packed with
// is like them.
var traces = []string{"zQ7xK9vWjh", "PqV4yRm2Lb", "uX8wNc6TgD", "Hf3zYk5ZsE", "bJ2vQx7WrM", "Ly9pGq4KdC", "Vt6nXh8ZuA"}

// personal is a receipt that says in all its places whose it is.
func personal(ms int) *core.Receipt {
	r := receiptAt(ms)
	r.Key, r.Owner, r.Job, r.Step = core.KeyID(traces[0]), traces[1], core.JobID(traces[2]+itoa(ms%7)), traces[3]
	r.TraceID, r.Group = traces[4], traces[5]
	r.Decision.ScriptError = traces[6] + ": line 3"
	return r
}

func found(t *testing.T, dir string) (list []string) {
	t.Helper()
	all, err := store.Everything(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range traces {
		if n := bytes.Count(all, []byte(text)); n > 0 {
			list = append(list, fmt.Sprintf("%s %d times", text, n))
		}
	}
	return list
}

// TestErasedIsInNoFile erases a person's calls from a store that has them in tables of
// several processes, in its newest write-ahead log and in its file of intents, while
// calls come and go and somebody reads what was there before.
func TestErasedIsInNoFile(t *testing.T) {
	for _, rounds := range []int{1, 4} {
		t.Run(itoa(rounds), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			var theirs, others []*core.Receipt
			var s *store.Store
			for round := range rounds {
				if s != nil {
					mustClose(t, s)
				}
				s = mustOpen(t, dir, options(t))
				run(t, s)
				for i := range 40 {
					ms := round*400 + i*10
					theirs, others = append(theirs, personal(ms)), append(others, receiptAt(ms+5))
					put(t, s, theirs[len(theirs)-1], others[len(others)-1])
				}
			}
			if list := found(t, dir); len(list) != len(traces) {
				t.Fatalf("it cannot be seen that they are there: only %v", list)
			}
			var ids []core.CallID
			for _, r := range theirs {
				ids = append(ids, r.ID)
			}

			// Somebody reads what there was.
			reading, read := make(chan struct{}), make(chan struct{})
			var readers sync.WaitGroup
			readers.Go(func() {
				first := true
				_ = s.Receipts(time.Time{}, time.Time{}, false, func(*core.Receipt) bool {
					if first {
						first = false
						close(reading)
						<-read
					}
					return true
				})
			})
			<-reading
			// One of their calls is under way.
			open := personal(100_000)
			if err := s.Open(intent(open)); err != nil {
				t.Fatal(whole(err))
			}
			if err := s.Erase(ids[:len(ids)/2], nil, nil); err != nil {
				t.Fatal(whole(err))
			}
			if err := s.Erase(ids, []core.Record{{Kind: "mark", Name: "a", Value: []byte("b")}}, []core.Record{{Kind: "mark", Name: "c"}}); err != nil {
				t.Fatal(whole(err))
			}
			short, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
			if err := s.Purge(short, nil); err == nil {
				t.Error("it is done although a call is under way")
			}
			stop()

			done := make(chan error, 1)
			var said []string
			go func() { done <- s.Purge(t.Context(), func(text string) { said = append(said, text) }) }()
			s.Append(open, func() {})
			await(t, "the last call to be durable", func() bool { _, err := s.Receipt(open.ID); return err == nil })
			for i := range 20 { // calls that come meanwhile are kept
				r := receiptAt(200_000 + i)
				others = append(others, r)
				put(t, s, r)
			}
			select {
			case err := <-done:
				t.Errorf("it is done although somebody reads: %v", err)
			default:
			}
			close(read)
			readers.Wait()
			if err := <-done; err != nil {
				t.Fatal(whole(err))
			}
			if len(said) < 4 {
				t.Error(said)
			}
			// The call that ended after it was asked for is another one's to erase.
			if err := s.Erase([]core.CallID{open.ID, core.NewCallID(at(1))}, nil, nil); err != nil {
				t.Fatal(whole(err))
			}
			if err := s.Purge(t.Context(), nil); err != nil {
				t.Fatal(whole(err))
			}
			if list := found(t, dir); len(list) > 0 {
				t.Errorf("still in the files: %v", list)
			}
			mustClose(t, s)
			if list := found(t, dir); len(list) > 0 {
				t.Errorf("in the files after a stop: %v", list)
			}

			s = mustOpen(t, dir, options(t))
			for _, r := range append(theirs, open) {
				got, err := s.Receipt(r.ID)
				if err != nil {
					t.Fatal(whole(err))
				}
				sameReceipt(t, got, r.Erased())
				if calls, err := s.JobCalls(r.Job); err != nil || len(calls) > 0 {
					t.Errorf("job %s has calls %v still: %v", r.Job, calls, err)
				}
				if calls, err := s.JobCalls(core.JobID(r.ID)); err != nil || len(calls) != 1 {
					t.Error(calls, err)
				}
			}
			for _, r := range others {
				got, err := s.Receipt(r.ID)
				if err != nil {
					t.Fatal(whole(err))
				}
				sameReceipt(t, got, r)
			}
			if v, err := s.Get("mark", "a"); err != nil || string(v) != "b" {
				t.Error(v, err)
			}
		})
	}
}

// TestEraseIsBounded: too many at once are refused before anything is done.
func TestEraseIsBounded(t *testing.T) {
	s := mustOpen(t, t.TempDir(), options(t))
	run(t, s)
	var ids []core.CallID
	for i := range 40 {
		r := personal(i)
		for range 500 {
			r.Decision.Offers = append(r.Decision.Offers, r.Decision.Offers[0])
			r.Decision.Offers[len(r.Decision.Offers)-1].Offer = core.OfferID(core.NewCallID(at(i)))
		}
		put(t, s, r)
		ids = append(ids, r.ID)
	}
	isKind(t, s.Erase(ids, nil, nil), core.TooLarge)
	if r, err := s.Receipt(ids[0]); err != nil || r.Key == "" {
		t.Fatal(r, err)
	}
	for n := len(ids); n > 0; n /= 2 {
		if s.Erase(ids[:n], nil, nil) == nil {
			return
		}
	}
	t.Error("nothing can be erased")
}

// erasing is a child that makes a person's calls, erases each other one, and purges
// without an end.
func erasing(dir string) error {
	s, err := store.Open(dir, store.Options{Clock: clock, Log: silent})
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(context.Background()) })
	fmt.Println("open")
	running.Go(func() {
		for {
			_ = s.Purge(context.Background(), nil)
		}
	})
	for n := 0; ; n++ {
		r := personal(n)
		r.ID = core.NewCallID(clock())
		if err := s.Open(intent(r)); err != nil {
			return err
		}
		durable := make(chan struct{})
		s.Append(r, func() { close(durable) })
		<-durable
		fmt.Println("durable", r.ID)
		if n%2 == 0 {
			if err := s.Erase([]core.CallID{r.ID}, nil, nil); err != nil {
				return err
			}
			fmt.Println("erased", r.ID)
		}
	}
}

// TestKilledWhileErasing: a process that is killed in the middle of it loses no receipt,
// what it said was erased is, and the next one drops what is left in the files.
func TestKilledWhileErasing(t *testing.T) {
	dir := filepath.Join(fastDir(t, 1<<30), "store")
	erased := map[core.CallID]bool{}
	for cycle := range 8 {
		killChild(t, "erase", dir, false, time.Duration(50+100*cycle)*time.Millisecond, func(line string) {
			what, id, ok := strings.Cut(line, " ")
			if ok && len(id) == 26 {
				erased[core.CallID(id)] = what == "erased"
			}
		})
	}
	s := mustOpen(t, dir, options(t))
	run(t, s)
	var all []core.CallID
	for id, is := range erased {
		r, err := s.Receipt(id)
		if err != nil {
			t.Fatal(whole(err))
		}
		if is && r.Key != "" {
			t.Errorf("%s was erased and is not", id)
		}
	}
	if err := s.Receipts(time.Time{}, time.Time{}, false, func(r *core.Receipt) bool { all = append(all, r.ID); return true }); err != nil {
		t.Fatal(whole(err))
	}
	for i := 0; i < len(all); i += 50 {
		if err := s.Erase(all[i:min(i+50, len(all))], nil, nil); err != nil {
			t.Fatal(whole(err))
		}
	}
	if err := s.Purge(t.Context(), nil); err != nil {
		t.Fatal(whole(err))
	}
	mustClose(t, s)
	if list := found(t, dir); len(list) > 0 {
		t.Errorf("in the files still: %v", list)
	}
	t.Logf("%d receipts", len(all))
}
