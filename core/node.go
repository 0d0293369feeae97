package core

import (
	"context"
	"sync/atomic"
	"time"
)

// NodeReport is what a node says of itself when it comes and whenever it changes:
// what it serves, at what price. Everything in it is a claim, checked by the edge.
type NodeReport struct {
	Version   string         `json:"version"`
	Upstreams []NodeUpstream `json:"upstreams"`
}

// NodeUpstream is one model server of a node. The provider that it becomes is
// named NODE where Name is "", else NODE.NAME.
type NodeUpstream struct {
	Name   string `json:"name,omitempty"`
	Format Format `json:"format"`           // llamacpp, ollama or openai
	Server string `json:"server,omitempty"` // what it says it is, such as "llama.cpp b10488"
	Slots  int64  `json:"slots"`            // calls that it works on at once
	Queue  int64  `json:"queue"`            // calls that may wait for one
	Down   bool   `json:"down,omitempty"`   // it does not answer now
	// Credential is an opaque text that is another one whenever the node's credential for
	// the server may be another; "": it has none.
	Credential string      `json:"credential,omitempty"`
	Models     []NodeModel `json:"models"`
}

// NodeModel is one model that a node's server has.
type NodeModel struct {
	Model    Model             `json:"model"`             // what clients ask for
	Upstream string            `json:"upstream"`          // what the server calls it
	Aliases  []Model           `json:"aliases,omitempty"` //
	Loaded   Opt[bool]         `json:"loaded,omitzero"`   // in memory now; absent: the server does not say
	Price    Price             `json:"price"`
	Limits   OfferLimits       `json:"limits,omitzero"`
	Features Opt[Feature]      `json:"features,omitzero"`
	Labels   map[string]string `json:"labels,omitempty"`
}

// NodeTiming are a node's own figures of one call, all on the node's clock, in ms
// and tokens per second. Queued alone has the edge's admission in it, a duration
// that the edge measured and sent along (SPEC §4).
type NodeTiming struct {
	Queued          Opt[float64] `json:"queued_ms,omitzero"`
	SlotWait        Opt[float64] `json:"slot_wait_ms,omitzero"` // the wait for a free slot; 0: one was free
	UpstreamHeaders Opt[float64] `json:"upstream_headers_ms,omitzero"`
	FirstToken      Opt[float64] `json:"first_token_ms,omitzero"` // upstream send → first output
	Prompt          Opt[float64] `json:"prompt_ms,omitzero"`
	PromptTPS       Opt[float64] `json:"prompt_tps,omitzero"`
	Decode          Opt[float64] `json:"decode_ms,omitzero"`
	DecodeTPS       Opt[float64] `json:"decode_tps,omitzero"`
	FiguresFrom     string       `json:"figures_from,omitempty"` // server or stream, as Timing's
	Service         Opt[float64] `json:"service_ms,omitzero"`    // how long the slot was taken
}

// Waited tells whether the call did not find a free slot.
func (t *NodeTiming) Waited() bool { return t != nil && t.SlotWait.V > 0 }

// NodeTimingTrailer is the trailer in which the round trip of a node's call brings
// a NodeTiming as JSON. It is there once the body was read to its end or closed.
const NodeTimingTrailer = "Headway-Node-Timing"

// What no call and no machine does (SPEC §4). Speeds above these come from a count that
// holds tokens which were not worked on, such as Ollama's prompt_eval_count of a cached
// prompt, or from a time of a single step.
const (
	LongestFigure = 30 * 24 * 3600 * 1000 // ms: a month
	FastestPrompt = 250_000               // tokens/s
	FastestDecode = 100_000
)

// Sound is the same without the figures that cannot be: a node, and its model server,
// may say anything.
func (t NodeTiming) Sound() NodeTiming {
	if t.FiguresFrom != "server" && t.FiguresFrom != "stream" { // nobody knows whose they are
		t.FiguresFrom = ""
		t.Prompt, t.PromptTPS, t.Decode, t.DecodeTPS = Opt[float64]{}, Opt[float64]{}, Opt[float64]{}, Opt[float64]{}
	}
	keep := func(f *Opt[float64], most float64) {
		if f.OK = f.OK && f.V >= 0 && f.V <= most; !f.OK {
			f.V = 0
		}
		f.V = Micro(f.V)
	}
	for _, f := range [...]*Opt[float64]{&t.Queued, &t.SlotWait, &t.UpstreamHeaders, &t.FirstToken, &t.Prompt, &t.Decode, &t.Service} {
		keep(f, LongestFigure)
	}
	for _, f := range [...]struct {
		is   *Opt[float64]
		most float64
	}{{&t.PromptTPS, FastestPrompt}, {&t.DecodeTPS, FastestDecode}} {
		if keep(f.is, f.most); f.is.V == 0 { // no speed
			f.is.OK = false
		}
	}
	return t
}

