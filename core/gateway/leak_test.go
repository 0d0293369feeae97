package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"headway/adapters"
	"headway/core"
	"headway/core/gateway"
	"headway/core/ledger"
	"headway/core/market"
	"headway/core/measure"
)

// socket is a gateway over real sockets before one upstream.
type socket struct {
	gw    *gateway.Gateway
	book  *core.Memory
	entry *market.Entry
	front *httptest.Server
	now   atomic.Int64 // round trips under way
	most  atomic.Int64
}

// counted counts the round trips that the gateway has under way, from the
// dispatch until it lets the body go.
type counted struct {
	s    *socket
	next core.Dialer
}

func (c counted) RoundTripper(p *core.Provider) (http.RoundTripper, error) {
	rt, err := c.next.RoundTripper(p)
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		n := c.s.now.Add(1)
		for most := c.s.most.Load(); n > most && !c.s.most.CompareAndSwap(most, n); most = c.s.most.Load() {
		}
		resp, err := rt.RoundTrip(r)
		if err != nil {
			c.s.now.Add(-1)
			return nil, err
		}
		resp.Body = &letGo{ReadCloser: resp.Body, s: c.s}
		return resp, nil
	}), err
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type letGo struct {
	io.ReadCloser
	s    *socket
	once sync.Once
}

func (l *letGo) Close() error {
	l.once.Do(func() { l.s.now.Add(-1) })
	return l.ReadCloser.Close()
}

func newSocket(t *testing.T, base string, private bool, capacity int64) *socket {
	t.Helper()
	s := &socket{book: core.NewMemory()}
	p := &core.Provider{ID: "a", Format: core.FormatOpenAI, BaseURL: base, AllowPrivate: private}
	o := &core.Offer{ID: "a/mini", Provider: p, Model: "mini", UpstreamModel: "mini", Price: core.Price{Rates: core.Rates{Input: 1, Output: 1}}}
	if capacity > 0 {
		o.Capacity = core.Some(capacity)
	}
	catalogue, err := market.NewCatalogue([]*core.Provider{p}, []*core.Offer{o}, nil)
	if err != nil {
		t.Fatal(err)
	}
	board, err := measure.NewBoard(time.Now, s.book)
	if err != nil {
		t.Fatal(err)
	}
	pepper := &ledger.Pepper{}
	keys := ledger.NewKeys(pepper)
	keys.Set([]*core.Key{{ID: "test", Hash: pepper.Hash(clientKey)}})
	transports := gateway.NewTransports()
	s.gw = gateway.New(gateway.Parts{Clock: time.Now, Log: slog.New(slog.DiscardHandler), Adapters: adapters.All(), Keys: keys, Book: s.book, Board: board, Estimator: newEstimator(t, s.book), Accounts: newAccounts(t, s.book),
		Dialer: counted{s, transports}, Metrics: gateway.NewMetrics()})
	s.gw.Swap(&gateway.Setup{Settings: core.DefaultSettings(), Catalogue: catalogue})
	s.entry = catalogue.Offer("a/mini")
	s.front = httptest.NewServer(s.gw)
	t.Cleanup(func() {
		s.front.Close()
		transports.Close()
	})
	return s
}

// post makes a call and reads its answer as far as it comes.
func (s *socket) post(ctx context.Context, body string) (status int, answer string) {
	req, err := http.NewRequestWithContext(ctx, "POST", s.front.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	req.Header.Set("Authorization", "Bearer "+clientKey)
	resp, err := s.front.Client().Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	data, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data)
}

// eventually polls until ok, for ten seconds at most.
func eventually(t *testing.T, ok func() bool, what func() string) {
	t.Helper()
	tick := time.NewTicker(5 * ms)
	defer tick.Stop()
	for end := time.After(10 * time.Second); ; {
		if ok() {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatal(what())
		}
	}
}

