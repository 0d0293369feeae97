package measure

import "headway/core"

// Words of Timing.FiguresFrom.
const (
	FromServer = "server" // the model server's own figures
	FromStream = "stream" // measured from the stream
)

// leastSpeedTokens is how many tokens make a speed: one token in some ms is the
// time of one step and says nothing of the next.
const leastSpeedTokens = 2

// Figures gives the figures of SPEC §2 and §4 that follow from the marks of the
// attempt that answered, what its reader knows of the answer, whether the call
// was streamed (asked for and sent as a stream), and the arrivals of SPEC §4.
// Times are in ms, speeds in tokens per second; what cannot be known is absent.
//
// The local phases (auth, distribution, body read) and the connection are not
// among them; the caller adds them.
func Figures(tl core.Timeline, ans core.Answer, streamed bool, arrivals int) core.Timing {
	t := core.Timing{
		UpstreamHeaders: tl.Headers(),
		UpstreamDone:    tl.Done(),
		TotalHandler:    tl.Total(),
		Queued:          tl.Queued(),
	}
	var usage core.Usage
	if ans.Reported {
		usage = ans.Usage
	}
	made, sound := streamedOutput(usage, ans)
	if streamed {
		t.FirstEvent = tl.FirstEvent()
		t.FirstResponse = tl.FirstResponse()
		t.FirstText = tl.FirstText()
		t.FirstToken = tl.FirstToken()
		t.DispatchToFirstToken = t.FirstToken
		t.Arrivals = core.Some(int64(arrivals))
		if sound {
			t.FirstTokenToEnd = tl.Output()
			if made != usage.Output {
				t.StreamedOutputTokens = made
			}
		}
		if atStart := ans.InputAtStart; atStart.OK && atStart.V >= 0 && atStart.V < usage.Fresh().V {
			t.FreshInputTokens = atStart
		}
		if arrivals >= streamArrivals {
			t.VisibleTPS = tl.VisibleTPS(made.V)
		}
	}
	if !serverFigures(&t, ans, usage, sound) && streamed {
		streamFigures(&t, tl, ans.Figures, usage, made, arrivals)
	}
	return t
}

// streamedOutput is how many output tokens were made between the first output
// and the last: all of them, or without the reasoning that was billed but never
// streamed, which was made before. false: the report contradicts itself, and no
// speed can be made of it. first_token_to_end_ms is then left out too, so that
// whoever recomputes a measure from the receipt leaves this job out as well.
func streamedOutput(usage core.Usage, ans core.Answer) (core.Opt[int64], bool) {
	made, reasoning := usage.Output, usage.Reasoning
	if ans.Contradiction || made.V < 0 || reasoning.V < 0 || made.OK && reasoning.V > made.V {
		return core.Opt[int64]{}, false
	}
	if made.OK && reasoning.V > 0 && !ans.StreamedReasoning {
		made.V -= reasoning.V
		if made.V == 0 { // something streamed, and the report leaves nothing for it
			return core.Opt[int64]{}, false
		}
	}
	return made, true
}

// serverFigures fills prompt and decode from the model server's own figures, and
// tells whether it did. Figures of the two sources are never mixed under one
// name: where the stream can give both and one of the server's is impossible,
// neither is taken; without a stream the possible one is.
func serverFigures(t *core.Timing, ans core.Answer, usage core.Usage, sound bool) bool {
	f := ans.Figures
	prompt := f.PromptMS.OK && f.PromptMS.V > 0
	decode := f.DecodeMS.OK && f.DecodeMS.V > 0
	promptOK := prompt && possible(f.PromptTokens, f.PromptMS.V, usage.Fresh(), core.FastestPrompt)
	decodeOK := decode && possible(f.DecodeTokens, f.DecodeMS.V, usage.Output, core.FastestDecode)
	if t.FirstToken.OK && (prompt && !promptOK || decode && !decodeOK) || !promptOK && !decodeOK {
		return false
	}
	t.FiguresFrom = FromServer
	if promptOK {
		t.Prompt = core.Some(core.Micro(f.PromptMS.V))
		t.PromptTPS = speedOf(f.PromptTokens, 0, f.PromptMS)
	}
	if decodeOK {
		t.Decode = core.Some(core.Micro(f.DecodeMS.V))
		if sound {
			t.DecodeTPS = speedOf(f.DecodeTokens, 0, f.DecodeMS)
		}
	}
	return true
}

// possible holds a server's count against its time and against the usage that it
// reported. An absent count contradicts nothing: Ollama leaves it out where the
// whole prompt was cached.
func possible(tokens core.Opt[int64], ms float64, most core.Opt[int64], fastest float64) bool {
	if ms > core.LongestFigure {
		return false
	}
	if !tokens.OK {
		return true
	}
	if tokens.V < 0 || most.OK && tokens.V > most.V {
		return false
	}
	return !absurd(tokens, ms, fastest)
}

// absurd tells a speed that no machine has.
func absurd(tokens core.Opt[int64], ms, fastest float64) bool {
	return tokens.V >= leastSpeedTokens && float64(tokens.V) > fastest*ms/1000
}

// streamFigures fills prompt and decode as measured from the stream. Decode is
// first output → last output over the tokens after the first, and absent where
// the answer did not come as a stream.
func streamFigures(t *core.Timing, tl core.Timeline, f core.ServerFigures, usage core.Usage, made core.Opt[int64], arrivals int) {
	t.Prompt = t.FirstToken
	fresh := usage.Fresh()
	if t.FreshInputTokens.OK {
		fresh = t.FreshInputTokens
	}
	// Where the server's own time shows that its count holds tokens it did not
	// work on, the same count makes no speed here.
	if !f.PromptMS.OK || !absurd(f.PromptTokens, f.PromptMS.V, core.FastestPrompt) {
		t.PromptTPS = core.PerSecond(fresh.V, t.FirstToken)
	}
	if arrivals >= streamArrivals {
		t.Decode = tl.Output()
		t.DecodeTPS = speedOf(made, 1, t.Decode)
	}
	if t.Prompt.OK || t.Decode.OK {
		t.FiguresFrom = FromStream
	}
}

// speedOf is the speed over all tokens but the first skipped; absent where there
// are too few for one.
func speedOf(tokens core.Opt[int64], skipped int64, ms core.Opt[float64]) core.Opt[float64] {
	if tokens.V < leastSpeedTokens {
		return core.Opt[float64]{}
	}
	return core.PerSecond(tokens.V-skipped, ms)
}
