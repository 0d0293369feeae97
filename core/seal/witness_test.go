package seal

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"

	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// strictWitness does what c2sp.org/tlog-witness asks of a witness, and notes what is
// against it.
type strictWitness struct {
	key     WitnessKey
	private ed25519.PrivateKey

	mu     sync.Mutex
	known  map[string]note.Verifier // the keys of logs, by origin
	seen   map[string]Tree
	asked  int
	faults []string
	time   int64
	answer func(w http.ResponseWriter) bool // answers instead, where it says so
}

func newStrictWitness(t testing.TB) *strictWitness {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &strictWitness{key: WitnessKey{"witness.example/w1", [32]byte(public)}, private: private, known: map[string]note.Verifier{}, seen: map[string]Tree{}, time: 1_800_000_000}
}

// knows makes a log known to it.
func (w *strictWitness) knows(k Key, origin string) {
	k, _ = k.of(origin)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known[origin] = verifier{k}
}

func (w *strictWitness) cosign(text string) string {
	w.time++
	signed := ed25519.Sign(w.private, fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", w.time, text))
	id := w.key.id()
	return "— " + w.key.Name + " " + base64.StdEncoding.EncodeToString(append(binary.BigEndian.AppendUint64(id[:], uint64(w.time)), signed...)) + "\n"
}

func (w *strictWitness) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	fault := func(status int, format string, args ...any) {
		w.faults = append(w.faults, fmt.Sprintf(format, args...))
		rw.WriteHeader(status)
	}
	if err != nil || r.Method != http.MethodPost || r.URL.Path != "/w/add-checkpoint" {
		fault(http.StatusNotFound, "%s %s %v", r.Method, r.URL.Path, err)
		return
	}
	if answer := w.answer; answer != nil {
		w.mu.Unlock()
		answered := answer(rw)
		w.mu.Lock()
		if answered {
			return
		}
	}
	front, text, ok := strings.Cut(string(body), "\n\n")
	lines := strings.Split(front, "\n")
	number, isOld := strings.CutPrefix(lines[0], "old ")
	old, err := strconv.ParseUint(number, 10, 63)
	if !ok || !isOld || err != nil || strconv.FormatUint(old, 10) != number || len(lines)-1 > 63 || !strings.HasSuffix(text, "\n") {
		fault(http.StatusBadRequest, "the body is none: %q", body)
		return
	}
	var proof tlog.TreeProof
	for _, line := range lines[1:] {
		raw, err := base64.StdEncoding.DecodeString(line)
		if err != nil || len(raw) != 32 {
			fault(http.StatusBadRequest, "%q is no hash", line)
			return
		}
		proof = append(proof, Hash(raw))
	}
	origin, _, _ := strings.Cut(text, "\n")
	known := w.known[origin]
	if known == nil {
		rw.WriteHeader(http.StatusNotFound)
		return
	}
	n, err := note.Open([]byte(text), note.VerifierList(known))
	if err != nil {
		rw.WriteHeader(http.StatusForbidden)
		return
	}
	tree, ok := parseTree(n.Text)
	if !ok || old > tree.Size {
		fault(http.StatusBadRequest, "old %d of %q", old, n.Text)
		return
	}
	last := w.seen[origin]
	if old != last.Size {
		rw.Header().Set("Content-Type", "text/x.tlog.size")
		rw.WriteHeader(http.StatusConflict)
		fmt.Fprintf(rw, "%d\n", last.Size)
		return
	}
	switch {
	case old == tree.Size:
		if tree.Root != last.Root {
			rw.WriteHeader(http.StatusConflict)
			return
		}
		if len(proof) > 0 {
			fault(http.StatusUnprocessableEntity, "a proof of nothing")
			return
		}
	case old == 0:
		if len(proof) > 0 {
			fault(http.StatusUnprocessableEntity, "a proof from nothing")
			return
		}
	default:
		if tlog.CheckTree(proof, int64(tree.Size), tree.Root, int64(last.Size), last.Root) != nil {
			rw.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
	}
	w.seen[origin] = tree
	fmt.Fprint(rw, "— somebody.example/else AAAAAAAAAAAAAAAAAAAA\n"+w.cosign(n.Text))
}

func (w *strictWitness) blameless(t testing.TB) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.faults {
		t.Error("asked against the protocol: ", f)
	}
}

