package sdktest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"google.golang.org/genai"
)

// statusOf is the status of an SDK's error, 0 where it has none.
func statusOf(err error) int {
	var o *openai.Error
	var a *anthropic.Error
	var g genai.APIError
	switch {
	case errors.As(err, &o):
		return o.StatusCode
	case errors.As(err, &a):
		return a.StatusCode
	case errors.As(err, &g):
		return g.Code
	}
	return 0
}

// writtenCall asks a written answer's model, with a small request.
func (s side) writtenCall(ctx context.Context, api, name string, streamed bool) *heard {
	return s.call(ctx, &recording{name: name, api: api}, streamed)
}

func (g *rig) testErrors(t *testing.T) {
	for _, api := range apis {
		for _, streamed := range []bool{false, true} {
			shape := map[bool]string{false: "whole", true: "stream"}[streamed]
			t.Run(api+" "+shape, func(t *testing.T) {
				t.Parallel()
				g.errors(t, api, shape, streamed)
			})
		}
	}
}

func (g *rig) errors(t *testing.T, api, shape string, streamed bool) {
	wrong := side{g.headway.base, "hw-not-a-key-0123456789", "", nil}
	h := wrong.writtenCall(t.Context(), api, api+".talk", streamed)
	if statusOf(h.err) != 401 || len(h.Events) > 0 {
		t.Errorf("a wrong key: %v, want 401", h.err)
	}
	if api == messages && !strings.Contains(h.Err, "authentication_error") {
		t.Errorf("a wrong key: %s, want Anthropic's authentication_error", h.Err)
	}

	h = g.via.writtenCall(t.Context(), api, api+".tolk", streamed)
	if statusOf(h.err) != 404 || !strings.Contains(h.Err, api+".tal") {
		t.Errorf("an unknown model: %v, want 404 that names a near one", h.err)
	}
	if h.id == "" {
		t.Error("an unknown model: no x-request-id")
	}

	h = g.via.writtenCall(t.Context(), api, api+".busy-"+shape, streamed)
	if statusOf(h.err) != 429 || !strings.Contains(h.Err, "said by the upstream") {
		t.Errorf("a busy upstream: %v, want 429 with the upstream's words", h.err)
	}
	if after := h.header.Get("Retry-After"); after != "7" {
		t.Errorf("a busy upstream: Retry-After is %q, want 7", after)
	}
	if n := g.up.count(viaModel + api + ".busy-" + shape); n != 1 {
		t.Errorf("a busy upstream: it got %d requests, want 1", n)
	}
	if r := g.headway.receipt(t, h.id); r.Outcome != "failed" || r.Status != 429 || len(r.Attempts) != 1 || r.Attempts[0].Status != 429 {
		t.Errorf("a busy upstream: the receipt is %s", r.raw)
	}

	raw := g.raw.writtenCall(t.Context(), api, api+".refused", streamed)
	h = g.via.writtenCall(t.Context(), api, api+".refused", streamed)
	if statusOf(h.err) != 400 || h.Err != raw.Err {
		t.Errorf("a refused call: %s, straight %s", h.Err, raw.Err)
	}
	if r := g.headway.receipt(t, h.id); r.Outcome != "failed" || r.Status != 400 {
		t.Errorf("a refused call: the receipt is %s", r.raw)
	}
}

