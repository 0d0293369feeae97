package sdktest

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
)

// How each provider says a model's answer, streamed and not, after its reference
// and the recordings.

// utterance is an answer as bytes.
type utterance struct {
	status int
	header map[string]string
	chunks []string
	said   int // chunks until all of the text was said
}

// quotes are the pieces of a text as JSON strings.
func quotes(pieces []string) (all []string) {
	for _, p := range pieces {
		all = append(all, `"`+p+`"`)
	}
	return all
}

// thoughts is the reasoning as one text.
func (s *say) thoughts() string { return strings.Join(s.think, "") }

// whole is the text as one JSON string.
func (s *say) whole() string { return quote(s.text()) }

// shards are the arguments of a call as they come in a stream, as JSON strings:
// cut anywhere, inside an escape too.
func shards(args string) (all []string) {
	for runes := []rune(args); len(runes) > 0; {
		n := min(7, len(runes))
		all = append(all, quote(string(runes[:n])))
		runes = runes[n:]
	}
	return all
}

func sse(data string) string { return "data: " + data + "\n\n" }

func (s *say) chatUsage() string {
	u := s.usage
	return fmt.Sprintf(`"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d,"cache_write_tokens":%d},"completion_tokens_details":{"reasoning_tokens":%d}}`,
		u.in, u.out, u.in+u.out, u.read, u.write, u.thought)
}

var chatFinish = map[string]string{"stop": "stop", "tools": "tool_calls", "length": "length", "filter": "content_filter", "refusal": "stop", "stopword": "stop"}

