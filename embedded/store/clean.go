package store

import (
	"context"
	"errors"
	"math"

	"github.com/dgraph-io/badger/v4"

	"headway/core"
)

// Clean frees the space of overwritten and deleted values (case 059). Run calls
// it every hour. It waits for a compaction that is under way; on a full disk it
// does nothing and says so, since it needs room before it makes any.
func (s *Store) Clean(ctx context.Context) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	for ctx.Err() == nil {
		if err := s.look(); err != nil {
			return err
		}
		err := s.db.RunValueLogGC(0.5)
		if errors.Is(err, badger.ErrNoRewrite) || errors.Is(err, badger.ErrRejected) {
			break
		}
		if err != nil {
			return asError(err, "the store cannot be cleaned")
		}
	}
	for ctx.Err() == nil {
		if done, err := s.compact(); done || err != nil {
			return asError(err, "the store cannot be cleaned")
		}
		pause(ctx, firstWait)
	}
	return ctx.Err()
}

// compact merges all tables into one level, which leaves the last version of each
// key; false: one is under way, or it may not be. Tables that nothing overlaps stay as they are, so
// its cost is that of what is new. Badger's own compactors are off, because they
// begin whenever they like, on a full disk too.
func (s *Store) compact() (bool, error) {
	return s.compacting(func() error { return s.db.Flatten(1) })
}

// compacting does what rewrites tables, once all of them have been read.
func (s *Store) compacting(do func() error) (bool, error) {
	if !s.room.compacting.CompareAndSwap(false, true) {
		return false, nil
	}
	defer s.room.compacting.Store(false)
	if err := s.look(); err != nil {
		return false, err
	}
	err := s.tables.check(s.db, math.MaxInt64, func() bool {
		select {
		case <-s.closing:
			return false
		default:
			return true
		}
	})
	if err != nil {
		s.damaged.Store(true)
		return false, &core.Error{
			Kind: core.Unavailable, Msg: s.dir + " has a damaged table: its space is no longer freed", Hint: restoreHint, Err: err,
		}
	}
	select {
	case <-s.closing:
		return false, errClosed()
	default:
		return true, do()
	}
}

// compactIfDue compacts once enough new tables have come together.
func (s *Store) compactIfDue(ctx context.Context) {
	if s.damaged.Load() || s.room.refusal() != nil || s.db.Levels()[0].NumTables < levelZero {
		return
	}
	_, err := s.compact()
	switch {
	case err == nil || s.room.refusal() != nil || ctx.Err() != nil:
	case s.damaged.Load():
		s.log.Error("store: damaged", "err", err, "cause", cause(err))
	default:
		s.log.Warn("store: a compaction failed", "err", err)
		pause(ctx, longWait)
	}
}

func (s *Store) cleanUp(ctx context.Context) {
	if err := s.Clean(ctx); err != nil && ctx.Err() == nil && s.room.refusal() == nil {
		s.log.Warn("store: clean-up failed", "err", err, "cause", cause(err))
	}
}
