package command_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"headway/core"
	"headway/core/market"
	"headway/embedded/store"
)

var replays = flag.Int("replays", 2000, "how many decisions TestReplay ranks again")

// mostReplay is the processor time that one decision may take, the server's and
// the command's together: 100,000 of them then take 60 s on two processors.
const mostReplay = 2 * 60 * time.Second / 100_000

// replayed is one call of the past: decided by price-and-wait.
type replayed struct {
	receipt *core.Receipt
	query   market.Query
	then    *core.Candidate
}

// pastBoard is what was measured.
type pastBoard struct {
	measures map[core.ProviderID]*core.Measures
	ttft     map[core.OfferID]core.Opt[float64]
}

func (b pastBoard) Measures(p core.ProviderID, _ core.Model) *core.Measures { return b.measures[p] }
func (b pastBoard) TTFTAt(o core.OfferID, _ time.Time) core.Opt[float64]    { return b.ttft[o] }

// pastQuestions are calls for "m" with six offers, of whose providers one is gone
// since.
func pastQuestions(t *testing.T, r *rand.Rand) []market.Query {
	var out []market.Query
	for range 50 {
		b := pastBoard{map[core.ProviderID]*core.Measures{}, map[core.OfferID]core.Opt[float64]{}}
		var providers []*core.Provider
		var offers []*core.Offer
		for i, id := range []core.ProviderID{"p0", "p1", "p2", "p3", "p4", "gone"} {
			p := &core.Provider{ID: id, Format: core.FormatOpenAI}
			providers = append(providers, p)
			o := &core.Offer{ID: core.OfferID(id + "/m"), Provider: p, Model: "m"}
			o.Price.Rates = core.Rates{Input: core.Rate(r.IntN(2_000_000)), Output: core.Rate(r.IntN(8_000_000))}
			offers = append(offers, o)
			m := func(least, span float64) core.Measure {
				v := core.Micro(least + r.Float64()*span)
				return core.Measure{Value: core.Some(v), Own: core.Some(core.Micro(v * 1.1)), Jobs: r.Int64N(9)}
			}
			b.measures[id] = &core.Measures{BaseLatency: m(100, 900), Prefill: m(1000, 9000), Output: m(10, 150)}
			if i == 1 && r.IntN(5) == 0 {
				b.measures[id].Output = core.Measure{} // an auction without all predictions
			}
			b.ttft[o.ID] = core.Some(core.Micro(100 + 500*r.Float64()))
		}
		catalogue, err := market.NewCatalogue(providers, offers, nil)
		if err != nil {
			t.Fatal(err)
		}
		settings := core.DefaultSettings()
		q := market.Query{Job: &core.Job{Format: core.FormatOpenAI, Operation: core.OpGenerate, Model: "m", PromptBytes: r.IntN(40_000)},
			Settings: &settings, Catalogue: catalogue, Board: b, TimeValue: core.Some(core.Money(r.IntN(4)) * core.USD), Now: time.Unix(0, 0)}
		out = append(out, q)
	}
	return out
}

func decideBy(t *testing.T, q market.Query, strategy string) *market.Choice {
	q.Strategy, _ = market.ByName(strategy)
	choice, err := market.Decide(q)
	if err != nil {
		t.Fatal(err)
	}
	return choice
}

