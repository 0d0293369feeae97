// Package command is the command line: one file per group of commands. What a
// command does to a running server it does through core/control; the others
// (check, rank, measure, simulate …) work alone.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"headway/conf"
	"headway/core"
)

// Program is what main gives the command line.
type Program struct {
	Version string
	Clock   core.Clock
	// Serve runs the server until it is told to stop.
	Serve func(ServeOptions) error
}

// Main runs a command line, args[0] being the program's own name, and gives the
// exit code: 0 done, 1 failed, 2 wrong usage (SPEC §16).
func Main(args []string, p Program) int {
	app := newApp(p)
	// Commands stop on Ctrl-C; serve, node and simulate, which listen for signals
	// themselves, stop in their own order.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := app.RunContext(ctx, arrange(app, args))
	if err == nil {
		return 0
	}
	sayError(app.ErrWriter, err)
	return exitCode(err)
}

// newApp is the table of commands.
func newApp(p Program) *cli.App {
	app := &cli.App{
		Name:     "headway",
		HelpName: "headway",
		Usage:    "a gateway between LLM clients and many providers",
		Description: "Headway measures each provider itself, predicts the wait of each call, ranks the offers by price and\n" +
			"wait, falls back where one fails, and keeps a receipt of every call.\n\nTo begin: headway init, then headway serve.",
		Version:              p.Version,
		EnableBashCompletion: true,
		Writer:               os.Stdout, ErrWriter: os.Stderr, Reader: os.Stdin,
		ExitErrHandler: func(*cli.Context, error) {}, // Main says it
		Commands: []*cli.Command{
			serveCommand(p), nodeCommand(p), simulateCommand(p),
			initCommand(), checkCommand(p), applyCommand(),
			keyCommand(), offersCommand(), modelsCommand(), nodesCommand(),
			requestsCommand(), traceCommand(), usageCommand(), speedCommand(), auditCommand(), receiptsCommand(), statusCommand(),
			backupCommand(p), restoreCommand(p),
			rankCommand(), measureCommand(p), strategyCommand(p),
			versionCommand(p), completionCommand(),
		},
		Action: func(c *cli.Context) error {
			if name := c.Args().First(); name != "" {
				return noSuchCommand(c.App.Commands, name, "headway")
			}
			return cli.ShowAppHelp(c)
		},
		OnUsageError: usageError,
	}
	finish(app.Commands, "headway")
	return app
}

// finish gives every command what all have.
func finish(commands []*cli.Command, path string) {
	for _, c := range commands {
		path := path + " " + c.Name
		c.OnUsageError = usageError
		c.HideHelpCommand = true
		for _, f := range c.Flags {
			if b, ok := f.(*cli.BoolFlag); ok {
				b.DisableDefaultText = true
			}
		}
		if len(c.Subcommands) == 0 {
			continue
		}
		group, own := c, c.Action // one with an action of its own does something by itself too
		c.Action = func(x *cli.Context) error {
			if name := x.Args().First(); name != "" {
				return noSuchCommand(group.Subcommands, name, path)
			}
			if own != nil {
				return own(x)
			}
			return wrongUsage("say what to do: "+strings.Join(names(group.Subcommands), ", "), path+" --help shows each")
		}
		finish(c.Subcommands, path)
	}
}

func names(commands []*cli.Command) []string {
	var out []string
	for _, c := range commands {
		if !c.Hidden {
			out = append(out, c.Name)
		}
	}
	return out
}

// usage is an error of the command line itself.
type usage struct{ msg, hint string }

// Error is the message.
func (u *usage) Error() string { return u.msg }

func wrongUsage(msg, hint string) error { return &usage{msg, hint} }

func noSuchCommand(of []*cli.Command, name, path string) error {
	return wrongUsage(fmt.Sprintf("%q is no command of %s", name, path), "it has "+strings.Join(names(of), ", "))
}

// usageError gives the flag package's errors our words.
func usageError(c *cli.Context, err error, _ bool) error {
	msg := err.Error()
	if flag, ok := strings.CutPrefix(msg, "flag provided but not defined: -"); ok {
		msg = fmt.Sprintf("--%s is no flag of %s", flag, c.Command.HelpName)
	} else if flag, ok := strings.CutPrefix(msg, "flag needs an argument: -"); ok {
		msg = fmt.Sprintf("--%s needs a value", flag)
	} else if m := badValue.FindStringSubmatch(msg); m != nil {
		msg = fmt.Sprintf("--%s: %s is %s", m[2], m[1], wanted(c.Command.Flags, m[2], strings.HasSuffix(msg, "out of range")))
	}
	return wrongUsage(msg, c.Command.HelpName+" --help shows what there is")
}

// badValue is how the flag package says that a value is none of a flag's.
var badValue = regexp.MustCompile(`(?s)^invalid (?:boolean )?value ("(?:[^"\\]|\\.)*") for (?:flag )?-([^:]+): `)

