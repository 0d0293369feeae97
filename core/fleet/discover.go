package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"headway/core"
)

// errSays is what a server says that is not what was asked for.
var errSays = errors.New("the server's answer is not one of a model server")

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

// anyModel is the name of the offer for models that no other one names.
const anyModel core.Model = "*"

// latest ends Ollama's names where nobody said which version of a model is meant.
const latest = ":latest"
