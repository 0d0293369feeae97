// Package gateway is the HTTP edge and the path of a call: call.go is that path
// from top to bottom, attempt.go one try of it at one offer.
package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"headway/core"
	"headway/core/estimate"
	"headway/core/ledger"
	"headway/core/market"
)

// ErrStopping is the cause that ends calls which are still open when the drain
// time is over.
var ErrStopping = errors.New("the server is stopping")

// Parts are what a gateway is made of.
type Parts struct {
	Clock    core.Clock
	Log      *slog.Logger
	Adapters []core.Adapter
	// Providers are the formats that are spoken towards providers alone.
	Providers []core.ProviderSide
	Keys      *ledger.Keys
	Book      core.Book
	Board     market.Board
	Estimator *estimate.Estimator
	Accounts  *ledger.Accounts
	Scripts   core.Scripts // nil: there are none
	Dialer    core.Dialer
	Metrics   *Metrics
	// ReceiptLog gives a word where the signed log of receipts is not whole or not
	// signed, for /readyz; nil: there is no such log.
	ReceiptLog func() string
	// ReceiptsHeld is why no call may be dispatched, as its receipt could not be sealed;
	// nil: one may. It is asked for each call.
	ReceiptsHeld func() error
}

// Setup is what the configuration decides, swapped as a whole on a reload. A
// call keeps the one that it began with.
type Setup struct {
	Settings  core.Settings
	Catalogue *market.Catalogue
	CORS      []string // origins
}

// Gateway serves calls.
type Gateway struct {
	Parts
	adapters  map[core.Format]core.Adapter
	providers map[core.Format]core.ProviderSide
	setup     atomic.Pointer[Setup]
	draining  atomic.Bool
	open      atomic.Int64
	hop       string // this process among those that a call comes through: random
}

// New makes a gateway that serves nothing until Swap.
func New(parts Parts) *Gateway {
	g := &Gateway{Parts: parts, hop: rand.Text(), adapters: map[core.Format]core.Adapter{}, providers: map[core.Format]core.ProviderSide{}}
	for _, a := range parts.Adapters {
		g.adapters[a.Format()], g.providers[a.Format()] = a, a
	}
	for _, p := range parts.Providers {
		g.providers[p.Format()] = p
	}
	empty, _ := market.NewCatalogue(nil, nil, nil) // of nothing: cannot fail
	g.Swap(&Setup{Settings: core.DefaultSettings(), Catalogue: empty})
	return g
}

// Swap replaces the setup for calls that begin from now on.
func (g *Gateway) Swap(s *Setup) { g.setup.Store(s) }

// Setup is the one in force.
func (g *Gateway) Setup() *Setup { return g.setup.Load() }

// Open is the number of calls under way.
func (g *Gateway) Open() int64 { return g.open.Load() }

// Drain makes /readyz say no, so that a balancer stops sending calls.
func (g *Gateway) Drain() { g.draining.Store(true) }

// routes are the paths of calls that are matched whole; Google's have the model
// in them.
var routes = map[string]core.Format{
	"/v1/chat/completions":      core.FormatOpenAI,
	"/v1/completions":           core.FormatOpenAI,
	"/v1/embeddings":            core.FormatOpenAI,
	"/v1/responses":             core.FormatResponses,
	"/v1/messages":              core.FormatAnthropic,
	"/v1/messages/count_tokens": core.FormatAnthropic,
}

// speaks is the format of a call's path; false where it is no call's.
func (g *Gateway) speaks(r *http.Request) (core.Format, bool) {
	path := r.URL.Path
	if f, ok := routes[path]; ok {
		return f, true
	}
	google := strings.HasPrefix(path, "/v1beta/") || strings.HasPrefix(path, "/v1/models/") && strings.Contains(path, ":")
	return core.FormatGoogle, google && r.Method != http.MethodGet
}

