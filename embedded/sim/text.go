package sim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
	"unicode/utf16"
)

// filler is what simulated providers say. A word is a token.
const filler = `The ferry leaves the north pier at seven and carries the bread, the post and whoever is awake.
In winter the harbour master lights the lamps by hand, because the timer has never agreed with the fog.
A small workshop behind the station mends clocks that other workshops have given up on.
Its owner says that a clock is only late when somebody is waiting for it.
Rain came in from the west, stayed for an hour, and left the roofs shining.
Two students measured the old bridge with a rope and found it a little longer than the map allows.
The library keeps its quietest table for people who write letters.
On market days the baker counts the loaves twice and the change once.
Every path through the orchard ends at the same gate, though some of them take the scenic way.
The train was early, which nobody noticed, and the next one was late, which everybody did.
A good estimate admits what it does not know and is checked against what happened.
The gardener waters the beans first, since they complain the loudest.
At noon the shadow of the tower touches the well, and the children step over it for luck.
Someone had repaired the fence with wire, patience and three kinds of knots.
The river is slow here and fast below the mill, so the boats choose their side before the bend.
When the shop closed, the cat moved to the window and took over the accounts.
Maps of the valley disagree about the hill, but all of them are sure of the inn.
The night watch writes down each sound it hears and, in the morning, each that it should have heard.
A letter from the coast takes two days, and a rumour takes one.
Nothing on the shelf was new, and everything on it had been useful at least once.
The measuring jar stands by the door, where the farmer reads it before the news.
They built the second oven beside the first one, so that neither would be lonely.
Before the concert the pianist counts the empty chairs and plays for those.
The last bus turns around at the lighthouse and waits there for no particular reason.`

// tool is a function that a request offers.
type tool struct {
	name   string
	schema json.RawMessage
}

// answer is what a request is answered with, before a format is put on it.
type answer struct {
	*request
	id     uint64
	at     time.Time
	tokens int      // of output
	pieces []string // of the text, or of the tool call's arguments; one an event
	call   *tool    // nil: the answer is text
	short  bool     // the output maximum cut it
}

// joined is the whole text, or the tool call's whole arguments.
func (a *answer) joined() string { return strings.Join(a.pieces, "") }

// write makes the answer to a request: a tool call where one is to be made and
// fits into the output maximum, else text.
func (p *Provider) write(q *request, r *rand.Rand, id uint64, now time.Time) *answer {
	a := &answer{request: q, id: id, at: now}
	if q.tool != nil {
		args := arguments(q.tool.schema)
		if n := tokens(len(args)); n <= q.most.Or(n) {
			a.call, a.tokens = q.tool, n
			a.pieces = divide(args, (n+p.cfg.TokensPerEvent-1)/p.cfg.TokensPerEvent)
			return a
		}
	}
	usual := p.cfg.OutputTokens
	a.tokens = q.output.Or(max(1, usual/2+r.IntN(usual+1)))
	if a.tokens > q.most.Or(a.tokens) {
		a.tokens, a.short = q.most.V, true
	}
	word := p.heads[r.IntN(len(p.heads))]
	for n := 0; n < a.tokens; {
		var piece strings.Builder
		for range min(p.cfg.TokensPerEvent, a.tokens-n) {
			if n > 0 {
				piece.WriteByte(' ')
			}
			piece.WriteString(p.words[(word+n)%len(p.words)])
			n++
		}
		a.pieces = append(a.pieces, piece.String())
	}
	if last := &a.pieces[len(a.pieces)-1]; !a.short {
		*last = strings.TrimRight(*last, ".,") + "."
	}
	return a
}

// divide cuts ASCII text into n parts of about the same size.
func divide(s string, n int) []string {
	parts := make([]string, n)
	for i := range n {
		parts[i] = s[i*len(s)/n : (i+1)*len(s)/n]
	}
	return parts
}

// choose finds the tool that a request makes the model call. text is that of the
// last message where a user wrote it: it asks for a call by the word "tool".
// choice is the format's tool choice, a word or an object.
func choose(tools []tool, choice json.RawMessage, text string) *tool {
	if len(tools) == 0 {
		return nil
	}
	var v any
	_ = json.Unmarshal(choice, &v) // empty: nothing is chosen
	mode, _ := v.(string)
	name := ""
	if o, ok := v.(map[string]any); ok {
		mode, _ = o["type"].(string)
		name, _ = o["name"].(string)
		if f, ok := o["function"].(map[string]any); ok {
			name, _ = f["name"].(string)
		}
	}
	called := func(is func(tool) bool) *tool {
		if i := slices.IndexFunc(tools, is); i >= 0 {
			return &tools[i]
		}
		return nil
	}
	text = strings.ToLower(text)
	mentioned := called(func(t tool) bool { return strings.Contains(text, strings.ToLower(t.name)) })
	switch {
	case strings.EqualFold(mode, "none"):
		return nil
	case name != "":
		return called(func(t tool) bool { return t.name == name })
	case strings.EqualFold(mode, "any"), mode == "required", strings.Contains(text, "tool"):
		return cmp.Or(mentioned, &tools[0])
	}
	return nil
}

// arguments makes an object that a JSON schema allows, in ASCII.
func arguments(schema json.RawMessage) string {
	var v any
	_ = json.Unmarshal(schema, &v) // no schema: no arguments
	made, ok := example(v, 0).(map[string]any)
	if !ok {
		made = map[string]any{}
	}
	text, _ := json.Marshal(made) // what came from JSON goes back into it
	var ascii strings.Builder
	for _, c := range string(text) {
		switch {
		case c < 0x80:
			ascii.WriteRune(c)
		case c > 0xffff:
			hi, lo := utf16.EncodeRune(c)
			fmt.Fprintf(&ascii, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&ascii, `\u%04x`, c)
		}
	}
	return ascii.String()
}

// deepest bounds how far a schema is followed down.
const deepest = 6

// example makes a value that a schema allows, as far as it says so with type,
// enum, const, properties, required and items.
func example(schema any, depth int) any {
	s, _ := schema.(map[string]any)
	if v, ok := s["const"]; ok {
		return v
	}
	if list, ok := s["enum"].([]any); ok && len(list) > 0 {
		return list[0]
	}
	kind, _ := s["type"].(string)
	if list, ok := s["type"].([]any); ok && len(list) > 0 {
		kind, _ = list[0].(string)
	}
	properties, _ := s["properties"].(map[string]any)
	switch kind = strings.ToLower(kind); {
	case kind == "object" || kind == "" && (properties != nil || depth == 0):
		required, ok := s["required"].([]any)
		made := map[string]any{}
		for name, property := range properties {
			if depth < deepest && (!ok || slices.Contains(required, any(name))) {
				made[name] = example(property, depth+1)
			}
		}
		return made
	case kind == "array":
		if depth < deepest && s["items"] != nil {
			return []any{example(s["items"], depth+1)}
		}
		return []any{}
	case kind == "integer", kind == "number":
		if least, ok := s["minimum"].(float64); ok {
			return least
		}
		return 1
	case kind == "boolean":
		return true
	case kind == "null":
		return nil
	}
	return "the old bridge"
}
