package seal

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"headway/core"
)

// Secrets seals what must not be readable in the store; ledger.Sealer is one.
type Secrets interface {
	Seal(name string, value []byte) []byte
	Open(name string, sealed []byte) ([]byte, error)
}

// Parts are what a Sealer is made of.
type Parts struct {
	Clock   core.Clock
	Log     *slog.Logger
	Vault   core.Vault // that what the Sealer changes is committed to
	Secrets Secrets
	Dir     string // of the checkpoint files; made where it is not there
	Edge    string // the name of the edge in its logs' origins: "headway.example/k3f9"
	// Hold keeps the Sealer from beginning another log behind one that is short or
	// damaged until Renew is called; Book is where it then reads the receipts that
	// came meanwhile.
	Hold bool
	Book core.Book
}

// Position is where a receipt's leaf is.
type Position struct {
	Month Month  `json:"log"`
	Index uint64 `json:"index"`
}

// Sealer appends receipts to the edge's log. It is a core.Recorder: Record takes a
// receipt, Changed gives the records that must be committed in the receipt's own
// transaction, and Durable, called after that commit, signs. Those three and Seal
// are the one writer's; the other methods may be called from anywhere.
//
// In memory it keeps the group that is not committed yet, the right edge of the
// tree (1.3 KB at most) and some pseudonyms. Between the commit and Durable the
// writer must record nothing more.
type Sealer struct {
	p   Parts
	src records

	ring     atomic.Pointer[ring] // replaced, never changed
	unsealed atomic.Int64
	held     atomic.Pointer[core.Error] // why no log is begun; nil: one is
	owes     atomic.Bool                // receipts are owed a leaf

	// What the writer alone uses.
	cur     *current
	gone    *Recovery     // why there is no log to go on with, until one is begun
	run     run           // of the group, its memory is used again
	packed  []byte        // its record
	records []core.Record // of the group
	ringNew bool          // the ring is to be committed
	ready   []signing     // what is committed, or will be with the group, and is to be signed
	random  []byte
	text    []byte // a leaf
	part    []byte // a private part
	mixed   []byte // a salt and a private part
	owed    []core.CallID
	owedNew bool // owed is to be committed

	// mu guards what follows.
	mu     sync.Mutex
	erase  []Position
	rotate bool
	heads  map[Month]*Checkpoint // the newest of each log, as far as it was asked for
	stored Tree                  // the current log as it is committed
	broken []Recovery            // the logs that were given up in this process
	failed error                 // why the last Durable could not sign
}

// current is the log that is appended to.
type current struct {
	month  Month
	until  time.Time // its end
	log    *Log
	head   *Head
	masks  *masks
	signed uint64 // the size that was signed last
	grown  bool   // since Changed was called
	whole  func(level int, n uint64, h Hash)
}

// signing is a tree that is to be signed once it is durable.
type signing struct {
	of   *current
	tree Tree
}

var _ core.Recorder = (*Sealer)(nil)

// owe notes that a log is to be signed where it has grown since it was.
func (s *Sealer) owe(c *current) {
	if c.log.Size() > c.signed {
		s.ready = append(slices.DeleteFunc(s.ready, func(o signing) bool { return o.of == c }), signing{c, c.log.Tree()})
	}
}

// Record seals a receipt (core.Recorder). One that cannot be sealed is told in the
// log and counted: it is kept all the same, and has no leaf.
func (s *Sealer) Record(r *core.Receipt) {
	if s.held.Load() != nil && s.oweLeaf(r.ID) {
		return
	}
	if _, err := s.Seal(r); err != nil {
		s.unsealed.Add(1)
		s.p.Log.Error("receipt log: a receipt cannot be sealed", "call", r.ID, "err", err)
	}
}

