package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"headway/core"
	"headway/core/control"
	"headway/core/measure"
	"headway/core/seal"
)

func recomputeCommand() *cli.Command {
	return &cli.Command{
		Name: "recompute", Usage: "make every day sketch and median again from an export, and compare",
		UsageText: "headway receipts recompute FILE [--stored FILE] [--key VKEY] [--checkpoint FILE] [--json]",
		Description: "FILE is an export with --measurements; - reads standard input. It is checked as verify does, then each day's sketches and\n" +
			"the medians are made from its receipts alone and held against those that the server has stored, to the byte. It ends\n" +
			"with 1 where something differs. The receipts are signed, their measurements are not.\n\n" +
			"Without a server, --stored takes what its administrator saved of it:\n" +
			"   curl -s --unix-socket data/headway.sock http://headway/admin/v1/measures/days > stored.jsonl\n\n" +
			"Days that the export has only in part are held against the stored ones as a part. core/measure/MEASURES.md §9 has the rules,\n" +
			"testdata/sketches/recompute.py makes the same sketches without Headway.\n\n" +
			"Example:\n   headway receipts export --measurements --out all.jsonl && headway receipts recompute all.jsonl",
		Flags: serverFlags(
			&cli.StringFlag{Name: "stored", Usage: "the `FILE` with the stored sketches, instead of a server's"},
			&cli.StringSliceFlag{Name: "key", Usage: "the public `VKEY` of the server, or a file with it; repeatable"},
			&cli.StringFlag{Name: "checkpoint", Usage: "the `FILE` with a checkpoint that was kept from earlier"},
			jsonFlag(),
		),
		Action: recompute,
	}
}

// recomputed is what recompute --json prints.
type recomputed struct {
	OK bool `json:"ok"`
	// KeysFrom is that of the verification.
	KeysFrom string `json:"keys_from"`
	Receipts int64  `json:"receipts"`
	// Measured are those with measurements.
	Measured int64          `json:"measured_receipts"`
	StoredAt time.Time      `json:"stored_at"`
	Window   measure.Window `json:"window"`
	Days     []dayAgain     `json:"days"`
	// Medians are as they were made again, Stored those that are not the same.
	Medians []measure.Row `json:"medians"`
	Stored  []measure.Row `json:"stored_medians_that_differ"`
	// MediansNote says why medians were not made again.
	MediansNote string   `json:"medians_note,omitempty"`
	Notes       []string `json:"notes,omitempty"`
}

// dayAgain is how one day compares. What is different of a day in part is what no
// part of it can have.
type dayAgain struct {
	measure.DayCheck
	Whole bool   `json:"whole"`
	Note  string `json:"note,omitempty"` // why it is only there in part
}

func recompute(c *cli.Context) error {
	args, err := arguments(c, "FILE")
	if err != nil {
		return err
	}
	path := args[0]
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return failed{&core.Error{Kind: core.Invalid, Msg: path + ": a folder of tiles has no measurements", Hint: "headway receipts export --measurements --out FILE writes what has"}}
	}
	stored, err := storedDays(c)
	if err != nil {
		return err
	}
	cover, err := newCoverage(stored)
	if err != nil {
		return failed{err}
	}
	report, err := verification(c, path, seal.Check{Receipt: cover.take})
	if err != nil {
		return err
	}
	if err := wrongExport(path, report); err != nil {
		return err
	}
	r, err := cover.compare(report)
	if err != nil {
		return failed{&core.Error{Kind: core.Invalid, Msg: fmt.Sprintf("%s: %v", fileName(path), err), Hint: hintOf(err)}}
	}
	if c.Bool("json") {
		if err := printJSON(c.App.Writer, r); err != nil {
			return err
		}
	} else {
		r.write(c.App.Writer)
		for _, n := range r.Notes {
			fmt.Fprintf(c.App.ErrWriter, "headway: note: %s\n", printable(n))
		}
	}
	sayBelieved(c.App.ErrWriter, report)
	if !r.OK {
		return failed{&core.Error{Kind: core.Invalid, Msg: fmt.Sprintf("%d of the stored sketches and %d of the stored medians are not what the receipts give", r.different(), len(r.Stored)),
			Hint: "either the stored numbers or the measurements of this export were changed; each is named above"}}
	}
	return nil
}

