package seal

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"headway/core"
)

// Key is a public key that signs the logs of an edge. The signed-note format binds
// a key to a name; this one's is the edge, and in the checkpoints of a month it is
// known by that log's origin, so that tools which expect a log's name and its
// key's to be the same are content. Its text is EDGE+HASH+BASE64.
type Key struct {
	Name   string // of an edge, or the origin of one log, for which alone it then is
	Public [ed25519.PublicKeySize]byte
}

// ed25519Type is the signed-note format's byte for Ed25519.
const ed25519Type = 1

// hash is the key's id under its name: SHA-256(name ‖ \n ‖ 1 ‖ key), 4 bytes.
func (k Key) hash() uint32 {
	text := append(append([]byte(k.Name), '\n', ed25519Type), k.Public[:]...)
	sum := sha256.Sum256(text)
	return binary.BigEndian.Uint32(sum[:])
}

// String is the verifier key ("vkey") of the signed-note format.
func (k Key) String() string {
	id := binary.BigEndian.AppendUint32(nil, k.hash())
	return k.Name + "+" + hex.EncodeToString(id) + "+" + base64.StdEncoding.EncodeToString(append([]byte{ed25519Type}, k.Public[:]...))
}

// MarshalText writes the verifier key.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// ParseKey reads a verifier key; spaces and line ends around it do not count.
func ParseKey(text string) (Key, error) {
	text = strings.TrimSpace(text)
	bad := func(why string) (Key, error) {
		return Key{}, &core.Error{Kind: core.Invalid, Param: "key", Msg: "this is not a verifier key: " + why,
			Hint: "a key is one line NAME+HASH+BASE64, as in log.vkey and in the list of keys"}
	}
	parts := strings.SplitN(text, "+", 3)
	if len(parts) != 3 {
		return bad("it has not three parts")
	}
	raw, err := base64.StdEncoding.DecodeString(parts[2])
	if err != nil || len(raw) != 1+ed25519.PublicKeySize {
		return bad("its last part is not the base64 of a key")
	}
	if raw[0] != ed25519Type {
		return bad("it is not of the kind Ed25519")
	}
	k := Key{parts[0], [ed25519.PublicKeySize]byte(raw[1:])}
	if _, _, log := splitOrigin(k.Name); !log && checkEdge(k.Name) != nil { // a log's may be longer
		return bad("its name cannot be one")
	}
	if k.String() != text {
		return bad("its parts do not belong together")
	}
	return k, nil
}

// writtenKey reads a key as exports and leaves have it: nothing stands around it.
func writtenKey(text string) (k Key, ok bool) {
	k, err := ParseKey(text)
	return k, err == nil && k.String() == text
}

// of is the key as the checkpoints of an origin name it; false: it is not for them.
func (k Key) of(origin string) (Key, bool) {
	edge, _, ok := splitOrigin(origin)
	if !ok || k.Name != origin && k.Name != edge {
		return Key{}, false
	}
	return Key{origin, k.Public}, true
}

// forEdge is the key under its edge's name, as it is listed in leaves.
func (k Key) forEdge() Key {
	if edge, _, ok := splitOrigin(k.Name); ok {
		k.Name = edge
	}
	return k
}

// verifier is a key to note.Open.
type verifier struct{ Key }

func (v verifier) Name() string    { return v.Key.Name }
func (v verifier) KeyHash() uint32 { return v.Key.hash() }
func (v verifier) Verify(msg, sig []byte) bool {
	return len(sig) == ed25519.SignatureSize && ed25519.Verify(v.Public[:], msg, sig)
}

// signer is a key to note.Sign.
type signer struct {
	Key
	private ed25519.PrivateKey
}

func (s signer) Name() string                    { return s.Key.Name }
func (s signer) KeyHash() uint32                 { return s.Key.hash() }
func (s signer) Sign(msg []byte) ([]byte, error) { return ed25519.Sign(s.private, msg), nil }

// ring is the keys that an edge has signed with. The last is the one that is
// introduced to others; one before it signs too until its month is over.
type ring struct {
	edge string
	keys []ringKey
}

type ringKey struct {
	Seed   []byte `json:"seed,omitempty"` // of Ed25519; dropped once it no longer signs
	Public []byte `json:"public"`
	Until  Month  `json:"until,omitempty"` // the last calendar month that it signs in; "": it is in use

	private ed25519.PrivateKey // of the seed; made once, as that costs as much as a signature
}

// newRing makes the first key of an edge.
func newRing(edge string) (*ring, error) {
	if err := checkEdge(edge); err != nil {
		return nil, err
	}
	r := &ring{edge: edge}
	r.add()
	return r, nil
}

func (r *ring) add() {
	public, private, _ := ed25519.GenerateKey(rand.Reader) // rand.Reader never fails: the runtime aborts instead
	r.keys = append(r.keys, ringKey{Seed: private.Seed(), Public: public, private: private})
}

