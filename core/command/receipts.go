package command

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"headway/core"
	"headway/core/control"
	"headway/core/seal"
)

func receiptsCommand() *cli.Command {
	receipts := &cli.Command{
		Name: "receipts", Usage: "hand receipts to others, signed, and check them", UsageText: "headway receipts list|export|prove|reveal|verify|recompute|rotate|renew|erase",
		Description: "What each call was charged for is signed and appended to a log, one for each month. Whoever has the public key\n" +
			"sees every receipt of an export that was changed, left out or moved; whoever kept a checkpoint besides, also\n" +
			"that the end is gone or the log was written anew. core/seal/RECEIPT.md is the format.\n\n" +
			"Example:\n   headway receipts export --out receipts.jsonl && headway receipts verify receipts.jsonl",
		Subcommands: []*cli.Command{
			{
				Name: "list", Usage: "list the signed logs, and the key that they are checked with", UsageText: "headway receipts list [--json]",
				Description: "LEAVES are the receipts and what a log says of itself; SIGNED is how many of them the newest checkpoint is over, and\n" +
					"WITNESSED how many the witness has signed too, and when. --json has the checkpoints: keep the newest one.\n\n" +
					"Example:\n   headway receipts list --json | jq -j '.items[-1].checkpoint' > saved.checkpoint",
				Flags: serverFlags(jsonFlag()), Action: onServer(nil, listReceipts),
			},
			{
				Name: "export", Usage: "write receipts as JSON lines that anybody can check",
				UsageText: "headway receipts export [--month MONTH] [--from TIME] [--to TIME] [--since FILE] [--witnessed] [--measurements] [--out FILE] | --tree FOLDER [--month MONTH]",
				Description: "Without --month, --from, --to and --since it is all that is signed. A part by time has whole stretches of a log, so perhaps\n" +
					"other receipts too: a log is in the order in which calls ended. Keys and owners are pseudonyms of their month.\n" +
					"--since takes a checkpoint that was kept from earlier: what came after it, with the proof that the log only grew.\n" +
					"--tree writes the log of one month as files in the layout of C2SP tlog-tiles, which public tools read. A month has several logs\n" +
					"where the store had lost a part of one: --month 2026-11.1 takes the first alone, 2026-11.2 the second.\n\n" +
					"Example:\n   headway receipts export --month 2026-11 --out november.jsonl",
				Flags: serverFlags(
					&cli.StringFlag{Name: "month", Usage: "only this `MONTH`, such as 2026-11; one log of it is 2026-11.1, the next 2026-11.2"},
					&cli.StringFlag{Name: "from", Usage: "only calls from this `TIME` on: a time, a day in UTC, or an age such as 24h or 30d"},
					&cli.StringFlag{Name: "to", Usage: "only calls before this `TIME`; a day is meant with its end"},
					&cli.StringFlag{Name: "since", Usage: "only what came after the checkpoint in this `FILE`, and the proof that the log grew from there"},
					&cli.BoolFlag{Name: "witnessed", Usage: "only as far as the witness has signed"},
					&cli.BoolFlag{Name: "measurements", Usage: "add what is not signed: the times of each call"},
					&cli.StringFlag{Name: "tree", Usage: "write the log as files into this `FOLDER`, which must not be there or be empty"},
					&cli.StringFlag{Name: "out", Usage: "the `FILE` to write; left out, or -: standard output"}),
				Action: onServer(nil, exportReceipts),
			},
			proveReceiptCommand(),
			revealReceiptCommand(),
			{
				Name: "verify", Usage: "check an export, without a server", UsageText: "headway receipts verify FILE|FOLDER [--key VKEY] [--checkpoint FILE] [--witness VKEY] [--opening FILE] [--json]",
				Description: "Names the first line that is wrong, and ends with 1 then. - reads standard input; a folder is a log in the layout\n" +
					"of C2SP tlog-tiles. Without --key the export's own key is believed: it then proves only that the export agrees\n" +
					"with itself. With a checkpoint from earlier it must also hold all that was signed then. FILE may be the proof of one\n" +
					"receipt, and --opening then what headway receipts reveal has printed of it.\n\n" +
					"Example:\n   headway receipts verify november.jsonl --key headway.local/k3f9q9r5+5d1f0a3b+AX… --checkpoint saved.checkpoint",
				Flags: []cli.Flag{
					&cli.StringSliceFlag{Name: "key", Usage: "the public `VKEY` of the server, or a file with it; repeatable"},
					&cli.StringFlag{Name: "checkpoint", Usage: "the `FILE` with a checkpoint that was kept from earlier"},
					&cli.StringSliceFlag{Name: "witness", Usage: "the public `VKEY` of a witness that must have signed too, or a file with it; of several one is enough"},
					&cli.StringFlag{Name: "opening", Usage: "the `FILE` that shows whose the receipt of a proof is"},
					jsonFlag(),
				},
				Action: verifyReceipts,
			},
			recomputeCommand(),
			rotateReceiptsCommand(),
			renewReceiptsCommand(),
			eraseReceiptsCommand(),
		},
	}
	for _, c := range receipts.Subcommands {
		c.Before = noEmptyOptions
	}
	return receipts
}

