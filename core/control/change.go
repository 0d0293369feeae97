package control

import (
	"maps"
	"slices"

	"headway/core"
	"headway/core/market"
)

// step is one change: what the vault is to keep of it, and its entry in the audit
// log. One without an action changes nothing.
type step struct {
	puts, deletes []core.Record
	entry         Entry
}

// change makes one change beside the file: edit changes a copy of what was made.
// What it leads to is tried first, so that nothing is kept that cannot be in
// force; what cannot be kept, with its entry in the audit log, does not happen.
func (d *Desk) change(who string, edit func(made) (step, error)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.force.Load()
	m := now.made.clone()
	st, err := edit(m)
	if err != nil || st.entry.Action == "" {
		return err
	}
	s, err := d.build(now.file, m)
	if err != nil {
		return err
	}
	st.entry.Who = who
	if err := d.audit.write(st.puts, st.deletes, st.entry); err != nil {
		return err
	}
	d.install(s)
	return nil
}

// sealed is a record that may hold secrets.
func (d *Desk) sealed(kind, name string, body []byte) core.Record {
	return core.Record{Kind: kind, Name: name, Value: d.sealer.Seal(kind+"/"+name, body)}
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
func (d *Desk) addProvider(who string, body []byte, replace core.ProviderID) (core.ProviderID, error) {
	p, offers, err := d.Parse.Provider(body)
	if err != nil {
		return "", err
	}
	if replace != "" && p.ID != replace {
		return "", core.Field("providers.id", "is not %q, the provider of this path", replace)
	}
	err = d.change(who, func(m made) (step, error) {
		old, had := m.providers[p.ID]
		switch {
		case d.inFile(p.ID):
			return step{}, fromFile("provider", string(p.ID))
		case had && replace == "":
			e := conflict("there is a provider %q already", p.ID)
			e.Hint = "PUT replaces it"
			return step{}, e
		case !had && replace != "":
			return step{}, unknown("provider", string(p.ID))
		}
		st := step{puts: []core.Record{d.sealed(vaultProvider, string(p.ID), body)}}
		is := d.providerObject(p, offers)
		st.entry = Entry{Action: "provider.create", Target: string(p.ID)}.made(is)
		if had {
			var differs bool
			was := d.providerObject(old, m.bundled[p.ID])
			if st.entry, differs = (Entry{Action: "provider.replace", Target: string(p.ID)}).changed(was, is); !differs {
				return step{}, nil
			}
		}
		m.providers[p.ID], m.bundled[p.ID] = p, offers
		return st, nil
	})
	return p.ID, err
}

func (d *Desk) inFile(id core.ProviderID) bool {
	return slices.ContainsFunc(d.force.Load().file.Providers, func(p *core.Provider) bool { return p.ID == id })
}

func (d *Desk) deleteProvider(who string, id core.ProviderID) error {
	return d.change(who, func(m made) (step, error) {
		if d.inFile(id) {
			return step{}, fromFile("provider", string(id))
		}
		if p := d.nodeProvider(id); p != nil {
			return step{}, ofNode("provider", string(id), p.Node)
		}
		if m.providers[id] == nil {
			return step{}, unknown("provider", string(id))
		}
		for offer, o := range m.offers {
			if o.provider == id {
				e := conflict("provider %q still has the offer %q", id, offer)
				e.Hint = "delete its offers first"
				return step{}, e
			}
		}
		entry := Entry{Action: "provider.delete", Target: string(id)}.gone(d.providerObject(m.providers[id], m.bundled[id]))
		delete(m.providers, id)
		delete(m.bundled, id)
		return step{deletes: []core.Record{{Kind: vaultProvider, Name: string(id)}}, entry: entry}, nil
	})
}

// addOffer makes an offer of a posted body, of a provider of the file or of one
// that was made.
func (d *Desk) addOffer(who string, body []byte) (core.OfferID, error) {
	of, err := d.Parse.OfferOf(body)
	if err != nil {
		return "", err
	}
	var o *core.Offer
	err = d.change(who, func(m made) (step, error) {
		p := d.provider(of)
		if p == nil && d.nodeProvider(of) != nil {
			e := conflict("provider %q is a node's", of)
			e.Hint = "what a node offers is said on the node, in the file of its --config"
			return step{}, e
		}
		if p == nil {
			return step{}, core.Field("offers.provider", "there is no provider %q", of)
		}
		if o, err = d.Parse.Offer(body, p); err != nil {
			return step{}, err
		}
		if d.Gateway.Setup().Catalogue.Offer(o.ID) != nil {
			e := conflict("there is an offer %q already", o.ID)
			e.Hint = "give it another id"
			return step{}, e
		}
		m.offers[o.ID] = madeOffer{of, body}
		entry := Entry{Action: "offer.create", Target: string(o.ID)}.made(d.offerObject(o))
		return step{puts: []core.Record{d.sealed(vaultOffer, string(o.ID), body)}, entry: entry}, nil
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

func (d *Desk) deleteOffer(who string, id core.OfferID) error {
	return d.change(who, func(m made) (step, error) {
		e := d.Gateway.Setup().Catalogue.Offer(id)
		if o, ok := m.offers[id]; ok {
			was := object{Fields: readFields(o.body)} // where its provider is not there
			if e != nil {
				was = d.offerObject(e.Offer)
			}
			delete(m.offers, id)
			return step{deletes: []core.Record{{Kind: vaultPause, Name: string(id)}, {Kind: vaultOffer, Name: string(id)}},
				entry: Entry{Action: "offer.delete", Target: string(id)}.gone(was)}, nil
		}
		switch {
		case e == nil:
			return step{}, unknown("offer", string(id))
		case e.Offer.Provider.Node != "":
			return step{}, ofNode("offer", string(id), e.Offer.Provider.Node)
		case e.Offer.Provider.FromFile:
			return step{}, fromFile("offer", string(id))
		}
		err := conflict("offer %q was made as a part of its provider", id)
		err.Hint = "replace the provider " + string(e.Offer.Provider.ID) + " by one without it"
		return step{}, err
	})
}

// pause keeps an offer out until resume, over restarts too.
func (d *Desk) pause(who string, id core.OfferID) error {
	return d.halt(who, id, "offer.pause", func(e *market.Entry, was fields) (step, fields) {
		is := maps.Clone(was)
		is["state"], is["paused_by"] = "paused", "operator"
		return step{puts: []core.Record{{Kind: vaultPause, Name: string(id)}}}, is
	}, func(e *market.Entry) { e.State.Pause() })
}

// resume ends every pause of an offer, its provider's among them.
func (d *Desk) resume(who string, id core.OfferID) error {
	return d.halt(who, id, "offer.resume", func(e *market.Entry, _ fields) (step, fields) {
		return step{deletes: []core.Record{{Kind: vaultPause, Name: string(id)}}}, fields{"state": "active"}
	}, (*market.Entry).Resume)
}

// halt changes how an offer stands: keep says what the vault is to keep, and how
// it stands then. What changes nothing leaves no entry.
func (d *Desk) halt(who string, id core.OfferID, action string, keep func(e *market.Entry, was fields) (step, fields), do func(*market.Entry)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.Gateway.Setup().Catalogue.Offer(id)
	if e == nil {
		return unknown("offer", string(id))
	}
	was := d.stands(e)
	st, is := keep(e, was)
	entry, differs := Entry{Who: who, Action: action, Target: string(id)}.changed(object{Fields: was}, object{Fields: is})
	if differs {
		if err := d.audit.write(st.puts, st.deletes, entry); err != nil {
			return err
		}
	}
	do(e)
	return nil
}

// stands is how an offer stands, for the audit log.
func (d *Desk) stands(e *market.Entry) fields {
	s := e.Status(d.Clock(), d.Gateway.Setup().Settings.Breaker, core.Opt[float64]{})
	if s.OutBy != "" { // which is no operator's to change
		s.State = "active"
	}
	f := fields{"state": s.State}
	if s.PausedBy != "" {
		f["paused_by"] = s.PausedBy
	}
	if s.PausedUntil.OK {
		f["paused_until"] = s.PausedUntil.V
	}
	if s.OutUntil.OK {
		f["out_until"] = s.OutUntil.V
	}
	if s.CountedFailures > 0 {
		f["counted_failures"] = s.CountedFailures
	}
	return f
}
