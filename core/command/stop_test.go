package command_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const stopKey = "stop-key-0123456789"

// stopRig is a gateway whose provider of each format leaves its streams open
// after their first output; those of the model "held" go on once release is
// closed.
type stopRig struct {
	*gateway
	bin     string
	config  map[string]any
	client  *http.Client
	release chan struct{}
}

func newStopRig(t *testing.T, drain string) *stopRig {
	r := &stopRig{bin: buildHeadway(t), client: patient(t), release: make(chan struct{})}
	var providers []any
	for _, f := range wires() {
		s := modelServer(t, func(w http.ResponseWriter, q *http.Request, _ []byte, model string, _ bool) {
			begin(w, f.open, f.text("half"))
			if model != "held-"+f.format {
				<-q.Context().Done()
				return
			}
			select {
			case <-r.release:
				send(w, f.text(" and whole"), f.end)
			case <-q.Context().Done():
			}
		})
		providers = append(providers, asking(f.format, f.format, s.URL, "open-"+f.format, "held-"+f.format))
	}
	r.config = map[string]any{"listen": "127.0.0.1:0", "limits": map[string]any{"drain": drain}, "providers": providers,
		"keys": []any{map[string]any{"name": "caller", "key": stopKey}}}
	r.gateway = startGateway(t, r.bin, t.TempDir(), r.config, nil)
	return r
}

// open begins a stream and reads its first output.
func (r *stopRig) open(t *testing.T, f wire, model string) *http.Response {
	t.Helper()
	path, body := f.ask(model+"-"+f.format, "tell me", true)
	resp, err := r.call(r.client, stopKey, path, body)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if _, err := readUntil(resp.Body, "half"); err != nil {
		t.Fatalf("%s: %v", f.format, err)
	}
	return resp
}

// terminate sends SIGTERM and waits until no new connection is taken.
func (r *stopRig) terminate(t *testing.T) {
	t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	err := poll(func() error {
		conn, err := net.Dial("tcp", r.addr)
		if err != nil {
			return nil
		}
		conn.Close()
		return fmt.Errorf("a connection is still taken")
	})
	if err != nil {
		t.Fatal(err)
	}
}

// exit waits for the end of the process and gives its exit code.
func (r *stopRig) exit(t *testing.T, within time.Duration) int {
	t.Helper()
	select {
	case <-r.ended:
	case <-time.After(within):
		t.Fatalf("the gateway still runs after %v:\n%s", within, r.log.tail())
	}
	return r.cmd.ProcessState.ExitCode()
}

// TestStopDrains: a stop takes no new calls, lets open ones end, and cuts off
// those that do not, each with an error that its client can read and a receipt.
func TestStopDrains(t *testing.T) {
	r := newStopRig(t, "4s")
	var held, cut []*http.Response
	for _, f := range wires() {
		held, cut = append(held, r.open(t, f, "held")), append(cut, r.open(t, f, "open"))
	}
	r.terminate(t)
	code, out, errs := headway(r.bin, t.TempDir(), nil, "status", "--data", r.data)
	if code != 0 || !strings.Contains(out, "open calls  8") {
		t.Errorf("headway status during a stop: exit code %d\n%s%s", code, out, errs)
	}
	close(r.release)
	for i, f := range wires() {
		rest, err := io.ReadAll(held[i].Body)
		if err != nil || !strings.Contains(string(rest), "and whole") || !strings.HasSuffix(string(rest), f.last()) {
			t.Errorf("%s: the stream that ended in time: %v\n%s", f.format, err, rest)
		}
	}
	for i, f := range wires() {
		rest, err := io.ReadAll(cut[i].Body)
		a := clientAnswer{call: &caseCall{Path: cut[i].Request.URL.Path}, header: cut[i].Header, body: rest}
		if said := a.read(); err != nil || !said.InStream || !strings.Contains(said.Error, "stopping") {
			t.Errorf("%s: the stream that did not end: %v\n%s", f.format, err, rest)
		}
		if strings.Contains(string(rest), f.last()) {
			t.Errorf("%s: the stream that was cut off looks complete:\n%s", f.format, rest)
		}
	}
	if code := r.exit(t, callLimit); code != 0 {
		t.Errorf("exit code %d\n%s", code, r.log.tail())
	}
	if strings.Contains(r.log.all(), `"level":"ERROR"`) {
		t.Errorf("a stop is no error, the log says\n%s", r.log.all())
	}

	r.gateway = startGateway(t, r.bin, r.data, r.config, nil)
	check := func(resp *http.Response, outcome, why string) {
		raw, err := r.receipt(resp.Header.Get("X-Request-Id"))
		if err != nil {
			t.Fatal(err)
		}
		var c struct {
			Outcome  string
			Status   int
			Attempts []struct{ Outcome, Error string }
		}
		if err := decodeJSON(raw, &c); err != nil {
			t.Fatal(err)
		}
		if c.Outcome != outcome || c.Status != http.StatusOK || len(c.Attempts) != 1 || c.Attempts[0].Error != why {
			t.Errorf("want outcome %s because of %q, the receipt is %s", outcome, why, raw)
		}
	}
	for i := range wires() {
		check(held[i], "settled", "")
		check(cut[i], "failed", "stopping")
	}
	offers, err := r.items("/admin/v1/offers")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range offers {
		if o["state"] != "active" {
			t.Errorf("offer %v is %v: a stop is not its fault", o["id"], o["state"])
		}
	}
}

