package sdktest

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// scenario is one thing that callers and models do.
type scenario struct {
	name  string
	ask   ask
	say   say
	shape string // stream or whole, where it is of one of them alone
	// needs are the words that a caller must have for it, and can what a provider
	// must: who has not cannot be asked this.
	needs, can []string
	// foreign: not where the provider takes the client's own bytes, which stay as
	// they are.
	foreign bool
}

const picture = "iVBORw0KGgo="

var (
	forecast = function{"get_forecast", "The weather & <more> of \"a\" city.", map[string]any{
		"type": "object", "additionalProperties": false, "required": []string{"city"},
		"properties": map[string]any{
			"city": map[string]any{"type": "string", "description": "é \"quoted\""},
			"days": map[string]any{"type": "array", "items": map[string]any{"type": "object", "properties": map[string]any{
				"date": map[string]any{"type": "string", "enum": []string{"today", "tomorrow"}},
				"wind": map[string]any{"$ref": "#/$defs/wind"}}}},
		},
		"$defs": map[string]any{"wind": map[string]any{"anyOf": []any{map[string]any{"type": "null"}, map[string]any{"type": "number", "minimum": 0}}}},
	}}
	clock = function{"get_time", "The time.", map[string]any{"type": "object", "properties": map[string]any{}}}

	deep   = `{"city":"Paris, <île> 😀","days":[{"date":"today","wind":null},{"wind":2.5}],"q":"a\"b\\c\n\u0007"}`
	shape  = map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}, "required": []string{"name"}, "additionalProperties": false}
	system = turn{role: "system", parts: []part{{kind: "text", text: "You answer in \"one\" sentence.\n\t<b>é 東京 😀</b>"}}}
	asks   = user(part{kind: "text", text: "What is a " + secretWord + "?\nSay it in \\ 東京 \u2028."})
	used   = tokens{in: 160, read: 40, write: 20, write1h: 5, out: 30, thought: 10}
	plainU = tokens{in: 11, out: 6}
)

func user(parts ...part) turn      { return turn{role: "user", parts: parts} }
func assistant(parts ...part) turn { return turn{role: "assistant", parts: parts} }
func text(s string) part           { return part{kind: "text", text: s} }

func result(id, name string, failed bool, parts ...part) part {
	return part{kind: "result", id: id, name: name, parts: parts, failed: failed}
}

