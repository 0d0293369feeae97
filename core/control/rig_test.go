package control_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"headway/adapters"
	"headway/conf"
	"headway/core"
	"headway/core/command"
	"headway/core/control"
	"headway/core/estimate"
	"headway/core/gateway"
	"headway/core/ledger"
	"headway/core/measure"
	"headway/core/seal"
	"headway/embedded/sim"
	"headway/embedded/store"
	"headway/scripts"
)

const (
	clientKey  = "hw_test_0000000000000000000"
	adminToken = "the-admin-token-of-this-test"
)

// file is the configuration of the rig; UPSTREAM is a simulated provider.
const file = `
listen: 127.0.0.1:0
data: ./data
providers:
  - id: fast
    format: openai
    base_url: UPSTREAM/v1
    api_key: file-secret-1
    region: eu
    offers:
      - {model: small, input_usd_per_mtok: "1", output_usd_per_mtok: "2", capacity: 64, aliases: [tiny]}
      - {model: large, input_usd_per_mtok: "3", output_usd_per_mtok: "6.5"}
  - id: slow
    format: openai
    base_url: UPSTREAM/v1
    offers:
      - {model: small, input_usd_per_mtok: "2", output_usd_per_mtok: "4"}
keys:
  - {name: ci, key: ` + clientKey + `, models: [small]}
`

// rig is a whole server without its listeners.
type rig struct {
	t        *testing.T
	dir      string
	path     string // of the file
	upstream string
	now      time.Time                 // zero: the clock's own
	hands    atomic.Pointer[time.Time] // goes before now, and may be set while the writer runs
	signed   bool                      // receipts are
	sealer   *seal.Sealer
	log      bytes.Buffer
	store    *store.Store
	gateway  *gateway.Gateway
	scripts  *scripts.Folder
	desk     *control.Desk
	stop     func()
	onWrite  func() error // what a write into the vault says before it is made
	fleet    *fleet
	gate     *gate
}

// vault is the rig's store, whose Write can be made to fail.
type vault struct {
	core.Vault
	r *rig
}

func (v vault) Write(puts, deletes []core.Record) error {
	if v.r.onWrite != nil {
		if err := v.r.onWrite(); err != nil {
			return err
		}
	}
	return v.Vault.Write(puts, deletes)
}

func newRig(t *testing.T) *rig {
	t.Helper()
	config := sim.Default()
	config.Base, config.OutputTPS, config.PrefillTPS, config.OutputTokens = 0, 1e6, 1e6, 20
	provider, err := sim.New(config)
	if err != nil {
		t.Fatal(err)
	}
	up := httptest.NewServer(provider.Handler(time.Now))
	t.Cleanup(up.Close)
	dir := t.TempDir()
	r := &rig{t: t, dir: dir, path: filepath.Join(dir, "headway.yaml"), upstream: up.URL, fleet: &fleet{}, gate: &gate{}}
	r.write(file)
	r.start()
	t.Cleanup(func() { r.stop() })
	return r
}

// write puts a file in the place of the configuration.
func (r *rig) write(text string) {
	r.t.Helper()
	if err := os.WriteFile(r.path, []byte(r.fill(text)), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) fill(text string) string { return strings.ReplaceAll(text, "UPSTREAM", r.upstream) }

func (r *rig) clock() time.Time {
	if at := r.hands.Load(); at != nil {
		return *at
	}
	if r.now.IsZero() {
		return time.Now()
	}
	return r.now
}

// open makes all parts on the rig's data folder, up to the desk.
func (r *rig) open() error {
	f, err := conf.Load(r.path, nil)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(&r.log, nil))
	if r.store, err = store.Open(f.Data, store.Options{Clock: r.clock, Log: log}); err != nil {
		return err
	}
	running := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = func() {
		cancel()
		if err := <-running; err != nil {
			r.t.Error(err)
		}
		if err := r.store.Close(); err != nil {
			r.t.Error(err)
		}
		r.stop = func() {}
	}
	secrets, err := command.OpenSecrets(f, r.store)
	if err != nil {
		return err
	}
	board, err := measure.NewBoard(r.clock, r.store)
	if err != nil {
		return err
	}
	accounts, err := ledger.LoadAccounts(r.store)
	if err != nil {
		return err
	}
	tally, err := ledger.LoadTally(r.store, r.store, r.clock)
	if err != nil {
		return err
	}
	estimator, err := estimate.New(r.clock, r.store)
	if err != nil {
		return err
	}
	recorders := core.Recorders{board, accounts, tally, estimator}
	if r.signed {
		if r.sealer, err = command.OpenReceiptLog(f, r.store, r.store, &secrets.Pepper, r.clock, log); err != nil {
			return err
		}
		recorders = append(recorders, r.sealer)
	}
	r.store.SetRecorder(recorders)
	go func() { running <- r.store.Run(ctx) }()
	keys, transports := ledger.NewKeys(&secrets.Pepper), gateway.NewTransports()
	r.t.Cleanup(transports.Close)
	r.scripts = scripts.Open(f.Scripts, r.clock, log)
	r.gateway = gateway.New(gateway.Parts{Clock: r.clock, Log: log, Adapters: adapters.All(), Keys: keys, Book: r.store, Board: board, Estimator: estimator, Accounts: accounts,
		Scripts: r.scripts, Dialer: transports, Metrics: gateway.NewMetrics()})
	r.desk, err = control.NewDesk(control.Parts{Clock: r.clock, Log: log, Gateway: r.gateway, Keys: keys, Pepper: &secrets.Pepper,
		AdminToken: core.NewSecret(adminToken), Vault: vault{r.store, r}, Book: r.store, Store: r.store, Receipts: r.sealer, Board: board, Accounts: accounts, Tally: tally, Scripts: r.scripts,
		Fleet: r.fleet, Gate: r.gate, Parse: command.Parsers(r.path), Version: "test"})
	if err != nil {
		return err
	}
	return r.desk.Apply(command.Config(f))
}

