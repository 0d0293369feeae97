package gateway

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"headway/core"
)

// passing are the response headers of an upstream that reach the client: what
// SDKs read, and nothing of the operator's account.
var passing = [...]string{"Content-Type", "Cache-Control", "Request-Id", "Openai-Version", "Openai-Processing-Ms", "X-Should-Retry"}

// longestPassed is the longest value of a header that passes: SDKs refuse an
// answer whose headers are large.
const longestPassed = 1 << 10

// pass copies the headers named of an answer of p's, one value each.
func pass(to, from http.Header, p *core.Provider, names ...string) {
	for _, name := range names {
		if v := from[name]; len(v) > 0 && len(v[0]) <= longestPassed {
			to[name] = []string{hide(v[0], p)}
		}
	}
}

// sink is the client's side of a call.
type sink struct {
	c *call

	// For each event:
	w        http.ResponseWriter
	flusher  flusher
	due      time.Time // to move the deadline on
	begun    bool
	extended bool // since the last Flush

	t      *try
	from   http.Header // the upstream's
	status int
	rc     *http.ResponseController
	now    core.Clock
	limit  time.Duration // limits.client_write
}

func (c *call) sink(t *try, resp *http.Response) sink {
	rc := http.NewResponseController(c.ResponseWriter)
	return sink{w: c.ResponseWriter, c: c, t: t, from: resp.Header, status: resp.StatusCode, rc: rc, flusher: flusherOf(c.ResponseWriter, rc),
		now: c.g.Clock, limit: c.setup.Settings.Limits.ClientWrite}
}

// header is the client's header, with what passes from the upstream's in it.
func (s *sink) header() http.Header {
	h := s.c.Header()
	if s.from == nil {
		return h
	}
	if !s.t.foreign {
		pass(h, s.from, s.t.pick.Offer.Provider, passing[:]...)
	}
	if len(s.t.dropped) > 0 {
		h["X-Headway-Dropped"] = []string{droppedHeader(s.t.dropped)}
	}
	s.from = nil
	if s.c.job.Streamed && s.status == http.StatusOK {
		h["Cache-Control"] = []string{"no-cache"}
		h["X-Accel-Buffering"] = []string{"no"}
		kind := s.c.writer.ContentType()
		media, _, _ := strings.Cut(kind, ";")
		if t := h["Content-Type"]; len(t) == 0 || !strings.HasPrefix(t[0], media) {
			h["Content-Type"] = []string{kind}
		}
	}
	s.c.name(h, s.t.Offer, len(s.c.tries))
	return h
}

// name puts the call's own headers into an answer.
func (c *call) name(h http.Header, offer core.OfferID, attempts int) {
	h["X-Request-Id"] = []string{string(c.id)}
	if offer != "" {
		h["X-Headway-Offer"] = []string{inHeader(string(offer))}
		h["X-Headway-Attempts"] = []string{strconv.Itoa(attempts)}
	}
}

func (s *sink) begin() {
	if !s.begun {
		s.begun, s.c.sent = true, true
		s.header()
		s.c.WriteHeader(s.status)
		s.c.status = s.status
	}
}

// writePiece is what a client has limits.client_write for: a slow one may take
// longer over an answer of many.
const writePiece = 64 << 10

// Write sends bytes to the client; a write that blocks for limits.client_write
// fails with os.ErrDeadlineExceeded. What is longer than a buffer goes out before
// Flush, hence the new deadline here.
func (s *sink) Write(p []byte, at time.Time) error {
	for {
		s.extend(at)
		s.begin()
		n := min(len(p), writePiece)
		if _, err := s.w.Write(p[:n]); err != nil {
			return err
		}
		if p = p[n:]; len(p) == 0 {
			return nil
		}
		at = s.now()
	}
}

// Flush sends what was written on its way.
func (s *sink) Flush() error {
	if !s.extended { // a hold-back that ended without a write
		s.extend(s.now())
	}
	s.extended = false
	return s.flusher.FlushError()
}

// flusher is what net/http's writers have; http.ResponseController looks for it
// at every call.
type flusher interface{ FlushError() error }

// controlled is a writer that has no FlushError of its own.
type controlled struct{ *http.ResponseController }

// FlushError flushes.
func (c controlled) FlushError() error { return c.Flush() }

func flusherOf(w http.ResponseWriter, rc *http.ResponseController) flusher {
	if f, ok := w.(flusher); ok {
		return f
	}
	return controlled{rc}
}

// extend moves the write deadline on, not for each event but when a quarter of
// it is used up.
func (s *sink) extend(now time.Time) {
	s.extended = true
	if !now.Before(s.due) {
		s.due = now.Add(s.limit / 4)
		_ = s.rc.SetWriteDeadline(now.Add(s.limit))
	}
}

// passOn sends an upstream's refusal back as it is; one that is no JSON, a
// proxy's page, or of another format in the words of the caller's format.
func (c *call) passOn(t *try) {
	c.g.patient(c.ResponseWriter)
	h := c.Header()
	c.name(h, t.Offer, max(len(c.tries), 1))
	c.status = t.Status
	c.hold.Ended()
	pass(h, t.pass.header, t.pick.Offer.Provider, "Retry-After", "Request-Id", "X-Should-Retry")
	provider := t.pick.Offer.Provider
	if t.foreign || !isObject(t.pass.body) || cloudsOwn(provider.Format, t.pass.body) {
		writeError(c.ResponseWriter, c.writer, verdict{word: "status", kind: callersFault(t.Status)}.tell(t, nil), t.Status)
		c.sent = true
		return
	}
	pass(h, t.pass.header, provider, "Content-Type")
	body := hide(string(t.pass.body), provider)
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	c.WriteHeader(t.Status)
	c.sent = true
	_, _ = c.ResponseWriter.Write([]byte(body))
}

// cloudsOwn tells whether an error is the cloud's and not that of the model's
// maker, whose format the caller speaks: at Bedrock always, at Vertex where the
// call did not get as far as the model.
func cloudsOwn(f core.Format, body []byte) bool {
	if f != core.FormatVertexAnthropic {
		return f == core.FormatBedrock
	}
	var e struct {
		Type string `json:"type"`
	}
	return json.Unmarshal(body, &e) != nil || e.Type != "error"
}

// isObject tells whether a body is what errors of all formats are: a JSON
// object, or Google's list of one.
func isObject(body []byte) bool {
	head := bytes.TrimLeft(body, " \t\r\n")
	return len(head) > 0 && (head[0] == '{' || head[0] == '[') && json.Valid(head)
}

// callersFault is the kind of a status that is the caller's.
func callersFault(status int) core.Kind {
	for kind, info := range core.Kinds {
		if info.Status == status && status != http.StatusUnauthorized {
			return kind
		}
	}
	return core.Invalid
}
