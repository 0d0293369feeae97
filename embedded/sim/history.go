package sim

import (
	"iter"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	day         = 24 * time.Hour
	historyDays = 7   // complete ones
	dailyCalls  = 120 // of jobs, a day
	// settleBy is how long before now the last request of a history is: it and
	// those that it waited for are answered by then.
	settleBy = 15 * time.Minute
	longOne  = 18_000 // tokens of a long probe's prompt: SPEC §5 wants 16,000 for a prefill speed
	shortOne = 240
)

// History is the traffic of a demo's last week: seven complete UTC days before
// now's, and now's own so far, in the order of time, about 1,200 requests.
// Prompts have 200 to 40,000 tokens, most calls are streamed, and jobs of
// several steps are among them. Twice a day each offer gets a probe, one short
// and one long, so that every measure of every offer has jobs of its own. The
// same now and seed make the same requests; each is made when it is asked for.
func (d *Demo) History(now time.Time, seed uint64) iter.Seq[Request] {
	return func(yield func(Request) bool) {
		today := now.UTC().Truncate(day)
		count := 0
		for i := range historyDays + 1 {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for _, c := range d.day(r, today.Add(time.Duration(i-historyDays)*day)) {
				if c.at.After(now.Add(-settleBy)) {
					return
				}
				count++
				if !yield(c.request(count)) {
					return
				}
			}
		}
	}
}

// busy is how much of a day's work starts in each hour.
var busy = [24]int{1, 1, 1, 1, 1, 2, 4, 7, 10, 12, 12, 11, 9, 11, 12, 12, 10, 8, 6, 4, 3, 2, 2, 1}

// day makes the calls of one day, in the order of time.
func (d *Demo) day(r *rand.Rand, midnight time.Time) []call {
	var calls []call
	for len(calls) < dailyCalls {
		calls = append(calls, job(r, midnight.Add(startOf(r)))...)
	}
	probes := 2 * len(d.Offers)
	for i := range probes {
		o := d.Offers[i/2]
		c := call{format: o.Provider.Format, model: o.Model, offer: o.ID, streamed: true, prompt: shortOne, output: 96}
		if i%2 == 1 {
			c.prompt = longOne
		}
		c.at = midnight.Add(time.Duration(r.Int64N(int64(day - settleBy))))
		calls = append(calls, c)
	}
	slices.SortStableFunc(calls, func(a, b call) int { return a.at.Compare(b.at) })
	return calls
}

// startOf is when in a day a job starts; early enough to end on the same day.
func startOf(r *rand.Rand) time.Duration {
	sum := 0
	for _, w := range busy {
		sum += w
	}
	n := r.IntN(sum)
	hour := 0
	for n >= busy[hour] {
		n -= busy[hour]
		hour++
	}
	return time.Duration(hour)*time.Hour + time.Duration(r.Int64N(int64(45*time.Minute)))
}
