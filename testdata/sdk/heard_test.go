package sdktest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3"
	"google.golang.org/genai"
)

// heard is what an SDK made of one answer.
type heard struct {
	Events    []string // each event as the SDK read it; one for an unstreamed answer
	Text      string   // several choices are divided by |
	Reasoning string
	Refusal   string
	Tools     []tool
	Finish    string
	Usage     string
	Final     string // what the answer says as a whole, where its format repeats it at the end
	Refused   string // why the SDK's accumulator could not put the events together
	Err       string

	err    error
	id     string // x-request-id
	header http.Header
}

// tool is one call of a tool.
type tool struct{ Name, Arguments string }

// side is where an SDK's calls go: to Headway, or straight to the upstream.
type side struct {
	base, key string
	prefix    string             // of the models there
	each      func(event string) // told of each event of a stream, where set
}

// event takes one event of a stream.
func (s side) event(h *heard, raw string) {
	h.Events = append(h.Events, raw)
	if s.each != nil {
		s.each(raw)
	}
}

// tap is a transport that keeps the header of the last answer.
type tap struct {
	mu     sync.Mutex // guards header
	header http.Header
}

// RoundTrip is http.RoundTripper's.
func (p *tap) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err == nil {
		p.mu.Lock()
		p.header = resp.Header.Clone()
		p.mu.Unlock()
	}
	return resp, err
}

// close notes how a call ended.
func (p *tap) close(h *heard, err error) {
	p.mu.Lock()
	h.header, h.id = p.header, p.header.Get("X-Request-Id")
	p.mu.Unlock()
	h.err = err
	if err != nil {
		h.Err = errorText(err)
	}
}

// errorText is an error without what differs between two sides: the address and
// the name of the model there.
func errorText(err error) string {
	var o *openai.Error
	var a *anthropic.Error
	var g genai.APIError
	switch {
	case errors.As(err, &o):
		return fmt.Sprintf("openai %d %s %s %s %s", o.StatusCode, o.Type, o.Code, o.Param, o.Message)
	case errors.As(err, &a):
		return fmt.Sprintf("anthropic %d %s %s", a.StatusCode, a.Type(), strings.TrimSpace(a.RawJSON()))
	case errors.As(err, &g):
		return fmt.Sprintf("google %d %s %s", g.Code, g.Status, g.Message)
	}
	return err.Error()
}

// same compares two answers, and says what differs.
func same(t *testing.T, got, want *heard) {
	t.Helper()
	sameEvents(t, got.Events, want.Events)
	for _, f := range []struct{ what, got, want string }{
		{"text", got.Text, want.Text}, {"reasoning", got.Reasoning, want.Reasoning}, {"refusal", got.Refusal, want.Refusal},
		{"finish", got.Finish, want.Finish}, {"usage", got.Usage, want.Usage}, {"final answer", got.Final, want.Final},
		{"accumulator", got.Refused, want.Refused}, {"error", got.Err, want.Err},
	} {
		if f.got != f.want {
			t.Errorf("through Headway the %s is\n%s\nand straight from the upstream\n%s", f.what, short(f.got), short(f.want))
		}
	}
	if !reflect.DeepEqual(got.Tools, want.Tools) {
		t.Errorf("through Headway the tool calls are\n%v\nand straight from the upstream\n%v", got.Tools, want.Tools)
	}
}

func sameEvents(t *testing.T, got, want []string) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Errorf("through Headway event %d is\n%s\nand straight from the upstream\n%s", i, short(got[i]), short(want[i]))
			return
		}
	}
	if len(got) != len(want) {
		t.Errorf("through Headway there are %d events, and straight from the upstream %d", len(got), len(want))
	}
}

func short(s string) string {
	if len(s) > 1500 {
		return s[:1500] + "…"
	}
	return s
}

// compact is a JSON text without its white space, numbers as they are written.
func compact(raw string) string {
	var b strings.Builder
	d := json.NewDecoder(strings.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil || json.NewEncoder(&b).Encode(v) != nil {
		return raw
	}
	return strings.TrimSpace(b.String())
}
