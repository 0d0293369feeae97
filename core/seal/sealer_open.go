package seal

import (
	"encoding/binary"
	"errors"
	"os"

	"headway/core"
)

// Open finds how the log stands. What it finds damaged, or shorter than what was
// signed, is left as it is and never signed again; the next receipt then begins
// another log of the month, whose first leaf says what is gone ([Sealer.Status]
// tells it too), or waits for Renew where Parts say so. It fails where the vault
// cannot be read, and where the signing keys cannot.
func Open(p Parts) (*Sealer, error) {
	if err := checkEdge(p.Edge); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(p.Dir, 0o700); err != nil {
		return nil, &core.Error{Kind: core.Unavailable, Msg: "the folder " + p.Dir + " of the receipt log's checkpoints cannot be made", Err: err}
	}
	s := &Sealer{p: p, src: records{p.Vault}, heads: map[Month]*Checkpoint{}}
	if err := s.openRing(); err != nil {
		return nil, err
	}
	if err := s.openOwed(); err != nil {
		return nil, err
	}
	return s, s.openLog()
}

// openRing reads the signing keys, and makes the first.
func (s *Sealer) openRing() error {
	kept, err := s.p.Vault.Get(KindKeys, ringName)
	if err != nil {
		return err
	}
	if kept == nil {
		made, err := newRing(s.p.Edge)
		if err != nil {
			return err
		}
		s.ring.Store(made)
		record, err := s.ringRecord(made)
		if err != nil {
			return err
		}
		return s.p.Vault.Put(record.Kind, record.Name, record.Value)
	}
	open, err := s.p.Secrets.Open(KindKeys+"/"+ringName, kept)
	if err != nil {
		return err
	}
	r, err := parseRing(open)
	if err != nil {
		return err
	}
	if r.edge != s.p.Edge {
		return &core.Error{Kind: core.Invalid, Msg: "the receipt log is of edge " + r.edge + ", not of " + s.p.Edge, Hint: "an edge's log keeps its name"}
	}
	s.ring.Store(r)
	return nil
}

func (s *Sealer) ringRecord(r *ring) (core.Record, error) {
	data, err := r.encode()
	return core.Record{Kind: KindKeys, Name: ringName, Value: s.p.Secrets.Seal(KindKeys+"/"+ringName, data)}, err
}

// openLog finds the newest log, and the one before it where its last signature is owed.
func (s *Sealer) openLog() error {
	type kept struct {
		month Month
		value []byte
	}
	var newest []kept
	err := s.src.states(func(m Month, value []byte) bool {
		newest = append(newest, kept{m, value})
		return len(newest) < 2
	})
	if err != nil || len(newest) == 0 {
		return err
	}
	cur, found := s.find(newest[0].month, newest[0].value)
	if found.Verdict != Whole {
		s.giveUp(found)
		return nil
	}
	s.cur, s.stored = cur, cur.log.Tree()
	if len(newest) > 1 {
		// One that was given up has another end than this one's beginning says, or is
		// not whole: it is not signed.
		before, found := s.find(newest[1].month, newest[1].value)
		switch {
		case found.Verdict == Whole && s.begins(cur.month, before.log.Tree()):
			s.owe(before)
		case found.Verdict != Whole:
			s.broken = append(s.broken, found)
			s.p.Log.Warn("receipt log: "+found.Err.Error(), "log", found.Have.Origin, "verdict", string(found.Verdict))
		}
	}
	s.owe(cur)
	return nil
}

// find reads one log's state and its checkpoint file.
func (s *Sealer) find(m Month, value []byte) (*current, Recovery) {
	r := Recovery{Verdict: Damaged, Have: Tree{Origin: originOf(s.p.Edge, m)}}
	var head *Head
	if head, r.Err = OpenHead(s.p.Dir, s.p.Edge, m, s.ring.Load().Keys()); r.Err == nil && head.Last() != nil {
		r.Signed = &head.Last().Tree
		s.heads[m] = head.Last()
	}
	log, signed, err := parseState(r.Have.Origin, value)
	if err != nil {
		r.Err = err
		return nil, r
	}
	r.Have = log.Tree()
	if r.Err != nil {
		return nil, r
	}
	r = look(s.src, log, head.Last())
	c := &current{month: m, until: m.end(), log: log, head: head, whole: s.keeper(m)}
	if head.Last() != nil {
		c.signed = head.Last().Size
	}
	_, err = os.Lstat(restoredPath(s.p.Dir, m))
	r.Restored = !errors.Is(err, os.ErrNotExist) // whoever restored it knows
	switch {
	case r.Restored && r.Verdict == Short: // the head is of the server of before
		if c, err := s.restored(m); err == nil {
			s.heads[m] = c
		}
	case r.Err != nil:
		r.Restored = false
	case r.Restored && head.Last() == nil:
		r.Signed = nil
		r.Verdict, r.Err = Short, core.Errorf(core.Unavailable, "log %s came with a backup, and may have been signed further than that", m)
	case signed > c.signed:
		// Nobody knows now how much was signed: the file is gone or an older one, or its
		// newest place is damaged.
		r.Signed = nil
		r.Verdict, r.Err = Short, core.Errorf(core.Unavailable, "the checkpoint file of log %s is gone or an old one, at least %d leaves were signed", m, signed)
	}
	return c, r
}

// parseState reads a KindLog record: the size that was signed last as it was known
// then, and the state.
func parseState(origin string, value []byte) (l *Log, signed uint64, err error) {
	if _, _, ok := splitOrigin(origin); !ok || len(value) < 8 {
		return nil, 0, core.Errorf(core.Unavailable, "the state of log %s is damaged", origin)
	}
	l, err = ParseLog(origin, value[8:])
	return l, binary.BigEndian.Uint64(value), err
}

func (s *Sealer) giveUp(r Recovery) {
	s.gone = &r
	s.broken = append(s.broken, r)
	then := "another is begun"
	if s.p.Hold && !r.Restored {
		s.hold()
		then = "nothing is signed until headway receipts renew"
	}
	s.p.Log.Error("receipt log: "+r.Err.Error()+"; it is left as it is, and "+then, "log", r.Have.Origin, "verdict", string(r.Verdict))
}

// begins tells whether a log's first leaf says that it follows a tree.
func (s *Sealer) begins(m Month, prev Tree) bool {
	first, err := firstLeaf(s.src, m)
	return err == nil && first.Prev != nil && *first.Prev == prev
}
