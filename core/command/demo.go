package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"headway/conf"
	"headway/core"
	"headway/core/control"
	"headway/core/fleet"
	"headway/embedded/bus"
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
	own     string // the address of the node's model server
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
	o.Traffic = func(ctx context.Context, addr string) error {
		run, ctx := errgroup.WithContext(ctx)
		run.Go(func() error { return d.traffic(ctx, addr) })
		run.Go(func() error {
			if err := d.node(ctx, p, o.Log); err != nil && ctx.Err() == nil { // the rest of the demo works without
				o.Log.Warn("the demo's node", "error", err)
			}
			return nil
		})
		return run.Wait()
	}
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
	for _, s := range append(world.Servers, world.Own) {
		if err := serve(s); err != nil {
			d.close()
			return nil, err
		}
	}
	if d.world, err = sim.NewDemo(func(name string) string { return address[name] }); err != nil {
		d.close()
		return nil, err
	}
	d.own = address[d.world.Own.Name]
	file.NATS.Listen, file.NATS.Advertise = "127.0.0.1:0", ""
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

// nodeFolder keeps the credential of the demo's node, in the demo's data folder.
const nodeFolder = "node"

// node is a machine of one's own in the demo: it joins the running server as any
// node does, with the server's model server behind it, until ctx ends.
func (d *demonstration) node(ctx context.Context, p Program, log *slog.Logger) error {
	client, err := control.Dial(d.file.Data)
	if err != nil {
		return err
	}
	credential, err := d.joinNode(ctx, client, core.NodeID(d.world.Own.Name))
	if err != nil {
		return err
	}
	upstream := fleet.Upstream{URL: d.own, Format: core.FormatOpenAI, Slots: core.Some[int64](sim.OwnSlots),
		Offers: []core.NodeModel{{Model: sim.DemoSmall, Upstream: sim.OwnModel, Limits: core.OfferLimits{Context: core.Some[int64](32_768), MaxOutput: core.Some[int64](4096)},
			Labels: map[string]string{"own": "yes"}}}}
	node := fleet.NewNode(fleet.NodeParts{Clock: p.Clock, Log: log, Name: credential.Name, Version: p.Version, Formats: nodeFormats(),
		Upstreams: []fleet.Upstream{upstream}, Vault: core.NewMemory(), Transport: nodeTransport(),
		Dial: func(ctx context.Context) (core.Link, error) { return bus.Dial(ctx, credential) }})
	return node.Run(ctx)
}

// joinNode is the node's credential: that of an earlier start, where the server
// still knows it, at the port of this one.
func (d *demonstration) joinNode(ctx context.Context, client *control.Client, name core.NodeID) (bus.Credential, error) {
	folder := filepath.Join(d.file.Data, nodeFolder)
	c, kept, err := bus.LoadCredential(folder)
	if err != nil {
		return c, err
	}
	nodes, err := client.Nodes(ctx)
	if err != nil {
		return c, err
	}
	state := ""
	for _, n := range nodes.Items {
		if n.Name == name {
			state = n.State
		}
	}
	if kept && (state == core.NodeUp || state == core.NodeLost) {
		st, err := client.Status(ctx)
		c.Address = st.NodesListen
		return c, err
	}
	if state != "" && state != core.NodeRevoked { // an earlier start ended in the middle of this
		if _, err := client.RevokeNode(ctx, string(name)); err != nil {
			return c, err
		}
	}
	v, err := client.EnrolNode(ctx, string(name), "", "")
	if err != nil {
		return c, err
	}
	join, err := bus.ParseJoin(v.Join)
	if err != nil {
		return c, err
	}
	if c, err = bus.NewCredential(join); err != nil {
		return c, err
	}
	return c, errors.Join(os.MkdirAll(folder, 0o700), c.Save(folder))
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
The history has probes too, Headway's own small calls; they are off in the running demo, as they are without probes: in a file.

  turtle   cheap and slow          owl    reads long prompts fast
  hare     dear and fast           moth   flaky
  beaver   a node: as if it were a machine of your own, free, two calls at a time

Lists show each of them once for every format that it speaks: turtle, turtle-anthropic and so on.

Call it as if it were OpenAI, Anthropic or Google (key %[1]s, models demo-small and demo-large):

  curl -N http://%[2]s/v1/chat/completions -H 'Authorization: Bearer %[1]s' -H 'Content-Type: application/json' -d '{"model":"demo-small","stream":true,"messages":[{"role":"user","content":"Tell me about rivers."}]}'

Then see what happened and why (in another terminal):

  %[3]s requests
  %[3]s trace last
  %[3]s nodes list
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
