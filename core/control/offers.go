package control

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"headway/core"
	"headway/core/market"
)

// Offer is one item of the offers: how it stands (market.Status) and what it is.
type Offer struct {
	market.Status
	UpstreamModel string            `json:"upstream_model"`
	Aliases       []core.Model      `json:"aliases,omitempty"`
	core.Price                      // its rates under the names of the file
	Context       core.Opt[int64]   `json:"context_tokens,omitzero"`
	MaxOutput     core.Opt[int64]   `json:"max_output_tokens,omitzero"`
	CacheMin      core.Opt[int64]   `json:"cache_min_tokens,omitzero"`
	CacheLifetime string            `json:"cache_lifetime,omitempty"` // as 10m0s
	Features      []string          `json:"features,omitempty"`
	Labels        map[string]string `json:"labels,omitempty"`
	Format        core.Format       `json:"format"`
	Owner         string            `json:"owner,omitempty"`
	Region        string            `json:"region,omitempty"`
	Node          core.NodeID       `json:"node,omitempty"`
	FromFile      bool              `json:"from_file"`
}

func (d *Desk) view(e *market.Entry) Offer {
	o := e.Offer
	v := Offer{Status: e.Status(d.Clock(), d.Gateway.Setup().Settings.Breaker, d.Board.TTFT(o.ID)),
		UpstreamModel: o.UpstreamModel, Aliases: o.Aliases, Price: o.Price, Context: o.Limits.Context, MaxOutput: o.Limits.MaxOutput,
		CacheMin: o.Cache.MinTokens, Labels: o.Labels, Format: o.Provider.Format, Owner: o.Provider.Owner, Region: o.Provider.Region,
		Node: o.Provider.Node, FromFile: o.Provider.FromFile && !d.madeAlone(o.ID)}
	if l := o.Cache.Lifetime; l.OK {
		v.CacheLifetime = l.V.String()
	}
	if o.Features.OK {
		v.Features = o.Features.V.Names()
	}
	return v
}

func (d *Desk) listOffers(r *http.Request) (any, error) {
	var all []Offer
	for _, e := range d.Gateway.Setup().Catalogue.Entries() {
		all = append(all, d.view(e))
	}
	slices.SortFunc(all, func(a, b Offer) int { return cmp.Compare(a.ID, b.ID) })
	return page(r, all, func(o Offer) string { return string(o.ID) })
}

func (d *Desk) getOffer(r *http.Request) (any, error) {
	return d.offer(core.OfferID(r.PathValue("id")))
}

func (d *Desk) offer(id core.OfferID) (any, error) {
	e := d.Gateway.Setup().Catalogue.Offer(id)
	if e == nil {
		return nil, unknown("offer", shorten(string(id)))
	}
	return d.view(e), nil
}

func (d *Desk) postOffer(r *http.Request) (any, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	id, err := d.addOffer(whoOf(r), body)
	if err != nil {
		return nil, err
	}
	v, err := d.offer(id)
	return made201{v}, err
}

// actOnOffer does what the last part of the path says.
func (d *Desk) actOnOffer(r *http.Request) (any, error) {
	path := r.PathValue("id")
	cut := strings.LastIndexByte(path, '/')
	if cut < 0 {
		return nil, errNoAction()
	}
	id := core.OfferID(path[:cut])
	var err error
	switch path[cut+1:] {
	case "pause":
		err = d.pause(whoOf(r), id)
	case "resume":
		err = d.resume(whoOf(r), id)
	case "test":
		return d.test(r, id)
	default:
		err = errNoAction()
	}
	if err != nil {
		return nil, err
	}
	return d.offer(id)
}

func errNoAction() error {
	e := core.Errorf(core.NotFound, "no such action on an offer")
	e.Hint = "POST /admin/v1/offers/ID/pause, …/resume or …/test"
	return e
}

// test makes a call of kind test and gives its receipt.
func (d *Desk) test(r *http.Request, id core.OfferID) (any, error) {
	call, err := d.Gateway.Try(r.Context(), id, core.KindTest)
	if err != nil {
		return nil, err
	}
	return d.settled(r.Context(), call)
}

func (d *Desk) dropOffer(r *http.Request) (any, error) {
	id := r.PathValue("id")
	return deleted{id}, d.deleteOffer(whoOf(r), core.OfferID(id))
}

// deleted is the answer to a DELETE.
type deleted struct {
	ID string `json:"deleted"`
}

// Model is one item of the models: what clients may ask for.
type Model struct {
	Model   core.Model      `json:"model"`
	Aliases []core.Model    `json:"aliases,omitempty"`
	Pool    []core.Model    `json:"pool,omitempty"` // of the Auto Router: the models that it chooses among
	Offers  []core.OfferID  `json:"offers"`
	Active  int             `json:"active"`                     // offers that are neither out nor paused
	Context core.Opt[int64] `json:"context_tokens,omitzero"`    // the greatest of its offers
	Output  core.Opt[int64] `json:"max_output_tokens,omitzero"` // likewise
	// The lowest rates of its offers.
	Input   core.Rate `json:"input_usd_per_mtok"`
	OutRate core.Rate `json:"output_usd_per_mtok"`
}

