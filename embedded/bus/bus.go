// Package bus is the embedded NATS server of an edge, who may connect to it, and a
// node's connection to one (core/fleet/FLEET.md §1).
package bus

import (
	"context"
	"log/slog"

	"headway/core"
)

// Options are what a Server is made of.
type Options struct {
	Folder string // keeps the CA and the server's key, mode 0700; made where it is missing
	Listen string // host:port; port 0 takes a free one
	Clock  core.Clock
	Log    *slog.Logger
	// Admit tells whose an NKey's public half is; token is what it presented beside it,
	// "" for none. It may write to a disk. The error's text goes to the log alone.
	Admit func(public, token string) (core.NodeID, error)
	// Joined and Left tell of each session of a node, Left after Joined, from one goroutine.
	Joined func(node core.NodeID, session uint64)
	Left   func(node core.NodeID, session uint64)
}

// Server is the NATS server. It does nothing and listens nowhere before Open.
// It is the edge's core.Bus.
type Server struct {
	Options
}

// New makes a server.
func New(o Options) *Server { return &Server{Options: o} }

// Open starts the server and listens; once it has, it does nothing.
func (s *Server) Open() error { panic("contract") }

// Addr is the host:port that it listens on; "" before Open.
func (s *Server) Addr() string { panic("contract") }

// Pin is the SHA-256 of the CA certificate, in hex.
func (s *Server) Pin() string { panic("contract") }

// Disconnect ends every session of a node, at once.
func (s *Server) Disconnect(node core.NodeID) { panic("contract") }

// Close ends all sessions and the server.
func (s *Server) Close() error { panic("contract") }

// Publish is core.Bus's.
func (s *Server) Publish(subject string, data []byte) error { panic("contract") }

// Subscribe is core.Bus's.
func (s *Server) Subscribe(subject string, handle func(subject, reply string, data []byte)) (core.Subscription, error) {
	panic("contract")
}

// Request is core.Bus's.
func (s *Server) Request(ctx context.Context, subject string, data []byte) ([]byte, error) {
	panic("contract")
}

// MaxPayload is core.Bus's.
func (s *Server) MaxPayload() int { panic("contract") }

// Join is what a join string says (FLEET.md §1).
type Join struct {
	Name    core.NodeID
	Address string
	Pin     string
	Token   core.Secret
}

// String writes the join string, secret and all.
func (j Join) String() string { panic("contract") }

// ParseJoin reads a join string. Errors are Invalid.
func ParseJoin(s string) (Join, error) { panic("contract") }

// Credential is what a node keeps to be known by.
type Credential struct {
	Join
	Seed core.Secret // of its NKey
}

// NewCredential makes an NKey for a join.
func NewCredential(j Join) (Credential, error) { panic("contract") }

// LoadCredential reads the credential that is kept in a folder; false: there is none.
func LoadCredential(folder string) (Credential, bool, error) { panic("contract") }

// Save keeps it in a folder, mode 0600, durably.
func (c Credential) Save(folder string) error { panic("contract") }

// Dial begins a session. Forbidden: the edge refused the node. Any other error may
// pass.
func Dial(ctx context.Context, c Credential) (core.Link, error) { panic("contract") }