// Dispatch is what a node is told of an attempt beside its request. The gateway puts
// it into the request's context.
type Dispatch struct {
	Call      CallID
	Attempt   int // 1 is the first
	Model     Model
	Operation Operation
	Streamed  bool
	Admission time.Duration // how long the edge had the call before it sent this attempt; set before the round trip
	// Placed, where not nil, is called once the node has taken the call, with whether it
	// waits for a slot, and where it did once more when it has one. It must not wait.
	Placed func(waits bool)
}

type dispatchKey struct{}

// Into gives a context that has the dispatch.
func (d *Dispatch) Into(ctx context.Context) context.Context {
	return context.WithValue(ctx, dispatchKey{}, d)
}

// DispatchOf is the dispatch of a context; nil: it has none.
func DispatchOf(ctx context.Context) *Dispatch {
	d, _ := ctx.Value(dispatchKey{}).(*Dispatch)
	return d
}

// NodeError is why the round trip of a node's call failed. Its words are also those
// of an attempt's record: these, or the ones that a provider's connection has
// (refused, dns, tls, connect).
type NodeError struct {
	Word       string
	RetryAfter Opt[time.Duration] // of NodeBusy
	Unsent     bool               // nothing of the call was sent: it says nothing of the node
	Timing     *NodeTiming        // what the node measured of it all the same; nil: it has told nothing
	told       atomic.Bool
}

// First tells, once, that nobody has asked before. All calls that a node's session had
// when it was lost fail by one NodeError: it was one failure.
func (e *NodeError) First() bool { return e.told.CompareAndSwap(false, true) }

// The words of a NodeError.
const (
	NodeGone     = "node_lost"     // its session ended, or it has fallen silent
	NodeBusy     = "node_busy"     // no slot is free and its queue is full
	NodeStopping = "node_stopping" //
	NodeRefused  = "node_refused"  // it does not know the upstream, or could not read the call
	NodeGap      = "node_gap"      // a message of the answer was lost on the way
	NodeFault    = "node_fault"    // it broke the protocol
	NodeTooSlow  = "node_too_slow" // it gave up as the answer was not taken
)

// Error is the word.
func (e *NodeError) Error() string { return e.Word }

// NodeCall is what a node kept of a call whose end the edge did not take: it was
// away, or the call was cut off. It is handed over once.
type NodeCall struct {
	Call     CallID     `json:"call"`
	Attempt  int        `json:"attempt"` // 1 is the first
	Node     NodeID     `json:"node"`    // set by the edge, not believed
	Provider ProviderID `json:"provider"`
	Model    Model      `json:"model"`
	Outcome  Outcome    `json:"outcome"` // as the node saw it
	Usage    Usage      `json:"usage,omitzero"`
	Timing   NodeTiming `json:"node_timing"`
}

// How a node stands.
const (
	NodeInvited = "invited" // its join string has not been used
	NodeUp      = "up"
	NodeLost    = "lost"
	NodeRevoked = "revoked"
)

// NodeStatus is one node of the list of SPEC §24.
type NodeStatus struct {
	Name       NodeID         `json:"name"`
	State      string         `json:"state"`
	Owner      string         `json:"owner,omitempty"`
	Slots      int64          `json:"slots"`
	SlotsInUse int64          `json:"slots_in_use"`
	Queue      int64          `json:"queue"` // calls that wait for a slot
	InFlight   int64          `json:"in_flight"`
	Models     []Model        `json:"models"`
	Version    string         `json:"version,omitempty"`
	Upstreams  []NodeUpstream `json:"upstreams,omitempty"`
	EnrolledAt Opt[time.Time] `json:"enrolled_at,omitzero"` // UTC
	SeenAt     Opt[time.Time] `json:"seen_at,omitzero"`     // on the edge's clock, UTC
	ExpiresAt  Opt[time.Time] `json:"expires_at,omitzero"`  // of a join string that was not used
}

// Stand is how the line of calls before a node's model server stands.
type Stand struct {
	Up   bool // the node is there and its server answers
	Full bool // no slot is free
	// Ahead is how many service times pass until a slot is free for one more call;
	// 0 where one is free.
	Ahead float64
	// Service is the mean time that a call holds a slot, ms; absent before the first.
	Service Opt[float64]
}
