package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"headway/conf"
	"headway/core"
	"headway/core/control"
	"headway/core/market"
	"headway/scripts"
)

func strategyReplayCommand(p Program) *cli.Command {
	return &cli.Command{
		Name: "replay", Usage: "rank the calls of the past again, by another strategy", UsageText: "headway strategy replay FILE|NAME [--last 7d] [--json]",
		Description: "FILE is a script, NAME a built-in strategy or a script of ./scripts. Each settled call is ranked again from the figures\n" +
			"that its decision was made on, at its own time and with its own random numbers; the script runs in this command, not in\n" +
			"the server, and has 500 ms a call. It tells what would have changed.\n\n" +
			"THEN is of the offer that came first when the call was made, NOW of the one that comes first with this strategy. charge,\n" +
			"predicted and wait, predicted are what was expected of each at the time of the call: the charge a sum, the wait a mean.\n" +
			"charge, real is what the calls were charged. wait, measured is what they took; under NOW that stays for those whose offer\n" +
			"stays, and is the predicted wait for the others. The shares count by the offer that comes first. DIFFERENCE is NOW - THEN\n" +
			"of charge + wait × time value, AN HOUR that time value, and the calls are those where it is largest, either way.\n\n" +
			"Example:\n   headway strategy replay scripts/mine.js --last 7d",
		Flags: serverFlags(
			&cli.StringFlag{Name: "last", Usage: "calls of that `AGE` at most, such as 24h; left out, and without --since: 7d"},
			&cli.StringFlag{Name: "since", Usage: "only calls from this `TIME` on: a time, a day, or an age such as 24h or 7d"},
			&cli.StringFlag{Name: "until", Usage: "only calls before this `TIME`; a day is meant with its end"},
			&cli.IntFlag{Name: "limit", Aliases: []string{"n"}, Usage: "at most the newest `N` of them; left out: all"},
			jsonFlag(),
		),
		Action: onServer([]string{"FILE|NAME"}, func(ctx context.Context, c *cli.Context, s *control.Client, args []string) error {
			return replay(ctx, c, s, args[0], p.Clock)
		}),
	}
}

const (
	usualReplay = "7d"
	replayPage  = 500 // decisions that are fetched at once, while those before are ranked
	replayChunk = 8   // decisions that one processor ranks before it looks for more
	// replayLimit is how long a script may take for one call here. It is much more
	// than in a call, so that the result does not hang on how busy the machine is.
	replayLimit = 500 * time.Millisecond
	// hopeless is how many calls a script may fail on, all from the first on.
	hopeless = 50
)

func replay(ctx context.Context, c *cli.Context, s *control.Client, name string, clock core.Clock) error {
	query := url.Values{"outcome": {string(core.Settled)}, "since": {usualReplay}}
	if last := c.String("last"); last != "" {
		if c.String("since") != "" {
			return wrongUsage("--last: does not go with --since", "give one of them")
		}
		if !isAge(last) {
			return wrongUsage(fmt.Sprintf("--last: %q is not an age", last), "write it like 24h or 7d")
		}
		query.Set("since", last)
	}
	for _, flag := range []string{"since", "until"} {
		if v := c.String(flag); v != "" {
			query.Set(flag, v)
		}
	}
	if c.IsSet("limit") && c.Int("limit") < 1 {
		return wrongUsage("--limit: want a number of 1 or more", "headway strategy replay cheapest --limit 1000")
	}
	r := &replayer{most: c.Int("limit"), clock: clock, offers: map[core.OfferID]*core.Offer{}}
	var err error
	if r.strategy, r.script, err = named(name); err != nil {
		return err
	}
	offers, err := s.Offers(ctx)
	if err != nil {
		return err
	}
	for _, o := range offers.Items {
		r.offers[o.ID] = &core.Offer{ID: o.ID, Model: o.Model, Labels: o.Labels,
			Provider: &core.Provider{ID: o.Provider, Region: o.Region, Owner: o.Owner, Format: o.Format, Node: o.Node}}
	}
	if terminal(c.App.ErrWriter) {
		r.progress = c.App.ErrWriter
	}
	report, err := r.run(ctx, s, query)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, report)
	}
	report.write(c.App.Writer)
	return nil
}

