package command_test

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/big"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var kills = flag.Int("kills", 20, "how often TestKill kills the gateway")

const (
	killWorkers = 16
	killModel   = "killed"
)

// killKeys are the callers, in the file of TestKill.
var killKeys = []string{"kill-key-a-0123456789", "kill-key-b-0123456789", "kill-key-c-0123456789"}

// killLoad is what was seen of the calls from outside the gateway.
type killLoad struct {
	mu       sync.Mutex // guards the maps
	sent     map[string]bool
	upstream map[string]bool   // jobs whose call reached the provider
	answered map[string]string // job by call, of the answers that named their call
	kept     map[string][]byte // acknowledged receipts by call, as they were shown
	faults   []string
}

// TestKill kills the gateway under load, again and again: no acknowledged
// receipt is lost or changed, every dispatched call has exactly one, and what is
// derived from receipts is derived of each of them once.
func TestKill(t *testing.T) {
	l := &killLoad{sent: map[string]bool{}, upstream: map[string]bool{}, answered: map[string]string{}, kept: map[string][]byte{}}
	providers := []any{}
	for i, id := range []string{"near", "far"} {
		server := modelServer(t, l.answer)
		p := asking(id, "openai", server.URL, killModel+strconv.Itoa(i))
		providers = append(providers, p)
	}
	var keys []any
	for i, key := range killKeys {
		keys = append(keys, map[string]any{"name": "caller" + strconv.Itoa(i), "key": key})
	}
	config := map[string]any{"listen": "127.0.0.1:0", "log": map[string]any{"level": "warn"}, "providers": providers, "keys": keys}
	bin, data := buildHeadway(t), t.TempDir()

	var starts []time.Duration
	for round := range *kills {
		if round%4 == 3 {
			dieEarly(t, bin, data)
		}
		begun := time.Now()
		g := startGateway(t, bin, data, config, nil)
		first, over := make(chan struct{}), make(chan struct{})
		var served sync.Once
		var workers sync.WaitGroup
		for w := range killWorkers {
			workers.Go(func() {
				l.work(t, g, round, w, func() { served.Do(func() { close(first) }) })
			})
		}
		select {
		case <-first:
			starts = append(starts, time.Since(begun))
		case <-time.After(callLimit):
			t.Fatalf("no call was served after start %d:\n%s", round, g.log.tail())
		}
		go func() { workers.Wait(); close(over) }()
		select {
		case <-time.After(50*time.Millisecond + rand.N(350*time.Millisecond)):
		case <-g.ended:
			t.Fatalf("the gateway ended on its own after start %d:\n%s", round, g.log.tail())
		}
		g.kill()
		<-over
		if len(l.faults) > 0 {
			t.Fatalf("round %d: %s", round, strings.Join(l.faults, "\n"))
		}
	}
	slices.Sort(starts)
	t.Logf("%d kills, %d calls dispatched, %d receipts acknowledged; from the start to the first served call: least %v, median %v, most %v",
		*kills, len(l.upstream), len(l.kept), starts[0], starts[len(starts)/2], starts[len(starts)-1])

	g := startGateway(t, bin, data, config, nil)
	l.check(t, g)
	if err := g.stop(); err != nil {
		t.Error(err)
	}
}

