package command

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"headway/core"
	"headway/core/control"
	"headway/core/measure"
)

// exportCut is what an export has a row for.
const exportCut = "day+key+model+provider+node"

func usageCommand() *cli.Command {
	return &cli.Command{
		Name: "usage", Usage: "sum calls, tokens and charge of a period", UsageText: "headway usage [--from TIME] [--to TIME] [--by LIST] [--json | --export csv|json]",
		Description: "Today and the six days before it, in UTC, where no period is named. --by takes model, provider, key, node and day, with commas\n" +
			"between, or several joined by + for each of their combinations. It ends with Speed by model: means over\n" +
			"the period's calls that measured each figure. (no key) are tests of offers and probes. An export has\n" +
			"a row for each day, key, model, provider and node, and no speeds.\n\nExample:\n   headway usage --from 2026-11-01 --to 2026-11-30 --by model,day+key",
		Flags: serverFlags(
			&cli.StringFlag{Name: "from", Aliases: []string{"since"}, Usage: "the first `TIME`: a time, a day in UTC, or an age such as 24h or 30d"},
			&cli.StringFlag{Name: "to", Aliases: []string{"until"}, Usage: "the last `TIME`, left out: now; a day is meant with its end"},
			&cli.StringFlag{Name: "by", Usage: "a `LIST` of what to cut by: model, provider, key, node, day; left out: by each"},
			&cli.StringFlag{Name: "export", Usage: "write rows as `csv` or json"},
			jsonFlag()),
		Action: onServer(nil, showUsage),
	}
}

func showUsage(ctx context.Context, c *cli.Context, s *control.Client, _ []string) error {
	query := url.Values{}
	for _, name := range [...]string{"from", "to", "by"} {
		if v := c.String(name); v != "" {
			query.Set(name, v)
		}
	}
	export := c.String("export")
	switch export {
	case "":
	case "csv", "json":
		if c.IsSet("by") {
			return wrongUsage("--by does not go with --export", "an export has a row for each day, key, model, provider and node")
		}
		if c.Bool("json") {
			return wrongUsage("--json does not go with --export", "--export json has the rows as JSON")
		}
		query.Set("by", exportCut)
	default:
		return wrongUsage(fmt.Sprintf("--export: %q is neither csv nor json", export), "usage: "+c.Command.UsageText)
	}
	u, err := s.Usage(ctx, query)
	if err != nil {
		return err
	}
	switch {
	case export == "csv":
		return usageCSV(c.App.Writer, u.By[exportCut])
	case export == "json":
		return printJSON(c.App.Writer, control.List[control.Totals]{Items: u.By[exportCut]})
	case c.Bool("json"):
		return printJSON(c.App.Writer, u)
	}
	printUsage(c.App.Writer, u, strings.Split(c.String("by"), ","))
	return nil
}

func printUsage(w io.Writer, u control.Usage, by []string) {
	fmt.Fprintf(w, "usage from %s to %s, UTC\n", at(u.From), at(u.To))
	asked := by[0] != ""
	if !asked {
		by = []string{"model", "provider", "key", "node", "day"}
	}
	for _, name := range by {
		name = strings.TrimSpace(name)
		totals := u.By[name]
		if name == "node" && (len(totals) == 0 || len(totals) == 1 && totals[0].Node == "") {
			if asked { // who has no nodes need not read of them
				fmt.Fprintln(w, "\nno call went to a node in that time")
			}
			continue
		}
		if len(totals) == 0 {
			continue
		}
		dims := strings.Split(name, "+")
		fmt.Fprintf(w, "\nby %s\n", strings.Join(dims, " and "))
		usageTable(dims, totals).write(w)
	}
	fmt.Fprintln(w, "\ntotal")
	usageTable(nil, []control.Totals{u.Total}).write(w)
	fmt.Fprintln(w, "\nSpeed by model")
	t := table{head: []string{"MODEL", "NODE", ">FIRST TOKEN", ">CALLS", ">PREFILL", ">CALLS", ">DECODE", ">CALLS", ">QUEUE", ">CALLS"}, empty: "no calls"}
	for _, m := range u.Speed {
		t.add(string(m.Model), string(m.Node), ms(m.FirstToken), count(m.TimedCalls), unit(m.PrefillTPS, " tok/s"), count(m.PrefillCalls),
			unit(m.DecodeTPS, " tok/s"), count(m.DecodeCalls), ms(m.Queue), count(m.QueuedCalls))
	}
	t.write(w)
	fmt.Fprintln(w, "Means over the calls that measured each figure; first token from the upstream send, the network included;")
	fmt.Fprintln(w, "of a node's servers, the node's own figures: first token from its own send, queue with the wait for a slot there.")
}