func (s *say) chat(streamed bool) (out []string) {
	finish := quote(chatFinish[s.end()])
	if !streamed {
		message := `{"role":"assistant","content":` + s.whole()
		if len(s.pieces) == 0 {
			message = `{"role":"assistant","content":null`
		}
		if s.refusal != "" {
			message += `,"refusal":` + quote(s.refusal)
		}
		if len(s.think) > 0 {
			message += `,"reasoning_content":` + quote(s.thoughts())
		}
		var calls []string
		for _, c := range s.calls {
			calls = append(calls, fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":%q,"arguments":%s}}`, c.id, c.name, quote(c.args)))
		}
		if len(calls) > 0 {
			message += `,"tool_calls":[` + strings.Join(calls, ",") + `]`
		}
		choices := `{"index":0,"message":` + message + `},"logprobs":null,"finish_reason":` + finish + `}`
		if s.second != "" {
			choices += `,{"index":1,"message":{"role":"assistant","content":` + quote(s.second) + `},"logprobs":null,"finish_reason":"stop"}`
		}
		return []string{`{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"real-name","choices":[` + choices + `],` + s.chatUsage() + `}`}
	}
	chunk := func(choices, more string) {
		out = append(out, sse(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"real-name","choices":[`+choices+`]`+more+`}`))
	}
	delta := func(d string) { chunk(`{"index":0,"delta":{`+d+`},"finish_reason":null}`, `,"usage":null`) }
	delta(`"role":"assistant","content":null`)
	for _, t := range s.think {
		delta(`"reasoning_content":` + quote(t))
	}
	for _, p := range quotes(s.pieces) {
		delta(`"content":` + p)
	}
	for _, p := range strings.SplitAfter(s.refusal, " ") {
		if p != "" {
			delta(`"refusal":` + quote(p))
		}
	}
	var waiting [][]string
	for i, c := range s.calls {
		delta(fmt.Sprintf(`"tool_calls":[{"index":%d,"id":%q,"type":"function","function":{"name":%q,"arguments":""}}]`, i, c.id, c.name))
		var rest []string
		for _, a := range shards(c.args) {
			rest = append(rest, fmt.Sprintf(`"tool_calls":[{"index":%d,"function":{"arguments":%s}}]`, i, a))
		}
		waiting = append(waiting, rest)
		if !s.woven {
			for _, d := range rest {
				delta(d)
			}
		}
	}
	for n := 0; s.woven && n < 100; n++ {
		for _, rest := range waiting {
			if n < len(rest) {
				delta(rest[n])
			}
		}
	}
	if s.second != "" {
		chunk(`{"index":1,"delta":{"role":"assistant","content":`+quote(s.second)+`},"finish_reason":null}`, "")
		chunk(`{"index":1,"delta":{},"finish_reason":"stop"}`, "")
	}
	chunk(`{"index":0,"delta":{},"finish_reason":`+finish+`}`, "")
	chunk("", ","+s.chatUsage())
	return append(out, sse("[DONE]"))
}

func (s *say) responses(streamed bool) (out []string) {
	number := 0
	event := func(kind, rest string) {
		out = append(out, fmt.Sprintf("event: %s\ndata: {\"type\":%q,\"sequence_number\":%d,%s}\n\n", kind, kind, number, rest))
		number++
	}
	var items []string
	part := func(id, field string, index int, kind, whole string, deltas []string, added, done, wrap string) {
		at := fmt.Sprintf(`"item_id":%q,"output_index":%d,"%s":%d`, id, len(items), field, index)
		event("response."+added, at+`,"part":`+fmt.Sprintf(wrap, `""`))
		for _, d := range deltas {
			event("response."+kind+".delta", at+`,"delta":`+d)
		}
		event("response."+kind+".done", at+`,"`+map[bool]string{true: "refusal", false: "text"}[kind == "refusal"]+`":`+whole)
		event("response."+done, at+`,"part":`+fmt.Sprintf(wrap, whole))
	}
	open := func(item string) {
		event("response.output_item.added", fmt.Sprintf(`"output_index":%d,"item":%s`, len(items), item))
	}
	closed := func(item string) {
		event("response.output_item.done", fmt.Sprintf(`"output_index":%d,"item":%s`, len(items), item))
		items = append(items, item)
	}
	status, details := "completed", "null"
	if reason := map[string]string{"length": "max_output_tokens", "filter": "content_filter"}[s.end()]; reason != "" {
		status, details = "incomplete", `{"reason":"`+reason+`"}`
	}
	response := func(status, details, usage string) string {
		return fmt.Sprintf(`{"id":"resp_1","object":"response","created_at":1700000000,"status":%q,"error":null,"incomplete_details":%s,"model":"real-name","output":[%s],"parallel_tool_calls":true,"tool_choice":"auto","tools":[]%s}`,
			status, details, strings.Join(items, ","), usage)
	}
	event("response.created", `"response":`+response("in_progress", "null", ""))
	event("response.in_progress", `"response":`+response("in_progress", "null", ""))
	if len(s.think) > 0 || s.seal != "" {
		item := `{"id":"rs_1","type":"reasoning","summary":[%s]%s}`
		open(fmt.Sprintf(item, "", ""))
		summary := ""
		if len(s.think) > 0 {
			part("rs_1", "summary_index", 0, "reasoning_summary_text", quote(s.thoughts()), quotesOf(s.think), "reasoning_summary_part.added", "reasoning_summary_part.done", `{"type":"summary_text","text":%s}`)
			summary = `{"type":"summary_text","text":` + quote(s.thoughts()) + `}`
		}
		closed(fmt.Sprintf(item, summary, `,"encrypted_content":`+quote(s.seal)))
	}
	if len(s.pieces) > 0 || s.refusal != "" {
		item := `{"id":"msg_1","type":"message","role":"assistant","status":%q,"content":[%s]}`
		open(fmt.Sprintf(item, "in_progress", ""))
		content := `{"type":"output_text","annotations":[],"logprobs":[],"text":` + s.whole() + `}`
		if s.refusal != "" {
			content = `{"type":"refusal","refusal":` + quote(s.refusal) + `}`
			part("msg_1", "content_index", 0, "refusal", quote(s.refusal), quotesOf(strings.SplitAfter(s.refusal, " ")), "content_part.added", "content_part.done", `{"type":"refusal","refusal":%s}`)
		} else {
			part("msg_1", "content_index", 0, "output_text", s.whole(), quotes(s.pieces), "content_part.added", "content_part.done", `{"type":"output_text","annotations":[],"text":%s}`)
		}
		closed(fmt.Sprintf(item, status, content))
	}
	for i, c := range s.calls {
		id := fmt.Sprintf("fc_%d", i)
		item := fmt.Sprintf(`{"id":%q,"type":"function_call","status":"%%s","call_id":%q,"name":%q,"arguments":%%s}`, id, c.id, c.name)
		open(fmt.Sprintf(item, "in_progress", `""`))
		for _, a := range shards(c.args) {
			event("response.function_call_arguments.delta", fmt.Sprintf(`"item_id":%q,"output_index":%d,"delta":%s`, id, len(items), a))
		}
		event("response.function_call_arguments.done", fmt.Sprintf(`"item_id":%q,"output_index":%d,"arguments":%s`, id, len(items), quote(c.args)))
		closed(fmt.Sprintf(item, "completed", quote(c.args)))
	}
	u := s.usage
	usage := fmt.Sprintf(`,"usage":{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d,"cache_write_tokens":%d},"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":%d},"total_tokens":%d}`,
		u.in, u.read, u.write, u.out, u.thought, u.in+u.out)
	final := response(status, details, usage)
	if !streamed {
		return []string{final}
	}
	event("response."+status, `"response":`+final)
	return out
}

// quotesOf are texts as JSON strings.
func quotesOf(texts []string) (all []string) {
	for _, t := range texts {
		all = append(all, quote(t))
	}
	return all
}

var messagesFinish = map[string]string{"stop": "end_turn", "tools": "tool_use", "length": "max_tokens", "filter": "refusal", "refusal": "refusal", "stopword": "stop_sequence", "pause": "pause_turn"}

// messages are Anthropic's events, as name and data, or the whole answer alone.
func (s *say) messages(streamed bool) (out []string) {
	u := s.usage
	input := fmt.Sprintf(`"input_tokens":%d,"cache_read_input_tokens":%d,"cache_creation_input_tokens":%d,"cache_creation":{"ephemeral_5m_input_tokens":%d,"ephemeral_1h_input_tokens":%d}`,
		u.in-u.read-u.write, u.read, u.write, u.write-u.write1h, u.write1h)
	output := fmt.Sprintf(`"output_tokens":%d,"output_tokens_details":{"thinking_tokens":%d}`, u.out, u.thought)
	finish := fmt.Sprintf(`"stop_reason":%q,"stop_sequence":null`, messagesFinish[s.end()])
	var content []string
	event := func(kind, rest string) { out = append(out, fmt.Sprintf(`{"type":%q%s}`, kind, rest)) }
	block := func(empty, whole, field, kind string, deltas []string) {
		i := len(content)
		event("content_block_start", fmt.Sprintf(`,"index":%d,"content_block":%s`, i, empty))
		for _, d := range deltas {
			event("content_block_delta", fmt.Sprintf(`,"index":%d,"delta":{"type":%q,%q:%s}`, i, kind, field, d))
		}
		if strings.Contains(empty, `"thinking"`) {
			event("content_block_delta", fmt.Sprintf(`,"index":%d,"delta":{"type":"signature_delta","signature":%s}`, i, quote(s.seal)))
		}
		event("content_block_stop", fmt.Sprintf(`,"index":%d`, i))
		content = append(content, whole)
	}
	event("message_start", `,"message":{"id":"msg_1","type":"message","role":"assistant","model":"real-name","content":[],"stop_reason":null,"stop_sequence":null,"usage":{`+input+`,"output_tokens":1}}`)
	if len(s.think) > 0 {
		block(`{"type":"thinking","thinking":"","signature":""}`, `{"type":"thinking","thinking":`+quote(s.thoughts())+`,"signature":`+quote(s.seal)+`}`, "thinking", "thinking_delta", quotesOf(s.think))
	} else if s.seal != "" {
		hidden := `{"type":"redacted_thinking","data":` + quote(s.seal) + `}`
		block(hidden, hidden, "", "", nil)
	}
	event("ping", "")
	if len(s.pieces) > 0 {
		block(`{"type":"text","text":""}`, `{"type":"text","text":`+s.whole()+`}`, "text", "text_delta", quotes(s.pieces))
	}
	if s.refusal != "" {
		block(`{"type":"text","text":""}`, `{"type":"text","text":`+quote(s.refusal)+`}`, "text", "text_delta", quotesOf(strings.SplitAfter(s.refusal, " ")))
	}
	for _, c := range s.calls {
		args := append([]string{`""`}, shards(c.args)...)
		if c.args == "{}" {
			args = args[:1]
		}
		use := fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":%%s}`, c.id, c.name)
		block(fmt.Sprintf(use, "{}"), fmt.Sprintf(use, c.args), "partial_json", "input_json_delta", args)
	}
	if !streamed {
		return []string{`{"id":"msg_1","type":"message","role":"assistant","model":"real-name","content":[` + strings.Join(content, ",") + `],` + finish + `,"usage":{` + input + `,` + output + `}}`}
	}
	event("message_delta", `,"delta":{`+finish+`},"usage":{`+input+`,`+output+`}`)
	event("message_stop", "")
	return out
}

