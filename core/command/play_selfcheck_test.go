package command_test

import (
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"io"
	"math/big"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestCheckValue(t *testing.T) {
	for _, c := range []struct {
		want, got string
		ok        bool
	}{
		{`1`, `1`, true}, {`1`, `1.0`, true}, {`1`, `"1"`, false}, {`1`, `2`, false},
		{`9007199254740993`, `9007199254740993`, true}, {`9007199254740993`, `9007199254740992`, false},
		{`0.054399`, `0.0543990001`, true}, {`0.054399`, `0.05439901`, false},
		{`"a"`, `"a"`, true}, {`"a"`, `"b"`, false}, {`true`, `true`, true}, {`false`, `null`, false}, {`null`, `null`, true},
		{`[1, 2]`, `2`, true}, {`[1, 2]`, `2.1`, false}, {`[1, 2]`, `0.9`, false}, {`[1, 2]`, `[1, 2]`, false},
		{`[1, null, "x"]`, `[1, null, "x"]`, true}, {`[1, null, "x"]`, `[1, null]`, false}, {`[1, null, "x"]`, `[1, 0, "x"]`, false},
		{`{"min": 1}`, `1`, true}, {`{"min": 1}`, `0`, false}, {`{"min": 1}`, ``, false}, {`{"max": 1}`, `1`, true}, {`{"max": 1}`, `1.1`, false},
		{`{"above": 0}`, `0`, false}, {`{"above": 0}`, `0.000001`, true}, {`{"min": 1, "max": 3}`, `4`, false},
		{`{"contains": "b"}`, `"abc"`, true}, {`{"contains": ["a", "d"]}`, `"abc"`, false}, {`{"contains": "a"}`, ``, false},
		{`{"not_contains": ["x"]}`, `"abc"`, true}, {`{"not_contains": ["x", "b"]}`, `"abc"`, false}, {`{"not_contains": "x"}`, ``, true},
		{`{"one_of": [400, 401]}`, `401`, true}, {`{"one_of": [400, 401]}`, `200`, false}, {`{"one_of": [400, null]}`, ``, true}, {`{"one_of": [400]}`, ``, false},
		{`{"absent": true}`, ``, true}, {`{"absent": true}`, `0`, false}, {`{"present": true}`, `0`, true}, {`{"present": true}`, ``, false},
		{`{"length": 2}`, `[1, 2]`, true}, {`{"length": 2}`, `[1]`, false}, {`{"length": 2}`, ``, false},
		{`{"a.0.b": 1}`, `{"a": [{"b": 1}]}`, true}, {`{"a.1.b": 1}`, `{"a": [{"b": 1}]}`, false}, {`{"a.b": 1}`, `{"a.b": 1}`, true},
		{`{"a": {"absent": true}}`, `{"b": 1}`, true}, {`{"a": {"absent": true}}`, `[]`, true}, {`{"a": {"b": 1}}`, `{}`, false},
		{`[{"a": 1}, {}]`, `[{"a": 1, "b": 2}, {"c": 1}]`, true}, {`[{"a": 1}]`, `[{"a": 2}]`, false}, {`[{"a": 1}]`, `[]`, false},
		{`{}`, `{}`, true}, {`{}`, ``, false}, {`{}`, `[]`, false},
	} {
		var want any
		got := any(missing{})
		if err := errors.Join(decodeJSON([]byte(c.want), &want)); err != nil {
			t.Fatal(c.want, err)
		}
		if c.got != "" {
			if err := decodeJSON([]byte(c.got), &got); err != nil {
				t.Fatal(c.got, err)
			}
		}
		if faults := checkValue("x", want, got); (len(faults) == 0) != c.ok {
			t.Errorf("%s on %s: saw the faults %q", c.want, c.got, faults)
		}
	}
}

func TestOnlyLateIsForgiven(t *testing.T) {
	for _, c := range []struct {
		name           string
		lo, hi         int64
		wantLo, wantHi string
	}{
		{"receipt.c1.done_ms", 100, 200, "100.00", "400.00"},
		{"client.c1.arrivals.0.ms", 100, 200, "100.00", "400.00"},
		{"receipt.c1.out_tps", 20, 40, "10.00", "40.00"}, // 25 to 50 ms a token become 25 to 100
		{"upstream.A.calls", 1, 2, "1.00", "2.00"},
	} {
		lo, hi := widen(c.name, big.NewRat(c.lo, 1), big.NewRat(c.hi, 1))
		if lo.FloatString(2) != c.wantLo || hi.FloatString(2) != c.wantHi {
			t.Errorf("%s: saw %s to %s", c.name, lo.FloatString(2), hi.FloatString(2))
		}
	}
	want := map[string]any{"a_ms": []any{json.Number("10"), json.Number("20")}, "b_ms": []any{json.Number("30"), json.Number("40")}}
	for _, c := range []struct {
		a, b   float64
		faults int
	}{{15, 35, 0}, {31, 35, 0}, {35, 35, 1}, {36, 35, 1}} {
		if got := checkOrder("x", want, map[string]any{"a_ms": c.a, "b_ms": c.b}); len(got) != c.faults {
			t.Errorf("%v before %v: saw %q", c.a, c.b, got)
		}
	}
}

func TestUnknownFiguresAreFaults(t *testing.T) {
	if got := check("x", map[string]any{"new_figure": 1}, map[string]any{}); len(got) != 1 {
		t.Errorf("an unknown figure was passed over: %q", got)
	}
	if got := checkUpstream("x", map[string]any{"request_shape": 1}, []mockRequest{{}}, time.Time{}); len(got) != 1 {
		t.Errorf("an unknown check of a request was passed over: %q", got)
	}
}

func TestCheckUpstream(t *testing.T) {
	from := time.Now()
	requests := []mockRequest{
		{Path: "/v1/x", Header: http.Header{"X-A": {"1"}}, Body: []byte(`{"a":{"b":1},"t":"caf\u00e9 \ud83d\ude00 a\/b \"q\" one two"}`), PeerClosed: from.Add(40 * time.Millisecond)},
		{Path: "/v1/x?key=1", Header: http.Header{}, Body: []byte(`{"a":{"b":1}}`)},
	}
	for _, c := range []struct {
		want   string
		n      int // how many of the requests there were
		faults int
	}{
		{`{"calls": 2}`, 2, 0}, {`{"calls": 1}`, 2, 1},
		{`{"request": {"a.b": 1}}`, 2, 0}, {`{"request": {"a.b": 2}}`, 2, 2}, {`{"request": {"a.b": 1}}`, 0, 1},
		{`{"requests": [{"t": {"present": true}}, {"t": {"absent": true}}]}`, 2, 0}, {`{"requests": [{}]}`, 2, 1},
		{`{"request_headers": {"x-a": "1"}}`, 1, 0}, {`{"request_headers": {"x-a": {"absent": true}}}`, 1, 1},
		{`{"request_contains": ["café 😀 a/b \\\"q\\\""]}`, 1, 0}, {`{"request_contains": ["caffè"]}`, 1, 1},
		{`{"request_not_contains": ["one"]}`, 1, 1}, {`{"request_text_in_order": ["one", "two"]}`, 1, 0}, {`{"request_text_in_order": ["two", "one"]}`, 1, 1},
		{`{"path_not_contains": ["key="]}`, 2, 1}, {`{"path_not_contains": ["key="]}`, 1, 0},
		{`{"peer_closed_ms": [0, 30]}`, 1, 0}, {`{"peer_closed_ms": [50, 90]}`, 1, 1}, {`{"peer_closed_ms": [0, 30]}`, 0, 1},
	} {
		var want map[string]any
		if err := decodeJSON([]byte(c.want), &want); err != nil {
			t.Fatal(c.want, err)
		}
		if faults := checkUpstream("A", want, requests[:c.n], from); len(faults) != c.faults {
			t.Errorf("%s on %d requests: saw %q", c.want, c.n, faults)
		}
	}
}

func TestSeenOfReceipt(t *testing.T) {
	seen, err := seenOfReceipt([]byte(`{"id": "x", "outcome": "settled", "offer": "A/mini", "usage_from": "provider", "charge_usd": 0.054399,
		"usage": {"uncached_input_tokens": 3, "cache_write_tokens": 1000, "cache_write_1h_tokens": 400, "output_tokens": 40},
		"attempts": [{"offer": "B/mini", "outcome": "failed"}, {"offer": "A/mini", "outcome": "settled"}],
		"timing": {"queued_ms": 5.5, "upstream_headers_ms": 7, "first_token_ms": 80, "first_sse_event_ms": 60.5, "upstream_done_ms": 1000,
			"first_token_to_end_ms": 800, "arrivals": 10}}`))
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]any
	err = decodeJSON([]byte(`{"offer": "A", "outcome": "ok", "in_uncached": 3, "cache_write_5m": 600, "cache_write_1h": 400, "out": 40, "cost_usd": 0.054399,
		"cache_read": {"absent": true}, "reasoning": {"absent": true}, "first_text_ms": {"absent": true}, "queued_ms": 5.5, "headers_ms": 7,
		"first_output_ms": 80, "first_event_ms": 55, "done_ms": 994.5, "arrivals": 10, "out_tps": 50, "usage_from": "provider",
		"attempts": [{"offer": "B", "outcome": "error"}, {"offer": "A", "outcome": "ok"}]}`), &want)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range check("receipt", want, seen) {
		t.Error(f)
	}
	for body, speed := range map[string]bool{
		`"timing": {"first_token_to_end_ms": 800, "arrivals": 3}`:                              false,
		`"timing": {"first_token_to_end_ms": 250}`:                                             true,
		`"timing": {"first_token_to_end_ms": 249}`:                                             false,
		`"timing": {"first_token_to_end_ms": 100, "arrivals": 4, "streamed_output_tokens": 9}`: true,
		`"timing": {"arrivals": 9}`:                                                            false,
	} {
		seen, err := seenOfReceipt([]byte(`{"outcome": "settled", "usage_from": "provider", "usage": {"output_tokens": 40}, ` + body + `}`))
		_, absent := seen["out_tps"].(missing)
		if err != nil || absent == speed {
			t.Errorf("%s: saw the output speed %v, error %v", body, seen["out_tps"], err)
		}
	}
}

