package gateway_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"headway/core"
)

// TestReferenceTraces plays the three traces of SPEC §21 and finds their figures
// to the millisecond.
func TestReferenceTraces(t *testing.T) {
	for _, c := range []struct {
		name                                  string
		headers, event, response, text, total float64
		tokens                                int
		tps                                   float64
		slow                                  string
	}{
		{"A", 6100, 6300, 6350, 6400, 9200, 118, 42, "upstream_headers_slow"},
		{"B", 240, 310, 2900, 8700, 10200, 83, 55, "visible_text_after_action_slow"},
		{"C", 260, 330, 420, 430, 20430, 196, 9.8, "generation_slow_tps"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				at := func(v float64) time.Duration { return time.Duration(v) * ms }
				third := (c.total - c.text) / 3
				r := newRig(t, nil, offer{name: "a", script: []step{
					{at(c.headers), streamHead},
					{at(c.event), chunk(role)},
					{at(c.response), chunk(delta(`{"reasoning_content":"hm"}`))},
					{at(c.text), chunk(text("one"))},
					{at(c.text + third), chunk(text(" two"))},
					{at(c.text + 2*third), chunk(text(" three"))},
					{at(c.total), chunk(finish+usage(20, c.tokens)+done) + lastChunk},
				}})
				a := r.post("/v1/chat/completions", askStream)
				if a.status != 200 || a.err != nil {
					t.Fatalf("answer: %+v", a)
				}
				rec := r.receipt(a.id())
				for _, f := range []struct {
					name string
					got  core.Opt[float64]
					want float64
				}{
					{"upstream_headers_ms", rec.Timing.UpstreamHeaders, c.headers},
					{"first_sse_event_ms", rec.Timing.FirstEvent, c.event},
					{"first_response_ms", rec.Timing.FirstResponse, c.response},
					{"first_text_delta_ms", rec.Timing.FirstText, c.text},
					{"upstream_done_ms", rec.Timing.UpstreamDone, c.total},
					{"total_handler_ms", rec.Timing.TotalHandler, c.total},
					{"first_token_ms", rec.Timing.FirstToken, c.response},
					{"queued_ms", rec.Timing.Queued, 0},
				} {
					if !f.got.OK || f.got.V != f.want {
						t.Errorf("%s is %v, want %v", f.name, f.got, f.want)
					}
				}
				tps := rec.Timing.VisibleTPS.V
				if rounded := math.Round(tps); c.tps == math.Trunc(c.tps) && rounded != c.tps || c.tps != math.Trunc(c.tps) && math.Round(tps*10)/10 != c.tps {
					t.Errorf("visible_output_tps is %v, want %v", tps, c.tps)
				}
				if rec.Slow != c.slow || rec.Outcome != core.Settled {
					t.Errorf("slow %q, outcome %q, want %q, settled", rec.Slow, rec.Outcome, c.slow)
				}
			})
		})
	}
}