// withNames puts the name of its event before each of Anthropic's.
func withNames(events []string) (out []string) {
	for _, e := range events {
		var kind struct{ Type string }
		_ = json.Unmarshal([]byte(e), &kind)
		out = append(out, "event: "+kind.Type+"\ndata: "+e+"\n\n")
	}
	return out
}

// invoke is Anthropic's answer in Bedrock's frames.
func (s *say) invoke(streamed bool) (out []string) {
	if !streamed {
		return s.messages(false)
	}
	for _, e := range s.messages(true) {
		out = append(out, awsFrame("event", "chunk", `{"bytes":"`+base64.StdEncoding.EncodeToString([]byte(e))+`","p":"abcdefgh"}`))
	}
	return out
}

// awsFrame is one message of an AWS event stream.
func awsFrame(kind, name, payload string) string {
	var headers []byte
	header := func(name, value string) {
		headers = append(append(headers, byte(len(name))), name...)
		headers = append(binary.BigEndian.AppendUint16(append(headers, 7), uint16(len(value))), value...)
	}
	header(":"+kind+"-type", name)
	header(":content-type", "application/json")
	header(":message-type", kind)
	frame := binary.BigEndian.AppendUint32(nil, uint32(16+len(headers)+len(payload)))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(headers)))
	frame = binary.BigEndian.AppendUint32(frame, crc32.ChecksumIEEE(frame))
	frame = append(append(frame, headers...), payload...)
	return string(binary.BigEndian.AppendUint32(frame, crc32.ChecksumIEEE(frame)))
}

