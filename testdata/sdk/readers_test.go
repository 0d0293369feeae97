package sdktest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/genai"
)

// How each provider reads a request, after its reference: what a real one would
// refuse is refused, and members that it does not know are named.

// efforts are the levels of reasoning, by the tokens that stand for them where a
// provider wants a limit.
var efforts = map[string]string{"0": "none", "1024": "minimal", "2048": "low", "8192": "medium", "24576": "high", "32768": "xhigh"}

func (r *reading) budget(n node) {
	if limit := n.num(); limit != "" {
		r.set("effort", efforts[strings.TrimSuffix(limit, ".0")])
		if r.settings["effort"] == "" {
			r.set("effort", limit+" tokens")
		}
	}
}

// readChat reads OpenAI's chat completions.
func readChat(r *reading, b node) {
	for _, m := range b.get("messages").list() {
		role, content := m.get("role").str(), m.get("content")
		switch role {
		case "system", "developer", "user":
			r.chatParts(strings.Replace(role, "developer", "system", 1), content)
		case "assistant":
			r.text("assistant thinks", m.get("reasoning_content").str())
			m.get("reasoning_details")
			r.chatParts("assistant", content)
			r.text("assistant refuses", m.get("refusal").str())
			for _, c := range m.get("tool_calls").list() {
				f := c.get("function")
				if c.get("type").str() != "function" {
					r.refuse("%s is no function", c.at)
				}
				args := f.get("arguments").str()
				if !json.Valid([]byte(args)) {
					r.refuse("%s has arguments that are no JSON: %s", c.at, args)
				}
				c.get("extra_content")
				r.call(c.get("id").str(), f.get("name").str(), args)
			}
		case "tool":
			r.chatParts(r.result(m.get("tool_call_id").str(), "", false), content)
		default:
			r.refuse("%s has the role %q", m.at, role)
		}
	}
	for _, t := range b.get("tools").list() {
		f := t.get("function")
		t.get("type")
		f.get("strict")
		r.tool(f.get("name").str(), f.get("description").str(), f.get("parameters").json())
	}
	switch c := b.get("tool_choice"); {
	case c.isText():
		r.set("choice", c.str())
	case c.get("type").str() == "allowed_tools":
		r.allowed(c.get("allowed_tools"))
	case c.there():
		r.set("choice", c.get("function").get("name").str())
	}
	if p := b.get("parallel_tool_calls"); p.there() && !p.yes() {
		r.set("one tool", "true")
	}
	r.set("max", b.get("max_tokens").num())
	r.set("max", b.get("max_completion_tokens").num())
	for name, field := range map[string]string{"temperature": "temperature", "top_p": "top_p", "seed": "seed", "presence": "presence_penalty", "frequency": "frequency_penalty", "n": "n"} {
		r.set(name, b.get(field).num())
	}
	if s := b.get("stop"); s.isText() {
		r.set("stop", plain(`[`+quote(s.str())+`]`))
	} else {
		r.set("stop", s.json())
	}
	if b.get("logprobs").yes() {
		r.set("logs", b.get("top_logprobs").num())
	}
	if f := b.get("response_format"); f.there() && f.get("type").str() == "json_object" {
		r.set("json", "true")
	} else if f.there() {
		schema := f.get("json_schema")
		if schema.get("name").str() == "" {
			r.refuse("response_format is no named schema")
		}
		schema.get("strict")
		r.set("schema", schema.get("schema").json())
	}
	r.set("effort", b.get("reasoning_effort").str())
	r.set("user", b.get("user").str())
	if o := b.get("stream_options"); o.there() {
		o.get("include_usage")
	}
	b.get("stream")
	b.get("model")
}

// allowed reads the tools of which one must be called.
func (r *reading) allowed(c node) {
	var names []string
	for _, t := range c.get("tools").list() {
		t.get("type")
		names = append(names, t.get("name").str()+t.get("function").get("name").str())
	}
	if mode := c.get("mode").str(); mode != "required" {
		r.refuse("tools are allowed with the mode %q", mode)
	}
	r.set("allowed", strings.Join(names, " "))
}

// readLlama reads what llama-server takes beside that.
func readLlama(r *reading, b node) {
	r.set("top_k", b.get("top_k").num())
	if k := b.get("chat_template_kwargs"); k.there() {
		r.set("effort", k.get("reasoning_effort").str())
		if t := k.get("enable_thinking"); t.there() && !t.yes() {
			r.set("effort", "none")
		}
	}
	readChat(r, b)
}

