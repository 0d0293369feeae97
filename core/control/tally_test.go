package control_test

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"reflect"
	"testing"
	"time"

	"headway/core"
)

// TestUsageOfAnyPeriod: whatever the period, its sums are those of its receipts, whether
// they are summed by day or read one by one, over restarts and calls that settle late.
func TestUsageOfAnyPeriod(t *testing.T) {
	r := newRig(t)
	r.now = time.Date(2026, 3, 10, 15, 30, 0, 0, time.UTC)
	rng := rand.New(rand.NewPCG(3, 9))
	start := r.now.Add(-6 * 24 * time.Hour)
	var all []*core.Receipt
	for i := range 400 {
		if i == 150 || i == 300 {
			r.restart()
		}
		at := start.Add(time.Duration(rng.Int64N(int64(r.now.Sub(start)))))
		x := &core.Receipt{At: at, Key: core.KeyID(pick(rng, "ci", "other", "")), Model: core.Model(pick(rng, "small", "large")), Provider: core.ProviderID(pick(rng, "fast", "slow")),
			Charge: core.Some(core.Money(rng.Int64N(1e9))), UsageFrom: core.FromProvider}
		x.Usage.UncachedInput, x.Usage.Output = core.Some(rng.Int64N(1000)), core.Some(rng.Int64N(100))
		if rng.IntN(3) == 0 {
			x.Usage.CacheRead = core.Some(rng.Int64N(50))
			x.Timing.FirstToken = core.Some(float64(rng.IntN(1000)))
		}
		if rng.IntN(9) == 0 {
			x.Outcome = core.Failed
		}
		r.keep(x)
		all = append(all, x)
	}
	day := 24 * time.Hour
	periods := [][2]time.Time{{start.Truncate(day), r.now}, {start.Truncate(day), r.now.Truncate(day)}, {start, r.now},
		{start.Truncate(day).Add(day), start.Truncate(day).Add(2 * day)}, {r.now.Truncate(day), r.now}}
	for range 20 {
		from := start.Add(time.Duration(rng.Int64N(int64(5 * day))))
		periods = append(periods, [2]time.Time{from, from.Add(1 + time.Duration(rng.Int64N(int64(3*day))))})
	}
	for _, p := range periods {
		want := map[string]any{}
		total := core.Money(0)
		calls, settled, output := 0.0, 0.0, 0.0
		for _, x := range all {
			if x.At.Before(p[0]) || !x.At.Before(p[1]) {
				continue
			}
			calls++
			if x.Outcome == core.Settled {
				settled++
			}
			output += float64(x.Usage.Output.V)
			total += x.Charge.V
			k := x.At.Format(time.DateOnly) + " " + string(x.Model) + " " + string(x.Provider)
			n, _ := want[k].(float64)
			want[k] = n + 1
		}
		u := r.must("GET", "usage?by="+url.QueryEscape("day+model+provider")+"&from="+url.QueryEscape(p[0].Format(time.RFC3339Nano))+"&to="+url.QueryEscape(p[1].Format(time.RFC3339Nano)), "")
		got := map[string]any{}
		for _, v := range u["by"].(map[string]any)["day+model+provider"].([]any) {
			v := v.(map[string]any)
			got[fmt.Sprint(v["day"], " ", v["model"], " ", v["provider"])] = v["calls"]
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%v: calls by day, model and provider are %v, want %v", p, got, want)
		}
		sum := u["total"].(map[string]any)
		if calls == 0 {
			continue
		}
		if sum["calls"] != calls || sum["settled"] != settled || fmt.Sprintf("%.12f", sum["charge_usd"]) != fmt.Sprintf("%.12f", float64(total)/1e12) || sum["usage"].(map[string]any)["output_tokens"] != output {
			t.Errorf("%v: the total is %v, want %v calls, %v settled, %v USD, %v output tokens", p, sum, calls, settled, float64(total)/1e12, output)
		}
	}
}

func pick(rng *rand.Rand, of ...string) string { return of[rng.IntN(len(of))] }
