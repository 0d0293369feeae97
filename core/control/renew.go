package control

import (
	"context"
	"net/http"
)

// renewReceipts begins another signed log behind one that is not as it was signed.
func (d *Desk) renewReceipts(r *http.Request) (any, error) {
	s, err := d.receiptLog()
	if err != nil {
		return nil, err
	}
	if s.Held() == nil {
		return nil, conflict("the signed log is gone on with: there is nothing to renew")
	}
	err = d.change(whoOf(r), func(made) (step, error) {
		entry, _ := Entry{Action: "receipts.renew", Target: "receipts"}.changed(
			object{Fields: fields{"log": "held"}}, object{Fields: fields{"log": "renewed"}})
		return step{entry: entry}, nil
	})
	if err != nil {
		return nil, err
	}
	if err := s.Renew(); err != nil {
		return nil, err
	}
	return d.receiptLogStatus(), nil
}

// RenewReceipts begins another signed log where the one there was is damaged.
func (c *Client) RenewReceipts(ctx context.Context) error {
	return c.do(ctx, http.MethodPost, "receipts/renew", nil, nil, &ReceiptLogStatus{})
}
