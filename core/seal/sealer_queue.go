package seal

import (
	"headway/core"
)

// Due tells that Changed has something although no receipt was recorded: a month
// that ended, an erasure, a new key. The writer commits it when it has time.
func (s *Sealer) Due() bool {
	if s.held.Load() != nil {
		return false
	}
	if s.owes.Load() {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ended := s.stored.Size > 0
	if ended {
		_, m, _ := splitOrigin(s.stored.Origin)
		ended = monthOf(s.p.Clock()) > m.calendar()
	}
	return ended || s.rotate || len(s.erase) > 0
}

// queued does what others have asked for: it ends a month, adds a key, erases.
func (s *Sealer) queued() {
	if !s.Due() {
		return
	}
	if err := s.begin(); err != nil {
		s.p.Log.Error("receipt log: it cannot be gone on with", "err", err)
		return
	}
	s.mu.Lock()
	rotate := s.rotate
	s.rotate = false
	s.mu.Unlock()
	if rotate {
		keys := s.ring.Load().clone()
		s.add(appendRotate(nil, keys.rotate(s.cur.month).String()), noNonce[:])
		s.ring.Store(keys)
		s.ringNew = true
	}
	s.eraseQueued()
	if s.p.Book != nil {
		s.sealOwed()
	}
}

// mostErased bounds the records that one group rewrites, in bytes; one more run may
// come on top.
const mostErased = 64 << 10

func (s *Sealer) eraseQueued() {
	runs := map[string]*run{}
	size := 0
	for size < mostErased {
		s.mu.Lock()
		if len(s.erase) == 0 {
			s.mu.Unlock()
			break
		}
		at := s.erase[0]
		s.erase = s.erase[1:]
		s.mu.Unlock()
		r, err := s.toErase(at)
		if err != nil {
			s.p.Log.Error("receipt log: a leaf's private part cannot be erased", "log", string(at.Month), "index", at.Index, "err", err)
			continue
		}
		name := runName(at.Month, r.first)
		if runs[name] == nil {
			runs[name] = r
			size += r.size()
		}
		nonce, _ := runs[name].find(at.Index)
		clear(nonce)
		s.add(appendErase(nil, originOf(s.p.Edge, at.Month), at.Index), noNonce[:])
	}
	for name, r := range runs {
		s.records = append(s.records, core.Record{Kind: KindRun, Name: name, Value: r.record(nil)})
	}
}

func (s *Sealer) toErase(at Position) (*run, error) {
	r, ok, err := s.src.find(at.Month, at.Index)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, core.Errorf(core.NotFound, "log %s has no leaf %d", at.Month, at.Index)
	}
	return &r, nil
}
