package measure

import "headway/core"

// Predict is the wait of SPEC §6 in its terms, each in ms:
//
//	queue + base latency + fresh ÷ prefill speed + expected output ÷ output speed
//
// The base latency is always needed, the prefill speed where fresh tokens are
// expected and the output speed where output is. A needed measure that is absent
// leaves its term absent and the prediction incomplete; a term that nothing is
// expected of is 0. queueMS is a node's own word on its queue, absent elsewhere.
func Predict(est core.Estimate, m *core.Measures, queueMS core.Opt[float64]) (p core.Prediction) {
	PredictInto(&p, est, m, queueMS)
	return p
}

// PredictInto is Predict in place: an auction predicts for each of its offers.
func PredictInto(p *core.Prediction, est core.Estimate, m *core.Measures, queueMS core.Opt[float64]) {
	p.Base = m.BaseLatency.Value
	p.Prefill = term(est.Fresh, m.Prefill.Value)
	p.Output = term(est.Output, m.Output.Value)
	p.Queue = queueMS
	p.Complete = p.Base.OK && p.Prefill.OK && p.Output.OK
}

// term is the time of n tokens at a speed in tokens per second, in ms.
func term(n int64, tps core.Opt[float64]) core.Opt[float64] {
	if n <= 0 {
		return core.Some(0.0)
	}
	if !tps.OK || tps.V <= 0 {
		return core.Opt[float64]{}
	}
	return core.Some(float64(n) / tps.V * 1000)
}
