package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"headway/adapters"
	"headway/conf"
	"headway/core"
	"headway/core/fleet"
	"headway/embedded/bus"
	"headway/embedded/store"
)

func nodeCommand(p Program) *cli.Command {
	return &cli.Command{
		Name: "node", Usage: "serve the models of this machine through a gateway elsewhere", UsageText: "headway node --join STRING --upstream [NAME=]URL… [flags]",
		Description: "Dials the gateway whose join string it is given, and offers it what the model servers here have: llama-server,\n" +
			"Ollama, vLLM, or any that is compatible with OpenAI's. Nothing listens here. The join string, of headway nodes\n" +
			"enrol, is used once; what it brought is kept in the data folder, and later starts need no --join.\n\n" +
			"It prints \"serving N models as NAME\" once the gateway has them, and logs to standard error. SIGTERM or Ctrl-C\n" +
			"lets calls under way end, for 10 seconds; a second one does not wait.\n\n" +
			"A model costs nothing unless the file of --config gives it a price; there are also names, limits and more\n" +
			"(conf/node.yaml in the source is the commented whole of it).\n\n" +
			"Example:\n   headway node --join headway-join-… --upstream http://127.0.0.1:11434\n   headway node --upstream http://127.0.0.1:11434 --upstream big=http://127.0.0.1:8000",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "join", EnvVars: []string{joinVariable}, Usage: "the join `STRING` that headway nodes enrol printed"},
			&cli.StringSliceFlag{Name: "upstream", Usage: "a model server's `[NAME=]URL`, repeatable, beside those of the file; a second one needs a name"},
			&cli.StringFlag{Name: "config", Aliases: []string{"c"}, Usage: "the configuration `FILE` of the node"},
			&cli.StringFlag{Name: "data", Usage: "the data `FOLDER` of the node, instead of data: in the file; left out: ./headway-node"},
			&cli.IntFlag{Name: "slots", Usage: "the `CALLS` that each model server works on at once, where the file does not say; left out: what it says itself", DefaultText: "its own"},
			&cli.IntFlag{Name: "queue", Usage: "the `CALLS` that may wait for a slot of each, where the file does not say; 0: none", DefaultText: "64"},
		},
		Action: func(c *cli.Context) error {
			if _, err := arguments(c); err != nil {
				return err
			}
			return runNode(c, p)
		},
	}
}

// joinVariable may hold the join string, which a command line shows to everybody
// on the machine.
const joinVariable = "HEADWAY_JOIN"

func runNode(c *cli.Context, p Program) error {
	file, err := nodeFile(c)
	if err != nil {
		return err
	}
	log, flush := newLog(c.App.ErrWriter, file.LogLevel)
	defer flush()
	for _, note := range file.Notes {
		log.Warn("the configuration", "note", note.String(), "hint", note.Hint)
	}
	out := &lines{w: c.App.Writer}
	if os.Getenv("GOMAXPROCS") == "" {
		// A node hands bytes on and is nearly always done before the next come: a second
		// thread that is woken for them costs more than it does, and the processors are
		// the model server's.
		runtime.GOMAXPROCS(1)
	}

	// Stop on the first signal, at once on a second.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan struct{})
	var run errgroup.Group
	run.Go(func() error {
		for {
			select {
			case <-ended:
				return nil
			case <-signals:
				if ctx.Err() != nil {
					os.Exit(1)
				}
				log.Info("stopping")
				stop()
			}
		}
	})
	run.Go(func() error { return Settle(ctx) })
	run.Go(func() error {
		defer close(ended)
		defer stop()
		return serveNode(ctx, p, file, log, out)
	})
	return run.Wait()
}

// serveNode opens the data folder, and serves until ctx ends.
func serveNode(ctx context.Context, p Program, file *conf.Node, log *slog.Logger, out *lines) (err error) {
	join, changed, err := credentialOf(file)
	if err != nil {
		return err
	}
	st, err := store.Open(file.Data, store.Options{LogFileBytes: nodeLogFile, Clock: p.Clock, Log: log})
	if err != nil {
		return err
	}
	writing, stopWriting := context.WithCancel(context.Background())
	var writer errgroup.Group
	writer.Go(func() error { return st.Run(writing) })
	defer func() {
		stopWriting()
		err = errors.Join(err, writer.Wait(), st.Close())
	}()
	if changed { // kept before it is used: what dies between the two comes back with the same key
		if err := join.Save(file.Data); err != nil {
			return err
		}
	}
	served := -1
	node := fleet.NewNode(fleet.NodeParts{Clock: p.Clock, Log: log, Name: join.Name, Version: p.Version, Formats: nodeFormats(),
		Upstreams: upstreams(file), Vault: st, Transport: nodeTransport(),
		Dial: func(ctx context.Context) (core.Link, error) { return bus.Dial(ctx, join) },
		Up: func(models int) {
			if models != served {
				served = models
				out.say("serving %s as %s", several(models, "model"), join.Name)
			}
		}})
	return node.Run(ctx)
}

// nodeFormats read what the model servers of nodes answer.
func nodeFormats() []core.ProviderSide {
	return []core.ProviderSide{adapters.Chat{}, adapters.Ollama{}}
}

