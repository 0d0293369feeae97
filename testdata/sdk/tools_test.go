package sdktest

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3"
	oairesponses "github.com/openai/openai-go/v3/responses"
	"google.golang.org/genai"
)

// weather is the tool of the tests, as a JSON schema.
var weather = map[string]any{
	"type":       "object",
	"properties": map[string]any{"city": map[string]any{"type": "string"}},
	"required":   []string{"city"},
}

const (
	toolName = "get_weather"
	paris    = `{"city":"Paris, <île>"}`
	tokyo    = `{"city":"東京"}`
)

// toolStream is a written stream with two calls of the tool, its arguments in
// pieces that end inside a character's escape and between two calls.
func toolStream(api string) string {
	p, k := quote(paris), quote(tokyo)
	switch api {
	case chat:
		delta := func(d, finish string) string {
			return `data: {"id":"c2","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":` + d + `,"finish_reason":` + finish + `}]}` + "\n\n"
		}
		call := func(i, id, args string) string {
			return delta(`{"tool_calls":[{"index":`+i+`,"id":"`+id+`","type":"function","function":{"name":"get_weather","arguments":`+args+`}}]}`, "null")
		}
		more := func(i, args string) string {
			return delta(`{"tool_calls":[{"index":`+i+`,"function":{"arguments":`+args+`}}]}`, "null")
		}
		return delta(`{"role":"assistant","content":null}`, "null") + call("0", "call_a", `""`) + more("0", half(p, 0)) + more("0", half(p, 1)) +
			call("1", "call_b", half(k, 0)) + more("1", half(k, 1)) + delta(`{}`, `"tool_calls"`) +
			`data: {"id":"c2","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":80,"completion_tokens":40,"total_tokens":120}}` + "\n\ndata: [DONE]\n\n"
	case responses:
		event := func(kind, rest string) string {
			return "event: " + kind + "\ndata: {\"type\":\"" + kind + "\"," + rest + "}\n\n"
		}
		args := func(i, id, text string) string {
			return event("response.function_call_arguments.delta", `"item_id":"`+id+`","output_index":`+i+`,"delta":`+half(text, 0)) +
				event("response.function_call_arguments.delta", `"item_id":"`+id+`","output_index":`+i+`,"delta":`+half(text, 1))
		}
		item := func(id, args string) string {
			return `{"id":"` + id + `","type":"function_call","call_id":"call_` + id + `","name":"get_weather","arguments":` + args + `,"status":"completed"}`
		}
		return event("response.created", `"response":{"id":"r2","object":"response","created_at":1,"model":"m","status":"in_progress","output":[]}`) +
			event("response.output_item.added", `"output_index":0,"item":`+item("a", `""`)) + args("0", "a", p) + event("response.output_item.done", `"output_index":0,"item":`+item("a", p)) +
			event("response.output_item.added", `"output_index":1,"item":`+item("b", `""`)) + args("1", "b", k) + event("response.output_item.done", `"output_index":1,"item":`+item("b", k)) +
			event("response.completed", `"response":`+toolWhole(responses))
	case messages:
		event := func(kind, rest string) string {
			return "event: " + kind + "\ndata: {\"type\":\"" + kind + "\"" + rest + "}\n\n"
		}
		use := func(i, id, args string) string {
			return event("content_block_start", `,"index":`+i+`,"content_block":{"type":"tool_use","id":"`+id+`","name":"get_weather","input":{}}`) +
				event("content_block_delta", `,"index":`+i+`,"delta":{"type":"input_json_delta","partial_json":""}`) +
				event("content_block_delta", `,"index":`+i+`,"delta":{"type":"input_json_delta","partial_json":`+half(args, 0)+`}`) +
				event("content_block_delta", `,"index":`+i+`,"delta":{"type":"input_json_delta","partial_json":`+half(args, 1)+`}`) +
				event("content_block_stop", `,"index":`+i)
		}
		return event("message_start", `,"message":{"id":"m2","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":80,"output_tokens":1}}`) +
			use("0", "toolu_a", p) + use("1", "toolu_b", k) +
			event("message_delta", `,"delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":40}`) + event("message_stop", "")
	}
	call := func(args string) string {
		return `{"functionCall":{"name":"get_weather","args":` + args + `},"thoughtSignature":"c2ln"}`
	}
	return `data: {"candidates":[{"content":{"role":"model","parts":[` + call(paris) + `,` + call(tokyo) + `]},"finishReason":"STOP","index":0}],` +
		`"usageMetadata":{"promptTokenCount":80,"candidatesTokenCount":40,"totalTokenCount":120}}` + "\r\n\r\n"
}

