package control

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"headway/core"
)

// What a file said when it was last in force is kept in the vault, a record for
// each provider, offer, key and group of settings, and one for each script, so
// that the audit log can say what was changed in files while no server ran.

// thing names an object of a file: "key/ci", "settings/routing".
type thing string

func thingOf(kind, id string) thing { return thing(kind + "/" + id) }

const (
	settingsKind = "settings"
	scriptKind   = "script"
)

// things are all that a file configures.
func (d *Desk) things(c *Config) map[thing]object {
	all := map[thing]object{}
	for name, text := range c.Groups {
		all[thingOf(settingsKind, name)] = object{Fields: readFields(text)}
	}
	for _, p := range c.Providers {
		all[thingOf(vaultProvider, string(p.ID))] = d.providerObject(p, nil)
	}
	for _, o := range c.Offers {
		all[thingOf(vaultOffer, string(o.ID))] = d.offerObject(o)
	}
	for i := range c.Keys {
		k := &c.Keys[i]
		o := d.keyObject(&k.Key)
		o.Fields["key"] = k.Secret.String()
		d.secret(&o, "key", k.Secret.Reveal())
		all[thingOf(vaultKey, string(k.ID))] = o
	}
	return all
}

// applied reads what the last file said, or what the scripts were when they were
// last looked at.
func (d *Desk) applied(scripts bool) (map[thing]object, error) {
	all := map[thing]object{}
	var bad error
	err := d.Vault.All(vaultApplied, func(name string, value []byte) bool {
		if strings.HasPrefix(name, scriptKind+"/") != scripts {
			return true
		}
		var o object
		dec := json.NewDecoder(strings.NewReader(string(value)))
		dec.UseNumber()
		if bad = dec.Decode(&o); bad != nil {
			bad = fmt.Errorf("what the last file said of %s cannot be read: %w", name, bad)
		}
		all[thing(name)] = o
		return bad == nil
	})
	return all, errors.Join(err, bad)
}

// fileChange is one difference between two files.
type fileChange struct {
	entry Entry
	put   *core.Record // what is to be kept of the file in force …
	undo  *core.Record // … in the place of this; nil: of nothing
	name  string
}

// fileChanges are the differences between what was last in force and what is now.
func (d *Desk) fileChanges(old, is map[thing]object, e Entry) (changes []fileChange, err error) {
	for name := range is {
		if _, there := old[name]; !there {
			old[name] = object{}
		}
	}
	for name, before := range old {
		after, there := is[name]
		kind, id, _ := strings.Cut(string(name), "/")
		ch := fileChange{entry: e, name: string(name)}
		ch.entry.Action, ch.entry.Target = kind+".set", id
		fresh := before.Fields == nil
		if !fresh {
			if ch.undo, err = d.appliedRecord(name, before); err != nil {
				return nil, err
			}
		}
		differs := true
		after = after.kept()
		switch {
		case kind == settingsKind:
			ch.entry.Action = "config.apply"
			if fresh {
				before = object{Fields: readFields(d.Parse.Groups[id])}
			}
			ch.entry, differs = ch.entry.changed(before, after)
		case !there:
			ch.entry.Action = kind + ".delete"
			ch.entry = ch.entry.gone(before)
		case fresh:
			ch.entry.Action = kind + ".create"
			ch.entry = ch.entry.made(after)
		default:
			if kind == vaultProvider {
				ch.entry.Action = kind + ".replace"
			}
			ch.entry, differs = ch.entry.changed(before, after)
		}
		if !differs {
			continue
		}
		if there {
			if ch.put, err = d.appliedRecord(name, after); err != nil {
				return nil, err
			}
		}
		changes = append(changes, ch)
	}
	order := []string{settingsKind, vaultProvider, vaultOffer, vaultKey}
	slices.SortFunc(changes, func(a, b fileChange) int {
		place := func(c fileChange) int {
			kind, _, _ := strings.Cut(c.name, "/")
			return slices.Index(order, kind)
		}
		return cmp.Or(place(a)-place(b), cmp.Compare(a.name, b.name))
	})
	return changes, nil
}

func (d *Desk) appliedRecord(name thing, o object) (*core.Record, error) {
	value, err := json.Marshal(o)
	return &core.Record{Kind: vaultApplied, Name: string(name), Value: value}, err
}

// One write of the vault takes this much of a file's changes.
const (
	mostChanges     = 350
	mostChangeBytes = 300 << 10
)

// recordFile writes what a file changes into the audit log. More than one write
// takes goes in several; where one of them fails, those before are taken back.
func (d *Desk) recordFile(changes []fileChange) error {
	start := *d.audit
	for done := 0; done < len(changes); {
		var puts, deletes []core.Record
		var entries []Entry
		size, to := 0, done
		for ; to < len(changes) && to-done < mostChanges && (size < mostChangeBytes || to == done); to++ {
			c := &changes[to]
			size += len(c.entry.Before) + len(c.entry.After) + 2*len(c.name) + 400
			if c.put != nil {
				size += len(c.put.Value)
				puts = append(puts, *c.put)
			} else {
				deletes = append(deletes, core.Record{Kind: vaultApplied, Name: c.name})
			}
			entries = append(entries, c.entry)
		}
		if err := d.audit.write(puts, deletes, entries...); err != nil {
			d.takeBack(changes[:done], start)
			return err
		}
		for i := range entries {
			changes[done+i].entry.ID = entries[i].ID
		}
		done = to
	}
	return nil
}

// takeBack undoes what recordFile wrote.
func (d *Desk) takeBack(changes []fileChange, start auditLog) {
	end, err := endRecord(start.last, start.number)
	for done := 0; done < len(changes) && err == nil; {
		puts, deletes := []core.Record{end}, []core.Record(nil)
		for size := 0; done < len(changes) && len(puts)+len(deletes) < 2*mostChanges && size < mostChangeBytes; done++ {
			c := &changes[done]
			deletes = append(deletes, core.Record{Kind: vaultAudit, Name: string(c.entry.ID)})
			if c.undo != nil {
				puts = append(puts, *c.undo)
				size += len(c.undo.Value)
			} else {
				deletes = append(deletes, core.Record{Kind: vaultApplied, Name: c.name})
			}
			size += 2*len(c.name) + 100
		}
		err = d.Vault.Write(puts, deletes)
	}
	if err = errors.Join(err, d.audit.ends()); err != nil {
		d.Log.Error("the audit log has entries of a file that is not in force", "error", err)
	}
}

// lookAtScripts writes into the audit log which scripts were changed.
func (d *Desk) lookAtScripts() error {
	if d.Scripts == nil {
		return nil
	}
	is, sums := map[thing]object{}, map[string]string{}
	for _, s := range d.Scripts.List() {
		state := core.ScriptActive // that it was set aside is nobody's change
		if s.State == core.ScriptRefused {
			state = s.State
		}
		is[thingOf(scriptKind, s.Name)] = object{Fields: fields{"sha256": s.Sum, "state": state}}
		sums[s.Name] = state + s.Sum
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sums != nil && maps.Equal(sums, d.sums) {
		return nil
	}
	old, err := d.applied(true)
	if err != nil {
		return err
	}
	changes, err := d.fileChanges(old, is, Entry{Who: whoFile})
	if err == nil {
		err = d.recordFile(changes)
	}
	if err == nil {
		d.sums = sums
	}
	return err
}
