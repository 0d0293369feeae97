package adapters_test

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"headway/adapters"
	"headway/core"
)

// contentWords is a content in few words: a line for each message and each field.
func contentWords(c *core.Content) string {
	var b strings.Builder
	var parts func(parts []core.Part)
	parts = func(all []core.Part) {
		for _, p := range all {
			fmt.Fprint(&b, " ", [...]string{"text", "image", "document", "audio", "call", "result", "reasoning", "refusal"}[p.Kind])
			for _, s := range []string{string(p.ID), string(p.Name), string(p.Text), string(p.Arguments), p.Media.Type, string(p.Media.Base64), string(p.Media.URL), p.Media.Detail, p.Cache} {
				if s != "" {
					fmt.Fprintf(&b, " %s", s)
				}
			}
			if p.Failed {
				b.WriteString(" failed")
			}
			if p.Seal.Text != nil {
				fmt.Fprintf(&b, " seal(%s %s %s %v)", p.Seal.Origin, p.Seal.Text, p.Seal.ID, p.Seal.Encrypted)
			}
			if p.Parts != nil {
				b.WriteString(" [")
				parts(p.Parts)
				b.WriteString(" ]")
			}
			b.WriteString(";")
		}
	}
	for _, m := range c.Messages {
		fmt.Fprintf(&b, "%s %s:", m.At, [...]string{"system", "user", "assistant"}[m.Role])
		parts(m.Parts)
		b.WriteString("\n")
	}
	for _, tool := range c.Tools {
		fmt.Fprintf(&b, "%s: %s %s %s\n", tool.At, tool.Name, tool.Description, tool.Schema)
	}
	line := func(name, format string, args ...any) {
		if s := fmt.Sprintf(format, args...); s != "" {
			fmt.Fprintf(&b, "%s: %s\n", name, s)
		}
	}
	opt := func(v core.Opt[int64]) string {
		if v.OK {
			return fmt.Sprint(v.V)
		}
		return ""
	}
	if c.ToolChoice.Mode != core.ChoiceUnsaid {
		line("choice", "%s %s", [...]string{"", "auto", "none", "required", "named"}[c.ToolChoice.Mode], c.ToolChoice.Names)
	}
	line("max", "%s", opt(c.MaxOutput))
	if c.Choices > 1 {
		line("choices", "%d", c.Choices)
	}
	line("temperature", "%s", c.Temperature)
	line("top_p", "%s", c.TopP)
	line("top_k", "%s", c.TopK)
	line("seed", "%s", c.Seed)
	line("frequency", "%s", c.Frequency)
	line("presence", "%s", c.Presence)
	if c.Stop != nil {
		line("stop", "%s", c.Stop)
	}
	line("logprobs", "%s", opt(c.TopLogprobs))
	if c.Answer.JSON {
		line("json", " %s", c.Answer.Schema)
	}
	line("effort", "%s", c.Reasoning.Effort)
	line("budget", "%s", opt(c.Reasoning.Budget))
	if c.Reasoning.Visible.OK {
		line("visible", "%v", c.Reasoning.Visible.V)
	}
	var names []string
	for ask, name := range c.Fields {
		names = append(names, string(ask)+"="+name)
	}
	slices.Sort(names)
	line("fields", "%s", strings.Join(names, " "))
	for _, o := range c.Others {
		line("other", "%s %v", o.Name, o.Refused)
	}
	return b.String()
}

// googleContent decodes a request in Google's format.
func googleContent(body string) (*core.Content, error) {
	job, err := adapters.Google{}.Parse(core.RequestHead{Path: stream, Query: url.Values{"alt": {"sse"}}}, []byte(body))
	if err != nil {
		return nil, err
	}
	return adapters.Google{}.Decode(job)
}