func (d *Desk) listModels(r *http.Request) (any, error) {
	s := d.Gateway.Setup()
	byName := map[core.Model]*Model{}
	add := func(name core.Model, e *market.Entry) *Model {
		o, st := e.Offer, e.Status(d.Clock(), s.Settings.Breaker, core.Opt[float64]{})
		if st.State == "gone" {
			return nil
		}
		m := byName[name]
		if m == nil {
			m = &Model{Model: name, Input: o.Price.Input, OutRate: o.Price.Output}
			byName[name] = m
		}
		m.Offers = append(m.Offers, o.ID)
		m.Input, m.OutRate = min(m.Input, o.Price.Input), min(m.OutRate, o.Price.Output)
		if st.State == "active" {
			m.Active++
		}
		m.Context, m.Output = larger(m.Context, o.Limits.Context), larger(m.Output, o.Limits.MaxOutput)
		return m
	}
	for _, e := range s.Catalogue.Entries() {
		m := add(e.Offer.Model, e)
		if m == nil {
			continue
		}
		for _, a := range e.Offer.Aliases {
			if !slices.Contains(m.Aliases, a) {
				m.Aliases = append(m.Aliases, a)
			}
		}
	}
	if routing := &s.Settings.Routing; market.IsAuto(core.AutoModel, routing) {
		for _, e := range s.Catalogue.Meant(core.AutoModel, routing) {
			add(core.AutoModel, e).Pool = routing.Auto // a configured offer is never gone
		}
	}
	all := make([]*Model, 0, len(byName))
	for _, name := range sortedKeys(byName) {
		all = append(all, byName[name])
	}
	return page(r, all, func(m *Model) string { return string(m.Model) })
}

func larger(a, b core.Opt[int64]) core.Opt[int64] {
	if b.OK && b.V > a.V {
		return b
	}
	return a
}

// Provider is one item of the providers. Its credential is never shown, only
// that there is one.
type Provider struct {
	ID           core.ProviderID        `json:"id"`
	Format       core.Format            `json:"format"`
	Dialect      string                 `json:"dialect,omitempty"`
	BaseURL      string                 `json:"base_url,omitempty"` // a cloud has its own
	APIKey       core.Secret            `json:"api_key,omitzero"`
	Headers      map[string]core.Secret `json:"headers,omitempty"`
	Owner        string                 `json:"owner,omitempty"`
	Region       string                 `json:"region,omitempty"`
	Project      string                 `json:"project,omitempty"`
	Location     string                 `json:"location,omitempty"`
	AccessKeyID  string                 `json:"access_key_id,omitempty"`
	AllowPrivate bool                   `json:"allow_private"`
	Node         core.NodeID            `json:"node,omitempty"` // whose model server it is
	Offers       []core.OfferID         `json:"offers"`
	FromFile     bool                   `json:"from_file"`
}

func (d *Desk) providers() []Provider {
	f := d.force.Load()
	offers := map[core.ProviderID][]core.OfferID{}
	for _, e := range d.Gateway.Setup().Catalogue.Entries() {
		offers[e.Offer.Provider.ID] = append(offers[e.Offer.Provider.ID], e.Offer.ID)
	}
	var all []Provider
	add := func(p *core.Provider) {
		all = append(all, Provider{p.ID, p.Format, p.Dialect, p.BaseURL, p.APIKey, p.Headers, p.Owner, p.Region,
			p.Project, p.Location, p.AccessKeyID, p.AllowPrivate, p.Node,
			append([]core.OfferID{}, offers[p.ID]...), p.FromFile})
	}
	for _, p := range f.file.Providers {
		add(p)
	}
	for _, p := range f.made.providers {
		add(p)
	}
	if d.Fleet != nil {
		of, _ := d.Fleet.Offered()
		for _, p := range of {
			if n := f.made.nodes[p.Node]; n != nil && n.here() {
				add(p)
			}
		}
	}
	slices.SortFunc(all, func(a, b Provider) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

func (d *Desk) listProviders(r *http.Request) (any, error) {
	return page(r, d.providers(), func(p Provider) string { return string(p.ID) })
}

func (d *Desk) postProvider(r *http.Request) (any, error) {
	v, err := d.takeProvider(r, "")
	return made201{v}, err
}

func (d *Desk) putProvider(r *http.Request) (any, error) {
	return d.takeProvider(r, core.ProviderID(r.PathValue("id")))
}

func (d *Desk) takeProvider(r *http.Request, replace core.ProviderID) (any, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	id, err := d.addProvider(whoOf(r), body, replace)
	if err != nil {
		return nil, err
	}
	for _, p := range d.providers() {
		if p.ID == id {
			return p, nil
		}
	}
	return nil, unknown("provider", string(id)) // it was deleted meanwhile
}

func (d *Desk) dropProvider(r *http.Request) (any, error) {
	id := r.PathValue("id")
	return deleted{id}, d.deleteProvider(whoOf(r), core.ProviderID(id))
}

func isKind(err error, k core.Kind) bool {
	var e *core.Error
	return errors.As(err, &e) && e.Kind == k
}

// expired tells whether a time has come.
func expired(at core.Opt[time.Time], now time.Time) bool { return at.OK && !now.Before(at.V) }
