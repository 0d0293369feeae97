package fleet

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"headway/core"
)

const (
	mostHeader = 64 << 10 // bytes of the names and values of a header, either way
	mostQuery  = 8 << 10
	// mostStale is how many connections that turn out to be closed are passed over,
	// staleWithin how soon a reused one must break to be taken for one.
	mostStale   = 3
	staleWithin = time.Second
)

// asked are the paths that a node asks its servers for: those that answer calls. An
// edge cannot have it do anything else with them, such as delete a model.
var asked = []string{
	"/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens",
	"/api/chat", "/api/generate", "/api/embed",
}

// hops are headers that are of one connection, beside Connection and what it names, or
// that say what this end says itself.
var hops = []string{"Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade"}

// withheld are headers of a request that the node does not pass on: credentials,
// which it has its own for, and what net/http writes itself.
var withheld = []string{"Authorization", "X-Api-Key", "Api-Key", "Cookie", "Host", "Content-Length", "Expect"}

// nodeJob is one job: a request of the edge's and its server's answer.
type nodeJob struct {
	s      *nodeSession
	m      *modelServer
	stream uint64
	start  start
	header http.Header // of the request
	began  time.Time
	ticket *ticket
	placed bool // it has its slot
	ctx    context.Context
	cancel context.CancelCauseFunc
	in     inlet
	out    *outlet
	meter  meter
	next   uint32 // the last sequence number of the edge's; the subscription's goroutine alone
	absent int    // beats of the edge in a row that left it out; nodeSession.mu guards it
}

func newJob(s *nodeSession, m *modelServer, stream uint64, st start) *nodeJob {
	t := s.terms.Load()
	j := &nodeJob{s: s, m: m, stream: stream, start: st, began: s.n.Clock(), next: 1}
	j.ctx, j.cancel = context.WithCancelCause(s.ctx)
	j.out = newOutlet(stream, t.WindowFrames, t.WindowBytes, s.n.Clock, s.publish, s.flush)
	return j
}

// drop ends the job's work, with why. The first to do so counts.
func (j *nodeJob) drop(why error) {
	j.cancel(why)
	j.in.close(errInletClosed) // a transport waits for who reads a request's body
}

// enter gives the job a slot or a place in its server's line, or says why not.
func (j *nodeJob) enter(body []byte, last bool) refused {
	if j.check() != nil || j.open(body, last) != nil {
		return refused{Reason: reasonBad}
	}
	var retry time.Duration
	if j.ticket, retry = j.m.line.enter(j.began); j.ticket == nil {
		return refused{Reason: reasonBusy, RetryAfterMS: retry.Milliseconds()}
	}
	return refused{}
}

// check tells whether the start is one that can be served: what it asks for stays
// with the server that it names.
func (j *nodeJob) check() error {
	st := &j.start
	bad := func(r rune) bool { return r <= ' ' || r > '~' || r == '#' }
	id := func(r rune) bool { return !('a' <= r && r <= 'z' || '0' <= r && r <= '9') }
	switch {
	case st.Method != http.MethodPost || !slices.Contains(asked, st.Path):
	case len(st.Query) > mostQuery || strings.ContainsFunc(st.Query, bad):
	case len(st.Call) > 64 || strings.ContainsFunc(string(st.Call), id):
	case st.Attempt < 0 || st.Attempt > 1000 || st.Model != "" && !nameable(string(st.Model)):
	case st.ContentLength < -1 || st.AdmissionMS < 0 || st.AdmissionMS != st.AdmissionMS:
	default:
		header, ok := passable(st.Header, withheld)
		if !ok {
			break
		}
		if header.Get("Accept-Encoding") == "" {
			header.Set("Accept-Encoding", "identity") // or net/http asks for gzip and undoes it
		}
		j.m.authorize(header)
		j.header = header
		return nil
	}
	return errFrame
}

// passable is a header without what is of one connection alone and without some
// more; false: it is too large.
func passable(h http.Header, without []string) (http.Header, bool) {
	out := make(http.Header, len(h))
	size := 0
	var more []string // that are of one connection
	for name, values := range h {
		name = textproto.CanonicalMIMEHeaderKey(name)
		for _, v := range values {
			size += len(name) + len(v)
		}
		switch {
		case name == "Connection":
			more = append(more, values...)
		case !slices.Contains(hops, name) && !slices.Contains(without, name):
			out[name] = append(out[name], values...)
		}
	}
	for _, named := range more {
		for name := range strings.SplitSeq(named, ",") {
			out.Del(strings.TrimSpace(name))
		}
	}
	return out, size <= mostHeader
}

