package sdktest

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// The answers that the tests write themselves, for what no recording shows: by
// the name of their model, which begins with the API's.

// apis are the four that stream.
var apis = []string{chat, responses, messages, generate}

// words are the text of a written stream, one delta each.
var words = []string{"One ", "two ", "three ", "four ", "five ", "six."}

// talk is a short stream: what opens it, its deltas, what ends it.
func talk(api string) (open, deltas, end []string) {
	switch api {
	case chat:
		chunk := func(choices, more string) string {
			return fmt.Sprintf(`data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[%s]%s}`+"\n\n", choices, more)
		}
		open = []string{chunk(`{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}`, "")}
		for _, w := range words {
			deltas = append(deltas, chunk(fmt.Sprintf(`{"index":0,"delta":{"content":%q},"finish_reason":null}`, w), ""))
		}
		end = []string{chunk(`{"index":0,"delta":{},"finish_reason":"stop"}`, ""),
			chunk("", `,"usage":{"prompt_tokens":11,"completion_tokens":6,"total_tokens":17}`), "data: [DONE]\n\n"}
	case responses:
		n := 0
		event := func(kind, rest string) string {
			n++
			return fmt.Sprintf("event: %s\ndata: {\"type\":%q,\"sequence_number\":%d,%s}\n\n", kind, kind, n-1, rest)
		}
		whole := func(status, output, usage string) string {
			return fmt.Sprintf(`"response":{"id":"r1","object":"response","created_at":1,"model":"m","status":%q,"output":[%s],"usage":%s}`, status, output, usage)
		}
		text := strings.Join(words, "")
		open = []string{event("response.created", whole("in_progress", "", "null")),
			event("response.output_item.added", `"output_index":0,"item":{"id":"i1","type":"message","role":"assistant","status":"in_progress","content":[]}`),
			event("response.content_part.added", `"item_id":"i1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}`)}
		for _, w := range words {
			deltas = append(deltas, event("response.output_text.delta", fmt.Sprintf(`"item_id":"i1","output_index":0,"content_index":0,"delta":%q`, w)))
		}
		item := fmt.Sprintf(`{"id":"i1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":%q,"annotations":[]}]}`, text)
		end = []string{event("response.output_item.done", `"output_index":0,"item":`+item),
			event("response.completed", whole("completed", item, `{"input_tokens":11,"output_tokens":6,"total_tokens":17,"input_tokens_details":{"cached_tokens":0},"output_tokens_details":{"reasoning_tokens":0}}`))}
	case messages:
		event := func(kind, rest string) string {
			return fmt.Sprintf("event: %s\ndata: {\"type\":%q%s}\n\n", kind, kind, rest)
		}
		open = []string{event("message_start", `,"message":{"id":"m1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":11,"output_tokens":1}}`),
			event("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`), event("ping", "")}
		for _, w := range words {
			deltas = append(deltas, event("content_block_delta", fmt.Sprintf(`,"index":0,"delta":{"type":"text_delta","text":%q}`, w)))
		}
		end = []string{event("content_block_stop", `,"index":0`),
			event("message_delta", `,"delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":6}`), event("message_stop", "")}
	case generate:
		event := func(w, rest string) string {
			return fmt.Sprintf(`data: {"candidates":[{"content":{"role":"model","parts":[{"text":%q}]}%s}],"modelVersion":"m"}`+"\r\n\r\n", w, rest)
		}
		for _, w := range words[:len(words)-1] {
			deltas = append(deltas, event(w, ""))
		}
		end = []string{strings.Replace(event(words[len(words)-1], `,"finishReason":"STOP"`), `,"modelVersion"`,
			`,"usageMetadata":{"promptTokenCount":11,"candidatesTokenCount":6,"totalTokenCount":17},"modelVersion"`, 1)}
	}
	return open, deltas, end
}

// errorEvent is the format's own error inside a stream.
func errorEvent(api string) string {
	switch api {
	case chat:
		return `data: {"error":{"message":"the engine stopped","type":"server_error","param":null,"code":null}}` + "\n\n"
	case responses:
		return "event: error\n" + `data: {"type":"error","sequence_number":9,"error":{"type":"server_error","code":"server_error","message":"the engine stopped","param":null}}` + "\n\n"
	case messages:
		return "event: error\n" + `data: {"type":"error","error":{"type":"overloaded_error","message":"the engine stopped"}}` + "\n\n"
	}
	return `data: {"error":{"code":503,"message":"the engine stopped","status":"UNAVAILABLE"}}` + "\r\n\r\n"
}

// refusal is the format's own body for a status.
func refusal(api string, status int) string {
	switch api {
	case messages:
		kind := map[int]string{400: "invalid_request_error", 429: "rate_limit_error"}[status]
		return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":"said by the upstream"},"request_id":"req_1"}`, kind)
	case generate:
		word := map[int]string{400: "INVALID_ARGUMENT", 429: "RESOURCE_EXHAUSTED"}[status]
		return fmt.Sprintf(`{"error":{"code":%d,"message":"said by the upstream","status":%q}}`, status, word)
	}
	kind := map[int]string{400: "invalid_request_error", 429: "rate_limit_exceeded"}[status]
	return fmt.Sprintf(`{"error":{"message":"said by the upstream","type":%q,"param":"temperature","code":null}}`, kind)
}

// written are the written answers.
func written() map[string]*answer {
	all := map[string]*answer{}
	events := map[string]string{"Content-Type": "text/event-stream"}
	whole := map[string]string{"Content-Type": "application/json"}
	add := func(name, api string, status int, header map[string]string, end ending, lists ...[]string) {
		a := &answer{api: api, status: status, header: header, ending: end}
		for _, list := range lists {
			for _, e := range list {
				a.chunks = append(a.chunks, chunk{2 * time.Millisecond, []byte(e)})
			}
		}
		all[name] = a
	}
	for _, api := range apis {
		open, deltas, end := talk(api)
		half := deltas[:3]
		add(api+".talk", api, 200, events, complete, open, deltas, end)
		add(api+".error-event", api, 200, events, complete, open, half, []string{errorEvent(api)})
		add(api+".early-error", api, 200, events, complete, open, []string{errorEvent(api)})
		add(api+".cut", api, 200, events, cut, open, half)
		add(api+".stops", api, 200, events, complete, open, half)
		add(api+".cut-inside", api, 200, events, complete, open, half, []string{deltas[3][:len(deltas[3])/2]})
		add(api+".silent", api, 200, events, silent, open, half)
		add(api+".silent-whole", api, 200, whole, silent, []string{"{"})
		add(api+".refused", api, 400, whole, complete, []string{refusal(api, 400)})
		for shape, body := range map[string]string{"stream": toolStream(api), "whole": toolWhole(api)} {
			header := whole
			if shape == "stream" {
				header = events
			}
			// A Retry-After takes the offer out: one model for each call.
			add(api+".busy-"+shape, api, 429, map[string]string{"Content-Type": "application/json", "Retry-After": "7"}, complete, []string{refusal(api, 429)})
			pieces := make([]string, 0, 8)
			for _, e := range split([]byte(body)) {
				pieces = append(pieces, string(e))
			}
			add(api+".tools-"+shape, api, 200, header, complete, pieces)
		}
	}
	add("embed", chat, http.StatusOK, whole, complete, []string{`{"object":"list","model":"m","data":[{"object":"embedding","index":0,"embedding":[0.25,-1.5,3e-05]}],"usage":{"prompt_tokens":9,"total_tokens":9}}`})
	add("beta", messages, http.StatusOK, whole, complete, []string{toolWhole(messages)})
	add("count-messages", messages, http.StatusOK, whole, complete, []string{`{"input_tokens":42}`})
	add("count-google", generate, http.StatusOK, whole, complete, []string{`{"totalTokens":42,"promptTokensDetails":[{"modality":"TEXT","tokenCount":42}]}`})
	return all
}
