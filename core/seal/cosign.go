package seal

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"headway/core"
)

// WitnessKey is the public key of a witness: somebody else who has seen a checkpoint,
// saw that the log only grew up to it, and signed both with the time
// (c2sp.org/tlog-cosignature, the Ed25519 kind).
type WitnessKey struct {
	Name   string
	Public [ed25519.PublicKeySize]byte
}

// cosignatureType is the signed-note format's byte for such signatures.
const cosignatureType = 4

// id is the first 4 bytes of SHA-256(name ‖ \n ‖ 4 ‖ key).
func (k WitnessKey) id() [4]byte {
	sum := sha256.Sum256(append(append([]byte(k.Name), '\n', cosignatureType), k.Public[:]...))
	return [4]byte(sum[:])
}

// String is the verifier key: NAME+ID+BASE64.
func (k WitnessKey) String() string {
	id := k.id()
	return k.Name + "+" + hex.EncodeToString(id[:]) + "+" + base64.StdEncoding.EncodeToString(append([]byte{cosignatureType}, k.Public[:]...))
}

// MarshalText writes the verifier key.
func (k WitnessKey) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// ParseWitnessKey reads the verifier key of a witness; spaces and line ends around it
// do not count.
func ParseWitnessKey(text string) (WitnessKey, error) {
	text = strings.TrimSpace(text)
	bad := func(why string) (WitnessKey, error) {
		return WitnessKey{}, &core.Error{Kind: core.Invalid, Param: "witness", Msg: "this is not the verifier key of a witness: " + why,
			Hint: "a key is one line NAME+ID+BASE64; whoever runs the witness publishes it"}
	}
	parts := strings.SplitN(text, "+", 3)
	if len(parts) != 3 {
		return bad("it has not three parts")
	}
	raw, err := base64.StdEncoding.DecodeString(parts[2])
	if err != nil || len(raw) == 0 {
		return bad("its last part is not the base64 of a key")
	}
	if raw[0] == ed25519Type {
		return bad("it is one that signs logs (kind 1), and those of witnesses are of kind 4")
	}
	if raw[0] != cosignatureType || len(raw) != 1+ed25519.PublicKeySize {
		return bad("it is not of the kind Ed25519 with a time (kind 4)")
	}
	k := WitnessKey{parts[0], [ed25519.PublicKeySize]byte(raw[1:])}
	if checkEdge(k.Name) != nil {
		return bad("its name cannot be one")
	}
	if k.String() != text {
		return bad("its parts do not belong together")
	}
	return k, nil
}

// latest is the last second of the year 9999: text and JSON have no later time.
const latest = 253402300799

// errUnwitnessed says that a note has no line of a witness.
var errUnwitnessed = errors.New("the witness has not signed it")

// cosignedBy gives the first of some witnesses that has signed a note, and when. No line
// of any of them may be wrong: errSignature, with the name of whose it is. Where none
// has signed it is errUnwitnessed.
func cosignedBy(keys []WitnessKey, note []byte) (name string, at time.Time, err error) {
	err = errUnwitnessed
	for _, k := range keys {
		_, signed, e := k.cosigned(note)
		switch {
		case errors.Is(e, errSignature):
			return k.Name, at, e
		case e == nil && err != nil:
			name, at, err = k.Name, signed, nil
		}
	}
	return name, at, err
}

// cosigned gives the witness's signature line on a note, checked, and when it signed.
// A line of it that is wrong is errSignature, none errUnwitnessed.
func (k WitnessKey) cosigned(note []byte) (line []byte, at time.Time, err error) {
	text := noteText(note)
	err = errUnwitnessed
	if len(text) >= len(note) {
		return nil, at, err
	}
	id := k.id()
	front := []byte("— " + k.Name + " ")
	for l := range bytes.Lines(note[len(text)+1:]) {
		value, ours := bytes.CutPrefix(l, front)
		raw, e := base64.StdEncoding.DecodeString(string(bytes.TrimSuffix(value, []byte("\n"))))
		if !ours || e != nil || len(raw) < len(id) || [4]byte(raw) != id {
			continue
		}
		raw = raw[len(id):]
		if len(raw) != 8+ed25519.SignatureSize {
			return nil, at, errSignature
		}
		seconds := binary.BigEndian.Uint64(raw)
		if seconds > latest || !ed25519.Verify(k.Public[:], fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", seconds, text), raw[8:]) {
			return nil, at, errSignature
		}
		// A witness may sign more than once; the newest counts.
		if signed := time.Unix(int64(seconds), 0).UTC(); err != nil || signed.After(at) {
			line, at, err = l, signed, nil
		}
	}
	return line, at, err
}