var generateFinish = map[string]string{"stop": "STOP", "tools": "STOP", "length": "MAX_TOKENS", "filter": "SAFETY", "refusal": "SAFETY", "stopword": "STOP"}

func (s *say) generate(streamed bool) (out []string) {
	u := s.usage
	usage := fmt.Sprintf(`"usageMetadata":{"promptTokenCount":%d,"cachedContentTokenCount":%d,"candidatesTokenCount":%d,"thoughtsTokenCount":%d,"totalTokenCount":%d},"modelVersion":"real-name","responseId":"resp-1"`,
		u.in, u.read, u.out-u.thought, u.thought, u.in+u.out)
	finish := `"finishReason":"` + generateFinish[s.end()] + `"`
	var parts, whole []string
	for _, t := range s.think {
		parts = append(parts, `{"thought":true,"text":`+quote(t)+`}`)
	}
	if len(s.think) > 0 {
		whole = append(whole, `{"thought":true,"text":`+quote(s.thoughts())+`}`)
	}
	for _, p := range quotes(s.pieces) {
		parts = append(parts, `{"text":`+p+`}`)
	}
	seal := ""
	if s.seal != "" {
		seal = `,"thoughtSignature":` + quote(s.seal)
	}
	if len(s.calls) > 0 {
		if len(s.pieces) > 0 {
			whole = append(whole, `{"text":`+s.whole()+`}`)
		}
		for i, c := range s.calls {
			p := fmt.Sprintf(`{"functionCall":{"name":%q,"args":%s}`, c.name, c.args)
			if i == 0 {
				p += seal
			}
			parts, whole = append(parts, p+`}`), append(whole, p+`}`)
		}
	} else {
		if len(s.pieces) > 0 {
			whole = append(whole, `{"text":`+s.whole()+seal+`}`)
		}
		if seal != "" {
			parts = append(parts, `{"text":""`+seal+`}`)
		}
	}
	event := func(parts, more, rest string) string {
		return `{"candidates":[{"index":0,"content":{"role":"model","parts":[` + parts + `]}` + more + `}` + rest + `}`
	}
	second := `,{"index":1,"content":{"role":"model","parts":[{"text":` + quote(s.second) + `}]},"finishReason":"STOP"}`
	if s.second == "" {
		second = ""
	}
	if !streamed {
		return []string{event(strings.Join(whole, ","), ","+finish, second+`],`+usage)}
	}
	for _, p := range parts {
		out = append(out, "data: "+event(p, "", `],"modelVersion":"real-name","responseId":"resp-1"`)+"\r\n\r\n")
	}
	return append(out, "data: "+event("", ","+finish, second+`],`+usage)+"\r\n\r\n")
}

