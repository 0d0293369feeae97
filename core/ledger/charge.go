package ledger

import "headway/core"

// Charge is what a call's usage costs at an offer's price, exactly, and the
// rates that were applied (SPEC §7, §24): the second tier holds for the whole
// call where all its input is above the limit; written tokens are charged as
// written only, those for an hour apart; reasoning is a part of the output.
// Counts that are absent cost nothing. An amount out of range is core.ErrMoney.
func Charge(u core.Usage, p core.Price) (core.Money, core.Rates, error) {
	r := *p.For(u.Input())
	write := r.CacheWrite.Or(r.Input)
	hour := min(u.CacheWrite1h.V, u.CacheWrite.V)
	var total core.Money
	for _, part := range [...]struct {
		tokens int64
		rate   core.Rate
	}{
		{u.UncachedInput.V, r.Input},
		{u.CacheRead.V, r.CacheRead.Or(r.Input)},
		{u.CacheWrite.V - hour, write},
		{hour, r.CacheWrite1h.Or(write)},
		{u.Output.V, r.Output},
	} {
		cost, err := core.Money(part.rate).Times(part.tokens)
		if err != nil {
			return 0, r, err
		}
		if total, err = total.Plus(cost); err != nil {
			return 0, r, err
		}
	}
	return total, r, nil
}
