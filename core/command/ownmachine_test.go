package command_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// llamaServer answers as a llama-server does, with models as the test says.
type llamaServer struct {
	*httptest.Server
	going  chan struct{} // has one for each call that has its first words
	on     chan struct{} // lets one such go on
	mu     sync.Mutex    // guards models
	models []string
}

func newLlamaServer(t *testing.T) *llamaServer {
	l := &llamaServer{going: make(chan struct{}, 10), on: make(chan struct{})}
	mux := http.NewServeMux()
	say := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v) // the client may have left
	}
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		l.mu.Lock()
		defer l.mu.Unlock()
		data := []any{}
		for _, m := range l.models {
			data = append(data, map[string]any{"id": m, "object": "model", "owned_by": "llamacpp"})
		}
		say(w, map[string]any{"data": data})
	})
	mux.HandleFunc("GET /props", func(w http.ResponseWriter, _ *http.Request) {
		say(w, map[string]any{"total_slots": 2, "build_info": "b9000-test", "default_generation_settings": map[string]any{"n_ctx": 8192}})
	})
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for i, word := range []string{"one ", "two ", "three"} {
			fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q},\"finish_reason\":null}]}\n\n", word)
			w.(http.Flusher).Flush()
			if i == 0 && bytes.Contains(body, []byte("slowly")) {
				l.going <- struct{}{}
				select {
				case <-l.on:
				case <-r.Context().Done():
					return
				}
			}
		}
		fmt.Fprint(w, `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":50,"completion_tokens":3},`+
			`"timings":{"cache_n":0,"prompt_n":50,"prompt_ms":125,"prompt_per_second":400,"predicted_n":3,"predicted_ms":60,"predicted_per_second":50}}`+"\n\ndata: [DONE]\n\n")
	})
	l.Server = httptest.NewServer(mux)
	t.Cleanup(l.Close)
	return l
}

func (l *llamaServer) has(models ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.models = models
}

