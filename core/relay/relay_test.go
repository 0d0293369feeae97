package relay_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"headway/core"
	"headway/core/relay"
)

// repairing is a reader that gives each frame another form, in one buffer that
// it uses again, as readers may.
type repairing struct {
	core.Reader
	buf []byte
}

func (*repairing) Split() core.Splitting { return core.SplitSSE }

func (r *repairing) Read(f *core.Frame) core.Mark {
	if string(f.Data) == "end" {
		return core.MarkFinish | core.MarkEnd
	}
	if string(f.Data) == "as it came" {
		return core.MarkText
	}
	r.buf = append(append(append(r.buf[:0], "data: repaired "...), f.Data...), "\n\n"...)
	f.Raw = r.buf
	return core.MarkText
}

func (*repairing) Answer() core.Answer { return core.Answer{} }

// written is a client's side.
type written struct {
	strings.Builder
	writes int
}

func (w *written) Write(p []byte, _ time.Time) error {
	w.writes++
	_, err := w.Builder.Write(p)
	return err
}
func (*written) Flush() error { return nil }

func TestRepairedFramesOfOneRead(t *testing.T) {
	in := "data: a\n\ndata: b\n\ndata: as it came\n\ndata: as it came\n\ndata: c\n\ndata: end\n\n"
	want := "data: repaired a\n\ndata: repaired b\n\ndata: as it came\n\ndata: as it came\n\ndata: repaired c\n\ndata: end\n\n"
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	watch := relay.NewWatch(time.Now, cancel, time.Now(), time.Hour, relay.ErrHeaders)
	defer watch.Stop()
	split := relay.NewSplitter(core.SplitSSE, 1<<20)
	defer split.Release()
	out := &written{}
	pump := relay.Pump{Body: strings.NewReader(in), Split: split, Reader: &repairing{}, Sink: out, Clock: time.Now, Watch: watch,
		Hold: time.Second, Line: &core.Timeline{}}
	if end := pump.Run(ctx); end.Outcome != core.Settled {
		t.Fatalf("%+v", end)
	}
	if out.String() != want {
		t.Errorf("the client got %q, want %q", out.String(), want)
	}
	// Frames that pass as they came go out in one piece.
	if out.writes > 5 {
		t.Errorf("%d writes", out.writes)
	}
}
