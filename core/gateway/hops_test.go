package gateway_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"headway/core"
)

// TestLoop: a call that comes back to the process that sent it is refused, and another
// Headway's passes.
func TestLoop(t *testing.T) {
	var hops string
	r := newNodeRig(t, func(_ core.NodeID, req *http.Request) (*http.Response, error) {
		hops = req.Header.Get(core.HopsHeader)
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: -1, Body: io.NopCloser(strings.NewReader(whole("tea", 8, 1)))}, nil
	}, "one")
	post := func(before string) *httptest.ResponseRecorder {
		req := httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(ask))
		req.Header.Set("Authorization", "Bearer "+clientKey)
		if before != "" {
			req.Header.Set(core.HopsHeader, before)
		}
		w := httptest.NewRecorder()
		r.gw.ServeHTTP(w, req)
		return w
	}
	if w := post("another"); w.Code != 200 || !strings.HasPrefix(hops, "another, ") {
		t.Fatalf("%d %s %q", w.Code, w.Body, hops)
	}
	for _, bad := range []string{hops, strings.Repeat("x,", 20)} {
		if w := post(bad); w.Code != 400 || !strings.Contains(w.Body.String(), `"loop"`) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
}

// TestModelsTellTheVersion: whoever asks for models, with a key or without, sees that
// this is a Headway.
func TestModelsTellTheVersion(t *testing.T) {
	r := newNodeRig(t, nil, "one")
	for _, path := range []string{"/v1/models", "/api/version", "/props"} {
		for _, key := range []string{clientKey, ""} {
			req := httptest.NewRequest("GET", path, nil)
			req.Header.Set("Authorization", "Bearer "+key)
			w := httptest.NewRecorder()
			r.gw.ServeHTTP(w, req)
			if w.Header().Get(core.VersionHeader) == "" {
				t.Errorf("%s: %d %v", path, w.Code, w.Header())
			}
		}
	}
}

// TestNodeGoneSinceTheDecision: an offer whose node went, or that was paused, since the
// decision is not tried, and nothing is counted; a round trip that sent nothing is not
// counted either, and one loss is one failure.
func TestNodeGoneSinceTheDecision(t *testing.T) {
	var r *nodeRig
	r = newNodeRig(t, func(n core.NodeID, _ *http.Request) (*http.Response, error) {
		if n == "a" {
			r.catalogue.Offer("b/mini").State.SetLine(stands{})
			r.catalogue.Offer("c/mini").State.Pause()
			return nil, &core.NodeError{Word: core.NodeGone, Unsent: true}
		}
		if n != "d" {
			t.Error("asked", n)
		}
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: -1, Body: io.NopCloser(strings.NewReader(whole("tea", 8, 1)))}, nil
	}, "a", "b", "c", "d")
	w, rec := r.post(t)
	if w.Code != 200 || len(rec.Attempts) != 2 || rec.Node != "d" {
		t.Fatalf("%d %s %+v", w.Code, w.Body, rec.Attempts)
	}
	b := core.DefaultSettings().Breaker
	for _, n := range []core.OfferID{"a/mini", "b/mini", "c/mini"} {
		if got := r.catalogue.Offer(n).Status(time.Now(), b, core.Opt[float64]{}).CountedFailures; got != 0 {
			t.Errorf("%s: %d", n, got)
		}
	}
	loss := &core.NodeError{Word: core.NodeGone}
	r = newNodeRig(t, func(core.NodeID, *http.Request) (*http.Response, error) { return nil, errors.Join(loss) }, "one")
	for range 3 {
		r.post(t)
	}
	if st := r.catalogue.Offer("one/mini").Status(time.Now(), b, core.Opt[float64]{}); st.CountedFailures != 1 || st.State != "active" {
		t.Errorf("%+v", st)
	}
}

// TestOfferHeaderIsASCII: a header has no bytes that its readers may take for different
// letters.
func TestOfferHeaderIsASCII(t *testing.T) {
	r := newNodeRig(t, func(core.NodeID, *http.Request) (*http.Response, error) {
		return nil, &core.NodeError{Word: core.NodeBusy}
	}, "büro%")
	if w, _ := r.post(t); w.Header().Get("X-Headway-Offer") != "b%C3%BCro%25/mini" {
		t.Error(w.Code, w.Header())
	}
}
