// These tests play faults that users of other gateways have reported
// (testdata/cases, one JSON file each; its README.md defines every field)
// against the built binary: mock upstreams and clients on raw TCP write and
// read exactly what a case says, and what both sides, the receipts and the
// admin API show afterwards is compared with what the case expects.
//
// play_case_test.go reads a case, play_upstream_test.go is the mock upstream,
// play_client_test.go and play_answer_test.go are the client,
// play_gateway_test.go runs the binary, play_expect_test.go gathers what was
// seen, play_check_test.go compares it. play_self_test.go tests all of these
// without the binary.
package command_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// notPlayed are the cases that wait for a part of the product that is not there
// yet, or that cannot be seen from outside. notPlayedBecause says the same from
// the case itself, and a test keeps the two together.
var notPlayed = map[string]string{
	"011-usage-gemini-thoughts":            needsTranslation,
	"015-usage-openai-to-anthropic-cached": needsTranslation,
	"025-finish-chunk-twice":               needsTranslation,
	"031-tools-interleaved-to-anthropic":   needsTranslation,
	"032-tool-choice-none":                 needsTranslation,
	"033-tool-no-arguments-stream":         needsTranslation,
	"034-empty-assistant-text":             needsTranslation,
	"035-length-not-hidden-by-tools":       needsTranslation,
	"036-image-data-url":                   needsTranslation,
	"038-schema-to-gemini":                 needsTranslation,
	"040-assistant-prefill-kept":           needsTranslation,
	"047-budget-race":                      needsKeyLimits,
	"048-parallel-leak-on-timeouts":        needsKeyLimits,
	"050-key-in-error-and-log":             needsTranslation,
	"055-worker-request-over-payload":      needsNodes,
	"056-worker-cancel-frees-slot":         needsNodes,
	"057-worker-dead-still-chosen":         needsNodes,
	"058-worker-busy-taken-for-dead":       needsNodes,
	"059-store-space-never-freed":          hasStoreTest,
	"061-hook-endless-loop":                needsScripts,
	"062-hook-concurrent-runtime":          needsScripts,
}

// alsoExpect are checks that follow from a case's text and are not in its JSON.
var alsoExpect = map[string]string{
	// The speed that the receipt shows is a job of the measure: without this,
	// the "no samples" of 003 could be read from the wrong place.
	"004": `{"state": {"measures": {"A": {"output_speed_samples": 1}}}}`,
	// "Nothing of a prompt or an answer in receipts", for the cut stream too.
	"054": `{"receipt": {"c3": {"raw": {"not_contains": ["MARK-IN-7f3a", "MARK-OUT-19c2"]}}}}`,
}

// atOnce bounds how many cases run at a time: most of a case is waiting, but a
// case on a machine without a free core measures the machine.
const atOnce = 4

func TestReportedFaults(t *testing.T) {
	files, err := caseFiles()
	if err != nil {
		t.Fatal(err)
	}
	bin := buildHeadway(t)
	free := make(chan struct{}, atOnce)
	for _, file := range files {
		name := caseName(file)
		if notPlayed[name] != "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			free <- struct{}{}
			defer func() { <-free }()
			playCase(t, bin, file)
		})
	}
}

// TestEveryCaseIsAccountedFor: a case is played, or the table says why not.
func TestEveryCaseIsAccountedFor(t *testing.T) {
	files, err := caseFiles()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 65 {
		t.Errorf("testdata/cases has %d cases, expected 65", len(files))
	}
	names := map[string]bool{}
	for i, file := range files {
		name := caseName(file)
		names[name] = true
		c, err := readCase(file, nil)
		if err != nil {
			t.Error(err)
			continue
		}
		if want := fmt.Sprintf("%03d", i+1); c.ID != want || name != c.ID+"-"+c.Slug {
			t.Errorf("%s: id %s and slug %s, expected number %s", name, c.ID, c.Slug, want)
		}
		if why := c.notPlayedBecause(); why != notPlayed[name] {
			t.Errorf("%s: not played because of %q, the table says %q", name, why, notPlayed[name])
		}
	}
	for name := range notPlayed {
		if !names[name] {
			t.Errorf("the table names %s, which is no case", name)
		}
	}
}

