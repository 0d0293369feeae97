package fleet

import (
	"slices"
	"sync"
	"time"
)

const (
	// meanShare is how much of the mean service time a new call is.
	meanShare = 0.2
	// unknownService is how soon a call that found the queue full may come again
	// where no call was served yet.
	unknownService = time.Second
	leastRetry     = 100 * time.Millisecond
	mostRetry      = time.Minute
)

// slots is the line of calls before one model server: so many are worked on at
// once, so many more wait, first come first served (SPEC §14).
type slots struct {
	mu      sync.Mutex // guards all
	size    int64
	queue   int64 // how many may wait
	busy    int64
	line    []*ticket
	service time.Duration // mean time that a call holds a slot; 0 before the first
}

// ticket is one call's place in a line.
type ticket struct {
	came, got time.Time     // got is zero before it has a slot
	ready     chan struct{} // closed when it has one; nil where one was free
	left      bool
}

// wait is how long a call that has a slot waited for it: exactly 0 where one was
// free, more than 0 where none was.
func (t *ticket) wait() time.Duration {
	if t.ready == nil {
		return 0
	}
	return max(t.got.Sub(t.came), time.Microsecond)
}

// enter takes a slot or a place in the line. nil: the queue is full, and retry is
// when a place is likely free.
func (s *slots) enter(now time.Time) (t *ticket, retry time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t = &ticket{came: now}
	switch {
	case s.busy < s.size && len(s.line) == 0:
		s.busy++
		t.got = now
	case int64(len(s.line)) < s.queue:
		t.ready = make(chan struct{})
		s.line = append(s.line, t)
	default:
		if s.service == 0 {
			return nil, unknownService
		}
		return nil, min(max(s.service/time.Duration(max(s.size, 1)), leastRetry), mostRetry)
	}
	return t, 0
}

// leave gives back what a ticket has, a slot or its place; served is how long its
// server worked for it, 0 where it did not. Only the first call counts.
func (s *slots) leave(t *ticket, now time.Time, served time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.left {
		return
	}
	t.left = true
	if t.got.IsZero() {
		if i := slices.Index(s.line, t); i >= 0 {
			s.line = slices.Delete(s.line, i, i+1)
		}
		return
	}
	s.busy--
	switch {
	case served <= 0:
	case s.service == 0:
		s.service = served
	default:
		s.service += time.Duration(meanShare * float64(served-s.service))
	}
	s.grant(now)
}

// resize sets how many are worked on at once and how many may wait. Calls that are
// there keep what they have.
func (s *slots) resize(size, queue int64, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.size, s.queue = size, queue
	s.grant(now)
}

// grant gives free slots to those who wait.
func (s *slots) grant(now time.Time) {
	for s.busy < s.size && len(s.line) > 0 {
		t := s.line[0]
		s.line = slices.Delete(s.line, 0, 1)
		s.busy++
		t.got = now
		close(t.ready)
	}
}

// count is how many have a slot and how many wait for one.
func (s *slots) count() (busy, waiting int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy, int64(len(s.line))
}
