package relay_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"headway/core"
	"headway/core/relay"
)

// message is one of an AWS event stream, written by AWS's own encoder; headers
// are names and values.
func message(t testing.TB, payload string, headers ...string) string {
	t.Helper()
	m := eventstream.Message{Payload: []byte(payload)}
	for i := 0; i < len(headers); i += 2 {
		m.Headers.Set(headers[i], eventstream.StringValue(headers[i+1]))
	}
	return encoded(t, m)
}

func encoded(t testing.TB, m eventstream.Message) string {
	t.Helper()
	var b bytes.Buffer
	if err := eventstream.NewEncoder().Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestSplitAWS(t *testing.T) {
	event := message(t, `{"a":1}`, ":event-type", "contentBlockDelta", ":content-type", "application/json", ":message-type", "event")
	all := eventstream.Message{Payload: []byte("x")}
	for _, v := range []eventstream.Value{eventstream.BoolValue(true), eventstream.BoolValue(false), eventstream.Int8Value(1), eventstream.Int16Value(2),
		eventstream.Int32Value(3), eventstream.Int64Value(4), eventstream.BytesValue("bytes"), eventstream.TimestampValue{}, eventstream.UUIDValue{1}} {
		all.Headers.Set(v.String(), v)
	}
	all.Headers.Set(":event-type", eventstream.StringValue("chunk"))
	for _, c := range []struct {
		name, in string
		want     []frame
	}{
		{"events", event + event, []frame{{"contentBlockDelta", `{"a":1}`}, {"contentBlockDelta", `{"a":1}`}}},
		{"no headers, no payload", message(t, "") + event, []frame{{"", ""}, {"contentBlockDelta", `{"a":1}`}}},
		{"every type of header", encoded(t, all), []frame{{"chunk", "x"}}},
		{"an exception", message(t, `{"message":"m"}`, ":message-type", "exception", ":exception-type", "throttlingException"), []frame{{":exception:throttlingException", `{"message":"m"}`}}},
		{"an error without a model", message(t, "", ":message-type", "error", ":error-code", "InternalFailure", ":error-message", `say "no"`), []frame{{":exception:InternalFailure", `{"message":"say \"no\""}`}}},
		{"cut off", event + event[:len(event)-1], []frame{{"contentBlockDelta", `{"a":1}`}, {core.BrokenFrame, ""}}},
		{"a wrong length", event + "\x00\x00\x00\x10" + event[4:], []frame{{"contentBlockDelta", `{"a":1}`}, {core.BrokenFrame, ""}}},
		{"a wrong checksum", event + event[:40] + "!" + event[41:] + event, []frame{{"contentBlockDelta", `{"a":1}`}, {core.BrokenFrame, ""}}},
		{"no event stream", "HTTP/1.1 500 Internal Server Error", []frame{{core.BrokenFrame, ""}}},
	} {
		for i := range c.in {
			for _, j := range []int{i, min(i+1, len(c.in)), min(i+20, len(c.in))} {
				got, raw, err := split(core.SplitAWS, c.in[:i], c.in[i:j], c.in[j:])
				if err != nil || raw != c.in || !reflect.DeepEqual(said(got), said(c.want)) {
					t.Fatalf("%s cut at %d and %d: got %q, %v", c.name, i, j, got, err)
				}
			}
		}
	}
}

func TestSplitAWSLimits(t *testing.T) {
	big := message(t, strings.Repeat("x", 600<<10), ":event-type", "chunk")
	if got, _, err := split(core.SplitAWS, big+message(t, "b")); err != nil || len(got) != 2 || len(got[0].data) != 600<<10 || got[1].data != "b" {
		t.Errorf("600 KiB message: %d frames, %v", len(got), err)
	}
	// A length over the limit is not waited for, and one that no checksum vouches
	// for is not believed.
	large := message(t, strings.Repeat("x", 2<<20))
	if _, _, err := split(core.SplitAWS, large[:12], "x"); err != relay.ErrEventTooLarge {
		t.Errorf("a message over the limit: %v", err)
	}
	if got, _, _ := split(core.SplitAWS, "\x7f\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00"); len(got) != 1 || got[0].name != core.BrokenFrame {
		t.Errorf("a length without its checksum: %q", got)
	}
}

// FuzzSplitAWS holds the splitter against AWS's own decoder.
func FuzzSplitAWS(f *testing.F) {
	f.Add([]byte(message(f, `{"a":1}`, ":message-type", "event", ":event-type", "x")))
	f.Add([]byte(message(f, "", ":message-type", "error", ":error-code", "x")))
	f.Fuzz(func(t *testing.T, in []byte) {
		got, _, err := split(core.SplitAWS, string(in))
		if err != nil {
			return
		}
		r := bytes.NewReader(in)
		for _, frame := range got {
			m, err := eventstream.NewDecoder().Decode(r, nil)
			switch {
			case frame.name == core.BrokenFrame:
				if err == nil && len(m.Payload) > 0 && r.Len() > 0 {
					t.Fatalf("AWS reads %q where the splitter does not", m.Payload)
				}
				return
			case err != nil:
				t.Fatalf("%q is read where AWS does not: %v", frame, err)
			case !strings.HasPrefix(frame.name, core.ExceptionFrame) && string(m.Payload) != frame.data:
				t.Fatalf("payload %q, AWS reads %q", frame.data, m.Payload)
			}
			if v := m.Headers.Get(":event-type"); v != nil && !strings.HasPrefix(frame.name, core.ExceptionFrame) && v.String() != frame.name {
				t.Fatalf("named %q, AWS reads %q", frame.name, v)
			}
		}
	})
}

func TestSplitLines(t *testing.T) {
	for in, want := range map[string][]frame{
		"{\"a\":1}\n{\"b\":2}\n":         {{"", `{"a":1}`}, {"", `{"b":2}`}},
		"\n {\"a\":1} \r\n\r\n{\"b\":2}": {{"", `{"a":1}`}, {"", `{"b":2}`}},
		"{\"a\":1}\n\n":                  {{"", `{"a":1}`}, {"", ""}},
	} {
		for i := range in {
			for j := i; j < len(in); j++ {
				if got, raw, err := split(core.SplitLines, in[:i], in[i:j], in[j:]); err != nil || raw != in || !reflect.DeepEqual(got, want) {
					t.Fatalf("%q cut at %d and %d: got %q, raw %q, %v", in, i, j, got, raw, err)
				}
			}
		}
	}
	big := strings.Repeat("x", 600<<10)
	if got, _, err := split(core.SplitLines, big+"\n"+big); err != nil || len(got) != 2 || got[1].data != big {
		t.Errorf("long lines: %d, %v", len(got), err)
	}
	if _, _, err := split(core.SplitLines, strings.Repeat("x", 3<<20)); err != relay.ErrEventTooLarge {
		t.Errorf("a line over the limit: %v", err)
	}
}

func BenchmarkSplitAWS(b *testing.B) {
	event := message(b, `{"contentBlockIndex":0,"delta":{"text":" word"},"p":"abcdefghijklmnopqrstuvwxyz"}`, ":event-type", "contentBlockDelta",
		":content-type", "application/json", ":message-type", "event")
	s := relay.NewSplitter(core.SplitAWS, 1<<20)
	var f core.Frame
	b.ReportAllocs()
	for b.Loop() {
		room, _ := s.Room()
		s.Filled(copy(room, event))
		if !s.Next(&f) {
			b.Fatal("no frame")
		}
	}
}
