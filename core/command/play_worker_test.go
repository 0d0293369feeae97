package command_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// worker is a running `headway node` of a case.
type worker struct {
	t     *testing.T
	cmd   *exec.Cmd
	log   *gatewayLog
	ended chan struct{} // closed once the process is gone
	gone  bool          // by the case's own doing
}

// startWorkers enrols and starts the nodes of a case, and waits until their offers
// are there.
func (p *play) startWorkers(bin string, secrets caseSecrets) {
	for i, o := range p.c.Given.Setup.Offers {
		if o.Worker == nil {
			continue
		}
		status, answer, err := p.gateway.admin(http.MethodPost, "/admin/v1/nodes", map[string]any{"name": o.Worker.Name})
		var invited struct{ Join string }
		if err == nil {
			err = json.Unmarshal(answer, &invited)
		}
		if err != nil || status != http.StatusCreated {
			p.t.Fatalf("node %s was not enrolled: status %d, %v: %s", o.Worker.Name, status, err, answer)
		}
		var offers []any
		for _, model := range p.c.models(o) {
			o.Model = model
			offers = append(offers, offer(o, i+1))
		}
		file := map[string]any{"join": "${JOIN}", "data": "node", "log": map[string]any{"level": "debug"}, "upstreams": []any{map[string]any{
			"url": "http://" + p.upstreams[o.upstream()].addr(), "format": wireFormats[o.Format], "slots": o.Worker.Slots,
			"api_key": "${UPSTREAM_KEY_" + o.Name + "}", "offers": offers}}}
		p.workers[o.Worker.Name] = startWorker(p.t, bin, nodeFile(p.t, file), append(os.Environ(), "JOIN="+invited.Join, "UPSTREAM_KEY_"+o.Name+"="+secrets["UPSTREAM_KEY_"+o.Name]))
	}
	for name := range p.workers {
		p.report(p.eventually(func() []string {
			offers, err := p.gateway.items("/admin/v1/offers?limit=1000")
			if err != nil || !slices.ContainsFunc(offers, func(o map[string]any) bool { return lookUp(o, "node") == name }) {
				return []string{fmt.Sprintf("node %s has no offer: %v\n%s", name, err, p.workers[name].log.tail())}
			}
			return nil
		}))
	}
}

// nodeFile writes a node's file into a folder of its own, as JSON, which YAML includes.
func nodeFile(t *testing.T, file map[string]any) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "node.yaml")
	text, err := json.Marshal(file)
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// startWorker runs a node with a file. The process ends with the test at the latest.
func startWorker(t *testing.T, bin, file string, env []string) *worker {
	t.Helper()
	w := &worker{t: t, log: &gatewayLog{ready: make(chan string, 1)}, ended: make(chan struct{})}
	w.cmd = exec.Command(bin, "node", "--config", file)
	w.cmd.Env, w.cmd.Stdout, w.cmd.Stderr = env, w.log, w.log
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { w.cmd.Wait(); close(w.ended) }()
	t.Cleanup(func() { w.cmd.Process.Kill(); <-w.ended })
	return w
}

// kill ends the process by a signal, and waits for its end.
func (w *worker) kill(name string) error {
	signal, known := map[string]syscall.Signal{"KILL": syscall.SIGKILL, "TERM": syscall.SIGTERM}[name]
	if w == nil || !known {
		return fmt.Errorf("no such worker, or no such signal: %s", name)
	}
	w.gone = true
	if err := w.cmd.Process.Signal(signal); err != nil {
		return err
	}
	select {
	case <-w.ended:
		return nil
	case <-time.After(callLimit):
		return errors.New("it does not end")
	}
}

// freeze lets no heartbeat out for a time: the process stands still, as on a machine
// that is busy with its model. (Its output stands too, which is harder than what the
// case asks for.)
func (w *worker) freeze(d time.Duration) error {
	if w == nil {
		return errors.New("no such worker")
	}
	if err := w.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	<-time.After(d)
	return w.cmd.Process.Signal(syscall.SIGCONT)
}

// stopWorkers ends those that are left as a service manager does.
func (p *play) stopWorkers() {
	for name, w := range p.workers {
		if w.gone {
			continue
		}
		select {
		case <-w.ended:
			p.t.Errorf("node %s ended on its own: %s\n%s", name, w.cmd.ProcessState, w.log.tail())
			continue
		default:
		}
		if err := w.kill("TERM"); err != nil {
			p.t.Errorf("node %s: %v", name, err)
		} else if code := w.cmd.ProcessState.ExitCode(); code != 0 {
			p.t.Errorf("node %s stopped with exit code %d:\n%s", name, code, w.log.tail())
		}
		if log := w.log.all(); strings.Contains(log, "panic:") {
			p.t.Errorf("node %s panicked:\n%s", name, w.log.tail())
		}
	}
}

// byWorker gives one field of each node of the case.
func (p *play) byWorker(field string) (any, error) {
	nodes, err := p.gateway.items("/admin/v1/nodes?limit=1000")
	seen := map[string]any{}
	for _, n := range nodes {
		seen[text(lookUp(n, "name"))] = lookUp(n, field)
	}
	return seen, err
}