// dieEarly kills a gateway while it starts, so that its repair of what the one
// before left is itself cut off.
func dieEarly(t *testing.T, bin, data string) {
	cmd := exec.Command(bin, "serve", "--data", data, "--listen", "127.0.0.1:0")
	cmd.Dir = t.TempDir()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-time.After(rand.N(80 * time.Millisecond))
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// answer is the provider: fast, each call with tokens of its own. What kind of
// call it is, is in its prompt: JOB KIND.
func (l *killLoad) answer(w http.ResponseWriter, r *http.Request, body []byte, _ string, streamed bool) {
	_, prompt, _ := strings.Cut(string(body), `"content":"`)
	prompt, _, _ = strings.Cut(prompt, `"`)
	job, kind, _ := strings.Cut(prompt, " ")
	l.mu.Lock()
	l.upstream[job] = true
	l.mu.Unlock()
	input, output := len(job)*7, 1+int(body[len(job)%len(body)])
	if kind == "long" {
		input += 20_000
	}
	f := chatWire(input, output)
	if !streamed {
		w.Header().Set("Content-Type", "application/json")
		send(w, f.whole("ok", "{}"))
		return
	}
	begin(w, f.open, f.text("ok"))
	if kind == "slow" { // in pieces that count as separate arrivals
		for range 5 {
			select {
			case <-time.After(12 * time.Millisecond):
			case <-r.Context().Done():
			}
			send(w, f.text("ok"))
		}
	}
	send(w, f.end)
}

// work makes calls one after another until the gateway is gone.
func (l *killLoad) work(t *testing.T, g *gateway, round, worker int, served func()) {
	client := patient(t)
	kinds := [...]string{"slow", "short", "long", "whole"}
	for n := 0; g.alive(); n++ {
		job := fmt.Sprintf("job-%d-%d-%d", round, worker, n)
		kind := kinds[(n/2+worker)%len(kinds)]
		path, body := chatWire(0, 0).ask(killModel+strconv.Itoa(n%2), job+" "+kind, kind != "whole")
		l.mu.Lock()
		l.sent[job] = true
		l.mu.Unlock()
		resp, err := g.call(client, killKeys[n%len(killKeys)], path, body, "X-Headway-Job", job)
		if err != nil {
			continue // the gateway was killed
		}
		id := resp.Header.Get("X-Request-Id")
		l.mu.Lock()
		l.answered[id] = job
		if resp.StatusCode != http.StatusOK {
			l.faults = append(l.faults, fmt.Sprintf("a call was answered with status %d", resp.StatusCode))
		}
		l.mu.Unlock()
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if err == nil {
			served()
		}
		l.acknowledge(client, g, id)
	}
}

// acknowledge asks for a call's receipt until it is there or the gateway is gone.
func (l *killLoad) acknowledge(client *http.Client, g *gateway, id string) {
	for g.alive() {
		status, raw, err := g.adminBy(client, "/admin/v1/calls/"+id)
		switch {
		case err != nil:
		case status == http.StatusOK && bytes.Contains(raw, []byte(`"outcome":"`)):
			l.mu.Lock()
			l.kept[id] = raw
			l.mu.Unlock()
			return
		case status != http.StatusNotFound:
			l.mu.Lock()
			l.faults = append(l.faults, fmt.Sprintf("GET calls/%s: status %d: %s", id, status, raw))
			l.mu.Unlock()
			return
		}
	}
}

// adminBy reads an admin path over a client's kept connection.
func (g *gateway) adminBy(client *http.Client, path string) (int, []byte, error) {
	req, err := http.NewRequest(http.MethodGet, "http://"+g.addr+path, nil)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+g.token)
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, raw, err
}

// killReceipt is what TestKill needs of a receipt.
type killReceipt struct {
	ID, Job, Kind, Outcome, Key, Model, Provider string

	Charge *digits `json:"charge_usd"`
	From   string  `json:"usage_from"`
	Usage  struct {
		Uncached int `json:"uncached_input_tokens"`
		Written  int `json:"cache_write_tokens"`
		Output   int `json:"output_tokens"`
	}
	Timing struct {
		First    float64 `json:"dispatch_to_first_token_ms"`
		End      float64 `json:"first_token_to_end_ms"`
		Arrivals int
	}
}

// digits are a JSON number as it is written.
type digits string

func (d *digits) UnmarshalJSON(raw []byte) error { *d = digits(raw); return nil }

