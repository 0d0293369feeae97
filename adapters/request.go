package adapters

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"headway/core"
)

// mediaBytes is what one image, sound or document counts in Job.PromptBytes:
// a model reads it as about a thousand tokens, whatever its size in base64.
const mediaBytes = 3000

// maxModel is the longest model name; it is repeated in errors and receipts.
const maxModel = 256

// notJSON is the error of a body that a cursor could not walk.
func notJSON(err error) *core.Error { return core.Errorf(core.Invalid, "body: %v", err) }

// checkText refuses text that many providers answer with a 500: bytes that are
// not UTF-8, and escapes of half a character. The body must be valid JSON.
func checkText(body []byte) *core.Error {
	if !utf8.Valid(body) {
		at := 0
		for r, n := utf8.DecodeRune(body); r != utf8.RuneError || n > 1; r, n = utf8.DecodeRune(body[at:]) {
			at += n
		}
		return core.Errorf(core.Invalid, "body: not valid UTF-8 at byte %d", at)
	}
	for i := 0; ; {
		n := bytes.IndexByte(body[i:], '\\')
		if n < 0 {
			return nil
		}
		if i += n; body[i+1] != 'u' {
			i += 2
			continue
		}
		switch unit := hex4(body[i+2:]); {
		case unit < 0xD800 || unit > 0xDFFF:
			i += 6
		case unit < 0xDC00 && len(body) >= i+12 && body[i+6] == '\\' && body[i+7] == 'u' && hex4(body[i+8:])&^0x3FF == 0xDC00:
			i += 12
		default:
			return core.Errorf(core.Invalid, "body: an escape of half a character (%s) at byte %d", body[i:i+6], i)
		}
	}
}

func hex4(b []byte) uint64 {
	n, _ := strconv.ParseUint(string(b[:4]), 16, 16) // the cursor saw to it that these are digits
	return n
}

// textLen is the length in bytes of the text that a raw JSON string stands for.
func textLen(raw []byte) int {
	n := len(raw)
	for i := 0; ; {
		next := bytes.IndexByte(raw[i:], '\\')
		if next < 0 {
			return n
		}
		if i += next; raw[i+1] != 'u' {
			n--
			i += 2
			continue
		}
		// Half of a pair stands for two of its four bytes.
		switch unit := hex4(raw[i+2:]); {
		case unit < 0x80:
			n -= 5
		case unit < 0x800 || unit&^0x7FF == 0xD800:
			n -= 4
		default:
			n -= 3
		}
		i += 6
	}
}

// request walks the body of a client's request. Its methods consume one value
// and refuse one of another type with the name of its field; null is absent.
type request struct {
	cursor
	job  *core.Job
	seen uint32 // bits of the known fields that are there
	// fileID: a part names a file that the provider keeps.
	fileID bool
	// lead: the field that is read stands before the conversation (Job.Lead).
	lead bool
}

// leadFields are the fields whose texts stand before the conversation.
var leadFields = []string{
	"tools", "functions", "system", "instructions", "systemInstruction",
	"response_format", "text", "output_config", "output_format", "generationConfig",
}

// members walks the members of the body. Each of the known ones, at most 32, goes
// to field, which consumes its value; what is unknown is left to the provider.
func (r *request) members(known []string, field func(name string) *core.Error) *core.Error {
	if !r.object() {
		return r.wrong("body", "must be a JSON object")
	}
	r.job.Edits.Open = r.i
	for key := range r.rest {
		i := slices.Index(known, string(key))
		if i < 0 {
			if name := misspelt(key, known); name != "" {
				return core.Field(name, "must be spelt so, not %q", key)
			}
			continue
		}
		if r.seen&(1<<i) != 0 {
			return core.Field(known[i], "given twice")
		}
		r.seen |= 1 << i
		r.lead = slices.Contains(leadFields, known[i])
		if err := field(known[i]); err != nil {
			return err
		}
	}
	return nil
}

// wrong is the error of a value at a field that is not what it must be.
func (r *request) wrong(field, must string) *core.Error {
	if r.err != nil {
		return notJSON(r.err)
	}
	return core.Field(field, "%s", must)
}

// str consumes a string and gives its raw text.
func (r *request) str(field string) ([]byte, *core.Error) {
	raw, ok := r.text()
	if !ok {
		return nil, r.wrong(field, "must be a string")
	}
	return raw, nil
}

// flag consumes a boolean.
func (r *request) flag(field string) (bool, *core.Error) {
	if r.null() {
		return false, nil
	}
	v, ok := r.boolean()
	if !ok {
		return false, r.wrong(field, "must be true or false")
	}
	return v, nil
}

// count consumes a whole number that is at least least and fits in 32 bits, as
// many servers need it.
func (r *request) count(field string, least int64) (core.Opt[int64], *core.Error) {
	if r.null() {
		return core.Opt[int64]{}, nil
	}
	n, ok := r.integer()
	if !ok || n < least || n > math.MaxInt32 {
		return core.Opt[int64]{}, r.wrong(field, fmt.Sprintf("must be a whole number from %d to %d", least, math.MaxInt32))
	}
	return core.Some(n), nil
}

// real consumes a number.
func (r *request) real(field string) *core.Error {
	if r.null() {
		return nil
	}
	if _, ok := r.number(); !ok {
		return r.wrong(field, "must be a number")
	}
	return nil
}

// name consumes the model's name.
func (r *request) name() *core.Error {
	r.peek()
	from := r.i
	raw, err := r.str("model")
	if err != nil {
		return err
	}
	if len(raw) == 0 || len(raw) > maxModel {
		return core.Field("model", "must have 1 to %d bytes", maxModel)
	}
	r.job.Model = core.Model(unescape(raw))
	r.job.Edits.Model = core.Span{From: from, To: r.i}
	return nil
}

// raw consumes a value and counts it as prompt as it stands: schemas, arguments
// and items whose text is not worth telling from their form.
func (r *request) raw() {
	v := r.value()
	r.job.PromptBytes += len(v)
	if len(v) > 0 && (v[0] == '{' || v[0] == '[') {
		r.note(r.i-len(v), r.i)
	}
}

// said counts a string that was just consumed as prompt, by its text.
func (r *request) said(raw []byte) {
	r.job.PromptBytes += textLen(raw)
	r.noteText(raw)
}

// prose consumes a value and counts it as prompt: a string by its text, anything
// else as it stands.
func (r *request) prose() {
	if raw, ok := r.text(); ok {
		r.said(raw)
	} else {
		r.raw()
	}
}

// kept consumes a value that has the model read what is not in the body.
func (r *request) kept() {
	v := r.value()
	r.job.Beyond = r.job.Beyond || string(v) != "null" && string(v) != "[]"
}

// oneModel refuses OpenRouter's list of models to go on to: which model answers is
// decided here, by what the key may use and what it costs (SPEC §8).
func (r *request) oneModel(field string) *core.Error {
	if v := r.value(); len(v) == 0 || string(v) == "null" || string(v) == "[]" {
		return nil
	}
	return core.Field(field, "must be left out: a call is for one model, and goes on to other offers of it by itself")
}

// finish checks what is behind the walk: no more data, and text that is text.
func (r *request) finish() *core.Error {
	if err := r.end(); err != nil {
		return notJSON(err)
	}
	return checkText(r.job.Body)
}

// misspelt gives the name among names that key is a different spelling of in
// letter case alone: readers written in Go take it for that name.
func misspelt(key []byte, names []string) string {
	for _, name := range names {
		if strings.EqualFold(string(key), name) {
			return name
		}
	}
	return ""
}