// toolWhole is the same answer unstreamed.
func toolWhole(api string) string {
	p, k := quote(paris), quote(tokyo)
	switch api {
	case chat:
		call := func(id, args string) string {
			return `{"id":"` + id + `","type":"function","function":{"name":"get_weather","arguments":` + args + `}}`
		}
		return `{"id":"c2","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[` +
			call("call_a", p) + `,` + call("call_b", k) + `]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":80,"completion_tokens":40,"total_tokens":120}}`
	case responses:
		item := func(id, args string) string {
			return `{"id":"` + id + `","type":"function_call","call_id":"call_` + id + `","name":"get_weather","arguments":` + args + `,"status":"completed"}`
		}
		return `{"id":"r2","object":"response","created_at":1,"model":"m","status":"completed","output":[` + item("a", p) + `,` + item("b", k) +
			`],"usage":{"input_tokens":80,"output_tokens":40,"total_tokens":120,"input_tokens_details":{"cached_tokens":0},"output_tokens_details":{"reasoning_tokens":0}}}`
	case messages:
		use := func(id, args string) string {
			return `{"type":"tool_use","id":"` + id + `","name":"get_weather","input":` + args + `}`
		}
		return `{"id":"m2","type":"message","role":"assistant","model":"m","content":[` + use("toolu_a", paris) + `,` + use("toolu_b", tokyo) +
			`],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":80,"output_tokens":40}}`
	}
	return strings.TrimSpace(strings.TrimPrefix(toolStream(generate), "data: "))
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return `""`
	}
	return string(b)
}

// half is the first or second half of a JSON string, as a JSON string.
func half(quoted string, which int) string {
	var s string
	if json.Unmarshal([]byte(quoted), &s) != nil {
		return `""`
	}
	r := []rune(s)
	if which == 0 {
		return quote(string(r[:len(r)/2]))
	}
	return quote(string(r[len(r)/2:]))
}

// testTools makes a tool loop of two turns with requests that the SDKs wrote
// from their own types: the calls come out whole, and what goes back to the
// upstream is what the SDK sent.
func (g *rig) testTools(t *testing.T) {
	loops := map[string]func(t *testing.T, s side, model string, streamed bool) [2]*heard{
		chat: chatLoop, responses: responseLoop, messages: messageLoop, generate: generateLoop,
	}
	for _, api := range apis {
		for _, shape := range []string{"stream", "whole"} {
			t.Run(api+" "+shape, func(t *testing.T) {
				t.Parallel()
				name := api + ".tools-" + shape
				raw := loops[api](t, g.raw, rawModel+name, shape == "stream")
				via := loops[api](t, g.via, name, shape == "stream")
				for i := range raw {
					same(t, via[i], raw[i])
					sameRequest(t, g.up.nth(t, viaModel+name, i+1), g.up.nth(t, rawModel+name, i+1))
				}
				got := via[0].Tools
				for i := range got { // the SDKs give arguments as text or as what it says
					got[i].Arguments = plain(got[i].Arguments)
				}
				if want := []tool{{toolName, plain(paris)}, {toolName, plain(tokyo)}}; !reflect.DeepEqual(got, want) {
					t.Errorf("the tool calls are %v, want %v", got, want)
				}
				second := g.up.nth(t, viaModel+name, 2).body
				for _, result := range []string{"18 degrees", "25 degrees"} {
					if !bytes.Contains(second, []byte(result)) {
						t.Errorf("the second request lacks the result %q: %s", result, short(string(second)))
					}
				}
				if r := g.headway.receipt(t, via[0].id); r.Outcome != "settled" || value(r.Usage.Output) != 40 || r.Timing.FirstText != nil ||
					(r.Timing.FirstResponse != nil) != (shape == "stream") {
					t.Errorf("the receipt is %s", r.raw)
				}
			})
		}
	}
}

// plain is a JSON text in one spelling.
func plain(raw string) string {
	var v any
	if json.Unmarshal([]byte(raw), &v) != nil {
		return raw
	}
	b, err := json.Marshal(v)
	if err != nil {
		return raw
	}
	return string(b)
}

func chatLoop(t *testing.T, s side, model string, streamed bool) (turns [2]*heard) {
	params := question(model)
	params.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
		Name: toolName, Description: openai.String("The weather & <more> of a city."), Parameters: weather, Strict: openai.Bool(true)})}
	params.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("required")}
	params.ParallelToolCalls = openai.Bool(true)
	params.Temperature = openai.Float(0)
	call := func() *heard {
		if streamed {
			params.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
			return s.chatStream(t.Context(), params)
		}
		return s.chatWhole(t.Context(), params)
	}
	turns[0] = call()
	params.Messages = append(params.Messages, openai.ChatCompletionMessageParamUnion{OfAssistant: &openai.ChatCompletionAssistantMessageParam{
		ToolCalls: []openai.ChatCompletionMessageToolCallUnionParam{chatToolCall("call_a", paris), chatToolCall("call_b", tokyo)}}},
		openai.ToolMessage("18 degrees", "call_a"), openai.ToolMessage("25 degrees", "call_b"))
	turns[1] = call()
	return turns
}

