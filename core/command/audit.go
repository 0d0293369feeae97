package command

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"headway/core/control"
)

func auditCommand() *cli.Command {
	return &cli.Command{
		Name: "audit", Usage: "list the changes to keys, offers, providers and routing, the newest first",
		UsageText: "headway audit [--since TIME] [--target ID] [--action ACTION] [--limit N] [--json]",
		Description: "Who: admin token, socket (commands on this machine), or file with what put it into force: start, SIGHUP, or who\n" +
			"applied it. Secrets show as ***. The log keeps the last 100,000 changes, for as long as retention.audit_months says.\n\n" +
			"Example:\n   headway audit --since 7d --target ci",
		Flags: serverFlags(
			&cli.StringFlag{Name: "since", Usage: "only changes from this `TIME` on: a time, a day, or an age such as 24h or 7d"},
			&cli.StringFlag{Name: "target", Usage: "only changes of this `ID`: a key's id or name, an offer, a provider, a group of settings"},
			&cli.StringFlag{Name: "action", Usage: "only this `ACTION`, such as key.create"},
			&cli.IntFlag{Name: "limit", Aliases: []string{"n"}, Value: 50, Usage: "at most `N` of them"},
			&cli.StringFlag{Name: "next", Usage: "go on where an earlier list ended, by its `NEXT`"},
			jsonFlag()),
		Action: onServer(nil, listAudit),
	}
}

func listAudit(ctx context.Context, c *cli.Context, s *control.Client, _ []string) error {
	most := c.Int("limit")
	if most < 1 {
		return wrongUsage("--limit: want a number of 1 or more", "headway audit --limit 20")
	}
	query := url.Values{}
	for _, name := range []string{"since", "target", "action", "next"} {
		if v := c.String(name); v != "" {
			query.Set(name, v)
		}
	}
	list, err := gathered(ctx, most, query, s.Audit)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, list)
	}
	t := table{head: []string{">#", "AT (UTC)", "WHO", "ACTION", "TARGET", "CHANGE"}, empty: "no changes"}
	for _, e := range list.Items {
		who, target := e.Who, e.Target
		if e.Via != "" {
			who += " (" + e.Via + ")"
		}
		if e.Name != "" && e.Name != target {
			target += " (" + e.Name + ")"
		}
		t.add(strconv.FormatInt(e.Number, 10), at(e.At), who, e.Action, target, changeOf(e))
	}
	t.write(c.App.Writer)
	if list.Next != "" {
		fmt.Fprintf(c.App.ErrWriter, "there are more: --limit shows more of them, --next %s goes on\n", list.Next)
	}
	return nil
}

// changeOf is an entry's change on one line, each field with what it was and is;
// --json has what is cut off.
func changeOf(e control.Entry) string {
	var before, after map[string]json.RawMessage
	_, _ = json.Unmarshal(e.Before, &before), json.Unmarshal(e.After, &after) // one that is not there has no fields
	names := slices.Collect(maps.Keys(after))
	for name := range before {
		if _, both := after[name]; !both {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { // what a thing is called first
		return cmp.Or(first(a)-first(b), cmp.Compare(a, b))
	})
	var parts []string
	for _, name := range names {
		is := valueOf(after[name])
		switch was := valueOf(before[name]); {
		case len(e.Before) == 0:
			parts = append(parts, name+" "+is)
		case len(e.After) == 0:
			parts = append(parts, name+" "+was)
		default:
			parts = append(parts, name+" "+was+" → "+is)
		}
	}
	const longest = 160
	line := []rune(strings.Join(parts, ", "))
	if len(line) > longest {
		return string(line[:longest]) + "…"
	}
	return string(line)
}

func first(name string) int {
	if name == "name" || name == "id" {
		return 0
	}
	return 1
}

// valueOf is a field's value without the quotes of JSON.
func valueOf(v json.RawMessage) string {
	var text string
	switch {
	case v == nil:
		return absent
	case json.Unmarshal(v, &text) == nil:
		return text
	}
	return string(v)
}
