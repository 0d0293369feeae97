package store_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"sync"
	"syscall"
	"testing"
	"time"

	"headway/core"
	"headway/embedded/store"
)

func benchStore(b *testing.B) *store.Store {
	s, err := store.Open(b.TempDir(), store.Options{Clock: time.Now, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Run(ctx) })
	b.Cleanup(func() { stop(); wg.Wait(); _ = s.Close() })
	return s
}

// BenchmarkOpen is what a call pays before it is dispatched: 3 µs at most.
func BenchmarkOpen(b *testing.B) {
	s := benchStore(b)
	in := intent(receiptAt(0))
	in.Input, in.Output, in.InputRate, in.OutputRate = 1234, 500, 150_000, 600_000
	list := make([]core.CallID, 1<<16)
	for i := range list {
		list[i] = core.NewCallID(at(i))
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if i == len(list) { // a store for each that many, since ids are open once
			b.StopTimer()
			s, i = benchStore(b), 0
			b.StartTimer()
		}
		in.ID = list[i]
		if err := s.Open(in); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

// BenchmarkWriter is the processor time of a receipt from Append until it is
// durable and compacted, 64 at a time: 12 µs at most.
func BenchmarkWriter(b *testing.B) { benchWriter(b, benchStore(b), 64) }

// BenchmarkWriterSealed is the same with the signed log: groups of as many as one commit
// takes, 20,000 receipts a second at least where the machine is quiet.
func BenchmarkWriterSealed(b *testing.B) { benchWriter(b, benchSealed(b), 2048) }

func benchSealed(b *testing.B) *store.Store {
	s, sealer, err := openSealed(b.TempDir(), store.Options{Clock: time.Now, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		b.Fatal(err)
	}
	s.SetRecorder(sealer)
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Run(ctx) })
	b.Cleanup(func() { stop(); wg.Wait(); _ = s.Close() })
	return s
}

// BenchmarkPace is the processor time of a receipt at an even 5,000 a second that nobody
// waits for, all of the process: what a server at that rate pays for its receipts.
func BenchmarkPace(b *testing.B) { benchPace(b, benchStore(b)) }

// BenchmarkPaceSealed is the same with the signed log: at most 3 µs more, and 15 µs.
func BenchmarkPaceSealed(b *testing.B) { benchPace(b, benchSealed(b)) }

func benchPace(b *testing.B, s *store.Store) {
	const tick, each = 5 * time.Millisecond, 25
	r := sample("", at(0))
	was, began := processor(b), time.Now()
	n := 0
	for b.Loop() {
		if n%each == 0 {
			time.Sleep(time.Until(began.Add(time.Duration(n/each) * tick)))
		}
		r := *r
		r.ID = core.NewCallID(time.Now())
		r.Job = core.JobID(r.ID)
		if err := s.Open(intent(&r)); err != nil {
			b.Fatal(err)
		}
		s.Append(&r, nil)
		n++
	}
	s.CatchUp(b.Context())
	b.ReportMetric(float64((processor(b)-was).Microseconds())/float64(n), "cpu-µs/receipt")
}

// processor is the processor time of the process.
func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func benchWriter(b *testing.B, s *store.Store, group int) {
	rs := make([]*core.Receipt, group)
	for i := range rs {
		rs[i] = sample("", at(0))
	}
	was, began := processor(b), time.Now()
	n := 0
	for b.Loop() {
		var wg sync.WaitGroup
		wg.Add(group)
		for i := range rs {
			r := *rs[i]
			r.ID = core.NewCallID(at(n))
			r.Job = core.JobID(r.ID)
			if err := s.Open(intent(&r)); err != nil {
				b.Fatal(err)
			}
			s.Append(&r, wg.Done)
			n++
		}
		wg.Wait()
	}
	b.ReportMetric(float64((processor(b)-was).Microseconds())/float64(n), "cpu-µs/receipt")
	b.ReportMetric(float64(n)/time.Since(began).Seconds(), "receipts/s")
}

func BenchmarkEncode(b *testing.B) {
	r := receiptAt(0)
	enc := store.Encoder()
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = enc(buf[:0], r)
	}
	b.ReportMetric(float64(len(buf)), "bytes")
}

func BenchmarkEncodingJSON(b *testing.B) {
	r := receiptAt(0)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := json.Marshal(r); err != nil {
			b.Fatal(err)
		}
	}
}
