package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"headway/core"
	"headway/embedded/sim"
)

func simulateCommand(p Program) *cli.Command {
	usual := sim.Default()
	return &cli.Command{
		Name: "simulate", Usage: "run a simulated provider, to try strategies without spending", UsageText: "headway simulate [--listen HOST:PORT] [flags]",
		Description: "Speaks the formats openai, openai-responses, anthropic and google, answers with filler, and takes exactly\n" +
			"as long as its speeds say. It prints \"listening on ADDRESS\" once it answers, and a providers: entry for\n" +
			"headway.yaml to standard error.\n\n" +
			"Example:\n   headway simulate --listen 127.0.0.1:9001 --base 300ms --output-tps 60 --error-rate 0.1",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "listen", Value: "127.0.0.1:9001", Usage: "`HOST:PORT`; port 0 takes a free one"},
			&cli.StringSliceFlag{Name: "model", Usage: "a `MODEL` that it serves, repeatable; left out: any"},
			&cli.DurationFlag{Name: "base", Value: usual.Base, Usage: "the `TIME` before anything else"},
			&cli.Float64Flag{Name: "prefill-tps", Value: usual.PrefillTPS, Usage: "fresh input `TOKENS` per second"},
			&cli.Float64Flag{Name: "output-tps", Value: usual.OutputTPS, Usage: "output `TOKENS` per second"},
			&cli.Float64Flag{Name: "jitter", Value: usual.Jitter, Usage: "each time is off by at most this `SHARE` of it"},
			&cli.IntFlag{Name: "output-tokens", Value: usual.OutputTokens, Usage: "the usual length of an answer, in `TOKENS`"},
			&cli.IntFlag{Name: "tokens-per-event", Value: usual.TokensPerEvent, Usage: "`TOKENS` in one event of a stream"},
			&cli.Float64Flag{Name: "cached", Value: usual.Cached, Usage: "the `SHARE` of each prompt that is read from the cache, 0 to 1"},
			&cli.DurationFlag{Name: "cache-lifetime", Usage: "the `TIME` that it remembers prompts for, to read what they begin with from a cache; 0: none"},
			&cli.IntFlag{Name: "cache-min-tokens", Value: 1024, Usage: "the fewest `TOKENS` that are cached"},
			&cli.IntFlag{Name: "cache-step", Value: 128, Usage: "the `TOKENS` that cache reads are a multiple of"},
			&cli.BoolFlag{Name: "cache-answers", Usage: "cache answers with their prompts, as llama.cpp does"},
			&cli.BoolFlag{Name: "cache-writes", Usage: "report what was written to the cache"},
			&cli.BoolFlag{Name: "cache-marks", Usage: "cache only up to cache_control, as Anthropic does, and report what was written"},
			&cli.Float64Flag{Name: "error-rate", Value: usual.ErrorRate, Usage: "the `SHARE` of calls that fail, 0 to 1"},
			&cli.IntFlag{Name: "error-status", Value: usual.ErrorStatus, Usage: "the `STATUS` that they fail with"},
			&cli.DurationFlag{Name: "retry-after", Usage: "the `TIME` that their Retry-After says"},
			&cli.Float64Flag{Name: "cut-rate", Value: usual.CutRate, Usage: "the `SHARE` of answers whose connection breaks on the way, 0 to 1"},
			&cli.Float64Flag{Name: "stall-rate", Value: usual.StallRate, Usage: "the `SHARE` of answers that fall silent on the way, 0 to 1"},
			&cli.DurationFlag{Name: "stall-for", Value: usual.StallFor, Usage: "the `TIME` for which those are silent"},
			&cli.Uint64Flag{Name: "seed", Usage: "the `NUMBER` that everything left to chance begins from"},
			&cli.StringFlag{Name: "input-price", Value: "1", Usage: "input `USD` per million tokens, for the providers: entry"},
			&cli.StringFlag{Name: "output-price", Value: "2", Usage: "output `USD` per million tokens, for the providers: entry"},
		},
		Action: func(c *cli.Context) error {
			if _, err := arguments(c); err != nil {
				return err
			}
			return simulate(c, p)
		},
	}
}

func simulate(c *cli.Context, p Program) error {
	var cache *sim.Cache
	if life := c.Duration("cache-lifetime"); life != 0 {
		cache = &sim.Cache{Least: c.Int("cache-min-tokens"), Life: life, Step: c.Int("cache-step"), Answers: c.Bool("cache-answers"),
			Writes: c.Bool("cache-writes"), Marks: c.Bool("cache-marks")}
	}
	provider, err := sim.New(sim.Config{
		Base: c.Duration("base"), PrefillTPS: c.Float64("prefill-tps"), OutputTPS: c.Float64("output-tps"), Jitter: c.Float64("jitter"),
		OutputTokens: c.Int("output-tokens"), TokensPerEvent: c.Int("tokens-per-event"), Cached: c.Float64("cached"), Cache: cache,
		ErrorRate: c.Float64("error-rate"), ErrorStatus: c.Int("error-status"), RetryAfter: c.Duration("retry-after"),
		CutRate: c.Float64("cut-rate"), StallRate: c.Float64("stall-rate"), StallFor: c.Duration("stall-for"),
		Models: c.StringSlice("model"), Seed: c.Uint64("seed"),
	})
	if err != nil {
		return err
	}
	for _, flag := range [...]string{"input-price", "output-price"} {
		if _, err := core.ParseRate(c.String(flag)); err != nil {
			return wrongUsage(fmt.Sprintf("--%s: %v", flag, err), "prices are dollars per million tokens")
		}
	}
	l, err := listen(c.String("listen"))
	if err != nil {
		return err
	}
	calls, cutOff := context.WithCancel(context.Background())
	defer cutOff()
	server := &http.Server{Handler: provider.Handler(p.Clock), ReadHeaderTimeout: 5 * time.Second,
		BaseContext: func(net.Listener) context.Context { return calls }}
	run, stopped := errgroup.WithContext(c.Context)
	run.Go(func() error {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	run.Go(func() error {
		<-stopped.Done()
		cutOff() // nobody pays for an answer that is cut
		return server.Close()
	})
	writeEntry(c.App.ErrWriter, l.Addr().String(), c)
	fmt.Fprintf(c.App.Writer, "listening on %s\n", l.Addr())
	return run.Wait()
}

// writeEntry shows what to put into headway.yaml.
func writeEntry(w io.Writer, addr string, c *cli.Context) {
	models := c.StringSlice("model")
	if len(models) == 0 {
		models = []string{"small"}
	}
	fmt.Fprintf(w, "providers:\n  - id: simulated\n    format: openai   # or openai-responses; anthropic and google without the /v1\n    base_url: http://%s/v1\n    offers:\n", addr)
	for _, m := range models {
		fmt.Fprintf(w, "      - {model: %q, input_usd_per_mtok: %q, output_usd_per_mtok: %q}\n", m, c.String("input-price"), c.String("output-price"))
	}
}

// listen opens a port, with words for what goes wrong.
func listen(addr string) (net.Listener, error) {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, wrongUsage(fmt.Sprintf("--listen: %q is not host:port", addr), "write it like 127.0.0.1:8080; port 0 takes a free one")
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err
		}
		return nil, &core.Error{Kind: core.Internal, Msg: fmt.Sprintf("listen %s: %v", addr, err), Hint: "name another address with --listen"}
	}
	return l, nil
}