func TestGoogleDecode(t *testing.T) {
	sealed := base64.URLEncoding.EncodeToString([]byte(`hw1:anthropic:s:0:c2ln??>>`))
	item := base64.StdEncoding.EncodeToString([]byte(`hw1:openai-responses:e:4:rs_1gAAAA`))
	for _, c := range []struct{ name, body, want string }{
		{"text and system", `{"contents":[{"role":"user","parts":[{"text":"a \u00e9 \"b\""},{"text":""}]},{"role":"model","parts":{"text":"yes"}},{"parts":[{"text":"more"}]}],"system_instruction":{"parts":[{"text":"be"},{"text":"brief"}]}}`, `
systemInstruction system: text "be"; text "brief";
contents[0] user: text "a \u00e9 \"b\""; text "";
contents[1] assistant: text "yes";
contents[2] user: text "more";
`},
		{"files", `{"contents":[{"parts":[{"inlineData":{"mimeType":"image/PNG","data":"QUJD"}},{"inline_data":{"mime_type":"application/pdf","data":"-_A=","displayName":"a.pdf"}},
			{"fileData":{"mimeType":"audio/mp3","fileUri":"https:\/\/x.example/a"}},{"fileData":{"fileUri":"https://x.example/b.JPG?s=1"}},{"fileData":{"fileUri":"gs://b/c","mimeType":"image/png"}},
			{"file_data":{"file_uri":"https://generativelanguage.googleapis.com/v1beta/files/x","mime_type":"image/png"}},{"inlineData":{"mimeType":"video/mp4","data":"QQ=="},"videoMetadata":{"fps":1}}]}]}`, `
contents[0] user: image image/png QUJD; document "a.pdf" application/pdf +/A=; audio audio/mp3 "https:\/\/x.example/a"; image image/jpeg "https://x.example/b.JPG?s=1";
other: contents[0].parts[4].fileData true
other: contents[0].parts[5].fileData true
other: contents[0].parts[6].inlineData true
other: videoMetadata false
`},
		{"calls with ids and without", `{"contents":[{"role":"model","parts":[{"functionCall":{"id":"c1","name":"f","args":{"a":{"b":[1]}}}},{"functionCall":{"name":"g"}},{"functionCall":{"name":"g","args":{}}}]},
			{"role":"function","parts":[{"functionResponse":{"id":"c1","name":"f","response":{"output":"up"}}},{"functionResponse":{"name":"g","response":{"error":{"code":5}}}},{"function_response":{"name":"g","response":{"temp":20, "unit":"C"},"parts":[{"inlineData":{"mimeType":"image/png","data":"QQ=="}}]}}]},
			{"parts":[{"functionResponse":{"name":"late","response":{"result":7}}},{"functionResponse":{"name":"late"}}]}]}`, `
contents[0] assistant: call "c1" "f" {"a":{"b":[1]}}; call "call_headway_0" "g" {}; call "call_headway_1" "g" {};
contents[1] user: result "c1" "f" [ text "up"; ]; result "call_headway_0" "g" failed [ text "{\"code\":5}"; ]; result "call_headway_1" "g" [ text "{\"temp\":20, \"unit\":\"C\"}"; image image/png QQ==; ];
contents[2] user: result "call_headway_2" "late" [ text "7"; ]; result "call_headway_3" "late" [ text ""; ];
`},
		{"an id that the call lost", `{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f"}}]},{"parts":[{"functionResponse":{"id":"x","name":"f","response":{}}}]}]}`, `
contents[0] assistant: call "call_headway_0" "f" {};
contents[1] user: result "call_headway_0" "f" [ text "{}"; ];
`},
		{"thoughts of a streamed answer", `{"contents":[{"role":"model","parts":[{"text":"h","thought":true},{"thought":true,"text":"m"},{"text":"","thought":true,"thoughtSignature":"` + sealed + `"},{"text":"o"},{"text":"k"},
			{"functionCall":{"name":"f","args":{}},"thoughtSignature":"` + item + `"}]}]}`, `
contents[0] assistant: reasoning "hm" seal(anthropic "c2ln??>>"  false); text "ok"; reasoning seal(openai-responses "gAAAA" "rs_1" true); call "call_headway_0" "f" {};
`},
		{"signatures of Google's and none's", `{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f"},"thoughtSignature":"skip_thought_signature_validator"}]},{"role":"model","parts":[{"text":"a","thoughtSignature":"c2ln"},{"thoughtSignature":"eHg="},{}]}]}`, `
contents[0] assistant: reasoning seal(google "skip_thought_signature_validator"  false); call "call_headway_0" "f" {}; reasoning seal(google "c2ln"  false); text "a"; reasoning seal(google "eHg="  false);
`},
		{"an answer that an SDK's chat keeps piece by piece", `{"contents":[{"parts":[{"text":"go"}]},{"role":"model","parts":[{"text":"h","thought":true}]},{"role":"model","parts":[{"text":"m","thought":true}]},{"role":"model","parts":[{"text":"a","thoughtSignature":"` + sealed + `"}]},{"role":"model","parts":[{"text":"b"}]},{"role":"model","parts":[{"functionCall":{"id":"c","name":"f"}}]},{"parts":[{"functionResponse":{"id":"c","name":"f"}}]}]}`, `
contents[0] user: text "go";
contents[1] assistant: reasoning "hm" seal(anthropic "c2ln??>>"  false); text "ab"; call "c" "f" {};
contents[6] user: result "c" "f" [ text ""; ];
`},
		{"what ran at Google", `{"contents":[{"role":"model","parts":[{"executableCode":{"code":"x"},"thoughtSignature":"eHg="},{"codeExecutionResult":{"output":"1"}},{"text":"one","partMetadata":{"a":1}}]}]}`, `
contents[0] assistant: reasoning seal(google "eHg="  false); text "one";
other: executableCode false
other: codeExecutionResult false
other: partMetadata false
`},
		{"tools", `{"contents":[{"parts":[{"text":"x"}]}],"tools":[{"functionDeclarations":[{"name":"f","description":"does","parameters":{"type":"OBJECT","properties":{"a":{"type":"STRING"}}},"response":{"type":"STRING"}},{"name":"g","parameters_json_schema":{"type":"object","$defs":{}}}],"googleSearch":{}},
			{"urlContext":{}},{"functionDeclarations":[{"name":"h"}]},{"computerUse":{"environment":"ENVIRONMENT_BROWSER"}}],"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f","g"]},"retrievalConfig":{"languageCode":"en"}}}`, `
contents[0] user: text "x";
tools[0].functionDeclarations[0]: "f" "does" {"properties":{"a":{"type":"string"}},"type":"object"}
tools[0].functionDeclarations[1]: "g"  {"type":"object","$defs":{}}
tools[2].functionDeclarations[0]: "h"  
choice: named ["f" "g"]
fields: tool_choice=toolConfig.functionCallingConfig tools=tools
other: tools[].functionDeclarations[].response false
other: tools[0].googleSearch false
other: tools[1].urlContext false
other: tools[3].computerUse true
other: toolConfig.retrievalConfig false
`},
		{"tools allowed but not asked for", `{"tool_config":{"function_calling_config":{"mode":"VALIDATED","allowed_function_names":["g"]}},"contents":[{"parts":[{"text":"x"}]}],"tools":[{"function_declarations":[{"name":"f"},{"name":"g"}]}]}`, `
contents[0] user: text "x";
tools[0].functionDeclarations[1]: "g"  
choice: auto []
fields: tool_choice=toolConfig.functionCallingConfig tools=tools
`},
		{"settings", `{"contents":[{"parts":[{"text":"x"}]}],"generationConfig":{"maxOutputTokens":"400","candidateCount":2,"temperature":0.20,"topP":0.9,"top_k":40,"seed":"7","presencePenalty":0.1,"frequencyPenalty":-1,"stopSequences":["a","\n"],
			"responseLogprobs":true,"logprobs":3,"thinkingConfig":{"thinkingBudget":2048,"includeThoughts":true},"responseModalities":["TEXT"],"mediaResolution":"MEDIA_RESOLUTION_LOW","enableEnhancedCivicAnswers":false},
			"safetySettings":[{"category":"x"}],"labels":{},"cachedContent":"cachedContents/1","serviceTier":"flex"}`, `
contents[0] user: text "x";
max: 400
choices: 2
temperature: 0.20
top_p: 0.9
top_k: 40
seed: 7
frequency: -1
presence: 0.1
stop: ["a" "\n"]
logprobs: 3
budget: 2048
visible: true
fields: choices=generationConfig.candidateCount frequency_penalty=generationConfig.frequencyPenalty logprobs=generationConfig.responseLogprobs max_output=generationConfig.maxOutputTokens presence_penalty=generationConfig.presencePenalty reasoning=generationConfig.thinkingConfig seed=generationConfig.seed stop=generationConfig.stopSequences temperature=generationConfig.temperature top_k=generationConfig.topK top_p=generationConfig.topP
other: generationConfig.mediaResolution false
other: safetySettings false
other: cachedContent true
other: serviceTier false
`},
		{"a schema of Google's", `{"contents":[{"parts":[{"text":"x"}]}],"generationConfig":{"responseMimeType":"application/json","responseSchema":{"type":"ARRAY","items":{"type":"INTEGER"}},"thinkingConfig":{"thinkingBudget":-1}}}`, `
contents[0] user: text "x";
json:  {"items":{"type":"integer"},"type":"array"}
fields: answer_form=generationConfig.responseSchema
`},
		{"a JSON Schema", `{"contents":[{"parts":[{"text":"x"}]}],"generationConfig":{"_responseJsonSchema":{"type":"object","$ref":"#"},"response_mime_type":"application/json","thinking_config":{"thinking_level":"LOW"}}}`, `
contents[0] user: text "x";
json:  {"type":"object","$ref":"#"}
effort: low
fields: answer_form=generationConfig.responseMimeType reasoning=generationConfig.thinkingConfig
`},
		{"no other's forms", `{"contents":[{"parts":[{"text":"x"}]}],"generationConfig":{"responseMimeType":"text/x.enum","responseModalities":["TEXT","IMAGE"],"thinkingConfig":{"thinkingBudget":0}}}`, `
contents[0] user: text "x";
effort: none
fields: reasoning=generationConfig.thinkingConfig
other: generationConfig.responseMimeType true
other: generationConfig.responseModalities true
`},
		{"defaults and nulls", `{"model":"models/m","contents":[{"role":null,"parts":[{"text":"x","thought":false,"thoughtSignature":null}]}],"systemInstruction":null,"tools":[],"toolConfig":{"functionCallingConfig":{"mode":"MODE_UNSPECIFIED"}},"cachedContent":"","safetySettings":[],"generationConfig":{"responseMimeType":"text/plain","temperature":null,"responseLogprobs":false,"thinkingConfig":{"includeThoughts":false}}}`, `
contents[0] user: text "x";
`},
	} {
		got, err := googleContent(c.body)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if s := contentWords(got); s != c.want[1:] {
			t.Errorf("%s:\n%s\nwant%s", c.name, s, c.want)
		}
	}
}

