package seal

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"headway/core"
)

// WitnessParts are what a Witness is made of.
type WitnessParts struct {
	Sealer *Sealer
	URL    string // what /add-checkpoint is put behind
	Key    string // the witness's verifier key
	Log    *slog.Logger
	// Every is the least time between two checkpoints of one log; 0: a second.
	Every time.Duration
	// Wait is how long the witness may take for one; 0: ten seconds.
	Wait time.Duration
}

// Witness shows the newest checkpoint of each log to a witness (c2sp.org/tlog-witness)
// and keeps what it signs: so nobody can be shown a history that the witness has not
// seen, nor one that was cut off before what it has seen. It works beside everything
// else: no receipt and no signature waits for it.
type Witness struct {
	p    WitnessParts
	key  WitnessKey
	http http.Client

	// The worker's own.
	logs map[Month]*witnessing

	mu      sync.Mutex // guards what follows
	newest  map[Month]*Witnessed
	problem map[Month]string
}

// Witnessed is a checkpoint that the witness has signed too; its note has the line.
type Witnessed struct {
	Checkpoint
	At time.Time // when the witness signed
}

// witnessing is what the worker knows of one log.
type witnessing struct {
	old   uint64 // the size that the witness knows, as far as it is known here
	pause int    // how many turns it is left alone after failures
	turns int    // of these that are left
}

// WitnessStatus is how the witnessing stands.
type WitnessStatus struct {
	Name     string   `json:"name"` // of the witness's key
	Problems []string `json:"problems,omitempty"`
}

// mostAnswer bounds what is read of a witness's answer.
const mostAnswer = 64 << 10

func witnessedPath(dir string, m Month) string { return filepath.Join(dir, string(m)+".witnessed") }

// NewWitness reads what the witness has signed before; Run does the rest.
func NewWitness(p WitnessParts) (*Witness, error) {
	key, err := ParseWitnessKey(p.Key)
	if err != nil {
		return nil, err
	}
	if p.Every == 0 {
		p.Every = time.Second
	}
	if p.Wait == 0 {
		p.Wait = 10 * time.Second
	}
	w := &Witness{p: p, key: key, logs: map[Month]*witnessing{}, newest: map[Month]*Witnessed{}, problem: map[Month]string{}}
	dialer := net.Dialer{Timeout: 5 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return core.CheckIP(to.Addr(), true)
	}}
	w.http = http.Client{
		Timeout:       p.Wait,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{DialContext: dialer.DialContext, TLSHandshakeTimeout: 5 * time.Second, ForceAttemptHTTP2: true, DisableCompression: true,
			MaxIdleConnsPerHost: 1, IdleConnTimeout: 90 * time.Second, MaxResponseHeaderBytes: mostAnswer},
	}
	months, err := p.Sealer.Months()
	if err != nil {
		return nil, err
	}
	for _, m := range months {
		c, err := w.load(m)
		if err != nil {
			p.Log.Warn("receipt log: what the witness has signed cannot be read, it is asked again", "log", string(m), "err", err)
		}
		w.logs[m] = &witnessing{}
		if c != nil {
			w.newest[m], w.logs[m].old = c, c.Size
		}
	}
	return w, nil
}

// load reads the newest checkpoint of a log that the witness has signed; nil: there is
// none.
func (w *Witness) load(m Month) (*Witnessed, error) {
	s := w.p.Sealer
	text, err := readBounded(witnessedPath(s.p.Dir, m), mostNote)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c, err := ParseCheckpoint(text, s.Keys())
	if err != nil {
		return nil, err
	}
	_, at, err := w.key.cosigned(text)
	if errors.Is(err, errUnwitnessed) {
		return nil, nil // of another witness, from before
	}
	if err == nil && c.Origin != originOf(s.p.Edge, m) {
		err = errors.New("it is of another log")
	}
	if err != nil {
		return nil, err
	}
	return &Witnessed{*c, at}, nil
}

// Newest is the newest checkpoint of a log that the witness has signed; nil: none.
func (w *Witness) Newest(m Month) *Witnessed {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.newest[m]
}

