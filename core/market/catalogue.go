package market

import (
	"maps"
	"slices"
	"strings"

	"headway/core"
)

// Entry is an offer with how it stands. Entries of one offer in successive
// catalogues share their State, and their Account while the credential stays.
type Entry struct {
	Offer   *core.Offer
	State   *State
	Account *Account
	names   []core.Model // every name that clients reach it by
	gone    bool
}

// Acquire takes a place for one call, within the offer's capacity.
func (e *Entry) Acquire() (release func(), ok bool) { return e.State.Acquire(e.Offer.Capacity) }

// Resume ends every pause that keeps the offer out: its own, and its
// provider's, which other offers of that provider then leave too.
func (e *Entry) Resume() {
	e.State.Resume()
	e.Account.Resume()
}

// named tells whether a list of models names the offer.
func (e *Entry) named(list []core.Model) bool {
	for _, m := range list {
		if slices.Contains(e.names, m) {
			return true
		}
	}
	return false
}

// Catalogue is a snapshot of providers, models and offers. It never changes:
// a reload makes another one and swaps it whole.
type Catalogue struct {
	entries []*Entry // in the order of the configuration
	gone    []*Entry // of earlier catalogues, while calls hold them
	byID    map[core.OfferID]*Entry
	byName  map[core.Model][]*Entry
	names   []core.Model // sorted: models and aliases as configured
}

// NewCatalogue makes a catalogue, which keeps the values that it is given: they
// must not change after. From previous (nil: there is none) each offer's State
// goes on by its id, and each provider's Account unless its credential or
// address changed. An id that is there twice, or a provider that is missing, is
// an error (Invalid).
func NewCatalogue(providers []*core.Provider, offers []*core.Offer, previous *Catalogue) (*Catalogue, error) {
	if previous == nil {
		previous = &Catalogue{}
	}
	old := map[core.ProviderID]*Account{}
	for _, e := range previous.entries {
		old[e.Offer.Provider.ID] = e.Account
	}
	accounts := make(map[core.ProviderID]*Account, len(providers))
	for _, p := range providers {
		if accounts[p.ID] != nil {
			return nil, core.Errorf(core.Invalid, "provider %q: the id is there twice", p.ID)
		}
		a := old[p.ID]
		if a == nil || !sameCredential(a.provider, p) {
			a = &Account{provider: p}
		}
		accounts[p.ID] = a
	}
	c := &Catalogue{byID: make(map[core.OfferID]*Entry, len(offers)), byName: map[core.Model][]*Entry{}}
	for _, o := range offers {
		if c.byID[o.ID] != nil {
			err := core.Errorf(core.Invalid, "offer %q: the id is there twice", o.ID)
			err.Hint = "an offer's id is provider/model unless id: sets another"
			return nil, err
		}
		if o.Provider == nil || accounts[o.Provider.ID] == nil {
			return nil, core.Errorf(core.Invalid, "offer %q: its provider is not configured", o.ID)
		}
		e := &Entry{Offer: o, State: &State{}, Account: accounts[o.Provider.ID]}
		if before := previous.any(o.ID); before != nil {
			e.State = before.State
		}
		c.entries = append(c.entries, e)
		c.byID[o.ID] = e
		for _, name := range append([]core.Model{o.Model}, o.Aliases...) {
			c.name(name, e)
		}
	}
	c.names = slices.Sorted(maps.Keys(c.byName))
	c.nameLatest()
	for _, e := range slices.Concat(previous.entries, previous.gone) {
		if c.byID[e.Offer.ID] == nil && e.State.InFlight() > 0 {
			c.gone = append(c.gone, &Entry{Offer: e.Offer, State: e.State, Account: e.Account, gone: true})
		}
	}
	return c, nil
}

// sameCredential: what one of them was refused for, the other would be too.
func sameCredential(a, b *core.Provider) bool {
	return a.APIKey == b.APIKey && a.BaseURL == b.BaseURL && maps.Equal(a.Headers, b.Headers) &&
		a.AccessKeyID == b.AccessKeyID && a.SecretKey == b.SecretKey && a.SessionToken == b.SessionToken && a.Project == b.Project && a.NodeCredential == b.NodeCredential &&
		(a.BaseURL != "" || a.Region == b.Region && a.Location == b.Location) // a cloud's address is made of them
}

func (c *Catalogue) name(name core.Model, e *Entry) {
	if !slices.Contains(e.names, name) {
		e.names = append(e.names, name)
		c.byName[name] = append(c.byName[name], e)
	}
}

// nameLatest makes m and m:latest name the same unless both are configured
// (SPEC §24): Ollama's clients add or leave out the tag as they like.
func (c *Catalogue) nameLatest() {
	for _, name := range c.names {
		other, tagged := strings.CutSuffix(string(name), ":latest")
		if !tagged {
			if strings.Contains(other[strings.LastIndex(other, "/")+1:], ":") {
				continue // it has another tag
			}
			other += ":latest"
		}
		if _, both := c.byName[core.Model(other)]; both || other == "" {
			continue
		}
		for _, e := range c.byName[name] {
			c.name(core.Model(other), e)
		}
	}
}

// Lookup gives the offers that a client's model name means, in the order of the
// configuration; none where the name is unknown. The result must not be changed.
func (c *Catalogue) Lookup(name core.Model) []*Entry { return c.byName[name] }

// Offer gives the entry of a configured offer, or nil.
func (c *Catalogue) Offer(id core.OfferID) *Entry { return c.byID[id] }

// Entries gives every configured offer in the order of the configuration, then
// those that are gone while calls still hold them.
func (c *Catalogue) Entries() []*Entry { return slices.Concat(c.entries, c.gone) }

// Models gives the names, sorted, that a key may ask for: models and aliases as
// configured, and the Auto Router's. A nil key has no restrictions of its own.
func (c *Catalogue) Models(key *core.Key, r *core.Routing) []core.Model {
	var names []core.Model
	for _, name := range c.names {
		if name != core.AutoModel && c.Serves(name, key, r) {
			names = append(names, name)
		}
	}
	if c.Serves(core.AutoModel, key, r) {
		at, _ := slices.BinarySearch(names, core.AutoModel)
		names = slices.Insert(names, at, core.AutoModel)
	}
	return names
}

// Serves tells whether a key may ask for a name, also for one that Models leaves
// out: a listed one with or without its :latest. The Auto Router is there for
// whoever may use at least one model of its pool.
func (c *Catalogue) Serves(name core.Model, key *core.Key, r *core.Routing) bool {
	if IsAuto(name, r) && autoBlocked(key, r) {
		return false
	}
	return slices.ContainsFunc(c.Meant(name, r), func(e *Entry) bool { return e.Allowed(key, r) })
}

func (c *Catalogue) any(id core.OfferID) *Entry {
	if e := c.byID[id]; e != nil {
		return e
	}
	for _, e := range c.gone {
		if e.Offer.ID == id {
			return e
		}
	}
	return nil
}
