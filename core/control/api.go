package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"headway/core"
)

// endpoint is one path of the admin API. The table of them is the router and
// the documentation.
type endpoint struct {
	Method string   `json:"method"`
	Path   string   `json:"path"`
	Query  []string `json:"query,omitempty"` // what its query may have; anything else is refused
	What   string   `json:"what"`
	do     func(*Desk, *http.Request) (any, error)
}

// endpoints are all of /admin/v1/.
func endpoints() []endpoint {
	const root = "/admin/v1/"
	paging := []string{"limit", "next"}
	listed := func(more ...string) []string { return append(more, paging...) }
	return []endpoint{
		{"GET", root + "calls", listed("model", "offer", "provider", "key", "owner", "outcome", "kind", "job", "since", "until"),
			"Receipts, the newest first, without their decisions. since and until are times, dates or ages such as 24h.", (*Desk).listCalls},
		{"GET", root + "calls/{id}", nil, "The whole receipt of one call, once it is durable.", (*Desk).getCall},
		{"GET", root + "decisions", listed("outcome", "since", "until"),
			"The decisions of calls, the newest first, with the figures that they were made on, so that another strategy can be tried on them.", (*Desk).listDecisions},
		{"GET", root + "jobs/{id}", nil, "The whole receipts of a job's calls, the oldest first. A call's id is the job of that call.", (*Desk).getJob},
		{"GET", root + "measures", paging, "Base latency, prefill speed and output speed of each provider and model. They are of last week, not of now, and include the network.", (*Desk).listMeasures},
		{"GET", root + "measures/days", nil,
			"The stored sketch of each day, measure, provider and model, and of each offer's errors, and the medians, as JSON lines: what headway receipts recompute compares.", (*Desk).listDays},
		{"GET", root + "speed", nil, "Every measure at once with its window, and how far the predicted waits of each offer were off.", (*Desk).getSpeed},
		{"GET", root + "usage", []string{"from", "to", "by"}, "Calls, tokens, charge and mean speeds of a period; by is a list of model, provider, key, node and day, or of several joined by +.", (*Desk).getUsage},
		{"GET", root + "models", paging, "The models that are served, each with its offers.", (*Desk).listModels},
		{"GET", root + "offers", paging, "The offers, how each stands, and what it costs.", (*Desk).listOffers},
		{"POST", root + "offers", nil, "Makes an offer: the object of the file with its provider's id as provider.", (*Desk).postOffer},
		{"GET", root + "offers/{id...}", nil, "One offer.", (*Desk).getOffer},
		{"PATCH", root + "offers/{id...}", nil, "Changes the fields of an offer made by POST that the body names; null takes one away.", (*Desk).patchOffer},
		{"DELETE", root + "offers/{id...}", nil, "Deletes an offer that was made by POST.", (*Desk).dropOffer},
		{"POST", root + "offers/{id}/pause", nil, "Keeps an offer out until it is resumed, over restarts too.", (*Desk).postOffer},
		{"POST", root + "offers/{id}/resume", nil, "Ends every pause of an offer and of its provider, and forgets its failures.", (*Desk).postOffer},
		{"POST", root + "offers/{id}/test", nil, "Makes one tiny call to an offer, paused or not, and answers with its receipt. It costs what it costs.", (*Desk).postOffer},
		{"GET", root + "providers", paging, "The providers, without their credentials.", (*Desk).listProviders},
		{"POST", root + "providers", nil, "Makes a provider with its offers: the object of the file. A private address needs allow_private.", (*Desk).postProvider},
		{"PUT", root + "providers/{id}", nil, "Replaces a provider that was made by POST, with its offers.", (*Desk).putProvider},
		{"DELETE", root + "providers/{id}", nil, "Deletes a provider that was made by POST, with the offers inside it.", (*Desk).dropProvider},
		{"GET", root + "keys", paging, "The callers' keys and what each has spent, without their texts.", (*Desk).listKeys},
		{"POST", root + "keys", nil, "Makes a key: the object of the file. Its text is in this answer and is shown nowhere else.", (*Desk).postKey},
		{"GET", root + "keys/{id}", nil, "One key.", (*Desk).getKey},
		{"PATCH", root + "keys/{id}", nil, "Changes the fields of a key that the body names, and of price_cap_usd_per_mtok and labels the members; null takes one away.", (*Desk).patchKey},
		{"POST", root + "keys/{id}", nil, "As PATCH.", (*Desk).patchKey},
		{"DELETE", root + "keys/{id}", nil, "Revokes a key for good. It stays listed for what it has spent.", (*Desk).dropKey},
		{"POST", root + "keys/{id}/revoke", nil, "As DELETE.", (*Desk).dropKey},
		{"GET", root + "nodes", paging, "The nodes, and how each stands: invited, up, lost or revoked.", (*Desk).listNodes},
		{"POST", root + "nodes", nil, "Invites a node: its name, and if wanted owner and address. The join string in this answer can be used once, within 10 minutes, and is shown nowhere else.", (*Desk).postNode},
		{"GET", root + "nodes/{name}", nil, "One node.", (*Desk).getNode},
		{"DELETE", root + "nodes/{name}", nil, "Revokes a node for good: its key, its connection, its offers, at once.", (*Desk).dropNode},
		{"POST", root + "nodes/{name}/revoke", nil, "As DELETE.", (*Desk).dropNode},
		{"GET", root + "receipts", paging, "The signed logs of receipts, the oldest first: how each stands, its newest checkpoint, and the keys that sign.", (*Desk).listReceiptLogs},
		{"GET", root + "receipts/export", []string{"month", "from", "to", "since", "witnessed", "measurements"},
			"Signed logs as JSON lines that anybody can check: those of a month (month=2026-11, of which 2026-11.1 and 2026-11.2 are one log each), or the part with the calls from from on and before to, or what came after the checkpoint since. witnessed=true ends where the witness has signed, measurements=true adds what is not signed.", (*Desk).exportReceipts},
		{"GET", root + "receipts/tree", []string{"month", "witnessed"}, "One signed log as a tar file of the files of C2SP tlog-tiles.", (*Desk).treeOfReceipts},
		{"GET", root + "receipts/{id}/proof", nil, "The proof that a receipt is in the signed log, with its leaf, as text (C2SP tlog-proof).", (*Desk).proveReceipt},
		{"POST", root + "receipts/renew", nil, "Begins another signed log behind one that is short or damaged: its first leaf says what is gone. Calls are refused until then, where receipts are not optional.", (*Desk).renewReceipts},
		{"GET", root + "receipts/{id}/opening", nil, "Whose call a leaf is of: the salt and the private part that its commitment is made of.", (*Desk).openReceipt},
		{"POST", root + "receipts/rotate", nil, "Makes a new key for the signed log, which the log introduces; the older one signs beside it until the month after this one is over.", (*Desk).rotateReceipts},
		{"POST", root + "receipts/erase", nil, "Erases receipts of what says whose they are: of ids, of a key or of an owner, perhaps of one month; or with secret what a month's pseudonyms are made of. An answer with next is not all: ask again with it.", (*Desk).eraseReceipts},
		{"POST", root + "receipts/purge", nil, "Drops what was erased from all files of the data folder, and says in JSON lines what it does; the last one has done or error.", (*Desk).purgeReceipts},
		{"POST", root + "apply", []string{"name"}, "Puts a configuration into force, as a whole or not at all: the YAML text of the body, or without one the file that serve was started with. name is what errors call the text.", (*Desk).postApply},
		{"GET", root + "audit", listed("since", "target", "action"),
			"Every change to keys, offers, providers and routing, the newest first: who, when, what, before and after.", (*Desk).listAudit},
		{"GET", root + "backup", nil, "A backup of all that is kept, as it is now, as a tar file. It has the secrets of the server, so that only the data folder's socket answers.", (*Desk).getBackup},
		{"GET", root + "scripts", paging, "The strategies in JavaScript: how each stands, and what was wrong last.", (*Desk).listScripts},
		{"GET", root + "config", nil, "The configuration in force as YAML, its secrets masked.", (*Desk).getConfig},
		{"GET", root + "status", nil, "The version, the address, the calls under way and the health.", (*Desk).getStatus},
		{"GET", root + "{$}", nil, "This list.", (*Desk).getIndex},
	}
}

