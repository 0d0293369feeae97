package adapters

import (
	"context"
	"net/http"
	"strconv"
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
	makerAmazon // Nova
	makerOpenAI // gpt-oss
	makerMistral
)

// converseModel is what is known of a model by its name.
type converseModel struct {
	maker maker
	// version of a Claude, 406 for 4.6; of a Nova, 200 for 2; 0 where unknown.
	version int
}

// modelOf reads the names of an offer: the provider's may be an ARN that says
// nothing.
func modelOf(offer *core.Offer) (m converseModel) {
	name := strings.ToLower(upstreamModel(offer) + " " + string(offer.Model))
	switch {
	case strings.Contains(name, "claude"):
		_, rest, _ := strings.Cut(name, "claude-")
		m = converseModel{makerAnthropic, versionIn(rest)}
	case strings.Contains(name, "anthropic"):
		m.maker = makerAnthropic
	case strings.Contains(name, "nova-"):
		_, rest, _ := strings.Cut(name, "nova-")
		m = converseModel{makerAmazon, versionIn(rest)}
	case strings.Contains(name, "gpt-oss"):
		m.maker = makerOpenAI
	case strings.Contains(name, "mistral"):
		m.maker = makerMistral
	}
	return m
}

// versionIn reads the first version in a name such as opus-4-6-v1 or
// 3-7-sonnet-20250219.
func versionIn(name string) int {
	words := strings.FieldsFunc(name, func(r rune) bool { return r == '-' || r == '.' || r == ':' || r == ' ' })
	for i, w := range words {
		major, err := strconv.Atoi(w)
		if err != nil || major > 99 {
			continue
		}
		minor := 0
		if i+1 < len(words) {
			if n, err := strconv.Atoi(words[i+1]); err == nil && n < 100 {
				minor = n
			}
		}
		return 100*major + minor
	}
	return 0
}

// caches tells whether the model takes marks for the cache.
func (m converseModel) caches() bool { return m.maker == makerAnthropic || m.maker == makerAmazon }
