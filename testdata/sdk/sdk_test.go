package sdktest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
)

// TestMain lets more calls be under way at once than there are processors: they
// wait for the replay's pauses, not for the machine.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// rig is everything that a test needs: the upstream, Headway in front of it, and
// an SDK's way to either.
type rig struct {
	up         *upstream
	headway    *headway
	raw, via   side
	recordings []*recording
}

// TestSDKs holds the official Go SDKs' calls through Headway against the same
// calls without it.
func TestSDKs(t *testing.T) {
	g := &rig{recordings: own(t)}
	if dir := corpus(t); dir != "" {
		g.recordings = append(g.recordings, labelled(t, dir)...)
	}
	answers, models := map[string]*answer{}, []offered{}
	for _, r := range g.recordings {
		answers[r.name] = &answer{api: r.api, status: r.status, header: map[string]string{"Content-Type": r.media}, chunks: r.chunks}
		models = append(models, offered{name: r.name, format: r.provider, dialect: r.dialect})
	}
	for name, w := range written() {
		answers[name] = w
		models = append(models, offered{name: name, format: providerOf(w.api)})
	}
	for _, api := range apis { // a model of two offers, of which the cheaper fails before it says anything
		models = append(models, offered{name: api + ".two", format: providerOf(api), upstream: api + ".early-error", cheap: true},
			offered{name: api + ".two", format: providerOf(api), upstream: api + ".talk"})
	}
	g.up = startUpstream(t, answers)
	g.headway = startHeadway(t, g.up.URL, models)
	g.raw, g.via = side{g.up.URL, providerKey, rawModel, nil}, side{g.headway.base, callerKey, "", nil}

	t.Run("recordings", g.testRecordings)
	t.Run("shapes", g.testShapes)
	t.Run("tools", g.testTools)
	t.Run("errors", g.testErrors)
	t.Run("streams that break", g.testBreaks)
	t.Run("fallback", g.testFallback)
	t.Run("cancel", g.testCancel)
	t.Run("lists and counts", g.testLists)
}

func providerOf(api string) string {
	switch api {
	case responses:
		return "openai-responses"
	case messages:
		return "anthropic"
	case generate:
		return "google"
	}
	return "openai"
}

// call makes the call that a recording is the answer to.
func (s side) call(ctx context.Context, r *recording, streamed bool) *heard {
	switch r.api {
	case chat:
		return s.chatCall(ctx, r, streamed, streamed)
	case completions:
		return s.completionCall(ctx, r, streamed)
	case responses:
		return s.responseCall(ctx, r, streamed)
	case messages:
		return s.messageCall(ctx, r, streamed)
	}
	return s.generateCall(ctx, r, streamed)
}
