// Package ledger decides who may call and what a call cost: keys by a keyed
// hash of their secret, and exact charges (SPEC §10, §11).
package ledger

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"hash/crc32"
	"math/big"
	"sync/atomic"
	"time"

	"headway/core"
)

// longestSecret bounds what is hashed for a caller without a key.
const longestSecret = 512

// Pepper is the server's own part of each key's hash: without it a stolen store
// holds nothing that a key can be tried against.
type Pepper [32]byte

// Hash is the keyed hash that a key is kept as and looked up by.
func (p *Pepper) Hash(secret string) [32]byte {
	h := hmac.New(sha256.New, p[:])
	h.Write([]byte(secret))
	var sum [32]byte
	h.Sum(sum[:0])
	return sum
}

// Equal compares two secrets in constant time, by their hashes.
func (p *Pepper) Equal(a, b string) bool {
	x, y := p.Hash(a), p.Hash(b)
	return hmac.Equal(x[:], y[:])
}

// Keys are the callers' keys that are valid now; it is safe for concurrent use.
type Keys struct {
	pepper *Pepper
	byHash atomic.Pointer[map[[32]byte]*core.Key]
}

// NewKeys makes an empty set.
func NewKeys(pepper *Pepper) *Keys {
	k := &Keys{pepper: pepper}
	k.Set(nil)
	return k
}

// Set replaces all keys; revoked ones are left out.
func (k *Keys) Set(keys []*core.Key) {
	m := make(map[[32]byte]*core.Key, len(keys))
	for _, key := range keys {
		if !key.Revoked {
			m[key.Hash] = key
		}
	}
	k.byHash.Store(&m)
}

// errKey is the same for a wrong, an unknown, a revoked and an expired key.
func errKey() error {
	e := core.Errorf(core.Unauthorized, "no valid API key")
	e.Hint = "send a Headway key as Authorization: Bearer, x-api-key, x-goog-api-key or ?key="
	return e
}

// Admit finds the key with that secret. Every refusal is Unauthorized in the
// same words.
func (k *Keys) Admit(secret string, now time.Time) (*core.Key, error) {
	if secret == "" || len(secret) > longestSecret {
		return nil, errKey()
	}
	key := (*k.byHash.Load())[k.pepper.Hash(secret)]
	if key == nil || key.ExpiresAt.OK && !now.Before(key.ExpiresAt.V) {
		return nil, errKey()
	}
	return key, nil
}

// NewSecret makes a key of 256 random bits: hw_, six characters that may be
// shown, the secret, and a checksum by which scanners tell a real one. The id
// is the shown part.
func NewSecret() (id, secret string) {
	var raw [37]byte
	_, _ = rand.Read(raw[:]) // never fails: the runtime aborts instead
	id = base62(raw[32:], 7)[1:]
	body := "hw_" + id + "_" + base62(raw[:32], 43)
	sum := crc32.ChecksumIEEE([]byte(body))
	return id, body + "_" + base62([]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}, 6)
}

// base62 writes a number in at least width digits.
func base62(n []byte, width int) string {
	s := new(big.Int).SetBytes(n).Text(62)
	for len(s) < width {
		s = "0" + s
	}
	return s
}
