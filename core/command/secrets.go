package command

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"headway/conf"
	"headway/core"
	"headway/core/ledger"
	"headway/core/seal"
)

// Secrets are what a server keeps in files of its own in the data folder.
type Secrets struct {
	Pepper     ledger.Pepper
	AdminToken core.Secret
}

// The files, each of mode 0600 and made once.
const (
	pepperFile = "pepper"      // 64 hexadecimal digits
	tokenFile  = "admin-token" // where the configuration has none
)

// OpenSecrets reads the pepper and the admin token of a data folder, which must
// be there, and makes what is missing (SPEC §24). The configuration's token goes
// before the file's. A file that cannot be read is an error: another pepper would
// make every key unknown.
func OpenSecrets(f *conf.File, vault core.Vault) (Secrets, error) {
	var s Secrets
	if err := pepperThere(f.Data, vault); err != nil {
		return s, err
	}
	text, err := kept(filepath.Join(f.Data, pepperFile), func() string {
		made := ledger.NewPepper()
		return hex.EncodeToString(made[:])
	})
	if err != nil {
		return s, err
	}
	if n, err := hex.Decode(s.Pepper[:], []byte(text)); err != nil || n != len(s.Pepper) || len(text) != hex.EncodedLen(n) {
		return s, &core.Error{Kind: core.Unavailable, Msg: filepath.Join(f.Data, pepperFile) + ": is damaged",
			Hint: "restore it from a backup: without it no key of this folder is valid"}
	}
	if s.AdminToken = f.AdminToken; !s.AdminToken.Empty() {
		return s, nil
	}
	text, err = kept(filepath.Join(f.Data, tokenFile), func() string { return "hwa_" + rand.Text() + rand.Text() })
	s.AdminToken = core.NewSecret(text)
	return s, err
}

// pepperThere refuses a folder whose pepper is gone: the one that its signing keys are
// sealed with.
func pepperThere(data string, vault core.Vault) error {
	name := filepath.Join(data, pepperFile)
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	sealed := false
	if err := vault.All(seal.KindKeys, func(string, []byte) bool { sealed = true; return false }); err != nil || !sealed {
		return err
	}
	return &core.Error{Kind: core.Unavailable, Msg: name + ": is gone",
		Hint: "restore it from a backup: without it no key of this folder is valid, and its receipts cannot be signed"}
}

// kept reads a file of one line, made where there is none, whole or not at all.
func kept(name string, make func() string) (string, error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		line := make()
		return line, secretError(name, "written", writeSecret(name, line+"\n"))
	}
	line := strings.TrimSpace(string(text))
	if err == nil && line == "" {
		err = errors.New("it is empty")
	}
	return line, secretError(name, "read", err)
}

func secretError(name, what string, err error) error {
	if err == nil {
		return nil
	}
	return &core.Error{Kind: core.Unavailable, Msg: name + ": cannot be " + what, Hint: "see who owns it and what its mode is", Err: err}
}

func writeSecret(name, text string) error {
	f, err := os.OpenFile(name+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(name+".new", name); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
