package adapters

import (
	"context"
	"net/http"

	"headway/core"
)

// Ollama speaks Ollama's own API, /api/chat, towards its servers. No client
// speaks it here.
type Ollama struct{}

// Format is ollama.
func (Ollama) Format() core.Format { return core.FormatOllama }

// Build makes the request for a server of format ollama. Errors are Invalid
// where the call is none that /api/chat can answer or holds what it has no form
// for, Internal where the provider's settings cannot be used.
func (Ollama) Build(ctx context.Context, job *core.Job, content *core.Content, head core.RequestHead, offer *core.Offer) (*http.Request, []string, error) {
	if content == nil || job.Operation != core.OpGenerate {
		return nil, nil, cannot(string(job.Operation), "only answers conversations")
	}
	body, dropped, err := Ollama{}.encode(content, offer)
	if err != nil {
		return nil, nil, err
	}
	head.Query = nil
	req, err := outgoing(ctx, head, offer, "/api/chat", "Authorization", "Bearer ", body)
	return req, dropped, err
}

// Reader reads an answer of /api/chat.
func (Ollama) Reader(*core.Job, *core.Offer) core.Reader { return &ollamaReader{} }