func (r *reading) chatParts(who string, content node) {
	if content.isText() {
		r.text(who, content.str())
		return
	}
	for _, p := range content.list() {
		switch kind := p.get("type").str(); kind {
		case "text":
			r.text(who, p.get("text").str())
		case "image_url":
			i := p.get("image_url")
			i.get("detail")
			r.image(who, i.get("url").str())
		case "file":
			f := p.get("file")
			f.get("filename")
			r.image(who, f.get("file_data").str())
		case "refusal":
			r.text(who+" refuses", p.get("refusal").str())
		default:
			r.refuse("%s is of the kind %q", p.at, kind)
		}
		if strings.HasPrefix(who, "result") && strings.Contains(r.lines[len(r.lines)-1], " data ") {
			r.refuse("%s: a tool message has text only", p.at)
		}
	}
}

// readResponses reads OpenAI's Responses.
func readResponses(r *reading, b node) {
	r.text("system", b.get("instructions").str())
	input := b.get("input")
	if input.isText() {
		r.text("user", input.str())
		input.v = nil
	}
	for _, item := range input.list() {
		id := item.get("id").str()
		item.get("status")
		item.get("phase")
		switch kind := item.get("type").str(); kind {
		case "message", "":
			r.responseParts(strings.Replace(item.get("role").str(), "developer", "system", 1), item.get("content"))
		case "function_call":
			args := item.get("arguments").str()
			if !json.Valid([]byte(args)) {
				r.refuse("%s has arguments that are no JSON: %s", item.at, args)
			}
			r.call(item.get("call_id").str(), item.get("name").str(), args)
		case "function_call_output":
			r.responseParts(r.result(item.get("call_id").str(), "", false), item.get("output"))
		case "reasoning":
			for _, s := range append(item.get("summary").list(), item.get("content").list()...) {
				s.get("type")
				r.text("assistant thinks", s.get("text").str())
			}
			r.seal(id + " " + item.get("encrypted_content").str())
		default:
			r.refuse("%s is of the kind %q", item.at, kind)
		}
	}
	for _, t := range b.get("tools").list() {
		if t.get("type").str() != "function" {
			r.refuse("%s is no function", t.at)
		}
		if t.get("strict").v == nil {
			r.refuse("%s does not say whether it is strict", t.at)
		}
		r.tool(t.get("name").str(), t.get("description").str(), t.get("parameters").json())
	}
	switch c := b.get("tool_choice"); {
	case c.isText():
		r.set("choice", c.str())
	case c.get("mode").there():
		c.v.(map[string]any)["mode"] = "required"
		c.get("type")
		r.allowed(c)
	case c.there():
		c.get("type")
		r.set("choice", c.get("name").str())
	}
	if p := b.get("parallel_tool_calls"); p.there() && !p.yes() {
		r.set("one tool", "true")
	}
	if f := b.get("text").get("format"); f.there() {
		switch kind := f.get("type").str(); {
		case kind == "json_object":
			r.set("json", "true")
		case kind != "json_schema" || f.get("name").str() == "":
			r.refuse("text.format is no named schema but %s", kind)
		}
		f.get("strict")
		r.set("schema", f.get("schema").json())
	}
	for name, field := range map[string]string{"max": "max_output_tokens", "temperature": "temperature", "top_p": "top_p", "logs": "top_logprobs"} {
		r.set(name, b.get(field).num())
	}
	thinks := b.get("reasoning")
	r.set("effort", thinks.get("effort").str())
	r.set("shown", thinks.get("summary").str())
	if thinks.there() && r.settings["effort"] != "none" && !strings.Contains(b.get("include").json(), "reasoning.encrypted_content") {
		r.refuse("nothing of the reasoning could come back in the next turn")
	}
	b.get("include")
	if s := b.get("store"); s.there() && s.yes() {
		r.refuse("the provider is to keep the answer")
	}
	r.set("user", b.get("user").str())
	r.set("user", b.get("safety_identifier").str())
	b.get("stream")
	b.get("model")
}

