package adapters_test

import (
	"encoding/json"
	"strings"
	"testing"

	"headway/adapters"
	"headway/core"
)

const (
	picture     = "iVBORw0KGgoAAAANSUhEUg=="
	pictureLine = `{"candidates":[{"content":{"parts":[{"text":"Here:"},{"thought":true,"inlineData":{"mimeType":"image/png","data":"RFJBRlQ="}},` +
		`{"inlineData":{"mimeType":"image/png","data":"` + picture + `"},"thoughtSignature":"c2ln"}],"role":"model"},"index":0}],"responseId":"r"}`
	pictureEnd = `{"candidates":[{"content":{"parts":[{"text":"Done."}],"role":"model"},"finishReason":"STOP","index":0}]}`
)

// pictureFor is what a client is given of an answer of Gemini's with a picture.
func pictureFor(t *testing.T, side core.ClientSide, streamed bool, lines ...string) string {
	t.Helper()
	job := &core.Job{Format: side.Format(), Operation: core.OpGenerate, Model: "m", Streamed: streamed, SSE: streamed, Body: []byte(`{"model":"m"}`)}
	r, to := googleReader(), side.Translator(job, googleTime)
	var out []byte
	for _, f := range cut(t, r.Split(), []byte(googleSSE(lines...))) {
		r.Read(&f)
		for _, e := range r.Events(&f) {
			out = to.Event(out, &e)
		}
	}
	answer := r.Answer()
	return string(to.End(out, &answer))
}

