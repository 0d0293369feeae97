package measure_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"headway/core"
	"headway/core/measure"
)

// running starts Run and gives what stops it and waits for its end.
func running(t *testing.T, b *measure.Board) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run ended with %v", err)
		}
	}
}

// baseOf is the base latency of p/m in the snapshot, in ms and by its basis.
func baseOf(b *measure.Board) string {
	m := b.Measures("p", "m").BaseLatency
	if !m.Value.OK {
		return string(m.Basis)
	}
	return fmt.Sprintf("%.0f %s of %d", m.Value.V, m.Basis, m.Jobs)
}

func date(day, hour, minute int) time.Time {
	return time.Date(2026, 3, day, hour, minute, 0, 0, time.UTC)
}

// The bubble's clock starts at 2000-01-01 00:00 UTC.
func TestSnapshotRollsAtOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(t, time.Now, newVault())
		defer running(t, b)()
		wait := func(d time.Duration, want string) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if got := baseOf(b); got != want {
				t.Fatalf("at %s: %s, want %s", time.Now().UTC(), got, want)
			}
		}
		wait(12*time.Hour, "none")
		b.Record(streamedCall(time.Now(), 500, 100))
		wait(time.Second, "100 today of 1")
		wait(12*time.Hour+29*time.Minute, "100 today of 1") // 00:29
		b.Record(streamedCall(time.Now(), 500, 180))
		b.Record(streamedCall(time.Now(), 500, 180))
		wait(30*time.Minute, "180 today of 3") // 00:59:01, the window's end is two days back
		wait(59*time.Second-time.Nanosecond, "180 today of 3")
		if got := b.Window().To; got != "1999-12-31" {
			t.Errorf("window to %s before 01:00", got)
		}
		wait(time.Millisecond, "100 own of 1")
		if got := b.Window(); got != (measure.Window{From: "1999-12-26", To: "2000-01-01"}) {
			t.Errorf("window %v after 01:00", got)
		}
		// What settles today does not disturb a measure that is there.
		b.Record(streamedCall(time.Now(), 500, 180))
		wait(time.Hour, "100 own of 1")
		wait(23*time.Hour, "180 own of 4")   // the second day joined
		wait(6*24*time.Hour, "180 own of 3") // the first day left
		wait(24*time.Hour, "none")           // so did the second
		wait(10*24*time.Hour, "none")        // and nothing is left
		if n := len(b.Rows(nil)); n != 0 {
			t.Errorf("%d rows of pairs without jobs", n)
		}
	})
}

// A burst of jobs is one refresh, and then at most four a second.
func TestTodayIsCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(t, time.Now, newVault())
		defer running(t, b)()
		synctest.Wait()
		b.Record(streamedCall(time.Now(), 500, 100))
		synctest.Wait()
		if got := baseOf(b); got != "100 today of 1" {
			t.Fatalf("the first job: %s", got)
		}
		b.Record(streamedCall(time.Now(), 500, 100))
		synctest.Wait()
		if got := baseOf(b); got != "100 today of 1" {
			t.Errorf("refreshed twice at once: %s", got)
		}
		if rows := b.Rows(nil); rows[0].Jobs != 2 {
			t.Errorf("rows on demand have %d jobs, want 2", rows[0].Jobs)
		}
		b.Record(streamedCall(time.Now(), 500, 100))
		time.Sleep(250 * time.Millisecond)
		synctest.Wait()
		if got := baseOf(b); got != "100 today of 3" {
			t.Errorf("a quarter of a second later: %s", got)
		}
	})
}