// scenarios are the rows of the matrix.
func scenarios() []*scenario {
	hello := say{pieces: pieces("One two \"three\" \\ <four> é 東京 😀\u2028\n\tfive."), usage: plainU}
	base := ask{turns: []turn{system, asks}, max: 1000}
	with := func(change func(a *ask)) ask {
		a := base
		change(&a)
		return a
	}
	tools := func(choice string) ask {
		return with(func(a *ask) { a.tools, a.choice = []function{forecast, clock}, choice })
	}
	wish := with(func(a *ask) { a.max, a.effort = 16000, "medium" })
	thinks := say{think: []string{"Let me ", "see: \"é\" ", "\\ 東京.\n"}, seal: "c2VhbCBvbmUrLz0=", pieces: pieces("It flies."), usage: used}
	unasked := thinks
	unasked.unasked = true
	long := say{usage: plainU}
	for i := range 1200 {
		long.pieces = append(long.pieces, fmt.Sprintf("word %d \\\"é\\\" ", i))
	}
	all := []*scenario{
		{name: "text", ask: with(func(a *ask) { a.numbers = map[string]float64{"temperature": 0.5} }), say: hello},
		{name: "long", ask: ask{turns: []turn{user(text(strings.Repeat(secretWord+" \"é\" \\ 東京\n", 5000)))}, max: 1000}, say: long},
		{name: "escapes", ask: base, foreign: true, can: []string{"split"}, say: say{usage: plainU, pieces: []string{`\u00e9 \ud83d`, `\ude00 \ud83d\ude00 \/ \"\\ \b\f\n\r\t \u2028 \u0000`, ` end`}}},
		{name: "usage", ask: base, say: say{pieces: pieces("Cached."), usage: used}},
		{name: "tool", ask: tools("auto"), say: say{pieces: pieces("I look. "), calls: []call{{"call_a", "get_forecast", deep}}, usage: plainU}},
		{name: "tools", ask: tools("required"), say: say{calls: []call{{"call_a", "get_forecast", deep}, {"call_b", "get_time", "{}"}, {"call_c", "get_forecast", tokyo}}, usage: plainU}},
		{name: "woven", ask: tools(""), say: say{calls: []call{{"call_a", "get_forecast", deep}, {"call_b", "get_forecast", tokyo}}, woven: true, usage: plainU}},
		{name: "no-arguments", ask: tools("get_time"), say: say{calls: []call{{"call_a", "get_time", "{}"}}, usage: plainU}},
		{name: "no-tool", ask: tools("none"), say: hello},
		{name: "one-tool", ask: with(func(a *ask) { a.tools, a.choice, a.oneTool = []function{forecast}, "required", true }), say: hello, needs: []string{"one tool"}},
		{name: "bare-tool", ask: with(func(a *ask) { a.tools = []function{{"go", "", nil}} }), say: hello, needs: []string{"allowed"}},
		{name: "allowed", ask: with(func(a *ask) {
			a.tools, a.allowed = []function{forecast, clock, {"go", "Go.", clock.schema}}, []string{"get_time", "go"}
		}), say: hello, needs: []string{"allowed"}},
		{name: "no-max", ask: with(func(a *ask) { a.max = 0 }), say: hello, needs: []string{"allowed"}},
		{name: "swapped", ask: with(func(a *ask) {
			a.tools = []function{forecast, clock}
			a.turns = append(a.turns[:2:2], assistant(text(""), part{kind: "call", id: "call_a", name: "get_forecast", args: tokyo}, part{kind: "call", id: "call_b", name: "get_time", args: "{}"}),
				user(result("call_b", "get_time", false, text("noon"))), user(result("call_a", "get_forecast", false, text("warm")), text("So?")))
		}), say: hello, foreign: true},
		{name: "results", ask: with(func(a *ask) {
			a.tools = []function{forecast, clock}
			a.turns = append(a.turns[:2:2], assistant(text("I look."), part{kind: "call", id: "call_a", name: "get_forecast", args: deep}, part{kind: "call", id: "call_b", name: "get_time", args: "{}"}),
				user(result("call_a", "get_forecast", false, text("18 \"degrees\"")), result("call_b", "get_time", false, text("noon"))), assistant(text("Fine.")), user(text("And now?")))
		}), say: hello},
		{name: "failed", ask: with(func(a *ask) {
			a.tools = []function{clock}
			a.turns = append(a.turns[:2:2], assistant(part{kind: "call", id: "call_a", name: "get_time", args: "{}"}), user(result("call_a", "get_time", true, text("no clock"))))
		}), say: hello, needs: []string{"failed"}},
		{name: "result-image", ask: with(func(a *ask) {
			a.tools = []function{clock}
			a.turns = append(a.turns[:2:2], assistant(part{kind: "call", id: "call_a", name: "get_time", args: "{}"}, part{kind: "call", id: "call_b", name: "get_time", args: "{}"}),
				user(result("call_a", "get_time", false, text("see"), part{kind: "image", media: "image/png", text: picture}), result("call_b", "get_time", false, text("noon"))))
		}), say: hello},
		{name: "odd-ids", ask: with(func(a *ask) {
			a.tools = []function{clock}
			a.turns = append(a.turns[:2:2], assistant(part{kind: "call", id: "functions.get_time:0", name: "get_time", args: "{}"}, part{kind: "call", id: "functions_get_time_0", name: "get_time", args: "{}"}),
				user(result("functions.get_time:0", "get_time", false, text("one")), result("functions_get_time_0", "get_time", false, text("two"))))
		}), say: hello, foreign: true},
		{name: "image", ask: with(func(a *ask) {
			a.turns = []turn{user(part{kind: "image", media: "image/png", text: picture}, text("What is it?"))}
		}), say: hello},
		{name: "link", ask: with(func(a *ask) {
			a.turns = []turn{user(part{kind: "link", media: "image/png", text: "https://pictures.example/a.png"}, text("What is it?"))}
		}), say: hello},
		{name: "document", ask: with(func(a *ask) {
			a.turns = []turn{user(part{kind: "document", media: "application/pdf", text: "JVBERi0="}, text("What is it?"))}
		}), say: hello},
		{name: "later-system", ask: with(func(a *ask) {
			a.turns = append(a.turns[:2:2], assistant(text("A flyer.")), user(text("Big?")), turn{role: "system", parts: []part{text("Be \"short\".")}}, user(text("Really?")))
		}), say: hello, needs: []string{"later system"}},
		{name: "prefill", ask: with(func(a *ask) { a.turns = append(a.turns[:2:2], assistant(text("It is"))) }), say: hello},
		{name: "schema", ask: with(func(a *ask) { a.schema = shape }), say: say{pieces: pieces(`{"name": "a \"b\""}`), usage: plainU}},
		{name: "json", ask: with(func(a *ask) { a.json = true }), say: say{pieces: pieces(`{"a": 1}`), usage: plainU}, needs: []string{"json"}},
		{name: "stop", ask: with(func(a *ask) { a.stop = []string{"END", "\n\n\"é\""} }), say: hello, needs: []string{"stop"}},
		{name: "choices", ask: with(func(a *ask) { a.n = 2 }), say: say{pieces: pieces("One two."), second: "Three.", usage: plainU}, needs: []string{"n"}},
		{name: "logs", ask: with(func(a *ask) { a.logs = 3 }), say: hello, needs: []string{"logs"}},
		{name: "user", ask: with(func(a *ask) { a.user = "u-1" }), say: hello, needs: []string{"user"}},
		{name: "cache", ask: with(func(a *ask) {
			marked, long := system.parts[0], asks.parts[0]
			marked.cache, long.cache = "5m", "1h"
			a.turns = []turn{{role: "system", parts: []part{marked}}, user(long, text("Go."))}
		}), say: hello, needs: []string{"cache"}},
		{name: "thinks", ask: wish, say: thinks},
		{name: "effort-forced", ask: with(func(a *ask) { a.max, a.effort, a.tools, a.choice = 16000, "low", []function{clock}, "required" }), say: hello, foreign: true},
		{name: "effort-sampled", ask: with(func(a *ask) { a.max, a.effort, a.numbers = 16000, "low", map[string]float64{"temperature": 0.5} }), say: hello, foreign: true},
		{name: "effort-results", ask: with(func(a *ask) {
			a.max, a.effort, a.tools = 16000, "low", []function{clock}
			a.turns = append(a.turns[:2:2], assistant(part{kind: "call", id: "call_a", name: "get_time", args: "{}"}), user(result("call_a", "get_time", false, text("noon"))))
		}), say: hello, foreign: true},
		{name: "hot", ask: with(func(a *ask) { a.numbers = map[string]float64{"temperature": 1.5} }), say: hello, needs: []string{"hot"}},
		{name: "thinks-unasked", ask: base, say: unasked},
		{name: "thinks-hidden", ask: wish, say: say{seal: "c2VhbCB0d28rLz0=", pieces: pieces("Hm."), usage: used}, can: []string{"seal"}},
		{name: "thinks-tool", ask: with(func(a *ask) { a.max, a.effort, a.tools = 16000, "low", []function{forecast} }), say: say{think: thinks.think, seal: thinks.seal, calls: []call{{"call_a", "get_forecast", deep}}, usage: used}},
		{name: "refusal", ask: base, say: say{refusal: "I cannot say that.", finish: "refusal", usage: plainU}, can: []string{"refusal"}},
		{name: "filter", ask: base, say: say{pieces: pieces("I was "), finish: "filter", usage: plainU}, can: []string{"refusal"}},
		{name: "length", ask: base, say: say{pieces: pieces("One two"), finish: "length", usage: plainU}},
		{name: "length-tool", ask: tools(""), say: say{calls: []call{{"call_a", "get_forecast", tokyo}}, finish: "length", usage: plainU}},
		{name: "stopword", ask: with(func(a *ask) { a.stop = []string{"END"} }), needs: []string{"stop"}, say: say{pieces: pieces("One two"), finish: "stopword", usage: plainU}},
		{name: "pause", ask: base, say: say{pieces: pieces("One two"), finish: "pause", usage: plainU}, can: []string{"pause"}},
		{name: "live", ask: base, say: hello, shape: "stream"},
		{name: "cut", ask: base, say: say{pieces: pieces("One two three "), usage: plainU, cut: true}, shape: "stream"},
		{name: "error-early", ask: base, say: say{fail: &failure{status: 503, after: true}}, shape: "stream"},
		{name: "error-401", ask: base, say: say{fail: &failure{status: 401}}},
		{name: "error-400", ask: base, say: say{fail: &failure{status: 400}}},
		{name: "error-429", ask: base, say: say{fail: &failure{status: 429}}},
		{name: "error-500", ask: base, say: say{fail: &failure{status: 500}}},
		{name: "error-behind", ask: base, say: say{pieces: pieces("One two three "), usage: plainU, fail: &failure{status: 503, after: true}}, shape: "stream"},
	}
	for _, effort := range []string{"none", "minimal", "low", "high", "xhigh"} {
		all = append(all, &scenario{name: "effort-" + effort, say: hello, shape: "stream", ask: with(func(a *ask) { a.max, a.effort = 64000, effort })})
	}
	for _, n := range []struct {
		name  string
		value float64
	}{{"top_p", 0.25}, {"top_k", 7}, {"seed", 42}, {"presence", 0.5}, {"frequency", -0.5}} {
		all = append(all, &scenario{name: strings.ReplaceAll(n.name, "_", "-"), say: hello, needs: []string{n.name}, ask: with(func(a *ask) { a.numbers = map[string]float64{n.name: n.value} })})
	}
	return all
}

