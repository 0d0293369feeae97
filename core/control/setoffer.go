package control

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"

	"headway/core"
)

func (d *Desk) patchOffer(r *http.Request) (any, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	id := core.OfferID(r.PathValue("id"))
	if err := d.setOffer(whoOf(r), id, body); err != nil {
		return nil, err
	}
	return d.offer(id)
}

// setOffer changes the fields of an offer that a body names; null takes one away. An
// offer that was posted inside its provider is changed there. Its pauses, its failures
// and its calls stay as they are.
func (d *Desk) setOffer(who string, id core.OfferID, body []byte) error {
	var set map[string]json.RawMessage
	if err := json.Unmarshal(body, &set); err != nil || set == nil {
		return core.Field("offers", "want a JSON object of the fields to change")
	}
	for _, name := range []string{"id", "model", "provider"} {
		if _, ok := set[name]; ok {
			e := core.Field("offers."+name, "cannot be changed")
			e.Hint = "make another offer, and delete this one"
			return e
		}
	}
	return d.change(who, func(m made) (step, error) {
		e := d.Gateway.Setup().Catalogue.Offer(id)
		if e == nil {
			return step{}, unknown("offer", string(id))
		}
		old := e.Offer
		if old.Provider.Node != "" {
			return step{}, ofNode("offer", string(id), old.Provider.Node)
		}
		var st step
		var is *core.Offer
		if o, ok := m.offers[id]; ok {
			whole, err := withFields(o.body, set)
			if err != nil {
				return step{}, err
			}
			if is, err = d.Parse.Offer(whole, old.Provider); err != nil {
				return step{}, err
			}
			m.offers[id] = madeOffer{o.provider, whole}
			st.puts = []core.Record{d.sealed(vaultOffer, string(id), whole)}
		} else {
			if old.Provider.FromFile {
				return step{}, fromFile("offer", string(id))
			}
			whole, p, offers, i, err := d.withOffer(old.Provider.ID, m.bundled[old.Provider.ID], id, set)
			if err != nil {
				return step{}, err
			}
			is = offers[i]
			m.providers[p.ID], m.bundled[p.ID] = p, offers
			st.puts = []core.Record{d.sealed(vaultProvider, string(p.ID), whole)}
		}
		entry, differs := Entry{Action: "offer.set", Target: string(id)}.changed(d.offerObject(old), d.offerObject(is))
		if !differs {
			return step{}, nil
		}
		st.entry = entry
		return st, nil
	})
}

// withFields is a posted object with some fields set anew.
func withFields(body []byte, set map[string]json.RawMessage) ([]byte, error) {
	var whole map[string]json.RawMessage
	if err := json.Unmarshal(body, &whole); err != nil {
		return nil, err
	}
	for name, v := range set {
		if string(v) == "null" {
			delete(whole, name)
		} else {
			whole[name] = v
		}
	}
	return json.Marshal(whole)
}

// withOffer is a posted provider with some fields of the offer set anew that was
// posted inside it, and what it reads as; i is its place among the offers.
func (d *Desk) withOffer(of core.ProviderID, offers []*core.Offer, id core.OfferID, set map[string]json.RawMessage) (whole []byte, p *core.Provider, is []*core.Offer, i int, err error) {
	i = slices.IndexFunc(offers, func(o *core.Offer) bool { return o.ID == id })
	kept, err := d.Vault.Get(vaultProvider, string(of))
	if err != nil {
		return nil, nil, nil, 0, err
	}
	if i < 0 || kept == nil {
		return nil, nil, nil, 0, unknown("offer", string(id))
	}
	body, err := d.sealer.Open(vaultProvider+"/"+string(of), kept)
	if err != nil {
		return nil, nil, nil, 0, err
	}
	var list struct {
		Offers []json.RawMessage `json:"offers"`
	}
	if err := json.Unmarshal(body, &list); err != nil || i >= len(list.Offers) {
		return nil, nil, nil, 0, unknown("offer", string(id))
	}
	if list.Offers[i], err = withFields(list.Offers[i], set); err != nil {
		return nil, nil, nil, 0, err
	}
	text, err := json.Marshal(list.Offers)
	if err != nil {
		return nil, nil, nil, 0, err
	}
	if whole, err = withFields(body, map[string]json.RawMessage{"offers": text}); err != nil {
		return nil, nil, nil, 0, err
	}
	p, is, err = d.Parse.Provider(whole)
	if err == nil && (i >= len(is) || is[i].ID != id) {
		err = unknown("offer", string(id))
	}
	return whole, p, is, i, err
}

// SetOffer changes fields of an offer.
func (c *Client) SetOffer(ctx context.Context, id core.OfferID, fields map[string]any) (Offer, error) {
	var o Offer
	err := c.do(ctx, http.MethodPatch, "offers/"+url.PathEscape(string(id)), nil, fields, &o)
	return o, err
}

// ProviderPlace is of a provider where it is, as the list of providers has it.
type ProviderPlace struct {
	ID       core.ProviderID `json:"id"`
	BaseURL  string          `json:"base_url"` // "" where a cloud has its own
	Region   string          `json:"region"`
	Location string          `json:"location"`
}

// ProviderPlaces lists where the providers are.
func (c *Client) ProviderPlaces(ctx context.Context) (List[ProviderPlace], error) {
	return all[ProviderPlace](ctx, c, "providers")
}