func (r *reading) responseParts(who string, content node) {
	if content.isText() {
		r.text(who, content.str())
		return
	}
	for _, p := range content.list() {
		kind := p.get("type").str()
		said := kind == "output_text" || kind == "refusal"
		if said != (who == "assistant") {
			r.refuse("%s: %s by %s", p.at, kind, who)
		}
		switch kind {
		case "input_text", "output_text":
			p.get("annotations")
			p.get("logprobs")
			r.text(who, p.get("text").str())
		case "input_image":
			p.get("detail")
			r.image(who, p.get("image_url").str())
		case "input_file":
			p.get("filename")
			r.image(who, p.get("file_data").str())
		case "refusal":
			r.text(who+" refuses", p.get("refusal").str())
		default:
			r.refuse("%s is of the kind %q", p.at, kind)
		}
	}
}

func (r *reading) seal(text string) {
	if text != "" {
		r.line("assistant", "seal "+text)
	}
}

var toolID = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

// readMessages reads Anthropic's Messages.
func readMessages(r *reading, b node) {
	r.messageParts("system", b.get("system"))
	role := ""
	for i, m := range b.get("messages").list() {
		before := role
		role = m.get("role").str()
		if i == 0 && role != "user" || role != "user" && role != "assistant" && role != "system" {
			r.refuse("%s has the role %s", m.at, role)
		}
		if role == "assistant" && before == "assistant" {
			r.refuse("%s is the second of an assistant's in a row", m.at)
		}
		content := m.get("content")
		if content.v == nil || content.v == "" {
			r.refuse("%s has no content", m.at)
		}
		r.messageParts(role, content)
	}
	for _, t := range b.get("tools").list() {
		t.get("type")
		t.get("strict")
		r.cache(t)
		r.tool(t.get("name").str(), t.get("description").str(), t.get("input_schema").object())
	}
	if c := b.get("tool_choice"); c.there() {
		switch kind := c.get("type").str(); kind {
		case "tool":
			r.set("choice", c.get("name").str())
		case "any":
			r.set("choice", "required")
		default:
			r.set("choice", kind)
		}
		if c.get("disable_parallel_tool_use").yes() {
			r.set("one tool", "true")
		}
	}
	for name, field := range map[string]string{"max": "max_tokens", "temperature": "temperature", "top_p": "top_p", "top_k": "top_k"} {
		r.set(name, b.get(field).num())
	}
	if r.settings["max"] == "" {
		r.refuse("no max_tokens")
	}
	r.set("stop", b.get("stop_sequences").json())
	r.thinking(b.get("thinking"))
	config := b.get("output_config")
	r.set("effort", config.get("effort").str())
	if f := config.get("format"); f.there() {
		f.get("type")
		r.set("schema", f.get("schema").json())
	}
	r.set("user", b.get("metadata").get("user_id").str())
	b.get("stream")
	b.get("model")
	b.get("anthropic_version")
}

// thinking reads Anthropic's reasoning, and what does not go with it.
func (r *reading) thinking(t node) {
	if !t.there() || t.get("type").str() == "disabled" {
		return
	}
	t.get("display")
	limit := t.get("budget_tokens")
	r.budget(limit)
	budget, _ := strconv.Atoi(limit.num())
	if most, _ := strconv.Atoi(strings.TrimSuffix(r.settings["max"], ".0")); most <= budget {
		r.refuse("thinking of %d tokens in an answer of %s", budget, r.settings["max"])
	}
	if choice := r.settings["choice"]; choice != "" && choice != "auto" && choice != "none" {
		r.refuse("thinking with the tool choice %s", choice)
	}
	for _, name := range []string{"temperature", "top_k"} {
		if r.settings[name] != "" {
			r.refuse("thinking with %s", name)
		}
	}
}

func (r *reading) messageParts(who string, content node) {
	if content.isText() {
		r.text(who, content.str())
		return
	}
	results := true // nothing else stood before
	for _, p := range content.list() {
		kind := p.get("type").str()
		switch kind {
		case "text":
			text := p.get("text").str()
			if strings.TrimSpace(text) == "" {
				r.refuse("%s is an empty text", p.at)
			}
			p.get("citations")
			r.text(who, text)
		case "image", "document":
			s := p.get("source")
			p.get("title")
			if s.get("type").str() == "url" {
				r.image(who, s.get("url").str())
			} else {
				r.data(who, s.get("media_type").str(), s.get("data").str())
			}
		case "tool_use":
			id := p.get("id").str()
			if !toolID.MatchString(id) {
				r.refuse("%s has the id %q", p.at, id)
			}
			p.get("caller")
			r.call(id, p.get("name").str(), p.get("input").object())
		case "tool_result":
			if !results {
				r.refuse("%s stands behind something else", p.at)
			}
			r.messageParts(r.result(p.get("tool_use_id").str(), "", p.get("is_error").yes()), p.get("content"))
		case "thinking":
			r.text("assistant thinks", p.get("thinking").str())
			r.seal(p.get("signature").str())
		case "redacted_thinking":
			r.seal(p.get("data").str())
		default:
			r.refuse("%s is of the kind %q", p.at, kind)
		}
		results = results && kind == "tool_result"
		r.cache(p)
	}
}

