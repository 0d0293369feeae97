package control

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"slices"
	"time"

	"headway/core"
	"headway/core/seal"
)

// Erasure says whose receipts are to be erased: those of a list, of a key or of an owner,
// or with Secret what shows whose any receipt of a month was.
type Erasure struct {
	IDs   []core.CallID `json:"ids,omitempty"`
	Key   core.KeyID    `json:"key,omitempty"`
	Owner string        `json:"owner,omitempty"`
	// Month, such as 2026-11, is that in which a call came (UTC); with Secret it is the
	// log.
	Month  string `json:"month,omitempty"`
	Secret bool   `json:"secret,omitempty"`
	// Next is what the answer before said; with the same rest it goes on there.
	Next core.CallID `json:"next,omitempty"`
}

// Erased is what one call of the API has done of an Erasure.
type Erased struct {
	Receipts int `json:"receipts"`  // that were erased
	Looked   int `json:"looked_at"` // receipts
	// Before are the receipts of IDs that have nothing to erase: they were erased before,
	// or are nobody's.
	Before int `json:"erased_before,omitempty"`
	// Unsealed are those of them that have no leaf in the signed log.
	Unsealed int           `json:"without_leaf,omitempty"`
	Unknown  []core.CallID `json:"unknown,omitempty"` // ids that have no receipt
	Logs     []seal.Month  `json:"logs,omitempty"`    // whose secret was dropped
	Next     core.CallID   `json:"next,omitempty"`    // there is more: ask again with it
}

const (
	eraseMost  = 1000             // receipts of one call
	eraseLook  = 20_000           // that it looks at
	eraseGroup = 100              // that one transaction erases
	eraseWait  = 30 * time.Second // for the writer
	erasePoll  = 10 * time.Millisecond
)

func (e *Erasure) check() error {
	named := 0
	for _, is := range [...]bool{len(e.IDs) > 0, e.Key != "", e.Owner != ""} {
		if is {
			named++
		}
	}
	switch {
	case e.Secret && (named > 0 || e.Month == ""):
		return core.Field("secret", "it is dropped of a month, whosever calls those are: give month alone with it")
	case !e.Secret && named != 1:
		return core.Field("ids", "give one of ids, key and owner")
	case len(e.IDs) > eraseMost:
		return core.Field("ids", "at most %d at once", eraseMost)
	case len(e.IDs) > 0 && e.Month != "":
		return core.Field("month", "does not go with ids")
	}
	if e.Month != "" && !e.Secret {
		if err := checkMonth(e.Month, e.Month); err != nil {
			return err
		}
	}
	for _, id := range append([]core.CallID{e.Next}, e.IDs...) {
		if _, ok := id.Time(); !ok && id != "" {
			return core.Field("ids", "%s is not the id of a call", quoted(string(id)))
		}
	}
	return nil
}

// audited is how the audit log names an erasure: nothing of the person beyond the id of
// the key that was asked for.
func (e *Erasure) audited() Entry {
	entry := Entry{Action: "receipts.erase", Target: "calls"}
	after := map[string]any{}
	switch {
	case e.Secret:
		return Entry{Action: "receipts.drop_secret", Target: e.Month}
	case e.Key != "":
		entry.Target = string(e.Key)
	case e.Owner != "":
		entry.Target = "an owner"
	default:
		after["calls"] = len(e.IDs)
	}
	if e.Month != "" {
		after["month"] = e.Month
	}
	if len(after) > 0 {
		entry.After, _ = json.Marshal(after)
	}
	return entry
}

// note puts an entry into the audit log, with what is deleted by what it tells of.
func (d *Desk) note(r *http.Request, e Entry, deletes ...core.Record) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	e.Who = whoOf(r)
	return d.audit.write(nil, deletes, e)
}

// eraseReceipts erases receipts, as many as one call may take. What it has done stays
// done where it fails, and asked again it goes on with the rest.
func (d *Desk) eraseReceipts(r *http.Request) (any, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	var e Erasure
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&e); err != nil || dec.More() {
		return nil, core.Errorf(core.Invalid, "want an object with ids, key or owner, perhaps month, secret and next")
	}
	if err := e.check(); err != nil {
		return nil, err
	}
	if !d.erasing.TryLock() {
		return nil, core.Errorf(core.Busy, "something is erased already")
	}
	defer d.erasing.Unlock()
	if e.Secret {
		return d.dropSecret(r, &e)
	}
	list, done, err := d.toErase(r.Context(), &e)
	if err != nil {
		return done, err
	}
	if e.Next == "" && (len(list) > 0 || done.Next != "") { // said before it is done: nothing is erased without a word
		if err := d.note(r, e.audited()); err != nil {
			return nil, err
		}
	}
	if len(list) > 0 {
		err = d.erase(r.Context(), list, &done)
	}
	return done, err
}

