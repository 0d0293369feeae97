package control

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"headway/core"
)

// Decided is one call with its decision, and no more of it than a strategy that is
// tried on it needs.
type Decided struct {
	ID        core.CallID    `json:"id"`
	At        time.Time      `json:"at"` // received, UTC
	Model     core.Model     `json:"model"`
	Operation core.Operation `json:"operation,omitempty"`
	Streamed  bool           `json:"streamed"`
	Outcome   core.Outcome   `json:"outcome"`
	// Offer is the one that answered, or the last that was tried; Charge and
	// ActualWait, in ms, are what became of the call there.
	Offer      core.OfferID         `json:"offer,omitempty"`
	Charge     core.Opt[core.Money] `json:"charge_usd,omitzero"`
	ActualWait core.Opt[float64]    `json:"actual_wait_ms,omitzero"`
	Decision   *core.Decision       `json:"decision"`
}

// Decisions is one page of the decisions of calls, the newest first.
type Decisions struct {
	List[Decided]
	// Since and Until are the bounds that the query meant, absent where it had none:
	// an age is another time for each page.
	Since core.Opt[time.Time] `json:"since,omitzero"`
	Until core.Opt[time.Time] `json:"until,omitzero"`
	// ScriptHeaders are the request headers that scripts see of calls. They are not
	// kept, so no decision has them.
	ScriptHeaders []string `json:"script_headers,omitempty"`
}

// mostRanked bounds the offers in the decisions of one page, and with them its
// memory: what one has is 0.4 KB as JSON.
const mostRanked = 20_000

// listDecisions gives the decisions of real calls.
func (d *Desk) listDecisions(r *http.Request) (any, error) {
	n, err := limit(r)
	if err != nil {
		return nil, err
	}
	q := r.URL.Query()
	span, err := d.spanOf(q)
	if err != nil {
		return nil, err
	}
	if err := checkFilters(q); err != nil {
		return nil, err
	}
	outcome := core.Outcome(q.Get("outcome"))
	list := Decisions{List: List[Decided]{Items: []Decided{}}, ScriptHeaders: d.Gateway.Setup().Settings.Routing.ScriptHeaders,
		Since: core.Opt[time.Time]{V: span.from, OK: !span.from.IsZero()}, Until: core.Opt[time.Time]{V: span.to, OK: !span.to.IsZero()}}
	offers := 0
	err = d.newest(r.Context(), span, func(c *core.Receipt) bool {
		if c.Kind != core.KindJob || c.Decision == nil || outcome != "" && c.Outcome != outcome {
			return true
		}
		if len(list.Items) == n || offers > 0 && offers+len(c.Decision.Offers) > mostRanked {
			list.Next = string(list.Items[len(list.Items)-1].ID)
			return false
		}
		offers += len(c.Decision.Offers)
		list.Items = append(list.Items, Decided{ID: c.ID, At: c.At, Model: c.Model, Operation: c.Operation, Streamed: c.Streamed,
			Outcome: c.Outcome, Offer: c.Offer, Charge: c.Charge, ActualWait: c.ActualWait, Decision: c.Decision})
		return true
	})
	return list, err
}

// Decisions lists the decisions of calls; query is that of GET decisions.
func (c *Client) Decisions(ctx context.Context, query url.Values) (Decisions, error) {
	return get[Decisions](ctx, c, "decisions", query)
}