// Each measure by itself: one that the window has stays, one that it has not at
// all is filled from today.
func TestTodayFillsOnlyWhatIsAbsent(t *testing.T) {
	now := date(9, 12, 0)
	b := newBoard(t, func() time.Time { return now }, newVault())
	b.Record(streamedCall(now, 500, 100))
	now = date(10, 12, 0)
	b.Record(streamedCall(now, 500, 180))
	b.Record(streamedCall(now, 20_000, 2000))
	b.Rows(nil)
	m := b.Measures("p", "m")
	if m.BaseLatency.Basis != core.BasisOwn || m.BaseLatency.Jobs != 1 {
		t.Errorf("base latency %+v, want yesterday's", m.BaseLatency)
	}
	if m.Prefill.Basis != core.BasisToday || math.Abs(m.Prefill.Value.V-10_000) > 50 || m.Prefill.Jobs != 1 {
		t.Errorf("prefill %+v, want today's", m.Prefill)
	}
	if m.Output.Basis != core.BasisNone || m.Output.Value.OK {
		t.Errorf("output %+v, want none", m.Output)
	}
	// The same steps: a provider without jobs takes the model's, another model all.
	for _, other := range []*core.Measures{b.Measures("q", "m"), b.Measures("p", "other"), b.Measures("q", "other")} {
		if other.BaseLatency.Value != m.BaseLatency.Value || other.BaseLatency.Basis == core.BasisOwn || other.BaseLatency.Jobs != 0 {
			t.Errorf("base latency of others %+v", other.BaseLatency)
		}
		if other.Prefill.Value != m.Prefill.Value || other.Prefill.Basis != core.BasisToday {
			t.Errorf("prefill of others %+v", other.Prefill)
		}
	}
	if got := b.Measures("q", "m").BaseLatency.Basis; got != core.BasisModel {
		t.Errorf("another provider's basis %s", got)
	}
	if got := b.Measures("p", "other").BaseLatency.Basis; got != core.BasisAll {
		t.Errorf("another model's basis %s", got)
	}
}

func TestRestart(t *testing.T) {
	now := date(8, 12, 0)
	clock := func() time.Time { return now }
	store := newVault()
	b := newBoard(t, clock, store)
	odd := core.Model("org/model:7b %2F ü")
	for d := 8; d <= 10; d++ {
		now = date(d, 12, 0)
		for range d {
			r := streamedCall(now, 500, float64(100*d))
			r.Model, r.Offer = odd, "p/odd"
			r.PredictedWait, r.ActualWait = core.Some(150.0), core.Some(100.0)
			b.Record(r)
		}
		store.take(t, b)
	}
	if more := b.Changed(); len(more) != 0 {
		t.Errorf("%d records changed since they were taken", len(more))
	}
	again := newBoard(t, clock, store)
	if got, want := again.Rows(nil), b.Rows(nil); !slices.Equal(got, want) || len(got) != 3 || got[0].Model != odd || got[0].Jobs != 17 {
		t.Errorf("after a restart %+v\nbefore %+v", got, want)
	}
	if got, want := again.TTFT("p/odd"), b.TTFT("p/odd"); got != want || !got.OK {
		t.Errorf("ttft %v after a restart, %v before", got, want)
	}
	if got, want := again.Errors()["p/odd"], b.Errors()["p/odd"]; got != want || got.Wait.V.Jobs != 27 {
		t.Errorf("errors %v after a restart, %v before", got, want)
	}
	// And it counts on where it was: today's record grows.
	r := streamedCall(now, 500, 1000)
	r.Model = odd
	again.Record(r)
	store.take(t, again)
	now = date(11, 1, 0)
	if got := newBoard(t, clock, store).Rows(nil)[0].Jobs; got != 28 {
		t.Errorf("%d jobs, want 28", got)
	}
}

// A receipt that comes when its day has joined counts on today's, and is told of.
func TestLateReceipt(t *testing.T) {
	now := date(9, 23, 0)
	store := newVault()
	b := newBoard(t, func() time.Time { return now }, store)
	b.Record(streamedCall(now, 500, 100))
	now = date(10, 0, 59)
	b.Record(streamedCall(date(9, 23, 59), 500, 100)) // in time: an hour's grace
	if b.Late() != 0 {
		t.Fatalf("%d late within the hour", b.Late())
	}
	now = date(10, 1, 0)
	b.Rows(nil)
	before := baseOf(b)
	b.Record(streamedCall(date(9, 23, 59), 500, 900))
	b.Rows(nil)
	if got := baseOf(b); got != before || got != "100 own of 2" || b.Late() != 1 {
		t.Errorf("%s, %d late; before %s", got, b.Late(), before)
	}
	store.take(t, b)
	if got, want := store.names(t, "day"), []string{"2026-03-09/base_latency_ms/p/m", "2026-03-10/base_latency_ms/p/m"}; !slices.Equal(got, want) {
		t.Errorf("records %v, want %v", got, want)
	}
	// One that counts in nothing is not late either.
	failed := streamedCall(date(9, 23, 59), 500, 900)
	failed.Outcome = core.Failed
	b.Record(failed)
	if b.Late() != 1 {
		t.Errorf("%d late after a failed call", b.Late())
	}
}

