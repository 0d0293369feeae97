package gateway_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"headway/adapters"
	"headway/core"
	"headway/core/gateway"
	"headway/core/ledger"
	"headway/core/market"
	"headway/core/measure"
	"headway/embedded/sim"
)

// probed is a gateway over simulated providers in real time, which in a bubble is
// fake, with what probes need.
type probed struct {
	t         *testing.T
	book      *core.Memory
	board     *measure.Board
	spent     *ledger.Probes
	gw        *gateway.Gateway
	prober    *gateway.Prober
	settings  core.Settings
	catalogue *market.Catalogue
}

// target is a provider of a probed rig with one offer of model m.
type target struct {
	name   string
	format core.Format
	config sim.Config
	in     string // USD per million tokens, input; output is five times as much
	change func(*core.Offer)
}

// newProbed makes one, inside a bubble. book is that of an earlier one, or new.
func newProbed(t *testing.T, book *core.Memory, perDay string, targets ...target) *probed {
	t.Helper()
	p := &probed{t: t, book: book, settings: core.DefaultSettings()}
	if perDay != "" {
		limit, err := core.ParseMoney(perDay)
		if err != nil {
			t.Fatal(err)
		}
		p.settings.Probes.PerDay = core.Some(limit)
	}
	hosts := map[string]*pipes{}
	var providers []*core.Provider
	var offers []*core.Offer
	for _, x := range targets {
		s, err := sim.New(x.config)
		if err != nil {
			t.Fatal(err)
		}
		front := newPipes()
		hosts[x.name] = front
		server := &http.Server{Handler: s.Handler(time.Now)}
		go func() { _ = server.Serve(front) }()
		t.Cleanup(func() { _ = server.Close(); _ = front.Close() })
		if x.format == "" {
			x.format = core.FormatOpenAI
		}
		base := "http://" + x.name
		if strings.HasPrefix(string(x.format), "openai") {
			base += "/v1"
		}
		rate, err := core.ParseRate(x.in)
		if err != nil {
			t.Fatal(err)
		}
		provider := &core.Provider{ID: core.ProviderID(x.name), Format: x.format, BaseURL: base, FromFile: true}
		o := &core.Offer{ID: core.OfferID(x.name + "/m"), Provider: provider, Model: "m", UpstreamModel: "m",
			Price: core.Price{Rates: core.Rates{Input: rate, Output: 5 * rate}}}
		if x.change != nil {
			x.change(o)
		}
		providers, offers = append(providers, provider), append(offers, o)
	}
	var err1, err2, err3 error
	p.catalogue, err1 = market.NewCatalogue(providers, offers, nil)
	p.board, err2 = measure.NewBoard(time.Now, book)
	p.spent, err3 = ledger.LoadProbes(book)
	if err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(err1, err2, err3)
	}
	estimator := newEstimator(t, book)
	book.Recorder = core.Recorders{p.board, estimator, p.spent}
	pepper := &ledger.Pepper{}
	keys := ledger.NewKeys(pepper)
	keys.Set([]*core.Key{{ID: "test", Hash: pepper.Hash(clientKey)}})
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true, DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
		host, _, _ := net.SplitHostPort(addr)
		return hosts[host].dial(ctx)
	}}
	p.gw = gateway.New(gateway.Parts{Clock: time.Now, Log: slog.New(slog.DiscardHandler), Adapters: adapters.All(), Providers: adapters.Providers(time.Now), Keys: keys,
		Book: book, Board: p.board, Estimator: estimator, Accounts: newAccounts(t, book), Dialer: roundTrips{transport}, Metrics: gateway.NewMetrics()})
	p.apply()
	p.prober = gateway.NewProber(p.gw, p.board, p.spent)
	return p
}

// apply puts the rig's settings into force.
func (p *probed) apply() {
	p.gw.Swap(&gateway.Setup{Settings: p.settings, Catalogue: p.catalogue})
}

