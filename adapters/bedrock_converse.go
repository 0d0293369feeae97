package adapters

import (
	"context"
	"net/http"
	"strings"

	"headway/core"
)

// Converse speaks Amazon Bedrock's Converse, one format for models of many
// makers. No client speaks it.
type Converse struct{ AWS *AWS }

// Format is bedrock-converse.
func (Converse) Format() core.Format { return core.FormatConverse }

// Build makes the request for a provider of format bedrock-converse. Errors are
// Internal: the provider's settings cannot be used, or no credential was found;
// Invalid where content has what the format cannot say.
func (v Converse) Build(ctx context.Context, job *core.Job, content *core.Content, head core.RequestHead, offer *core.Offer) (*http.Request, []string, error) {
	if content == nil {
		return nil, nil, core.Errorf(core.Internal, "provider %s: no client speaks its format", offer.Provider.ID)
	}
	body, dropped, err := v.encode(content, offer)
	if err != nil {
		return nil, nil, err
	}
	action := "converse"
	if job.Streamed {
		action = "converse-stream"
	}
	req, err := v.AWS.request(ctx, head, offer, action, body)
	return req, dropped, err
}

// Reader reads an answer of Converse.
func (Converse) Reader(*core.Job, *core.Offer) core.Reader { return &converseReader{} }

// maker is whose model answers: some fields are the maker's own, and Bedrock
// refuses those that a model does not know.
type maker uint8

const (
	makerOther maker = iota
	makerAnthropic
	makerNova
	makerNova2
	makerOpenAI // gpt-oss
	makerMistral
)

// makerOf reads the names of an offer: the provider's may be an ARN that says
// nothing.
func makerOf(offer *core.Offer) maker {
	name := strings.ToLower(upstreamModel(offer) + " " + string(offer.Model))
	for _, m := range [...]struct {
		word string
		maker
	}{{"claude", makerAnthropic}, {"nova-2", makerNova2}, {"nova", makerNova}, {"gpt-oss", makerOpenAI}, {"mistral", makerMistral}} {
		if strings.Contains(name, m.word) {
			return m.maker
		}
	}
	return makerOther
}

// caches tells whether its models take marks for the cache.
func (m maker) caches() bool { return m == makerAnthropic || m == makerNova || m == makerNova2 }
