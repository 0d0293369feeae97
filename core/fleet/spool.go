package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"headway/core"
)

const (
	spoolKind = "node-call"
	// mostSpooled is how many calls are kept while the edge is away: at 1 KB each a
	// hundred MB at most. mostFresh is how many may wait for a disk.
	mostSpooled = 100_000
	mostFresh   = 10_000
	callsTime   = 5 * time.Second // how long a handing over waits for its answer
	callsAgain  = 30 * time.Second
	callsBytes  = 256 << 10 // of one message
	mostDeletes = 1000
)

// spool keeps the calls whose end the edge has not taken, and hands them over
// (FLEET.md §6): from memory while there is a session, else from the vault.
type spool struct {
	p    *NodeParts
	most int // records in the vault

	mu    sync.Mutex // guards what follows
	fresh []core.NodeCall
	lost  int // calls that there was no room for
	link  core.Link
	round int // sessions so far

	wake chan struct{} // of one
	kept int           // records in the vault; run's goroutine alone
}

func newSpool(p *NodeParts) *spool {
	return &spool{p: p, most: mostSpooled, wake: make(chan struct{}, 1)}
}

// add takes calls to hand over. It does not wait.
func (p *spool) add(calls ...core.NodeCall) {
	if len(calls) == 0 {
		return
	}
	p.mu.Lock()
	p.fresh = append(p.fresh, calls...)
	if over := len(p.fresh) - mostFresh; over > 0 {
		p.fresh = slices.Delete(p.fresh, 0, over)
		p.lost += over
	}
	p.mu.Unlock()
	p.woken()
}

// attach says that there is a session; detach, that it has ended.
func (p *spool) attach(link core.Link) {
	p.mu.Lock()
	p.link = link
	p.round++
	p.mu.Unlock()
	p.woken()
}

func (p *spool) detach() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.link = nil
}

func (p *spool) woken() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *spool) take() (fresh []core.NodeCall, link core.Link, round int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fresh, p.fresh = p.fresh, nil
	if p.lost > 0 {
		p.p.Log.Error("figures of calls were dropped: there were too many to keep", "calls", p.lost)
		p.lost = 0
	}
	return fresh, p.link, p.round
}

// run hands over and keeps until ctx ends, then keeps what is left.
func (p *spool) run(ctx context.Context) {
	p.fault(p.p.Vault.All(spoolKind, func(string, []byte) bool { p.kept++; return true }))
	var to int // the session that was last drained to, and when
	var at time.Time
	for {
		fresh, link, round := p.take()
		if link != nil {
			fresh = p.handOver(ctx, link, fresh)
		}
		p.keep(fresh)
		if now := p.p.Clock(); link != nil && p.kept > 0 && (round != to || now.Sub(at) >= callsAgain) {
			to, at = round, now
			p.drain(ctx, link)
		}
		timer := time.NewTimer(callsAgain)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-p.wake:
		}
		timer.Stop()
		if ctx.Err() != nil {
			fresh, _, _ := p.take()
			p.keep(fresh)
			return
		}
	}
}

func (p *spool) fault(err error) {
	if err != nil {
		p.p.Log.Error("figures of calls that the edge has not taken", "error", err)
	}
}

// callName is a call's id in a spool.
func callName(c *core.NodeCall) string { return fmt.Sprintf("%s.%d", c.Call, c.Attempt) }

// handOver sends calls, and gives back those that the edge does not have then.
func (p *spool) handOver(ctx context.Context, link core.Link, calls []core.NodeCall) (left []core.NodeCall) {
	for len(calls) > 0 {
		batch := calls[:min(len(calls), mostCalls)]
		calls = calls[len(batch):]
		records := make([]core.Record, 0, len(batch))
		for i := range batch {
			b, err := json.Marshal(&batch[i])
			if err != nil {
				continue
			}
			records = append(records, core.Record{Name: callName(&batch[i]), Value: b})
		}
		took := p.request(ctx, link, records)
		for _, c := range batch {
			if !slices.Contains(took, callName(&c)) {
				left = append(left, c)
			}
		}
		if took == nil { // nobody answers
			return append(left, calls...)
		}
	}
	return left
}

