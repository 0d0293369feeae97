package command_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// What the tests of the whole program share: kill_test.go, privacy_test.go,
// stop_test.go and firsthour_test.go run the built binary as its users do.

// built is the binary, made once for all tests.
var built struct {
	once sync.Once
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// buildHeadway builds the binary, once.
func buildHeadway(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "headway-test-"); built.err != nil {
			return
		}
		cmd := exec.Command("go", "build", "-o", filepath.Join(built.dir, "headway"), ".")
		cmd.Dir = moduleRoot
		if out, err := cmd.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.dir, "headway")
}

// wire is what these tests say and answer in one format.
type wire struct {
	format string // of the provider
	ask    func(model, prompt string, streamed bool) (path, body string)
	// open goes before a stream's first output, end behind its last.
	open            string
	text, arguments func(string) string // events with visible text, with a tool's arguments
	end             string
	whole           func(text, arguments string) string
	failure         func(message string) string // an error's body
	broken          func(message string) string // an error as an event of a stream
}

// last is the event that a complete stream ends with.
func (f *wire) last() string {
	events := strings.SplitAfter(f.end, "\n\n")
	return events[len(events)-2]
}

func quoted(s string) string {
	out, _ := json.Marshal(s)
	return string(out)
}

func data(s string) string { return "data: " + s + "\n\n" }

func named(name, s string) string { return "event: " + name + "\ndata: " + s + "\n\n" }

// wires are the four formats of clients.
func wires() []wire {
	return []wire{chatWire(3, 5), responsesWire(), messagesWire(), googleWire()}
}

// chatWire reports the usage that is given.
func chatWire(input, output int) wire {
	usage := fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, input, output, input+output)
	chunk := func(delta, finish string) string {
		return data(`{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}]}`)
	}
	calls := func(arguments string) string {
		return `"tool_calls":[{"index":0,"id":"t1","type":"function","function":{"name":"look","arguments":` + quoted(arguments) + `}}]`
	}
	failure := func(m string) string { return `{"error":{"message":` + quoted(m) + `,"type":"api_error"}}` }
	return wire{
		format: "openai",
		ask: func(model, prompt string, streamed bool) (string, string) {
			return "/v1/chat/completions", fmt.Sprintf(`{"model":%s,"stream":%v,"messages":[{"role":"user","content":%s}]}`, quoted(model), streamed, quoted(prompt))
		},
		open:      chunk(`{"role":"assistant","content":""}`, "null"),
		text:      func(s string) string { return chunk(`{"content":`+quoted(s)+`}`, "null") },
		arguments: func(s string) string { return chunk(`{`+calls(s)+`}`, "null") },
		end:       chunk(`{}`, `"stop"`) + data(`{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":`+usage+`}`) + data("[DONE]"),
		whole: func(text, arguments string) string {
			return `{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":` + quoted(text) + `,` +
				calls(arguments) + `},"finish_reason":"stop"}],"usage":` + usage + `}`
		},
		failure: failure,
		broken:  func(m string) string { return data(failure(m)) },
	}
}

func responsesWire() wire {
	response := func(status, output string) string {
		return `{"id":"r1","object":"response","created_at":1,"model":"m","status":"` + status + `","output":[` + output + `],"usage":{"input_tokens":3,"output_tokens":5,"total_tokens":8}}`
	}
	failure := func(m string) string {
		return `{"error":{"message":` + quoted(m) + `,"type":"server_error","code":null}}`
	}
	return wire{
		format: "openai-responses",
		ask: func(model, prompt string, streamed bool) (string, string) {
			return "/v1/responses", fmt.Sprintf(`{"model":%s,"stream":%v,"input":%s}`, quoted(model), streamed, quoted(prompt))
		},
		open: named("response.created", `{"type":"response.created","sequence_number":0,"response":`+response("in_progress", "")+`}`),
		text: func(s string) string {
			return named("response.output_text.delta", `{"type":"response.output_text.delta","sequence_number":1,"item_id":"i1","output_index":0,"content_index":0,"delta":`+quoted(s)+`}`)
		},
		arguments: func(s string) string {
			return named("response.function_call_arguments.delta", `{"type":"response.function_call_arguments.delta","sequence_number":2,"item_id":"i2","output_index":1,"delta":`+quoted(s)+`}`)
		},
		end: named("response.completed", `{"type":"response.completed","sequence_number":3,"response":`+response("completed", "")+`}`),
		whole: func(text, arguments string) string {
			return response("completed", `{"id":"i1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":`+quoted(text)+`,"annotations":[]}]},`+
				`{"id":"i2","type":"function_call","call_id":"t1","name":"look","status":"completed","arguments":`+quoted(arguments)+`}`)
		},
		failure: failure,
		broken: func(m string) string {
			return named("error", `{"type":"error","sequence_number":2,"code":"server_error","message":`+quoted(m)+`,"param":null}`)
		},
	}
}

