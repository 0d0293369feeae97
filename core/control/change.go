package control

import (
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"headway/core"
	"headway/core/ledger"
)

// change makes one change beside the file: edit changes a copy of what was made,
// keep writes it down. What edit leads to is tried first, so that nothing is
// kept that cannot be in force.
func (d *Desk) change(edit func(made) error, keep func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.force.Load()
	m := now.made.clone()
	if err := edit(m); err != nil {
		return err
	}
	s, err := d.build(now.file, m)
	if err != nil {
		return err
	}
	if err := keep(); err != nil {
		return err
	}
	d.install(s)
	return nil
}

// fromFile is the error for an edit of what the file says.
func fromFile(what string, id string) error {
	e := conflict("%s %q is from the file and cannot be changed here", what, id)
	e.Hint = "change it in the file and apply that"
	return e
}

func unknown(what, id string) error { return core.Errorf(core.NotFound, "there is no %s %q", what, id) }

// addProvider makes a provider of a posted body; replace says that one of that
// id must be there already.
func (d *Desk) addProvider(body []byte, replace core.ProviderID) (core.ProviderID, error) {
	p, offers, err := d.Parse.Provider(body)
	if err != nil {
		return "", err
	}
	if replace != "" && p.ID != replace {
		return "", core.Field("providers.id", "is not %q, the provider of this path", replace)
	}
	err = d.change(func(m made) error {
		had := m.providers[p.ID] != nil
		switch {
		case d.inFile(p.ID):
			return fromFile("provider", string(p.ID))
		case had && replace == "":
			e := conflict("there is a provider %q already", p.ID)
			e.Hint = "PUT replaces it"
			return e
		case !had && replace != "":
			return unknown("provider", string(p.ID))
		}
		m.providers[p.ID], m.bundled[p.ID] = p, offers
		return nil
	}, func() error {
		return d.Vault.Put(vaultProvider, string(p.ID), d.sealer.Seal(vaultProvider+"/"+string(p.ID), body))
	})
	return p.ID, err
}

func (d *Desk) inFile(id core.ProviderID) bool {
	return slices.ContainsFunc(d.force.Load().file.Providers, func(p *core.Provider) bool { return p.ID == id })
}

func (d *Desk) deleteProvider(id core.ProviderID) error {
	return d.change(func(m made) error {
		if d.inFile(id) {
			return fromFile("provider", string(id))
		}
		if m.providers[id] == nil {
			return unknown("provider", string(id))
		}
		for offer, o := range m.offers {
			if o.provider == id {
				e := conflict("provider %q still has the offer %q", id, offer)
				e.Hint = "delete its offers first"
				return e
			}
		}
		delete(m.providers, id)
		delete(m.bundled, id)
		return nil
	}, func() error { return d.Vault.Delete(vaultProvider, string(id)) })
}

// addOffer makes an offer of a posted body, of a provider of the file or of one
// that was made.
func (d *Desk) addOffer(body []byte) (core.OfferID, error) {
	of, err := d.Parse.OfferOf(body)
	if err != nil {
		return "", err
	}
	var o *core.Offer
	err = d.change(func(m made) error {
		p := d.provider(of)
		if p == nil {
			return core.Field("offers.provider", "there is no provider %q", of)
		}
		if o, err = d.Parse.Offer(body, p); err != nil {
			return err
		}
		if d.Gateway.Setup().Catalogue.Offer(o.ID) != nil {
			e := conflict("there is an offer %q already", o.ID)
			e.Hint = "give it another id"
			return e
		}
		m.offers[o.ID] = madeOffer{of, body}
		return nil
	}, func() error {
		return d.Vault.Put(vaultOffer, string(o.ID), d.sealer.Seal(vaultOffer+"/"+string(o.ID), body))
	})
	if err != nil {
		return "", err
	}
	return o.ID, nil
}

// provider is one that is configured, or nil.
func (d *Desk) provider(id core.ProviderID) *core.Provider {
	f := d.force.Load()
	if p := f.made.providers[id]; p != nil {
		return p
	}
	for _, p := range f.file.Providers {
		if p.ID == id {
			return p
		}
	}
	return nil
}

// madeAlone tells whether an offer was posted on its own.
func (d *Desk) madeAlone(id core.OfferID) bool {
	_, ok := d.force.Load().made.offers[id]
	return ok
}

func (d *Desk) deleteOffer(id core.OfferID) error {
	return d.change(func(m made) error {
		if _, ok := m.offers[id]; ok {
			delete(m.offers, id)
			return nil
		}
		e := d.Gateway.Setup().Catalogue.Offer(id)
		switch {
		case e == nil:
			return unknown("offer", string(id))
		case e.Offer.Provider.FromFile:
			return fromFile("offer", string(id))
		}
		err := conflict("offer %q was made as a part of its provider", id)
		err.Hint = "replace the provider " + string(e.Offer.Provider.ID) + " by one without it"
		return err
	}, func() error {
		if err := d.Vault.Delete(vaultPause, string(id)); err != nil {
			return err
		}
		return d.Vault.Delete(vaultOffer, string(id))
	})
}

