package fleet

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"headway/core"
)

// recorded is what a real server answered to a GET.
func recorded(t testing.TB, server, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "testdata", "wire", server, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// gets is a server that answers GETs by their path; others with 404.
type gets map[string]any // a string, or an http.HandlerFunc

func (g gets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch a := g[r.URL.Path].(type) {
	case string:
		_, _ = io.WriteString(w, a)
	case func(http.ResponseWriter, *http.Request):
		a(w, r)
	default:
		http.NotFound(w, r)
	}
}

// unpolled is a model server that nothing is known of yet.
func unpolled(t testing.TB, u Upstream) *modelServer {
	t.Helper()
	m, err := newModelServer(u, &NodeParts{Clock: time.Now, Log: slog.New(slog.NewTextHandler(testLog{t}, nil)), Transport: transport(t)})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// reported is what the edge is told of a server after a poll.
func reported(t testing.TB, m *modelServer) core.NodeUpstream {
	t.Helper()
	m.poll(context.Background())
	u, _ := m.report(mostModels, 1<<20)
	return u
}

func llamaServer(t testing.TB) gets {
	return gets{"/v1/models": recorded(t, "llamacpp", "get-models.json"), "/props": recorded(t, "llamacpp", "get-props.json"), "/slots": recorded(t, "llamacpp", "get-slots-idle.json")}
}

func ollamaServer(t testing.TB) gets {
	return gets{"/v1/models": recorded(t, "ollama", "get-models.json"), "/api/tags": recorded(t, "ollama", "get-tags.json"), "/api/version": recorded(t, "ollama", "get-version.json"),
		"/api/ps": recorded(t, "ollama", "get-ps-empty.json"), "/": recorded(t, "ollama", "get-root.txt")}
}

const vllmModels = `{"object":"list","data":[{"id":"org/big","object":"model","owned_by":"vllm","max_model_len":40960},{"id":"lora","owned_by":"vllm"}]}`

func TestDiscover(t *testing.T) {
	general := core.Some(core.FeatureTools | core.FeatureSchema)
	llama := core.NodeUpstream{Format: core.FormatLlamaCpp, Server: "llama.cpp b10488", Slots: 1, Queue: usualQueue, Models: []core.NodeModel{
		{Model: "headway-tiny", Upstream: "headway-tiny", Loaded: core.Some(true), Limits: core.OfferLimits{Context: core.Some(int64(32768))}, Features: general}}}
	ollama := core.NodeUpstream{Format: core.FormatOllama, Server: "Ollama 0.32.15", Slots: 1, Queue: usualQueue, Models: []core.NodeModel{
		{Model: "headway-slow:latest", Upstream: "headway-slow:latest", Loaded: core.Some(false), Features: general},
		{Model: "headway-tiny:latest", Upstream: "headway-tiny:latest", Loaded: core.Some(false), Features: general}}}
	vllm := core.NodeUpstream{Format: core.FormatOpenAI, Server: "vLLM 0.11.0", Slots: usualSlots, Queue: usualQueue, Models: []core.NodeModel{
		{Model: "lora", Upstream: "lora"},
		{Model: "org/big", Upstream: "org/big", Limits: core.OfferLimits{Context: core.Some(int64(40960))}}}}
	loaded := ollamaServer(t)
	loaded["/api/ps"] = `{"models":[{"name":"headway-tiny:latest","context_length":4096}]}`
	ollamaLoaded := ollama
	ollamaLoaded.Models = []core.NodeModel{ollama.Models[0], ollama.Models[1]}
	ollamaLoaded.Models[1].Loaded, ollamaLoaded.Models[1].Limits.Context = core.Some(true), core.Some(int64(4096))
	for name, c := range map[string]struct {
		serves gets
		want   core.NodeUpstream
	}{
		"llama-server":         {llamaServer(t), llama},
		"Ollama":               {ollamaServer(t), ollama},
		"Ollama with a loaded": {loaded, ollamaLoaded},
		"vLLM":                 {gets{"/v1/models": vllmModels, "/version": `{"version":"0.11.0"}`}, vllm},
		"OpenAI's alike": {gets{"/v1/models": `{"data":[{"id":"a"},{"id":"b"}]}`}, core.NodeUpstream{Format: core.FormatOpenAI, Slots: usualSlots, Queue: usualQueue,
			Models: []core.NodeModel{{Model: "a", Upstream: "a"}, {Model: "b", Upstream: "b"}}}},
		"llama-server, four slots, two names": {gets{"/v1/models": `{"data":[{"id":"a","aliases":["a","b","\u0000","b"],"meta":{"n_ctx":9}}]}`, "/props": `{"total_slots":4,"build_info":"b1-x","default_generation_settings":{"n_ctx":7}}`},
			core.NodeUpstream{Format: core.FormatLlamaCpp, Server: "llama.cpp b1", Slots: 4, Queue: usualQueue,
				Models: []core.NodeModel{{Model: "a", Upstream: "a", Aliases: []core.Model{"b"}, Loaded: core.Some(true), Limits: core.OfferLimits{Context: core.Some(int64(7))}}}}},
		"llama-server of several models": {gets{"/v1/models": `{"data":[{"id":"a","status":{"value":"loaded"}},{"id":"b","status":{"value":"unloaded"}}]}`, "/props": `{"build_info":"b1","modalities":{"vision":true,"audio":false}}`},
			core.NodeUpstream{Format: core.FormatLlamaCpp, Server: "llama.cpp b1", Slots: 1, Queue: usualQueue, Models: []core.NodeModel{
				{Model: "a", Upstream: "a", Loaded: core.Some(true), Features: core.Some(general.V | core.FeatureImages)}, {Model: "b", Upstream: "b", Loaded: core.Some(false), Features: core.Some(general.V | core.FeatureImages)}}}},
	} {
		t.Run(name, func(t *testing.T) {
			srv := serverOf(t, c.serves)
			for _, format := range []core.Format{"", c.want.Format} {
				if got := reported(t, unpolled(t, Upstream{URL: srv.URL, Format: format})); !reflect.DeepEqual(got, c.want) {
					t.Errorf("format %q:\n got %+v\nwant %+v", format, got, c.want)
				}
			}
		})
	}
}

// What the configuration says of models stands over what the server says.
func TestDiscoverConfigured(t *testing.T) {
	srv := serverOf(t, ollamaServer(t))
	price := func(in, out core.Rate) core.Price { return core.Price{Rates: core.Rates{Input: in, Output: out}} }
	free, cheap := core.NodeModel{Model: "*", Labels: map[string]string{"where": "den"}}, core.NodeModel{Model: "tiny", Upstream: "headway-tiny", Aliases: []core.Model{"little"},
		Price: price(10, 20), Limits: core.OfferLimits{MaxOutput: core.Some(int64(99))}, Features: core.Some(core.Feature(0))}
	got := reported(t, unpolled(t, Upstream{Name: "two", URL: srv.URL, Slots: core.Some(int64(3)), Queue: core.Some(int64(0)), Offers: []core.NodeModel{free, cheap, {Model: "gone"}}}))
	want := core.NodeUpstream{Name: "two", Format: core.FormatOllama, Server: "Ollama 0.32.15", Slots: 3, Queue: 0, Models: []core.NodeModel{
		{Model: "headway-slow:latest", Upstream: "headway-slow:latest", Loaded: core.Some(false), Features: core.Some(core.FeatureTools | core.FeatureSchema), Labels: free.Labels},
		{Model: "tiny", Upstream: "headway-tiny:latest", Aliases: cheap.Aliases, Loaded: core.Some(false), Price: cheap.Price, Limits: cheap.Limits, Features: cheap.Features}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf(" got %+v\nwant %+v", got, want)
	}
	// A server without a list, whose models are named: it is not asked for them.
	for _, format := range []core.Format{core.FormatOpenAI, core.FormatLlamaCpp, core.FormatOllama} {
		srv := serverOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "models") || strings.Contains(r.URL.Path, "tags") {
				t.Errorf("%s was asked for %s", format, r.URL)
			}
			http.NotFound(w, r)
		}))
		m := unpolled(t, Upstream{URL: srv.URL, Format: format, Fixed: true, Offers: []core.NodeModel{free, cheap, {Model: "own"}}})
		if u, _ := m.report(mostModels, 1<<20); !u.Down || len(u.Models) != 2 {
			t.Errorf("%s before a poll: %+v", format, u)
		}
		if u := reported(t, m); u.Down || len(u.Models) != 2 || u.Models[0].Upstream != "headway-tiny" || u.Models[1].Upstream != "own" {
			t.Errorf("%s: %+v", format, u)
		}
		srv.Close()
		if u := reported(t, m); !u.Down || len(u.Models) != 2 {
			t.Errorf("%s when it is gone: %+v", format, u)
		}
	}
}

