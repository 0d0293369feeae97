package gateway

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"headway/core"
)

// connection notes the facts of an attempt's connection. The transport may go on
// dialling after the attempt got another connection, hence the mutex.
type connection struct {
	mu   sync.Mutex // guards all
	seen core.Connection
}

func (n *connection) facts() core.Connection {
	if n == nil {
		return core.Connection{}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.seen
}

func (n *connection) note(f func(*core.Connection)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f(&n.seen)
}

// trace is the context's trace that fills in the facts.
func (n *connection) trace(ctx context.Context, now core.Clock) context.Context {
	var mu sync.Mutex // dials may run side by side
	var dns, connect, handshake time.Time
	begin := func(t *time.Time) {
		mu.Lock()
		defer mu.Unlock()
		*t = now()
	}
	since := func(t *time.Time) core.Opt[float64] {
		mu.Lock()
		defer mu.Unlock()
		return core.Some(core.Ms(now().Sub(*t)))
	}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:           func(i httptrace.GotConnInfo) { n.note(func(s *core.Connection) { s.Reused = core.Some(i.Reused) }) },
		DNSStart:          func(httptrace.DNSStartInfo) { begin(&dns) },
		DNSDone:           func(httptrace.DNSDoneInfo) { n.note(func(s *core.Connection) { s.DNS = since(&dns) }) },
		ConnectStart:      func(string, string) { begin(&connect) },
		ConnectDone:       func(string, string, error) { n.note(func(s *core.Connection) { s.Connect = since(&connect) }) },
		TLSHandshakeStart: func() { begin(&handshake) },
		TLSHandshakeDone: func(tls.ConnectionState, error) {
			n.note(func(s *core.Connection) { s.TLS = since(&handshake) })
		},
	})
}

// Transports make the round trips of providers: one pool of connections for
// those that may be on this machine or in its network, one for the others. Each
// address is checked again when it is dialled (SPEC §22).
type Transports struct {
	private, public *http.Transport
}

// NewTransports makes both.
func NewTransports() *Transports {
	return &Transports{private: newTransport(true), public: newTransport(false)}
}

// RoundTripper is the transport for a provider. Its address was checked when it
// was set.
func (t *Transports) RoundTripper(p *core.Provider) (http.RoundTripper, error) {
	if p.AllowPrivate {
		return t.private, nil
	}
	return t.public, nil
}

// Close ends the idle connections.
func (t *Transports) Close() {
	t.private.CloseIdleConnections()
	t.public.CloseIdleConnections()
}

func newTransport(private bool) *http.Transport {
	dialer := net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return core.CheckIP(ap.Addr(), private)
	}}
	return &http.Transport{
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    5 * time.Second,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(64)},
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second, WriteByteTimeout: 30 * time.Second},
		DisableCompression:     true,
		MaxIdleConns:           4096,
		MaxIdleConnsPerHost:    1024,
		IdleConnTimeout:        90 * time.Second,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: 256 << 10,
	}
}
