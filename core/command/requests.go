package command

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"github.com/urfave/cli/v2"

	"headway/core"
	"headway/core/control"
)

func requestsCommand() *cli.Command {
	filters := []cli.Flag{
		&cli.StringFlag{Name: "model", Usage: "only calls for this `MODEL`"},
		&cli.StringFlag{Name: "offer", Usage: "only calls that ended at this `OFFER`"},
		&cli.StringFlag{Name: "provider", Usage: "only calls that ended at this `PROVIDER`"},
		&cli.StringFlag{Name: "key", Usage: "only calls of this `KEY`, by its id or name"},
		&cli.StringFlag{Name: "outcome", Usage: "only this `OUTCOME`: settled, failed, truncated, timeout, client_gone, client_stalled, lost"},
		&cli.StringFlag{Name: "kind", Usage: "only this `KIND`: job, probe, bench, test"},
		&cli.StringFlag{Name: "job", Usage: "only calls of this `JOB`"},
		&cli.StringFlag{Name: "since", Usage: "only calls from this `TIME` on: a time, a day, or an age such as 24h or 7d"},
		&cli.StringFlag{Name: "until", Usage: "only calls before this `TIME`; a day is meant with its end"},
		&cli.IntFlag{Name: "limit", Aliases: []string{"n"}, Value: 50, Usage: "at most `N` of them"},
		&cli.StringFlag{Name: "next", Usage: "go on where an earlier list ended, by its `NEXT`"},
	}
	return &cli.Command{
		Name: "requests", Aliases: []string{"calls"}, Usage: "list calls, the newest first", UsageText: "headway requests [filters] [--limit N] [--json]",
		Description: "FIRST OUTPUT is from the request's arrival to the first output of a stream; TOTAL is the whole call.\n" +
			"Where calls went to nodes, WAITED THERE is the wait for a free slot, on the node's clock.\n\n" +
			"Example:\n   headway requests --model small --outcome failed --since 24h",
		Flags:  serverFlags(append(filters, jsonFlag())...),
		Action: onServer(nil, listRequests),
	}
}

func listRequests(ctx context.Context, c *cli.Context, s *control.Client, _ []string) error {
	most := c.Int("limit")
	if most < 1 {
		return wrongUsage("--limit: want a number of 1 or more", "headway requests --limit 20")
	}
	query := url.Values{}
	for _, name := range []string{"model", "offer", "provider", "outcome", "kind", "job", "since", "until", "next"} {
		if v := c.String(name); v != "" {
			query.Set(name, v)
		}
	}
	if key := c.String("key"); key != "" {
		id, err := keyID(ctx, s, key, true)
		if err != nil {
			return err
		}
		query.Set("key", string(id))
	}
	list, err := gathered(ctx, most, query, s.Calls)
	if err != nil {
		return err
	}
	if len(list.Items) == 0 {
		if err := strangers(ctx, c, s); err != nil {
			return err
		}
	}
	if list.Next != "" {
		fmt.Fprintf(c.App.ErrWriter, "headway: note: there are more: --limit shows more of them, --next %s goes on\n", list.Next)
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, list)
	}
	t := table{head: []string{"AT (UTC)", "ID", "MODEL", "OFFER", "OUTCOME", ">STATUS", ">TRIES", ">IN", ">OUT", ">CHARGE", ">FIRST OUTPUT", ">TOTAL", "SLOW"}, empty: "no calls"}
	// How long a call waited at its node is one of the first things to ask of it.
	nodes := slices.ContainsFunc(list.Items, func(r *core.Receipt) bool { return r.Node != "" })
	if nodes {
		t.head = append(t.head, "NODE", ">WAITED THERE")
	}
	for _, r := range list.Items {
		outcome := string(r.Outcome)
		if r.Kind != core.KindJob {
			outcome += " (" + string(r.Kind) + ")"
		}
		cells := []string{at(r.At), string(r.ID), string(r.Model), string(r.Offer), outcome, status(r.Status), strconv.Itoa(len(r.Attempts)),
			inputTokens(r.Usage), number(r.Usage.Output), dollars(r.Charge), ms(r.Timing.FirstResponse), ms(r.Timing.TotalHandler), r.Slow}
		if nodes {
			waited := core.Opt[float64]{}
			if r.NodeTiming != nil {
				waited = r.NodeTiming.SlotWait
			}
			cells = append(cells, string(r.Node), ms(waited))
		}
		t.add(cells...)
	}
	t.write(c.App.Writer)
	return nil
}

func status(n int) string {
	if n == 0 {
		return absent
	}
	return strconv.Itoa(n)
}

// inputTokens is all input of a call, absent where nothing of it is known.
func inputTokens(u core.Usage) string {
	if !u.UncachedInput.OK && !u.CacheRead.OK && !u.CacheWrite.OK {
		return absent
	}
	return strconv.FormatInt(u.Input(), 10)
}