func (w *strictWitness) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked
}

func (w *strictWitness) set(answer func(http.ResponseWriter) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = answer
}

// witness makes the worker of a rig; its turns are the test's.
func (r *rig) witness(url string, key WitnessKey) *Witness {
	r.t.Helper()
	w, err := NewWitness(WitnessParts{Sealer: r.seal, URL: url, Key: key.String(), Log: r.parts.Log, Wait: 300 * time.Millisecond, Every: time.Millisecond})
	if err != nil {
		r.t.Fatal(err)
	}
	return w
}

// again lets the worker try at once what it has put off.
func (w *Witness) again() {
	for _, l := range w.logs {
		l.turns = 0
	}
	w.turn(context.Background())
}

func TestWitness(t *testing.T) {
	r, strict := newRig(t), newStrictWitness(t)
	server := httptest.NewServer(strict)
	defer server.Close()
	november, december := originOf(testEdge, "2026-11"), originOf(testEdge, "2026-12")
	strict.knows(r.seal.Keys()[0], november)
	w := r.witness(server.URL+"/w/", strict.key)
	w.again() // nothing is signed
	if strict.count() != 0 || w.Newest("2026-11") != nil {
		t.Fatal("asked about nothing")
	}
	for i, n := range []int{1, 1, 5, 250, 300, 1, 64} {
		r.add(n, 64)
		w.again()
		got := w.Newest("2026-11")
		if got == nil || got.Tree != r.checkpoint("2026-11").Tree || got.At.Unix() != strict.time || got.Cosignatures != 1 {
			t.Fatalf("%d: %+v, %v", i, got, w.Status().Problems)
		}
	}
	asked := strict.count()
	w.again()
	if strict.count() != asked {
		t.Error("a checkpoint that is witnessed already is shown again")
	}
	key := Check{Keys: r.seal.Keys(), Witnesses: []WitnessKey{strict.key}}
	newest := w.Newest("2026-11")
	export := r.exportParts(ExportOptions{}, Part{Checkpoint: &newest.Checkpoint})
	if l := good(t, export, key).Logs[0]; l.Witness != strict.key.Name || l.WitnessedAt.Unix() != strict.time || l.Cosignatures != 1 {
		t.Errorf("%+v", l)
	}
	good(t, export, Check{Keys: r.seal.Keys()})
	bad(t, r.export(ExportOptions{}), key, WrongUnwitnessed, 2)
	other := newStrictWitness(t)
	bad(t, export, Check{Witnesses: []WitnessKey{other.key}}, WrongUnwitnessed, 2)
	good(t, export, Check{Witnesses: []WitnessKey{other.key, strict.key}})
	// No line of any of them may be wrong, in whatever order they are named.
	two := *newest
	for what, text := range map[string]string{"": newest.text(), WrongSignature: "another text\n"} {
		line := strings.Replace(other.cosign(text), other.key.Name, "witness.example/w2", 1)
		second := other.key
		second.Name = "witness.example/w2"
		raw, _ := base64.StdEncoding.DecodeString(strings.Fields(line)[2])
		id := second.id()
		line = "— " + second.Name + " " + base64.StdEncoding.EncodeToString(append(id[:], raw[4:]...)) + "\n"
		two.Note = append(bytes.Clone(newest.Note), line...)
		export := r.exportParts(ExportOptions{}, Part{Checkpoint: &two.Checkpoint})
		proof, err := Prove(r.seal.Source(), &two.Checkpoint, 3)
		if err != nil {
			t.Fatal(err)
		}
		p, err := VerifyProof(proof, r.seal.Keys())
		if err != nil {
			t.Fatal(err)
		}
		for _, order := range [][]WitnessKey{{strict.key, second}, {second, strict.key}} {
			name, err := p.Witnessed(order)
			if what == "" {
				good(t, export, Check{Witnesses: order})
				if err != nil || name != order[0].Name {
					t.Error(name, err)
				}
				continue
			}
			bad(t, export, Check{Witnesses: order}, what, 2)
			if err == nil {
				t.Errorf("a wrong line is passed over in a proof: %s", name)
			}
		}
	}
	// The time is signed too.
	line, _, err := strict.key.cosigned(newest.Note)
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := base64.StdEncoding.DecodeString(strings.Fields(string(line))[2])
	raw[11] ^= 1
	forged := *newest
	forged.Note = bytes.Replace(newest.Note, line, []byte("— "+strict.key.Name+" "+base64.StdEncoding.EncodeToString(raw)+"\n"), 1)
	bad(t, r.exportParts(ExportOptions{}, Part{Checkpoint: &forged.Checkpoint}), key, WrongSignature, 2)
	// As files, and in a proof.
	dir := t.TempDir()
	if err := WriteTree(dir, r.seal.Source(), &newest.Checkpoint, nil); err != nil {
		t.Fatal(err)
	}
	if report, err := VerifyTree(dir, key); err != nil || !report.OK || report.Logs[0].Witness == "" {
		t.Error(report, err)
	}
	if report, err := VerifyTree(dir, Check{Witnesses: []WitnessKey{other.key}}); err != nil || report.OK || report.Problem.Word != WrongUnwitnessed || report.Problem.File != "checkpoint" {
		t.Error(report, err)
	}

	// A new process knows what was witnessed, and does not ask again.
	r.open()
	w = r.witness(server.URL+"/w", strict.key)
	w.again()
	if strict.count() != asked || w.Newest("2026-11") == nil {
		t.Error("after a restart it is asked for what it has signed")
	}
	// One that lost what it knew asks for it.
	r.add(10, 4)
	if err := os.Remove(witnessedPath(r.parts.Dir, "2026-11")); err != nil {
		t.Fatal(err)
	}
	w = r.witness(server.URL+"/w", strict.key)
	w.again()
	if got := w.Newest("2026-11"); got == nil || got.Tree != r.checkpoint("2026-11").Tree {
		t.Error(w.Status())
	}
	// The same checkpoint again, where the answer was lost.
	if err := os.Remove(witnessedPath(r.parts.Dir, "2026-11")); err != nil {
		t.Fatal(err)
	}
	w = r.witness(server.URL+"/w", strict.key)
	w.again()
	if got := w.Newest("2026-11"); got == nil {
		t.Error(w.Status())
	}

	// The end of a month is witnessed, and the next one, once the witness knows it.
	r.now = time.Date(2026, 12, 3, 0, 0, 0, 0, time.UTC)
	r.add(5, 5)
	w.again()
	if got := w.Newest("2026-11"); got.Tree != r.checkpoint("2026-11").Tree {
		t.Error("the end of a month is not witnessed")
	}
	if p := w.Status().Problems; len(p) != 1 || !strings.Contains(p[0], december) || !strings.Contains(p[0], "404") {
		t.Error(p)
	}
	strict.knows(r.seal.Keys()[0], december)
	w.again()
	if got := w.Newest("2026-12"); got == nil || len(w.Status().Problems) > 0 {
		t.Error(got, w.Status())
	}
	strict.blameless(t)
}