var converseFinish = map[string]string{"stop": "end_turn", "tools": "tool_use", "length": "max_tokens", "filter": "content_filtered", "refusal": "guardrail_intervened", "stopword": "stop_sequence"}

func (s *say) converse(streamed bool) (out []string) {
	u := s.usage
	usage := fmt.Sprintf(`"usage":{"inputTokens":%d,"outputTokens":%d,"totalTokens":%d,"cacheReadInputTokens":%d,"cacheWriteInputTokens":%d},"metrics":{"latencyMs":5}`,
		u.in-u.read-u.write, u.out, u.in+u.out, u.read, u.write)
	var content []string
	event := func(name, data string) { out = append(out, awsFrame("event", name, data)) }
	block := func(start, whole string, deltas []string) {
		i := len(content)
		if start != "" {
			event("contentBlockStart", fmt.Sprintf(`{"contentBlockIndex":%d,"start":%s}`, i, start))
		}
		for _, d := range deltas {
			event("contentBlockDelta", fmt.Sprintf(`{"contentBlockIndex":%d,"delta":%s,"p":"abc"}`, i, d))
		}
		event("contentBlockStop", fmt.Sprintf(`{"contentBlockIndex":%d}`, i))
		content = append(content, whole)
	}
	wrapped := func(format string, values []string) (all []string) {
		for _, v := range values {
			all = append(all, fmt.Sprintf(format, v))
		}
		return all
	}
	event("messageStart", `{"role":"assistant"}`)
	if len(s.think) > 0 {
		block("", `{"reasoningContent":{"reasoningText":{"text":`+quote(s.thoughts())+`,"signature":`+quote(s.seal)+`}}}`,
			append(wrapped(`{"reasoningContent":{"text":%s}}`, quotesOf(s.think)), `{"reasoningContent":{"signature":`+quote(s.seal)+`}}`))
	} else if s.seal != "" {
		hidden := base64.StdEncoding.EncodeToString([]byte(s.seal))
		block("", `{"reasoningContent":{"redactedContent":"`+hidden+`"}}`, []string{`{"reasoningContent":{"redactedContent":"` + hidden + `"}}`})
	}
	if len(s.pieces) > 0 {
		block("", `{"text":`+s.whole()+`}`, wrapped(`{"text":%s}`, quotes(s.pieces)))
	}
	if s.refusal != "" {
		block("", `{"text":`+quote(s.refusal)+`}`, wrapped(`{"text":%s}`, quotesOf(strings.SplitAfter(s.refusal, " "))))
	}
	for _, c := range s.calls {
		args := shards(c.args)
		if c.args == "{}" {
			args = nil
		}
		block(fmt.Sprintf(`{"toolUse":{"toolUseId":%q,"name":%q}}`, c.id, c.name), fmt.Sprintf(`{"toolUse":{"toolUseId":%q,"name":%q,"input":%s}}`, c.id, c.name, c.args),
			wrapped(`{"toolUse":{"input":%s}}`, args))
	}
	finish := quote(converseFinish[s.end()])
	if !streamed {
		return []string{`{"output":{"message":{"role":"assistant","content":[` + strings.Join(content, ",") + `]}},"stopReason":` + finish + `,` + usage + `}`}
	}
	event("messageStop", `{"stopReason":`+finish+`}`)
	event("metadata", `{`+usage+`}`)
	return out
}

