package market

import (
	"slices"
	"time"

	"headway/core"
)

// ScriptRanking is what `headway strategy test --json` prints: the offers in the
// order that a script gives them.
type ScriptRanking struct {
	Script  string         `json:"script"`
	Order   []Scored       `json:"order"`
	LeftOut []core.OfferID `json:"left_out,omitempty"` // for which it gave null
}

// Scored is one offer with its place.
type Scored struct {
	Offer  core.OfferID      `json:"offer"`
	Tier   int               `json:"tier,omitempty"`
	Score  float64           `json:"score"`
	Price  core.Money        `json:"price_usd"`
	Charge core.Money        `json:"charge_usd"`
	Wait   core.Opt[float64] `json:"predicted_wait_ms,omitzero"`
}

// RankScript ranks an auction that is written down by a script, as a call would be.
// data is as for Rank; a job may also have model, streamed and headers, an offer
// model, region, node, labels and full. Errors are Invalid and name the field, or the
// script's own.
func RankScript(data []byte, s core.Script, at time.Time, seed uint64, limit time.Duration) (*ScriptRanking, error) {
	w, err := readAuction(data, true)
	if err != nil {
		return nil, err
	}
	cands, a := w.cands, newAuction(w.timeValue, w.cands)
	settings := core.Settings{Limits: core.Limits{Script: limit}}
	places, ranks, err := scripted(&Query{Job: &w.job, Script: s, At: at, Seed: seed, Settings: &settings}, &a, cands, nil)
	if err != nil {
		return nil, err
	}
	res := &ScriptRanking{Script: s.Name()}
	for i := range cands {
		if !slices.Contains(places, int32(i)) {
			res.LeftOut = append(res.LeftOut, cands[i].Offer.ID)
		}
	}
	slices.Sort(res.LeftOut)
	for _, p := range places {
		c := &cands[p]
		res.Order = append(res.Order, Scored{Offer: c.Offer.ID, Tier: ranks[p].Tier, Score: ranks[p].Cost, Price: c.Price, Charge: c.Charge, Wait: c.Prediction.Wait()})
	}
	return res, nil
}
