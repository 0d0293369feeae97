package seal

import (
	"bytes"
	"errors"

	"headway/core"
)

// Find looks for a receipt's leaf, in the logs of the month in which its call came and
// of those after it. Leaves are in the order in which calls ended, and say when they
// came: it looks where leaves are of calls that came when this one ended (ended, ms
// since 1970; 0: not known), then further and further away from there, so that a
// receipt is found in some milliseconds and a leaf that is not there in the time that
// reading the logs takes. NotFound: there is none.
func Find(vault core.Vault, id core.CallID, ended int64) (Position, error) {
	found := map[core.CallID]Position{}
	if err := find(vault, id, ended, map[core.CallID]bool{id: true}, found); err != nil {
		return Position{}, err
	}
	return found[id], nil
}

// FindAll finds the leaves of many receipts, of whatever times: those that are near one
// another are found together. It leaves out receipts that have none.
func FindAll(vault core.Vault, receipts []*core.Receipt) (map[core.CallID]Position, error) {
	found, wanted := map[core.CallID]Position{}, map[core.CallID]bool{}
	for _, r := range receipts {
		wanted[r.ID] = true
	}
	for _, r := range receipts {
		if _, ok := found[r.ID]; ok {
			continue
		}
		err := find(vault, r.ID, r.SettledAt.UnixMilli(), wanted, found)
		var e *core.Error
		if err != nil && (!errors.As(err, &e) || e.Kind != core.NotFound) {
			return nil, err
		}
	}
	return found, nil
}

// find looks for one of the receipts that are wanted, and notes of all of them where the
// leaves are that it comes by.
func find(vault core.Vault, id core.CallID, ended int64, wanted map[core.CallID]bool, found map[core.CallID]Position) error {
	at, ok := id.Time()
	if !ok {
		return core.Errorf(core.NotFound, "there is no call %s", id)
	}
	src := records{vault}
	var logs []*search
	err := src.states(func(m Month, state []byte) bool {
		log, _, err := parseState("-/"+string(m), state)
		if err != nil {
			return true // it is told where the log is opened
		}
		logs = append(logs, &search{src: src, month: m, size: log.Size(), id: id, wanted: wanted, found: found})
		return m.calendar() >= monthOf(at) // one before is read too: it may have been open still
	})
	if err != nil {
		return err
	}
	for _, s := range logs {
		if err := s.begin(max(ended, at.UnixMilli())); err != nil {
			return err
		}
	}
	// All logs in turn, so that the right one is not behind a long wrong one.
	for more := true; more; {
		more = false
		for _, s := range logs {
			if err := s.widen(); err != nil {
				return err
			}
			if _, ok := found[id]; ok {
				return nil
			}
			more = more || s.low > 0 || s.high < s.size
		}
	}
	return core.Errorf(core.NotFound, "the receipt log has no leaf of call %s", id)
}

// search looks for one receipt in one log. From low to high there is none.
type search struct {
	src   Source
	month Month
	size  uint64
	low   uint64
	high  uint64
	step  uint64

	id     core.CallID
	wanted map[core.CallID]bool // it, and others
	found  map[core.CallID]Position
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

// idMark is what stands before a receipt's id in its leaf, and nowhere before that.
var idMark = []byte(`"id":"`)

// widen looks at the next leaves on both sides. Where only one receipt is wanted it ends
// with that.
func (s *search) widen() error {
	from, to := s.low-min(s.low, s.step), min(s.high+s.step, s.size)
	for _, part := range [2][2]uint64{{from, s.low}, {s.high, to}} {
		if part[0] >= part[1] {
			continue
		}
		err := s.src.Leaves(s.month, part[0], part[1], func(index uint64, leaf []byte) bool {
			_, rest, _ := bytes.Cut(leaf, idMark)
			id, _, _ := bytes.Cut(rest, []byte(`"`))
			if !s.wanted[core.CallID(id)] {
				return true
			}
			s.found[core.CallID(id)] = Position{s.month, index}
			return len(s.wanted) > 1
		})
		if _, ok := s.found[s.id]; ok || err != nil {
			return err
		}
	}
	s.low, s.high, s.step = from, to, min(2*s.step, lastStep)
	return nil
}
