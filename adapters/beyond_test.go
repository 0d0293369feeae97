package adapters_test

import (
	"strings"
	"testing"

	"headway/adapters"
	"headway/core"
)

// TestBeyond: what has a model read more than the request holds is known, as budgets
// set aside the whole context for it.
func TestBeyond(t *testing.T) {
	type parser interface {
		Parse(core.RequestHead, []byte) (*core.Job, error)
	}
	of := func(a parser, path, open, shut string, beyond bool, bodies ...string) {
		for _, b := range bodies {
			job, err := a.Parse(core.RequestHead{Path: path}, []byte(open+b+shut))
			if err != nil {
				t.Errorf("%s: %v", b, err)
			} else if job.Beyond != beyond {
				t.Errorf("%s: %v, want %v", b, job.Beyond, beyond)
			}
		}
	}
	const chat, responses, messages, google = "/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1beta/models/m:generateContent"
	top := `{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":9`
	part := `{"model":"m","messages":[{"role":"user","content":[`
	of(adapters.Chat{}, chat, top, "}", false, "", `,"plugins":[]`, `,"web_search_options":null`, `,"tools":[{"type":"function","function":{"name":"f"}},{"type":"custom","custom":{"name":"c"}}]`,
		`,"models":null`, `,"models":[]`)
	of(adapters.Chat{}, chat, top, "}", true, `,"plugins":[{"id":"web"}]`, `,"web_search_options":{}`, `,"tools":[{"type":"web_search"}]`)
	of(adapters.Chat{}, chat, part, "]}]}", false, `{"type":"text","text":"x"}`, `{"type":"image_url","image_url":{"url":"https://a/b.png"}}`)
	of(adapters.Chat{}, chat, part, "]}]}", true, `{"type":"file","file":{"file_id":"f"}}`, `{"type":"input_audio","input_audio":{"data":"eA==","format":"wav"}}`,
		`{"type":"video_url","video_url":{"url":"https://a/b.mp4"}}`, `{"video_url":{"url":"https://a/b.mp4"},"type":"video_url"}`)
	of(adapters.Chat{}, chat, `{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","audio":`, "}]}", true, `{"id":"audio_1"}`)

	of(adapters.Responses{}, responses, `{"model":"m","input":"hi"`, "}", false, "", `,"previous_response_id":null`,
		`,"tools":[{"type":"function","name":"f"},{"type":"local_shell"},{"type":"computer_use_preview"}]`)
	of(adapters.Responses{}, responses, `{"model":"m","input":"hi"`, "}", true, `,"previous_response_id":"r"`, `,"conversation":"c"`, `,"prompt":{"id":"p"}`,
		`,"tools":[{"type":"web_search"}]`, `,"tools":[{"type":"mcp","server_url":"https://a"}]`, `,"tools":[{"type":"file_search","vector_store_ids":["v"]}]`)
	item := `{"model":"m","input":[`
	of(adapters.Responses{}, responses, item, "]}", false, `{"role":"user","content":[{"type":"input_image","file_id":"f"}]}`)
	of(adapters.Responses{}, responses, item, "]}", true, `{"role":"user","content":[{"type":"input_file","file_url":"https://a/b.pdf"}]}`, `{"type":"item_reference","id":"msg_1"}`)

	of(adapters.Anthropic{}, messages, top, "}", false, "", `,"mcp_servers":[]`, `,"container":null`,
		`,"tools":[{"name":"f","input_schema":{"type":"object"}},{"type":"custom","name":"g","input_schema":{}},{"type":"bash_20250124","name":"bash"},{"type":"text_editor_20250728","name":"e"}]`)
	of(adapters.Anthropic{}, messages, top, "}", true, `,"mcp_servers":[{"type":"url","url":"https://a"}]`, `,"container":"c"`, `,"tools":[{"type":"web_search_20250305","name":"web_search"}]`,
		`,"tools":[{"name":"code_execution","type":"code_execution_20250825"}]`)
	block := `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[`
	of(adapters.Anthropic{}, messages, block, "]}]}", false, `{"type":"image","source":{"type":"url","url":"https://a/b.png"}}`, `{"type":"document","source":{"type":"text","data":"x"}}`)
	of(adapters.Anthropic{}, messages, block, "]}]}", true, `{"type":"document","source":{"type":"url","url":"https://a/b.pdf"}}`,
		`{"source":{"type":"base64","media_type":"application/pdf","data":"eA=="},"type":"document"}`, `{"type":"container_upload","file_id":"f"}`,
		`{"type":"tool_result","tool_use_id":"t","content":[{"type":"document","source":{"type":"file","file_id":"f"}}]}`)

	contents := `{"contents":[{"parts":[{"text":"hi"}]}]`
	of(adapters.Google{}, google, contents, "}", false, "", `,"cachedContent":null`, `,"tools":[{"functionDeclarations":[{"name":"f"}]},{"function_declarations":[]}]`)
	of(adapters.Google{}, google, contents, "}", true, `,"cachedContent":"cachedContents/1"`, `,"cached_content":"cachedContents/1"`, `,"tools":[{"googleSearch":{}}]`, `,"tools":[{"functionDeclarations":[],"urlContext":{}}]`)
	of(adapters.Google{}, google, `{"contents":[{"parts":[`, "]}]}", false, `{"inlineData":{"mimeType":"image/png","data":"eA=="}}`, `{"file_data":{"file_uri":"gs://a","mime_type":"IMAGE/png"}}`)
	of(adapters.Google{}, google, `{"contents":[{"parts":[`, "]}]}", true, `{"fileData":{"fileUri":"gs://a","mimeType":"video/mp4"}}`, `{"fileData":{"fileUri":"gs://a"}}`, `{"inlineData":{"mimeType":"application/pdf","data":"eA=="}}`)
}

// TestOneModel: OpenRouter's list of models to go on to would have models answer that
// neither the ranking chose nor the key may use.
func TestOneModel(t *testing.T) {
	for path, a := range map[string]interface {
		Parse(core.RequestHead, []byte) (*core.Job, error)
	}{"/v1/chat/completions": adapters.Chat{}, "/v1/responses": adapters.Responses{}, "/v1/messages": adapters.Anthropic{}} {
		_, err := a.Parse(core.RequestHead{Path: path}, []byte(`{"model":"m","max_tokens":9,"input":"hi","messages":[{"role":"user","content":"hi"}],"models":["m","dearer"]}`))
		if err == nil || !strings.Contains(err.Error(), "models") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
