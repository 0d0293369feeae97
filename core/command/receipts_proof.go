package command

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"headway/core"
	"headway/core/control"
	"headway/core/seal"
)

func proveReceiptCommand() *cli.Command {
	return &cli.Command{
		Name: "prove", Usage: "print the proof that one receipt is in the signed log", UsageText: "headway receipts prove ID|last [--out FILE]",
		Description: "About 1 KB of text (C2SP tlog-proof) with what was charged for the call. It shows no other receipt, and whose the call was by\n" +
			"a pseudonym alone; headway receipts reveal opens that.\n\n" +
			"Example:\n   headway receipts prove 01kbkx3q00rdxhvqqk3f9q9r5w --out call.proof && headway receipts verify call.proof --key headway.local/k3f9q9r5+5d1f0a3b+AX…",
		Flags: serverFlags(&cli.StringFlag{Name: "out", Usage: "the `FILE` to write; left out, or -: standard output"}),
		Action: onServer([]string{"ID"}, func(ctx context.Context, c *cli.Context, s *control.Client, args []string) error {
			id, err := newest(ctx, s, args[0])
			if err != nil {
				return err
			}
			return writtenTo(c, outPath(c), func(w io.Writer) error { return s.ProveReceipt(ctx, id, w) })
		}),
	}
}

func revealReceiptCommand() *cli.Command {
	return &cli.Command{
		Name: "reveal", Usage: "print what shows whose one receipt is", UsageText: "headway receipts reveal ID|last [--out FILE]",
		Description: "The salt and the private part (key, owner, job, step) that the leaf's commitment is made of, as JSON. Whoever gets it can\n" +
			"check it against the receipt's proof, and learns nothing of other receipts.\n\n" +
			"Example:\n   headway receipts reveal 01kbkx3q00rdxhvqqk3f9q9r5w --out call.opening && headway receipts verify call.proof --opening call.opening --key headway.local/k3f9q9r5+5d1f0a3b+AX…",
		Flags: serverFlags(&cli.StringFlag{Name: "out", Usage: "the `FILE` to write; left out, or -: standard output"}),
		Action: onServer([]string{"ID"}, func(ctx context.Context, c *cli.Context, s *control.Client, args []string) error {
			id, err := newest(ctx, s, args[0])
			if err != nil {
				return err
			}
			o, err := s.OpenReceipt(ctx, id)
			if err != nil {
				return err
			}
			return writtenTo(c, outPath(c), func(w io.Writer) error { return printJSON(w, o) })
		}),
	}
}

// target is the file that a path names or is to become, links followed. stream: it is
// there and none that could be replaced, a device or a pipe.
func target(path string) (file string, stream bool, err error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return path, false, errors.New("it is a folder")
	case err == nil && !info.Mode().IsRegular():
		return path, true, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return path, false, err
	}
	for range mostLinks {
		to, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	return path, false, nil
}

// mostLinks are followed: more have no file at their end.
const mostLinks = 40

// outPath is the file of --out, "" where it is standard output.
func outPath(c *cli.Context) string {
	if path := c.String("out"); path != "-" {
		return path
	}
	return ""
}

// writtenTo writes a file, all of it or none; "" is standard output. What is no file is
// written as it comes.
func writtenTo(c *cli.Context, path string, write func(io.Writer) error) error {
	if path == "" {
		return write(c.App.Writer)
	}
	path, stream, err := target(path)
	if err != nil {
		return cannot("written", path, err)
	}
	if stream {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return cannot("written", path, err)
		}
		return errors.Join(write(f), f.Close())
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.part")
	if err != nil {
		return cannot("written", path, err)
	}
	err = write(f)
	if err == nil {
		if err = f.Sync(); err != nil {
			err = cannot("written", path, err)
		}
	}
	if e := f.Close(); err == nil && e != nil {
		err = cannot("written", path, e)
	}
	if err == nil {
		if e := os.Rename(f.Name(), path); e != nil {
			err = cannot("written", path, e)
		}
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// exportTree writes one log as a folder in the layout of tlog-tiles, all of it or
// nothing.
func exportTree(ctx context.Context, c *cli.Context, s *control.Client, query url.Values) error {
	folder := c.String("tree")
	for _, flag := range [...]string{"from", "to", "since", "out", "measurements"} {
		if c.IsSet(flag) {
			return wrongUsage("--"+flag+": does not go with --tree, which has a whole log", "headway receipts export --tree FOLDER --month 2026-11")
		}
	}
	names, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return cannot("written", folder, err)
	}
	if len(names) > 0 {
		return failed{&core.Error{Kind: core.Invalid, Msg: folder + ": is not empty", Hint: "name a folder that is not there yet"}}
	}
	folder = filepath.Clean(folder)
	part, err := os.MkdirTemp(filepath.Dir(folder), filepath.Base(folder)+".*.part")
	if err != nil {
		return cannot("written", folder, err)
	}
	files, err := unpackTree(ctx, c, s, query, part)
	if err == nil {
		err = os.Chmod(part, 0o755)
	}
	if err == nil && len(names) == 0 {
		_ = os.Remove(folder) // an empty one may be there
		if e := os.Rename(part, folder); e != nil {
			err = cannot("written", folder, e)
		}
	}
	if err != nil {
		_ = os.RemoveAll(part)
		return err
	}
	fmt.Fprintf(c.App.ErrWriter, "%s is written: %s\n", folder, several(files, "file"))
	return nil
}

// unpackTree puts the files that the server sends into a folder.
func unpackTree(ctx context.Context, c *cli.Context, s *control.Client, query url.Values, dir string) (files int, err error) {
	out := &exported{w: io.Discard}
	if terminal(c.App.ErrWriter) {
		out.progress = c.App.ErrWriter
	}
	defer out.done()
	err = s.ReceiptTree(ctx, query, func(name string, text io.Reader) error {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return cannot("written", path, err)
		}
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return cannot("written", path, err)
		}
		_, err = io.Copy(f, text)
		if err := errors.Join(err, f.Close()); err != nil {
			return cannot("written", path, err)
		}
		files++
		_, err = out.Write(bytes.Repeat([]byte("\n"), 256)) // leaves of a file, about
		return err
	})
	return files, err
}

