package fleet

import (
	"math/rand/v2"
	"testing"
	"time"
)

var slotsBegin = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)

func after(ms int) time.Time { return slotsBegin.Add(time.Duration(ms) * time.Millisecond) }

func granted(t *ticket) bool {
	if t.ready == nil {
		return true
	}
	select {
	case <-t.ready:
		return true
	default:
		return false
	}
}

func TestSlotsFirstComeFirstServed(t *testing.T) {
	s := slots{size: 2, queue: 3}
	var all []*ticket
	for i := range 5 {
		tk, _ := s.enter(after(i))
		if tk == nil || granted(tk) != (i < 2) {
			t.Fatalf("call %d: %+v", i, tk)
		}
		all = append(all, tk)
	}
	if tk, retry := s.enter(after(5)); tk != nil || retry != unknownService {
		t.Fatalf("a full queue gave %+v, retry %v", tk, retry)
	}
	s.leave(all[3], after(6), 0) // left the line
	s.leave(all[0], after(10), 10*time.Millisecond)
	s.leave(all[0], after(11), 10*time.Millisecond) // once only
	if !granted(all[2]) || granted(all[4]) {
		t.Fatal("not the first of the line")
	}
	if busy, waiting := s.count(); busy != 2 || waiting != 1 {
		t.Fatalf("busy %d, waiting %d", busy, waiting)
	}
	s.leave(all[1], after(20), 20*time.Millisecond)
	if !granted(all[4]) || granted(all[3]) {
		t.Fatal("one that left was given a slot")
	}
	if all[0].wait() != 0 || all[1].wait() != 0 || all[2].wait() != 8*time.Millisecond || all[4].wait() != 16*time.Millisecond {
		t.Fatalf("waits %v %v %v %v", all[0].wait(), all[1].wait(), all[2].wait(), all[4].wait())
	}
}

// A wait that the clock cannot tell from none is a wait all the same.
func TestSlotsWaitIsNeverZero(t *testing.T) {
	s := slots{size: 1, queue: 1}
	a, _ := s.enter(slotsBegin)
	b, _ := s.enter(slotsBegin)
	s.leave(a, slotsBegin, time.Millisecond)
	if a.wait() != 0 || b.wait() <= 0 {
		t.Fatalf("waits %v and %v", a.wait(), b.wait())
	}
}

func TestSlotsRetryFollowsTheService(t *testing.T) {
	s := slots{size: 2, queue: 0}
	for range 50 {
		a, _ := s.enter(slotsBegin)
		s.leave(a, slotsBegin, 4*time.Second)
	}
	_, _ = s.enter(slotsBegin)
	_, _ = s.enter(slotsBegin)
	if tk, retry := s.enter(slotsBegin); tk != nil || retry != 2*time.Second {
		t.Fatalf("%+v, retry %v", tk, retry)
	}
}

func TestSlotsResize(t *testing.T) {
	s := slots{size: 1, queue: 10}
	var all []*ticket
	for range 4 {
		tk, _ := s.enter(slotsBegin)
		all = append(all, tk)
	}
	s.resize(3, 10, after(1))
	if !granted(all[1]) || !granted(all[2]) || granted(all[3]) {
		t.Fatal("more slots were not given to the first of the line")
	}
	s.resize(1, 10, after(2))
	s.leave(all[0], after(3), 0)
	s.leave(all[1], after(3), 0)
	if granted(all[3]) {
		t.Fatal("a slot that is gone was given")
	}
	s.leave(all[2], after(4), 0)
	if !granted(all[3]) {
		t.Fatal("the last slot was not given")
	}
}

// Whatever is done with it, a line never gives more slots than there are, loses
// none and keeps nobody waiting beside a free one.
func TestSlotsAtRandom(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	s := slots{size: 3, queue: 5}
	var in []*ticket
	for i := range 20_000 {
		switch op := rnd.IntN(10); {
		case op < 5:
			if tk, _ := s.enter(after(i)); tk != nil {
				in = append(in, tk)
			}
		case op < 9 && len(in) > 0:
			k := rnd.IntN(len(in))
			s.leave(in[k], after(i), time.Duration(rnd.IntN(1000)))
			in = append(in[:k], in[k+1:]...)
		default:
			s.resize(1+rnd.Int64N(4), rnd.Int64N(6), after(i))
		}
		var have int64
		for _, tk := range in {
			if granted(tk) {
				have++
			}
		}
		busy, waiting := s.count()
		if busy != have || waiting != int64(len(in))-have || busy < s.size && waiting > 0 {
			t.Fatalf("step %d: %d have a slot of %d, busy %d, waiting %d of %d", i, have, s.size, busy, waiting, len(in))
		}
	}
}
