package control

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"headway/core"
)

// Key is one item of the keys.
type Key struct {
	core.Key
	State    string     `json:"state"` // active, expired or revoked
	Spend    core.Money `json:"spend_usd"`
	Reserved core.Money `json:"reserved_usd"` // by calls whose receipt is not durable yet
	Budget   []Budget   `json:"budget,omitempty"`
	// Text is the key itself, in the answer that made it and nowhere else.
	Text string `json:"key,omitempty"`
}

// Budget is how a key stands with one of its budgets.
type Budget struct {
	Period   string     `json:"period"` // day, week or month
	Limit    core.Money `json:"limit_usd"`
	Spent    core.Money `json:"spent_usd"` // in this period
	Reserved core.Money `json:"reserved_usd"`
	Left     core.Money `json:"left_usd"` // never below 0
	// Over is what was spent above the limit: an upstream reported more than a call
	// had set aside, or the limit was lowered.
	Over   core.Opt[core.Money] `json:"over_usd,omitzero"`
	Renews time.Time            `json:"renews_at"` // UTC
}

func (d *Desk) keyView(k *core.Key) Key {
	at := d.Accounts.Standing(k, d.Clock())
	v := Key{Key: *k, State: d.stateOf(k), Spend: at.Spend, Reserved: at.Reserved}
	for _, b := range at.Budgets {
		view := Budget{Period: b.Period, Limit: b.Limit, Spent: b.Spent, Reserved: b.Reserved, Left: b.Left, Renews: b.Renews.UTC()}
		if b.Spent > b.Limit {
			view.Over = core.Some(b.Spent - b.Limit)
		}
		v.Budget = append(v.Budget, view)
	}
	return v
}

// stateOf says whether a key can be used.
func (d *Desk) stateOf(k *core.Key) string {
	switch {
	case k.Revoked:
		return "revoked"
	case expired(k.ExpiresAt, d.Clock()):
		return "expired"
	}
	return "active"
}

func (d *Desk) listKeys(r *http.Request) (any, error) {
	var all []Key
	for _, k := range d.force.Load().keys {
		all = append(all, d.keyView(k))
	}
	slices.SortFunc(all, func(a, b Key) int { return cmp.Compare(a.ID, b.ID) })
	return page(r, all, func(k Key) string { return string(k.ID) })
}

func (d *Desk) key(id core.KeyID) (Key, error) {
	for _, k := range d.force.Load().keys {
		if k.ID == id {
			return d.keyView(k), nil
		}
	}
	return Key{}, unknown("key", shorten(string(id)))
}

func (d *Desk) getKey(r *http.Request) (any, error) { return d.key(core.KeyID(r.PathValue("id"))) }

func (d *Desk) postKey(r *http.Request) (any, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	id, secret, err := d.addKey(whoOf(r), body)
	if err != nil {
		return nil, err
	}
	v, err := d.key(id)
	v.Text = secret.Reveal()
	return made201{v}, err
}

func (d *Desk) patchKey(r *http.Request) (any, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	id := core.KeyID(r.PathValue("id"))
	if err := d.setKey(whoOf(r), id, body); err != nil {
		return nil, err
	}
	return d.key(id)
}

func (d *Desk) dropKey(r *http.Request) (any, error) {
	id := core.KeyID(r.PathValue("id"))
	if err := d.revokeKey(whoOf(r), id); err != nil {
		return nil, err
	}
	return d.key(id)
}
