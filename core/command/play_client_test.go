package command_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// callLimit is the longest that a call of a case may take before it counts as
// hung: far more than any case needs, however slow the machine.
const callLimit = 30 * time.Second

// clientAnswer is what a client got for one call, as it came.
type clientAnswer struct {
	call   *caseCall
	err    error // no answer, or one that broke off before its end
	status int   // 0: none came
	header http.Header
	wire   []byte // every byte from the gateway, heads and chunk sizes too
	body   []byte // without chunk sizes, with its content-encoding
	pieces []piece
	saw100 bool

	sent time.Time
	done time.Time
	left time.Time // the client closed the connection before the end
}

// piece says when the body had come up to a length.
type piece struct {
	at  time.Time
	end int
}

// send makes one call to addr over a connection of its own and reads the answer
// the way the case says; sent is told once the request is under way. A client
// that stalls keeps its connection for the rest of the test.
func (call *caseCall) send(t *testing.T, addr, clientKey string, sent func()) *clientAnswer {
	a := &clientAnswer{call: call}
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		sent()
		a.err = err
		return a
	}
	stall := call.Read != nil && call.Read.Stop == "stall"
	if stall {
		conn.(*net.TCPConn).SetReadBuffer(4 << 10) // so that the gateway's writes block soon
		t.Cleanup(func() { conn.Close() })
	} else {
		defer conn.Close()
	}
	a.sent = time.Now()
	conn.SetDeadline(a.sent.Add(callLimit))
	if call.Read != nil && call.Read.AfterText == "" {
		conn.SetReadDeadline(a.sent.Add(time.Duration(call.Read.AfterMS) * time.Millisecond))
	}
	a.err = a.exchange(conn, clientKey, sent)
	a.done = time.Now()
	if call.Read != nil && errors.Is(a.err, os.ErrDeadlineExceeded) && a.done.Sub(a.sent) < callLimit {
		a.err = nil
		if !stall {
			a.left = a.done
		}
	}
	return a
}

// exchange writes the request and reads the answer.
func (a *clientAnswer) exchange(conn net.Conn, clientKey string, sent func()) error {
	head, content := a.call.head(conn.RemoteAddr().String(), clientKey), a.call.content()
	wire := bufio.NewReader(&wireTap{conn, a})
	write := make(chan struct{})
	sendContent := func() {
		conn.Write(content) // an answer that comes before its end says more than the error here
		close(write)
	}
	_, err := io.WriteString(conn, head)
	sent()
	if err != nil {
		return err
	}
	waits := a.call.Headers["expect"] != nil
	if waits {
		close(write)
	} else {
		go sendContent()
	}
	// Joined also where the gateway refused to read on: closing ends the write.
	defer func() { conn.SetWriteDeadline(time.Now()); <-write }()

	for {
		resp, err := http.ReadResponse(wire, &http.Request{Method: a.call.Method})
		if err != nil {
			return err
		}
		if resp.StatusCode == http.StatusContinue {
			a.saw100 = true
			if waits {
				waits, write = false, make(chan struct{})
				go sendContent()
			}
			continue
		}
		a.status, a.header = resp.StatusCode, resp.Header
		return a.readBody(resp.Body)
	}
}

func (a *clientAnswer) readBody(body io.Reader) error {
	buf := make([]byte, 64<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			a.body = append(a.body, buf[:n]...)
			a.pieces = append(a.pieces, piece{time.Now(), len(a.body)})
			if r := a.call.Read; r != nil && r.AfterText != "" && strings.Contains(a.read().Text, r.AfterText) {
				a.left = time.Now() // the connection is closed on the way out
				return nil
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// wireTap keeps what is read of a connection.
type wireTap struct {
	conn net.Conn
	a    *clientAnswer
}

func (w *wireTap) Read(p []byte) (int, error) {
	n, err := w.conn.Read(p)
	w.a.wire = append(w.a.wire, p[:n]...)
	return n, err
}

// head is the request line and the headers; the case's headers replace the
// defaults, and null takes one away.
func (call *caseCall) head(host, clientKey string) string {
	auth, kind := "Bearer "+clientKey, "application/json"
	headers := map[string]*string{"authorization": &auth, "content-type": &kind}
	maps.Copy(headers, call.Headers)
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nhost: %s\r\n", call.Method, call.Path, host)
	if n := len(call.content()); n > 0 {
		fmt.Fprintf(&b, "content-length: %d\r\n", n)
	}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if v := headers[name]; v != nil {
			fmt.Fprintf(&b, "%s: %s\r\n", name, *v)
		}
	}
	return b.String() + "\r\n"
}

// decoded is the body without its content-encoding; an error says that header
// and body do not agree.
func (a *clientAnswer) decoded() ([]byte, error) {
	switch enc := a.header.Get("Content-Encoding"); enc {
	case "", "identity":
		if bytes.HasPrefix(a.body, []byte{0x1f, 0x8b}) {
			return a.body, errors.New("the body is gzip and no header says so")
		}
		return a.body, nil
	case "gzip":
		z, err := gzip.NewReader(bytes.NewReader(a.body))
		if err != nil {
			return a.body, err
		}
		out, err := io.ReadAll(z)
		return out, err
	default:
		return a.body, fmt.Errorf("content-encoding %q was not asked for", enc)
	}
}

// firstSeen is how long after the call was sent a text had come whole.
func (a *clientAnswer) firstSeen(text string) any {
	i := bytes.Index(a.body, []byte(text))
	if i < 0 {
		return missing{}
	}
	for _, p := range a.pieces {
		if p.end >= i+len(text) {
			return sinceMS(a.sent, p.at)
		}
	}
	return missing{}
}

func sinceMS(from, to time.Time) float64 { return float64(to.Sub(from).Microseconds()) / 1000 }