func chatToolCall(id, args string) openai.ChatCompletionMessageToolCallUnionParam {
	return openai.ChatCompletionMessageToolCallUnionParam{OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{ID: id,
		Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: toolName, Arguments: args}}}
}

func responseLoop(t *testing.T, s side, model string, streamed bool) (turns [2]*heard) {
	params := oairesponses.ResponseNewParams{
		Model: model, Store: openai.Bool(false), Instructions: openai.String("You answer in one sentence."),
		Tools: []oairesponses.ToolUnionParam{{OfFunction: &oairesponses.FunctionToolParam{Name: toolName, Parameters: weather, Strict: openai.Bool(true)}}},
	}
	input := oairesponses.ResponseInputParam{oairesponses.ResponseInputItemParamOfMessage("What is a "+secretWord+"?", "user")}
	call := func() *heard {
		params.Input = oairesponses.ResponseNewParamsInputUnion{OfInputItemList: input}
		if streamed {
			return s.responseStream(t.Context(), params)
		}
		return s.responseWhole(t.Context(), params)
	}
	turns[0] = call()
	input = append(input, oairesponses.ResponseInputItemParamOfFunctionCall(paris, "call_a", toolName),
		oairesponses.ResponseInputItemParamOfFunctionCall(tokyo, "call_b", toolName),
		responseResult("call_a", "18 degrees"), responseResult("call_b", "25 degrees"))
	turns[1] = call()
	return turns
}

func responseResult(id, text string) oairesponses.ResponseInputItemUnionParam {
	item := oairesponses.ResponseInputItemParamOfFunctionCallOutput(text)
	item.OfFunctionCallOutput.CallID = openai.String(id)
	return item
}

func messageLoop(t *testing.T, s side, model string, streamed bool) (turns [2]*heard) {
	params := message(model)
	params.System = []anthropic.TextBlockParam{{Text: "You answer in one sentence.", CacheControl: anthropic.NewCacheControlEphemeralParam()}}
	params.Tools = []anthropic.ToolUnionParam{{OfTool: &anthropic.ToolParam{Name: toolName, Description: anthropic.String("The weather & <more> of a city."),
		InputSchema: anthropic.ToolInputSchemaParam{Properties: weather["properties"], Required: []string{"city"}}}}}
	params.ToolChoice = anthropic.ToolChoiceUnionParam{OfAny: &anthropic.ToolChoiceAnyParam{}}
	call := func() *heard {
		if streamed {
			return s.messageStream(t.Context(), params)
		}
		return s.messageWhole(t.Context(), params)
	}
	turns[0] = call()
	params.Messages = append(params.Messages,
		anthropic.NewAssistantMessage(anthropic.NewToolUseBlock("toolu_a", json.RawMessage(paris), toolName), anthropic.NewToolUseBlock("toolu_b", json.RawMessage(tokyo), toolName)),
		anthropic.NewUserMessage(anthropic.NewToolResultBlock("toolu_a", "18 degrees", false), anthropic.NewToolResultBlock("toolu_b", "25 degrees", false)))
	turns[1] = call()
	return turns
}

func generateLoop(t *testing.T, s side, model string, streamed bool) (turns [2]*heard) {
	config := &genai.GenerateContentConfig{
		SystemInstruction: genai.NewContentFromText("You answer in one sentence.", genai.RoleUser),
		Tools:             []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{{Name: toolName, ParametersJsonSchema: weather}}}},
		ToolConfig:        &genai.ToolConfig{FunctionCallingConfig: &genai.FunctionCallingConfig{Mode: genai.FunctionCallingConfigModeAny}},
	}
	contents := genai.Text("What is a " + secretWord + "?")
	call := func() *heard {
		if streamed {
			return s.generateStream(t.Context(), model, contents, config)
		}
		return s.generateWhole(t.Context(), model, contents, config)
	}
	turns[0] = call()
	asked := func(city string) *genai.Part {
		return &genai.Part{FunctionCall: &genai.FunctionCall{Name: toolName, Args: map[string]any{"city": city}}, ThoughtSignature: []byte("sig")}
	}
	contents = append(contents, &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{asked("Paris, <île>"), asked("東京")}},
		&genai.Content{Role: genai.RoleUser, Parts: []*genai.Part{
			genai.NewPartFromFunctionResponse(toolName, map[string]any{"output": "18 degrees"}),
			genai.NewPartFromFunctionResponse(toolName, map[string]any{"output": "25 degrees"})}})
	turns[1] = call()
	return turns
}
