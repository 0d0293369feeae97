package control_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"headway/core"
	"headway/core/control"
	"headway/core/ledger"
	"headway/core/seal"
)

const hour = time.Hour

// A thing is dropped where two looks at the clock agree that it has expired, and never
// on the word of a clock that was just set.
func TestWatch(t *testing.T) {
	start := time.Date(2026, 11, 30, 23, 55, 0, 0, time.UTC)
	type step struct {
		name      string
		wall      time.Duration // since start
		ran       time.Duration
		sure      time.Duration // as of when; below 0: nothing is sure
		again     time.Duration
		lastKnown time.Duration // before start; 0: nothing is known
	}
	const not = -1
	for name, steps := range map[string][]step{
		"a server that was off for some hours": {
			{"the start", 0, 0, not, control.SureAfter, 5 * hour},
			{"too soon", 4 * time.Minute, 4 * time.Minute, not, 6 * time.Minute, 5 * hour},
			{"ten minutes later", 10 * time.Minute, 10 * time.Minute, 0, 0, 5 * hour},
			{"a day later", 34 * hour, 34 * hour, 10 * time.Minute, 0, 5 * hour},
		},
		"the first start": {
			{"the start", 0, 0, not, control.DoubtAfter, 0},
			{"an hour later", hour, hour, not, 23 * hour, 0},
			{"a day later", 24 * hour, 24 * hour, 0, 0, 0},
			{"from then on", 24*hour + 10*time.Minute, 24*hour + 10*time.Minute, 24 * hour, 0, 0},
		},
		"a clock that is wrong from the start, and is set right": {
			{"the start", 10 * 365 * 24 * hour, 0, not, control.DoubtAfter, hour},
			{"not yet", 10*365*24*hour + 23*hour, 23 * hour, not, hour, hour},
			{"set right", 23*hour + 30*time.Minute, 23*hour + 30*time.Minute, not, control.SureAfter, hour},
			{"sure", 24 * hour, 24 * hour, 23*hour + 30*time.Minute, 0, hour},
		},
		"a clock that jumps ahead by years": {
			{"the start", 0, 0, not, control.SureAfter, hour},
			{"sure", 10 * time.Minute, 10 * time.Minute, 0, 0, hour},
			{"the jump", 5 * 365 * 24 * hour, 20 * time.Minute, not, control.DoubtAfter, hour},
			{"ten minutes later", 5*365*24*hour + 10*time.Minute, 30 * time.Minute, not, control.DoubtAfter - 10*time.Minute, hour},
			{"set right", 40 * time.Minute, 40 * time.Minute, not, control.SureAfter, hour},
		},
		"a clock that is set by some minutes": {
			{"the start", 0, 0, not, control.SureAfter, hour},
			{"set", 25 * time.Minute, 10 * time.Minute, not, control.SureAfter, hour},
			{"sure", 36 * time.Minute, 21 * time.Minute, 25 * time.Minute, 0, hour},
		},
		"a clock that is set back": {
			{"the start", 0, 0, not, control.SureAfter, hour},
			{"set", -2 * hour, 10 * time.Minute, not, control.SureAfter, hour},
			{"sure", -100 * time.Minute, 30 * time.Minute, -2 * hour, 0, hour},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &control.Watch{}
			for _, s := range steps {
				var known time.Time
				if s.lastKnown > 0 {
					known = start.Add(-s.lastKnown)
				}
				sure, again := w.At(start.Add(s.wall), s.ran, known)
				if want := start.Add(s.sure); s.sure == not && !sure.IsZero() || s.sure != not && !sure.Equal(want) || again != s.again {
					t.Fatalf("%s: sure as of %v, again in %v; want %v, %v", s.name, sure, again, want, s.again)
				}
			}
		})
	}
}

