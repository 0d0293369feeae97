package sim

import (
	"bytes"
	"encoding/json"
	"net/http"

	"headway/core"
)

// wire writes answers in one format.
type wire interface {
	// header is that of an answer; id 0: the request got none.
	header(contentType string, id uint64) http.Header
	whole(*answer) []byte
	stream(*answer) frames
	fail(status int, e *core.Error) []byte
	models(names []string) []byte // the list
	model(name string) []byte     // one of it
}

const eventStream = "text/event-stream; charset=utf-8"

// object writes a JSON object with its members in the order given: providers'
// answers are read by people too. pairs are names and values.
func object(pairs ...any) json.RawMessage {
	out := []byte{'{'}
	for i := 0; i < len(pairs); i += 2 {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(out, quoted(pairs[i])...), ':')
		if raw, ok := pairs[i+1].(json.RawMessage); ok {
			out = append(out, raw...)
		} else {
			out = append(out, quoted(pairs[i+1])...)
		}
	}
	return append(out, '}')
}

// list is an array of objects.
type list = []json.RawMessage

// quoted is a value of strings, numbers, nil and lists of them as JSON, which
// cannot fail.
func quoted(v any) []byte {
	text, _ := json.Marshal(v)
	return text
}

// event is one server-sent event; name "" leaves its line out.
func event(name string, data json.RawMessage) []byte {
	var out []byte
	if name != "" {
		out = append(append(append(out, "event: "...), name...), '\n')
	}
	return append(append(append(out, "data: "...), data...), "\n\n"...)
}

// slot is what stands in a frame where each piece goes. Nobody can guess it.
func (a *answer) slot() string { return identity("piece-", a.id) }

// fill makes the frames of a stream's pieces from one that holds the slot: a
// stream has hundreds, and they differ in nothing else.
func (a *answer) fill(frame []byte) func(i int) []byte {
	before, after, _ := bytes.Cut(frame, quoted(a.slot()))
	return func(i int) []byte {
		text := quoted(a.pieces[i])
		out := make([]byte, 0, len(before)+len(text)+len(after))
		return append(append(append(out, before...), text...), after...)
	}
}