// A picture that Gemini makes reaches clients of every format, and Gemini again
// when they send it back.
func TestPicturesOfAnAnswer(t *testing.T) {
	const question, next = `"draw"`, `"now in blue"`
	for _, c := range []struct {
		name     string
		side     core.ClientSide
		path     string
		streamed string   // the events, those of the picture alone
		whole    []string // in the answer, in this order
		// back is the request of the next turn, made of the answer.
		back func(answer map[string]any) any
	}{
		{
			"chat", adapters.Chat{}, chatPath,
			`"delta":{"images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + picture + `"},"index":0}]}`,
			[]string{`"content":"Here:Done."`, `"images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + picture + `"},"index":0}]`},
			func(a map[string]any) any {
				return map[string]any{"messages": []any{json.RawMessage(`{"role":"user","content":` + question + `}`), a["choices"].([]any)[0].(map[string]any)["message"],
					json.RawMessage(`{"role":"user","content":` + next + `}`)}}
			},
		},
		{
			"Responses", adapters.Responses{}, responsesPath,
			`"type":"image_generation_call","status":"completed","output_format":"png","result":"` + picture + `"}`,
			[]string{`"text":"Here:"`, `"type":"image_generation_call","status":"completed","output_format":"png","result":"` + picture + `"`, `"text":"Done."`},
			func(a map[string]any) any {
				input := append([]any{json.RawMessage(`{"role":"user","content":` + question + `}`)}, a["output"].([]any)...)
				return map[string]any{"input": append(input, json.RawMessage(`{"role":"user","content":`+next+`}`))}
			},
		},
		{
			"Anthropic", adapters.Anthropic{}, messagesPath,
			`"delta":{"type":"text_delta","text":"![image](data:image/png;base64,` + picture + `)"}`,
			[]string{`{"type":"text","text":"Here:"}`, `{"type":"text","text":"![image](data:image/png;base64,` + picture + `)"}`, `{"type":"text","text":"Done."}`},
			func(a map[string]any) any {
				return map[string]any{"max_tokens": 9, "messages": []any{json.RawMessage(`{"role":"user","content":` + question + `}`), map[string]any{"role": "assistant", "content": a["content"]},
					json.RawMessage(`{"role":"user","content":` + next + `}`)}}
			},
		},
	} {
		stream := pictureFor(t, c.side, true, pictureLine, pictureEnd)
		if !strings.Contains(stream, c.streamed) || strings.Contains(stream, "RFJBRlQ=") {
			t.Errorf("%s: streamed %s", c.name, stream)
		}
		whole := pictureFor(t, c.side, false, pictureLine, pictureEnd)
		rest := whole
		for _, want := range c.whole {
			_, behind, ok := strings.Cut(rest, want)
			if !ok {
				t.Errorf("%s: no %s, in its place, in %s", c.name, want, whole)
			}
			rest = behind
		}
		var answer map[string]any
		if err := json.Unmarshal([]byte(whole), &answer); err != nil {
			t.Fatalf("%s: %v in %s", c.name, err, whole)
		}
		again := c.back(answer).(map[string]any)
		again["model"] = "m"
		body, err := json.Marshal(again)
		if err != nil {
			t.Fatal(err)
		}
		job := parsed(t, c.side.(core.Adapter), c.path, string(body))
		if job.Features != core.FeatureImages || job.PromptBytes < 3000 || strings.Contains(strings.Join(texts(job, job.Turns), " "), picture) {
			t.Errorf("%s: features %b, %d bytes, %q", c.name, job.Features, job.PromptBytes, texts(job, job.Turns))
		}
		content, err := c.side.Decode(job)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		req, _, err := adapters.Google{}.Build(t.Context(), job, content, core.RequestHead{}, offerOf(core.FormatGoogle, "gemini-3-pro-image"))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if sent := bodyOf(t, req); !strings.Contains(sent, `{"inlineData":{"mimeType":"image/png","data":"`+picture+`"},"thoughtSignature":"c2ln"}`) {
			t.Errorf("%s: sent back as %s", c.name, sent)
		}
		for _, format := range []core.Format{core.FormatAnthropic, core.FormatOpenAI, core.FormatConverse} { // which take none of the model's own
			if side := sideOf(t, format); format != c.side.Format() {
				if _, _, err := side.Build(t.Context(), job, content, core.RequestHead{}, awsOffer(format, "claude-sonnet-4-5")); err == nil {
					t.Errorf("%s: a picture went to %s", c.name, format)
				}
			}
		}
	}
}

// What a format has no place for is told of.
func TestFilesOfAnAnswer(t *testing.T) {
	const sound = `{"candidates":[{"content":{"parts":[{"inlineData":{"mimeType":"audio/wav","data":"UklGRg=="}},{"fileData":{"mimeType":"video/mp4","fileUri":"https://a/b"}}],"role":"model"},"finishReason":"STOP","index":0}]}`
	for _, side := range []core.ClientSide{adapters.Chat{}, adapters.Responses{}, adapters.Anthropic{}} {
		for _, streamed := range []bool{true, false} {
			if out := pictureFor(t, side, streamed, sound); !strings.Contains(out, "[a file of type audio/wav: its data was left out") || !strings.Contains(out, "[a file of type video/mp4: https://a/b]") {
				t.Errorf("%s: %s", side.Format(), out)
			}
		}
	}
	if out := pictureFor(t, adapters.Google{}, true, sound); !strings.Contains(out, `{"inlineData":{"mimeType":"audio/wav","data":"UklGRg=="}}`) {
		t.Errorf("Google: %s", out)
	}
}

// A server of chat completions gives pictures as OpenRouter does.
func TestPicturesOfChat(t *testing.T) {
	const message = `{"role":"assistant","content":"Here:","images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + picture + `"}},{"type":"image_url","image_url":{"url":"https://a/b.jpg"}}]}`
	r := adapters.Chat{}.Reader(&core.Job{Format: core.FormatGoogle, Operation: core.OpGenerate}, chatServer("openrouter"))
	events, err := r.WholeEvents([]byte(`{"id":"c","model":"m","choices":[{"index":0,"message":` + message + `,"finish_reason":"stop"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	to := adapters.Google{}.Translator(&core.Job{Model: "m"}, googleTime)
	var out []byte
	for _, e := range events {
		out = to.Event(out, &e)
	}
	out = to.End(out, &core.Answer{})
	if want := `"parts":[{"text":"Here:"},{"inlineData":{"mimeType":"image/png","data":"` + picture + `"}},{"fileData":{"mimeType":"image/jpeg","fileUri":"https://a/b.jpg"}}]`; !strings.Contains(string(out), want) {
		t.Errorf("%s, want %s", out, want)
	}
	content, err := decodeChat(t, `{"model":"m","messages":[{"role":"user","content":"a"},`+message+`,{"role":"user","content":"b"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	if body, _, err := buildChat(t, content, chatServer("openrouter")); err != nil || !strings.Contains(body, `"content":"Here:","images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,`+picture+`"}},{"type":"image_url","image_url":{"url":"https://a/b.jpg"}}]`) {
		t.Errorf("%s, %v", body, err)
	}
}
