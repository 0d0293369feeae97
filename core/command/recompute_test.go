package command_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"headway/adapters"
	"headway/conf"
	"headway/core"
	"headway/core/command"
	"headway/core/control"
	"headway/core/estimate"
	gw "headway/core/gateway"
	"headway/core/ledger"
	"headway/core/measure"
	"headway/embedded/store"
)

// history is a server of a simulated clock whose receipts are handed to its writer
// as calls would.
type history struct {
	t    *testing.T
	data string
	file string // of providers and offers; "": one that nobody calls
	rnd  *rand.Rand
	st   *store.Store
	stop func()

	mu  sync.Mutex
	now time.Time
}

func (h *history) clock() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *history) pass(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

// start opens the parts of a server on the data folder, and serves its socket.
func (h *history) start() {
	t := h.t
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(h.data, "..", "headway.yaml")
	write(t, path, []byte("data: "+h.data+"\n"+cmp.Or(h.file, "providers:\n  - {id: fast, format: openai, base_url: http://127.0.0.1:1/v1, offers: [{model: small, input_usd_per_mtok: \"1\", output_usd_per_mtok: \"2\"}]}\n")))
	f, err := conf.Load(path, nil)
	must(err)
	log := slog.New(slog.DiscardHandler)
	h.st, err = store.Open(f.Data, store.Options{Clock: h.clock, Log: log})
	must(err)
	secrets, err := command.OpenSecrets(f, h.st)
	must(err)
	board, err := measure.NewBoard(h.clock, h.st)
	must(err)
	accounts, err := ledger.LoadAccounts(h.st)
	must(err)
	tally, err := ledger.LoadTally(h.st, h.st, h.clock)
	must(err)
	estimator, err := estimate.New(h.clock, h.st)
	must(err)
	sealer, err := command.OpenReceiptLog(f, h.st, h.st, &secrets.Pepper, h.clock, log)
	must(err)
	h.st.SetRecorder(core.Recorders{board, accounts, tally, sealer})
	keys, transports := ledger.NewKeys(&secrets.Pepper), gw.NewTransports()
	gateway := gw.New(gw.Parts{Clock: h.clock, Log: log, Adapters: adapters.All(), Keys: keys, Book: h.st, Board: board, Estimator: estimator,
		Accounts: accounts, Dialer: transports, Metrics: gw.NewMetrics()})
	desk, err := control.NewDesk(control.Parts{Clock: h.clock, Log: log, Gateway: gateway, Keys: keys, Pepper: &secrets.Pepper, Vault: h.st, Book: h.st,
		Board: board, Accounts: accounts, Tally: tally, Receipts: sealer, Parse: command.Parsers(path), Version: "test"})
	must(err)
	must(desk.Apply(command.Config(f)))
	l, err := control.Listen(f.Data)
	must(err)
	// What is behind the simulated clock would be too late at once.
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		desk.Local().ServeHTTP(struct{ http.ResponseWriter }{w}, r)
	})}
	ctx, cancel := context.WithCancel(context.Background())
	var parts sync.WaitGroup
	parts.Go(func() {
		if err := h.st.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	parts.Go(func() { _ = server.Serve(l) })
	h.stop = func() {
		_ = server.Close()
		cancel()
		parts.Wait()
		transports.Close()
		if err := h.st.Close(); err != nil {
			t.Error(err)
		}
		h.stop = func() {}
	}
}

// calls lets so many calls end, one after the other, some of them long ago.
func (h *history) calls(n int, apart time.Duration, late bool) {
	h.t.Helper()
	var kept sync.WaitGroup
	for i := range n {
		h.pass(time.Duration(h.rnd.Int64N(int64(2 * apart))))
		at := h.clock()
		if late && h.rnd.IntN(12) == 0 {
			at = at.Add(-time.Duration(h.rnd.IntN(30*60)) * time.Minute)
		}
		r := h.receipt(at)
		if err := h.st.Open(core.Intent{ID: r.ID, Job: r.Job, Kind: r.Kind, At: r.At, Model: r.Model}); err != nil {
			h.t.Fatal(err)
		}
		kept.Add(1)
		h.st.Append(r, kept.Done)
		if i%8 == 7 || i == n-1 {
			kept.Wait() // what is recorded is recorded at about that time
		}
	}
}

// receipt is one of many kinds.
func (h *history) receipt(at time.Time) *core.Receipt {
	pick := func(list ...string) string { return list[h.rnd.IntN(len(list))] }
	ms := func(most float64) core.Opt[float64] { return core.Some(core.Micro(h.rnd.Float64() * most)) }
	tokens := func(most int64) core.Opt[int64] { return core.Some(h.rnd.Int64N(most)) }
	r := &core.Receipt{At: at.Add(-time.Duration(h.rnd.IntN(90_000)) * time.Millisecond), SettledAt: at, Key: "k", Owner: "team",
		Kind: core.CallKind(pick("job", "job", "job", "probe", "test")), Outcome: core.Outcome(pick("settled", "settled", "settled", "settled", "failed", "client_gone")),
		Provider: core.ProviderID(pick("fast", "slow", "attic", "no-one")), Model: core.Model(pick("small", "large:70b", "org/mödel v2")),
		UsageFrom: core.UsageFrom(pick("provider", "provider", "estimate", "mixed")),
		Usage:     core.Usage{UncachedInput: tokens(3000), CacheRead: tokens(500), Output: tokens(900)}, Charge: core.Some(core.Money(h.rnd.Int64N(1e9)))}
	r.ID = core.NewCallID(r.At)
	r.Job = core.JobID(r.ID)
	r.Offer = core.OfferID(string(r.Provider) + "/" + string(r.Model))
	if r.Provider == "no-one" { // nobody was asked
		r.Provider, r.Offer, r.Outcome = "", "", core.Failed
	}
	r.Status, r.Operation, r.TraceID = 200, core.Operation(pick("generate", "generate", "completions", "embeddings")), "0af7651916cd43dd8448eb211c80319c"
	if r.Streamed = h.rnd.IntN(3) > 0; r.Streamed {
		r.Timing.DispatchToFirstToken, r.Timing.FirstTokenToEnd, r.Timing.Arrivals = ms(3000), ms(9000), tokens(30)
	}
	switch h.rnd.IntN(8) {
	case 0, 1:
		r.Usage.UncachedInput, r.Usage.CacheWrite = tokens(60_000), tokens(60_000)
	case 2:
		r.Timing.FreshInputTokens, r.Timing.StreamedOutputTokens = tokens(2000), tokens(50)
	case 3:
		r.Timing.Arrivals = core.Opt[int64]{} // of an earlier version
	case 4:
		r.Usage.Output = core.Some(int64(1) << 53) // it cannot be sealed
	}
	if r.Provider == "attic" {
		r.Node = "attic"
		if h.rnd.IntN(3) > 0 {
			r.NodeTiming = &core.NodeTiming{SlotWait: core.Some(float64(h.rnd.IntN(2)) * 12.5)}
		}
	}
	r.PredictedWait, r.ActualWait = ms(5000), ms(5000)
	r.Decision = &core.Decision{Strategy: "cheapest", Offers: []core.Ranked{{Offer: "other/x", Fresh: tokens(9)}, {Offer: r.Offer, Fresh: tokens(3000), Cached: tokens(500), Output: tokens(500)}}}
	if h.rnd.IntN(100) == 0 {
		for range 20_000 { // more than is kept whole
			r.Decision.Offers = append(r.Decision.Offers, core.Ranked{Offer: "some/other", Refused: core.RefusedOwn})
		}
	}
	return r
}

// sealed waits until all that is stored is signed.
func (h *history) sealed() {
	h.t.Helper()
	client := h.client()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(callLimit); ; <-tick.C {
		st, err := client.Status(h.t.Context())
		if err == nil && st.ReceiptLog != nil && st.ReceiptLog.SignedSize == core.Some(st.ReceiptLog.Size) && st.ReceiptLog.Size > 0 {
			return
		}
		if time.Now().After(end) {
			h.t.Fatalf("the log is never signed: %+v %v", st.ReceiptLog, err)
		}
	}
}

func (h *history) client() *control.Client {
	h.t.Helper()
	client, err := control.Dial(h.data)
	if err != nil {
		h.t.Fatal(err)
	}
	return client
}

// run runs a command in this process, which ends well or fails as wanted.
func run(t *testing.T, good bool, args ...string) (out, errs string) {
	t.Helper()
	app := command.NewApp(command.Program{Version: "test", Clock: time.Now})
	var o, e bytes.Buffer
	app.Writer, app.ErrWriter, app.Reader = &o, &e, strings.NewReader("")
	err := app.Run(append([]string{"headway"}, args...))
	if (err == nil) != good {
		t.Fatalf("headway %s: %v\n%s%s", strings.Join(args, " "), err, o.String(), e.String())
	}
	if err != nil {
		e.WriteString(err.Error())
	}
	return o.String(), e.String()
}

// days is how each day of the table of recompute was compared.
func days(out string) map[string]string {
	list := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^(\d{4}-\d\d-\d\d) +\d+ +\d+ +\d+ +\d+ +\d+  (.*)$`).FindAllStringSubmatch(out, -1) {
		list[m[1]] = m[2]
	}
	return list
}

// TestRecompute makes eleven days of history over the end of a month, with receipts
// that come too late, a restart, and more. What is exported gives the stored sketches
// and medians to the byte, by recompute and by a program that is not of Headway, and
// what is changed is named.
func TestRecompute(t *testing.T) {
	dir := t.TempDir()
	h := &history{t: t, data: filepath.Join(dir, "data"), rnd: rand.New(rand.NewPCG(6, 6)), now: time.Date(2026, 10, 26, 9, 30, 0, 0, time.UTC)}
	h.start()
	defer func() { h.stop() }()
	h.calls(300, 20*time.Minute, true)
	h.stop()
	h.pass(3 * time.Hour)
	h.start()
	h.calls(400, 20*time.Minute, true)
	h.sealed()
	file := func(name string) string { return filepath.Join(dir, name) }
	export := func(name string, more ...string) string {
		t.Helper()
		run(t, true, append([]string{"receipts", "export", "--data", h.data, "--measurements", "--out", file(name)}, more...)...)
		return file(name)
	}
	save := func(name string) string {
		t.Helper()
		write(t, file(name), h.saved())
		return file(name)
	}
	all, stored := export("all.jsonl"), save("stored.jsonl")
	text := read(t, all)
	if n := bytes.Count(text, []byte(`"counted_on":`)); n < 10 {
		t.Fatalf("%d receipts were late: too few", n)
	}

	// All of it, from the server and from what was saved.
	out, errs := run(t, true, "receipts", "recompute", "--data", h.data, all)
	list := days(out)
	if len(list) < 9 {
		t.Fatalf("%d days:\n%s", len(list), out)
	}
	for day, how := range list {
		if how != "whole" {
			t.Errorf("%s: %s", day, how)
		}
	}
	if !strings.Contains(out, " same\n") || !strings.Contains(out, "which are not signed") || !strings.Contains(errs, "could not be sealed since the server's start") {
		t.Errorf("%s\n%s", out, errs)
	}
	if offline, _ := run(t, true, "receipts", "recompute", "--stored", stored, all); offline != out {
		t.Errorf("offline it says\n%s\nand with the server\n%s", offline, out)
	}
	samePython(t, all, stored, "")

	// Parts of it.
	some := func(name, path, stored string, want map[string]string) {
		t.Helper()
		out, errs := run(t, true, "receipts", "recompute", "--stored", stored, path)
		got := days(out)
		for day, how := range want {
			if got[day] != how {
				t.Errorf("%s: %s is compared %q, want %q\n%s%s", name, day, got[day], how, out, errs)
			}
		}
	}
	november := export("november.jsonl", "--month", "2026-11")
	some("a month", november, stored, map[string]string{"2026-10-30": "as a part: the export has nothing of it", "2026-11-01": "whole", "2026-11-03": "whole"})
	some("from the middle of a day", export("part.jsonl", "--from", "2026-11-02T12:00:00Z"), stored,
		map[string]string{"2026-11-01": "as a part: the export has nothing of it", "2026-11-02": "as a part: the export begins within it", "2026-11-03": "whole"})
	today := h.clock().Format(time.DateOnly)
	h.calls(40, time.Minute, false)
	h.sealed()
	newer := save("newer.jsonl")
	some("an older export", all, newer, map[string]string{today: "as a part: the export ends before it was over", "2026-11-01": "whole"})
	some("older stored numbers", export("more.jsonl"), stored, map[string]string{today: "whole", "2026-11-01": "whole"})
	some("all that is new", file("more.jsonl"), newer, map[string]string{today: "whole"})

	// Measurements that are gone.
	line := regexp.MustCompile(`(?m)^\{"id":"[^"]+","measurements":\{"settled_at":"2026-11-02.*\n`).FindAll(text, -1)
	less := text
	for _, l := range line {
		less = bytes.Replace(less, l, nil, 1)
	}
	write(t, file("less.jsonl"), less)
	some("less measurements", file("less.jsonl"), stored, map[string]string{"2026-10-30": "whole", "2026-11-05": "whole"})
	if out, _ := run(t, true, "receipts", "recompute", "--stored", stored, file("less.jsonl")); !regexp.MustCompile(`(?m)^2026-11-02 .* as a part: \d+ receipts? of then, or of the day before, no longer ha`).MatchString(out) {
		t.Errorf("that measurements are gone is not told:\n%s", out)
	}

	// What was changed is named.
	wrong := func(name, path, stored string, want ...string) {
		t.Helper()
		out, errs := run(t, false, "receipts", "recompute", "--stored", stored, path)
		for _, w := range want {
			if !regexp.MustCompile(`(?m)` + w).MatchString(out + errs) {
				t.Errorf("%s: it does not say %q:\n%s%s", name, w, out, errs)
			}
		}
	}
	faster := regexp.MustCompile(`"settled_at":"2026-11-01[^\n]*"dispatch_to_first_token_ms":`)
	at := faster.FindIndex(text)
	for at != nil && !counted(text[:at[1]]) {
		next := faster.FindIndex(text[at[1]:])
		at[0], at[1] = at[1]+next[0], at[1]+next[1]
	}
	write(t, file("faster.jsonl"), bytes.Join([][]byte{text[:at[1]], text[at[1]:]}, []byte("1")))
	wrong("a measurement", file("faster.jsonl"), stored, `^2026-11-01 +\S+ +\S+ +[12] `, `^2026-11-01  (base_latency_ms|prefill_tps) `, `\d of the stored sketches and \d+ of the stored medians are not what the receipts give`)
	edited := bytes.Replace(text, []byte(`"kind":"job"`), []byte(`"kind":"jib"`), 1)
	write(t, file("edited.jsonl"), edited)
	wrong("a leaf", file("edited.jsonl"), stored, `edited.jsonl: line \d+: leaf \d+ of log .* was edited`)
	good := read(t, stored)
	sketch := regexp.MustCompile(`\{"sketch":\{"day":"2026-11-03","measure":"output_tps"[^\n]*\n`).Find(good)
	write(t, file("bad.jsonl"), bytes.Replace(bytes.Replace(good, sketch, nil, 1), []byte(`{"end":{"sketches":`), fmt.Appendf(nil, `{"end":{"sketches":%d,"x":`, bytes.Count(good, []byte(`{"sketch":`))-1), 1))
	wrong("a line of what is stored", all, file("bad.jsonl"), `bad.jsonl: line \d+: this is not a line of stored day sketches`)
	count := bytes.Count(good, []byte(`{"sketch":`))
	write(t, file("bad.jsonl"), bytes.Replace(bytes.Replace(good, sketch, nil, 1), fmt.Appendf(nil, `{"end":{"sketches":%d`, count), fmt.Appendf(nil, `{"end":{"sketches":%d`, count-1), 1))
	wrong("a sketch that is not stored", all, file("bad.jsonl"), `^2026-11-03 +output_tps .* 0 +\d+$`)
	median := regexp.MustCompile(`(?m)^(\{"median":\{.*"value":)(\d)`)
	write(t, file("bad.jsonl"), median.ReplaceAll(good, []byte("${1}9${2}")))
	wrong("a median", all, file("bad.jsonl"), `0 of the stored sketches and \d+ of the stored medians are not what`)
	write(t, file("bad.jsonl"), good[:len(good)-40])
	wrong("a stored answer that is cut", all, file("bad.jsonl"), `this is not a line of stored`)
	write(t, file("bad.jsonl"), good[:bytes.LastIndex(good, []byte(`{"end"`))])
	wrong("a stored answer without its end", all, file("bad.jsonl"), `cut short`)
	write(t, file("bad.jsonl"), bytes.ReplaceAll(good, []byte("headway.local/"), []byte("another.local/")))
	wrong("another server", all, file("bad.jsonl"), `it has receipts of headway.local/\S+, and the stored numbers are those of another.local/`)
	run(t, true, "receipts", "export", "--data", h.data, "--out", file("bare.jsonl"))
	wrong("no measurements", file("bare.jsonl"), stored, `none of its \d+ receipts has measurements`)
	if _, errs := run(t, false, "receipts", "recompute", "--data", dir, all); !strings.Contains(errs, "no headway serves the data folder") {
		t.Error(errs)
	}
}

// TestRecomputeDemo does it with a week of a demo's calls, which went through a gateway:
// streamed and not, in every format, failed and probed, and with those that come in
// meanwhile.
func TestRecomputeDemo(t *testing.T) {
	bin, dir := buildHeadway(t), t.TempDir()
	data := filepath.Join(dir, "data")
	log := &gatewayLog{ready: make(chan string, 1)}
	demo := exec.Command(bin, "serve", "--demo", "--data", data, "--listen", "127.0.0.1:0")
	demo.Stdout, demo.Stderr = log, log
	if err := demo.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = demo.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = demo.Process.Kill()
		<-ended
	})
	select {
	case <-log.ready:
	case <-ended:
		t.Fatalf("the demo ended:\n%s", log.all())
	case <-time.After(firstBuild):
		t.Fatalf("the demo is not ready:\n%s", log.all())
	}
	all, stored := filepath.Join(dir, "all.jsonl"), filepath.Join(dir, "stored.jsonl")
	var out string
	// What is signed last may be missing in an export that is made at once.
	run(t, true, "receipts", "export", "--data", data, "--measurements", "--out", all)
	write(t, stored, savedDays(t, data))
	out, _ = run(t, true, "receipts", "recompute", "--stored", stored, all)
	whole := 0
	for day, how := range days(out) {
		if how == "whole" {
			whole++
		} else if day < time.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly) {
			t.Errorf("%s is compared %s", day, how)
		}
	}
	if whole < 6 || !strings.Contains(out, " same\n") {
		t.Errorf("%d whole days:\n%s", whole, out)
	}
	samePython(t, all, stored, time.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly))
}

