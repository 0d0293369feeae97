package control

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"reflect"
	"slices"
	"strings"

	"headway/core"
)

// fields are an object under the names of the file, without its secrets.
type fields map[string]any

// object is a thing that is configured, as the audit log compares it.
type object struct {
	Fields fields `json:"fields"`
	// Secrets tells by a field's name which secret it has: keyed hashes, so that a
	// change is noticed. They are in the vault alone, in no entry.
	Secrets map[string]string `json:"secrets,omitempty"`
}

// readFields reads what Parse shows.
func readFields(text json.RawMessage) fields {
	f := fields{}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&f); err != nil || f == nil { // it is always an object of our own
		return fields{}
	}
	return f
}

// secret notes a secret of a field, where there is one.
func (d *Desk) secret(o *object, name, text string) {
	if text == "" {
		return
	}
	sum := d.Pepper.Hash("headway: a secret of the configuration\n" + text)
	if o.Secrets == nil {
		o.Secrets = map[string]string{}
	}
	o.Secrets[name] = hex.EncodeToString(sum[:8])
}

func (d *Desk) providerObject(p *core.Provider, offers []*core.Offer) object {
	o := object{Fields: readFields(d.Parse.ProviderObject(p))}
	if len(offers) > 0 {
		of := fields{}
		for _, one := range offers {
			of[string(one.ID)] = map[string]any(readFields(d.Parse.OfferObject(one)))
		}
		o.Fields["offers"] = map[string]any(of)
	}
	d.secret(&o, "api_key", p.APIKey.Reveal())
	d.secret(&o, "secret_access_key", p.SecretKey.Reveal())
	d.secret(&o, "session_token", p.SessionToken.Reveal())
	var headers strings.Builder
	for _, name := range slices.Sorted(maps.Keys(p.Headers)) {
		fmt.Fprintf(&headers, "%q:%q\n", name, p.Headers[name].Reveal())
	}
	d.secret(&o, "headers", headers.String())
	return o
}

func (d *Desk) offerObject(of *core.Offer) object {
	return object{Fields: readFields(d.Parse.OfferObject(of))}
}

func (d *Desk) keyObject(k *core.Key) object {
	return object{Fields: readFields(d.Parse.KeyObject(k))}
}

// longestSide is what one side of an entry may have in bytes. Of a longer one the
// fields over longestField are told by their length and a sum alone.
const (
	longestSide  = 64 << 10
	longestField = 1 << 10
)

func (f fields) text() json.RawMessage {
	text, err := json.Marshal(f)
	if len(text) > longestSide {
		text, err = json.Marshal(f.short())
	}
	if err != nil {
		return nil // texts, numbers, lists and mappings: it cannot fail
	}
	return text
}

// short is the same with its long fields cut out.
func (f fields) short() fields {
	out := fields{}
	for name, v := range f {
		text, err := json.Marshal(v)
		if err == nil && len(text) > longestField {
			v = fmt.Sprintf("… %d bytes, sum %08x", len(text), crc32.ChecksumIEEE(text))
		}
		out[name] = v
	}
	return out
}

// kept is an object within the bounds of a record.
func (o object) kept() object {
	o.Fields = readFields(o.Fields.text())
	return o
}

// made, gone and changed give an entry its sides; false: nothing differs.
func (e Entry) made(o object) Entry {
	e.After = o.Fields.text()
	return e
}

func (e Entry) gone(o object) Entry {
	e.Before = o.Fields.text()
	return e
}

func (e Entry) changed(before, after object) (Entry, bool) {
	b, a := differ(before.Fields, after.Fields)
	for _, name := range slices.Sorted(maps.Keys(before.Secrets)) {
		if before.Secrets[name] != after.Secrets[name] {
			b[name] = before.Fields[name]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after.Secrets)) {
		if before.Secrets[name] != after.Secrets[name] {
			a[name] = after.Fields[name]
		}
	}
	e.Before, e.After = b.text(), a.text()
	return e, len(b)+len(a) > 0
}

// differ cuts two objects down to what differs between them.
func differ(before, after map[string]any) (b, a fields) {
	b, a = fields{}, fields{}
	for name, v := range before {
		w, both := after[name]
		vm, vok := v.(map[string]any)
		wm, wok := w.(map[string]any)
		switch {
		case !both:
			b[name] = v
		case vok && wok:
			if x, y := differ(vm, wm); len(x)+len(y) > 0 {
				b[name], a[name] = map[string]any(x), map[string]any(y)
			}
		case !reflect.DeepEqual(v, w):
			b[name], a[name] = v, w
		}
	}
	for name, w := range after {
		if _, both := before[name]; !both {
			a[name] = w
		}
	}
	return b, a
}