// A clock that is set back and forth: the window is the one that the clock asks
// for within a minute, nothing counted is lost, and nothing is deleted.
func TestClockJumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var offset atomic.Int64
		clock := func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
		jump := func(days int) {
			offset.Add(int64(days) * int64(24*time.Hour))
			time.Sleep(61 * time.Second)
			synctest.Wait()
		}
		store := newVault()
		b := newBoard(t, clock, store)
		defer running(t, b)()
		time.Sleep(12 * time.Hour)
		b.Record(streamedCall(clock(), 500, 100))
		jump(1)
		if got := baseOf(b); got != "100 own of 1" {
			t.Errorf("a day ahead: %s", got)
		}
		b.Record(streamedCall(clock(), 500, 180))
		jump(-1)
		if got := baseOf(b); got != "100 today of 1" {
			t.Errorf("back again: %s", got)
		}
		b.Record(streamedCall(clock(), 500, 100))
		jump(400)
		if got := baseOf(b); got != "none" {
			t.Errorf("a year ahead: %s", got)
		}
		jump(-400)
		jump(1)
		if got := baseOf(b); got != "100 own of 2" {
			t.Errorf("a day ahead again: %s", got)
		}
		jump(1)
		if got := baseOf(b); got != "100 own of 3" {
			t.Errorf("two days ahead: %s", got)
		}
		if b.Late() != 0 {
			t.Errorf("%d late", b.Late())
		}
		store.take(t, b)
		if got := len(store.names(t, "day")); got != 2 {
			t.Errorf("%d day records, want 2", got)
		}
	})
}

// Days older than 35 leave the vault at a start and, as days pass, while running;
// where the vault fails the numbers stay as they are and it is tried again.
func TestOldDaysAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newVault()
		b := newBoard(t, time.Now, store)
		b.Record(streamedCall(time.Now(), 500, 100)) // 2000-01-01
		with := streamedCall(time.Now(), 20_000, 1000)
		with.PredictedWait, with.ActualWait = core.Some(1.0), core.Some(2.0)
		b.Record(with)
		store.take(t, b)
		if got := store.names(t, "day"); len(got) != 3 {
			t.Fatalf("records %v", got)
		}
		stop := running(t, b)
		time.Sleep(35*24*time.Hour + 2*time.Hour)
		synctest.Wait()
		if got := store.names(t, "day"); len(got) != 3 {
			t.Errorf("35 days later: %v", got)
		}
		if newBoard(t, time.Now, store); len(store.names(t, "day")) != 3 {
			t.Error("a restart dropped a day of 35 days ago")
		}
		store.mu.Lock()
		store.fails = true
		store.mu.Unlock()
		time.Sleep(12 * time.Hour)
		b.Record(streamedCall(time.Now(), 500, 180))
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if got := baseOf(b); got != "180 own of 1" {
			t.Errorf("with a broken vault: %s", got)
		}
		store.mu.Lock()
		store.fails = false
		store.mu.Unlock()
		store.take(t, b)
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if got, want := store.names(t, "day"), []string{"2000-02-05/base_latency_ms/p/m"}; !slices.Equal(got, want) {
			t.Errorf("a roll later: %v, want %v", got, want)
		}
		stop()

		time.Sleep(36 * 24 * time.Hour)
		if newBoard(t, time.Now, store); len(store.names(t, "day")) != 0 || len(store.names(t, "ttft")) != 0 {
			t.Errorf("a start left %v and %v", store.names(t, "day"), store.names(t, "ttft"))
		}
	})
}

