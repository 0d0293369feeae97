package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"crypto/tls"
	"headway/core"
	"headway/core/market"
	"headway/core/relay"
	"net"
)

// mostErrorBody is what is read of an upstream's error.
const mostErrorBody = 1 << 20

// errorBodyTime is how long an error's body may take: its status says most.
const errorBodyTime = 5 * time.Second

// refusedBy handles an answer whose status is not 2xx.
func (c *call) refusedBy(ctx context.Context, t *try, resp *http.Response, reader core.Reader) *try {
	var body []byte
	err := decode(resp)
	if err == nil && resp.StatusCode >= 200 { // below, the body is the connection itself
		body, err = io.ReadAll(io.LimitReader(resp.Body, mostErrorBody))
	}
	t.line.T6 = c.g.Clock()
	// What came of a broken body is enough, and its status too.
	if cause := context.Cause(ctx); err != nil && cause != nil && !relay.TimeLimit(cause) {
		return c.broke(ctx, t, err)
	}
	told := reader.ReadError(resp.StatusCode, body)
	t.result.Err = &told
	if d, ok := market.ParseRetryAfter(resp.Header.Get("Retry-After"), t.line.T2); ok {
		t.retryAfter = core.Some(d)
	}
	v := classify(resp.StatusCode, told)
	if v.word == "answer" || v.tooLong {
		t.pass = &passed{header: resp.Header, body: body}
	}
	if v.word == "answer" {
		t.Outcome, t.Error = core.Failed, "refused"
		c.passOn(t)
		return t
	}
	return c.failed(t, v, errors.New("status"))
}

// classify says what an upstream's status and error mean. Every 4xx that is not
// named here is the caller's and goes back as it is.
func classify(status int, e core.UpstreamError) verdict {
	says := func(words ...string) bool {
		text := strings.ToLower(e.Type + " " + e.Code + " " + e.Message)
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
	}
	exact := func(words ...string) bool {
		return slices.Contains(words, strings.ToLower(e.Type)) || slices.Contains(words, strings.ToLower(e.Code))
	}
	switch {
	case status < 200 || status > 599:
		return verdict{word: "status", next: true, counts: true}
	case status >= 300 && status < 400:
		return verdict{word: "redirect", next: true, counts: true}
	case status == http.StatusPaymentRequired,
		exact("insufficient_quota", "billing_error", "billing_not_active", "billing_hard_limit_reached", "exceeded_current_quota_error", "insufficient_balance"),
		says("credit balance is too low"):
		return verdict{word: "quota", next: true, quota: true}
	case status == http.StatusUnauthorized, exact("api_key_invalid"), status == http.StatusBadRequest && says("api key not valid"):
		return verdict{word: "auth", next: true, auth: true}
	case status == http.StatusForbidden:
		return verdict{word: "status", next: true, counts: true}
	case status == http.StatusTooManyRequests:
		return verdict{word: "status", next: true, counts: true, wait: true, kind: core.Busy}
	case status == http.StatusRequestTimeout || status == http.StatusFailedDependency || status >= 500: // 424: Bedrock's model failed
		return verdict{word: "status", next: true, counts: true, wait: status == http.StatusServiceUnavailable}
	case status == http.StatusRequestEntityTooLarge,
		exact("context_length_exceeded", "exceed_context_size_error", "request_too_large"),
		says("prompt is too long", "maximum context length", "exceeds the maximum number of tokens", "exceeds the available context size", "context window"):
		return verdict{word: "prompt_too_long", next: true, tooLong: true}
	}
	return verdict{word: "answer"}
}

// streamVerdict says what the end of a stream means.
func streamVerdict(t *try, end relay.End) verdict {
	told := t.result.Err
	node := (*core.NodeError)(nil)
	switch {
	case end.Outcome == core.ClientGone || end.Outcome == core.ClientStalled:
		return verdict{word: string(end.Outcome)}
	case end.Outcome == core.TimedOut:
		return timeVerdict(end.Err)
	case errors.Is(end.Err, ErrStopping):
		return verdict{word: "stopping"}
	case errors.Is(end.Err, relay.ErrEventTooLarge):
		return verdict{word: "event_too_large", next: true, counts: true}
	case errors.Is(end.Err, relay.ErrNoAnswer):
		return verdict{word: "no_output", next: true, counts: true}
	case errors.Is(end.Err, relay.ErrBroken):
		return verdict{word: "bad_answer", next: true, counts: true}
	case errors.As(end.Err, &node):
		return nodeVerdict(t, node)
	case errors.Is(end.Err, relay.ErrCut):
		return verdict{word: "cut", counts: true}
	case told != nil:
		v := verdict{word: "stream_error", next: true, counts: true}
		if told.Status > 0 {
			// The same error as a status, but never one to pass on as it is.
			switch as := classify(told.Status, *told); {
			case as.tooLong:
				as.kind = core.Invalid // the caller's, in Headway's words
				return as
			case as.word != "answer":
				as.word = v.word
				return as
			}
		}
		return v
	}
	return verdict{word: "connect", next: true, counts: true}
}