func count(n int64) string { return strconv.FormatInt(n, 10) }

func usageTable(dims []string, totals []control.Totals) *table {
	t := &table{}
	for _, d := range dims {
		t.head = append(t.head, strings.ToUpper(d))
	}
	t.head = append(t.head, ">CALLS", ">SETTLED", ">UNCACHED IN", ">CACHE READ", ">CACHE WRITTEN", ">OUT", ">CHARGE")
	for _, v := range totals {
		var cells []string
		for _, d := range dims {
			cells = append(cells, dimension(v, d))
		}
		t.add(append(cells, count(v.Calls), count(v.Settled), number(v.Usage.UncachedInput), number(v.Usage.CacheRead), number(v.Usage.CacheWrite),
			number(v.Usage.Output), "$"+v.Charge.String())...)
	}
	return t
}

// dimension is what the calls of a total share.
func dimension(t control.Totals, d string) string {
	switch d {
	case "day":
		return t.Day
	case "model":
		return string(t.Model)
	case "provider":
		return string(t.Provider)
	case "node":
		return string(t.Node)
	}
	if t.Key == "" {
		return "(no key)" // calls of Headway's own: tests and probes
	}
	if t.KeyName != "" && t.KeyName != string(t.Key) {
		return t.KeyName + " (" + string(t.Key) + ")"
	}
	return string(t.Key)
}

func usageCSV(w io.Writer, totals []control.Totals) error {
	out := csv.NewWriter(w)
	rows := [][]string{{"day", "key", "key_name", "model", "provider", "node", "calls", "settled", "estimated", "uncached_input_tokens",
		"cache_read_tokens", "cache_write_tokens", "cache_write_1h_tokens", "output_tokens", "reasoning_tokens", "charge_usd"}}
	for _, t := range totals {
		row := []string{t.Day, string(t.Key), t.KeyName, string(t.Model), string(t.Provider), string(t.Node), count(t.Calls), count(t.Settled), count(t.Estimated)}
		for _, n := range [...]core.Opt[int64]{t.Usage.UncachedInput, t.Usage.CacheRead, t.Usage.CacheWrite, t.Usage.CacheWrite1h, t.Usage.Output, t.Usage.Reasoning} {
			cell := "" // not known
			if n.OK {
				cell = count(n.V)
			}
			row = append(row, cell)
		}
		rows = append(rows, append(row, t.Charge.String()))
	}
	return out.WriteAll(rows)
}

