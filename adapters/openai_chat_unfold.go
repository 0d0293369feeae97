package adapters

import (
	"errors"
	"maps"

	"headway/core"
)

// Unfold makes the chunks of a whole answer: for each choice its role with what
// is said beside the answer, the content, the tool calls, the finish; then the
// usage where the client asked for it, and [DONE].
func (w *chatWriter) Unfold(body []byte) ([][]byte, error) {
	var answer map[string]any
	if err := decode(body, &answer); err != nil {
		return nil, errors.New("the answer is not a JSON object")
	}
	choices, ok := answer["choices"].([]any)
	if !ok {
		return nil, errors.New("the answer has no choices")
	}
	usage := answer["usage"]
	asked := w.job != nil && w.job.AskedUsage && usage != nil
	base := map[string]any{}
	for _, name := range []string{"id", "created", "model", "system_fingerprint", "service_tier"} {
		if v, ok := answer[name]; ok {
			base[name] = v
		}
		delete(answer, name)
	}
	delete(answer, "choices")
	delete(answer, "usage")
	object := "chat.completion.chunk"
	if w.job != nil && w.job.Operation == core.OpCompletions {
		object = "text_completion"
	}
	answer["object"], base["object"] = object, object
	maps.Copy(answer, base) // what the last chunk has: all that the others leave out

	var frames [][]byte
	chunk := func(fields map[string]any, choices ...any) {
		fields = maps.Clone(fields)
		fields["choices"] = append([]any{}, choices...)
		if _, ok := fields["usage"]; asked && !ok {
			fields["usage"] = nil
		}
		frames = append(frames, chunkEvent(encode(fields)))
	}
	for i, v := range choices {
		choice, _ := v.(map[string]any)
		last := base
		if i == len(choices)-1 {
			last = answer
		}
		unfoldChoice(choice, func(piece map[string]any, end bool) {
			if piece["index"] = i; choice["index"] != nil {
				piece["index"] = choice["index"]
			}
			if end {
				chunk(last, piece)
			} else {
				chunk(base, piece)
			}
		})
	}
	if asked {
		base["usage"] = usage
		chunk(base)
	}
	return append(frames, []byte("data: [DONE]\n\n")), nil
}

// unfoldChoice gives the pieces of one choice.
func unfoldChoice(choice map[string]any, give func(piece map[string]any, end bool)) {
	end := maps.Clone(choice)
	delete(end, "message")
	delete(end, "text")
	delta := func(d map[string]any) { give(map[string]any{"delta": d, "finish_reason": nil}, false) }

	message, ok := choice["message"].(map[string]any)
	if !ok {
		end["text"] = ""
		if text, ok := choice["text"].(string); ok && text != "" {
			give(map[string]any{"text": text, "finish_reason": nil}, false)
		}
		give(end, true)
		return
	}
	first := maps.Clone(message)
	delete(first, "tool_calls")
	said := map[string]any{}
	for _, name := range []string{"content", "refusal"} {
		if text, ok := first[name].(string); ok {
			first[name] = ""
			if text != "" {
				said[name] = text
			}
		}
	}
	delta(first)
	if len(said) > 0 {
		delta(said)
	}
	if calls, ok := message["tool_calls"].([]any); ok && len(calls) > 0 {
		indexed := make([]any, len(calls))
		for i, v := range calls {
			call, _ := v.(map[string]any)
			call = maps.Clone(call)
			call["index"] = i
			indexed[i] = call
		}
		delta(map[string]any{"tool_calls": indexed})
	}
	end["delta"] = map[string]any{}
	give(end, true)
}
