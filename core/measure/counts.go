package measure

import "headway/core"

// LongPrompt is how many fresh input tokens a job needs to show the prefill speed
// (SPEC §5).
const LongPrompt = prefillFrom

// Counts are how many jobs of one provider and model there are for each measure.
type Counts struct{ BaseLatency, Prefill, Output int64 }

// Counts are the pair's own jobs in the window and since: those that its measures
// are made of now, and will be when today joins.
func (b *Board) Counts(p core.ProviderID, m core.Model) (c Counts) {
	now := b.clock()
	pair := Pair{p, m}
	b.mu.Lock()
	defer b.mu.Unlock()
	for d := sealed(now) - windowDays + 1; d <= dayOf(now); d++ {
		if of := b.days[d]; of != nil && of.pairs[pair] != nil {
			s := of.pairs[pair]
			c.BaseLatency += s[baseLatency].Jobs()
			c.Prefill += s[prefill].Jobs()
			c.Output += s[output].Jobs()
		}
	}
	return c
}
