package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"headway/core"
	"headway/core/seal"
)

// ReceiptLogs are the signed logs of receipts, the oldest first (SPEC §11).
type ReceiptLogs struct {
	List[ReceiptLog]
	Key      string   `json:"key"`               // the one to give to others
	Keys     []string `json:"keys"`              // all that the edge has signed with, the oldest first
	Witness  string   `json:"witness,omitempty"` // the name of the witness's key; absent: there is none
	Problems []string `json:"problems,omitempty"`
}

// ReceiptLog is one of them, the receipts of a month.
type ReceiptLog struct {
	Log    seal.Month `json:"log"`
	Origin string     `json:"origin,omitempty"`
	// Size is the count of its leaves; of a log that is not the current one, and not
	// given up, that which was signed.
	Size       core.Opt[uint64] `json:"size,omitzero"`
	SignedSize core.Opt[uint64] `json:"signed_size,omitzero"`
	Root       string           `json:"root,omitempty"`       // base64, of what was signed
	Checkpoint string           `json:"checkpoint,omitempty"` // the signed note, to be kept by others
	// What the witness has signed last, and when.
	WitnessedSize core.Opt[uint64]    `json:"witnessed_size,omitzero"`
	WitnessedAt   core.Opt[time.Time] `json:"witnessed_at,omitzero"`
	Problem       string              `json:"problem,omitempty"`
	// LeftOut: no export has it, as what was signed of it is not all here.
	LeftOut bool `json:"left_out,omitempty"`
}

// ReceiptLogStatus is how the signed log of now stands.
type ReceiptLogStatus struct {
	Origin     string           `json:"origin,omitempty"` // absent: nothing was sealed yet
	Size       uint64           `json:"size"`
	SignedSize core.Opt[uint64] `json:"signed_size,omitzero"`
	Problems   []string         `json:"problems,omitempty"`
	// Held says that nothing is signed, and no call served, until the log is renewed.
	Held bool `json:"held,omitempty"`
}

func (d *Desk) receiptLogStatus() *ReceiptLogStatus {
	st := d.Receipts.Status()
	s := &ReceiptLogStatus{Origin: st.Log.Origin, Size: st.Log.Size, Problems: d.receiptProblems(st), Held: st.Held}
	if st.Signed != nil {
		s.SignedSize = core.Some(st.Signed.Size)
	}
	return s
}

// receiptProblems says what is not as it should be.
func (d *Desk) receiptProblems(st seal.Status) (list []string) {
	then := "; it is left as it is, and another log was begun or is with the next receipt"
	if st.Held {
		then = "; it is left as it is, and calls are refused until headway receipts renew begins another"
	}
	for _, b := range st.Broken {
		list = append(list, b.Problem+then)
	}
	if st.Error != "" {
		list = append(list, "the newest leaves are not signed: "+st.Error)
	}
	if w := d.Witness.Status(); w != nil {
		list = append(list, w.Problems...)
	}
	if st.Unsealed > 0 {
		list = append(list, fmt.Sprintf("receipts that could not be sealed since the start: %d", st.Unsealed))
	}
	return list
}

// ReceiptLogWord tells in a word that shows nothing of the log where it is not as it
// should be, "" where it is.
func ReceiptLogWord(s *seal.Sealer) func() string {
	return func() string {
		switch st := s.Status(); {
		case slices.ContainsFunc(st.Broken, func(b seal.BrokenAt) bool { return !b.Restored }):
			return "damaged"
		case st.Error != "":
			return "unsigned"
		case st.Unsealed > 0:
			return "incomplete"
		case len(st.Broken) > 0:
			return "restored"
		}
		return ""
	}
}

// receiptLog is the sealer; NotFound: there is none.
func (d *Desk) receiptLog() (*seal.Sealer, error) {
	if d.Receipts == nil {
		return nil, core.Errorf(core.NotFound, "receipts are not signed here")
	}
	return d.Receipts, nil
}

func (d *Desk) listReceiptLogs(r *http.Request) (any, error) {
	s, err := d.receiptLog()
	if err != nil {
		return nil, err
	}
	months, err := s.Months()
	if err != nil {
		return nil, err
	}
	st, kept := s.Status(), d.kept()
	var logs []ReceiptLog
	for _, m := range months {
		if kept.expiredLog(m) {
			continue
		}
		l := ReceiptLog{Log: m}
		c, err := s.Checkpoint(m)
		switch {
		case err == nil:
			l.Origin, l.Size, l.SignedSize = c.Origin, core.Some(c.Size), core.Some(c.Size)
			l.Root, l.Checkpoint = c.Root.String(), string(c.Note)
		case !isKind(err, core.NotFound):
			l.Problem = err.Error()
		}
		if w := d.Witness.Newest(m); w != nil {
			l.WitnessedSize, l.WitnessedAt = core.Some(w.Size), core.Some(w.At)
		}
		if of(st.Log.Origin, m) {
			l.Origin, l.Size = st.Log.Origin, core.Some(st.Log.Size)
		}
		for _, b := range st.Broken {
			if of(b.Have.Origin, m) {
				l.Origin, l.Size, l.Problem = b.Have.Origin, core.Some(b.Have.Size), b.Problem
				l.LeftOut = !b.Restored
			}
		}
		logs = append(logs, l)
	}
	list := ReceiptLogs{Key: st.Key, Problems: d.receiptProblems(st)}
	if w := d.Witness.Status(); w != nil {
		list.Witness = w.Name
	}
	for _, k := range s.Keys() {
		list.Keys = append(list.Keys, k.String())
	}
	list.List, err = page(r, logs, func(l ReceiptLog) string { return string(l.Log) })
	return list, err
}

