package command

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"headway/conf"
	"headway/core"
	"headway/core/control"
	"headway/embedded/sim"
)

const (
	demoKey     = "hw_demo"
	demoMarker  = "demo" // the file that marks a data folder as a demo's; it holds the day of its history, and of which version that is
	demoTokens  = 3000   // the most of one call of the live traffic
	demoTimeout = 2 * time.Minute
)

// demonstration is `serve --demo` before it serves: simulated providers on
// loopback ports, and a data folder with a week of their history.
type demonstration struct {
	file    *conf.File
	world   *sim.Demo
	servers []*http.Server
	running sync.WaitGroup // the servers' goroutines; close waits for them
}

// demoFolder is where a demo keeps its data unless --data says otherwise, so
// that other commands find it.
func demoFolder() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "headway-demo")
}

// demo runs the server with simulated providers.
func demo(c *cli.Context, p Program, o ServeOptions) error {
	if c.String("data") == "" {
		o.File.Data = demoFolder()
	}
	say := &lines{w: c.App.Writer}
	d, err := newDemonstration(o.File, p.Clock)
	if err != nil {
		return err
	}
	defer d.close()
	if err := d.remember(p.Clock, o.Log, say); err != nil {
		return err
	}
	unmark, err := control.MarkDemo(o.File.Data)
	if err != nil {
		return err
	}
	defer func() { _ = unmark() }() // a mark that stays names a folder without a server: commands say so
	ready := o.Ready
	o.Ready = func(addr string) {
		ready(addr)
		say.say("%s", d.screen(addr))
	}
	o.Traffic = d.traffic
	return p.Serve(o)
}

// newDemonstration starts the simulated providers and puts them into the file.
func newDemonstration(file *conf.File, clock core.Clock) (*demonstration, error) {
	d := &demonstration{file: file}
	address := map[string]string{}
	serve := func(s sim.Server) error {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		server := &http.Server{Handler: s.Sim.Handler(clock), ReadHeaderTimeout: 5 * time.Second}
		d.servers = append(d.servers, server)
		address[s.Name] = "http://" + l.Addr().String()
		d.running.Go(func() { _ = server.Serve(l) })
		return nil
	}
	world, err := sim.NewDemo(func(string) string { return "" }) // its servers, before they have addresses
	if err != nil {
		return nil, err
	}
	for _, s := range world.Servers {
		if err := serve(s); err != nil {
			d.close()
			return nil, err
		}
	}
	if d.world, err = sim.NewDemo(func(name string) string { return address[name] }); err != nil {
		d.close()
		return nil, err
	}
	file.Settings.Limits.Drain = 5 * time.Second // nobody waits for a demo to stop
	file.Providers, file.Offers = d.world.Providers, d.world.Offers
	file.Keys = []conf.Credential{{Key: core.Key{ID: "demo", Name: "demo", FromFile: true}, Secret: core.NewSecret(demoKey)}}
	return d, nil
}

// close ends the simulated providers.
func (d *demonstration) close() {
	for _, s := range d.servers {
		_ = s.Close()
	}
	d.running.Wait()
}

// traffic sends light traffic to the running demo until ctx ends.
func (d *demonstration) traffic(ctx context.Context, addr string) error {
	source := sim.NewTraffic(uint64(os.Getpid()), demoTokens)
	client := &http.Client{Timeout: demoTimeout}
	for {
		q, pause := source.Next()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+q.Path, bytes.NewReader(q.Body))
		if err != nil {
			return err
		}
		r.Header = q.Header
		r.Header.Set("Authorization", "Bearer "+demoKey)
		if resp, err := client.Do(r); err == nil { // a flaky provider may fail it: that is the demo
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// screen says what to try next. Every line works as it is printed while the demo
// runs, also from another folder and when it was started by go run.
func (d *demonstration) screen(addr string) string {
	exe, err := os.Executable()
	if err != nil {
		exe = os.Args[0]
	}
	return fmt.Sprintf(`
A demo of Headway: four simulated providers, a week of their history, light traffic. Nothing leaves this machine.

  turtle   cheap and slow          owl    reads long prompts fast
  hare     dear and fast           moth   flaky

Lists show each of them once for every format that it speaks: turtle, turtle-anthropic and so on.

Call it as if it were OpenAI, Anthropic or Google (key %[1]s, models demo-small and demo-large):

  curl -N http://%[2]s/v1/chat/completions -H 'Authorization: Bearer %[1]s' -H 'Content-Type: application/json' -d '{"model":"demo-small","stream":true,"messages":[{"role":"user","content":"Tell me about rivers."}]}'

Then see what happened and why (in another terminal):

  %[3]s requests
  %[3]s trace last
  %[3]s speed
  %[3]s usage
  %[3]s strategy replay cheapest

Ctrl-C stops it.
`, demoKey, addr, inShell(exe))
}

// inShell is a word as it is written in a shell.
func inShell(word string) string {
	if strings.ContainsAny(word, " \t\n'\"\\$`&;()<>|*?[]{}#~!") {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}