// refusals are the words whose loss would change what an answer means; what else
// a provider lacks is left out and named.
var refusals = []string{"n", "stop", "logs", "choice", "schema", "json", "max", "link", "document"}

// becomes is what is to become of an ask: what the provider reads of it, or the
// name of the client's field that the call is refused for; and the fields that
// are left out.
func becomes(c *caller, p *provider, a *ask) (lines []string, refused string, dropped []string) {
	r := newReading()
	can := func(what string) bool { return p.native == c.api || p.has(what) }
	loses := func(what string) bool {
		if can(what) {
			return false
		}
		if slices.Contains(refusals, what) {
			refused = c.fields[what]
		} else if name := c.fields[what]; !slices.Contains(dropped, name) {
			dropped = append(dropped, name)
		}
		return true
	}
	set := func(what, value string) {
		if value != "" && !loses(what) {
			r.set(what, value)
		}
	}
	for i, t := range a.turns {
		r.expect(i, t, c, p, can, loses)
	}
	choice := a.choice
	if a.allowed != nil { // as good as these tools alone
		choice = "required"
		a = &ask{turns: a.turns, max: a.max, tools: slices.DeleteFunc(slices.Clone(a.tools), func(f function) bool { return !slices.Contains(a.allowed, f.name) })}
	}
	if choice == "none" && !can("none") {
		choice = ""
	} else {
		for _, f := range a.tools {
			schema := ""
			if f.schema != nil {
				schema = quoteJSON(f.schema)
			}
			r.tool(f.name, f.description, schema)
		}
	}
	if choice != "" && choice != "auto" {
		set("choice", choice)
	}
	if a.oneTool {
		set("one tool", "true")
	}
	if a.max > 0 {
		set("max", number(float64(a.max)))
	} else if p.native != messages {
		set("max", "")
	} else {
		set("max", "8192") // they want one
	}
	effort, numbers := a.effort, maps.Clone(a.numbers)
	if claude := p.native == messages || p.api == converse; claude && p.native != c.api && effort != "" && effort != "none" {
		last := a.turns[len(a.turns)-1]
		switch { // what Claude does not think with
		case choice != "" && choice != "auto" && choice != "none", last.parts != nil && last.parts[0].kind == "result" && a.turns[len(a.turns)-2].own == nil:
			effort, dropped = "", append(dropped, c.fields["effort"])
		default:
			for _, name := range []string{"temperature", "top_k"} {
				if _, ok := numbers[name]; ok {
					delete(numbers, name)
					dropped = append(dropped, c.fields[name])
				}
			}
		}
	}
	if p.native != c.api && (p.native == messages || p.api == converse) && numbers["temperature"] > 1 { // they go up to 1
		dropped = append(dropped, c.fields["temperature"])
		if numbers["temperature"] = 1; p.api != converse {
			delete(numbers, "temperature")
		}
	}
	for name, v := range numbers {
		set(name, number(v))
	}
	if a.stop != nil {
		set("stop", quoteJSON(a.stop))
	}
	if a.schema != nil {
		set("schema", quoteJSON(a.schema))
	}
	if a.json {
		set("json", "true")
	}
	set("effort", p.effort(c, effort))
	if effort != "" && effort != "none" && c.fields["shown"] != "" && p.has("shown") {
		r.set("shown", "auto")
	}
	if a.n > 0 {
		set("n", number(float64(a.n)))
	}
	if a.logs > 0 {
		set("logs", number(float64(a.logs)))
	}
	set("user", a.user)
	return r.all(), refused, dropped
}

