package seal

import (
	"encoding/base64"
	"errors"
	"io/fs"
	"slices"

	"headway/core"
)

// Status is how the log of the edge stands.
type Status struct {
	Log      Tree       `json:"log"`              // what is stored; without an origin: nothing was sealed yet
	Signed   *Tree      `json:"signed,omitempty"` // what the newest checkpoint is over
	Key      string     `json:"key"`              // the verifier key of the edge
	Unsealed int64      `json:"unsealed"`         // receipts that could not be sealed, since the start
	Broken   []BrokenAt `json:"broken,omitempty"` // logs that were given up
	Error    string     `json:"error,omitempty"`  // why the newest leaves are not signed
	Held     bool       `json:"held,omitempty"`   // nothing is signed until Renew
}

// BrokenAt is a log that was found damaged, or short of what was signed.
type BrokenAt struct {
	Recovery
	Problem string `json:"problem"`
}

// Status tells it.
func (s *Sealer) Status() Status {
	st := Status{Held: s.Held() != nil, Key: s.ring.Load().current().String(), Unsealed: s.unsealed.Load()}
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Log = s.stored
	if _, m, ok := splitOrigin(s.stored.Origin); ok && s.heads[m] != nil {
		st.Signed = &s.heads[m].Tree
	}
	if s.failed != nil {
		st.Error = s.failed.Error()
	}
	for _, r := range s.broken {
		st.Broken = append(st.Broken, BrokenAt{r, r.Err.Error()})
	}
	return st
}

// Keys are the verifier keys that the edge has signed with, the oldest first; the
// last is the one to give to others.
func (s *Sealer) Keys() []Key { return s.ring.Load().Keys() }

// Signing is how many keys sign the current log.
func (s *Sealer) Signing() int {
	_, m, _ := splitOrigin(s.Status().Log.Origin)
	return len(s.ring.Load().signers(max(m, monthOf(s.p.Clock()))))
}

// Months are the logs that are kept, the oldest first.
func (s *Sealer) Months() (list []Month, err error) {
	err = s.src.states(func(m Month, _ []byte) bool {
		list = append(list, m)
		return true
	})
	slices.Reverse(list)
	return list, err
}

