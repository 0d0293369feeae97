package adapters_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"headway/adapters"
	"headway/core"
)

// TestChatDeltaAllocations: a delta that is like the one before costs nothing
// but the bytes that the client gets.
func TestChatDeltaAllocations(t *testing.T) {
	job := &core.Job{Operation: core.OpGenerate, Streamed: true, Model: "m"}
	r := adapters.Chat{}.Reader(job, chatServer("deepseek"))
	w := adapters.Chat{}.Translator(job, time.Unix(7, 0))
	data := `{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":" the"},"finish_reason":null}]}`
	f := core.Frame{Raw: []byte(data), Data: []byte(data)}
	out := make([]byte, 0, 4096)
	step := func() {
		r.Read(&f)
		for _, e := range r.Events(&f) {
			out = w.Event(out[:0], &e)
		}
	}
	step()
	if n := testing.AllocsPerRun(100, step); n > 0 {
		t.Errorf("%v allocations for a delta", n)
	}
	if want := `"delta":{"content":" the"},`; !strings.Contains(string(out), want) {
		t.Errorf("%s does not hold %s", out, want)
	}
}

// agentBody is a request of about n bytes such as agents send: long texts, many
// calls with their results.
func agentBody(n int) string {
	text, _ := json.Marshal(strings.Repeat("func main() {\n\tfmt.Println(\"hello\")\n}\n", n/400))
	args, _ := json.Marshal(`{"path":"a.go","content":` + string(text) + `}`)
	var b strings.Builder
	b.WriteString(`{"model":"m","stream":true,"messages":[{"role":"system","content":` + string(text) + `}`)
	for b.Len() < n {
		b.WriteString(`,{"role":"user","content":` + string(text) + `},{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"write","arguments":` + string(args) +
			`}}]},{"role":"tool","tool_call_id":"call_1","content":` + string(text) + `}`)
	}
	b.WriteString(`],"tools":[` + aTool + `]}`)
	return b.String()
}

func BenchmarkChatTranslate400KB(b *testing.B) {
	body := agentBody(400_000)
	job, err := adapters.Chat{}.Parse(core.RequestHead{Path: chatPath}, []byte(body))
	if err != nil {
		b.Fatal(err)
	}
	o := chatServer("")
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		c, err := adapters.Chat{}.Decode(job)
		if err != nil {
			b.Fatal(err)
		}
		if _, _, err := (adapters.Chat{}).Build(b.Context(), job, c, core.RequestHead{}, o); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkChatDelta(b *testing.B) {
	job := &core.Job{Operation: core.OpGenerate, Streamed: true, Model: "m"}
	r := adapters.Chat{}.Reader(job, chatServer(""))
	w := adapters.Chat{}.Translator(job, time.Unix(7, 0))
	data := `{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":" the"},"finish_reason":null}]}`
	f := core.Frame{Raw: []byte(data), Data: []byte(data)}
	b.ReportAllocs()
	for b.Loop() {
		r.Read(&f)
		for _, e := range r.Events(&f) {
			w.Event(nil, &e)
		}
	}
}