func caseName(file string) string { return strings.TrimSuffix(filepath.Base(file), ".json") }

// play is one run of one case.
type play struct {
	t         *testing.T
	c         *faultCase
	upstreams map[string]*mockUpstream
	gateway   *gateway
	answers   map[string][]*clientAnswer // by the call's id, one for each copy
	admin     map[string]map[string]any  // what was seen of admin actions, by id
}

func playCase(t *testing.T, bin, file string) {
	p := &play{t: t, upstreams: map[string]*mockUpstream{}, answers: map[string][]*clientAnswer{}, admin: map[string]map[string]any{}}
	secrets := p.prepare(file)
	config, err := configuration(p.c, p.upstreams)
	if err != nil {
		t.Fatal(err)
	}
	data := p.dataFolder()
	p.gateway = startGateway(t, bin, data, config, secrets)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("right: %s\nthe gateway's log ends:\n%s", p.c.Story.Right, p.gateway.log.tail())
		}
	})

	p.actAsAdmin()
	p.run(secrets["CLIENT_KEY"])
	p.report(p.checkAnswers())
	p.report(p.checkReceipts())
	if faults := p.eventually(p.checkSystem); len(faults) > 0 {
		p.report(faults)
	} else {
		defer func() { p.report(p.checkUpstreams()) }() // nor did anything come later
	}
	if err := p.gateway.stop(); err != nil {
		t.Error(err)
	}
	p.report(p.checkLog(secrets))
}

// prepare starts the mocks and reads the case with their addresses and with
// keys that occur nowhere else.
func (p *play) prepare(file string) caseSecrets {
	c, err := readCase(file, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	secrets := newSecrets(c)
	for _, o := range c.Given.Setup.Offers {
		if o.BaseURL == "" {
			p.upstreams[o.Name] = startUpstream(p.t, []string{o.Model}, c.Given.Upstream[o.Name])
		}
	}
	p.c, err = readCase(file, func(name, of string) string {
		switch name {
		case "CLIENT_KEY":
			return secrets["CLIENT_KEY"]
		case "ADMIN_KEY":
			return secrets["HEADWAY_ADMIN_TOKEN"]
		case "UPSTREAM_KEY":
			return secrets["UPSTREAM_KEY_"+of]
		case "UPSTREAM":
			return "http://" + p.upstreams[of].addr()
		case "UPSTREAM_HOST":
			return p.upstreams[of].addr()
		case "ADMIN_PATH":
			return adminPaths[of]
		}
		p.t.Errorf("{{%s:%s}}: no such placeholder is known", name, of)
		return ""
	})
	if err != nil {
		p.t.Fatal(err)
	}
	if more := alsoExpect[p.c.ID]; more != "" {
		if err := decodeJSON([]byte(more), &p.c.Expect); err != nil {
			p.t.Fatal(err)
		}
	}
	return secrets
}

// report fails the test with each fault.
func (p *play) report(faults []string) {
	p.t.Helper()
	for _, f := range faults {
		p.t.Error(f)
	}
}

// dataFolder is the gateway's folder: a small disk of its own where the case
// fills it.
func (p *play) dataFolder() string {
	dir := p.t.TempDir()
	if !slices.ContainsFunc(p.c.Given.Steps, func(s caseStep) bool { return s.Do == "fill_data_dir" }) {
		return dir
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=192m", "tmpfs", dir).CombinedOutput(); err != nil {
		why := fmt.Sprintf("a small disk cannot be mounted here: %v: %s", err, out)
		if os.Getenv("CI") == "true" {
			p.t.Fatal(why)
		}
		p.t.Skip(why)
	}
	p.t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			p.t.Errorf("umount: %v: %s", err, out)
		}
	})
	return dir
}