// open takes what of the body came with the start.
func (j *nodeJob) open(body []byte, last bool) error {
	room := int64(j.s.terms.Load().UploadBytes)
	return j.in.open(body, last, j.start.ContentLength, room, func(c credit) {
		f := frame{kind: kindCredit, stream: j.stream, payload: c.append(nil)}
		_ = j.s.publish(f.append(nil)) // where it is lost, so is the session
	})
}

// run is the job from its acceptance to its end.
func (j *nodeJob) run() {
	word, trailer := j.serve()
	cause := context.Cause(j.ctx)
	if cause == errEnded {
		cause = nil
	}
	j.drop(errEnded)
	wait := core.Opt[float64]{}
	if j.placed {
		wait = core.Some(core.Ms(j.ticket.wait()))
	}
	call := core.NodeCall{Call: j.start.Call, Attempt: j.start.Attempt, Node: j.s.n.Name, Provider: core.ProviderID(j.s.n.Name), Model: j.start.Model,
		Outcome: j.meter.outcome(word, cause), Usage: j.meter.usage(), Timing: j.meter.timing(j.start.AdmissionMS, wait).Sound()}
	if j.m.Name != "" {
		call.Provider += core.ProviderID("." + j.m.Name)
	}
	told := false
	if cause != errCancelled && cause != errReaped && cause != errSession {
		e := end{Error: word, Timing: call.Timing, Trailer: trailer}
		payload, err := json.Marshal(e)
		if len(payload) > mostHead {
			e.Trailer = nil
			payload, err = json.Marshal(e)
		}
		told = err == nil && j.out.frame(kindEnd, payload) == nil
	}
	j.s.end(j, told, call)
}

// acceptWithin is how long a job that has its slot leaves it to its headers to say that
// it is here.
const acceptWithin = 20 * time.Millisecond

// serve waits for a slot, asks the server and sends what it answers. It gives the
// word of the end, "" where the body came to its own.
func (j *nodeJob) serve() (word string, trailer http.Header) {
	clock := j.s.n.Clock
	leave := func() {
		now, served := clock(), time.Duration(0)
		if line := &j.meter.line; !line.T2.IsZero() && !j.meter.refused {
			served = max(now.Sub(line.T1), 1)
		}
		j.m.line.leave(j.ticket, now, served)
	}
	defer leave()
	if j.ticket.ready == nil {
		// The server is asked first, and headers say as much.
		j.placed = true
		accepted := time.AfterFunc(acceptWithin, j.out.accept)
		defer accepted.Stop()
	} else {
		if err := j.out.frame(kindAccepted, []byte{acceptedWaits}); err != nil {
			return j.broken(err), nil
		}
		select {
		case <-j.ticket.ready:
		case <-j.ctx.Done():
		}
		if err := j.ctx.Err(); err != nil { // what made room for it may be the end of them all
			return j.broken(err), nil
		}
		j.placed = true
		if err := j.out.frame(kindRunning, nil); err != nil {
			return j.broken(err), nil
		}
	}
	resp, err := j.ask()
	if err == nil {
		err = j.head(resp)
		defer resp.Body.Close()
	}
	if err != nil {
		j.meter.end(clock(), false)
		if word = j.broken(err); word == endRefused || word == endConnect {
			j.m.doubt()
		}
		j.drop(errEnded) // before its body is closed: nothing is to be waited for
		return word, nil
	}
	err = j.copy(resp.Body)
	j.meter.end(clock(), err == io.EOF)
	if err != io.EOF {
		word = j.broken(err)
	}
	_ = resp.Body.Close()
	leave() // the server is done with the call, whatever still waits for credit
	if _, err := j.out.wait(j.ctx, 0); err != nil && word == "" {
		word = j.broken(err)
	}
	if trailer, ok := passable(resp.Trailer, nil); ok && len(trailer) > 0 && word == "" {
		return word, trailer
	}
	return word, nil
}

