package command_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/urfave/cli/v2"

	"headway/core"
	"headway/core/command"
	"headway/core/control"
)

// TestCLI plays the scripts of testdata/cli against the built binary. Beside
// testscript's own commands they have
//
//	start NAME ARGS…        runs headway until it listens; $NAME is its address, of a node its name
//	stop NAME               ends it as a service manager does; it must exit with 0
//	reload NAME             sends it SIGHUP
//	call ADDR MODEL [K=V]…  makes a streamed call with the key of the scripts and
//	                        headers K, waits for its receipt; $CALL is its id
//	code N ARGS…            runs headway, which must exit with N
//	await REGEXP ARGS…      runs headway again until its standard output matches
func TestCLI(t *testing.T) {
	bin := buildHeadway(t)
	testscript.Run(t, testscript.Params{
		Dir:                filepath.Join(moduleRoot, "testdata", "cli"),
		RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", filepath.Dir(bin)+string(filepath.ListSeparator)+e.Getenv("PATH"))
			e.Setenv("XDG_CACHE_HOME", filepath.Join(e.WorkDir, "cache"))
			e.Setenv("KEY", cliKey)
			e.Values[cliServers{}] = map[string]*cliServer{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"start": cliStart, "stop": cliStop, "reload": cliReload, "call": cliCall, "code": cliCode, "await": cliAwait,
		},
	})
}

// cliKey is the callers' key of the scripts.
const cliKey = "hw_script_000000000000"

type cliServers struct{}

// cliServer is a running headway of a script.
type cliServer struct {
	cmd   *exec.Cmd
	out   gatewayLog
	ended chan error
}

func cliCommand(ts *testscript.TestScript, args []string) *exec.Cmd {
	cmd := exec.Command("headway", args...)
	path := filepath.SplitList(ts.Getenv("PATH"))[0]
	cmd.Path, cmd.Err = filepath.Join(path, "headway"), nil
	cmd.Dir = ts.MkAbs(".")
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "HEADWAY_") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	for _, name := range []string{"PATH", "HOME", "XDG_CACHE_HOME", "TMPDIR", "HEADWAY_DATA", "HEADWAY_ADMIN_TOKEN", "KEY", "GOOGLE_APPLICATION_CREDENTIALS", "SIM_URL"} {
		if v := ts.Getenv(name); v != "" {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	return cmd
}

func cliStart(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: start NAME ARGS")
	}
	s := &cliServer{cmd: cliCommand(ts, args[1:]), out: gatewayLog{ready: make(chan string, 1)}, ended: make(chan error, 1)}
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	ts.Check(s.cmd.Start())
	go func() { s.ended <- s.cmd.Wait() }()
	ts.Defer(func() {
		_ = s.cmd.Process.Kill()
		<-s.ended
		s.ended <- nil
	})
	select {
	case addr := <-s.out.ready:
		ts.Setenv(args[0], addr)
	case err := <-s.ended:
		s.ended <- err
		ts.Fatalf("headway %s ended: %v\n%s", strings.Join(args[1:], " "), err, s.out.tail())
	case <-time.After(callLimit):
		ts.Fatalf("headway %s is not ready after %v:\n%s", strings.Join(args[1:], " "), callLimit, s.out.tail())
	}
	ts.Value(cliServers{}).(map[string]*cliServer)[args[0]] = s
}

func cliRunning(ts *testscript.TestScript, args []string) *cliServer {
	if len(args) != 1 {
		ts.Fatalf("usage: stop|reload NAME")
	}
	s := ts.Value(cliServers{}).(map[string]*cliServer)[args[0]]
	if s == nil {
		ts.Fatalf("%s was not started", args[0])
	}
	return s
}

func cliStop(ts *testscript.TestScript, neg bool, args []string) {
	s := cliRunning(ts, args)
	ts.Check(s.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-s.ended:
		s.ended <- err
		if err != nil {
			ts.Fatalf("%s ended with %v:\n%s", args[0], err, s.out.tail())
		}
	case <-time.After(callLimit):
		ts.Fatalf("%s does not stop:\n%s", args[0], s.out.tail())
	}
}