// isAge tells whether a text is an age as the server reads it.
func isAge(text string) bool {
	if n, ok := strings.CutSuffix(text, "d"); ok {
		text = n + "h"
	}
	d, err := time.ParseDuration(text)
	return err == nil && d > 0
}

// named finds a strategy: a built-in one, or the script of a file or of the folder
// of scripts.
func named(name string) (core.Strategy, core.Script, error) {
	usual := market.Strategies()[0]
	if s, ok := market.ByName(name); ok {
		return s, nil, nil
	}
	file := name
	source, err := scripts.Read(file)
	if os.IsNotExist(err) && core.Model(name) == core.AutoModel {
		return nil, nil, failed{&core.Error{Kind: core.NotFound, Msg: name + ": it is the Auto Router's model, no strategy and no script", Hint: "it ranks as fastest does"}}
	}
	if os.IsNotExist(err) && scripts.CheckName(name) == nil {
		folder := "scripts"
		if f, err := conf.Load(usualFile, os.LookupEnv); err == nil && f.Scripts != "" {
			folder = f.Scripts
		}
		file = filepath.Join(folder, name+".js")
		if source, err = scripts.Read(file); os.IsNotExist(err) {
			var known []string
			for _, s := range market.Strategies() {
				known = append(known, s.Name())
			}
			return nil, nil, failed{&core.Error{Kind: core.NotFound, Msg: fmt.Sprintf("%s: no such strategy, and no such file", name),
				Hint: "the built-in ones are " + strings.Join(known, ", ") + "; a script is named by its file"}}
		}
	}
	if err != nil {
		return nil, nil, cannot("read", file, err)
	}
	script, err := scripts.Load(strings.TrimSuffix(filepath.Base(file), ".js"), file, source)
	if err != nil {
		return nil, nil, failed{&core.Error{Kind: core.Invalid, Msg: err.Error()}}
	}
	return usual, script, nil
}

// replayer ranks decisions again while it fetches more.
type replayer struct {
	strategy core.Strategy
	script   core.Script                  // nil: the strategy ranks
	offers   map[core.OfferID]*core.Offer // as they are now
	most     int                          // calls; 0: all
	progress io.Writer                    // nil: nobody reads along
	clock    core.Clock
	shown    time.Time // when progress was last shown
	report   *replayReport
}

// run fetches page after page, the newest calls first, and ranks each on all
// processors while the next one comes. Two pages are in memory at a time.
func (r *replayer) run(ctx context.Context, s *control.Client, query url.Values) (*replayReport, error) {
	name := r.strategy.Name()
	if r.script != nil {
		name = r.script.Name()
	}
	r.report = newReplayReport(name)
	group, ctx := errgroup.WithContext(ctx)
	pages := make(chan control.Decisions)
	group.Go(func() error {
		defer close(pages)
		return fetch(ctx, s, query, r.most, pages)
	})
	group.Go(func() error {
		results := make([]again, 0, replayPage)
		for page := range pages {
			results = r.rank(page.Items, results)
			for i := range results {
				if err := r.report.add(&page.Items[i], &results[i]); err != nil {
					return err
				}
			}
			r.report.headers = page.ScriptHeaders
			if e := r.report.ScriptErrors; r.report.Calls == e.Calls && e.Calls >= hopeless {
				return failed{&core.Error{Kind: core.Invalid, Msg: fmt.Sprintf("the script failed on each of the newest %d calls: %s", e.Calls, e.First[0].Error),
					Hint: "headway strategy test runs it on a sample"}}
			}
			r.show(&page)
		}
		return nil
	})
	err := group.Wait()
	if r.progress != nil {
		fmt.Fprint(r.progress, "\r\x1b[K") // the line of the progress
	}
	if err != nil {
		return nil, err
	}
	return r.report.finish(r.script != nil), nil
}