// noEmptyOptions refuses options without a value: what was meant to be checked or chosen
// by one, in a script whose variable is empty, would be left out without a word.
func noEmptyOptions(c *cli.Context) error {
	for _, f := range c.Command.Flags {
		empty := false
		switch f := f.(type) {
		case *cli.StringFlag:
			fromVariable := slices.ContainsFunc(f.EnvVars, func(name string) bool { v, is := os.LookupEnv(name); return is && v == "" })
			empty = c.String(f.Name) == "" && !fromVariable
		case *cli.StringSliceFlag:
			empty = slices.Contains(c.StringSlice(f.Name), "")
		}
		if name := f.Names()[0]; empty && c.IsSet(name) {
			return wrongUsage(fmt.Sprintf("--%s needs a value", name), c.Command.HelpName+" --help shows what there is")
		}
	}
	return nil
}

func listReceipts(ctx context.Context, c *cli.Context, s *control.Client, _ []string) error {
	list, err := s.ReceiptLogs(ctx)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, list)
	}
	t := table{head: []string{"LOG", ">LEAVES", ">SIGNED", "ROOT", "PROBLEM"}, empty: "nothing is sealed yet"}
	if list.Witness != "" {
		t.head = append(t.head, ">WITNESSED", "AT (UTC)")
	}
	for _, l := range list.Items {
		row := []string{string(l.Log), leafCount(l.Size), leafCount(l.SignedSize), l.Root, l.Problem}
		if list.Witness != "" {
			when := absent
			if l.WitnessedAt.OK {
				when = at(l.WitnessedAt.V)
			}
			row = append(row, leafCount(l.WitnessedSize), when)
		}
		t.add(row...)
	}
	t.write(c.App.Writer)
	for _, p := range list.Problems {
		fmt.Fprintf(c.App.ErrWriter, "headway: note: %s\n", printable(p))
	}
	for _, k := range list.Keys {
		if k != list.Key {
			fmt.Fprintf(c.App.Writer, "older key %s\n", printable(k))
		}
	}
	fmt.Fprintf(c.App.Writer, "key %s\n", printable(list.Key))
	return nil
}

func leafCount(n core.Opt[uint64]) string {
	if !n.OK {
		return absent
	}
	return strconv.FormatUint(n.V, 10)
}

func exportReceipts(ctx context.Context, c *cli.Context, s *control.Client, _ []string) error {
	query := url.Values{}
	for _, name := range []string{"month", "from", "to"} {
		if v := c.String(name); v != "" {
			query.Set(name, v)
		}
	}
	if c.Bool("measurements") {
		query.Set("measurements", "true")
	}
	if c.Bool("witnessed") {
		query.Set("witnessed", "true")
	}
	if file := c.String("since"); file != "" {
		text, err := readSmall(file)
		if err != nil {
			return err
		}
		query.Set("since", string(text))
	}
	write := exportLines
	if c.IsSet("tree") {
		write = exportTree
	}
	if err := write(ctx, c, s, query); err != nil {
		return err
	}
	return leftOut(ctx, c, s, query)
}

func exportLines(ctx context.Context, c *cli.Context, s *control.Client, query url.Values) error {
	path := outPath(c)
	out := &exported{w: c.App.Writer}
	if terminal(c.App.ErrWriter) && (path != "" || !terminal(c.App.Writer)) {
		out.progress = c.App.ErrWriter
	}
	err := writtenTo(c, path, func(w io.Writer) error {
		out.w = w
		defer out.done()
		return s.ExportReceipts(ctx, query, out)
	})
	if err == nil && path != "" {
		fmt.Fprintf(c.App.ErrWriter, "%s is written: %s\n", path, several(int(out.lines), "line"))
	}
	return err
}

// leftOut says which logs of the time an export lacks because what was signed of them is
// not all here.
func leftOut(ctx context.Context, c *cli.Context, s *control.Client, query url.Values) error {
	if query.Has("since") {
		return nil
	}
	list, err := s.ReceiptLogs(ctx)
	if err != nil {
		return err
	}
	for _, l := range list.Items {
		if l.LeftOut && control.InMonth(l.Log, query.Get("month")) {
			fmt.Fprintf(c.App.ErrWriter, "headway: note: log %s (leaves: %s) is left out: %s\n", l.Log, leafCount(l.Size), printable(l.Problem))
		}
	}
	return nil
}

