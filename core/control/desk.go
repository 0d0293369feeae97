// Package control is what operators can see and do: the Desk that owns what is
// configured, the admin API over it, and the typed client that the command line
// uses. It knows the configuration only as values of package core.
package control

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"headway/core"
	"headway/core/gateway"
	"headway/core/ledger"
	"headway/core/market"
	"headway/core/measure"
)

// Credential is a caller's key with its text.
type Credential struct {
	core.Key
	Secret core.Secret
}

// Config is a configuration file, read.
type Config struct {
	Settings  core.Settings
	Providers []*core.Provider
	Offers    []*core.Offer
	Keys      []Credential
	CORS      []string
	Shown     []byte // the resolved file with its secrets masked
}

// Parse reads what operators write. The errors name every mistake.
type Parse struct {
	File     func() (*Config, error)            // the file that serve was started with, again
	Text     func(yaml []byte) (*Config, error) // the text of a file in its place
	Provider func(json []byte) (*core.Provider, []*core.Offer, error)
	OfferOf  func(json []byte) (core.ProviderID, error) // the provider that an offer names
	Offer    func(json []byte, p *core.Provider) (*core.Offer, error)
	Key      func(json []byte) (*core.Key, core.Secret, error)
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
	Board      *measure.Board
	Spend      *ledger.Spend
	Parse      Parse
	Version    string
}

// Kinds of the vault's records.
const (
	vaultProvider = "provider" // the sealed JSON that was posted
	vaultOffer    = "offer"    // likewise
	vaultKey      = "key"      // storedKey
	vaultPause    = "pause"    // of an offer, by an operator
)

// Desk owns what is configured: the file's part, and what operators made beside
// it, which is kept in the vault. Both are swapped into the gateway together or
// not at all.
type Desk struct {
	Parts
	sealer  *ledger.Sealer
	started time.Time

	// mu is held while the configuration changes, so that changes come one by
	// one. What is in force is read off the gateway without it.
	mu    sync.Mutex
	file  *Config
	made  made
	keys  []*core.Key // all of them, in force or revoked
	lists sync.RWMutex
}

// made is what operators made beside the file.
type made struct {
	providers map[core.ProviderID]*core.Provider
	offers    map[core.OfferID]*core.Offer
	bundled   map[core.ProviderID][]*core.Offer // posted inside their provider
	keys      map[core.KeyID]*core.Key
}

// storedKey is a key as the vault has it: without its secret.
type storedKey struct {
	core.Key
	Hash string `json:"hash"`
}

// NewDesk reads what operators made. A record that cannot be read is an error
// that names it: a key that is silently gone would be worse.
func NewDesk(p Parts) (*Desk, error) {
	d := &Desk{Parts: p, sealer: p.Pepper.Sealer(), started: p.Clock(), file: &Config{Settings: core.DefaultSettings()}, made: made{
		providers: map[core.ProviderID]*core.Provider{}, offers: map[core.OfferID]*core.Offer{},
		bundled: map[core.ProviderID][]*core.Offer{}, keys: map[core.KeyID]*core.Key{}}}
	for _, kind := range []string{vaultProvider, vaultOffer, vaultKey} { // providers first: offers name them
		var bad error
		err := d.Vault.All(kind, func(name string, value []byte) bool {
			bad = d.load(kind, name, value)
			return bad == nil
		})
		if err := errors.Join(err, bad); err != nil {
			return nil, fmt.Errorf("what operators made cannot be read: %w", err)
		}
	}
	return d, nil
}

