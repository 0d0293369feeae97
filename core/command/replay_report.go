package command

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"headway/core"
	"headway/core/control"
)

// replayReport is what `headway strategy replay --json` prints. The same calls and
// the same strategy give the same bytes: the calls are counted in one order, and
// nothing in it tells when it was made.
type replayReport struct {
	Strategy string              `json:"strategy"`
	From     core.Opt[time.Time] `json:"from,omitzero"` // the oldest of the calls
	To       core.Opt[time.Time] `json:"to,omitzero"`   // the newest
	Calls    int64               `json:"calls"`         // that were ranked again
	Changed  int64               `json:"changed"`       // of them with another offer first
	// Unserved are those that the strategy leaves without an offer. They are in no
	// sum and no share.
	Unserved     int64          `json:"unserved"`
	Skipped      int64          `json:"skipped"` // could not be ranked again
	ScriptErrors replayErrors   `json:"script_errors"`
	Charge       replayCharge   `json:"charge"`
	Wait         replayWait     `json:"wait"`
	Offers       []replayShare  `json:"offers"`
	Most         []replayChange `json:"most_different"`
	Notes        []string       `json:"notes"`

	newest  time.Time
	oldest  time.Time
	read    int64 // calls that were looked at
	shares  map[core.OfferID]*replayShare
	headers []string // that scripts see of calls and that are not kept
	sum     replaySums
}

// replaySums are in ms.
type replaySums struct{ then, now, measured, expected float64 }

// replayErrors are the calls on which the script failed: the default ranked them.
type replayErrors struct {
	Calls int64         `json:"calls"`
	First []replayError `json:"first,omitempty"` // messages that differ, of the newest calls
}

type replayError struct {
	Error string      `json:"error"`
	Call  core.CallID `json:"call"` // the newest that had it
	Calls int64       `json:"calls"`
}

// replayCharge are sums in USD: what was predicted for the offers that were first
// then and that would be now, and what the calls were really charged.
type replayCharge struct {
	Then    core.Money `json:"predicted_then_usd"`
	Now     core.Money `json:"predicted_now_usd"`
	Charged core.Money `json:"charged_usd"`
}

// replayWait are means in ms.
type replayWait struct {
	// Of the calls of which both waits were predicted.
	Calls int64             `json:"predicted_calls"`
	Then  core.Opt[float64] `json:"predicted_then_ms,omitzero"`
	Now   core.Opt[float64] `json:"predicted_now_ms,omitzero"`
	// Of the calls whose wait was measured, and now is known: it is the measured one
	// where the first offer stays, else the one predicted for the other offer.
	MeasuredCalls int64             `json:"measured_calls"`
	Measured      core.Opt[float64] `json:"measured_then_ms,omitzero"`
	Expected      core.Opt[float64] `json:"expected_now_ms,omitzero"`
	Kept          int64             `json:"expected_from_measured"`
	Other         int64             `json:"expected_from_predicted"`
}

// replayShare is how many calls an offer was first for, and would be.
type replayShare struct {
	Offer     core.OfferID `json:"offer"`
	Then      int64        `json:"then"`
	Now       int64        `json:"now"`
	ThenShare float64      `json:"then_share"` // 0 to 1
	NowShare  float64      `json:"now_share"`
}

// replayChange is one call whose first offer changes. Difference is what it would
// cost more, its wait at the time value of the call included; without the wait
// where one of them was not predicted.
type replayChange struct {
	ID         core.CallID       `json:"id"`
	At         time.Time         `json:"at"`
	Model      core.Model        `json:"model"`
	Then       core.OfferID      `json:"then"`
	Now        core.OfferID      `json:"now"`
	Difference float64           `json:"difference_usd"`
	TimeValue  core.Money        `json:"time_value_usd_per_hour"`
	ThenCharge core.Money        `json:"then_charge_usd"`
	NowCharge  core.Money        `json:"now_charge_usd"`
	ThenWait   core.Opt[float64] `json:"then_wait_ms,omitzero"`
	NowWait    core.Opt[float64] `json:"now_wait_ms,omitzero"`
}

const (
	mostErrors  = 5  // messages of a script that are shown
	mostChanges = 10 // calls that are
)

func newReplayReport(strategy string) *replayReport {
	return &replayReport{Strategy: strategy, Offers: []replayShare{}, Most: []replayChange{}, Notes: []string{}, shares: map[core.OfferID]*replayShare{}}
}