// TestWitnessFails: what a witness does wrong is told, nothing of it is kept, the log is
// signed all the same, and it is made up for once the witness does right.
// TestWitnessTime: no clock that goes in milliseconds makes a time that JSON cannot have.
func TestWitnessTime(t *testing.T) {
	strict := newStrictWitness(t)
	text := "edge.example/1/2026-11\n1\nAAAA\n"
	for last, want := range map[int64]error{latest: nil, latest + 1: errSignature, 1_796_063_400_000: errSignature} {
		strict.time = last - 1
		_, at, err := strict.key.cosigned([]byte(text + "\n" + strict.cosign(text)))
		if err != want || err == nil && at.Year() != 9999 {
			t.Errorf("%d: %v %v, want %v", last, at, err, want)
		}
	}
}

func TestWitnessFails(t *testing.T) {
	r, strict := newRig(t), newStrictWitness(t)
	server := httptest.NewServer(strict)
	defer server.Close()
	origin := originOf(testEdge, "2026-11")
	strict.knows(r.seal.Keys()[0], origin)
	r.add(3, 3)
	w := r.witness(server.URL+"/w", strict.key)
	w.again()
	says := func(status int, kind, body string) func(http.ResponseWriter) bool {
		return func(rw http.ResponseWriter) bool {
			if kind != "" {
				rw.Header().Set("Content-Type", kind)
			}
			rw.WriteHeader(status)
			_, _ = io.WriteString(rw, body)
			return true
		}
	}
	release := make(chan struct{})
	defer close(release)
	other := newStrictWitness(t)
	cases := []struct {
		name, want string
		answer     func(http.ResponseWriter) bool
	}{
		{"garbage", "has no signature of the key", says(200, "", "\x00\xff<html>")},
		{"nothing", "has no signature of the key", says(200, "", "")},
		{"of another key", "has no signature of the key", says(200, "", other.cosign(r.checkpoint("2026-11").text()))},
		{"over something else", "is not that of its key", says(200, "", strict.cosign(r.checkpoint("2026-11").text()))}, // of before it grew
		{"with a text of its own", "has no signature of the key", says(200, "", "mine\n\n"+strict.cosign(r.checkpoint("2026-11").text()+"\nmine\n"))},
		{"long", "more than", says(200, "", strings.Repeat("— a b\n", 20_000))},
		{"a fault", "status 500", says(500, "", "boom")},
		{"a redirect", "status 307", func(rw http.ResponseWriter) bool {
			rw.Header().Set("Location", server.URL+"/elsewhere")
			rw.WriteHeader(http.StatusTemporaryRedirect)
			return true
		}},
		{"refused", "by another key", says(403, "", "")},
		{"inconsistent", "another log", says(422, "", "")},
		{"another root", "another log", says(409, "", "")},
		{"a size that is none", "another log", says(409, "text/x.tlog.size", "-1\n")},
		{"ahead", "more than the", says(409, "text/x.tlog.size", "1000000\n")},
		{"moving", "another size", func() func(http.ResponseWriter) bool {
			n := 0
			return func(rw http.ResponseWriter) bool {
				n++
				return says(409, "text/x.tlog.size", strconv.Itoa(n%2+1)+"\n")(rw)
			}
		}()},
		{"hanging", "in time", func(rw http.ResponseWriter) bool {
			select {
			case <-release:
			case <-time.After(2 * time.Second):
			}
			return true
		}},
		{"broken off", "broke", func(rw http.ResponseWriter) bool {
			conn, _, err := rw.(http.Hijacker).Hijack()
			if err == nil {
				_ = conn.Close()
			}
			return true
		}},
	}
	for _, c := range cases {
		before := w.Newest("2026-11").Tree
		file, err := os.ReadFile(witnessedPath(r.parts.Dir, "2026-11"))
		if err != nil {
			t.Fatal(err)
		}
		r.add(2, 2)
		strict.set(c.answer)
		w.again()
		if p := w.Status().Problems; len(p) != 1 || !strings.Contains(p[0], c.want) || strings.Contains(p[0], "127.0.0.1") {
			t.Errorf("%s: %q", c.name, p)
		}
		if after, err := os.ReadFile(witnessedPath(r.parts.Dir, "2026-11")); err != nil || !bytes.Equal(after, file) || w.Newest("2026-11").Tree != before {
			t.Errorf("%s: something was kept", c.name)
		}
		if st := r.seal.Status(); st.Signed == nil || *st.Signed != st.Log || st.Error != "" {
			t.Errorf("%s: %+v", c.name, st)
		}
		strict.set(nil)
		w.again()
		if p := w.Status().Problems; len(p) != 0 || w.Newest("2026-11").Tree != r.checkpoint("2026-11").Tree {
			t.Errorf("%s: it is not made up for: %q", c.name, p)
		}
	}
	// Nobody is there.
	server.Close()
	r.add(2, 2)
	w.again()
	if p := w.Status().Problems; len(p) != 1 || !strings.Contains(p[0], "refused") {
		t.Error(p)
	}
	// It is left alone for longer and longer.
	for range 20 {
		w.again()
	}
	if l := w.logs["2026-11"]; l.turns != mostPause {
		t.Errorf("%+v", l)
	}
	strict.faults = nil // the requests that were answered by the test
	// A link-local address is never dialled.
	w = r.witness("http://169.254.169.254/w", strict.key)
	w.again()
	if p := w.Status().Problems; len(p) != 1 || !strings.Contains(p[0], "never called") {
		t.Error(p)
	}
}