// aged is a rig with signed receipts whose clock a test sets.
func aged(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.stop()
	for _, name := range []string{"data"} { // its log begins when the test says
		if err := os.RemoveAll(filepath.Join(r.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	r.signed = true
	r.set(2026, 4, 10)
	r.start()
	return r
}

func (r *rig) set(year int, month time.Month, day int) {
	at := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	r.hands.Store(&at)
}

func (r *rig) ahead(d time.Duration) {
	at := r.hands.Load().Add(d)
	r.hands.Store(&at)
}

// settled keeps a receipt of the clock's time that was measured.
func (r *rig) settled(job string) *core.Receipt {
	r.t.Helper()
	rates := core.Rates{Input: 1_000_000, Output: 2_000_000}
	c := &core.Receipt{At: r.clock(), Job: core.JobID(job), Model: "small", Offer: "fast/small", Provider: "fast", Key: "ci", Prices: &rates,
		Charge: core.Some[core.Money](7_000_000), UsageFrom: core.FromProvider, Usage: core.Usage{Output: core.Some[int64](7)},
		Annex: core.Annex{Status: 200, Timing: core.Timing{FirstToken: core.Some(150.0)},
			Decision: &core.Decision{Strategy: "cheapest", Offers: []core.Ranked{{Offer: "fast/small"}}}}}
	r.keep(c)
	return c
}

// awaitSigned waits until all that is sealed is signed, and the current log is of the
// clock's month where there is one.
func (r *rig) awaitSigned() {
	r.t.Helper()
	month := r.clock().Format("2006-01")
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); ; <-tick.C {
		st := r.sealer.Status()
		if st.Signed != nil && st.Signed.Size == st.Log.Size && strings.HasSuffix(st.Log.Origin, month) {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("it is not signed: %+v", st)
		}
	}
}

func (r *rig) count(kind, from, to string) (n int) {
	r.t.Helper()
	if err := r.store.Scan(kind, from, to, false, func(string, []byte) bool { n++; return true }); err != nil {
		r.t.Fatal(err)
	}
	return n
}

func (r *rig) receiptCount() (n int) {
	r.t.Helper()
	if err := r.store.Receipts(time.Time{}, time.Time{}, false, func(*core.Receipt) bool { n++; return true }); err != nil {
		r.t.Fatal(err)
	}
	return n
}

// logged tells how often the log has a text.
func (r *rig) logged(text string) int { return strings.Count(r.log.String(), text) }

const keepOne = file + "retention: {receipts_months: 1, audit_months: 1}\n"

// TestRetention lives through four months: what expires is not shown from the very
// moment on, whatever is asked for, and dropped once that is sure.
func TestRetention(t *testing.T) {
	r := aged(t)
	april := []*core.Receipt{r.settled("job-1"), r.settled("job-1")}
	r.must("POST", "keys", `{"name": "of-april"}`)
	r.set(2026, 5, 10)
	may := r.settled("job-1")
	r.must("POST", "keys", `{"name": "of-may"}`)
	r.awaitSigned()
	r.set(2026, 5, 31)
	r.ahead(24*hour - time.Millisecond)
	r.write(keepOne)
	r.must("POST", "apply", "")

	shown := func(receipts int, months ...string) {
		t.Helper()
		if got := len(r.items("calls")); got != receipts {
			t.Errorf("%d calls are listed, want %d", got, receipts)
		}
		if got := len(r.items("decisions")); got != receipts {
			t.Errorf("%d decisions, want %d", got, receipts)
		}
		if got := len(r.items("jobs/job-1")); got != receipts {
			t.Errorf("%d calls of the job, want %d", got, receipts)
		}
		u := r.must("GET", "usage?from=2026-04-01&to=2026-07-30&by=day,key", "")
		if got := u["total"].(map[string]any)["calls"]; got != float64(receipts) {
			t.Errorf("usage has %v calls, want %d", got, receipts)
		}
		var logs []string
		for _, l := range r.items("receipts") {
			logs = append(logs, l["log"].(string))
		}
		if !slices.Equal(logs, months) {
			t.Errorf("logs %v, want %v", logs, months)
		}
		_, text := serve(r.desk.Local(), "GET", "/admin/v1/receipts/export?measurements=true", "", "")
		for _, c := range append(slices.Clone(april), may) {
			id, there := string(c.ID), receipts == 3 || c == may
			want := http.StatusOK
			if !there {
				want = http.StatusNotFound
			}
			for _, path := range []string{"calls/" + id, "receipts/" + id + "/proof"} {
				if status, body := serve(r.desk.Local(), "GET", "/admin/v1/"+path, "", ""); status != want {
					t.Errorf("GET %s: %d %s", path, status, body)
				}
			}
			if strings.Contains(text, id) != there {
				t.Errorf("%s in the export: it should be %v", id, there)
			}
		}
		if status, _ := serve(r.desk.Local(), "GET", "/admin/v1/receipts/export?month=2026-04", "", ""); (status == http.StatusOK) != (receipts == 3) {
			t.Errorf("the export of April has status %d", status)
		}
		var names []string
		for _, e := range r.items("audit") {
			if name, _ := e["name"].(string); strings.HasPrefix(name, "of-") {
				names = append(names, name)
			}
		}
		if want := len(months) - receipts/3; receipts == 3 && len(names) != 2 || receipts == 1 && !slices.Equal(names, []string{"of-may"}) {
			t.Errorf("the audit log has %v (%d)", names, want)
		}
	}
	shown(3, "2026-04", "2026-05")
	r.ahead(time.Millisecond)
	shown(1, "2026-05")

	// Nothing is dropped yet: the clock was never believed before.
	ctx, w := context.Background(), &control.Watch{}
	if again := r.desk.ExpireOnce(ctx, w); again != control.DoubtAfter || r.logged("is hidden, and dropped in a day") != 1 {
		t.Fatalf("again in %v\n%s", again, r.log.String())
	}
	if n := r.count("tally", "2026-04", "2026-05"); n == 0 {
		t.Fatal("sums are dropped")
	}
	r.awaitSigned() // April and May are closed
	r.ahead(control.DoubtAfter)
	if again := r.desk.ExpireOnce(ctx, w); again != control.ExpireEvery {
		t.Fatalf("again in %v\n%s", again, r.log.String())
	}
	shown(1, "2026-05", "2026-06")
	for _, what := range []string{"what=receipts before=2026-05 count=2", `what="signed logs" before=2026-05 count=1`, `what="sums of usage"`, `what="entries of the audit log"`} {
		if r.logged(what) != 1 {
			t.Errorf("the log does not say %s\n%s", what, r.log.String())
		}
	}
	// It is gone, and not only hidden.
	r.store.Keep(core.Retention{})
	if n := r.receiptCount(); n != 1 {
		t.Errorf("%d receipts are left", n)
	}
	for kind, prefix := range map[string]string{"tally": "2026-04", seal.KindRun: "2026-04", seal.KindTree: "2026-04", seal.KindLog: "2026-04", seal.KindSecret: "2026-04"} {
		if n := r.count(kind, prefix, "2026-05"); n != 0 {
			t.Errorf("%d records %s of April are left", n, kind)
		}
		if n := r.count(kind, "2026-05", "2026-06"); n == 0 && kind != seal.KindTree {
			t.Errorf("no record %s of May is left", kind)
		}
	}
	if n := r.count("audit", "", string(core.NewCallID(time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)))); n != 0 {
		t.Errorf("%d entries of April are left", n)
	}
	// A start believes the clock after ten minutes now, and nothing is told twice.
	r.restart()
	w = &control.Watch{}
	if again := r.desk.ExpireOnce(ctx, w); again != control.SureAfter {
		t.Fatalf("again in %v", again)
	}
	r.ahead(control.SureAfter)
	if again := r.desk.ExpireOnce(ctx, w); again != control.ExpireEvery || r.logged("what=receipts") != 1 {
		t.Fatalf("again in %v\n%s", again, r.log.String())
	}
	// Over midnight of the month's end the first look is of before it.
	r.set(2026, 6, 30)
	r.ahead(23*hour + 55*time.Minute)
	r.desk.ExpireOnce(ctx, w)
	r.ahead(control.SureAfter)
	r.awaitSigned()
	if again := r.desk.ExpireOnce(ctx, w); again != control.SureAfter || r.logged("what=receipts") != 1 {
		t.Fatalf("again in %v", again)
	}
	r.ahead(control.SureAfter)
	if again := r.desk.ExpireOnce(ctx, w); again != control.ExpireEvery || r.logged("what=receipts") != 2 {
		t.Fatalf("again in %v\n%s", again, r.log.String())
	}
	if n := r.receiptCount(); n != 0 {
		t.Errorf("%d receipts are left", n)
	}
}

// TestNothingHasExpired: a start says that something is hidden only where something is.
func TestNothingHasExpired(t *testing.T) {
	r := aged(t)
	r.settled("job-1")
	r.awaitSigned()
	r.write(keepOne)
	r.must("POST", "apply", "")
	ctx, said := context.Background(), "is hidden, and dropped in a day"
	if again := r.desk.ExpireOnce(ctx, &control.Watch{}); again != control.DoubtAfter || r.logged(said) != 0 {
		t.Fatalf("again in %v\n%s", again, r.log.String())
	}
	// What only the audit log has is something too.
	r.write(file + "retention: {audit_months: 1}\n")
	r.must("POST", "apply", "")
	if r.desk.ExpireOnce(ctx, &control.Watch{}); r.logged(said) != 0 {
		t.Fatal(r.log.String())
	}
	r.set(2026, 6, 10)
	if r.desk.ExpireOnce(ctx, &control.Watch{}); r.logged(said) != 1 {
		t.Fatal(r.log.String())
	}
}

// TestMeasurementsExpire drops what was measured of calls, and keeps what was charged.
func TestMeasurementsExpire(t *testing.T) {
	r := aged(t)
	april := r.settled("job-1")
	r.set(2026, 5, 10)
	may := r.settled("job-1")
	r.awaitSigned()
	r.set(2026, 6, 1)
	r.write(file + "retention: {measurements_months: 1}\n")
	r.must("POST", "apply", "")
	shown := func() {
		t.Helper()
		for _, c := range []*core.Receipt{april, may} {
			got := r.must("GET", "calls/"+string(c.ID), "")
			timing, _ := got["timing"].(map[string]any)
			if there := c == may; got["charge_usd"] != 0.000007 || (timing["first_token_ms"] != nil) != there || (got["decision"] != nil) != there {
				t.Errorf("%v", got)
			}
		}
		if n := len(r.items("decisions")); n != 1 {
			t.Errorf("%d decisions", n)
		}
		u := r.must("GET", "usage?from=2026-04-01&to=2026-06-01", "")
		if total := u["total"].(map[string]any); total["calls"] != 2.0 || total["timedCalls"] != 1.0 {
			t.Errorf("%v", total)
		}
		_, text := serve(r.desk.Local(), "GET", "/admin/v1/receipts/export?measurements=true", "", "")
		if strings.Count(text, `"measurements"`) != 1 || strings.Count(text, `"charge_picousd"`) != 2 {
			t.Errorf("%s", text)
		}
	}
	shown()
	ctx, w := context.Background(), &control.Watch{}
	r.desk.ExpireOnce(ctx, w)
	r.ahead(control.DoubtAfter)
	if again := r.desk.ExpireOnce(ctx, w); again != control.ExpireEvery {
		t.Fatalf("again in %v\n%s", again, r.log.String())
	}
	for _, what := range []string{"what=measurements before=2026-05 count=1", `what="speeds in sums of usage" before=2026-05 count=1`} {
		if r.logged(what) != 1 {
			t.Errorf("the log does not say %s\n%s", what, r.log.String())
		}
	}
	shown()
	r.store.Keep(core.Retention{}) // it is gone, and not only hidden
	got, err := r.store.Receipt(april.ID)
	if err != nil || got.Decision != nil || got.Timing.FirstToken.OK {
		t.Errorf("%+v %v", got, err)
	}
	tally, err := ledger.LoadTally(r.store, r.store, r.clock)
	if err != nil {
		t.Fatal(err)
	}
	if err := tally.Sums("2026-04-01", "2026-05-01", func(_ *ledger.Cell, s *ledger.Sum) bool {
		if s.Speed != (ledger.Speeds{}) || s.Calls != 1 || s.Charge != 7_000_000 {
			t.Errorf("%+v", s)
		}
		return true
	}); err != nil {
		t.Error(err)
	}
}

// A server that never runs for a day drops what has expired a day after it began to
// doubt the clock, and one whose clock was set right meanwhile drops nothing.
func TestExpireAcrossStarts(t *testing.T) {
	r := aged(t)
	r.settled("job-1")
	r.set(2026, 9, 1) // it was off for long
	r.write(keepOne)
	r.restart()
	begin := func(want time.Duration) *control.Watch {
		t.Helper()
		w := &control.Watch{}
		if again := r.desk.ExpireOnce(context.Background(), w); again != want {
			t.Fatalf("again in %v, want %v\n%s", again, want, r.log.String())
		}
		return w
	}
	begin(control.DoubtAfter)
	r.ahead(8 * hour)
	r.restart()
	begin(control.DoubtAfter)
	r.set(2026, 4, 20) // set right: nothing has expired, and nothing is known yet
	r.restart()
	begin(control.DoubtAfter)
	r.set(2026, 9, 1)
	r.restart()
	begin(control.DoubtAfter)
	r.ahead(25 * hour)
	r.restart()
	w := begin(control.SureAfter)
	r.ahead(control.SureAfter)
	if again := r.desk.ExpireOnce(context.Background(), w); again != control.ExpireEvery || r.logged("what=receipts before=2026-08 count=1") != 1 {
		t.Fatalf("again in %v\n%s", again, r.log.String())
	}
}

// What cannot be dropped now is dropped later, and says so.
func TestExpireIsTriedAgain(t *testing.T) {
	r := aged(t)
	r.settled("job-1")
	r.set(2026, 6, 1)
	r.write(keepOne)
	r.must("POST", "apply", "")
	ctx, w := context.Background(), &control.Watch{}
	r.desk.ExpireOnce(ctx, w)
	r.ahead(control.DoubtAfter)
	failing := &failingShelf{Shelf: r.desk.Store, err: errors.New("the disk is full")}
	r.desk.Store = failing
	if again := r.desk.ExpireOnce(ctx, w); again != control.SureAfter || r.logged("cannot be dropped now; it is tried again") != 1 {
		t.Fatalf("again in %v\n%s", again, r.log.String())
	}
	failing.err = nil
	r.ahead(control.SureAfter)
	if again := r.desk.ExpireOnce(ctx, w); again != control.ExpireEvery || r.logged("what=receipts before=2026-05 count=1") != 1 {
		t.Fatalf("again in %v\n%s", again, r.log.String())
	}
}

type failingShelf struct {
	control.Shelf
	err error
}

func (f *failingShelf) DropReceipts(ctx context.Context, before time.Time) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return f.Shelf.DropReceipts(ctx, before)
}

// Expire begins by itself at the start, and once another retention is in force.
func TestExpireRuns(t *testing.T) {
	r := aged(t)
	r.settled("job-1")
	r.set(2026, 6, 1)
	known, _ := r.clock().Add(-hour).MarshalText()
	if err := r.store.Put("retention", "believed", known); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.desk.Expire(ctx) }()
	apply := func(n int) {
		r.write(fmt.Sprintf("%sretention: {receipts_months: %d}\n", file, n))
		r.must("POST", "apply", "")
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end, n := time.Now().Add(20*time.Second), 1; ; n++ {
		if time.Now().After(end) {
			t.Fatal("nothing was dropped")
		}
		// Each apply of another value is a look at the clock.
		apply(1 + n%2*10)
		<-tick.C
		r.ahead(control.SureAfter)
		apply(1)
		<-tick.C
		r.store.Keep(core.Retention{})
		if r.receiptCount() == 0 {
			break
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
