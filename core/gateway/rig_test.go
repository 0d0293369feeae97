package gateway_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"headway/adapters"
	"headway/core"
	"headway/core/estimate"
	"headway/core/gateway"
	"headway/core/ledger"
	"headway/core/market"
	"headway/core/measure"
)

const clientKey = "hw_test_0000000000000000000"

// A step of an upstream's script: at a time after the request was read, write
// bytes as they are, one write each. "close" and "reset" end the connection.
type step struct {
	at    time.Duration
	write string
}

// chunk is a piece of a chunked body.
func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

const (
	streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	lastChunk  = "0\r\n\r\n"
	cutOff     = "\x00cut"
)

func status(code int, headers, body string) string {
	return fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s", code, http.StatusText(code), headers, len(body), body)
}

// upstream plays one script for each request, the last one again after that.
type upstream struct {
	mu       sync.Mutex
	scripts  [][]step
	requests []*http.Request
	bodies   []string
	closed   []time.Time // when the peer closed while a script was under way
	far      bool        // no connection to it is ever made
}

func (u *upstream) serve(conn net.Conn) {
	defer conn.Close()
	br := bufio.NewReader(conn)
	r, err := http.ReadRequest(br)
	if err != nil {
		return
	}
	body, _ := io.ReadAll(r.Body)
	start := time.Now()
	u.mu.Lock()
	script := u.scripts[min(len(u.requests), len(u.scripts)-1)]
	u.requests, u.bodies = append(u.requests, r), append(u.bodies, string(body))
	u.mu.Unlock()
	gone := make(chan struct{})
	go func() {
		if _, err := br.Peek(1); err != nil {
			u.mu.Lock()
			u.closed = append(u.closed, time.Now())
			u.mu.Unlock()
			close(gone)
		}
	}()
	for _, s := range script {
		select {
		case <-time.After(s.at - time.Since(start)):
		case <-gone:
			return
		}
		if s.write == cutOff {
			return
		}
		if _, err := io.WriteString(conn, s.write); err != nil {
			return
		}
	}
	<-gone
}

func (u *upstream) calls() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.requests)
}

// pipes is a listener whose connections are net.Pipes.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080} }
func (p *pipes) dial(ctx context.Context) (net.Conn, error) {
	a, b := net.Pipe()
	select {
	case p.conns <- b:
		return a, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// rig is a gateway with scripted upstreams, all over pipes inside a bubble of
// fake time.
type rig struct {
	t         *testing.T
	gw        *gateway.Gateway
	book      *core.Memory
	board     *measure.Board
	accounts  *ledger.Accounts
	key       *core.Key // the client's
	keys      *ledger.Keys
	client    *http.Client
	front     *pipes
	upstreams map[string]*upstream
	catalogue *market.Catalogue
	cancel    context.CancelCauseFunc
	log       *strings.Builder
}

// offer is one upstream of a rig; the prices rise in the order given.
type offer struct {
	name     string
	format   core.Format
	script   []step
	scripts  [][]step
	input    string
	output   string
	capacity int64
	context  int64
	far      bool
}

type roundTrips struct{ transport http.RoundTripper }

func (r roundTrips) RoundTripper(*core.Provider) (http.RoundTripper, error) { return r.transport, nil }

// newRig makes a rig and takes it down when the test ends. It must be called
// inside a bubble.
func newRig(t *testing.T, change func(*core.Settings), offers ...offer) *rig {
	t.Helper()
	r := &rig{t: t, book: core.NewMemory(), front: newPipes(), upstreams: map[string]*upstream{}, log: &strings.Builder{}}
	var providers []*core.Provider
	var list []*core.Offer
	for i, o := range offers {
		if o.format == "" {
			o.format = core.FormatOpenAI
		}
		if o.scripts == nil {
			o.scripts = [][]step{o.script}
		}
		r.upstreams[o.name] = &upstream{scripts: o.scripts, far: o.far}
		p := &core.Provider{ID: core.ProviderID(o.name), Format: o.format, BaseURL: "http://" + o.name, APIKey: core.NewSecret("sk-" + o.name), FromFile: true}
		price := core.Price{Rates: core.Rates{Input: core.Rate(1000000 * (i + 1)), Output: core.Rate(2000000 * (i + 1))}}
		if o.input != "" {
			price.Input, _ = core.ParseRate(o.input)
			price.Output, _ = core.ParseRate(o.output)
		}
		of := &core.Offer{ID: core.OfferID(o.name + "/mini"), Provider: p, Model: "mini", UpstreamModel: "mini", Price: price, IncludeUsage: core.UsageAuto}
		if o.capacity > 0 {
			of.Capacity = core.Some(o.capacity)
		}
		if o.context > 0 {
			of.Limits.Context = core.Some(o.context)
		}
		providers, list = append(providers, p), append(list, of)
	}
	var err error
	if r.catalogue, err = market.NewCatalogue(providers, list, nil); err != nil {
		t.Fatal(err)
	}
	if r.board, err = measure.NewBoard(time.Now, r.book); err != nil {
		t.Fatal(err)
	}
	r.accounts = newAccounts(t, r.book)
	r.book.Recorder = core.Recorders{r.board, r.accounts}
	pepper := &ledger.Pepper{}
	r.keys = ledger.NewKeys(pepper)
	r.key = &core.Key{ID: "test", Name: "test", Hash: pepper.Hash(clientKey)}
	r.keys.Set([]*core.Key{r.key})
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true, DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
		host, _, _ := net.SplitHostPort(addr)
		u := r.upstreams[host]
		if u == nil {
			return nil, errors.New("connection refused")
		}
		if u.far {
			select {
			case <-ctx.Done():
			case <-r.front.done:
			}
			return nil, errors.New("no connection")
		}
		a, b := net.Pipe()
		go u.serve(b)
		return a, nil
	}}
	r.gw = gateway.New(gateway.Parts{Clock: time.Now, Log: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Adapters: adapters.All(), Providers: adapters.Providers(time.Now), Keys: r.keys, Book: r.book, Board: r.board, Estimator: newEstimator(t, r.book), Accounts: r.accounts, Dialer: roundTrips{transport}, Metrics: gateway.NewMetrics()})
	settings := core.DefaultSettings()
	settings.Routing.Strategy = "cheapest"
	if change != nil {
		change(&settings)
	}
	r.gw.Swap(&gateway.Setup{Settings: settings, Catalogue: r.catalogue})
	base, cancel := context.WithCancelCause(t.Context())
	r.cancel = cancel
	server := &http.Server{Handler: r.gw, BaseContext: func(net.Listener) context.Context { return base }}
	go func() { _ = server.Serve(r.front) }()
	r.client = &http.Client{Transport: &http.Transport{DisableCompression: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return r.front.dial(ctx) }}}
	t.Cleanup(func() {
		r.client.CloseIdleConnections()
		transport.CloseIdleConnections()
		_ = server.Close()
		synctest.Wait()
		if n := r.book.Unsettled(); n != 0 {
			t.Errorf("%d dispatched calls have no receipt", n)
		}
		if n := r.gw.Open(); n != 0 {
			t.Errorf("%d calls are still open", n)
		}
		if left := r.accounts.Standing(r.key, time.Now()).Reserved; left != 0 {
			t.Errorf("%s USD are still reserved", left)
		}
		alone := &core.Key{ID: r.key.ID, KeyLimits: core.KeyLimits{MaxParallel: core.Some[int64](1)}}
		if _, err := r.accounts.Enter(alone, time.Now()); err != nil {
			t.Errorf("a call has ended and holds its place: %v", err)
		}
		for _, e := range r.catalogue.Entries() {
			if n := e.State.InFlight(); n != 0 {
				t.Errorf("%s is held by %d calls", e.Offer.ID, n)
			}
		}
	})
	return r
}