func TestAnswersAreReadInTheirFormat(t *testing.T) {
	stream := func(events ...string) string { return "data: " + strings.Join(events, "\n\ndata: ") + "\n\n" }
	for _, c := range []struct{ path, kind, body, want string }{
		{"/v1/chat/completions", "text/event-stream", stream(
			`{"choices":[{"delta":{"role":"assistant","content":""}}]}`,
			`{"choices":[{"delta":{"reasoning":"hm"}}]}`,
			`{"choices":[{"delta":{"tool_calls":[{"index":1,"function":{"name":"s","arguments":"{\"k\""}}]}}]}`,
			`{"choices":[{"delta":{"tool_calls":[{"index":1,"function":{"arguments":":2}"}}]}}]}`,
			`{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`, `{"choices":[]}`, `[DONE]`),
			`{"text": "", "reasoning": "hm", "finish": "tool_calls", "tool_indexes": [1], "chunks_with_empty_choices": 1, "error_event": false,
			"tool_calls": [{"name": "s", "arguments": {"k": 2}, "arguments_raw": "{\"k\":2}", "arguments_length": 7}],
			"events": {"count": {"[DONE]": 1, "role_chunk": 1, "error": 0}}}`},
		{"/v1/chat/completions", "text/event-stream", stream(`{"choices":[{"delta":{"content":"a"}}]}`, `{"error":{"type":"overloaded_error"}}`),
			`{"text": "a", "error_event": true, "error": {"contains": "overloaded"}, "events": {"count": {"error": 1}}}`},
		{"/v1/chat/completions", "application/json", `{"choices":[{"message":{"content":"a","reasoning_content":"b"},"finish_reason":"stop"}],"usage":{"x":1}}`,
			`{"text": "a", "reasoning": "b", "finish": "stop", "json": {"usage.x": 1}, "error_event": false}`},
		{"/v1/chat/completions", "application/json", `{"error":{"type":"t","message":"m"}}`,
			`{"error_event": false, "error": {"contains": "\"m\""}, "json": {"error.message": "m"}}`},
		{"/v1/messages", "text/event-stream", stream(
			`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","name":"n","input":{}}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{}"}}`,
			`{"type":"message_delta","delta":{"stop_reason":"tool_use"}}`, `{"type":"message_stop"}`),
			`{"reasoning": "hm", "finish": "tool_use", "tool_indexes": [1], "tool_calls": [{"name": "n", "arguments": {}, "arguments_raw": "{}"}],
			"events": {"count": {"content_block_start": 2, "message_stop": 1, "error": 0}}}`},
		{"/v1/messages", "application/json", `{"content":[{"type":"text","text":"a"},{"type":"tool_use","name":"n","input":{"k":1}}],"stop_reason":"end_turn"}`,
			`{"text": "a", "finish": "end_turn", "tool_calls": [{"name": "n", "arguments": {"k": 1}}]}`},
		{"/v1/responses", "text/event-stream", stream(
			`{"type":"response.reasoning_text.delta","delta":"hm"}`, `{"type":"response.output_text.delta","delta":"a"}`,
			`{"type":"response.output_item.added","output_index":2,"item":{"type":"function_call","name":"n"}}`,
			`{"type":"response.function_call_arguments.delta","output_index":2,"delta":"{}"}`,
			`{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}`),
			`{"text": "a", "reasoning": "hm", "finish": "max_output_tokens", "tool_calls": [{"name": "n", "arguments": {}}], "error_event": false}`},
		{"/v1/responses", "text/event-stream", stream(`{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error"}}}`),
			`{"error_event": true, "error": {"contains": "server_error"}}`},
		{"/v1/responses", "application/json", `{"status":"completed","error":null,"output":[{"type":"message","content":[{"type":"output_text","text":"a"}]}]}`,
			`{"text": "a", "finish": "completed", "error": ""}`},
	} {
		var want map[string]any
		if err := decodeJSON([]byte(c.want), &want); err != nil {
			t.Fatal(c.want, err)
		}
		a := &clientAnswer{call: post(c.path, "", nil), status: 200, header: http.Header{"Content-Type": {c.kind}}, body: []byte(c.body)}
		for _, f := range check(c.path, want, seenOfClient(want, []*clientAnswer{a})) {
			t.Errorf("%s: %s", c.body, f)
		}
	}
}