// allCalls reads every page of the calls.
func (g *gateway) allCalls(client *http.Client) ([]killReceipt, error) {
	var all []killReceipt
	for next := ""; ; {
		path := "/admin/v1/calls?limit=1000"
		if next != "" {
			path += "&next=" + next
		}
		status, raw, err := g.adminBy(client, path)
		if err != nil || status != http.StatusOK {
			return nil, fmt.Errorf("GET %s: status %d, error %v", path, status, err)
		}
		var page struct {
			Items []killReceipt
			Next  string
		}
		if err := decodeJSON(raw, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if next = page.Next; next == "" {
			return all, nil
		}
	}
}

func (l *killLoad) check(t *testing.T, g *gateway) {
	client := patient(t)
	for id, want := range l.kept {
		status, raw, err := g.adminBy(client, "/admin/v1/calls/"+id)
		if err != nil || status != http.StatusOK || !bytes.Equal(raw, want) {
			t.Errorf("acknowledged was %s\nnow it is %d %s (error %v)", want, status, raw, err)
		}
	}
	all, err := g.allCalls(client)
	if err != nil {
		t.Fatal(err)
	}
	ids, jobs, outcomes := map[string]string{}, map[string]int{}, map[string]int{}
	for _, r := range all {
		if ids[r.ID] != "" {
			t.Errorf("call %s is listed twice", r.ID)
		}
		ids[r.ID] = r.Job
		jobs[r.Job]++
		outcomes[r.Outcome]++
		if !l.sent[r.Job] {
			t.Errorf("receipt %s is of job %s, which nobody sent", r.ID, r.Job)
		}
	}
	for id, job := range l.answered {
		if ids[id] != job {
			t.Errorf("the client was told that job %s is call %s; that call's receipt says job %q", job, id, ids[id])
		}
	}
	for job := range l.upstream {
		if jobs[job] != 1 {
			t.Errorf("the call of job %s was dispatched and has %d receipts", job, jobs[job])
		}
	}
	g.checkSealed(t, client, ids)
	t.Logf("receipts by outcome: %v", outcomes)
	if outcomes["settled"] == 0 || outcomes["lost"] == 0 {
		t.Error("the load left no settled calls, or none that a kill cut off: nothing was tested")
	}
	l.checkSpend(t, g, all)
	l.checkMeasures(t, g, all)
}

// checkSpend: each key has spent what its receipts were charged, to the last digit.
func (l *killLoad) checkSpend(t *testing.T, g *gateway, all []killReceipt) {
	want := map[string]*big.Rat{}
	for _, r := range all {
		if want[r.Key] == nil {
			want[r.Key] = new(big.Rat)
		}
		if r.Charge == nil {
			if r.Outcome == "settled" {
				t.Errorf("the settled call %s has no charge", r.ID)
			}
			continue
		}
		charge, ok := new(big.Rat).SetString(string(*r.Charge))
		if !ok {
			t.Fatalf("call %s is charged %q", r.ID, *r.Charge)
		}
		want[r.Key].Add(want[r.Key], charge)
	}
	keys, err := g.items("/admin/v1/keys")
	if err != nil {
		t.Fatal(err)
	}
	seen, total := 0, new(big.Rat)
	for _, k := range keys {
		sum := want[fmt.Sprint(k["id"])]
		if sum == nil {
			continue
		}
		seen++
		total.Add(total, sum)
		spend, ok := new(big.Rat).SetString(fmt.Sprint(k["spend_usd"]))
		if !ok || spend.Cmp(sum) != 0 {
			t.Errorf("key %v has spent %v, its receipts say %s", k["id"], k["spend_usd"], sum.FloatString(12))
		}
	}
	if total.Sign() <= 0 {
		t.Error("nothing was charged: nothing was tested")
	}
	if seen != len(killKeys) || len(want) != len(killKeys) {
		t.Errorf("%d keys are listed and %d have receipts, want %d", seen, len(want), len(killKeys))
	}
}

// checkMeasures: the jobs of each measure are those of the receipts (SPEC §5).
func (l *killLoad) checkMeasures(t *testing.T, g *gateway, all []killReceipt) {
	want := map[string]int{}
	for _, r := range all {
		if r.Outcome != "settled" || r.Kind != "job" {
			continue
		}
		pair := r.Provider + "/" + r.Model + " "
		if fresh := r.Usage.Uncached + r.Usage.Written; r.Timing.First > 0 {
			switch {
			case fresh < 1000:
				want[pair+"base_latency_ms"]++
			case fresh >= 16000 && r.From == "provider":
				want[pair+"prefill_tps"]++
			}
		}
		if r.Timing.Arrivals >= 4 && r.Timing.End > 0 && r.From == "provider" {
			want[pair+"output_tps"]++
		}
	}
	if len(want) != 6 {
		t.Errorf("the receipts measure %v, expected three figures of two offers", slices.Sorted(maps.Keys(want)))
	}
	rows, err := g.items("/admin/v1/measures")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, m := range rows {
		n, err := strconv.Atoi(fmt.Sprint(m["jobs"]))
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			got[fmt.Sprintf("%v/%v %v", m["provider"], m["model"], m["measure"])] = n
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("the measures count %v jobs, the receipts %v", got, want)
	}
}

// TestKilledStream: a stream that was open when the process died is lost, once,
// however often the gateway dies again.
func TestKilledStream(t *testing.T) {
	f := chatWire(3, 5)
	s := modelServer(t, func(w http.ResponseWriter, r *http.Request, _ []byte, _ string, _ bool) {
		begin(w, f.open, f.text("half"))
		<-r.Context().Done()
	})
	config := map[string]any{"listen": "127.0.0.1:0", "providers": []any{asking("near", "openai", s.URL, killModel)},
		"keys": []any{map[string]any{"name": "caller", "key": killKeys[0]}}}
	bin, data, client := buildHeadway(t), t.TempDir(), patient(t)
	g := startGateway(t, bin, data, config, nil)
	path, body := f.ask(killModel, "tell me", true)
	resp, err := g.call(client, killKeys[0], path, body)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := readUntil(resp.Body, "half"); err != nil {
		t.Fatal(err)
	}
	g.kill()
	if rest, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("the stream looks complete to the client, it goes on with %q", rest)
	}

	id := resp.Header.Get("X-Request-Id")
	var before []byte
	for range 3 {
		g := startGateway(t, bin, data, config, nil)
		raw, err := g.receipt(id)
		if err != nil {
			t.Fatal(err)
		}
		var r map[string]any
		if err := decodeJSON(raw, &r); err != nil {
			t.Fatal(err)
		}
		if r["outcome"] != "lost" || r["offer"] != "near/"+killModel || r["key"] != "caller" || r["streamed"] != true {
			t.Errorf("the receipt is %s", raw)
		}
		// The provider had it: what was expected of it is charged.
		if usage, _ := r["usage"].(map[string]any); r["usage_from"] != "estimate" || r["charge_usd"] == nil || fmt.Sprint(usage["output_tokens"]) != "500" {
			t.Errorf("the receipt is charged %v for %v, from %v", r["charge_usd"], r["usage"], r["usage_from"])
		}
		for _, unknown := range []string{"status", "finish_reason"} {
			if v, ok := r[unknown]; ok {
				t.Errorf("the receipt says %s %v, which nobody can know", unknown, v)
			}
		}
		if before != nil && !bytes.Equal(before, raw) {
			t.Errorf("the receipt was %s\nand is now %s", before, raw)
		}
		before = raw
		calls, err := g.items("/admin/v1/calls")
		if err != nil || len(calls) != 1 {
			t.Errorf("%d calls are listed, want 1 (error %v)", len(calls), err)
		}
		code, out, errs := headway(bin, t.TempDir(), nil, "trace", id, "--data", data)
		if code != 0 || !strings.Contains(out, "lost") {
			t.Errorf("headway trace: exit code %d\n%s%s", code, out, errs)
		}
		g.kill()
	}
}