func TestDamagedRecordsAreErrors(t *testing.T) {
	now := date(10, 12, 0)
	clock := func() time.Time { return now }
	tests := []struct{ kind, name, value string }{
		{"day", "2026-03-09/base_latency_ms/p/m", "\x02\x00"},
		{"day", "2026-03-09/base_latency_ms/p/m", ""},
		{"day", "2026-03-09/base_latency_ms/p", "\x01\x00"},
		{"day", "2026-03-09/base_latency_ms/p/m/x", "\x01\x00"},
		{"day", "2026-03-09/base_latency_ms/p/%zz", "\x01\x00"},
		{"day", "2026-03-09/prediction_error/p/m", "\x01\x00"},
		{"day", "2026-13-09/base_latency_ms/p/m", "\x01\x00"},
		{"day", "nonsense", "\x01\x00"},
		{"ttft", "p/m", "{"},
		{"ttft", "p/m", `{"ms":0,"at":"2026-03-10T11:00:00Z"}`},
	}
	for _, tt := range tests {
		store := newVault()
		if err := store.Put(tt.kind, tt.name, []byte(tt.value)); err != nil {
			t.Fatal(err)
		}
		_, err := measure.NewBoard(clock, store)
		var e *core.Error
		if !errors.As(err, &e) || e.Kind != core.Unavailable || e.Hint == "" {
			t.Errorf("%s %s = %q: %v", tt.kind, tt.name, tt.value, err)
		}
	}
	store := newVault()
	store.fails = true
	if _, err := measure.NewBoard(clock, store); !errors.Is(err, errVault) {
		t.Errorf("a broken vault: %v", err)
	}
	// A measure of a later version is left alone.
	store = newVault()
	if err := store.Put("day", "2026-03-09/thinking_tps/p/m", []byte{1, 0}); err != nil {
		t.Fatal(err)
	}
	if newBoard(t, clock, store); len(store.names(t, "day")) != 1 {
		t.Error("a record of a later version was dropped")
	}
}

func TestTTFTExpires(t *testing.T) {
	now := date(10, 12, 0)
	store := newVault()
	clock := func() time.Time { return now }
	b := newBoard(t, clock, store)
	if got := b.TTFT("p/m"); got.OK {
		t.Fatalf("ttft %v before any call", got)
	}
	for _, ignored := range []func(r *core.Receipt){
		func(r *core.Receipt) { r.Outcome = core.Failed },
		func(r *core.Receipt) { r.Streamed = false },
		func(r *core.Receipt) { r.Kind = core.KindBench },
		func(r *core.Receipt) { r.Kind = core.KindTest },
		func(r *core.Receipt) { r.Timing.FirstToken = core.Opt[float64]{} },
		func(r *core.Receipt) { r.Timing.FirstToken = core.Some(math.Inf(1)) }, // no JSON could hold it
	} {
		r := streamedCall(now, 5000, 100)
		ignored(r)
		b.Record(r)
	}
	if got := b.TTFT("p/m"); got.OK {
		t.Fatalf("ttft %v from calls that do not count", got)
	}
	b.Record(streamedCall(now, 5000, 100))
	store.take(t, b)
	now = now.Add(24*time.Hour - time.Nanosecond)
	if got := b.TTFT("p/m"); got != core.Some(100.0) {
		t.Errorf("after almost a day: %v", got)
	}
	if got := newBoard(t, clock, store).TTFT("p/m"); got != core.Some(100.0) {
		t.Errorf("and after a restart: %v", got)
	}
	now = now.Add(time.Nanosecond)
	if got := b.TTFT("p/m"); got.OK {
		t.Errorf("after a day: %v", got)
	}
	now = now.Add(-72 * time.Hour)
	if got := b.TTFT("p/m"); got.OK {
		t.Errorf("two days before its sample: %v", got)
	}
}

func TestPredictionErrors(t *testing.T) {
	now := date(9, 12, 0)
	b := newBoard(t, func() time.Time { return now }, newVault())
	predicted := func(predicted, actual float64) *core.Receipt {
		r := streamedCall(now, 5000, 100)
		r.PredictedWait, r.ActualWait = core.Some(predicted), core.Some(actual)
		return r
	}
	for i := range 10 { // 10%, 20% … 100%, over and under
		b.Record(predicted(1000+100*float64(i+1)*float64(1-2*(i%2)), 1000))
	}
	near := func(got, want float64) bool { return math.Abs(got-want) <= want*0.006 }
	check := func(jobs int64, median, p90 float64) {
		t.Helper()
		got := b.Errors()["p/m"].Wait.V
		if got.Jobs != jobs || !near(got.Median, median) || !near(got.P90, p90) {
			t.Errorf("%+v, want %d jobs, %v, %v", got, jobs, median, p90)
		}
	}
	check(10, 0.5, 0.9)
	for _, none := range []*core.Receipt{predicted(1, 0), predicted(math.NaN(), 1), func() *core.Receipt { r := predicted(9000, 1); r.Outcome = core.Failed; return r }(), streamedCall(now, 5000, 100)} {
		b.Record(none)
	}
	check(10, 0.5, 0.9)
	now = date(16, 12, 0) // the last day that the window has it
	b.Record(predicted(3000, 1000))
	check(11, 0.6, 1)
	now = date(17, 1, 0)
	check(1, 2, 2)
}