func TestStatusesOfCopiesAreCounted(t *testing.T) {
	budget := &clientAnswer{call: post("/v1/chat/completions", "", nil), status: 402, body: []byte(`{"error":{"type":"budget_exceeded"}}`)}
	good := &clientAnswer{call: budget.call, status: 200}
	want := map[string]any{"status_counts": map[string]any{"200": 2, "budget_error": 1, "500": 0}}
	if faults := check("c", want, seenOfClient(want, []*clientAnswer{good, budget, good})); len(faults) > 0 {
		t.Error(faults)
	}
	if faults := check("c", want, seenOfClient(want, []*clientAnswer{good, budget})); len(faults) != 1 {
		t.Errorf("a copy that is missing gave %q", faults)
	}
}

func TestConfiguration(t *testing.T) {
	for name, want := range map[string]string{
		"013-cost-tier-whole-request": `{"providers.0": {"id": "A", "format": "openai", "api_key": "${UPSTREAM_KEY_A}", "base_url": {"contains": "/v1"}},
			"providers.0.offers.0": {"model": "mini", "input_usd_per_mtok": "1.25", "cache_read_usd_per_mtok": "0.125", "output_usd_per_mtok": "10.0",
			"cache_write_usd_per_mtok": {"absent": true}, "above": {"input_tokens": 200000, "input_usd_per_mtok": "2.5", "output_usd_per_mtok": "15.0"}}}`,
		"008-cost-cache-write-1h": `{"providers.0.format": "anthropic", "providers.0.base_url": {"not_contains": "/v1"},
			"providers.0.offers.0": {"cache_write_usd_per_mtok": "3.75", "cache_write_1h_usd_per_mtok": "6.0"}}`,
		"063-no-headers-time-limit": `{"limits": {"header_timeout": "500ms", "stream_idle": "2000ms"}, "routing.strategy": "cheapest",
			"providers.0.offers.0.input_usd_per_mtok": "1", "providers.1.offers.0.input_usd_per_mtok": "2"}`,
		"064-retry-after-date-and-huge": `{"breaker": {"max_retry_after": "1500ms"}}`,
		"030-duplicate-model-key":       `{"keys": [{"name": "client", "key": "${CLIENT_KEY}", "models": ["mini"]}]}`,
		"047-budget-race":               `{"keys": [{"budget_usd_per_day": 0.25, "requests_per_minute": {"absent": true}}]}`,
		"050-key-in-error-and-log":      `{"providers.0.format": "google", "providers.1.base_url": "http://127.0.0.1:1/"}`,
	} {
		c, err := readCase(filepath.Join(moduleRoot, "testdata", "cases", name+".json"), nil)
		if err != nil {
			t.Fatal(err)
		}
		a := startUpstream(t, nil, nil)
		made, err := configuration(c, map[string]*mockUpstream{"A": a, "B": a, "S": a})
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(made)
		if err != nil {
			t.Fatal(err)
		}
		var file, checks any
		if err := errors.Join(decodeJSON(text, &file), decodeJSON([]byte(want), &checks)); err != nil {
			t.Fatal(err)
		}
		for _, f := range checkValue("file", checks, file) {
			t.Errorf("%s: %s", name, f)
		}
	}
}

