package command

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"headway/core"
	"headway/core/market"
	"headway/core/measure"
)

func rankCommand() *cli.Command {
	return &cli.Command{
		Name: "rank", Usage: "rank an auction that is written down", UsageText: "headway rank -f AUCTION.json [--json] | --sample",
		Description: "Takes a file like the one below; needs no server. - reads standard input; --sample prints one to start from. Prices are in USD per million tokens; a\n" +
			"measure that is left out is not known. An offer may have provider, cache_read_usd_per_mtok, own_output_jobs,\n" +
			"own_output_tps, ttft_ms, queue_wait_ms, fresh_input_tokens and cached_input_tokens too, and the job\n" +
			"cached_input_tokens and max_output_tokens.\n\n" + auction + "\n\n" +
			"Example:\n   headway rank -f auction.json --json",
		Flags: []cli.Flag{&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "the auction's `FILE`"},
			&cli.BoolFlag{Name: "sample", Usage: "print a sample auction"}, jsonFlag()},
		Action: func(c *cli.Context) error {
			if _, err := arguments(c); err != nil {
				return err
			}
			if c.Bool("sample") {
				_, err := fmt.Fprintln(c.App.Writer, auction)
				return err
			}
			in, err := input(c)
			if err != nil {
				return err
			}
			defer in.Close()
			text, err := io.ReadAll(in)
			if err != nil {
				return cannot("read", c.String("file"), err)
			}
			res, err := market.Rank(text)
			if err != nil {
				return failed{inFile(c, err)}
			}
			if c.Bool("json") {
				return printJSON(c.App.Writer, res)
			}
			fmt.Fprintf(c.App.Writer, "ranked on %s\n", res.RankedOn)
			t := table{head: []string{">#", "OFFER", ">SCORE", ">PREDICTED WAIT", ">CHARGE", ">TTFT"}}
			for i, id := range res.Order {
				score, wait, charge, ttft := absent, absent, absent, absent
				if v, ok := res.Score[id]; ok {
					score = "$" + strconv.FormatFloat(v, 'g', 6, 64)
				}
				if v, ok := res.Wait[id]; ok {
					wait = ms(core.Some(v))
				}
				if v, ok := res.Charge[id]; ok {
					charge = "$" + v.String()
				}
				if v, ok := res.TTFT[id]; ok {
					ttft = ms(core.Some(v))
				}
				t.add(strconv.Itoa(i+1), string(id), score, wait, charge, ttft)
			}
			t.write(c.App.Writer)
			if res.Threshold.OK {
				fmt.Fprintf(c.App.Writer, "offers up to %s count as near the fastest\n", ms(res.Threshold))
			}
			return nil
		},
	}
}

// auction is a file for rank, to start from.
const auction = `   {"strategy": "price-and-wait", "time_value_usd_per_hour": "1",
    "job": {"fresh_input_tokens": 20000, "expected_output_tokens": 500},
    "offers": [
      {"id": "slow/m", "input_usd_per_mtok": "0.05", "output_usd_per_mtok": "0.2",
       "base_latency_ms": 900, "prefill_tps": 1500, "output_tps": 20},
      {"id": "fast/m", "input_usd_per_mtok": "0.6", "output_usd_per_mtok": "2.4",
       "base_latency_ms": 250, "prefill_tps": 6000, "output_tps": 160}]}`

// input opens the file of -f.
func input(c *cli.Context) (io.ReadCloser, error) {
	path := c.String("file")
	switch path {
	case "":
		return nil, wrongUsage("-f is missing", "usage: "+c.Command.UsageText)
	case "-":
		return io.NopCloser(c.App.Reader), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, cannot("read", path, err)
	}
	return f, nil
}

// inFile names the file in front of what is wrong with it.
func inFile(c *cli.Context, err error) error {
	var e *core.Error
	if !errors.As(err, &e) {
		return fmt.Errorf("%s: %w", c.String("file"), err)
	}
	named := *e
	path := c.String("file")
	if path == "-" {
		path = "standard input"
	}
	named.Msg = path + ": " + e.Msg
	return &named
}