// Index is the answer to GET /admin/v1/.
type Index struct {
	Endpoints []endpoint `json:"endpoints"`
}

func (d *Desk) getIndex(*http.Request) (any, error) {
	list := endpoints()
	for i := range list {
		list[i].Path = strings.ReplaceAll(strings.TrimSuffix(list[i].Path, "{$}"), "...}", "}")
	}
	return Index{list}, nil
}

// made201 is an answer with status 201.
type made201 struct{ v any }

// Handler serves the admin API to whoever has the admin token.
func (d *Desk) Handler() http.Handler { return d.guard(as(whoToken, d.routes())) }

// Local serves it without a token, for the data folder's socket.
func (d *Desk) Local() http.Handler { return as(whoSocket, d.routes()) }

func (d *Desk) routes() http.Handler {
	mux := http.NewServeMux()
	list := endpoints()
	for _, e := range list {
		switch { // an offer's id may have slashes, and its actions follow it
		case strings.Contains(e.Path, "/offers/{id}/"):
			continue
		case e.Path == "/admin/v1/offers" && e.Method == http.MethodPost:
			mux.Handle("POST /admin/v1/offers/{id...}", d.answer(endpoint{do: (*Desk).actOnOffer}))
		}
		mux.Handle(e.Method+" "+e.Path, d.answer(e))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if r.ContentLength != 0 {
			r.Body = &posted{r.Body, http.NewResponseController(w)}
			d.readUntil(w, uploadTime)
		}
		if r.URL.Path == "/admin/v1" {
			r.URL.Path += "/"
		}
		if _, pattern := mux.Handler(r); pattern == "" {
			d.noSuchPath(w, r, mux)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// noSuchPath tells a wrong method from a wrong path.
func (d *Desk) noSuchPath(w http.ResponseWriter, r *http.Request, mux *http.ServeMux) {
	var allowed []string
	for _, method := range [...]string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		other := &http.Request{Method: method, URL: r.URL, Host: r.Host}
		if _, pattern := mux.Handler(other); pattern != "" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		e := core.Errorf(core.NotFound, "no such path")
		e.Hint = "GET /admin/v1/ lists them all"
		d.fail(w, e)
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	e := core.Errorf(core.Invalid, "this method is not allowed on this path")
	e.Code, e.Hint = codeMethod, "use "+strings.Join(allowed, " or ")
	d.fail(w, e)
}

// guard lets through who sends the admin token. A server without one lets nobody
// through.
func (d *Desk) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		presented, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if r.ContentLength != 0 { // also where it is refused, net/http waits for the body
			d.readUntil(w, unread)
		}
		if !bearer || d.AdminToken.Empty() || !d.Pepper.Equal(presented, d.AdminToken.Reveal()) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			e := core.Errorf(core.Unauthorized, "no valid admin token")
			e.Hint = "send it as Authorization: Bearer TOKEN; where the file names none it is in DATA/admin-token"
			d.fail(w, e)
			return
		}
		next.ServeHTTP(w, r)
	})
}

