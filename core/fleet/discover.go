package fleet

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// errSays is what a server says that is not what was asked for.
var errSays = errors.New("the server's answer is not one of a model server")

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
		m.slow++
		slow := m.slow
		m.mu.Unlock()
		// A server that is busy may be slow to say so.
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

// pollWord is an error of a poll without what a server may have put in it.
func pollWord(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.Is(err, errSays), errors.Is(err, errRefuses), errors.Is(err, errLoading), errors.Is(err, errHeadway):
		return err.Error()
	}
	return brokenWord(err)
}

var (
	errRefuses = errors.New("the server refuses the API key")
	errHeadway = errors.New("this is a Headway, not a model server: name the address of the model server itself, such as http://127.0.0.1:11434")
	errLoading = errors.New("the server says that it is not ready")
)

// asking is one poll.
type asking struct {
	m     *modelServer
	ctx   context.Context
	found []foundModel // what the server listed
}

// get asks for a path, which must be answered with JSON in time; false: it is
// answered with another status than 200.
func (a *asking) get(path string, into any) (ok bool, err error) {
	status, _, err := a.fetch(path, into)
	return status == http.StatusOK, err
}

// fetch is get with the status and the header.
func (a *asking) fetch(path string, into any) (status int, header http.Header, err error) {
	ctx, cancel := context.WithTimeout(a.ctx, askTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.m.root.String()+path, nil)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set("User-Agent", "headway")
	a.m.authorize(req.Header)
	resp, err := a.m.http.RoundTrip(req)
	if err != nil {
		return 0, nil, errors.Join(err, ctx.Err())
	}
	defer resp.Body.Close()
	if resp.Header.Get(core.VersionHeader) != "" { // its calls would come back to it
		return resp.StatusCode, nil, errHeadway
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, askedBytes+1))
	switch {
	case err != nil:
		return 0, nil, errors.Join(err, ctx.Err())
	case len(body) > askedBytes:
		return 0, nil, fmt.Errorf("%w: it is longer than 4 MiB", errSays)
	case resp.StatusCode != http.StatusOK || into == nil:
		return resp.StatusCode, resp.Header, nil
	}
	// A field of another type than it should be is as good as not there.
	var mistyped *json.UnmarshalTypeError
	if err := json.Unmarshal(body, into); err != nil && !errors.As(err, &mistyped) {
		return resp.StatusCode, resp.Header, fmt.Errorf("%w: it is not JSON", errSays)
	}
	return resp.StatusCode, resp.Header, nil
}

// authorize sets the server's own credential.
func (m *modelServer) authorize(h http.Header) {
	if !m.APIKey.Empty() {
		h.Set("Authorization", "Bearer "+m.APIKey.Reveal())
	}
}

// all finds out everything. An error says that the server cannot be called now.
func (a *asking) all(k *facts) error {
	if k.format == "" {
		if err := a.recognise(k); err != nil {
			return err
		}
	}
	var found []foundModel
	var err error
	switch k.format {
	case core.FormatLlamaCpp:
		found, err = a.llama(k)
	case core.FormatOllama:
		found, err = a.ollama(k)
	default:
		found, err = a.openAI(k)
	}
	if err != nil {
		return err
	}
	k.models, a.found = a.m.offers(found), found
	return nil
}

// recognise finds out the format.
func (a *asking) recognise(k *facts) error {
	var ollama struct{ Version string }
	status, header, err := a.fetch("/api/version", &ollama)
	switch {
	case err != nil && !errors.Is(err, errSays):
		return err
	case status == http.StatusOK && ollama.Version != "":
		k.format = core.FormatOllama
		return nil
	}
	if header.Get("Server") == "llama.cpp" {
		k.format = core.FormatLlamaCpp
		return nil
	}
	var llama llamaProps
	if ok, err := a.get("/props", &llama); err != nil && !errors.Is(err, errSays) {
		return err
	} else if ok && (llama.TotalSlots > 0 || llama.BuildInfo != "") {
		k.format = core.FormatLlamaCpp
		return nil
	}
	if !a.m.Fixed {
		if _, err := a.list(); err != nil {
			return err // it is none of those that are known, and no OpenAI either
		}
	}
	k.format = core.FormatOpenAI
	return nil
}