// effort is a provider's word for a level of reasoning.
func (p *provider) effort(c *caller, level string) string {
	coarse := map[string]string{"minimal": "low", "xhigh": "high"}[level]
	switch {
	case level == "none" && (p.native == messages || p.api == converse):
		return ""
	case level == "none" && p.api == ollama:
		return "false"
	case p.native == c.api || coarse == "":
		return level
	case p.api == ollama, p.format == "llamacpp", level == "xhigh" && p.format == "openai" && c.api != responses: // a limit in tokens is not more than high
		return coarse
	}
	return level
}

// expect notes what a provider is to read of a turn.
func (r *reading) expect(i int, t turn, c *caller, p *provider, can, loses func(string) bool) {
	var after []part // images that stand behind the results
	piece := func(who string, x part) {
		switch x.kind {
		case "text":
			r.text(who, x.text)
		case "image":
			if p.api == ollama {
				x.media = "image"
			}
			r.data(who, x.media, x.text)
		case "document", "link":
			if loses(x.kind) {
				return
			}
			if x.kind == "document" && c.fields["name"] != "" {
				loses("name")
			}
			if x.kind == "link" {
				r.image(who, x.text)
			} else {
				r.data(who, x.media, x.text)
			}
		}
		if x.cache != "" && !loses("cache") {
			r.line("cache", x.cache)
		}
	}
	for _, x := range t.parts {
		switch {
		case x.kind == "call":
			r.call(x.id, x.name, x.args)
		case x.kind == "result":
			who := r.result(x.id, x.name, x.failed && c.fields["failed"] != "" && can("failed"))
			if x.failed && !can("failed") {
				x.parts = append([]part{text(p.failure)}, x.parts...)
			}
			for _, y := range x.parts {
				if y.kind == "image" && (c.fields["result image"] == "" || !can("result image")) {
					after = append(after, y)
				} else {
					piece(who, y)
				}
			}
		case t.role == "system" && i > 0 && !can("later system"):
			r.text("user", "<system>\n"+x.text+"\n</system>")
		default:
			piece(t.role, x)
		}
	}
	for _, y := range after {
		piece("user", y)
	}
	if t.say != nil {
		r.again(t, p, c)
	}
}

