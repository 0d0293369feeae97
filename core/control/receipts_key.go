package control

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"headway/core"
	"headway/core/seal"
)

// NewReceiptKey is the answer to POST receipts/rotate.
type NewReceiptKey struct {
	Old string `json:"old_key"`
	New string `json:"new_key"`
	// OldUntil is when the old one stops signing beside the new one.
	OldUntil time.Time `json:"old_signs_until"` // UTC
}

// mostSigning bounds the keys that sign at once: a checkpoint's file has a place for
// some twenty.
const mostSigning = 8

// rotateReceipts makes a new key for the signed log. The log itself introduces it.
func (d *Desk) rotateReceipts(r *http.Request) (any, error) {
	s, err := d.receiptLog()
	if err != nil {
		return nil, err
	}
	if !d.erasing.TryLock() {
		return nil, core.Errorf(core.Busy, "receipts are erased, or another key is made: ask again once that is done")
	}
	defer d.erasing.Unlock()
	keys := s.Keys()
	old := keys[len(keys)-1]
	if n := s.Signing(); n >= mostSigning {
		e := core.Errorf(core.Invalid, "%d keys sign already", n)
		e.Hint = "each signs until the month after the one in which it was replaced is over"
		return nil, e
	}
	if err := d.Book.Healthy(); err != nil {
		return nil, err // the audit log could not be told
	}
	s.Rotate()
	tick := time.NewTicker(erasePoll)
	defer tick.Stop()
	late := time.NewTimer(eraseWait)
	defer late.Stop()
	for {
		if now := s.Keys(); len(now) > len(keys) {
			keys = now
			break
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		case <-late.C:
			e := core.Errorf(core.Unavailable, "the log is not written now: the new key is made once it is")
			e.Hint = "headway status says what is wrong with it; headway receipts list shows the key"
			return nil, e
		}
	}
	now := d.Clock().UTC()
	v := NewReceiptKey{old.String(), keys[len(keys)-1].String(), time.Date(now.Year(), now.Month()+2, 1, 0, 0, 0, 0, time.UTC)}
	entry := Entry{Action: "receipts.rotate", Target: "receipts"}
	entry.Before, _ = json.Marshal(map[string]string{"key": v.Old})
	entry.After, _ = json.Marshal(map[string]string{"key": v.New})
	if err := d.note(r, entry); err != nil {
		e := core.Errorf(core.Unavailable, "the new key signs, and the audit log could not be told")
		e.Err = err
		return nil, e
	}
	return v, nil
}

// Opening shows whose call a leaf of the signed log is of.
type Opening struct {
	ID    core.CallID `json:"id"`
	Log   seal.Month  `json:"log"`
	Index uint64      `json:"index"`
	seal.Opening
}

func (d *Desk) openReceipt(r *http.Request) (any, error) {
	s, err := d.receiptLog()
	if err != nil {
		return nil, err
	}
	id := core.CallID(r.PathValue("id"))
	at, receipt, err := d.leafOf(id)
	if err != nil {
		return nil, err
	}
	if receipt == nil {
		return nil, core.Errorf(core.NotFound, "the receipt of call %s is gone: whose its leaf is cannot be shown any more", id)
	}
	o, err := s.Reveal(at, receipt)
	return Opening{id, at.Month, at.Index, o}, err
}

// RotateReceipts makes a new key for the signed log.
func (c *Client) RotateReceipts(ctx context.Context) (NewReceiptKey, error) {
	return post[NewReceiptKey](ctx, c, "receipts/rotate", nil)
}

// OpenReceipt gives the opening of a receipt's leaf.
func (c *Client) OpenReceipt(ctx context.Context, id string) (Opening, error) {
	return get[Opening](ctx, c, "receipts/"+url.PathEscape(id)+"/opening", nil)
}