func (r *reading) cache(n node) {
	if c := n.get("cache_control"); c.there() {
		c.get("type")
		if ttl := c.get("ttl").str(); ttl != "" && ttl != "5m" {
			r.line("cache", ttl)
		} else {
			r.line("cache", "5m")
		}
	}
}

// readInvoke reads Bedrock's InvokeModel.
func readInvoke(r *reading, b node) {
	if v := b.get("anthropic_version").str(); v != "bedrock-2023-05-31" {
		r.refuse("anthropic_version is %q", v)
	}
	for _, name := range []string{"model", "stream"} {
		if b.get(name).there() {
			r.refuse("%s is no member here", name)
		}
	}
	readMessages(r, b)
}

// readVertexMessages reads Anthropic's models at Vertex.
func readVertexMessages(r *reading, b node) {
	if v := b.get("anthropic_version").str(); v != "vertex-2023-10-16" {
		r.refuse("anthropic_version is %q", v)
	}
	if b.get("model").there() {
		r.refuse("model is no member here")
	}
	readMessages(r, b)
}

// readGenerate reads Google's generateContent with the SDK's own types, which
// name what they do not know.
func readGenerate(r *reading, b node) {
	var body struct {
		Contents          []*genai.Content        `json:"contents"`
		SystemInstruction *genai.Content          `json:"systemInstruction"`
		Tools             []*genai.Tool           `json:"tools"`
		ToolConfig        *genai.ToolConfig       `json:"toolConfig"`
		GenerationConfig  *genai.GenerationConfig `json:"generationConfig"`
		SafetySettings    []*genai.SafetySetting  `json:"safetySettings"`
	}
	raw, err := json.Marshal(b.v)
	if err != nil {
		r.refuse("%v", err)
	}
	// What stands for a signature that there is none of is no base64, and nobody's.
	raw = bytes.ReplaceAll(raw, []byte(`,"thoughtSignature":"skip_thought_signature_validator"`), nil)
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&body); err != nil {
		r.refuse("%v", err)
		return
	}
	if s := body.SystemInstruction; s != nil {
		r.googleParts("system", s.Parts)
	}
	for i, c := range body.Contents {
		role := map[string]string{"user": "user", "model": "assistant", "": "user"}[c.Role]
		if role == "" || len(c.Parts) == 0 {
			r.refuse("contents[%d] has the role %q and %d parts", i, c.Role, len(c.Parts))
		}
		r.googleParts(role, c.Parts)
	}
	for _, t := range body.Tools {
		for _, f := range t.FunctionDeclarations {
			schema := quoteJSON(f.ParametersJsonSchema)
			if f.ParametersJsonSchema == nil {
				schema = ""
			}
			if f.Parameters != nil {
				schema = strings.ToLower(quoteJSON(f.Parameters))
			}
			r.tool(f.Name, f.Description, schema)
		}
	}
	if t := body.ToolConfig; t != nil && t.FunctionCallingConfig != nil {
		c := t.FunctionCallingConfig
		mode := map[genai.FunctionCallingConfigMode]string{"AUTO": "auto", "NONE": "none", "ANY": "required"}[c.Mode]
		if len(c.AllowedFunctionNames) > 1 {
			r.set("allowed", strings.Join(c.AllowedFunctionNames, " "))
			mode = ""
		} else if len(c.AllowedFunctionNames) == 1 {
			mode = c.AllowedFunctionNames[0]
		}
		r.set("choice", mode)
	}
	if g := body.GenerationConfig; g != nil {
		r.googleConfig(g)
	}
}

func quoteJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return plain(string(b))
}

