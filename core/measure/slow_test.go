package measure_test

import (
	"testing"

	"headway/core"
	"headway/core/measure"
)

// trace is the timing of one of SPEC §21's reference traces.
func trace(headers, event, response, text, total float64, tokens int64) core.Timing {
	f := core.Some[float64]
	return core.Timing{
		UpstreamHeaders: f(headers), FirstEvent: f(event), FirstResponse: f(response), FirstText: f(text),
		UpstreamDone: f(total), VisibleTPS: core.PerSecond(tokens, f(total-text)),
	}
}

func TestSlow(t *testing.T) {
	f := core.Some[float64]
	def := core.DefaultSettings().Slow
	fine := func(change func(t *core.Timing)) core.Timing {
		t := trace(200, 250, 300, 310, 2310, 200)
		t.Auth, t.Distribution, t.BodyRead, t.Queued = f(1), f(1), f(1), f(3)
		if change != nil {
			change(&t)
		}
		return t
	}
	tests := []struct {
		name string
		t    core.Timing
		lim  core.SlowLimits
		want string
	}{
		{"trace A", trace(6100, 6300, 6350, 6400, 9200, 118), def, measure.SlowHeaders},
		{"trace B", trace(240, 310, 2900, 8700, 10200, 83), def, measure.SlowTextAfterAction},
		{"trace C", trace(260, 330, 420, 430, 20430, 196), def, measure.SlowGeneration},
		{"fine", fine(nil), def, ""},
		{"nothing known", core.Timing{}, def, ""},

		{"headers at the limit", fine(func(t *core.Timing) { t.UpstreamHeaders = f(3000) }), def, measure.SlowHeaders},
		{"headers just under it", fine(func(t *core.Timing) { t.UpstreamHeaders = f(2999.999) }), def, ""},
		{"an unstreamed call has headers alone", core.Timing{UpstreamHeaders: f(4000)}, def, measure.SlowHeaders},

		{"response late after an early event", trace(200, 250, 3000, 3010, 5000, 200), def, measure.SlowOutputAfterEvent},
		{"response long after a late-ish event", trace(200, 2900, 7900, 7910, 9000, 200), def, measure.SlowOutputAfterEvent},
		{"5 s after the event though in time", trace(200, 250, 5250, 5260, 9000, 200), core.SlowLimits{Headers: def.Headers, FirstEvent: def.FirstEvent, FirstOutput: 60e9, OutputAfterEvent: 5e9}, measure.SlowOutputAfterEvent},
		{"event and response late", trace(200, 3100, 3200, 3300, 5000, 200), def, measure.SlowFirstOutput},
		{"text 3 s after a response in time", trace(200, 250, 300, 3300, 5000, 200), def, measure.SlowTextAfterAction},
		{"tool calls alone have no text to wait for", core.Timing{UpstreamHeaders: f(200), FirstEvent: f(250), FirstResponse: f(300), UpstreamDone: f(60000)}, def, ""},
		{"15 tokens a second", trace(200, 250, 300, 310, 10310, 150), def, ""},
		{"14.9 tokens a second", trace(200, 250, 300, 310, 10310, 149), def, measure.SlowGeneration},

		{"key check", fine(func(t *core.Timing) { t.Auth = f(200) }), def, measure.SlowAuth},
		{"choosing", fine(func(t *core.Timing) { t.Distribution = f(100) }), def, measure.SlowRouting},
		{"upload", fine(func(t *core.Timing) { t.BodyRead = f(2000) }), def, measure.SlowUpload},
		{"both local: the first", fine(func(t *core.Timing) { t.Auth, t.BodyRead = f(500), f(5000) }), def, measure.SlowAuth},
		{"an upstream fault goes before a local one", fine(func(t *core.Timing) { t.Auth, t.UpstreamHeaders = f(500), f(4000) }), def, measure.SlowHeaders},
		{"a long upload is not a late event", fine(func(t *core.Timing) {
			t.BodyRead, t.Queued, t.FirstEvent, t.FirstResponse, t.FirstText, t.UpstreamDone = f(6000), f(6003), f(6250), f(6300), f(6310), f(8310)
		}), def, measure.SlowUpload},
		{"a late response after a long upload and an early event", fine(func(t *core.Timing) {
			t.BodyRead, t.Queued, t.FirstEvent, t.FirstResponse = f(6000), f(6003), f(6250), f(9250)
		}), def, measure.SlowOutputAfterEvent},
		{"headers unknown", core.Timing{FirstEvent: f(3100), FirstResponse: f(3200), FirstText: f(9000), VisibleTPS: f(3)}, def, ""},
		{"a limit of 0 asks for nothing", trace(6100, 6300, 6350, 6400, 9200, 3), core.SlowLimits{}, ""},
		{"configured", trace(600, 700, 800, 900, 2000, 200), core.SlowLimits{Headers: 500e6}, measure.SlowHeaders},
	}
	for _, tt := range tests {
		if got := measure.Slow(tt.t, tt.lim); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
