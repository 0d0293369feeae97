package seal

import (
	"errors"
	"strings"
	"time"

	"headway/core"
)

// A Sealer of Parts.Hold begins no other log behind one that is short or damaged before
// somebody has said so. Until then nothing is sealed; which receipts are owed a leaf is
// kept with them, and they are sealed first in the log that is then begun.

// KindOwed are the ids of the receipts that are owed a leaf, one behind the other, by
// the name "calls".
const (
	KindOwed = "seal-owed"
	owedName = "calls"
)

const (
	idSize    = 26
	mostOwed  = 9000 // ids that fit a record: more than there are calls open at once
	owedGroup = 64   // receipts that one group seals
)

// Held is why nothing is sealed, nil where it is. It takes no lock.
func (s *Sealer) Held() error {
	if e := s.held.Load(); e != nil {
		return e
	}
	return nil
}

// Renew lets the Sealer begin another log, whose first leaf says what is gone. Invalid:
// there is nothing to renew.
func (s *Sealer) Renew() error {
	if s.held.Swap(nil) == nil {
		return core.Errorf(core.Invalid, "the signed log is gone on with: there is nothing to renew")
	}
	s.p.Log.Warn("receipt log: another log is begun, as it was told to")
	return nil
}

// hold keeps the Sealer from beginning another log. Callers are told as well, so it
// shows nothing of the log.
func (s *Sealer) hold() {
	s.held.Store(&core.Error{Kind: core.Unavailable, Msg: "receipts cannot be signed: the signed log of this server is damaged",
		Hint: "headway status says how, and headway receipts renew goes on in another", RetryAfter: 30 * time.Second})
}

// openOwed reads which receipts are owed a leaf.
func (s *Sealer) openOwed() error {
	value, err := s.p.Vault.Get(KindOwed, owedName)
	if err != nil {
		return err
	}
	for ; len(value) >= idSize; value = value[idSize:] {
		s.owed = append(s.owed, core.CallID(value[:idSize]))
	}
	s.owes.Store(len(s.owed) > 0)
	return nil
}

// oweLeaf keeps in mind that a receipt has no leaf; false: there are too many.
func (s *Sealer) oweLeaf(id core.CallID) bool {
	if len(id) != idSize || len(s.owed) == mostOwed {
		return false
	}
	s.owed = append(s.owed, id)
	s.owedNew = true
	s.owes.Store(true)
	return true
}

// sealOwed seals some of the receipts that are owed a leaf.
func (s *Sealer) sealOwed() {
	for n := 0; n < owedGroup && len(s.owed) > 0; n++ {
		id := s.owed[0]
		r, err := s.p.Book.Receipt(id)
		var e *core.Error
		if errors.As(err, &e) && e.Kind != core.NotFound {
			break // the store is being closed, or cannot read it now
		}
		if err == nil {
			_, err = s.Seal(r)
		}
		if err != nil {
			s.unsealed.Add(1)
			s.p.Log.Error("receipt log: a receipt cannot be sealed", "call", id, "err", err)
		}
		s.owed = s.owed[1:]
		s.owedNew = true
	}
	s.owes.Store(len(s.owed) > 0)
}

// owedRecord is what is to be committed of them.
func (s *Sealer) owedRecord() core.Record {
	var text strings.Builder
	for _, id := range s.owed {
		text.WriteString(string(id))
	}
	return core.Record{Kind: KindOwed, Name: owedName, Value: []byte(text.String())}
}