// storedDays are the stored sketches, of --stored or of the server.
func storedDays(c *cli.Context) (*control.StoredDays, error) {
	path := c.String("stored")
	if path == "" {
		const how = "or give what was saved of one with --stored FILE (headway receipts recompute --help shows how)"
		s, err := server(c)
		if err != nil {
			return nil, withHint(err, how)
		}
		stored, err := s.Days(c.Context)
		return stored, withHint(err, how)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, cannot("read", path, err)
	}
	defer f.Close()
	stored, err := control.ReadDays(f)
	if err != nil {
		return nil, failed{&core.Error{Kind: core.Invalid, Msg: fmt.Sprintf("%s: %v", path, err), Hint: hintOf(err)}}
	}
	return stored, nil
}

// withHint adds to the hint of an error that says that there is no server.
func withHint(err error, hint string) error {
	if !isKind(err, core.Unavailable) {
		return err
	}
	e := core.Error{Kind: core.Unavailable, Msg: err.Error(), Err: err}
	e.Hint = hint
	if h := hintOf(err); h != "" {
		e.Hint = h + ", " + hint
	}
	return &e
}

// hintOf is the hint of an error, "" where it has none.
func hintOf(err error) string {
	var e *core.Error
	if errors.As(err, &e) {
		return e.Hint
	}
	return ""
}

// different counts the sketches that differ.
func (r *recomputed) different() (n int) {
	for _, d := range r.Days {
		n += len(d.Different)
	}
	return n
}

func (r *recomputed) write(w io.Writer) {
	t := table{head: []string{"DAY (UTC)", ">SKETCHES", ">EQUAL", ">DIFFERENT", ">VALUES STORED", ">RECOMPUTED", "COMPARED"}, empty: "there are no day sketches, neither stored nor in the export"}
	for _, d := range r.Days {
		how := "whole"
		if !d.Whole {
			how = "as a part: " + d.Note
		}
		t.add(d.Day, strconv.Itoa(d.Sketches), strconv.Itoa(d.Equal), strconv.Itoa(len(d.Different)), strconv.FormatInt(d.Stored, 10), strconv.FormatInt(d.Rebuilt, 10), how)
	}
	t.write(w)
	if r.different() > 0 {
		fmt.Fprintln(w)
		t := table{head: []string{"DIFFERENT", "MEASURE", "PROVIDER", "MODEL", "OFFER", ">STORED JOBS", ">RECOMPUTED JOBS"}}
		for _, day := range r.Days {
			for _, d := range day.Different {
				t.add(d.Day, d.Measure, string(d.Provider), string(d.Model), string(d.Offer), strconv.FormatInt(d.Stored, 10), strconv.FormatInt(d.Rebuilt, 10))
			}
		}
		t.write(w)
	}
	fmt.Fprintln(w)
	if r.MediansNote != "" {
		fmt.Fprintf(w, "medians of %s to %s: %s\n", r.Window.From, r.Window.To, r.MediansNote)
		return
	}
	t = table{head: []string{"PROVIDER", "MODEL", "MEASURE", ">JOBS", ">OWN", ">MODEL MEDIAN", ">VALUE", "BASIS", "STORED"}, empty: "there are no medians"}
	for _, m := range r.Medians {
		shown := func(v core.Opt[float64]) string {
			if m.Measure == measure.BaseLatency {
				return ms(v)
			}
			return unit(v, " tok/s")
		}
		is := "same"
		if i := slices.IndexFunc(r.Stored, func(s measure.Row) bool {
			return s.Provider == m.Provider && s.Model == m.Model && s.Measure == m.Measure
		}); i >= 0 {
			s := r.Stored[i]
			is = fmt.Sprintf("%s %s of %d", shown(s.Value), s.Basis, s.Jobs)
		}
		t.add(string(m.Provider), string(m.Model), m.Measure, strconv.FormatInt(m.Jobs, 10), shown(m.Own), shown(m.ModelMedian), shown(m.Value), string(m.Basis), is)
	}
	t.write(w)
	fmt.Fprintf(w, "\nmedians of %s to %s; %s of %s had measurements, which are not signed\n", r.Window.From, r.Window.To,
		strconv.FormatInt(r.Measured, 10), several(int(r.Receipts), "receipt"))
}

// coverage makes sketches of an export while it is verified, and knows of which days
// it has all.
type coverage struct {
	stored   *control.StoredDays
	edge     string
	rebuilt  *measure.Rebuilt
	logs     map[string]*covered // by origin
	receipts int64
	measured int64
	wrong    error // the first of its measurements that are none
	// Days of which something is not there, and why.
	gone   map[string]int // receipts without measurements, by the day of the call and the next
	moving map[string]bool
}

// covered is what is known of one log of an export.
type covered struct {
	first  string    // the day up to which receipts of before its first one may count; "": none was measured
	latest time.Time // its last receipt was recorded then or later
	least  core.CallID
}