func speedCommand() *cli.Command {
	return &cli.Command{
		Name: "speed", Aliases: []string{"measures"}, Usage: "show how fast each provider is, and how good the predictions are", UsageText: "headway speed [--provider ID] [--model MODEL] [--measure MEASURE] [--json]",
		Description: "Every measure with its jobs, own median, model median, and the value that predictions use; BASIS says where\n" +
			"the value is from. The errors are |predicted - actual| / actual of each offer's waits, and of the tokens that\n" +
			"they are predicted from: of the prompt, of the output, and of what the cache has of the prompt, as a part of all of it.\n" + measureNote + "\n\nExample:\n   headway speed --model small --measure output_tps",
		Flags: serverFlags(
			&cli.StringFlag{Name: "provider", Usage: "only those of this `PROVIDER`"},
			&cli.StringFlag{Name: "model", Usage: "only those of this `MODEL`"},
			&cli.StringFlag{Name: "measure", Usage: "only this `MEASURE`, without the errors: base_latency_ms, prefill_tps or output_tps"},
			jsonFlag()),
		Action: onServer(nil, func(ctx context.Context, c *cli.Context, s *control.Client, _ []string) error {
			if m := c.String("measure"); m != "" && m != measure.BaseLatency && m != measure.Prefill && m != measure.Output {
				return wrongUsage(fmt.Sprintf("--measure: %q is no measure", m), "it is base_latency_ms, prefill_tps or output_tps")
			}
			v, err := s.Speed(ctx)
			if err != nil {
				return err
			}
			filtered := c.String("provider") != "" || c.String("model") != "" || c.String("measure") != ""
			if filtered {
				if err := narrow(ctx, s, &v, core.ProviderID(c.String("provider")), core.Model(c.String("model")), c.String("measure")); err != nil {
					return err
				}
				if len(v.Items)+len(v.Errors)+len(v.Estimates) == 0 {
					if err := strangers(ctx, c, s); err != nil {
						return err
					}
				}
			}
			if c.Bool("json") {
				return printJSON(c.App.Writer, v)
			}
			w := c.App.Writer
			fmt.Fprintf(w, "window %s to %s, UTC; basis today: jobs since then\n", v.Window.From, v.Window.To)
			measures := measureTable(v.Items)
			those := ""
			if filtered {
				those = " of these"
				measures.empty = "no measure matches"
			}
			measures.write(w)
			if c.String("measure") != "" {
				return nil
			}
			fmt.Fprintln(w, "\nprediction error")
			t := table{head: []string{"OFFER", ">JOBS", ">MEDIAN", ">P90"}, empty: "no call" + those + " had a complete prediction yet"}
			for _, e := range v.Errors {
				t.add(string(e.Offer), count(e.Jobs), percent(e.Median), percent(e.P90))
			}
			t.write(w)
			fmt.Fprintln(w, "\nestimate error")
			t = table{head: []string{"OFFER", "ESTIMATE", ">JOBS", ">MEDIAN", ">P90"}, empty: "no call" + those + " has settled with a provider's own count yet"}
			for _, e := range v.Estimates {
				t.add(string(e.Offer), e.Of, count(e.Jobs), percent(e.Median), percent(e.P90))
			}
			t.write(w)
			fmt.Fprintln(w, "\n"+measureNote)
			return nil
		}),
	}
}

// narrow leaves what is of a provider, of a model and of a measure, each "" for any;
// where one measure is asked for, no errors.
func narrow(ctx context.Context, s *control.Client, v *control.Speed, provider core.ProviderID, model core.Model, name string) error {
	v.Items = slices.DeleteFunc(v.Items, func(r measure.Row) bool {
		return provider != "" && r.Provider != provider || model != "" && r.Model != model || name != "" && r.Measure != name
	})
	if name != "" {
		v.Errors, v.Estimates = []control.PredictionError{}, []control.EstimateError{}
		return nil
	}
	offers, err := s.Offers(ctx)
	if err != nil {
		return err
	}
	other := map[core.OfferID]bool{}
	for _, o := range offers.Items {
		other[o.ID] = provider != "" && o.Provider != provider || model != "" && o.Model != model
	}
	// One that is not configured any more is known by its id alone.
	not := func(id core.OfferID) bool {
		is, known := other[id]
		return is || !known && id != core.OfferID(string(provider)+"/"+string(model))
	}
	v.Errors = slices.DeleteFunc(v.Errors, func(e control.PredictionError) bool { return not(e.Offer) })
	v.Estimates = slices.DeleteFunc(v.Estimates, func(e control.EstimateError) bool { return not(e.Offer) })
	return nil
}