// pastCalls puts n calls of the last five days into a store, the oldest first, with
// others between them that are not to be ranked again.
func pastCalls(t *testing.T, dir string, n int) []replayed {
	r := rand.New(rand.NewPCG(7, 7))
	s, err := store.Open(dir, store.Options{Clock: time.Now, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running, durable sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx) })
	begin := time.Now().Add(-5 * 24 * time.Hour)
	every := 5 * 24 * time.Hour / time.Duration(n+1)
	keep := func(c *core.Receipt) {
		c.SettledAt = c.At.Add(time.Second)
		c.Job, c.Operation, c.Streamed = core.JobID(c.ID), core.OpGenerate, true
		open := func() error {
			return s.Open(core.Intent{ID: c.ID, Job: c.Job, Kind: c.Kind, At: c.At, Model: c.Model})
		}
		if err := open(); err != nil { // the writer is behind
			durable.Wait()
			if err := open(); err != nil {
				t.Fatal(err)
			}
		}
		durable.Add(1)
		s.Append(c, durable.Done)
	}
	questions := pastQuestions(t, r)
	type decided struct {
		choice   *market.Choice
		decision *core.Decision
	}
	var past []decided
	for _, q := range questions {
		c := decideBy(t, q, "price-and-wait")
		past = append(past, decided{c, c.Decision()})
	}
	var calls []replayed
	for i := range n {
		p := past[i%len(past)]
		at := begin.Add(time.Duration(i) * every).UTC()
		c := &core.Receipt{ID: core.NewCallID(at), Kind: core.KindJob, Outcome: core.Settled, At: at, Model: "m", Offer: p.choice.Picks[0].Offer.ID,
			Charge: core.Some(core.Money(r.IntN(1e9))), Annex: core.Annex{Decision: p.decision}}
		if i%7 > 0 {
			c.ActualWait = core.Some(core.Micro(r.Float64() * 5000))
		}
		keep(c)
		calls = append(calls, replayed{c, questions[i%len(questions)], p.choice.Picks[0].Candidate})
		if i%100 == 0 {
			for k, other := range []*core.Receipt{
				{Kind: core.KindProbe, Outcome: core.Settled, Annex: core.Annex{Decision: p.decision}},
				{Kind: core.KindJob, Outcome: core.Failed, Annex: core.Annex{Decision: p.decision}},
				{Kind: core.KindJob, Outcome: core.Lost},
				// These two are settled calls, and are skipped.
				{Kind: core.KindJob, Outcome: core.Settled, Annex: core.Annex{Decision: &core.Decision{Strategy: "cheapest", Offers: []core.Ranked{{Offer: "p0/m"}}}}},
				{Kind: core.KindJob, Outcome: core.Settled, Annex: core.Annex{Decision: &core.Decision{Strategy: "auto", Offers: p.decision.Offers}}},
			} {
				other.At = at.Add(time.Duration(k+1) * time.Millisecond)
				other.ID, other.Model = core.NewCallID(other.At), "m"
				keep(other)
			}
		}
	}
	durable.Wait()
	stop()
	running.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return calls
}

// replayOutput is what the command prints with --json.
type replayOutput struct {
	Strategy                          string
	Calls, Changed, Unserved, Skipped int64
	ScriptErrors                      struct {
		Calls int64
		First []struct {
			Error string
			Call  core.CallID
			Calls int64
		}
	} `json:"script_errors"`
	Charge map[string]core.Money
	Wait   map[string]float64
	Offers []struct {
		Offer     core.OfferID
		Then, Now int64
	}
	Most []struct {
		ID         core.CallID
		Difference float64 `json:"difference_usd"`
		Then, Now  core.OfferID
	} `json:"most_different"`
	Notes []string
}

// replayRun runs the command, and gives how much memory it took at most, in KiB.
func replayRun(t *testing.T, bin, dir string, args ...string) (out []byte, state *os.ProcessState, peak int) {
	t.Helper()
	cmd := exec.Command(bin, append([]string{"strategy", "replay"}, args...)...)
	cmd.Dir = dir
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			if err != nil || stderr.Len() > 0 { // no progress in a pipe
				t.Fatalf("strategy replay %v: %v\n%s", args, err, stderr.String())
			}
			return stdout.Bytes(), cmd.ProcessState, peak
		case <-tick.C:
			// Not Maxrss, which begins with what this process has.
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
			if _, after, ok := strings.Cut(string(status), "VmHWM:"); ok {
				_, _ = fmt.Sscan(after, &peak)
			}
		}
	}
}

