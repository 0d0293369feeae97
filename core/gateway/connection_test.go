package gateway_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"headway/adapters"
	"headway/core"
	"headway/core/gateway"
	"headway/core/ledger"
	"headway/core/market"
	"headway/core/measure"
)

// overSockets is a gateway whose one offer is an upstream on a real socket.
func overSockets(t *testing.T, upstream http.Handler, tls bool) (call func() *core.Receipt) {
	t.Helper()
	server := httptest.NewUnstartedServer(upstream)
	if tls {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return overURL(t, server.URL+"/v1")
}

// overURL is a gateway whose one offer is at an address.
func overURL(t *testing.T, url string) (call func() *core.Receipt) {
	t.Helper()
	p := &core.Provider{ID: "a", Format: core.FormatOpenAI, BaseURL: url, AllowPrivate: true}
	o := &core.Offer{ID: "a/mini", Provider: p, Model: "mini", UpstreamModel: "mini", Price: core.Price{Rates: core.Rates{Input: 1e6, Output: 2e6}}}
	catalogue, err := market.NewCatalogue([]*core.Provider{p}, []*core.Offer{o}, nil)
	if err != nil {
		t.Fatal(err)
	}
	book := core.NewMemory()
	board, err := measure.NewBoard(time.Now, book)
	if err != nil {
		t.Fatal(err)
	}
	pepper := &ledger.Pepper{}
	keys := ledger.NewKeys(pepper)
	keys.Set([]*core.Key{{ID: "test", Hash: pepper.Hash(clientKey)}})
	transports := gateway.NewTransports()
	t.Cleanup(transports.Close)
	gw := gateway.New(gateway.Parts{Clock: time.Now, Log: slog.New(slog.DiscardHandler), Adapters: adapters.All(), Keys: keys, Book: book,
		Board: board, Estimator: newEstimator(t, book), Accounts: newAccounts(t, book), Dialer: transports, Metrics: gateway.NewMetrics()})
	gw.Swap(&gateway.Setup{Settings: core.DefaultSettings(), Catalogue: catalogue})
	return func() *core.Receipt {
		t.Helper()
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(ask))
		r.Header.Set("Authorization", "Bearer "+clientKey)
		gw.ServeHTTP(w, r)
		rec, err := book.Receipt(core.CallID(w.Header().Get("X-Request-Id")))
		if err != nil {
			t.Fatal(err)
		}
		return rec
	}
}

func TestConnectionFacts(t *testing.T) {
	answers := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, whole("fine", 8, 1))
	})
	call := overSockets(t, answers, false)
	first, second := call().Timing.Connection, call().Timing.Connection
	if !first.Reused.OK || first.Reused.V || !first.Connect.OK || first.TLS.OK {
		t.Errorf("a new connection: %+v", first)
	}
	if !second.Reused.OK || !second.Reused.V || second.Connect.OK {
		t.Errorf("the same again: %+v", second)
	}
	// The test server's certificate is of nobody that is trusted: the handshake
	// is begun and fails.
	if rec := overSockets(t, answers, true)(); rec.Outcome != core.Failed || !rec.Timing.Connection.Connect.OK || !rec.Timing.Connection.TLS.OK {
		t.Errorf("over TLS: %s, %+v", rec.Outcome, rec.Timing.Connection)
	}
}

// TestIdleConnectionClosed: a server that closes an idle connection at the moment
// when a call is sent on it has not failed: the call goes out on a new one.
func TestIdleConnectionClosed(t *testing.T) {
	served := 0
	call := overSockets(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if served++; served == 2 {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_ = conn.Close()
			}
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, whole("fine", 8, 1))
	}), false)
	call()
	rec := call()
	if rec.Outcome != core.Settled || len(rec.Attempts) != 1 || served != 3 {
		t.Errorf("outcome %s, attempts %+v, served %d times", rec.Outcome, rec.Attempts, served)
	}
	if c := rec.Timing.Connection; c.Reused.V {
		t.Errorf("it was answered on %+v", c)
	}
}

// TestBrokenWords: the record says how a connection failed, and no address.
func TestBrokenWords(t *testing.T) {
	for _, c := range []struct{ url, word string }{
		{"http://127.0.0.1:1/v1", "refused"},
		{"http://nothing.invalid/v1", "dns"},
	} {
		if rec := overURL(t, c.url)(); rec.Attempts[0].Error != c.word {
			t.Errorf("%s: %q, want %q", c.url, rec.Attempts[0].Error, c.word)
		}
	}
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	if rec := overURL(t, server.URL+"/v1")(); rec.Attempts[0].Error != "tls" {
		t.Errorf("a certificate of nobody: %q", rec.Attempts[0].Error)
	}
}
