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
		if i == 0 || c.Charge < a.LowestCharge {
			a.LowestCharge = c.Charge
		}
		if c.TTFT.OK {
			measured = append(measured, c.TTFT.V)
		}
	}
	if n := len(measured); n > 0 {
		a.LowestTTFT = core.Some(slices.Min(measured))
		upper := nth(measured, n/2)
		lower := upper
		if n%2 == 0 {
			lower = slices.Max(measured[:n/2])
		}
		a.MedianTTFT = core.Some((lower + upper) / 2)
	}
	return a
}

// nth gives the value that would be at a place if they were sorted, and moves those
// that are not greater before it (Hoare's selection: sorting all of them costs
// twice that).
func nth(of []float64, place int) float64 {
	for from, to := 0, len(of)-1; from < to; {
		pivot, i, j := of[place], from, to
		for i <= j {
			for of[i] < pivot {
				i++
			}
			for pivot < of[j] {
				j--
			}
			if i <= j {
				of[i], of[j] = of[j], of[i]
				i, j = i+1, j-1
			}
		}
		if j < place {
			from = i
		}
		if place < i {
			to = j
		}
	}
	return of[place]
}

// rank gives the places of the candidates in the running, the best first,
// appended to into: by the script that was asked, else, and where it fails, by
// the strategy.
func (c *Choice) rank(q *Query, cands []core.Candidate, into []int32) []int32 {
	if q.Script != nil && len(cands) > 0 {
		sorted, ranks, err := scripted(q, &c.Auction, cands, into)
		if err == nil {
			c.RankedOn = rankedOnScript
			c.scores = make(map[*core.Candidate]core.Rank, len(sorted))
			for _, p := range sorted {
				c.scores[&cands[p]] = ranks[p]
			}
			return sorted
		}
		c.ScriptError = err
	}
	c.RankedOn = q.Strategy.RankedOn(&c.Auction)
	return order(q.Job, &c.Auction, q.Strategy, cands, into)
}

// scripted asks the script. It sees the candidates in the order of their ids, so
// that its random numbers fall to the same offers whatever the order that they are
// in here: that of the configuration, or that of a decision which is ranked again.
// The ranks are by candidate, those of left out ones of no account.
func scripted(q *Query, a *core.Auction, cands []core.Candidate, into []int32) (places []int32, ranks []core.Rank, err error) {
	n := len(cands)
	var room [stackOffers]int32
	at := room[:0] // the place of each that the script sees
	for i := range cands {
		at = append(at, int32(i))
	}
	slices.SortFunc(at, func(i, j int32) int { return cmp.Compare(cands[i].Offer.ID, cands[j].Offer.ID) })
	shown := make([]core.Candidate, n)
	for i, p := range at {
		shown[i] = cands[p]
	}
	ranks = make([]core.Rank, 2*n)
	in := make([]bool, n)
	err = q.Script.Rank(&core.Question{Job: q.Job, Auction: a, Candidates: shown, At: cmp.Or(q.At, q.Now), Seed: q.Seed,
		Limit: q.Settings.Limits.Script}, ranks[n:], in)
	if err != nil {
		return nil, nil, err
	}
	for i, p := range at {
		if in[i] {
			into = append(into, p)
			ranks[p] = ranks[n+i]
		}
	}
	sort(into, ranks, cands)
	return into, ranks, nil
}

// order asks the strategy for the rank of each candidate and sorts: appended to
// into are the places of those in the running, the best first; the rest was left
// out.
func order(job *core.Job, a *core.Auction, s core.Strategy, cands []core.Candidate, into []int32) []int32 {
	var room [stackOffers]core.Rank
	ranks := room[:]
	if len(cands) > len(ranks) {
		ranks = make([]core.Rank, len(cands))
	}
	for i := range cands {
		r, ok := s.Score(job, a, &cands[i])
		if !ok {
			continue
		}
		ranks[i] = r
		into = append(into, int32(i))
	}
	sort(into, ranks, cands)
	return into
}

// sort puts places into the order of their ranks.
//
// The order is total: tier, cost, price, tie, then the offer's id, which no two
// share. Nothing else decides, so the order in which the offers were configured
// never does.
func sort(places []int32, ranks []core.Rank, cands []core.Candidate) {
	for _, i := range places {
		r := &ranks[i]
		if math.IsNaN(r.Cost) {
			r.Cost = math.Inf(1)
		}
		if math.IsNaN(r.Tie) {
			r.Tie = math.Inf(1)
		}
	}
	slices.SortFunc(places, func(i, j int32) int {
		x, y := &ranks[i], &ranks[j]
		switch {
		case x.Tier != y.Tier:
			return cmp.Compare(x.Tier, y.Tier)
		case x.Cost < y.Cost:
			return -1
		case x.Cost > y.Cost:
			return 1
		case x.Price != y.Price:
			return cmp.Compare(x.Price, y.Price)
		case x.Tie != y.Tie:
			return cmp.Compare(x.Tie, y.Tie)
		}
		return cmp.Compare(cands[i].Offer.ID, cands[j].Offer.ID)
	})
}