func newCoverage(stored *control.StoredDays) (*coverage, error) {
	if stored.Log == nil || stored.End == nil {
		e := core.Errorf(core.Unavailable, "the server has signed no receipt, so there is nothing to hold its stored numbers against")
		e.Hint = "a receipt is signed within a second of its call's end"
		return nil, e
	}
	rebuilt, err := measure.NewRebuilt(stored.Oldest)
	if err != nil {
		return nil, err
	}
	return &coverage{stored: stored, edge: edgeOf(stored.Log.Origin), rebuilt: rebuilt, logs: map[string]*covered{}, gone: map[string]int{}, moving: map[string]bool{}}, nil
}

// edgeOf is whose log an origin is, and monthOf which.
func edgeOf(origin string) string  { return origin[:max(strings.LastIndexByte(origin, '/'), 0)] }
func monthOf(origin string) string { return origin[strings.LastIndexByte(origin, '/')+1:] }

// before tells whether a leaf is one of the first leaves of a log, or of an earlier one.
func before(origin string, index uint64, of *control.LogPlace) bool {
	if origin == of.Origin {
		return index < of.Size
	}
	return monthOf(origin) < monthOf(of.Origin)
}

func dayOf(at time.Time) string { return at.UTC().Format(time.DateOnly) }

// take counts a receipt of the export.
func (v *coverage) take(origin string, index uint64, l *seal.Leaf, measurements []byte) {
	log := v.logs[origin]
	if log == nil {
		log = &covered{least: l.ID}
		v.logs[origin] = log
	}
	log.least = min(log.least, l.ID)
	v.receipts++
	r, err := control.Measured(l, measurements)
	if err != nil {
		if v.wrong == nil {
			v.wrong = err
		}
		return
	}
	if r.SettledAt.IsZero() {
		if at := r.At; measure.MayCount(r) {
			v.gone[dayOf(at)]++
			v.gone[dayOf(at.AddDate(0, 0, 1))]++
		}
		if r.At.After(log.latest) {
			log.latest = r.At
		}
		return
	}
	v.measured++
	if log.first == "" {
		// Receipts are recorded in the order in which their calls ended, but for moments.
		log.first = max(dayOf(r.SettledAt.Add(time.Minute)), r.CountedOn)
	}
	if r.SettledAt.After(log.latest) {
		log.latest = r.SettledAt
	}
	if at, err := time.Parse(time.DateOnly, r.CountedOn); err == nil && at.After(log.latest) {
		log.latest = at
	}
	switch {
	case before(origin, index, v.stored.Log):
		v.rebuilt.Add(r)
	case before(origin, index, v.stored.End):
		v.moving[measure.CountedOn(r)] = true // it may be in the stored sketches or not
	}
}

// stretch is a part of the history without a gap: the days that it has all of are
// those after from (included) to to (excluded).
type stretch struct {
	from  string
	began bool // with the edge's first log
	to    time.Time
	whole bool // to the end of what is stored
}

// stretches are those of a verified export.
func (v *coverage) stretches(r *seal.Report) (list []stretch) {
	for i := range r.Logs {
		l := &r.Logs[i]
		month := monthOf(l.Origin)
		log := v.logs[l.Origin]
		if log == nil {
			log = &covered{}
		}
		joined := i > 0 && l.From == 0 && l.Follows == r.Logs[i-1].Origin && r.Logs[i-1].To == r.Logs[i-1].Size && len(l.Lost) == 0
		if !joined {
			s := stretch{}
			switch {
			case l.From == 0 && l.Follows != "" && len(month) == len("2006-01"):
				s.from = month + "-01" // it has all that was recorded in the month
			case l.From == 0 && l.Follows == "" && v.stored.First >= log.least && log.least != "":
				s.from = v.stored.Oldest // the server has no older receipt
			case log.first != "":
				s.from, s.began = dayAfter(log.first), l.From == 0 && l.Follows == ""
			default:
				s.from = "9999-99-99" // nothing is known of when it begins
			}
			list = append(list, s)
		}
		s := &list[len(list)-1]
		if log.latest.After(s.to) {
			s.to = log.latest
		}
		if at, err := time.Parse("2006-01", month); err == nil && l.Closed && at.AddDate(0, 1, 0).After(s.to) {
			s.to = at.AddDate(0, 1, 0) // what was recorded later is in the next log
		}
		s.whole = !before(l.Origin, l.To, v.stored.End)
	}
	return list
}

func dayAfter(day string) string {
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return day
	}
	return dayOf(at.AddDate(0, 0, 1))
}