func TestGoogleDecodeMistakes(t *testing.T) {
	const rest = `"contents":[{"parts":[{"text":"hi"}]}]`
	for _, c := range []struct{ name, body, param string }{
		{"nothing to say", `{"contents":[{"parts":[{}]}]}`, "contents"},
		{"another role", `{"contents":[{"role":"system","parts":[{"text":"x"}]}]}`, "contents[0].role"},
		{"text a number", `{"contents":[{"parts":[{"text":"a"},{"text":1}]}]}`, "contents[0].parts[1].text"},
		{"thought a text", `{"contents":[{"parts":[{"text":"a","thought":"yes"}]}]}`, "contents[0].parts[0].thought"},
		{"no type", `{"contents":[{"parts":[{"inlineData":{"data":"QQ=="}}]}]}`, "contents[0].parts[0].inlineData.mimeType"},
		{"no file", `{"contents":[{"parts":[{"inlineData":{"mimeType":"image/png"}}]}]}`, "contents[0].parts[0].inlineData"},
		{"a call of nothing", `{"contents":[{"parts":[{"functionCall":{"args":{}}}]}]}`, "contents[0].parts[0].functionCall.name"},
		{"arguments a text", `{"contents":[{"parts":[{"functionCall":{"name":"f","args":"{}"}}]}]}`, "contents[0].parts[0].functionCall.args"},
		{"a response of text", `{"contents":[{"parts":[{"functionResponse":{"name":"f","response":"up"}}]}]}`, "contents[0].parts[0].functionResponse.response"},
		{"a tool without a name", `{` + rest + `,"tools":[{"functionDeclarations":[{}]}]}`, "tools[0].functionDeclarations[0].name"},
		{"tools no list", `{` + rest + `,"tools":[{"functionDeclarations":{}}]}`, "tools[0].functionDeclarations"},
		{"a mode", `{` + rest + `,"toolConfig":{"functionCallingConfig":{"mode":"SOME"}}}`, "toolConfig.functionCallingConfig.mode"},
		{"stop a text", `{` + rest + `,"generationConfig":{"stopSequences":"x"}}`, "generationConfig.stopSequences"},
		{"stop of nothing", `{` + rest + `,"generationConfig":{"stopSequences":[null]}}`, "generationConfig.stopSequences"},
		{"a seed of words", `{` + rest + `,"generationConfig":{"seed":"lucky"}}`, "generationConfig.seed"},
		{"thinking a lot", `{` + rest + `,"generationConfig":{"thinkingConfig":{"thinkingLevel":"ULTRA"}}}`, "generationConfig.thinkingConfig.thinkingLevel"},
	} {
		_, err := googleContent(c.body)
		mistake(t, c.name, err, c.param)
	}
}

