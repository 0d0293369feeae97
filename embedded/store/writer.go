package store

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"time"

	"headway/core"
)

const (
	batchLimit = 256 // receipts in one commit
	lookEvery  = 100 * time.Millisecond
	lookOften  = 2 * time.Millisecond
	hurryFor   = time.Second // a table is made in less
	cleanEvery = time.Hour
	firstWait  = 50 * time.Millisecond // before a failed commit is tried again
	longWait   = 5 * time.Second
)

// waiting is a receipt that is not durable yet.
type waiting struct {
	r    *core.Receipt
	done func()
	// fresh: the call was opened by this process and has no receipt, so that the
	// store need not be asked.
	fresh bool
}

// batch is what one commit writes. It is made once, however often the commit is
// tried, so that the Recorder is told once.
type batch struct {
	entries []entry
	items   []waiting
}

// Append hands a receipt over to the writer (core.Book). The receipt must not
// change from then on.
func (s *Store) Append(r *core.Receipt, done func()) {
	s.mu.Lock()
	s.queue = append(s.queue, waiting{r: r, done: done})
	s.queued++
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default: // it has been woken already
	}
}

// Run is the writer. It makes receipts durable until ctx ends or the store is
// closed, then writes what is waiting and returns; an error says how many
// receipts it could not write.
func (s *Store) Run(ctx context.Context) error {
	s.running.Lock() // from here on Close waits, so the database stays
	defer s.running.Unlock()
	if err := s.enter(); err != nil {
		return err
	}
	s.leave()
	ctx, stop := context.WithCancel(ctx)
	var others sync.WaitGroup
	others.Go(func() { s.watch(ctx) })
	others.Go(func() { s.every(ctx, lookEvery, func() { s.compactIfDue(ctx) }) })
	others.Go(func() { s.every(ctx, cleanEvery, func() { s.cleanUp(ctx) }) })
	others.Go(func() {
		select {
		case <-s.closing:
			stop()
		case <-ctx.Done():
		}
	})
	s.tellLost(ctx)
	for ctx.Err() == nil {
		if !s.next() {
			select {
			case <-s.wake:
			case <-ctx.Done():
			}
			continue
		}
		s.write(ctx)
	}
	stop()
	others.Wait()
	return s.flush()
}

// watch looks at the disk, often while Badger is making files.
func (s *Store) watch(ctx context.Context) {
	hurry := 0
	for ctx.Err() == nil {
		wait := lookEvery
		if hurry--; hurry > 0 || s.room.compacting.Load() {
			wait = lookOften
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-s.room.hurry:
			hurry = int(hurryFor / lookOften)
		case <-ctx.Done():
		}
		t.Stop()
		_ = s.look()
	}
}

// every calls do each time the interval has passed.
func (s *Store) every(ctx context.Context, interval time.Duration, do func()) {
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			do()
		case <-ctx.Done():
			return
		}
	}
}

// next makes the next batch; false: nothing is waiting.
func (s *Store) next() bool {
	if s.batch != nil {
		return true
	}
	if len(s.pending) == 0 {
		s.mu.Lock()
		s.pending, s.queue = s.queue, nil
		for i := range s.pending {
			s.pending[i].fresh = s.open[s.pending[i].r.ID] != nil
		}
		s.mu.Unlock()
	}
	if len(s.pending) == 0 {
		return false
	}
	s.batch = s.prepare()
	return true
}

// prepare takes as many waiting receipts as one commit holds.
func (s *Store) prepare() *batch {
	b := &batch{}
	text := s.text[:0] // the last batch is done with it
	inBatch := map[core.CallID]bool{}
	added := false
	for len(b.items) < batchLimit && len(s.pending) > 0 && len(text) < s.maxBatch {
		w := s.pending[0]
		s.pending = s.pending[1:]
		b.items = append(b.items, w)
		if inBatch[w.r.ID] || !w.fresh && s.stored(w.r.ID) {
			continue
		}
		inBatch[w.r.ID] = true
		added = true
		from := len(text)
		text = s.encode(text, w.r)
		b.entries = s.receiptEntries(b.entries, w.r, text[from:len(text):len(text)])
		if s.recorder != nil {
			s.recorder.Record(w.r)
		}
	}
	if added {
		b.entries = s.changed(b.entries)
	}
	s.text = text
	return b
}

// encode appends a receipt. One that is beyond what the store takes loses its
// decision (the ranking of thousands of offers), then all of its unsigned part.
func (s *Store) encode(dst []byte, r *core.Receipt) []byte {
	from := len(dst)
	dst = s.encodeReceipt(dst, reflect.ValueOf(r).Elem())
	if len(dst)-from <= maxValue {
		return dst
	}
	short := *r
	short.Decision = nil
	if dst = s.encodeReceipt(dst[:from], reflect.ValueOf(&short).Elem()); len(dst)-from > maxValue {
		short.Annex = core.Annex{}
		dst = s.encodeReceipt(dst[:from], reflect.ValueOf(&short).Elem())
	}
	s.log.Warn("store: a receipt was too long to be kept whole", "call", r.ID)
	return dst
}