// whole tells whether the export has all of a day, or why not.
func (v *coverage) whole(list []stretch, day string) (bool, string) {
	begins, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return false, "it is no day"
	}
	over := begins.AddDate(0, 0, 1).Add(time.Hour) // nothing counts on it later
	note := "the export has nothing of it"
	for _, s := range list {
		starts, ends := s.from <= day, s.whole || !s.to.Before(over)
		switch {
		case v.moving[day]:
			return false, "receipts came while the stored sketches were read"
		case starts && ends && v.gone[day] > 0:
			return false, several(v.gone[day], "receipt") + " of then, or of the day before, no longer has measurements"
		case starts && ends:
			return true, ""
		case starts && !s.to.Before(begins):
			note = "the export ends before it was over"
		case ends && s.began && dayAfter(day) >= s.from:
			note = "the log begins within it"
		case ends && dayAfter(day) >= s.from:
			note = "the export begins within it"
		}
	}
	return false, note
}

// compare holds what was made of a verified export against what is stored.
func (v *coverage) compare(report *seal.Report) (*recomputed, error) {
	if v.wrong != nil {
		return nil, v.wrong
	}
	for _, l := range report.Logs {
		if edgeOf(l.Origin) != v.edge {
			return nil, core.Errorf(core.Invalid, "it has receipts of %s, and the stored numbers are those of %s", edgeOf(l.Origin), v.edge)
		}
	}
	if v.measured == 0 {
		e := core.Errorf(core.Invalid, "none of its %s has measurements", several(int(v.receipts), "receipt"))
		e.Hint = "export them with headway receipts export --measurements"
		return nil, e
	}
	checks, err := v.rebuilt.Compare(v.stored.Sketches)
	if err != nil {
		return nil, err
	}
	r := &recomputed{OK: true, KeysFrom: report.KeysFrom, Receipts: v.receipts, Measured: v.measured, StoredAt: v.stored.At, Window: v.stored.Window,
		Days: []dayAgain{}, Medians: []measure.Row{}, Stored: []measure.Row{}}
	list := v.stretches(report)
	unsure := map[string]bool{} // days whose sketches here are not those of all receipts
	for _, c := range checks {
		d := dayAgain{DayCheck: c}
		d.Whole, d.Note = v.whole(list, c.Day)
		if !d.Whole {
			unsure[c.Day] = d.Equal < d.Sketches
			d.Different = slices.DeleteFunc(slices.Clone(d.Different), func(d measure.Difference) bool { return d.Within })
		}
		r.OK = r.OK && len(d.Different) == 0
		r.Days = append(r.Days, d)
	}
	if n := v.stored.Unsealed; n > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%s could not be sealed since the server's start, and are in no export", several(int(n), "receipt")))
	}
	return r, v.medians(r, unsure)
}

// medians makes the medians again, where all days of the window are there.
func (v *coverage) medians(r *recomputed, unsure map[string]bool) error {
	note := func(from, to string) string {
		for _, day := range sortedDays(unsure) {
			if day >= from && day <= to && unsure[day] {
				return "not made again, as " + day + " is there only in part"
			}
		}
		return ""
	}
	if r.MediansNote = note(v.stored.Window.From, v.stored.Window.To); r.MediansNote != "" {
		return nil
	}
	today := note(dayAfter(v.stored.Window.To), dayOf(v.stored.At))
	if *v.stored.Log != *v.stored.End {
		today = "receipts came while they were read"
	}
	pairs := make([]measure.Pair, 0, len(v.stored.Medians))
	for _, m := range v.stored.Medians {
		pairs = append(pairs, measure.Pair{Provider: m.Provider, Model: m.Model})
	}
	rows, err := v.rebuilt.Rows(v.stored.Window, v.stored.At, pairs)
	if err != nil {
		return err
	}
	made := map[rowName]measure.Row{}
	for _, m := range rows {
		made[rowName{m.Provider, m.Model, m.Measure}] = m
	}
	skipped := 0
	for _, is := range v.stored.Medians {
		m := made[rowName{is.Provider, is.Model, is.Measure}]
		if today != "" && (is.Basis == core.BasisToday || is.Basis == core.BasisNone) {
			skipped++ // of the jobs since the window's end
			continue
		}
		r.Medians = append(r.Medians, m)
		if m != is {
			r.Stored = append(r.Stored, is)
			r.OK = false
		}
	}
	if skipped > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%s of the jobs since the window's end: %s", several(skipped, "median"), today))
	}
	return nil
}

// rowName is what a row is of.
type rowName struct {
	provider core.ProviderID
	model    core.Model
	measure  string
}

func sortedDays(days map[string]bool) (list []string) {
	for day := range days {
		list = append(list, day)
	}
	slices.Sort(list)
	return list
}