func TestPlaceholdersAreFilledIn(t *testing.T) {
	file := filepath.Join(moduleRoot, "testdata", "cases", "052-crlf-into-headers.json")
	c, err := readCase(file, func(name, of string) string { return name + "-" + of })
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Given.Admin[0].Fields["base_url"]; got != "UPSTREAM-A" {
		t.Errorf("saw %v", got)
	}
}

func TestTheLogTellsTheAddress(t *testing.T) {
	for _, line := range []string{"listening on 127.0.0.1:8123\n", `{"msg":"listening on 127.0.0.1:8123"}` + "\n"} {
		l := &gatewayLog{ready: make(chan string, 1)}
		io.WriteString(l, "starting\n"+line[:20])
		select {
		case got := <-l.ready:
			t.Errorf("half a line gave %q", got)
		default:
		}
		io.WriteString(l, line[20:])
		if got := <-l.ready; got != "127.0.0.1:8123" {
			t.Errorf("%q: saw %q", line, got)
		}
	}
}

func TestPlainComparesAreFound(t *testing.T) {
	for line, found := range map[string]int{
		`token == want`:                     1,
		`got != s.adminToken`:               1,
		`k.Secret.Reveal() == got`:          1,
		`string(password) == string(b)`:     1,
		`bytes.Equal(got, []byte(secret))`:  1,
		`strings.EqualFold(c.APIKey, got)`:  1,
		`keys[bearer] != nil`:               1,
		`keys[c.Secret] != nil`:             1,
		`value[core.Secret]() != nil`:       0,
		`token == ""`:                       0,
		`secret != nil`:                     0,
		`tokens == 3`:                       0,
		`t.FirstToken == other`:             0,
		`token == json.Delim('{')`:          0,
		`n.Op == token.EQL`:                 0,
		`hmac.Equal(token, want)`:           0,
		`keys[hash(secret)] != nil`:         0,
		`strings.HasPrefix(auth, "Bearer")`: 0,
	} {
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, "x.go", "package x\nimport \"headway/core\"\nfunc f() { if "+line+" {} }", parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := plainComparesOf(files, f); len(got) != found {
			t.Errorf("%s: expected %d, saw %q", line, found, got)
		}
	}
}
