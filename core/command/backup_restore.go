package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"headway/core"
	"headway/core/control"
	"headway/core/seal"
	"headway/embedded/store"
)

func restoreCommand(p Program) *cli.Command {
	return &cli.Command{
		Name: "restore", Usage: "make a data folder of a backup, without a server", UsageText: "headway restore FILE --data FOLDER [--log FOLDER]",
		Description: "FOLDER must be empty or not there; it is there once all of the backup was checked and restored, or not at all.\n" +
			"The server that was may have signed more than the backup has. So the restored one begins another part of the signed log,\n" +
			"such as 2026-11.2, and exports of before verify still. Stop that server first, and never run both. With --log, the log folder of the data folder\n" +
			"that was, the new part says exactly what is lost; give it wherever it can still be read, and always where\n" +
			"a backup is restored a second time: then that of the first restored folder.\n\n" +
			"Example:\n   headway restore headway-2026-11-30.tar --data ./data-new --log ./data/log",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "data", Usage: "the data `FOLDER` to make"},
			&cli.StringFlag{Name: "log", Usage: "the log `FOLDER` in the data folder of the server that was"},
			jsonFlag(),
		},
		Action: func(c *cli.Context) error { return restore(c, p) },
	}
}

func restore(c *cli.Context, p Program) error {
	args, err := arguments(c, "FILE")
	if err != nil {
		return err
	}
	data := c.String("data")
	if data == "" {
		return wrongUsage("--data is missing", "say which folder to make: headway restore "+args[0]+" --data ./data-new")
	}
	if data, err = restoreTarget(data); err != nil {
		return err
	}
	heads, err := readHeads(c.String("log"))
	if err != nil {
		return err
	}
	if heads != nil {
		if err := stopped(c.String("log")); err != nil {
			return err
		}
	}
	step := newSteps(c, p)
	defer step.done()
	f, b, err := openBackup(c.Context, args[0], step)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := holdHeads(b, c.String("log"), heads); err != nil {
		return err
	}
	draft := data + ".restoring"
	if store.InUse(draft) {
		return failed{&core.Error{Kind: core.Unavailable, Msg: data + " is being restored by another process already", Hint: "wait for its end"}}
	}
	if err := os.RemoveAll(draft); err != nil { // of a restore that was killed
		return cannot("removed", draft, err)
	}
	report, err := unpack(c.Context, b, draft, p.Clock, heads, step)
	if err == nil {
		err = report.check(c.Context, draft, p.Clock, step)
	}
	if err == nil {
		err = moveIntoPlace(draft, data)
	}
	if err != nil {
		return errors.Join(ofFile(args[0], err), os.RemoveAll(draft))
	}
	step.done()
	report.File = args[0]
	if c.Bool("json") {
		return printJSON(c.App.Writer, report)
	}
	report.write(c.App.Writer)
	fmt.Fprintf(c.App.Writer, "%s is restored as of %s UTC\n", printable(data), at(report.Made))
	for _, problem := range report.Problems {
		fmt.Fprintf(c.App.ErrWriter, "headway: note: %s: it was so when the backup was made\n", printable(problem))
	}
	if heads == nil {
		fmt.Fprint(c.App.ErrWriter, "headway: note: the next receipts begin another part of the signed log, as the server that was may have signed more than the backup has\n")
	}
	return nil
}

// restoreTarget refuses a folder that holds something, and gives the path of one that
// may be made.
func restoreTarget(data string) (string, error) {
	data = filepath.Clean(data)
	names, err := os.ReadDir(data)
	if errors.Is(err, fs.ErrNotExist) {
		return data, nil
	}
	if err != nil {
		return "", cannot("restored into", data, err)
	}
	if store.InUse(data) {
		return "", failed{&core.Error{Kind: core.Unavailable, Msg: data + " is in use by a running headway", Hint: "restore into another folder, then stop the server and start it with --data of that"}}
	}
	if len(names) > 0 {
		return "", failed{&core.Error{Kind: core.Invalid, Msg: fmt.Sprintf("%s is not empty: it holds %s", data, printable(names[0].Name())),
			Hint: "restore into a new folder, and keep the old one: its log folder says what was signed (--log)"}}
	}
	return filepath.EvalSymlinks(data)
}

// stopped refuses the log folder of a server that runs: it signs on, and what is
// restored would sign something else by the same name.
func stopped(logDir string) error {
	dir, err := filepath.Abs(logDir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return cannot("read", logDir, err)
	}
	if data := filepath.Dir(dir); store.InUse(data) {
		return failed{&core.Error{Kind: core.Unavailable, Msg: fmt.Sprintf("--log: a running headway uses %s, and signs on", data),
			Hint: "stop it first; `headway backup verify` looks at a backup without stopping anything"}}
	}
	return nil
}

// head is a file of the log folder of the server that was.
type headFile struct {
	name    string
	content []byte
}

