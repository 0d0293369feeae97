package sdktest

import (
	"reflect"
	"slices"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
)

// messagesFields are the fields of Anthropic's Messages: with the top-level ones
// of its beta methods. Those at the end are not in the SDK's types.
func messagesFields() *spoken {
	s := &spoken{
		api: messages, title: "Anthropic Messages", path: "/v1/messages",
		base: map[string]string{"model": `"$MODEL"`, "messages": `[$HI]`, "max_tokens": `1000`},
		documented: func(whole func(string) bool) []string {
			fields := fieldsOf(reflect.TypeFor[anthropic.MessageNewParams](), whole)
			tops := fieldsOf(reflect.TypeFor[anthropic.BetaMessageNewParams](), func(string) bool { return true })
			for _, top := range tops {
				if !slices.ContainsFunc(fields, func(f string) bool {
					return f == top || strings.HasPrefix(f, top+".") || strings.HasPrefix(f, top+"[") || strings.HasPrefix(f, top+":")
				}) {
					fields = append(fields, top)
				}
			}
			return fields
		},
		shared: []string{
			"$HI", `{"role":"user","content":"Hello"}`,
			"$PNG", png,
			"$IMG", `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + png + `"}}`,
			"$TOOL", `{"name":"look_up","description":"Looks up","input_schema":{"type":"object","properties":{"q":{"type":"string"}}}}`,
			"$CALL", `{"type":"tool_use","id":"call_1","name":"look_up","input":{}}`,
			"$RESULT", `{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"Found"}]}`,
			"$CACHE", `,"cache_control":{"type":"ephemeral","ttl":"1h"}`,
			"$PDF", `{"type":"base64","media_type":"application/pdf","data":"JVBERi0xLjQK"}`,
			"$CITE", `,"citations":[{"type":"char_location","cited_text":"zebra","document_index":0,"document_title":"t","start_char_index":0,"end_char_index":1}]`,
		},
		samples: []sample{
			{"model", ``, ""},
			{"max_tokens", `"max_tokens":«4321|1234»`, ""},
			{"system[].text", `«"system":[{"type":"text","text":"zebra"}]»`, ""},
			{"system[].cache_control", `"system":[{"type":"text","text":"Be brief"«$CACHE»}]`, ""},
			{"system[].citations", `"system":[{"type":"text","text":"Be brief"«$CITE»}]`, ""},
			{"messages[].role", `"messages":[$HI,{"role":"«assistant|user»","content":"zebra"},$HI]`, "*"},
			{"messages[].content[text].text", `"messages":[{"role":"user","content":[{"type":"text","text":"«zebra|ape»"}]}]`, ""},
			{"messages[].content[text].cache_control", `"messages":[{"role":"user","content":[{"type":"text","text":"Hello"«$CACHE»}]}]`, ""},
			{"messages[].content[text].citations", `"messages":[$HI,{"role":"assistant","content":[{"type":"text","text":"Yes"«$CITE»}]},$HI]`, ""},
			{"messages[].content[thinking].thinking", `"messages":[$HI,{"role":"assistant","content":[{"type":"thinking","thinking":"«zebra|ape»","signature":"c2lnbmVk"},{"type":"text","text":"Yes"}]},$HI]`, ""},
			{"messages[].content[thinking].signature", `"messages":[$HI,{"role":"assistant","content":[{"type":"thinking","thinking":"Hm","signature":"«zebra|ape»"},{"type":"text","text":"Yes"}]},$HI]`, ""},
			{"messages[].content[redacted_thinking]", `"messages":[$HI,{"role":"assistant","content":[«{"type":"redacted_thinking","data":"zebra"},»{"type":"text","text":"Yes"}]},$HI]`, ""},
			{"messages[].content[tool_use].id", `"messages":[$HI,{"role":"assistant","content":[{"type":"tool_use","id":"«zebra|ape»","name":"look_up","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"«zebra|ape»","content":"Found"}]}]`, ""},
			{"messages[].content[tool_use].name", `"messages":[$HI,{"role":"assistant","content":[{"type":"tool_use","id":"call_1","name":"«zebra|ape»","input":{}}]},$RESULT]`, ""},
			{"messages[].content[tool_use].input", `"messages":[$HI,{"role":"assistant","content":[{"type":"tool_use","id":"call_1","name":"look_up","input":{«"q":"zebra"»}}]},$RESULT]`, ""},
			{"messages[].content[tool_use].toolset_name", `"messages":[$HI,{"role":"assistant","content":[{"type":"tool_use","id":"call_1","name":"look_up","input":{}«,"toolset_name":"zebra"»}]},$RESULT]`, ""},
			{"messages[].content[tool_use].cache_control", `"messages":[$HI,{"role":"assistant","content":[{"type":"tool_use","id":"call_1","name":"look_up","input":{}«$CACHE»}]},$RESULT]`, ""},
			{"messages[].content[tool_use].caller", `"messages":[$HI,{"role":"assistant","content":[{"type":"tool_use","id":"call_1","name":"look_up","input":{}«,"caller":{"type":"direct"}»}]},$RESULT]`, ""},
			{"messages[].content[tool_result].tool_use_id", `"messages":[$HI,{"role":"assistant","content":[$CALL,{"type":"tool_use","id":"call_2","name":"find","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_«1|2»","content":"Found"},{"type":"tool_result","tool_use_id":"call_«2|1»","content":"Found too"}]}]`, ""},
			{"messages[].content[tool_result].is_error", `"messages":[$HI,{"role":"assistant","content":[$CALL]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"None"«,"is_error":true»}]}]`, ""},
			{"messages[].content[tool_result].toolset_name", `"messages":[$HI,{"role":"assistant","content":[$CALL]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"Found"«,"toolset_name":"zebra"»}]}]`, ""},
			{"messages[].content[tool_result].cache_control", `"messages":[$HI,{"role":"assistant","content":[$CALL]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"Found"«$CACHE»}]}]`, ""},
			{"messages[].content[server_tool_use]", `"messages":[$HI,{"role":"assistant","content":[«{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"zebra"}},»{"type":"text","text":"Yes"}]},$HI]`, ""},
			{"messages[].content[web_search_tool_result]", `"messages":[$HI,{"role":"assistant","content":[{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"q"}},«{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result","title":"zebra","url":"https://example.com/","encrypted_content":"zebra"}]},»{"type":"text","text":"Yes"}]},$HI]`, ""},
			{"messages[].content[container_upload]", `"messages":[{"role":"user","content":[«{"type":"container_upload","file_id":"file_zebra"},»{"type":"text","text":"Hello"}]}]`, ""},
			{"temperature", `«"temperature":0.37»`, ""},
			{"top_p", `«"top_p":0.37»`, ""},
			{"top_k", `«"top_k":4321»`, ""},
			{"stop_sequences[]", `«"stop_sequences":["zebra","ape"]»`, ""},
			{"output_config.effort", `«"output_config":{"effort":"low"}»`, ""},
			{"output_config.format", `«"output_config":{"format":{"type":"json_schema","schema":{"type":"object","properties":{"zebra":{"type":"string"}}}}}»`, ""},
			{"output_format", `«"output_format":{"type":"json_schema","schema":{"type":"object","properties":{"zebra":{"type":"string"}}}}»`, ""},
			{"thinking[enabled].budget_tokens", `"max_tokens":9000«,"thinking":{"type":"enabled","budget_tokens":4321}»`, "*"},
			{"thinking[enabled].display", `"max_tokens":9000,"thinking":{"type":"enabled","budget_tokens":4096«,"display":"omitted"»}`, ""},
			{"thinking[adaptive].display", `"thinking":{"type":"adaptive"«,"display":"summarized"»}`, ""},
			{"thinking[disabled]", `«"thinking":{"type":"disabled"}»`, ""},
			{"thinking[between_tools]", `«"thinking":{"type":"between_tools"}»`, ""},
			{"tools[tool].name", `"tools":[{"name":"«zebra|ape»","input_schema":{"type":"object"}}]`, ""},
			{"tools[tool].type", `"tools":[{«"type":"custom",»"name":"look_up","input_schema":{"type":"object"}}]`, ""},
			{"tools[tool].description", `"tools":[{"name":"look_up"«,"description":"zebra"»,"input_schema":{"type":"object"}}]`, ""},
			{"tools[tool].input_schema", `"tools":[{"name":"look_up","input_schema":{"type":"object"«,"properties":{"zebra":{"type":"string"}},"required":["zebra"]»}}]`, ""},
			{"tools[tool].strict", `"tools":[{"name":"look_up","input_schema":{"type":"object"}«,"strict":true»}]`, ""},
			{"tools[tool].cache_control", `"tools":[{"name":"look_up","input_schema":{"type":"object"}«$CACHE»}]`, ""},
			{"tools[tool].defer_loading", `"tools":[{"name":"look_up","input_schema":{"type":"object"}«,"defer_loading":true»}]`, ""},
			{"tools[tool].eager_input_streaming", `"tools":[{"name":"look_up","input_schema":{"type":"object"}«,"eager_input_streaming":true»}]`, ""},
			{"tools[tool].allowed_callers", `"tools":[{"name":"look_up","input_schema":{"type":"object"}«,"allowed_callers":["code_execution_20260120"]»}]`, ""},
			{"tools[tool].input_examples", `"tools":[{"name":"look_up","input_schema":{"type":"object"}«,"input_examples":[{"q":"zebra"}]»}]`, ""},
			{"tool_choice[auto].disable_parallel_tool_use", `"tools":[$TOOL],"tool_choice":{"type":"auto"«,"disable_parallel_tool_use":true»}`, ""},
			{"tool_choice[any]", `"tools":[$TOOL]«,"tool_choice":{"type":"any"}»`, ""},
			{"tool_choice[tool].name", `"tools":[$TOOL]«,"tool_choice":{"type":"tool","name":"look_up"}»`, ""},
			{"tool_choice[tool].disable_parallel_tool_use", `"tools":[$TOOL],"tool_choice":{"type":"tool","name":"look_up"«,"disable_parallel_tool_use":true»}`, ""},
			{"tool_choice[none]", `"tools":[$TOOL]«,"tool_choice":{"type":"none"}»`, ""},
			{"metadata.user_id", `«"metadata":{"user_id":"zebra"}»`, ""},
			{"service_tier", `«"service_tier":"standard_only"»`, ""},
			{"inference_geo", `«"inference_geo":"zebra"»`, ""},
			{"speed", `«"speed":"fast"»`, ""},
			{"cache_control", `«"cache_control":{"type":"ephemeral"}»`, ""},
			{"container", `«"container":"container_zebra"»`, ""},
			{"diagnostics", `«"diagnostics":{"previous_message_id":"msg_zebra"}»`, ""},
			{"context_management", `«"context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]}»`, ""},
			{"compaction", `«"compaction":{"type":"enabled"}»`, ""},
			{"mcp_servers", `«"mcp_servers":[{"type":"url","name":"zebra","url":"https://example.com/zebra"}]»`, ""},
			{"fallbacks", `«"fallbacks":[{"model":"zebra"}]»`, ""},
			{"fallback_credit_token", `«"fallback_credit_token":"zebra"»`, ""},
			{"betas", `«"betas":["zebra"]»`, ""},
			{"system:string", `«"system":"zebra"»`, ""},
			{"messages[].content:string", `"messages":[{"role":"user","content":"«zebra|ape»"}]`, ""},
			{"messages[].role system", `"messages":[$HI«,{"role":"system","content":"zebra"}»,$HI]`, ""},
			{"messages[].role prefill", `"messages":[$HI«,{"role":"assistant","content":"zebra"}»]`, ""},
			{"messages[].content[tool_result].content:string", `"messages":[$HI,{"role":"assistant","content":[$CALL]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"«zebra|ape»"}]}]`, ""},
			{"stream", `«"stream":true»`, ""},
			{"an_unknown_field", `«"an_unknown_field":"zebra"»`, ""},
		},
		needless: []needless{
			{"thinking[disabled]", "bedrock-converse", "its models think only where they are asked to"},
			{"thinking[between_tools]", "bedrock-converse", "its models think only where they are asked to"},
			{"model", "", "it chooses the provider, which gets its own name for it"},
			{"messages[].content[thinking].thinking", "", "old reasoning goes to who made it alone"},
			{"messages[].content[thinking].signature", "", "old reasoning goes to who made it alone"},
			{"messages[].content[redacted_thinking]", "", "old reasoning goes to who made it alone"},
			{"tools[tool].type", "", "the default, spelt out"},
			{"system[].citations", "", "what an earlier answer pointed at, not part of its text"},
			{"messages[].content[text].citations", "", "what an earlier answer pointed at, not part of its text"},
			{"messages[].content[tool_result].content[text].citations", "", "what an earlier answer pointed at, not part of its text"},
			{"messages[].content[tool_use].caller", "", "who made the call, which has its result by now"},
			{"messages[].content[tool_use].toolset_name", "", "where the tool was declared"},
			{"messages[].content[tool_result].toolset_name", "", "where the tool was declared"},
			{"messages[].content[tool_use].id", "vertex-google", "it knows no ids: calls and results are told by their names and order"},
			{"thinking[adaptive].display", "", "reasoning is shown wherever the provider shows it"},
			{"thinking[enabled].display", "", "reasoning is shown wherever the provider shows it"},
		},
	}
	for _, in := range []struct{ at, before, behind string }{
		{"messages[].content", `"messages":[{"role":"user","content":[`, `,{"type":"text","text":"Hello"}]}]`},
		{"messages[].content[tool_result].content", `"messages":[$HI,{"role":"assistant","content":[$CALL]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":[`, `]}]}]`},
	} {
		for _, part := range []sample{
			{"[image].source[base64]", `{"type":"text","text":"See"}«,$IMG»`, png},
			{"[image].source[url]", `{"type":"text","text":"See"}«,{"type":"image","source":{"type":"url","url":"https://example.com/zebra.png"}}»`, ""},
			{"[image].source[file]", `{"type":"text","text":"See"}«,{"type":"image","source":{"type":"file","file_id":"file_zebra"}}»`, ""},
			{"[image].cache_control", `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"$PNG"}«$CACHE»}`, ""},
			{"[image].transformations", `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"$PNG"}«,"transformations":{"oversized_image":"reject"}»}`, ""},
			{"[document].source[base64]", `{"type":"text","text":"See"}«,{"type":"document","source":$PDF}»`, "JVBERi0xLjQK"},
			{"[document].source[text]", `{"type":"text","text":"See"}«,{"type":"document","source":{"type":"text","media_type":"text/plain","data":"zebra"}}»`, "*"},
			{"[document].source[url]", `{"type":"text","text":"See"}«,{"type":"document","source":{"type":"url","url":"https://example.com/zebra.pdf"}}»`, ""},
			{"[document].source[file]", `{"type":"text","text":"See"}«,{"type":"document","source":{"type":"file","file_id":"file_zebra"}}»`, ""},
			{"[document].source[content]", `{"type":"text","text":"See"}«,{"type":"document","source":{"type":"content","content":[{"type":"text","text":"zebra"}]}}»`, "*"},
			{"[document].title", `{"type":"document","source":$PDF«,"title":"zebra"»}`, ""},
			{"[document].context", `{"type":"document","source":$PDF«,"context":"zebra"»}`, ""},
			{"[document].cache_control", `{"type":"document","source":$PDF«$CACHE»}`, ""},
			{"[document].citations.enabled", `{"type":"document","source":$PDF«,"citations":{"enabled":true}»}`, ""},
			{"[search_result].content", `{"type":"text","text":"See"}«,{"type":"search_result","source":"s","title":"t","content":[{"type":"text","text":"zebra"}]}»`, ""},
			{"[search_result].source", `{"type":"search_result","source":"«zebra|ape»","title":"t","content":[{"type":"text","text":"c"}]}`, ""},
			{"[search_result].title", `{"type":"search_result","source":"s","title":"«zebra|ape»","content":[{"type":"text","text":"c"}]}`, ""},
			{"[search_result].cache_control", `{"type":"search_result","source":"s","title":"t","content":[{"type":"text","text":"c"}]«$CACHE»}`, ""},
			{"[search_result].citations.enabled", `{"type":"search_result","source":"s","title":"t","content":[{"type":"text","text":"c"}]«,"citations":{"enabled":true}»}`, ""},
		} {
			s.samples = append(s.samples, sample{in.at + part.field, in.before + part.members + in.behind, part.seek})
		}
		if in.at == "messages[].content" {
			continue
		}
		for _, part := range []sample{
			{"[text].text", `{"type":"text","text":"«zebra|ape»"}`, ""},
			{"[text].cache_control", `{"type":"text","text":"Found"«$CACHE»}`, ""},
			{"[text].citations", `{"type":"text","text":"Found"«$CITE»}`, ""},
			{"[tool_reference]", `{"type":"text","text":"See"}«,{"type":"tool_reference","tool_name":"zebra"}»`, ""},
			{"[browser_state]", `{"type":"text","text":"See"}«,{"type":"browser_state","tabs":[{"tab_id":1,"title":"zebra","url":"https://example.com/","active":true}]}»`, ""},
		} {
			s.samples = append(s.samples, sample{in.at + part.field, in.before + part.members + in.behind, part.seek})
		}
	}
	// What a tool that Anthropic runs gave is said as one whole.
	for _, kind := range []string{"web_fetch", "code_execution", "bash_code_execution", "text_editor_code_execution", "tool_search"} {
		s.samples = append(s.samples, sample{"messages[].content[" + kind + "_tool_result]", `"messages":[$HI,{"role":"assistant","content":[«{"type":"` + kind + `_tool_result","tool_use_id":"srvtoolu_1","content":{"type":"` + kind + `_tool_result_error","error_code":"zebra"}},»{"type":"text","text":"Yes"}]},$HI]`, ""})
	}
	for _, kind := range []string{
		"bash_20250124", "text_editor_20250124", "text_editor_20250429", "text_editor_20250728", "memory_20250818", "computer_toolset_20260801", "browser_toolset_20260801",
		"tool_search_tool_bm25_20251119", "tool_search_tool_regex20251119", "code_execution_20250522", "code_execution_20250825", "code_execution_20260120", "code_execution_20260521",
		"web_search_20250305", "web_search_20260209", "web_search_20260318", "web_fetch_20250910", "web_fetch_20260209", "web_fetch_20260309", "web_fetch_20260318",
	} {
		s.samples = append(s.samples, sample{"tools[" + kind + "]", `«"tools":[{"type":"` + kind + `","name":"` + strings.TrimRight(kind, "_0123456789") + `"}]»`, ""})
	}
	return s
}
