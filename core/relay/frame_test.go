package relay_test

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"headway/core"
	"headway/core/relay"
)

type frame struct{ name, data string }

// split feeds a stream in pieces and gives its frames; raw is all their bytes.
func split(kind core.Splitting, pieces ...string) (frames []frame, raw string, err error) {
	s := relay.NewSplitter(kind, 1<<20)
	defer s.Release()
	var f core.Frame
	take := func() {
		raw += string(f.Raw)
		frames = append(frames, frame{f.Name, string(f.Data)})
	}
	for _, p := range pieces {
		for len(p) > 0 {
			room, err := s.Room()
			if err != nil {
				return frames, raw, err
			}
			n := copy(room, p)
			s.Filled(n)
			p = p[n:]
			for s.Next(&f) {
				take()
			}
		}
	}
	if s.Rest(&f) {
		take()
	}
	return frames, raw, nil
}

func TestSplitSSE(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []frame
	}{
		{"plain", "data: a\n\ndata: b\n\n", []frame{{"", "a"}, {"", "b"}}},
		{"named", "event: x\ndata: a\n\n", []frame{{"x", "a"}}},
		{"crlf", "data: a\r\n\r\ndata: b\r\n\r\n", []frame{{"", "a"}, {"", "b"}}},
		{"cr", "data: a\r\rdata: b\r\r", []frame{{"", "a"}, {"", "b"}}},
		{"mixed ends", "data: a\n\r\ndata: b\r\n\n", []frame{{"", "a"}, {"", "b"}}},
		{"no space", "data:a\n\n", []frame{{"", "a"}}},
		{"two spaces", "data:  a\n\n", []frame{{"", " a"}}},
		{"several lines", "data: a\ndata: b\ndata\ndata: c\n\n", []frame{{"", "a\nb\n\nc"}}},
		{"comment", ": hi\n\ndata: a\n\n", []frame{{"", ""}, {"", "a"}}},
		{"comment inside", "data: a\n: hi\ndata: b\n\n", []frame{{"", "a\nb"}}},
		{"other fields", "id: 1\nretry: 5\ndata: a\n\n", []frame{{"", "a"}}},
		{"empty data", "data:\n\ndata: a\n\n", []frame{{"", ""}, {"", "a"}}},
		{"byte order mark", "\xef\xbb\xbfdata: a\n\n", []frame{{"", "a"}}},
		{"no last blank line", "data: a\n\ndata: b\n", []frame{{"", "a"}, {"", "b"}}},
		{"no last line end", "data: a\n\ndata: b", []frame{{"", "a"}, {"", "b"}}},
		{"bare JSON at the end", "data: a\n\n{\n \"error\": {\"code\": 499}\n}", []frame{{"", "a"}, {"", "{\n \"error\": {\"code\": 499}\n}"}}},
		{"bare JSON between", "{\"error\":1}\n\ndata: a\n\n", []frame{{"", `{"error":1}`}, {"", "a"}}},
		{"a colon in the data", "data: a: b\n\n", []frame{{"", "a: b"}}},
		{"carriage return only inside", "data: a\rdata: b\n\n", []frame{{"", "a\nb"}}},
	} {
		got, raw, err := split(core.SplitSSE, c.in)
		if err != nil || raw != c.in || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %q, raw %q, %v", c.name, got, raw, err)
		}
		for i := range c.in {
			for j := i; j < len(c.in); j++ {
				if got, raw, _ := split(core.SplitSSE, c.in[:i], c.in[i:j], c.in[j:]); raw != c.in || !reflect.DeepEqual(got, c.want) {
					t.Fatalf("%s cut at %d and %d: got %q, raw %q", c.name, i, j, got, raw)
				}
			}
		}
	}
}

func TestSplitArray(t *testing.T) {
	in := "[{\"a\":\"}]\\\"\"}\n,\r\n{\"b\":[1,{\"c\":2}]}\n]\n"
	want := []frame{{"", `{"a":"}]\""}`}, {"", `{"b":[1,{"c":2}]}`}, {"", ""}}
	for i := range in {
		for j := i; j < len(in); j++ {
			if got, raw, _ := split(core.SplitArray, in[:i], in[i:j], in[j:]); raw != in || !reflect.DeepEqual(got, want) {
				t.Fatalf("cut at %d and %d: got %q, raw %q", i, j, got, raw)
			}
		}
	}
}