func cliReload(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(cliRunning(ts, args).cmd.Process.Signal(syscall.SIGHUP))
}

func cliCall(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: call ADDR MODEL [HEADER=VALUE]")
	}
	body := `{"model": "` + args[1] + `", "stream": true, "messages": [{"role": "user", "content": "good morning"}]}`
	req, err := http.NewRequest(http.MethodPost, "http://"+args[0]+"/v1/chat/completions", strings.NewReader(body))
	ts.Check(err)
	req.Header.Set("Authorization", "Bearer "+cliKey)
	req.Close = true
	for _, h := range args[2:] {
		name, value, _ := strings.Cut(h, "=")
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	ts.Check(err)
	if ok := resp.StatusCode == http.StatusOK; ok == neg {
		ts.Fatalf("the call has status %d: %s", resp.StatusCode, answer)
	}
	id := resp.Header.Get("X-Request-Id")
	ts.Setenv("CALL", id)
	if resp.Header.Get("X-Headway-Offer") == "" {
		return
	}
	client, err := control.Dial(ts.MkAbs("data"))
	ts.Check(err)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(callLimit); ; <-tick.C {
		_, err := client.Job(context.Background(), id)
		var e *core.Error
		switch {
		case err == nil:
			return
		case !errors.As(err, &e) || e.Kind != core.NotFound || time.Now().After(end):
			ts.Fatalf("the receipt of call %s: %v", id, err)
		}
	}
}

func cliAwait(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: await REGEXP ARGS")
	}
	want, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(callLimit); ; <-tick.C {
		out, err := cliCommand(ts, args[1:]).Output()
		if err == nil && want.Match(out) {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("%v: it never says %s:\n%s", err, args[0], out)
		}
	}
}

func cliCode(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: code N ARGS")
	}
	cmd := cliCommand(ts, args[1:])
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run()
	ts.Check(os.WriteFile(ts.MkAbs("out"), out.Bytes(), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs("err"), errs.Bytes(), 0o600))
	if got := fmt.Sprint(cmd.ProcessState.ExitCode()); got != args[0] {
		ts.Fatalf("exit code %s, want %s\n%s%s", got, args[0], out.String(), errs.String())
	}
}

// Every command says what it does and gives an example that is one of its own.
func TestEveryCommandHasHelp(t *testing.T) {
	var walk func(path string, commands []*cli.Command)
	seen := 0
	walk = func(path string, commands []*cli.Command) {
		for _, c := range commands {
			name := path + " " + c.Name
			seen++
			if c.Usage == "" || !strings.HasPrefix(c.UsageText, name) {
				t.Errorf("%s: usage %q, %q", name, c.Usage, c.UsageText)
			}
			_, example, ok := strings.Cut(c.Description, "Example")
			if !ok || !strings.Contains(example, name) {
				t.Errorf("%s: no example of its own in %q", name, c.Description)
			}
			for _, f := range c.Flags {
				if doc, ok := f.(cli.DocGenerationFlag); !ok || doc.GetUsage() == "" {
					t.Errorf("%s: --%s says nothing", name, f.Names()[0])
				}
			}
			walk(name, c.Subcommands)
		}
	}
	walk("headway", command.NewApp(command.Program{Version: "x", Clock: time.Now}).Commands)
	if seen < 20 {
		t.Errorf("only %d commands were seen", seen)
	}
}

// A flag means the same for every command: arrange relies on it.
func TestFlagsAgree(t *testing.T) {
	takes := map[string]bool{}
	var walk func(commands []*cli.Command)
	walk = func(commands []*cli.Command) {
		for _, c := range commands {
			for _, f := range c.Flags {
				for _, name := range f.Names() {
					v := f.(cli.DocGenerationFlag).TakesValue()
					if was, ok := takes[name]; ok && was != v {
						t.Errorf("--%s takes a value in one command and none in another", name)
					}
					takes[name] = v
				}
			}
			walk(c.Subcommands)
		}
	}
	walk(command.NewApp(command.Program{Clock: time.Now}).Commands)
}
