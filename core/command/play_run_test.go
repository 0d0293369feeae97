package command_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// play is one run of one case.
type play struct {
	t         *testing.T
	c         *faultCase
	upstreams map[string]*mockUpstream
	gateway   *gateway
	workers   map[string]*worker
	answers   map[string][]*clientAnswer // by the call's id, one for each copy
	admin     map[string]map[string]any  // what was seen of admin actions, by id
	grown     int                        // goroutines that are there since the case began
	full      chan struct{}              // closed once the gateway has been asked about its full disk
}

func playCase(t *testing.T, bin, file string, variant int) {
	p := &play{t: t, upstreams: map[string]*mockUpstream{}, workers: map[string]*worker{}, answers: map[string][]*clientAnswer{}, admin: map[string]map[string]any{}, full: make(chan struct{})}
	secrets := p.prepare(file)
	config, err := configuration(p.c, p.upstreams)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.c.Given.Hooks) > 0 {
		config["routing"] = map[string]any{"strategy": hookName, "scripts": hookFolder(t, p.c.Given.Hooks[variant].Source)}
	}
	data := p.dataFolder()
	p.gateway = startGateway(t, bin, data, config, secrets)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("right: %s\nthe gateway's log ends:\n%s", p.c.Story.Right, p.gateway.log.tail())
		}
	})

	p.startWorkers(bin, secrets)
	p.actAsAdmin()
	before := p.goroutines()
	p.run(secrets["CLIENT_KEY"])
	p.report(p.checkAnswers())
	p.report(p.checkReceipts())
	p.grown = -before
	if faults := p.eventually(p.checkSystem); len(faults) > 0 {
		p.report(faults)
	} else {
		defer func() { p.report(p.checkUpstreams()) }() // nor did anything come later
	}
	p.stopWorkers()
	if err := p.gateway.stop(); err != nil {
		t.Error(err)
	}
	p.report(p.checkLog(secrets))
}

// hookName is the strategy that a case's script is.
const hookName = "hook"

// hookFolder is a folder of scripts with one.
func hookFolder(t *testing.T, source string) string {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, hookName+".js"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
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
			p.upstreams[o.upstream()] = startUpstream(p.t, c.models(o), c.Given.Upstream[o.upstream()])
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

// event is something that a case does at a time, in ms from its start. do tells
// started once it has begun, and returns when it has ended.
type event struct {
	atMS int
	do   func(started func())
}

// runEvents lets each event begin at its time and returns when all have ended.
// On a slow machine the times between beginnings are kept: where one begins
// late, so do those after it, because a case counts from what came before ("700
// ms, the pause of 400 ms after the second failure is over").
func runEvents(events []event) {
	slices.SortStableFunc(events, func(a, b event) int { return a.atMS - b.atMS })
	var wg sync.WaitGroup
	start := time.Now()
	for len(events) > 0 {
		at := time.Duration(events[0].atMS) * time.Millisecond
		<-time.After(time.Until(start.Add(at)))
		var begun sync.WaitGroup
		for len(events) > 0 && time.Duration(events[0].atMS)*time.Millisecond == at {
			do := events[0].do
			begun.Add(1)
			wg.Go(func() { do(begun.Done) })
			events = events[1:]
		}
		begun.Wait()
		start = start.Add(time.Since(start.Add(at)))
	}
	wg.Wait()
}

// run makes the calls and takes the steps and returns when all have ended.
func (p *play) run(clientKey string) {
	var events []event
	var mu sync.Mutex // guards p.answers
	for i := range p.c.Given.Client {
		call := &p.c.Given.Client[i]
		for range max(call.Copies, 1) {
			events = append(events, event{call.AtMS, func(started func()) {
				a := call.send(p.t, p.gateway.addr, clientKey, started)
				mu.Lock()
				defer mu.Unlock()
				p.answers[call.ID] = append(p.answers[call.ID], a)
			}})
		}
	}
	for _, s := range p.c.Given.Steps {
		events = append(events, event{s.AtMS, func(started func()) {
			err := p.step(s)
			started() // what follows counts from the step's effect
			if err != nil {
				p.t.Errorf("step %s: %v", s.Do, err)
			}
			if s.Do == "fill_data_dir" {
				p.report(p.eventually(p.degraded)) // the case says it in words alone
				close(p.full)
			}
		}})
	}
	runEvents(events)
}

func (p *play) step(s caseStep) error {
	filler := filepath.Join(p.gateway.data, "filler")
	switch s.Do {
	case "fill_data_dir":
		return fill(filler)
	case "free_data_dir":
		<-p.full
		return os.Remove(filler)
	case "kill_worker":
		return p.workers[s.Worker].kill(s.Signal)
	case "drop_heartbeats":
		return p.workers[s.Worker].freeze(time.Duration(s.ForMS) * time.Millisecond)
	}
	return errors.New("the runner has no such step")
}

// degraded: what /healthz must say while the disk is full.
func (p *play) degraded() []string {
	_, health, err := p.gateway.admin(http.MethodGet, "/healthz", nil)
	if err != nil {
		return []string{err.Error()}
	}
	return checkValue("healthz", map[string]any{"contains": "degraded"}, string(health))
}

// fill writes a file until its disk is full, to the last byte.
func fill(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	zeros := make([]byte, 8<<20)
	for len(zeros) > 0 {
		if _, err := f.Write(zeros); err != nil {
			zeros = zeros[:len(zeros)/2]
		}
	}
	return f.Close()
}