// TestManyCallsLeaveNothing: 200 callers at once, most of whom leave at a time
// of their own, over real sockets.
func TestManyCallsLeaveNothing(t *testing.T) {
	const callers, capacity = 200, 120
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(body), `"stream":true`) {
			_, _ = io.WriteString(w, whole("tea", 8, 1))
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 12 {
			frame := text("tea ")
			switch i {
			case 0:
				frame = role
			case 11:
				frame = finish + usage(8, 10) + done
			}
			if _, err := io.WriteString(w, frame); err != nil {
				return
			}
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
				return
			case <-time.After(2 * ms):
			}
		}
	}))
	defer up.Close()
	s := newSocket(t, up.URL, true, capacity)
	before := runtime.NumGoroutine()
	idle := func() {
		s.front.Client().CloseIdleConnections()
		s.front.CloseClientConnections()
		up.CloseClientConnections()
	}
	var calls sync.WaitGroup
	var settled, refused, left atomic.Int64
	for i := range callers {
		calls.Go(func() {
			rnd := rand.New(rand.NewPCG(7, uint64(i)))
			for range 3 {
				ctx, cancel := context.WithCancel(t.Context())
				if rnd.IntN(4) > 0 {
					stop := time.AfterFunc(time.Duration(rnd.IntN(60_000))*time.Microsecond, cancel)
					defer stop.Stop()
				}
				body := askStream
				if rnd.IntN(5) == 0 {
					body = ask
				}
				switch status, answer := s.post(ctx, body); {
				case ctx.Err() != nil:
					left.Add(1)
				case status == 200:
					settled.Add(1)
				case status == 503 && strings.Contains(answer, "capacity"):
					refused.Add(1)
				default:
					t.Errorf("%d %s", status, answer)
				}
				cancel()
			}
		})
	}
	calls.Wait()
	if settled.Load() == 0 || left.Load() == 0 {
		t.Errorf("%d settled, %d refused, %d left: the test shows nothing", settled.Load(), refused.Load(), left.Load())
	}
	if n := s.most.Load(); n > capacity {
		t.Errorf("%d round trips at once, the capacity is %d", n, capacity)
	}
	eventually(t, func() bool {
		return s.gw.Open() == 0 && s.entry.State.InFlight() == 0 && s.now.Load() == 0 && s.book.Unsettled() == 0
	}, func() string {
		return fmt.Sprintf("%d calls are open, %d hold the offer, %d round trips, %d without a receipt", s.gw.Open(), s.entry.State.InFlight(), s.now.Load(), s.book.Unsettled())
	})
	eventually(t, func() bool { idle(); return runtime.NumGoroutine() <= before }, func() string {
		stacks := make([]byte, 1<<20)
		return fmt.Sprintf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
	})
	_ = s.book.Receipts(time.Time{}, time.Time{}, false, func(r *core.Receipt) bool {
		if r.Outcome != core.Settled && r.Outcome != core.ClientGone || len(r.Attempts) != 1 {
			t.Errorf("outcome %s, attempts %+v", r.Outcome, r.Attempts)
		}
		return true
	})
	if st := s.entry.Status(time.Now(), core.DefaultSettings().Breaker, core.Opt[float64]{}); st.CountedFailures != 0 {
		t.Errorf("%d failures are counted", st.CountedFailures)
	}
}

// TestHeaderBombs: what an upstream's head may be is bounded.
func TestHeaderBombs(t *testing.T) {
	for name, head := range map[string]string{
		"a large header":   "HTTP/1.1 200 OK\r\nX-Large: " + strings.Repeat("x", 300<<10) + "\r\nContent-Length: 2\r\n\r\n{}",
		"many headers":     "HTTP/1.1 200 OK\r\n" + strings.Repeat("X-Many: 1\r\n", 30_000) + "Content-Length: 2\r\n\r\n{}",
		"endless hints":    strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n", 50_000),
		"an endless line":  strings.Repeat("x", 2<<20),
		"nothing but ends": strings.Repeat("\r\n", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			s := newSocket(t, serveRaw(t, head), true, 0)
			status, answer := s.post(t.Context(), askStream)
			if failure(t, core.FormatOpenAI, status, "application/json", answer); status != 502 || len(answer) > 1000 {
				t.Errorf("%d %.1000s", status, answer)
			}
		})
	}
}

// serveRaw answers every connection with the same bytes and closes it.
func serveRaw(t *testing.T, answer string) (base string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 64<<10))
			_, _ = io.WriteString(conn, answer)
			_ = conn.Close()
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
	})
	return "http://" + l.Addr().String()
}

