package control_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A body that does not come holds no answer up, least of all from who may not
// ask at all.
func TestBodyThatDoesNotCome(t *testing.T) {
	r := newRig(t)
	srv := httptest.NewServer(r.desk.Handler())
	defer srv.Close()
	for _, head := range []string{"Content-Length: 100\r\n", "Transfer-Encoding: chunked\r\n"} {
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST /admin/v1/apply HTTP/1.1\r\nHost: h\r\n%s\r\n", head)
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%q: %v", head, err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized || !resp.Close {
			t.Errorf("%q: status %d, closes %t", head, resp.StatusCode, resp.Close)
		}
	}
}

// What is done with a body may take longer than the body may.
func TestBodyLimitEndsWithTheBody(t *testing.T) {
	r := newRig(t)
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	req := httptest.NewRequest("POST", "/admin/v1/keys", strings.NewReader(`{"name":"me"}`))
	r.desk.Local().ServeHTTP(w, req)
	if w.Code != http.StatusCreated || len(w.read) != 2 || w.read[0].IsZero() || !w.read[1].IsZero() {
		t.Errorf("status %d, read deadlines %v", w.Code, w.read)
	}
	if len(w.write) == 0 || w.write[0].IsZero() {
		t.Errorf("write deadlines %v", w.write)
	}
}

// deadlines notes what limits a connection was given.
type deadlines struct {
	*httptest.ResponseRecorder
	read, write []time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error  { d.read = append(d.read, t); return nil }
func (d *deadlines) SetWriteDeadline(t time.Time) error { d.write = append(d.write, t); return nil }
