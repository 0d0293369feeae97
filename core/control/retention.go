package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"headway/core"
	"headway/core/ledger"
	"headway/core/seal"
)

// Shelf is the store, as far as the desk lets it forget what has expired and takes
// copies of it; embedded/store is one.
type Shelf interface {
	// Keep sets for how long receipts and their measurements are kept: what has expired
	// is not read from then on.
	Keep(core.Retention)
	// DropReceipts deletes the receipts of calls of before a time, DropMeasurements the
	// unsigned part of them. They tell how many; what an error left is dropped next time.
	DropReceipts(ctx context.Context, before time.Time) (int, error)
	DropMeasurements(ctx context.Context, before time.Time) (int, error)
	// Purge returns once no file has what was dropped.
	Purge(ctx context.Context, progress func(string)) error
	// Copy hands out all that is kept, as it is at one moment.
	Copy(ctx context.Context, yield func(chunk []byte) error) error
}

// kept is since when things are kept at a time, by core.Kept; zero: all are.
type kept struct{ receipts, measurements, audit time.Time }

func keptOf(r core.Retention, now time.Time) kept {
	k := kept{core.Kept(r.Receipts, now), core.Kept(r.Measurements, now), core.Kept(r.Audit, now)}
	k.measurements = later(k.measurements, k.receipts) // they are a part of receipts
	return k
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// expiring says what a change of the retention lets expire.
func expiring(old, is core.Retention, now time.Time) (notes []string) {
	was, k := keptOf(old, now), keptOf(is, now)
	for _, of := range []struct {
		what    string
		was, is time.Time
	}{{"receipts", was.receipts, k.receipts}, {"timings and decisions of receipts", was.measurements, k.measurements}, {"audit entries", was.audit, k.audit}} {
		if of.is.After(of.was) {
			notes = append(notes, fmt.Sprintf("retention: %s of before %s are hidden from now on and deleted in %d minutes at the soonest: the retention of before keeps them",
				of.what, of.is.Format(time.DateOnly), int(sureAfter.Minutes())))
		}
	}
	return notes
}

// kept is what holds now: what is of before is not shown.
func (d *Desk) kept() kept { return keptOf(d.Gateway.Setup().Settings.Retention, d.Clock()) }

// expiredLog tells whether a log is of a month whose receipts have expired. It is of
// the month in which its calls ended: a call that came before midnight goes with the
// log that it is in.
func (k kept) expiredLog(m seal.Month) bool {
	return !k.receipts.IsZero() && calendar(m) < seal.Month(k.receipts.Format("2006-01"))
}

// shown is a sum of a cell without what has expired of it.
func (k kept) shown(c *ledger.Cell, s *ledger.Sum) *ledger.Sum {
	if k.measurements.IsZero() || c.Day >= k.measurements.Format(time.DateOnly) {
		return s
	}
	short := *s
	short.HideSpeeds()
	return &short
}

// A clock that was set wrong hides things until it is right again; it must not delete
// them. So something is dropped only where two looks at the clock agree that it has
// expired, with time enough between them that somebody can see the warning, and where
// the clock went on meanwhile as fast as the process did.
const (
	// sureAfter is the usual time between the two looks.
	sureAfter = 10 * time.Minute
	// doubtAfter is that where the clock says that more than longAway has gone since
	// the last time that it was believed: the server was off for long, or the clock is
	// wrong. A server that does not run for so long has doubted it a day before.
	doubtAfter = 24 * time.Hour
	longAway   = 40 * 24 * time.Hour
	// leap is by how much a clock may differ from the process's time between two looks.
	leap        = time.Minute
	expireEvery = 24 * time.Hour
)

// look is one look at the clock.
type look struct {
	wall time.Time
	ran  time.Duration // how long the process has run, whatever the clock was set to
}

// watch decides as of when things have expired for sure.
type watch struct {
	held look // the look that the next is held against; zero: there was none
	wait time.Duration
}

// at takes a look; known is the last time that was believed, zero where there is none.
// sure is as of when things may be dropped; zero: not yet, and again is when to look
// next.
func (w *watch) at(now look, known time.Time) (sure time.Time, again time.Duration) {
	ran := now.ran - w.held.ran
	first := w.held.wall.IsZero()
	if off := now.wall.Sub(w.held.wall) - ran; first || off.Abs() > leap {
		if !first {
			known = w.held.wall
		}
		w.held, w.wait = now, sureAfter
		if known.IsZero() || now.wall.Sub(known) > longAway {
			w.wait = doubtAfter
		}
		return time.Time{}, w.wait
	}
	if ran < w.wait {
		return time.Time{}, w.wait - ran
	}
	sure = w.held.wall
	w.held, w.wait = now, sureAfter
	return sure, 0
}

// The records of the last time that was believed, and of one that was doubted.
const (
	vaultRetention = "retention"
	vaultBelieved  = "believed"
	vaultDoubted   = "doubted"
)

// known is the last time that was believed. A time that was doubted is known too once
// the clock says that it was a day ago, whether the server ran all of it or not.
func (d *Desk) known(now time.Time) (time.Time, error) {
	known, err := d.timeOf(vaultBelieved)
	if err != nil || !known.IsZero() && now.Sub(known) <= longAway {
		return known, err
	}
	doubted, err := d.timeOf(vaultDoubted)
	if err != nil {
		return known, err
	}
	switch since := now.Sub(doubted); {
	case doubted.IsZero() || since < 0 || since > longAway:
		return known, d.keepTime(vaultDoubted, now)
	case since >= doubtAfter:
		return doubted, nil
	}
	return known, nil
}

func (d *Desk) timeOf(name string) (at time.Time, err error) {
	text, err := d.Vault.Get(vaultRetention, name)
	if err != nil || text == nil {
		return at, err
	}
	return at, at.UnmarshalText(text)
}

func (d *Desk) keepTime(name string, at time.Time) error {
	text, err := at.UTC().MarshalText()
	if err != nil {
		return err
	}
	return d.Vault.Put(vaultRetention, name, text)
}

// Expire drops what has expired until ctx ends: at the start, each day, and once
// another retention was put into force.
func (d *Desk) Expire(ctx context.Context) error {
	if d.Store == nil {
		return nil
	}
	w := &watch{}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-d.retention:
		}
		timer.Reset(d.expire(ctx, w))
	}
}

