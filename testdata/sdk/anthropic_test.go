package sdktest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/param"
)

func (s side) anthropic(p *tap) *anthropic.Client {
	c := anthropic.NewClient(option.WithBaseURL(s.base), option.WithAPIKey(s.key), option.WithMaxRetries(0),
		option.WithHTTPClient(&http.Client{Transport: p}))
	return &c
}

// message is a small request of the tests' own.
func message(model string) anthropic.MessageNewParams {
	return anthropic.MessageNewParams{Model: anthropic.Model(model), MaxTokens: 1000,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("What is a " + secretWord + "?"))}}
}

// messageCall makes a message of a recording.
func (s side) messageCall(ctx context.Context, r *recording, streamed bool) *heard {
	params := message(s.prefix + r.name)
	opts := []option.RequestOption{option.WithHeader("anthropic-beta", "interleaved-thinking-2025-05-14,mcp-client-2025-04-04")}
	if r.request != nil {
		params = param.Override[anthropic.MessageNewParams](json.RawMessage(r.request))
		opts = append(opts, option.WithJSONSet("model", s.prefix+r.name), option.WithJSONDel("stream"))
	}
	if streamed {
		return s.messageStream(ctx, params, opts...)
	}
	return s.messageWhole(ctx, params, opts...)
}

// messageStream reads a stream with the SDK's Accumulate.
func (s side) messageStream(ctx context.Context, params anthropic.MessageNewParams, opts ...option.RequestOption) *heard {
	h, p := &heard{}, &tap{}
	stream := s.anthropic(p).Messages.NewStreaming(ctx, params, opts...)
	defer stream.Close()
	var m anthropic.Message
	for stream.Next() {
		e := stream.Current()
		s.event(h, e.RawJSON())
		if err := m.Accumulate(e); err != nil && h.Refused == "" {
			h.Refused = err.Error()
		}
	}
	p.close(h, stream.Err())
	h.message(&m)
	return h
}

func (s side) messageWhole(ctx context.Context, params anthropic.MessageNewParams, opts ...option.RequestOption) *heard {
	h, p := &heard{}, &tap{}
	m, err := s.anthropic(p).Messages.New(ctx, params, opts...)
	if p.close(h, err); err == nil {
		h.Events = []string{m.RawJSON()}
		h.message(m)
	}
	return h
}

func (h *heard) message(m *anthropic.Message) {
	for _, b := range m.Content {
		h.Text += b.Text
		h.Reasoning += b.Thinking + b.Signature + b.Data
		if b.Type == "tool_use" || b.Type == "server_tool_use" || b.Type == "mcp_tool_use" {
			h.Tools = append(h.Tools, tool{b.Name, compact(string(b.Input))})
		}
	}
	h.Finish = string(m.StopReason)
	u := m.Usage
	h.Usage = fmt.Sprintf("in %d read %d write %d out %d", u.InputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens, u.OutputTokens)
}