var headName = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}(\.[2-9])?\.(checkpoint|restored)$`)

// readHeads reads a log folder; nil: none was named.
func readHeads(dir string) ([]headFile, error) {
	if dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, cannot("read", dir, err)
	}
	var heads []headFile
	for _, e := range entries {
		if !headName.MatchString(e.Name()) {
			continue
		}
		content, err := readSmall(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		heads = append(heads, headFile{e.Name(), content})
	}
	if heads == nil {
		return nil, failed{&core.Error{Kind: core.Invalid, Msg: dir + ": there is no checkpoint file in it", Hint: "it is the folder log of a data folder, with files such as 2026-11.checkpoint"}}
	}
	return heads, nil
}

// holdHeads refuses a log folder that is not of the server that made the backup, or is
// from before it: what the backup says of the logs is then the better word.
func holdHeads(b *control.Backup, dir string, heads []headFile) error {
	wrong := func(name, format string, args ...any) error {
		return failed{&core.Error{Kind: core.Invalid, Msg: fmt.Sprintf("--log: %s %s", filepath.Join(dir, name), fmt.Sprintf(format, args...)),
			Hint: "name the log folder of the server that was, as it was last, or leave --log out"}}
	}
	edge, signed := "", map[string]uint64{}
	if err := b.Checkpoints(func(_ seal.Month, note []byte) error {
		if t, ok := seal.HeadSays(note); ok {
			edge, _ = seal.EdgeOf(t.Origin)
			signed[t.Origin] = t.Size
		}
		return nil
	}); err != nil {
		return err
	}
	for _, h := range heads {
		if !strings.HasSuffix(h.name, ".checkpoint") || len(bytes.Trim(h.content, "\x00")) == 0 {
			continue
		}
		t, ok := seal.HeadSays(h.content)
		of, _ := seal.EdgeOf(t.Origin)
		switch {
		case !ok:
			return wrong(h.name, "is no checkpoint file of a receipt log")
		case edge != "" && of != edge:
			return wrong(h.name, "is of another server, %s, and the backup is of %s", printable(of), edge)
		case t.Size < signed[t.Origin]:
			return wrong(h.name, "is older than the backup: it is over %d leaves, and the backup's over %d", t.Size, signed[t.Origin])
		}
	}
	return nil
}

// unpack makes a data folder of a backup, durably.
func unpack(ctx context.Context, b *control.Backup, dir string, clock core.Clock, heads []headFile, step *steps) (*restored, error) {
	report := &restored{Made: b.Made, Version: b.Version, Bytes: b.Size()}
	var err error
	o := store.Options{Clock: clock, Log: slog.New(slog.DiscardHandler)}
	if report.Records, err = store.Load(ctx, dir, o, b.Chunks(ctx, step.of("restoring", b.Size()))); err != nil {
		return nil, err
	}
	write := func(name string, content []byte) error {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return cannot("made", filepath.Dir(path), err)
		}
		if err := writeSecret(path, string(content)); err != nil {
			return cannot("written", path, err)
		}
		return nil
	}
	if err := b.Files(write); err != nil {
		return nil, err
	}
	log := filepath.Join(dir, "log")
	if err := os.MkdirAll(log, 0o700); err != nil {
		return nil, cannot("made", log, err)
	}
	newest := seal.Month("")
	if err := b.Checkpoints(func(m seal.Month, note []byte) error {
		newest = max(newest, m)
		return seal.WriteRestored(log, m, note)
	}); err != nil {
		return nil, err
	}
	for _, h := range heads {
		if err := write("log/"+h.name, h.content); err != nil {
			return nil, err
		}
	}
	if heads == nil {
		if err := takeMonths(log, newest, clock()); err != nil {
			return nil, err
		}
	}
	for _, folder := range []string{log, dir} {
		if err := syncFolder(folder); err != nil {
			return nil, cannot("written", folder, err)
		}
	}
	return report, nil
}

// takeMonths names the logs that the server which was may have begun after the backup:
// those of the months behind its newest one, up to now.
func takeMonths(log string, newest seal.Month, now time.Time) error {
	at, err := time.Parse("2006-01", string(newest[:min(len(newest), len("2006-01"))]))
	if err != nil {
		return nil // nothing was sealed yet when it was made
	}
	for at = at.AddDate(0, 1, 0); !at.After(now); at = at.AddDate(0, 1, 0) {
		if err := seal.WriteRestored(log, seal.Month(at.Format("2006-01")), nil); err != nil {
			return err
		}
	}
	return nil
}

// moveIntoPlace gives a restored folder its name.
func moveIntoPlace(draft, data string) error {
	if err := os.Remove(data); err != nil && !errors.Is(err, fs.ErrNotExist) { // it is empty
		return cannot("replaced", data, err)
	}
	if err := os.Rename(draft, data); err != nil {
		return cannot("made", data, err)
	}
	if err := syncFolder(filepath.Dir(data)); err != nil {
		return cannot("made", data, err)
	}
	return nil
}