func (d *Desk) load(kind, name string, value []byte) error {
	if kind == vaultKey {
		var k storedKey
		if err := json.Unmarshal(value, &k); err != nil {
			return fmt.Errorf("key %s: %w", name, err)
		}
		if n, err := hex.Decode(k.Key.Hash[:], []byte(k.Hash)); err != nil || n != len(k.Key.Hash) {
			return fmt.Errorf("key %s: its hash is damaged", name)
		}
		d.made.keys[k.ID] = &k.Key
		return nil
	}
	body, err := d.sealer.Open(kind+"/"+name, value)
	if err != nil {
		return err
	}
	if kind == vaultProvider {
		p, offers, err := d.Parse.Provider(body)
		if err != nil {
			return fmt.Errorf("provider %s: %w", name, err)
		}
		d.made.providers[p.ID], d.made.bundled[p.ID] = p, offers
		return nil
	}
	of, err := d.Parse.OfferOf(body)
	if err != nil {
		return fmt.Errorf("offer %s: %w", name, err)
	}
	p := d.made.providers[of]
	if p == nil {
		return fmt.Errorf("offer %s: its provider %s is gone", name, of)
	}
	o, err := d.Parse.Offer(body, p)
	if err != nil {
		return fmt.Errorf("offer %s: %w", name, err)
	}
	d.made.offers[o.ID] = o
	return nil
}

// Apply puts a configuration file into force, as one snapshot or not at all.
func (d *Desk) Apply(c *Config) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.swap(c, d.made)
}

// Reload reads the file again and applies it; what is wrong with it is logged
// and nothing changes.
func (d *Desk) Reload() {
	c, err := d.Parse.File()
	if err == nil {
		err = d.Apply(c)
	}
	if err != nil {
		d.Log.Error("the configuration was not reloaded, the last one stays in force", "reason", err)
		return
	}
	d.Log.Info("the configuration was reloaded", "providers", len(c.Providers), "offers", len(c.Offers), "keys", len(c.Keys))
}

// swap builds everything from a file and what was made, then puts it into
// force. The caller holds mu.
func (d *Desk) swap(c *Config, m made) error {
	providers, offers := slices.Clone(c.Providers), slices.Clone(c.Offers)
	for _, id := range sortedKeys(m.providers) {
		if slices.ContainsFunc(c.Providers, func(p *core.Provider) bool { return p.ID == id }) {
			return conflict("provider %q is in the file and was made by an operator too", id)
		}
		providers = append(providers, m.providers[id])
		offers = append(offers, m.bundled[id]...)
	}
	for _, id := range sortedKeys(m.offers) {
		offers = append(offers, m.offers[id])
	}
	keys, err := d.credentials(c, m)
	if err != nil {
		return err
	}
	catalogue, err := market.NewCatalogue(providers, offers, d.Gateway.Setup().Catalogue)
	if err != nil {
		return err
	}
	err = d.Vault.All(vaultPause, func(name string, _ []byte) bool {
		if e := catalogue.Offer(core.OfferID(name)); e != nil {
			e.State.Pause()
		}
		return true
	})
	if err != nil {
		return err
	}
	d.Gateway.Swap(&gateway.Setup{Settings: c.Settings, Catalogue: catalogue, CORS: c.CORS})
	d.Keys.Set(keys)
	d.lists.Lock()
	d.file, d.made, d.keys = c, m, keys
	d.lists.Unlock()
	return nil
}

// credentials are the keys of the file and those that were made.
func (d *Desk) credentials(c *Config, m made) ([]*core.Key, error) {
	var keys []*core.Key
	seen := map[[32]byte]core.KeyID{}
	add := func(k *core.Key) error {
		if other, dup := seen[k.Hash]; dup && !k.Revoked {
			return conflict("keys %q and %q have the same text", other, k.ID)
		}
		if slices.ContainsFunc(keys, func(o *core.Key) bool { return o.ID == k.ID }) {
			return conflict("key %q is in the file and was made by an operator too", k.ID)
		}
		if k.Strategy != "" {
			if _, ok := market.ByName(k.Strategy); !ok {
				return core.Field("strategy", "key %q: %q is not a strategy", k.ID, k.Strategy)
			}
		}
		if !k.Revoked {
			seen[k.Hash] = k.ID
		}
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

func sortedKeys[K ~string, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b K) int { return strings.Compare(string(a), string(b)) })
	return keys
}