const (
	longestBody = 1 << 20
	uploadTime  = 30 * time.Second // a body must have come within this
	unread      = time.Second      // one that nobody reads, within this
	writePiece  = 64 << 10         // what a client has limits.client_write for
	catchUp     = time.Second      // the longest wait for the receipts of calls that have ended
)

// readUntil limits how long a request's body may still come.
func (d *Desk) readUntil(w http.ResponseWriter, within time.Duration) {
	_ = http.NewResponseController(w).SetReadDeadline(d.Clock().Add(within))
}

// posted is a body whose time limit ends with it: what is done with it may take
// longer, and a limit that ran out then would look like a client that left.
type posted struct {
	io.ReadCloser
	rc *http.ResponseController
}

func (p *posted) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b)
	if err == io.EOF {
		_ = p.rc.SetReadDeadline(time.Time{})
	}
	return n, err
}

// answer runs one endpoint.
func (d *Desk) answer(e endpoint) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := checkQuery(r, e.Query); err != nil {
			d.fail(w, err)
			return
		}
		if d.Book.Healthy() == nil {
			ctx, stop := context.WithTimeout(r.Context(), catchUp)
			d.Book.CatchUp(ctx)
			stop()
		}
		v, err := e.do(d, r)
		if err != nil {
			d.fail(w, err)
			return
		}
		if s, ok := v.(streamed); ok {
			d.stream(w, r, s)
			return
		}
		status := http.StatusOK
		if m, ok := v.(made201); ok {
			status, v = http.StatusCreated, m.v
		}
		if r.Method != http.MethodGet {
			d.Log.Info("admin", "method", r.Method, "path", r.URL.Path)
		}
		d.write(w, status, v)
	})
}