// Seal is Record for a writer that keeps the place of the leaf with the receipt. An
// error names what of the receipt a leaf has no room for, or says why there is no
// log to seal it in.
func (s *Sealer) Seal(r *core.Receipt) (Position, error) {
	if err := s.begin(); err != nil {
		return Position{}, err
	}
	c := s.cur
	if len(s.random) < saltSize {
		s.random = make([]byte, 64*saltSize)
		_, _ = rand.Read(s.random) // never fails: the runtime aborts instead
	}
	nonce := s.random[:saltSize:saltSize]
	s.random = s.random[saltSize:]
	salt := c.masks.salt(nonce)
	s.part = appendPrivate(s.part[:0], r)
	if need := saltSize + len(s.part); cap(s.mixed) < need {
		s.mixed = make([]byte, 0, 2*need)
	}
	var err error
	s.text, err = appendReceipt(s.text[:0], r, &sealed{
		key: c.masks.pseudonym(deriveKey, string(r.Key)), owner: c.masks.pseudonym(deriveOwner, r.Owner),
		private: commit(s.mixed, &salt, s.part),
	})
	if err != nil {
		return Position{}, err
	}
	return s.add(s.text, nonce), nil
}

var noNonce [saltSize]byte

// add appends a leaf to the current log and to the group.
func (s *Sealer) add(leaf, nonce []byte) Position {
	c := s.cur
	if s.run.full(len(leaf)) {
		s.endRun()
	}
	if s.run.count == 0 {
		s.run.begin(c.log.Size())
	}
	s.run.add(nonce, leaf)
	c.grown = true
	return Position{c.month, c.log.Append(leaf, c.whole)}
}

func (s *Sealer) endRun() {
	if s.run.count > 0 {
		s.packed = s.run.record(s.packed[:0])
		s.records = append(s.records, core.Record{Kind: KindRun, Name: runName(s.cur.month, s.run.first), Value: slices.Clone(s.packed)})
		s.run.count = 0
	}
}

// begin makes sure that the current log is that of the month, and that it is one.
// A clock that goes back stays in the month that was reached.
func (s *Sealer) begin() error {
	if err := s.Held(); err != nil {
		return err
	}
	at := s.p.Clock()
	if c := s.cur; c != nil && at.Before(c.until) {
		return s.unlock(c)
	}
	now := monthOf(at)
	var open openLeaf
	var before Month
	switch {
	case s.cur != nil:
		before = s.cur.month
	case s.gone != nil:
		_, before, _ = splitOrigin(s.gone.Have.Origin)
		if s.gone.Signed != nil {
			open.lost = append(open.lost, *s.gone.Signed)
		}
		if s.gone.Have.Size > 0 {
			open.prev = &s.gone.Have
		}
	}
	// Where nobody knows what was signed, the name alone tells that prev need not be it.
	anew := s.cur == nil && s.gone != nil && s.gone.Signed == nil
	month, taken, err := s.free(max(now, before.calendar()), anew)
	if err != nil {
		return err
	}
	open.lost = append(open.lost, taken...)
	head, err := OpenHead(s.p.Dir, s.p.Edge, month, nil)
	if err != nil {
		return err
	}
	if s.cur != nil {
		end := s.endLog(month)
		open.prev = &end
	}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	name := KindSecret + "/" + string(month)
	s.records = append(s.records, core.Record{Kind: KindSecret, Name: string(month), Value: s.p.Secrets.Seal(name, secret)})
	s.cur = &current{month: month, until: month.end(), log: NewLog(originOf(s.p.Edge, month)), head: head, masks: newMasks(secret), whole: s.keeper(month)}
	s.gone = nil
	open.keys = s.ring.Load().names(month)
	s.add(open.append(nil), noNonce[:])
	return nil
}

// keeper keeps the hashes of the subtrees that a month's log completes.
func (s *Sealer) keeper(m Month) func(level int, n uint64, h Hash) {
	return func(level int, n uint64, h Hash) {
		s.records = append(s.records, core.Record{Kind: KindTree, Name: treeName(m, level, n), Value: slices.Clone(h[:])})
	}
}

// unlock reads the secret of a log that was found at the start.
func (s *Sealer) unlock(c *current) error {
	if c.masks != nil {
		return nil
	}
	m, err := s.masksOf(c.month)
	if err != nil {
		return err
	}
	c.masks = m
	return nil
}

func (s *Sealer) masksOf(m Month) (*masks, error) {
	kept, err := s.p.Vault.Get(KindSecret, string(m))
	if err != nil {
		return nil, err
	}
	if kept == nil {
		return nil, core.Errorf(core.NotFound, "the secret of log %s was dropped: whose its leaves are cannot be told any more", m)
	}
	secret, err := s.p.Secrets.Open(KindSecret+"/"+string(m), kept)
	if err != nil {
		return nil, err
	}
	return newMasks(secret), nil
}

