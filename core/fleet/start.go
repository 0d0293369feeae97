package fleet

import (
	"encoding/binary"
	"encoding/json"
	"net/http"
	"strconv"

	"headway/core"
)

// start is the JSON of a start frame.
type start struct {
	Call          core.CallID    `json:"call"`
	Attempt       int            `json:"attempt"`
	Upstream      string         `json:"upstream,omitempty"`
	Method        string         `json:"method"`
	Path          string         `json:"path"`
	Query         string         `json:"query,omitempty"`
	Header        http.Header    `json:"header,omitempty"`
	ContentLength int64          `json:"content_length"`
	AdmissionMS   float64        `json:"admission_ms"`
	Model         core.Model     `json:"model"`
	Operation     core.Operation `json:"operation"`
	Streamed      bool           `json:"streamed,omitempty"`
}

// appendStart writes the payload of a start frame.
func appendStart(dst []byte, s *start, body []byte) ([]byte, error) {
	head, err := json.Marshal(s)
	if err != nil {
		return dst, err
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(head)))
	dst = append(dst, head...)
	return append(dst, body...), nil
}

// parseStart reads it; the body is a part of payload.
func parseStart(payload []byte) (s start, body []byte, err error) {
	if len(payload) < 4 {
		return s, nil, errFrame
	}
	n := int64(binary.BigEndian.Uint32(payload))
	if n > int64(len(payload)-4) {
		return s, nil, errFrame
	}
	head := headText(payload[4 : 4+n])
	if s, ok := head.start(); ok {
		return s, payload[4+n:], nil
	}
	if err := json.Unmarshal(payload[4:4+n], &s); err != nil {
		return s, nil, errFrame
	}
	return s, payload[4+n:], nil
}

// headReader reads the JSON that appendStart writes: no white space, no escapes, the
// members that a start has. Whatever else comes is left to encoding/json, which takes
// 40 µs longer where calls are seconds apart and none of it is in a cache: each of them
// is one that the first token of a call comes later.
type headReader struct {
	text string
	at   int
	bad  bool
}

func headText(b []byte) *headReader { return &headReader{text: string(b)} }

// start reads a whole head; false: it is one for encoding/json.
func (r *headReader) start() (s start, ok bool) {
	r.object(func(name string) {
		switch name {
		case "call":
			s.Call = core.CallID(r.string())
		case "attempt":
			s.Attempt = int(r.int())
		case "upstream":
			s.Upstream = r.string()
		case "method":
			s.Method = r.string()
		case "path":
			s.Path = r.string()
		case "query":
			s.Query = r.string()
		case "header":
			s.Header = r.header()
		case "content_length":
			s.ContentLength = r.int()
		case "admission_ms":
			s.AdmissionMS = r.float()
		case "model":
			s.Model = core.Model(r.string())
		case "operation":
			s.Operation = core.Operation(r.string())
		case "streamed":
			s.Streamed = r.next("true")
			r.bad = r.bad || !s.Streamed
		default:
			r.bad = true
		}
	})
	return s, !r.bad && r.at == len(r.text)
}

func (r *headReader) header() http.Header {
	h := http.Header{}
	r.object(func(name string) {
		var values []string
		r.bad = r.bad || !r.next("[")
		for !r.bad {
			values = append(values, r.string())
			if !r.next(",") {
				break
			}
		}
		r.bad = r.bad || !r.next("]") || h[name] != nil
		h[name] = values
	})
	return h
}

// object reads the members of an object, which has at least one.
func (r *headReader) object(member func(name string)) {
	r.bad = r.bad || !r.next("{")
	for !r.bad {
		name := r.string()
		if r.bad = r.bad || !r.next(":"); r.bad {
			return
		}
		if member(name); !r.next(",") {
			r.bad = r.bad || !r.next("}")
			return
		}
	}
}

// next takes what comes where it is that.
func (r *headReader) next(what string) bool {
	ok := len(r.text)-r.at >= len(what) && r.text[r.at:r.at+len(what)] == what
	if ok {
		r.at += len(what)
	}
	return ok
}

// string takes a text of plain ASCII.
func (r *headReader) string() string {
	r.bad = r.bad || !r.next(`"`)
	from := r.at
	for ; !r.bad && r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; {
		case c == '"':
			r.at++
			return r.text[from : r.at-1]
		case c < ' ' || c > '~' || c == '\\':
			r.bad = true
		}
	}
	r.bad = true
	return ""
}

// number takes the letters of one that is not negative and has no exponent.
func (r *headReader) number() string {
	from := r.at
	for r.at < len(r.text) && (r.text[r.at] >= '0' && r.text[r.at] <= '9' || r.text[r.at] == '.') {
		r.at++
	}
	n := r.text[from:r.at]
	r.bad = r.bad || n == "" || n[0] == '.' || n[len(n)-1] == '.' || len(n) > 1 && n[0] == '0' && n[1] != '.'
	return n
}

func (r *headReader) int() int64 {
	n, err := strconv.ParseInt(r.number(), 10, 64)
	r.bad = r.bad || err != nil
	return n
}

func (r *headReader) float() float64 {
	f, err := strconv.ParseFloat(r.number(), 64)
	r.bad = r.bad || err != nil
	return f
}
