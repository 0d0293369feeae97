package gateway_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"headway/core"
)

// late is a book whose receipts are durable a while after they were handed over; after
// no time they never are.
type late struct {
	core.Book
	after time.Duration
}

func (l late) Append(r *core.Receipt, done func()) {
	if l.after == 0 {
		l.Book.Append(r, nil)
		return
	}
	time.AfterFunc(l.after, func() { l.Book.Append(r, done) })
}

// eachReceipts plays a test in every format, streamed and not, with receipts kept in a way.
func eachReceipts(t *testing.T, mode core.ReceiptMode, play func(t *testing.T, r *rig, w wire, streamed bool)) {
	for _, w := range wires() {
		for _, streamed := range [...]bool{false, true} {
			name := w.name + ", whole"
			if streamed {
				name = w.name + ", streamed"
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, func(s *core.Settings) { s.Receipts = mode }, w.good("a", "fine", streamed))
					play(t, r, w, streamed)
				})
			})
		}
	}
}

// TestStrict: the end of an answer waits until its receipt is durable, and is then what
// it would have been.
func TestStrict(t *testing.T) {
	eachReceipts(t, core.ReceiptsRequired, func(t *testing.T, r *rig, w wire, streamed bool) {
		r.gw.Book = late{r.book, time.Minute}
		a := w.post(r, streamed)
		w.isFine(t, a, streamed)
		if a.after > 10*time.Second {
			t.Errorf("the answer waited %v for its receipt, which nobody asked for", a.after)
		}
		time.Sleep(time.Hour)
	})
	eachReceipts(t, core.ReceiptsStrict, func(t *testing.T, r *rig, w wire, streamed bool) {
		plain := w.post(r, streamed)
		r.gw.Book = late{r.book, 7 * time.Second}
		a := w.post(r, streamed)
		w.isFine(t, a, streamed)
		if a.body != plain.body {
			t.Errorf("the answer is\n%q\nwhere it did not wait\n%q", a.body, plain.body)
		}
		if a.after < 7*time.Second {
			t.Errorf("it had its end after %v, before its receipt was durable", a.after)
		}
		rec, err := r.book.Receipt(a.id())
		if err != nil {
			t.Fatal(err)
		}
		if rec.Outcome != core.Settled || rec.Status != 200 || rec.Usage.Output.V != 1 || !rec.Charge.OK || rec.FinishReason == "" {
			t.Errorf("%+v", rec)
		}
		if want := r.receipt(plain.id()); rec.StreamEvents != want.StreamEvents || rec.Charge != want.Charge || len(rec.Attempts) != 1 {
			t.Errorf("%+v, want as where it did not wait %+v", rec, want)
		}
	})
}

// TestStrictWithoutReceipt: an answer whose receipt cannot be kept has no end.
func TestStrictWithoutReceipt(t *testing.T) {
	eachReceipts(t, core.ReceiptsStrict, func(t *testing.T, r *rig, w wire, streamed bool) {
		r.gw.Book = late{r.book, 0}
		a := w.post(r, streamed)
		switch {
		case streamed && (a.err == nil || strings.Contains(a.body, "[DONE]") || !strings.Contains(a.body, "fine")):
			t.Errorf("%v: %q has an end", a.err, a.body)
		case !streamed && (a.status != 503 || strings.Contains(a.body, "fine") || !strings.Contains(w.failure(t, a), "receipt")):
			t.Errorf("%d %s", a.status, a.body)
		}
		if r.receipt(a.id()).Outcome != core.Settled {
			t.Error("it was charged for what nobody got")
		}
	})
}

// TestOptional: where receipts are optional calls are served though none can be kept.
func TestOptional(t *testing.T) {
	held := core.Errorf(core.Unavailable, "the signed log is damaged")
	eachReceipts(t, core.ReceiptsOptional, func(t *testing.T, r *rig, w wire, streamed bool) {
		r.limit(core.KeyLimits{BudgetDay: core.Some(core.USD), MaxParallel: core.Some[int64](1)})
		r.book.Sick = core.Errorf(core.Unavailable, "the disk is full")
		a := w.post(r, streamed)
		w.isFine(t, a, streamed)
		synctest.Wait()
		if _, err := r.book.Receipt(a.id()); err == nil {
			t.Error("it has a receipt")
		}
		if text := r.get("/metrics").body; !strings.Contains(text, "headway_calls_without_receipt_total 1") || !strings.Contains(text, `headway_calls_total{model="mini",node="",outcome="settled",provider="a"} 1`) {
			t.Error("it is not counted")
		}
		if a := r.get("/readyz"); a.status != 200 || !strings.Contains(a.body, "not kept") {
			t.Errorf("/readyz: %d %s", a.status, a.body)
		}
		r.book.Sick, r.gw.ReceiptsHeld = nil, func() error { return held }
		a = w.post(r, streamed)
		w.isFine(t, a, streamed)
		r.receipt(a.id())
	})
	for _, mode := range [...]core.ReceiptMode{core.ReceiptsRequired, core.ReceiptsStrict} {
		eachReceipts(t, mode, func(t *testing.T, r *rig, w wire, streamed bool) {
			r.gw.ReceiptsHeld = func() error { return held }
			a := w.post(r, streamed)
			if a.status != 503 || !strings.Contains(a.body, "damaged") || r.upstreams["a"].calls() > 0 {
				t.Errorf("%d %s, and %d calls at the provider", a.status, a.body, r.upstreams["a"].calls())
			}
			if a := r.get("/readyz"); a.status != 503 || !strings.Contains(a.body, "damaged") {
				t.Errorf("/readyz: %d %s", a.status, a.body)
			}
			r.gw.ReceiptsHeld = nil
			w.isFine(t, w.post(r, streamed), streamed)
		})
	}
}
