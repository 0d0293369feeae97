package command_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// mockScript is what a mock upstream answers one request with.
type mockScript struct {
	Status  int               `json:"status"` // 0: nothing at all, not even a status line
	Headers map[string]string `json:"headers"`
	Chunks  []mockChunk       `json:"chunks"`
	Then    string            `json:"then"` // close, reset, hang
}

type mockChunk struct {
	AfterMS int    `json:"after_ms"`
	Bytes   string `json:"bytes"`
	Base64  string `json:"base64"`
	Repeat  int    `json:"repeat"`
}

// mockUpstream is a server on raw TCP that writes exactly what its scripts say,
// when they say it.
type mockUpstream struct {
	models  []string
	scripts []mockScript
	ln      net.Listener
	wg      sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	requests []*mockRequest
	conns    []net.Conn
	closed   bool
}

// mockRequest is a request as the mock got it.
type mockRequest struct {
	At         time.Time
	Path       string // with the query
	Header     http.Header
	Body       []byte
	PeerClosed time.Time // zero: the peer stayed until the script's end
}

// startUpstream starts a mock upstream on a free port of the loopback interface
// and stops it with the test. The n-th request plays the n-th script, those
// after the last one the last again.
func startUpstream(t *testing.T, models []string, scripts []mockScript) *mockUpstream {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &mockUpstream{models: models, scripts: scripts, ln: ln}
	m.wg.Go(m.accept)
	t.Cleanup(m.stop)
	return m
}

func (m *mockUpstream) addr() string { return m.ln.Addr().String() }

func (m *mockUpstream) stop() {
	m.ln.Close()
	m.mu.Lock()
	m.closed = true
	for _, c := range m.conns {
		c.Close()
	}
	m.mu.Unlock()
	m.wg.Wait()
}

// seen is a copy of the requests so far, without the questions that a gateway
// asks on its own.
func (m *mockUpstream) seen() []mockRequest {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]mockRequest, len(m.requests))
	for i, r := range m.requests {
		out[i] = *r
	}
	return out
}

func (m *mockUpstream) accept() {
	for {
		conn, err := m.ln.Accept()
		if err != nil {
			return
		}
		m.mu.Lock()
		if m.closed {
			conn.Close()
		}
		m.conns = append(m.conns, conn)
		m.mu.Unlock()
		m.wg.Go(func() { m.serve(conn) })
	}
}

func (m *mockUpstream) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if req.Header.Get("Expect") != "" {
			fmt.Fprint(conn, "HTTP/1.1 100 Continue\r\n\r\n")
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		if req.Method != http.MethodPost {
			m.answerQuestion(conn, req)
			continue
		}
		r, script := m.take(req, body)
		// The peer's next byte or its close: nothing else reads meanwhile.
		next := make(chan error, 1)
		m.wg.Go(func() { _, err := in.Peek(1); next <- err })
		if !m.play(conn, r, script, next) {
			return
		}
		if err := <-next; err != nil {
			return
		}
	}
}

// answerQuestion answers what is no call: model lists and health checks.
func (m *mockUpstream) answerQuestion(conn net.Conn, req *http.Request) {
	status, body := "404 Not Found", "{}"
	if strings.HasSuffix(req.URL.Path, "/models") {
		type model struct {
			ID string `json:"id"`
		}
		list := struct {
			Data []model `json:"data"`
		}{}
		for _, name := range m.models {
			list.Data = append(list.Data, model{name})
		}
		out, _ := json.Marshal(list)
		status, body = "200 OK", string(out)
	}
	fmt.Fprintf(conn, "HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s", status, len(body), body)
}

func (m *mockUpstream) take(req *http.Request, body []byte) (*mockRequest, mockScript) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := len(m.requests)
	r := &mockRequest{At: time.Now(), Path: req.RequestURI, Header: req.Header, Body: body}
	m.requests = append(m.requests, r)
	if len(m.scripts) == 0 { // a call that no script expects: the check of the count names it
		return r, mockScript{Status: http.StatusTeapot, Then: "close"}
	}
	return r, m.scripts[min(n, len(m.scripts)-1)]
}

// play writes one script and tells whether the connection can be used again.
// next tells of the peer's close, which ends the script.
func (m *mockUpstream) play(conn net.Conn, r *mockRequest, s mockScript, next chan error) bool {
	if s.Status != 0 {
		head := fmt.Sprintf("HTTP/1.1 %d %s\r\n", s.Status, http.StatusText(s.Status))
		for name, value := range s.Headers {
			head += name + ": " + value + "\r\n"
		}
		if _, err := io.WriteString(conn, head+"transfer-encoding: chunked\r\n\r\n"); err != nil {
			m.peerClosed(r)
			return false
		}
		for _, c := range s.Chunks {
			if !m.pause(r, c.AfterMS, next) {
				return false
			}
			if _, err := conn.Write(c.framed()); err != nil {
				m.peerClosed(r)
				return false
			}
		}
	}
	switch s.Then {
	case "hang":
		if err := <-next; err != nil {
			m.peerClosed(r)
		}
	case "reset":
		conn.(*net.TCPConn).SetLinger(0)
	default:
		_, err := io.WriteString(conn, "0\r\n\r\n")
		return err == nil
	}
	return false
}

// pause waits; false says that the peer closed meanwhile.
func (m *mockUpstream) pause(r *mockRequest, ms int, next chan error) bool {
	timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-next:
		m.peerClosed(r)
		return false
	case <-timer.C:
		return true
	}
}

func (m *mockUpstream) peerClosed(r *mockRequest) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed { // the test's own end is not the peer's doing
		r.PeerClosed = time.Now()
	}
}

// framed is the chunk as it goes over the wire, in one piece.
func (c mockChunk) framed() []byte {
	data := []byte(c.Bytes)
	if c.Base64 != "" {
		// A slip in a case shows as an answer that is no text.
		data, _ = base64.StdEncoding.DecodeString(c.Base64)
	}
	one := slices.Concat(fmt.Appendf(nil, "%x\r\n", len(data)), data, []byte("\r\n"))
	return bytes.Repeat(one, max(c.Repeat, 1))
}
