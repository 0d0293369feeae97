package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"headway/core"
	"headway/core/measure"
	"headway/core/seal"
)

// daysFormat is what the answer of GET measures/days begins with.
const daysFormat = "headway day sketches v1"

// DaysHead is the first line of the stored day sketches: as of when they are.
type DaysHead struct {
	Format string         `json:"format"`
	At     time.Time      `json:"at"`
	Window measure.Window `json:"window"` // of the medians
	// Oldest is the first day whose sketches are surely kept.
	Oldest string `json:"oldest"`
	// Log is how far the signed log was before the first sketch was read: each
	// receipt of it is counted in them. Absent: nothing was signed.
	Log *LogPlace `json:"log,omitempty"`
	// First is the oldest receipt that is kept.
	First core.CallID `json:"first_receipt,omitempty"`
	// Unsealed counts the receipts since the start that are in no log, and so in no
	// export.
	Unsealed int64 `json:"unsealed,omitempty"`
}

// LogPlace is a log and the count of its leaves.
type LogPlace struct {
	Origin string `json:"origin"`
	Size   uint64 `json:"size"`
}

// DaysEnd is the last line; without it something is missing.
type DaysEnd struct {
	Sketches int `json:"sketches"`
	Medians  int `json:"medians"`
	// Log is how far the signed log was behind the last sketch: no later receipt is in
	// them.
	Log *LogPlace `json:"log,omitempty"`
}

// daysLine is any line of the answer.
type daysLine struct {
	DaysHead
	Sketch *measure.DaySketch `json:"sketch,omitempty"`
	Median *measure.Row       `json:"median,omitempty"`
	End    *DaysEnd           `json:"end,omitempty"`
}

func (d *Desk) listDays(*http.Request) (any, error) {
	head := DaysHead{Format: daysFormat, At: d.Clock().UTC()}
	head.Oldest = measure.OldestDay(head.At)
	if d.Receipts != nil {
		st := d.Receipts.Status()
		head.Unsealed = st.Unsealed
		if st.Signed != nil {
			head.Log = &LogPlace{st.Signed.Origin, st.Signed.Size}
		}
	}
	err := d.Book.Receipts(time.Time{}, time.Time{}, false, func(r *core.Receipt) bool {
		head.First = r.ID
		return false
	})
	if err != nil {
		return nil, err
	}
	var medians []measure.Row
	for head.Window = d.Board.Window(); ; head.Window = d.Board.Window() {
		if medians = d.rows(); d.Board.Window() == head.Window {
			break // no day joined meanwhile
		}
	}
	return streamed{"application/jsonl", func(w io.Writer) error { return d.writeDays(w, head, medians) }}, nil
}

func (d *Desk) writeDays(w io.Writer, head DaysHead, medians []measure.Row) error {
	out := bufio.NewWriterSize(w, writePiece)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(head); err != nil {
		return err
	}
	var end DaysEnd
	err := d.Board.Stored(func(s measure.DaySketch) error {
		end.Sketches++
		return enc.Encode(struct {
			Sketch measure.DaySketch `json:"sketch"`
		}{s})
	})
	if err != nil {
		return err
	}
	end.Medians = len(medians)
	for _, m := range medians {
		err := enc.Encode(struct {
			Median measure.Row `json:"median"`
		}{m})
		if err != nil {
			return err
		}
	}
	if d.Receipts != nil {
		if st := d.Receipts.Status(); st.Log.Origin != "" {
			end.Log = &LogPlace{st.Log.Origin, st.Log.Size}
		}
	}
	err = enc.Encode(struct {
		End DaysEnd `json:"end"`
	}{end})
	if err != nil {
		return err
	}
	return out.Flush()
}

// StoredDays are the day sketches and medians of a server, as it said them.
type StoredDays struct {
	DaysHead
	Sketches []measure.DaySketch
	Medians  []measure.Row
	// End is how far the signed log was behind the last sketch.
	End *LogPlace
}

// longestDaysLine bounds a line: a sketch has at most 2,702 buckets.
const longestDaysLine = 256 << 10