// foundModel is one model as its server lists it.
type foundModel struct {
	name     string
	aliases  []string
	context  core.Opt[int64]
	loaded   core.Opt[bool]
	features core.Opt[core.Feature]
}

// modelList is a model list of OpenAI's form, with what servers add.
type modelList struct {
	Data []struct {
		ID          string
		OwnedBy     string `json:"owned_by"`
		Aliases     []string
		MaxModelLen int64 `json:"max_model_len"` // vLLM, SGLang
		Meta        struct {
			Context int64 `json:"n_ctx"`
		}
		Status struct{ Value string } // llama-server with several models
	}
}

// list asks for /v1/models.
func (a *asking) list() (l modelList, err error) {
	status, _, err := a.fetch("/v1/models", &l)
	switch {
	case err != nil:
		return l, err
	case status == http.StatusOK && l.Data != nil:
		return l, nil
	case status == http.StatusOK:
		return l, fmt.Errorf("%w: it holds no list of models", errSays)
	}
	return l, pollRefusal(status)
}

func pollRefusal(status int) error {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return errRefuses
	case http.StatusServiceUnavailable:
		return errLoading
	}
	return fmt.Errorf("%w: status %d", errSays, status)
}

// llamaProps is what /props says, as far as it matters.
type llamaProps struct {
	TotalSlots int64  `json:"total_slots"`
	BuildInfo  string `json:"build_info"`
	Defaults   struct {
		Context int64 `json:"n_ctx"` // of one slot
	} `json:"default_generation_settings"`
	Modalities *struct{ Vision, Audio bool }
}

// llama asks a llama-server.
func (a *asking) llama(k *facts) (all []foundModel, err error) {
	var props llamaProps
	status, _, err := a.fetch("/props", &props)
	switch {
	case err != nil && !errors.Is(err, errSays):
		return nil, err
	case status == http.StatusServiceUnavailable || status == http.StatusUnauthorized:
		return nil, pollRefusal(status) // the list would be there all the same
	}
	if build := label(props.BuildInfo); build != "" {
		build, _, _ = strings.Cut(build, "-")
		k.server = "llama.cpp " + build
	}
	k.slots = props.TotalSlots
	if !a.m.Fixed {
		l, err := a.list()
		if err != nil {
			return nil, err
		}
		for _, d := range l.Data {
			f := foundModel{name: d.ID, aliases: d.Aliases, context: context64(props.Defaults.Context)}
			if !f.context.OK {
				f.context = context64(d.Meta.Context)
			}
			f.loaded = core.Some(d.Status.Value == "" || d.Status.Value == "loaded")
			if props.Modalities != nil {
				f.features = core.Some(features(core.FeatureTools|core.FeatureSchema, props.Modalities.Vision, props.Modalities.Audio))
			}
			all = append(all, f)
		}
	}
	a.slots()
	return all, nil
}

// slots notes how many slots are taken by somebody else.
func (a *asking) slots() {
	before, _ := a.m.line.count()
	var slots []struct {
		Processing bool `json:"is_processing"`
	}
	if ok, err := a.get("/slots", &slots); err != nil || !ok {
		if !errors.Is(err, context.DeadlineExceeded) { // a batch is being worked on: it is as it was
			a.m.others.Store(0)
		}
		return
	}
	var taken int64
	for _, s := range slots {
		if s.Processing {
			taken++
		}
	}
	after, _ := a.m.line.count()
	a.m.others.Store(max(taken-max(before, after), 0))
}

