package sim

import (
	"encoding/json"
	"net/http"
	"strings"

	"headway/core"
)

// google is Google's generateContent. Its model and method are in the path, and
// it takes the members of a request in camelCase and in snake_case.
type google struct{}

// googleMethod is what a path such as /v1beta/models/NAME:generateContent calls;
// "": it is no such path.
func googleMethod(path string) string {
	if !strings.Contains(path, "/models/") && !strings.Contains(path, "/tunedModels/") {
		return ""
	}
	_, method, _ := lastCut(path, ":")
	return method
}

// googleModel is the model of such a path, without "models/".
func googleModel(path string) string {
	path, _, _ = lastCut(path, ":")
	if _, name, ok := strings.Cut(path, "/models/"); ok {
		return name
	}
	_, name, _ := strings.Cut(path, "/tunedModels/")
	return "tunedModels/" + name
}

func lastCut(s, sep string) (before, after string, ok bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// googleBody is a request, in both spellings.
type googleBody struct {
	Contents    []map[string]any `json:"contents"`
	System      any              `json:"systemInstruction"`
	SystemSnake any              `json:"system_instruction"`
	Tools       json.RawMessage  `json:"tools"`
	Config      googleConfig     `json:"generationConfig"`
	ConfigSnake googleConfig     `json:"generation_config"`
	Choice      googleChoice     `json:"toolConfig"`
	ChoiceSnake googleChoice     `json:"tool_config"`
	// Whole is what countTokens also takes.
	Whole *googleBody `json:"generateContentRequest"`
}

type googleConfig struct {
	Most       *int `json:"maxOutputTokens"`
	MostSnake  *int `json:"max_output_tokens"`
	Count      *int `json:"candidateCount"`
	CountSnake *int `json:"candidate_count"`
}

type googleChoice struct {
	Calling      googleCalling `json:"functionCallingConfig"`
	CallingSnake googleCalling `json:"function_calling_config"`
}

type googleCalling struct {
	Mode string `json:"mode"`
}

type googleTool struct {
	Functions      []googleFunction `json:"functionDeclarations"`
	FunctionsSnake []googleFunction `json:"function_declarations"`
}

type googleFunction struct {
	Name       string          `json:"name"`
	Parameters json.RawMessage `json:"parameters"`
	Schema     json.RawMessage `json:"parametersJsonSchema"`
}

func parseGoogle(r *http.Request, body []byte) (*request, *core.Error) {
	var in googleBody
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	method := googleMethod(r.URL.Path)
	q := &request{wire: google{}, op: core.OpGenerate, name: googleModel(r.URL.Path),
		stream: method == "streamGenerateContent", array: r.URL.Query().Get("alt") != "sse"}
	if method == "countTokens" {
		q.op = core.OpCountTokens
		if in.Whole != nil {
			in = *in.Whole
		}
	}
	if len(in.Contents) == 0 {
		return nil, core.Field("contents", "a list with at least one content is wanted")
	}
	for _, c := range []googleConfig{in.Config, in.ConfigSnake} {
		for _, n := range []*int{c.Count, c.CountSnake} {
			if n != nil && *n != 1 {
				return nil, core.Field("generationConfig.candidateCount", "only 1 is simulated")
			}
		}
		for _, most := range []*int{c.Most, c.MostSnake} {
			if err := q.maximum("generationConfig.maxOutputTokens", most); err != nil {
				return nil, err
			}
		}
	}
	var tools []googleTool
	if len(in.Tools) > 0 && json.Unmarshal(in.Tools, &tools) != nil {
		return nil, core.Field("tools", "a list of tools is wanted")
	}
	q.offer(in.Tools)
	q.say(in.System)
	q.say(in.SystemSnake)
	last := ""
	for _, c := range in.Contents {
		q.say(c)
		role, ok := c["role"].(string)
		if !ok {
			role = "user" // where it is left out
		}
		last = spoken(last, role, c["parts"])
	}
	q.prompt = tokens(len(q.text))
	var usable []tool
	for _, t := range tools {
		for _, f := range append(t.Functions, t.FunctionsSnake...) {
			if len(f.Schema) > 0 {
				f.Parameters = f.Schema
			}
			if f.Name != "" {
				usable = append(usable, tool{f.Name, f.Parameters})
			}
		}
	}
	mode := quoted(in.Choice.Calling.Mode + in.Choice.CallingSnake.Mode + in.ChoiceSnake.Calling.Mode + in.ChoiceSnake.CallingSnake.Mode)
	q.tool = choose(usable, mode, last)
	return q, nil
}

func (google) header(contentType string, _ uint64) http.Header {
	return http.Header{"Content-Type": {contentType}}
}

// generated is a response, or one event of a stream of them.
func (a *answer) generated(part json.RawMessage, finish string, usage bool) json.RawMessage {
	candidate := []any{"content", object("parts", list{part}, "role", "model")}
	if finish != "" {
		candidate = append(candidate, "finishReason", finish)
	}
	candidate = append(candidate, "index", 0)
	members := []any{"candidates", list{object(candidate...)}}
	if usage {
		figures := []any{"promptTokenCount", a.prompt, "candidatesTokenCount", a.tokens, "totalTokenCount", a.prompt + a.tokens}
		if a.cached.V > 0 {
			figures = append(figures, "cachedContentTokenCount", a.cached.V)
		}
		figures = append(figures, "promptTokensDetails", list{object("modality", "TEXT", "tokenCount", a.prompt)})
		members = append(members, "usageMetadata", object(figures...))
	}
	return object(append(members, "modelVersion", a.name, "responseId", identity("", a.id))...)
}

func (a *answer) googleFinish() string {
	if a.short {
		return "MAX_TOKENS"
	}
	return "STOP" // after a function call too
}

// part is the whole answer as one part.
func (a *answer) part() json.RawMessage {
	if a.call != nil {
		return object("functionCall", object("name", a.call.name, "args", json.RawMessage(a.joined())))
	}
	return object("text", a.joined())
}

func (google) whole(a *answer) []byte { return a.generated(a.part(), a.googleFinish(), true) }

// stream sends text in pieces; a function call comes whole, as Google sends it.
func (google) stream(a *answer) frames {
	if a.call != nil {
		a.pieces = []string{a.joined()}
	}
	last := a.generated(object("text", ""), a.googleFinish(), true)
	f := frames{contentType: eventStream, piece: a.fill(event("", a.generated(object("text", a.slot()), "", false)))}
	if a.call != nil {
		call := event("", a.generated(a.part(), "", false))
		f.piece = func(int) []byte { return call }
	}
	f.after = [][]byte{event("", last)}
	if !a.array {
		return f
	}
	// Without alt=sse the stream is the elements of one array.
	f.contentType = "application/json; charset=UTF-8"
	bare := f.piece
	f.piece = func(i int) []byte {
		open := ",\r\n"
		if i == 0 {
			open = "["
		}
		return append([]byte(open), trimEvent(bare(i))...)
	}
	f.after = [][]byte{[]byte(",\r\n" + string(last) + "\n]")}
	return f
}

// trimEvent is the data of an event.
func trimEvent(e []byte) []byte { return e[len("data: ") : len(e)-len("\n\n")] }

func (google) fail(status int, e *core.Error) []byte {
	word, ok := map[int]string{
		400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
		429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED",
	}[status]
	switch {
	case ok:
	case status >= 500:
		word = "INTERNAL"
	default:
		word = "INVALID_ARGUMENT"
	}
	return object("error", object("code", status, "message", e.Msg, "status", word))
}

func (google) model(name string) []byte {
	return object("name", "models/"+name, "version", "1", "displayName", name, "description", "a simulated model",
		"inputTokenLimit", mostPrompt, "outputTokenLimit", mostOutput,
		"supportedGenerationMethods", []string{"generateContent", "countTokens"})
}

func (g google) models(names []string) []byte {
	all := list{}
	for _, n := range names {
		all = append(all, g.model(n))
	}
	return object("models", all)
}

// counted is the answer to a request to count its tokens.
func counted(q *request) []byte {
	if _, ok := q.wire.(google); ok {
		return object("totalTokens", q.prompt, "promptTokensDetails", list{object("modality", "TEXT", "tokenCount", q.prompt)})
	}
	return object("input_tokens", q.prompt)
}
