package seal

import (
	"bytes"
	"fmt"

	"headway/core"
)

// Find looks for a receipt's leaf, in the logs of the month in which its call came and
// of those after it. Leaves are in the order in which calls ended, and say when they
// came: it looks where leaves are of calls that came when this one ended (ended, ms
// since 1970; 0: not known), then further and further away from there, so that a
// receipt is found in some milliseconds and a leaf that is not there in the time that
// reading the logs takes. NotFound: there is none.
func Find(vault core.Vault, id core.CallID, ended int64) (Position, error) {
	at, ok := id.Time()
	if !ok {
		return Position{}, core.Errorf(core.NotFound, "there is no call %s", id)
	}
	src := records{vault}
	var logs []*search
	err := src.states(func(m Month, state []byte) bool {
		log, _, err := parseState("-/"+string(m), state)
		if err != nil {
			return true // it is told where the log is opened
		}
		logs = append(logs, &search{src: src, month: m, size: log.Size(), mark: fmt.Appendf(nil, `"id":"%s",`, id)})
		return m.calendar() >= monthOf(at) // one before is read too: it may have been open still
	})
	if err != nil {
		return Position{}, err
	}
	for _, s := range logs {
		if err := s.begin(max(ended, at.UnixMilli())); err != nil {
			return Position{}, err
		}
	}
	// All logs in turn, so that the right one is not behind a long wrong one.
	for more := true; more; {
		more = false
		for _, s := range logs {
			p, found, err := s.widen()
			if found || err != nil {
				return p, err
			}
			more = more || s.low > 0 || s.high < s.size
		}
	}
	return Position{}, core.Errorf(core.NotFound, "the receipt log has no leaf of call %s", id)
}

// search looks for one receipt in one log. From low to high there is none.
type search struct {
	src   Source
	month Month
	size  uint64
	mark  []byte // what its leaf has, and no other
	low   uint64
	high  uint64
	step  uint64
}

const (
	firstStep = 512 // leaves that are looked at first, either way
	lastStep  = 64 << 10
	nearby    = 32 // leaves that speak for their place
)

// begin finds where to look first: before the first leaves of which a call came at at
// or later. Long calls between them may speak for an earlier time than they ended at,
// which makes the place a worse one and no wrong one.
func (s *search) begin(at int64) error {
	lo, hi := uint64(0), s.size
	var leaf Leaf
	for lo < hi {
		mid := lo + (hi-lo)/2
		later := false
		err := s.src.Leaves(s.month, mid, min(mid+nearby, s.size), func(_ uint64, text []byte) bool {
			later = leaf.parse(text) == nil && leaf.Type == typeReceipt && leaf.Time >= at
			return !later
		})
		if err != nil {
			return err
		}
		if later {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	s.low, s.high, s.step = lo, lo, firstStep
	return nil
}

// widen looks at the next leaves on both sides.
func (s *search) widen() (p Position, found bool, err error) {
	from, to := s.low-min(s.low, s.step), min(s.high+s.step, s.size)
	for _, part := range [2][2]uint64{{from, s.low}, {s.high, to}} {
		if part[0] >= part[1] {
			continue
		}
		err = s.src.Leaves(s.month, part[0], part[1], func(index uint64, leaf []byte) bool {
			if found = bytes.Contains(leaf, s.mark); found {
				p = Position{s.month, index}
			}
			return !found
		})
		if found || err != nil {
			return p, found, err
		}
	}
	s.low, s.high, s.step = from, to, min(2*s.step, lastStep)
	return p, false, nil
}
