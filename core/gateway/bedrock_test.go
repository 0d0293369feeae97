package gateway_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"headway/core"
)

// amazon is one of Amazon's formats as a provider speaks it.
type amazon struct {
	format core.Format
	stream []string // the messages of a good answer
	whole  string
	path   string // of an unstreamed call
}

func amazons(text string) []amazon {
	chunk := func(event string) string {
		return awsEvent("event", "chunk", `{"bytes":"`+base64.StdEncoding.EncodeToString([]byte(event))+`","p":"ab"}`)
	}
	said, _ := json.Marshal(text) // a string cannot fail
	invoke := amazon{format: core.FormatBedrock, path: "/model/mini/invoke", whole: fmt.Sprintf(`{"id":"msg_1","type":"message","role":"assistant","model":"mini","content":[{"type":"text","text":%s}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":8,"output_tokens":1}}`, said)}
	for _, event := range []string{
		`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"mini","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":8,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":` + string(said) + `}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":1}}`,
		`{"type":"message_stop","amazon-bedrock-invocationMetrics":{"inputTokenCount":8,"outputTokenCount":1}}`,
	} {
		invoke.stream = append(invoke.stream, chunk(event))
	}
	const usage = `"usage":{"inputTokens":8,"outputTokens":1,"totalTokens":9},"metrics":{"latencyMs":5}`
	return []amazon{invoke, {format: core.FormatConverse, path: "/model/mini/converse",
		whole: fmt.Sprintf(`{"output":{"message":{"role":"assistant","content":[{"text":%s}]}},"stopReason":"end_turn",%s}`, said, usage),
		stream: []string{awsEvent("event", "messageStart", `{"role":"assistant"}`), awsEvent("event", "contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":`+string(said)+`}}`),
			awsEvent("event", "contentBlockStop", `{"contentBlockIndex":0}`), awsEvent("event", "messageStop", `{"stopReason":"end_turn"}`), awsEvent("event", "metadata", `{`+usage+`}`)}}}
}

// awsEvent is a message of an AWS event stream.
func awsEvent(kind, name, payload string) string {
	m := eventstream.Message{Payload: []byte(payload)}
	m.Headers.Set(":message-type", eventstream.StringValue(kind))
	m.Headers.Set(":"+kind+"-type", eventstream.StringValue(name))
	var b bytes.Buffer
	if err := eventstream.NewEncoder().Encode(&b, m); err != nil {
		panic(err)
	}
	return b.String()
}

const awsHead = "HTTP/1.1 200 OK\r\nContent-Type: application/vnd.amazon.eventstream\r\nTransfer-Encoding: chunked\r\n\r\n"

// answers is an upstream that gives the first n messages of the stream, each cut
// in two, or the whole answer.
func (a amazon) answers(n int, more string, streamed bool) offer {
	if !streamed {
		return offer{name: "a", format: a.format, script: []step{{0, status(200, "", a.whole)}}}
	}
	script := []step{{0, awsHead}}
	for _, m := range append(a.stream[:n:n], more) {
		if half := len(m) / 2; half > 0 {
			script = append(script, step{10 * ms, chunk(m[:half])}, step{10 * ms, chunk(m[half:])})
		}
	}
	return offer{name: "a", format: a.format, script: append(script, step{10 * ms, lastChunk})}
}

// TestAmazon: every client reads an answer of either of Amazon's formats.
func TestAmazon(t *testing.T) {
	for _, a := range amazons("t\u00e9a \U0001F375") {
		for _, client := range wires() {
			for _, streamed := range []bool{true, false} {
				if client.name == "google array" && !streamed {
					continue
				}
				t.Run(fmt.Sprintf("%s to %s %v", client.name, a.format, streamed), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						r := newRig(t, nil, a.answers(len(a.stream), "", streamed))
						got := client.post(r, streamed)
						client.reads(t, got, "t\u00e9a \U0001F375", streamed)
						if strings.Contains(got.header.Get("Content-Type"), "amazon") {
							t.Errorf("the answer is %s", got.header.Get("Content-Type"))
						}
						rec := r.only()
						if rec.Outcome != core.Settled || rec.Usage.UncachedInput != core.Some[int64](8) || rec.Usage.Output != core.Some[int64](1) {
							t.Errorf("%s, usage %+v", rec.Outcome, rec.Usage)
						}
						if streamed && (rec.Timing.FirstText != core.Some(10.0) || rec.TextDeltas != core.Some[int64](1)) {
							t.Errorf("first text %v, %v text deltas", rec.Timing.FirstText, rec.TextDeltas)
						}
						sent := r.upstreams["a"].requests[0]
						want := a.path
						if streamed {
							want = map[core.Format]string{core.FormatBedrock: "/model/mini/invoke-with-response-stream", core.FormatConverse: "/model/mini/converse-stream"}[a.format]
						}
						if sent.URL.Path != want || sent.Header.Get("Authorization") != "Bearer sk-a" || !strings.Contains(r.upstreams["a"].bodies[0], prompt) {
							t.Errorf("%s %v %s", sent.URL, sent.Header, r.upstreams["a"].bodies[0])
						}
					})
				})
			}
		}
	}
}

// TestVertexErrors: an error of Google Cloud's own reaches Anthropic's client as
// one of Anthropic's, one of the model's as it is.
func TestVertexErrors(t *testing.T) {
	const own = `{"type":"error","error":{"type":"invalid_request_error","message":"no such thing"}}`
	for _, c := range []struct{ said, want string }{
		{own, own},
		{`{"error":{"code":404,"message":"no such model","status":"NOT_FOUND"}}`, `{"error":{"code":"NOT_FOUND","message":"a/mini: the upstream answered 404: no such model","type":"not_found_error"},"type":"error"}`},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, nil, offer{name: "a", format: core.FormatVertexAnthropic, script: []step{{0, status(404, "", c.said)}}})
			got := r.post("/v1/messages", `{"model":"mini","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}`)
			if got.status != 404 || strings.TrimSpace(got.body) != c.want {
				t.Errorf("%d %s, want %s", got.status, got.body, c.want)
			}
		})
	}
}

// TestAmazonErrors: what AWS says of an error reaches a client in its own format,
// before and within an answer, and not the provider's key.
func TestAmazonErrors(t *testing.T) {
	for _, a := range amazons("tea") {
		for _, client := range wires() {
			if client.name == "google array" {
				continue
			}
			t.Run(fmt.Sprintf("%s to %s", client.name, a.format), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, nil, offer{name: "a", format: a.format, script: []step{{0, status(400, "", `{"message":"no such sk-a thing"}`)}}})
					got := client.post(r, false)
					var body struct{ Error struct{ Message string } }
					if err := json.Unmarshal([]byte(got.body), &body); err != nil || got.status != 400 || !strings.Contains(body.Error.Message, "no such *** thing") {
						t.Errorf("%d %s", got.status, got.body)
					}
					if client.format == core.FormatAnthropic && !strings.Contains(got.body, `"invalid_request_error"`) {
						t.Errorf("no error of Anthropic's: %s", got.body)
					}
				})
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, nil, a.answers(3, awsEvent("exception", "throttlingException", `{"message":"slow down"}`), true))
					got := client.post(r, true)
					if read, err := client.sdk(got.body); err != nil || read.text != "tea" || read.ended || !strings.Contains(read.failed, "slow down") {
						t.Errorf("the client reads %+v, %v of %s", read, err, got.body)
					}
					if rec := r.only(); rec.Outcome != core.Failed {
						t.Errorf("the call is %s", rec.Outcome)
					}
				})
			})
		}
	}
}
