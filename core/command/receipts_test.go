package command_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"headway/core/seal"
)

// TestReceipts makes calls through the built binary, kills it in between, and checks
// what it exports as somebody else would: with the command, with the verifier of
// RECEIPT.md, and against a checkpoint that was kept.
func TestReceipts(t *testing.T) {
	server := modelServer(t, func(w http.ResponseWriter, r *http.Request, body []byte, _ string, _ bool) {
		w.Header().Set("Content-Type", "application/json")
		send(w, chatWire(100, 1+len(body)%50).whole("ok", "{}"))
	})
	const key = "receipts-key-0123456789"
	config := map[string]any{"listen": "127.0.0.1:0", "log": map[string]any{"level": "warn"}, "providers": []any{asking("near", "openai", server.URL, "small")},
		"keys": []any{map[string]any{"name": "caller", "key": key, "owner": "team-secret"}}}
	bin, data, client := buildHeadway(t), t.TempDir(), patient(t)
	dir := t.TempDir()
	calls := func(g *gateway, n int) (last string) {
		t.Helper()
		return g.greetings(t, client, key, n)
	}
	run := func(want int, args ...string) string {
		t.Helper()
		cmd := exec.Command(bin, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != want {
			t.Fatalf("headway %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}

	g := startGateway(t, bin, data, config, nil)
	calls(g, 290) // more than a tile
	g.awaitLeaves(t, client, 291)
	logs := g.receiptLogs(t, client)
	vkey, saved := logs.Key, filepath.Join(dir, "saved.checkpoint")
	month := logs.Items[len(logs.Items)-1].Log
	write(t, saved, []byte(logs.Items[len(logs.Items)-1].Checkpoint))
	last := calls(g, 1)
	g.kill()
	g = startGateway(t, bin, data, config, nil)
	calls(g, 5)
	g.awaitLeaves(t, client, 297) // the call before the kill has a leaf too, perhaps as lost
	if status, raw, err := g.adminBy(client, "/readyz"); err != nil || status != http.StatusOK || string(raw) != "{\"status\":\"ready\"}\n" {
		t.Errorf("%d %s %v", status, raw, err)
	}

	export := filepath.Join(dir, "export.jsonl")
	run(0, "receipts", "export", "--data", data, "--measurements", "--out", "export.jsonl")
	said := run(0, "receipts", "verify", "export.jsonl", "--key", vkey, "--checkpoint", "saved.checkpoint")
	for _, want := range []string{"grown since the checkpoint", "export.jsonl is good: 296 receipts", "signed by " + vkey} {
		if !strings.Contains(said, want) {
			t.Errorf("verify does not say %q:\n%s", want, said)
		}
	}
	text, err := os.ReadFile(export)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte("team-secret")) || bytes.Contains(text, []byte("caller")) || bytes.Contains(text, []byte(key)) {
		t.Error("the export names the caller")
	}
	python(t, export, vkey, "")

	// The proof of one call.
	status, proof, err := g.adminBy(client, "/admin/v1/receipts/"+last+"/proof")
	if err != nil || status != http.StatusOK {
		t.Fatalf("%d %s %v", status, proof, err)
	}
	k, err := seal.ParseKey(vkey)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := seal.VerifyProof(proof, []seal.Key{k}); err != nil || string(p.Leaf.ID) != last {
		t.Errorf("%+v %v", p, err)
	}
	for path, want := range map[string]int{"receipts/" + last[:25] + "/proof": 404, "receipts/x/proof": 404, "receipts/export?month=1999-01": 404,
		"receipts/export?measurements=perhaps": 400, "receipts/export?from=2026-02-01&to=2026-01-01": 400} {
		if status, raw, err := g.adminBy(client, "/admin/v1/"+path); err != nil || status != want {
			t.Errorf("GET %s: %d %s %v", path, status, raw, err)
		}
	}

	// A changed byte is named with its line.
	lines := bytes.SplitAfter(text, []byte("\n"))
	for _, at := range []int{1, 3, 17, 200, len(lines) - 3} {
		if bytes.Contains(lines[at], []byte(`"measurements"`)) {
			at++ // that is not signed
		}
		changed := bytes.Clone(text)
		changed[len(bytes.Join(lines[:at], nil))+len(lines[at])/2] ^= 1
		path := filepath.Join(dir, "changed.jsonl")
		write(t, path, changed)
		said := run(1, "receipts", "verify", "changed.jsonl", "--key", vkey)
		if want := fmt.Sprintf("headway: error: changed.jsonl: line %d: ", at+1); !strings.Contains(said, want) {
			t.Errorf("verify does not say %q: %s", want, said)
		}
		python(t, path, vkey, "line "+strconv.Itoa(at+1)+":")
	}

	// A store from before the newest signatures is not signed again: calls are refused
	// until somebody says that another log is to be begun, and both is said.
	if err := g.stop(); err != nil {
		t.Fatal(err)
	}
	old := t.TempDir()
	if err := os.CopyFS(old, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	g = startGateway(t, bin, data, config, nil)
	calls(g, 2)
	g.awaitLeaves(t, client, 299)
	if err := g.stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(old, "log")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(old, "log"), os.DirFS(filepath.Join(data, "log"))); err != nil {
		t.Fatal(err)
	}
	g = startGateway(t, bin, old, config, nil)
	ready := func(want int, say string) {
		t.Helper()
		if status, raw, err := g.adminBy(client, "/readyz"); err != nil || status != want || !strings.Contains(string(raw), say) {
			t.Errorf("%d %s %v", status, raw, err)
		}
	}
	ready(503, `"reason":"the signed log of receipts is damaged"`)
	path, body := chatWire(0, 0).ask("small", "hello", false)
	if resp, err := g.call(client, key, path, body); err != nil || resp.StatusCode != 503 {
		t.Errorf("a call behind a damaged log: %v %v", resp, err)
	} else {
		resp.Body.Close()
	}
	if said := run(0, "status", "--data", old); !strings.Contains(said, "has 297 leaves, and 299 were signed") || !strings.Contains(said, "until headway receipts renew") {
		t.Errorf("status does not tell of the loss, or not what to do:\n%s", said)
	}
	for _, args := range [][]string{{"receipts", "export", "--data", old}, {"receipts", "export", "--data", old, "--month", month + ".1"}, {"receipts", "export", "--data", old, "--tree", "none"}} {
		if said := run(1, args...); !strings.Contains(said, "headway: error: nothing can be exported: log "+month+" (leaves: 297) is left out: ") {
			t.Error(said)
		}
	}
	run(2, "receipts", "renew", "--data", old)
	run(0, "receipts", "renew", "--data", old, "--yes")
	if said := run(1, "receipts", "renew", "--data", old, "--yes"); !strings.Contains(said, "nothing to renew") {
		t.Error(said)
	}
	ready(200, `"receipt_log":"damaged"`)
	calls(g, 3)
	g.awaitLeaves(t, client, 4)
	if said := run(0, "status", "--data", old); !regexp.MustCompile(`(?m)^signed log  .*\.2: 4 leaves, all signed\n +.* has 297 leaves, and 299 were signed`).MatchString(said) {
		t.Errorf("status does not tell of the loss:\n%s", said)
	}
	if said := run(0, "receipts", "list", "--data", old); !strings.Contains(said, "has 297 leaves, and 299 were signed") {
		t.Errorf("list does not tell of the loss:\n%s", said)
	}
	if said := run(0, "receipts", "export", "--data", old, "--out", "all.jsonl"); !strings.Contains(said, "headway: note: log "+month+" (leaves: 297) is left out: ") {
		t.Error(said)
	}
	run(0, "receipts", "export", "--data", old, "--month", month+".2", "--out", "anew.jsonl")
	if said := run(0, "receipts", "verify", "anew.jsonl", "--key", vkey); !strings.Contains(said, "299 signed leaves of ") || !strings.Contains(said, "good: 3 receipts") {
		t.Error(said)
	}
	python(t, filepath.Join(dir, "anew.jsonl"), vkey, "")
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// python holds an export against the verifier of RECEIPT.md, which accepts it, or
// refuses it with a line that begins with wrong.
func python(t *testing.T, export, vkey, wrong string) {
	t.Helper()
	path := pythonVerifier(t)
	if path == "" {
		return
	}
	out, err := exec.Command("python3", path, export, vkey).CombinedOutput()
	switch {
	case wrong == "" && (err != nil || !bytes.HasSuffix(out, []byte("good\n"))):
		t.Errorf("the verifier of RECEIPT.md refuses the export: %v %s", err, out)
	case wrong != "" && (err == nil || !strings.Contains("\n"+string(out), "\n"+wrong)):
		t.Errorf("the verifier of RECEIPT.md does not say %q: %v %s", wrong, err, out)
	}
}

// pythonVerifier is where the verifier of RECEIPT.md lies; "": what it needs is not here.
func pythonVerifier(t *testing.T) string {
	t.Helper()
	for _, program := range []string{"python3", "openssl"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") == "true" {
				t.Errorf("%s is not here", program)
			}
			t.Logf("%s is not here: the verifier of RECEIPT.md is not tried", program)
			return ""
		}
	}
	doc, err := os.ReadFile(filepath.Join(moduleRoot, "core", "seal", "RECEIPT.md"))
	if err != nil {
		t.Fatal(err)
	}
	script := regexp.MustCompile("(?s)```python\n(.*?)```").FindSubmatch(doc)
	if script == nil {
		t.Fatal("RECEIPT.md has no verifier")
	}
	path := filepath.Join(t.TempDir(), "verify.py")
	write(t, path, script[1])
	return path
}

// greetings makes calls, one after another, that are answered, and gives the last one's
// id.
func (g *gateway) greetings(t *testing.T, client *http.Client, key string, n int) (last string) {
	t.Helper()
	path, body := chatWire(0, 0).ask("small", "good morning", false)
	for range n {
		resp, err := g.call(client, key, path, body)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if last = resp.Header.Get("X-Request-Id"); resp.StatusCode != http.StatusOK {
			t.Fatalf("status %d", resp.StatusCode)
		}
	}
	return last
}

// receiptLogs are the signed logs of a gateway.
type receiptLogs struct {
	Key   string
	Items []struct{ Log, Checkpoint string }
}

func (g *gateway) receiptLogs(t *testing.T, client *http.Client) (logs receiptLogs) {
	t.Helper()
	status, raw, err := g.adminBy(client, "/admin/v1/receipts")
	if err == nil {
		err = json.Unmarshal(raw, &logs)
	}
	if err != nil || status != http.StatusOK || len(logs.Items) == 0 {
		t.Fatalf("%d %s %v", status, raw, err)
	}
	return logs
}

// awaitLeaves waits until the current log has so many leaves, all of them signed; 0:
// until all that is stored is signed.
func (g *gateway) awaitLeaves(t *testing.T, client *http.Client, n int) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(callLimit); ; <-tick.C {
		var st struct {
			Log struct {
				Size   int
				Signed int `json:"signed_size"`
			} `json:"receipt_log"`
		}
		_, raw, err := g.adminBy(client, "/admin/v1/status")
		if err == nil {
			err = json.Unmarshal(raw, &st)
		}
		if err == nil && st.Log.Size > 0 && st.Log.Size == st.Log.Signed && (n == 0 || st.Log.Size == n) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the log never has %d signed leaves: %v %s", n, err, raw)
		}
	}
}