// Status tells how it stands; nil: there is no witness.
func (w *Witness) Status() *WitnessStatus {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	st := &WitnessStatus{Name: w.key.Name}
	for m, text := range w.problem {
		st.Problems = append(st.Problems, "log "+string(m)+": "+text)
	}
	slices.Sort(st.Problems)
	return st
}

// Run asks the witness until ctx ends: of each log that has grown once a second at
// most, and less often while that fails.
func (w *Witness) Run(ctx context.Context) error {
	if w == nil {
		return nil
	}
	defer w.http.CloseIdleConnections()
	tick := time.NewTicker(w.p.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			w.turn(ctx)
		}
	}
}

// mostPause is how many turns a log is left alone at most.
const mostPause = 300

// turn looks at each log once.
func (w *Witness) turn(ctx context.Context) {
	if _, now, ok := splitOrigin(w.p.Sealer.Status().Log.Origin); ok && w.logs[now] == nil {
		w.logs[now] = &witnessing{}
	}
	for m, l := range w.logs {
		if l.turns--; l.turns > 0 || ctx.Err() != nil {
			continue
		}
		c, err := w.p.Sealer.Checkpoint(m)
		if err != nil {
			continue // it is told where the logs are listed
		}
		got := w.Newest(m)
		if got != nil && got.Tree == c.Tree {
			continue
		}
		if got != nil && got.Size >= c.Size {
			err = core.Errorf(core.Unavailable, "the witness has signed %d leaves, and here are %d, or others", got.Size, c.Size)
		} else {
			err = w.show(ctx, m, l, c)
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil && w.dropped(m) {
			delete(w.logs, m)
			err = nil
		}
		w.tell(m, err)
		if l.pause = min(max(2*l.pause, 1), mostPause); err == nil {
			l.pause = 0
		}
		l.turns = l.pause
	}
}

// dropped tells whether a log is not kept any more: its leaves cannot be proved to
// anybody.
func (w *Witness) dropped(m Month) bool {
	state, err := w.p.Sealer.p.Vault.Get(KindLog, string(m))
	return err == nil && state == nil
}

// tell notes how it went, in the log once where that changes.
func (w *Witness) tell(m Month, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	w.mu.Lock()
	was := w.problem[m]
	if w.problem[m] = text; text == "" {
		delete(w.problem, m)
	}
	w.mu.Unlock()
	switch {
	case was == text:
	case text == "":
		w.p.Log.Info("receipt log: the witness signs again", "log", string(m))
	default:
		w.p.Log.Warn("receipt log: "+text+"; it is tried again", "log", string(m))
	}
}

// errBehind says that the witness knows another size than was thought.
var errBehind = errors.New("the witness knows another size")

// show shows a checkpoint to the witness and keeps what it signs.
func (w *Witness) show(ctx context.Context, m Month, l *witnessing, c *Checkpoint) error {
	err := w.add(ctx, m, l, c)
	if errors.Is(err, errBehind) { // it has said which
		err = w.add(ctx, m, l, c)
	}
	if errors.Is(err, errBehind) {
		err = core.Errorf(core.Upstream, "the witness says each time that it knows another size")
	}
	return err
}

func (w *Witness) add(ctx context.Context, m Month, l *witnessing, c *Checkpoint) error {
	body := strconv.AppendUint([]byte("old "), l.old, 10)
	body = append(body, '\n')
	if l.old > 0 && l.old < c.Size {
		proof, err := tlog.ProveTree(int64(c.Size), int64(l.old), newTree(w.p.Sealer.Source(), m, c.Size))
		if err != nil {
			return damaged(m, err)
		}
		for _, h := range proof {
			body = append(base64.StdEncoding.AppendEncode(body, h[:]), '\n')
		}
	}
	body = append(append(body, '\n'), c.Note...)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(w.p.URL, "/")+"/add-checkpoint", bytes.NewReader(body))
	if err != nil {
		return core.Errorf(core.Invalid, "the witness's address is none")
	}
	req.Header.Set("Content-Type", "text/plain; charset=utf-8")
	resp, err := w.http.Do(req)
	if err != nil {
		return core.Errorf(core.Upstream, "the witness cannot be asked: %s", whyNot(err))
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer+1))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return core.Errorf(core.Upstream, "the witness's answer broke off: %s", whyNot(err))
	}
	if len(answer) > mostAnswer {
		return core.Errorf(core.Upstream, "the witness's answer has more than %d bytes", mostAnswer)
	}
	switch resp.StatusCode {
	case http.StatusOK:
		return w.keep(m, l, c, answer)
	case http.StatusConflict:
		return conflict(resp.Header.Get("Content-Type"), answer, l, c)
	case http.StatusNotFound:
		return core.Errorf(core.Upstream, "the witness does not know the log %s (status 404): whoever runs it must add it", c.Origin)
	case http.StatusForbidden:
		return core.Errorf(core.Upstream, "the witness knows the log %s by another key (status 403)", c.Origin)
	case http.StatusUnprocessableEntity:
		return core.Errorf(core.Upstream, "the witness has seen another log %s: it did not grow from there into this one (status 422)", c.Origin)
	}
	return core.Errorf(core.Upstream, "the witness answered with status %d", resp.StatusCode)
}

