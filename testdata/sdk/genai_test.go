package sdktest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"google.golang.org/genai"
)

func (s side) genai(ctx context.Context, p *tap) (*genai.Client, error) {
	return genai.NewClient(ctx, &genai.ClientConfig{APIKey: s.key, Backend: genai.BackendGeminiAPI, HTTPClient: &http.Client{Transport: p},
		HTTPOptions: genai.HTTPOptions{BaseURL: s.base}})
}

// recorded gives a recorded request in the SDK's own terms, or a small one of
// the tests' own where there is none. Requests of Vertex are not for this API,
// and one has a signature that was taken out and is no base64 now.
func recorded(r *recording) ([]*genai.Content, *genai.GenerateContentConfig, error) {
	config := &genai.GenerateContentConfig{MaxOutputTokens: 1000}
	if r.request == nil || r.dialect != "gemini" || r.name == "google-generatecontent.empty-text-part-usage-repeated" {
		return genai.Text("What is a " + secretWord + "?"), config, nil
	}
	var body struct{ Contents []*genai.Content }
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(r.request, &body); err != nil {
		return nil, nil, err
	}
	if err := json.Unmarshal(r.request, &fields); err != nil {
		return nil, nil, err
	}
	delete(fields, "contents")
	if inner := fields["generationConfig"]; inner != nil {
		delete(fields, "generationConfig")
		if err := json.Unmarshal(inner, &fields); err != nil {
			return nil, nil, err
		}
	}
	flat, err := json.Marshal(fields)
	if err != nil {
		return nil, nil, err
	}
	config = &genai.GenerateContentConfig{}
	return body.Contents, config, json.Unmarshal(flat, config)
}

// generateCall makes content of a recording.
func (s side) generateCall(ctx context.Context, r *recording, streamed bool) *heard {
	contents, config, err := recorded(r)
	if err != nil {
		return &heard{Err: err.Error(), err: err}
	}
	if streamed {
		return s.generateStream(ctx, s.prefix+r.name, contents, config)
	}
	return s.generateWhole(ctx, s.prefix+r.name, contents, config)
}

func (s side) generateStream(ctx context.Context, model string, contents []*genai.Content, config *genai.GenerateContentConfig) *heard {
	h, p := &heard{}, &tap{}
	client, err := s.genai(ctx, p)
	if err != nil {
		return &heard{Err: err.Error(), err: err}
	}
	var failed error
	for resp, err := range client.Models.GenerateContentStream(ctx, model, contents, config) {
		if err != nil {
			failed = err
			break
		}
		s.event(h, h.generated(resp))
	}
	p.close(h, failed)
	return h
}

func (s side) generateWhole(ctx context.Context, model string, contents []*genai.Content, config *genai.GenerateContentConfig) *heard {
	h, p := &heard{}, &tap{}
	client, err := s.genai(ctx, p)
	if err != nil {
		return &heard{Err: err.Error(), err: err}
	}
	resp, err := client.Models.GenerateContent(ctx, model, contents, config)
	if p.close(h, err); err == nil {
		s.event(h, h.generated(resp))
	}
	return h
}

// generated takes one response, of which a stream has several, and gives it as
// JSON.
func (h *heard) generated(r *genai.GenerateContentResponse) string {
	r.SDKHTTPResponse = nil // the header, which is not of the answer
	raw, err := json.Marshal(r)
	if err != nil {
		raw = []byte(err.Error())
	}
	for _, c := range r.Candidates {
		if c.FinishReason != "" {
			h.Finish = string(c.FinishReason)
		}
		if c.Content == nil {
			continue
		}
		for _, part := range c.Content.Parts {
			switch {
			case part.FunctionCall != nil:
				args, _ := json.Marshal(part.FunctionCall.Args)
				h.Tools = append(h.Tools, tool{part.FunctionCall.Name, string(args)})
			case part.Thought:
				h.Reasoning += part.Text
			default:
				h.Text += part.Text
			}
		}
	}
	if f := r.PromptFeedback; f != nil && f.BlockReason != "" {
		h.Finish = "blocked:" + string(f.BlockReason)
	}
	if u := r.UsageMetadata; u != nil {
		h.Usage = fmt.Sprintf("in %d out %d thoughts %d cached %d tool %d total %d", u.PromptTokenCount, u.CandidatesTokenCount,
			u.ThoughtsTokenCount, u.CachedContentTokenCount, u.ToolUsePromptTokenCount, u.TotalTokenCount)
	}
	return string(raw)
}
