package sdktest

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	adminToken = "admin-token-0123456789"
	callerKey  = "hw-caller-key-0123456789"
	// secretWord is in every prompt that the tests write themselves, and must be
	// nowhere in Headway's log.
	secretWord = "quetzalcoatlus"
)

// headway is a running server.
type headway struct {
	base string
	log  *output
}

// output collects what a process prints.
type output struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (o *output) line(s string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.WriteString(s + "\n")
}

// String is all that was printed so far.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// offered is one model of the configuration, at a provider of its own, so that
// what happens to one leaves the others alone.
type offered struct {
	name, format, dialect string
	upstream              string // the upstream's name for it, where that is another
	cheap                 bool   // it is asked first where the model has another offer
}

// startHeadway is serve for models that one upstream has.
func startHeadway(t *testing.T, up string, models []offered) *headway {
	t.Helper()
	return serve(t, configuration(up, models))
}

// serve builds the binary, writes the configuration and waits until the server
// listens.
func serve(t *testing.T, config string) *headway {
	t.Helper()
	dir := t.TempDir()
	binary := filepath.Join(dir, "headway")
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	file := filepath.Join(dir, "headway.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "serve", "--config", file, "--data", filepath.Join(dir, "data"))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HEADWAY_ADMIN_TOKEN="+adminToken)
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h := &headway{log: &output{}}
	listening, ended := make(chan string, 1), make(chan error, 1)
	var printed sync.WaitGroup
	printed.Go(func() {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			h.log.line(lines.Text())
			if _, addr, ok := strings.Cut(lines.Text(), "listening on "); ok {
				select {
				case listening <- strings.Fields(addr)[0]:
				default:
				}
			}
		}
	})
	go func() {
		err := cmd.Wait()
		_ = w.Close()
		ended <- err
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case err := <-ended:
			printed.Wait()
			if err != nil {
				t.Errorf("the server ended with %v", err)
			}
		case <-time.After(30 * time.Second):
			_ = cmd.Process.Kill()
			t.Error("the server did not stop within 30 s")
		}
		checkLog(t, h.log.String())
	})
	select {
	case addr := <-listening:
		h.base = "http://" + addr
	case err := <-ended:
		printed.Wait()
		t.Fatalf("the server ended with %v:\n%s", err, h.log)
	case <-time.After(60 * time.Second):
		t.Fatalf("the server does not listen:\n%s", h.log)
	}
	return h
}

// checkLog holds what the server printed against what it must never print.
func checkLog(t *testing.T, log string) {
	for line := range strings.Lines(log) {
		if strings.Contains(line, "level=ERROR") || strings.Contains(line, `"level":"ERROR"`) || strings.Contains(line, "panic") {
			t.Errorf("the server printed %s", line)
		}
	}
	for _, secret := range []string{providerKey, callerKey, adminToken, secretWord} {
		if strings.Contains(log, secret) {
			t.Errorf("the server printed %q", secret)
		}
	}
}

func configuration(up string, models []offered) string {
	var b strings.Builder
	fmt.Fprintf(&b, "listen: 127.0.0.1:0\nadmin_token: ${HEADWAY_ADMIN_TOKEN}\n")
	// Each offer fails in more than one test; none may be out in the next.
	fmt.Fprintf(&b, "breaker: {within: 1ms, out: 1ms}\n")
	fmt.Fprintf(&b, "keys:\n  - {name: sdk, key: %s}\nproviders:\n", callerKey)
	for i, m := range models {
		base := up
		if m.format == "openai" || m.format == "openai-responses" {
			base += "/v1"
		}
		fmt.Fprintf(&b, "  - id: p%d\n    format: %s\n    base_url: %s\n    api_key: %s\n", i, m.format, base, providerKey)
		if dialect := strings.ToLower(m.dialect); dialect != "" && !strings.ContainsAny(dialect, "._ ") {
			fmt.Fprintf(&b, "    dialect: %s\n", dialect)
		}
		output := "2"
		if m.cheap {
			output = "1"
		}
		fmt.Fprintf(&b, "    offers:\n      - model: %s\n        upstream_model: %s\n        input_usd_per_mtok: \"1\"\n        output_usd_per_mtok: %q\n",
			m.name, viaModel+cmp.Or(m.upstream, m.name), output)
	}
	return b.String()
}