// The server's own credential is sent, and a refusal of it is no list.
func TestDiscoverWithAKey(t *testing.T) {
	srv := serverOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer own-key" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		llamaServer(t).ServeHTTP(w, r)
	}))
	if u := reported(t, unpolled(t, Upstream{URL: srv.URL, APIKey: core.NewSecret("own-key")})); u.Down || len(u.Models) != 1 {
		t.Errorf("%+v", u)
	}
	if u := reported(t, unpolled(t, Upstream{URL: srv.URL, Format: core.FormatLlamaCpp})); !u.Down || len(u.Models) != 0 {
		t.Errorf("without the key: %+v", u)
	}
}

// A server that loads its model lists it already and is down all the same.
func TestDiscoverLoading(t *testing.T) {
	loading := atomic.Bool{}
	loading.Store(true)
	own := llamaServer(t)
	srv := serverOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server", "llama.cpp")
		if loading.Load() && r.URL.Path != "/v1/models" {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, recorded(t, "llamacpp", "loading-health.json"))
			return
		}
		own.ServeHTTP(w, r)
	}))
	m := unpolled(t, Upstream{URL: srv.URL})
	if u := reported(t, m); !u.Down && u.Format != "" {
		t.Errorf("%+v", u)
	}
	loading.Store(false)
	if u := reported(t, m); u.Down || len(u.Models) != 1 || u.Format != core.FormatLlamaCpp {
		t.Errorf("%+v", u)
	}
	loading.Store(true)
	if u := reported(t, m); !u.Down || len(u.Models) != 1 {
		t.Errorf("%+v", u)
	}
}