// ReadDays reads an answer of GET measures/days. An error names the line.
func ReadDays(r io.Reader) (*StoredDays, error) {
	s := &StoredDays{}
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 0, 64<<10), longestDaysLine)
	n, ended := 0, false
	bad := func(format string, args ...any) error {
		return &core.Error{Kind: core.Invalid, Msg: fmt.Sprintf("line %d: ", n) + fmt.Sprintf(format, args...),
			Hint: "it is an answer of GET /admin/v1/measures/days, whole and as it came"}
	}
	for in.Scan() {
		n++
		var l daysLine
		dec := json.NewDecoder(bytes.NewReader(in.Bytes()))
		dec.DisallowUnknownFields()
		err := dec.Decode(&l)
		switch {
		case err != nil || dec.More():
			return nil, bad("this is not a line of stored day sketches")
		case n == 1 && l.Format != daysFormat:
			return nil, bad("these are not the stored day sketches of a headway: it should begin with %q", daysFormat)
		case ended:
			return nil, bad("it goes on behind its end")
		case n == 1:
			s.DaysHead = l.DaysHead
		case l.Sketch != nil:
			s.Sketches = append(s.Sketches, *l.Sketch)
		case l.Median != nil:
			s.Medians = append(s.Medians, *l.Median)
		case l.End != nil:
			if l.End.Sketches != len(s.Sketches) || l.End.Medians != len(s.Medians) {
				return nil, bad("%d sketches and %d medians should be before it, and %d and %d are", l.End.Sketches, l.End.Medians, len(s.Sketches), len(s.Medians))
			}
			s.End, ended = l.End.Log, true
		default:
			return nil, bad("this is not a line of stored day sketches")
		}
	}
	n++
	switch err := in.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, bad("it is longer than %d bytes", longestDaysLine)
	case err != nil:
		return nil, &core.Error{Kind: core.Unavailable, Msg: "the stored day sketches cannot be read", Err: err}
	case !ended:
		return nil, bad("they are cut short: the line that ends them is missing")
	}
	return s, nil
}

// Days gets the stored day sketches and medians.
func (c *Client) Days(ctx context.Context) (*StoredDays, error) {
	resp, err := c.open(ctx, http.MethodGet, "measures/days", nil, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return ReadDays(resp.Body)
}

// sketched is what of the measurements of an export day sketches are made of: the rest
// would take twice the time to read.
type sketched struct {
	SettledAt time.Time      `json:"settled_at"`
	CountedOn string         `json:"counted_on"`
	Operation core.Operation `json:"operation"`
	Streamed  bool           `json:"streamed"`
	Timing    struct {
		DispatchToFirstToken core.Opt[float64] `json:"dispatch_to_first_token_ms"`
		FirstTokenToEnd      core.Opt[float64] `json:"first_token_to_end_ms"`
		Arrivals             core.Opt[int64]   `json:"arrivals"`
		StreamedOutputTokens core.Opt[int64]   `json:"streamed_output_tokens"`
		FreshInputTokens     core.Opt[int64]   `json:"fresh_input_tokens"`
	} `json:"timing"`
	NodeTiming    *core.NodeTiming  `json:"node_timing"`
	PredictedWait core.Opt[float64] `json:"predicted_wait_ms"`
	ActualWait    core.Opt[float64] `json:"actual_wait_ms"`
	Expected      *core.Expected    `json:"expected"`
}

// Measured makes of a leaf and of what stands behind it in an export with
// measurements the receipt that day sketches are made of. Without measurements it has
// only what the leaf says.
func Measured(l *seal.Leaf, measurements []byte) (*core.Receipt, error) {
	var m sketched
	if measurements != nil {
		if err := json.Unmarshal(measurements, &m); err != nil {
			return nil, core.Errorf(core.Invalid, "the measurements of call %s are not those of a receipt", l.ID)
		}
	}
	r := &core.Receipt{ID: l.ID, Kind: l.Kind, Outcome: l.Outcome, At: time.UnixMilli(l.Time).UTC(), SettledAt: m.SettledAt, Model: l.Model,
		Offer: l.Offer, Provider: l.Provider, Node: l.Node, Usage: l.Usage, UsageFrom: l.UsageFrom,
		Annex: core.Annex{CountedOn: m.CountedOn, Operation: m.Operation, Streamed: m.Streamed, NodeTiming: m.NodeTiming,
			PredictedWait: m.PredictedWait, ActualWait: m.ActualWait, Expected: m.Expected}}
	r.Timing.DispatchToFirstToken, r.Timing.FirstTokenToEnd, r.Timing.Arrivals = m.Timing.DispatchToFirstToken, m.Timing.FirstTokenToEnd, m.Timing.Arrivals
	r.Timing.StreamedOutputTokens, r.Timing.FreshInputTokens = m.Timing.StreamedOutputTokens, m.Timing.FreshInputTokens
	return r, nil
}
