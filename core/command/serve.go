package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/urfave/cli/v2"

	"headway/conf"
)

// ServeOptions are what a server is started with.
type ServeOptions struct {
	File *conf.File
	Log  *slog.Logger
	// Ready is told the address once the server answers on it.
	Ready func(addr string)
	// Traffic, where not nil, is run beside the server until ctx ends.
	Traffic func(ctx context.Context, addr string) error
}

// usualFile is the configuration that is read where none is named.
const usualFile = "headway.yaml"

func serveCommand(p Program) *cli.Command {
	return &cli.Command{
		Name:      "serve",
		Usage:     "run the gateway",
		UsageText: "headway serve [--config FILE] [--data FOLDER] [--listen HOST:PORT] [--demo]",
		Description: "Runs until SIGTERM or Ctrl-C, then lets open calls end. SIGHUP reads the file again.\n" +
			"Without --config the file is ./headway.yaml; where there is none, the defaults hold.\n" +
			"It prints \"listening on ADDRESS\" once it answers, and logs to standard error.\n\n" +
			"Example:\n   headway serve --config headway.yaml --listen 127.0.0.1:0",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "config", Aliases: []string{"c"}, Usage: "the configuration `FILE`"},
			&cli.StringFlag{Name: "data", EnvVars: []string{dataVariable}, Usage: "the data `FOLDER`, instead of data: in the file"},
			&cli.StringFlag{Name: "listen", Usage: "`HOST:PORT`, instead of listen: in the file; port 0 takes a free one"},
			&cli.BoolFlag{Name: "demo", Usage: "simulated providers with a week of history, and a key to try them"},
		},
		Action: func(c *cli.Context) error {
			if _, err := arguments(c); err != nil {
				return err
			}
			return runServe(c, p)
		},
	}
}

func runServe(c *cli.Context, p Program) error {
	if c.Bool("demo") && c.String("config") != "" {
		return wrongUsage("--demo brings its own configuration", "leave --config out")
	}
	out := &lines{w: c.App.Writer}
	file, err := serveFile(c, out)
	if err != nil {
		return err
	}
	if data := c.String("data"); data != "" {
		file.Data = data
	}
	if listen := c.String("listen"); listen != "" {
		if _, _, err := net.SplitHostPort(listen); err != nil {
			return wrongUsage(fmt.Sprintf("--listen: %q is not host:port", listen), "write it like 127.0.0.1:8080; port 0 takes a free one")
		}
		file.Listen = listen
	}
	if c.Bool("demo") {
		file.LogLevel = slog.LevelWarn // its traffic would scroll away what to try
	}
	log, flush := newLog(c.App.ErrWriter, file.LogLevel)
	defer flush()
	for _, note := range file.Notes {
		log.Warn("the configuration", "note", note.String(), "hint", note.Hint)
	}
	o := ServeOptions{File: file, Log: log}
	token := filepath.Join(file.Data, tokenFile)
	_, err = os.Stat(token)
	fresh := errors.Is(err, fs.ErrNotExist)
	o.Ready = func(addr string) {
		// Once, to the person who started it (SPEC §18); a service's output ends in a
		// log, which gets the place alone.
		if text, err := os.ReadFile(token); fresh && err == nil {
			if terminal(c.App.Writer) {
				out.say("admin token, made now and kept in %s: %s", token, strings.TrimSpace(string(text)))
			} else {
				out.say("an admin token was made: it is in %s", token)
			}
		}
		out.say("listening on %s", addr)
	}
	if c.Bool("demo") {
		return demo(c, p, o)
	}
	return p.Serve(o)
}

// serveFile reads the file that is named, or the usual one, or takes the
// defaults.
func serveFile(c *cli.Context, out *lines) (*conf.File, error) {
	if path := c.String("config"); path != "" {
		return load(path)
	}
	if c.Bool("demo") {
		f := conf.Default()
		return &f, nil
	}
	if _, err := os.Stat(usualFile); err == nil {
		return load(usualFile)
	}
	out.say("there is no ./%s: the defaults hold (headway init writes one)", usualFile)
	f := conf.Default()
	return &f, nil
}

// lines writes whole lines.
type lines struct {
	mu sync.Mutex // guards w
	w  io.Writer
}

func (l *lines) say(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.w, format+"\n", args...)
}
