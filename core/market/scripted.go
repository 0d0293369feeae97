package market

import (
	"cmp"
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
// model, region, labels and full. Errors are Invalid and name the field, or the
// script's own.
func RankScript(data []byte, s core.Script, at time.Time, seed uint64, limit time.Duration) (*ScriptRanking, error) {
	w, err := readAuction(data, true)
	if err != nil {
		return nil, err
	}
	cands, a := w.cands, newAuction(w.timeValue, w.cands)
	slices.SortFunc(cands, func(x, y core.Candidate) int { return cmp.Compare(x.Offer.ID, y.Offer.ID) }) // as scripted shows them
	ranks, in := make([]core.Rank, len(cands)), make([]bool, len(cands))
	q := &core.Question{Job: &w.job, Auction: &a, Candidates: cands, At: at, Seed: seed, Limit: limit}
	if err := s.Rank(q, ranks, in); err != nil {
		return nil, err
	}
	res := &ScriptRanking{Script: s.Name()}
	var places []int32
	for i := range cands {
		if in[i] {
			places = append(places, int32(i))
		} else {
			res.LeftOut = append(res.LeftOut, cands[i].Offer.ID)
		}
	}
	sort(places, ranks, cands)
	for _, p := range places {
		c := &cands[p]
		res.Order = append(res.Order, Scored{Offer: c.Offer.ID, Tier: ranks[p].Tier, Score: ranks[p].Cost, Price: c.Price, Charge: c.Charge, Wait: c.Prediction.Wait()})
	}
	return res, nil
}