// proofIn is what a file holds that is the proof of one receipt, by its first line; nil:
// it is something else.
func proofIn(c *cli.Context, path string) ([]byte, error) {
	const front = seal.ProofName + "\n"
	in := c.App.Reader
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, cannot("read", path, err)
		}
		defer f.Close()
		if info, err := f.Stat(); err != nil || info.IsDir() {
			return nil, nil // what it is is found out elsewhere
		}
		in = f
	}
	text := bufio.NewReaderSize(in, 64<<10)
	if path == "-" {
		c.App.Reader = text
	}
	if is, _ := text.Peek(len(front)); string(is) != front {
		return nil, nil
	}
	proof, err := io.ReadAll(io.LimitReader(text, seal.MostProof+1))
	if err != nil {
		return nil, cannot("read", path, err)
	}
	return proof, nil
}

// verifyProof checks the proof of one receipt.
func verifyProof(c *cli.Context, path string, text []byte) error {
	path = fileName(path)
	var check seal.Check
	if err := goBy(c, &check); err != nil {
		return err
	}
	if len(check.Keys) == 0 {
		return wrongUsage("--key: a proof is nothing without the key of the server that signed it", "headway receipts list shows it")
	}
	if check.Saved != nil {
		return wrongUsage("--checkpoint: goes with exports, a proof has one of its own", "leave it out")
	}
	p, err := seal.VerifyProof(text, check.Keys)
	var witnessed string
	if err == nil && len(check.Witnesses) > 0 {
		witnessed, err = p.Witnessed(check.Witnesses)
	}
	if err != nil {
		return refusedFile(path, err)
	}
	var opening control.Opening
	if file := c.String("opening"); file != "" {
		text, err := readSmall(file)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &opening); err != nil {
			return failed{&core.Error{Kind: core.Invalid, Msg: file + ": it is not what headway receipts reveal prints"}}
		}
		_, log := seal.EdgeOf(p.Checkpoint.Origin)
		if opening.ID != p.Leaf.ID || opening.Log != log || opening.Index != p.Index {
			return failed{&core.Error{Kind: core.Invalid, Msg: printable(fmt.Sprintf("%s: it is of receipt %s, leaf %d of log %s, and the proof is of %s, leaf %d of log %s",
				file, opening.ID, opening.Index, opening.Log, p.Leaf.ID, p.Index, log))}}
		}
		if err := opening.Check(p.Leaf); err != nil {
			return refusedFile(file, err)
		}
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, struct {
			OK bool `json:"ok"`
			*seal.Proven
			Private string `json:"private,omitempty"`
		}{true, p, opening.Private})
	}
	w := c.App.Writer
	fmt.Fprintf(w, "%s is good: receipt %s, leaf %d of %s\n", printable(path), printable(string(p.Leaf.ID)), p.Index, printable(p.Checkpoint.Origin))
	sayCharged(w, p.Leaf)
	for _, k := range p.Checkpoint.Signed {
		if i := slices.IndexFunc(check.Keys, func(given seal.Key) bool { return given.Public == k.Public }); i >= 0 {
			k = check.Keys[i] // by the name that it was given by, not by the log's
		}
		fmt.Fprintf(w, "signed by %s\n", printable(k.String()))
	}
	if witnessed != "" {
		fmt.Fprintf(w, "witnessed by %s\n", printable(witnessed))
	}
	if opening.Private != "" {
		fmt.Fprintf(w, "private %s\n", printable(opening.Private))
	}
	return nil
}

// sayCharged says what a receipt charges, and for what.
func sayCharged(w io.Writer, l *seal.Leaf) {
	if l.Model != "" {
		fmt.Fprintf(w, "model %s", printable(string(l.Model)))
		if l.Offer != "" {
			fmt.Fprintf(w, ", offer %s", printable(string(l.Offer)))
		}
		fmt.Fprintln(w)
	}
	if tokens := tokensOf(l.Usage); len(tokens) > 0 {
		fmt.Fprintf(w, "tokens %s (from the %s)\n", strings.Join(tokens, ", "), usageFrom(l.UsageFrom))
	}
	if r := l.Prices; r != nil {
		prices := fmt.Sprintf("$%s in, $%s out", r.Input, r.Output)
		for _, p := range [...]struct {
			name string
			rate core.Opt[core.Rate]
		}{{"cache read", r.CacheRead}, {"cache written", r.CacheWrite}, {"cache written for 1 h", r.CacheWrite1h}} {
			if p.rate.OK {
				prices += fmt.Sprintf(", $%s %s", p.rate.V, p.name)
			}
		}
		fmt.Fprintf(w, "prices %s, per million tokens\n", prices)
	}
	if l.Charge.OK {
		fmt.Fprintf(w, "charge $%s\n", l.Charge.V)
	}
}

// refusedFile is the error of a file that is not what it should be.
func refusedFile(path string, err error) error {
	var e *core.Error
	if !errors.As(err, &e) {
		return failed{err}
	}
	named := *e
	named.Msg = printable(path + ": " + strings.TrimPrefix(e.Msg, e.Param+": "))
	return failed{&named}
}