// again notes an answer that a provider gave before and reads again: what sealed
// its reasoning is there byte for byte, where it is the provider's own, and
// nothing of it where it is another's.
func (r *reading) again(t turn, p *provider, c *caller) {
	s, seal := t.say, t.say.seal
	own := t.by == p && (p.seals || p.native == c.api || p.format == "llamacpp" || p.api == ollama)
	switch {
	case seal == "" || !p.seals:
		seal = ""
	case p.api == responses:
		seal = "rs_1 " + seal
	case p.api == converse && len(s.think) == 0:
		seal = base64.StdEncoding.EncodeToString([]byte(seal))
	}
	if own && p.api != generate {
		r.text("assistant thinks", s.thoughts())
	}
	if own && p.api != generate {
		r.seal(seal)
	}
	if len(s.pieces) > 0 {
		r.text("assistant", s.text())
	}
	if own && p.api == generate {
		r.seal(seal)
	}
	for i, x := range s.calls {
		r.call(t.own.calls[i].id, x.name, x.args)
	}
}

// matrixCells are the models of the matrix, one for each call.
func matrixCells(rows []*scenario) (cells []*cell) {
	for _, c := range callers {
		for _, p := range providers {
			for _, s := range rows {
				for _, shape := range []string{"stream", "whole"} {
					if s.exists(c, p, shape) {
						at := &cell{model: s.cell(c, p, shape), provider: p, says: []*say{&s.say}}
						if s.name == "live" {
							at.gate = make(chan struct{})
						}
						cells = append(cells, at)
					}
				}
			}
		}
	}
	return cells
}

