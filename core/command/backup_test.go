package command_test

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// backupRig is a gateway of the built binary to be backed up.
type backupRig struct {
	t      *testing.T
	bin    string
	dir    string // where commands run
	client *http.Client
	config map[string]any
}

const backupKey = "backup-key-0123456789"

func newBackupRig(t *testing.T) *backupRig {
	t.Helper()
	server := modelServer(t, func(w http.ResponseWriter, r *http.Request, body []byte, _ string, _ bool) {
		w.Header().Set("Content-Type", "application/json")
		send(w, chatWire(100, 1+len(body)%50).whole("ok", "{}"))
	})
	return &backupRig{t: t, bin: buildHeadway(t), dir: t.TempDir(), client: patient(t),
		config: map[string]any{"listen": "127.0.0.1:0", "log": map[string]any{"level": "warn"}, "providers": []any{asking("near", "openai", server.URL, "small")},
			"keys": []any{map[string]any{"name": "caller", "key": backupKey}}}}
}

func (r *backupRig) start(data string) *gateway {
	r.t.Helper()
	return startGateway(r.t, r.bin, filepath.Join(r.dir, data), r.config, nil)
}

// run runs a command, which ends with a code, and gives what it said.
func (r *backupRig) run(want int, args ...string) string {
	r.t.Helper()
	cmd := exec.Command(r.bin, args...)
	cmd.Dir = r.dir
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != want {
		r.t.Fatalf("headway %s: %v, want %d\n%s", strings.Join(args, " "), err, want, out)
	}
	return string(out)
}

// says checks that a text has others.
func says(t *testing.T, text string, others ...string) {
	t.Helper()
	for _, o := range others {
		if !strings.Contains(text, o) {
			t.Errorf("it does not say %q:\n%s", o, text)
		}
	}
}

// call makes a call with a key and gives its id.
func (r *backupRig) call(g *gateway, key string) (id string) {
	r.t.Helper()
	id, err := r.tryCall(g, key)
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

func (r *backupRig) tryCall(g *gateway, key string) (id string, err error) {
	path, body := chatWire(0, 0).ask("small", "good morning", false)
	resp, err := g.call(r.client, key, path, body)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %d", resp.StatusCode)
	}
	return resp.Header.Get("X-Request-Id"), nil
}

func (r *backupRig) months(g *gateway) (names []string) {
	r.t.Helper()
	for _, l := range g.receiptLogs(r.t, r.client).Items {
		names = append(names, l.Log)
	}
	return names
}

// nothingBut checks what is in the folder of the commands.
func (r *backupRig) nothingBut(want ...string) {
	r.t.Helper()
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		r.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if strings.Join(names, " ") != strings.Join(want, " ") {
		r.t.Errorf("there is %v, want %v", names, want)
	}
}