// TestAddressIsNotTheCallersFault: an address that may not be dialled is the
// operator's mistake, and none of the caller's business.
func TestAddressIsNotTheCallersFault(t *testing.T) {
	s := newSocket(t, serveRaw(t, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), false, 0)
	if status, answer := s.post(t.Context(), ask); status != 502 || strings.Contains(answer, "127.0.0.1") || strings.Contains(answer, "loopback") {
		t.Errorf("%d %s", status, answer)
	}
}

// TestStop: calls that are open when the drain time is over end in their
// format's error and have receipts; until then they go on.
func TestStop(t *testing.T) {
	for _, w := range wires() {
		for name, c := range map[string]struct {
			script   []step
			streamed bool
			begun    bool
		}{
			"behind output":         {[]step{{10 * ms, w.head() + chunk(w.opening+w.says("tea"))}, {time.Hour, ""}}, true, true},
			"before output":         {[]step{{10 * ms, w.head() + chunk(w.opening)}, {time.Hour, ""}}, true, false},
			"before the headers":    {[]step{{time.Hour, ""}}, true, false},
			"inside of an answer":   {[]step{{10 * ms, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"}, {time.Hour, ""}}, false, false},
			"inside of an error":    {[]step{{10 * ms, "HTTP/1.1 500 No\r\nContent-Length: 1000\r\n\r\n{"}, {time.Hour, ""}}, false, false},
			"inside of gzip":        {[]step{{10 * ms, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1000\r\n\r\n\x1f"}, {time.Hour, ""}}, false, false},
			"before a whole answer": {[]step{{time.Hour, ""}}, false, false},
		} {
			t.Run(w.name+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, nil, w.offer("a", c.script...), w.good("b", "fine", c.streamed))
					got := make(chan answer, 1)
					go func() { got <- w.post(r, c.streamed) }()
					<-time.After(time.Second)
					r.gw.Drain()
					if a := r.get("/readyz"); a.status != 503 || r.gw.Open() != 1 {
						t.Errorf("ready is %d with %d open calls", a.status, r.gw.Open())
					}
					<-time.After(time.Second)
					r.cancel(gateway.ErrStopping)
					a := <-got
					if a.after > 2100*ms {
						t.Errorf("it took %v", a.after)
					}
					if c.begun {
						if got, err := w.sdk(a.body); err != nil || a.err != nil || got.text != "tea" || !strings.Contains(got.failed, "stopping") || got.ended {
							t.Errorf("an SDK reads %+v, %v of %s", got, err, a.body)
						}
					} else if said := w.failure(t, a); a.status != 502 || !strings.Contains(said, "stopping") {
						t.Errorf("%d %s", a.status, a.body)
					}
					rec := r.only()
					if rec.Outcome != core.Failed || len(rec.Attempts) != 1 || rec.Attempts[0].Error != "stopping" || r.failures("a") != 0 || len(r.upstreams["a"].closed) != 1 {
						t.Errorf("outcome %s, attempts %+v, %d failures, %d closed", rec.Outcome, rec.Attempts, r.failures("a"), len(r.upstreams["a"].closed))
					}
				})
			})
		}
	}
}

func (r *rig) get(path string) answer {
	r.t.Helper()
	page := httptest.NewRecorder()
	r.gw.ServeHTTP(page, httptest.NewRequest("GET", path, nil))
	return answer{status: page.Code, header: page.Header(), body: page.Body.String()}
}

// TestNothingTellsContent: neither prompt nor answer nor a credential is in the
// log at its most talkative, in the metrics, or in a receipt, however a call
// ends (SPEC §22).
func TestNothingTellsContent(t *testing.T) {
	const said = "marked-answer-77aa"
	secrets := []string{prompt, said, "sk-a", "sk-b", clientKey, "hw_wrong_key"}
	for _, w := range wires() {
		stream := w.opening + w.says(said)
		odd := strings.NewReplacer(`"stop"`, `"`+said+` `+said+`"`, `"end_turn"`, `"`+said+` and more"`, `"STOP"`, `"`+said+"\u00e9"+`"`)
		for name, script := range map[string][]step{
			"a stream":                {{0, w.head() + chunk(stream+w.ending) + lastChunk}},
			"a whole answer":          {{0, status(200, "", w.whole(said))}},
			"an odd finish":           {{0, w.head() + chunk(stream+odd.Replace(w.ending)) + lastChunk}},
			"an odd whole finish":     {{0, status(200, "", odd.Replace(w.whole(said)))}},
			"400":                     {{0, status(400, "", `{"error":{"message":"`+prompt+said+`","type":"`+said+`","code":"`+said+`"}}`)}},
			"401":                     {{0, status(401, "", `{"error":{"message":"`+prompt+` sk-a"}}`)}},
			"429":                     {{0, status(429, "Retry-After: "+said+"\r\n", `{"error":{"message":"`+prompt+`"}}`)}},
			"500":                     {{0, status(500, "X-Echo: "+prompt+"\r\n", prompt)}},
			"a page":                  {{0, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 18\r\n\r\n" + prompt}},
			"an odd encoding":         {{0, status(200, "Content-Encoding: "+said+"\r\n", prompt)}},
			"an odd type":             {{0, strings.Replace(status(200, "", w.whole(said)), "application/json", said, 1)}},
			"no HTTP":                 {{0, prompt + "\r\n"}},
			"an odd status line":      {{0, "HTTP/1.1 200" + prompt + "\r\n\r\n"}},
			"an odd header":           {{0, "HTTP/1.1 200 OK\r\n" + prompt + "\r\n\r\n"}},
			"odd chunks":              {{0, w.head() + prompt + "\r\n"}},
			"cut":                     {{0, w.head() + chunk(stream)}, {10 * ms, cutOff}},
			"an error in the stream":  {{0, w.head() + chunk(stream+strings.ReplaceAll(w.boom, "boom", prompt)) + lastChunk}},
			"a broken event":          {{0, w.head() + chunk(stream+w.event+prompt+"\n\n") + lastChunk}},
			"an error at first":       {{0, w.head() + chunk(strings.Replace(strings.ReplaceAll(w.boom, "boom", prompt), ",\r\n", "[", 1)) + lastChunk}},
			"silence":                 {{0, w.head() + chunk(stream)}, {time.Hour, ""}},
			"a redirect":              {{0, status(302, "Location: http://"+prompt+"/\r\n", "")}},
			"a panic":                 nil,
			"a panic behind the text": {{0, w.head() + chunk(stream+w.ending) + lastChunk}},
		} {
			t.Run(w.name+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, nil, w.offer("a", script...))
					if strings.HasPrefix(name, "a panic") {
						var at atomic.Pointer[string]
						_, r.client = r.crashing(&at)
						place := map[bool]string{true: "Reader;", false: "Read the finish;"}[script == nil]
						at.Store(&place)
					}
					body := w.ask(prompt, true)
					r.post(w.stream, body, "X-Odd", prompt, "Traceparent", prompt, "User-Agent", prompt)
					r.post(w.stream, body[:len(body)-2])
					r.post(w.stream, strings.Replace(body, "mini", prompt, 1))
					r.post(strings.Replace(w.stream, "mini", prompt, 1), body)
					r.post("/v1/"+prompt, body)
					r.post(w.path+"?key=hw_wrong_key", body, "Authorization", "Basic x")
					r.post(w.path, body, "Authorization", "Bearer hw_wrong_key")
					r.post(w.path, body, "X-Headway-Time-Value", prompt)
					synctest.Wait()
					var all strings.Builder
					all.WriteString(r.log.String())
					all.WriteString(r.get("/metrics").body)
					err := r.book.Receipts(time.Time{}, time.Time{}, false, func(rec *core.Receipt) bool {
						out, err := json.Marshal(rec)
						all.Write(out)
						return err == nil
					})
					if err != nil || !strings.Contains(all.String(), "level=INFO") || !strings.Contains(all.String(), "headway_refused_calls_total") || !strings.Contains(all.String(), `"outcome"`) {
						t.Fatalf("%v: there is nothing to look at: %s", err, all.String())
					}
					for _, secret := range secrets {
						if i := strings.Index(all.String(), secret); i >= 0 {
							t.Errorf("%q is in …%s…", secret, all.String()[max(0, i-200):min(all.Len(), i+200)])
						}
					}
				})
			})
		}
	}
}
