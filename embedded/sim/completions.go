package sim

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"net/http"

	"headway/core"
)

// completions is OpenAI's old completions.
type completions struct{ chat }

func parseCompletions(_ *http.Request, body []byte) (*request, *core.Error) {
	var in struct {
		openAIRequest
		Prompt json.RawMessage `json:"prompt"`
	}
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	q, err := in.common(completions{})
	if err != nil {
		return nil, err
	}
	texts, n, ok := inputs(in.Prompt)
	if !ok || len(texts) != 1 {
		return nil, core.Field("prompt", "one text, or one list of token numbers, is wanted")
	}
	q.op, q.prompt = core.OpCompletions, n
	return q, nil
}

// inputs reads a text, a list of texts, a list of token numbers or a list of
// those, as embeddings and completions take them, and counts their tokens.
func inputs(raw json.RawMessage) (each [][]byte, n int, ok bool) {
	var text string
	if json.Unmarshal(raw, &text) == nil && len(raw) > 0 && raw[0] == '"' {
		return [][]byte{[]byte(text)}, tokens(len(text)), true
	}
	var numbers []int
	if json.Unmarshal(raw, &numbers) == nil && len(numbers) > 0 {
		return [][]byte{raw}, len(numbers), true
	}
	var parts []json.RawMessage
	if json.Unmarshal(raw, &parts) != nil || len(parts) == 0 {
		return nil, 0, false
	}
	for _, part := range parts {
		if len(part) > 0 && part[0] != '"' && json.Unmarshal(part, &numbers) != nil {
			return nil, 0, false
		}
		one, m, ok := inputs(part)
		if !ok || len(one) != 1 {
			return nil, 0, false
		}
		each, n = append(each, one...), n+m
	}
	return each, n, true
}

func (completions) piece(a *answer, text string, finish any, choices bool, usage json.RawMessage) json.RawMessage {
	all := list{}
	if choices {
		all = list{object("text", text, "index", 0, "logprobs", nil, "finish_reason", finish)}
	}
	members := []any{"id", identity("cmpl-", a.id), "object", "text_completion", "created", a.at.Unix(), "model", a.name,
		"choices", all}
	if usage != nil {
		members = append(members, "usage", usage)
	}
	return object(members...)
}

func (c completions) whole(a *answer) []byte {
	return c.piece(a, a.joined(), a.openAIFinish(), true, a.openAIUsage())
}

func (c completions) stream(a *answer) frames {
	var none json.RawMessage
	if a.usage {
		none = json.RawMessage("null")
	}
	f := frames{contentType: eventStream, piece: a.fill(event("", c.piece(a, a.slot(), nil, true, none)))}
	f.after = [][]byte{event("", c.piece(a, "", a.openAIFinish(), true, none))}
	if a.usage {
		f.after = append(f.after, event("", c.piece(a, "", nil, false, a.openAIUsage())))
	}
	f.after = append(f.after, []byte("data: [DONE]\n\n"))
	return f
}

const (
	usualDimensions = 256
	mostDimensions  = 4096
	mostInputs      = 2048
)

func parseEmbeddings(_ *http.Request, body []byte) (*request, *core.Error) {
	var in struct {
		Model          string          `json:"model"`
		Input          json.RawMessage `json:"input"`
		Dimensions     *int            `json:"dimensions"`
		EncodingFormat string          `json:"encoding_format"`
	}
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	q := &request{wire: chat{}, op: core.OpEmbeddings, name: in.Model, dims: usualDimensions,
		base64: in.EncodingFormat == "base64"}
	if in.Model == "" {
		return nil, core.Field("model", "is missing")
	}
	if in.EncodingFormat != "" && in.EncodingFormat != "float" && in.EncodingFormat != "base64" {
		return nil, core.Field("encoding_format", "float and base64 are known")
	}
	if in.Dimensions != nil {
		q.dims = *in.Dimensions
	}
	if q.dims < 1 || q.dims > mostDimensions {
		return nil, core.Field("dimensions", "%d is not between 1 and %d", q.dims, mostDimensions)
	}
	var ok bool
	if q.inputs, q.prompt, ok = inputs(in.Input); !ok || len(q.inputs) > mostInputs {
		return nil, core.Field("input", "a text, a list of token numbers, or a list of up to %d of them is wanted", mostInputs)
	}
	return q, nil
}

// embeddings answers with vectors of length 1 that follow from their inputs.
func embeddings(q *request) []byte {
	data := list{}
	for i, in := range q.inputs {
		h := fnv.New64a()
		h.Write(in)
		r := rand.New(rand.NewPCG(uint64(q.dims), h.Sum64()))
		vector, sum := make([]float32, q.dims), 0.0
		for j := range vector {
			vector[j] = float32(r.NormFloat64())
			sum += float64(vector[j]) * float64(vector[j])
		}
		packed := make([]byte, 0, 4*q.dims)
		for j := range vector {
			vector[j] /= float32(math.Sqrt(sum))
			packed = binary.LittleEndian.AppendUint32(packed, math.Float32bits(vector[j]))
		}
		var value any = vector
		if q.base64 {
			value = base64.StdEncoding.EncodeToString(packed)
		}
		data = append(data, object("object", "embedding", "index", i, "embedding", value))
	}
	return object("object", "list", "data", data, "model", q.name,
		"usage", object("prompt_tokens", q.prompt, "total_tokens", q.prompt))
}