// The errors of what a wait was predicted from are of the offer that answered.
func TestEstimateErrors(t *testing.T) {
	now := date(9, 12, 0)
	store := newVault()
	b := newBoard(t, func() time.Time { return now }, store)
	call := func(fresh, cached, output int64, u core.Usage) *core.Receipt {
		r := streamedCall(now, 0, 100)
		r.Usage, r.UsageFrom = u, core.FromProvider
		ranked := func(o core.OfferID, f int64) core.Ranked {
			return core.Ranked{Offer: o, Fresh: core.Some(f), Cached: core.Some(cached), Output: core.Some(output)}
		}
		r.Decision = &core.Decision{Offers: []core.Ranked{ranked("other/m", 1), ranked("p/m", fresh), {Offer: "paused/m", Refused: core.RefusedPaused}}}
		return r
	}
	usage := func(uncached, read, written, output int64) core.Usage {
		return core.Usage{UncachedInput: core.Some(uncached), CacheRead: core.Some(read), CacheWrite: core.Some(written), Output: core.Some(output)}
	}
	b.Record(call(1000, 200, 150, usage(100, 500, 400, 100))) // 1200 for 1000, 150 for 100, 200 for 500 of 1000
	b.Record(call(900, 0, 100, core.Usage{UncachedInput: core.Some[int64](1000), Output: core.Some[int64](100)}))
	none := []*core.Receipt{}
	for _, spoil := range []func(*core.Receipt){
		func(r *core.Receipt) { r.Outcome = core.Truncated },
		func(r *core.Receipt) { r.UsageFrom = core.FromEstimate },
		func(r *core.Receipt) { r.UsageFrom = core.FromMixed },
		func(r *core.Receipt) { r.Kind = core.KindBench },
		func(r *core.Receipt) { r.Operation = core.OpEmbeddings },
		func(r *core.Receipt) { r.Decision = nil },
		func(r *core.Receipt) { r.Offer = "gone/m" },
		func(r *core.Receipt) { r.Usage = core.Usage{} },
	} {
		r := call(1, 1, 1, usage(100, 500, 400, 100))
		spoil(r)
		none = append(none, r)
	}
	for _, r := range none {
		b.Record(r)
	}
	grown := call(1000, 0, 50, usage(9000, 0, 0, 100)) // a server-run tool read more
	grown.Timing.FreshInputTokens = core.Some[int64](1000)
	b.Record(grown)
	store.take(t, b)
	for _, b := range []*measure.Board{b, newBoard(t, func() time.Time { return now }, store)} {
		got := b.Errors()["p/m"]
		for _, c := range []struct {
			name        string
			got         core.Opt[measure.PredictionError]
			jobs        int64
			median, p90 float64
		}{{"prompt", got.Prompt, 2, 0.1, 0.1}, {"output", got.Output, 3, 0.5, 0.5}, {"cached", got.Cached, 2, 0, 0}} {
			if c.got.V.Jobs != c.jobs || math.Abs(c.got.V.Median-c.median) > .005 || math.Abs(c.got.V.P90-c.p90) > .005 {
				t.Errorf("%s: %+v, want %d jobs, %v, %v", c.name, c.got.V, c.jobs, c.median, c.p90)
			}
		}
		if len(b.Errors()) != 1 || got.Wait.OK {
			t.Errorf("errors of %v", b.Errors())
		}
	}
}