// expire drops what has expired for sure, and says when to do so again.
func (d *Desk) expire(ctx context.Context, w *watch) time.Duration {
	now := d.Clock()
	known, err := d.known(now)
	if err != nil {
		d.Log.Warn("what has expired cannot be dropped now", "error", err)
		return sureAfter
	}
	sure, again := w.at(look{now.Round(0), now.Sub(d.started)}, known)
	r := d.Gateway.Setup().Settings.Retention
	if sure.IsZero() {
		if again == doubtAfter && d.anyExpired(keptOf(r, now)) {
			say, at := "retention: what has expired is hidden, and dropped in a day", now.UTC().Format(time.RFC3339)
			if known.IsZero() {
				d.Log.Info(say+": the server has not known the time for so long yet", "clock", at)
			} else {
				d.Log.Warn(say+": the clock says that the server was off for long, see that it is right", "clock", at, "known", known.UTC().Format(time.RFC3339))
			}
		}
		return again
	}
	if err := d.drop(ctx, keptOf(r, sure)); err != nil {
		if ctx.Err() == nil {
			d.Log.Warn("what has expired is hidden, and cannot be dropped now; it is tried again", "error", err, "within", sureAfter.String())
		}
		return sureAfter
	}
	if err := d.keepTime(vaultBelieved, sure); err != nil {
		d.Log.Warn("the time of the last clean-up cannot be kept", "error", err)
	}
	if keptOf(r, now) != keptOf(r, sure) {
		return sureAfter // more has expired since the other look
	}
	return expireEvery
}

