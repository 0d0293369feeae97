package fleet

import (
	"context"
	"log/slog"
	"net/http"

	"headway/core"
)

// Upstream is a model server of this machine, as it was configured.
type Upstream struct {
	Name   string      // "" for the first
	URL    string      // its root, without a slash at the end and without /v1
	Format core.Format // "": found out
	APIKey core.Secret
	Slots  core.Opt[int64] // absent: what the server says, else 1
	Queue  core.Opt[int64] // absent: usualQueue
	// Offers are what is known of its models beside what it says. One whose Model is
	// "*" is what those have that are not named.
	Offers []core.NodeModel
	// Fixed: only those models are there that Offers name, and the server is not asked
	// for them.
	Fixed bool
}

// NodeParts are what a node works with.
type NodeParts struct {
	Clock     core.Clock
	Log       *slog.Logger
	Name      core.NodeID
	Version   string
	Formats   []core.ProviderSide // that read what the servers answer
	Upstreams []Upstream
	Vault     core.Vault // keeps the figures of calls that the edge has not taken
	// Dial begins a session. An error of kind Forbidden is final: the edge does not
	// know this node, or not any more.
	Dial func(context.Context) (core.Link, error)
	// Transport calls the model servers.
	Transport http.RoundTripper
	// Up, where not nil, is called whenever the edge has taken what the node serves.
	Up func(models int)
}

// Node serves the model servers of one machine to an edge.
type Node struct {
	NodeParts
}

// NewNode makes a node; Run runs it.
func NewNode(p NodeParts) *Node { return &Node{NodeParts: p} }

// Run keeps a session with the edge until ctx ends, then lets no more jobs in and
// ends those under way. The error is final: the edge has refused the node.
func (n *Node) Run(ctx context.Context) error { panic("contract") }
