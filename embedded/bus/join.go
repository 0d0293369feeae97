package bus

import (
	"bytes"
	"crypto/hmac"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nkeys"

	"headway/core"
)

const (
	joinPrefix = "headway-join-"
	joinBytes  = 4096 // no join string is as long
	joinHint   = "copy all of the last line that `headway nodes enrol NAME` printed on the edge"

	credentialFile = "node.json"
)

// Join is what a join string says (FLEET.md §1).
type Join struct {
	Name    core.NodeID
	Address string
	Pin     string
	Token   core.Secret
}

// joinText is a join string's JSON.
type joinText struct {
	V     int    `json:"v"`
	Name  string `json:"name"`
	Addr  string `json:"addr"`
	Pin   string `json:"pin"`
	Token string `json:"token"`
}

func (j Join) text() joinText {
	return joinText{1, string(j.Name), j.Address, j.Pin, j.Token.Reveal()}
}

// String writes the join string, secret and all.
func (j Join) String() string {
	text, _ := json.Marshal(j.text()) // strings and a number: it cannot fail
	return joinPrefix + base64.RawURLEncoding.EncodeToString(text)
}

// LogValue keeps the token out of the log.
func (j Join) LogValue() slog.Value { return slog.StringValue("join string of " + string(j.Name)) }

// ParseJoin reads a join string. Errors are Invalid.
func ParseJoin(s string) (Join, error) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(s), joinPrefix)
	switch {
	case !ok:
		return Join{}, joinError("it does not begin with " + joinPrefix)
	case len(rest) > joinBytes:
		return Join{}, joinError("it is too long")
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(rest)
	if err != nil {
		return Join{}, joinError("it is cut off, or has characters that do not belong there")
	}
	var t joinText
	if err := decode(raw, &t); err != nil {
		return Join{}, joinError("it is cut off or damaged")
	}
	j, err := t.join()
	if err != nil {
		return Join{}, joinError(err.Error())
	}
	return j, nil
}

func joinError(why string) error {
	return &core.Error{Kind: core.Invalid, Param: "join", Msg: "the join string cannot be used: " + why, Hint: joinHint}
}

// decode reads one JSON value that has no fields but v's, and nothing behind it.
func decode(raw []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more behind it")
	}
	return nil
}

// join checks what a join string or a credential says; the errors say nothing of
// secrets.
func (t joinText) join() (Join, error) {
	switch {
	case t.V != 1:
		return Join{}, errors.New("it is of version " + strconv.Itoa(t.V) + ", and this headway knows 1: use the headway of the edge")
	case !validName(core.NodeID(t.Name)):
		return Join{}, errors.New("its name is none of a node")
	case !validAddress(t.Addr):
		return Join{}, errors.New("its address is not host:port")
	case !validPin(t.Pin):
		return Join{}, errors.New("its pin is not the SHA-256 of a certificate in hexadecimal")
	case !validToken(t.Token):
		return Join{}, errors.New("its token is missing or damaged")
	}
	return Join{core.NodeID(t.Name), t.Addr, t.Pin, core.NewSecret(t.Token)}, nil
}

// validName tells whether a text is a node's name (FLEET.md §1).
func validName(name core.NodeID) bool {
	if len(name) < 1 || len(name) > 63 || name[0] == '-' || name[len(name)-1] == '-' {
		return false
	}
	for i := range len(name) {
		if c := name[i]; c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

func validAddress(address string) bool {
	host, port, err := net.SplitHostPort(address)
	n, number := strconv.ParseUint(port, 10, 16)
	return err == nil && number == nil && n > 0 && host != "" && len(host) <= 255 && printable(host)
}

func validPin(pin string) bool {
	raw, err := hex.DecodeString(pin)
	return err == nil && len(raw) == 32 && pin == strings.ToLower(pin)
}

func validToken(token string) bool { return token != "" && len(token) <= 256 && printable(token) }

func printable(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}

// Credential is what a node keeps to be known by.
type Credential struct {
	Join
	Seed core.Secret // of its NKey

	spent []core.Secret // the tokens of the join strings before
}

// credentialText is what is kept of it.
type credentialText struct {
	joinText
	Seed  string   `json:"seed"`
	Spent []string `json:"spent,omitempty"`
}

// mostSpent is how many of the tokens before are remembered.
const mostSpent = 32

// NewCredential makes an NKey for a join.
func NewCredential(j Join) (Credential, error) {
	key, err := nkeys.CreateUser()
	if err != nil {
		return Credential{}, &core.Error{Kind: core.Internal, Msg: "a key cannot be made", Err: err}
	}
	defer key.Wipe()
	seed, err := key.Seed()
	if err != nil {
		return Credential{}, &core.Error{Kind: core.Internal, Msg: "a key cannot be made", Err: err}
	}
	return Credential{Join: j, Seed: core.NewSecret(string(seed))}, nil
}

// Rejoin is the credential once a join string of the same node is given; changed: it is
// not what it was. A new string makes a new key: who was revoked may have been so as
// another has the old one. One that was given before makes none: it may stand in a
// command that is run at each start.
func (c Credential) Rejoin(j Join) (is Credential, changed bool, err error) {
	given := func(before core.Secret) bool { return hmac.Equal([]byte(before.Reveal()), []byte(j.Token.Reveal())) }
	switch {
	case given(c.Token):
		is = c
		is.Join = j // perhaps at another address
		return is, c.Join != j, nil
	case slices.ContainsFunc(c.spent, given):
		return c, false, nil
	}
	is, err = NewCredential(j)
	is.spent = append(slices.Clone(c.spent), c.Token)
	is.spent = is.spent[max(0, len(is.spent)-mostSpent):]
	return is, true, err
}

// LoadCredential reads the credential that is kept in a folder; false: there is none.
func LoadCredential(folder string) (Credential, bool, error) {
	name := filepath.Join(folder, credentialFile)
	raw, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Credential{}, false, nil
	case err != nil:
		return Credential{}, false, fileError(name, "read", err)
	}
	var t credentialText
	err = decode(raw, &t)
	var j Join
	if err == nil {
		j, err = t.join()
	}
	if err == nil {
		err = validSeed(t.Seed)
	}
	if err != nil {
		return Credential{}, false, &core.Error{Kind: core.Internal, Msg: name + " is damaged",
			Hint: "restore it, or remove it and join anew with the string that `headway nodes enrol NAME` prints on the edge"}
	}
	c := Credential{Join: j, Seed: core.NewSecret(t.Seed)}
	for _, token := range t.Spent {
		c.spent = append(c.spent, core.NewSecret(token))
	}
	return c, true, nil
}

func validSeed(seed string) error {
	key, err := nkeys.FromSeed([]byte(seed))
	if err != nil {
		return err
	}
	public, err := key.PublicKey()
	if err == nil && !nkeys.IsValidPublicUserKey(public) {
		err = errors.New("the key is not of a user")
	}
	return err
}

// Save keeps it in a folder, mode 0600, durably.
func (c Credential) Save(folder string) error {
	kept := credentialText{joinText: c.text(), Seed: c.Seed.Reveal()}
	for _, token := range c.spent {
		kept.Spent = append(kept.Spent, token.Reveal())
	}
	text, err := json.MarshalIndent(kept, "", "  ")
	if err != nil {
		return &core.Error{Kind: core.Internal, Msg: "the credential cannot be written", Err: err}
	}
	return writeFile(folder, credentialFile, append(text, '\n'))
}
