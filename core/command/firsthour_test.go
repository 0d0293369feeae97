package command_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// firstBuild is how long `go run .` may take to compile what is not cached.
const firstBuild = 5 * time.Minute

// needs gives a program's path. A machine without it skips the test, but not
// where CI says that everything is there.
func needs(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
	return path
}

// shell runs a command line as it was printed, and gives its output.
func shell(t *testing.T, dir string, env []string, line string) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir, cmd.Env = dir, env
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s%s", line, err, out.String(), errs.String())
	}
	return out.String()
}

// stranger is the environment of somebody who has just come: no settings of
// Headway's, a home of their own. What Go has built and fetched is shared.
func stranger(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	caches := strings.Split(strings.TrimSpace(string(out)), "\n")
	home := t.TempDir()
	spaced := filepath.Join(home, "temporary files")
	if err := os.Mkdir(spaced, 0o700); err != nil {
		t.Fatal(err)
	}
	var env []string
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, "HEADWAY_") && !strings.HasSuffix(name, "_API_KEY") && !strings.HasPrefix(name, "XDG_") {
			env = append(env, e)
		}
	}
	return append(env, "GOCACHE="+caches[0], "GOMODCACHE="+caches[1], "HOME="+home, "TMPDIR="+spaced, "XDG_CACHE_HOME="+filepath.Join(home, "cache"))
}

// runDemo starts the README's first command in a clone and gives what it prints,
// up to its last line.
func runDemo(t *testing.T, clone string, env []string) *gatewayLog {
	t.Helper()
	const first = "    go run . serve --demo\n"
	readme, err := os.ReadFile(filepath.Join(clone, "README.md"))
	if err != nil || !strings.Contains(string(readme), first) {
		t.Fatalf("README.md does not say %q (error %v)", first, err)
	}
	log := &gatewayLog{ready: make(chan string, 1)}
	demo := exec.Command("sh", "-c", strings.TrimSpace(first)+" --listen 127.0.0.1:0")
	demo.Dir, demo.Env, demo.Stdout, demo.Stderr = clone, env, log, log
	demo.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's Ctrl-C reaches all of them
	if err := demo.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { demo.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = syscall.Kill(-demo.Process.Pid, syscall.SIGINT)
		select {
		case <-ended:
		case <-time.After(callLimit):
			t.Errorf("Ctrl-C does not stop the demo:\n%s", log.tail())
		}
		_ = syscall.Kill(-demo.Process.Pid, syscall.SIGKILL)
		<-ended
	})
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(firstBuild); !strings.Contains(log.all(), "Ctrl-C stops it.\n"); {
		select {
		case <-tick.C:
		case <-ended:
			t.Fatalf("the demo ended:\n%s", log.all())
		}
		if time.Now().After(end) {
			t.Fatalf("the demo has not begun after %v:\n%s", firstBuild, log.all())
		}
	}
	return log
}

// TestFirstHour is what somebody does first: clone, run the demo, and then every
// line that it prints, as it is printed.
func TestFirstHour(t *testing.T) {
	needs(t, "curl")
	git := needs(t, "git")
	clone := filepath.Join(t.TempDir(), "headway")
	if out, err := exec.Command(git, "clone", "--quiet", "--local", "--no-hardlinks", moduleRoot, clone).CombinedOutput(); err != nil {
		t.Fatalf("git clone: %v\n%s", err, out)
	}
	env := stranger(t)
	log := runDemo(t, clone, env)

	var lines []string
	for line := range strings.Lines(log.all()) {
		if command, ok := strings.CutPrefix(line, "  "); ok {
			lines = append(lines, strings.TrimSpace(command))
		}
	}
	elsewhere, ran := t.TempDir(), map[string]string{}
	program, id, begun := "", "", time.Now()
	ours := regexp.MustCompile(`^(/.*headway|'/.*headway') (.+)$`)
	for _, line := range lines {
		if strings.HasPrefix(line, "curl ") {
			ran["curl"] = shell(t, elsewhere, env, line)
		} else if m := ours.FindStringSubmatch(line); m != nil {
			if program == "" { // the curl line's own call, found as a person would find it
				program = m[1]
				id = waitForCall(t, elsewhere, env, program, begun)
			}
			ran[m[2]] = shell(t, elsewhere, env, line)
		}
	}
	ran["status"] = shell(t, elsewhere, env, program+" status")
	part := "speed --provider turtle --model demo-small --measure output_tps"
	ran[part] = shell(t, elsewhere, env, program+" "+part)
	if out := ran[part]; strings.Contains(out, "hare") || strings.Contains(out, "demo-large") || strings.Contains(out, "prefill_tps") || strings.Contains(out, "error") {
		t.Errorf("%s shows more:\n%s", part, out)
	}
	for command, says := range map[string][]string{
		part:         {"turtle", "demo-small", "output_tps", "own"},
		"status":     {"the demo's history"},
		"curl":       {`"delta":{`, "[DONE]"},
		"requests":   {"demo-small", "hare", "settled"},
		"trace last": {"call ", "whole call", "decision: strategy price-and-wait", "Model timings"},
		"speed":      {"base_latency_ms", "prefill_tps", "output_tps", "turtle", "own", "estimate error", "prompt", "cached"},
		"usage":      {"by model", "by provider", "by key", "demo-large"},
	} {
		out, did := ran[command]
		if !did {
			t.Errorf("the demo prints no line for %q:\n%s", command, strings.Join(lines, "\n"))
		}
		for _, words := range says {
			if !strings.Contains(out, words) {
				t.Errorf("%s does not say %q:\n%s", command, words, out)
			}
		}
	}
	if strings.Contains(ran["curl"], `"error"`) {
		t.Errorf("the curl line was answered with\n%s", ran["curl"])
	}
	if strings.Contains(log.all(), `"level":"ERROR"`) {
		t.Errorf("the demo's log has errors:\n%s", log.all())
	}

	out := shell(t, elsewhere, env, program+" trace "+id)
	for _, words := range []string{"call " + id + "  settled (status 200)", "TIMELINE", "upstream headers", "first response", "first visible text", "whole call",
		"ATTEMPT", "decision: strategy price-and-wait, ranked on price-and-wait", "hare/demo-small", "turtle/demo-small", "predicted wait", "actual wait"} {
		if !strings.Contains(out, words) {
			t.Errorf("trace %s does not say %q:\n%s", id, words, out)
		}
	}
}