// run lets the prober run for some time.
func (p *probed) run(d time.Duration) {
	p.t.Helper()
	ctx, stop := context.WithTimeout(p.t.Context(), d)
	defer stop()
	if err := p.prober.Run(ctx); err != nil {
		p.t.Error(err)
	}
	synctest.Wait()
	if n := p.book.Unsettled(); n != 0 {
		p.t.Errorf("%d probes have no receipt", n)
	}
}

// receipts are all that there are, the oldest first.
func (p *probed) receipts() (all []*core.Receipt) {
	_ = p.book.Receipts(time.Time{}, time.Time{}, false, func(r *core.Receipt) bool { all = append(all, r); return true })
	return all
}

// of counts the probes of an offer, with short and with long prompts.
func (p *probed) of(offer core.OfferID) (short, long int) {
	for _, r := range p.receipts() {
		switch {
		case r.Offer != offer:
		case r.PromptBytes < 4000:
			short++
		default:
			long++
		}
	}
	return short, long
}

// perDay is what was spent on each day.
func (p *probed) perDay() map[string]core.Money {
	days := map[string]core.Money{}
	for _, r := range p.receipts() {
		days[r.SettledAt.Format(time.DateOnly)] += r.Charge.V
	}
	return days
}

func bubble(t *testing.T, name string, run func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, run) })
}

func TestProbesCompleteTheMeasures(t *testing.T) {
	formats := map[string]core.Format{"chat": core.FormatOpenAI, "responses": core.FormatResponses, "messages": core.FormatAnthropic, "google": core.FormatGoogle}
	synctest.Test(t, func(t *testing.T) {
		var targets []target
		for name, format := range formats {
			targets = append(targets, target{name: name, format: format, config: exactly(200*time.Millisecond, 4000, 50), in: "1"})
		}
		p := newProbed(t, core.NewMemory(), "20", targets...)
		p.run(10 * time.Minute)
		p.board.Rows(nil) // brings today's values up to date
		for name := range formats {
			m := p.board.Measures(core.ProviderID(name), "m")
			for _, x := range []struct {
				m    core.Measure
				want float64
			}{{m.BaseLatency, 200}, {m.Prefill, 4000}, {m.Output, 50}} {
				// A short prompt is worked on too, and a long one waits for the base latency.
				if x.m.Basis != core.BasisToday || x.m.Jobs < 1 || !within(x.m.Value.V, x.want, 0.06) {
					t.Errorf("%s after ten minutes: %+v, want about %g", name, x.m, x.want)
				}
			}
		}
		p.run(48 * time.Hour)
		for name := range formats {
			if c := p.board.Counts(core.ProviderID(name), "m"); c.BaseLatency < 10 || c.Prefill < 10 || c.Output < 10 {
				t.Errorf("%s after two days: %+v", name, c)
			}
			if short, long := p.of(core.OfferID(name + "/m")); short != 10 || long != 10 {
				t.Errorf("%s had %d short probes and %d long ones, want ten each and no more", name, short, long)
			}
		}
		last, longs := map[string]time.Time{}, 0
		var before time.Time
		for _, r := range p.receipts() {
			if r.Kind != core.KindProbe || r.Outcome != core.Settled || r.Key != "" {
				t.Fatalf("%+v", r)
			}
			if r.At.Before(before) {
				t.Errorf("the probe at %s began before the last had ended at %s", r.At, before)
			}
			before = r.SettledAt
			name := string(r.Offer)
			if r.PromptBytes >= 4000 {
				name += " long"
				fresh, most := r.Usage.Fresh().V, int64(24_000)
				if longs++; longs == 1 {
					most = 32_000 // what short prompts taught may be off
				}
				if fresh < 16_000 || fresh > most {
					t.Errorf("long prompt %d has %d fresh tokens", longs, fresh)
				}
			} else if r.Usage.Fresh().V >= 1000 {
				t.Errorf("a short prompt has %d fresh tokens", r.Usage.Fresh().V)
			}
			if at, ok := last[name]; ok && r.At.Sub(at) < time.Hour {
				t.Errorf("%s was probed twice within %v", name, r.At.Sub(at))
			}
			last[name] = r.At
		}
		if s := p.prober.Standing(); s.NextAt.OK || s.PerDay.V != 20*core.USD {
			t.Errorf("nothing is needed any more, and it says %+v", s)
		}
		// As the days leave the window the next ones are made.
		time.Sleep(8 * 24 * time.Hour)
		p.run(24 * time.Hour)
		if c := p.board.Counts("chat", "m"); c.BaseLatency != 10 || c.Prefill != 10 {
			t.Errorf("after a week more: %+v", c)
		}
		if n := len(p.receipts()); n != 160 {
			t.Errorf("%d probes in all, want 80 for each week", n)
		}
	})
}