// Slots that somebody else takes, and a number of slots that changes.
func TestDiscoverSlots(t *testing.T) {
	own := llamaServer(t)
	own["/slots"] = `[{"is_processing":true},{"is_processing":true},{"is_processing":false}]`
	own["/props"] = `{"total_slots":3}`
	srv := serverOf(t, own)
	m := unpolled(t, Upstream{URL: srv.URL, Format: core.FormatLlamaCpp})
	a, _ := m.line.enter(time.Now())
	b, _ := m.line.enter(time.Now())
	if granted(b) {
		t.Fatal("two slots before the server said so")
	}
	reported(t, m)
	if !granted(b) || m.others.Load() != 1 { // it was polled with one call of ours there
		t.Errorf("granted %v, others %d", granted(b), m.others.Load())
	}
	reported(t, m)
	if m.others.Load() != 0 {
		t.Errorf("others %d", m.others.Load())
	}
	m.line.leave(a, time.Now(), 0)
	m.line.leave(b, time.Now(), 0)
	reported(t, m)
	if m.others.Load() != 2 {
		t.Errorf("others %d", m.others.Load())
	}
	srv.Close()
	reported(t, m)
	if m.others.Load() != 0 {
		t.Errorf("others %d of a server that is gone", m.others.Load())
	}
}

// A server that becomes another one is found out again.
func TestDiscoverAnotherServer(t *testing.T) {
	var now atomic.Pointer[gets]
	first, second := llamaServer(t), ollamaServer(t)
	now.Store(&first)
	srv := serverOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*now.Load()).ServeHTTP(w, r) }))
	m := unpolled(t, Upstream{URL: srv.URL})
	if u := reported(t, m); u.Format != core.FormatLlamaCpp {
		t.Errorf("%+v", u)
	}
	now.Store(&second)
	reported(t, m) // no /props, but a list: llama-server's of before is not there
	now.Store(&gets{})
	if u := reported(t, m); !u.Down {
		t.Errorf("%+v", u)
	}
	now.Store(&second)
	if u := reported(t, m); u.Down || u.Format != core.FormatOllama || len(u.Models) != 2 {
		t.Errorf("%+v", u)
	}
}