func (r *reading) googleConfig(g *genai.GenerationConfig) {
	for name, v := range map[string]*float32{"temperature": g.Temperature, "top_p": g.TopP, "top_k": g.TopK, "presence": g.PresencePenalty, "frequency": g.FrequencyPenalty} {
		if v != nil {
			r.set(name, number(float64(*v)))
		}
	}
	for name, v := range map[string]int32{"max": g.MaxOutputTokens, "n": g.CandidateCount} {
		if v != 0 {
			r.set(name, number(float64(v)))
		}
	}
	if g.Seed != nil {
		r.set("seed", number(float64(*g.Seed)))
	}
	if len(g.StopSequences) > 0 {
		r.set("stop", quoteJSON(g.StopSequences))
	}
	if g.ResponseLogprobs && g.Logprobs != nil {
		r.set("logs", number(float64(*g.Logprobs)))
	}
	if g.ResponseJsonSchema != nil {
		if g.ResponseMIMEType != "application/json" {
			r.refuse("a schema for %q", g.ResponseMIMEType)
		}
		r.set("schema", quoteJSON(g.ResponseJsonSchema))
	} else if g.ResponseMIMEType == "application/json" {
		r.set("json", "true")
	}
	if t := g.ThinkingConfig; t != nil {
		if t.ThinkingBudget != nil {
			r.budget(node{r, "thinkingBudget", json.Number(strconv.Itoa(int(*t.ThinkingBudget)))})
		}
		r.set("effort", strings.ToLower(string(t.ThinkingLevel)))
		if t.IncludeThoughts {
			r.set("shown", "auto")
		}
	}
}

func (r *reading) googleParts(who string, parts []*genai.Part) {
	for _, p := range parts {
		if len(p.ThoughtSignature) > 0 && p.FunctionCall != nil {
			r.seal(base64.StdEncoding.EncodeToString(p.ThoughtSignature))
		}
		switch {
		case p.Thought: // the provider does without what it thought, but not without the seals
		case p.InlineData != nil:
			r.data(who, p.InlineData.MIMEType, base64.StdEncoding.EncodeToString(p.InlineData.Data))
		case p.FileData != nil:
			if p.FileData.MIMEType == "" {
				r.refuse("a file without its type")
			}
			r.image(who, p.FileData.FileURI)
		case p.FunctionCall != nil:
			r.call(p.FunctionCall.ID, p.FunctionCall.Name, argsOf(p.FunctionCall.Args))
		case p.FunctionResponse != nil:
			f := p.FunctionResponse
			if f.Name == "" {
				r.refuse("a result without its tool's name")
			}
			_, wrong := f.Response["error"]
			from := r.result(f.ID, f.Name, wrong)
			for _, name := range []string{"output", "result", "error"} {
				if text, ok := f.Response[name].(string); ok {
					r.text(from, text)
				}
			}
			for _, m := range f.Parts {
				r.data(from, m.InlineData.MIMEType, base64.StdEncoding.EncodeToString(m.InlineData.Data))
			}
		default:
			r.text(who, p.Text)
		}
		if len(p.ThoughtSignature) > 0 && p.FunctionCall == nil {
			r.seal(base64.StdEncoding.EncodeToString(p.ThoughtSignature))
		}
	}
}

// argsOf are a call's arguments, which the SDK leaves out where there are none.
func argsOf(args map[string]any) string {
	if args == nil {
		return "{}"
	}
	return quoteJSON(args)
}

// readConverse reads Bedrock's Converse.
func readConverse(r *reading, b node) {
	r.converseParts("system", b.get("system"))
	role, calls := "", false
	for i, m := range b.get("messages").list() {
		before := role
		role = m.get("role").str()
		if role == before || i == 0 && role != "user" || role != "user" && role != "assistant" {
			r.refuse("%s has the role %s behind %s", m.at, role, before)
		}
		r.converseParts(role, m.get("content"))
	}
	calls = len(r.names) > 0
	if t := b.get("toolConfig"); t.there() {
		for _, x := range t.get("tools").list() {
			if c := x.get("cachePoint"); c.there() {
				c.get("type")
				r.line("cache", "5m")
				continue
			}
			s := x.get("toolSpec")
			r.tool(s.get("name").str(), s.get("description").str(), s.get("inputSchema").get("json").object())
		}
		c := t.get("toolChoice")
		for kind, name := range map[string]string{"auto": "auto", "any": "required"} {
			if c.get(kind).there() {
				r.set("choice", name)
			}
		}
		r.set("choice", c.get("tool").get("name").str())
	} else if calls {
		r.refuse("calls of tools without toolConfig")
	}
	c := b.get("inferenceConfig")
	for name, field := range map[string]string{"max": "maxTokens", "temperature": "temperature", "top_p": "topP"} {
		r.set(name, c.get(field).num())
	}
	r.set("stop", c.get("stopSequences").json())
	more := b.get("additionalModelRequestFields")
	r.set("top_k", more.get("top_k").num())
	r.thinking(more.get("thinking"))
	if f := b.get("outputConfig").get("textFormat"); f.there() {
		f.get("type")
		s := f.get("structure").get("jsonSchema")
		s.get("name")
		r.set("schema", plain(s.get("schema").str()))
	}
}