func TestProbesKeepTheirLimit(t *testing.T) {
	quick := exactly(10*time.Millisecond, 1e6, 1000)
	bubble(t, "over days and restarts", func(t *testing.T) {
		// A long probe costs about 2 cents and is set aside with about 8.
		targets := []target{{name: "a", config: quick, in: "1"}, {name: "b", config: quick, in: "1.1"}, {name: "c", config: quick, in: "40"}}
		book := core.NewMemory()
		p := newProbed(t, book, "0.2", targets...)
		p.settings.Probes.Every = time.Minute
		p.apply()
		time.Sleep(20 * time.Hour)
		for range 6 {
			p.run(10 * time.Hour)
			spent := p.spent.Spent(time.Now())
			// What a restart finds is what there was.
			p = newProbed(t, book, "0.2", targets...)
			p.settings.Probes.Every = time.Minute
			p.apply()
			if again := p.spent.Spent(time.Now()); again != spent || again != p.perDay()[time.Now().UTC().Format(time.DateOnly)] {
				t.Errorf("after a restart %s are known to be spent, before it were %s, the receipts say %s", again, spent, p.perDay()[time.Now().UTC().Format(time.DateOnly)])
			}
		}
		busy := 0
		for day, sum := range p.perDay() {
			if sum > core.USD/5 {
				t.Errorf("%s: %s were spent, the limit is 0.2", day, sum)
			}
			if sum > core.USD/10 {
				busy++
			}
		}
		if busy < 2 {
			t.Errorf("the limit of a day was hardly used: %v", p.perDay())
		}
		for _, name := range []core.OfferID{"a/m", "b/m"} {
			if short, long := p.of(name); short < 10 || long < 2 {
				t.Errorf("%s had %d short probes and %d long ones", name, short, long)
			}
		}
		if short, long := p.of("c/m"); short == 0 || long != 0 {
			t.Errorf("the dear one had %d short probes and %d long ones: a long one could cost more than a day's limit", short, long)
		}
	})
	bubble(t, "off", func(t *testing.T) {
		p := newProbed(t, core.NewMemory(), "", target{name: "a", config: quick, in: "1"}, target{name: "free", config: quick, in: "0"})
		p.run(24 * time.Hour)
		if n := len(p.receipts()); n != 0 {
			t.Errorf("%d probes without a limit of what they may cost", n)
		}
		if s := p.prober.Standing(); s.PerDay.OK || s.NextAt.OK {
			t.Errorf("it says %+v", s)
		}
	})
	bubble(t, "nothing to spend", func(t *testing.T) {
		p := newProbed(t, core.NewMemory(), "0", target{name: "a", config: quick, in: "1"}, target{name: "free", config: quick, in: "0"})
		p.run(24 * time.Hour)
		if short, long := p.of("a/m"); short+long != 0 {
			t.Errorf("%d probes of an offer that costs", short+long)
		}
		if short, long := p.of("free/m"); short != 10 || long != 10 {
			t.Errorf("the free one had %d short probes and %d long ones", short, long)
		}
	})
	bubble(t, "a reload gives more", func(t *testing.T) {
		p := newProbed(t, core.NewMemory(), "0.000001", target{name: "a", config: quick, in: "1"})
		p.run(2 * time.Hour)
		if n := len(p.receipts()); n != 0 {
			t.Errorf("%d probes", n)
		}
		if s := p.prober.Standing(); s.NextAt.V != time.Now().UTC().Truncate(24*time.Hour).Add(24*time.Hour) || s.NextOffer != "a/m" {
			t.Errorf("it says %+v, want the next day", s)
		}
		p.settings.Probes.PerDay.V = core.USD
		p.apply()
		p.run(time.Minute)
		if n := len(p.receipts()); n == 0 {
			t.Error("no probe after the limit was raised")
		}
	})
}

