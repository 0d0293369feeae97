package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"headway/adapters"
	"headway/core"
	"headway/core/estimate"
	"headway/core/gateway"
	"headway/core/ledger"
	"headway/core/market"
	"headway/core/measure"
	"headway/embedded/sim"
	"headway/embedded/store"
)

const (
	// demoSeed is what the history is drawn from.
	demoSeed = 2
	// historyVersion makes the history anew where an earlier Headway made it: its
	// receipts would lack what later ones have. 2: what strategies saw. 3: sums. 4: the
	// signed log.
	historyVersion = " 4"
)

// remember makes a week of history, unless the folder has today's. A folder that
// is not a demo's is left alone.
func (d *demonstration) remember(clock core.Clock, log *slog.Logger, say *lines) error {
	dir := d.file.Data
	marker := filepath.Join(dir, demoMarker)
	today := clock().UTC().Format(time.DateOnly) + historyVersion
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
	say.say("making a week of history on a simulated clock")
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
func (d *demonstration) play(now time.Time, log *slog.Logger) (err error) {
	clock := sim.NewClock(now.UTC().Truncate(24 * time.Hour).Add(-7 * 24 * time.Hour))
	st, err := store.Open(d.file.Data, store.Options{LogFileBytes: d.file.LogFileBytes, Clock: clock.Now, Log: log})
	if err != nil {
		return err
	}
	board, err := measure.NewBoard(clock.Now, st)
	if err != nil {
		return errors.Join(err, st.Close())
	}
	accounts, err := ledger.LoadAccounts(st)
	if err != nil {
		return errors.Join(err, st.Close())
	}
	tally, err := ledger.LoadTally(st, st, clock.Now)
	if err != nil {
		return errors.Join(err, st.Close())
	}
	estimator, err := estimate.New(clock.Now, st)
	if err != nil {
		return errors.Join(err, st.Close())
	}
	secrets, err := OpenSecrets(d.file, st)
	if err != nil {
		return errors.Join(err, st.Close())
	}
	sealer, err := OpenReceiptLog(d.file, st, st, &secrets.Pepper, clock.Now, log)
	if err != nil {
		return errors.Join(err, st.Close())
	}
	st.SetRecorder(core.Recorders{board, accounts, tally, estimator, sealer})
	ctx, stop := context.WithCancel(context.Background())
	writer := make(chan error, 1)
	go func() { writer <- st.Run(ctx) }()
	defer func() {
		stop()
		err = errors.Join(err, <-writer, st.Close())
	}()

	keys := ledger.NewKeys(&secrets.Pepper)
	key := d.file.Keys[0].Key
	key.Hash = secrets.Pepper.Hash(demoKey)
	keys.Set([]*core.Key{&key})
	book := &settled{Book: st}
	gw := gateway.New(gateway.Parts{Clock: clock.Now, Log: slog.New(slog.DiscardHandler), Adapters: adapters.All(), Keys: keys, Book: book,
		Board: board, Estimator: estimator, Accounts: accounts, Dialer: simulated{d.world, clock}, Metrics: gateway.NewMetrics()})
	catalogue, err := market.NewCatalogue(d.file.Providers, d.file.Offers, nil)
	if err != nil {
		return err
	}
	gw.Swap(&gateway.Setup{Settings: d.file.Settings, Catalogue: catalogue})
	day, n := 0, 0
	for q := range d.world.History(now, demoSeed) {
		if n++; q.At.YearDay() != day {
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
