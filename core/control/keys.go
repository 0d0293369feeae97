package control

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
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
	// Notes are advice on what is allowed and likely not meant, in the answer to what
	// made or changed it.
	Notes []string `json:"notes,omitempty"`
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
	v.Text, v.Notes = secret.Reveal(), d.keyNotes(&v.Key, body)
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
	v, err := d.key(id)
	v.Notes = d.keyNotes(&v.Key, body)
	return v, err
}

// keyNotes says which names of the key's lists that a body sets no offer has, and
// that a time which it sets is past. One that is blocked need not be served: only one
// that is nearly served is likely misspelt, and then blocks nothing.
func (d *Desk) keyNotes(k *core.Key, body []byte) (notes []string) {
	var set map[string]json.RawMessage
	_ = json.Unmarshal(body, &set) // it has been read before
	s := d.Gateway.Setup()
	for _, l := range [...]struct {
		field string
		names []core.Model
	}{{"models", k.Models}, {"allow_models", k.AllowModels}, {"block_models", k.BlockModels}} {
		if _, ok := set[l.field]; !ok {
			continue
		}
		blocks := l.field == "block_models"
		for _, name := range l.names {
			if name == core.AutoModel {
				if !blocks {
					notes = append(notes, l.field+": auto is no model and opens nothing: name those models of routing.auto that may be used")
				}
				continue
			}
			near := s.Catalogue.Near(name, nil, nil)
			if len(s.Catalogue.Lookup(name)) > 0 || blocks && len(near) == 0 {
				continue
			}
			note := fmt.Sprintf("%s: no offer has %q now", l.field, shorten(string(name)))
			for i, n := range near {
				note += [...]string{"; did you mean ", ", ", ", "}[i] + strconv.Quote(string(n))
			}
			if len(near) > 0 {
				note += "?"
			}
			notes = append(notes, note)
		}
	}
	if len(notes) > 0 && !k.Revoked && len(s.Catalogue.Models(k, &s.Settings.Routing)) == 0 {
		notes = append(notes, "the key can use no model as it is")
	}
	if _, ok := set["expires_at"]; ok && expired(k.ExpiresAt, d.Clock()) {
		notes = append(notes, "expires_at: "+k.ExpiresAt.V.Format(time.RFC3339)+" is past: calls with this key get 401 from now on")
	}
	return notes
}

func (d *Desk) dropKey(r *http.Request) (any, error) {
	id := core.KeyID(r.PathValue("id"))
	if err := d.revokeKey(whoOf(r), id); err != nil {
		return nil, err
	}
	return d.key(id)
}
