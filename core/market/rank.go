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

// ranked is one candidate's place while they are sorted.
type ranked struct {
	rank core.Rank
	id   core.OfferID
	at   int // in the candidates
}

// order asks the strategy for each candidate's rank and sorts by it: appended to
// into are those in the running, the best first; the rest was left out.
func order(job *core.Job, a core.Auction, s core.Strategy, cands []core.Candidate, into []ranked) []ranked {
	for i := range cands {
		if r, ok := s.Score(job, a, cands[i]); ok {
			if math.IsNaN(r.Cost) {
				r.Cost = math.Inf(1)
			}
			if math.IsNaN(r.Tie) {
				r.Tie = math.Inf(1)
			}
			into = append(into, ranked{r, cands[i].Offer.ID, i})
		}
	}
	slices.SortFunc(into, before)
	return into
}

// before is the total order: tier, cost, price, tie, then the offer's id, which
// no two share. Nothing else decides, so the order in which the offers were
// configured never does.
func before(x, y ranked) int {
	switch {
	case x.rank.Tier != y.rank.Tier:
		return cmp.Compare(x.rank.Tier, y.rank.Tier)
	case x.rank.Cost != y.rank.Cost:
		return cmp.Compare(x.rank.Cost, y.rank.Cost)
	case x.rank.Price != y.rank.Price:
		return cmp.Compare(x.rank.Price, y.rank.Price)
	case x.rank.Tie != y.rank.Tie:
		return cmp.Compare(x.rank.Tie, y.rank.Tie)
	}
	return cmp.Compare(x.id, y.id)
}
