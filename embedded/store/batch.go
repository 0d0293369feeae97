package store

import (
	"reflect"

	"headway/core"
)

const batchLimit = 256 // receipts in one commit

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
	// Recorders say in a receipt what they made of it; who handed it over may still
	// read it.
	r := &core.Receipt{}
	names := 0 // bytes: what is derived of a receipt has them in it, and is not packed
	for len(b.items) < batchLimit && len(s.pending) > 0 && len(text) < s.maxBatch && names < s.maxBatch/4 {
		w := s.pending[0]
		s.pending = s.pending[1:]
		b.items = append(b.items, w)
		if inBatch[w.r.ID] || !w.fresh && s.stored(w.r.ID) {
			continue
		}
		inBatch[w.r.ID] = true
		added = true
		names += len(w.r.Model) + len(w.r.Offer) + len(w.r.Provider) + len(w.r.Node)
		*r = *w.r
		if s.recorder != nil {
			s.recorder.Record(r)
		}
		from := len(text)
		text = s.encode(text, r)
		b.entries = s.receiptEntries(b.entries, r, text[from:len(text):len(text)])
	}
	if added {
		b.entries = s.changed(b.entries)
	}
	s.text = text
	return b
}

// encode appends a receipt, packed. One that is beyond what the store takes loses
// its decision (the ranking of thousands of offers), then all of its unsigned
// part but what measures are recomputed from.
func (s *Store) encode(dst []byte, r *core.Receipt) []byte {
	text := s.encodeReceipt(s.plain[:0], reflect.ValueOf(r).Elem())
	if len(text) > maxValue {
		short := *r
		short.Decision, short.Expected = nil, r.ExpectedThere()
		if text = s.encodeReceipt(text[:0], reflect.ValueOf(&short).Elem()); len(text) > maxValue {
			short.Annex = r.Measured()
			text = s.encodeReceipt(text[:0], reflect.ValueOf(&short).Elem())
		}
		s.log.Warn("store: a receipt was too long to be kept whole", "call", r.ID)
	}
	s.plain = text
	return s.packer.pack(dst, text)
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
