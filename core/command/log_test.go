package command

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// stuck is a log that takes nothing until it is let go.
type stuck struct {
	mu   sync.Mutex
	free chan struct{}
	got  bytes.Buffer
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.free
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got.Write(p)
}

func (s *stuck) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got.String()
}

func TestLogGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stuck{free: make(chan struct{})}
		close(s.free)
		log, flush := newLog(s, slog.LevelInfo)
		log.Info("one")
		log.Debug("not at this level")
		log.Info("two")
		if s.text() != "" {
			t.Error("a line went out alone")
		}
		time.Sleep(logDelay)
		synctest.Wait()
		if got := s.text(); strings.Count(got, "\n") != 2 || strings.Index(got, "one") > strings.Index(got, "two") {
			t.Errorf("after the delay: %q", got)
		}
		log.Info("three")
		log.Error("four")
		if got := s.text(); !strings.HasSuffix(got, "\n") || !strings.Contains(got, "four") || strings.Index(got, "three") > strings.Index(got, "four") {
			t.Errorf("an error waited: %q", got)
		}
		log.Info("five")
		flush()
		if !strings.Contains(s.text(), "five") {
			t.Error("flush left a line")
		}
		time.Sleep(logDelay)
	})
}

// TestLogStuck: a log that blocks stops no call, takes bounded memory, and says
// how much was lost.
func TestLogStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stuck{free: make(chan struct{})}
		log, flush := newLog(s, slog.LevelInfo)
		log.Info("first")
		time.Sleep(logDelay)
		synctest.Wait() // the group is being written now
		line := strings.Repeat("x", 1000)
		for range 5000 {
			log.Info(line)
		}
		close(s.free)
		synctest.Wait()
		flush()
		if got := s.text(); len(got) > logMost+2000 || !strings.Contains(got, "log lines were dropped") || !strings.Contains(got, "first") {
			t.Errorf("%d bytes were kept; dropped said: %v", len(got), strings.Contains(got, "dropped"))
		}
		time.Sleep(logDelay)
	})
}