// adminPaths are the admin paths of the cases' actions.
var adminPaths = map[string]string{
	"create_key": "/admin/v1/keys", "create_offer": "/admin/v1/providers",
	"list_keys": "/admin/v1/keys", "list_offers": "/admin/v1/offers", "metrics": "/metrics",
}

func (p *play) actAsAdmin() {
	for _, a := range p.c.Given.Admin {
		method, body := http.MethodGet, any(nil)
		switch a.Do {
		case "create_key":
			method, body = http.MethodPost, a.Fields
		case "create_offer":
			method = http.MethodPost
			provider, err := provider(text(a.Fields["name"]), text(a.Fields["format"]), text(a.Fields["base_url"]))
			if err != nil {
				p.t.Fatal(err)
			}
			if allow, ok := a.Fields["allow_private"]; ok {
				provider["allow_private"] = allow
			}
			provider["offers"] = []any{offer(caseOffer{Model: text(a.Fields["model"])}, 1)}
			body = provider
		}
		status, answer, err := p.gateway.admin(method, adminPaths[a.Do], body)
		if err != nil {
			p.t.Fatalf("admin.%s: %v", a.ID, err)
		}
		if status/100 != 2 && status/100 != 4 {
			p.t.Errorf("admin.%s: status %d is neither done nor refused: %s", a.ID, status, answer)
		}
		p.admin[a.ID] = map[string]any{"accepted": status/100 == 2, "raw": string(answer)}
	}
}

// run makes the calls and takes the steps, each at its time, and returns when
// all have ended.
func (p *play) run(clientKey string) {
	start := time.Now()
	at := func(ms int) { <-time.After(time.Until(start.Add(time.Duration(ms) * time.Millisecond))) }
	var wg sync.WaitGroup
	var mu sync.Mutex // guards p.answers
	for i := range p.c.Given.Client {
		call := &p.c.Given.Client[i]
		for range max(call.Copies, 1) {
			wg.Go(func() {
				at(call.AtMS)
				a := call.send(p.t, p.gateway.addr, clientKey)
				mu.Lock()
				defer mu.Unlock()
				p.answers[call.ID] = append(p.answers[call.ID], a)
			})
		}
	}
	for _, s := range p.c.Given.Steps {
		wg.Go(func() {
			at(s.AtMS)
			if err := p.step(s); err != nil {
				p.t.Errorf("step %s: %v", s.Do, err)
			}
		})
	}
	wg.Wait()
}

func (p *play) step(s caseStep) error {
	filler := filepath.Join(p.gateway.data, "filler")
	switch s.Do {
	case "fill_data_dir":
		return fill(filler)
	case "free_data_dir":
		return os.Remove(filler)
	}
	return errors.New("the runner has no such step")
}

// fill writes a file until its disk is full, to the last byte.
func fill(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	return f.Close()
}