// checkQuery refuses what an endpoint does not know, so that no filter is
// misspelt without a word.
func checkQuery(r *http.Request, known []string) error {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return core.Errorf(core.Invalid, "the query is not well formed")
	}
	for name, values := range q {
		if !slices.Contains(known, name) {
			e := core.Field(shorten(name), "this path has no such parameter")
			if len(known) > 0 {
				e.Hint = "it has " + strings.Join(known, ", ")
			}
			return e
		}
		if len(values) > 1 {
			return core.Field(name, "is there twice")
		}
	}
	return nil
}

// readBody reads what was posted.
func readBody(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, longestBody+1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, core.Errorf(core.Invalid, "the body did not arrive in time")
	case err != nil:
		return nil, &core.Error{Kind: core.Canceled, Msg: "the body ended early", Err: err}
	case len(body) > longestBody:
		return nil, core.Errorf(core.TooLarge, "the body is larger than 1 MiB")
	}
	return body, nil
}

// Codes of errors that are finer than their kind.
const (
	codeConflict = "conflict"
	codeMethod   = "method_not_allowed"
)

// errorBody is how an error is written.
type errorBody struct {
	Error struct {
		Message string `json:"message"`
		Hint    string `json:"hint,omitempty"`
		Type    string `json:"type"`
		Param   string `json:"param,omitempty"`
	} `json:"error"`
}

func (d *Desk) fail(w http.ResponseWriter, err error) {
	if errors.Is(err, context.Canceled) {
		return // nobody waits for the answer
	}
	var e *core.Error
	if !errors.As(err, &e) {
		d.Log.Error("an admin call failed", "error", err)
		e = core.Errorf(core.Internal, "an internal error")
	}
	if e.Err != nil && (e.Kind == core.Internal || e.Kind == core.Unavailable) {
		d.Log.Warn("an admin call failed", "message", e.Msg, "cause", e.Err)
	}
	var body errorBody
	body.Error.Message, body.Error.Hint, body.Error.Param = e.Msg, e.Hint, e.Param
	body.Error.Type = core.Kinds[e.Kind].Name
	status := e.Status()
	switch e.Code {
	case codeConflict:
		body.Error.Type, status = e.Code, http.StatusConflict
	case codeMethod:
		body.Error.Type, status = e.Code, http.StatusMethodNotAllowed
	}
	d.write(w, status, body)
}

func (d *Desk) write(w http.ResponseWriter, status int, v any) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		d.Log.Error("an admin answer cannot be written as JSON", "error", err)
		status = http.StatusInternalServerError
		out.Reset()
		out.WriteString(`{"error":{"message":"an internal error","type":"internal_error"}}` + "\n")
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(out.Len()))
	w.WriteHeader(status)
	for out.Len() > 0 {
		d.patient(w)
		if _, err := w.Write(out.Next(writePiece)); err != nil {
			return
		}
	}
	d.patient(w) // for what is still in a buffer
}

// streamed is an answer that is no JSON value: it is written as it is made.
type streamed struct {
	kind  string // its media type
	write func(io.Writer) error
}