// TestBackup backs a server up that is under load, loses it, and goes on with what was
// restored: its receipts, keys, measures and signed log.
func TestBackup(t *testing.T) {
	r := newBackupRig(t)
	g := r.start("data")
	status, raw, err := g.admin("POST", "/admin/v1/keys", map[string]any{"name": "made"})
	var made struct{ Key string }
	if err != nil || status != http.StatusCreated || json.Unmarshal(raw, &made) != nil || made.Key == "" {
		t.Fatalf("%d %s %v", status, raw, err)
	}
	var before []string
	for range 280 { // more than a tile
		before = append(before, r.call(g, backupKey))
	}
	last := r.call(g, made.Key)
	g.awaitLeaves(t, r.client, 282)
	logs := g.receiptLogs(t, r.client)
	month, vkey := logs.Items[0].Log, logs.Key
	write(t, filepath.Join(r.dir, "saved.checkpoint"), []byte(logs.Items[0].Checkpoint))
	receipt := func(g *gateway, id string) string {
		t.Helper()
		status, raw, err := g.adminBy(r.client, "/admin/v1/calls/"+id)
		if err != nil || status != http.StatusOK {
			t.Fatalf("call %s: %d %s %v", id, status, raw, err)
		}
		return string(raw)
	}
	was := receipt(g, last)

	stop := make(chan struct{})
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if _, err := r.tryCall(g, backupKey); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	said := r.run(0, "backup", "--out", "b.tar", "--data", "data")
	says(t, said, "b.tar is written: ")
	close(stop)
	load.Wait()
	if info, err := os.Stat(filepath.Join(r.dir, "b.tar")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	r.run(0, "receipts", "export", "--data", "data", "--out", "old.jsonl")
	g.kill()

	said = r.run(0, "backup", "verify", "b.tar")
	says(t, said, month, "whole", " receipts, of calls from ", "b.tar is good: ")
	var checked struct {
		OK       bool
		Receipts int
		Logs     []struct{ Verdict string }
	}
	if text := r.run(0, "backup", "verify", "b.tar", "--json"); json.Unmarshal([]byte(text), &checked) != nil || !checked.OK || checked.Receipts < 281 || len(checked.Logs) != 1 || checked.Logs[0].Verdict != "whole" {
		t.Errorf("%s", text)
	}
	said = r.run(0, "restore", "b.tar", "--data", "new")
	says(t, said, "new is restored as of ", "begin another part of the signed log")

	g = r.start("new")
	if got := receipt(g, last); got != was {
		t.Errorf("a restored receipt\n%s\nwas\n%s", got, was)
	}
	for _, id := range before {
		receipt(g, id)
	}
	for range 3 {
		r.call(g, made.Key)
	}
	g.awaitLeaves(t, r.client, 4)
	if got := r.months(g); len(got) != 2 || got[0] != month || got[1] != month+".2" {
		t.Errorf("logs %v", got)
	}
	if now := g.receiptLogs(t, r.client); now.Key != vkey {
		t.Errorf("the key is %s, and was %s", now.Key, vkey)
	}
	if status, raw, err := g.adminBy(r.client, "/readyz"); err != nil || status != http.StatusOK || !strings.Contains(string(raw), `"receipt_log":"restored"`) {
		t.Errorf("%d %s %v", status, raw, err)
	}
	if status, raw, err := g.adminBy(r.client, "/admin/v1/receipts/"+last+"/proof"); err != nil || status != http.StatusOK {
		t.Errorf("%d %s %v", status, raw, err)
	}
	// What it exports goes on from a checkpoint of before, and old exports verify still.
	r.run(0, "receipts", "export", "--data", "new", "--out", "now.jsonl")
	for _, file := range []string{"old.jsonl", "now.jsonl"} {
		says(t, r.run(0, "receipts", "verify", file, "--key", vkey, "--checkpoint", "saved.checkpoint"), file+" is good: ")
		python(t, filepath.Join(r.dir, file), vkey, "")
	}
	// And the restored one is backed up and restored in its turn, after a restart.
	if err := g.stop(); err != nil {
		t.Fatal(err)
	}
	g = r.start("new")
	r.call(g, backupKey)
	g.awaitLeaves(t, r.client, 5)
	r.run(0, "backup", "--out", "b.tar", "--data", "new") // over the old one
	if err := g.stop(); err != nil {
		t.Fatal(err)
	}
	says(t, r.run(0, "backup", "verify", "b.tar"), month+".2", "b.tar is good: ")
	// With the log folder of the server that was, which had signed nothing more, its log
	// is gone on with.
	r.run(0, "restore", "b.tar", "--data", "again", "--log", "new/log")
	g = r.start("again")
	r.call(g, backupKey)
	g.awaitLeaves(t, r.client, 6)
	if got := r.months(g); len(got) != 2 {
		t.Errorf("logs %v", got)
	}
	r.nothingBut("again", "b.tar", "data", "new", "now.jsonl", "old.jsonl", "saved.checkpoint")
}

// TestRestoreSaysWhatIsLost restores beside the log folder of a server that had signed
// more.
func TestRestoreSaysWhatIsLost(t *testing.T) {
	r := newBackupRig(t)
	g := r.start("data")
	for range 5 {
		r.call(g, backupKey)
	}
	g.awaitLeaves(t, r.client, 6)
	r.run(0, "backup", "--out", "b.tar", "--data", "data")
	for range 4 {
		r.call(g, backupKey)
	}
	g.awaitLeaves(t, r.client, 10)
	month := r.months(g)[0]
	vkey := g.receiptLogs(t, r.client).Key
	g.kill()
	said := r.run(0, "restore", "b.tar", "--data", "new", "--log", "data/log")
	if strings.Contains(said, "begin another part") {
		t.Error(said)
	}
	g = r.start("new")
	r.call(g, backupKey)
	g.awaitLeaves(t, r.client, 2)
	r.run(0, "receipts", "export", "--data", "new", "--out", "now.jsonl")
	says(t, r.run(0, "receipts", "verify", "now.jsonl", "--key", vkey), "4 signed leaves of ", month+".2", "good: 6 receipts")
	g.kill()

	for name, c := range map[string]struct {
		code int
		args []string
		say  string
	}{
		"no such file":       {1, []string{"restore", "none.tar", "--data", "x"}, "none.tar: cannot be read"},
		"no data":            {2, []string{"restore", "b.tar"}, "--data is missing"},
		"no file":            {2, []string{"restore", "--data", "x"}, "FILE is missing"},
		"a folder as file":   {1, []string{"restore", "data", "--data", "x"}, "data: cannot be read: it is no file"},
		"not empty":          {1, []string{"restore", "b.tar", "--data", "data"}, "data is not empty: it holds "},
		"no log folder":      {1, []string{"restore", "b.tar", "--data", "x", "--log", "none"}, "none: cannot be read"},
		"not a log folder":   {1, []string{"restore", "b.tar", "--data", "x", "--log", "."}, "there is no checkpoint file in it"},
		"not a backup":       {1, []string{"restore", "now.jsonl", "--data", "x"}, "now.jsonl: is not a backup of headway"},
		"verify none":        {1, []string{"backup", "verify", "now.jsonl"}, "now.jsonl: is not a backup of headway"},
		"no out":             {2, []string{"backup", "--data", "data"}, "--out is missing"},
		"no server":          {1, []string{"backup", "--data", "data", "--out", "y.tar"}, "no headway serves the data folder"},
		"no folder to write": {1, []string{"backup", "--data", "data", "--out", "no/y.tar"}, "headway: error: "},
		"no such command":    {2, []string{"backup", "verfy", "b.tar"}, `"verfy" is no command of headway backup`},
	} {
		t.Run(name, func(t *testing.T) { says(t, r.run(c.code, c.args...), c.say) })
	}
	r.nothingBut("b.tar", "data", "new", "now.jsonl")

	g = r.start("data")
	says(t, r.run(1, "restore", "b.tar", "--data", "data"), "data is in use by a running headway", "headway: hint: restore into another folder")
	// It would sign on beside what is restored, by the same names.
	says(t, r.run(1, "restore", "b.tar", "--data", "y", "--log", "data/log"), "--log: a running headway uses ", "signs on")
	r.nothingBut("b.tar", "data", "new", "now.jsonl")
	// Not even an admin gets a backup from elsewhere: it has what is shown to nobody.
	if status, raw, err := g.adminBy(r.client, "/admin/v1/backup"); err != nil || status != http.StatusForbidden || !strings.Contains(string(raw), "on its machine alone") {
		t.Errorf("%d %s %v", status, raw, err)
	}
}

// TestRestoreKilled kills restores at any moment: the folder is there whole or not at
// all, and the next restore does not mind.
func TestRestoreKilled(t *testing.T) {
	r := newBackupRig(t)
	g := r.start("data")
	for range 200 {
		r.call(g, backupKey)
	}
	g.awaitLeaves(t, r.client, 201)
	r.run(0, "backup", "--out", "b.tar", "--data", "data")
	g.kill()
	begun := time.Now()
	r.run(0, "restore", "b.tar", "--data", "whole")
	took := time.Since(begun)
	half := 0
	for i := range 12 {
		cmd := exec.Command(r.bin, "restore", "b.tar", "--data", "killed")
		cmd.Dir = r.dir
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(took*time.Duration(i+1)/13, func() { _ = cmd.Process.Kill() })
		err := cmd.Wait()
		timer.Stop()
		_, there := os.Stat(filepath.Join(r.dir, "killed"))
		if err != nil && cmd.ProcessState.ExitCode() >= 0 {
			t.Fatalf("it was not killed: %v", err)
		}
		if there == nil { // the last thing that it does
			if err := exec.Command(r.bin, "backup", "verify", filepath.Join(r.dir, "b.tar")).Run(); err != nil {
				t.Fatal(err)
			}
			g := r.start("killed")
			g.kill()
			if err := os.RemoveAll(filepath.Join(r.dir, "killed")); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if _, err := os.Stat(filepath.Join(r.dir, "killed.restoring")); err == nil {
			half++
		}
	}
	t.Logf("%d of 12 were killed in the middle of it, a whole one takes %v", half, took)
	if half == 0 {
		t.Error("no restore was killed in the middle of it")
	}
	r.run(0, "restore", "b.tar", "--data", "killed")
	r.nothingBut("b.tar", "data", "killed", "whole")
	g = r.start("killed")
	if got := len(g.receiptLogs(t, r.client).Items); got != 1 {
		t.Errorf("%d logs", got)
	}
}

// TestBackupBreaksOff has a server that dies while it answers: nothing is left of the
// backup, and one that was there stays.
func TestBackupBreaksOff(t *testing.T) {
	r := newBackupRig(t)
	data := filepath.Join(r.dir, "d")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", filepath.Join(data, "headway.sock"))
	if err != nil {
		t.Skip(err) // the path is too long here
	}
	answer := "HTTP/1.1 200 OK\r\nContent-Type: application/x-tar\r\n"
	for name, c := range map[string]struct{ rest, say string }{
		"in the middle":       {"Transfer-Encoding: chunked\r\n\r\n400\r\n" + strings.Repeat("x", 0x400) + "\r\n", "the answer broke off"},
		"before it began":     {"", "no answer"},
		"with something else": {"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "b.tar: is not a backup of headway"},
	} {
		t.Run(name, func(t *testing.T) {
			served := make(chan struct{})
			go func() {
				defer close(served)
				conn, err := socket.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Read(make([]byte, 4096))
				if c.rest != "" {
					_, _ = io.WriteString(conn, answer+c.rest)
				}
				_ = conn.Close()
			}()
			write(t, filepath.Join(r.dir, "b.tar"), []byte("the last one"))
			says(t, r.run(1, "backup", "--data", "d", "--out", "b.tar"), c.say)
			<-served
			r.nothingBut("b.tar", "d")
			if text, err := os.ReadFile(filepath.Join(r.dir, "b.tar")); err != nil || string(text) != "the last one" {
				t.Errorf("%q %v", text, err)
			}
		})
	}
	_ = socket.Close()
}

// TestVerifyFindsDamage checks a backup whose log is not what was signed: its sums are
// right, as the server itself was damaged.
func TestVerifyFindsDamage(t *testing.T) {
	r := newBackupRig(t)
	g := r.start("data")
	for range 3 {
		r.call(g, backupKey)
	}
	g.awaitLeaves(t, r.client, 4)
	if err := g.stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(r.dir, "old"), os.DirFS(filepath.Join(r.dir, "data"))); err != nil {
		t.Fatal(err)
	}
	g = r.start("data")
	for range 3 {
		r.call(g, backupKey)
	}
	g.awaitLeaves(t, r.client, 7)
	if err := g.stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(r.dir, "mixed"), withLog{os.DirFS(filepath.Join(r.dir, "old")), os.DirFS(filepath.Join(r.dir, "data"))}); err != nil {
		t.Fatal(err)
	}
	g = r.start("mixed")
	r.run(0, "backup", "--out", "b.tar", "--data", "mixed")
	g.kill()
	says(t, r.run(1, "backup", "verify", "b.tar"), "short", "b.tar: log ", "has 4 leaves, and 7 were signed")
	// It is restored all the same: there may be no better one.
	says(t, r.run(0, "restore", "b.tar", "--data", "new"), "has 4 leaves, and 7 were signed: it was so when the backup was made")

	// Once a log says that what was signed is gone, a backup of both is what it should be.
	g = r.start("mixed")
	says(t, r.run(0, "status", "--data", "mixed"), "receipts    calls are refused: ")
	r.run(0, "receipts", "renew", "--data", "mixed", "--yes")
	says(t, r.run(0, "status", "--data", "mixed"), "receipts    every one is kept\n")
	r.call(g, backupKey)
	g.awaitLeaves(t, r.client, 2)
	r.run(0, "backup", "--out", "c.tar", "--data", "mixed")
	g.kill()
	says(t, r.run(0, "backup", "verify", "c.tar"), "has 4 leaves, and 7 were signed; the log behind it says so", "c.tar is good")
}

// withLog is a folder with the log folder of another.
type withLog struct {
	fs.FS
	log fs.FS
}

// Open opens a file of one of them.
func (w withLog) Open(name string) (fs.File, error) {
	if name == "log" || strings.HasPrefix(name, "log/") {
		return w.log.Open(name)
	}
	if name == "" {
		return nil, fmt.Errorf("no name")
	}
	return w.FS.Open(name)
}
