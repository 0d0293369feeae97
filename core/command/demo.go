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

	"headway/adapters"
	"headway/conf"
	"headway/core"
	"headway/core/gateway"
	"headway/core/ledger"
	"headway/core/market"
	"headway/core/measure"
	"headway/embedded/sim"
	"headway/embedded/store"
)

const (
	demoKey     = "hw_demo"
	demoMarker  = "demo" // the file that marks a data folder as a demo's; it holds the day of its history
	demoSeed    = 2
	demoTokens  = 3000 // the most of one call of the live traffic
	demoTimeout = 2 * time.Minute
)

// demo is `serve --demo` before it serves: simulated providers on loopback
// ports, and a data folder with a week of their history.
type demo struct {
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

// newDemo starts the simulated providers and makes the history where the folder
// has none of today's.
func newDemo(dir string, clock core.Clock, log *slog.Logger, say func(string)) (*demo, error) {
	d := &demo{}
	address := map[string]string{}
	world, err := sim.NewDemo(func(string) string { return "" }) // for the servers' names
	if err != nil {
		return nil, err
	}
	for _, s := range world.Servers {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			d.close()
			return nil, err
		}
		server := &http.Server{Handler: s.Sim.Handler(clock), ReadHeaderTimeout: 5 * time.Second}
		d.servers = append(d.servers, server)
		address[s.Name] = "http://" + l.Addr().String()
		d.running.Go(func() { _ = server.Serve(l) })
	}
	if d.world, err = sim.NewDemo(func(name string) string { return address[name] }); err != nil {
		d.close()
		return nil, err
	}
	file := conf.Default()
	file.Data, file.Settings.Limits.Drain = dir, 5*time.Second
	file.Providers, file.Offers = d.world.Providers, d.world.Offers
	file.Keys = []conf.Credential{{Key: core.Key{ID: "demo", Name: "demo", FromFile: true}, Secret: core.NewSecret(demoKey)}}
	d.file = &file
	if err := d.remember(clock, log, say); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// close ends the simulated providers.
func (d *demo) close() {
	for _, s := range d.servers {
		_ = s.Close()
	}
	d.running.Wait()
}

// remember makes a week of history, unless the folder has today's. A folder that
// is not a demo's is left alone.
func (d *demo) remember(clock core.Clock, log *slog.Logger, say func(string)) error {
	dir := d.file.Data
	marker := filepath.Join(dir, demoMarker)
	today := clock().UTC().Format(time.DateOnly)
	made, err := os.ReadFile(marker)
	if err == nil && strings.TrimSpace(string(made)) == today {
		return nil
	}
	if err != nil {
		if entries, _ := os.ReadDir(dir); len(entries) > 0 {
			return &core.Error{Kind: core.Invalid, Msg: dir + ": not a demo's data folder, and not empty", Hint: "name an empty folder with --data, or leave --data out"}
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	say("making a week of history on a simulated clock")
	if err := d.play(clock(), log); err != nil {
		return fmt.Errorf("the demo's history: %w", err)
	}
	return os.WriteFile(marker, []byte(today+"\n"), 0o600)
}

// settled is a Book that can wait for all that was handed to it.
type settled struct {
	core.Book
	waiting sync.WaitGroup
}

// Append hands a receipt on and counts it.
func (s *settled) Append(r *core.Receipt, done func()) {
	s.waiting.Add(1)
	s.Book.Append(r, func() {
		if done != nil {
			done()
		}
		s.waiting.Done()
	})
}

// simulated gives each provider its server's transport on the simulated clock.
type simulated struct {
	world *sim.Demo
	clock *sim.Clock
}

// RoundTripper is the transport of a provider.
func (s simulated) RoundTripper(p *core.Provider) (http.RoundTripper, error) {
	return s.world.Behind(p.ID).Transport(s.clock), nil
}

// play runs the history through a gateway of its own, whose clock the simulated
// providers advance: the receipts are what real calls would have left.
func (d *demo) play(now time.Time, log *slog.Logger) (err error) {
	clock := sim.NewClock(now.UTC().Truncate(24 * time.Hour).Add(-7 * 24 * time.Hour))
	st, err := store.Open(d.file.Data, store.Options{LogFileBytes: d.file.LogFileBytes, Clock: clock.Now, Log: log})
	if err != nil {
		return err
	}
	board, err := measure.NewBoard(clock.Now, st)
	if err != nil {
		return errors.Join(err, st.Close())
	}
	spend, err := ledger.LoadSpend(st)
	if err != nil {
		return errors.Join(err, st.Close())
	}
	st.SetRecorder(core.Recorders{board, spend})
	ctx, stop := context.WithCancel(context.Background())
	writer := make(chan error, 1)
	go func() { writer <- st.Run(ctx) }()
	defer func() {
		stop()
		err = errors.Join(err, <-writer, st.Close())
	}()

	pepper := ledger.NewPepper()
	keys := ledger.NewKeys(&pepper)
	key := d.file.Keys[0].Key
	key.Hash = pepper.Hash(demoKey)
	keys.Set([]*core.Key{&key})
	book := &settled{Book: st}
	gw := gateway.New(gateway.Parts{Clock: clock.Now, Log: slog.New(slog.DiscardHandler), Adapters: adapters.All(), Keys: keys, Book: book,
		Board: board, Dialer: simulated{d.world, clock}, Metrics: gateway.NewMetrics()})
	catalogue, err := market.NewCatalogue(d.file.Providers, d.file.Offers, nil)
	if err != nil {
		return err
	}
	gw.Swap(&gateway.Setup{Settings: d.file.Settings, Catalogue: catalogue})
	day, n := 0, 0
	for q := range d.world.History(now, demoSeed) {
		if n++; q.At.YearDay() != day || n%25 == 0 {
			day = q.At.YearDay()
			book.waiting.Wait() // a day's receipts are counted before the next day begins
		}
		clock.AdvanceTo(q.At)
		if n%25 == 0 {
			board.Rows(nil) // brings the measures up to the simulated day
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://demo"+q.Path, bytes.NewReader(q.Body))
		if err != nil {
			return err
		}
		r.Header = q.Header
		if q.Offer != "" {
			_, _ = gw.Own(r, gateway.Forced{Offer: q.Offer, Kind: core.KindProbe}) // a flaky one may fail: that is history too
			continue
		}
		r.Header.Set("Authorization", "Bearer "+demoKey)
		gw.ServeHTTP(&nobody{header: http.Header{}}, r)
	}
	book.waiting.Wait()
	return nil
}

// nobody is a client that reads nothing.
type nobody struct{ header http.Header }

func (n *nobody) Header() http.Header         { return n.header }
func (n *nobody) Write(p []byte) (int, error) { return len(p), nil }
func (n *nobody) WriteHeader(int)             {}
func (n *nobody) Flush()                      {}

// traffic sends light traffic to the running demo until ctx ends.
func (d *demo) traffic(ctx context.Context, addr string) error {
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
func (d *demo) screen(addr string) string {
	exe, err := os.Executable()
	if err != nil {
		exe = os.Args[0]
	}
	return fmt.Sprintf(`
A demo of Headway: four simulated providers, a week of their history, light traffic. Nothing leaves this machine.

  turtle   cheap and slow          owl    reads long prompts fast
  hare     dear and fast           moth   flaky

Call it as if it were OpenAI, Anthropic or Google (key %[1]s, models demo-small and demo-large):

  curl -N http://%[2]s/v1/chat/completions -H 'Authorization: Bearer %[1]s' -H 'Content-Type: application/json' -d '{"model":"demo-small","stream":true,"messages":[{"role":"user","content":"Tell me about rivers."}]}'

Then see what happened and why (in another terminal):

  %[3]s requests
  %[3]s trace last
  %[3]s speed
  %[3]s usage

Ctrl-C stops it.
`, demoKey, addr, exe)
}