func TestRowsListKnownPairsInOrder(t *testing.T) {
	now := date(9, 12, 0)
	b := newBoard(t, func() time.Time { return now }, newVault())
	b.Record(streamedCall(now, 500, 100))
	known := []measure.Pair{{Provider: "z", Model: "m"}, {Provider: "p", Model: "m"}, {Provider: "a", Model: "other"}}
	got := b.Rows(known)
	var names []string
	for _, r := range got {
		names = append(names, fmt.Sprintf("%s/%s %s %s", r.Provider, r.Model, r.Measure, r.Basis))
	}
	want := []string{
		"a/other base_latency_ms today", "a/other prefill_tps none", "a/other output_tps none",
		"p/m base_latency_ms today", "p/m prefill_tps none", "p/m output_tps none",
		"z/m base_latency_ms today", "z/m prefill_tps none", "z/m output_tps none",
	}
	if !slices.Equal(names, want) {
		t.Errorf("rows %v, want %v", names, want)
	}
	if known[0].Provider != "z" {
		t.Error("the caller's list was sorted in place")
	}
	if got[6].ModelMedian != core.Some(got[3].Own.V) || got[6].Own.OK || got[0].ModelMedian.OK {
		t.Errorf("model medians: %+v, %+v", got[6], got[0])
	}
}

// Readers, the writer and Run at once; the race detector is the judge, and no
// job is lost.
func TestConcurrentUse(t *testing.T) {
	now := date(9, 12, 0)
	clock := func() time.Time { return now }
	store := newVault()
	b := newBoard(t, clock, store)
	stop := running(t, b)
	var readers, writer sync.WaitGroup
	done := make(chan struct{})
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					b.Measures("p", "m")
					b.TTFT("p/m")
					b.Rows(nil)
					b.Errors()
				}
			}
		})
	}
	writer.Go(func() {
		for i := range 500 {
			r := streamedCall(now, 500, 100)
			r.Offer = core.OfferID(fmt.Sprint("offer", i%7))
			b.Record(r)
			if i%10 == 9 {
				store.take(t, b)
			}
		}
	})
	writer.Wait()
	close(done)
	readers.Wait()
	stop()
	if got := newBoard(t, clock, store).Rows(nil)[0].Jobs; got != 500 {
		t.Errorf("%d jobs stored, want 500", got)
	}
}

// filled is a board with a week of jobs of 60 pairs.
func filled(b *testing.B) (*measure.Board, []measure.Pair) {
	now := date(1, 12, 0)
	board, err := measure.NewBoard(func() time.Time { return now }, newVault())
	if err != nil {
		b.Fatal(err)
	}
	var pairs []measure.Pair
	for d := 1; d <= 8; d++ {
		now = date(d, 12, 0)
		pairs = nil
		for i := range 60 {
			r := streamedCall(now, 500, float64(100+i+10*d))
			r.Provider, r.Model = core.ProviderID(fmt.Sprintf("provider-%d", i%6)), core.Model(fmt.Sprintf("some-model-%d", i/6))
			r.Offer = core.OfferID(string(r.Provider) + "/" + string(r.Model))
			pairs = append(pairs, measure.Pair{Provider: r.Provider, Model: r.Model})
			for range 20 {
				board.Record(r)
			}
		}
	}
	now = date(9, 12, 0)
	board.Rows(nil)
	return board, pairs
}

func BenchmarkMeasures(b *testing.B) {
	board, pairs := filled(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		p := pairs[i%len(pairs)]
		if !board.Measures(p.Provider, p.Model).BaseLatency.Value.OK {
			b.Fatal("absent")
		}
	}
}

func BenchmarkTTFT(b *testing.B) {
	board, err := measure.NewBoard(time.Now, newVault())
	if err != nil {
		b.Fatal(err)
	}
	board.Record(streamedCall(time.Now(), 500, 100))
	b.ReportAllocs()
	for b.Loop() {
		if !board.TTFT("p/m").OK {
			b.Fatal("absent")
		}
	}
}

func BenchmarkRecord(b *testing.B) {
	board, _ := filled(b)
	r := streamedCall(date(9, 12, 0), 500, 100)
	r.Timing.Arrivals, r.Timing.FirstTokenToEnd = core.Some[int64](50), core.Some(2000.0)
	r.PredictedWait, r.ActualWait = core.Some(150.0), core.Some(100.0)
	b.ReportAllocs()
	for b.Loop() {
		board.Record(r)
	}
}

func BenchmarkChanged(b *testing.B) {
	board, _ := filled(b)
	r := streamedCall(date(9, 12, 0), 500, 100)
	b.ReportAllocs()
	for b.Loop() {
		board.Record(r)
		if len(board.Changed()) == 0 {
			b.Fatal("nothing changed")
		}
	}
}
