package adapters

import (
	"bytes"
	"strconv"
	"time"

	"headway/core"
)

// Translator writes Responses answers.
func (Responses) Translator(job *core.Job, at time.Time) core.Translator {
	t := &responsesTranslator{job: job, at: at}
	t.read()
	return t
}

// responsesTranslator writes one answer as the API's items: as events where a
// stream was asked for, and whole at the end.
type responsesTranslator struct {
	job   *core.Job
	at    time.Time
	out   text                     // what the caller's bytes are appended to
	echo  map[string][]byte        // the request's fields that an answer repeats
	tools map[string]responsesTool // those that are called by another name or as plain text

	id     string
	random string // of the ids of items
	seq    int64
	begun  bool
	ended  bool
	failed bool // the answer stopped short
	finish core.Finish
	// declined: the model said a refusal.
	declined bool

	items  [][]byte // whole, in the order of the output; nil for one under way
	open   openItem
	calls  []translatedCall
	parts  []byte // the parts of the open item that are whole
	nparts int
	said   []byte // of the open part
}

// openItem is what the text that comes now goes into; one is open at a time.
type openItem struct {
	kind core.EventKind // EventReasoning or EventText; EventStart for none
	part core.EventKind // of a message: EventText or EventRefusal; EventStart for none
	at   int            // its place in the output
}

// translatedCall is a tool call under way. Several may be: their arguments may
// come by turns.
type translatedCall struct {
	index, at int // among the calls, and in the output
	id, name  string
	namespace core.Quoted
	custom    bool
	arguments []byte
}

// repeated are the fields of a request that an answer repeats, and what stands
// in an answer to a request without them.
var repeated = [...]struct{ name, without string }{
	{"instructions", "null"},
	{"max_output_tokens", "null"},
	{"max_tool_calls", "null"},
	{"metadata", "{}"},
	{"parallel_tool_calls", "true"},
	{"prompt_cache_key", "null"},
	{"reasoning", `{"effort":null,"summary":null}`},
	{"safety_identifier", "null"},
	{"temperature", "null"},
	{"text", `{"format":{"type":"text"}}`},
	{"tool_choice", `"auto"`},
	{"tools", "[]"},
	{"top_logprobs", "0"},
	{"top_p", "null"},
	{"truncation", `"disabled"`},
	{"user", "null"},
}

// read takes what the answer must know of the request.
func (t *responsesTranslator) read() {
	t.echo = map[string][]byte{}
	for _, f := range bodyFields(t.job.Body) {
		if f.value[0] != 'n' && (f.name != "text" || has(f.value, "format")) {
			t.echo[f.name] = oneLine(f.value)
		}
	}
	t.tools = map[string]responsesTool{}
	for _, tool := range responsesTools(t.echo["tools"]) {
		if tool.custom() || tool.namespace != nil {
			t.tools[string(unescape(inner(tool.Name)))] = tool
		}
	}
	t.random = madeName("")
}