func messagesWire() wire {
	failure := func(m string) string {
		return `{"type":"error","error":{"type":"api_error","message":` + quoted(m) + `}}`
	}
	return wire{
		format: "anthropic",
		ask: func(model, prompt string, streamed bool) (string, string) {
			return "/v1/messages", fmt.Sprintf(`{"model":%s,"stream":%v,"max_tokens":50,"messages":[{"role":"user","content":%s}]}`, quoted(model), streamed, quoted(prompt))
		},
		open: named("message_start", `{"type":"message_start","message":{"id":"m1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":1}}}`) +
			named("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`),
		text: func(s string) string {
			return named("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":`+quoted(s)+`}}`)
		},
		arguments: func(s string) string {
			return named("content_block_stop", `{"type":"content_block_stop","index":0}`) +
				named("content_block_start", `{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t1","name":"look","input":{}}}`) +
				named("content_block_delta", `{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":`+quoted(s)+`}}`)
		},
		end: named("message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":5}}`) +
			named("message_stop", `{"type":"message_stop"}`),
		whole: func(text, arguments string) string {
			return `{"id":"m1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":` + quoted(text) + `},{"type":"tool_use","id":"t1","name":"look","input":{"q":` +
				quoted(arguments) + `}}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":5}}`
		},
		failure: failure,
		broken:  func(m string) string { return named("error", failure(m)) },
	}
}

func googleWire() wire {
	answer := func(parts, more string) string {
		return `{"candidates":[{"index":0,"content":{"role":"model","parts":[` + parts + `]}` + more + `}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":5,"totalTokenCount":8},"modelVersion":"m"}`
	}
	text := func(s string) string { return `{"text":` + quoted(s) + `}` }
	call := func(s string) string { return `{"functionCall":{"name":"look","args":{"q":` + quoted(s) + `}}}` }
	failure := func(m string) string {
		return `{"error":{"code":500,"message":` + quoted(m) + `,"status":"INTERNAL"}}`
	}
	return wire{
		format: "google",
		ask: func(model, prompt string, streamed bool) (string, string) {
			method := ":generateContent"
			if streamed {
				method = ":streamGenerateContent?alt=sse"
			}
			return "/v1beta/models/" + model + method, `{"contents":[{"role":"user","parts":[{"text":` + quoted(prompt) + `}]}]}`
		},
		text:      func(s string) string { return data(answer(text(s), "")) },
		arguments: func(s string) string { return data(answer(call(s), "")) },
		end:       data(answer(text(""), `,"finishReason":"STOP"`)),
		whole:     func(s, arguments string) string { return answer(text(s)+","+call(arguments), `,"finishReason":"STOP"`) },
		failure:   failure,
		broken:    func(m string) string { return data(failure(m)) },
	}
}

// modelServer is an upstream of all formats. It hands each call to answer, with
// the model that it is for and whether a stream is asked for.
func modelServer(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, body []byte, model string, streamed bool)) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		var q struct {
			Model  string
			Stream bool
		}
		_ = json.Unmarshal(body, &q)
		if name, ok := strings.CutPrefix(r.URL.Path, "/v1beta/models/"); ok {
			var method string
			q.Model, method, _ = strings.Cut(name, ":")
			q.Stream = method == "streamGenerateContent"
		}
		answer(w, r, body, q.Model, q.Stream)
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

// begin sends the head of a stream, and its first events.
func begin(w http.ResponseWriter, events ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	send(w, events...)
}

func send(w http.ResponseWriter, events ...string) {
	for _, e := range events {
		_, _ = io.WriteString(w, e)
	}
	_ = http.NewResponseController(w).Flush()
}

// asking is a provider of the file or of the admin API with one offer for each
// model, at a server of modelServer.
func asking(id, format, server string, models ...string) map[string]any {
	if strings.HasPrefix(format, "openai") {
		server += "/v1"
	}
	var offers []any
	for _, m := range models {
		offers = append(offers, map[string]any{"model": m, "input_usd_per_mtok": "1.25", "output_usd_per_mtok": "3.5"})
	}
	return map[string]any{"id": id, "format": format, "base_url": server, "offers": offers}
}

// call makes a call; the answer's body is the caller's to read and close.
func (g *gateway) call(client *http.Client, key, path, body string, headers ...string) (*http.Response, error) {
	req, err := http.NewRequest(http.MethodPost, "http://"+g.addr+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return client.Do(req)
}

// patient is a client for one call after another.
func patient(t *testing.T) *http.Client {
	transport := &http.Transport{MaxIdleConnsPerHost: 32}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 2 * callLimit}
}

// readUntil reads until a text has come.
func readUntil(body io.Reader, text string) (string, error) {
	var all []byte
	buf := make([]byte, 4<<10)
	for !bytes.Contains(all, []byte(text)) {
		n, err := body.Read(buf)
		all = append(all, buf[:n]...)
		if err != nil && !bytes.Contains(all, []byte(text)) {
			return string(all), fmt.Errorf("%q did not come: %w", text, err)
		}
	}
	return string(all), nil
}

// kill ends the gateway with SIGKILL.
func (g *gateway) kill() {
	_ = g.cmd.Process.Kill()
	<-g.ended
}

// file is the configuration that it was started with.
func (g *gateway) file() string { return g.cmd.Args[3] }

// receipt waits for the receipt of a call and gives its bytes.
func (g *gateway) receipt(id string) ([]byte, error) {
	var status int
	var raw []byte
	err := poll(func() (err error) {
		if status, raw, err = g.admin(http.MethodGet, "/admin/v1/calls/"+id, nil); err == nil && status != http.StatusOK {
			err = fmt.Errorf("the receipt of call %s: status %d: %s", id, status, raw)
		}
		return err
	})
	return raw, err
}

// poll asks again until there is no error, callLimit long.
func poll(ask func() error) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(callLimit); ; <-tick.C {
		err := ask()
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}

// headway runs a command and gives its exit code and what it printed.
func headway(bin, dir string, env []string, args ...string) (code int, stdout, stderr string) {
	cmd := exec.Command(bin, args...)
	cmd.Dir = dir
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "HEADWAY_") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	cmd.Env = append(cmd.Env, env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return -1, "", err.Error()
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}
