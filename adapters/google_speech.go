package adapters

import (
	"bytes"

	"headway/core"
)

// googleSpeech is one candidate while it is written.
type googleSpeech struct {
	choice int
	// parts are those that are not written yet: in a stream those of the event at
	// hand, else all.
	parts   text
	joins   bool // the last of parts is a text, which more of its kind joins
	thought bool // and it is a thought
	sealed  bool // the last of parts has a signature
	// seal waits for the part behind it, where Google puts its own signatures: that
	// of the thoughts before a function call or an answer's text.
	seal    *core.Seal
	calls   []*googleCalling
	finish  core.Finish
	refused bool
	broken  []byte // a call whose arguments are no object, as it stands in a JSON string
}

// googleCalling is a function call whose arguments still come.
type googleCalling struct {
	index    int
	id, name string
	seal     *core.Seal
	args     []byte // as they stand in a JSON string
	end      jsonEnd
	broken   bool // they are whole, and no object
}

// event takes one event.
func (v *googleSpeech) event(e *core.Event) {
	switch e.Kind {
	case core.EventText, core.EventReasoning, core.EventRefusal:
		if len(e.Text) == 0 {
			return
		}
		v.ready(false)
		v.words(e.Text, e.Kind == core.EventReasoning)
		v.refused = v.refused || e.Kind == core.EventRefusal
	case core.EventSeal:
		v.ready(false)
		v.ownSeal()
		v.seal = &core.Seal{Origin: e.Seal.Origin, Text: bytes.Clone(e.Seal.Text), ID: bytes.Clone(e.Seal.ID), Encrypted: e.Seal.Encrypted}
	case core.EventMedia:
		v.ready(false)
		v.file(e.Media)
	case core.EventTool:
		v.ready(false)
		v.calls = append(v.calls, &googleCalling{index: e.Index, id: e.ID, name: e.Name, seal: v.seal})
		v.seal = nil
	case core.EventArguments:
		for _, call := range v.calls {
			if call.index == e.Index {
				call.args = append(call.args, e.Text...)
				call.end.read(e.Text)
			}
		}
	case core.EventFinish:
		if v.finish == "" {
			v.finish = e.Finish
		}
	}
}

// words writes text, escaped as it came, with the seal that waits.
func (v *googleSpeech) words(escaped []byte, thought bool) {
	t := &v.parts
	if thought {
		v.ownSeal() // it is not of what is thought behind it
	}
	if v.joins && v.seal == nil && v.thought == thought && len(t.b) > 0 {
		t.b = t.b[:len(t.b)-len(`"}`)]
	} else {
		v.next()
		t.open('{')
		if thought {
			t.raw([]byte(`"thought":true`))
		}
		if v.sealed = v.seal != nil; v.sealed {
			t.key("thoughtSignature")
			t.inner(signature(v.seal))
			v.seal = nil
		}
		t.key("text")
		t.open('"')
		v.joins, v.thought = true, thought
	}
	t.raw(escaped)
	t.raw([]byte(`"}`))
}

// file writes a file, with the seal that waits.
func (v *googleSpeech) file(m *core.Media) {
	v.next()
	t := &v.parts
	t.open('{')
	if v.sealed = v.seal != nil; v.sealed {
		t.key("thoughtSignature")
		t.inner(signature(v.seal))
		v.seal = nil
	}
	t.file(m.Type, m)
	t.close('}')
}

// next begins a part.
func (v *googleSpeech) next() {
	if len(v.parts.b) > 0 {
		v.parts.b = append(v.parts.b, ',')
	}
	v.joins, v.sealed = false, false
}

// ownSeal writes the seal that waits as a part of its own. The SDKs' chats leave
// out what has neither text nor a call, so that this is the last resort.
func (v *googleSpeech) ownSeal() {
	if v.seal != nil {
		v.next()
		v.parts.raw([]byte(`{"thought":true,"text":"","thoughtSignature":`))
		v.parts.inner(signature(v.seal))
		v.parts.close('}')
		v.seal, v.sealed = nil, true
	}
}

// lastSeal puts a seal that nothing follows on the last part, where that is not
// written yet and has none.
func (v *googleSpeech) lastSeal() {
	t := &v.parts
	if v.seal == nil || len(t.b) == 0 || v.sealed {
		v.ownSeal()
		return
	}
	t.b = t.b[:len(t.b)-1]
	t.key("thoughtSignature")
	t.inner(signature(v.seal))
	t.close('}')
	v.seal = nil
}

// signature is a seal as a thoughtSignature, which the SDKs read as base64.
func signature(s *core.Seal) []byte {
	if s.Origin == core.FormatGoogle {
		return inner(s.Text)
	}
	return wrapSeal64(*s)
}

// ready writes the calls whose arguments are whole, in their order, and all where
// no more of them can come. Arguments that are no object (cut, or the model's
// mistake) make no call that a client could run by accident: the finish tells of
// it, as Google's own does.
func (v *googleSpeech) ready(all bool) {
	for len(v.calls) > 0 {
		call := v.calls[0]
		if !all && (!call.end.done || call.broken) {
			return
		}
		args, ok := googleArguments(call.args)
		if call.broken = !ok; !ok && !all {
			return
		}
		v.calls = v.calls[1:]
		if !ok {
			v.broken = append(append(append(v.broken, inner(core.Quoted(quote(call.name)))...), ' '), call.args...)
			continue
		}
		v.next()
		t := &v.parts
		t.raw([]byte(`{"functionCall":`))
		t.open('{')
		t.key("id")
		t.str(call.id)
		t.key("name")
		t.str(call.name)
		t.key("args")
		t.raw(args)
		t.close('}')
		if v.sealed = call.seal != nil; v.sealed {
			t.key("thoughtSignature")
			t.inner(signature(call.seal))
		}
		t.close('}')
	}
}

// end writes the candidate's last parts and why it ended.
func (v *googleSpeech) end(dst []byte) []byte {
	v.ready(true)
	v.lastSeal()
	if len(v.parts.b) == 0 {
		v.parts.raw([]byte(`{"text":""}`)) // SDKs and agents look for a part
	}
	reason := googleFinishReason(v.finish)
	switch {
	case reason != "STOP":
	case v.broken != nil:
		reason = "MALFORMED_FUNCTION_CALL"
	case v.refused:
		reason = "SAFETY"
	}
	return v.write(dst, reason)
}

// write writes the candidate with its parts, and with a finish reason where it is
// the last time.
func (v *googleSpeech) write(dst []byte, reason string) []byte {
	t := text{dst}
	t.raw([]byte(`{"content":{"parts":[`))
	t.raw(v.parts.b)
	t.raw([]byte(`],"role":"model"}`))
	if reason != "" {
		t.key("finishReason")
		t.str(reason)
		if v.broken != nil {
			t.key("finishMessage")
			t.inner(append([]byte("Malformed function call: "), v.broken...))
		}
	}
	t.key("index")
	t.int(int64(v.choice))
	t.close('}')
	v.parts.b, v.joins, v.sealed = v.parts.b[:0], false, false
	return t.b
}
