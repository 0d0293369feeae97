package seal

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"headway/core"
)

// ProofName is the first line of a proof (c2sp.org/tlog-proof).
const ProofName = "c2sp.org/tlog-proof@v1"

// Prove makes the proof that a checkpoint covers a leaf. The leaf itself is in the
// proof's extra line, so that the proof is all that one needs. NotFound: the
// checkpoint does not cover it.
func Prove(src Source, c *Checkpoint, index uint64) ([]byte, error) {
	_, m, ok := splitOrigin(c.Origin)
	if !ok || index >= c.Size {
		return nil, core.Errorf(core.NotFound, "the checkpoint of %s is over %d leaves, leaf %d is not among them", c.Origin, c.Size, index)
	}
	t := newTree(src, m, c.Size)
	path, err := tlog.ProveRecord(int64(c.Size), int64(index), t)
	if err != nil {
		return nil, damaged(m, err)
	}
	text := []byte(ProofName + "\nextra ")
	var h Hash
	err = readLeaves(src, m, index, index+1, func(_ uint64, leaf []byte) bool {
		text = base64.StdEncoding.AppendEncode(text, leaf)
		h = leafHash(nil, leaf)
		return true
	})
	if err != nil {
		return nil, err
	}
	if err := tlog.CheckRecord(path, int64(c.Size), c.Root, int64(index), h); err != nil {
		return nil, damaged(m, err)
	}
	text = strconv.AppendUint(append(text, "\nindex "...), index, 10)
	for _, h := range path {
		text = append(append(text, '\n'), h.String()...)
	}
	return append(append(text, "\n\n"...), c.Note...), nil
}

func damaged(m Month, err error) error {
	if e, ok := err.(*core.Error); ok {
		return e
	}
	return &core.Error{Kind: core.Unavailable, Msg: "the stored leaves of log " + string(m) + " do not give what was signed", Err: err}
}

// Proven is what a proof proves.
type Proven struct {
	Leaf       *Leaf      `json:"leaf"`
	Index      uint64     `json:"index"`
	Checkpoint Checkpoint `json:"checkpoint"`
}

// MostProof bounds a proof's text.
const MostProof = mostNote + 2*maxLeaf

// VerifyProof checks the proof of a receipt offline against the keys of an edge.
// Invalid, with what is wrong.
func VerifyProof(text []byte, keys []Key) (*Proven, error) {
	bad := func(format string, args ...any) (*Proven, error) {
		return nil, core.Field("proof", format, args...)
	}
	if len(text) > MostProof {
		return bad("%d bytes are too many", len(text))
	}
	front, note, ok := bytes.Cut(text, []byte("\n\n"))
	lines := strings.Split(string(front), "\n")
	if !ok || lines[0] != ProofName {
		return bad("it is not one (%s)", ProofName)
	}
	if len(lines) < 3 || !strings.HasPrefix(lines[1], "extra ") {
		return bad("it has no receipt in its extra line, as those of Headway do")
	}
	encoded := lines[1][len("extra "):]
	leaf, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || base64.StdEncoding.EncodeToString(leaf) != encoded {
		return bad("its extra line is not base64")
	}
	number, ok := strings.CutPrefix(lines[2], "index ")
	index, err := strconv.ParseUint(number, 10, 64)
	if !ok || err != nil || strconv.FormatUint(index, 10) != number {
		return bad("its index is not one")
	}
	path := tlog.RecordProof{}
	for _, line := range lines[3:] {
		h, ok := parseHash([]byte(line))
		if !ok {
			return bad("line %q is not a hash", line[:min(len(line), 64)])
		}
		path = append(path, h)
	}
	c, err := ParseCheckpoint(note, keys)
	if err != nil {
		return nil, err
	}
	if index >= c.Size {
		return bad("its index is beyond the checkpoint's size")
	}
	if tlog.CheckRecord(path, int64(c.Size), c.Root, int64(index), leafHash(nil, leaf)) != nil {
		return bad("this receipt is not the one that was signed: its hashes do not lead to the checkpoint's root")
	}
	l, err := ParseLeaf(leaf)
	if err != nil {
		return nil, err
	}
	if l.Type != typeReceipt {
		return bad("leaf %d of log %s is of type %q, and no receipt", index, c.Origin, l.Type)
	}
	return &Proven{l, index, *c}, nil
}

// Witnessed tells which of some witnesses has signed the proof's checkpoint too.
// Invalid: none, or a line of one of them is not its signature.
func (p *Proven) Witnessed(keys []WitnessKey) (name string, err error) {
	name, _, err = cosignedBy(keys, p.Checkpoint.Note)
	switch {
	case errors.Is(err, errSignature):
		return "", core.Field("proof", "the line of the witness %s is not its signature", name)
	case err != nil:
		return "", core.Field("proof", "its checkpoint is signed by no witness that was asked for")
	}
	return name, nil
}
