package market

import (
	"cmp"
	"math"
	"slices"

	"headway/core"
)

// stackOffers is how many offers of one auction are ranked without asking for
// memory to sort in.
const stackOffers = 64

// newAuction gathers what strategies may know of all candidates together.
func newAuction(timeValue core.Money, cands []core.Candidate) core.Auction {
	a := core.Auction{TimeValue: timeValue, Complete: true}
	var room [stackOffers]float64
	measured := room[:0]
	for i := range cands {
		c := &cands[i]
		a.Complete = a.Complete && c.Prediction.Complete
		if i == 0 || c.Price < a.LowestPrice {
			a.LowestPrice = c.Price
		}
		if c.TTFT.OK {
			measured = append(measured, c.TTFT.V)
		}
	}
	if n := len(measured); n > 0 {
		slices.Sort(measured)
		a.LowestTTFT = core.Some(measured[0])
		a.MedianTTFT = core.Some((measured[(n-1)/2] + measured[n/2]) / 2)
	}
	return a
}

// place is one candidate while they are sorted: what decides most often, small
// enough to be moved about quickly.
type place struct {
	tier int
	cost float64
	at   int // in the candidates and their ranks
}

// order asks the strategy for the rank of each candidate, which it leaves in
// ranks, and sorts: appended to into are the candidates in the running, the best
// first; the rest was left out.
//
// The order is total: tier, cost, price, tie, then the offer's id, which no two
// share. Nothing else decides, so the order in which the offers were configured
// never does.
func order(job *core.Job, a core.Auction, s core.Strategy, cands []core.Candidate, ranks []core.Rank, into []place) []place {
	for i := range cands {
		r, ok := s.Score(job, a, cands[i])
		if !ok {
			continue
		}
		if math.IsNaN(r.Cost) {
			r.Cost = math.Inf(1)
		}
		if math.IsNaN(r.Tie) {
			r.Tie = math.Inf(1)
		}
		ranks[i] = r
		into = append(into, place{r.Tier, r.Cost, i})
	}
	slices.SortFunc(into, func(x, y place) int {
		switch {
		case x.tier != y.tier:
			return cmp.Compare(x.tier, y.tier)
		case x.cost < y.cost:
			return -1
		case x.cost > y.cost:
			return 1
		}
		rx, ry := &ranks[x.at], &ranks[y.at]
		switch {
		case rx.Price != ry.Price:
			return cmp.Compare(rx.Price, ry.Price)
		case rx.Tie != ry.Tie:
			return cmp.Compare(rx.Tie, ry.Tie)
		}
		return cmp.Compare(cands[x.at].Offer.ID, cands[y.at].Offer.ID)
	})
	return into
}
