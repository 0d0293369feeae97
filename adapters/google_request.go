package adapters

import (
	"fmt"
	"slices"
	"strings"

	"headway/core"
)

// googleFields are the top-level fields that Parse looks at, in both spellings
// that Google's own servers take; no other may differ from one of them in letter
// case alone, and none may come twice.
var googleFields = []string{
	"contents", "generationConfig", "systemInstruction", "tools", "model", "content", "requests", "generateContentRequest", "toolConfig", "safetySettings", "cachedContent",
	"", "generation_config", "system_instruction", "", "", "", "", "generate_content_request", "tool_config", "safety_settings", "cached_content",
}

// googleField gives the field that a key names.
func googleField(key []byte) (name string, err *core.Error) {
	const spellings = 2
	half := len(googleFields) / spellings
	if i := slices.Index(googleFields, string(key)); i >= 0 && len(key) > 0 {
		return googleFields[i%half], nil
	}
	if name := misspelt(key, googleFields); name != "" {
		return "", core.Field(name, "must be spelt so, not %q", key)
	}
	return "", nil
}

// googleRequest is what Parse gathers of a body.
type googleRequest struct {
	request
	call googleCall
}

// top reads the whole body.
func (r *googleRequest) top() *core.Error {
	if !r.object() {
		return r.wrong("body", "must be a JSON object")
	}
	seen, err := r.fields("")
	if err != nil {
		return err
	}
	if err := r.finish(); err != nil {
		return err
	}
	required := "contents"
	switch r.call.method {
	case "embedContent":
		required = "content"
	case "batchEmbedContents":
		required = "requests"
	case "countTokens":
		if slices.Contains(seen, "generateContentRequest") {
			required = "generateContentRequest"
		}
	}
	if !slices.Contains(seen, required) {
		return core.Field(required, "required")
	}
	return nil
}

// fields consumes the members of a request whose brace is behind it; path names
// the request where it is inside of another.
func (r *googleRequest) fields(path string) (seen []string, err *core.Error) {
	for key := range r.rest {
		name, err := googleField(key)
		if err != nil {
			return nil, err
		}
		if name == "" {
			continue
		}
		if slices.Contains(seen, name) {
			return nil, core.Field(path+name, "given twice")
		}
		seen = append(seen, name)
		r.lead = slices.Contains(leadFields, name)
		if err := r.field(path, name); err != nil {
			return nil, err
		}
	}
	return seen, nil
}

// field consumes the value of one known field.
func (r *googleRequest) field(path, name string) *core.Error {
	at := path + name
	switch name {
	case "model":
		return r.sameModel(at)
	case "contents":
		if !r.array() {
			return r.wrong(at, "must be a list of contents")
		}
		n := 0
		for ; r.element(); n++ {
			if field, must := r.content(); must != "" {
				return r.wrong(fmt.Sprintf("%s[%d]%s", at, n, field), must)
			}
		}
		if n == 0 {
			return r.wrong(at, "must hold at least one content")
		}
	case "content", "systemInstruction":
		if name == "systemInstruction" && r.null() {
			return nil
		}
		if field, must := r.content(); must != "" {
			return r.wrong(at+field, must)
		}
	case "tools":
		return r.tools(at)
	case "generationConfig":
		return r.config(at)
	case "toolConfig":
		return r.shape(at, '{', "must be an object")
	case "safetySettings":
		return r.shape(at, '[', "must be a list of objects")
	case "cachedContent":
		r.kept()
	case "generateContentRequest":
		return r.inner(at)
	case "requests":
		if !r.array() {
			return r.wrong(at, "must be a list of requests")
		}
		n := 0
		for ; r.element(); n++ {
			if err := r.inner(fmt.Sprintf("%s[%d]", at, n)); err != nil {
				return err
			}
		}
		if n == 0 {
			return r.wrong(at, "must hold at least one request")
		}
	}
	return nil
}

// inner consumes a request inside of the request.
func (r *googleRequest) inner(at string) *core.Error {
	if !r.object() {
		return r.wrong(at, "must be an object")
	}
	seen, err := r.fields(at + ".")
	if err != nil || r.err != nil {
		return err
	}
	required := "contents"
	if r.call.method == "batchEmbedContents" {
		required = "content"
	}
	if !slices.Contains(seen, required) {
		return core.Field(at+"."+required, "required")
	}
	return nil
}

// sameModel consumes a model's name in the body, which must be the path's.
func (r *googleRequest) sameModel(at string) *core.Error {
	if r.null() {
		return nil
	}
	r.peek()
	from := r.i
	raw, err := r.str(at)
	if err != nil {
		return err
	}
	if resource(string(unescape(raw))) != resource(r.call.model) {
		return core.Field(at, "differs from the model of the path, %s", r.call.model)
	}
	if !r.job.Edits.Model.Present() {
		r.job.Edits.Model = core.Span{From: from, To: r.i}
	}
	return nil
}