// waitForCall waits until requests lists the call that the curl line made, and
// gives its id.
func waitForCall(t *testing.T, dir string, env []string, program string, since time.Time) (id string) {
	t.Helper()
	err := poll(func() error {
		var list struct {
			Items []struct {
				ID, Format, Model, Outcome string
				Streamed                   bool
				At                         time.Time
			}
		}
		out := shell(t, dir, env, program+" requests --json")
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			return err
		}
		for _, c := range list.Items {
			if c.Streamed && c.Format == "openai" && c.Model == "demo-small" && c.Outcome == "settled" && c.At.After(since) {
				id = c.ID
				return nil
			}
		}
		return fmt.Errorf("the curl line's call is not listed:\n%s", out)
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestOwnProvider is what somebody does next, with a server of their own: the
// commands of README.md's second part, in a folder that was empty.
func TestOwnProvider(t *testing.T) {
	f := chatWire(1200, 7)
	server := modelServer(t, func(w http.ResponseWriter, _ *http.Request, _ []byte, model string, streamed bool) {
		if model != "Qwen/Qwen3-8B" {
			http.Error(w, f.failure("no such model"), http.StatusNotFound)
		} else if streamed {
			begin(w, f.open, f.text("good "), f.text("day"), f.end)
		} else {
			send(w, f.whole("good day", "{}"))
		}
	})
	bin, dir := buildHeadway(t), t.TempDir()
	env := append(stranger(t), "PATH="+filepath.Dir(bin)+":"+os.Getenv("PATH"))
	run := func(line string, says ...string) string {
		t.Helper()
		out := shell(t, dir, env, line)
		for _, words := range says {
			if !strings.Contains(out, words) {
				t.Errorf("%s does not say %q:\n%s", line, words, out)
			}
		}
		return out
	}
	said := run("headway init --preset vllm", "headway.yaml is written", "headway check headway.yaml", "headway serve", "headway key create")

	// The preset's addresses are those of the machine that it is written for.
	file := filepath.Join(dir, "headway.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for was, is := range map[string]string{"http://127.0.0.1:8000/v1": server.URL + "/v1", "127.0.0.1:8080": "127.0.0.1:0"} {
		if !strings.Contains(string(text), was) {
			t.Fatalf("the file does not name %s:\n%s", was, text)
		}
		text = []byte(strings.Replace(string(text), was, is, 1))
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	next := regexp.MustCompile(`(?m)^  (headway .+)$`).FindAllStringSubmatch(said, -1)
	if len(next) != 4 {
		t.Fatalf("init says %d commands to go on with:\n%s", len(next), said)
	}
	run(next[0][1], "headway.yaml is good: 1 provider, 1 offer, 0 keys")

	g := &gateway{data: filepath.Join(dir, "data"), log: &gatewayLog{ready: make(chan string, 1)}, ended: make(chan struct{})}
	g.cmd = exec.Command("sh", "-c", "exec "+next[1][1])
	g.cmd.Dir, g.cmd.Env, g.cmd.Stdout, g.cmd.Stderr = dir, env, g.log, g.log
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { g.cmd.Wait(); close(g.ended) }()
	t.Cleanup(g.kill)
	select {
	case g.addr = <-g.log.ready:
	case <-g.ended:
		t.Fatalf("the gateway did not start:\n%s", g.log.tail())
	case <-time.After(callLimit):
		t.Fatalf("the gateway is not ready:\n%s", g.log.tail())
	}
	key := strings.TrimSpace(run(next[2][1], "hw_"))
	run(next[3][1], "vllm/qwen3-8b", "answers")
	run("headway offers list", "vllm/qwen3-8b", "active")
	run("headway models", "qwen3-8b")

	path, body := f.ask("qwen3-8b", "good morning", true)
	resp, err := g.call(patient(t), key, path, body, "X-Headway-Job", "first job")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if answer, err := readUntil(resp.Body, "[DONE]"); err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(answer, "day") {
		t.Fatalf("status %d, error %v: %s", resp.StatusCode, err, answer)
	}
	id := resp.Header.Get("X-Request-Id")
	if err := poll(func() error {
		if !strings.Contains(run("headway requests"), id) {
			return fmt.Errorf("call %s is not listed", id)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{id, "'first job'", "last"} {
		run("headway trace "+what, "call "+id+"  settled", "1200 uncached in, 7 out", "first response", "ATTEMPT", "vllm/qwen3-8b", "decision: strategy price-and-wait")
	}
	run("headway usage --by model,key", "qwen3-8b", "Speed by model")
	run("headway speed", "vllm", "base_latency_ms")
	run("headway key list", "active", "$0")
	run("headway status", g.addr)
	if err := g.stop(); err != nil {
		t.Errorf("%v\n%s", err, g.log.tail())
	}
}