// free is the first log of a month that nothing is known of, and what was signed
// of those before it while the store knows nothing of them. A log that a restore has
// named may have been signed by the server of before. anew: the name has a number.
func (s *Sealer) free(m Month, anew bool) (Month, []Tree, error) {
	var taken []Tree
	for n := 1; n <= mostParts; n++ {
		name := m.part(n)
		state, err := s.p.Vault.Get(KindLog, string(name))
		if err != nil {
			return "", nil, err
		}
		free := state == nil && (n > 1 || !anew)
		for _, path := range []string{headPath(s.p.Dir, name), restoredPath(s.p.Dir, name)} {
			if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
				free = false
			}
		}
		if free {
			return name, taken, nil
		}
		if state == nil {
			if h, err := OpenHead(s.p.Dir, s.p.Edge, name, s.ring.Load().Keys()); err == nil && h.Last() != nil {
				taken = append(taken, h.Last().Tree)
			}
		}
	}
	return "", nil, core.Errorf(core.Unavailable, "there are %d logs of %s already, and none can be gone on with", mostParts, m)
}

// endLog closes the current log and gives its end.
func (s *Sealer) endLog(next Month) Tree {
	c := s.cur
	s.add(appendClose(nil, s.ring.Load().names(next)), noNonce[:])
	s.endGroup()
	if keys := s.ring.Load().clone(); keys.retire(c.month) { // its own last signature is still owed
		s.ring.Store(keys)
		s.ringNew = true
	}
	return c.log.Tree()
}

// endGroup adds the current log's state to the group.
func (s *Sealer) endGroup() {
	s.endRun()
	c := s.cur
	if c == nil || !c.grown {
		return
	}
	c.grown = false
	state, _ := c.log.AppendBinary(binary.BigEndian.AppendUint64(nil, c.signed))
	s.records = append(s.records, core.Record{Kind: KindLog, Name: string(c.month), Value: state})
	s.owe(c)
}

// Size is how many bytes Changed would give, at most. A group that its writer's
// transaction must hold ends with it: a leaf has some 600 bytes, and 64 KiB at most,
// before it is packed.
func (s *Sealer) Size() int {
	n := 0
	for i := range s.records {
		n += len(s.records[i].Name) + len(s.records[i].Value)
	}
	if s.run.count > 0 {
		n += s.run.size()
	}
	return n
}

// Changed gives what was recorded since it was last asked, to be committed with
// the receipts: all of it or nothing (core.Recorder).
func (s *Sealer) Changed() []core.Record {
	s.queued()
	s.endGroup()
	if s.owedNew {
		s.records = append(s.records, s.owedRecord())
		s.owedNew = false
	}
	if s.ringNew {
		record, err := s.ringRecord(s.ring.Load())
		if err == nil {
			s.records = append(s.records, record)
			s.ringNew = false
		}
	}
	list := s.records
	s.records = nil
	if c := s.cur; c != nil && len(list) > 0 {
		s.mu.Lock()
		s.stored = c.log.Tree()
		s.mu.Unlock()
	}
	return list
}

// Durable signs what Changed has given, which must be durable now: each log that
// has grown gets a checkpoint over its size and root, in its file before anybody
// can see it. Where it fails the receipts are safe and unsigned; the next Durable
// signs them too. The writer calls it once at its start as well, for what an
// earlier process did not come to sign.
func (s *Sealer) Durable() error {
	var failed error
	owed := s.ready
	s.ready = nil
	for _, o := range owed {
		if err := s.sign(o); err != nil {
			failed = errors.Join(failed, err)
			s.ready = append(s.ready, o)
		}
	}
	s.mu.Lock()
	s.failed = failed
	s.mu.Unlock()
	return failed
}

func (s *Sealer) sign(o signing) error {
	c, err := s.ring.Load().sign(o.tree)
	if err != nil {
		return err
	}
	if err := o.of.head.Swap(c); err != nil {
		return err
	}
	o.of.signed = o.tree.Size
	s.mu.Lock()
	s.heads[o.of.month] = c
	s.mu.Unlock()
	return nil
}
