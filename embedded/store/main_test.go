package store_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"sync"
	"testing"
	"time"

	"headway/core"
	"headway/embedded/store"
)

// TestMain is also the child process of the tests that need one.
func TestMain(m *testing.M) {
	if do := children[os.Getenv("HEADWAY_STORE_CHILD")]; do != nil {
		if err := do(os.Getenv("HEADWAY_STORE_DIR")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// errorsFail fails the test at a line of error level.
type errorsFail struct {
	slog.Handler
	t *testing.T
}

func (h errorsFail) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelError {
		h.t.Errorf("logged as an error: %s", r.Message)
	}
	return h.Handler.Handle(ctx, r)
}

func options(t *testing.T) store.Options {
	t.Helper()
	return store.Options{
		LogFileBytes: 16 << 20, Clock: time.Now,
		Log: slog.New(errorsFail{slog.NewTextHandler(t.Output(), nil), t}),
	}
}

// quietly is for tests that make writes fail, which is logged as an error.
func quietly(t *testing.T) store.Options {
	o := options(t)
	o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	return o
}

func mustOpen(t *testing.T, dir string, o store.Options) *store.Store {
	t.Helper()
	s, err := store.Open(dir, o)
	if err != nil {
		t.Fatalf("open: %s", whole(err))
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func mustClose(t *testing.T, s *store.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatalf("close: %s", whole(err))
	}
}

// run starts the writer; it ends with the test, or when the store is closed.
func run(t *testing.T, s *store.Store) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Run(ctx) })
	t.Cleanup(func() { stop(); wg.Wait() })
}

// put writes receipts through Open and Append, and waits until they are durable.
func put(t *testing.T, s *store.Store, rs ...*core.Receipt) {
	t.Helper()
	var wg sync.WaitGroup
	for _, r := range rs {
		if err := s.Open(intent(r)); err != nil {
			t.Fatalf("open %s: %s", r.ID, whole(err))
		}
		wg.Add(1)
		s.Append(r, wg.Done)
	}
	await(t, "receipts to be durable", func() bool { wg.Wait(); return true })
}

// putAll is put of usual receipts at those times.
func putAll(t *testing.T, s *store.Store, ms []int) {
	t.Helper()
	rs := make([]*core.Receipt, len(ms))
	for i, at := range ms {
		rs[i] = receiptAt(at)
	}
	put(t, s, rs...)
}

// await fails the test where cond does not come true within a minute.
func await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	done := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for !cond() {
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		close(stop)
		t.Fatalf("waited a minute for %s", what)
	}
}

func intent(r *core.Receipt) core.Intent {
	return core.Intent{
		ID: r.ID, Job: r.Job, Step: r.Step, Kind: r.Kind, At: r.At, Key: r.Key, Owner: r.Owner, Model: r.Model,
		Offer: r.Offer, Provider: r.Provider, Operation: r.Operation, Format: r.Format, Streamed: r.Streamed,
	}
}

// at is a fixed time of day for ids and receipts.
func at(ms int) time.Time {
	return time.Date(2026, 3, 31, 23, 59, 59, 0, time.UTC).Add(time.Duration(ms) * time.Millisecond)
}

func receiptAt(ms int) *core.Receipt { return sample(core.NewCallID(at(ms)), at(ms)) }

func sameReceipt(t *testing.T, got, want *core.Receipt) {
	t.Helper()
	g, _ := json.Marshal(got)
	w, _ := json.Marshal(want)
	if !bytes.Equal(g, w) {
		t.Errorf("receipt\n got %s\nwant %s", g, w)
	}
}

func ids(t *testing.T, s *store.Store, from, to time.Time, newest bool) []core.CallID {
	t.Helper()
	list := []core.CallID{}
	if err := s.Receipts(from, to, newest, func(r *core.Receipt) bool { list = append(list, r.ID); return true }); err != nil {
		t.Fatalf("receipts: %s", whole(err))
	}
	return list
}

func equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}

func isKind(t *testing.T, err error, want core.Kind) *core.Error {
	t.Helper()
	e, ok := err.(*core.Error)
	if !ok || e == nil || e.Kind != want {
		t.Fatalf("error %v is not of kind %s", err, core.Kinds[want].Name)
	}
	return e
}

func whole(err error) string {
	if e, ok := err.(*core.Error); ok {
		return fmt.Sprintf("%s (%s): %v", e.Msg, e.Hint, e.Err)
	}
	return fmt.Sprint(err)
}