// fetch hands on page after page until there is none, or most calls were there.
func fetch(ctx context.Context, s *control.Client, query url.Values, most int, pages chan<- control.Decisions) error {
	for got := 0; ; {
		n := replayPage
		if most > 0 {
			n = min(n, most-got)
		}
		query.Set("limit", strconv.Itoa(n))
		page, err := s.Decisions(ctx, query)
		if err != nil {
			return err
		}
		if page.Since.OK { // an age would be another time for the next page
			query.Set("since", page.Since.V.Format(time.RFC3339Nano))
		}
		if page.Until.OK {
			query.Set("until", page.Until.V.Format(time.RFC3339Nano))
		}
		got += len(page.Items)
		select {
		case pages <- page:
		case <-ctx.Done():
			return ctx.Err()
		}
		if page.Next == "" || got == most {
			return nil
		}
		query.Set("next", page.Next)
	}
}

// again is what another strategy makes of one call.
type again struct {
	skip      bool // it cannot be ranked again, or no strategy would have been asked
	then, now *core.Candidate
	timeValue core.Money
	failed    error // why the default ranked and not the script
}

// rank ranks a page's decisions on all processors; the results are in their order.
func (r *replayer) rank(items []control.Decided, results []again) []again {
	results = append(results[:0], make([]again, len(items))...)
	var next sync.Mutex
	from := 0
	take := func() (lo, hi int) {
		next.Lock()
		defer next.Unlock()
		lo, hi = from, min(from+replayChunk, len(items))
		from = hi
		return lo, hi
	}
	var working sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		working.Go(func() {
			for lo, hi := take(); lo < hi; lo, hi = take() {
				for i := lo; i < hi; i++ {
					results[i] = r.call(&items[i])
				}
			}
		})
	}
	working.Wait()
	return results
}

// call ranks one call again.
func (r *replayer) call(d *control.Decided) again {
	known := func(id core.OfferID) *core.Offer { return r.offers[id] }
	job := core.Job{Model: d.Model, Operation: d.Operation, Streamed: d.Streamed}
	past, ok := market.Recall(d.Decision, job, known)
	if !ok || d.Decision.Strategy == string(core.AutoModel) || d.Decision.Offers[0].Refused != "" {
		return again{skip: true}
	}
	places, err := past.Rank(r.strategy, r.script, d.At, d.ID.Seed(), replayLimit)
	a := again{then: &past.Candidates[0], timeValue: past.Auction.TimeValue, failed: err}
	if len(places) > 0 {
		a.now = &past.Candidates[places[0]]
	}
	return a
}

// show says how far it is, a few times a second.
func (r *replayer) show(page *control.Decisions) {
	const every = 200 * time.Millisecond
	now := r.clock()
	if r.progress == nil || now.Sub(r.shown) < every || len(page.Items) == 0 {
		return
	}
	r.shown = now
	at, newest := page.Items[len(page.Items)-1].At, cmp.Or(r.report.newest, page.Items[0].At)
	part := 0.0
	if whole := newest.Sub(page.Since.V); page.Since.OK && whole > 0 {
		part = float64(newest.Sub(at)) / float64(whole)
	}
	if r.most > 0 {
		part = max(part, float64(r.report.read)/float64(r.most))
	}
	line := fmt.Sprintf("%d calls ranked again, back to %s UTC (%.0f%%)", r.report.Calls, at.UTC().Format("2006-01-02 15:04"), 100*min(part, 1))
	if n := r.report.ScriptErrors.Calls; n > 0 {
		line += fmt.Sprintf(", the script failed on %d", n)
	}
	fmt.Fprint(r.progress, "\r"+line+"\x1b[K")
}
