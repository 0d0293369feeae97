package adapters

import (
	"math/rand/v2"
	"strings"
	"testing"

	"headway/core"
)

// TestAlike holds a reader that knows the last chunk against readers that see
// each chunk as their first, over chunks that are alike and nearly alike.
func TestAlike(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	for range 2000 {
		job := &core.Job{Operation: core.OpGenerate, Streamed: true}
		known := Chat{}.Reader(job, &core.Offer{Provider: &core.Provider{}})
		bytes := 0
		for range 12 {
			piece := pick("a", "", " ", `\n`, `\u00e9`, `\"`, "x y", `","finish_reason":"stop`, `"},"x":{"content":"`, "}", "é", "\\", "\x01")
			data := `{"id":"` + pick("1", "1", "1", "2") + `","choices":[{"index":0,"delta":{` + pick(`"content":"`, `"content":"`, `"reasoning":"`, `"role":"assistant","content":"`) + piece + `"` +
				pick(``, ``, `,"refusal":"no"`, `,"reasoning_content":"r"`) + `},"finish_reason":` + pick(`null`, `null`, `null`, `"stop"`) + `}]` + pick(``, ``, ``, `,"usage":{"prompt_tokens":1}`, `,"error":{"message":"x"}`) + `}`
			if r.IntN(20) == 0 {
				data = data[:r.IntN(len(data))]
			}
			fresh := Chat{}.Reader(job, &core.Offer{Provider: &core.Provider{}})
			want := fresh.Read(&core.Frame{Data: []byte(data), Raw: []byte(data)})
			bytes += fresh.Answer().OutputBytes
			if got := known.Read(&core.Frame{Data: []byte(data), Raw: []byte(data)}); got != want {
				t.Fatalf("%s: marked %b, want %b", data, got, want)
			}
		}
		if got := known.Answer().OutputBytes; got != bytes {
			t.Fatalf("%d bytes of output, want %d", got, bytes)
		}
	}
}

func BenchmarkReadChatAlike(b *testing.B) {
	reader := Chat{}.Reader(&core.Job{Operation: core.OpGenerate}, &core.Offer{Provider: &core.Provider{}})
	data := `{"id":"chatcmpl-123456789","object":"chat.completion.chunk","created":1700000000,"model":"mini-2026","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"content":"` + strings.Repeat("w", 6) + `"},"logprobs":null,"finish_reason":null}]}`
	f := core.Frame{Data: []byte(data)}
	b.ReportAllocs()
	for b.Loop() {
		if reader.Read(&f) != core.MarkText {
			b.Fatal("not text")
		}
	}
}