// What an SDK keeps of a long streamed answer is joined in time that grows with
// its size alone, and nothing of the request is written over.
func TestGoogleDecodeJoinsManyPieces(t *testing.T) {
	body := `{"contents":[{"role":"model","parts":[` + strings.Repeat(`{"text":"word "},`, 20_000) + `{"text":"end"}]},{"parts":[{"text":"and"}]},{"role":"model","parts":[{"text":"a"},{"text":"b"},{"text":"c"}]}]}`
	got, err := googleContent(body)
	if err != nil {
		t.Fatal(err)
	}
	if want := `"` + strings.Repeat("word ", 20_000) + `end"`; len(got.Messages[0].Parts) != 1 || string(got.Messages[0].Parts[0].Text) != want || string(got.Messages[2].Parts[0].Text) != `"abc"` {
		t.Errorf("%d parts, %.40s", len(got.Messages[0].Parts), got.Messages[0].Parts[0].Text)
	}
}

func TestGoogleSchema(t *testing.T) {
	for _, c := range []struct{ name, schema, want string }{
		{"kinds", `{"type":"OBJECT","title":"T","properties":{"s":{"type":"STRING","format":"enum","enum":["a","b"]},"n":{"type":"NUMBER","minimum":1.5},"i":{"type":"INTEGER","format":"int32"},"b":{"type":"BOOLEAN","default":false},"l":{"type":"ARRAY","items":{"type":"STRING"},"minItems":"1","maxItems":3}},"required":["s"],"propertyOrdering":["s","n"]}`,
			`{"type":"object","title":"T","properties":{"s":{"type":"string","enum":["a","b"]},"n":{"type":"number","minimum":1.5},"i":{"type":"integer","format":"int32"},"b":{"type":"boolean","default":false},"l":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":3}},"required":["s"]}`},
		{"nullable", `{"nullable":true,"type":"STRING","enum":["a"],"example":"a"}`, `{"type":["string","null"],"enum":["a",null],"examples":["a"]}`},
		{"nullable behind anyOf", `{"any_of":[{"type":"STRING"},{"type":"OBJECT","properties":{"x":{"type":"INTEGER"}}}],"nullable":true,"description":"d"}`,
			`{"anyOf":[{"type":"string"},{"type":"object","properties":{"x":{"type":"integer"}}},{"type":"null"}],"description":"d"}`},
		{"limits that are none", `{"type":"OBJECT","minItems":"1}],[{","maxLength":"","minimum":"-1e3"}`, `{"type":"object","minItems":"1}],[{","maxLength":"","minimum":-1e3}`},
		{"nullable of nothing in white space", `{"nullable":true,"enum":[ ]}`, `{"enum":[ ]}`},
		{"nullable of nothing", `{"anyOf":[],"nullable":true,"enum":[]}`, `{"anyOf":[{"type":"null"}],"enum":[]}`},
		{"unsaid", `{"type":"TYPE_UNSPECIFIED","nullable":false}`, `{}`},
		{"properties that are called as words are", `{"type":"OBJECT","properties":{"type":{"type":"STRING"},"max_items":{"type":"INTEGER"},"q\"":{}}}`, `{"type":"object","properties":{"type":{"type":"string"},"max_items":{"type":"integer"},"q\"":{}}}`},
		{"JSON Schema already", `{"type":"object","additionalProperties":false,"$defs":{"a":{"type":"string"}},"properties":{"a":{"$ref":"#/$defs/a"}}}`, `{"type":"object","additionalProperties":false,"$defs":{"a":{"type":"string"}},"properties":{"a":{"$ref":"#/$defs/a"}}}`},
		{"no schema", `{"type":"OBJECT","properties":["x"]}`, `{"type":"object","properties":["x"]}`},
		{"lists that are none", `{"type":"OBJECT","anyOf":{}}`, `{"type":"OBJECT","anyOf":{}}`},
	} {
		got, err := googleContent(`{"contents":[{"parts":[{"text":"x"}]}],"tools":[{"functionDeclarations":[{"name":"f","parameters":` + c.schema + `}]}]}`)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		same(t, c.name, got.Tools[0].Schema, c.want)
	}
}
