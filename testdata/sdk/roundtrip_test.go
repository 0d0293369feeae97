package sdktest

import (
	"slices"
	"strings"
	"testing"
)

// chatter is a conversation's answers: reasoning with its seal before a call,
// hidden reasoning before text and calls, reasoning before text, and text.
func chatter() []*say {
	return []*say{
		{think: []string{"I need ", "the \"forecast\"."}, seal: "c2VhbC1vbmUrLz0=", calls: []call{{"call_a", "get_forecast", deep}}, usage: used},
		{seal: "c2VhbC10d28rLz0=", pieces: pieces("And the time. "), calls: []call{{"call_b", "get_time", "{}"}, {"call_c", "get_forecast", tokyo}}, usage: used},
		{think: []string{"Now \\ I know."}, seal: "c2VhbC10aHJlZSsv", pieces: pieces("It is warm \"there\"."), usage: used},
		{pieces: pieces("Good bye."), usage: used},
	}
}

// conversationCells are a model for each conversation.
func conversationCells() (cells []*cell) {
	for _, c := range callers {
		for _, p := range providers {
			for _, shape := range []string{"stream", "whole"} {
				cells = append(cells, &cell{model: strings.Join([]string{"chatter", c.api, p.format, shape}, "."), provider: p, says: chatter()})
				if _, ok := route[p.format]; ok {
					cells = append(cells, &cell{model: strings.Join([]string{"wander", c.api, p.format, shape}, "."), provider: p, says: []*say{route[p.format]}})
				}
			}
		}
	}
	return cells
}

// testConversations makes four turns with tools and reasoning at each provider:
// each reads all that was said before, with its own seals byte for byte.
func testConversations(t *testing.T, via side, m *market) {
	for _, c := range callers {
		for _, p := range providers {
			for _, shape := range []string{"stream", "whole"} {
				t.Run(strings.Join([]string{c.api, p.format, shape}, "/"), func(t *testing.T) {
					t.Parallel()
					at := m.cells[strings.Join([]string{"chatter", c.api, p.format, shape}, ".")]
					a := ask{turns: []turn{system, asks}, tools: []function{forecast, clock}, max: 16000, effort: "low"}
					for i, s := range at.says {
						got := c.call(via, t.Context(), at.model, &a, shape == "stream")
						if len(at.got) != i+1 {
							t.Fatalf("turn %d: the provider was asked %d times: %v", i+1, len(at.got), got.err)
						}
						want, _, dropped := becomes(c, p, &a)
						sameLines(t, "the provider reads", at.got[i].tidy(c), want)
						named(t, got.dropped, dropped)
						s.heard(t, c, p, got)
						if t.Failed() || len(got.calls) != len(s.calls) {
							t.Fatalf("turn %d failed", i+1)
						}
						next := user(text("And then?"))
						if len(got.calls) > 0 {
							next = user()
						}
						for _, x := range got.calls {
							next.parts = append(next.parts, result(x.id, x.name, false, text("result of "+x.name)))
						}
						a.turns = append(a.turns, turn{role: "assistant", own: got, say: s, by: p}, next)
					}
				})
			}
		}
	}
}

// route are what the providers say that a conversation wanders through.
var route = map[string]*say{
	"anthropic":        {think: []string{"I am Claude."}, seal: "YW50aHJvcGljK3NlYWw=", pieces: pieces("A \"one\"."), usage: used},
	"google":           {think: []string{"I am Gemini."}, seal: "Z29vZ2xlK3NlYWwv", pieces: pieces("G two."), usage: used},
	"openai-responses": {think: []string{"I am GPT."}, seal: "cmVzcG9uc2VzK3NlYWw=", pieces: pieces("R three."), usage: used},
	"bedrock-converse": {think: []string{"I am Nova."}, seal: "Y29udmVyc2Urc2VhbA==", pieces: pieces("C four."), usage: used},
	"openai":           {think: []string{"I am a chat."}, pieces: pieces("O five."), usage: used},
}

// testWander takes one conversation from provider to provider and back: each
// reads what all have said, and of the reasoning its own alone. What another
// sealed it would refuse.
func testWander(t *testing.T, via side, m *market) {
	stations := []string{"anthropic", "google", "openai-responses", "bedrock-converse", "openai"}
	for _, c := range callers {
		for _, shape := range []string{"stream", "whole"} {
			t.Run(c.api+"/"+shape, func(t *testing.T) {
				t.Parallel()
				a := ask{turns: []turn{system, asks}, max: 16000, effort: "low"}
				for i := range 2 * len(stations) {
					at := m.cells[strings.Join([]string{"wander", c.api, stations[i%len(stations)], shape}, ".")]
					got := c.call(via, t.Context(), at.model, &a, shape == "stream")
					if len(at.got) != i/len(stations)+1 {
						t.Fatalf("station %d, %s: the provider was asked %d times: %v", i+1, at.format, len(at.got), got.err)
					}
					want, _, _ := becomes(c, at.provider, &a)
					lines := at.got[i/len(stations)].tidy(c)
					if at.native == c.api && !at.seals { // who seals nothing refuses nobody's reasoning, and gets the client's bytes
						thinks := func(line string) bool { return strings.HasPrefix(line, "assistant thinks") }
						want, lines = slices.DeleteFunc(want, thinks), slices.DeleteFunc(lines, thinks)
					}
					sameLines(t, at.format+" reads", lines, want)
					at.says[0].heard(t, c, at.provider, got)
					if t.Failed() {
						t.Fatalf("station %d, %s failed", i+1, at.format)
					}
					a.turns = append(a.turns, turn{role: "assistant", own: got, say: at.says[0], by: at.provider}, user(text("And then?")))
				}
			})
		}
	}
}