// counted tells whether the leaf of the last measurements of a text is of a receipt
// that counts, with a prompt that shows a speed.
func counted(text []byte) bool {
	lines := bytes.Split(text, []byte("\n"))
	leaf := lines[len(lines)-2]
	var l struct {
		Leaf struct {
			Kind, Outcome, Provider, Node string
			UsageFrom                     string `json:"usage_from"`
			Usage                         struct {
				In int64 `json:"uncached_input_tokens"`
			}
		}
	}
	_ = json.Unmarshal(leaf, &l)
	return (l.Leaf.Kind == "job" || l.Leaf.Kind == "probe") && l.Leaf.Outcome == "settled" && l.Leaf.Provider != "" && l.Leaf.Node == "" &&
		l.Leaf.Usage.In > 0 && l.Leaf.Usage.In < 1000 && bytes.Contains(lines[len(lines)-1], []byte(`"operation":"generate"`)) &&
		!bytes.Contains(lines[len(lines)-1], []byte("counted_on")) && !bytes.Contains(leaf, []byte("cache_write"))
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// saved is the answer of measures/days.
func (h *history) saved() []byte {
	h.t.Helper()
	return savedDays(h.t, h.data)
}

// savedDays gets the stored sketches as their administrator would, by the socket.
func savedDays(t *testing.T, data string) []byte {
	t.Helper()
	resp, err := overSocket(data).Get("http://headway/admin/v1/measures/days")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s %v", resp.StatusCode, text, err)
	}
	return text
}

