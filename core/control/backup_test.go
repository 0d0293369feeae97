package control_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headway/core"
	"headway/core/control"
	"headway/core/seal"
)

// backup takes one of the rig.
func (r *rig) backup() []byte {
	r.t.Helper()
	r.desk.Data = filepath.Join(r.dir, "data")
	status, text := serve(r.desk.Local(), "GET", "/admin/v1/backup", "", "")
	if status != http.StatusOK {
		r.t.Fatalf("status %d: %.300s", status, text)
	}
	return []byte(text)
}

func openBackup(text []byte) (*control.Backup, error) {
	return control.OpenBackup(context.Background(), bytes.NewReader(text), int64(len(text)), nil)
}

func refuses(t *testing.T, what string, text []byte, says ...string) {
	t.Helper()
	_, err := openBackup(text)
	var e *core.Error
	if !errors.As(err, &e) || e.Kind != core.Invalid || e.Hint == "" {
		t.Fatalf("%s: %v", what, err)
	}
	for _, s := range says {
		if strings.Contains(e.Msg, s) {
			return
		}
	}
	t.Errorf("%s: %s; want one of %q", what, e.Msg, says)
}

// A backup is a tar file that anybody can read, and what it has is what the server has.
func TestBackupIsATarFile(t *testing.T) {
	r := aged(t)
	r.settled("job-1")
	r.awaitSigned()
	if err := os.MkdirAll(filepath.Join(r.dir, "data", "nats"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "data", "nats", "ca.pem"), []byte("a CA"), 0o600); err != nil {
		t.Fatal(err)
	}
	// A log that the store knows nothing of any more: its name was signed under.
	lost := filepath.Join(r.dir, "data", "log", "2026-03.checkpoint")
	if err := os.WriteFile(lost, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	text := r.backup()
	parts, sums := map[string][]byte{}, ""
	var names []string
	for tr := tar.NewReader(bytes.NewReader(text)); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if parts[h.Name], err = io.ReadAll(tr); err != nil || h.Mode != 0o600 {
			t.Fatal(h, err)
		}
		names = append(names, h.Name)
	}
	if got, want := strings.Join(names, " "), "headway-backup.json log/2026-03 log/2026-04 pepper nats/ca.pem store/00000001 SHA256SUMS END"; strings.Replace(got, "admin-token ", "", 1) != want {
		t.Fatalf("parts %s, want %s", got, want)
	}
	for _, name := range names[:len(names)-2] {
		sums += fmt.Sprintf("%x  %s\n", sha256.Sum256(parts[name]), name)
	}
	if sums != string(parts["SHA256SUMS"]) {
		t.Errorf("sums\n%s\nwant\n%s", parts["SHA256SUMS"], sums)
	}
	b, err := openBackup(text)
	if err != nil {
		t.Fatal(err)
	}
	if b.Format != "headway backup 1" || b.Version != "test" || !b.Made.Equal(r.clock()) {
		t.Errorf("%+v", b.BackupHead)
	}
	logs := map[seal.Month]string{}
	if err := b.Checkpoints(func(m seal.Month, note []byte) error { logs[m] = string(note); return nil }); err != nil {
		t.Fatal(err)
	}
	c, err := r.sealer.Checkpoint("2026-04")
	if err != nil || logs["2026-04"] != string(c.Note) || logs["2026-03"] != "" || len(logs) != 2 {
		t.Errorf("%v %v", logs, err)
	}
	files := map[string]string{}
	if err := b.Files(func(name string, content []byte) error { files[name] = string(content); return nil }); err != nil {
		t.Fatal(err)
	}
	if files["nats/ca.pem"] != "a CA" || files["pepper"] == "" {
		t.Errorf("%v", files)
	}
	chunks := 0
	for next := b.Chunks(context.Background(), nil); ; chunks++ {
		chunk, err := next()
		if err != nil {
			t.Fatal(err)
		}
		if chunk == nil {
			break
		}
	}
	if chunks != 1 {
		t.Errorf("%d chunks", chunks)
	}
}