// ServeHTTP answers the model routes, /healthz, /readyz and /metrics.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	format, ok := g.speaks(r)
	if ok && r.Method == http.MethodPost {
		if !g.cors(w, r) {
			g.call(w, r, g.adapters[format], nil)
		}
		return
	}
	g.leave(w, r)
	g.patient(w)
	switch path {
	case "/healthz":
		g.health(w)
		return
	case "/readyz":
		g.ready(w)
		return
	case "/metrics":
		g.Metrics.ServeHTTP(w, r)
		return
	}
	if g.cors(w, r) {
		return
	}
	switch {
	case ok && path == "/v1/responses" && strings.EqualFold(r.Header.Get("Upgrade"), "websocket"):
		// Codex falls back to HTTP at once on this status and on no other.
		w.Header().Set("Upgrade", "HTTP/1.1")
		w.Header().Set("Connection", "Upgrade")
		g.refuse(w, r, core.Errorf(core.Upgrade, "websockets are not spoken here, post to the same path"))
	case ok:
		w.Header().Set("Allow", http.MethodPost)
		g.refuse(w, r, core.Errorf(core.WrongMethod, "%s is not allowed on this path, use POST", method(r)))
	case isModels(path) && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		g.models(w, r)
	case isModels(path):
		w.Header().Set("Allow", "GET, HEAD")
		g.refuse(w, r, core.Errorf(core.WrongMethod, "%s is not allowed on this path, use GET", method(r)))
	default:
		e := core.Errorf(core.NotFound, "no such path")
		e.Hint = "an SDK's base URL ends in /v1 for OpenAI, and has no path for Anthropic and Google"
		g.refuse(w, r, e)
	}
}

// method is the request's method if it is one that is safe to repeat.
func method(r *http.Request) string {
	if slices.Contains([]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"}, r.Method) {
		return r.Method
	}
	return "this method"
}

// unread is how long a body that nobody reads may still come.
const unread = time.Second

// leave lets a request be answered without its body, which net/http waits for
// before it sends an answer, by itself without a limit. A connection whose body
// did not come is closed behind the answer.
func (g *Gateway) leave(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(g.Clock().Add(unread))
	}
}

// patient lets a client be slow to read an answer, but not for ever: each has its
// connection and what waits to be written.
func (g *Gateway) patient(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(g.Clock().Add(g.Setup().Settings.Limits.ClientWrite))
}

// cors answers a preflight and adds the headers of an allowed origin.
func (g *Gateway) cors(w http.ResponseWriter, r *http.Request) (answered bool) {
	origin := r.Header.Get("Origin")
	if origin == "" && r.Method != http.MethodOptions {
		return false
	}
	allowed := g.Setup().CORS
	if origin != "" && (slices.Contains(allowed, origin) || slices.Contains(allowed, "*")) {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", origin)
		h.Add("Vary", "Origin")
		h.Set("Access-Control-Expose-Headers", "x-request-id, x-headway-offer, x-headway-attempts, x-headway-dropped, retry-after")
		if r.Method == http.MethodOptions {
			h.Set("Access-Control-Allow-Methods", "GET, POST, OPTIONS")
			if ask := r.Header.Get("Access-Control-Request-Headers"); ask != "" {
				h.Set("Access-Control-Allow-Headers", ask)
			}
			h.Set("Access-Control-Max-Age", "600")
		}
	}
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return true
	}
	return false
}

// health says whether the process lives, and whether it is well.
func (g *Gateway) health(w http.ResponseWriter) {
	state := "ok"
	if g.Book.Healthy() != nil {
		state = "degraded"
	}
	writeJSON(w, http.StatusOK, `{"status":"`+state+`"}`)
}

// held is why no call may be dispatched.
func (g *Gateway) held() error {
	if g.ReceiptsHeld == nil {
		return nil
	}
	return g.ReceiptsHeld()
}

// ready says whether new calls should be sent here.
func (g *Gateway) ready(w http.ResponseWriter) {
	optional := g.Setup().Settings.Receipts == core.ReceiptsOptional
	switch err := g.Book.Healthy(); {
	case g.draining.Load():
		writeJSON(w, http.StatusServiceUnavailable, `{"status":"stopping"}`)
	case err != nil && optional:
		writeJSON(w, http.StatusOK, `{"status":"ready","receipts":"not kept"}`)
	case err != nil:
		writeJSON(w, http.StatusServiceUnavailable, `{"status":"degraded","reason":"receipts cannot be stored"}`)
	case g.held() != nil && !optional:
		writeJSON(w, http.StatusServiceUnavailable, `{"status":"degraded","reason":"the signed log of receipts is damaged"}`)
	default:
		// Receipts are kept all the same.
		word := ""
		if g.ReceiptLog != nil {
			word = g.ReceiptLog()
		}
		if word != "" {
			writeJSON(w, http.StatusOK, `{"status":"ready","receipt_log":"`+word+`"}`)
			return
		}
		writeJSON(w, http.StatusOK, `{"status":"ready"}`)
	}
}

func writeJSON(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body + "\n"))
}

// stopping tells whether a context ended because the server stops.
func stopping(ctx context.Context) bool { return errors.Is(context.Cause(ctx), ErrStopping) }
