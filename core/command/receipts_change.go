package command

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/urfave/cli/v2"

	"headway/conf"
	"headway/core"
	"headway/core/control"
)

func rotateReceiptsCommand() *cli.Command {
	return &cli.Command{
		Name: "rotate", Usage: "make a new key for the signed log", UsageText: "headway receipts rotate [--yes] [--json]",
		Description: "The log introduces the new key under the old one, and both sign until the end of the next month (UTC). So whoever has\n" +
			"the old key checks what comes until then, and learns the new one from it. Older exports stay valid under the old key.\n" +
			"Give the new key to those who check your receipts.\n\nExample:\n   headway receipts rotate --yes",
		Flags: serverFlags(yesFlag(), jsonFlag()),
		Action: onServer(nil, func(ctx context.Context, c *cli.Context, s *control.Client, _ []string) error {
			if err := confirmed(c, "the log gets a new key, which cannot be undone", "headway receipts list shows the one of now"); err != nil {
				return err
			}
			k, err := s.RotateReceipts(ctx)
			if err != nil {
				return err
			}
			if c.Bool("json") {
				return printJSON(c.App.Writer, k)
			}
			_, err = fmt.Fprintf(c.App.Writer, "old key %s\nnew key %s\nboth sign until %s\n", printable(k.Old), printable(k.New), at(k.OldUntil))
			return err
		}),
	}
}

func yesFlag() cli.Flag { return &cli.BoolFlag{Name: "yes", Usage: "do it without asking"} }

// confirmed asks whoever sits at the terminal; elsewhere --yes must have said it.
func confirmed(c *cli.Context, what, hint string) error {
	if c.Bool("yes") {
		return nil
	}
	in, ok := c.App.Reader.(interface {
		io.Writer
		io.Reader
	})
	if !ok || !terminal(in) || !terminal(c.App.ErrWriter) {
		return wrongUsage("--yes is missing: "+what, hint)
	}
	fmt.Fprintf(c.App.ErrWriter, "%s. Go on? (yes/no) ", what)
	answer, _ := bufio.NewReader(io.LimitReader(in, 100)).ReadString('\n')
	if strings.TrimSpace(answer) != "yes" {
		return failed{&core.Error{Kind: core.Canceled, Msg: "nothing was done"}}
	}
	return nil
}

func eraseReceiptsCommand() *cli.Command {
	return &cli.Command{
		Name: "erase", Usage: "erase of receipts whose they are", UsageText: "headway receipts erase ID… | --key KEY | --owner OWNER [--month MONTH] | --month MONTH --secret [--yes] [--json]",
		Description: "Takes key, owner, job, step, group and trace out of the receipts of those calls and of the sums of usage, makes it impossible\n" +
			"to show whose their leaves in the signed log are, and drops the old bytes from all files of the data folder. What the calls\n" +
			"used and cost stays, under no key, and all that was signed stays valid. With --secret it is the pseudonyms of all calls of\n" +
			"that month's log, at once, which can be done once the month is over (UTC). It cannot be undone; backups and exports that were made before have it still, and so has what\n" +
			"says the key's own name and owner: headway key revoke ends it. It waits for calls that are under way. Where it breaks off,\n" +
			"the same command goes on.\n\nExample:\n   headway receipts erase --key k_2x7a9q --month 2026-11 --yes",
		Flags: serverFlags(
			&cli.StringFlag{Name: "key", Usage: "the calls of this `KEY`, by its id or name"},
			&cli.StringFlag{Name: "owner", Usage: "the calls of keys that belonged to this `OWNER` then"},
			&cli.StringFlag{Name: "month", Usage: "only calls that came in this `MONTH` (UTC), such as 2026-11"},
			&cli.BoolFlag{Name: "secret", Usage: "with --month alone: drop what the pseudonyms of its log are made of"},
			yesFlag(), jsonFlag()),
		Action: func(c *cli.Context) error {
			var ids []core.CallID
			for _, id := range c.Args().Slice() {
				ids = append(ids, core.CallID(id))
			}
			s, err := server(c)
			if err != nil {
				return err
			}
			return eraseReceipts(c.Context, c, s, ids)
		},
	}
}

// erasePasses is how often receipts are looked through at most: each pass waits for the
// calls that are under way, and whoever goes on calling is not waited for without end.
const erasePasses = 4

// eraseAtOnce is how many ids one call of the API takes.
const eraseAtOnce = 500

