package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"headway/conf"
	"headway/core"
	"headway/core/control"
	"headway/core/market"
	"headway/scripts"
)

func strategyCommand(p Program) *cli.Command {
	return &cli.Command{
		Name: "strategy", Usage: "write, try and look at strategies in JavaScript", UsageText: "headway strategy COMMAND",
		Description: "A script is a file of JavaScript with one function, score(job, offer, auction), in the folder that routing.scripts\n" +
			"names in the file of headway serve; it is chosen as a strategy by its name, for all calls or for a key.\n\nExample:\n   headway strategy init mine",
		Subcommands: []*cli.Command{
			{
				Name: "list", Usage: "list the scripts of the server, and what is wrong with them", UsageText: "headway strategy list [--json]",
				Description: "IN FORCE says that a script can rank, USED BY what has it rank: routing.strategy or a key. One that is refused stays in\n" +
					"force as it last was; one that is set aside failed three times within a minute. Where one is set aside, or missing,\n" +
					"the built-in default ranks in its place until its file changes.\n\nExample:\n   headway strategy list",
				Flags: serverFlags(jsonFlag()), Action: onServer(nil, listScripts),
			},
			{
				Name: "test", Usage: "run a script on a sample auction", UsageText: "headway strategy test FILE [-f AUCTION.json] [--json]",
				Description: "Needs no server. Without -f it ranks a sample of its own, which --sample prints to start from. An auction is as for\n" +
					"headway rank; its job may also have model, streamed and headers, an offer model, region, node, labels and full. The dry\n" +
					"run has 500 ms when the file is read, as on a server, and 200 ms for each ranking here, whatever else the machine does; in\n" +
					"a call a ranking has limits.script, which is 10 ms where the file does not set it: see what this says it took.\n\n" +
					"Example:\n   headway strategy test scripts/mine.js -f auction.json",
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "the auction's `FILE`"},
					&cli.BoolFlag{Name: "sample", Usage: "print the sample auction"},
					&cli.StringFlag{Name: "at", Usage: "the `TIME` that the script's clock says; left out: now"},
					jsonFlag(),
				},
				Action: func(c *cli.Context) error { return testStrategy(c, p.Clock) },
			},
			strategyReplayCommand(p),
			{
				Name: "init", Usage: "write a script to start from", UsageText: "headway strategy init [NAME] [--from EXAMPLE] [--folder FOLDER]",
				Description: "Writes NAME.js, and headway.d.ts beside it, which lets an editor complete and check it. Without NAME it lists the\n" +
					"examples. The folder is routing.scripts of ./headway.yaml, else ./scripts.\n\nExample:\n   headway strategy init mine --from prefer-own-nodes",
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "from", Usage: "the `EXAMPLE` to start from; left out: the built-in price-and-wait"},
					&cli.StringFlag{Name: "folder", Usage: "the `FOLDER` to write into"},
				},
				Action: initStrategy,
			},
		},
	}
}

func listScripts(ctx context.Context, c *cli.Context, s *control.Client, _ []string) error {
	list, err := s.ListScripts(ctx)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, list)
	}
	t := table{head: []string{"SCRIPT", "STATE", "IN FORCE", "USED BY", ">DECISIONS", ">FAILURES", "LAST ERROR"}, empty: "there are no scripts: the folder that routing.scripts names in the file is empty, or the file named none when the server started"}
	for _, x := range list.Items {
		inForce, wrong := "no", ""
		if x.InForce {
			inForce = "yes"
		}
		if x.Error != nil {
			wrong = x.Error.Message
			if x.Error.Line > 0 {
				wrong = fmt.Sprintf("line %d: %s", x.Error.Line, wrong)
			}
		}
		t.add(x.Name, x.State, inForce, printable(strings.Join(x.UsedBy, ", ")), strconv.FormatInt(x.Decisions, 10), strconv.FormatInt(x.Failures, 10), wrong)
	}
	t.write(c.App.Writer)
	return nil
}

