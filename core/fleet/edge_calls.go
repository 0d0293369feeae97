package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"headway/core"
)

// kindTold is the kind of the vault's records of what nodes told of calls beside
// their receipts. A record's name is CALL.ATTEMPT.
const kindTold = "node-told"

const (
	mostTold    = 100_000 // records that are kept; the oldest go
	dropTold    = 500     // at once
	mostAttempt = 8       // no call has as many
	// waitReceipt is how long an answer waits for receipts that are to come, askReceipt
	// how often it looks for them: a node asks again after half a minute only.
	waitReceipt = 2 * time.Second
	askReceipt  = 100 * time.Millisecond
	// noReceipt is how long after a call began its receipt may still come. Later the
	// call is one that no receipt is kept of.
	noReceipt = 24 * time.Hour
)

// toldCalls counts the records that are kept.
type toldCalls struct {
	mu    sync.Mutex
	known bool
	n     int
}

// onCalls keeps what a node tells of calls whose end the edge did not take, and
// answers with what need not be told again.
func (s *edgeSession) onCalls(_, reply string, data []byte) {
	s.alive()
	var list []core.NodeCall
	if !s.inbox(reply) || json.Unmarshal(data, &list) != nil || len(list) > mostCalls {
		s.breach("malformed calls")
		return
	}
	k := kept{Kept: []string{}}
	var puts []core.Record
	var named []string
	timer := time.NewTimer(waitReceipt)
	defer timer.Stop()
	for last := false; ; {
		open := list[:0] // those whose receipt is still to come
		for i := range list {
			c := &list[i]
			id := toldName(c.Call, c.Attempt)
			switch keep, done := s.edge.judge(s.name, c); {
			case keep:
				text, err := json.Marshal(c)
				if err != nil {
					continue // nothing of it can fail
				}
				puts, named = append(puts, core.Record{Kind: kindTold, Name: id, Value: text}), append(named, id)
			case done:
				k.Kept = append(k.Kept, id)
			default:
				open = append(open, *c)
			}
		}
		if list = open; last || len(list) == 0 {
			break
		}
		// The node has told at once of a call that was cut off, and its receipt is
		// durable a little later.
		select {
		case <-timer.C:
			last = true
		case <-s.gone:
			last = true
		case <-time.After(askReceipt):
		}
	}
	if err := s.edge.keep(puts); err != nil {
		s.edge.Log.Error("what a node told of its calls could not be kept; it will tell it again", "node", s.name, "error", err)
	} else {
		k.Kept = append(k.Kept, named...)
	}
	s.say(reply, k)
}

func toldName(id core.CallID, attempt int) string { return string(id) + "." + strconv.Itoa(attempt) }

// judge decides on one call that a node tells of, and mends it: keep it, or be done
// with it; neither: its receipt is still to come.
func (e *Edge) judge(node core.NodeID, c *core.NodeCall) (keep, done bool) {
	at, ok := c.Call.Time()
	if !ok || c.Attempt < 1 || c.Attempt > mostAttempt || !ownProvider(node, c.Provider) || !isName(string(c.Model), true) {
		e.note(slog.LevelWarn, node, "a node told of a call that is none")
		return false, true
	}
	r, err := e.Book.Receipt(c.Call)
	var known *core.Error
	switch {
	case err == nil:
	case errors.As(err, &known) && known.Kind == core.NotFound:
		// The id's time is of this machine's clock, as is now.
		return false, e.Clock().Sub(at) > noReceipt
	default:
		return false, false
	}
	// A call whose process died has a receipt without attempts.
	if n := len(r.Attempts); n > 0 && (c.Attempt > n || r.Attempts[c.Attempt-1].Node != node) {
		e.note(slog.LevelWarn, node, "a node told of a call that was not sent there", "id", c.Call)
		return false, true
	}
	if c.Attempt == len(r.Attempts) && r.Node == node && r.NodeTiming != nil && r.NodeTiming.Service.OK {
		return false, true // all of it is in the receipt
	}
	c.Node = node
	c.Timing = c.Timing.Sound()
	c.Usage = soundUsage(c.Usage)
	switch c.Outcome {
	case core.Settled, core.Failed, core.Truncated, core.TimedOut, core.ClientGone, core.ClientStalled, core.Lost:
	default:
		c.Outcome = core.Failed
	}
	return true, true
}

// ownProvider tells whether a provider is one of a node's.
func ownProvider(node core.NodeID, p core.ProviderID) bool {
	of, name, named := strings.Cut(string(p), ".")
	return core.NodeID(of) == node && (!named || isLabel(name))
}

// soundUsage is a usage without counts that cannot be.
func soundUsage(u core.Usage) core.Usage {
	for _, n := range [...]*core.Opt[int64]{&u.UncachedInput, &u.CacheRead, &u.CacheWrite, &u.CacheWrite1h, &u.Output, &u.Reasoning} {
		if n.V < 0 || n.V > reportTokens {
			*n = core.Opt[int64]{}
		}
	}
	return u
}

// keep writes records; those that are there are written again. Beyond mostTold the
// oldest go.
func (e *Edge) keep(puts []core.Record) error {
	if len(puts) == 0 {
		return nil
	}
	t := &e.calls
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.known {
		n := 0
		if err := e.Vault.All(kindTold, func(string, []byte) bool { n++; return true }); err != nil {
			return err
		}
		t.known, t.n = true, n
	}
	fresh := 0
	for _, r := range puts {
		old, err := e.Vault.Get(r.Kind, r.Name)
		if err != nil {
			return err
		}
		if old == nil {
			fresh++
		}
	}
	var drops []core.Record
	if t.n+fresh > mostTold {
		err := e.Vault.Scan(kindTold, "", "", false, func(name string, _ []byte) bool {
			drops = append(drops, core.Record{Kind: kindTold, Name: name})
			return len(drops) < dropTold
		})
		if err != nil {
			return err
		}
	}
	if err := e.Vault.Write(puts, drops); err != nil {
		return err
	}
	t.n += fresh - len(drops)
	return nil
}

// readCalls reads what was kept of a call.
func readCalls(v core.Vault, id core.CallID) (list []core.NodeCall, err error) {
	if _, ok := id.Time(); !ok {
		return nil, nil
	}
	var bad error
	err = v.Scan(kindTold, string(id)+".", string(id)+"/", false, func(name string, value []byte) bool {
		var c core.NodeCall
		if bad = json.Unmarshal(value, &c); bad != nil {
			bad = &core.Error{Kind: core.Unavailable, Msg: fmt.Sprintf("what a node told of call %s cannot be read", id), Err: bad}
			return false
		}
		list = append(list, c)
		return true
	})
	return list, errors.Join(err, bad)
}
