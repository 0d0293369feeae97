package control

import (
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"headway/core"
	"headway/core/ledger"
	"headway/core/market"
)

// addKey makes a key of a posted body. Its text is in what is returned, and
// nowhere else from then on.
func (d *Desk) addKey(who string, body []byte) (core.KeyID, core.Secret, error) {
	k, secret, err := d.Parse.Key(body)
	if err != nil {
		return "", secret, err
	}
	err = d.changeKey(who, "key.create", func() (_, _ *core.Key, err error) {
		id, text := ledger.NewSecret()
		for d.hasKey(core.KeyID(id)) {
			id, text = ledger.NewSecret()
		}
		if secret.Empty() {
			secret = core.NewSecret(text)
		}
		k.ID, k.Hash, k.CreatedAt = core.KeyID(id), d.Pepper.Hash(secret.Reveal()), core.Some(d.Clock().UTC())
		return nil, k, d.checkStrategy(k)
	})
	return k.ID, secret, err
}

func (d *Desk) hasKey(id core.KeyID) bool {
	return slices.ContainsFunc(d.force.Load().keys, func(k *core.Key) bool { return k.ID == id })
}

// changeKey puts the key in force that edit gives, in the place of the one before,
// where there was one.
func (d *Desk) changeKey(who, action string, edit func() (old, k *core.Key, err error)) error {
	return d.change(who, func(m made) (step, error) {
		old, k, err := edit()
		if err != nil {
			return step{}, err
		}
		m.keys[k.ID] = k
		value, err := json.Marshal(storedKey{*k, hex.EncodeToString(k.Hash[:])})
		if err != nil {
			return step{}, err
		}
		st := step{puts: []core.Record{{Kind: vaultKey, Name: string(k.ID), Value: value}}}
		entry := Entry{Action: action, Target: string(k.ID), Name: k.Name}
		if old == nil {
			st.entry = entry.made(d.keyObject(k))
			return st, nil
		}
		was, is := d.keyObject(old), d.keyObject(k)
		if old.Revoked != k.Revoked {
			was.Fields["state"], is.Fields["state"] = d.stateOf(old), d.stateOf(k)
		}
		var differs bool
		if st.entry, differs = entry.changed(was, is); !differs {
			return step{}, nil
		}
		return st, nil
	})
}

// checkStrategy refuses a key whose strategy is neither built in nor a script that
// is there.
func (d *Desk) checkStrategy(k *core.Key) error {
	if _, ok := market.ByName(k.Strategy); ok || k.Strategy == "" || slices.Contains(d.scripts(), k.Strategy) {
		return nil
	}
	e := core.Field("keys.strategy", "%q is no strategy", k.Strategy)
	e.Hint = d.Parse.StrategyHint(d.scripts())
	return e
}

// scripts are the names of the scripts that are there. One that was refused is
// there too: the default ranks until it is mended.
func (d *Desk) scripts() []string {
	if d.Scripts == nil {
		return nil
	}
	var names []string
	for _, s := range d.Scripts.List() {
		names = append(names, s.Name)
	}
	return names
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
func (d *Desk) setKey(who string, id core.KeyID, body []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil || fields == nil {
		return core.Field("keys", "want a JSON object of the fields to change")
	}
	if _, ok := fields["key"]; ok {
		e := core.Field("keys.key", "the text of a key cannot be changed")
		e.Hint = "make another key and revoke this one"
		return e
	}
	return d.changeKey(who, "key.set", func() (_, _ *core.Key, err error) {
		old, err := d.madeKey(id)
		if err != nil {
			return nil, nil, err
		}
		if old.Revoked {
			return nil, nil, conflict("key %q is revoked", id)
		}
		is, err := keyFields(old)
		if err != nil {
			return nil, nil, err
		}
		maps.Copy(is, fields)
		whole, err := json.Marshal(is)
		if err != nil {
			return nil, nil, err
		}
		k, _, err := d.Parse.Key(whole)
		if err != nil {
			return nil, nil, err
		}
		if k.Strategy != old.Strategy { // one that is gone since need not keep other changes out
			err = d.checkStrategy(k)
		}
		k.ID, k.Hash, k.CreatedAt = old.ID, old.Hash, old.CreatedAt
		return old, k, err
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
func (d *Desk) revokeKey(who string, id core.KeyID) error {
	return d.changeKey(who, "key.revoke", func() (_, _ *core.Key, err error) {
		old, err := d.madeKey(id)
		if err != nil {
			return nil, nil, err
		}
		k := *old
		k.Revoked = true
		return old, &k, nil
	})
}