func (g *rig) testBreaks(t *testing.T) {
	for _, api := range apis {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			// The control: the same words with their end are a whole answer.
			raw, via := g.raw.writtenCall(t.Context(), api, api+".talk", true), g.via.writtenCall(t.Context(), api, api+".talk", true)
			same(t, via, raw)
			if want := strings.Join(words, ""); via.err != nil || via.Text != want {
				t.Errorf("the whole stream says %q (%v)", via.Text, via.err)
			}
			if r := g.headway.receipt(t, via.id); r.Outcome != "settled" || value(r.Usage.Output) != 6 || value(r.Usage.Uncached) != 11 || r.Charge == nil || *r.Charge != "0.000023" {
				t.Errorf("the whole stream's receipt is %s", r.raw)
			}

			raw, via = g.raw.writtenCall(t.Context(), api, api+".error-event", true), g.via.writtenCall(t.Context(), api, api+".error-event", true)
			same(t, via, raw)
			if via.err == nil || !strings.Contains(via.Err, "the engine stopped") {
				t.Errorf("an error event: %v", via.err)
			}
			if r := g.headway.receipt(t, via.id); r.Outcome != "failed" || !r.Streamed || r.Timing.FirstText == nil {
				t.Errorf("an error event: the receipt is %s", r.raw)
			}

			for _, how := range []string{".cut", ".stops", ".cut-inside"} {
				via = g.via.writtenCall(t.Context(), api, api+how, true)
				// Not a clean end, and not an error of reading: the format's own.
				if told := new(ssestream.StreamError); statusOf(via.err) == 0 && !errors.As(via.err, &told) {
					t.Errorf("%s: the SDK ends with %v, want an error that it was told", how, via.err)
				}
				if !strings.Contains(strings.Join(via.Events, ""), "three ") || via.Text != "" && via.Text != "One two three " {
					t.Errorf("%s: the SDK read %q before the error %v", how, via.Events, via.err)
				}
				if r := g.headway.receipt(t, via.id); r.Outcome != "truncated" || r.Timing.FirstText == nil || value(r.Usage.Output) == 0 || r.UsageFrom == "provider" {
					t.Errorf("%s: the receipt is %s", how, r.raw)
				}
			}
		})
	}
}

// testFallback: an error event before any output is not the client's to see while
// another offer can answer (SPEC §9). The opening that went before it is not
// seen either.
func (g *rig) testFallback(t *testing.T) {
	for _, api := range apis {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			raw := g.raw.writtenCall(t.Context(), api, api+".talk", true)
			via := g.via.writtenCall(t.Context(), api, api+".two", true)
			same(t, via, raw)
			if n := via.header.Get("X-Headway-Attempts"); n != "2" {
				t.Errorf("x-headway-attempts is %q, want 2", n)
			}
			r := g.headway.receipt(t, via.id)
			if r.Outcome != "settled" || len(r.Attempts) != 2 || r.Attempts[0].Outcome != "failed" || r.Attempts[1].Outcome != "settled" ||
				r.Attempts[1].Offer != via.header.Get("X-Headway-Offer") || r.Charge == nil || *r.Charge != "0.000023" {
				t.Errorf("the receipt is %s", r.raw)
			}
		})
	}
}

// testCancel leaves in the middle: the upstream must see it at once, and the
// receipt say so (SPEC §9, §11).
func (g *rig) testCancel(t *testing.T) {
	for _, api := range apis {
		t.Run(api+" stream", func(t *testing.T) {
			t.Parallel()
			g.cancel(t, api, ".silent", true)
		})
		t.Run(api+" whole", func(t *testing.T) {
			t.Parallel()
			g.cancel(t, api, ".silent-whole", false)
		})
	}
}

func (g *rig) cancel(t *testing.T, api, name string, streamed bool) {
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var left time.Time
	from := g.via
	from.each = func(event string) { // the client leaves when it has read the last delta before the silence
		if strings.Contains(event, "three ") {
			left = time.Now()
			leave()
		}
	}
	var h *heard
	var call sync.WaitGroup
	call.Go(func() { h = from.writtenCall(ctx, api, api+name, streamed) })
	q := g.up.nth(t, viaModel+api+name, 1)
	if !streamed {
		<-q.quiet
		left = time.Now()
		leave()
	}
	call.Wait()
	if h.err == nil {
		t.Fatalf("the SDK says that the call was complete: %v", h.Events)
	}
	select {
	case seen := <-q.left:
		if late := seen.Sub(left); late > time.Second {
			t.Errorf("the upstream saw the close %v later", late)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the upstream never saw the close")
	}
	id := h.id
	if !streamed { // no header has come, and so no id
		id = g.headway.lastCall(t, api+name)
	}
	r := g.headway.receipt(t, id)
	if r.Outcome != "client_gone" || r.Streamed != streamed || streamed != (r.Timing.FirstText != nil) {
		t.Errorf("the receipt is %s", r.raw)
	}
	// What was said is charged, by an estimate.
	if streamed && (value(r.Usage.Output) == 0 || r.UsageFrom == "provider" || r.Charge == nil) {
		t.Errorf("the receipt's usage is from %q: %s", r.UsageFrom, r.raw)
	}
}
