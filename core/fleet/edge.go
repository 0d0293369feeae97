package fleet

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"headway/core"
)

// EdgeParts are what an edge works with.
type EdgeParts struct {
	Clock core.Clock
	Log   *slog.Logger
	Bus   core.Bus
	Book  core.Book  // tells which calls have a node's figures in their receipts
	Vault core.Vault // keeps those of the others
	// Heartbeat is how often both sides report, Misses how many reports that fail to
	// come make a node lost.
	Heartbeat time.Duration
	Misses    int
	// Changed is called, from a goroutine of Run's, when what Offered gives has changed.
	Changed func()
	// Disconnect ends a node's connection.
	Disconnect func(core.NodeID)
}

// Edge is the end of the fleet that calls come from: it knows which nodes are here
// and what they offer, and makes the round trips to them. Its methods may be called
// concurrently.
type Edge struct {
	EdgeParts
}

// NewEdge makes an edge without nodes. Run must run for it to work.
func NewEdge(p EdgeParts) *Edge { return &Edge{EdgeParts: p} }

// Run keeps the heartbeats, until ctx ends.
func (e *Edge) Run(ctx context.Context) error { panic("contract") }

// Joined says that a node's session has begun, and that sessions of it before this
// one count no more; owner is whose machine it is. It does not wait.
func (e *Edge) Joined(node core.NodeID, session uint64, owner string) { panic("contract") }

// Left says that a session has ended. It does not wait.
func (e *Edge) Left(node core.NodeID, session uint64) { panic("contract") }

// Forget makes the offers of a node go away for good: it was revoked.
func (e *Edge) Forget(node core.NodeID) { panic("contract") }

// RoundTripper is the transport for a node's provider.
func (e *Edge) RoundTripper(p *core.Provider) (http.RoundTripper, error) { panic("contract") }

// Line is the line before the model server that a provider is; never nil.
func (e *Edge) Line(p core.ProviderID) core.Line { panic("contract") }

// Offered are the providers and offers of all nodes that were here since the start,
// also of those that are lost now. The values never change.
func (e *Edge) Offered() ([]*core.Provider, []*core.Offer) { panic("contract") }

// Status is how a node stands that has been here since the start; false: it has not.
func (e *Edge) Status(node core.NodeID) (core.NodeStatus, bool) { panic("contract") }

// Calls are what nodes told of the attempts of a call beside its receipt.
func (e *Edge) Calls(id core.CallID) ([]core.NodeCall, error) { panic("contract") }
