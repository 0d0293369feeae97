package fleet

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"headway/core"
)

// What one node may have the edge log: it may come again and again, and be wrong each
// time.
const (
	saidWhile = time.Minute
	saidLines = 60
)

// said counts the lines of each node.
type said struct {
	mu sync.Mutex
	of map[core.NodeID]*saidOf
}

type saidOf struct {
	began   time.Time
	lines   int
	omitted int
}

// note logs what a node does or did wrong, a bounded number of lines in each while;
// how many were left out is told with the next one.
func (e *Edge) note(level slog.Level, node core.NodeID, msg string, args ...any) {
	now := e.Clock()
	e.said.mu.Lock()
	s := e.said.of[node]
	if s == nil {
		s = &saidOf{began: now}
		e.said.of[node] = s
	}
	omitted := 0
	if now.Sub(s.began) >= saidWhile {
		s.began, s.lines = now, 0
		omitted, s.omitted = s.omitted, 0
	}
	s.lines++
	let := s.lines <= saidLines
	if !let {
		s.omitted++
	}
	e.said.mu.Unlock()
	if omitted > 0 {
		e.Log.Warn("lines about a node were left out", "node", node, "lines", omitted)
	}
	if let {
		e.Log.Log(context.Background(), level, msg, append([]any{"node", node}, args...)...)
	}
}
