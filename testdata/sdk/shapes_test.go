package sdktest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// testShapes asks for a stream where the upstream sends none, and the other way
// round: the answer is brought to the shape that was asked for (SPEC §13).
func (g *rig) testShapes(t *testing.T) {
	for _, r := range g.recordings {
		if notAsked[r.name] != "" || unreadable[r.name] != "" || r.status != http.StatusOK || otherwise[r.name].outcome != "" || r.label != nil && r.label.Error != nil {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			raw := g.raw.call(t.Context(), r, r.streamed)
			via := g.via.call(t.Context(), r, !r.streamed)
			if raw.err != nil || via.err != nil || via.Refused != "" {
				t.Fatalf("through Headway: %v %s; straight from the upstream: %v", via.err, via.Refused, raw.err)
			}
			reshaped(t, r, via, raw)
			if got := g.headway.receipt(t, via.id); got.Outcome != "settled" || got.Streamed || got.Timing.FirstToken != nil {
				t.Errorf("the receipt has a stream's figures, which there was none of: %s", got.raw)
			}
		})
	}
}

// reshaped holds an answer in the other shape against the one that was sent.
func reshaped(t *testing.T, r *recording, via, raw *heard) {
	t.Helper()
	want := *raw
	switch {
	case r.name == "google-generatecontent.partial-args-nested":
		// The SDK does not put arguments together that come in pieces.
		if len(via.Tools) != 1 || !strings.Contains(via.Tools[0].Arguments, "Lasagna noodles") {
			t.Errorf("the tool calls are %v", via.Tools)
		}
		want.Tools = via.Tools
	case r.api == chat && r.streamed:
		want = *assembled(t, raw.Events)
		if strings.HasPrefix(via.Text, "[{") { // Mistral's list of parts, which the SDK gives as it is
			via.Text = contentText(json.RawMessage(via.Text))
		}
	case r.api == responses && r.streamed:
		// What the events say adds up to what the last of them says, where it does.
		if raw.Final == "" {
			via.Final = ""
			break
		}
		want = heard{Final: raw.Final, Finish: raw.Finish, Usage: raw.Usage}
		via.Text, via.Reasoning, via.Refusal, via.Tools = "", "", "", nil
	case r.api != responses:
		via.Final = ""
	}
	want.Events, via.Events = nil, nil
	same(t, via, &want)
}

// assembled puts chunks together by the rules of the format. The SDK's
// accumulator does not serve for this: it adds up what servers report again and
// again, and forgets a finish reason when an empty one follows.
func assembled(t *testing.T, events []string) *heard {
	t.Helper()
	type choice struct {
		text, refusal, reasoning, reasoningContent, finish string
		calls                                              map[int]*tool
	}
	type usage struct {
		In      int64 `json:"prompt_tokens"`
		Out     int64 `json:"completion_tokens"`
		Total   int64 `json:"total_tokens"`
		Details struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		OutDetails struct {
			Reasoning int64 `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	}
	choices := map[int]*choice{}
	var last usage
	for _, e := range events {
		var chunk struct {
			Choices []struct {
				Index int
				Delta struct {
					Content          json.RawMessage
					Refusal          string
					Reasoning        string
					ReasoningContent string `json:"reasoning_content"`
					Calls            []struct {
						Index    int
						ID       string
						Function struct{ Name, Arguments string }
					} `json:"tool_calls"`
				}
				Finish string `json:"finish_reason"`
				Usage  *usage // Moonshot's
			}
			Usage *usage
		}
		if err := json.Unmarshal([]byte(e), &chunk); err != nil {
			t.Fatal(err)
		}
		for _, piece := range chunk.Choices {
			c := choices[piece.Index]
			if c == nil {
				c = &choice{calls: map[int]*tool{}}
				choices[piece.Index] = c
			}
			d := piece.Delta
			c.text += contentText(d.Content)
			c.refusal += d.Refusal
			c.reasoning += d.Reasoning
			c.reasoningContent += d.ReasoningContent
			for i, p := range d.Calls {
				index := p.Index
				if index == 0 && i > 0 { // whole calls in one list, all of index 0
					index = i
				}
				if c.calls[index] == nil {
					c.calls[index] = &tool{}
				}
				if c.calls[index].Name == "" {
					c.calls[index].Name = p.Function.Name
				}
				c.calls[index].Arguments += p.Function.Arguments
			}
			if piece.Finish != "" {
				c.finish = piece.Finish
			}
			if piece.Usage != nil {
				last = *piece.Usage
			}
		}
		if chunk.Usage != nil {
			last = *chunk.Usage
		}
	}
	h := &heard{Usage: fmt.Sprintf("in %d out %d total %d cached %d reasoning %d", last.In, last.Out, last.Total, last.Details.Cached, last.OutDetails.Reasoning)}
	var texts, refusals, finishes []string
	for i := range len(choices) {
		c := choices[i]
		if c == nil {
			t.Fatalf("there is no choice %d of %d", i, len(choices))
		}
		texts, refusals, finishes = append(texts, c.text), append(refusals, c.refusal), append(finishes, c.finish)
		if len(c.reasoning) > len(c.reasoningContent) {
			c.reasoningContent = c.reasoning
		}
		h.Reasoning += c.reasoningContent
		for _, index := range slices.Sorted(maps.Keys(c.calls)) {
			h.Tools = append(h.Tools, *c.calls[index])
		}
	}
	h.Text, h.Refusal, h.Finish = strings.Join(texts, "|"), strings.Join(refusals, "|"), strings.Join(finishes, "|")
	return h
}

// contentText is what a delta's content says: a text, or Mistral's list with
// parts of text.
func contentText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var parts []struct{ Type, Text string }
	if json.Unmarshal(raw, &parts) == nil {
		for _, p := range parts {
			text += p.Text
		}
	}
	return text
}
