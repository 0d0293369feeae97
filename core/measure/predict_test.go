package measure_test

import (
	"testing"

	"headway/core"
	"headway/core/measure"
)

func measuresOf(base, prefill, output core.Opt[float64]) *core.Measures {
	return &core.Measures{
		BaseLatency: core.Measure{Value: base},
		Prefill:     core.Measure{Value: prefill},
		Output:      core.Measure{Value: output},
	}
}

func TestPredict(t *testing.T) {
	some, none := core.Some[float64], core.Opt[float64]{}
	tests := []struct {
		name  string
		est   core.Estimate
		m     *core.Measures
		queue core.Opt[float64]
		wait  core.Opt[float64]
		first core.Opt[float64]
	}{
		{"all terms", core.Estimate{Fresh: 20000, Output: 500}, measuresOf(some(400), some(10000), some(50)), none, some(400 + 2000 + 10000), some(2400)},
		{"a queue is a term of its own", core.Estimate{Fresh: 20000, Output: 500}, measuresOf(some(400), some(10000), some(50)), some(300), some(12700), some(2700)},
		{"cached tokens cost no prefill", core.Estimate{Cached: 20000, Output: 500}, measuresOf(some(400), none, some(50)), none, some(10400), some(400)},
		{"no output expected", core.Estimate{Fresh: 1000}, measuresOf(some(400), some(1000), none), none, some(1400), some(1400)},
		{"base is always needed", core.Estimate{Fresh: 1000, Output: 1}, measuresOf(none, some(1000), some(50)), none, none, none},
		{"prefill is needed for one fresh token", core.Estimate{Fresh: 1, Output: 1}, measuresOf(some(400), none, some(50)), none, none, none},
		{"output is needed for one token", core.Estimate{Fresh: 1, Output: 1}, measuresOf(some(400), some(1000), none), none, none, none},
		{"a speed of 0 predicts nothing", core.Estimate{Fresh: 1, Output: 1}, measuresOf(some(400), some(1000), some(0)), none, none, none},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := measure.Predict(tt.est, tt.m, tt.queue)
			if got := p.Wait(); got != tt.wait {
				t.Errorf("wait = %v, want %v", got, tt.wait)
			}
			if got := p.FirstOutput(); got != tt.first {
				t.Errorf("first output = %v, want %v", got, tt.first)
			}
		})
	}
}

func TestPredictAllocatesNothing(t *testing.T) {
	m := measuresOf(core.Some(400.0), core.Some(10000.0), core.Some(50.0))
	var p core.Prediction
	if n := testing.AllocsPerRun(100, func() { p = measure.Predict(core.Estimate{Fresh: 9, Output: 9}, m, core.Opt[float64]{}) }); n != 0 || !p.Complete {
		t.Errorf("%v allocations, complete %v", n, p.Complete)
	}
}
