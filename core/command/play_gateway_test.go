package command_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// moduleRoot is where go.mod is, from this package's folder.
const moduleRoot = "../.."

// caseSecrets are the random credentials of one run of a case, by the name of
// their placeholder or environment variable.
type caseSecrets map[string]string

func newSecrets(c *faultCase) caseSecrets {
	s := caseSecrets{"CLIENT_KEY": rand.Text(), "HEADWAY_ADMIN_TOKEN": rand.Text()}
	for _, o := range c.Given.Setup.Offers {
		s["UPSTREAM_KEY_"+o.Name] = rand.Text()
	}
	if k := c.Given.Setup.AdminKey; k != nil && *k == "" {
		delete(s, "HEADWAY_ADMIN_TOKEN")
	}
	return s
}

// settings are the cases' names of settings that are not those of the file.
var settings = map[string][2]string{
	"cooldown_ms":          {"breaker", "out"},
	"max_retry_after_ms":   {"breaker", "max_retry_after"},
	"header_timeout_ms":    {"limits", "header_timeout"},
	"stream_idle_ms":       {"limits", "stream_idle"},
	"client_write_ms":      {"limits", "client_write"},
	"hook_ms":              {"limits", "script"},
	"log_level":            {"log", "level"},
	"store_log_file_bytes": {"store", "log_file_bytes"},
	"heartbeat_ms":         {"nats", "heartbeat"},
	"heartbeat_misses":     {"nats", "heartbeat_misses"},
}

// configuration is the case's headway.yaml. It is written as JSON, which YAML
// includes, so that no name of a case needs quoting.
func configuration(c *faultCase, upstreams map[string]*mockUpstream) (map[string]any, error) {
	setup := c.Given.Setup
	providers := []any{}
	for i, o := range setup.Offers {
		if o.Worker != nil {
			continue // startWorkers has them
		}
		address := o.BaseURL
		if m := upstreams[o.Name]; m != nil {
			address = "http://" + m.addr()
		}
		p, err := provider(o.Name, o.Format, address)
		if err != nil {
			return nil, err
		}
		p["api_key"] = "${UPSTREAM_KEY_" + o.Name + "}"
		var offers []any
		for _, model := range c.models(o) {
			o.Model = model
			offers = append(offers, offer(o, i+1))
		}
		p["offers"] = offers
		providers = append(providers, p)
	}
	key := map[string]any{"name": "client", "key": "${CLIENT_KEY}"}
	for _, k := range setup.Keys {
		if len(k.Models) > 0 {
			key["models"] = k.Models
		}
		for name, v := range map[string]json.Number{"budget_usd_per_day": k.BudgetUSD, "requests_per_minute": k.RPM, "max_parallel": k.MaxParallel} {
			if v != "" {
				key[name] = v
			}
		}
	}
	file := map[string]any{
		"listen":      "127.0.0.1:0",
		"admin_token": "${HEADWAY_ADMIN_TOKEN}",
		"routing":     map[string]any{"strategy": or(setup.Strategy, "cheapest")},
		"limits":      map[string]any{"drain": "5s"},
		"log":         map[string]any{"level": "debug"}, // what may not be logged may not be at any level
		"nats":        map[string]any{"listen": "127.0.0.1:0"},
		"providers":   providers,
		"keys":        []any{key},
	}
	for name, v := range setup.Config {
		at, known := settings[name]
		if !known {
			return nil, fmt.Errorf("setup.config.%s: no such setting is known", name)
		}
		section, ok := file[at[0]].(map[string]any)
		if !ok {
			section = map[string]any{}
			file[at[0]] = section
		}
		if strings.HasSuffix(name, "_ms") {
			section[at[1]] = string(v) + "ms"
		} else {
			section[at[1]] = v
		}
	}
	return file, nil
}

// provider is a provider of the file or of the admin API at an address without
// a version, which the OpenAI formats have in theirs (SPEC §24).
func provider(name, format, address string) (map[string]any, error) {
	wire, ok := wireFormats[format]
	if !ok {
		return nil, fmt.Errorf("format %q is not known", format)
	}
	if strings.HasPrefix(wire, "openai") {
		address = strings.TrimRight(address, "/") + "/v1"
	}
	return map[string]any{"id": name, "format": wire, "base_url": address}, nil
}

// offer is an offer of the file; without prices of its own it costs more than
// those before it, so that "cheapest" tries them in order.
func offer(o caseOffer, position int) map[string]any {
	if o.Order > 0 {
		position = o.Order
	}
	out := map[string]any{
		"model":               o.Model,
		"input_usd_per_mtok":  fmt.Sprint(position),
		"output_usd_per_mtok": fmt.Sprint(position),
		"upstream_model":      o.Model,
	}
	if p := o.Prices; p != nil {
		p.write(out)
		if p.Above != nil {
			above := map[string]any{"input_tokens": p.Above.InputTokens}
			p.Above.write(above)
			out["above"] = above
		}
	}
	return out
}