// ollama asks an Ollama.
func (a *asking) ollama(k *facts) (all []foundModel, err error) {
	var version struct{ Version string }
	if ok, err := a.get("/api/version", &version); err != nil && !errors.Is(err, errSays) {
		return nil, err
	} else if v := label(version.Version); ok && v != "" {
		k.server = "Ollama " + v
	}
	if a.m.Fixed {
		return nil, nil
	}
	var tags struct {
		Models []struct {
			Name         string
			Capabilities []string
		}
	}
	status, _, err := a.fetch("/api/tags", &tags)
	switch {
	case err != nil:
		return nil, err
	case status != http.StatusOK:
		return nil, pollRefusal(status)
	case tags.Models == nil:
		return nil, fmt.Errorf("%w: it holds no list of models", errSays)
	}
	var ps struct {
		Models []struct {
			Name    string
			Context int64 `json:"context_length"`
		}
	}
	ok, err := a.get("/api/ps", &ps)
	says := ok && err == nil
	loaded := map[string]int64{}
	for _, p := range ps.Models {
		loaded[p.Name] = p.Context
	}
	for _, t := range tags.Models {
		f := foundModel{name: t.Name}
		if says {
			n, in := loaded[t.Name]
			f.loaded, f.context = core.Some(in), context64(n)
		}
		if !f.context.OK { // what it was loaded with before is what it will be loaded with
			f.context = k.context(core.Model(t.Name))
		}
		if len(t.Capabilities) > 0 {
			own := core.FeatureSchema
			if slices.Contains(t.Capabilities, "tools") {
				own |= core.FeatureTools
			}
			f.features = core.Some(features(own, slices.Contains(t.Capabilities, "vision"), slices.Contains(t.Capabilities, "audio")))
		}
		all = append(all, f)
	}
	return all, nil
}

// context is what is known of a model's context by what the server calls it.
func (k *facts) context(upstream core.Model) core.Opt[int64] {
	for _, m := range k.models {
		if m.Upstream == string(upstream) {
			return m.Limits.Context
		}
	}
	return core.Opt[int64]{}
}

// openAI asks a server that is like OpenAI's: vLLM and many others.
func (a *asking) openAI(k *facts) (all []foundModel, err error) {
	if a.m.Fixed {
		status, _, err := a.fetch("/health", nil) // whatever it answers, it is there
		if err == nil && status == http.StatusServiceUnavailable {
			err = errLoading
		}
		return nil, err
	}
	l, err := a.list()
	if err != nil {
		return nil, err
	}
	vllm := false
	k.server = ""
	for _, d := range l.Data {
		switch d.OwnedBy {
		case "vllm":
			vllm = true
		case "sglang":
			k.server = "SGLang"
		}
		all = append(all, foundModel{name: d.ID, context: context64(d.MaxModelLen)})
	}
	if vllm {
		k.server = "vLLM"
		var version struct{ Version string }
		if ok, err := a.get("/version", &version); ok && err == nil {
			k.server = strings.TrimSpace("vLLM " + label(version.Version))
		}
	}
	return all, nil
}

func features(f core.Feature, vision, audio bool) core.Feature {
	if vision {
		f |= core.FeatureImages
	}
	if audio {
		f |= core.FeatureAudio
	}
	return f
}

func context64(n int64) core.Opt[int64] {
	if n < 1 || n > mostContext {
		return core.Opt[int64]{}
	}
	return core.Some(n)
}

// label is what a server says of itself, where it may be shown.
func label(s string) string {
	if len(s) > 64 || !nameable(s) {
		return ""
	}
	return s
}

// nameable tells whether a name is one: not empty, not too long, printable.
func nameable(s string) bool {
	return s != "" && len(s) <= longestName && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// autoModel is the name by which clients ask for the edge's choice among all.
const autoModel = "auto"

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
	case name == autoModel:
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

// anyModel is the name of the offer for models that no other one names.
const anyModel core.Model = "*"

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

// latest ends Ollama's names where nobody said which version of a model is meant.
const latest = ":latest"