// Checkpoint is the newest of a log. NotFound: it has none.
func (s *Sealer) Checkpoint(m Month) (*Checkpoint, error) {
	if !m.valid() {
		return nil, core.Errorf(core.NotFound, "%q is not the name of a log, which is a month such as 2026-11", string(m[:min(len(m), 32)]))
	}
	s.mu.Lock()
	c := s.heads[m]
	s.mu.Unlock()
	if c != nil {
		return c, nil
	}
	h, err := OpenHead(s.p.Dir, s.p.Edge, m, s.Keys())
	if err != nil {
		return nil, err
	}
	if c = h.Last(); c == nil {
		return s.restored(m)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.heads[m] == nil { // else one was signed meanwhile
		s.heads[m] = c
	}
	return s.heads[m], nil
}

// restored is the checkpoint that came with a backup: it is good to show what it is
// over, and never gone on from. A restore puts it at MONTH.restored.
func (s *Sealer) restored(m Month) (*Checkpoint, error) {
	text, err := readBounded(restoredPath(s.p.Dir, m), mostNote)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(text) == 0 {
		return nil, core.Errorf(core.NotFound, "nothing of log %s is signed", m)
	}
	if err != nil {
		return nil, &core.Error{Kind: core.Unavailable, Msg: "the restored checkpoint of log " + string(m) + " cannot be read", Err: err}
	}
	c, err := ParseCheckpoint(text, s.Keys())
	if err == nil && c.Origin != originOf(s.p.Edge, m) {
		err = core.Errorf(core.Unavailable, "the restored checkpoint of log %s is of another", m)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Source is where the leaves are read from.
func (s *Sealer) Source() Source { return s.src }

// Prove makes the proof of one receipt: a C2SP tlog-proof with the leaf in it, which
// VerifyProof reads. NotFound: the leaf is not there, or no checkpoint covers it
// yet, which the next Durable changes.
func (s *Sealer) Prove(at Position) ([]byte, error) {
	c, err := s.Checkpoint(at.Month)
	if err != nil {
		return nil, err
	}
	return Prove(s.src, c, at.Index)
}

// Rotate makes the next group introduce a new key and the checkpoints after it be
// signed with it; the older ones sign beside it until the month after this one is
// over. Keys has it once that group was made.
func (s *Sealer) Rotate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rotate = true
}

// mostQueued bounds the erasures that wait.
const mostQueued = 100_000

// Erase makes the next groups drop what shows whose a receipt is: the nonce that
// its salt is made of, so that nobody can hold the leaf's commitment against a
// guess. A leaf that says so is added; the erased one stays as it is. What the
// receipt itself says of the person is the caller's to erase. A leaf that was erased
// is passed over. NotFound: there is no such leaf, or it is no receipt's.
func (s *Sealer) Erase(at Position) error {
	leaf, nonce, err := s.leaf(at)
	if err != nil {
		return err
	}
	if leaf.Type != typeReceipt {
		return core.Errorf(core.NotFound, "leaf %d of log %s is not a receipt's", at.Index, at.Month)
	}
	if [saltSize]byte(nonce) == noNonce {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.erase) >= mostQueued {
		return core.Errorf(core.Busy, "%d erasures wait already", len(s.erase))
	}
	s.erase = append(s.erase, at)
	return nil
}

// Erased tells whether what Erase drops of a leaf is gone.
func (s *Sealer) Erased(at Position) (bool, error) {
	_, nonce, err := s.leaf(at)
	return err == nil && [saltSize]byte(nonce) == noNonce, err
}

// leaf reads one leaf and its nonce.
func (s *Sealer) leaf(at Position) (l *Leaf, nonce []byte, err error) {
	r, ok, err := s.src.find(at.Month, at.Index)
	if err != nil {
		return nil, nil, err
	}
	if !ok {
		return nil, nil, core.Errorf(core.NotFound, "log %s has no leaf %d", at.Month, at.Index)
	}
	nonce, text := r.find(at.Index)
	l, err = ParseLeaf(text)
	return l, nonce, err
}

// Opening shows whose call a leaf is of: with it anybody can check the leaf's
// commitment, without it nobody can.
type Opening struct {
	Salt    string `json:"salt"`    // base64 of 32 bytes
	Private string `json:"private"` // canonical JSON: job, key, owner, step
}

// Reveal opens the private part of a receipt's leaf. NotFound: it was erased, or
// the month's secret was dropped. Invalid: the receipt is not that of the leaf.
func (s *Sealer) Reveal(at Position, r *core.Receipt) (Opening, error) {
	leaf, nonce, err := s.leaf(at)
	if err != nil {
		return Opening{}, err
	}
	if [saltSize]byte(nonce) == noNonce {
		return Opening{}, core.Errorf(core.NotFound, "the private part of leaf %d of log %s was erased", at.Index, at.Month)
	}
	m, err := s.masksOf(at.Month)
	if err != nil {
		return Opening{}, err
	}
	salt := m.salt(nonce)
	o := Opening{base64.StdEncoding.EncodeToString(salt[:]), string(appendPrivate(nil, r))}
	if err := o.Check(leaf); err != nil {
		return Opening{}, err
	}
	return o, nil
}

// Check holds an opening against a leaf. Invalid: it is not that leaf's.
func (o Opening) Check(l *Leaf) error {
	salt, ok := parseHash([]byte(o.Salt))
	if !ok || !l.Private.OK || commit(nil, &salt, []byte(o.Private)) != l.Private.V {
		return core.Errorf(core.Invalid, "this is not the private part of receipt %s", l.ID)
	}
	return nil
}

// Pseudonyms are what a key and an owner are called in a log ("" for no name).
// NotFound: the month's secret was dropped.
func (s *Sealer) Pseudonyms(m Month, key core.KeyID, owner string) (keyName, ownerName string, err error) {
	ms, err := s.masksOf(m)
	if err != nil {
		return "", "", err
	}
	return ms.pseudonym(deriveKey, string(key)), ms.pseudonym(deriveOwner, owner), nil
}

// Drop deletes a month's leaves, hashes and secret, for whose time is over. Its
// checkpoint file stays, and so does what the next log's first leaf says of it:
// whoever has an export can verify it still. Invalid: it is the current log, or its
// last signature is owed.
func (s *Sealer) Drop(m Month) error {
	if err := s.over(m); err != nil {
		return err
	}
	for _, kind := range []string{KindRun, KindTree} {
		for {
			var names []core.Record
			err := s.p.Vault.Scan(kind, string(m)+"/", string(m)+"0", false, func(name string, _ []byte) bool {
				names = append(names, core.Record{Kind: kind, Name: name})
				return len(names) < 500
			})
			if err == nil && len(names) > 0 {
				err = s.p.Vault.Write(nil, names)
			}
			if err != nil {
				return err
			}
			if len(names) == 0 {
				break
			}
		}
	}
	return s.p.Vault.Write(nil, []core.Record{{Kind: KindSecret, Name: string(m)}, {Kind: KindLog, Name: string(m)}})
}

// Secret is the record of a month's secret, for who deletes it: nobody can then tell
// whose a leaf of it is. Invalid: it is the current log.
func (s *Sealer) Secret(m Month) (core.Record, error) {
	return core.Record{Kind: KindSecret, Name: string(m)}, s.over(m)
}

// over refuses a log that is not done with.
func (s *Sealer) over(m Month) error {
	state, err := s.p.Vault.Get(KindLog, string(m))
	if err != nil {
		return err
	}
	if state == nil {
		return core.Errorf(core.NotFound, "there is no log %s", m)
	}
	closed := false
	if c, err := s.Checkpoint(m); err == nil {
		err = readLeaves(s.src, m, c.Size-1, c.Size, func(_ uint64, text []byte) bool {
			last, err := ParseLeaf(text)
			closed = err == nil && last.Type == typeClose
			return false
		})
		closed = closed || err != nil // its last leaf is gone: a Drop was cut off
	}
	s.mu.Lock()
	_, current, _ := splitOrigin(s.stored.Origin)
	s.mu.Unlock()
	// One that was given up, or came with a backup, has no last leaf; nothing is owed of
	// it two months later.
	if current == m || !closed && m.next() >= current.calendar() {
		e := core.Field("month", "log %s is not closed and signed yet", m)
		e.Hint = "a month's secret can go once the month is over, in UTC"
		return e
	}
	return nil
}
