package measure_test

import (
	"testing"
	"time"

	"headway/core"
	"headway/core/measure"
)

// marks makes a timeline of ms after the call's arrival; a mark below 0 was not
// reached.
func marks(t1, t2, t3, t4, t5, tl, t6 float64) core.Timeline {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(ms float64) time.Time {
		if ms < 0 {
			return time.Time{}
		}
		return start.Add(time.Duration(ms * float64(time.Millisecond)))
	}
	return core.Timeline{T0: start, T1: at(t1), T2: at(t2), T3: at(t3), T4: at(t4), T5: at(t5), TL: at(tl), T6: at(t6)}
}

// reported is an answer with usage: uncached input, cache reads, output and the
// reasoning in it.
func reported(fresh, cached, output, reasoning int64) core.Answer {
	u := core.Usage{UncachedInput: core.Some(fresh), CacheRead: core.Some(cached), Output: core.Some(output)}
	if reasoning > 0 {
		u.Reasoning = core.Some(reasoning)
	}
	return core.Answer{Usage: u, Reported: true}
}

// server adds a model server's own figures to an answer.
func server(a core.Answer, promptTokens int64, promptMS float64, decodeTokens int64, decodeMS float64) core.Answer {
	a.Figures = core.ServerFigures{
		PromptTokens: core.Some(promptTokens), PromptMS: core.Some(promptMS),
		DecodeTokens: core.Some(decodeTokens), DecodeMS: core.Some(decodeMS),
	}
	return a
}

