package adapters

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"headway/core"
)

// TestNothingBehindTheEnd: what an upstream says behind the end of its answer
// reaches no client.
func TestNothingBehindTheEnd(t *testing.T) {
	for _, side := range All() {
		to := side.Translator(&core.Job{Model: "m", Streamed: true}, time.Time{})
		if out := to.End(to.Event(nil, &core.Event{Kind: core.EventText, Text: []byte("a")}), &core.Answer{}); len(out) == 0 {
			t.Errorf("%s: nothing at all", side.Format())
		}
		for kind := core.EventStart; kind <= core.EventFinish; kind++ {
			if out := to.Event(nil, &core.Event{Kind: kind, Text: []byte("b"), Name: "f"}); len(out) > 0 {
				t.Errorf("%s: %s", side.Format(), out)
			}
		}
		if out := to.End(nil, &core.Answer{}); len(out) > 0 {
			t.Errorf("%s: ends again: %s", side.Format(), out)
		}
	}
}

// TestTranslationIsLinear: what waits behind a tool call whose arguments do not
// end costs no more the more of it there is. The times are far from both.
func TestTranslationIsLinear(t *testing.T) {
	arguments := []byte(`{\"a\":\"` + strings.Repeat("a", 4<<20))
	for _, side := range All() {
		to := side.Translator(&core.Job{Model: "m", Streamed: true}, time.Time{})
		start := time.Now()
		to.Event(nil, &core.Event{Kind: core.EventTool, ID: "1", Name: "f"})
		to.Event(nil, &core.Event{Kind: core.EventArguments, Text: arguments})
		for range 20_000 {
			to.Event(nil, &core.Event{Kind: core.EventText, Text: []byte("a")})
			to.Event(nil, &core.Event{Kind: core.EventReasoning, Text: []byte("b")})
		}
		to.End(nil, &core.Answer{})
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%s took %v", side.Format(), took)
		}
	}
	r := Anthropic{}.Reader(&core.Job{Streamed: true}, &core.Offer{Provider: &core.Provider{}})
	start := time.Now()
	for i := range 20_000 {
		events(r, `{"type":"content_block_start","index":`+strconv.Itoa(i)+`,"content_block":{"type":"text","text":""}}`)
	}
	events(r, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}`)
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("open blocks took %v", took)
	}
}

// events are those of one event of a stream.
func events(r core.Reader, data string) []core.Event {
	raw := []byte("data: " + data + "\n\n")
	f := core.Frame{Raw: raw, Data: raw[len("data: ") : len(raw)-2]}
	r.Read(&f)
	return r.Events(&f)
}