// anyExpired tells whether anything is there that has expired: every receipt is in the
// sums of its day, which are kept as long as it is.
func (d *Desk) anyExpired(k kept) (is bool) {
	var err, bad error
	if !k.measurements.IsZero() { // receipts expire no sooner
		err = d.Tally.Sums(time.Time{}.Format(time.DateOnly), k.measurements.Format(time.DateOnly), func(*ledger.Cell, *ledger.Sum) bool { is = true; return false })
	}
	if !k.audit.IsZero() {
		before := string(core.NewCallID(k.audit)[:10]) // its time alone
		bad = d.Vault.Scan(vaultAudit, "", before, false, func(string, []byte) bool { is = true; return false })
	}
	return is || err != nil || bad != nil // where it cannot be read it is said rather
}

// drop deletes what is of before the times of k. What an error left is dropped by the
// next one: each kind is gone through from its beginning, which is quick where there is
// nothing.
func (d *Desk) drop(ctx context.Context, k kept) error {
	dropped := 0
	say := func(what string, before time.Time, n int) {
		if n > 0 {
			d.Log.Info("retention: dropped what has expired", "what", what, "before", before.Format("2006-01"), "count", n)
		}
		dropped += n
	}
	var failed []error
	do := func(what string, before time.Time, drop func() (int, error)) {
		if before.IsZero() || ctx.Err() != nil {
			return
		}
		n, err := drop()
		say(what, before, n)
		failed = append(failed, err)
	}
	do("receipts", k.receipts, func() (int, error) { return d.Store.DropReceipts(ctx, k.receipts) })
	do("signed logs", k.receipts, func() (int, error) { return d.dropLogs(k) })
	do("sums of usage", k.receipts, func() (int, error) { return d.dropSums(d.Tally.Drop, k.receipts) })
	do("measurements", k.measurements, func() (int, error) { return d.Store.DropMeasurements(ctx, k.measurements) })
	do("speeds in sums of usage", k.measurements, func() (int, error) { return d.dropSums(d.Tally.DropSpeeds, k.measurements) })
	if d.Fleet != nil {
		do("calls as nodes saw them", k.measurements, func() (int, error) { return d.Fleet.DropCalls(k.measurements) })
	}
	do("entries of the audit log", k.audit, func() (int, error) { return d.dropAudit(ctx, k.audit) })
	if dropped > 0 && ctx.Err() == nil {
		// Where it fails the store's own clean-ups come by in the course of time.
		if err := d.Store.Purge(ctx, nil); err != nil && ctx.Err() == nil {
			d.Log.Warn("retention: what was dropped is in the store's files for some time still", "error", err)
		}
	}
	return errors.Join(failed...)
}

// dropSums changes sums of usage, which an erasure changes too.
func (d *Desk) dropSums(drop func(time.Time) (int, error), before time.Time) (int, error) {
	d.erasing.Lock()
	defer d.erasing.Unlock()
	return drop(before)
}

// dropLogs drops the signed logs of months that have expired. One that is not done with
// is dropped another day.
func (d *Desk) dropLogs(k kept) (dropped int, err error) {
	if d.Receipts == nil {
		return 0, nil
	}
	months, err := d.Receipts.Months()
	if err != nil {
		return 0, err
	}
	for _, m := range months {
		if !k.expiredLog(m) {
			continue
		}
		if err := d.Receipts.Drop(m); err != nil {
			if isKind(err, core.Invalid) {
				continue
			}
			return dropped, err
		}
		dropped++
	}
	return dropped, nil
}

// dropAudit removes entries of before a time, also those that come to be so later on.
func (d *Desk) dropAudit(ctx context.Context, before time.Time) (int, error) {
	d.mu.Lock()
	d.audit.since = before
	first := d.audit.first
	d.mu.Unlock()
	err := d.prune(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	return int(d.audit.first - first), err
}
