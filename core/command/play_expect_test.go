package command_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// This file gathers, for each part of a case's expect, what was seen, under the
// names that the cases use. A name that it does not know is a fault: nothing is
// passed over.

// check compares one part of expect with what was seen of it.
func check(name string, want, seen map[string]any) []string {
	faults := checkOrder(name, want, seen)
	for _, k := range slices.Sorted(maps.Keys(want)) {
		got, known := seen[k]
		if !known {
			faults = append(faults, fmt.Sprintf("%s.%s: the runner has no such figure", name, k))
			continue
		}
		faults = append(faults, checkValue(name+"."+k, want[k], got)...)
	}
	return faults
}

// seenOfClient is what the client's side shows of one call and its copies.
func seenOfClient(want map[string]any, answers []*clientAnswer) map[string]any {
	a := answers[0]
	read := a.read()
	body, encoding := a.decoded()
	headers := map[string]any{}
	for name, v := range a.header {
		headers[strings.ToLower(name)] = strings.Join(v, ", ")
	}
	events := map[string]any{}
	for name, n := range read.Events {
		events[name] = n
	}
	seen := map[string]any{
		"status":                    a.status,
		"headers":                   headers,
		"json":                      missing{},
		"text":                      read.Text,
		"text_length":               len([]rune(read.Text)),
		"reasoning":                 read.Reasoning,
		"finish":                    read.Finish,
		"events":                    map[string]any{"count": events},
		"chunks_with_empty_choices": read.EmptyChoices,
		"error_event":               read.Error != "" && read.InStream,
		"error":                     read.Error,
		"done_ms":                   sinceMS(a.sent, a.done),
		"decodes":                   encoding == nil,
		"saw_100_continue":          a.saw100,
		"raw":                       string(a.wire) + "\n" + string(a.body) + "\n" + string(body),
	}
	var tools, indexes []any
	for _, c := range read.Tools {
		var parsed any = missing{}
		if decodeJSON([]byte(c.Arguments), &parsed) != nil {
			parsed = missing{}
		}
		tools = append(tools, map[string]any{
			"name": c.Name, "arguments": parsed, "arguments_raw": c.Arguments, "arguments_length": len(c.Arguments),
		})
		indexes = append(indexes, c.Index)
	}
	seen["tool_calls"], seen["tool_indexes"] = tools, indexes
	var parsed any
	if decodeJSON(body, &parsed) == nil {
		seen["json"] = parsed
	}
	statuses := map[string]any{}
	for _, a := range answers {
		name := fmt.Sprint(a.status)
		if a.status == http.StatusPaymentRequired && strings.Contains(string(a.body), "budget_exceeded") {
			name = "budget_error"
		}
		n, _ := statuses[name].(int)
		statuses[name] = n + 1
	}
	seen["status_counts"] = statuses

	// What was counted never and what came never are seen too.
	if e, ok := want["events"].(map[string]any); ok {
		zero(e["count"], events)
	}
	zero(want["status_counts"], statuses)
	if pieces, ok := want["arrivals"].([]any); ok {
		var arrivals []any
		for _, p := range pieces {
			piece, _ := lookUp(p, "contains").(string)
			arrivals = append(arrivals, map[string]any{"contains": piece, "ms": a.firstSeen(piece)})
		}
		seen["arrivals"] = arrivals
	}
	return seen
}

// zero sets the names of want that were not counted to 0.
func zero(want any, counts map[string]any) {
	names, _ := want.(map[string]any)
	for name := range names {
		if _, ok := counts[name]; !ok {
			counts[name] = 0
		}
	}
}

// arrivalOrder gives the arrivals of a call as figures for checkOrder.
func arrivalOrder(list any) map[string]any {
	out := map[string]any{}
	pieces, _ := list.([]any)
	for _, p := range pieces {
		out[text(lookUp(p, "contains"))+" after_ms"] = lookUp(p, "ms")
	}
	return out
}

// checkUpstream compares what a mock upstream got.
func checkUpstream(name string, want map[string]any, requests []mockRequest, from time.Time) []string {
	seen := map[string]any{"calls": len(requests), "peer_closed_ms": missing{}, "requests": []any{}}
	var bodies []any
	for _, r := range requests {
		var body any
		if err := decodeJSON(r.Body, &body); err != nil {
			body = missing{}
		}
		bodies = append(bodies, body)
		if _, have := seen["peer_closed_ms"].(missing); have && !r.PeerClosed.IsZero() {
			seen["peer_closed_ms"] = sinceMS(from, r.PeerClosed)
		}
	}
	seen["requests"] = bodies
	each := map[string]any{} // the checks that every single request must pass
	all := map[string]any{}
	for k, w := range want {
		if strings.HasPrefix(k, "request_") || k == "request" || k == "path_not_contains" {
			each[k] = w
		} else {
			all[k] = w
		}
	}
	faults := check(name, all, seen)
	if len(each) > 0 && len(requests) == 0 {
		faults = append(faults, name+": expected a request, saw none")
	}
	for i, r := range requests {
		faults = append(faults, checkRequest(fmt.Sprintf("%s.%d", name, i), each, r, bodies[i])...)
	}
	return faults
}