// sampleAuction has an offer for each thing that a strategy may look at.
const sampleAuction = `{
  "time_value_usd_per_hour": "1",
  "job": {"model": "small", "streamed": true, "headers": {"x-tenant": "blue"},
    "fresh_input_tokens": 20000, "cached_input_tokens": 0, "expected_output_tokens": 500, "max_output_tokens": 2000},
  "offers": [
    {"id": "slow/small", "provider": "slow", "model": "small", "input_usd_per_mtok": "0.05", "output_usd_per_mtok": "0.2",
     "base_latency_ms": 900, "prefill_tps": 1500, "output_tps": 20, "own_output_jobs": 120, "own_output_tps": 20, "ttft_ms": 2400},
    {"id": "fast/small", "provider": "fast", "model": "small", "region": "eu", "input_usd_per_mtok": "0.6", "output_usd_per_mtok": "2.4",
     "base_latency_ms": 250, "prefill_tps": 6000, "output_tps": 160, "own_output_jobs": 40, "own_output_tps": 165, "ttft_ms": 400},
    {"id": "warm/small", "provider": "warm", "model": "small", "input_usd_per_mtok": "0.4", "output_usd_per_mtok": "1.6",
     "cache_read_usd_per_mtok": "0.04", "fresh_input_tokens": 2000, "cached_input_tokens": 18000,
     "base_latency_ms": 400, "prefill_tps": 4000, "output_tps": 80, "own_output_jobs": 3, "own_output_tps": 85, "ttft_ms": 600},
    {"id": "rack/small", "provider": "rack", "model": "small", "labels": {"own": "yes"}, "input_usd_per_mtok": "0", "output_usd_per_mtok": "0",
     "base_latency_ms": 150, "prefill_tps": 2500, "output_tps": 45, "own_output_jobs": 900, "own_output_tps": 45, "ttft_ms": 500,
     "queue_wait_ms": 1200}
  ]
}
`

// testLimit is how long a script may take here: not what counts on a busy machine.
const testLimit = 200 * time.Millisecond

// testRuns are how often it is run; the shortest time is shown.
const testRuns = 20

// tested is what strategy test --json prints.
type tested struct {
	*market.ScriptRanking
	Took  float64           `json:"took_ms"`
	Error *core.ScriptFault `json:"error,omitempty"`
}

func testStrategy(c *cli.Context, clock core.Clock) error {
	if c.Bool("sample") {
		_, err := io.WriteString(c.App.Writer, sampleAuction)
		return err
	}
	args, err := arguments(c, "FILE")
	if err != nil {
		return err
	}
	moment := clock().UTC()
	if text := c.String("at"); text != "" {
		if moment, err = time.Parse(time.RFC3339, text); err != nil {
			return wrongUsage(fmt.Sprintf("--at: %q is not a time", text), "write it like 2026-11-30T09:00:00Z")
		}
	}
	file := args[0]
	source, err := scripts.Read(file)
	if err != nil {
		return cannot("read", file, err)
	}
	auction := []byte(sampleAuction)
	if c.String("file") != "" {
		in, err := input(c)
		if err != nil {
			return err
		}
		defer in.Close()
		if auction, err = io.ReadAll(in); err != nil {
			return cannot("read", c.String("file"), err)
		}
	}
	script, err := scripts.Load(strings.TrimSuffix(filepath.Base(file), ".js"), file, source)
	if err != nil {
		return brokenScript(c, err)
	}
	var out tested
	for i := range testRuns { // the first ones touch everything for the first time
		start := clock()
		if out.ScriptRanking, err = market.RankScript(auction, script, moment, 1, testLimit); err != nil {
			if c.String("file") != "" && !errors.As(err, new(*core.ScriptError)) {
				return failed{inFile(c, err)}
			}
			return brokenScript(c, err)
		}
		if took := core.Ms(clock().Sub(start)); i == 0 || took < out.Took {
			out.Took = took
		}
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, out)
	}
	t := table{head: []string{">#", "OFFER", ">TIER", ">SCORE", ">CHARGE", ">PREDICTED WAIT"}}
	for i, o := range out.Order {
		t.add(strconv.Itoa(i+1), string(o.Offer), strconv.Itoa(o.Tier), strconv.FormatFloat(o.Score, 'g', 6, 64), "$"+o.Charge.String(), ms(o.Wait))
	}
	for _, id := range out.LeftOut {
		t.add(absent, string(id), absent, "left out", absent, absent)
	}
	t.write(c.App.Writer)
	fmt.Fprintf(c.App.Writer, "ranked in %.3f ms; a call allows limits.script, 10 ms where it is not set\n", out.Took)
	return nil
}