// stream writes a streamed answer. One that fails before its first byte is an error
// like any other; behind it the connection is broken off, so that nobody takes what
// came for all there is.
func (d *Desk) stream(w http.ResponseWriter, r *http.Request, s streamed) {
	out := &pieces{d: d, w: w, kind: s.kind}
	switch err := s.write(out); {
	case err == nil:
		out.begin()
		d.patient(w)
	case !out.begun:
		d.fail(w, err)
	default:
		if out.failed == nil && r.Context().Err() == nil { // else it was the client
			d.Log.Error("an admin answer broke off", "path", r.URL.Path, "error", err)
		}
		panic(http.ErrAbortHandler)
	}
}

// pieces writes an answer piece by piece, each within the time that a client has.
type pieces struct {
	d      *Desk
	w      http.ResponseWriter
	kind   string
	begun  bool
	failed error // of a write
}

func (p *pieces) begin() {
	if !p.begun {
		p.begun = true
		p.w.Header().Set("Content-Type", p.kind)
		p.w.WriteHeader(http.StatusOK)
	}
}

// Write sends bytes on.
func (p *pieces) Write(b []byte) (n int, err error) {
	p.begin()
	for n < len(b) && err == nil {
		var sent int
		p.d.patient(p.w)
		sent, err = p.w.Write(b[n:min(len(b), n+writePiece)])
		n += sent
	}
	p.failed = err
	return n, err
}

// Flush sends what was written, for whoever reads along.
func (p *pieces) Flush() { _ = http.NewResponseController(p.w).Flush() }

// patient limits how long a client may be in taking the next piece of an answer.
func (d *Desk) patient(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(d.Clock().Add(d.Gateway.Setup().Settings.Limits.ClientWrite))
}

// List is one page of a list. Next, where it is there, is the next page's ?next=.
type List[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty"`
}

const (
	usualLimit = 50
	mostItems  = 1000
)

func limit(r *http.Request) (int, error) {
	text := r.URL.Query().Get("limit")
	if text == "" {
		return usualLimit, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > mostItems {
		return 0, core.Field("limit", "want a whole number from 1 to %d", mostItems)
	}
	return n, nil
}

// page cuts a list, whose order does not change between its pages; name tells
// its items apart.
func page[T any](r *http.Request, all []T, name func(T) string) (List[T], error) {
	n, err := limit(r)
	if err != nil {
		return List[T]{}, err
	}
	from := 0
	if next := r.URL.Query().Get("next"); next != "" {
		last := slices.IndexFunc(all, func(v T) bool { return name(v) == next })
		if last < 0 {
			e := core.Field("next", "is nothing that an earlier page said, or is gone since")
			e.Hint = "begin again without it"
			return List[T]{}, e
		}
		from = last + 1
	}
	l := List[T]{Items: append([]T{}, all[from:min(from+n, len(all))]...)}
	if from+n < len(all) {
		l.Next = name(l.Items[n-1])
	}
	return l, nil
}

// moment reads a time of a query: RFC 3339, a date in UTC, or an age such as 24h
// or 7d. end says that a date means the end of that day.
func moment(name, text string, now time.Time, end bool) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		if t, err = time.Parse(time.DateOnly, text); err == nil && end {
			t = t.AddDate(0, 0, 1)
		}
	}
	if t = t.UTC(); err == nil {
		if t.Year() < 1970 || t.Year() > 9998 { // JSON ends with 9999, and so does a day behind the last
			return time.Time{}, core.Field(name, "%s is not within the years 1970 to 9998", quoted(text))
		}
		return t, nil
	}
	age, days := text, time.Duration(1)
	if n, ok := strings.CutSuffix(text, "d"); ok {
		age, days = n+"h", 24
	}
	if d, err := time.ParseDuration(age); err == nil && d >= 0 && d < 100*365*time.Hour {
		return now.Add(-d * days).UTC(), nil
	}
	e := core.Field(name, "%s is not a time", quoted(text))
	e.Hint = "write it as 2026-11-30T12:00:00Z, as the day 2026-11-30, or as an age such as 24h or 7d"
	return time.Time{}, e
}

func quoted(s string) string { return fmt.Sprintf("%q", shorten(s)) }

// shorten keeps text of a request in an error to a readable length.
func shorten(s string) string {
	if len(s) > 100 {
		return strings.ToValidUTF8(s[:100], "") + "…"
	}
	return s
}