// oneLine is a JSON value without line breaks, which would cut an event in two.
func oneLine(v []byte) []byte {
	if bytes.IndexByte(v, '\n') < 0 && bytes.IndexByte(v, '\r') < 0 {
		return v
	}
	return bytes.Map(func(r rune) rune {
		if r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, v)
}

// Event takes one step of the answer. The API has one answer to a call.
func (t *responsesTranslator) Event(dst []byte, e *core.Event) []byte {
	if e.Choice > 0 || t.ended {
		return dst
	}
	out := &t.out
	out.b = dst
	if !t.begun {
		if t.id = e.ID; e.Kind != core.EventStart || t.id == "" {
			t.id = "resp_" + t.random
		}
		t.begin(out)
	}
	switch e.Kind {
	case core.EventText, core.EventRefusal:
		t.text(out, e)
	case core.EventReasoning:
		t.reasoning(out, e)
	case core.EventSeal:
		t.seal(out, &e.Seal)
	case core.EventTool:
		t.call(out, e)
	case core.EventArguments:
		if c := t.find(e.Index); c != nil {
			t.arguments(out, c, e.Text)
		}
	case core.EventMedia:
		if pictured(e.Media) && e.Media.Base64 != nil {
			t.image(out, e.Media)
		} else {
			t.text(out, inWords(e))
		}
	case core.EventFinish:
		t.finish = e.Finish
	}
	return out.b
}

// End writes the last events, or the whole answer.
func (t *responsesTranslator) End(dst []byte, a *core.Answer) []byte {
	if t.ended {
		return dst
	}
	out := &t.out
	out.b = dst
	if !t.begun {
		t.id = "resp_" + t.random
		t.begin(out)
	}
	t.ended = true
	kind := "response.completed"
	if t.finish == core.FinishRefusal && !t.declined { // the API has no other word for it without a text
		t.finish = core.FinishFilter
	}
	if t.finish == core.FinishLength || t.finish == core.FinishFilter {
		kind, t.failed = "response.incomplete", true
	}
	t.endCalls(out, t.open.at)
	t.close(out)
	t.endCalls(out, len(t.items))
	if !t.job.Streamed {
		t.response(out, a)
		return out.b
	}
	t.event(out, kind)
	out.key("response")
	t.response(out, a)
	t.sent(out)
	return out.b
}

// event begins an event.
func (t *responsesTranslator) event(out *text, kind string) {
	out.b = concat(out.b, "event: ", kind, "\ndata: {\"type\":\"", kind, `","sequence_number":`)
	out.b = strconv.AppendInt(out.b, t.seq, 10)
	t.seq++
}

// sent ends it.
func (t *responsesTranslator) sent(out *text) { out.b = append(out.b, "}\n\n"...) }

// begin opens the answer.
func (t *responsesTranslator) begin(out *text) {
	t.begun = true
	if !t.job.Streamed {
		return
	}
	for _, kind := range []string{"response.created", "response.in_progress"} {
		t.event(out, kind)
		out.key("response")
		t.response(out, nil)
		t.sent(out)
	}
}

// response writes the answer as a whole: as it begins, or with a as it ended.
func (t *responsesTranslator) response(out *text, a *core.Answer) {
	status := "in_progress"
	switch {
	case t.failed:
		status = "incomplete"
	case a != nil:
		status = "completed"
	}
	out.open('{')
	out.key("id")
	out.str(t.id)
	out.key("object")
	out.str("response")
	out.key("created_at")
	out.int(t.at.Unix())
	out.key("status")
	out.str(status)
	out.b = concat(out.b, `,"background":false,"error":null,"incomplete_details":`)
	switch {
	case !t.failed:
		out.b = concat(out.b, "null")
	case t.finish == core.FinishFilter:
		out.b = concat(out.b, `{"reason":"content_filter"}`)
	default:
		out.b = concat(out.b, `{"reason":"max_output_tokens"}`)
	}
	out.key("model")
	out.str(string(t.job.Model))
	out.key("output")
	out.open('[')
	for _, item := range t.items {
		if a != nil {
			out.item()
			out.raw(item)
		}
	}
	out.close(']')
	for _, f := range &repeated {
		out.key(f.name)
		if v := t.echo[f.name]; v != nil {
			out.raw(v)
		} else {
			out.b = concat(out.b, f.without)
		}
	}
	out.b = concat(out.b, `,"previous_response_id":null,"service_tier":"default","store":false,"usage":`)
	if a == nil || !a.Usage.Output.OK && !a.Usage.UncachedInput.OK {
		out.b = concat(out.b, "null")
	} else {
		responsesUsage(out, &a.Usage)
	}
	out.close('}')
}

// responsesUsage writes usage by the API's meaning: input holds what was read
// from the cache and written to it.
func responsesUsage(out *text, u *core.Usage) {
	out.open('{')
	out.key("input_tokens")
	out.int(u.Input())
	out.b = concat(out.b, `,"input_tokens_details":{"cached_tokens":`)
	out.int(u.CacheRead.V)
	out.key("cache_write_tokens")
	out.int(u.CacheWrite.V)
	out.close('}')
	out.key("output_tokens")
	out.int(u.Output.V)
	out.b = concat(out.b, `,"output_tokens_details":{"reasoning_tokens":`)
	out.int(u.Reasoning.V)
	out.close('}')
	out.key("total_tokens")
	out.int(u.Input() + u.Output.V)
	out.close('}')
}
