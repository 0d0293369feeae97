package control

import (
	"crypto/hmac"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"

	"headway/core"
)

// Kinds of the vault's records.
const (
	vaultProvider = "provider" // the sealed JSON that was posted
	vaultOffer    = "offer"    // likewise
	vaultKey      = "key"      // storedKey
	vaultPause    = "pause"    // of an offer, by an operator
	vaultNode     = "node"     // node
	vaultPepper   = "pepper"   // by which a wrong pepper is told
	vaultAudit    = "audit"    // Entry, by its id
	vaultAuditEnd = "audit-end"
	vaultApplied  = "applied" // object of the last file, by its thing
)

// made is what operators made beside the file. It never changes: a change makes
// another one.
type made struct {
	providers map[core.ProviderID]*core.Provider
	bundled   map[core.ProviderID][]*core.Offer // posted inside their provider
	offers    map[core.OfferID]madeOffer
	keys      map[core.KeyID]*core.Key
	nodes     map[core.NodeID]*node
}

// madeOffer is an offer that was posted on its own. It is read again for each
// snapshot, since its provider may be the file's.
type madeOffer struct {
	provider core.ProviderID
	body     []byte
}

func (m made) clone() made {
	return made{maps.Clone(m.providers), maps.Clone(m.bundled), maps.Clone(m.offers), maps.Clone(m.keys), maps.Clone(m.nodes)}
}

// storedKey is a key as the vault has it: without its secret.
type storedKey struct {
	core.Key
	Hash string `json:"hash"`
}

// checkPepper tells a lost or a foreign pepper from the right one: with another
// one every stored key would be unknown without a word.
func (d *Desk) checkPepper() error {
	const name = "1"
	mark := d.Pepper.Hash("headway: this is the pepper")
	kept, err := d.Vault.Get(vaultPepper, name)
	switch {
	case err != nil:
		return err
	case kept == nil:
		return d.Vault.Put(vaultPepper, name, mark[:])
	case !hmac.Equal(kept, mark[:]):
		return &core.Error{Kind: core.Unavailable, Msg: "the pepper is not the one that this data folder's keys were made with",
			Hint: "restore the file pepper of the data folder from a backup"}
	}
	return nil
}

func loadKey(m made, _ string, value []byte) error {
	var k storedKey
	if err := json.Unmarshal(value, &k); err != nil {
		return err
	}
	if n, err := hex.Decode(k.Key.Hash[:], []byte(k.Hash)); err != nil || n != len(k.Key.Hash) {
		return errors.New("its hash is damaged")
	}
	m.keys[k.ID] = &k.Key
	return nil
}

func (d *Desk) loadProvider(m made, name string, value []byte) error {
	body, err := d.sealer.Open(vaultProvider+"/"+name, value)
	if err != nil {
		return err
	}
	p, offers, err := d.Parse.Provider(body)
	if err != nil {
		return err
	}
	m.providers[p.ID], m.bundled[p.ID] = p, offers
	return nil
}

func (d *Desk) loadOffer(m made, name string, value []byte) error {
	body, err := d.sealer.Open(vaultOffer+"/"+name, value)
	if err != nil {
		return err
	}
	of, err := d.Parse.OfferOf(body)
	if err != nil {
		return err
	}
	m.offers[core.OfferID(name)] = madeOffer{of, body}
	return nil
}