func TestProbesLeaveAlone(t *testing.T) {
	quick := exactly(10*time.Millisecond, 1e6, 1000)
	bubble(t, "what fails", func(t *testing.T) {
		broken := quick
		broken.ErrorRate, broken.ErrorStatus = 1, 400
		p := newProbed(t, core.NewMemory(), "5", target{name: "a", config: broken, in: "1"})
		p.run(7 * 24 * time.Hour)
		// After 0, 2, 6, 14, 30 hours, then once a day.
		if short, long := p.of("a/m"); short < 9 || short > 11 || long != 0 {
			t.Errorf("%d short probes and %d long ones in a week", short, long)
		}
	})
	bubble(t, "what is paused", func(t *testing.T) {
		p := newProbed(t, core.NewMemory(), "5", target{name: "a", config: quick, in: "1"})
		e := p.catalogue.Offer("a/m")
		e.State.Pause()
		p.run(5 * time.Hour)
		if n := len(p.receipts()); n != 0 {
			t.Errorf("%d probes", n)
		}
		e.State.Resume()
		p.run(time.Minute)
		if n := len(p.receipts()); n == 0 {
			t.Error("none after it was resumed")
		}
	})
	bubble(t, "what is out", func(t *testing.T) {
		p := newProbed(t, core.NewMemory(), "5", target{name: "a", config: quick, in: "1"})
		p.catalogue.Offer("a/m").State.RetryAfter(time.Now(), 9*time.Minute, p.settings.Breaker)
		p.run(8 * time.Minute)
		if n := len(p.receipts()); n != 0 {
			t.Errorf("%d probes", n)
		}
	})
	bubble(t, "what nobody may use", func(t *testing.T) {
		p := newProbed(t, core.NewMemory(), "5", target{name: "a", config: quick, in: "1"})
		p.settings.Routing.BlockModels = []core.Model{"m"}
		p.apply()
		p.run(time.Hour)
		if n := len(p.receipts()); n != 0 {
			t.Errorf("%d probes", n)
		}
	})
	bubble(t, "what is at work and has few places", func(t *testing.T) {
		p := newProbed(t, core.NewMemory(), "5", target{name: "a", config: quick, in: "1", change: func(o *core.Offer) { o.Capacity = core.Some(int64(2)) }})
		release, _ := p.catalogue.Offer("a/m").Acquire()
		p.run(time.Hour)
		if n := len(p.receipts()); n != 0 {
			t.Errorf("%d probes", n)
		}
		release()
		p.run(time.Minute)
		if n := len(p.receipts()); n == 0 {
			t.Error("none when it was free")
		}
	})
	bubble(t, "a node that is full or lost", func(t *testing.T) {
		p := newProbed(t, core.NewMemory(), "5", target{name: "a", config: quick, in: "1"})
		state := p.catalogue.Offer("a/m").State
		state.SetLine(stands{Up: true, Full: true, Ahead: 1})
		p.run(time.Hour)
		state.SetLine(stands{})
		p.run(time.Hour)
		if n := len(p.receipts()); n != 0 {
			t.Errorf("%d probes", n)
		}
		state.SetLine(stands{Up: true})
		p.run(time.Minute)
		if n := len(p.receipts()); n == 0 {
			t.Error("none when it had a slot")
		}
	})
	bubble(t, "a long prompt where none fits", func(t *testing.T) {
		p := newProbed(t, core.NewMemory(), "5", target{name: "a", config: quick, in: "1", change: func(o *core.Offer) { o.Limits.Context = core.Some(int64(16_384)) }})
		p.run(24 * time.Hour)
		if short, long := p.of("a/m"); short != 10 || long != 0 {
			t.Errorf("%d short probes and %d long ones", short, long)
		}
	})
	bubble(t, "what has jobs of its own", func(t *testing.T) {
		p := newProbed(t, core.NewMemory(), "5", target{name: "a", config: quick, in: "1"})
		for range 10 {
			r, err := http.NewRequest("POST", "http://x/v1/chat/completions", strings.NewReader(body(10)))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.gw.Own(r, gateway.Forced{Offer: "a/m", Kind: core.KindJob}); err != nil {
				t.Fatal(err)
			}
		}
		p.run(24 * time.Hour)
		if short, long := p.of("a/m"); short != 10 || long != 10 {
			t.Errorf("%d short calls and %d long ones, want the ten jobs and ten long probes", short, long)
		}
		if spent := p.spent.Spent(p.receipts()[19].SettledAt); spent == 0 || spent >= 10*core.USD/25 {
			t.Errorf("%s are called spent by probes", spent)
		}
	})
	bubble(t, "everything while the server stops", func(t *testing.T) {
		p := newProbed(t, core.NewMemory(), "5", target{name: "a", config: quick, in: "1"})
		p.gw.Drain()
		p.run(time.Hour)
		if n := len(p.receipts()); n != 0 {
			t.Errorf("%d probes", n)
		}
	})
	bubble(t, "everything while no receipt can be stored", func(t *testing.T) {
		p := newProbed(t, core.NewMemory(), "5", target{name: "a", config: quick, in: "1"})
		p.book.Sick = core.Errorf(core.Unavailable, "full")
		p.run(time.Hour)
		if n := len(p.receipts()); n != 0 {
			t.Errorf("%d probes", n)
		}
	})
}

