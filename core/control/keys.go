package control

import (
	"cmp"
	"net/http"
	"slices"

	"headway/core"
)

// Key is one item of the keys.
type Key struct {
	core.Key
	State string     `json:"state"` // active, expired or revoked
	Spend core.Money `json:"spend_usd"`
	// Text is the key itself, in the answer that made it and nowhere else.
	Text string `json:"key,omitempty"`
}

func (d *Desk) keyView(k *core.Key) Key {
	v := Key{Key: *k, State: "active", Spend: d.Accounts.Of(k.ID)}
	switch {
	case k.Revoked:
		v.State = "revoked"
	case expired(k.ExpiresAt, d.Clock()):
		v.State = "expired"
	}
	return v
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
	id, secret, err := d.addKey(body)
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
	if err := d.setKey(id, body); err != nil {
		return nil, err
	}
	return d.key(id)
}

func (d *Desk) dropKey(r *http.Request) (any, error) {
	id := core.KeyID(r.PathValue("id"))
	if err := d.revokeKey(id); err != nil {
		return nil, err
	}
	return d.key(id)
}