// TestWitnessOfWhatIsDropped: a log that is not kept any more is not shown, and nothing
// is said of it.
func TestWitnessOfWhatIsDropped(t *testing.T) {
	r, strict := newRig(t), newStrictWitness(t)
	server := httptest.NewServer(strict)
	defer server.Close()
	for _, m := range []Month{"2026-11", "2026-12"} {
		strict.knows(r.seal.Keys()[0], originOf(testEdge, m))
	}
	w := r.witness(server.URL+"/w", strict.key)
	r.add(300, 64)
	w.again()
	strict.set(func(rw http.ResponseWriter) bool { rw.WriteHeader(http.StatusServiceUnavailable); return true })
	r.add(3, 3)
	r.now = time.Date(2026, 12, 3, 0, 0, 0, 0, time.UTC)
	r.add(5, 5)
	w.again()
	if len(w.Status().Problems) != 2 {
		t.Fatal(w.Status())
	}
	if err := r.seal.Drop("2026-11"); err != nil {
		t.Fatal(err)
	}
	strict.set(nil)
	w.again()
	if p := w.Status().Problems; len(p) > 0 || w.Newest("2026-12").Tree != r.checkpoint("2026-12").Tree || w.logs["2026-11"] != nil {
		t.Error(p)
	}
	strict.blameless(t)
}