// conflict reads the size that the witness says it knows.
func conflict(kind string, answer []byte, l *witnessing, c *Checkpoint) error {
	size, err := strconv.ParseUint(strings.TrimSuffix(string(answer), "\n"), 10, 64)
	if !strings.HasPrefix(kind, "text/x.tlog.size") || err != nil {
		return core.Errorf(core.Upstream, "the witness has seen another log %s of this size (status 409)", c.Origin)
	}
	switch {
	case size > c.Size:
		return core.Errorf(core.Upstream, "the witness has seen %d leaves of the log %s, more than the %d that are here", size, c.Origin, c.Size)
	case size == l.old:
		return core.Errorf(core.Upstream, "the witness has seen another log %s of %d leaves", c.Origin, size)
	}
	l.old = size
	return errBehind
}

// keep takes the witness's line out of its answer and keeps it with the checkpoint.
func (w *Witness) keep(m Month, l *witnessing, c *Checkpoint, answer []byte) error {
	var line []byte
	at, err := time.Time{}, errUnwitnessed
	if !bytes.Contains(answer, []byte("\n\n")) { // which ends what is signed
		line, at, err = w.key.cosigned(append(append([]byte(c.text()), '\n'), answer...))
	}
	switch {
	case errors.Is(err, errUnwitnessed):
		return core.Errorf(core.Upstream, "the witness's answer has no signature of the key %s", w.key.Name)
	case err != nil:
		return core.Errorf(core.Upstream, "the signature in the witness's answer is not that of its key %s", w.key.Name)
	}
	note, err := Cosign(c.Note, append([]byte(c.text()+"\n"), line...))
	var signed *Checkpoint
	if err == nil {
		signed, err = ParseCheckpoint(note, w.p.Sealer.Keys())
	}
	if err != nil {
		return core.Errorf(core.Upstream, "the witness's answer cannot be put behind a checkpoint")
	}
	l.old = c.Size // the witness knows it now, whatever becomes of the file
	if err := replace(witnessedPath(w.p.Sealer.p.Dir, m), note); err != nil {
		return core.Errorf(core.Unavailable, "what the witness has signed cannot be kept: %v", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.newest[m] = &Witnessed{*signed, at}
	return nil
}

// replace puts a file in the place of another one, or leaves that as it was.
func replace(path string, text []byte) error {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// whyNot is an error of a connection in words that show no address.
func whyNot(err error) string {
	var refused *core.Error
	var op *net.OpError
	var untrusted *tls.CertificateVerificationError
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &refused):
		return refused.Msg
	case errors.As(err, &timeout) && timeout.Timeout():
		return "it did not answer in time"
	case errors.As(err, &untrusted):
		return "its certificate is not to be trusted: " + untrusted.Err.Error()
	case errors.As(err, &op):
		return op.Err.Error()
	}
	return "the connection broke"
}