func replayJSON(t *testing.T, bin, dir string, args ...string) (v replayOutput, out []byte, state *os.ProcessState, peak int) {
	t.Helper()
	out, state, peak = replayRun(t, bin, dir, append(args, "--json")...)
	if err := json.Unmarshal(out, &v); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return v, out, state, peak
}

// TestReplay ranks the calls of a real store again with the built binary. Its
// oracle is the live decision of the same auctions by the other strategy.
func TestReplay(t *testing.T) {
	bin, data := buildHeadway(t), t.TempDir()
	calls := pastCalls(t, data, *replays)
	providers := []any{}
	for i := range 5 {
		p := asking(fmt.Sprintf("p%d", i), "openai", "http://127.0.0.1:9", "m")
		p["region"] = []string{"eu", "us"}[i%2]
		p["offers"].([]any)[0].(map[string]any)["labels"] = map[string]any{"n": fmt.Sprint(i)}
		providers = append(providers, p)
	}
	g := startGateway(t, bin, data, map[string]any{"listen": "127.0.0.1:0", "log": map[string]any{"level": "warn"}, "providers": providers,
		"routing": map[string]any{"script_headers": []any{"x-team"}}}, nil)
	on := []string{"--data", data, "--last", "6d"}

	for _, strategy := range []string{"price-and-wait", "cheapest", "fastest", "balanced"} {
		got, _, _, _ := replayJSON(t, bin, data, append([]string{strategy}, on...)...)
		checkReplay(t, calls, strategy, got)
	}

	// The script's twin gives the same, over the network too; the same input gives
	// the same bytes.
	scripts := filepath.Join(moduleRoot, "scripts", "examples")
	want, _, _, _ := replayJSON(t, bin, data, append([]string{"fastest"}, on...)...)
	script := func(path string, args ...string) ([]byte, *os.ProcessState, int) {
		got, out, state, peak := replayJSON(t, bin, data, append([]string{path}, args...)...)
		if !strings.Contains(strings.Join(got.Notes, " "), "x-team") {
			t.Errorf("%s: nothing is said of the headers that are not kept: %q", path, got.Notes)
		}
		got.Strategy, got.Notes = want.Strategy, want.Notes
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s %v gives\n%v\nnot\n%v", path, args, got, want)
		}
		return out, state, peak
	}
	twin, err := filepath.Abs(filepath.Join(scripts, "my-fastest.js"))
	if err != nil {
		t.Fatal(err)
	}
	used := cpuOf(t, g)
	began := time.Now()
	first, state, peak := script(twin, on...)
	took, cpu := time.Since(began), cpuOf(t, g)-used+state.UserTime()+state.SystemTime()
	t.Logf("%d decisions of 6 offers by a script: %v, %v of processor time, %v each; the command had %d MiB at most", *replays, took.Round(time.Millisecond),
		cpu.Round(time.Millisecond), (cpu / time.Duration(*replays)).Round(time.Microsecond), peak>>10)
	if start := 2 * time.Second; cpu > start+mostReplay*time.Duration(*replays) {
		t.Errorf("%v of processor time for %d decisions", cpu, *replays)
	}
	if peak > 150<<10 {
		t.Errorf("the command took %d MiB", peak>>10)
	}
	t.Setenv("HEADWAY_ADMIN_TOKEN", g.token)
	if again, _, _ := script(twin, "--server", "http://"+g.addr, "--since", "6d"); !bytes.Equal(first, again) {
		t.Error("the same calls give other bytes")
	}

	replayScripts(t, bin, data, on, calls)
	if code, _, said := headway(bin, data, nil, "strategy", "replay", "nothing", "--data", data); code != 1 || !strings.Contains(said, "no such strategy") {
		t.Errorf("a strategy that is not there: exit %d, %q", code, said)
	}
	if code, _, said := headway(bin, data, nil, "strategy", "replay", "auto", "--data", data); code != 1 || !strings.Contains(said, "no strategy and no script") {
		t.Errorf("the Auto Router as a strategy: exit %d, %q", code, said)
	}
	if err := g.stop(); err != nil {
		t.Error(err)
	}
}

