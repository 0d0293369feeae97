// Package control is what operators can see and do: the Desk that owns what is
// configured, the admin API over it, and the typed client that the command line
// uses. It knows the configuration only as values of package core.
package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"headway/core"
	"headway/core/gateway"
	"headway/core/ledger"
	"headway/core/market"
	"headway/core/measure"
	"headway/core/seal"
)

// Credential is a caller's key with its text.
type Credential struct {
	core.Key
	Secret core.Secret
}

// Config is a configuration file, read.
type Config struct {
	Path      string // of the file; "" where there is none
	Settings  core.Settings
	Providers []*core.Provider
	Offers    []*core.Offer
	Keys      []Credential
	CORS      []string
	Shown     []byte // the resolved file with its secrets masked
	// Groups are the settings that hold without a restart, by their name in the
	// file, each a JSON object with its secrets masked.
	Groups map[string]json.RawMessage
	Notes  []string // advice on what is allowed and likely not meant
	// Fixed is what only a restart changes, as text, by its path in the file.
	Fixed map[string]string
	// CheckScripts, where not nil, says which strategies the file names that are
	// neither built in nor scripts that are there, by name.
	CheckScripts func(there []string) error
}

// Parse reads what operators write, and shows what was read. The errors name
// every mistake; they are *core.Error, or wrap one.
type Parse struct {
	// File reads the file that serve was started with again.
	File func() (*Config, error)
	// Text reads the text of a file in its place; name is what it is called in
	// errors, and its folder what its paths are relative to.
	Text     func(name string, yaml []byte) (*Config, error)
	Provider func(json []byte) (*core.Provider, []*core.Offer, error)
	OfferOf  func(json []byte) (core.ProviderID, error) // the provider that an offer names
	Offer    func(json []byte, p *core.Provider) (*core.Offer, error)
	Key      func(json []byte) (*core.Key, core.Secret, error)
	Node     func(json []byte) (Enrolment, error)

	// Each shows a thing as the JSON object of the file, its secrets as ***.
	ProviderObject func(*core.Provider) json.RawMessage // without its offers
	OfferObject    func(*core.Offer) json.RawMessage
	KeyObject      func(*core.Key) json.RawMessage
	Groups         map[string]json.RawMessage // Config.Groups of an empty file
	// StrategyHint says which strategies there are beside scripts of these names.
	StrategyHint func(scripts []string) string
}

// Parts are what a Desk works with.
type Parts struct {
	Clock      core.Clock
	Log        *slog.Logger
	Gateway    *gateway.Gateway
	Keys       *ledger.Keys
	Pepper     *ledger.Pepper
	AdminToken core.Secret
	Vault      core.Vault
	Book       core.Book
	Store      Shelf  // nil: nothing is dropped, and no backup is made
	Data       string // the data folder, for backups
	Board      *measure.Board
	Accounts   *ledger.Accounts
	Tally      *ledger.Tally
	Prober     *gateway.Prober // nil: no probes are made
	Scripts    core.ScriptList // nil: there are none
	Receipts   *seal.Sealer    // nil: receipts are not signed
	Witness    *seal.Witness   // nil: nobody else sees their log
	Fleet      Fleet           // nil, with Gate: there are no nodes
	Gate       Gate
	Parse      Parse
	Version    string
}

// Desk owns what is configured: the file's part, what operators made beside it,
// which is kept in the vault, and what nodes offer. All of it is swapped into the
// gateway together or not at all. Its methods may be called concurrently.
type Desk struct {
	Parts
	sealer  *ledger.Sealer
	audit   *auditLog             // its writer holds mu
	sums    map[string]string     // of the scripts when they were last looked at; mu is held
	clashes map[core.OfferID]bool // offers of nodes that are left out; mu is held
	started time.Time
	listens atomic.Pointer[string]
	force   atomic.Pointer[inForce]
	// retention has something in it once another retention was put into force.
	retention chan struct{}
	first     *Config // that serve was started with; set by the first Apply, before all else

	// erasing is held while what is kept of receipts is written anew.
	erasing sync.Mutex

	// mu is held while the configuration changes, so that changes come one by
	// one. What is in force is read without it.
	mu sync.Mutex
}

// inForce is what was swapped in last. It never changes.
type inForce struct {
	file *Config
	made made
	keys []*core.Key // all of them, valid or revoked
}