// pause keeps an offer out until resume, over restarts too.
func (d *Desk) pause(id core.OfferID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.Gateway.Setup().Catalogue.Offer(id)
	if e == nil {
		return unknown("offer", string(id))
	}
	if err := d.Vault.Put(vaultPause, string(id), nil); err != nil {
		return err
	}
	e.State.Pause()
	return nil
}

// resume ends every pause of an offer, its provider's among them.
func (d *Desk) resume(id core.OfferID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.Gateway.Setup().Catalogue.Offer(id)
	if e == nil {
		return unknown("offer", string(id))
	}
	if err := d.Vault.Delete(vaultPause, string(id)); err != nil {
		return err
	}
	e.Resume()
	return nil
}

// addKey makes a key of a posted body. Its text is in what is returned, and
// nowhere else from then on.
func (d *Desk) addKey(body []byte) (core.KeyID, core.Secret, error) {
	k, secret, err := d.Parse.Key(body)
	if err != nil {
		return "", secret, err
	}
	err = d.changeKey(func() (*core.Key, error) {
		id, text := ledger.NewSecret()
		for d.hasKey(core.KeyID(id)) {
			id, text = ledger.NewSecret()
		}
		if secret.Empty() {
			secret = core.NewSecret(text)
		}
		k.ID, k.Hash, k.CreatedAt = core.KeyID(id), d.Pepper.Hash(secret.Reveal()), core.Some(d.Clock().UTC())
		return k, nil
	})
	return k.ID, secret, err
}

func (d *Desk) hasKey(id core.KeyID) bool {
	return slices.ContainsFunc(d.force.Load().keys, func(k *core.Key) bool { return k.ID == id })
}

// changeKey puts the key in force that edit gives.
func (d *Desk) changeKey(edit func() (*core.Key, error)) error {
	var k *core.Key
	return d.change(func(m made) (err error) {
		if k, err = edit(); err != nil {
			return err
		}
		m.keys[k.ID] = k
		return nil
	}, func() error {
		value, err := json.Marshal(storedKey{*k, hex.EncodeToString(k.Hash[:])})
		if err != nil {
			return err
		}
		return d.Vault.Put(vaultKey, string(k.ID), value)
	})
}

// madeKey is a key that may be changed.
func (d *Desk) madeKey(id core.KeyID) (*core.Key, error) {
	f := d.force.Load()
	if k := f.made.keys[id]; k != nil {
		return k, nil
	}
	if slices.ContainsFunc(f.file.Keys, func(c Credential) bool { return c.ID == id }) {
		return nil, fromFile("key", string(id))
	}
	return nil, unknown("key", string(id))
}

// setKey changes the fields of a key that a body names; null takes one away.
func (d *Desk) setKey(id core.KeyID, body []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil || fields == nil {
		return core.Field("keys", "want a JSON object of the fields to change")
	}
	if _, ok := fields["key"]; ok {
		e := core.Field("keys.key", "the text of a key cannot be changed")
		e.Hint = "make another key and revoke this one"
		return e
	}
	return d.changeKey(func() (*core.Key, error) {
		old, err := d.madeKey(id)
		if err != nil {
			return nil, err
		}
		if old.Revoked {
			return nil, conflict("key %q is revoked", id)
		}
		is, err := keyFields(old)
		if err != nil {
			return nil, err
		}
		maps.Copy(is, fields)
		whole, err := json.Marshal(is)
		if err != nil {
			return nil, err
		}
		k, _, err := d.Parse.Key(whole)
		if err != nil {
			return nil, err
		}
		k.ID, k.Hash, k.CreatedAt = old.ID, old.Hash, old.CreatedAt
		return k, nil
	})
}

// keyFields are the fields of a key under the names of the file.
func keyFields(k *core.Key) (map[string]json.RawMessage, error) {
	plain := *k
	plain.ID, plain.FromFile, plain.Revoked, plain.CreatedAt = "", false, false, core.Opt[time.Time]{}
	text, err := json.Marshal(plain)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	err = json.Unmarshal(text, &fields)
	delete(fields, "id")
	return fields, err
}

// revokeKey ends a key for good; it stays listed, for what it has spent.
func (d *Desk) revokeKey(id core.KeyID) error {
	return d.changeKey(func() (*core.Key, error) {
		old, err := d.madeKey(id)
		if err != nil {
			return nil, err
		}
		k := *old
		k.Revoked = true
		return &k, nil
	})
}