func (s *scenario) cell(c *caller, p *provider, shape string) string {
	return strings.Join([]string{s.name, c.api, p.format, shape}, ".")
}

func (s *scenario) exists(c *caller, p *provider, shape string) bool {
	for _, what := range s.needs {
		if c.fields[what] == "" {
			return false
		}
	}
	for _, what := range s.can {
		if !p.has(what) {
			return false
		}
	}
	return (s.shape == "" || s.shape == shape) && !(s.foreign && p.native == c.api)
}

// TestTranslation holds every client format against every provider's: what a
// caller asks is what the provider reads, and what the model answers is what the
// caller's SDK gives.
func TestTranslation(t *testing.T) {
	rows := scenarios()
	recordings := replays(t)
	pairs := crossings()
	m := openMarket(t, slices.Concat(matrixCells(rows), conversationCells(), replayCells(recordings), crossingCells(pairs), betaCells()))
	h := serve(t, m.configuration())
	via := side{h.base, callerKey, "", nil}
	t.Run("matrix", func(t *testing.T) { testMatrix(t, via, m, rows) })
	t.Run("conversations", func(t *testing.T) { testConversations(t, via, m) })
	t.Run("wander", func(t *testing.T) { testWander(t, via, m) })
	t.Run("crossings", func(t *testing.T) { testCrossings(t, via, m, pairs) })
	t.Run("betas", func(t *testing.T) { testBetas(t, via, m) })
	t.Run("replays", func(t *testing.T) { testReplays(t, via, h, recordings) })
}

