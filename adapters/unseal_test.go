package adapters

import (
	"encoding/json"
	"reflect"
	"testing"

	"headway/core"
)

// TestUnseal: what other providers sealed does not reach one of the client's own
// format; all else stays byte for byte.
func TestUnseal(t *testing.T) {
	seal := string(wrapSeal(core.Seal{Origin: core.FormatOpenAI, Text: core.Quoted(`"s"`)}))
	seal64 := string(wrapSeal64(core.Seal{Origin: core.FormatAnthropic, Text: core.Quoted(`"s"`)}))
	for _, c := range []struct {
		side       core.ClientSide
		body, want string // want: "" for as it came
	}{
		{Anthropic{}, `{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"own"},{"type":"text","text":"hw1: is no seal"}]}]}`, ""},
		{Anthropic{}, `{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"it is \"` + seal + `\"","signature":"own"},{"type":"thinking","thinking":"hw1: is no seal","signature":"own"}]}]}`, ""},
		{Google{}, `{"contents":[{"role":"model","parts":[{"thought":true,"text":"it is \"` + seal64 + `\"","thoughtSignature":"own"}]}]}`, ""},
		{Anthropic{}, `{"messages":[{"role":"user","content":"\"hw1:"},{"role":"assistant","content":[{"type":"text","text":"\"hw1:x"}]}]}`, ""},
		{Anthropic{}, `{"messages":[{"role":"user","content":"a"}, {"role":"assistant","content":[ {"type":"thinking","thinking":"t","signature":"` + seal + `"} , {"type":"text","text":"b"},{"signature":"` + seal + `","type":"thinking"}]} ],"model":"m"}`,
			`{"messages":[{"role":"user","content":"a"}, {"role":"assistant","content":[ {"type":"text","text":"b"}]} ],"model":"m"}`},
		{Anthropic{}, `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"redacted_thinking","data":"` + seal + `"}]},{"role":"user","content":"c"}]}`,
			`{"messages":[{"role":"user","content":"a"},{"role":"user","content":"c"}]}`},
		{Responses{}, `{"input":[{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"` + seal + `"},{"type":"reasoning","id":"rs_2","encrypted_content":"own"},{"role":"user","content":"\"hw1:` + seal + `"}]}`,
			`{"input":[{"type":"reasoning","id":"rs_2","encrypted_content":"own"},{"role":"user","content":"\"hw1:` + seal + `"}]}`},
		{Responses{}, `{"input":"` + seal + `"}`, ""},
		{Chat{}, `{"messages":[{"role":"assistant","reasoning_content":"t","content":"a","reasoning_details":[{"type":"reasoning.encrypted","format":"headway","data":"` + seal + `"}]},{"role":"assistant","reasoning_content":"own","tool_calls":[{"id":"1","extra_content":{"google":{"thought_signature":"` + seal + `"}},"type":"function"}]}]}`,
			`{"messages":[{"role":"assistant","content":"a"},{"role":"assistant","reasoning_content":"own","tool_calls":[{"id":"1","type":"function"}]}]}`},
		{Google{}, `{"contents":[{"role":"model","parts":[{"thought":true,"text":"t"},{"text":"","thoughtSignature":"` + seal64 + `"},{"functionCall":{"name":"f"},"thoughtSignature":"` + seal64 + `"}]}]}`,
			`{"contents":[{"role":"model","parts":[{"thought":true,"text":"t"},{"functionCall":{"name":"f"},"thoughtSignature":"skip_thought_signature_validator"}]}]}`},
		{Google{}, `{"contents":[{"role":"model","parts":[{"thoughtSignature":"` + seal64 + `","text":""}]},{"role":"user","parts":[{"text":"b"}]}]}`,
			`{"contents":[{"role":"user","parts":[{"text":"b"}]}]}`},
	} {
		got, some := c.side.Unseal([]byte(c.body))
		want := c.want
		if want == "" {
			want = c.body
		}
		if string(got) != want || some != (c.want != "") || !json.Valid(got) {
			t.Errorf("%T: %s\n gives %s\n  want %s", c.side, c.body, got, want)
		}
	}
}

// TestSealsComeBack: a wrapped seal is the same after its way through a client.
func TestSealsComeBack(t *testing.T) {
	for _, s := range []core.Seal{
		{Origin: core.FormatGoogle, Text: core.Quoted(`"c2ln"`)},
		{Origin: core.FormatResponses, Text: core.Quoted(`"a:b\n\"c"`), ID: core.Quoted(`"rs:1\u00e9"`), Encrypted: true},
		{Origin: core.FormatAnthropic, Text: core.Quoted(`""`)},
	} {
		for name, wrapped := range map[string][]byte{"plain": wrapSeal(s), "base64": wrapSeal64(s)} {
			if got := openSeal(requote(wrapped), core.FormatOpenAI, false, nil); !reflect.DeepEqual(got, s) {
				t.Errorf("%s: %s gives %+v, want %+v", name, wrapped, got, s)
			}
		}
	}
	own := core.Seal{Origin: core.FormatGoogle, Text: core.Quoted(`"aHcxOg=="`), Encrypted: true}
	if got := openSeal(own.Text, core.FormatGoogle, true, nil); !reflect.DeepEqual(got, own) {
		t.Errorf("a seal of the client's own is %+v", got)
	}
}
