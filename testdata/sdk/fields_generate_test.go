package sdktest

import (
	"reflect"
	"slices"
	"strings"

	"google.golang.org/genai"
)

// generateFields are the fields of Google's generateContent, by their names on
// the wire: most of the SDK's configuration stands in generationConfig there.
func generateFields() *spoken {
	// besides are the configuration's members that do not.
	besides := []string{"systemInstruction", "safetySettings", "tools", "toolConfig", "labels", "cachedContent", "modelArmorConfig", "serviceTier", "store", "continuationToken", "generationOutputConfig"}
	// local are those that the SDK keeps to itself.
	local := []string{"httpOptions", "automaticContinuation"}
	s := &spoken{
		api: generate, title: "Google generateContent", path: "/v1beta/models/%s:generateContent",
		base: map[string]string{"contents": `[$HI]`},
		documented: func(whole func(string) bool) (fields []string) {
			for _, f := range fieldsOf(reflect.TypeFor[genai.Content](), func(p string) bool { return whole("contents[]." + p) }) {
				fields = append(fields, "contents[]."+f)
			}
			onWire := func(p string) string {
				top, _, _ := strings.Cut(p, ".")
				top, _, _ = strings.Cut(top, "[")
				switch {
				case slices.Contains(local, top):
					return ""
				case slices.Contains(besides, top):
					return p
				}
				return "generationConfig." + p
			}
			for _, f := range fieldsOf(reflect.TypeFor[genai.GenerateContentConfig](), func(p string) bool { return onWire(p) == "" || whole(onWire(p)) }) {
				if onWire(f) != "" {
					fields = append(fields, onWire(f))
				}
			}
			return fields
		},
		shared: []string{
			"$HI", `{"role":"user","parts":[{"text":"Hello"}]}`,
			"$PNG", `{"inlineData":{"mimeType":"image/png","data":"` + png + `"}`,
			"$TOOL", `{"functionDeclarations":[{"name":"look_up","description":"Looks up","parameters":{"type":"OBJECT","properties":{"q":{"type":"STRING"}}}}]}`,
			"$CALLED", `{"role":"model","parts":[{"functionCall":{"id":"call_1","name":"look_up","args":{}}}]}`,
			"$RESULT", `{"role":"user","parts":[{"functionResponse":{"id":"call_1","name":"look_up","response":{"output":"Found"}}}]}`,
		},
		samples: []sample{
			{"contents[].role", `"contents":[$HI,{"role":"«model|user»","parts":[{"text":"Yes"}]},$HI]`, ""},
			{"contents[].parts[].text", `"contents":[{"role":"user","parts":[{"text":"«zebra|ape»"}]}]`, ""},
			{"contents[].parts[].inlineData.data", `"contents":[{"role":"user","parts":[{"text":"Hello"}«,$PNG}»]}]`, png},
			{"contents[].parts[].inlineData.mimeType", `"contents":[{"role":"user","parts":[{"inlineData":{"mimeType":"image/«webp|png»","data":"` + png + `"}}]}]`, "webp"},
			{"contents[].parts[].inlineData.mimeType pdf", `"contents":[{"role":"user","parts":[{"text":"Hello"}«,{"inlineData":{"mimeType":"application/pdf","data":"JVBERi0xLjQK"}}»]}]`, "JVBERi0xLjQK"},
			{"contents[].parts[].inlineData.mimeType audio", `"contents":[{"role":"user","parts":[{"text":"Hello"}«,{"inlineData":{"mimeType":"audio/wav","data":"UklGRiQAAABXQVZF"}}»]}]`, "UklGRiQAAABXQVZF"},
			{"contents[].parts[].inlineData.mimeType video", `"contents":[{"role":"user","parts":[{"text":"Hello"}«,{"inlineData":{"mimeType":"video/mp4","data":"AAAAIGZ0eXA="}}»]}]`, "AAAAIGZ0eXA="},
			{"contents[].parts[].inlineData.displayName", `"contents":[{"role":"user","parts":[{"inlineData":{"mimeType":"application/pdf","data":"JVBERi0xLjQK"«,"displayName":"zebra"»}}]}]`, ""},
			{"contents[].parts[].fileData.fileUri", `"contents":[{"role":"user","parts":[{"text":"Hello"}«,{"fileData":{"mimeType":"image/png","fileUri":"https://example.com/zebra.png"}}»]}]`, ""},
			{"contents[].parts[].fileData.mimeType", `"contents":[{"role":"user","parts":[{"text":"Hello"}«,{"fileData":{"mimeType":"application/pdf","fileUri":"https://example.com/zebra"}}|,{"fileData":{"mimeType":"image/png","fileUri":"https://example.com/zebra"}}»]}]`, "*"},
			{"contents[].parts[].fileData.displayName", `"contents":[{"role":"user","parts":[{"fileData":{"mimeType":"image/png","fileUri":"https://example.com/a.png"«,"displayName":"zebra"»}}]}]`, ""},
			{"contents[].parts[].mediaResolution", `"contents":[{"role":"user","parts":[$PNG«,"mediaResolution":{"level":"MEDIA_RESOLUTION_LOW"}»}]}]`, ""},
			{"contents[].parts[].mediaProcessing", `"contents":[{"role":"user","parts":[$PNG«,"mediaProcessing":"zebra"»}]}]`, ""},
			{"contents[].parts[].videoMetadata", `"contents":[{"role":"user","parts":[{"text":"Hello"},{"inlineData":{"mimeType":"video/mp4","data":"AAAAIGZ0eXA="}«,"videoMetadata":{"fps":2}»}]}]`, ""},
			{"contents[].parts[].functionCall.id", `"contents":[$HI,{"role":"model","parts":[{"functionCall":{"id":"«zebra|ape»","name":"look_up","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"id":"«zebra|ape»","name":"look_up","response":{"output":"Found"}}}]}]`, ""},
			{"contents[].parts[].functionCall.name", `"contents":[$HI,{"role":"model","parts":[{"functionCall":{"id":"call_1","name":"«zebra|ape»","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"id":"call_1","name":"«zebra|ape»","response":{"output":"Found"}}}]}]`, ""},
			{"contents[].parts[].functionCall.args", `"contents":[$HI,{"role":"model","parts":[{"functionCall":{"id":"call_1","name":"look_up","args":{«"q":"zebra"»}}}]},$RESULT]`, ""},
			{"contents[].parts[].functionCall.partialArgs", `"contents":[$HI,{"role":"model","parts":[{"functionCall":{"id":"call_1","name":"look_up","args":{}«,"partialArgs":[{"jsonPath":"$.q","stringValue":"zebra"}]»}}]},$RESULT]`, ""},
			{"contents[].parts[].functionCall.willContinue", `"contents":[$HI,{"role":"model","parts":[{"functionCall":{"id":"call_1","name":"look_up","args":{}«,"willContinue":true»}}]},$RESULT]`, ""},
			{"contents[].parts[].functionResponse.id", `"contents":[$HI,{"role":"model","parts":[{"functionCall":{"id":"call_1","name":"look_up","args":{"q":"a"}}},{"functionCall":{"id":"call_2","name":"look_up","args":{"q":"b"}}}]},{"role":"user","parts":[{"functionResponse":{"id":"call_«1|2»","name":"look_up","response":{"output":"Found"}}},{"functionResponse":{"id":"call_«2|1»","name":"look_up","response":{"output":"Found too"}}}]}]`, ""},
			{"contents[].parts[].functionResponse.name", `"contents":[$HI,{"role":"model","parts":[{"functionCall":{"name":"look_up","args":{}}},{"functionCall":{"name":"find","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"name":"«look_up|find»","response":{"output":"Found"}}},{"functionResponse":{"name":"«find|look_up»","response":{"output":"Found too"}}}]}]`, ""},
			{"contents[].parts[].functionResponse.response", `"contents":[$HI,$CALLED,{"role":"user","parts":[{"functionResponse":{"id":"call_1","name":"look_up","response":{"output":"«zebra|ape»"}}}]}]`, ""},
			{"contents[].parts[].functionResponse.parts", `"contents":[$HI,$CALLED,{"role":"user","parts":[{"functionResponse":{"id":"call_1","name":"look_up","response":{"output":"Found"}«,"parts":[$PNG}]»}}]}]`, png},
			{"contents[].parts[].functionResponse.willContinue", `"contents":[$HI,$CALLED,{"role":"user","parts":[{"functionResponse":{"id":"call_1","name":"look_up","response":{"output":"Found"}«,"willContinue":true»}}]}]`, ""},
			{"contents[].parts[].functionResponse.scheduling", `"contents":[$HI,$CALLED,{"role":"user","parts":[{"functionResponse":{"id":"call_1","name":"look_up","response":{"output":"Found"}«,"scheduling":"SILENT"»}}]}]`, ""},
			{"contents[].parts[].thought", `"contents":[$HI,{"role":"model","parts":[«{"text":"zebra","thought":true},»{"text":"Yes"}]},$HI]`, ""},
			{"contents[].parts[].thoughtSignature", `"contents":[$HI,{"role":"model","parts":[{"text":"Yes"«,"thoughtSignature":"c2lnbmVk"»}]},$HI]`, ""},
			{"contents[].parts[].executableCode", `"contents":[$HI,{"role":"model","parts":[«{"executableCode":{"language":"PYTHON","code":"zebra"}},»{"text":"Yes"}]},$HI]`, ""},
			{"contents[].parts[].codeExecutionResult", `"contents":[$HI,{"role":"model","parts":[«{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"zebra"}},»{"text":"Yes"}]},$HI]`, ""},
			{"contents[].parts[].toolCall", `"contents":[$HI,{"role":"model","parts":[«{"toolCall":{"id":"t1","toolType":"GOOGLE_SEARCH_WEB","args":{"q":"zebra"}}},»{"text":"Yes"}]},$HI]`, ""},
			{"contents[].parts[].toolResponse", `"contents":[$HI,{"role":"model","parts":[«{"toolResponse":{"id":"t1","toolType":"GOOGLE_SEARCH_WEB","response":{"r":"zebra"}}},»{"text":"Yes"}]},$HI]`, ""},
			{"contents[].parts[].partMetadata", `"contents":[{"role":"user","parts":[{"text":"Hello"«,"partMetadata":{"k":"zebra"}»}]}]`, ""},
			{"contents[].parts[].audioTranscription", `"contents":[{"role":"user","parts":[{"text":"Hello"«,"audioTranscription":{"text":"zebra"}»}]}]`, ""},
			{"contents[].parts[].speechMetadata", `"contents":[{"role":"user","parts":[{"text":"Hello"«,"speechMetadata":{"speaker":"zebra"}»}]}]`, ""},
			{"systemInstruction", `«"systemInstruction":{"parts":[{"text":"zebra"}]}»`, ""},
			{"generationConfig.temperature", `«"generationConfig":{"temperature":0.37}»`, ""},
			{"generationConfig.topP", `«"generationConfig":{"topP":0.37}»`, ""},
			{"generationConfig.topK", `«"generationConfig":{"topK":4321}»`, ""},
			{"generationConfig.candidateCount", `«"generationConfig":{"candidateCount":2}»`, ""},
			{"generationConfig.maxOutputTokens", `«"generationConfig":{"maxOutputTokens":4321}»`, ""},
			{"generationConfig.stopSequences[]", `«"generationConfig":{"stopSequences":["zebra","ape"]}»`, ""},
			{"generationConfig.responseLogprobs", `«"generationConfig":{"responseLogprobs":true}»`, ""},
			{"generationConfig.logprobs", `"generationConfig":{"responseLogprobs":true«,"logprobs":3»}`, ""},
			{"generationConfig.presencePenalty", `«"generationConfig":{"presencePenalty":0.37}»`, ""},
			{"generationConfig.frequencyPenalty", `«"generationConfig":{"frequencyPenalty":0.37}»`, ""},
			{"generationConfig.seed", `«"generationConfig":{"seed":4321}»`, ""},
			{"generationConfig.responseMimeType", `«"generationConfig":{"responseMimeType":"application/json"}»`, ""},
			{"generationConfig.responseSchema", `«"generationConfig":{"responseMimeType":"application/json","responseSchema":{"type":"OBJECT","properties":{"zebra":{"type":"STRING","nullable":true}}}}»`, ""},
			{"generationConfig.responseJsonSchema", `«"generationConfig":{"responseMimeType":"application/json","responseJsonSchema":{"type":"object","properties":{"zebra":{"type":"string"}}}}»`, ""},
			{"generationConfig.thinkingConfig.includeThoughts", `«"generationConfig":{"thinkingConfig":{"includeThoughts":true}}»`, ""},
			{"generationConfig.thinkingConfig.thinkingBudget", `«"generationConfig":{"thinkingConfig":{"thinkingBudget":4321}}»`, "*"},
			{"generationConfig.thinkingConfig.thinkingLevel", `«"generationConfig":{"thinkingConfig":{"thinkingLevel":"LOW"}}»`, ""},
			{"generationConfig.responseModalities[]", `«"generationConfig":{"responseModalities":["TEXT","IMAGE"]}»`, ""},
			{"generationConfig.responseModalities[] text", `«"generationConfig":{"responseModalities":["TEXT"]}»`, ""},
			{"generationConfig.mediaResolution", `«"generationConfig":{"mediaResolution":"MEDIA_RESOLUTION_LOW"}»`, ""},
			{"generationConfig.speechConfig", `«"generationConfig":{"speechConfig":{"languageCode":"de-DE"}}»`, ""},
			{"generationConfig.audioTimestamp", `«"generationConfig":{"audioTimestamp":true}»`, ""},
			{"generationConfig.audioTranscriptionConfig", `«"generationConfig":{"audioTranscriptionConfig":{"languageCodes":["de-DE"]}}»`, ""},
			{"generationConfig.imageConfig", `«"generationConfig":{"imageConfig":{"aspectRatio":"1:1"}}»`, ""},
			{"generationConfig.routingConfig", `«"generationConfig":{"routingConfig":{"manualMode":{"modelName":"zebra"}}}»`, ""},
			{"generationConfig.modelSelectionConfig", `«"generationConfig":{"modelSelectionConfig":{"featureSelectionPreference":"BALANCED"}}»`, ""},
			{"generationConfig.enableEnhancedCivicAnswers", `«"generationConfig":{"enableEnhancedCivicAnswers":true}»`, ""},
			{"safetySettings[]", `«"safetySettings":[{"category":"HARM_CATEGORY_HARASSMENT","threshold":"BLOCK_NONE"}]»`, ""},
			{"tools[].functionDeclarations[].name", `"tools":[{"functionDeclarations":[{"name":"«zebra|ape»","parameters":{"type":"OBJECT","properties":{"q":{"type":"STRING"}}}}]}]`, ""},
			{"tools[].functionDeclarations[].description", `"tools":[{"functionDeclarations":[{"name":"look_up"«,"description":"zebra"»}]}]`, ""},
			{"tools[].functionDeclarations[].parameters", `"tools":[{"functionDeclarations":[{"name":"look_up"«,"parameters":{"type":"OBJECT","properties":{"zebra":{"type":"STRING","nullable":true}}}»}]}]`, ""},
			{"tools[].functionDeclarations[].parametersJsonSchema", `"tools":[{"functionDeclarations":[{"name":"look_up"«,"parametersJsonSchema":{"type":"object","properties":{"zebra":{"type":"string"}}}»}]}]`, ""},
			{"tools[].functionDeclarations[].response", `"tools":[{"functionDeclarations":[{"name":"look_up"«,"response":{"type":"OBJECT","title":"zebra"}»}]}]`, ""},
			{"tools[].functionDeclarations[].responseJsonSchema", `"tools":[{"functionDeclarations":[{"name":"look_up"«,"responseJsonSchema":{"type":"object","title":"zebra"}»}]}]`, ""},
			{"tools[].functionDeclarations[].behavior", `"tools":[{"functionDeclarations":[{"name":"look_up"«,"behavior":"NON_BLOCKING"»}]}]`, ""},
			{"tools[].googleSearch", `«"tools":[{"googleSearch":{}}]»`, ""},
			{"tools[].googleSearchRetrieval", `«"tools":[{"googleSearchRetrieval":{}}]»`, ""},
			{"tools[].googleMaps", `«"tools":[{"googleMaps":{}}]»`, ""},
			{"tools[].enterpriseWebSearch", `«"tools":[{"enterpriseWebSearch":{}}]»`, ""},
			{"tools[].parallelAiSearch", `«"tools":[{"parallelAiSearch":{}}]»`, ""},
			{"tools[].exaAiSearch", `«"tools":[{"exaAiSearch":{}}]»`, ""},
			{"tools[].urlContext", `«"tools":[{"urlContext":{}}]»`, ""},
			{"tools[].codeExecution", `«"tools":[{"codeExecution":{}}]»`, ""},
			{"tools[].retrieval", `«"tools":[{"retrieval":{"vertexAiSearch":{"datastore":"zebra"}}}]»`, ""},
			{"tools[].fileSearch", `«"tools":[{"fileSearch":{"fileSearchStoreNames":["zebra"]}}]»`, ""},
			{"tools[].computerUse", `«"tools":[{"computerUse":{"environment":"ENVIRONMENT_BROWSER"}}]»`, ""},
			{"tools[].mcpServers[]", `«"tools":[{"mcpServers":[{"name":"zebra","streamableHttpTransport":{"url":"https://example.com/zebra"}}]}]»`, ""},
			{"toolConfig.functionCallingConfig.mode", `"tools":[$TOOL]«,"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}»`, ""},
			{"toolConfig.functionCallingConfig.mode NONE", `"tools":[$TOOL]«,"toolConfig":{"functionCallingConfig":{"mode":"NONE"}}»`, ""},
			{"toolConfig.functionCallingConfig.allowedFunctionNames[]", `"tools":[$TOOL,{"functionDeclarations":[{"name":"ape"}]}],"toolConfig":{"functionCallingConfig":{"mode":"ANY"«,"allowedFunctionNames":["look_up"]»}}`, ""},
			{"toolConfig.functionCallingConfig.streamFunctionCallArguments", `"tools":[$TOOL],"toolConfig":{"functionCallingConfig":{"mode":"AUTO"«,"streamFunctionCallArguments":true»}}`, ""},
			{"toolConfig.retrievalConfig", `"tools":[$TOOL]«,"toolConfig":{"retrievalConfig":{"languageCode":"de-DE"}}»`, ""},
			{"toolConfig.includeServerSideToolInvocations", `"tools":[$TOOL]«,"toolConfig":{"includeServerSideToolInvocations":true}»`, ""},
			{"labels", `«"labels":{"k":"zebra"}»`, ""},
			{"cachedContent", `«"cachedContent":"cachedContents/zebra"»`, ""},
			{"modelArmorConfig", `«"modelArmorConfig":{"promptTemplateName":"zebra"}»`, ""},
			{"serviceTier", `«"serviceTier":"flex"»`, ""},
			{"store", `«"store":true»`, ""},
			{"continuationToken", `«"continuationToken":"emVicmE="»`, ""},
			{"generationOutputConfig", `«"generationOutputConfig":{"outputUriPrefix":"gs://zebra/"}»`, ""},
			{"anUnknownField", `«"anUnknownField":"zebra"»`, ""},
			{"generationConfig.anUnknownField", `«"generationConfig":{"anUnknownField":"zebra"}»`, ""},
		},
		needless: []needless{
			{"contents[].parts[].thought", "", "old reasoning goes to who made it alone"},
			{"contents[].parts[].thoughtSignature", "", "old reasoning goes to who made it alone"},
			{"generationConfig.responseModalities[] text", "", "the default, spelt out"},
			{"contents[].parts[].inlineData.mimeType", "ollama", "it sees from the data what an image is"},
			{"generationConfig.thinkingConfig.includeThoughts", "", "reasoning is shown wherever the provider shows it"},
		},
	}
	return s
}