// TestSecondSignal: a second signal ends the process at once, and the next start
// accounts for what was open.
func TestSecondSignal(t *testing.T) {
	r := newStopRig(t, "10m")
	f := wires()[0]
	resp := r.open(t, f, "open")
	r.terminate(t)
	select {
	case <-r.ended:
		t.Fatalf("the gateway did not wait for its open call:\n%s", r.log.tail())
	default:
	}
	if err := r.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := r.exit(t, callLimit); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	r.gateway = startGateway(t, r.bin, r.data, r.config, nil)
	raw, err := r.receipt(resp.Header.Get("X-Request-Id"))
	if err != nil || !strings.Contains(string(raw), `"outcome":"lost"`) {
		t.Errorf("the receipt is %s (error %v), want outcome lost", raw, err)
	}
}

// TestHangup: SIGHUP puts a good file into force, and nothing of a bad one.
func TestHangup(t *testing.T) {
	r := newStopRig(t, "1s")
	text, err := os.ReadFile(r.file())
	if err != nil {
		t.Fatal(err)
	}
	hangup := func(file, says string) {
		t.Helper()
		if err := os.WriteFile(r.file(), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		said := strings.Count(r.log.all(), says)
		if err := r.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		err := poll(func() error {
			if strings.Count(r.log.all(), says) == said {
				return fmt.Errorf("the log does not say %q again:\n%s", says, r.log.tail())
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	offers := func() string {
		t.Helper()
		list, err := r.items("/admin/v1/offers")
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, o := range list {
			ids = append(ids, fmt.Sprint(o["id"]))
		}
		return strings.Join(ids, " ")
	}

	before := offers()
	good := strings.Replace(string(text), "held-google", "fresh-google", 1)
	hangup(good, "the configuration was reloaded")
	after := offers()
	if after != strings.Replace(before, "held-google", "fresh-google", 1) {
		t.Errorf("the offers are %s after a good file", after)
	}

	// One line is wrong; another, before it, would change what is served.
	lines := strings.Split(strings.Replace(good, "fresh-google", "later-google", 1), "\n")
	at, column := 0, 0
	for i, line := range lines {
		if column = strings.Index(line, `"drain"`); column >= 0 {
			lines[i], at = strings.Replace(line, `"drain"`, `"drian"`, 1), i
			break
		}
	}
	hangup(strings.Join(lines, "\n"), "the configuration was not reloaded")
	if where := fmt.Sprintf("%s:%d:%d: ", r.file(), at+1, column+1); !strings.Contains(r.log.all(), where) || !strings.Contains(r.log.all(), "drian") {
		t.Errorf("the log does not say %s and what is wrong there:\n%s", where, r.log.tail())
	}
	if now := offers(); now != after {
		t.Errorf("the offers are %s after a bad file, want %s", now, after)
	}
	r.open(t, wires()[3], "open") // and it still serves

	// Broken off in the middle, as an editor leaves it for a moment.
	hangup(good[:len(good)/2], "the configuration was not reloaded")
	if now := offers(); now != after {
		t.Errorf("the offers are %s after half a file, want %s", now, after)
	}
	if !r.alive() {
		t.Error("the gateway ended")
	}
}

// TestStartIsRefused: what is in use by another process is named, and the other
// process is left alone.
func TestStartIsRefused(t *testing.T) {
	r := newStopRig(t, "1s")
	other := t.TempDir()
	for _, c := range []struct {
		name string
		args []string
		says []string
	}{
		{"data folder", []string{"--data", r.data}, []string{r.data + " is in use by another process of headway", fmt.Sprintf("hint: stop process %d", r.cmd.Process.Pid)}},
		{"port", []string{"--data", other, "--listen", r.addr}, []string{"listen " + r.addr, "address already in use", "hint: set another address with --listen"}},
		{"port again", []string{"--data", other, "--listen", r.addr}, []string{"address already in use"}}, // and not the folder
		{"address", []string{"--data", other, "--listen", "192.0.2.1:0"}, []string{"listen 192.0.2.1:0", "cannot assign requested address"}},
		{"no port", []string{"--data", other, "--listen", "localhost"}, []string{"--listen", "host:port"}},
		{"file", []string{"--data", filepath.Join(r.file(), "data")}, []string{filepath.Join(r.file(), "data"), "not a directory"}},
	} {
		code, out, errs := headway(r.bin, t.TempDir(), nil, append([]string{"serve", "--config", r.file()}, c.args...)...)
		want := 1
		if c.name == "no port" {
			want = 2
		}
		if code != want || !strings.HasPrefix(errs, "headway: error: ") || strings.Contains(out, "listening on") {
			t.Errorf("%s: exit code %d\n%s%s", c.name, code, out, errs)
		}
		for _, words := range c.says {
			if !strings.Contains(errs, words) {
				t.Errorf("%s: it does not say %q:\n%s", c.name, words, errs)
			}
		}
	}
	r.open(t, wires()[0], "open")
	if code, out, errs := headway(r.bin, t.TempDir(), nil, "status", "--data", r.data); code != 0 || !strings.Contains(out, r.addr) {
		t.Errorf("the first one's socket: exit code %d\n%s%s", code, out, errs)
	}
	second := startGateway(t, r.bin, t.TempDir(), r.config, nil)
	if second.addr == r.addr || strings.HasSuffix(second.addr, ":0") {
		t.Errorf("port 0 gave %s to one and %s to another", r.addr, second.addr)
	}
}