func (s *say) ollama(streamed bool) (out []string) {
	line := func(message, rest string) {
		out = append(out, `{"model":"real-name","created_at":"2026-01-01T00:00:00Z","message":{"role":"assistant",`+message+`},`+rest+"}\n")
	}
	done := fmt.Sprintf(`"done":true,"done_reason":%q,"total_duration":9000000,"load_duration":1000000,"prompt_eval_count":%d,"prompt_eval_duration":2000000,"eval_count":%d,"eval_duration":5000000`,
		map[bool]string{true: "length", false: "stop"}[s.finish == "length"], s.usage.in, s.usage.out)
	var calls []string
	for _, c := range s.calls {
		calls = append(calls, fmt.Sprintf(`{"function":{"name":%q,"arguments":%s}}`, c.name, c.args))
	}
	all := ""
	if len(calls) > 0 {
		all = `,"tool_calls":[` + strings.Join(calls, ",") + `]`
	}
	if !streamed {
		think := ""
		if len(s.think) > 0 {
			think = `,"thinking":` + quote(s.thoughts())
		}
		line(`"content":`+s.whole()+think+all, done)
		return out
	}
	for _, t := range s.think {
		line(`"content":"","thinking":`+quote(t), `"done":false`)
	}
	for _, p := range quotes(s.pieces) {
		line(`"content":`+p, `"done":false`)
	}
	if all != "" {
		line(`"content":""`+all, `"done":false`)
	}
	line(`"content":""`, done)
	return out
}

// wrong is a provider's error for a status: inside a stream, and as a body.
func wrong(api string, status int) (event, body string) {
	kind := map[int]string{400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error", 500: "api_error", 503: "overloaded_error"}[status]
	switch api {
	case messages, invoke:
		body = fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%q}}`, kind, failed)
		event = "event: error\ndata: " + body + "\n\n"
	case generate:
		word := map[int]string{400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE"}[status]
		body = fmt.Sprintf(`{"error":{"code":%d,"message":%q,"status":%q}}`, status, failed, word)
		event = "data: " + body + "\r\n\r\n"
	case ollama:
		body = fmt.Sprintf(`{"error":%q}`, failed)
		event = body + "\n"
	case responses:
		body = fmt.Sprintf(`{"error":{"message":%q,"type":%q,"param":null,"code":null}}`, failed, kind)
		event = fmt.Sprintf("event: error\ndata: {\"type\":\"error\",\"sequence_number\":9,\"error\":{\"type\":%q,\"code\":null,\"message\":%q,\"param\":null}}\n\n", "server_error", failed)
	default:
		body = fmt.Sprintf(`{"error":{"message":%q,"type":%q,"param":null,"code":null}}`, failed, kind)
		event = sse(body)
	}
	if api == converse || api == invoke {
		body = fmt.Sprintf(`{"message":%q}`, failed)
		event = awsFrame("exception", map[int]string{400: "validationException", 429: "throttlingException", 500: "internalServerException", 503: "serviceUnavailableException"}[status], body)
	}
	return event, body
}

// speak says an answer in a provider's format.
func (s *say) speak(p *provider, streamed bool) utterance {
	out := utterance{status: 200, header: map[string]string{"Content-Type": "application/json"}}
	if f := s.fail; f != nil && !f.after {
		_, body := wrong(p.api, f.status)
		out.status, out.chunks = f.status, []string{body}
		if p.api == converse || p.api == invoke {
			out.header["X-Amzn-Errortype"] = map[int]string{400: "ValidationException", 401: "UnrecognizedClientException", 429: "ThrottlingException", 500: "InternalServerException"}[f.status]
		}
		return out
	}
	if streamed {
		out.header["Content-Type"] = map[string]string{ollama: "application/x-ndjson", converse: "application/vnd.amazon.eventstream", invoke: "application/vnd.amazon.eventstream"}[p.api]
		if out.header["Content-Type"] == "" {
			out.header["Content-Type"] = "text/event-stream"
		}
	}
	switch p.api {
	case chat:
		out.chunks = s.chat(streamed)
	case responses:
		out.chunks = s.responses(streamed)
	case messages:
		if out.chunks = s.messages(streamed); streamed {
			out.chunks = withNames(out.chunks)
		}
	case invoke:
		out.chunks = s.invoke(streamed)
	case generate:
		out.chunks = s.generate(streamed)
	case converse:
		out.chunks = s.converse(streamed)
	case ollama:
		out.chunks = s.ollama(streamed)
	}
	texts := out.chunks
	if p.api == invoke && streamed {
		texts = s.messages(true)
	}
	if len(s.pieces) > 0 {
		out.said = 1 + slices.IndexFunc(texts, func(c string) bool { return strings.Contains(c, s.pieces[len(s.pieces)-1]) })
	}
	if s.fail != nil || s.cut {
		out.chunks = out.chunks[:out.said:out.said]
	}
	if s.fail != nil {
		event, _ := wrong(p.api, s.fail.status)
		out.chunks = append(out.chunks, event)
	}
	return out
}