// checkSealed: each receipt has exactly one leaf, and the log is whole.
func (g *gateway) checkSealed(t *testing.T, client *http.Client, receipts map[string]string) {
	t.Helper()
	g.awaitLeaves(t, client, 0)
	k, err := seal.ParseKey(g.receiptLogs(t, client).Key)
	if err != nil {
		t.Fatal(err)
	}
	status, export, err := g.adminBy(client, "/admin/v1/receipts/export")
	if err != nil || status != http.StatusOK {
		t.Fatalf("%d %.200s %v", status, export, err)
	}
	report, err := seal.Verify(bytes.NewReader(export), seal.Check{Keys: []seal.Key{k}})
	if err != nil || !report.OK {
		t.Fatal(report, err)
	}
	leaves := map[string]int{}
	for line := range bytes.Lines(export) {
		var l struct{ Leaf struct{ Type, ID string } }
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatal(err)
		}
		if l.Leaf.Type == "receipt" {
			leaves[l.Leaf.ID]++
		}
	}
	for id := range receipts {
		if leaves[id] != 1 {
			t.Errorf("receipt %s has %d leaves", id, leaves[id])
		}
	}
	if len(leaves) != len(receipts) {
		t.Errorf("%d receipts, %d with leaves", len(receipts), len(leaves))
	}
	t.Logf("%d leaves, one of each receipt, in %d logs", report.Total.Receipts, len(report.Logs))
}
