package command_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

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
	for _, name := range slices.Sorted(maps.Keys(p.workers)) {
		log += p.workers[name].log.all()
	}
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