func measureCommand(p Program) *cli.Command {
	return &cli.Command{
		Name: "measure", Usage: "compute the measures from receipts", UsageText: "headway measure -f RECEIPTS.jsonl [--at TIME] [--pair PROVIDER/MODEL]… [--json]",
		Description: "Takes one receipt a line and gives the numbers that a router has at that time, by the strict rules: the\n" +
			"last seven complete UTC days, the newest from 01:00 on. Needs no server. - reads standard input.\n" +
			"Receipts are the items of headway requests --json.\n" +
			measureNote + "\n\nExample:\n   headway measure -f receipts.jsonl --at 2026-11-30T09:00:00Z --pair openai/gpt-5-mini",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "the receipts' `FILE`"},
			&cli.StringFlag{Name: "at", Usage: "the `TIME` at which the router has them; left out: now"},
			&cli.StringSliceFlag{Name: "pair", Usage: "a `PROVIDER/MODEL` to list though no receipt names it, repeatable"},
			jsonFlag(),
		},
		Action: func(c *cli.Context) error {
			if _, err := arguments(c); err != nil {
				return err
			}
			moment := p.Clock()
			if text := c.String("at"); text != "" {
				var err error
				if moment, err = time.Parse(time.RFC3339, text); err != nil {
					return wrongUsage(fmt.Sprintf("--at: %q is not a time", text), "write it like 2026-11-30T09:00:00Z")
				}
			}
			var pairs []measure.Pair
			for _, text := range c.StringSlice("pair") {
				provider, model, ok := strings.Cut(text, "/")
				if !ok || provider == "" || model == "" {
					return wrongUsage(fmt.Sprintf("--pair: %q is not PROVIDER/MODEL", text), "write it like --pair openai/gpt-5-mini")
				}
				pairs = append(pairs, measure.Pair{Provider: core.ProviderID(provider), Model: core.Model(model)})
			}
			in, err := input(c)
			if err != nil {
				return err
			}
			defer in.Close()
			receipts := &receiptLines{r: bufio.NewReaderSize(in, 64<<10)}
			report := measure.Offline(receipts.all, moment, pairs)
			if receipts.err != nil {
				return failed{inFile(c, receipts.err)}
			}
			if c.Bool("json") {
				return printJSON(c.App.Writer, report)
			}
			fmt.Fprintf(c.App.Writer, "window %s to %s, UTC\n", report.Window.From, report.Window.To)
			measureTable(report.Measures).write(c.App.Writer)
			fmt.Fprintln(c.App.Writer, measureNote)
			return nil
		},
	}
}

// measureNote says what measures do not say.
const measureNote = "Measures are of last week, not of now; the network is included."

// receiptLines reads one receipt a line.
type receiptLines struct {
	r   *bufio.Reader
	err error
}

// all gives the receipts until the end or the first line that is none.
func (l *receiptLines) all(yield func(*core.Receipt) bool) {
	for n := 1; ; n++ {
		line, err := l.r.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			var r core.Receipt
			if wrong := json.Unmarshal(line, &r); wrong != nil {
				l.err = core.Errorf(core.Invalid, "line %d: is not a receipt: %v", n, wrong)
				return
			}
			if r.SettledAt.IsZero() {
				l.err = core.Errorf(core.Invalid, "line %d: settled_at: is missing", n)
				return
			}
			if !yield(&r) {
				return
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				l.err = core.Errorf(core.Internal, "line %d: %v", n, err)
			}
			return
		}
	}
}

// measureTable shows measures each in its unit.
func measureTable(rows []measure.Row) *table {
	t := &table{head: []string{"PROVIDER", "MODEL", "MEASURE", ">JOBS", ">OWN", ">MODEL MEDIAN", ">VALUE", "BASIS"}, empty: "nothing is measured yet"}
	for _, r := range rows {
		in := " tok/s"
		if r.Measure == measure.BaseLatency {
			in = " ms"
		}
		t.add(string(r.Provider), string(r.Model), r.Measure, strconv.FormatInt(r.Jobs, 10), unit(r.Own, in), unit(r.ModelMedian, in), unit(r.Value, in), string(r.Basis))
	}
	return t
}

func versionCommand(p Program) *cli.Command {
	return &cli.Command{
		Name: "version", Usage: "print the version", UsageText: "headway version [--json]",
		Description: "Example:\n   headway version --json",
		Flags:       []cli.Flag{jsonFlag()},
		Action: func(c *cli.Context) error {
			if _, err := arguments(c); err != nil {
				return err
			}
			v := struct {
				Version string `json:"version"`
				Go      string `json:"go"`
				Commit  string `json:"commit,omitempty"`
			}{p.Version, runtime.Version(), commit()}
			if c.Bool("json") {
				return printJSON(c.App.Writer, v)
			}
			line := fmt.Sprintf("headway %s (%s %s/%s", v.Version, v.Go, runtime.GOOS, runtime.GOARCH)
			if v.Commit != "" {
				line += ", commit " + v.Commit
			}
			fmt.Fprintln(c.App.Writer, line+")")
			return nil
		},
	}
}

// commit is what the binary was built from, where that is known.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	revision, changed := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+changes"
		}
	}
	if revision == "" {
		return ""
	}
	return revision + changed
}
