package adapters_test

import (
	"testing"

	"headway/adapters"
	"headway/core"
)

// TestErrorsThatNoClientSees: an error inside a stream in a form that the
// format's SDKs pass over is no bytes for a client, who would take a cut answer
// for a whole one; in the form that they look for it passes as it came.
func TestErrorsThatNoClientSees(t *testing.T) {
	streamed, events := &core.Job{Operation: core.OpGenerate, Streamed: true}, &core.Job{Operation: core.OpGenerate, Streamed: true, SSE: true}
	for _, c := range []struct {
		name   string
		a      core.Adapter
		job    *core.Job
		stream string
		seen   bool
	}{
		{"chat: an error object", adapters.Chat{}, streamed, `data: {"error":{"message":"x"}}` + "\n\n", true},
		{"chat: an error text", adapters.Chat{}, streamed, `data: {"error":"x"}` + "\n\n", true},
		{"chat: by its name", adapters.Chat{}, streamed, "event: error\n" + `data: {"message":"x"}` + "\n\n", false},
		{"chat: by its name, no JSON", adapters.Chat{}, streamed, "event: error\ndata: x\n\n", false},
		{"chat: of older servers", adapters.Chat{}, streamed, `data: {"object":"error","message":"x"}` + "\n\n", false},
		{"chat: inside of a choice", adapters.Chat{}, streamed, `data: {"choices":[{"error":{"message":"x"},"finish_reason":"error"}]}` + "\n\n", false},
		{"responses: an event", adapters.Responses{}, streamed, "event: error\n" + `data: {"type":"error","message":"x"}` + "\n\n", true},
		{"responses: a failed response", adapters.Responses{}, streamed, `data: {"type":"response.failed","sequence_number":1,"response":{"output":[],"error":{"message":"x"}}}` + "\n\n", true},
		{"responses: chat's error object", adapters.Responses{}, streamed, `data: {"error":{"message":"x"}}` + "\n\n", true},
		{"responses: by its name", adapters.Responses{}, streamed, "event: error\n" + `data: {"message":"x"}` + "\n\n", false},
		{"responses: by its name, no JSON", adapters.Responses{}, streamed, "event: error\ndata: x\n\n", false},
		{"messages: an event", adapters.Anthropic{}, streamed, "event: error\n" + `data: {"type":"error","error":{"message":"x"}}` + "\n\n", true},
		{"messages: without a name", adapters.Anthropic{}, streamed, `data: {"type":"error","error":{"message":"x"}}` + "\n\n", false},
		{"messages: chat's error object", adapters.Anthropic{}, streamed, `data: {"error":{"message":"x"}}` + "\n\n", false},
		{"messages: by its name, no JSON", adapters.Anthropic{}, streamed, "event: error\ndata: x\n\n", false},
		{"google: an event", adapters.Google{}, events, `data: {"error":{"message":"x"}}` + "\n\n", true},
		{"google: an element", adapters.Google{}, streamed, `[{"error":{"message":"x"}}`, false},
	} {
		r := c.a.Reader(c.job, nil)
		frames := cut(t, r.Split(), []byte(c.stream))
		if mark := r.Read(&frames[0]); !mark.Has(core.MarkError) || r.Answer().Err == nil {
			t.Errorf("%s: marked %b", c.name, mark)
		}
		if seen := string(frames[0].Raw) == c.stream; seen != c.seen || !seen && len(frames[0].Raw) != 0 {
			t.Errorf("%s: passes as %q", c.name, frames[0].Raw)
		}
	}
}