func (p *casePrices) write(to map[string]any) {
	for name, v := range map[string]json.Number{
		"input_usd_per_mtok": p.Input, "output_usd_per_mtok": p.Output, "cache_read_usd_per_mtok": p.CacheRead,
		"cache_write_usd_per_mtok": p.CacheWrite5m, "cache_write_1h_usd_per_mtok": p.CacheWrite1h,
	} {
		if v != "" {
			to[name] = string(v)
		}
	}
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// gateway is a running `headway serve`.
type gateway struct {
	addr  string
	data  string
	log   *gatewayLog
	token string
	cmd   *exec.Cmd
	ended chan struct{} // closed once the process is gone
}

// startGateway starts the binary on a free port and waits until it is ready.
// The process ends with the test at the latest.
func startGateway(t *testing.T, bin, data string, config map[string]any, secrets caseSecrets) *gateway {
	t.Helper()
	file := filepath.Join(t.TempDir(), "headway.yaml")
	text, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	g := &gateway{data: data, log: &gatewayLog{ready: make(chan string, 1)}, ended: make(chan struct{})}
	g.cmd = exec.Command(bin, "serve", "--config", file, "--data", data)
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "HEADWAY_") {
			g.cmd.Env = append(g.cmd.Env, e)
		}
	}
	for name, value := range secrets {
		g.cmd.Env = append(g.cmd.Env, name+"="+value)
	}
	g.cmd.Stdout, g.cmd.Stderr = g.log, g.log
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { g.cmd.Wait(); close(g.ended) }()
	t.Cleanup(func() { g.cmd.Process.Kill(); <-g.ended })
	select {
	case g.addr = <-g.log.ready:
	case <-g.ended:
		t.Fatalf("the gateway did not start:\n%s", g.log.tail())
	case <-time.After(callLimit):
		t.Fatalf("the gateway was not ready after %v:\n%s", callLimit, g.log.tail())
	}
	g.token = secrets["HEADWAY_ADMIN_TOKEN"]
	if g.token == "" {
		made, err := os.ReadFile(filepath.Join(data, "admin-token"))
		if err != nil {
			t.Errorf("an admin token that the gateway made: %v", err)
		}
		g.token = strings.TrimSpace(string(made))
	}
	return g
}

// alive tells whether the process that was started still runs.
func (g *gateway) alive() bool {
	select {
	case <-g.ended:
		return false
	default:
		return true
	}
}

// stop ends the gateway the way a service manager does; an error says that it
// had gone before, hung, or ended with a fault.
func (g *gateway) stop() error {
	if !g.alive() {
		return fmt.Errorf("the gateway ended on its own: %s", g.cmd.ProcessState)
	}
	g.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-g.ended:
	case <-time.After(callLimit):
		return errors.New("the gateway does not stop")
	}
	if code := g.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("the gateway stopped with exit code %d", code)
	}
	return nil
}

// admin makes an admin call and gives its status and body.
func (g *gateway) admin(method, path string, body any) (int, []byte, error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return 0, nil, err
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequest(method, "http://"+g.addr+path, content)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+g.token)
	req.Header.Set("Content-Type", "application/json")
	req.Close = true // nothing is kept open that a stop would have to wait for
	client := http.Client{Timeout: callLimit}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	return resp.StatusCode, out, err
}

// get reads what an admin path answers, as JSON with numbers as text.
func (g *gateway) get(path string) (map[string]any, error) {
	status, body, err := g.admin(http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("GET %s: status %d: %s", path, status, body)
	}
	var out map[string]any
	err = decodeJSON(body, &out)
	return out, err
}

// items reads the items of a list.
func (g *gateway) items(path string) ([]map[string]any, error) {
	list, err := g.get(path)
	if err != nil {
		return nil, err
	}
	items, ok := list["items"].([]any)
	if !ok {
		return nil, fmt.Errorf("GET %s: no items in %s", path, show(list))
	}
	out := make([]map[string]any, len(items))
	for i, item := range items {
		out[i], _ = item.(map[string]any)
	}
	return out, nil
}

func decodeJSON(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d.Decode(into)
}

// gatewayLog keeps all that the gateway writes and finds the address in it.
type gatewayLog struct {
	ready chan string

	mu    sync.Mutex // guards the fields below
	text  []byte
	found bool
}

// listening is what a gateway says once it is ready, and what a node says.
var listening = regexp.MustCompile(`listening on ([0-9a-fA-F.:\[\]]+:[0-9]+)[^0-9]|serving [0-9]+ models? as ([a-z0-9-]+)\n`)

func (l *gatewayLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	if m := listening.FindSubmatch(l.text); m != nil && !l.found {
		l.found = true
		l.ready <- string(m[1]) + string(m[2])
	}
	return len(p), nil
}

func (l *gatewayLog) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

func (l *gatewayLog) tail() string {
	s := l.all()
	return s[max(0, len(s)-4000):]
}
