package store

import (
	"context"
	"errors"
	"sync"
	"time"

	"headway/core"
)

const (
	gatherFor  = 100 * time.Millisecond
	lookEvery  = 100 * time.Millisecond
	lookOften  = 2 * time.Millisecond
	hurryFor   = time.Second // a table is made in less
	cleanEvery = time.Hour
	signEvery  = time.Second           // how often an idle writer asks whether something is due
	signRarely = 60                    // of these, where something is due and nothing comes of it
	firstWait  = 50 * time.Millisecond // before a failed commit is tried again
	longWait   = 5 * time.Second
)

// Append hands a receipt over to the writer (core.Book). The receipt must not
// change from then on. The writer itself calls done, so done must be short.
func (s *Store) Append(r *core.Receipt, done func()) {
	s.mu.Lock()
	s.queue = append(s.queue, waiting{r: r, done: done})
	s.queued++
	enough := len(s.queue) == batchLimit
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default: // it has been woken already
	}
	if done != nil || enough {
		s.urge()
	}
}

// urge has the writer gather no more.
func (s *Store) urge() {
	select {
	case s.awaited <- struct{}{}:
	default:
	}
}

// CatchUp returns once the receipts that were handed over before are durable
// (core.Book).
func (s *Store) CatchUp(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for last := s.durable + uint64(s.queued); s.durable < last; {
		caught := s.caught
		s.mu.Unlock()
		s.urge()
		select {
		case <-caught:
		case <-ctx.Done():
		case <-s.closing:
		}
		s.mu.Lock()
		if ctx.Err() != nil || s.closed {
			return
		}
	}
}

// Run is the writer. It makes receipts durable until ctx ends or the store is
// closed, then writes what is waiting and returns; an error says how many
// receipts it could not write.
func (s *Store) Run(ctx context.Context) error {
	s.running <- struct{}{} // from here on Close waits, so the database stays
	defer func() { <-s.running }()
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
	write := func() bool {
		s.write(ctx)
		return ctx.Err() == nil
	}
	if s.batch == nil {
		s.sign() // what an earlier process did not come to
	}
	if s.batch == nil || write() { // one that SetRecorder could not write
		s.tellLost(write)
	}
	due, look := s.ticks()
	defer due.Stop()
	more := false // what is due may not have been all
	for ctx.Err() == nil {
		s.gather(ctx)
		if !s.next() {
			if more {
				look()
				more = s.batch != nil
				continue
			}
			select {
			case <-s.wake:
			case <-due.C:
				more = true
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

// gather lets a group come together, until it is a whole batch or somebody waits for a
// receipt: each commit wakes half a dozen of Badger's goroutines and the disk. A process that is
// killed meanwhile has intents for what waits here.
func (s *Store) gather(ctx context.Context) {
	s.mu.Lock()
	few := len(s.queue) > 0 && len(s.queue) < batchLimit
	s.mu.Unlock()
	if !few || len(s.pending) > 0 || s.batch != nil {
		return
	}
	t := time.NewTimer(s.group)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.awaited:
	case <-ctx.Done():
	}
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
	s.mu.Lock()
	s.queued -= len(b.items)
	s.durable += uint64(len(b.items))
	close(s.caught)
	s.caught = make(chan struct{})
	for _, w := range b.items {
		if g := s.settled(w.r.ID); g != nil {
			s.retire(g)
		}
	}
	s.mu.Unlock()
	for _, w := range b.items {
		if w.done != nil {
			w.done()
		}
	}
	s.sign()
}

// sign lets what is durable be signed. No receipt waits for it: where it fails they
// are kept all the same, and it is tried again.
func (s *Store) sign() {
	signer, ok := s.recorder.(core.Signer)
	if !ok {
		return
	}
	why := ""
	err := signer.Durable()
	if err != nil {
		why = err.Error()
	}
	switch was := s.signing; {
	case why == was:
	case why == "":
		s.log.Info("store: what is kept is signed again")
	default:
		s.log.Error("store: receipts are kept and cannot be signed, trying again", "err", err)
	}
	s.signing = why
}

// ticks are when an idle writer looks whether the recorder has something to commit
// or to sign without a receipt; look then makes the batch, which next finds.
func (s *Store) ticks() (t *time.Ticker, look func()) {
	t = time.NewTicker(signEvery)
	signer, ok := s.recorder.(core.Signer)
	if !ok {
		t.Stop()
	}
	idle := 0
	return t, func() {
		if s.signing != "" {
			s.sign()
		}
		if idle--; idle > 0 || !signer.Due() {
			return
		}
		if entries := s.changed(nil); len(entries) > 0 {
			s.batch = &batch{entries: entries}
			return
		}
		if signer.Due() {
			idle = signRarely // it says why in the log
		}
	}
}

// tellLost tells the Recorder of the receipts that Open made. What it derives is
// committed with the removal of their marks, so it is told once. write commits the
// batch; false: it is to stop there.
func (s *Store) tellLost(write func() bool) {
	for {
		var ids []core.CallID
		err := s.walk([]span{{lo: []byte(lostPrefix), hi: after(lostPrefix)}}, func(key, _ []byte) bool {
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
			r, err := s.decode(id, value)
			if err != nil {
				s.log.Error("store: a lost receipt cannot be read", "call", id, "err", cause(err))
			} else if s.recorder != nil {
				s.recorder.Record(r)
			}
		}
		b.entries = s.changed(b.entries)
		if s.batch = b; !write() {
			return
		}
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