// rotate adds a key that signs from now on. Those before it sign beside it until
// the end of the month after now, so that whoever knows only an older one still
// finds it under the checkpoint that covers the leaf which introduces the new one.
func (r *ring) rotate(now Month) Key {
	for i := range r.keys {
		if r.keys[i].Until == "" {
			r.keys[i].Until = now.next()
		}
	}
	r.add()
	return r.current()
}

// clone is a copy that can be changed.
func (r *ring) clone() *ring { return &ring{r.edge, slices.Clone(r.keys)} }

// retire drops the secrets of keys that no longer sign in a month; true: there were some.
func (r *ring) retire(m Month) (changed bool) {
	for i := range r.keys {
		if k := &r.keys[i]; k.Seed != nil && !k.signs(m) {
			k.Seed, k.private, changed = nil, nil, true
		}
	}
	return changed
}

func (k *ringKey) signs(m Month) bool { return k.Until == "" || m.calendar() <= k.Until }

// current is the key that others are given.
func (r *ring) current() Key { return r.key(len(r.keys) - 1) }

func (r *ring) key(i int) Key { return Key{r.edge, [ed25519.PublicKeySize]byte(r.keys[i].Public)} }

// Keys are all of them, the oldest first.
func (r *ring) Keys() (list []Key) {
	for i := range r.keys {
		list = append(list, r.key(i))
	}
	return list
}

// signers are the keys that sign the log of a month.
func (r *ring) signers(m Month) (list []note.Signer) {
	for i := range r.keys {
		if k := &r.keys[i]; k.Seed != nil && k.signs(m) {
			list = append(list, signer{Key{originOf(r.edge, m), [ed25519.PublicKeySize]byte(k.Public)}, k.private})
		}
	}
	return list
}

// names are the keys that sign a month's log, as leaves list them.
func (r *ring) names(m Month) (list []string) {
	for i := range r.keys {
		if r.keys[i].signs(m) {
			list = append(list, r.key(i).String())
		}
	}
	return list
}

type storedRing struct {
	Edge string    `json:"edge"`
	Keys []ringKey `json:"keys"`
}

// encode gives the ring to be kept. It holds the secret keys: it must be sealed.
func (r *ring) encode() ([]byte, error) { return json.Marshal(storedRing{r.edge, r.keys}) }

// parseRing reads a ring. Unavailable: it is none.
func parseRing(data []byte) (*ring, error) {
	var s storedRing
	err := json.Unmarshal(data, &s)
	if err == nil && (checkEdge(s.Edge) != nil || len(s.Keys) == 0 || s.Keys[len(s.Keys)-1].Seed == nil) {
		err = errors.New("parts are missing")
	}
	for i := range s.Keys {
		if err == nil {
			err = s.Keys[i].check()
		}
	}
	if err != nil {
		return nil, &core.Error{Kind: core.Unavailable, Msg: "the signing keys of the receipt log cannot be read", Err: err}
	}
	return &ring{s.Edge, s.Keys}, nil
}

// check makes the private key of a key that was read.
func (k *ringKey) check() error {
	if len(k.Public) != ed25519.PublicKeySize {
		return errors.New("a key is not one")
	}
	if k.Seed == nil {
		return nil
	}
	if len(k.Seed) != ed25519.SeedSize {
		return errors.New("a key is not one")
	}
	if k.private = ed25519.NewKeyFromSeed(k.Seed); !bytes.Equal(k.private.Public().(ed25519.PublicKey), k.Public) {
		return errors.New("a key is not one")
	}
	return nil
}

// Checkpoint is a signed state of a log.
type Checkpoint struct {
	Tree
	Note         []byte // as it was signed
	Signed       []Key  // the known keys that signed it, in the order of their lines
	Cosignatures int    // lines of others: of keys that are not known, of witnesses
}

// mostNote bounds a checkpoint. The signed-note format asks for room for 16
// signatures, of which some kinds have nearly 5 KB.
const mostNote = 96 << 10

// sign makes a log's checkpoint.
func (r *ring) sign(t Tree) (*Checkpoint, error) {
	_, month, _ := splitOrigin(t.Origin)
	signers := r.signers(month)
	text, err := note.Sign(&note.Note{Text: t.text()}, signers...)
	if err != nil {
		return nil, &core.Error{Kind: core.Internal, Msg: "the checkpoint of " + t.Origin + " cannot be signed", Err: err}
	}
	c := &Checkpoint{Tree: t, Note: text}
	for _, s := range signers {
		c.Signed = append(c.Signed, s.(signer).Key)
	}
	return c, nil
}

// text is what is signed.
func (t Tree) text() string {
	return t.Origin + "\n" + strconv.FormatUint(t.Size, 10) + "\n" + t.Root.String() + "\n"
}

