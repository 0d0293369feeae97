package core_test

import (
	"context"
	"math"
	"testing"
	"time"

	"headway/core"
)

func TestSoundTiming(t *testing.T) {
	f := core.Some[float64]
	got := core.NodeTiming{Queued: f(1.00049), SlotWait: f(-1), UpstreamHeaders: f(math.NaN()), FirstToken: f(math.Inf(1)), Prompt: f(1e300), PromptTPS: f(0),
		Decode: core.Opt[float64]{V: 5}, DecodeTPS: f(41.2), FiguresFrom: "a prompt", Service: f(86_400_000)}.Sound()
	want := core.NodeTiming{Queued: f(1), Service: f(86_400_000)}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	got = core.NodeTiming{Prompt: f(1e308), PromptTPS: f(250_001), Decode: f(12), DecodeTPS: f(0), FirstToken: f(0), FiguresFrom: "server"}.Sound()
	if want = (core.NodeTiming{Decode: f(12), FirstToken: f(0), FiguresFrom: "server"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	whole := core.NodeTiming{SlotWait: f(0), FiguresFrom: "server"}
	if whole.Sound() != whole || whole.Waited() {
		t.Errorf("%+v", whole.Sound())
	}
	if t2 := (&core.NodeTiming{SlotWait: f(0.001)}); !t2.Waited() {
		t.Error("a wait of a microsecond is none")
	}
	if (*core.NodeTiming)(nil).Waited() {
		t.Error("nothing has waited")
	}
}

// A call that was lost with its process is still known to have gone to its node.
func TestLostAtNode(t *testing.T) {
	in := core.Intent{ID: "c", Provider: "box.gpu", Node: "box"}
	if r := in.Lost(time.Now()); r.Node != "box" || r.Provider != "box.gpu" {
		t.Errorf("%+v", r)
	}
}

func TestDispatch(t *testing.T) {
	d := &core.Dispatch{Call: "c", Admission: time.Second}
	if got := core.DispatchOf(d.Into(t.Context())); got != d {
		t.Errorf("%v", got)
	}
	if got := core.DispatchOf(context.Background()); got != nil {
		t.Errorf("%v", got)
	}
}