// dropSecret makes the pseudonyms and commitments of a month's logs meaningless.
func (d *Desk) dropSecret(r *http.Request, e *Erasure) (any, error) {
	s, err := d.receiptLog()
	if err != nil {
		return nil, err
	}
	months, err := s.Months()
	if err != nil {
		return nil, err
	}
	var done Erased
	var secrets []core.Record
	for _, m := range months {
		if string(m) != e.Month && string(calendar(m)) != e.Month {
			continue
		}
		secret, err := s.Secret(m)
		if err != nil {
			return nil, err
		}
		secrets = append(secrets, secret)
		done.Logs = append(done.Logs, m)
	}
	if len(done.Logs) == 0 {
		e := core.Errorf(core.NotFound, "there is no log of %s", quoted(e.Month))
		e.Hint = "headway receipts list shows them"
		return nil, e
	}
	return done, d.note(r, e.audited(), secrets...)
}

// toErase finds the receipts that are meant, as many as one call erases.
func (d *Desk) toErase(ctx context.Context, e *Erasure) (list []*core.Receipt, done Erased, err error) {
	slices.Sort(e.IDs)
	var bare []*core.Receipt
	for _, id := range slices.Compact(e.IDs) { // each once, as it is taken out of the sums
		r, err := d.Book.Receipt(id)
		done.Looked++
		switch {
		case isKind(err, core.NotFound):
			done.Unknown = append(done.Unknown, id)
		case err != nil:
			return nil, done, err
		case reflect.DeepEqual(r, r.Erased()):
			bare = append(bare, r)
		default:
			list = append(list, r)
		}
	}
	if len(e.IDs) > 0 {
		left, err := d.unerased(bare)
		done.Before = len(bare) - len(left)
		return append(list, left...), done, err
	}
	var from, to time.Time
	if e.Month != "" {
		from, _ = time.Parse("2006-01", e.Month) // as check has seen
		to = from.AddDate(0, 1, 0)
	}
	if at, ok := e.Next.Time(); ok && at.After(from) {
		from = at
	}
	err = d.Book.Receipts(from, to, false, func(r *core.Receipt) bool {
		if r.ID <= e.Next {
			return true
		}
		if len(list) == eraseMost || done.Looked == eraseLook || ctx.Err() != nil {
			return false
		}
		done.Looked++
		done.Next = r.ID
		if e.Key != "" && r.Key == e.Key || e.Owner != "" && r.Owner == e.Owner {
			list = append(list, r)
		}
		return true
	})
	if done.Looked < eraseLook && len(list) < eraseMost {
		done.Next = "" // that was all
	}
	return list, done, errors.Join(err, ctx.Err())
}

// unerased are those of receipts that say nothing of anybody whose leaves have not been
// erased.
func (d *Desk) unerased(bare []*core.Receipt) (left []*core.Receipt, err error) {
	if d.Receipts == nil || len(bare) == 0 {
		return nil, nil
	}
	found, err := seal.FindAll(d.Vault, bare)
	if err != nil {
		return nil, err
	}
	for _, r := range bare {
		at, ok := found[r.ID]
		if !ok {
			continue
		}
		is, err := d.Receipts.Erased(at)
		if err != nil {
			return nil, err
		}
		if !is {
			left = append(left, r)
		}
	}
	return left, nil
}