func checkRequest(name string, want map[string]any, r mockRequest, body any) []string {
	headers := map[string]any{}
	for h, v := range r.Header {
		headers[strings.ToLower(h)] = strings.Join(v, ", ")
	}
	sent := unescape(string(r.Body))
	var faults []string
	for _, k := range slices.Sorted(maps.Keys(want)) {
		w, at := want[k], name+"."+k
		switch k {
		case "request":
			faults = append(faults, checkValue(at, w, body)...)
		case "request_headers":
			faults = append(faults, checkValue(at, w, headers)...)
		case "request_contains":
			faults = append(faults, checkValue(at, map[string]any{"contains": w}, sent)...)
		case "request_not_contains":
			faults = append(faults, checkValue(at, map[string]any{"not_contains": w}, sent)...)
		case "path_not_contains":
			faults = append(faults, checkValue(at, map[string]any{"not_contains": w}, r.Path)...)
		case "request_text_in_order":
			rest := sent
			for _, part := range texts(w) {
				_, after, found := strings.Cut(rest, part)
				if !found {
					faults = append(faults, fault(at, w, sent)...)
					break
				}
				rest = after
			}
		default:
			faults = append(faults, at+": the runner has no such figure")
		}
	}
	return faults
}

// unescape undoes the escapes of JSON that writers choose differently: \/ and
// \uXXXX. The others stay as they were sent.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] != '\\' || i+1 == len(s):
			b.WriteByte(s[i])
		case s[i+1] == '/':
			b.WriteByte('/')
			i++
		case s[i+1] == 'u' && i+6 <= len(s):
			end := i + 6
			if strings.HasPrefix(s[end:], `\u`) && end+6 <= len(s) {
				end += 6 // the two halves of a pair are read together
			}
			var r string
			if json.Unmarshal([]byte(`"`+s[i:end]+`"`), &r) != nil {
				r = s[i:end]
			}
			b.WriteString(r)
			i = end - 1
		default:
			b.WriteString(s[i : i+2])
			i++
		}
	}
	return b.String()
}

// outcomes are the cases' names of SPEC §11's; the others are the same.
var outcomes = map[string]string{"settled": "ok", "failed": "error"}

// seenOfReceipt reads a call's record (SPEC §24) under the cases' names. Figures
// that count from the call's arrival are brought to the dispatch.
func seenOfReceipt(raw []byte) (map[string]any, error) {
	var r map[string]any
	if err := decodeJSON(raw, &r); err != nil {
		return nil, err
	}
	seen := map[string]any{"raw": string(raw)}
	for name, path := range map[string]string{
		"usage_from": "usage_from", "arrivals": "timing.arrivals", "queued_ms": "timing.queued_ms",
		"in_uncached": "usage.uncached_input_tokens", "cache_read": "usage.cache_read_tokens",
		"out": "usage.output_tokens", "reasoning": "usage.reasoning_tokens",
		"cache_write_1h": "usage.cache_write_1h_tokens", "cost_usd": "charge_usd",
		"headers_ms": "timing.upstream_headers_ms", "first_output_ms": "timing.first_token_ms",
	} {
		seen[name] = lookUp(r, path)
	}
	seen["offer"], seen["outcome"] = offerName(lookUp(r, "offer")), outcomeName(lookUp(r, "outcome"))
	attempts := []any{}
	list, _ := lookUp(r, "attempts").([]any)
	for _, a := range list {
		attempts = append(attempts, map[string]any{
			"offer": offerName(lookUp(a, "offer")), "outcome": outcomeName(lookUp(a, "outcome")),
		})
	}
	seen["attempts"] = attempts
	seen["cache_write_5m"] = minus(lookUp(r, "usage.cache_write_tokens"), lookUp(r, "usage.cache_write_1h_tokens"), true)
	for name, path := range map[string]string{
		"first_event_ms": "timing.first_sse_event_ms", "first_text_ms": "timing.first_text_delta_ms", "done_ms": "timing.upstream_done_ms",
	} {
		seen[name] = minus(lookUp(r, path), lookUp(r, "timing.queued_ms"), false)
	}
	seen["out_tps"] = outputSpeed(r)
	return seen, nil
}

func outcomeName(v any) any {
	if name, ok := outcomes[text(v)]; ok {
		return name
	}
	return v
}

// offerName is the case's name of an offer, whose id is provider/model.
func offerName(v any) any {
	id, ok := v.(string)
	if !ok {
		return v
	}
	name, _, _ := strings.Cut(id, "/")
	return name
}

// minus is a − b, absent where a is, and where b is unless it then counts as 0.
func minus(a, b any, orZero bool) any {
	x, ok := number(a)
	y, ok2 := number(b)
	switch {
	case !ok || !ok2 && !orZero:
		return missing{}
	case !ok2:
		return a
	}
	return json.Number(x.Sub(x, y).FloatString(6))
}

// outputSpeed is what a call gives to output_tps (SPEC §5).
func outputSpeed(r map[string]any) any {
	tokens, ok := number(lookUp(r, "timing.streamed_output_tokens"))
	if !ok {
		tokens, ok = number(lookUp(r, "usage.output_tokens"))
	}
	window, okWindow := number(lookUp(r, "timing.first_token_to_end_ms"))
	if !ok || !okWindow || window.Sign() <= 0 || lookUp(r, "outcome") != "settled" || lookUp(r, "usage_from") != "provider" {
		return missing{}
	}
	ms, _ := window.Float64()
	stream := ms >= 250
	if arrivals, ok := number(lookUp(r, "timing.arrivals")); ok {
		n, _ := arrivals.Float64()
		stream = n >= 4
	}
	if !stream {
		return missing{}
	}
	n, _ := tokens.Float64()
	return n / ms * 1000
}