// stored tells whether a receipt is there, readable or not.
func (s *Store) stored(id core.CallID) bool {
	value, err := s.fetch(receiptKey(id))
	return value != nil || err != nil
}

// receiptEntries adds a receipt and its place in the job index.
func (s *Store) receiptEntries(list []entry, r *core.Receipt, text []byte) []entry {
	list = set(list, receiptKey(r.ID), text)
	if r.Job != "" && string(r.Job) != string(r.ID) {
		list = set(list, []byte(jobKeys(r.Job)+string(r.ID)), []byte{1})
	}
	return list
}

// changed adds what the Recorder derived; of several values of one name the last.
func (s *Store) changed(list []entry) []entry {
	if s.recorder == nil {
		return list
	}
	records := s.recorder.Changed()
	last := make(map[string]int, len(records))
	for i, r := range records {
		last[r.Kind+"/"+r.Name] = i
	}
	for i, r := range records {
		if last[r.Kind+"/"+r.Name] != i {
			continue
		}
		key, err := vaultKey(r.Kind, r.Name)
		if err == nil && len(r.Value) > maxValue {
			err = core.Errorf(core.Internal, "%d bytes are too many", len(r.Value))
		}
		if err != nil {
			s.log.Error("store: a record of the recorder cannot be kept", "kind", r.Kind, "err", err)
			continue
		}
		list = set(list, key, append([]byte{}, r.Value...))
	}
	return list
}

// write commits the batch, and tries until it is durable or ctx ends.
func (s *Store) write(ctx context.Context) {
	for wait := firstWait; ctx.Err() == nil; {
		if s.look() != nil {
			pause(ctx, lookEvery)
			continue
		}
		err := s.commit(s.batch.entries)
		if err == nil {
			s.committed()
			return
		}
		s.failed(err)
		pause(ctx, wait)
		wait = min(2*wait, longWait)
	}
}

// failed notes that receipts cannot be written now.
func (s *Store) failed(err error) {
	if s.sick.Load() == nil {
		s.log.Error("store: receipts cannot be written, trying again", "err", err)
	}
	s.sick.Store(&core.Error{
		Kind: core.Unavailable, Msg: "receipts cannot be written", Hint: "see the log of headway for the cause",
		RetryAfter: longWait, Err: err,
	})
}

// committed ends a batch that is durable.
func (s *Store) committed() {
	if s.sick.Swap(nil) != nil {
		s.log.Info("store: receipts are written again")
	}
	b := s.batch
	s.batch = nil
	var over []*generation
	s.mu.Lock()
	s.queued -= len(b.items)
	for _, w := range b.items {
		if g := s.settled(w.r.ID); g != nil {
			over = append(over, g)
		}
	}
	s.mu.Unlock()
	for _, g := range over {
		g.retire()
	}
	for _, w := range b.items {
		if w.done != nil {
			w.done()
		}
	}
}

// tellLost tells the Recorder of the receipts that Open made. What it derives is
// committed with the removal of their marks, so it is told once.
func (s *Store) tellLost(ctx context.Context) {
	for ctx.Err() == nil {
		var ids []core.CallID
		err := s.walk([]byte(lostPrefix), after(lostPrefix), false, func(key, _ []byte) bool {
			ids = append(ids, core.CallID(key[len(lostPrefix):]))
			return len(ids) < batchLimit
		})
		if err != nil {
			s.log.Error("store: lost receipts cannot be read", "err", err)
			return
		}
		if len(ids) == 0 {
			return
		}
		b := &batch{}
		for _, id := range ids {
			b.entries = unset(b.entries, []byte(lostPrefix+string(id)))
			value, err := s.fetch(receiptKey(id))
			if err != nil {
				s.log.Error("store: a lost receipt cannot be read", "call", id, "err", err)
				continue
			}
			r, err := decode(id, value)
			if err != nil {
				s.log.Error("store: a lost receipt cannot be read", "call", id, "err", cause(err))
			} else if s.recorder != nil {
				s.recorder.Record(r)
			}
		}
		b.entries = s.changed(b.entries)
		s.batch = b
		s.write(ctx)
	}
}

// flush writes what is waiting at a stop, with the ballast given up where the
// disk is full.
func (s *Store) flush() error {
	tries := 0
	for s.next() {
		err := s.lastCommit()
		if err == nil {
			s.committed()
			tries = 0
			continue
		}
		if tries++; tries == 3 {
			s.mu.Lock()
			defer s.mu.Unlock()
			return asError(err, "%d receipts cannot be written; their calls will be told as lost", s.queued)
		}
		pause(context.Background(), firstWait)
	}
	return nil
}

func (s *Store) lastCommit() error {
	if !s.room.fits(s.db.Opts().MemTableSize) {
		return errors.New("the disk is full")
	}
	return s.commit(s.batch.entries)
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