// exported counts the lines of an export.
type exported struct {
	w        io.Writer
	progress io.Writer // nil: nobody reads along
	lines    int64
	shown    int64
}

// Write hands bytes on.
func (e *exported) Write(b []byte) (int, error) {
	n, err := e.w.Write(b)
	e.lines += int64(bytes.Count(b[:n], []byte("\n")))
	if e.progress != nil && e.lines-e.shown >= progressLines {
		e.shown = e.lines
		fmt.Fprintf(e.progress, "\r%d lines\x1b[K", e.lines)
	}
	return n, err
}

func (e *exported) done() {
	if e.progress != nil {
		fmt.Fprint(e.progress, "\r\x1b[K")
	}
}

// progressLines are how many lines pass between two signs of progress.
const progressLines = 20_000

func verifyReceipts(c *cli.Context) error {
	args, err := arguments(c, "FILE")
	if err != nil {
		return err
	}
	path := args[0]
	proof, err := proofIn(c, path)
	if err != nil {
		return err
	}
	if proof != nil {
		return verifyProof(c, path, proof)
	}
	if c.String("opening") != "" {
		return wrongUsage("--opening: goes with the proof of one receipt", "headway receipts prove ID prints it")
	}
	report, err := verification(c, path, seal.Check{})
	if err != nil {
		return err
	}
	if c.Bool("json") {
		if err := printJSON(c.App.Writer, report); err != nil {
			return err
		}
	}
	if err := wrongExport(path, report); err != nil {
		return err
	}
	if !c.Bool("json") {
		sayVerified(c.App.Writer, fileName(path), report)
	}
	sayBelieved(c.App.ErrWriter, report)
	return nil
}

// fileName is what a file is called where - is standard input.
func fileName(path string) string {
	if path == "-" {
		return "standard input"
	}
	return path
}

// wrongExport is the error of an export that is not as it was signed.
func wrongExport(path string, r *seal.Report) error {
	if r.OK {
		return nil
	}
	e := &core.Error{Kind: core.Invalid, Msg: printable(fileName(path) + ": " + r.Problem.String())}
	if r.Problem.Word == seal.WrongUnknownKey {
		e.Hint = olderKeyHint
	}
	return failed{e}
}

const olderKeyHint = "a key of before a rotation may have signed it: headway receipts list has them all, and --key may be given for each"

// sayBelieved says what a verification is worth whose key came with the export.
func sayBelieved(w io.Writer, r *seal.Report) {
	if r.KeysFrom == "export" {
		fmt.Fprint(w, "headway: note: no key was given: the export's own is believed, so this proves only that it agrees with itself\n"+
			"headway: hint: ask whoever runs the server for the key (headway receipts list), and give it with --key\n")
	}
}

// goBy reads what the flags of verify say that is to be gone by.
func goBy(c *cli.Context, check *seal.Check) (err error) {
	for _, text := range c.StringSlice("key") {
		keys, err := verifierKeys(text)
		if err != nil {
			return err
		}
		check.Keys = append(check.Keys, keys...)
	}
	for _, text := range c.StringSlice("witness") {
		keys, err := keysOf(text, "--witness", "whoever runs the witness publishes it; it is NAME+ID+BASE64", seal.ParseWitnessKey)
		if err != nil {
			return err
		}
		check.Witnesses = append(check.Witnesses, keys...)
	}
	if saved := c.String("checkpoint"); saved != "" {
		check.Saved, err = readSmall(saved)
	}
	return err
}

// verification checks an export by the flags --key and --checkpoint, with progress.
func verification(c *cli.Context, path string, check seal.Check) (report *seal.Report, err error) {
	if err := goBy(c, &check); err != nil {
		return nil, err
	}
	if terminal(c.App.ErrWriter) {
		var shown int64
		check.Progress = func(lines int64) {
			if lines-shown >= progressLines {
				shown = lines
				fmt.Fprintf(c.App.ErrWriter, "\r%d lines\x1b[K", lines)
			}
		}
		defer fmt.Fprint(c.App.ErrWriter, "\r\x1b[K")
	}
	report, err = verified(c, path, check)
	if known := (*core.Error)(nil); errors.As(err, &known) && known.Param == "checkpoint" {
		known.Hint = cmp.Or(known.Hint, "headway receipts list --json has those of a server's logs")
		return nil, refusedFile(c.String("checkpoint"), known)
	}
	if err != nil {
		return nil, failed{err}
	}
	return report, nil
}

func verified(c *cli.Context, path string, check seal.Check) (*seal.Report, error) {
	if path == "-" {
		return seal.Verify(c.App.Reader, check)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, cannot("read", path, err)
	}
	if info.IsDir() {
		if _, err := os.Stat(filepath.Join(path, "tile")); err != nil && !seal.IsTree(path) {
			return nil, &core.Error{Kind: core.Invalid, Msg: path + ": this is not the folder of a log: it has neither a checkpoint nor tiles", Hint: "headway receipts export --tree FOLDER writes one"}
		}
		return seal.VerifyTree(path, check)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, cannot("read", path, err)
	}
	defer f.Close()
	return seal.Verify(f, check)
}

