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
	now core.Clock

	mu                      sync.Mutex // guards all
	dns, connect, handshake time.Time  // when each began
	seen                    core.Connection
}

func (n *connection) facts() core.Connection {
	if n == nil {
		return core.Connection{}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.seen
}

// trace is the attempt's context. Most attempts get a connection that is there:
// what only a new one needs is added when one is dialled.
func (n *connection) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(context.WithValue(ctx, connectionKey{}, n), &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) {
			n.mu.Lock()
			n.seen.Reused = core.Some(i.Reused)
			n.mu.Unlock()
		},
		TLSHandshakeStart: func() { n.begin(&n.handshake) },
		TLSHandshakeDone:  func(tls.ConnectionState, error) { n.end(&n.handshake, &n.seen.TLS) },
	})
}

const (
	// mostStale is how many connections that turn out to be closed are passed over.
	mostStale = 3
	// staleWithin is how soon after the dispatch a reused connection must break
	// to be taken for one that the server had closed.
	staleWithin = time.Second
)

// stale tells whether a round trip that failed may have met an idle connection
// that the server was just closing. Servers close them after seconds (uvicorn
// after five), the transport cannot know, and the request was then never read:
// that is no failure of the offer, and it is sent again.
func (n *connection) stale(after time.Duration) bool {
	return n.facts().Reused.V && after < staleWithin
}

// rewind makes a request ready to be sent again.
func rewind(r *http.Request) bool {
	if r.GetBody == nil {
		return false
	}
	body, err := r.GetBody()
	r.Body = body
	return err == nil
}

// connectionKey is where a context has its connection.
type connectionKey struct{}

// dialling adds to a context what notes the parts of a dial.
func dialling(ctx context.Context) context.Context {
	n, ok := ctx.Value(connectionKey{}).(*connection)
	if !ok {
		return ctx
	}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSStart:     func(httptrace.DNSStartInfo) { n.begin(&n.dns) },
		DNSDone:      func(httptrace.DNSDoneInfo) { n.end(&n.dns, &n.seen.DNS) },
		ConnectStart: func(string, string) { n.begin(&n.connect) },
		ConnectDone:  func(string, string, error) { n.end(&n.connect, &n.seen.Connect) },
	})
}

func (n *connection) begin(at *time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	*at = n.now()
}

func (n *connection) end(from *time.Time, took *core.Opt[float64]) {
	n.mu.Lock()
	defer n.mu.Unlock()
	*took = core.Some(core.Ms(n.now().Sub(*from)))
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
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return dialer.DialContext(dialling(ctx), network, address)
		},
		TLSHandshakeTimeout:    5 * time.Second,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(64)},
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second, WriteByteTimeout: 30 * time.Second},
		DisableCompression:     true,
		ReadBufferSize:         8 << 10, // as the relay's: fewer reads where an upstream is ahead
		MaxIdleConns:           4096,
		MaxIdleConnsPerHost:    1024,
		IdleConnTimeout:        90 * time.Second,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: 256 << 10,
	}
}