// testMatrix makes each call of the matrix.
func testMatrix(t *testing.T, via side, m *market, rows []*scenario) {
	for _, c := range callers {
		for _, p := range providers {
			for _, s := range rows {
				for _, shape := range []string{"stream", "whole"} {
					if !s.exists(c, p, shape) {
						continue
					}
					t.Run(strings.Join([]string{c.api, p.format, s.name, shape}, "/"), func(t *testing.T) {
						t.Parallel()
						at, from := m.cells[s.cell(c, p, shape)], via
						heard := at.gate == nil
						from.each = func(event string) {
							if !heard && strings.Contains(event, "five.") {
								heard = true
								close(at.gate)
							}
						}
						got := c.call(from, t.Context(), at.model, &s.ask, shape == "stream")
						if s.check(t, c, p, at, got); !heard {
							t.Error("the text came with the end of the stream")
						}
					})
				}
			}
		}
	}
}

// check holds a call against its scenario.
func (s *scenario) check(t *testing.T, c *caller, p *provider, at *cell, got *said) {
	want, refused, dropped := becomes(c, p, &s.ask)
	if refused != "" {
		if status, _, says := raised(got.err); status != 400 || !strings.Contains(says, refused) {
			t.Errorf("the call ends with %d %s, want 400 that names %s", status, says, refused)
		}
		if len(at.got) > 0 {
			t.Error("the provider was asked all the same")
		}
		return
	}
	if len(at.got) != 1 {
		t.Fatalf("the provider was asked %d times: %v", len(at.got), got.err)
	}
	sameLines(t, "the provider reads", at.got[0].tidy(c), want)
	named(t, got.dropped, dropped)
	s.say.heard(t, c, p, got)
}

// tidy gives a reading's lines without what says nothing, and in one spelling
// what can be said in two.
func (r *reading) tidy(c *caller) []string {
	if r.settings["choice"] == "auto" {
		delete(r.settings, "choice")
	}
	if allowed := strings.Fields(r.settings["allowed"]); len(allowed) > 0 {
		delete(r.settings, "allowed")
		r.settings["choice"] = "required"
		maps.DeleteFunc(r.settings, func(name, _ string) bool {
			tool, ok := strings.CutPrefix(name, "tool ")
			return ok && !slices.Contains(allowed, tool)
		})
	}
	if c.fields["shown"] == "" {
		delete(r.settings, "shown")
	}
	return r.all()
}