func TestFigures(t *testing.T) {
	f, i := core.Some[float64], core.Some[int64]
	// Sent at 10 ms, headers at 110, an event at 150, output at 210, text at 510,
	// the last output at 2210, closed at 2510.
	stream := marks(10, 110, 150, 210, 510, 2210, 2510)
	base := core.Timing{
		UpstreamHeaders: f(100), FirstEvent: f(150), FirstResponse: f(210), FirstText: f(510), UpstreamDone: f(2510),
		Queued: f(10), FirstToken: f(200), DispatchToFirstToken: f(200), FirstTokenToEnd: f(2000), Arrivals: i(50),
		Prompt: f(200), Decode: f(2000), FiguresFrom: measure.FromStream,
	}
	with := func(change func(t *core.Timing)) core.Timing {
		out := base
		change(&out)
		return out
	}
	unstreamed := core.Timing{UpstreamHeaders: f(2400), UpstreamDone: f(2510), Queued: f(10)}
	whole := marks(10, 2410, -1, -1, -1, -1, 2510)
	contradicted := with(func(t *core.Timing) { t.PromptTPS, t.FirstTokenToEnd = f(5000), core.Opt[float64]{} })

	tests := []struct {
		name     string
		tl       core.Timeline
		ans      core.Answer
		streamed bool
		arrivals int
		want     core.Timing
	}{
		{"measured from the stream", stream, reported(1000, 300, 101, 0), true, 50, with(func(t *core.Timing) {
			t.PromptTPS, t.DecodeTPS, t.VisibleTPS = f(5000), f(50), f(50.5)
		})},
		{"streamed reasoning counts", stream, func() core.Answer { a := reported(1000, 0, 101, 60); a.StreamedReasoning = true; return a }(), true, 50, with(func(t *core.Timing) {
			t.PromptTPS, t.DecodeTPS, t.VisibleTPS = f(5000), f(50), f(50.5)
		})},
		{"reasoning that was billed and not streamed does not", stream, reported(1000, 0, 101, 60), true, 50, with(func(t *core.Timing) {
			t.PromptTPS, t.DecodeTPS, t.VisibleTPS, t.StreamedOutputTokens = f(5000), f(20), f(20.5), i(41)
		})},
		{"more reasoning than output", stream, reported(1000, 0, 10, 11), true, 50, contradicted},
		{"text, and all output is hidden reasoning", stream, reported(1000, 0, 10, 10), true, 50, contradicted},
		{"a report that contradicts itself", stream, func() core.Answer { a := reported(1000, 0, 101, 0); a.Contradiction = true; return a }(), true, 50, contradicted},
		{"input grew through server-run tools", stream, func() core.Answer { a := reported(9447, 0, 101, 0); a.InputAtStart = i(2225); return a }(), true, 50, with(func(t *core.Timing) {
			t.PromptTPS, t.DecodeTPS, t.VisibleTPS, t.FreshInputTokens = f(11125), f(50), f(50.5), i(2225)
		})},
		{"a first count that was no smaller is none", stream, func() core.Answer { a := reported(1000, 0, 101, 0); a.InputAtStart = i(1000); return a }(), true, 50, with(func(t *core.Timing) {
			t.PromptTPS, t.DecodeTPS, t.VisibleTPS = f(5000), f(50), f(50.5)
		})},
		{"in three pieces", stream, reported(1000, 0, 101, 0), true, 3, with(func(t *core.Timing) {
			t.PromptTPS, t.Arrivals, t.Decode = f(5000), i(3), core.Opt[float64]{}
		})},
		{"one token has no speed", stream, reported(1000, 0, 1, 0), true, 50, with(func(t *core.Timing) { t.PromptTPS, t.VisibleTPS = f(5000), f(0.5) })},
		{"usage not reported", stream, core.Answer{Usage: reported(1000, 0, 101, 0).Usage}, true, 50, base},
		{"a prompt that was all cached", stream, reported(0, 5000, 101, 0), true, 50, with(func(t *core.Timing) { t.DecodeTPS, t.VisibleTPS = f(50), f(50.5) })},
		{"no visible text", marks(10, 110, 150, 210, -1, 2210, 2510), reported(1000, 0, 101, 0), true, 50, with(func(t *core.Timing) {
			t.PromptTPS, t.DecodeTPS, t.FirstText = f(5000), f(50), core.Opt[float64]{}
		})},
		{"no output at all", marks(10, 110, 150, -1, -1, -1, 2510), reported(1000, 0, 0, 0), true, 0, core.Timing{
			UpstreamHeaders: f(100), FirstEvent: f(150), UpstreamDone: f(2510), Queued: f(10), Arrivals: i(0),
		}},

		{"the server's own", stream, server(reported(1000, 300, 101, 0), 1000, 150, 101, 2020), true, 50, with(func(t *core.Timing) {
			t.Prompt, t.PromptTPS, t.Decode, t.DecodeTPS, t.VisibleTPS, t.FiguresFrom = f(150), f(6666.667), f(2020), f(50), f(50.5), measure.FromServer
		})},
		{"the server's own, in one piece", stream, server(reported(1000, 0, 101, 0), 1000, 150, 101, 2020), true, 1, with(func(t *core.Timing) {
			t.Prompt, t.PromptTPS, t.Decode, t.DecodeTPS, t.FiguresFrom, t.Arrivals = f(150), f(6666.667), f(2020), f(50), measure.FromServer, i(1)
		})},
		{"hidden reasoning was made in the server's time", stream, server(reported(1000, 0, 101, 60), 1000, 150, 101, 2020), true, 50, with(func(t *core.Timing) {
			t.Prompt, t.PromptTPS, t.Decode, t.DecodeTPS, t.FiguresFrom = f(150), f(6666.667), f(2020), f(50), measure.FromServer
			t.VisibleTPS, t.StreamedOutputTokens = f(20.5), i(41)
		})},
		{"a contradiction has no speed of the server's either", stream, func() core.Answer {
			a := server(reported(1000, 0, 101, 0), 1000, 150, 101, 2020)
			a.Contradiction = true
			return a
		}(), true, 50, with(func(t *core.Timing) {
			t.Prompt, t.PromptTPS, t.Decode, t.FirstTokenToEnd, t.FiguresFrom = f(150), f(6666.667), f(2020), core.Opt[float64]{}, measure.FromServer
		})},
		{"one token read has a time and no speed", stream, server(reported(1, 16853, 101, 0), 1, 5.442, 101, 2020), true, 50, with(func(t *core.Timing) {
			t.Prompt, t.Decode, t.DecodeTPS, t.VisibleTPS, t.FiguresFrom = f(5.442), f(2020), f(50), f(50.5), measure.FromServer
		})},
		{"a count left out by the server", stream, func() core.Answer {
			a := server(reported(1000, 0, 101, 0), 0, 12, 101, 2020)
			a.Figures.PromptTokens = core.Opt[int64]{}
			return a
		}(), true, 50, with(func(t *core.Timing) {
			t.Prompt, t.Decode, t.DecodeTPS, t.VisibleTPS, t.FiguresFrom = f(12), f(2020), f(50), f(50.5), measure.FromServer
		})},
		{"more read than the prompt had", stream, server(reported(1000, 0, 101, 0), 1001, 150, 101, 2020), true, 50, with(func(t *core.Timing) {
			t.PromptTPS, t.DecodeTPS, t.VisibleTPS = f(5000), f(50), f(50.5)
		})},
		{"more written than the answer had", stream, server(reported(1000, 0, 101, 0), 1000, 150, 102, 2020), true, 50, with(func(t *core.Timing) {
			t.PromptTPS, t.DecodeTPS, t.VisibleTPS = f(5000), f(50), f(50.5)
		})},
		{"a cached prompt counted whole", marks(10, 20, 25, 40, 40, 2040, 2050), server(reported(16847, 0, 101, 0), 16847, 17, 101, 1990), true, 50, core.Timing{
			UpstreamHeaders: f(10), FirstEvent: f(25), FirstResponse: f(40), FirstText: f(40), UpstreamDone: f(2050),
			Queued: f(10), FirstToken: f(30), DispatchToFirstToken: f(30), FirstTokenToEnd: f(2000), Arrivals: i(50),
			Prompt: f(30), Decode: f(2000), DecodeTPS: f(50), VisibleTPS: f(50.249), FiguresFrom: measure.FromStream,
		}},
		{"times that our clock did not see", stream, server(reported(1000, 0, 101, 0), 1000, 204, 101, 2400), true, 50, with(func(t *core.Timing) {
			t.Prompt, t.PromptTPS, t.Decode, t.DecodeTPS, t.VisibleTPS = f(204), f(4901.961), f(2400), f(42.083), f(50.5)
			t.FiguresFrom = measure.FromServer
		})},
		{"a token in no time", stream, server(reported(1000, 0, 101, 0), 1000, 150, 101, 0.5), true, 50, with(func(t *core.Timing) {
			t.PromptTPS, t.DecodeTPS, t.VisibleTPS = f(5000), f(50), f(50.5)
		})},

		{"unstreamed", whole, reported(1000, 0, 101, 0), false, 1, unstreamed},
		{"unstreamed, with the server's own", whole, server(reported(1000, 0, 101, 0), 1000, 150, 101, 2020), false, 1, func() core.Timing {
			out := unstreamed
			out.Prompt, out.PromptTPS, out.Decode, out.DecodeTPS, out.FiguresFrom = f(150), f(6666.667), f(2020), f(50), measure.FromServer
			return out
		}()},
		{"unstreamed, one of them impossible", whole, server(reported(1000, 0, 101, 0), 5000, 150, 101, 2020), false, 1, func() core.Timing {
			out := unstreamed
			out.Decode, out.DecodeTPS, out.FiguresFrom = f(2020), f(50), measure.FromServer
			return out
		}()},
		{"nothing came", marks(10, -1, -1, -1, -1, -1, -1), core.Answer{}, false, 0, core.Timing{Queued: f(10)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := measure.Figures(tt.tl, tt.ans, tt.streamed, tt.arrivals); got != tt.want {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

// What Figures leaves out of a contradictory report, Values leaves out of the
// measures, from the receipt alone.
func TestContradictionEntersNoMeasure(t *testing.T) {
	ans := reported(500, 0, 10, 61)
	r := &core.Receipt{Kind: core.KindJob, Outcome: core.Settled, Usage: ans.Usage}
	r.Timing = measure.Figures(marks(10, 110, 150, 210, 510, 2210, 2510), ans, true, 50)
	if got := measure.Values(r); len(got) != 1 || got[measure.BaseLatency] != 200 {
		t.Errorf("values %v, want the base latency alone", got)
	}
}
