package command_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"headway/core/seal"
)

// smallWitness signs what it is shown where the size before is the one that it knows.
// core/seal has a strict one.
type smallWitness struct {
	key     seal.WitnessKey
	private ed25519.PrivateKey

	mu    sync.Mutex
	seen  map[string]uint64
	down  bool
	asked map[string]int // by origin and size
}

func (w *smallWitness) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.mu.Lock()
	defer w.mu.Unlock()
	front, note, _ := strings.Cut(string(body), "\n\n")
	text, _, ok := strings.Cut(note, "\n\n")
	lines := strings.Split(text, "\n")
	if w.down || r.URL.Path != "/add-checkpoint" || !ok || len(lines) != 3 {
		rw.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	old, _, _ := strings.Cut(strings.TrimPrefix(front, "old "), "\n")
	size, err := strconv.ParseUint(lines[1], 10, 64)
	if err != nil || old != strconv.FormatUint(w.seen[lines[0]], 10) {
		rw.Header().Set("Content-Type", "text/x.tlog.size")
		rw.WriteHeader(http.StatusConflict)
		fmt.Fprintf(rw, "%d\n", w.seen[lines[0]])
		return
	}
	w.seen[lines[0]] = size
	w.asked[lines[0]+" "+lines[1]]++
	now := uint64(time.Now().Unix())
	signed := ed25519.Sign(w.private, fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s\n", now, text))
	id, _ := strconv.ParseUint(strings.Split(w.key.String(), "+")[1], 16, 32)
	raw := append(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, uint32(id)), now), signed...)
	fmt.Fprintf(rw, "— %s %s\n", w.key.Name, base64.StdEncoding.EncodeToString(raw))
}

// TestReceiptsAreWitnessed runs the built binary with a witness, which is down at first
// and later: calls and signatures go on, it is said, and what was missed is made up for,
// also by another process.
func TestReceiptsAreWitnessed(t *testing.T) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	w := &smallWitness{key: seal.WitnessKey{Name: "witness.example/w1", Public: [32]byte(public)}, private: private, seen: map[string]uint64{}, asked: map[string]int{}, down: true}
	server := httptest.NewServer(w)
	defer server.Close()
	down := func(is bool) { w.mu.Lock(); defer w.mu.Unlock(); w.down = is }
	models := modelServer(t, func(w http.ResponseWriter, r *http.Request, body []byte, _ string, _ bool) {
		w.Header().Set("Content-Type", "application/json")
		send(w, chatWire(100, 1+len(body)%50).whole("ok", "{}"))
	})
	const key = "witness-key-0123456789"
	config := map[string]any{"listen": "127.0.0.1:0", "log": map[string]any{"level": "warn"}, "providers": []any{asking("near", "openai", models.URL, "small")},
		"keys": []any{map[string]any{"name": "caller", "key": key}}, "witness": map[string]any{"url": server.URL, "key": w.key.String()}}
	bin, data, client, dir := buildHeadway(t), t.TempDir(), patient(t), t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(bin, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("headway %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	says := func(want string, args ...string) string {
		t.Helper()
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for end := time.Now().Add(callLimit); ; <-tick.C {
			said := run(args...)
			if strings.Contains(said, want) {
				return said
			}
			if time.Now().After(end) {
				t.Fatalf("headway %s never says %q:\n%s", strings.Join(args, " "), want, said)
			}
		}
	}
	calls := func(g *gateway, n int) (last string) {
		t.Helper()
		return g.greetings(t, client, key, n)
	}
	g := startGateway(t, bin, data, config, nil)
	last := calls(g, 3)
	g.awaitLeaves(t, client, 4)
	says("the witness answered with status 503", "status", "--data", data)
	down(false)
	if said := says(" 4  20", "receipts", "list", "--data", data); !strings.Contains(said, "WITNESSED") {
		t.Error(said)
	}
	if said := run("status", "--data", data); strings.Contains(said, "witness") {
		t.Errorf("status tells of what is over:\n%s", said)
	}
	vkey, witness := g.receiptLogs(t, client).Key, w.key.String()
	run("receipts", "export", "--data", data, "--out", "export.jsonl")
	if said := run("receipts", "verify", "export.jsonl", "--key", vkey, "--witness", witness); !strings.Contains(said, "witnessed by witness.example/w1 at ") {
		t.Error(said)
	}
	python(t, filepath.Join(dir, "export.jsonl"), vkey, "")
	run("receipts", "prove", last, "--data", data, "--out", "call.proof")
	if said := run("receipts", "verify", "call.proof", "--key", vkey, "--witness", witness); !strings.Contains(said, "witnessed by witness.example/w1") {
		t.Error(said)
	}
	// Down again: the log is signed further, and one can export as far as it was witnessed.
	down(true)
	calls(g, 2)
	g.awaitLeaves(t, client, 6)
	run("receipts", "export", "--data", data, "--witnessed", "--out", "less.jsonl")
	if said := run("receipts", "verify", "less.jsonl", "--key", vkey, "--witness", witness); !strings.Contains(said, "is good: 3 receipts") {
		t.Error(said)
	}
	run("receipts", "export", "--data", data, "--witnessed", "--tree", "folder")
	run("receipts", "verify", "folder", "--key", vkey, "--witness", witness)
	if err := g.stop(); err != nil {
		t.Fatal(err)
	}
	down(false)
	startGateway(t, bin, data, config, nil)
	says(" 6  20", "receipts", "list", "--data", data)
	run("receipts", "export", "--data", data, "--out", "all.jsonl")
	run("receipts", "verify", "all.jsonl", "--key", vkey, "--witness", witness)
	w.mu.Lock()
	defer w.mu.Unlock()
	for what, n := range w.asked {
		if n > 1 {
			t.Errorf("%s: witnessed %d times", what, n)
		}
	}
}