// parseTree reads what is signed: three lines, no more.
func parseTree(text string) (t Tree, ok bool) {
	lines := strings.Split(text, "\n")
	if len(lines) != 4 || lines[3] != "" {
		return t, false
	}
	size, err := strconv.ParseUint(lines[1], 10, 64)
	root, good := parseHash([]byte(lines[2]))
	t = Tree{lines[0], size, root}
	_, _, named := splitOrigin(t.Origin)
	return t, err == nil && good && named && size > 0 && size <= maxSize && t.text() == text
}

// errNote is what ParseCheckpoint says, so that its callers can word it.
var (
	errNoNote     = errors.New("it is not a signed checkpoint of a receipt log")
	errUnknownKey = errors.New("no known key has signed it")
	errSignature  = errors.New("a signature is not that of its key")
)

// ParseCheckpoint reads a checkpoint that one of the keys at least must have
// signed. Signatures of other keys are left alone; one of a known key that is
// wrong refuses all of it. Invalid, with the reason.
func ParseCheckpoint(text []byte, keys []Key) (*Checkpoint, error) {
	c, err := openNote(text, keys)
	if err != nil {
		hint := ""
		if errors.Is(err, errUnknownKey) {
			hint = "give the key of the edge that signed it; it may be one of before a rotation: headway receipts list has them all"
		}
		return nil, &core.Error{Kind: core.Invalid, Param: "checkpoint", Msg: "checkpoint: " + err.Error(), Hint: hint, Err: err}
	}
	return c, nil
}

func openNote(text []byte, keys []Key) (*Checkpoint, error) {
	if len(text) > mostNote {
		return nil, errNoNote
	}
	t, ok := parseTree(noteText(text))
	if !ok {
		return nil, errNoNote
	}
	var list []note.Verifier
	for _, k := range keys {
		if k, ok := k.of(t.Origin); ok && !slices.ContainsFunc(list, func(v note.Verifier) bool { return v.KeyHash() == k.hash() }) {
			list = append(list, verifier{k})
		}
	}
	n, err := note.Open(text, note.VerifierList(list...))
	var unknown *note.UnverifiedNoteError
	var wrong *note.InvalidSignatureError
	switch {
	case errors.As(err, &unknown):
		return nil, errUnknownKey
	case errors.As(err, &wrong):
		return nil, errSignature
	case err != nil:
		return nil, errNoNote
	}
	c := &Checkpoint{Tree: t, Note: text, Cosignatures: len(n.UnverifiedSigs)}
	for _, s := range n.Sigs {
		for _, v := range list {
			if v.KeyHash() == s.Hash {
				c.Signed = append(c.Signed, v.(verifier).Key)
			}
		}
	}
	if !onlySpelling(text, n) {
		return nil, errNoNote
	}
	return c, nil
}

// noteText is the part of a note that is signed.
func noteText(text []byte) string {
	i := bytes.LastIndex(text, []byte("\n\n"))
	return string(text[:max(i+1, 0)])
}

// onlySpelling tells whether a note is written as note.Sign writes it: base64 has
// more than one text for some values, and a repeated line is ignored.
func onlySpelling(text []byte, n *note.Note) bool {
	rest, ok := bytes.CutPrefix(text, []byte(n.Text+"\n"))
	if !ok {
		return false
	}
	count := 0
	for line := range bytes.Lines(rest) {
		count++
		i := bytes.LastIndexByte(line, ' ')
		raw, err := base64.StdEncoding.DecodeString(string(bytes.TrimSuffix(line[i+1:], []byte("\n"))))
		if err != nil || base64.StdEncoding.EncodeToString(raw)+"\n" != string(line[i+1:]) {
			return false
		}
	}
	return count == len(n.Sigs)+len(n.UnverifiedSigs)
}

// Cosign adds to a checkpoint the signature lines of other, which must be over the
// same text; lines that it has already are not added again. So a witness's
// cosignature is kept with the checkpoint. Its meaning is not checked here.
func Cosign(checkpoint, other []byte) ([]byte, error) {
	text := noteText(checkpoint)
	if _, ok := parseTree(text); !ok || noteText(other) != text {
		return nil, core.Field("checkpoint", "the signatures are not of this checkpoint")
	}
	have := checkpoint[len(text)+1:]
	joined := slices.Clone(checkpoint)
	for line := range bytes.Lines(other[len(text)+1:]) {
		if !bytes.HasSuffix(line, []byte("\n")) || !bytes.HasPrefix(line, []byte("— ")) {
			return nil, core.Field("checkpoint", "a line of the signatures is not one")
		}
		if !bytes.Contains(have, line) {
			joined = append(joined, line...)
		}
	}
	if len(joined) > mostNote {
		return nil, core.Field("checkpoint", "there are too many signatures")
	}
	return joined, nil
}