// receipt is what the tests look at of GET /admin/v1/calls/ID.
type receipt struct {
	ID, Outcome, Offer string
	Status             int
	Streamed           bool
	FinishReason       string `json:"finish_reason"`
	UsageFrom          string `json:"usage_from"`
	Usage              struct {
		Uncached  *int64 `json:"uncached_input_tokens"`
		Read      *int64 `json:"cache_read_tokens"`
		Write     *int64 `json:"cache_write_tokens"`
		Output    *int64 `json:"output_tokens"`
		Reasoning *int64 `json:"reasoning_tokens"`
	}
	Charge *json.Number `json:"charge_usd"`
	Timing struct {
		FirstResponse *float64 `json:"first_response_ms"`
		FirstText     *float64 `json:"first_text_delta_ms"`
		FirstToken    *float64 `json:"first_token_ms"`
	}
	Attempts []struct {
		Offer, Error, Outcome string
		Status                int
	}
	raw string
}

// receipt waits until a call's receipt is acknowledged.
func (h *headway) receipt(t *testing.T, id string) *receipt {
	t.Helper()
	if id == "" {
		t.Fatal("the answer had no x-request-id")
	}
	deadline := time.Now().Add(20 * time.Second)
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		status, body := h.admin(t, "/admin/v1/calls/"+id)
		if status == http.StatusOK {
			r := &receipt{raw: string(body)}
			if err := json.Unmarshal(body, r); err != nil {
				t.Fatalf("receipt %s: %v", body, err)
			}
			if r.Outcome != "" {
				return r
			}
		} else if status != http.StatusNotFound {
			t.Fatalf("receipt of %s: %d %s", id, status, body)
		}
		if time.Now().After(deadline) {
			t.Fatalf("call %s has no receipt: %d %s", id, status, body)
		}
		<-time.After(wait)
	}
}

// lastCall waits for a receipt of a model that is asked for once, and gives the
// call's id.
func (h *headway) lastCall(t *testing.T, model string) string {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		status, body := h.admin(t, "/admin/v1/calls?model="+url.QueryEscape(model))
		var list struct{ Items []struct{ ID string } }
		if err := json.Unmarshal(body, &list); status != http.StatusOK || err != nil {
			t.Fatalf("calls of %s: %d %s", model, status, body)
		}
		if len(list.Items) > 0 {
			return list.Items[0].ID
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s has no call", model)
		}
		<-time.After(wait)
	}
}

func (h *headway) admin(t *testing.T, path string) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+adminToken)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, body
}

// held compares a receipt with what is known of the recording that answered.
func (r *receipt) held(t *testing.T, l *label) {
	t.Helper()
	if r.FinishReason != l.FinishReason {
		t.Errorf("the receipt's finish is %q, want %q", r.FinishReason, l.FinishReason)
	}
	if r.Streamed != l.Streamed {
		t.Errorf("the receipt says streamed: %v", r.Streamed)
	}
	if want := l.Streamed && l.FirstOutput != nil; (r.Timing.FirstResponse != nil) != want {
		t.Errorf("the receipt has a first response: %v, want %v", !want, want)
	}
	if want := l.Streamed && l.FirstText != nil; (r.Timing.FirstText != nil) != want {
		t.Errorf("the receipt has a first text: %v, want %v", !want, want)
	}
	if r.Charge == nil {
		t.Error("the receipt has no charge")
	}
	u := l.Usage
	if u == nil {
		if r.UsageFrom == "provider" {
			t.Error("the receipt's usage is from a provider that reported none")
		}
		return
	}
	got := r.Usage
	if sum := value(got.Uncached) + value(got.Read) + value(got.Write); u.AllInput != nil && *u.AllInput > 0 && sum != *u.AllInput {
		t.Errorf("the receipt has %d input tokens, want %d", sum, *u.AllInput)
	}
	if fresh := value(got.Uncached) + value(got.Write); u.Fresh != nil && *u.Fresh > 0 && fresh != *u.Fresh {
		t.Errorf("the receipt has %d fresh input tokens, want %d", fresh, *u.Fresh)
	}
	if u.AllOutput != nil && value(got.Output) != *u.AllOutput && !slices.Contains(u.AllOutputAlso, value(got.Output)) {
		t.Errorf("the receipt has %d output tokens, want %d", value(got.Output), *u.AllOutput)
	}
	if u.Cached != nil && value(got.Read) != *u.Cached {
		t.Errorf("the receipt has %d tokens read from the cache, want %d", value(got.Read), *u.Cached)
	}
	if u.Reasoning != nil && value(got.Reasoning) != *u.Reasoning {
		t.Errorf("the receipt has %d reasoning tokens, want %d", value(got.Reasoning), *u.Reasoning)
	}
}

func value(p *int64) int64 {
	if p == nil {
		return 0
	}
	return *p
}