// cpuOf is the processor time that a running gateway has taken.
func cpuOf(t *testing.T, g *gateway) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", g.cmd.Process.Pid))
	if err != nil {
		t.Logf("the server's processor time is not counted: %v", err)
		return 0
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	var user, system int64
	fields := strings.Fields(after)
	_, _ = fmt.Sscan(fields[11], &user)
	_, _ = fmt.Sscan(fields[12], &system)
	return time.Duration(user+system) * 10 * time.Millisecond // ticks of 1/100 s
}

// checkReplay holds a report against live decisions by the same strategy.
func checkReplay(t *testing.T, calls []replayed, strategy string, got replayOutput) {
	t.Helper()
	type change struct {
		id         core.CallID
		difference float64
	}
	want := replayOutput{Strategy: strategy, Calls: int64(len(calls)), Charge: map[string]core.Money{}, Wait: map[string]float64{}}
	shares := map[core.OfferID][2]int64{}
	var changes []change
	sums := map[string]float64{}
	firsts := map[*core.Decision]*core.Candidate{}
	for _, c := range calls {
		now := firsts[c.receipt.Decision]
		if now == nil {
			now = decideBy(t, c.query, strategy).Picks[0].Candidate
			firsts[c.receipt.Decision] = now
		}
		a, b := shares[c.then.Offer.ID], shares[now.Offer.ID]
		a[0]++
		shares[c.then.Offer.ID] = a
		b = shares[now.Offer.ID]
		b[1]++
		shares[now.Offer.ID] = b
		want.Charge["predicted_then_usd"] += c.then.Charge
		want.Charge["predicted_now_usd"] += now.Charge
		want.Charge["charged_usd"] += c.receipt.Charge.V
		was, is, measured := c.then.Prediction.Wait(), now.Prediction.Wait(), c.receipt.ActualWait
		if was.OK && is.OK {
			want.Wait["predicted_calls"]++
			sums["predicted_then_ms"] += was.V
			sums["predicted_now_ms"] += is.V
		}
		if measured.OK && c.then.Offer.ID == now.Offer.ID {
			want.Wait["expected_from_measured"]++
			sums["expected_now_ms"] += measured.V
			sums["measured_then_ms"] += measured.V
		} else if measured.OK && is.OK {
			want.Wait["expected_from_predicted"]++
			sums["expected_now_ms"] += is.V
			sums["measured_then_ms"] += measured.V
		}
		if c.then.Offer.ID != now.Offer.ID {
			want.Changed++
			d := (now.Charge - c.then.Charge).Float()
			if was.OK && is.OK {
				d += (is.V - was.V) / 3.6e6 * c.query.TimeValue.V.Float()
			}
			changes = append(changes, change{c.receipt.ID, d})
		}
	}
	want.Wait["measured_calls"] = want.Wait["expected_from_measured"] + want.Wait["expected_from_predicted"]
	for name, sum := range sums {
		want.Wait[name] = sum / want.Wait[map[bool]string{true: "predicted_calls", false: "measured_calls"}[strings.HasPrefix(name, "predicted")]]
	}
	if got.Strategy != strategy || got.Calls != want.Calls || got.Changed != want.Changed || got.Unserved != 0 || got.ScriptErrors.Calls != 0 {
		t.Errorf("%s: %d calls, %d changed; want %d and %d", strategy, got.Calls, got.Changed, want.Calls, want.Changed)
	}
	if skipped := 2 * int64((len(calls)+99)/100); got.Skipped != skipped {
		t.Errorf("%s: %d skipped, want %d", strategy, got.Skipped, skipped)
	}
	if fmt.Sprint(got.Charge) != fmt.Sprint(want.Charge) {
		t.Errorf("%s: charge %v, want %v", strategy, got.Charge, want.Charge)
	}
	for name, w := range want.Wait {
		if math.Abs(got.Wait[name]-w) > 0.001 {
			t.Errorf("%s: wait %s is %v, want %v", strategy, name, got.Wait[name], w)
		}
	}
	for _, o := range got.Offers {
		if shares[o.Offer] != [2]int64{o.Then, o.Now} {
			t.Errorf("%s: %s is first for %d, %d; want %v", strategy, o.Offer, o.Then, o.Now, shares[o.Offer])
		}
		delete(shares, o.Offer)
	}
	if len(shares) > 0 {
		t.Errorf("%s: no share of %v", strategy, shares)
	}
	slices.SortFunc(changes, func(a, b change) int {
		return cmp.Or(cmp.Compare(math.Abs(b.difference), math.Abs(a.difference)), cmp.Compare(a.id, b.id))
	})
	if len(got.Most) != min(10, len(changes)) {
		t.Errorf("%s: %d of %d changes are shown", strategy, len(got.Most), len(changes))
	}
	for i, m := range got.Most {
		if m.ID != changes[i].id || math.Abs(m.Difference-changes[i].difference) > 1e-11 || m.Then == m.Now {
			t.Errorf("%s: difference %d is %+v, want %+v", strategy, i, m, changes[i])
		}
	}
}

