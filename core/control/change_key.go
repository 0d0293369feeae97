package control

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
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
		if err := d.checkText(k); err != nil {
			return nil, nil, err
		}
		if expired(k.ExpiresAt, d.Clock()) {
			e := core.Field("keys.expires_at", "%s is past", k.ExpiresAt.V.Format(time.RFC3339))
			e.Hint = "the key could never be used: give it a time to come, or none"
			return nil, nil, e
		}
		return nil, k, d.checkStrategy(k)
	})
	return k.ID, secret, err
}

// checkText refuses a new key with the text of one that is there. It is told here and
// not where all keys are joined, which knows the new one by an id that nobody gets.
func (d *Desk) checkText(k *core.Key) error {
	for _, other := range d.force.Load().keys {
		if other.Hash != k.Hash || other.Revoked {
			continue
		}
		called := strconv.Quote(string(other.ID))
		if string(other.ID) != other.Name {
			called += " (" + other.Name + ")"
		}
		e := conflict("key %s has this text already", called)
		e.Hint = "give another text, or none: then one is made"
		return e
	}
	return nil
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

// setKey changes the fields of a key that a body names, and of its price cap and
// labels the members; null takes one away. They are joined here, under the lock, so
// that nobody who changes another member at the same time loses it.
func (d *Desk) setKey(who string, id core.KeyID, body []byte) error {
	fields, err := members("keys", body)
	if err != nil {
		return err
	}
	if fields == nil {
		return core.Field("keys", "want a JSON object of the fields to change")
	}
	inner := map[string]map[string]json.RawMessage{}
	for _, name := range [...]string{fieldPriceCap, fieldLabels} {
		if inner[name], err = members("keys."+name, fields[name]); err != nil {
			return err
		}
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
		was := maps.Clone(is)
		maps.Copy(is, fields)
		for name, set := range inner {
			if set == nil { // it is not named, or null, or what Parse refuses
				continue
			}
			if is[name], err = withMembers(was[name], set, name == fieldLabels); err != nil {
				return nil, nil, err
			}
		}
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

// The fields of a key that are objects, whose members a PATCH changes one by one.
const (
	fieldPriceCap = "price_cap_usd_per_mtok"
	fieldLabels   = "labels"
)

// members are those of a JSON object; nil where the text is none. One that is named
// twice is refused, as in a body that is read whole.
func members(path string, text json.RawMessage) (map[string]json.RawMessage, error) {
	var all map[string]json.RawMessage
	if json.Unmarshal(text, &all) != nil || all == nil {
		return nil, nil
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	_, err := dec.Token() // its {
	seen := map[string]bool{}
	for err == nil && dec.More() {
		var name json.Token
		var value json.RawMessage
		if name, err = dec.Token(); err != nil {
			break
		}
		word, _ := name.(string)
		if seen[word] {
			return nil, core.Field(path+"."+shorten(word), "stands twice in one mapping")
		}
		seen[word] = true
		err = dec.Decode(&value)
	}
	return all, err
}

// withMembers is an object with some members set anew. null takes one away where drop
// says so; else it stays, and Parse takes it as left out, as long as it knows the name.
func withMembers(was json.RawMessage, set map[string]json.RawMessage, drop bool) (json.RawMessage, error) {
	is := map[string]json.RawMessage{}
	if len(was) > 0 {
		if err := json.Unmarshal(was, &is); err != nil {
			return nil, err
		}
	}
	for name, v := range set {
		if drop && string(v) == "null" {
			delete(is, name)
		} else {
			is[name] = v
		}
	}
	return json.Marshal(is)
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