// named holds x-headway-dropped against the fields that are to be in it.
func named(t *testing.T, header string, want []string) {
	t.Helper()
	got := strings.FieldsFunc(header, func(r rune) bool { return r == ',' || r == ' ' })
	for _, w := range want {
		if !slices.ContainsFunc(got, func(g string) bool { return strings.Contains(g, w) }) {
			t.Errorf("x-headway-dropped is %q, want %s in it", header, w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("x-headway-dropped is %q, want %q", header, want)
	}
}

// heard holds what a client's SDK gave against what the model meant.
func (s *say) heard(t *testing.T, c *caller, p *provider, got *said) {
	t.Helper()
	if s.cut {
		if status, _, says := raised(got.err); got.err == nil || got.text != s.text() || !strings.Contains(says, "ended") {
			t.Errorf("the cut call ends with %q, %d %s, want %q and an error that tells", got.text, status, says, s.text())
		}
		return
	}
	if f := s.fail; f != nil {
		status, _, says := raised(got.err)
		switch {
		case got.err == nil:
			t.Error("the call ends well")
		case f.after && len(s.pieces) == 0 && status != 502:
			t.Errorf("the call ends with %d %s, want 502", status, says)
		case f.after && len(s.pieces) == 0:
		case f.status == 401 && status != 502:
			t.Errorf("the call ends with %d %s, want 502: it was Headway's credential", status, says)
		case f.status == 401:
		case f.after && (got.text != s.text() || !strings.Contains(says, failed)):
			t.Errorf("the call ends with %q and %s, want %q and the provider's words", got.text, says, s.text())
		case !f.after && f.status < 500 && (status != f.status || !strings.Contains(says, failed)):
			t.Errorf("the call ends with %d %s, want %d and the provider's words", status, says, f.status)
		case !f.after && f.status >= 500 && status != 502:
			t.Errorf("the call ends with %d %s, want 502", status, says)
		}
		if want := errorWords[c.api][f.status]; !f.after && !strings.Contains(says, want) {
			t.Errorf("the error is %s, want %s", says, want)
		}
		return
	}
	if got.err != nil || got.trouble != "" {
		t.Fatalf("the call ends with %v; %s", got.err, got.trouble)
	}
	if p.native != c.api && !strings.Contains(got.model, "."+c.api+"."+p.format+".") {
		t.Errorf("the SDK shows the model %q", got.model)
	}
	want := []string{"text " + quote(s.text()), "reasoning " + quote(s.thoughts()), "finish " + s.end()}
	switch {
	case s.end() == "pause" && c.api == chat: // not its end, the nearest that there is
		want[2] = "finish length"
	case s.end() == "stopword", s.end() == "pause" && c.api != messages:
		want[2] = "finish stop"
	}
	if s.unasked && (c.api == messages || c.api == generate) && p.native != c.api { // whose clients ask to see it
		want[1] = `reasoning ""`
	}
	lines := []string{"text " + quote(got.text), "reasoning " + quote(got.reasoning), "finish " + got.finish}
	if s.second != "" {
		want[0] = "text " + quote(s.text()+"|"+s.second)
	}
	if s.end() == "refusal" { // its words, where its provider has any, and that it is one
		words := s.refusal
		if p.api == generate {
			words = ""
		}
		declined := got.refusal != "" || got.finish == "refusal" || got.finish == "filter"
		want, lines = []string{words, "declined true"}, []string{got.refusal + got.text, fmt.Sprint("declined ", declined)}
	} else if s.end() == "filter" && got.finish == "refusal" {
		lines[2] = "finish filter"
	}
	ids := map[string]bool{}
	for _, x := range got.calls {
		lines = append(lines, "call "+x.name+" "+plain(x.args))
		if x.id != "" && ids[x.id] || x.id == "" && c.api != generate {
			t.Errorf("the calls' ids are not their own: %v", got.calls)
		}
		ids[x.id] = true
	}
	for i, x := range s.calls {
		want = append(want, "call "+x.name+" "+plain(x.args))
		if p.api != generate && p.api != ollama && i < len(got.calls) && got.calls[i].id != x.id {
			t.Errorf("call %s has the id %s", x.id, got.calls[i].id)
		}
	}
	u := s.usage
	if !p.has("read") {
		u.read = 0
	}
	if !p.has("write") || c.api == generate {
		u.write = 0
	}
	if !p.has("1h") || !p.has("write") || c.api != messages {
		u.write1h = 0
	}
	if !p.has("thought") {
		u.thought = 0
	}
	want, lines = append(want, fmt.Sprintf("usage %+v", u)), append(lines, fmt.Sprintf("usage %+v", got.usage))
	sameLines(t, "the SDK gives", lines, want)
}

// errorWords are the formats' words for a status.
var errorWords = map[string]map[int]string{
	chat: {400: "invalid_request_error", 429: "rate_limit", 500: "error"}, responses: {400: "invalid_request_error", 429: "rate_limit", 500: "error"},
	messages: {400: "invalid_request_error", 429: "rate_limit_error", 500: "api_error"}, generate: {400: "INVALID_ARGUMENT", 429: "RESOURCE_EXHAUSTED", 500: ""},
}

// sameLines compares two lists, and says what differs.
func sameLines(t *testing.T, what string, got, want []string) {
	t.Helper()
	if slices.Equal(got, want) {
		return
	}
	var b strings.Builder
	for i := range max(len(got), len(want)) {
		g, w := "nothing", "nothing"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			fmt.Fprintf(&b, "\n  is   %s\n  want %s", short(g), short(w))
		}
	}
	t.Errorf("%s:%s", what, b.String())
}