func (r *reading) converseParts(who string, content node) {
	for _, p := range content.list() {
		for kind := range p.v.(map[string]any) {
			x := p.get(kind)
			switch kind {
			case "text":
				if strings.TrimSpace(x.str()) == "" {
					r.refuse("%s is an empty text", p.at)
				}
				r.text(who, x.str())
			case "image":
				r.data(who, "image/"+x.get("format").str(), x.get("source").get("bytes").str())
			case "document":
				if name := x.get("name").str(); !regexp.MustCompile(`^[a-zA-Z0-9 ()\[\]-]+$`).MatchString(name) {
					r.refuse("%s has the name %q", x.at, name)
				}
				r.data(who, "application/"+x.get("format").str(), x.get("source").get("bytes").str())
			case "toolUse":
				id := x.get("toolUseId").str()
				if !toolID.MatchString(id) {
					r.refuse("%s has the id %q", x.at, id)
				}
				r.call(id, x.get("name").str(), x.get("input").object())
			case "toolResult":
				r.converseParts(r.result(x.get("toolUseId").str(), "", x.get("status").str() == "error"), x.get("content"))
			case "reasoningContent":
				t := x.get("reasoningText")
				r.text("assistant thinks", t.get("text").str())
				r.seal(t.get("signature").str())
				r.seal(x.get("redactedContent").str())
			case "cachePoint":
				x.get("type")
				if ttl := x.get("ttl").str(); ttl != "" {
					r.line("cache", ttl)
				} else {
					r.line("cache", "5m")
				}
			default:
				r.refuse("%s is of the kind %q", p.at, kind)
			}
		}
	}
}

// readOllama reads Ollama's own chat.
func readOllama(r *reading, b node) {
	for _, m := range b.get("messages").list() {
		role := m.get("role").str()
		if role != "system" && role != "user" && role != "assistant" && role != "tool" {
			r.refuse("%s has the role %q", m.at, role)
		}
		who := role
		if role == "tool" {
			who = r.result(m.get("tool_call_id").str(), m.get("tool_name").str(), false)
		}
		r.text("assistant thinks", m.get("thinking").str())
		for _, image := range m.get("images").list() {
			r.data(who, "image", image.str())
		}
		content := m.get("content")
		if !content.isText() {
			r.refuse("%s is no text", content.at)
		}
		r.text(who, content.str())
		for _, c := range m.get("tool_calls").list() {
			f := c.get("function")
			f.get("index")
			c.get("type")
			r.call(c.get("id").str(), f.get("name").str(), f.get("arguments").object())
		}
	}
	for _, t := range b.get("tools").list() {
		t.get("type")
		f := t.get("function")
		r.tool(f.get("name").str(), f.get("description").str(), f.get("parameters").object())
	}
	o := b.get("options")
	for name, field := range map[string]string{"max": "num_predict", "temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "seed": "seed",
		"presence": "presence_penalty", "frequency": "frequency_penalty"} {
		r.set(name, o.get(field).num())
	}
	r.set("stop", o.get("stop").json())
	if f := b.get("format"); f.isText() && f.str() == "json" {
		r.set("json", "true")
	} else {
		r.set("schema", f.json())
	}
	switch think := b.get("think"); {
	case think.isText():
		r.set("effort", think.str())
	case think.there():
		r.set("effort", fmt.Sprint(think.yes()))
	}
	if b.get("logprobs").yes() {
		r.set("logs", b.get("top_logprobs").num())
	}
	b.get("stream")
	b.get("model")
	b.get("truncate") // a prompt that is too long is an error then
	b.get("keep_alive")
}