// broken is the word for what went wrong.
func (j *nodeJob) broken(err error) string {
	if err == errSlow || err == errSession {
		j.drop(err)
	}
	switch cause := context.Cause(j.ctx); {
	case cause == errSlow:
		return endTooSlow
	case cause == errGap:
		return endCut
	case cause != nil:
		return endCancelled
	case !j.meter.line.T2.IsZero():
		return endCut
	}
	return brokenWord(err)
}

// brokenWord says why a round trip failed.
func brokenWord(err error) string {
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case errors.As(err, &name):
		return endDNS
	case errors.Is(err, syscall.ECONNREFUSED):
		return endRefused
	case errors.As(err, &certificate), errors.As(err, &record), errors.As(err, &alert):
		return endTLS
	}
	return endConnect
}

// ask makes the round trip. A connection that the server was just closing has not
// read the request: it is sent again.
func (j *nodeJob) ask() (*http.Response, error) {
	var reused atomic.Bool
	ctx := httptrace.WithClientTrace(j.ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused.Store(i.Reused) }})
	to := *j.m.root
	to.Path += j.start.Path
	to.RawPath = "" // Path's usual escapes
	to.RawQuery = j.start.Query
	for again := 0; ; again++ {
		body, whole := j.in.body()
		if !whole {
			return nil, errInletClosed
		}
		req := (&http.Request{Method: j.start.Method, URL: &to, Host: to.Host, Header: j.header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).WithContext(ctx)
		if req.ContentLength = j.start.ContentLength; req.ContentLength != 0 {
			req.Body = body
			req.GetBody = func() (io.ReadCloser, error) {
				body, whole := j.in.body()
				if !whole {
					return nil, errInletClosed
				}
				return body, nil
			}
		}
		reused.Store(false)
		at := j.s.n.Clock()
		j.meter.line.T1 = at
		j.out.begun(at)
		resp, err := j.m.http.RoundTrip(req)
		if err == nil || again >= mostStale || !reused.Load() || j.ctx.Err() != nil || j.s.n.Clock().Sub(at) > staleWithin {
			return resp, err
		}
	}
}

// errEnded is why a job is cancelled that has ended.
var errEnded = errors.New("the job has ended")

var (
	errHeader = errors.New("the server's header is too large")
	errStatus = errors.New("the server's status is none of an answer")
)

// head sends the head of an answer.
func (j *nodeJob) head(resp *http.Response) error {
	header, ok := passable(resp.Header, nil)
	switch {
	case !ok:
		return errHeader
	case resp.StatusCode < 200 || resp.StatusCode > 599:
		return errStatus
	}
	at := j.s.n.Clock()
	payload, err := json.Marshal(headers{Status: resp.StatusCode, Header: header, SlotWaitMS: core.Ms(j.ticket.wait()), ContentLength: resp.ContentLength})
	if err == nil && len(payload) > mostHead {
		err = errHeader
	}
	if err != nil {
		return err
	}
	format := j.m.format()
	j.meter.answer(j.s.n.side(format), format, &j.start, resp, at)
	return j.out.frame(kindHeaders, payload)
}

// copy sends a body, each read as one frame as soon as there is credit for it. It
// gives io.EOF at the body's end.
func (j *nodeJob) copy(body io.Reader) error {
	buffer := j.s.n.buffers.Get().(*[]byte)
	defer j.s.n.buffers.Put(buffer)
	msg := *buffer
	for waiting := 0; ; {
		var err error
		if waiting >= aheadBytes {
			if waiting, err = j.out.wait(j.ctx, aheadBytes-1); err != nil {
				return err
			}
		}
		n, rerr := body.Read(msg[headerBytes : headerBytes+min(joinedBytes, aheadBytes-waiting)])
		if n > 0 {
			if !j.m.fed.Load() {
				j.m.fed.Store(true)
			}
			at := j.s.n.Clock()
			if waiting, err = j.out.data(msg[:headerBytes+n], at); err != nil {
				return err
			}
			runtime.Gosched() // what was published goes out before it is looked at here
			j.meter.read(msg[headerBytes:headerBytes+n], at)
		}
		if rerr != nil {
			return rerr
		}
	}
}
