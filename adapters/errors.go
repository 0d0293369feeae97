package adapters

import (
	"fmt"
	"strings"

	"headway/core"
)

// readError reads the error of a body or an event, in the shapes that servers of
// all formats send, as a server of one format may answer in another's: the
// object {"error": {…}} of OpenAI, Anthropic, Google (there also in an array)
// and llama.cpp (whose code is a number), {"error": "text"} of Ollama, the bare
// {"message": …} of several, and {"detail": …} of FastAPI. What cannot be read is
// left empty; Status is the one that the error names.
func readError(body []byte) core.UpstreamError {
	var v any
	if decode(body, &v) != nil {
		return core.UpstreamError{}
	}
	if list, ok := v.([]any); ok && len(list) > 0 {
		v = list[0]
	}
	outer, ok := v.(map[string]any)
	if !ok {
		return core.UpstreamError{}
	}
	inner := outer
	switch e := outer["error"].(type) {
	case map[string]any:
		inner = e
	case string:
		return named(core.UpstreamError{Message: e, Type: scalar(outer["type"]), Code: scalar(outer["code"])}, "")
	}
	e := core.UpstreamError{Type: scalar(inner["type"]), Code: scalar(inner["code"]), Message: scalar(inner["message"])}
	status := scalar(inner["status"]) // Google's word for it
	if e.Type == "" {
		e.Type = status
	}
	if e.Message == "" {
		e.Message = detail(outer["detail"])
	}
	// Google answers a bad key with a 400; what it means is among the details.
	if details, ok := inner["details"].([]any); ok {
		for _, d := range details {
			if d, ok := d.(map[string]any); ok && scalar(d["reason"]) != "" {
				e.Code = scalar(d["reason"])
			}
		}
	}
	return named(e, scalar(inner["code"]))
}

// named completes an error by what its words stand for.
func named(e core.UpstreamError, code string) core.UpstreamError {
	if e.Code == "API_KEY_INVALID" || e.Code == "API_KEY_EXPIRED" {
		code = "401"
	}
	e.Status = statusOf(code, e.Code, e.Type)
	return e
}

// scalar is a text, or a number as it is written.
func scalar(v any) string {
	switch v.(type) {
	case nil, map[string]any, []any:
		return ""
	}
	return fmt.Sprint(v)
}

// detail is FastAPI's detail: a text, or a list of what is wrong where.
func detail(v any) string {
	list, ok := v.([]any)
	if !ok {
		return scalar(v)
	}
	var said []string
	for _, item := range list {
		if d, ok := item.(map[string]any); ok {
			said = append(said, scalar(d["msg"]))
		}
	}
	return strings.Join(said, "; ")
}
