package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"headway/core"
)

// spooled is a call that ended at a time.
func spooled(at time.Time) core.NodeCall {
	return core.NodeCall{Call: core.NewCallID(at), Attempt: 1, Node: "den", Provider: "den", Model: "m", Outcome: core.Settled,
		Timing: core.NodeTiming{Service: core.Some(1.5)}}
}

func spooledName(i int) string { return fmt.Sprintf("%026d.1", i) }

// runSpool runs one until stop, which waits for its end.
func runSpool(t *testing.T, v core.Vault) (p *spool, stop func()) {
	p = newSpool(&NodeParts{Clock: time.Now, Log: slog.New(slog.NewTextHandler(testLog{t}, nil)), Name: "den", Vault: v})
	return p, p.runUntil()
}

func (p *spool) runUntil() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { p.run(ctx) })
	return func() { cancel(); run.Wait() }
}

// Calls that end while the edge is away are there after a restart, and are handed
// over once in batches; what the edge does not name is sent again.
func TestSpoolKeepsAcrossARestart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		vault := core.NewMemory()
		p, stop := runSpool(t, vault)
		var want []string
		for i := range 350 {
			c := spooled(time.Now().Add(time.Duration(i) * time.Millisecond))
			want = append(want, callName(&c))
			p.add(c)
		}
		p.add(core.NodeCall{Call: core.CallID(strings.TrimSuffix(want[0], ".1")), Attempt: 1}) // again
		until(t, "all on the disk", func() bool { return len(vaultNames(t, vault)) == len(want) })
		stop()

		e := newPlayedEdge(t)
		refuse := atomic.Bool{}
		refuse.Store(true)
		e.reject = func(c core.NodeCall) bool { return refuse.Load() && callName(&c) == want[7] }
		e.play()
		p, stop = runSpool(t, vault)
		p.attach(e.join())
		until(t, "all but one handed over", func() bool { return len(vaultNames(t, vault)) == 1 })
		if _, messages, calls := e.counts(); messages != 4 || calls != 349 {
			t.Errorf("%d calls in %d messages", calls, messages)
		}
		refuse.Store(false)
		time.Sleep(callsAgain + time.Second)
		_, messages, handed := e.counts()
		if got := vaultNames(t, vault); len(got) != 0 || handed != len(want) || messages != 5 {
			t.Errorf("left %v, %d calls in %d messages", got, handed, messages)
		}
		stop()
	})
}

// While there is a session, nothing is written.
func TestSpoolHandsOverAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e := newPlayedEdge(t)
		e.play()
		v := &countedVault{Memory: core.NewMemory()}
		p, stop := runSpool(t, v)
		defer stop()
		p.attach(e.join())
		c := spooled(time.Now())
		p.add(c)
		if got := e.handedOver(callName(&c)); got != c {
			t.Errorf("%+v", got)
		}
		if n := v.writes.Load(); n != 0 {
			t.Errorf("%d writes", n)
		}
	})
}

type countedVault struct {
	*core.Memory
	writes atomic.Int64
	err    atomic.Pointer[error]
}

func (v *countedVault) Write(puts, deletes []core.Record) error {
	v.writes.Add(1)
	if err := v.err.Load(); err != nil {
		return *err
	}
	if len(puts)+len(deletes) > 1000 {
		return errors.New("too many records")
	}
	return v.Memory.Write(puts, deletes)
}

// Where there are too many the oldest go; what cannot be read does not stand in the way.
func TestSpoolIsBounded(t *testing.T) {
	v := &countedVault{Memory: core.NewMemory()}
	const most = 5000
	for i := range most {
		if err := v.Put(spoolKind, spooledName(i), []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	p := newSpool(&NodeParts{Clock: time.Now, Log: slog.New(slog.NewTextHandler(testLog{t}, nil)), Name: "den", Vault: v})
	p.most = most
	stop := p.runUntil()
	var calls []core.NodeCall
	for i := range 2500 {
		calls = append(calls, core.NodeCall{Call: core.CallID(strings.TrimSuffix(spooledName(most+i), ".1")), Attempt: 1})
	}
	p.add(calls...)
	until(t, "the newest there", func() bool { b, _ := v.Get(spoolKind, spooledName(most+2499)); return b != nil })
	stop()
	names := vaultNames(t, v)
	if len(names) != most || names[0] != spooledName(2500) || names[len(names)-1] != spooledName(most+2499) {
		t.Errorf("%d from %s to %s", len(names), names[0], names[len(names)-1])
	}
}

func TestSpoolDropsWhatCannotBeRead(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		v := core.NewMemory()
		good := spooled(time.Now())
		b, _ := json.Marshal(good)
		for name, value := range map[string][]byte{spooledName(0): []byte("{broken"), spooledName(1): make([]byte, callsBytes+1), callName(&good): b} {
			if err := v.Put(spoolKind, name, value); err != nil {
				t.Fatal(err)
			}
		}
		e := newPlayedEdge(t)
		e.play()
		p, stop := runSpool(t, v)
		defer stop()
		p.attach(e.join())
		e.handedOver(callName(&good))
		until(t, "an empty vault", func() bool { return len(vaultNames(t, v)) == 0 })
	})
}

// A disk that takes nothing now gets it later; a crowd beyond what memory may hold
// loses its oldest.
func TestSpoolWithoutADisk(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		v := &countedVault{Memory: core.NewMemory()}
		full := errors.New("no space left")
		v.err.Store(&full)
		p, stop := runSpool(t, v)
		var calls []core.NodeCall
		for i := range mostFresh + 10 {
			calls = append(calls, core.NodeCall{Call: core.CallID(strings.TrimSuffix(spooledName(i), ".1")), Attempt: 1})
		}
		p.add(calls...)
		time.Sleep(time.Second)
		v.err.Store(nil)
		time.Sleep(callsAgain + time.Second)
		stop()
		if names := vaultNames(t, v); len(names) != mostFresh || slices.Contains(names, spooledName(9)) {
			t.Errorf("%d kept, from %v", len(names), names[:min(1, len(names))])
		}
	})
}

// What the edge took by an end is not handed over as well; what it gave up is, also
// where the end was on its way.
func TestNodeHandsOverWhatWasNotTaken(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		u, parts := still(brief)
		r := newNodeRig(t, rigOf{parts: parts, edge: func(e *playedEdge) { e.welcome.HeartbeatMS = 1000 }}, u)
		r.ready(1)
		taken, crossed, lost := r.chat(), r.chat(), r.chat()
		taken.all()
		for _, s := range []*playedStream{crossed, lost} {
			s.kindAt(3, kindEnd) // and it is not forgotten: the edge has not read it
		}
		crossed.cancel()
		if c := r.handedOver(string(crossed.call) + ".1"); c.Outcome != core.Settled || c.Usage.Output != core.Some(int64(9)) || !c.Timing.Service.OK {
			t.Errorf("%+v", c)
		}
		time.Sleep(5 * time.Second)
		if _, _, n := r.counts(); n != 1 {
			t.Errorf("%d calls were handed over", n)
		}
		r.cutAll()
		r.handedOver(string(lost.call) + ".1")
		if _, _, n := r.counts(); n != 2 {
			t.Errorf("%d calls were handed over", n)
		}
	})
}
