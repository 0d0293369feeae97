package fleet

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"headway/core"
)

const (
	pollEvery = 2 * time.Second
	// askTime is how long a model server may take to say what it has. A busy one is
	// slow to: only after mostSlow such polls in a row it counts as down.
	askTime  = time.Second
	mostSlow = 3

	// What a model server says is bounded.
	askedBytes  = 4 << 20
	mostModels  = 1000
	longestName = 256
	mostAliases = 16
	mostSlots   = 1024
	mostQueue   = 10_000
	mostContext = 1 << 31

	// usualQueue is how many calls may wait for a slot where nothing else was set. It
	// is a bound of memory (each holds up to 1 MiB of its body here), not of patience:
	// the edge knows the line and sends a call elsewhere long before it is full.
	usualQueue  = 64
	ollamaSlots = 1 // it does not say; more of them wait in its own line
	usualSlots  = 8 // of servers that batch and do not say
)

// modelServer is one upstream of this machine with what is known of it.
type modelServer struct {
	Upstream
	root  *url.URL
	clock core.Clock
	log   *slog.Logger
	http  http.RoundTripper
	line  slots
	// others is how many slots the server says are taken by somebody else.
	others  atomic.Int64
	wake    chan struct{} // of one: poll now
	fed     atomic.Bool   // it has answered something of a call since the last poll that failed
	said    string        // why it does not answer, as it was logged last; watch's alone
	leftOut string        // which of its models are not offered, as it was logged last; watch's alone

	mu    sync.Mutex // guards what follows
	known facts
	key   string // changes with the credential: another one at each start; "": there is none
	slow  int    // polls in a row that got no answer in time
}

// facts are what a model server was found to be.
type facts struct {
	format core.Format // "": not known yet
	server string
	slots  int64
	models []core.NodeModel
	down   bool
}

// newModelServer makes one that nothing is known of yet. An error names what is
// wrong with its address.
func newModelServer(u Upstream, p *NodeParts) (*modelServer, error) {
	m := &modelServer{Upstream: u, clock: p.Clock, http: p.Transport, wake: make(chan struct{}, 1),
		log: p.Log.With("upstream", cmp.Or(u.Name, u.URL)), known: facts{format: u.Format, down: true}}
	root, err := url.Parse(strings.TrimRight(u.URL, "/"))
	if err != nil || root.Scheme != "http" && root.Scheme != "https" || root.Host == "" || root.User != nil || root.RawQuery != "" || root.Fragment != "" {
		return nil, &core.Error{Kind: core.Invalid, Msg: "upstream: not the address of a model server", Hint: "write it as http://127.0.0.1:11434 (Ollama's usual port)"}
	}
	m.root = root
	if !u.APIKey.Empty() {
		m.key = rand.Text()
	}
	if u.Fixed {
		m.known.models = m.offers(nil)
	}
	m.set(m.known)
	return m, nil
}

// report is what the edge is told of the server; false: nothing yet, as not even its
// format is known. It has at most most models, whose JSON is no longer than room.
func (m *modelServer) report(most, room int) (core.NodeUpstream, bool) {
	m.mu.Lock()
	k := m.known
	m.mu.Unlock()
	if k.format == "" {
		return core.NodeUpstream{}, false
	}
	u := core.NodeUpstream{Name: m.Name, Format: k.format, Server: k.server, Slots: m.slots(k), Queue: m.queue(), Down: k.down, Credential: m.key, Models: []core.NodeModel{}}
	for _, model := range k.models {
		b, err := json.Marshal(model)
		if room -= len(b) + 1; err != nil || room < 0 || len(u.Models) == most {
			m.log.Warn("not all models fit in the report", "models", len(k.models), "reported", len(u.Models))
			break
		}
		u.Models = append(u.Models, model)
	}
	return u, true
}

// count is how many models it has.
func (m *modelServer) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.known.models)
}

func (m *modelServer) format() core.Format {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known.format
}

// slots is how many calls the server works on at once.
func (m *modelServer) slots(k facts) int64 {
	if m.Slots.V > 0 {
		return min(m.Slots.V, mostQueue)
	}
	n := k.slots
	if n < 1 {
		n = map[core.Format]int64{core.FormatOllama: ollamaSlots, core.FormatLlamaCpp: 1}[k.format]
	}
	return min(cmp.Or(n, usualSlots), mostSlots)
}

func (m *modelServer) queue() int64 { return min(max(m.Queue.Or(usualQueue), 0), mostQueue) }

// set takes what was found, and tells whether it differs from what was known.
func (m *modelServer) set(k facts) bool {
	m.line.resize(m.slots(k), m.queue(), m.clock())
	m.mu.Lock()
	was := m.known
	m.known = k
	m.mu.Unlock()
	return !reflect.DeepEqual(was, k)
}

// doubt has the server polled soon: a call could not reach it.
func (m *modelServer) doubt() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// watch polls the server until ctx ends. first is called after the first poll,
// changed after each that found something new.
func (m *modelServer) watch(ctx context.Context, first, changed func()) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if m.poll(ctx) {
			changed()
		}
		first()
		first = func() {}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-m.wake:
		}
	}
}

