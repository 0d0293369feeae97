package control_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAFileIsAppliedWholeOrNotAtAll(t *testing.T) {
	r := newRig(t)
	calls := func(want int) {
		t.Helper()
		if status, _ := r.call(clientKey, "small"); status != want {
			t.Errorf("a call has status %d, want %d", status, want)
		}
	}
	calls(http.StatusOK)
	before := r.must("GET", "config", "")["yaml"]

	bad := strings.Replace(file, `"6.5"`, `"-6.5"`, 1)
	bad = strings.Replace(bad, "id: slow", "id: quick", 1)
	r.write(bad)
	status, v := r.admin("POST", "apply", "")
	if message := v["error"].(map[string]any)["message"].(string); status != 400 || !strings.Contains(message, "headway.yaml:12:") || !strings.Contains(message, "negative") {
		t.Errorf("status %d %s, want the line of the mistake", status, message)
	}
	r.desk.Reload()
	if !strings.Contains(r.log.String(), "was not reloaded") {
		t.Error("a bad reload is not logged")
	}
	if now := r.must("GET", "config", "")["yaml"]; now != before || r.item("providers", "slow") == nil {
		t.Error("a bad file changed something")
	}
	calls(http.StatusOK)

	// A key that the file gives no more is no key any more; other settings wait.
	r.write(strings.Replace(strings.Replace(file, clientKey, "another-key-of-this-test", 1), "listen: 127.0.0.1:0", "listen: 127.0.0.1:1", 1))
	v = r.must("POST", "apply", "")
	if v["keys"] != 1.0 || v["offers"] != 3.0 || v["needs_restart"].([]any)[0] != "listen" {
		t.Errorf("applied: %v", v)
	}
	calls(http.StatusUnauthorized)
	r.desk.Reload() // it waits for as long as nobody restarts
	if !strings.Contains(r.log.String(), "only a restart") {
		t.Error("what waits for a restart is not logged")
	}
	r.write(file)
	if v = r.must("POST", "apply", ""); v["needs_restart"] != nil {
		t.Errorf("what serve was started with: %v", v)
	}
	calls(http.StatusOK)
}

func TestATextIsApplied(t *testing.T) {
	r := newRig(t)
	if err := os.WriteFile(filepath.Join(r.dir, "secret"), []byte("a-key-from-a-file-of-its-own\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := r.fill(strings.Replace(file, clientKey, `"${file:secret}"`, 1))
	r.must("POST", "apply?name="+filepath.Join(r.dir, "other.yaml"), text)
	if status, _ := r.call("a-key-from-a-file-of-its-own", "small"); status != http.StatusOK {
		t.Errorf("status %d: paths of a text are not relative to where it lies", status)
	}
	r.refused("POST", "apply?name=/x/other.yaml", "listen: nowhere", 400, "/x/other.yaml:1:")
	r.refused("POST", "apply", "- a", 400, "posted.yaml:1:1")
}

// What was made does not give way to the file without a word.
func TestAShorterRetentionSaysWhatExpires(t *testing.T) {
	r := newRig(t)
	keeps := func(months string) string {
		r.write(file + "retention: {receipts_months: " + months + "}\n")
		notes, _ := r.must("POST", "apply", "")["notes"].([]any)
		return fmt.Sprint(notes...)
	}
	first := keeps("12")
	if !strings.Contains(first, "retention: receipts of before 20") || !strings.Contains(first, "-01 are hidden") {
		t.Errorf("all was kept, and a year is from now on: notes %q", first)
	}
	if said := keeps("12") + keeps("24"); strings.Contains(said, "retention") {
		t.Errorf("nothing expires by it: notes %q", said)
	}
	r.write(file + "retention: {receipts_months: 1}\n")
	r.desk.Reload()
	if !strings.Contains(r.log.String(), "retention: receipts of before") {
		t.Error("a reload does not log what expires by it")
	}
}

func TestAFileAgainstWhatWasMade(t *testing.T) {
	r := newRig(t)
	r.must("POST", "providers", r.fill(posted))
	r.write(strings.Replace(file, "id: slow", "id: posted", 1))
	r.refused("POST", "apply", "", 409, "is in the file and was made by an operator too")
	if r.item("providers", "slow") == nil {
		t.Error("a refused file changed something")
	}
	r.must("DELETE", "providers/posted", "")
	r.must("POST", "apply", "")

	r.must("POST", "keys", `{"name": "own", "key": "0123456789abcdef"}`)
	r.write(strings.Replace(file, clientKey, "0123456789abcdef", 1))
	r.refused("POST", "apply", "", 409, "have the same text")
}

// Without its pepper a data folder's keys are unknown: the start says so.
func TestALostPepperIsNoticed(t *testing.T) {
	r := newRig(t)
	r.must("POST", "keys", `{"name": "k"}`)
	r.stop()
	pepper := filepath.Join(r.dir, "data", "pepper")
	kept, err := os.ReadFile(pepper)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(pepper); err != nil {
		t.Fatal(err)
	}
	if err := r.open(); err == nil || !strings.Contains(err.Error(), "pepper") {
		t.Errorf("the start says %v", err)
	}
	r.stop()
	if err := os.WriteFile(pepper, kept, 0o600); err != nil {
		t.Fatal(err)
	}
	r.start()
}
