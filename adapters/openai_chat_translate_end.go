package adapters

import (
	"slices"

	"headway/core"
)

// End ends the answer: in a stream the finish of each choice, the usage where the
// client asked for it, and [DONE]; else all of it.
func (w *chatTranslator) End(dst []byte, answer *core.Answer) []byte {
	if w.ended {
		return dst
	}
	w.ended = true
	if len(w.choices) == 0 { // an answer of nothing
		w.choice(0)
	}
	for i := range w.choices {
		if a := &w.choices[i]; a.sealed {
			dst = w.unseal(dst, a)
		}
	}
	slices.SortFunc(w.choices, func(a, b chatAnswer) int { return a.index - b.index })
	if !w.job.Streamed {
		return w.whole(dst, answer)
	}
	for i := range w.choices {
		a := &w.choices[i]
		for j := range a.calls {
			if !a.calls[j].argued {
				dst = w.arguments(dst, a, j, []byte("{}"))
			}
		}
		dst = w.delta(dst, a, 64)
		dst = w.close(dst, quote(w.reason(a)))
	}
	if w.job.AskedUsage && answer.Reported {
		t := text{append(dst, "data: "...)}
		w.top(&t, "chat.completion.chunk")
		t.raw([]byte(`,"choices":[]`))
		t.key("usage")
		chatUsage(&t, &answer.Usage)
		t.close('}')
		dst = append(t.b, "\n\n"...)
	}
	return append(dst, "data: [DONE]\n\n"...)
}

// reason is the finish reason of a choice. Chat has none for a refusal: where its
// text is there it is a stop, as at OpenAI, else it is what a filter does.
func (w *chatTranslator) reason(a *chatAnswer) string {
	switch a.finish {
	case core.FinishLength, core.FinishPause:
		return "length"
	case core.FinishFilter:
		return "content_filter"
	case core.FinishRefusal:
		if !a.refused {
			return "content_filter"
		}
		return "stop"
	}
	switch {
	case len(a.calls) == 0:
		return "stop"
	case w.old:
		return "function_call"
	}
	return "tool_calls"
}

// whole writes an unstreamed answer.
func (w *chatTranslator) whole(dst []byte, answer *core.Answer) []byte {
	t := text{dst}
	w.top(&t, "chat.completion")
	t.key("choices")
	t.open('[')
	for i := range w.choices {
		a := &w.choices[i]
		t.item()
		t.open('{')
		t.key("index")
		t.int(int64(a.index))
		t.key("message")
		w.message(&t, a)
		t.key("logprobs")
		t.raw([]byte("null"))
		t.key("finish_reason")
		t.str(w.reason(a))
		t.close('}')
	}
	t.close(']')
	if answer.Reported {
		t.key("usage")
		chatUsage(&t, &answer.Usage)
	}
	t.close('}')
	return t.b
}

func (w *chatTranslator) message(t *text, a *chatAnswer) {
	t.open('{')
	t.key("role")
	t.str("assistant")
	t.key("content")
	if len(a.content) > 0 || len(a.calls) == 0 && !a.refused {
		t.inner(a.content)
	} else {
		t.raw([]byte("null"))
	}
	t.key("refusal")
	if a.refused {
		t.inner(a.refusal)
	} else {
		t.raw([]byte("null"))
	}
	if len(a.reasoning) > 0 {
		t.key("reasoning_content")
		t.inner(a.reasoning)
	}
	if len(a.details) > 0 {
		t.key("reasoning_details")
		t.open('[')
		for _, d := range a.details {
			t.item()
			t.raw(d)
		}
		t.close(']')
	}
	if len(a.images) > 0 {
		t.key("images")
		t.open('[')
		for _, image := range a.images {
			t.item()
			t.raw(image)
		}
		t.close(']')
	}
	switch {
	case len(a.calls) == 0:
	case w.old:
		t.key("function_call")
		t.open('{')
		a.calls[0].function(t)
	default:
		t.key("tool_calls")
		t.open('[')
		for i := range a.calls {
			call := &a.calls[i]
			t.item()
			t.open('{')
			t.key("id")
			t.str(call.id)
			t.key("type")
			t.str("function")
			t.key("function")
			t.open('{')
			call.function(t)
			t.member("extra_content", call.extra)
			t.close('}')
		}
		t.close(']')
	}
	t.close('}')
}

// function writes the name and arguments of a call and closes their object.
func (c *chatAnswerCall) function(t *text) {
	t.key("name")
	t.str(c.name)
	t.key("arguments")
	if c.argued {
		t.inner(c.arguments)
	} else {
		t.str("{}")
	}
	t.close('}')
}

// chatUsage writes usage by OpenAI's meaning: the input with what was read from
// the cache and written to it, the output with the reasoning.
func chatUsage(t *text, u *core.Usage) {
	t.open('{')
	t.key("prompt_tokens")
	t.int(u.Input())
	t.key("completion_tokens")
	t.int(u.Output.V)
	t.key("total_tokens")
	t.int(u.Input() + u.Output.V)
	if u.CacheRead.OK || u.CacheWrite.OK {
		t.key("prompt_tokens_details")
		t.open('{')
		t.count("cached_tokens", u.CacheRead)
		t.count("cache_write_tokens", u.CacheWrite)
		t.close('}')
	}
	if u.Reasoning.OK {
		t.key("completion_tokens_details")
		t.open('{')
		t.count("reasoning_tokens", u.Reasoning)
		t.close('}')
	}
	t.close('}')
}