// Whatever byte of a backup is changed, left out or added, it is refused.
func TestBackupDamaged(t *testing.T) {
	r := aged(t)
	for range 40 {
		r.settled("job-1")
	}
	r.awaitSigned()
	text := r.backup()
	if _, err := openBackup(text); err != nil {
		t.Fatal(err)
	}
	words := []string{"is damaged", "is cut short", "is not a backup of headway", "is of backup version"}
	change := func(at int) {
		t.Helper()
		bad := bytes.Clone(text)
		bad[at] ^= byte(1 + rand.IntN(255))
		refuses(t, fmt.Sprintf("byte %d of %d", at, len(text)), bad, words...)
	}
	for at := range 2048 { // the beginning and the end whole, the rest sampled
		change(at)
		change(len(text) - 1 - at)
	}
	for at := 2048; at < len(text)-2048; at += 1 + rand.IntN(200) {
		change(at)
	}
	for n := 0; n < len(text); n += 1 + rand.IntN(400) {
		refuses(t, fmt.Sprintf("%d bytes of %d", n, len(text)), text[:n], words...)
	}
	for n := 1; n < 1100; n += 7 {
		refuses(t, fmt.Sprintf("%d bytes too few", n), text[:len(text)-n], words...)
	}
	refuses(t, "a byte more", append(bytes.Clone(text), 0), "is cut short, or its end is damaged")
	refuses(t, "a block more", append(bytes.Clone(text), make([]byte, 512)...), "is cut short, or its end is damaged")
	refuses(t, "two of them", append(bytes.Clone(text), text...), words...)
	refuses(t, "nothing", nil, "is not a backup of headway")
	refuses(t, "another file", []byte(strings.Repeat("a text of no meaning\n", 500)), "is not a backup of headway")

	// The part that is damaged is named.
	at := bytes.Index(text, []byte("store/00000001")) + 512 + 100
	bad := bytes.Clone(text)
	bad[at] ^= 1
	refuses(t, "a chunk", bad, `is damaged: its part "store/00000001" is not what was backed up`)
	// Another version, of which nothing else is known.
	refuses(t, "another version", bytes.Replace(text, []byte(`"headway backup 1"`), []byte(`"headway backup 2"`), 1), `is of backup version "2", and this headway knows 1`)
}

// A backup of a store that is damaged, or whose writer stops, breaks off.
func TestBackupOfADamagedStore(t *testing.T) {
	r := aged(t)
	r.settled("job-1")
	r.desk.Store = &failingCopy{r.desk.Store}
	r.desk.Data = filepath.Join(r.dir, "data")
	defer func() {
		if p := recover(); p != http.ErrAbortHandler {
			t.Errorf("the answer ended with %v", p)
		}
		if r.logged("an admin answer broke off") != 1 {
			t.Error(r.log.String())
		}
	}()
	serve(r.desk.Local(), "GET", "/admin/v1/backup", "", "")
	t.Error("it did not break off")
}

type failingCopy struct{ control.Shelf }

func (f *failingCopy) Copy(context.Context, func([]byte) error) error {
	return core.Errorf(core.Unavailable, "a record cannot be read: the store is damaged")
}

// The admin token is not enough: a backup has the server's own secrets.
func TestBackupNeedsTheSocket(t *testing.T) {
	r := newRig(t)
	r.desk.Data = filepath.Join(r.dir, "data")
	if status, text := serve(r.desk.Handler(), "GET", "/admin/v1/backup", "", "Bearer "+adminToken); status != http.StatusForbidden || !strings.Contains(text, "run headway backup there") {
		t.Errorf("status %d: %s", status, text)
	}
	if status, _ := serve(r.desk.Handler(), "GET", "/admin/v1/backup", "", ""); status != http.StatusUnauthorized {
		t.Errorf("status %d", status)
	}
}

// What is in a backup goes nowhere but where it belongs, whoever made it.
func TestBackupWithOtherParts(t *testing.T) {
	for _, name := range []string{"../pepper", "/etc/passwd", "nats/../../x", "nats/a/b", "headway.yaml", "nats/.x", "db/MANIFEST"} {
		t.Run(name, func(t *testing.T) {
			b, err := openBackup(control.BackupOf(t, name))
			if err != nil {
				t.Fatal(err)
			}
			err = b.Files(func(name string, _ []byte) error { t.Errorf("%s is written", name); return nil })
			if err == nil || !strings.Contains(err.Error(), "that no backup has") {
				t.Error(err)
			}
		})
	}
}
