package fleet

import (
	"math"
	"sync/atomic"

	"headway/core"
)

// server is one model server of a node, as the edge sees it: the transport of a
// provider, and the line before it. It is asked in every decision: all of it is read
// without a lock.
type server struct {
	edge     *Edge
	provider core.ProviderID
	node     core.NodeID
	name     string // of the node's upstream

	session atomic.Pointer[edgeSession] // nil: the node does not have it
	slots   atomic.Int64
	down    atomic.Bool
	held    atomic.Int64  // round trips under way, from start to end
	others  atomic.Int64  // slots that somebody else has taken, by the last beat
	service atomic.Uint64 // mean time that a call holds a slot, ms, as bits; 0: none yet
}

// providerID names a node's upstream.
func providerID(node core.NodeID, upstream string) core.ProviderID {
	if upstream == "" {
		return core.ProviderID(node)
	}
	return core.ProviderID(string(node) + "." + upstream)
}

// Stand is how the line stands at this moment.
func (u *server) Stand() core.Stand {
	s := u.session.Load()
	st := core.Stand{Up: s != nil && s.up.Load() && !s.stops.Load() && !u.down.Load()}
	slots, taken := max(u.slots.Load(), 1), u.held.Load()+u.others.Load()
	if taken >= slots {
		st.Full, st.Ahead = true, float64(taken-slots+1)/float64(slots)
	}
	if bits := u.service.Load(); bits != 0 {
		st.Service = core.Some(math.Float64frombits(bits))
	}
	return st
}

// served folds the time that a call has held its slot into the mean: 80% old, 20%
// new.
func (u *server) served(ms core.Opt[float64]) {
	if !ms.OK || !(ms.V > 0) {
		return
	}
	for {
		old := u.service.Load()
		mean := ms.V
		if old != 0 {
			mean = 0.8*math.Float64frombits(old) + 0.2*ms.V
		}
		if u.service.CompareAndSwap(old, math.Float64bits(mean)) {
			return
		}
	}
}