// erase erases receipts: first what their leaves' salts are made of, then, together, what
// the receipts and the sums of usage say. So a receipt that still names somebody is found
// again where it breaks off.
func (d *Desk) erase(ctx context.Context, list []*core.Receipt, done *Erased) error {
	rested := func() bool { return true }
	if d.Tally != nil {
		rested = d.Tally.Rest()
	}
	var leaves []seal.Position
	if d.Receipts != nil {
		found, err := seal.FindAll(d.Vault, list)
		if err != nil {
			return err
		}
		done.Unsealed = len(list) - len(found)
		for _, at := range found {
			leaves = append(leaves, at)
		}
		slices.SortFunc(leaves, func(a, b seal.Position) int {
			return cmp.Or(cmp.Compare(a.Month, b.Month), cmp.Compare(a.Index, b.Index))
		})
		for _, at := range leaves {
			if err := d.Receipts.Erase(at); err != nil {
				return err
			}
		}
	}
	if err := d.awaitErased(ctx, rested, leaves); err != nil {
		return err
	}
	for len(list) > 0 {
		n, err := d.eraseGroup(list[:min(len(list), eraseGroup)])
		if err != nil {
			return err
		}
		list, done.Receipts = list[n:], done.Receipts+n
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// awaitErased waits for the writer, which appends to the log. It does so in order: the
// last leaf is erased last.
func (d *Desk) awaitErased(ctx context.Context, rested func() bool, leaves []seal.Position) error {
	tick := time.NewTicker(erasePoll)
	defer tick.Stop()
	late := time.NewTimer(eraseWait)
	defer late.Stop()
	for left := len(leaves); ; {
		for left > 0 && rested() {
			is, err := d.Receipts.Erased(leaves[left-1])
			if err != nil {
				return err
			}
			if !is {
				break
			}
			left--
		}
		if left == 0 && rested() {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-late.C:
			e := core.Errorf(core.Unavailable, "the log is not written now, so nothing can be erased in it")
			e.Hint = "headway status says what is wrong with it; ask again then, what was done stays done"
			return e
		}
	}
}

// eraseGroup erases some receipts and their sums as one, and tells how many.
func (d *Desk) eraseGroup(list []*core.Receipt) (n int, err error) {
	var puts, deletes []core.Record
	if d.Tally != nil {
		if puts, deletes, err = d.Tally.Without(list); err != nil {
			return 0, err
		}
	}
	ids := make([]core.CallID, len(list))
	for i, r := range list {
		ids[i] = r.ID
	}
	err = d.Book.Erase(ids, puts, deletes)
	if isKind(err, core.TooLarge) && len(list) > 1 {
		return d.eraseGroup(list[:len(list)/2])
	}
	return len(list), err
}

// purging is a line of the answer to POST receipts/purge.
type purging struct {
	Doing string `json:"doing,omitempty"`
	Done  bool   `json:"done,omitempty"`
	Error string `json:"error,omitempty"`
	Hint  string `json:"hint,omitempty"`
}

// purgeReceipts drops what was erased from all files, and says meanwhile what it does.
func (d *Desk) purgeReceipts(r *http.Request) (any, error) {
	return streamed{"application/jsonl", func(w io.Writer) error {
		say := func(p purging) error {
			text, err := json.Marshal(p)
			if err == nil {
				_, err = w.Write(append(text, '\n'))
			}
			if f, ok := w.(interface{ Flush() }); ok && err == nil {
				f.Flush()
			}
			return err
		}
		var gone error // whoever asked
		err := d.Book.Purge(r.Context(), func(text string) { gone = errors.Join(gone, say(purging{Doing: text})) })
		if gone != nil {
			return gone
		}
		var e *core.Error
		switch {
		case errors.As(err, &e):
			return say(purging{Error: e.Msg, Hint: e.Hint})
		case err != nil:
			return err
		}
		return say(purging{Done: true})
	}}, nil
}

// EraseReceipts erases what one call may; where the answer has Next there is more.
func (c *Client) EraseReceipts(ctx context.Context, e Erasure) (Erased, error) {
	return post[Erased](ctx, c, "receipts/erase", e)
}

// PurgeReceipts drops what was erased from all files of the data folder.
func (c *Client) PurgeReceipts(ctx context.Context, doing func(string)) error {
	resp, err := c.open(ctx, http.MethodPost, "receipts/purge", nil, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	dec := json.NewDecoder(resp.Body)
	for {
		var p purging
		if err := dec.Decode(&p); err != nil {
			return c.failed(err)
		}
		switch {
		case p.Error != "":
			return &core.Error{Kind: core.Unavailable, Msg: p.Error, Hint: p.Hint}
		case p.Done:
			return nil
		}
		doing(p.Doing)
	}
}