// add counts one call; they come in the order of the list, the newest first.
func (r *replayReport) add(d *control.Decided, a *again) error {
	r.read++
	if a.skip {
		r.Skipped++
		return nil
	}
	if r.Calls++; r.Calls == 1 {
		r.newest = d.At
	}
	r.oldest = d.At
	if a.failed != nil {
		r.ScriptErrors.add(d.ID, a.failed.Error())
	}
	if a.now == nil {
		r.Unserved++
		return nil
	}
	then, now := a.then, a.now
	r.share(then.Offer.ID).Then++
	r.share(now.Offer.ID).Now++
	kept := then.Offer.ID == now.Offer.ID
	if !kept {
		r.Changed++
		r.keep(changed(d, a))
	}
	was, is := then.Prediction.Wait(), now.Prediction.Wait()
	if was.OK && is.OK {
		r.Wait.Calls++
		r.sum.then += was.V
		r.sum.now += is.V
	}
	switch measured := d.ActualWait; {
	case !measured.OK:
	case kept:
		r.Wait.Kept++
		r.sum.measured += measured.V
		r.sum.expected += measured.V
	case is.OK:
		r.Wait.Other++
		r.sum.measured += measured.V
		r.sum.expected += is.V
	}
	for _, s := range [...]struct {
		sum *core.Money
		add core.Money
	}{{&r.Charge.Then, then.Charge}, {&r.Charge.Now, now.Charge}, {&r.Charge.Charged, d.Charge.V}} {
		sum, err := s.sum.Plus(s.add)
		if err != nil {
			return &core.Error{Kind: core.Invalid, Msg: "the charges of so many calls are more than can be counted", Hint: "choose a shorter period"}
		}
		*s.sum = sum
	}
	return nil
}

func (r *replayReport) share(id core.OfferID) *replayShare {
	s := r.shares[id]
	if s == nil {
		s = &replayShare{Offer: id}
		r.shares[id] = s
	}
	return s
}

func (e *replayErrors) add(id core.CallID, message string) {
	e.Calls++
	for i := range e.First {
		if e.First[i].Error == message {
			e.First[i].Calls++
			return
		}
	}
	if len(e.First) < mostErrors {
		e.First = append(e.First, replayError{message, id, 1})
	}
}

func changed(d *control.Decided, a *again) replayChange {
	c := replayChange{ID: d.ID, At: d.At, Model: d.Model, Then: a.then.Offer.ID, Now: a.now.Offer.ID, TimeValue: a.timeValue, ThenCharge: a.then.Charge, NowCharge: a.now.Charge,
		ThenWait: a.then.Prediction.Wait(), NowWait: a.now.Prediction.Wait()}
	c.Difference = (c.NowCharge - c.ThenCharge).Float()
	if c.ThenWait.OK && c.NowWait.OK {
		const msPerHour = 3_600_000
		c.Difference += (c.NowWait.V - c.ThenWait.V) / msPerHour * a.timeValue.Float()
		c.ThenWait.V, c.NowWait.V = core.Micro(c.ThenWait.V), core.Micro(c.NowWait.V)
	}
	const pico = float64(core.USD)
	c.Difference = math.Round(c.Difference*pico) / pico
	return c
}

// keep holds the calls that differ most, in that order.
func (r *replayReport) keep(c replayChange) {
	i, _ := slices.BinarySearchFunc(r.Most, c, func(x, c replayChange) int {
		return cmp.Or(cmp.Compare(math.Abs(c.Difference), math.Abs(x.Difference)), cmp.Compare(x.ID, c.ID))
	})
	if i < mostChanges {
		r.Most = slices.Insert(r.Most, i, c)
		r.Most = r.Most[:min(len(r.Most), mostChanges)]
	}
}

// finish works out what is shown.
func (r *replayReport) finish(scripted bool) *replayReport {
	if r.Calls > 0 {
		r.From, r.To = core.Some(r.oldest), core.Some(r.newest)
	}
	w := &r.Wait
	w.MeasuredCalls = w.Kept + w.Other
	w.Then, w.Now = meanOf(r.sum.then, w.Calls), meanOf(r.sum.now, w.Calls)
	w.Measured, w.Expected = meanOf(r.sum.measured, w.MeasuredCalls), meanOf(r.sum.expected, w.MeasuredCalls)
	served := r.Calls - r.Unserved
	r.Offers = r.Offers[:0]
	for _, id := range slices.Sorted(maps.Keys(r.shares)) {
		s := *r.shares[id]
		s.ThenShare, s.NowShare = portion(s.Then, served), portion(s.Now, served)
		r.Offers = append(r.Offers, s)
	}
	r.Notes = append(r.Notes, "Charges and waits are those predicted at the time of each call, also for what would be chosen now; only where the first offer stays is its wait measured.")
	r.Notes = append(r.Notes, "What other choices would have led to is not in it: other measures, other caches, other load.")
	if scripted && len(r.headers) > 0 {
		r.Notes = append(r.Notes, "The script saw no headers: those that scripts see of calls ("+strings.Join(r.headers, ", ")+") are not kept.")
	}
	if r.Unserved > 0 {
		r.Notes = append(r.Notes, "Calls that the strategy leaves without an offer are in no sum and no share.")
	}
	if r.Skipped > 0 {
		r.Notes = append(r.Notes, "Calls are skipped that the Auto Router ranked, or that an earlier version decided, which did not keep the figures.")
	}
	return r
}