// poll asks the server what it is and has. It tells whether that has changed.
func (m *modelServer) poll(ctx context.Context) (changed bool) {
	m.mu.Lock()
	was := m.known
	m.mu.Unlock()
	k := was
	if m.Format == "" && was.down { // it may be another one by now
		k.format = ""
	}
	ask := &asking{m: m, ctx: ctx}
	err := ask.all(&k)
	if ctx.Err() != nil {
		return false
	}
	if err != nil {
		m.others.Store(0)
		k = was
		if errors.Is(err, errHeadway) && !m.Fixed {
			k.models = nil
		}
		m.mu.Lock()
		if m.slow++; m.fed.Swap(false) {
			m.slow = 0
		}
		slow := m.slow
		m.mu.Unlock()
		// A server that is busy may be slow to say so, all the more while it answers calls.
		if errors.Is(err, context.DeadlineExceeded) && slow < mostSlow {
			return false
		}
		k.down = true
	} else {
		m.mu.Lock()
		m.slow = 0
		m.mu.Unlock()
		k.down = false
		m.tellLeftOut(ask.found)
	}
	if !k.down && was.down {
		m.said = ""
		m.log.Info("the model server answers", "format", k.format, "server", k.server, "models", len(k.models), "slots", m.slots(k))
	}
	if why := pollWord(err); k.down && why != m.said {
		m.said = why
		m.log.Warn("the model server does not answer", "error", why)
	}
	return m.set(k)
}

// pollWord says why a poll failed, without what a server may have put in it.
func pollWord(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.Is(err, errSays), errors.Is(err, errRefuses), errors.Is(err, errLoading), errors.Is(err, errHeadway):
		return err.Error()
	}
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var plain tls.RecordHeaderError
	switch word := brokenWord(err); {
	case errors.As(err, &authority):
		return "its certificate is of an authority that this machine does not know"
	case errors.As(err, &host):
		return "its certificate is for another name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "its certificate has expired, or is of the future"
	case errors.As(err, &plain):
		return "it does not speak TLS there: http:// may be meant"
	case word == endTLS:
		return "TLS does not come about"
	case word == endDNS:
		return "the name of its machine is not known"
	case word == endRefused:
		return "nothing listens there"
	}
	return "no HTTP answer comes from there: the address may be another program's, or https:// be meant"
}

// authorize sets the server's own credential.
func (m *modelServer) authorize(h http.Header) {
	if !m.APIKey.Empty() {
		h.Set("Authorization", "Bearer "+m.APIKey.Reveal())
	}
}

// nameable tells whether a name is one: not empty, not too long, printable.
func nameable(s string) bool {
	return s != "" && len(s) <= longestName && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// whyNot says why a model of that name cannot be offered; "": it can.
func whyNot(name string) string {
	switch {
	case name == "":
		return "it has no name"
	case len(name) > longestName:
		return fmt.Sprintf("its name is longer than %d bytes", longestName)
	case !nameable(name):
		return "its name has characters that cannot be shown"
	case strings.ContainsFunc(name, unicode.IsSpace):
		return "its name has a space in it"
	case strings.Trim(name, ".") == "":
		return "its name is made of dots alone"
	case core.Model(name).IsAuto():
		return "clients mean the choice among all models by that name"
	}
	return ""
}

// tellLeftOut logs how many of the models that the server lists are not offered, and why
// the first is not, once for each change.
func (m *modelServer) tellLeftOut(all []foundModel) {
	names := map[string]bool{}
	left, first := 0, ""
	for _, f := range all {
		if why := whyNot(f.name); why != "" {
			if left++; first == "" {
				first = why
			}
			continue
		}
		names[f.name] = true
	}
	if n := len(names) - mostModels; n > 0 {
		left += n
		first = cmp.Or(first, fmt.Sprintf("there are more than %d", mostModels))
	}
	text := ""
	if left > 0 {
		text = fmt.Sprint(left, first)
	}
	if text == m.leftOut {
		return
	}
	if m.leftOut = text; left > 0 {
		m.log.Warn("models that the server lists are not offered", "models", left, "reason", first, "listed", len(all))
	}
}

// offers are the models that the server has, with what its configuration adds.
func (m *modelServer) offers(all []foundModel) (out []core.NodeModel) {
	seen := map[core.Model]bool{}
	add := func(o core.NodeModel) {
		if !seen[o.Model] && len(out) < mostModels {
			seen[o.Model] = true
			out = append(out, o)
		}
	}
	if m.Fixed {
		for _, o := range m.Offers {
			if o.Model != anyModel {
				o.Upstream = cmp.Or(o.Upstream, string(o.Model))
				add(o)
			}
		}
		return out
	}
	slices.SortStableFunc(all, func(a, b foundModel) int { return cmp.Compare(a.name, b.name) })
	for _, f := range all {
		if whyNot(f.name) != "" {
			continue
		}
		for _, o := range m.configured(&f) {
			o.Upstream, o.Loaded = f.name, f.loaded
			if !o.Limits.Context.OK {
				o.Limits.Context = f.context
			}
			if !o.Features.OK {
				o.Features = f.features
			}
			add(o)
		}
	}
	return out
}

// configured are the offers for a model that the server has: those that name it,
// else the one for any model, else one that costs nothing.
func (m *modelServer) configured(f *foundModel) (ours []core.NodeModel) {
	usual := core.NodeModel{}
	for _, o := range m.Offers {
		switch name := cmp.Or(o.Upstream, string(o.Model)); {
		case o.Model == anyModel:
			usual = o
		case strings.TrimSuffix(name, latest) == strings.TrimSuffix(f.name, latest):
			ours = append(ours, o)
		}
	}
	if len(ours) > 0 {
		return ours
	}
	usual.Model, usual.Aliases = core.Model(f.name), nil
	for _, a := range f.aliases {
		if whyNot(a) == "" && a != f.name && len(usual.Aliases) < mostAliases && !slices.Contains(usual.Aliases, core.Model(a)) {
			usual.Aliases = append(usual.Aliases, core.Model(a))
		}
	}
	return []core.NodeModel{usual}
}