// overSocket is a client of the server of a data folder.
func overSocket(data string) *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(data, "headway.sock"))
	}}}
}

// samePython holds stored sketches against those of testdata/sketches/recompute.py, of
// days before one ("" for all).
func samePython(t *testing.T, export, stored, end string) {
	t.Helper()
	program, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Error(err)
		}
		t.Logf("%v: the sketches are not made by another program", err)
		return
	}
	cmd := exec.Command(program, filepath.Join(moduleRoot, "testdata", "sketches", "recompute.py"), export)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v %s", err, errs.String())
	}
	type named struct{ Day, Measure, Provider, Model, Offer string }
	type sketch struct {
		named
		Jobs   int64
		Sketch string
	}
	made, is := map[named]sketch{}, map[named]sketch{}
	for line := range bytes.Lines(text) {
		var s sketch
		if err := json.Unmarshal(line, &s); err != nil {
			t.Fatal(err)
		}
		if end == "" || s.Day < end {
			made[s.named] = s
		}
	}
	for line := range bytes.Lines(read(t, stored)) {
		var l struct{ Sketch *sketch }
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatal(err)
		}
		if s := l.Sketch; s != nil && (end == "" || s.Day < end) {
			is[s.named] = *s
		}
	}
	if len(is) < 100 || len(made) != len(is) {
		t.Errorf("python makes %d sketches, %d are stored", len(made), len(is))
	}
	for name, s := range is {
		if made[name] != s {
			t.Errorf("%+v: python makes %+v, stored is %+v", name, made[name], s)
		}
	}
	t.Logf("python makes the same %d sketches", len(is))
}