// portion is to a millionth.
func portion(n, of int64) float64 { return math.Round(float64(n)/float64(max(of, 1))*1e6) / 1e6 }

func meanOf(sum float64, n int64) core.Opt[float64] {
	if n == 0 {
		return core.Opt[float64]{}
	}
	return core.Some(core.Micro(sum / float64(n)))
}

// write shows it to people.
func (r *replayReport) write(w io.Writer) {
	if r.Calls == 0 {
		fmt.Fprintf(w, "no call to rank again (%d skipped)\n", r.Skipped)
		return
	}
	fmt.Fprintf(w, "%s on %d calls from %s to %s, UTC\n", r.Strategy, r.Calls, at(r.From.V), at(r.To.V))
	fmt.Fprintf(w, "another offer first: %d (%s)", r.Changed, percent(float64(r.Changed)/float64(r.Calls)))
	for _, n := range [...]struct {
		n    int64
		what string
	}{{r.Unserved, "without an offer"}, {r.Skipped, "skipped"}, {r.ScriptErrors.Calls, "ranked by the default, as the script failed"}} {
		if n.n > 0 {
			fmt.Fprintf(w, "; %s: %d", n.what, n.n)
		}
	}
	fmt.Fprintln(w)
	for _, e := range r.ScriptErrors.First {
		calls := fmt.Sprintf("%d calls, such as", e.Calls)
		if e.Calls == 1 {
			calls = "call"
		}
		fmt.Fprintf(w, "  %s (%s %s)\n", printable(e.Error), calls, e.Call)
	}
	fmt.Fprintln(w)
	t := table{head: []string{"", ">THEN", ">NOW", ">CHANGE", ""}}
	t.add("charge, predicted", "$"+r.Charge.Then.String(), "$"+r.Charge.Now.String(), relative(r.Charge.Then.Float(), r.Charge.Now.Float()), " ")
	t.add("charge, real", "$"+r.Charge.Charged.String(), absent, absent, " ")
	t.add("wait, predicted", ms(r.Wait.Then), ms(r.Wait.Now), relative(r.Wait.Then.V, r.Wait.Now.V), fmt.Sprintf("mean of %d calls", r.Wait.Calls))
	t.add("wait, measured", ms(r.Wait.Measured), ms(r.Wait.Expected), relative(r.Wait.Measured.V, r.Wait.Expected.V),
		fmt.Sprintf("mean of %d calls; now measured for %d whose offer stays, predicted for %d", r.Wait.MeasuredCalls, r.Wait.Kept, r.Wait.Other))
	t.write(w)
	fmt.Fprintln(w)
	shares := table{head: []string{"FIRST OFFER", ">THEN", ">SHARE", ">NOW", ">SHARE"}}
	for _, s := range r.Offers {
		shares.add(string(s.Offer), strconv.FormatInt(s.Then, 10), percent(s.ThenShare), strconv.FormatInt(s.Now, 10), percent(s.NowShare))
	}
	shares.write(w)
	if len(r.Most) > 0 {
		fmt.Fprintln(w, "\nThe calls that differ most, by charge + wait × time value (headway trace ID shows one):")
		most := table{head: []string{"ID", "MODEL", "THEN", "NOW", ">DIFFERENCE", ">AN HOUR", ">CHARGE THEN", ">NOW", ">WAIT THEN", ">NOW"}}
		for _, c := range r.Most {
			sign := "+"
			if c.Difference < 0 {
				sign = "-"
			}
			most.add(string(c.ID), string(c.Model), string(c.Then), string(c.Now), sign+"$"+strconv.FormatFloat(math.Abs(c.Difference), 'f', 6, 64), "$"+c.TimeValue.String(),
				"$"+c.ThenCharge.String(), "$"+c.NowCharge.String(), ms(c.ThenWait), ms(c.NowWait))
		}
		most.write(w)
	}
	fmt.Fprintln(w)
	for _, n := range r.Notes {
		fmt.Fprintln(w, n)
	}
}

// relative is how much more is than was.
func relative(was, is float64) string {
	if was == 0 {
		return absent
	}
	return fmt.Sprintf("%+.1f%%", 100*(is/was-1))
}
