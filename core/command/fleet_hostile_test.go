package command_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"headway/core"
	"headway/embedded/bus"
)

// rogue is a node that was enrolled and does not keep to the protocol. It writes its
// frames by FLEET.md alone.
type rogue struct {
	t    *testing.T
	name string
	key  bus.Credential
	core.Link
	jobs chan []byte // frames of the edge
}

func (r *fleetRig) rogue(t *testing.T, name string) *rogue {
	t.Helper()
	join, err := bus.ParseJoin(r.invite(t, name, ""))
	if err != nil {
		t.Fatal(err)
	}
	key, err := bus.NewCredential(join)
	if err != nil {
		t.Fatal(err)
	}
	g := &rogue{t: t, name: name, key: key}
	g.dial(t)
	return g
}

// dial begins a session, in the place of the one before.
func (g *rogue) dial(t *testing.T) {
	t.Helper()
	err := poll(func() (err error) {
		ctx, cancel := context.WithTimeout(context.Background(), callLimit)
		defer cancel()
		g.Link, err = bus.Dial(ctx, g.key)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Link.Close)
	jobs := make(chan []byte, 4096)
	g.jobs = jobs
	_, err = g.Subscribe("hw.v1.j."+g.name+".f", func(_, _ string, data []byte) {
		select {
		case jobs <- data:
		default:
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (g *rogue) subject(of string) string { return "hw.v1.n." + g.name + "." + of }

// hello sends a report and gives what the edge says is wrong with it.
func (g *rogue) hello(report any) (string, error) {
	text, err := json.Marshal(report)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	answer, err := g.Request(ctx, g.subject("hello"), text)
	var w struct{ Error string }
	if err == nil {
		err = json.Unmarshal(answer, &w)
	}
	return w.Error, err
}

// rogueReport offers models for nothing.
func rogueReport(models ...string) map[string]any {
	list := []any{}
	for _, m := range models {
		list = append(list, map[string]any{"model": m, "upstream": m, "price": map[string]any{"input_usd_per_mtok": "0", "output_usd_per_mtok": "0"}})
	}
	return map[string]any{"version": "1", "upstreams": []any{map[string]any{"format": "openai", "slots": 10, "queue": 10, "models": list}}}
}

// rogueFrame is a frame of FLEET.md §3.
func rogueFrame(kind byte, seq uint32, stream uint64, payload string) []byte {
	b := []byte{1, kind, 0, 0}
	b = binary.BigEndian.AppendUint32(b, seq)
	b = binary.BigEndian.AppendUint64(b, stream)
	b = binary.BigEndian.AppendUint64(b, 0)
	return append(b, payload...)
}

func (g *rogue) send(frames ...[]byte) {
	for _, f := range frames {
		if err := g.Publish(g.subject("f"), f); err != nil {
			return // it was thrown out
		}
	}
}

// out waits until the edge has ended the session.
func (g *rogue) out(what string) {
	g.t.Helper()
	select {
	case <-g.Done():
	case <-time.After(callLimit):
		g.t.Errorf("%s: the node was not disconnected", what)
	}
}

// mostRogueLines is how many lines of the log a node may be in, in a minute: those of
// core/fleet and of embedded/bus.
const mostRogueLines = 250

// mostRogueMemory is how much more memory, in MiB, an edge may have for what a node floods
// it with: what its subscriptions hold before they drop.
const mostRogueMemory = 256

// TestFleetHostile: a node that was enrolled and then breaks every rule is refused, and
// the log says so; a good node beside it serves all the while.
func TestFleetHostile(t *testing.T) {
	s, spare := newFleetServer(t, fleetModel), newFleetServer(t, "fragile")
	spare.quick = true
	r := newFleetRig(t, func(config map[string]any) {
		config["log"] = map[string]any{"level": "info"}
		config["providers"] = []any{asking("spare", "openai", spare.URL, "fragile")}
	})
	r.join(t, "good", "", s.URL, nil)
	if err := r.run(newJob(3, "1ms", 0)).whole(); err != nil {
		t.Fatal(err)
	}
	before := memory(t, r.cmd)

	var calls sync.WaitGroup
	var over atomic.Bool
	var served atomic.Int64
	var worst atomic.Int64
	for range 6 {
		calls.Go(func() {
			for !over.Load() {
				got := r.run(newJob(20, "2ms", 100))
				if err := got.whole(); err != nil {
					t.Errorf("a call of the good node: %v", err)
					return
				}
				if c := r.told(t, got.id); c.Node != "good" || len(c.Attempts) != 1 || len(c.NodeCalls) > 0 {
					t.Errorf("a call of the good node: %+v", c)
				}
				served.Add(1)
				if ms := got.took.Milliseconds(); ms > worst.Load() {
					worst.Store(ms)
				}
			}
		})
	}
	defer calls.Wait()
	defer over.Store(true)
	logged := func(says string) {
		t.Helper()
		if err := poll(func() error {
			if !strings.Contains(r.log.all(), says) {
				return fmt.Errorf("the log does not say %q", says)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}

	g := r.rogue(t, "evil")
	t.Run("inventory", func(t *testing.T) {
		many := []string{}
		for i := range 2000 {
			many = append(many, fmt.Sprint("model-", i))
		}
		bad := map[string]any{"too many models": rogueReport(many...), "a model twice": rogueReport("a", "a"), "no name": rogueReport(""),
			"a long name": rogueReport(strings.Repeat("n", 300)), "control characters": rogueReport("a\nb"), "not a report": []any{1, 2}}
		for what, more := range map[string]map[string]any{
			"negative price": {"price": map[string]any{"input_usd_per_mtok": "-1", "output_usd_per_mtok": "0"}},
			"absurd price":   {"price": map[string]any{"input_usd_per_mtok": "99999999999", "output_usd_per_mtok": "0"}},
			"context":        {"limits": map[string]any{"context_tokens": -5}},
		} {
			report := rogueReport("a")
			for k, v := range more {
				report["upstreams"].([]any)[0].(map[string]any)["models"].([]any)[0].(map[string]any)[k] = v
			}
			bad[what] = report
		}
		for what, more := range map[string]map[string]any{
			"another's provider": {"name": "good.x"}, "no slots": {"slots": 0}, "endless slots": {"slots": 1 << 40}, "its format": {"format": "anthropic"},
		} {
			report := rogueReport("a")
			for k, v := range more {
				report["upstreams"].([]any)[0].(map[string]any)[k] = v
			}
			bad[what] = report
		}
		for what, report := range bad {
			if said, err := g.hello(report); err != nil || said == "" {
				t.Errorf("%s: the report was taken (error %v)", what, err)
			}
		}
		logged("a node's report was not taken")
		if err := g.Publish(g.subject("hello"), make([]byte, g.MaxPayload()+1)); err == nil {
			t.Error("a message over the limit was published")
		}
		// The name of the Auto Router is not for nodes.
		if said, err := g.hello(rogueReport("auto")); err != nil || said != "" {
			t.Errorf("a report: %q, error %v", said, err)
		}
		logged("Auto Router's name")
	})

	t.Run("another's subjects", func(t *testing.T) {
		if _, err := g.Subscribe("hw.v1.j.good.>", func(subject, _ string, _ []byte) { t.Errorf("a message for the good node came by %s", subject) }); err != nil {
			t.Fatal(err)
		}
		_ = g.Publish("hw.v1.n.good.hello", []byte(`{"version":"1","upstreams":[]}`))
		_ = g.Publish("hw.v1.n.good.f", rogueFrame(20, 1, 1, "{}"))
		_ = g.Publish("hw.v1.j.good.f", rogueFrame(4, 0, 1, ""))
		_ = g.Publish("hw.v1.j.good.beat", []byte(`{"jobs":[]}`))
		logged("Publish Violation")
		logged("Subscription Violation")
	})

	t.Run("jobs it was not given", func(t *testing.T) {
		for stream := uint64(1); stream < 3000; stream++ {
			g.send(rogueFrame(18, 1, stream, `{"status":200,"header":{},"content_length":-1}`), rogueFrame(19, 2, stream, "data: evil\n\n"),
				rogueFrame(20, 3, stream, "{}"))
		}
		answer, err := g.hello(rogueReport("a")) // behind all of these
		if err != nil || answer != "" {
			t.Errorf("the edge says %q, error %v", answer, err)
		}
	})

	t.Run("calls of others", func(t *testing.T) {
		got := r.run(newJob(2, "1ms", 0))
		if err := got.whole(); err != nil {
			t.Fatal(err)
		}
		r.told(t, got.id)
		for _, provider := range []string{"evil", "good"} {
			text := fmt.Sprintf(`[{"call":%q,"attempt":1,"node":"good","provider":%q,"model":"mini","outcome":"settled","node_timing":{"service_ms":1}}]`, got.id, provider)
			ctx, cancel := context.WithTimeout(context.Background(), callLimit)
			if _, err := g.Request(ctx, g.subject("calls"), []byte(text)); err != nil {
				t.Error(err)
			}
			cancel()
		}
		logged("a node told of a call that was not sent there")
		if c := r.told(t, got.id); len(c.NodeCalls) > 0 {
			t.Errorf("what a node says of another's call was kept: %+v", c.NodeCalls)
		}
	})

	t.Run("answers", func(t *testing.T) {
		head := `{"status":200,"header":{"Content-Type":["text/event-stream"]},"slot_wait_ms":0,"content_length":-1}`
		f := chatWire(3, 5)
		credit := string([]byte{0, 0, 0, 1, 0, 0, 0, 1})
		for what, frames := range map[string]func(stream uint64) [][]byte{
			"data before headers": func(n uint64) [][]byte {
				return [][]byte{rogueFrame(16, 1, n, ""), rogueFrame(19, 2, n, "data: x\n\n")}
			},
			"headers twice":        func(n uint64) [][]byte { return [][]byte{rogueFrame(18, 1, n, head), rogueFrame(18, 2, n, head)} },
			"headers of no sense":  func(n uint64) [][]byte { return [][]byte{rogueFrame(18, 1, n, `{"status":-7}`)} },
			"headers that are not": func(n uint64) [][]byte { return [][]byte{rogueFrame(18, 1, n, "\x00\x01")} },
			"an end of no sense":   func(n uint64) [][]byte { return [][]byte{rogueFrame(18, 1, n, head), rogueFrame(20, 2, n, "no")} },
			"an end at once":       func(n uint64) [][]byte { return [][]byte{rogueFrame(20, 1, n, "{}")} },
			"a gap":                func(n uint64) [][]byte { return [][]byte{rogueFrame(18, 1, n, head), rogueFrame(19, 3, n, f.open)} },
			"an old frame again": func(n uint64) [][]byte {
				return [][]byte{rogueFrame(18, 1, n, head), rogueFrame(19, 2, n, f.open), rogueFrame(19, 2, n, f.open)}
			},
			"more than its credit": func(n uint64) (all [][]byte) {
				all = [][]byte{rogueFrame(18, 1, n, head)}
				for i := range uint32(100) {
					all = append(all, rogueFrame(19, 2+i, n, strings.Repeat(": keep-alive\n\n", 1000)))
				}
				return all
			},
			"credit without end": func(n uint64) (all [][]byte) {
				for range 1000 {
					all = append(all, rogueFrame(3, 0, n, credit))
				}
				return append(all, rogueFrame(17, 1, n, `{"reason":"bad"}`))
			},
			"no word":              func(uint64) [][]byte { return nil },
			"an answer of nothing": func(n uint64) [][]byte { return [][]byte{rogueFrame(18, 1, n, head), rogueFrame(20, 2, n, "{}")} },
		} {
			g.dial(t) // with its faults forgotten
			if said, err := g.hello(rogueReport("fragile")); err != nil || said != "" {
				t.Fatalf("a report: %q, error %v", said, err)
			}
			var answer fleetResult
			var call sync.WaitGroup
			err := poll(func() error { // until the breaker lets it in again
				j := newJob(1, "0", 0)
				done := make(chan struct{})
				call.Go(func() { defer close(done); answer = r.runModel(j, "fragile") })
				select {
				case start := <-g.jobs:
					stream := binary.BigEndian.Uint64(start[8:])
					g.send(frames(stream)...)
					g.send(frames(stream)...) // and all of it again
					<-done
					return nil
				case <-done:
					return errors.New("the call went elsewhere")
				}
			})
			call.Wait()
			if err != nil {
				t.Errorf("%s: %v", what, err)
				continue
			}
			// The client does not notice: nothing had been said.
			if answer.err != nil || answer.status != http.StatusOK || !strings.Contains(string(answer.body), "[DONE]") {
				t.Errorf("%s: status %d, error %v: %s", what, answer.status, answer.err, answer.body)
				continue
			}
			if c := r.told(t, answer.id); len(c.Attempts) != 2 || c.Attempts[0].Node != "evil" || c.Attempts[0].Outcome == "settled" || c.Attempts[1].Offer != "spare/fragile" {
				t.Errorf("%s: the receipt is %+v", what, c)
			} else {
				t.Logf("%s: %s", what, c.Attempts[0].Error)
			}
		}
	})

	t.Run("malformed frames", func(t *testing.T) {
		g.dial(t)
		for range 3 {
			g.send(nil, []byte("x"), make([]byte, 24), rogueFrame(99, 1, 1, ""), rogueFrame(1, 1, 1, ""), rogueFrame(19, 0, 1, ""), rogueFrame(19, 1, 0, ""),
				rogueFrame(3, 0, 1, "short"), append([]byte{9}, rogueFrame(19, 1, 1, "")[1:]...))
		}
		g.out("malformed frames")
		logged("a node broke the protocol")
		g.dial(t)
		for range 20 {
			_ = g.Publish(g.subject("beat"), []byte("{"))
		}
		g.out("malformed beats")
	})

	t.Run("floods", func(t *testing.T) {
		for what, flood := range map[string]func(i int) (subject string, data []byte){
			"data": func(i int) (string, []byte) {
				return g.subject("f"), rogueFrame(19, 1, uint64(i+1), strings.Repeat("d", 1000))
			},
			"beats": func(i int) (string, []byte) {
				return g.subject("beat"), []byte(`{"upstreams":[{"busy":1,"others":99999999999}],"jobs":["1","2","18446744073709551615"]}`)
			},
			"calls": func(i int) (string, []byte) {
				return g.subject("calls"), []byte(`[{"call":"x","attempt":1,"provider":"evil"}]`)
			},
			"others": func(i int) (string, []byte) { return g.subject(fmt.Sprint("other", i)), make([]byte, 1000) },
		} {
			g.dial(t)
			sent := 0
			for end := time.Now().Add(700 * time.Millisecond); time.Now().Before(end); sent++ {
				if err := g.Publish(flood(sent)); err != nil {
					break
				}
			}
			t.Logf("%s: %d messages", what, sent)
		}
		g.dial(t)
		reports, taken := 0, 0
		for end := time.Now().Add(700 * time.Millisecond); time.Now().Before(end); reports++ {
			models := []string{}
			for i := range 900 {
				models = append(models, fmt.Sprint("m", reports%2, "-", i))
			}
			said, err := g.hello(rogueReport(models...))
			switch {
			case err != nil || said != "" && said != "reports come too often":
				t.Fatalf("a report: %q, error %v", said, err)
			case said == "":
				taken++
			}
		}
		t.Logf("reports of 900 models: %d, of which %d were taken", reports, taken)
		if taken == 0 || taken > 40 { // 20 a second
			t.Error("the edge makes its list of offers anew as often as a node likes")
		}
	})

	// A node that comes again and again to break the rules.
	comes := 0
	for end := time.Now().Add(time.Second); time.Now().Before(end); comes++ {
		g.dial(t)
		for range 30 {
			g.send([]byte("x"))
		}
		g.out("malformed frames")
	}
	lines := 0
	for line := range strings.Lines(r.log.all()) {
		if strings.Contains(line, `"node":"evil"`) {
			lines++
		}
	}
	t.Logf("it came %d times in a second, and is in %d lines of the log", comes, lines)
	if lines > mostRogueLines {
		t.Errorf("a node can fill the log: %d lines are about it", lines)
	}

	over.Store(true)
	calls.Wait()
	if more := memory(t, r.cmd) - before; more > mostRogueMemory {
		t.Errorf("the edge has %.0f MiB more", more)
	}
	if worst.Load() > 5000 {
		t.Errorf("a call of the good node took %d ms", worst.Load())
	}
	t.Logf("meanwhile the good node served %d calls, the slowest in %d ms; the edge had %.1f MiB before, and has %.1f; its log has %d lines",
		served.Load(), worst.Load(), before, memory(t, r.cmd), strings.Count(r.log.all(), "\n"))
	if status, _, err := r.admin(http.MethodDelete, "/admin/v1/nodes/evil", nil); err != nil || status != http.StatusOK {
		t.Errorf("revoking: status %d, error %v", status, err)
	}
	g.out("revoked")
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	var refused *core.Error
	if link, err := bus.Dial(ctx, g.key); !errors.As(err, &refused) || refused.Kind != core.Forbidden {
		t.Errorf("a node that was revoked comes in again: %v, error %v", link, err)
	}
	if strings.Contains(r.log.all(), `"level":"ERROR"`) || strings.Contains(r.log.all(), "panic") {
		t.Errorf("the edge says\n%s", r.log.tail())
	}
}

// runModel is run for another model.
func (r *fleetRig) runModel(j fleetJob, model string) (out fleetResult) {
	out.job = j
	resp, err := r.call(r.client, fleetKey, "/v1/chat/completions", strings.Replace(j.body(), `"mini"`, `"`+model+`"`, 1), "X-Headway-Job", j.name)
	if err != nil {
		out.err = err
		return out
	}
	defer resp.Body.Close()
	return out.read(resp)
}