// NewDesk reads what operators made. A record that cannot be read is an error
// that names it: a key that is silently gone would be worse. So is a pepper that
// is not the one which the stored keys were hashed with.
func NewDesk(p Parts) (*Desk, error) {
	d := &Desk{Parts: p, sealer: p.Pepper.Sealer(), started: p.Clock(), retention: make(chan struct{}, 1)}
	if err := d.checkPepper(); err != nil {
		return nil, err
	}
	var err error
	if d.audit, err = openAudit(p.Vault, p.Clock); err != nil {
		return nil, err
	}
	m := made{map[core.ProviderID]*core.Provider{}, map[core.ProviderID][]*core.Offer{}, map[core.OfferID]madeOffer{}, map[core.KeyID]*core.Key{}, map[core.NodeID]*node{}}
	for kind, load := range map[string]func(made, string, []byte) error{
		vaultProvider: d.loadProvider, vaultOffer: d.loadOffer, vaultKey: loadKey, vaultNode: loadNode,
	} {
		var bad error
		err := d.Vault.All(kind, func(name string, value []byte) bool {
			if bad = load(m, name, value); bad != nil {
				bad = fmt.Errorf("the %s %s that was made by an operator cannot be read: %w", kind, name, bad)
			}
			return bad == nil
		})
		if err := errors.Join(err, bad); err != nil {
			return nil, err
		}
	}
	d.force.Store(&inForce{file: &Config{Settings: core.DefaultSettings()}, made: m})
	return d, nil
}

// Apply puts the configuration file that serve was started with into force, as
// one snapshot or not at all.
func (d *Desk) Apply(c *Config) error {
	_, err := d.apply(c, viaStart)
	return err
}

