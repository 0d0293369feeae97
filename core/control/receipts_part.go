package control

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"headway/core"
	"headway/core/seal"
)

// InMonth tells whether a log is one of those that a month names: "2026-11" has all of
// that month, "2026-11.1" is its first alone, "2026-11.2" its second; "" is all.
func InMonth(log seal.Month, month string) bool {
	first, only := strings.CutSuffix(month, ".1")
	return month == "" || string(log) == first || !only && string(calendar(log)) == month
}

// receiptParts are what to export: the logs of a month (InMonth), and of each all, or the
// part with the calls that came from from on and before to, or what came after the
// checkpoint since; nothing of what has expired. witnessed: only as far as the witness has signed.
// NotFound: there is nothing.
func (d *Desk) receiptParts(s *seal.Sealer, q url.Values) ([]seal.Part, error) {
	now := d.Clock()
	from, err := moment("from", q.Get("from"), now, false)
	if err != nil {
		return nil, err
	}
	to, err := moment("to", q.Get("to"), now, true)
	if err != nil {
		return nil, err
	}
	if !from.IsZero() && !to.IsZero() && !from.Before(to) {
		return nil, core.Field("to", "is not after from")
	}
	since, err := sinceOf(s, q)
	if err != nil {
		return nil, err
	}
	witnessed, err := flag(q, "witnessed")
	if err != nil {
		return nil, err
	}
	if witnessed && d.Witness.Status() == nil {
		e := core.Errorf(core.NotFound, "no witness is configured, so none has signed a log")
		e.Hint = "witness: in the file names one"
		return nil, e
	}
	months, err := s.Months()
	if err != nil {
		return nil, err
	}
	month, kept, gone := q.Get("month"), d.kept(), s.Status().Broken
	if month != "" {
		if err := checkMonth(string(calendar(seal.Month(month))), month); err != nil {
			return nil, err
		}
	}
	first := seal.Month(from.UTC().Format("2006-01")) // a receipt is never in a log of before its call
	if since != nil {
		_, first = seal.EdgeOf(since.Origin)
	}
	var parts []seal.Part
	var left *seal.BrokenAt
	for _, m := range months {
		if !InMonth(m, month) || !from.IsZero() && calendar(m) < first || kept.expiredLog(m) || since != nil && m < first {
			continue
		}
		if b := givenUp(gone, m); b != nil {
			left = b
			continue
		}
		c, err := d.checkpoint(s, m, witnessed)
		if isKind(err, core.NotFound) {
			continue // nothing of it is signed yet
		}
		if err != nil {
			return nil, err
		}
		p := seal.Part{Checkpoint: c}
		switch {
		case since != nil && m == first:
			err = restOf(&p, since)
		case !from.IsZero() || !to.IsZero():
			p.From, p.To, err = stretch(s, c, from, to)
		}
		if isKind(err, core.NotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	if since != nil && (len(parts) == 0 || parts[0].Checkpoint.Origin != since.Origin) {
		return nil, core.Field("since", "the log %s of this checkpoint is not here, or not as far", since.Origin)
	}
	if len(parts) == 0 {
		e := core.Errorf(core.NotFound, "no signed receipt is of that time")
		e.Hint = "a receipt is signed within a second of its call's end; headway receipts list shows the logs"
		switch {
		case left != nil:
			_, log := seal.EdgeOf(left.Have.Origin)
			e.Msg = fmt.Sprintf("nothing can be exported: log %s (leaves: %d) is left out: %s", log, left.Have.Size, left.Problem)
			e.Hint = "headway status says what helps"
		case witnessed:
			e.Msg, e.Hint = "the witness has signed no log of that time", "headway status says how the witness is"
		}
		return nil, e
	}
	return parts, nil
}

// checkMonth refuses what is no calendar month; said is how it was given.
func checkMonth(month, said string) error {
	if _, err := time.Parse("2006-01", month); err != nil {
		return core.Field("month", "%s is not a month such as 2026-11", quoted(said))
	}
	return nil
}

// givenUp is what is wrong with a log that is not all here, and that no backup explains;
// nil: it is whole.
func givenUp(gone []seal.BrokenAt, m seal.Month) *seal.BrokenAt {
	i := slices.IndexFunc(gone, func(b seal.BrokenAt) bool { return of(b.Have.Origin, m) && !b.Restored })
	if i < 0 {
		return nil
	}
	return &gone[i]
}

// checkpoint is a log's newest, with the line of the witness where it has signed it, or
// the newest that it has signed.
func (d *Desk) checkpoint(s *seal.Sealer, m seal.Month, witnessed bool) (*seal.Checkpoint, error) {
	c, err := s.Checkpoint(m)
	if err != nil {
		return nil, err
	}
	w := d.Witness.Newest(m)
	if w != nil && (witnessed && w.Size <= c.Size || w.Tree == c.Tree) {
		return &w.Checkpoint, nil
	}
	if witnessed {
		return nil, core.Errorf(core.NotFound, "the witness has not signed log %s", m)
	}
	return c, nil
}

// stretch is the part of a log with the calls of a time.
func stretch(s *seal.Sealer, c *seal.Checkpoint, from, to time.Time) (first, end uint64, err error) {
	begin, until := int64(0), int64(1<<62)
	if !from.IsZero() {
		begin = from.UnixMilli()
	}
	if !to.IsZero() {
		until = to.UnixMilli()
	}
	return seal.Span(s.Source(), c, begin, until)
}

// sinceOf reads the checkpoint of a query, which this server must have signed; nil:
// there is none.
func sinceOf(s *seal.Sealer, q url.Values) (*seal.Checkpoint, error) {
	text := q.Get("since")
	if !q.Has("since") { // an empty one is an empty file: it does not mean everything
		return nil, nil
	}
	for _, other := range [...]string{"month", "from", "to"} {
		if q.Get(other) != "" {
			return nil, core.Field("since", "does not go with %s", other)
		}
	}
	c, err := seal.ParseCheckpoint([]byte(text), s.Keys())
	if err != nil {
		e := core.Field("since", "is not a checkpoint that this server has signed")
		e.Err, e.Hint = err, "headway receipts list --json has those of now"
		return nil, e
	}
	return c, nil
}

// restOf makes a part of what came after a checkpoint of its log; where nothing has, of
// the last leaf, which shows that.
func restOf(p *seal.Part, since *seal.Checkpoint) error {
	size := p.Checkpoint.Size
	if since.Size > size {
		return core.Errorf(core.NotFound, "the log is not as far")
	}
	if p.From, p.To = since.Size, size; p.From == size {
		p.From--
	}
	if p.From > 0 {
		p.Since = &since.Tree
		return nil
	}
	p.From, p.To = 0, 0 // all of it
	return nil
}

// flag reads true or false; left out is false.
func flag(q url.Values, name string) (bool, error) {
	text := q.Get(name)
	if text == "" {
		return false, nil
	}
	v, err := strconv.ParseBool(text)
	if err != nil {
		return false, core.Field(name, "want true or false")
	}
	return v, nil
}

// treeOfReceipts writes one log as files, in a tar file.
func (d *Desk) treeOfReceipts(r *http.Request) (any, error) {
	s, err := d.receiptLog()
	if err != nil {
		return nil, err
	}
	parts, err := d.receiptParts(s, r.URL.Query())
	if err != nil {
		return nil, whichLog(err)
	}
	if len(parts) > 1 {
		return nil, severalLogs(parts)
	}
	return streamed{"application/x-tar", func(w io.Writer) error {
		return whichLog(seal.TarTree(w, s.Source(), parts[0].Checkpoint))
	}}, nil
}

// severalLogs is the error of a folder that would have more than one log.
func severalLogs(parts []seal.Part) error {
	var logs []string
	for _, p := range parts {
		_, m := seal.EdgeOf(p.Checkpoint.Origin)
		logs = append(logs, string(m))
	}
	first, last := logs[0], len(logs)-1
	if InMonth(seal.Month(logs[1]), first) {
		first += ".1" // without it all of the month is meant
	}
	e := core.Field("month", "a folder has one log, and these are %d: %s and %s", len(logs), strings.Join(logs[:last], ", "), logs[last])
	e.Hint = "take one with --month: " + first + " is " + logs[0] + " alone"
	return e
}

// ReceiptTree gives the files of one log in the layout of tlog-tiles away, the
// checkpoint last; query is that of GET receipts/tree.
func (c *Client) ReceiptTree(ctx context.Context, query url.Values, file func(path string, text io.Reader) error) error {
	resp, err := c.open(ctx, http.MethodGet, "receipts/tree", query, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	in := &wasRead{r: resp.Body}
	files := tar.NewReader(in)
	for whole := false; ; {
		h, err := files.Next()
		switch {
		case errors.Is(err, io.EOF) && whole:
			return nil
		case in.failed != nil:
			return c.failed(in.failed)
		case err != nil || h.Typeflag != tar.TypeReg || !filepath.IsLocal(filepath.FromSlash(h.Name)):
			return &core.Error{Kind: core.Upstream, Msg: c.where + ": the answer is not a log as files", Err: err}
		}
		if err := file(h.Name, files); err != nil {
			if in.failed != nil {
				return c.failed(in.failed)
			}
			return err
		}
		whole = h.Name == "checkpoint"
	}
}

// wasRead tells an error of the reader from one of what is made of it.
type wasRead struct {
	r      io.Reader
	failed error
}

// Read reads on.
func (w *wasRead) Read(b []byte) (int, error) {
	n, err := w.r.Read(b)
	if err != nil && err != io.EOF {
		w.failed = err
	}
	return n, err
}

// ProveReceipt writes the proof of one receipt to w.
func (c *Client) ProveReceipt(ctx context.Context, id string, w io.Writer) error {
	return c.copy(ctx, "receipts/"+url.PathEscape(id)+"/proof", nil, w)
}