// What a server answers is hostile until it was read.
func TestDiscoverHostile(t *testing.T) {
	list := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,{"id":"m%04d"}`, i)
		}
		return `{"data":[` + b.String()[1:] + `]}`
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(z, list(3))
	_ = z.Close()
	other := serverOf(t, gets{"/v1/models": list(3)})
	endless := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, strings.Repeat(" ", 64<<10)); err != nil {
				return
			}
		}
	}
	headers := func(w http.ResponseWriter, r *http.Request) {
		for i := range 2000 {
			w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 100))
		}
		_, _ = io.WriteString(w, list(3))
	}
	for name, c := range map[string]struct {
		answer any
		models int
		down   bool
	}{
		"HTML":               {"<!DOCTYPE html><html></html>", 0, true},
		"nothing":            {"", 0, true},
		"another JSON":       {`[1,2,3]`, 0, true},
		"no list":            {`{"data":"x"}`, 0, true},
		"null":               {`{"data":null}`, 0, true},
		"an empty list":      {`{"data":[]}`, 0, false},
		"a list of what not": {`{"data":[1,null,{"id":7},{"id":"ok"},{"id":["x"]}]}`, 1, false},
		"bad names":          {`{"data":[{"id":""},{"id":"a\u0000b"},{"id":"a\nb"},{"id":"` + strings.Repeat("x", 257) + `"},{"id":"\ud800"},{"id":"ok"},{"id":"ok"}]}`, 2, false},
		"a huge list":        {list(5000), mostModels, false},
		"a huge body":        {strings.Repeat(" ", askedBytes) + list(1), 0, true},
		"an endless body":    {endless, 0, true},
		"endless headers":    {headers, 0, true},
		"compressed": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(zipped.Bytes())
		}, 0, true},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL+"/v1/models", http.StatusFound)
		}, 0, true},
		"deep":           {strings.Repeat("[", 100_000), 0, true},
		"absurd numbers": {`{"data":[{"id":"a","max_model_len":-5},{"id":"b","max_model_len":1e300},{"id":"c","max_model_len":99999999999999}]}`, 3, false},
		"cut off": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1000")
			write(w, `{"data":[`)
			panic(http.ErrAbortHandler)
		}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			srv := serverOf(t, gets{"/v1/models": c.answer})
			u := reported(t, unpolled(t, Upstream{URL: srv.URL, Format: core.FormatOpenAI}))
			if u.Down != c.down || len(u.Models) != c.models {
				t.Errorf("down %v, %d models", u.Down, len(u.Models))
			}
			for _, m := range u.Models {
				if m.Limits.Context.OK {
					t.Errorf("context %v", m.Limits.Context)
				}
			}
			if a, _ := c.answer.(string); len(a) > 1<<20 {
				return
			}
			// It never makes a server of another kind worse than down.
			for _, format := range []core.Format{core.FormatLlamaCpp, core.FormatOllama, ""} {
				all := gets{"/v1/models": c.answer, "/props": c.answer, "/slots": c.answer, "/api/tags": c.answer, "/api/ps": c.answer, "/api/version": c.answer}
				reported(t, unpolled(t, Upstream{URL: serverOf(t, all).URL, Format: format}))
			}
		})
	}
}

// A report fits into a message whatever names a server has, and into what an edge
// takes.
func TestReportFits(t *testing.T) {
	var list strings.Builder
	list.WriteString(`{"data":[`)
	for i := range 1500 {
		if i > 0 {
			list.WriteString(",")
		}
		id := fmt.Sprintf("%04d%s", i, strings.Repeat("\\u00e9", 120))
		fmt.Fprintf(&list, `{"id":"%s","aliases":["x%s","y%s"]}`, id, id, id)
	}
	list.WriteString("]}")
	srv := serverOf(t, gets{"/v1/models": list.String(), "/props": "{}"})
	n := &Node{}
	for _, name := range []string{"", "b", "c"} {
		m := unpolled(t, Upstream{Name: name, URL: srv.URL, Format: core.FormatLlamaCpp})
		m.poll(t.Context())
		n.servers = append(n.servers, m)
	}
	r, models := n.report(1<<20 - reportRest)
	data, err := json.Marshal(r)
	if err != nil || len(data) > 1<<20 || models > mostModels || models < 500 {
		t.Fatalf("%d models in %d bytes, %v", models, len(data), err)
	}
	if _, err := readReport(data); err != nil {
		t.Fatal(err)
	}
}

// TestShares: a server with a thousand models takes none of another's.
func TestShares(t *testing.T) {
	for _, c := range []struct{ counts, want []int }{
		{[]int{1200, 1, 4}, []int{995, 1, 4}},
		{[]int{3, 700, 2}, []int{3, 700, 2}},
		{[]int{900, 900}, []int{500, 500}},
		{[]int{100, 2000, 2000}, []int{100, 450, 450}},
		{[]int{0}, []int{0}},
		{nil, []int{}},
	} {
		if got := shares(c.counts, 1000); !slices.Equal(got, c.want) {
			t.Errorf("%v share 1000 as %v, want %v", c.counts, got, c.want)
		}
	}
}

// A server that is only slow is not down at once, and a dead one holds up nobody.
func TestDiscoverSlow(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		slow := atomic.Bool{}
		parts := &NodeParts{Clock: time.Now, Log: slog.New(slog.DiscardHandler), Transport: tripFunc(func(r *http.Request) (*http.Response, error) {
			if slow.Load() {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			rec := httptest.NewRecorder()
			gets{"/v1/models": `{"data":[{"id":"a"}]}`}.ServeHTTP(rec, r)
			return rec.Result(), nil
		})}
		m, err := newModelServer(Upstream{URL: "http://one", Format: core.FormatOpenAI}, parts)
		if err != nil {
			t.Fatal(err)
		}
		if u := reported(t, m); u.Down {
			t.Fatalf("%+v", u)
		}
		slow.Store(true)
		for range 3 * mostSlow { // it answers calls meanwhile
			m.fed.Store(true)
			if u := reported(t, m); u.Down {
				t.Fatalf("%+v", u)
			}
		}
		slow.Store(false)
		reported(t, m)
		slow.Store(true)
		for i := range mostSlow {
			at := time.Now()
			if u := reported(t, m); u.Down != (i == mostSlow-1) || len(u.Models) != 1 || time.Since(at) > askTime {
				t.Errorf("poll %d: %+v after %v", i, u, time.Since(at))
			}
		}
	})
}

// The first hello does not wait for a dead server for longer than a second.
func TestNodeDoesNotWaitForADeadServer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		at := time.Now()
		r := newNodeRig(t, rigOf{parts: func(p *NodeParts) {
			p.Transport = tripFunc(func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return nil, r.Context().Err() })
		}}, Upstream{URL: "http://dead", Format: core.FormatLlamaCpp})
		until(t, "a hello", func() bool { return len(r.report().Upstreams) == 1 })
		if took := time.Since(at); took > firstPoll+50*time.Millisecond || !r.report().Upstreams[0].Down {
			t.Errorf("after %v: %+v", took, r.report())
		}
	})
}

func TestUpstreamAddresses(t *testing.T) {
	for _, bad := range []string{"", "127.0.0.1:8080", "ftp://x", "http://", "http://u:p@x", "http://x?y", "http://x#y", "http://x y", "/v1"} {
		if _, err := newModelServer(Upstream{URL: bad}, &NodeParts{Clock: time.Now, Log: slog.New(slog.DiscardHandler)}); err == nil {
			t.Errorf("%q was taken", bad)
		} else if bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("%q is in the error", bad)
		}
	}
	m, err := newModelServer(Upstream{URL: "http://x/base/"}, &NodeParts{Clock: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil || m.root.String() != "http://x/base" {
		t.Errorf("%v, %v", m, err)
	}
}

// TestDiscoverHeadway: a Headway is not taken for a model server, also where it wants a
// key, and has no models.
func TestDiscoverHeadway(t *testing.T) {
	for _, format := range []core.Format{"", core.FormatOpenAI, core.FormatLlamaCpp} {
		for _, status := range []int{200, 401} {
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/v1/models" {
					http.NotFound(w, r)
					return
				}
				w.Header().Set(core.VersionHeader, "1")
				w.WriteHeader(status)
				_, _ = io.WriteString(w, `{"data":[{"id":"m"}]}`)
			})
			server := httptest.NewServer(h)
			t.Cleanup(server.Close)
			log := &logText{}
			m, err := newModelServer(Upstream{URL: server.URL, Format: format}, &NodeParts{Clock: time.Now, Log: slog.New(slog.NewTextHandler(log, nil)), Transport: transport(t)})
			if err != nil {
				t.Fatal(err)
			}
			m.poll(t.Context())
			if u, _ := m.report(mostModels, 1<<20); len(u.Models) != 0 || format != "" && !u.Down {
				t.Errorf("%q %d: %+v", format, status, u)
			}
			if !strings.Contains(log.String(), "this is a Headway, not a model server") {
				t.Errorf("%q %d: the log says %s", format, status, log)
			}
		}
	}
}

// TestModelsLeftOut: what cannot be offered is told once for each change.
func TestModelsLeftOut(t *testing.T) {
	var list atomic.Pointer[string]
	set := func(names ...string) {
		var all []map[string]string
		for _, n := range names {
			all = append(all, map[string]string{"id": n})
		}
		text, _ := json.Marshal(map[string]any{"data": all})
		s := string(text)
		list.Store(&s)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/models" {
			_, _ = io.WriteString(w, *list.Load())
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)
	log := &logText{}
	m, err := newModelServer(Upstream{URL: server.URL}, &NodeParts{Clock: time.Now, Log: slog.New(slog.NewTextHandler(log, nil)), Transport: transport(t)})
	if err != nil {
		t.Fatal(err)
	}
	set("ok", "auto", "auto:latest", " x", "x ", "a b", "..", "a\x00", strings.Repeat("x", 257))
	lines := func() int { return strings.Count(log.String(), "are not offered") }
	for range 3 {
		m.poll(t.Context())
	}
	if u, _ := m.report(mostModels, 1<<20); len(u.Models) != 1 || u.Models[0].Model != "ok" {
		t.Errorf("%+v", u.Models)
	}
	if lines() != 1 || !strings.Contains(log.String(), "models=8") {
		t.Error(log)
	}
	set("ok", "auto")
	m.poll(t.Context())
	set("ok")
	m.poll(t.Context())
	if lines() != 2 {
		t.Error(log)
	}
	many := make([]string, mostModels+5)
	for i := range many {
		many[i] = fmt.Sprint("m", i)
	}
	set(many...)
	m.poll(t.Context())
	if lines() != 3 || !strings.Contains(log.String(), "models=5") {
		t.Error(log)
	}
}

// TestCredentialChanges: what the edge is told of the node's credential differs at each
// start, says nothing of it, and is absent where there is none.
func TestCredentialChanges(t *testing.T) {
	text := func(key string) string {
		u := Upstream{URL: "http://127.0.0.1:1", Format: core.FormatOpenAI, APIKey: core.NewSecret(key)}
		return reported(t, unpolled(t, u)).Credential
	}
	if a, b := text("sk-secret"), text("sk-secret"); a == "" || a == b || strings.Contains(a, "secret") || text("") != "" {
		t.Error(a, b, text(""))
	}
}

// TestWhyNoAnswer: a wrong address is told for what it is.
func TestWhyNoAnswer(t *testing.T) {
	plain, secure := httptest.NewServer(http.NotFoundHandler()), httptest.NewTLSServer(http.NotFoundHandler())
	defer plain.Close()
	defer secure.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	greeting, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer greeting.Close()
	go func() { // as NATS does
		for {
			c, err := greeting.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "INFO {}\r\n")
			_ = c.Close()
		}
	}()
	trusting := transport(t)
	trusting.TLSClientConfig = &tls.Config{RootCAs: secure.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, ServerName: "another.test"}
	for _, tt := range []struct {
		url, want string
		by        *http.Transport
	}{
		{gone.URL, "nothing listens there", transport(t)},
		{"https" + strings.TrimPrefix(plain.URL, "http"), "does not speak TLS there", transport(t)},
		{secure.URL, "of an authority that this machine does not know", transport(t)},
		{secure.URL, "for another name", trusting},
		{"http://" + greeting.Addr().String(), "no HTTP answer", transport(t)},
	} {
		log := &logText{}
		m, err := newModelServer(Upstream{URL: tt.url}, &NodeParts{Clock: time.Now, Log: slog.New(slog.NewTextHandler(log, nil)), Transport: tt.by})
		if err != nil {
			t.Fatal(err)
		}
		m.poll(t.Context())
		if !strings.Contains(log.String(), tt.want) {
			t.Errorf("%s: %s, want %q", tt.url, log, tt.want)
		}
	}
}
