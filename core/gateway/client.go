package gateway

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"headway/core"
)

// passing are the response headers of an upstream that reach the client: what
// SDKs read, and nothing of the operator's account.
var passing = [...]string{"Content-Type", "Cache-Control", "Request-Id", "Openai-Version", "Openai-Processing-Ms", "X-Should-Retry"}

// sink is the client's side of a call.
type sink struct {
	c        *call
	t        *try
	from     http.Header // the upstream's
	status   int
	begun    bool
	rc       *http.ResponseController
	deadline time.Time
}

func (c *call) sink(t *try, resp *http.Response) *sink {
	return &sink{c: c, t: t, from: resp.Header, status: resp.StatusCode, rc: http.NewResponseController(c.ResponseWriter)}
}

// header is the client's header, with what passes from the upstream's in it.
func (s *sink) header() http.Header {
	h := s.c.Header()
	if s.from == nil {
		return h
	}
	for _, name := range passing {
		if v := s.from[name]; len(v) > 0 {
			h[name] = v
		}
	}
	s.from = nil
	if s.c.job.Streamed && s.status == http.StatusOK {
		h["Cache-Control"] = []string{"no-cache"}
		h["X-Accel-Buffering"] = []string{"no"}
		if t := h["Content-Type"]; len(t) == 0 || !strings.HasPrefix(t[0], "text/event-stream") {
			h["Content-Type"] = []string{s.c.writer.ContentType()}
		}
	}
	s.c.name(h, s.t.Offer, len(s.c.tries)+1)
	return h
}

// name puts the call's own headers into an answer.
func (c *call) name(h http.Header, offer core.OfferID, attempts int) {
	h["X-Request-Id"] = []string{string(c.id)}
	if offer != "" {
		h["X-Headway-Offer"] = []string{string(offer)}
		h["X-Headway-Attempts"] = []string{strconv.Itoa(attempts)}
	}
}

func (s *sink) begin() error {
	if !s.begun {
		s.begun = true
		s.header()
		s.c.WriteHeader(s.status)
		s.c.status = s.status
	}
	return nil
}

// Write sends bytes to the client; a write that blocks for limits.client_write
// fails with os.ErrDeadlineExceeded.
func (s *sink) Write(p []byte) error {
	s.extend()
	_ = s.begin()
	_, err := s.c.ResponseWriter.Write(p)
	return err
}

// Flush sends what was written on its way.
func (s *sink) Flush() error {
	s.extend()
	return s.rc.Flush()
}

// extend moves the write deadline on, not for each event but when a quarter of
// it is used up.
func (s *sink) extend() {
	limit := s.c.setup.Settings.Limits.ClientWrite
	now := s.c.g.Clock()
	if s.deadline.Sub(now) < limit*3/4 {
		s.deadline = now.Add(limit)
		_ = s.rc.SetWriteDeadline(s.deadline)
	}
}

// passOn sends an upstream's refusal back as it is.
func (c *call) passOn(t *try) {
	h := c.Header()
	if v := t.pass.header["Content-Type"]; len(v) > 0 {
		h["Content-Type"] = v
	}
	for _, name := range [...]string{"Retry-After", "Request-Id", "X-Should-Retry"} {
		if v := t.pass.header[name]; len(v) > 0 {
			h[name] = v
		}
	}
	c.name(h, t.Offer, max(len(c.tries), 1))
	body := hide(string(t.pass.body), t.pick.Offer.Provider)
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	c.status = t.Status
	c.WriteHeader(t.Status)
	_, _ = c.ResponseWriter.Write([]byte(body))
	c.sent = true
}