// brokenScript says what is wrong with a script, and where.
func brokenScript(c *cli.Context, err error) error {
	var wrong *core.ScriptError
	if errors.As(err, &wrong) {
		if c.Bool("json") {
			_ = printJSON(c.App.Writer, tested{Error: &core.ScriptFault{Message: wrong.Msg, Line: wrong.Line}}) // the error itself follows
		}
		return failed{&core.Error{Kind: core.Internal, Msg: wrong.Error()}}
	}
	return err
}

// examples are the names of those that ship.
func examples() ([]string, error) {
	list, err := fs.Glob(scripts.Files(), "examples/*.js")
	for i, path := range list {
		list[i] = strings.TrimSuffix(filepath.Base(path), ".js")
	}
	return list, err
}

func initStrategy(c *cli.Context) error {
	known, err := examples()
	if err != nil {
		return err
	}
	if c.Args().Len() == 0 {
		for _, name := range known {
			text, err := fs.ReadFile(scripts.Files(), "examples/"+name+".js")
			if err != nil {
				return err
			}
			_, after, _ := strings.Cut(string(text), "\n// ")
			line, _, _ := strings.Cut(after, "\n")
			fmt.Fprintf(c.App.Writer, "%-23s %s\n", name, line)
		}
		return nil
	}
	args, err := arguments(c, "NAME")
	if err != nil {
		return err
	}
	name, from := strings.TrimSuffix(args[0], ".js"), c.String("from")
	if err := scripts.CheckName(name); err != nil {
		return wrongUsage(err.Error(), "headway strategy init my-strategy")
	}
	if from == "" {
		from = "my-price-and-wait"
	} else if _, builtIn := market.ByName(from); builtIn {
		from = "my-" + from
	}
	text, err := fs.ReadFile(scripts.Files(), "examples/"+from+".js")
	if err != nil {
		return wrongUsage(fmt.Sprintf("--from: %q is no example", from), "they are "+strings.Join(known, ", "))
	}
	folder := c.String("folder")
	if folder == "" {
		folder = "scripts"
		if f, err := conf.Load(usualFile, os.LookupEnv); err == nil && f.Scripts != "" {
			folder = f.Scripts
		}
	}
	types, err := fs.ReadFile(scripts.Files(), "headway.d.ts")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return cannot("made", folder, err)
	}
	path := filepath.Join(folder, name+".js")
	if _, err := os.Stat(path); err == nil {
		return failed{&core.Error{Kind: core.Invalid, Msg: path + " is there already", Hint: "choose another name, or delete it first"}}
	}
	if err := os.WriteFile(filepath.Join(folder, "headway.d.ts"), types, 0o644); err != nil {
		return cannot("written", filepath.Join(folder, "headway.d.ts"), err)
	}
	source := strings.Replace(string(text), "../headway.d.ts", "./headway.d.ts", 1)
	if err := os.WriteFile(path, []byte(source), 0o644); err != nil {
		return cannot("written", path, err)
	}
	fmt.Fprintf(c.App.Writer, "wrote %s and headway.d.ts beside it\ntry it:  headway strategy test %s\nuse it:  scripts: %s and strategy: %s in the routing: block of the file of headway serve, for all calls; or scripts there, and for a key strategy: %s.\n"+
		"         Another folder of scripts takes effect at a start, the rest with headway apply too\n",
		path, path, folder, name, name)
	return nil
}