// stands is the line before a node's server, as a test says.
type stands core.Stand

func (s stands) Stand() core.Stand { return core.Stand(s) }

// TestStoppedProbe ends the server in the middle of a probe: it leaves a receipt,
// and Run ends at once.
func TestStoppedProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := exactly(time.Hour, 1e6, 1000)
		p := newProbed(t, core.NewMemory(), "5", target{name: "a", config: slow, in: "1"})
		p.run(20 * time.Second) // the probe begins at 15 s
		all := p.receipts()
		if len(all) != 1 || all[0].Outcome == core.Settled || all[0].Kind != core.KindProbe {
			t.Fatalf("%d receipts: %+v", len(all), all)
		}
	})
}

// TestProbesAreNeverAlike looks at what the upstream gets: no two prompts begin
// alike, so that no cache has them.
func TestProbesAreNeverAlike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbed(t, core.NewMemory(), "5", target{name: "a", config: exactly(10*time.Millisecond, 1e6, 1000), in: "1"})
		var bodies []string
		p.gw.Dialer = spy{p.gw.Dialer, &bodies}
		p.run(3 * time.Hour)
		if len(bodies) < 6 {
			t.Fatalf("%d probes", len(bodies))
		}
		slices.Sort(bodies)
		for i := range bodies[1:] {
			a, b := bodies[i], bodies[i+1]
			n := 0
			for n < min(len(a), len(b)) && a[n] == b[n] {
				n++
			}
			if n > 200 { // what is around the prompt, and the time in its first word
				t.Errorf("two prompts have %d bytes in common:\n%.300s\n%.300s", n, a, b)
			}
		}
	})
}

// spy keeps what is sent.
type spy struct {
	core.Dialer
	bodies *[]string
}

func (s spy) RoundTripper(p *core.Provider) (http.RoundTripper, error) {
	next, err := s.Dialer.RoundTripper(p)
	return spied{next, s.bodies}, err
}

type spied struct {
	http.RoundTripper
	bodies *[]string
}

func (s spied) RoundTrip(r *http.Request) (*http.Response, error) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	*s.bodies = append(*s.bodies, string(b))
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(strings.NewReader(string(b)))
	return s.RoundTripper.RoundTrip(r)
}