// request sends one batch and gives the names that the edge has now, nil where it
// did not answer.
func (p *spool) request(ctx context.Context, link core.Link, records []core.Record) []string {
	values := make([]json.RawMessage, len(records))
	for i, r := range records {
		values[i] = r.Value
	}
	data, err := json.Marshal(values)
	if err != nil {
		p.fault(err)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callsTime)
	defer cancel()
	answer, err := link.Request(ctx, subject(subjectCalls, p.p.Name), data)
	if err != nil {
		return nil
	}
	k := kept{Kept: []string{}}
	if json.Unmarshal(answer, &k) != nil {
		return nil
	}
	return k.Kept
}

// keep puts calls into the vault; where there are too many, the oldest make room.
func (p *spool) keep(calls []core.NodeCall) {
	for len(calls) > 0 {
		batch := calls[:min(len(calls), mostCalls)]
		calls = calls[len(batch):]
		var puts []core.Record
		more := 0
		for i := range batch {
			name := callName(&batch[i])
			b, err := json.Marshal(&batch[i])
			if err != nil {
				p.fault(err)
				continue
			}
			if was, err := p.p.Vault.Get(spoolKind, name); err == nil && was == nil && !slices.ContainsFunc(puts, func(r core.Record) bool { return r.Name == name }) {
				more++
			}
			puts = append(puts, core.Record{Kind: spoolKind, Name: name, Value: b})
		}
		if err := p.p.Vault.Write(puts, nil); err != nil {
			p.fault(err)
			p.mu.Lock() // for another time
			p.fresh = append(append([]core.NodeCall(nil), batch...), append(calls, p.fresh...)...)
			if over := len(p.fresh) - mostFresh; over > 0 {
				p.fresh = slices.Delete(p.fresh, 0, over)
				p.lost += over
			}
			p.mu.Unlock()
			return
		}
		p.kept += more
	}
	if over := p.kept - p.most; over > 0 {
		var names []string
		p.fault(p.p.Vault.Scan(spoolKind, "", "", false, func(name string, _ []byte) bool {
			names = append(names, name)
			return len(names) < over
		}))
		p.drop(names)
		p.p.Log.Warn("figures of calls were dropped: the edge has been away for too long", "calls", len(names))
	}
}

// drop deletes records.
func (p *spool) drop(names []string) {
	for part := range slices.Chunk(names, mostDeletes) {
		deletes := make([]core.Record, len(part))
		for i, name := range part {
			deletes[i] = core.Record{Kind: spoolKind, Name: name}
		}
		if err := p.p.Vault.Write(nil, deletes); err != nil {
			p.fault(err)
			return
		}
		p.kept -= len(part)
	}
}

// drain hands over what the vault has, oldest first.
func (p *spool) drain(ctx context.Context, link core.Link) {
	for from := ""; ctx.Err() == nil; {
		var batch []core.Record
		var spoilt []string
		size := 0
		err := p.p.Vault.Scan(spoolKind, from, "", false, func(name string, value []byte) bool {
			if size += len(value); size > callsBytes && len(batch) > 0 {
				return false
			}
			from = name + "\x00"
			if !json.Valid(value) || len(value) > callsBytes {
				spoilt = append(spoilt, name)
			} else {
				batch = append(batch, core.Record{Name: name, Value: value})
			}
			return len(batch) < mostCalls && len(spoilt) < mostCalls
		})
		p.fault(err)
		if len(spoilt) > 0 {
			p.p.Log.Error("figures of calls cannot be read and were dropped", "calls", len(spoilt))
			p.drop(spoilt)
		}
		if len(batch) == 0 {
			return
		}
		took := p.request(ctx, link, batch)
		if took == nil {
			return // another time
		}
		p.drop(slices.DeleteFunc(took, func(name string) bool {
			return !slices.ContainsFunc(batch, func(r core.Record) bool { return r.Name == name })
		}))
	}
}