func (r *rig) start() {
	r.t.Helper()
	if err := r.open(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) restart() {
	r.t.Helper()
	r.stop()
	r.start()
}

// admin makes a call of the admin API and gives its status and body.
func (r *rig) admin(method, path, body string) (int, map[string]any) {
	r.t.Helper()
	status, text := serve(r.desk.Local(), method, "/admin/v1/"+path, body, "")
	var v map[string]any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		r.t.Fatalf("%s %s: not JSON: %s", method, path, text)
	}
	return status, v
}

// must is admin that has to succeed.
func (r *rig) must(method, path, body string) map[string]any {
	r.t.Helper()
	status, v := r.admin(method, path, body)
	if status/100 != 2 {
		r.t.Fatalf("%s %s: status %d: %v", method, path, status, v)
	}
	return v
}

// refused checks the status and a part of the message of a refused call.
func (r *rig) refused(method, path, body string, status int, say string) {
	r.t.Helper()
	got, v := r.admin(method, path, body)
	e, _ := v["error"].(map[string]any)
	if got != status || !strings.Contains(fmt.Sprint(e["message"]), say) || e["type"] == nil {
		r.t.Errorf("%s %s %s: status %d %v, want %d and %q", method, path, body, got, v, status, say)
	}
}

func (r *rig) items(path string) []map[string]any {
	r.t.Helper()
	var out []map[string]any
	for _, v := range r.must("GET", path, "")["items"].([]any) {
		out = append(out, v.(map[string]any))
	}
	return out
}

// item is the one item of a list with that id.
func (r *rig) item(path, id string) map[string]any {
	r.t.Helper()
	for _, v := range r.items(path) {
		if v["id"] == id {
			return v
		}
	}
	return nil
}

func serve(h http.Handler, method, path, body, authorization string) (int, string) {
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	out, _ := io.ReadAll(w.Result().Body)
	return w.Code, string(out)
}

// call makes a model call and gives its status and id, once its receipt is there
// where it has one.
func (r *rig) call(key, model string, headers ...string) (int, string) {
	r.t.Helper()
	req := httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(
		`{"model":"`+model+`","stream":true,"messages":[{"role":"user","content":"good morning"}]}`))
	req.Header.Set("Authorization", "Bearer "+key)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	r.gateway.ServeHTTP(w, req)
	id := w.Header().Get("X-Request-Id")
	if w.Header().Get("X-Headway-Offer") != "" {
		r.receipt(id)
	}
	return w.Code, id
}

// receipt waits for a durable receipt.
func (r *rig) receipt(id string) map[string]any {
	r.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); ; <-tick.C {
		if status, v := r.admin("GET", "calls/"+id, ""); status == http.StatusOK {
			return v
		}
		if time.Now().After(end) {
			r.t.Fatalf("call %s has no receipt", id)
		}
	}
}

// keep puts a receipt into the store, as a call would.
func (r *rig) keep(c *core.Receipt) {
	r.t.Helper()
	c.SettledAt = c.At
	if c.Kind == "" {
		c.Kind = core.KindJob
	}
	if c.Outcome == "" {
		c.Outcome = core.Settled
	}
	c.ID = core.NewCallID(c.At)
	if c.Job == "" {
		c.Job = core.JobID(c.ID)
	}
	if err := r.store.Open(core.Intent{ID: c.ID, Job: c.Job, Kind: c.Kind, At: c.At, Model: c.Model}); err != nil {
		r.t.Fatal(err)
	}
	done := make(chan struct{})
	r.store.Append(c, func() { close(done) })
	<-done
}
