package adapters

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"headway/core"
)

// TestWhatDecoratesIsNamed: what only the client's own format has is left out by
// its name, and what says nothing is not named.
func TestWhatDecoratesIsNamed(t *testing.T) {
	for _, c := range []struct {
		side core.ClientSide
		body string
		want []string
	}{
		{Anthropic{}, `{"model":"m","max_tokens":9,"tools":[{"name":"f","input_schema":{},"defer_loading":true,"input_examples":[],"allowed_callers":["x"]},{"name":"g","input_schema":{},"defer_loading":true}],
			"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://a/b"},"transformations":{"oversized_image":"reject"}},
			{"type":"document","source":{"type":"url","url":"https://a/c"},"citations":{"enabled":true}},{"type":"text","text":"a","citations":[{"type":"char_location"}]}]}]}`,
			[]string{"tools[].defer_loading", "tools[].allowed_callers", "transformations", "citations.enabled"}},
		{Anthropic{}, `{"model":"m","max_tokens":9,"tools":[{"name":"f","input_schema":{},"defer_loading":false}],
			"messages":[{"role":"user","content":[{"type":"document","source":{"type":"url","url":"https://a/c"},"citations":{"enabled":false}}]}]}`, nil},
		{Google{}, `{"tools":[{"functionDeclarations":[{"name":"f","behavior":"NON_BLOCKING","response":{}}]}],"contents":[{"role":"model","parts":[{"functionCall":{"name":"f","willContinue":true}}]},
			{"parts":[{"functionResponse":{"name":"f","scheduling":"SILENT","willContinue":false}},{"fileData":{"fileUri":"https://a/b.png","displayName":"b"}}]}]}`,
			[]string{"tools[].functionDeclarations[].behavior", "functionCall.willContinue", "functionResponse.scheduling", "displayName"}},
	} {
		job := &core.Job{Format: c.side.Format(), Operation: core.OpGenerate, Body: []byte(c.body)}
		content, err := c.side.Decode(job)
		if err != nil {
			t.Errorf("%s: %v", c.body, err)
			continue
		}
		var names []string
		if err := others(content, &names); err != nil || !slices.Equal(names, c.want) {
			t.Errorf("%s: named %q, %v, want %q", c.body, names, err, c.want)
		}
	}
}

// TestFilesKeptElsewhereAreRefused: a file that only its keeper can read is part
// of what was asked.
func TestFilesKeptElsewhereAreRefused(t *testing.T) {
	body := `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"container_upload","file_id":"f"}]}]}`
	_, err := Anthropic{}.Decode(&core.Job{Format: core.FormatAnthropic, Operation: core.OpGenerate, Body: []byte(body)})
	if e := (*core.Error)(nil); !errors.As(err, &e) || e.Param != "messages[0].content[1]" {
		t.Errorf("%v", err)
	}
}

// TestPlacesAreTheClientsOwn: an error points at what the client wrote.
func TestPlacesAreTheClientsOwn(t *testing.T) {
	part, result := core.Part{Kind: core.PartImage}, core.Part{Kind: core.PartToolResult}
	for _, c := range []struct {
		format core.Format
		at     string
		part   core.Part
		want   string
	}{
		{core.FormatOpenAI, "messages[2]", part, "messages[2].content[0]"},
		{core.FormatOpenAI, "messages[2]", result, "messages[2].content"},
		{core.FormatResponses, "input[2]", part, "input[2].content[0]"},
		{core.FormatResponses, "input[2]", result, "input[2].output"},
		{core.FormatAnthropic, "messages[2]", result, "messages[2].content[0]"},
		{core.FormatGoogle, "contents[2]", part, "contents[2].parts[0]"},
	} {
		m := &core.Message{At: c.at, Parts: []core.Part{c.part}}
		if got := partAt(&core.Content{Format: c.format}, m, 0); got != c.want {
			t.Errorf("%s: %s, want %s", c.format, got, c.want)
		}
	}
}

// TestTwinsOfOpenAI: what chat and Responses both have goes from one to the
// other, and to nobody else.
func TestTwinsOfOpenAI(t *testing.T) {
	const chat = `{"model":"m","messages":[{"role":"user","content":"a"}],"verbosity":"low","service_tier":"flex","metadata":{"a":"b"}}`
	const responses = `{"model":"m","input":"a","text":{"verbosity":"low","format":{"type":"json_object"}},"service_tier":"flex","metadata":{"a":"b"}}`
	openAI := &core.Offer{Provider: &core.Provider{Format: core.FormatOpenAI, Dialect: "openai"}}
	for _, c := range []struct {
		name    string
		side    core.ClientSide
		body    string
		encode  func(*core.Content, *core.Offer) ([]byte, []string, error)
		offer   *core.Offer
		has     []string
		dropped []string
	}{
		{"chat at Responses", Chat{}, chat, Responses{}.encode, openAI, []string{`"text":{"verbosity":"low"}`, `"service_tier":"flex"`, `"metadata":{"a":"b"}`}, nil},
		{"Responses at OpenAI's chat", Responses{}, responses, Chat{}.encode, openAI, []string{`"verbosity":"low"`, `"service_tier":"flex"`}, []string{"metadata"}},
		{"Responses at another's chat", Responses{}, responses, Chat{}.encode, &core.Offer{Provider: &core.Provider{Format: core.FormatOpenAI}}, nil, []string{"text.verbosity", "service_tier", "metadata"}},
		{"Responses at Google", Responses{}, responses, Google{}.encode, &core.Offer{Provider: &core.Provider{Format: core.FormatGoogle}}, nil, []string{"text.verbosity", "service_tier", "metadata"}},
		{"what is of another kind", Chat{}, `{"model":"m","messages":[{"role":"user","content":"a"}],"verbosity":3,"metadata":["a"]}`, Responses{}.encode, openAI, nil, []string{"verbosity", "metadata"}},
	} {
		content, err := c.side.Decode(&core.Job{Format: c.side.Format(), Operation: core.OpGenerate, Body: []byte(c.body)})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		body, dropped, err := c.encode(content, c.offer)
		if err != nil || !json.Valid(body) || !slices.Equal(dropped, c.dropped) {
			t.Errorf("%s: %s, without %q, %v", c.name, body, dropped, err)
		}
		for _, want := range c.has {
			if !strings.Contains(string(body), want) {
				t.Errorf("%s: no %s in %s", c.name, want, body)
			}
		}
		if c.has == nil && (strings.Contains(string(body), "flex") || strings.Contains(string(body), "verbosity")) {
			t.Errorf("%s: %s", c.name, body)
		}
	}
}