// content consumes a content, and gives the field at fault.
func (r *googleRequest) content() (field, must string) {
	if !r.object() {
		return "", "must be an object"
	}
	for key := range r.rest {
		switch string(key) {
		case "role":
			if r.null() {
				continue
			}
			raw, ok := r.text()
			if !ok {
				return ".role", "must be a string"
			}
			r.job.PromptBytes += len(raw)
		case "parts":
			if r.peek() == '{' { // Google's servers take one part for a list of one
				r.part()
				continue
			}
			if !r.array() {
				return ".parts", "must be a list of parts"
			}
			for n := 0; r.element(); n++ {
				if r.peek() != '{' {
					return fmt.Sprintf(".parts[%d]", n), "must be an object"
				}
				r.part()
			}
		}
	}
	return "", ""
}

// part consumes one part and counts what a model reads of it.
func (r *googleRequest) part() {
	for key := range r.each {
		switch string(key) {
		case "inlineData", "inline_data", "fileData", "file_data":
			r.file()
		case "functionResponse", "function_response":
			r.response()
		case "thought", "thoughtSignature", "thought_signature", "videoMetadata", "video_metadata", "mediaResolution", "media_resolution":
			r.skip() // not for the model to read
		default:
			r.prose()
		}
	}
}

// response consumes what a function gave back, which may hold files.
func (r *googleRequest) response() {
	if r.peek() != '{' {
		r.skip()
		return
	}
	for key := range r.each {
		if string(key) != "parts" || r.peek() != '[' {
			r.prose()
			continue
		}
		for r.array(); r.element(); {
			if r.peek() == '{' {
				r.part()
			} else {
				r.skip()
			}
		}
	}
}

// file consumes an image, a sound or a document, in place or at an address.
func (r *googleRequest) file() {
	if r.peek() != '{' {
		r.skip()
		return
	}
	r.job.PromptBytes += mediaBytes
	picture := false
	for key := range r.each {
		switch string(key) {
		case "mimeType", "mime_type":
			kind, _, _ := strings.Cut(string(r.written()), "/")
			kind = strings.ToLower(kind)
			picture = kind == "image"
			switch kind {
			case "image", "video":
				r.job.Features |= core.FeatureImages
			case "audio":
				r.job.Features |= core.FeatureAudio
			default:
				r.job.Features |= core.FeatureDocuments
			}
		}
	}
	r.job.Beyond = r.job.Beyond || !picture
}

// configFields are the fields of generationConfig that Parse looks at.
var configFields = []string{
	"maxOutputTokens", "candidateCount", "responseMimeType", "responseSchema", "responseJsonSchema", "responseModalities", "temperature", "topP", "topK",
	"max_output_tokens", "candidate_count", "response_mime_type", "response_schema", "response_json_schema", "response_modalities", "", "top_p", "top_k",
}

// config consumes generationConfig.
func (r *googleRequest) config(path string) *core.Error {
	if r.null() {
		return nil
	}
	if !r.object() {
		return r.wrong(path, "must be an object")
	}
	var seen uint32
	for key := range r.rest {
		i := slices.Index(configFields, string(key))
		if i < 0 || len(key) == 0 {
			if name := misspelt(key, configFields); name != "" {
				return core.Field(path+"."+name, "must be spelt so, not %q", key)
			}
			continue
		}
		i %= len(configFields) / 2
		name := path + "." + configFields[i]
		if seen&(1<<i) != 0 {
			return core.Field(name, "given twice")
		}
		seen |= 1 << i
		if err := r.setting(configFields[i], name); err != nil {
			return err
		}
	}
	return nil
}

// setting consumes the value of one field of generationConfig.
func (r *googleRequest) setting(name, at string) (err *core.Error) {
	switch name {
	case "maxOutputTokens":
		r.job.MaxOutput, err = r.whole(at)
	case "candidateCount":
		var n core.Opt[int64]
		n, err = r.whole(at)
		r.job.Choices = n.V
	case "temperature", "topP", "topK":
		err = r.real(at)
	case "responseMimeType":
		if r.null() {
			return nil
		}
		var raw []byte
		if raw, err = r.str(at); err == nil && len(raw) > 0 && string(unescape(raw)) != "text/plain" {
			r.job.Features |= core.FeatureSchema
		}
	case "responseSchema", "responseJsonSchema":
		if !r.null() {
			r.schema()
		}
	case "responseModalities":
		if !r.null() {
			err = r.modalities(at)
		}
	}
	return err
}

// whole consumes a whole number, at least 1; Google's JSON may have it as text.
func (r *googleRequest) whole(at string) (core.Opt[int64], *core.Error) {
	if r.peek() != '"' {
		return r.count(at, 1)
	}
	raw, err := r.str(at)
	if err != nil {
		return core.Opt[int64]{}, err
	}
	digits := request{cursor: walk(raw), job: r.job}
	n, err := digits.count(at, 1)
	if err != nil || digits.end() != nil || !n.OK {
		return core.Opt[int64]{}, r.wrong(at, "must be a whole number, at least 1")
	}
	return n, nil
}

func (r *googleRequest) modalities(at string) *core.Error {
	if !r.array() {
		return r.wrong(at, "must be a list of strings")
	}
	for r.element() {
		raw, err := r.str(at)
		if err != nil {
			return err
		}
		if strings.EqualFold(string(unescape(raw)), "audio") {
			r.job.Features |= core.FeatureAudio
		}
	}
	return nil
}