// limit gives the client's key limits, from its next call on.
func (r *rig) limit(l core.KeyLimits) {
	k := *r.key
	k.KeyLimits = l
	r.key = &k
	r.keys.Set([]*core.Key{r.key})
}

// answer is what a client saw.
type answer struct {
	status int
	header http.Header
	body   string
	err    error
	after  time.Duration
}

func (a answer) id() core.CallID { return core.CallID(a.header.Get("X-Request-Id")) }

// post makes a call and reads its answer to the end.
func (r *rig) post(path, body string, headers ...string) answer {
	r.t.Helper()
	return r.postCtx(r.t.Context(), path, body, headers...)
}

func (r *rig) postCtx(ctx context.Context, path, body string, headers ...string) answer {
	r.t.Helper()
	start := time.Now()
	req, err := http.NewRequestWithContext(ctx, "POST", "http://gateway"+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+clientKey)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return answer{err: err, after: time.Since(start)}
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(data), err, time.Since(start)}
}

// receipt reads the receipt of an answered call.
func (r *rig) receipt(id core.CallID) *core.Receipt {
	r.t.Helper()
	synctest.Wait()
	rec, err := r.book.Receipt(id)
	if err != nil {
		r.t.Fatalf("receipt of %q: %v", id, err)
	}
	return rec
}

// only is the receipt of the one call that was made.
func (r *rig) only() *core.Receipt {
	r.t.Helper()
	synctest.Wait()
	var all []*core.Receipt
	_ = r.book.Receipts(time.Time{}, time.Time{}, false, func(rec *core.Receipt) bool { all = append(all, rec); return true })
	if len(all) != 1 {
		r.t.Fatalf("%d receipts", len(all))
	}
	return all[0]
}

const (
	ask       = `{"model":"mini","messages":[{"role":"user","content":"hi there, how are you"}]}`
	askStream = `{"model":"mini","messages":[{"role":"user","content":"hi there, how are you"}],"stream":true}`
)

func delta(d string) string {
	return `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"mini","choices":[{"index":0,"delta":` + d + `,"finish_reason":null}]}` + "\n\n"
}

func text(s string) string { return delta(`{"content":"` + s + `"}`) }

const (
	role   = `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"mini","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"
	finish = `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"mini","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	done   = "data: [DONE]\n\n"
)

func usage(in, out int) string {
	return fmt.Sprintf(`data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"mini","choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`+"\n\n", in, out, in+out)
}

func whole(text string, in, out int) string {
	return fmt.Sprintf(`{"id":"c1","object":"chat.completion","created":1,"model":"mini","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`, text, in, out, in+out)
}

const ms = time.Millisecond

func newEstimator(t testing.TB, v core.Vault) *estimate.Estimator {
	t.Helper()
	e, err := estimate.New(time.Now, v)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func newAccounts(t testing.TB, v core.Vault) *ledger.Accounts {
	t.Helper()
	a, err := ledger.LoadAccounts(v)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