// wanted says what a value is not that a flag should have.
func wanted(flags []cli.Flag, name string, tooFar bool) string {
	if tooFar {
		return "out of range"
	}
	for _, f := range flags {
		if !slices.Contains(f.Names(), name) {
			continue
		}
		switch f.(type) {
		case *cli.IntFlag, *cli.Uint64Flag:
			return "no whole number"
		case *cli.Float64Flag:
			return "no number"
		case *cli.DurationFlag:
			return "no time such as 30s or 5m"
		case *cli.BoolFlag:
			return "neither true nor false"
		}
	}
	return "not what it takes"
}

// arguments checks how many there are; names are of the required ones.
func arguments(c *cli.Context, names ...string) ([]string, error) {
	args := c.Args().Slice()
	for i, name := range names {
		if i >= len(args) || args[i] == "" { // "" is a variable that a script has not set
			return nil, wrongUsage(name+" is missing", "usage: "+c.Command.UsageText)
		}
	}
	if len(args) > len(names) {
		return nil, wrongUsage(fmt.Sprintf("%q is one argument too many", args[len(names)]), "usage: "+c.Command.UsageText)
	}
	return args, nil
}

// sayError writes an error in the words of ARCHITECTURE §8.
func sayError(w io.Writer, err error) {
	say := func(msg, hint string) {
		for line := range strings.Lines(msg) {
			fmt.Fprintln(w, "headway: error: "+strings.TrimRight(line, "\n"))
			if hint != "" { // of several mistakes it is the first one's
				fmt.Fprintln(w, "headway: hint: "+hint)
				hint = ""
			}
		}
	}
	var problems conf.Problems
	if errors.As(err, &problems) {
		for _, p := range problems {
			say(p.String(), p.Hint)
		}
		return
	}
	var wrong *usage
	var known *core.Error
	switch {
	case errors.As(err, &wrong):
		say(wrong.msg, wrong.hint)
	case errors.As(err, &known):
		msg := err.Error()
		var system syscall.Errno // why, where it was the system that refused
		if known.Kind != core.NotFound && errors.As(err, &system) && !strings.Contains(msg, system.Error()) {
			msg += ": " + system.Error()
		}
		say(msg, known.Hint)
	default:
		say(err.Error(), "")
	}
}

// failed is an error of what a command was given to work on, which is no wrong
// usage of the command.
type failed struct{ error }

// Unwrap is the error.
func (f failed) Unwrap() error { return f.error }

// exitCode is 2 for wrong usage and 1 for everything else.
func exitCode(err error) int {
	var problems conf.Problems
	var f failed
	if errors.As(err, &problems) || errors.As(err, &f) {
		return 1
	}
	var wrong *usage
	if errors.As(err, &wrong) {
		return core.Kinds[core.Invalid].Exit
	}
	var known *core.Error
	if errors.As(err, &known) {
		return core.Kinds[known.Kind].Exit
	}
	return 1
}

// arrange puts flags before arguments, where the flag package wants them, so that
// `headway trace ID --json` works as it reads. Everything behind -- stays an
// argument.
func arrange(app *cli.App, args []string) []string {
	if len(args) < 2 || args[len(args)-1] == "--generate-bash-completion" {
		return args
	}
	takesValue := map[string]bool{}
	collect(app.Commands, takesValue)
	isFlag := func(arg string) bool {
		_, is := takesValue[strings.TrimLeft(arg, "-")]
		return arg == "--" || is && arg[0] == '-'
	}
	var path, flags, rest []string
	commands := app.Commands
	for i := 1; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			rest = append(rest, args[i+1:]...)
			break
		}
		if len(arg) > 1 && arg[0] == '-' {
			flags = append(flags, arg)
			if takesValue[strings.TrimLeft(arg, "-")] {
				if i++; i == len(args) || isFlag(args[i]) {
					// It has no value, and must not take what comes next for one: as the last
					// of all the flag package says so.
					return append(append([]string{args[0]}, path...), flags...)
				}
				flags = append(flags, args[i])
			}
			continue
		}
		if at := indexOf(commands, arg); at >= 0 && len(rest) == 0 {
			path = append(path, arg)
			commands = commands[at].Subcommands
			continue
		}
		rest = append(rest, arg)
	}
	out := append([]string{args[0]}, path...)
	out = append(out, flags...)
	if len(rest) > 0 && len(path) > 0 {
		out = append(out, "--")
	}
	return append(out, rest...)
}

func indexOf(commands []*cli.Command, name string) int {
	for i, c := range commands {
		if c.HasName(name) {
			return i
		}
	}
	return -1
}

// collect notes of every flag whether a value follows it. One name means the same
// for every command.
func collect(commands []*cli.Command, takesValue map[string]bool) {
	for _, c := range commands {
		for _, f := range c.Flags {
			doc, ok := f.(cli.DocGenerationFlag)
			for _, name := range f.Names() {
				takesValue[name] = ok && doc.TakesValue()
			}
		}
		collect(c.Subcommands, takesValue)
	}
}
