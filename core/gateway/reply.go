package gateway

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"headway/core"
)

// reply answers the call with an error in the caller's own format.
func (c *call) reply(err error) {
	if c.sent {
		return
	}
	e := known(err)
	if c.writer == nil {
		c.writer = c.adapter.Writer(nil)
	}
	var offer core.OfferID
	if len(c.tries) > 0 {
		offer = c.last().Offer
	}
	c.name(c.Header(), offer, len(c.tries))
	c.status = e.Status()
	if !c.read {
		c.g.leave(c.ResponseWriter, c.r)
	}
	c.g.patient(c.ResponseWriter)
	writeError(c.ResponseWriter, c.writer, e, e.Status())
	c.sent = true
}

// known is an error that may be shown.
func known(err error) *core.Error {
	var e *core.Error
	if errors.As(err, &e) {
		return e
	}
	return &core.Error{Kind: core.Internal, Msg: "an internal error", Err: err}
}

// refuse answers a request that is no call. It leaves a log line and a counter,
// as a refused call does.
func (g *Gateway) refuse(w http.ResponseWriter, r *http.Request, e *core.Error) {
	id := core.NewCallID(g.Clock())
	w.Header()["X-Request-Id"] = []string{string(id)}
	w.Header()[core.VersionHeader] = []string{"1"}
	writeError(w, g.speaker(r).Writer(nil), e, e.Status())
	g.noteRefused(id, nil, e)
}

// speaker is the adapter whose words a path's caller understands.
func (g *Gateway) speaker(r *http.Request) core.Adapter {
	switch p := r.URL.Path; {
	case strings.HasPrefix(p, "/v1/messages") || r.Header.Get("Anthropic-Version") != "":
		return g.adapters[core.FormatAnthropic]
	case strings.HasPrefix(p, "/v1beta/"):
		return g.adapters[core.FormatGoogle]
	case strings.HasPrefix(p, "/v1/responses"):
		return g.adapters[core.FormatResponses]
	}
	return g.adapters[core.FormatOpenAI]
}

// writeError sends an error in the writer's format. The status is the error's
// own but where an upstream's is passed on.
func writeError(w http.ResponseWriter, writer core.Writer, e *core.Error, status int) {
	body := writer.ErrorBody(e)
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	if e.RetryAfter > 0 {
		h["Retry-After"] = []string{strconv.Itoa(int((e.RetryAfter + time.Second - 1) / time.Second))}
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