// replayScripts tries scripts that look at what is known of the offers now, that
// leave calls without an offer, and that fail.
func replayScripts(t *testing.T, bin, data string, on []string, calls []replayed) {
	write := func(name, source string) string {
		path := filepath.Join(data, name+".js")
		if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	of := func(path string) replayOutput {
		got, _, _, _ := replayJSON(t, bin, data, append([]string{path}, on...)...)
		return got
	}
	n := int64(len(calls))

	v := of(write("fourth", `function score(job, offer) {
		if (offer.labels.n == "4" && offer.region == "eu" && offer.provider == "p4" && offer.model == "m") return 0;
		return offer.id == "gone/m" && offer.region === undefined && offer.provider === undefined ? 1 : 2;
	}`))
	for _, o := range v.Offers {
		if (o.Now == n) != (o.Offer == "p4/m") {
			t.Errorf("by label and region: %+v", v.Offers)
		}
	}
	v = of(write("gone", `function score(job, offer) { return offer.provider === undefined ? offer.charge_usd : null }`))
	if v.Unserved != 0 || v.Changed == 0 || len(v.Offers) == 0 {
		t.Errorf("the offer that is gone: %+v", v)
	}
	v = of(write("none", `function score() { return null }`))
	if v.Unserved != n || v.Changed != 0 || len(v.Offers) != 0 || v.Charge["charged_usd"] != 0 {
		t.Errorf("without an offer: %+v", v)
	}
	v = of(write("half", "function score(job, offer) {\n  if (Date.now() % 2) throw new Error('odd');\n  return offer.charge_usd;\n}"))
	odd := int64(0)
	var newest core.CallID
	for _, c := range calls {
		if c.receipt.At.UnixMilli()%2 == 1 {
			odd++
			newest = c.receipt.ID
		}
	}
	if e := v.ScriptErrors; e.Calls != odd || len(e.First) != 1 || e.First[0].Calls != odd || e.First[0].Call != newest || !strings.Contains(e.First[0].Error, "half.js:2: Error: odd") {
		t.Errorf("%d calls at odd times: %+v", odd, v.ScriptErrors)
	}
	never := write("never", "function score(job, offer) {\n  if (offer.id != 'one/sample' && offer.id != 'two/sample')\n    throw 'never';\n  return 1;\n}")
	if code, _, said := headway(bin, data, nil, "strategy", "replay", never, "--data", data); code != 1 || !strings.Contains(said, "never.js:3: never") {
		t.Errorf("a script that always fails: exit %d, %q", code, said)
	}
	// The newest only, and as people see it.
	out, _, _ := replayRun(t, bin, data, "cheapest", "--data", data, "--limit", "3")
	for _, want := range []string{"cheapest on 3 calls", "charge, predicted", "FIRST OFFER", "differ most"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}
