package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"headway/core"
	"headway/core/control"
)

func backupCommand(p Program) *cli.Command {
	return &cli.Command{
		Name: "backup", Usage: "write all that a running server keeps into one file", UsageText: "headway backup --out FILE [--data FOLDER] | headway backup verify FILE",
		Description: "The server goes on meanwhile; the file is as it was at one moment. It has what a restored server needs: receipts and\n" +
			"their signed logs, keys, the audit log, measures, and the secrets of the data folder. So whoever has it can be that server:\n" +
			"its mode is 0600, keep it where the data folder could be too. The configuration file and scripts are not in it.\n\n" +
			"Example:\n   headway backup --out headway-$(date +%F).tar && headway backup verify headway-$(date +%F).tar",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "out", Usage: "the `FILE` to write; one that is there is replaced once the new one is whole"},
			&cli.StringFlag{Name: "data", EnvVars: []string{dataVariable}, Usage: "the data `FOLDER` of the server; left out: that of ./headway.yaml, ./data, where there is neither a running demo's"},
		},
		Action: func(c *cli.Context) error { return makeBackup(c, p) },
		Subcommands: []*cli.Command{{
			Name: "verify", Usage: "restore a backup into a temporary folder and check it, without a server", UsageText: "headway backup verify FILE [--tmp FOLDER] [--json]",
			Description: "Holds every byte against its sum, restores the store, reads each receipt, and recomputes each signed log, which must be\n" +
				"what its checkpoint was signed over. Ends with 1 where something is not as it should be. It needs as much room as\n" +
				"the data folder has.\n\nExample:\n   headway backup verify headway-2026-11-30.tar",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "tmp", Usage: "the `FOLDER` to restore in; left out: the system's for temporary files"},
				jsonFlag(),
			},
			Action: func(c *cli.Context) error { return verifyBackup(c, p) },
		}},
	}
}

func makeBackup(c *cli.Context, p Program) (err error) {
	if _, err := arguments(c); err != nil {
		return err
	}
	path := c.String("out")
	if path == "" {
		return wrongUsage("--out is missing", "say which file to write: headway backup --out headway.tar")
	}
	s, err := server(c)
	if err != nil {
		return err
	}
	path, stream, err := target(path)
	if err == nil && stream {
		err = errors.New("it is no file, and a backup is read back")
	}
	if err != nil {
		return cannot("written", path, err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.part") // of mode 0600
	if err != nil {
		return cannot("written", path, err)
	}
	defer func() {
		if err != nil {
			_ = errors.Join(f.Close(), os.Remove(f.Name()))
		}
	}()
	step := newSteps(c, p)
	defer step.done()
	out := &stepWriter{w: f, step: step}
	if err := s.Backup(c.Context, out); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return cannot("written", path, err)
	}
	// What is on the disk is what counts.
	if _, err := control.OpenBackup(c.Context, f, out.n, step.of("read back", out.n)); err != nil {
		return ofFile(path, err)
	}
	if err := f.Close(); err != nil {
		return cannot("written", path, err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return cannot("written", path, err)
	}
	if err := syncFolder(filepath.Dir(path)); err != nil {
		return cannot("written", path, err)
	}
	step.done()
	fmt.Fprintf(c.App.ErrWriter, "%s is written: %s\n", path, bytesOf(out.n))
	return nil
}

// ofFile puts the name of a file before what is wrong with it. That is no wrong usage.
func ofFile(path string, err error) error {
	var e *core.Error
	if !errors.As(err, &e) || e.Kind != core.Invalid {
		return err
	}
	named := *e
	named.Msg = printable(path + ": " + e.Msg)
	return failed{&named}
}

// bytesOf is a size for eyes.
func bytesOf(n int64) string {
	const kib = 1 << 10
	units := [...]string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	v, unit := float64(n), 0
	for v >= kib && unit < len(units)-1 {
		v, unit = v/kib, unit+1
	}
	if unit == 0 {
		return strconv.FormatInt(n, 10) + " bytes"
	}
	return strconv.FormatFloat(v, 'f', 1, 64) + " " + units[unit]
}

// steps says on a terminal how far long work is.
type steps struct {
	w     io.Writer // nil: nobody reads along
	clock core.Clock
	shown time.Time
}

func newSteps(c *cli.Context, p Program) *steps {
	s := &steps{clock: p.Clock}
	if terminal(c.App.ErrWriter) {
		s.w = c.App.ErrWriter
	}
	return s
}

// say shows a line, a few times a second at most.
func (s *steps) say(format string, args ...any) {
	const every = 200 * time.Millisecond
	if s.w == nil {
		return
	}
	if now := s.clock(); now.Sub(s.shown) >= every {
		s.shown = now
		fmt.Fprintf(s.w, "\r"+format+"\x1b[K", args...)
	}
}

// of is told how much of a file was read.
func (s *steps) of(what string, size int64) func(read int64) {
	return func(read int64) {
		s.say("%s: %s of %s (%.0f%%)", what, bytesOf(read), bytesOf(size), 100*float64(read)/float64(max(size, 1)))
	}
}

func (s *steps) done() {
	if s.w != nil {
		fmt.Fprint(s.w, "\r\x1b[K")
	}
}

// stepWriter says how much was written.
type stepWriter struct {
	w    io.Writer
	step *steps
	n    int64
}

// Write hands bytes on.
func (o *stepWriter) Write(b []byte) (int, error) {
	n, err := o.w.Write(b)
	o.n += int64(n)
	o.step.say("%s written", bytesOf(o.n))
	return n, err
}

// openBackup opens a backup file and reads all of it; it is the caller's to close.
func openBackup(ctx context.Context, path string, step *steps) (*os.File, *control.Backup, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, cannot("read", path, err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no file")
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, cannot("read", path, err)
	}
	b, err := control.OpenBackup(ctx, f, info.Size(), step.of("reading", info.Size()))
	if err != nil {
		_ = f.Close()
		return nil, nil, ofFile(path, err)
	}
	return f, b, nil
}

func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