// verifierKeys reads a key, or the keys of a file, one a line.
func verifierKeys(text string) ([]seal.Key, error) {
	return keysOf(text, "--key", "headway receipts list shows the key of a server; it is NAME+ID+BASE64", seal.ParseKey)
}

func keysOf[K any](text, flag, hint string, parse func(string) (K, error)) ([]K, error) {
	key, err := parse(text)
	if err == nil {
		return []K{key}, nil
	}
	if _, e := os.Stat(text); e != nil {
		return nil, wrongUsage(fmt.Sprintf("%s: %v, and there is no file of that name", flag, err), hint)
	}
	lines, err := readSmall(text)
	if err != nil {
		return nil, err
	}
	var keys []K
	for line := range strings.Lines(string(lines)) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		words := strings.Fields(line) // headway receipts list has a word before its keys
		if key, err = parse(words[len(words)-1]); err != nil {
			return nil, failed{&core.Error{Kind: core.Invalid, Msg: fmt.Sprintf("%s: %v", text, err)}}
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, failed{&core.Error{Kind: core.Invalid, Msg: text + ": there is no key in it"}}
	}
	return keys, nil
}

// readSmall reads a file of at most 64 KiB.
func readSmall(path string) ([]byte, error) {
	const most = 64 << 10
	f, err := os.Open(path)
	if err != nil {
		return nil, cannot("read", path, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && len(text) > most {
		err = errors.New("it is too long")
	}
	if err != nil {
		return nil, cannot("read", path, err)
	}
	return text, nil
}

// sayVerified says what a good export holds.
func sayVerified(w io.Writer, path string, r *seal.Report) {
	t := table{head: []string{"LOG", ">LEAVES", ">RECEIPTS", ">CHARGE", "FIRST CALL (UTC)", "LAST CALL (UTC)", "NOTES"}}
	for _, l := range r.Logs {
		first, last := absent, absent
		if l.Receipts > 0 {
			first, last = at(time.UnixMilli(l.FirstTime)), at(time.UnixMilli(l.LastTime))
		}
		t.add(l.Origin, strconv.FormatUint(l.To-l.From, 10), strconv.FormatInt(l.Receipts, 10), "$"+l.Charge.String(), first, last, logNotes(r, l))
	}
	t.write(w)
	for _, k := range r.Keys {
		fmt.Fprintf(w, "signed by %s\n", printable(k.String()))
	}
	fmt.Fprintf(w, "%s is good: %s, $%s\n", printable(path), several(int(r.Total.Receipts), "receipt"), r.Total.Charge)
}

// logNotes is what there is to know of one log of an export, whose report is r.
func logNotes(r *seal.Report, l seal.LogReport) string {
	var notes []string
	note := func(when bool, format string, args ...any) {
		if when {
			notes = append(notes, fmt.Sprintf(format, args...))
		}
	}
	note(l.To-l.From < l.Size, "leaves %d to %d of %d", l.From, l.To-1, l.Size)
	note(l.Closed, "closed")
	note(l.Saved == "same", "as the checkpoint")
	note(l.Saved == "grown", "grown since the checkpoint")
	note(l.Uncharged > 0, "%d without a charge", l.Uncharged)
	note(l.Erased > 0, "%s", several(int(l.Erased), "erasure"))
	if l.Witness != "" {
		note(true, "witnessed by %s at %s", printable(l.Witness), at(*l.WitnessedAt))
	}
	for _, t := range l.Lost {
		lost := t.Size
		for _, other := range r.Logs { // what the export has of it is not lost
			if other.Origin == t.Origin {
				lost -= min(lost, other.Size)
			}
		}
		note(lost == 1, "1 signed leaf of %s was lost before it", t.Origin)
		note(lost > 1, "%d signed leaves of %s were lost before it", lost, t.Origin)
	}
	return strings.Join(notes, ", ")
}

// logStanding says how the signed log stands, for status.
func logStanding(l *control.ReceiptLogStatus) string {
	switch {
	case l.Origin == "" && len(l.Problems) > 0:
		return "none that could be gone on with"
	case l.Origin == "":
		return "nothing is sealed yet"
	case l.SignedSize == core.Some(l.Size):
		return fmt.Sprintf("%s: %d leaves, all signed", l.Origin, l.Size)
	case !l.SignedSize.OK:
		return fmt.Sprintf("%s: %d leaves, none signed", l.Origin, l.Size)
	}
	return fmt.Sprintf("%s: %d leaves, %d signed", l.Origin, l.Size, l.SignedSize.V)
}