// of tells whether an origin is that of the log of a name.
func of(origin string, m seal.Month) bool {
	n := len(origin) - len(m) - 1
	return n > 0 && origin[n:] == "/"+string(m)
}

func (d *Desk) proveReceipt(r *http.Request) (any, error) {
	s, err := d.receiptLog()
	if err != nil {
		return nil, err
	}
	at, _, err := d.leafOf(core.CallID(r.PathValue("id")))
	if err != nil {
		return nil, err
	}
	// A checkpoint that somebody else has signed too proves more than a newer one.
	c, err := s.Checkpoint(at.Month)
	if w := d.Witness.Newest(at.Month); err == nil && w != nil && at.Index < w.Size && w.Size <= c.Size {
		c = &w.Checkpoint
	}
	if err != nil {
		return nil, err
	}
	proof, err := seal.Prove(s.Source(), c, at.Index)
	if err != nil {
		return nil, err
	}
	return streamed{"text/plain; charset=utf-8", func(w io.Writer) error {
		_, err := w.Write(proof)
		return err
	}}, nil
}

// leafOf is where a call's leaf is, and its receipt; nil: that is gone, and the leaf is
// not. NotFound: there is no leaf.
func (d *Desk) leafOf(id core.CallID) (seal.Position, *core.Receipt, error) {
	if _, ok := id.Time(); !ok {
		return seal.Position{}, nil, core.Errorf(core.NotFound, "there is no call %s", quoted(string(id)))
	}
	if id.Expired(d.kept().receipts) {
		return seal.Position{}, nil, core.Errorf(core.NotFound, "there is no call %s", id)
	}
	ended := int64(0)
	r, err := d.Book.Receipt(id)
	switch {
	case err == nil:
		ended = r.SettledAt.UnixMilli()
	case !isKind(err, core.NotFound):
		return seal.Position{}, nil, err
	}
	at, err := seal.Find(d.Vault, id, ended)
	return at, r, err
}

func (d *Desk) exportReceipts(r *http.Request) (any, error) {
	s, err := d.receiptLog()
	if err != nil {
		return nil, err
	}
	q := r.URL.Query()
	var o seal.ExportOptions
	with, err := flag(q, "measurements")
	if err != nil {
		return nil, err
	}
	if with {
		o.Measurements = d.measurements
	}
	parts, err := d.receiptParts(s, q)
	if err != nil {
		return nil, whichLog(err)
	}
	return streamed{"application/jsonl", func(w io.Writer) error {
		return whichLog(seal.Export(w, s.Source(), parts, o))
	}}, nil
}

// whichLog says what helps where a log is not whole.
func whichLog(err error) error {
	var e *core.Error
	if !errors.As(err, &e) || e.Kind != core.Unavailable || e.Hint != "" {
		return err
	}
	named := *e
	named.Hint = "headway receipts list shows which logs are whole; --month exports one of them"
	return &named
}

// calendar is the month of a log that may be the second of it.
func calendar(m seal.Month) seal.Month { return m[:min(len(m), len("2006-01"))] }

// measured is the unsigned part of a receipt beside its leaf: what measures are
// recomputed from. Why an offer was chosen, but for the tokens that it was expected to
// need, and the trace that it was a part of, are the operator's.
type measured struct {
	SettledAt time.Time `json:"settled_at"`
	core.Annex
}

// measurements are those of one call; nil: its receipt is gone.
func (d *Desk) measurements(id core.CallID) ([]byte, error) {
	r, err := d.Book.Receipt(id)
	if isKind(err, core.NotFound) || id.Expired(d.kept().measurements) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m := measured{r.SettledAt, r.Annex}
	m.Expected, m.Decision, m.TraceID = r.ExpectedThere(), nil, ""
	return json.Marshal(m)
}

// ReceiptLogs lists the signed logs.
func (c *Client) ReceiptLogs(ctx context.Context) (ReceiptLogs, error) {
	return get[ReceiptLogs](ctx, c, "receipts", url.Values{"limit": {strconv.Itoa(mostItems)}})
}

// ExportReceipts writes signed logs to w as JSON lines; query is that of GET
// receipts/export.
func (c *Client) ExportReceipts(ctx context.Context, query url.Values, w io.Writer) error {
	return c.copy(ctx, "receipts/export", query, w)
}

// copy writes an answer that is no JSON value to w.
func (c *Client) copy(ctx context.Context, path string, query url.Values, w io.Writer) error {
	resp, err := c.open(ctx, http.MethodGet, path, query, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	out := &wrote{w: w}
	if _, err := io.Copy(out, resp.Body); err != nil {
		return cmp.Or(out.failed, c.failed(err))
	}
	return nil
}

// wrote tells an error of the writer from one of what is read.
type wrote struct {
	w      io.Writer
	failed error
}

// Write hands bytes on.
func (o *wrote) Write(b []byte) (n int, err error) {
	n, err = o.w.Write(b)
	o.failed = err
	return n, err
}