func TestSplitLargeEvents(t *testing.T) {
	big := strings.Repeat("x", 600<<10)
	got, raw, err := split(core.SplitSSE, "data: "+big+"\n\ndata: b\n\n")
	if err != nil || len(raw) != len(big)+8+9 || len(got) != 2 || got[0].data != big || got[1].data != "b" {
		t.Errorf("600 KiB event: %d frames, %d bytes, %v", len(got), len(raw), err)
	}
	if _, _, err := split(core.SplitSSE, "data: "+strings.Repeat("x", 2<<20)); err != relay.ErrEventTooLarge {
		t.Errorf("an event over the limit: %v", err)
	}
}

// TestSplitManyLines: a stream costs what it is long, however it ends its lines.
func TestSplitManyLines(t *testing.T) {
	const lines = 600_000 // looking at the rest again for each of them took half a minute
	for _, in := range []string{strings.Repeat("a\r", lines), strings.Repeat("\r", lines), strings.Repeat("data:\r", lines), strings.Repeat("\r\n", lines)} {
		s := relay.NewSplitter(core.SplitSSE, 16<<20)
		var f core.Frame
		for pieces := []string{"data: " + strings.Repeat("x", 4<<20) + "\n\n", in}; len(pieces) > 0; {
			room, err := s.Room()
			if err != nil {
				t.Fatal(err)
			}
			n := copy(room, pieces[0])
			if pieces[0] = pieces[0][n:]; pieces[0] == "" {
				pieces = pieces[1:]
			}
			s.Filled(n)
			start := time.Now()
			for s.Next(&f) {
			}
			if d := time.Since(start); d > 3*time.Second {
				t.Errorf("%.8q… took %v", in, d)
			}
		}
		s.Release()
	}
}

func FuzzSplit(f *testing.F) {
	f.Add("data: a\r\n\r\n: c\ndata: b\n\n", uint16(3), uint16(9))
	f.Add("[{\"a\":1},{\"b\":2}]", uint16(1), uint16(5))
	f.Add(message(f, `{"a":1}`, ":message-type", "event", ":event-type", "x")+message(f, "{}"), uint16(4), uint16(30))
	f.Fuzz(func(t *testing.T, in string, a, b uint16) {
		i := int(a) % (len(in) + 1)
		j := i + int(b)%(len(in)-i+1)
		for _, kind := range []core.Splitting{core.SplitSSE, core.SplitArray, core.SplitLines, core.SplitAWS} {
			whole, raw, err := split(kind, in)
			if err == nil && raw != in {
				t.Fatalf("bytes changed: %q to %q", in, raw)
			}
			if cut, _, _ := split(kind, in[:i], in[i:j], in[j:]); fmt.Sprint(said(cut)) != fmt.Sprint(said(whole)) {
				t.Fatalf("cut at %d and %d: %q, whole %q", i, j, cut, whole)
			}
		}
	})
}

// said leaves out frames that say nothing: a line end split in two may make one,
// and what follows a broken message comes as it was read.
func said(all []frame) (kept []frame) {
	for i, f := range all {
		if f != (frame{}) && !(f.name == core.BrokenFrame && i > 0 && all[i-1] == f) {
			kept = append(kept, f)
		}
	}
	return kept
}

func TestArrivalsVectors(t *testing.T) {
	data, err := os.ReadFile("../../testdata/vectors/arrivals.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		TimesMS []json.Number `json:"times_ms"`
		Want    int64
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		var a relay.Arrivals
		for _, ms := range c.TimesMS {
			d, err := time.ParseDuration(ms.String() + "ms")
			if err != nil {
				t.Fatal(err)
			}
			a.Add(d)
		}
		if a.Count() != c.Want {
			t.Errorf("case %d: %d arrivals, want %d", i, a.Count(), c.Want)
		}
	}
	if len(cases) == 0 {
		t.Error("no cases")
	}
}

func BenchmarkSplit(b *testing.B) {
	event := "data: {\"id\":\"cc-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"mini\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word \"},\"finish_reason\":null}]}\n\n"
	s := relay.NewSplitter(core.SplitSSE, 1<<20)
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
