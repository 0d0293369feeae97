package adapters

import (
	"bytes"
	"slices"
	"time"

	"headway/core"
)

// Translator writes the answer of an upstream of another format.
func (Google) Translator(job *core.Job, at time.Time) core.Translator {
	return &googleTranslator{job: job, at: at}
}

// googleTranslator writes one answer.
type googleTranslator struct {
	job    *core.Job
	at     time.Time
	id     string
	tail   []byte // what is behind the candidates of each response
	ended  bool
	voices []*googleSpeech // in the order of their numbers
}

// Event writes a part at once, in a stream; a function call once it is whole, as
// the format has no other.
func (t *googleTranslator) Event(dst []byte, e *core.Event) []byte {
	if t.ended {
		return dst
	}
	if e.Kind == core.EventStart {
		t.id = e.ID
		return dst
	}
	v := t.voice(e.Choice)
	v.event(e)
	if !t.job.Streamed || len(v.parts.b) == 0 {
		return dst
	}
	dst = t.open(slices.Grow(dst, len(v.parts.b)+len(t.tail)+128))
	return t.close(v.write(dst, ""), nil)
}

// End writes what still waits, the finish reasons and the usage: the last
// response of a stream, or the only one.
func (t *googleTranslator) End(dst []byte, a *core.Answer) []byte {
	if t.ended {
		return dst
	}
	t.ended = true
	t.voice(0) // an answer has one
	dst = t.open(dst)
	for i, v := range t.voices {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = v.end(dst)
	}
	dst = t.close(dst, &a.Usage)
	if t.job.Streamed && !t.job.SSE {
		dst = append(dst, "\n]"...)
	}
	return dst
}

// voice gives a candidate, made where it is new.
func (t *googleTranslator) voice(choice int) *googleSpeech {
	at, ok := slices.BinarySearchFunc(t.voices, choice, func(v *googleSpeech, c int) int { return v.choice - c })
	if !ok {
		t.voices = slices.Insert(t.voices, at, &googleSpeech{choice: choice})
	}
	return t.voices[at]
}

// open begins a response.
func (t *googleTranslator) open(dst []byte) []byte {
	first := t.tail == nil
	if first {
		if t.id == "" {
			t.id = string(core.NewCallID(t.at))
		}
		var tail text
		tail.raw([]byte(`,"modelVersion":`))
		tail.str(string(t.job.Model))
		tail.key("responseId")
		tail.str(t.id)
		tail.close('}')
		t.tail = tail.b
	}
	switch {
	case t.job.SSE:
		dst = append(dst, "data: "...)
	case t.job.Streamed && first:
		dst = append(dst, '[')
	case t.job.Streamed:
		dst = append(dst, ",\n"...)
	}
	return append(dst, `{"candidates":[`...)
}

// close ends a response, with the usage where it is the last.
func (t *googleTranslator) close(dst []byte, u *core.Usage) []byte {
	dst = append(dst, ']')
	if u != nil {
		dst = appendGoogleUsage(dst, u)
	}
	dst = append(dst, t.tail...)
	switch {
	case t.job.SSE:
		dst = append(dst, "\r\n\r\n"...)
	case t.job.Streamed:
		dst = append(dst, '\n')
	}
	return dst
}

// appendGoogleUsage writes usageMetadata: the prompt's count includes what was
// cached, the candidates' not the thoughts. What is not known is left out.
func appendGoogleUsage(dst []byte, u *core.Usage) []byte {
	var inside text
	known := u.UncachedInput.OK || u.CacheRead.OK || u.CacheWrite.OK
	if known {
		inside.count("promptTokenCount", core.Some(u.Input()))
	}
	if said := u.Output; said.OK {
		if u.Reasoning.V <= said.V {
			said.V -= u.Reasoning.V
		}
		inside.count("candidatesTokenCount", said)
	}
	if known && u.Output.OK {
		inside.count("totalTokenCount", core.Some(u.Input()+u.Output.V))
	}
	inside.count("cachedContentTokenCount", u.CacheRead)
	inside.count("thoughtsTokenCount", u.Reasoning)
	if len(inside.b) == 0 {
		return dst
	}
	dst = append(dst, `,"usageMetadata":{`...)
	return append(append(dst, inside.b...), '}')
}

// googleFinishReason is Google's word for why an answer ended: STOP for calls too.
func googleFinishReason(f core.Finish) string {
	switch f {
	case core.FinishLength:
		return "MAX_TOKENS"
	case core.FinishFilter, core.FinishRefusal:
		return "SAFETY"
	}
	return "STOP"
}

// googleArguments are the arguments of a call on one line, from how they stand in a
// JSON string; false where they are no object.
func googleArguments(escaped []byte) (args []byte, ok bool) {
	args = bytes.TrimSpace(unescape(escaped))
	if len(args) == 0 || string(args) == "null" {
		return []byte("{}"), true
	}
	c := walk(args)
	isObject := c.peek() == '{'
	c.skip()
	if !isObject || c.end() != nil {
		return nil, false
	}
	// Between its parts alone can JSON have line ends, which end an event's line.
	return bytes.ReplaceAll(bytes.ReplaceAll(args, []byte{'\n'}, nil), []byte{'\r'}, nil), true
}