func eraseReceipts(ctx context.Context, c *cli.Context, s *control.Client, ids []core.CallID) error {
	e := control.Erasure{Key: core.KeyID(c.String("key")), Owner: c.String("owner"), Month: c.String("month"), Secret: c.Bool("secret")}
	named := 0
	if slices.Contains(ids, "") {
		return wrongUsage("ID is missing", "usage: "+c.Command.UsageText)
	}
	for _, is := range [...]bool{len(ids) > 0, e.Key != "", e.Owner != "", e.Secret} {
		if is {
			named++
		}
	}
	const usual = "headway receipts erase --key KEY --yes"
	switch {
	case named != 1:
		return wrongUsage("say whose receipts: one of ID…, --key, --owner, and --month with --secret", usual)
	case e.Month == "" && e.Secret:
		return wrongUsage("--secret: needs --month", "headway receipts list shows the logs")
	case e.Month != "" && len(ids) > 0:
		return wrongUsage("--month: does not go with ids", usual)
	}
	if e.Key != "" {
		id, err := keyID(ctx, s, string(e.Key), true) // it may be one of before, too
		if err != nil {
			return err
		}
		e.Key = id
	}
	if err := confirmed(c, "what is erased cannot be had back", eraseTyped(c)); err != nil {
		return err
	}
	var total control.Erased
	var say func(format string, args ...any)
	if terminal(c.App.ErrWriter) {
		say = func(format string, args ...any) { fmt.Fprintf(c.App.ErrWriter, "\r"+format+"\x1b[K", args...) }
		defer fmt.Fprint(c.App.ErrWriter, "\r\x1b[K")
	} else {
		say = func(string, ...any) {}
	}
	erase := func() (erased int, err error) {
		for more := true; more; {
			if len(ids) > 0 {
				n := min(len(ids), eraseAtOnce)
				e.IDs, ids = ids[:n], ids[n:]
			}
			done, err := s.EraseReceipts(ctx, e)
			if err != nil {
				return erased, err
			}
			erased += done.Receipts
			total.Receipts += done.Receipts
			total.Looked += done.Looked
			total.Before += done.Before
			total.Unsealed += done.Unsealed
			total.Unknown = append(total.Unknown, done.Unknown...)
			total.Logs = append(total.Logs, done.Logs...)
			e.Next, more = done.Next, done.Next != "" || len(ids) > 0
			say("%d erased of %d", total.Receipts, total.Looked)
		}
		return erased, nil
	}
	for pass := range erasePasses {
		erased, err := erase()
		if err != nil {
			return err
		}
		if pass > 0 && erased == 0 {
			break
		}
		// It waits for calls that are under way: those of this person have receipts then.
		if err := s.PurgeReceipts(ctx, func(doing string) { say("%s", printable(doing)) }); err != nil {
			return err
		}
		if len(e.IDs) > 0 || e.Secret {
			break
		}
	}
	say("")
	var unknown error
	switch {
	case len(total.Unknown) > 0:
		unknown = failed{&core.Error{Kind: core.NotFound, Msg: "there is no call " + printable(string(total.Unknown[0])) + others(len(total.Unknown)-1),
			Hint: "headway requests lists calls with their ids"}}
	case total.Receipts == 0 && (e.Key != "" || e.Owner != ""):
		var err error
		if unknown, err = strangeErasure(ctx, s, e); err != nil {
			return err
		}
	}
	if c.Bool("json") {
		return cmp.Or(printJSON(c.App.Writer, total), unknown)
	}
	if e.Secret {
		for _, m := range total.Logs {
			fmt.Fprintf(c.App.Writer, "whose the leaves of log %s are cannot be told any more\n", m)
		}
		return nil
	}
	if total.Receipts > 0 {
		fmt.Fprintf(c.App.Writer, "%s erased, and nothing of it is left in the files\n", several(total.Receipts, "receipt"))
	} else {
		fmt.Fprintln(c.App.Writer, "nothing is erased")
	}
	if total.Before > 0 {
		fmt.Fprintf(c.App.Writer, "%s nothing left to erase: erased before, or nobody's\n", severalOf(total.Before, "receipt has", "receipts have"))
	}
	if total.Receipts == 0 && unknown == nil && len(ids) == 0 && total.Before == 0 {
		fmt.Fprint(c.App.ErrWriter, "headway: note: no receipt says that it is of that key or owner; headway requests lists calls with their keys\n")
	}
	if total.Unsealed > 0 {
		fmt.Fprintf(c.App.ErrWriter, "headway: note: %s of them had no leaf in the signed log\n", several(total.Unsealed, "receipt"))
	}
	return unknown
}

// strangeErasure is an error where nothing knows the key or owner of an erasure that
// found no receipt: a mistyped name must not look as if it were done. A name that only
// receipts of another month have is known, and so is a key that was erased.
func strangeErasure(ctx context.Context, s *control.Client, e control.Erasure) (unknown, err error) {
	keys, err := s.Keys(ctx)
	if err != nil {
		return nil, err
	}
	by, name, what := "key", string(e.Key), "key"
	hint := "headway key list shows the keys and their owners"
	if e.Owner != "" {
		by, name, what = "owner", e.Owner, "key of an owner"
		hint += "; what was erased before tells of no owner any more"
	}
	var names []string
	for _, k := range keys.Items {
		if e.Owner == "" {
			names = append(names, string(k.ID), k.Name)
		} else if k.Owner != "" {
			names = append(names, k.Owner)
		}
	}
	if slices.Contains(names, name) {
		return nil, nil
	}
	if e.Month != "" {
		calls, err := s.Calls(ctx, url.Values{by: {name}, "limit": {"1"}})
		if err != nil || len(calls.Items) > 0 {
			return nil, err
		}
	}
	if e.Key != "" {
		erasures, err := s.Audit(ctx, url.Values{"action": {"receipts.erase"}, "target": {name}, "limit": {"1"}})
		if err != nil || len(erasures.Items) > 0 {
			return nil, err
		}
	}
	return failed{&core.Error{Kind: core.NotFound, Hint: hint,
		Msg: fmt.Sprintf("nothing is erased: there is no %s %q and no receipt of one%s", what, printable(name), conf.DidYouMean(name, names))}}, nil
}

// eraseTyped is the command that was typed, with --yes.
func eraseTyped(c *cli.Context) string {
	words := append([]string{"headway receipts erase"}, c.Args().Slice()...)
	if most := 4; len(words) > most {
		words = append(words[:most], "…")
	}
	for _, name := range [...]string{"key", "owner", "month", "data", "server"} {
		v := c.String(name)
		if v == "" || name == "data" && v == os.Getenv(dataVariable) {
			continue
		}
		if strings.ContainsFunc(v, unicode.IsSpace) {
			v = strconv.Quote(v)
		}
		words = append(words, "--"+name+" "+v)
	}
	if c.Bool("secret") {
		words = append(words, "--secret")
	}
	return printable(strings.Join(append(words, "--yes"), " "))
}

func others(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", nor %d others of those", n)
}
