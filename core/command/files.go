package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"headway/conf"
	"headway/core"
	"headway/core/control"
	"headway/embedded/bus"
	"headway/scripts"
)

func initCommand() *cli.Command {
	return &cli.Command{
		Name: "init", Usage: "write a commented headway.yaml", UsageText: "headway init [FILE] [--preset NAME]… [--force]",
		Description: "Without --preset it takes the providers whose usual variable, such as OPENAI_API_KEY, is set.\n" +
			"Presets: " + strings.Join(conf.Presets(), ", ") + ".\n\nExample:\n   headway init --preset openai --preset ollama",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "preset", Usage: "a provider by `NAME`, repeatable"},
			&cli.BoolFlag{Name: "force", Usage: "write over a file that is there"},
		},
		Action: writeFile,
	}
}

func writeFile(c *cli.Context) error {
	path := usualFile
	if c.Args().Len() > 1 {
		_, err := arguments(c, "FILE")
		return err
	}
	if c.Args().Present() {
		path = c.Args().First()
	}
	text, err := conf.Init(c.StringSlice("preset"), os.LookupEnv)
	if err != nil {
		return err
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if c.Bool("force") {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(path, flags, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return &core.Error{Kind: core.Forbidden, Msg: path + ": is there already", Hint: "name another file, or write over it with --force"}
	}
	if err == nil {
		_, err = f.Write(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return cannot("written", path, err)
	}
	out := c.App.Writer
	fmt.Fprintf(out, "%s is written\n\nnext:\n", path)
	parsed, err := conf.Parse(path, text, func(string) (string, bool) { return "", false })
	if err == nil && len(parsed.Providers) == 0 {
		fmt.Fprintf(out, "  name your providers in %s\n", path)
	}
	for _, name := range references(text) {
		if _, set := os.LookupEnv(name); !set {
			fmt.Fprintf(out, "  export %s=…\n", name)
		}
	}
	config := ""
	if path != usualFile {
		config = " --config " + path
	}
	fmt.Fprintf(out, "  headway check %s\n  headway serve%s\n  headway key create\n  headway offers test\n", path, config)
	return nil
}

// references are the variables that a file names outside its comments, but for
// those with a default.
func references(text []byte) []string {
	var names []string
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		_, rest, ok := strings.Cut(line, "${")
		name, _, closed := strings.Cut(rest, "}")
		if ok && closed && !strings.Contains(name, ":-") && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func cannot(what, path string, err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return failed{&core.Error{Kind: core.Internal, Msg: fmt.Sprintf("%s: cannot be %s: %v", path, what, err), Err: err}}
}

func checkCommand(p Program) *cli.Command {
	return &cli.Command{
		Name: "check", Usage: "check a configuration file", UsageText: "headway check [FILE] [--show]",
		Description: "Reads the file as serve does and names everything that is wrong with it, a strategy that is not there too. With\n" +
			"--show it prints the file as it was understood, its secrets masked. FILE is ./headway.yaml where it is left out. A node's\n" +
			"file, known by its upstreams, is read as headway node does.\n\nExample:\n   headway check headway.yaml",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "show", Usage: "print the resolved file, secrets masked"},
			jsonFlag(),
		},
		Action: func(c *cli.Context) error {
			path, err := oneFile(c)
			if err != nil {
				return err
			}
			if isNodeFile(path) {
				return checkNode(c, path)
			}
			file, err := load(path)
			if err == nil {
				err = checkScripts(file, p.Clock)
			}
			if c.Bool("json") {
				if err := printJSON(c.App.Writer, checked(path, file, err)); err != nil {
					return err
				}
				return err
			}
			if err != nil {
				return err
			}
			if c.Bool("show") {
				_, err := c.App.Writer.Write(conf.Show(file))
				return err
			}
			for _, n := range file.Notes {
				fmt.Fprintf(c.App.ErrWriter, "headway: note: %s\n", n)
				if n.Hint != "" {
					fmt.Fprintf(c.App.ErrWriter, "headway: hint: %s\n", n.Hint)
				}
			}
			fmt.Fprintf(c.App.Writer, "%s is good: %s\n", path, holds(len(file.Providers), len(file.Offers), len(file.Keys)))
			return nil
		},
	}
}

// isNodeFile tells whether a file is one of headway node: it names model servers or
// how to join, and no providers.
func isNodeFile(path string) bool {
	text, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	has := func(key string) bool { return strings.Contains("\n"+string(text), "\n"+key+":") }
	return (has("upstreams") || has("upstream") || has("join")) && !has("providers")
}

// checkNode is check for the file of a node.
func checkNode(c *cli.Context, path string) error {
	if c.Bool("show") {
		return wrongUsage("--show is for the file of headway serve, and "+path+" is a node's", "leave it out")
	}
	node, err := conf.LoadNode(path, os.LookupEnv)
	if err == nil && !node.Join.Empty() {
		if _, err = bus.ParseJoin(node.Join.Reveal()); err != nil {
			err = ofFile(path, err)
		}
	}
	if c.Bool("json") {
		seen := &conf.File{}
		if node != nil {
			seen.Notes = node.Notes
		}
		return errors.Join(printJSON(c.App.Writer, checked(path, seen, err)), err)
	}
	if err != nil {
		return err
	}
	for _, n := range node.Notes {
		fmt.Fprintf(c.App.ErrWriter, "headway: note: %s\n", n)
	}
	fmt.Fprintf(c.App.Writer, "%s is good, as the file of a node: %s\n", path, several(len(node.Upstreams), "model server"))
	return nil
}

// checkScripts holds the strategies that a file names against its folder of
// scripts; one there that would be refused is a note.
func checkScripts(f *conf.File, clock core.Clock) error {
	var names []string
	for _, s := range scripts.Open(f.Scripts, clock, slog.New(slog.DiscardHandler)).List() {
		names = append(names, s.Name)
		if s.Error != nil {
			f.Notes = append(f.Notes, conf.Problem{File: filepath.Join(f.Scripts, s.Name+".js"), Line: s.Error.Line, Reason: s.Error.Message,
				Hint: "a start has the default strategy rank in its place until it is mended; a server that runs keeps the last good one"})
		}
	}
	return f.CheckScripts(names)
}

// holds says how much a file holds. Keys that were made by a command are not in
// it.
func holds(providers, offers, keys int) string {
	return several(providers, "provider") + ", " + several(offers, "offer") + ", " + several(keys, "key")
}

func several(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

// problem is one line of check --json.
type problem struct {
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	Path   string `json:"path,omitempty"`
	Reason string `json:"reason"`
	Hint   string `json:"hint,omitempty"`
}

// verdict is what check --json prints.
type verdict struct {
	File      string    `json:"file"`
	Good      bool      `json:"good"`
	Providers int       `json:"providers,omitempty"`
	Offers    int       `json:"offers,omitempty"`
	Keys      int       `json:"keys,omitempty"`
	Problems  []problem `json:"problems,omitempty"`
	Notes     []problem `json:"notes,omitempty"`
}

func checked(path string, f *conf.File, err error) verdict {
	v := verdict{File: path, Good: err == nil}
	list := func(ps []conf.Problem) (out []problem) {
		for _, p := range ps {
			out = append(out, problem{p.File, p.Line, p.Column, p.Path, p.Reason, p.Hint})
		}
		return out
	}
	var problems conf.Problems
	switch {
	case errors.As(err, &problems):
		v.Problems = list(problems)
	case err != nil:
		v.Problems = []problem{{File: path, Reason: err.Error()}}
	default:
		v.Providers, v.Offers, v.Keys, v.Notes = len(f.Providers), len(f.Offers), len(f.Keys), list(f.Notes)
	}
	return v
}

// oneFile is the file that is named, else the usual one.
func oneFile(c *cli.Context) (string, error) {
	switch c.Args().Len() {
	case 0:
		return usualFile, nil
	case 1:
		return c.Args().First(), nil
	}
	_, err := arguments(c, "FILE")
	return "", err
}

func applyCommand() *cli.Command {
	return &cli.Command{
		Name: "apply", Usage: "put a configuration file into force on a running server", UsageText: "headway apply [FILE]",
		Description: "All of it or, where anything is wrong, nothing of it. References are resolved by the server, with its\n" +
			"environment. Without FILE the server reads the file that it was started with again. What a later start\n" +
			"reads does not change.\n\nExample:\n   headway apply headway.yaml",
		Flags: serverFlags(jsonFlag()),
		Action: func(c *cli.Context) error {
			if c.Args().Len() > 1 {
				_, err := arguments(c, "FILE")
				return err
			}
			var name string
			var text []byte
			if path := c.Args().First(); path != "" {
				var err error
				if text, err = os.ReadFile(path); err != nil {
					return cannot("read", path, err)
				}
				if name, err = filepath.Abs(path); err != nil {
					return err
				}
				if len(strings.TrimSpace(string(text))) == 0 {
					return failed{&core.Error{Kind: core.Invalid, Msg: path + ": is empty", Hint: "headway init writes a file to start from"}}
				}
			}
			s, err := server(c)
			if err != nil {
				return err
			}
			applied, err := s.Apply(c.Context, name, text)
			if err != nil {
				return failed{err}
			}
			return sayApplied(c, applied)
		},
	}
}

func sayApplied(c *cli.Context, a control.Applied) error {
	if c.Bool("json") {
		return printJSON(c.App.Writer, a)
	}
	for _, n := range a.Notes {
		fmt.Fprintf(c.App.ErrWriter, "headway: note: %s\n", n)
	}
	for _, path := range a.Restart {
		fmt.Fprintf(c.App.ErrWriter, "headway: note: %s is not what is in force, and only a restart changes it\n", path)
	}
	fmt.Fprintf(c.App.Writer, "in force from the file: %s\n", holds(a.Providers, a.Offers, a.Keys))
	return nil
}

func statusCommand() *cli.Command {
	return &cli.Command{
		Name: "status", Usage: "say how the running server is", UsageText: "headway status [--json]",
		Description: "Example:\n   headway status",
		Flags:       serverFlags(jsonFlag()),
		Action: onServer(nil, func(ctx context.Context, c *cli.Context, s *control.Client, _ []string) error {
			st, err := s.Status(ctx)
			if err != nil {
				return err
			}
			if c.Bool("json") {
				return printJSON(c.App.Writer, st)
			}
			out := c.App.Writer
			fmt.Fprintf(out, "version     %s\nlistening   %s\nfile        %s\nstarted     %s\nopen calls  %d\n", st.Version, orDash(st.Listen), orDash(st.File), at(st.StartedAt), st.OpenCalls)
			fmt.Fprintf(out, "offers      %d active, %d out, %d paused\nkeys        %d\nreceipts    %s\n", st.Offers["active"], st.Offers["out"], st.Offers["paused"], st.Keys, health(st))
			if len(st.Nodes) > 0 {
				fmt.Fprintf(out, "nodes       %s\n", nodesStanding(st))
			}
			if l := st.ReceiptLog; l != nil {
				fmt.Fprintf(out, "signed log  %s\n", logStanding(l))
				for _, p := range l.Problems {
					fmt.Fprintf(out, "            %s\n", printable(p))
				}
			}
			if st.Probes != nil {
				fmt.Fprintf(out, "probes      %s\n", probing(st))
			}
			return nil
		}),
	}
}

// nodesStanding says how many nodes are in each state, and where they dial.
func nodesStanding(st control.Status) string {
	s := fmt.Sprintf("%d up, %d lost", st.Nodes[core.NodeUp], st.Nodes[core.NodeLost])
	if n := st.Nodes[core.NodeInvited]; n > 0 {
		s += fmt.Sprintf(", %d invited", n)
	}
	if st.NodesListen != "" {
		s += "; they dial " + st.NodesListen
	}
	return s
}

// probing says what probes have cost today and when the next is made.
func probing(st control.Status) string {
	p := st.Probes
	if !p.PerDay.OK {
		if p.Spent > 0 {
			return "off; $" + p.Spent.String() + " spent today"
		}
		s := "off: none are made without probes.usd_per_day"
		if _, demo := control.Demo(); demo && st.File == "" {
			s += " (the demo's history has some, as if it had been set)"
		}
		return s
	}
	s := fmt.Sprintf("$%s of $%s spent today", p.Spent, p.PerDay.V)
	if !p.NextAt.OK {
		return s + "; none needed now"
	}
	return s + fmt.Sprintf("; next at %s, a %s prompt to %s", at(p.NextAt.V), p.NextPrompt, p.NextOffer)
}

func health(s control.Status) string {
	switch {
	case !s.Healthy:
		return "not kept: " + s.Trouble
	case s.ReceiptLog != nil && s.ReceiptLog.Held:
		return "calls are refused: theirs could not be signed"
	}
	return "every one is kept"
}

func orDash(s string) string {
	if s == "" {
		return absent
	}
	return s
}
