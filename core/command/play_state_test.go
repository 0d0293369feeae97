package command_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// seenOfState asks the gateway for the parts of the state that are wanted.
func seenOfState(p *play, want map[string]any) (map[string]any, error) {
	seen := map[string]any{}
	for name, w := range want {
		var err error
		switch name {
		case "open_calls":
			seen[name], err = p.openCalls()
		case "counted_failures":
			seen[name], err = p.byOffer(w, "counted_failures")
		case "paused":
			seen[name], err = p.paused()
		case "measures":
			seen[name], err = p.measures()
		case "key_spend_usd":
			seen[name], err = p.keySpend()
		case "gateway_started":
			seen[name] = p.gateway.alive() && p.healthy()
		case "has_receipt":
			seen[name] = p.withReceipt(w)
		case "goroutine_growth":
			seen[name] = p.grown + p.goroutines()
		case "race_reports": // of the gateway that is tested; go test -race ./scripts looks for more
			seen[name] = strings.Count(p.gateway.log.all(), "DATA RACE")
		case "hook_log":
			seen[name], err = p.hookLog()
		case "worker_state":
			seen[name], err = p.byWorker("state")
		case "worker_slots_in_use":
			seen[name], err = p.byWorker("slots_in_use")
		case "source_check":
			var found []string
			found, err = plainCompares(moduleRoot)
			seen[name] = map[string]any{"plain_compare_of_secrets": len(found)}
			if len(found) > 0 {
				err = errors.New(strings.Join(found, "\n"))
			}
		}
		if err != nil {
			return nil, fmt.Errorf("state.%s: %w", name, err)
		}
	}
	return seen, nil
}

func (p *play) openCalls() (any, error) {
	offers, err := p.gateway.items("/admin/v1/offers?limit=1000")
	sum := 0
	for _, o := range offers {
		n, ok := number(lookUp(o, "in_flight"))
		if !ok {
			return nil, fmt.Errorf("an offer without in_flight: %s", show(o))
		}
		sum += int(n.Num().Int64())
	}
	return sum, err
}

// byOffer gives one field of each wanted offer, by the case's name of it.
func (p *play) byOffer(want any, field string) (any, error) {
	offers, err := p.gateway.items("/admin/v1/offers?limit=1000")
	seen := map[string]any{}
	for _, o := range offers {
		seen[text(lookUp(o, "provider"))] = lookUp(o, field)
	}
	return seen, err
}

func (p *play) paused() (any, error) {
	offers, err := p.gateway.items("/admin/v1/offers?limit=1000")
	names := []string{}
	for _, o := range offers {
		if lookUp(o, "state") == "paused" {
			names = append(names, text(lookUp(o, "provider")))
		}
	}
	slices.Sort(names)
	return asList(names), err
}

func (p *play) measures() (any, error) {
	items, err := p.gateway.items("/admin/v1/measures?limit=1000")
	seen := map[string]any{}
	for _, o := range p.c.Given.Setup.Offers {
		jobs := map[string]any{"first_output_samples": 0, "output_speed_samples": 0}
		for _, m := range items {
			if lookUp(m, "provider") != o.Name {
				continue
			}
			switch lookUp(m, "measure") {
			case "base_latency_ms":
				jobs["first_output_samples"] = lookUp(m, "jobs")
			case "output_tps":
				jobs["output_speed_samples"] = lookUp(m, "jobs")
			}
		}
		seen[o.Name] = jobs
	}
	return seen, err
}

func (p *play) keySpend() (any, error) {
	keys, err := p.gateway.items("/admin/v1/keys?limit=1000")
	for _, k := range keys {
		if lookUp(k, "name") == "client" {
			return lookUp(k, "spend_usd"), nil
		}
	}
	return missing{}, err
}

// goroutines are those of the gateway, without what a connection of a client that
// has left still has.
func (p *play) goroutines() int {
	_, metrics, err := p.gateway.admin(http.MethodGet, "/metrics", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	for line := range strings.Lines(string(metrics)) {
		if n, ok := strings.CutPrefix(line, "go_goroutines "); ok {
			count, err := strconv.Atoi(strings.TrimSpace(n))
			if err != nil {
				p.t.Fatal(err)
			}
			return count
		}
	}
	p.t.Fatal("/metrics has no go_goroutines")
	return 0
}

// hookLog is what is kept of a script's errors: in the decisions and in the list.
func (p *play) hookLog() (any, error) {
	_, list, err := p.gateway.admin(http.MethodGet, "/admin/v1/scripts", nil)
	if err != nil {
		return nil, err
	}
	log := string(list)
	for _, answers := range p.answers {
		for _, a := range answers {
			receipt, err := p.gateway.get("/admin/v1/calls/" + a.header.Get("X-Request-Id"))
			if err != nil {
				return nil, err
			}
			if said, ok := lookUp(receipt, "decision.script_error").(string); ok {
				log += "\n" + said
			}
		}
	}
	return log, nil
}

func (p *play) healthy() bool {
	status, _, err := p.gateway.admin(http.MethodGet, "/healthz", nil)
	return err == nil && status == http.StatusOK
}

// withReceipt lists those of the wanted calls that have a receipt.
func (p *play) withReceipt(want any) any {
	have := []string{}
	for _, id := range texts(want) {
		if _, err := p.receipt(id); err == nil {
			have = append(have, id)
		}
	}
	return asList(have)
}

func asList(names []string) []any {
	out := make([]any, len(names))
	for i, n := range names {
		out[i] = n
	}
	return out
}