// TestOwnMachine is the life of one machine in processes of their own: it joins, its
// models come and go, it dies and is back, it is revoked.
func TestOwnMachine(t *testing.T) {
	const key = "key-of-this-test-0001"
	llama := newLlamaServer(t)
	llama.has("qwen")
	bin := buildHeadway(t)
	g := startGateway(t, bin, t.TempDir(), map[string]any{"listen": "127.0.0.1:0", "nats": map[string]any{"listen": "127.0.0.1:0"},
		"keys": []any{map[string]any{"name": "me", "key": key}}}, nil)
	call := func(model string) (status int, id string) {
		t.Helper()
		req, err := http.NewRequest(http.MethodPost, "http://"+g.addr+"/v1/chat/completions",
			strings.NewReader(`{"model":"`+model+`","stream":true,"messages":[{"role":"user","content":"good morning"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err == nil && resp.StatusCode == http.StatusOK && !bytes.Contains(body, []byte("[DONE]")) {
			t.Errorf("an answer without its end: %s", body)
		}
		return resp.StatusCode, resp.Header.Get("X-Request-Id")
	}
	// await waits until something holds, and tells how long that took.
	await := func(what string, holds func() bool) time.Duration {
		t.Helper()
		start := time.Now()
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for !holds() {
			if time.Since(start) > callLimit {
				t.Fatalf("%s: not within %v\n%s", what, callLimit, g.log.tail())
			}
			<-tick.C
		}
		return time.Since(start)
	}
	serves := func(model string) func() bool {
		return func() bool { status, _ := call(model); return status == http.StatusOK }
	}
	state := func() any {
		n, err := g.get("/admin/v1/nodes/gpu")
		if err != nil {
			t.Fatal(err)
		}
		return n["state"]
	}

	status, answer, err := g.admin(http.MethodPost, "/admin/v1/nodes", map[string]any{"name": "gpu"})
	var invited struct{ Join string }
	if err != nil || status != http.StatusCreated || json.Unmarshal(answer, &invited) != nil {
		t.Fatalf("status %d, %v: %s", status, err, answer)
	}
	file := nodeFile(t, map[string]any{"join": "${JOIN:-}", "data": "node", "upstreams": []any{map[string]any{"url": llama.URL}}})
	node := startWorker(t, bin, file, append(os.Environ(), "JOIN="+invited.Join))
	// What is asked for is 1 s, and 2 s after a kill; the machine may be busy.
	within := func(took, limit time.Duration, what string) {
		t.Helper()
		t.Logf("%s after %v", what, took.Round(time.Millisecond))
		if took > 5*limit {
			t.Errorf("%s after %v, want %v", what, took, limit)
		}
	}
	within(await("joining", serves("qwen")), time.Second, "a node that was started serves its first call")

	_, id := call("qwen")
	var receipt map[string]any
	await("the receipt", func() bool { receipt, err = g.get("/admin/v1/calls/" + id); return err == nil })
	for path, want := range map[string]string{"offer": "gpu/qwen", "node": "gpu", "outcome": "settled", "node_timing.figures_from": "server",
		"node_timing.prompt_ms": "125", "node_timing.decode_tps": "50", "node_timing.slot_wait_ms": "0", "usage.output_tokens": "3"} {
		if got := fmt.Sprint(lookUp(receipt, path)); got != want {
			t.Errorf("%s of the receipt is %s, want %s", path, got, want)
		}
	}
	out, err := exec.Command(bin, "trace", id, "--data", g.data).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "node gpu") || !strings.Contains(string(out), "ON THE CLOCK OF NODE gpu") {
		t.Errorf("%v: the trace is\n%s", err, out)
	}

	llama.has("qwen", "gemma")
	t.Logf("a model that was loaded is served after %v", await("gemma", serves("gemma")).Round(time.Millisecond))
	llama.has("gemma")
	t.Logf("one that was dropped is gone after %v", await("the end of qwen", func() bool { status, _ := call("qwen"); return status == http.StatusNotFound }).Round(time.Millisecond))

	if err := node.kill("KILL"); err != nil {
		t.Fatal(err)
	}
	t.Logf("killed, it is lost after %v", await("being lost", func() bool { return state() == "lost" }).Round(time.Millisecond))
	if status, _ := call("gemma"); status != http.StatusServiceUnavailable {
		t.Errorf("a call of a lost node's model has status %d", status)
	}
	node = startWorker(t, bin, file, slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "JOIN=") }))
	within(await("being back", serves("gemma")), 2*time.Second, "one that was killed and started again serves")

	if status, answer, err := g.admin(http.MethodDelete, "/admin/v1/nodes/gpu", nil); err != nil || status != http.StatusOK {
		t.Fatalf("status %d, %v: %s", status, err, answer)
	}
	revoked := time.Now()
	if status, _ := call("gemma"); status != http.StatusNotFound {
		t.Errorf("a call after the revocation has status %d", status)
	}
	select {
	case <-node.ended:
	case <-time.After(callLimit):
		t.Fatal("a revoked node goes on")
	}
	t.Logf("revoked, its process has ended after %v", time.Since(revoked).Round(time.Millisecond))
	if log := node.log.all(); node.cmd.ProcessState.ExitCode() != 1 || !strings.Contains(log, "headway: error: the edge has refused this node") ||
		!strings.Contains(log, "headway nodes enrol") {
		t.Errorf("it ended with %v:\n%s", node.cmd.ProcessState, log)
	}
	if err := g.stop(); err != nil {
		t.Error(err)
	}
}

// TestNodeStops: calls under way end as usual, and a second signal does not wait for
// them.
func TestNodeStops(t *testing.T) {
	const key = "key-of-this-test-0001"
	llama := newLlamaServer(t)
	llama.has("qwen")
	bin := buildHeadway(t)
	g := startGateway(t, bin, t.TempDir(), map[string]any{"listen": "127.0.0.1:0", "nats": map[string]any{"listen": "127.0.0.1:0"},
		"keys": []any{map[string]any{"name": "me", "key": key}}}, nil)
	status, answer, err := g.admin(http.MethodPost, "/admin/v1/nodes", map[string]any{"name": "gpu"})
	var invited struct{ Join string }
	if err != nil || status != http.StatusCreated || json.Unmarshal(answer, &invited) != nil {
		t.Fatalf("status %d, %v: %s", status, err, answer)
	}
	file := nodeFile(t, map[string]any{"join": "${JOIN}", "data": "node", "upstreams": []any{map[string]any{"url": llama.URL}}})
	for _, second := range []bool{false, true} {
		node := startWorker(t, bin, file, append(os.Environ(), "JOIN="+invited.Join))
		<-node.log.ready
		ended := make(chan string, 1)
		go func() {
			body := `{"model":"qwen","stream":true,"messages":[{"role":"user","content":"slowly"}]}`
			for {
				a := post("/v1/chat/completions", body, nil).send(t, g.addr, key, func() {})
				if a.status != http.StatusNotFound && a.status != http.StatusServiceUnavailable { // its offers take a moment
					ended <- string(a.body)
					return
				}
			}
		}()
		<-llama.going
		signal := func() {
			t.Helper()
			if err := node.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}
		signal()
		for end := time.Now().Add(callLimit); !strings.Contains(node.log.all(), "stopping"); <-time.After(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("it does not say that it stops:\n%s", node.log.tail())
			}
		}
		if second {
			signal()
		} else {
			llama.on <- struct{}{}
		}
		body, code := <-ended, 0
		if second {
			code = 1
		}
		if whole := strings.Contains(body, "three") && strings.HasSuffix(strings.TrimSpace(body), "[DONE]"); whole == second {
			t.Errorf("with a second signal %v: the call got\n%s", second, body)
		}
		select {
		case <-node.ended:
		case <-time.After(callLimit):
			t.Fatal("it does not end")
		}
		if got := node.cmd.ProcessState.ExitCode(); got != code {
			t.Errorf("with a second signal %v: exit code %d\n%s", second, got, node.log.tail())
		}
	}
}