// TestWitnessedFile: a file that was changed is not believed.
func TestWitnessedFile(t *testing.T) {
	r, strict := newRig(t), newStrictWitness(t)
	server := httptest.NewServer(strict)
	defer server.Close()
	strict.knows(r.seal.Keys()[0], originOf(testEdge, "2026-11"))
	r.add(3, 3)
	r.witness(server.URL+"/w", strict.key).again()
	path := witnessedPath(r.parts.Dir, "2026-11")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		changed := bytes.Clone(whole)
		changed[i] ^= 1
		if err := os.WriteFile(path, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		if w := r.witness(server.URL+"/w", strict.key); w.Newest("2026-11") != nil {
			t.Fatalf("byte %d: a changed file is believed", i)
		}
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	other := newStrictWitness(t)
	if w := r.witness(server.URL+"/w", other.key); w.Newest("2026-11") != nil {
		t.Error("another witness's is believed")
	}
	if w := r.witness(server.URL+"/w", strict.key); w.Newest("2026-11") == nil {
		t.Error("it is not read")
	}
}

// TestWitnessRuns: the worker runs beside the log, and ends with its context while the
// witness hangs.
func TestWitnessRuns(t *testing.T) {
	r, strict := newRig(t), newStrictWitness(t)
	hang := make(chan struct{})
	server := httptest.NewServer(strict)
	defer server.Close()
	defer close(hang)
	strict.knows(r.seal.Keys()[0], originOf(testEdge, "2026-11"))
	w := r.witness(server.URL+"/w", strict.key)
	w.http.Timeout = time.Minute
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	for range 20 {
		r.add(10, 10)
	}
	await(t, func() bool { n := w.Newest("2026-11"); return n != nil && n.Tree == r.checkpoint("2026-11").Tree })
	strict.set(func(http.ResponseWriter) bool {
		select {
		case <-hang:
		case <-ctx.Done():
		}
		return true
	})
	r.add(10, 10)
	stop()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it does not end")
	}
	var none *Witness
	if none.Run(t.Context()) != nil || none.Newest("2026-11") != nil || none.Status() != nil {
		t.Error("no witness does something")
	}
}

func await(t *testing.T, is func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); !is(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("it never comes")
		}
	}
}

func TestWitnessKey(t *testing.T) {
	k := newStrictWitness(t).key
	if got, err := ParseWitnessKey(" " + k.String() + "\n"); err != nil || got != k {
		t.Error(got, err)
	}
	ours := newTestRing(t).current().String()
	for _, text := range []string{"", "a+b", "a+b+c", k.String()[1:], k.String() + "A", ours, strings.Replace(k.String(), "/", " ", 1)} {
		if _, err := ParseWitnessKey(text); err == nil {
			t.Errorf("%q is a key", text)
		}
	}
}
