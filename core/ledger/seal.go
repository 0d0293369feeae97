package ledger

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"

	"headway/core"
)

// Sealer keeps secrets that an operator typed in, such as a provider's API key,
// unreadable in the store. Its key is derived from the pepper, which lies in a
// file of its own.
type Sealer struct{ aead cipher.AEAD }

// Sealer derives the sealer.
func (p *Pepper) Sealer() *Sealer {
	key, err := hkdf.Key(sha256.New, p[:], nil, "headway seal 1", 32)
	if err != nil { // only of a length that SHA-256 cannot give
		panic(err)
	}
	block, err := aes.NewCipher(key)
	if err != nil { // only of a wrong key size
		panic(err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return &Sealer{aead}
}

// Seal hides a value; name binds it to its record.
func (s *Sealer) Seal(name string, value []byte) []byte {
	return s.aead.Seal(nil, nil, value, []byte(name))
}

// Open reads a sealed value. Unavailable: it was changed, is another record's,
// or was sealed under another pepper.
func (s *Sealer) Open(name string, sealed []byte) ([]byte, error) {
	value, err := s.aead.Open(nil, nil, sealed, []byte(name))
	if err != nil {
		return nil, &core.Error{Kind: core.Unavailable, Msg: "record " + name + " cannot be opened with this data folder's pepper", Err: err}
	}
	return value, nil
}

// NewPepper makes a random one.
func NewPepper() (p Pepper) {
	_, _ = rand.Read(p[:]) // never fails: the runtime aborts instead
	return p
}
