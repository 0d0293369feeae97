package fleet

import (
	"encoding/json"
	"net/http"
	"reflect"
	"testing"
	"time"

	"headway/core"
)

// usualStart is what an edge sends for a chat call.
func usualStart() start {
	return start{Call: core.NewCallID(time.Now()), Attempt: 1, Method: http.MethodPost, Path: "/v1/chat/completions",
		Header: http.Header{"Content-Type": {"application/json"}, "Accept": {"text/event-stream"}, "User-Agent": {"headway/1.0"}, "X-Headway-Hops": {"a, b"},
			"X-Many": {"1", "2"}}, ContentLength: 1402, AdmissionMS: 0.412, Model: "llama-3.1-8b", Operation: core.OpGenerate, Streamed: true}
}

// What an edge sends is read without encoding/json, and as that reads it.
func TestStartIsReadQuickly(t *testing.T) {
	plain := usualStart()
	later := usualStart()
	later.Upstream, later.Query, later.Streamed, later.Header = "gpu", "a=b", false, nil
	for _, s := range []start{plain, later} {
		payload, err := appendStart(nil, &s, []byte("body"))
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := headText(payload[4 : len(payload)-4]).start(); !ok || !reflect.DeepEqual(got, s) {
			t.Errorf("%v %+v, want %+v", ok, got, s)
		}
		if got, body, err := parseStart(payload); err != nil || string(body) != "body" || !reflect.DeepEqual(got, s) {
			t.Errorf("%+v, %q, %v", got, body, err)
		}
	}
}

// FuzzStart holds the quick reader to encoding/json: what it takes, that takes, and
// gives the same.
func FuzzStart(f *testing.F) {
	usual := usualStart()
	text, err := json.Marshal(usual)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	for _, text := range []string{`{}`, `{"attempt":01}`, `{"attempt":1.}`, `{"attempt":-1}`, `{"admission_ms":0.5}`, `{"admission_ms":00.5}`, `{"header":{}}`,
		`{"header":{"A":["b"],"A":["c"]}}`, `{"header":{"A":[]}}`, `{"header":{"A":["b",]}}`, `{"path":"a\u0041"}`, `{"path":"ä"}`, `{"streamed":false}`,
		`{"call":"a",}`, `{"call":"a"} `, `{"call":"a"}}`, `{"attempt":9223372036854775808}`, `{"CALL":"a"}`, `{"admission_ms":1e5}`, `{"call":"`, `{"call"`, `{"call":"a","call":"b"}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, ok := headText(text).start()
		if !ok {
			return
		}
		var want start
		if err := json.Unmarshal(text, &want); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, want %+v, %v", text, got, want, err)
		}
	})
}

func BenchmarkParseStart(b *testing.B) {
	s := usualStart()
	payload, err := appendStart(nil, &s, make([]byte, 1402))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := parseStart(payload); err != nil {
			b.Fatal(err)
		}
	}
}