// apply puts a file into force; via says in the audit log what did it. The notes say
// what expires by it.
func (d *Desk) apply(c *Config, via string) ([]string, error) {
	if c.CheckScripts != nil {
		if err := c.CheckScripts(d.scripts()); err != nil {
			const folder = "routing.scripts"
			if d.first != nil && c.Fixed[folder] != d.first.Fixed[folder] {
				e := core.Errorf(core.Invalid, "%s takes effect at a start, so no script of its folder can be chosen as a strategy before", folder)
				e.Hint = "start headway anew with this file; headway check says whether it is good"
				return nil, e
			}
			return nil, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s, err := d.build(c, d.force.Load().made)
	if err != nil {
		return nil, err
	}
	old, err := d.applied(false)
	if err != nil {
		return nil, err
	}
	changes, err := d.fileChanges(old, d.things(c), Entry{Who: whoFile, Via: via, File: c.Path})
	if err != nil {
		return nil, err
	}
	if err := d.recordFile(changes); err != nil {
		return nil, err
	}
	before := d.force.Load().file
	d.install(s)
	if d.first == nil {
		d.first = c
		return nil, nil // what was in force before is not known
	}
	return expiring(before.Settings.Retention, c.Settings.Retention, d.Clock()), nil
}

// Reload reads the file again and applies it; what is wrong with it is logged
// and nothing changes.
func (d *Desk) Reload() {
	var notes []string
	c, err := d.Parse.File()
	if err == nil {
		notes, err = d.apply(c, viaSignal)
	}
	if err != nil {
		d.Log.Error("the configuration was not reloaded, the last one stays in force", "reason", err)
		return
	}
	d.Log.Info("the configuration was reloaded", "providers", len(c.Providers), "offers", len(c.Offers), "keys", len(c.Keys))
	if fixed := d.onlyRestart(c); len(fixed) > 0 {
		d.Log.Warn("only a restart changes these", "settings", fixed)
	}
	for _, note := range notes {
		d.Log.Warn("the configuration", "note", note)
	}
}

// Listening tells the address that is listened on, for the status.
func (d *Desk) Listening(addr string) { d.listens.Store(&addr) }

// onlyRestart are the paths in the file where it differs from what serve was
// started with, which waits for a restart.
func (d *Desk) onlyRestart(is *Config) []string {
	var paths []string
	for path, v := range is.Fixed {
		if old, ok := d.first.Fixed[path]; ok && old != v {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// snapshot is all that is swapped at once.
type snapshot struct {
	inForce
	catalogue *market.Catalogue
	orphans   []core.OfferID // made offers whose provider is not there
	clashes   []*core.Offer  // of nodes, that cannot be beside the others
	paused    []core.OfferID // by an operator
}

// build makes a snapshot of a file and what was made, and changes nothing. The
// caller holds mu.
func (d *Desk) build(c *Config, m made) (*snapshot, error) {
	s := &snapshot{inForce: inForce{file: c, made: m}}
	providers, offers := slices.Clone(c.Providers), slices.Clone(c.Offers)
	for _, id := range sortedKeys(m.providers) {
		if slices.ContainsFunc(c.Providers, func(p *core.Provider) bool { return p.ID == id }) {
			e := conflict("provider %q is in the file and was made by an operator too", id)
			e.Hint = "give it another id in the file, or delete the one that was made first"
			return nil, e
		}
		providers = append(providers, m.providers[id])
		offers = append(offers, m.bundled[id]...)
	}
	for _, id := range sortedKeys(m.offers) {
		i := slices.IndexFunc(providers, func(p *core.Provider) bool { return p.ID == m.offers[id].provider })
		if i < 0 {
			s.orphans = append(s.orphans, id)
			continue
		}
		o, err := d.Parse.Offer(m.offers[id].body, providers[i])
		if err != nil {
			return nil, fmt.Errorf("offer %s: %w", id, err)
		}
		offers = append(offers, o)
	}
	for _, name := range sortedKeys(m.nodes) {
		if p := namesake(name, providers); p != nil && m.nodes[name].holds(d.Clock()) {
			e := conflict("provider %q: there is a node %q, and its providers are called by it", p.ID, name)
			e.Hint = "give the provider another id, or revoke the node first"
			return nil, e
		}
	}
	providers, offers = d.fromNodes(s, m, providers, offers)
	var err error
	if s.keys, err = d.credentials(c, m); err != nil {
		return nil, err
	}
	err = d.Vault.All(vaultPause, func(name string, _ []byte) bool {
		s.paused = append(s.paused, core.OfferID(name))
		return true
	})
	if err != nil {
		return nil, err
	}
	s.catalogue, err = market.NewCatalogue(providers, offers, d.Gateway.Setup().Catalogue)
	return s, err
}

// install puts a snapshot into force. The caller holds mu.
func (d *Desk) install(s *snapshot) {
	for _, id := range s.orphans {
		d.Log.Warn("an offer that was made by an operator is left out: its provider is not there", "offer", id, "provider", s.made.offers[id].provider)
	}
	for _, id := range s.paused {
		if e := s.catalogue.Offer(id); e != nil {
			e.State.Pause()
		}
	}
	d.sayClashes(s.clashes)
	for _, e := range s.catalogue.Entries() {
		var line core.Line // an id may go from a node to the file
		if p := e.Offer.Provider; p.Node != "" {
			line = d.Fleet.Line(p.ID)
		}
		e.State.SetLine(line)
	}
	d.force.Store(&s.inForce)
	if d.Store != nil {
		d.Store.Keep(s.file.Settings.Retention)
	}
	other := d.Gateway.Setup().Settings.Retention != s.file.Settings.Retention
	d.Gateway.Swap(&gateway.Setup{Settings: s.file.Settings, Catalogue: s.catalogue, CORS: s.file.CORS})
	d.Keys.Set(s.keys)
	if s.file.Settings.Receipts == core.ReceiptsOptional && d.Receipts != nil && d.Receipts.Held() != nil {
		_ = d.Receipts.Renew() // nil but where somebody else was quicker
	}
	if other {
		select {
		case d.retention <- struct{}{}:
		default: // it is told already
		}
	}
}

// credentials are the keys of the file and those that were made.
func (d *Desk) credentials(c *Config, m made) ([]*core.Key, error) {
	var keys []*core.Key
	ids := map[core.KeyID]bool{}
	seen := map[[32]byte]core.KeyID{} // by the hash of their text
	add := func(k *core.Key) error {
		if other, dup := seen[k.Hash]; dup && !k.Revoked {
			return conflict("keys %q and %q have the same text", other, k.ID)
		}
		if ids[k.ID] {
			return conflict("key %q is in the file and was made by an operator too", k.ID)
		}
		if !k.Revoked {
			seen[k.Hash] = k.ID
		}
		ids[k.ID] = true
		keys = append(keys, k)
		return nil
	}
	for i := range c.Keys {
		k := c.Keys[i].Key
		k.Hash = d.Pepper.Hash(c.Keys[i].Secret.Reveal())
		if err := add(&k); err != nil {
			return nil, err
		}
	}
	for _, id := range sortedKeys(m.keys) {
		if err := add(m.keys[id]); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// conflict is an error for what is there already.
func conflict(format string, args ...any) *core.Error {
	e := core.Errorf(core.Invalid, format, args...)
	e.Code = "conflict"
	return e
}

func sortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
