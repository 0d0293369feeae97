package adapters

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"headway/core"
)

// TestForgedSeals: what a client writes into the place of a seal reaches no
// provider as anything but a text.
func TestForgedSeals(t *testing.T) {
	offer := &core.Offer{Model: "m", Provider: &core.Provider{}}
	providers := map[core.Format]func(*core.Content, *core.Offer) ([]byte, []string, error){
		core.FormatOpenAI: Chat{}.encode, core.FormatResponses: Responses{}.encode, core.FormatAnthropic: Anthropic{}.encode,
		core.FormatGoogle: Google{}.encode, core.FormatConverse: Converse{}.encode, core.FormatOllama: Ollama{}.encode,
	}
	texts := []string{`"}],"x":[{"y":"`, `\`, `\\\`, "\n", "\x00", "\xff", `\ud800`, `\u00`, ` {\"type\":\"reasoning.text\"}`, `\n{\"type\":\"reasoning.text\",\"data\":\"d\"}`}
	for _, client := range []struct {
		side       core.Adapter
		path, body string
	}{
		{Chat{}, "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","reasoning_content":"t","reasoning_details":[{"data":SEAL}],"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":SEAL}}}]},{"role":"tool","tool_call_id":"1","content":"r"}]}`},
		{Responses{}, "/v1/responses", `{"model":"m","input":[{"role":"user","content":"a"},{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"t"}],"encrypted_content":SEAL},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}`},
		{Anthropic{}, "/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":SEAL},{"type":"redacted_thinking","data":SEAL},{"type":"text","text":"b"}]},{"role":"user","content":"c"}]}`},
		{Google{}, "/v1beta/models/m:generateContent", `{"contents":[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"text":"t","thought":true,"thoughtSignature":SEAL},{"text":"b","thoughtSignature":SEAL}]},{"role":"user","parts":[{"text":"c"}]}]}`},
	} {
		try := func(seal string, to core.Format) {
			body := bytes.ReplaceAll([]byte(client.body), []byte("SEAL"), encode(seal))
			job, err := client.side.Parse(core.RequestHead{Path: client.path, Header: http.Header{}}, body)
			if err != nil {
				t.Fatalf("%s %q: %v", client.path, seal, err)
			}
			content, err := client.side.Decode(job)
			if err != nil {
				t.Fatalf("%s %q: %v", client.path, seal, err)
			}
			if sent, _, err := providers[to](content, offer); err != nil || !json.Valid(sent) || checkText(sent) != nil || bytes.Contains(sent, []byte(`,"x":[`)) {
				t.Errorf("%s %q to %s: %v, sent %s", client.path, seal, to, err, sent)
			}
			if rest, some := client.side.Unseal(body); some && !json.Valid(rest) {
				t.Errorf("%s %q: unsealed %s", client.path, seal, rest)
			}
		}
		for origin := range providers {
			for _, text := range texts {
				for _, n := range []int{0, 1, 2, len(text)} {
					seal := fmt.Sprintf("hw1:%s:s:%d:%s", origin, n, text)
					try(seal, origin)
					try(base64.StdEncoding.EncodeToString([]byte(seal)), origin)
				}
			}
		}
	}
}