func (p *play) checkAnswers() []string {
	var faults []string
	for id, answers := range p.answers {
		for _, a := range answers {
			if a.err != nil {
				faults = append(faults, fmt.Sprintf("client.%s: the answer broke off or never came: %v", id, a.err))
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(p.c.Expect.Client)) {
		want := p.c.Expect.Client[id]
		seen := seenOfClient(want, p.answers[id])
		faults = append(faults, check("client."+id, want, seen)...)
		faults = append(faults, checkOrder("client."+id, arrivalOrder(want["arrivals"]), arrivalOrder(seen["arrivals"]))...)
	}
	for _, id := range slices.Sorted(maps.Keys(p.c.Expect.Admin)) {
		faults = append(faults, check("admin."+id, p.c.Expect.Admin[id], p.admin[id])...)
	}
	// No error tells a wrong key from an unknown one.
	if p.c.ID == "065" && !slices.Equal(p.answers["c1"][0].body, p.answers["c2"][0].body) {
		faults = append(faults, fmt.Sprintf("client: expected one answer to every wrong key, saw %s and %s", p.answers["c1"][0].body, p.answers["c2"][0].body))
	}
	return faults
}

func (p *play) checkReceipts() []string {
	var faults []string
	for _, id := range slices.Sorted(maps.Keys(p.c.Expect.Receipt)) {
		name := "receipt." + id
		var raw []byte
		missing := p.eventually(func() []string {
			var err error
			if raw, err = p.receipt(id); err != nil {
				return []string{name + ": " + err.Error()}
			}
			return nil
		})
		if len(missing) > 0 {
			faults = append(faults, missing...)
			continue
		}
		seen, err := seenOfReceipt(raw)
		if err != nil {
			faults = append(faults, name+": "+err.Error())
			continue
		}
		if wrong := check(name, p.c.Expect.Receipt[id], seen); len(wrong) > 0 {
			faults = append(faults, append(wrong, name+" is "+string(raw))...)
		}
	}
	return faults
}

// receipt reads the record of a call, an error where there is none as yet. The
// id is the answer's; where the client left before it came, the call is the one
// that is listed and that no answer names.
func (p *play) receipt(call string) ([]byte, error) {
	id := p.answers[call][0].header.Get("X-Request-Id")
	if id == "" {
		known := map[string]bool{}
		for _, answers := range p.answers {
			for _, a := range answers {
				known[a.header.Get("X-Request-Id")] = true
			}
		}
		calls, err := p.gateway.items("/admin/v1/calls?limit=1000")
		if err != nil {
			return nil, err
		}
		calls = slices.DeleteFunc(calls, func(c map[string]any) bool { return known[text(lookUp(c, "id"))] })
		if len(calls) != 1 {
			return nil, fmt.Errorf("%d calls are listed that no answer names", len(calls))
		}
		id = text(lookUp(calls[0], "id"))
	}
	status, raw, err := p.gateway.admin(http.MethodGet, "/admin/v1/calls/"+id, nil)
	if err != nil {
		return nil, err
	}
	var r struct{ Outcome string }
	if err := json.Unmarshal(raw, &r); err != nil || status != http.StatusOK || r.Outcome == "" {
		return nil, fmt.Errorf("the call %s has no receipt: status %d: %s", id, status, raw)
	}
	return raw, nil
}

// checkSystem compares the upstreams' side and the state after the case.
func (p *play) checkSystem() []string {
	faults := p.checkUpstreams()
	if len(p.c.Expect.State) > 0 {
		seen, err := seenOfState(p, p.c.Expect.State)
		if err != nil {
			return append(faults, err.Error())
		}
		faults = append(faults, check("state", p.c.Expect.State, seen)...)
	}
	return faults
}

func (p *play) checkUpstreams() []string {
	// A close counts from when the client left, else from the start of the call.
	var from time.Time
	for _, call := range p.c.Given.Client {
		a := p.answers[call.ID][0]
		if from.IsZero() {
			from = a.sent
		}
		if !a.left.IsZero() {
			from = a.left
			break
		}
	}
	var faults []string
	for _, name := range slices.Sorted(maps.Keys(p.c.Expect.Upstream)) {
		m := p.upstreams[name]
		if m == nil {
			faults = append(faults, "upstream."+name+": there is no such mock")
			continue
		}
		faults = append(faults, checkUpstream("upstream."+name, p.c.Expect.Upstream[name], m.seen(), from)...)
	}
	return faults
}

// eventually asks again until nothing is wrong, or says what still is.
func (p *play) eventually(ask func() []string) []string {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	end := time.Now().Add(10 * time.Second)
	for {
		faults := ask()
		if len(faults) == 0 || time.Now().After(end) || !p.gateway.alive() {
			return faults
		}
		<-tick.C
	}
}

// checkLog searches all that the gateway logged, after its end: beside what the
// case says, no credential may be there, nor a panic.
func (p *play) checkLog(secrets caseSecrets) []string {
	log := p.gateway.log.all()
	faults := checkValue("log", map[string]any{"not_contains": []any{"panic:", "[running]:"}}, log)
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		if strings.Contains(log, secrets[name]) {
			faults = append(faults, "log: "+name+" is in it")
		}
	}
	if len(p.c.Expect.Log) > 0 {
		faults = append(faults, checkValue("log", p.c.Expect.Log, log)...)
	}
	return faults
}
