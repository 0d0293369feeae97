package command

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"
)

const (
	logDelay = 100 * time.Millisecond // a line may wait that long
	logMost  = 1 << 20                // bytes that wait for a log that is stuck
)

// newLog is text on a terminal and JSON elsewhere. Elsewhere lines are written
// in groups: one system call for each call served would cost more than ranking
// its offers. A warning or an error goes out at once, with all before it. flush
// writes what waits.
func newLog(w io.Writer, level slog.Level) (log *slog.Logger, flush func()) {
	o := &slog.HandlerOptions{Level: level}
	if terminal(w) {
		return slog.New(slog.NewTextHandler(w, o)), func() {}
	}
	g := &grouped{w: w}
	return slog.New(urgent{slog.NewJSONHandler(g, o), g}), g.flush
}

// terminal tells whether somebody reads along.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// grouped is a writer that waits for more. What it writes to may be slow or
// stuck: no call waits for it, lines that find no room are dropped and counted.
type grouped struct {
	w       io.Writer
	writing sync.Mutex // held while w is written to, so that groups stay in order; guards spare
	spare   []byte     // the buffer that was written last

	mu      sync.Mutex // guards what follows; held for a copy at the most
	waiting []byte
	armed   bool
	dropped int
}

// Write keeps a line for the next group. It never fails: a log that cannot be
// written must not stop a call.
func (g *grouped) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting)+len(p) > logMost {
		g.dropped++
		return len(p), nil
	}
	g.waiting = append(g.waiting, p...)
	if !g.armed {
		g.armed = true
		time.AfterFunc(logDelay, g.flush)
	}
	return len(p), nil
}

// flush writes what waits.
func (g *grouped) flush() {
	g.writing.Lock()
	defer g.writing.Unlock()
	g.mu.Lock()
	lines, dropped := g.waiting, g.dropped
	g.waiting, g.dropped, g.armed = g.spare[:0], 0, false
	g.mu.Unlock()
	if dropped > 0 {
		lines = fmt.Appendf(lines, "{\"level\":\"WARN\",\"msg\":\"log lines were dropped\",\"lines\":%d}\n", dropped)
	}
	if len(lines) > 0 {
		_, _ = g.w.Write(lines)
	}
	g.spare = lines
}

// urgent writes warnings and errors at once.
type urgent struct {
	slog.Handler
	g *grouped
}

// Handle writes a record.
func (u urgent) Handle(ctx context.Context, r slog.Record) error {
	err := u.Handler.Handle(ctx, r)
	if r.Level >= slog.LevelWarn {
		u.g.flush()
	}
	return err
}

// WithAttrs keeps the urgency.
func (u urgent) WithAttrs(a []slog.Attr) slog.Handler { return urgent{u.Handler.WithAttrs(a), u.g} }

// WithGroup keeps the urgency.
func (u urgent) WithGroup(name string) slog.Handler { return urgent{u.Handler.WithGroup(name), u.g} }