// nodeLogFile keeps the store of a node, which has hardly anything in it, small.
const nodeLogFile = 1 << 20

// credentialOf is the credential that the node's folder keeps, or that of the join
// string that is given; changed: it is to be kept.
func credentialOf(file *conf.Node) (c bus.Credential, changed bool, err error) {
	kept, known, err := bus.LoadCredential(file.Data)
	if err != nil {
		return kept, false, err
	}
	if file.Join.Empty() {
		if !known {
			return kept, false, &core.Error{Kind: core.NotFound, Msg: fmt.Sprintf("the folder %q has no node's credential, and no join string is given", file.Data),
				Hint: "run headway nodes enrol NAME where the gateway is, and give its last line with --join"}
		}
		return kept, false, nil
	}
	join, err := bus.ParseJoin(file.Join.Reveal())
	switch {
	case err != nil:
		return kept, false, failed{err}
	case !known:
		c, err = bus.NewCredential(join)
		return c, true, err
	case join.Name != kept.Name || join.Pin != kept.Pin:
		other := fmt.Sprintf("is for the node %q", join.Name)
		if join.Name == kept.Name {
			other = "is of another gateway"
		}
		return kept, false, &core.Error{Kind: core.Forbidden, Msg: fmt.Sprintf("the folder %q is of the node %q of the gateway at %s, and the join string %s", file.Data, kept.Name, kept.Address, other),
			Hint: "name another folder with --data, or leave --join out; where that gateway is no more, remove the folder"}
	}
	return kept.Rejoin(join)
}

// nodeFile reads the file that is named, and puts the flags over it.
func nodeFile(c *cli.Context) (*conf.Node, error) {
	usual := conf.DefaultNode()
	file := &usual
	if path := c.String("config"); path != "" {
		f, err := conf.LoadNode(path, os.LookupEnv)
		var problems conf.Problems
		if err != nil && !errors.As(err, &problems) {
			return nil, failed{err}
		}
		if err != nil {
			return nil, err
		}
		file = f
	}
	if data := c.String("data"); data != "" {
		file.Data = data
	}
	if join := c.String("join"); join != "" {
		file.Join = core.NewSecret(join)
	}
	for _, text := range c.StringSlice("upstream") {
		u, err := upstreamFlag(text)
		if err != nil {
			return nil, err
		}
		for _, other := range file.Upstreams {
			if other.Name == u.Name {
				return nil, wrongUsage("--upstream: two model servers have the same name", "write a second one as NAME=URL, with a name of its own")
			}
		}
		file.Upstreams = append(file.Upstreams, u)
	}
	if len(file.Upstreams) == 0 {
		return nil, wrongUsage("no model server is named", "say where it answers: --upstream http://127.0.0.1:11434 (Ollama's usual port)")
	}
	for _, flag := range [...]struct {
		name  string
		least int
		in    func(*conf.Upstream) *core.Opt[int64]
	}{{"slots", 1, func(u *conf.Upstream) *core.Opt[int64] { return &u.Slots }}, {"queue", 0, func(u *conf.Upstream) *core.Opt[int64] { return &u.Queue }}} {
		if !c.IsSet(flag.name) {
			continue
		}
		n := c.Int(flag.name)
		if n < flag.least || n > conf.MostSlots {
			return nil, wrongUsage(fmt.Sprintf("--%s: %d is not from %d to %d", flag.name, n, flag.least, conf.MostSlots), "")
		}
		for i := range file.Upstreams {
			if v := flag.in(&file.Upstreams[i]); !v.OK {
				*v = core.Some(int64(n))
			}
		}
	}
	return file, nil
}

// upstreamFlag reads [NAME=]URL.
func upstreamFlag(text string) (u conf.Upstream, err error) {
	address := text
	if name, rest, ok := strings.Cut(text, "="); ok && !strings.Contains(name, "/") {
		if !conf.NodeName(name) {
			return u, wrongUsage(fmt.Sprintf("--upstream: %q is no name of a model server", name), "up to 63 small letters, digits and hyphens")
		}
		u.Name, address = name, rest
	}
	if u.URL, err = conf.UpstreamURL(address); err != nil {
		return u, wrongUsage("--upstream: "+err.Error(), "write it like http://127.0.0.1:11434; what needs a credential is named in the file of --config")
	}
	return u, nil
}

// upstreams are the file's as the node takes them.
func upstreams(file *conf.Node) (list []fleet.Upstream) {
	for _, u := range file.Upstreams {
		list = append(list, fleet.Upstream{Name: u.Name, URL: u.URL, Format: u.Format, APIKey: u.APIKey, Slots: u.Slots, Queue: u.Queue,
			Offers: u.Offers, Fixed: u.Fixed})
	}
	return list
}

// nodeTransport calls the model servers of a node: the addresses of the operator's
// own, never the cloud's metadata (SPEC §22), no proxy, bytes as they come.
func nodeTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: 5 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return core.CheckIP(to.Addr(), true)
	}}
	return &http.Transport{DialContext: dialer.DialContext, DisableCompression: true, MaxIdleConnsPerHost: conf.MostSlots,
		IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 5 * time.Second, MaxResponseHeaderBytes: 256 << 10}
}
