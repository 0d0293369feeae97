// Package conf reads the one YAML file of Headway (SPEC §18, §24), and the same
// objects as JSON in admin calls.
//
// One table of fields, each with its documentation, drives all of it: the strict
// binder with a line and column for every mistake, the JSON Schema, and the
// resolved file that "headway check" prints. headway.yaml beside this file is
// the commented reference.
package conf

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"headway/core"
)

// File is a configuration file as it was read, with its defaults and with every
// reference replaced.
type File struct {
	Path string // as it was given
	Dir  string // its folder: what its paths are relative to

	Listen     string      // host:port of the one HTTP listener
	Data       string      // the data folder
	AdminToken core.Secret // empty: to be made and kept in the data folder

	Settings core.Settings
	Scripts  string // the folder of the strategies in JavaScript; "" is none

	Providers []*core.Provider
	Offers    []*core.Offer // of those providers, in the order of the file
	Keys      []Credential

	NATS         NATS
	CORS         []string // origins that browsers may call from; "*" is every one
	LogLevel     slog.Level
	LogFileBytes int64 // size of one log file of the store, in bytes
	Witness      Witness

	// Notes are advice on what is allowed and is likely not meant.
	Notes []Problem

	scripts []scriptUse // for CheckScripts
}

// Credential is a caller's key with its text.
type Credential struct {
	core.Key
	Secret core.Secret
}

// Witness is who else signs the checkpoints of the receipt log; its fields are "" where
// there is none.
type Witness struct {
	URL string // what /add-checkpoint is put behind
	Key string // its verifier key
}

// NATS is how nodes reach the edge.
type NATS struct {
	Listen          string        // host:port
	Advertise       string        // host:port that join strings name; "": Listen, or this machine's name and its port
	Heartbeat       time.Duration // how often a node reports
	HeartbeatMisses int           // reports missed in a row that make it lost
}

// Default is the configuration of an empty file in the working directory. With
// core.DefaultSettings it is the only place of defaults.
func Default() File {
	return File{
		Dir:      ".",
		Listen:   "127.0.0.1:8080",
		Data:     "data",
		Settings: core.DefaultSettings(),
		NATS:     NATS{Listen: "127.0.0.1:4222", Heartbeat: time.Second, HeartbeatMisses: 3},
		LogLevel: slog.LevelInfo, LogFileBytes: 64 << 20,
	}
}

// Load reads the file at path. env looks up a variable; nil knows none. The
// error is Problems for what the file says, and a *core.Error where it cannot
// be read at all.
func Load(path string, env func(string) (string, bool)) (*File, error) {
	data, err := readFile(path, "headway init writes one")
	if err != nil {
		return nil, err
	}
	return Parse(path, data, env)
}

// readFile reads a file; hint is what to do where there is none.
func readFile(path, hint string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err == nil {
		return data, nil
	}
	// Not the error's own text: it names the system call.
	e := &core.Error{Kind: core.Invalid, Msg: path + ": cannot be read", Err: err}
	if errors.Is(err, fs.ErrNotExist) {
		e.Kind, e.Msg, e.Hint = core.NotFound, path+": there is no such file", hint
	}
	return nil, e
}

// Parse reads data as the file of that name, whose folder its paths are
// relative to. The error is Problems: all of them, in the file's order.
func Parse(name string, data []byte, env func(string) (string, bool)) (*File, error) {
	d := draft{File: Default()}
	d.Path, d.Dir = name, filepath.Dir(name)
	d.Data = filepath.Join(d.Dir, d.Data)
	notes, err := readDraft(name, data, env, fileRecord(), &d)
	if err != nil {
		return nil, err
	}
	for i := range d.providers {
		p, offers := d.providers[i].build(true)
		d.Providers = append(d.Providers, p)
		d.Offers = append(d.Offers, offers...)
	}
	for i := range d.Keys {
		d.Keys[i].ID, d.Keys[i].FromFile = core.KeyID(d.Keys[i].Name), true
	}
	d.Notes = notes
	return &d.File, nil
}

// readDraft reads data as the file of that name into d, which has its defaults, and
// gives the notes. The error is Problems.
func readDraft[T any](name string, data []byte, env func(string) (string, bool), v value[T], d *T) ([]Problem, error) {
	if env == nil {
		env = func(string) (string, bool) { return "", false }
	}
	b := &binder{file: name, dir: filepath.Dir(name), env: env}
	root, wrong := readYAML(data)
	if len(wrong) > 0 {
		for i := range wrong {
			wrong[i].File = name
		}
		return nil, Problems(wrong)
	}
	if v.read(b, place{node: root}, d); len(b.problems) > 0 {
		sortProblems(b.problems)
		return nil, Problems(b.problems)
	}
	sortProblems(b.notes)
	return b.notes, nil
}

// draft is a file while it is read.
type draft struct {
	File
	providers []provider
}