// brokenVerdict says what it means that a round trip got no answer.
func brokenVerdict(t *try, err error) verdict {
	if node := (*core.NodeError)(nil); errors.As(err, &node) {
		return nodeVerdict(t, node)
	}
	return verdict{word: brokenWord(err), counts: !ownLimit(err), next: true}
}

// busyNode is when a node that has no room is asked again, where it says nothing.
const busyNode = time.Second

// nodeVerdict says what the failure of a node's round trip means. One that has no
// room, or says that it is stopping, does what it should: nothing is counted, and it
// stays in the running. A node that was lost has failed once, whatever number of calls
// it had.
func nodeVerdict(t *try, e *core.NodeError) verdict {
	v := verdict{word: e.Word, next: true, counts: true}
	if e.Timing != nil && *e.Timing != (core.NodeTiming{}) {
		t.node = e.Timing
	}
	switch e.Word {
	case core.NodeBusy:
		v.counts, v.kind = false, core.Busy
		t.retryAfter = core.Some(e.RetryAfter.Or(busyNode))
	case core.NodeStopping, core.NodeTooSlow:
		v.counts = false
	case core.NodeGone: // once for all calls that it had
		v.counts = !e.Unsent && e.First()
	}
	return v
}

// brokenWord says, in a word of ours, why a round trip got no answer: the
// error's own text may hold addresses.
func brokenWord(err error) string {
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case errors.As(err, &name):
		return "dns"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.As(err, &certificate), errors.As(err, &record), errors.As(err, &alert):
		return "tls"
	}
	return "connect"
}

// ownLimit tells whether a dial failed for want of something of this machine's:
// file descriptors, ports, memory. No provider is to blame for that.
func ownLimit(err error) bool {
	for _, own := range [...]error{syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, own) {
			return true
		}
	}
	return false
}

// timeVerdict says what a time limit that ran out means.
func timeVerdict(cause error) verdict {
	v := verdict{word: "stream_idle", next: true, counts: true, kind: core.Timeout}
	switch cause {
	case relay.ErrHeaders:
		v.word = "header_timeout"
	case relay.ErrFirstOutput:
		v.word = "first_output_timeout"
	}
	return v
}

// nothingLeft is the client's answer where no offer answered (SPEC §9); denied is why
// the key's limits kept the call from another, nil where they did not.
func (c *call) nothingLeft(denied error) error {
	if len(c.tries) == 0 {
		e := core.Errorf(core.NoOffer, "model %q: every offer is at its capacity or has just gone out", c.job.Model)
		e.RetryAfter = time.Second
		return e
	}
	busy, tooLong, smallest := true, true, core.Opt[time.Duration]{}
	for i := range c.tries {
		t := c.tries[i]
		busy, tooLong = busy && t.busy, tooLong && t.tooLong
		if t.retryAfter.OK && (!smallest.OK || t.retryAfter.V < smallest.V) {
			smallest = t.retryAfter
		}
	}
	last := c.last()
	for i := range c.tries {
		if t := c.tries[i]; tooLong && t.pass != nil { // for every one of them
			c.passOn(t)
			return nil
		}
	}
	e := *last.err
	switch {
	case busy:
		e.Kind, e.Code = core.Busy, ""
	case last.tooLong && !tooLong: // one that failed otherwise may yet answer
		e.Kind, e.Code = core.Upstream, ""
	case e.Kind == core.Busy:
		e.Kind = core.Upstream
	}
	e.RetryAfter = 0
	if smallest.OK && (busy || len(c.tries) == 1) {
		e.RetryAfter = min(smallest.V, c.setup.Settings.Breaker.MaxRetryAfter)
	}
	if n := len(c.tries); n > 1 {
		e.Msg = "none of " + word(n) + " offers answered, the last one: " + e.Msg
	}
	if denied != nil {
		e.Msg += "; another was not asked: " + known(denied).Msg
	}
	return &e
}

func word(n int) string {
	if n == 2 {
		return "two"
	}
	return "three"
}

// shortestSecret is what a header's value has to have to be taken for one: a
// shorter one, such as true, is a word of the answer too.
const shortestSecret = 8

// hide takes a provider's credentials out of a text, also where JSON spells them
// with escapes.
func hide(text string, p *core.Provider) string {
	secrets := []core.Secret{p.APIKey, p.SecretKey, p.SessionToken}
	for _, s := range p.Headers {
		if len(s.Reveal()) >= shortestSecret {
			secrets = append(secrets, s)
		}
	}
	for _, s := range secrets {
		t := strings.TrimPrefix(s.Reveal(), "Bearer ")
		if len(t) < 4 {
			continue
		}
		text = strings.ReplaceAll(text, t, "***")
		if strings.Contains(text, `\`) {
			text = strings.ReplaceAll(text, inJSON(t), "***")
			text = strings.ReplaceAll(text, strings.ReplaceAll(t, "/", `\/`), "***")
		}
	}
	return text
}

// inJSON is a text as encoding/json writes it, which escapes &, < and >.
func inJSON(t string) string {
	b, _ := json.Marshal(t) // a string cannot fail
	return string(b[1 : len(b)-1])
}
