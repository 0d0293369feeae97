package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"headway/core"
)

// TestWelcome: what a hello is answered with.
func TestWelcome(t *testing.T) {
	r := newEdgeRig(t)
	n := r.connect("box", nil)
	if st, ok := r.edge.Status("box"); !ok || st.State != core.NodeLost || st.Owner != "owner of box" || r.edge.Line("box").Stand().Up {
		t.Errorf("before its hello: %+v", st)
	}
	want := welcome{HeartbeatMS: 100, Misses: 3, WindowFrames: 64, WindowBytes: 256 << 10, UploadBytes: 1 << 20, InlineBytes: 256 << 10}
	if w := n.hello(report(2, 3, "b", "a")); w != want {
		t.Errorf("%+v", w)
	}
	st, ok := r.edge.Status("box")
	if !ok || st.State != core.NodeUp || st.Slots != 2 || st.Version != "v1" || !slices.Equal(st.Models, []core.Model{"a", "b"}) || len(st.Upstreams) != 1 || !st.SeenAt.OK {
		t.Errorf("%+v", st)
	}
	if _, ok := r.edge.Status("other"); ok {
		t.Error("a node that was never here has a status")
	}
	if list := r.edge.Nodes(); len(list) != 1 || list[0].Name != "box" {
		t.Errorf("%+v", list)
	}
}

// TestOffered: what becomes of reports.
func TestOffered(t *testing.T) {
	r := newEdgeRig(t)
	if p, o := r.edge.Offered(); len(p) != 0 || len(o) != 0 {
		t.Fatal("something is offered")
	}
	rep := report(2, 3, "mini", "maxi")
	rep.Upstreams = append(rep.Upstreams, core.NodeUpstream{Name: "gpu1", Format: core.FormatOpenAI, Server: "vLLM 0.20", Slots: 8, Models: []core.NodeModel{{
		Model: "big", Upstream: "org/big", Aliases: []core.Model{"large"}, Price: core.Price{Rates: core.Rates{Input: 100_000, Output: 200_000}},
		Limits: core.OfferLimits{Context: core.Some[int64](8192)}, Features: core.Some(core.FeatureTools), Labels: map[string]string{"own": "yes"}}}})
	n := r.join("box", rep, nil)
	r.eventually("the change was told", func() bool { return r.changes.Load() == 1 })
	providers, offers := r.edge.Offered()
	want := []*core.Provider{
		{ID: "box", Format: core.FormatLlamaCpp, BaseURL: "http://box", Owner: "owner of box", Node: "box", AllowPrivate: true},
		{ID: "box.gpu1", Format: core.FormatOpenAI, Dialect: "vllm", BaseURL: "http://box/v1", Owner: "owner of box", Node: "box", AllowPrivate: true},
	}
	if !reflect.DeepEqual(providers, want) {
		t.Errorf("%+v", providers)
	}
	var ids []string
	for _, o := range offers {
		ids = append(ids, string(o.ID))
	}
	if !slices.Equal(ids, []string{"box.gpu1/big", "box/maxi", "box/mini"}) {
		t.Fatalf("%v", ids)
	}
	big := &core.Offer{ID: "box.gpu1/big", Provider: providers[1], Model: "big", UpstreamModel: "org/big", Aliases: []core.Model{"large"},
		Price: core.Price{Rates: core.Rates{Input: 100_000, Output: 200_000}}, Limits: core.OfferLimits{Context: core.Some[int64](8192)},
		Features: core.Some(core.FeatureTools), Labels: map[string]string{"own": "yes"}, IncludeUsage: core.UsageAuto}
	if !reflect.DeepEqual(offers[0], big) || offers[0].Provider != providers[1] {
		t.Errorf("%+v", offers[0])
	}

	// The same again is no change, nor is a server that is down; a new session, or its
	// end, is none either.
	same := func(when string) {
		t.Helper()
		if p, o := r.edge.Offered(); p[0] != providers[0] || o[0] != offers[0] || len(o) != len(offers) {
			t.Errorf("%s: the values have changed", when)
		}
	}
	n.hello(rep)
	same("again")
	rep.Upstreams[0].Down = true
	n.hello(rep)
	same("down")
	if r.edge.Line("box").Stand().Up || !r.edge.Line("box.gpu1").Stand().Up {
		t.Error("the server that is down is not the one")
	}
	n.leave()
	same("lost")
	if st, _ := r.edge.Status("box"); st.State != core.NodeLost || r.edge.Line("box.gpu1").Stand().Up {
		t.Errorf("lost: %+v", st)
	}
	rep.Upstreams[0].Down = false
	n = r.join("box", rep, nil)
	same("back")
	if changes := r.changes.Load(); changes != 1 {
		t.Errorf("%d changes", changes)
	}

	// A refused report changes nothing of the last.
	bad := report(0, 0)
	if w := n.hello(bad); w.Error == "" {
		t.Error("no slots were taken")
	}
	same("refused")
	if !r.edge.Line("box").Stand().Up {
		t.Error("a refused report ended the last one")
	}

	// Models and servers come and go.
	rep.Upstreams = rep.Upstreams[1:]
	n.hello(rep)
	r.eventually("the change was told", func() bool { return r.changes.Load() == 2 })
	if p, o := r.edge.Offered(); len(p) != 1 || len(o) != 1 || r.edge.Line("box").Stand().Up {
		t.Errorf("%v %v", p, o)
	}
	r.join("alpha", report(1, 0, "mini"), nil)
	r.eventually("the change was told", func() bool { return r.changes.Load() == 3 })
	if p, _ := r.edge.Offered(); len(p) != 2 || p[0].ID != "alpha" || p[1].ID != "box.gpu1" {
		t.Errorf("%v", p)
	}

	// Its owner is what the session says.
	r.edge.Joined("box", r.session.Add(1), "somebody")
	r.eventually("the change was told", func() bool { return r.changes.Load() == 4 })
	if p, _ := r.edge.Offered(); p[1].Owner != "somebody" || offers[0].Provider.Owner != "owner of box" {
		t.Errorf("%+v", p[1])
	}
	r.edge.Forget("box")
	r.eventually("the change was told", func() bool { return r.changes.Load() == 5 })
	if p, o := r.edge.Offered(); len(p) != 1 || len(o) != 1 || o[0].ID != "alpha/mini" {
		t.Errorf("%v %v", p, o)
	}
	if _, ok := r.edge.Status("box"); ok || r.edge.Line("box.gpu1").Stand().Up {
		t.Error("a forgotten node stands")
	}
	r.edge.Forget("box")
}

// TestReports: what no node may say.
func TestReports(t *testing.T) {
	r := newEdgeRig(t)
	n := r.connect("box", nil)
	many := func(k int) []core.NodeModel {
		var list []core.NodeModel
		for i := range k {
			list = append(list, core.NodeModel{Model: core.Model(fmt.Sprint(i)), Upstream: "u"})
		}
		return list
	}
	long := strings.Repeat("x", reportName+1)
	for name, change := range map[string]func(*core.NodeReport, *core.NodeUpstream, *core.NodeModel){
		"version":     func(r *core.NodeReport, u *core.NodeUpstream, m *core.NodeModel) { r.Version = "a\nb" },
		"name":        func(r *core.NodeReport, u *core.NodeUpstream, m *core.NodeModel) { u.Name = "a.b" },
		"name hyphen": func(r *core.NodeReport, u *core.NodeUpstream, m *core.NodeModel) { u.Name = "-a" },
		"name case":   func(r *core.NodeReport, u *core.NodeUpstream, m *core.NodeModel) { u.Name = "A" },
		"name twice": func(r *core.NodeReport, u *core.NodeUpstream, m *core.NodeModel) {
			r.Upstreams = append(r.Upstreams, *u)
		},
		"no format":   func(r *core.NodeReport, u *core.NodeUpstream, m *core.NodeModel) { u.Format = "" },
		"format":      func(r *core.NodeReport, u *core.NodeUpstream, m *core.NodeModel) { u.Format = core.FormatAnthropic },
		"no slots":    func(r *core.NodeReport, u *core.NodeUpstream, m *core.NodeModel) { u.Slots = 0 },
		"slots":       func(r *core.NodeReport, u *core.NodeUpstream, m *core.NodeModel) { u.Slots = reportSlots + 1 },
		"queue":       func(r *core.NodeReport, u *core.NodeUpstream, m *core.NodeModel) { u.Queue = -1 },
		"long queue":  func(r *core.NodeReport, u *core.NodeUpstream, m *core.NodeModel) { u.Queue = reportSlots + 1 },
		"server":      func(r *core.NodeReport, u *core.NodeUpstream, m *core.NodeModel) { u.Server = "\x1b[31m" },
		"models":      func(r *core.NodeReport, u *core.NodeUpstream, m *core.NodeModel) { u.Models = many(reportModels + 1) },
		"model":       func(r *core.NodeReport, u *core.NodeUpstream, m *core.NodeModel) { m.Model = "" },
		"long model":  func(r *core.NodeReport, u *core.NodeUpstream, m *core.NodeModel) { m.Model = core.Model(long) },
		"model twice": func(r *core.NodeReport, u *core.NodeUpstream, m *core.NodeModel) { u.Models = append(u.Models, *m) },
		"upstream":    func(r *core.NodeReport, u *core.NodeUpstream, m *core.NodeModel) { m.Upstream = "" },
		"alias":       func(r *core.NodeReport, u *core.NodeUpstream, m *core.NodeModel) { m.Aliases = []core.Model{""} },
		"aliases":     func(r *core.NodeReport, u *core.NodeUpstream, m *core.NodeModel) { m.Aliases = make([]core.Model, 33) },
		"label": func(r *core.NodeReport, u *core.NodeUpstream, m *core.NodeModel) {
			m.Labels = map[string]string{"a": long}
		},
		"price": func(r *core.NodeReport, u *core.NodeUpstream, m *core.NodeModel) { m.Price.Input = reportCost + 1 },
		"cache price": func(r *core.NodeReport, u *core.NodeUpstream, m *core.NodeModel) {
			m.Price.CacheRead = core.Some(reportCost + 1)
		},
		"second price": func(r *core.NodeReport, u *core.NodeUpstream, m *core.NodeModel) {
			m.Price.Above = core.Some(core.PriceAbove{InputTokens: -1})
		},
		"context": func(r *core.NodeReport, u *core.NodeUpstream, m *core.NodeModel) {
			m.Limits.Context = core.Some[int64](0)
		},
		"max output": func(r *core.NodeReport, u *core.NodeUpstream, m *core.NodeModel) {
			m.Limits.MaxOutput = core.Some[int64](-5)
		},
		"upstreams": func(r *core.NodeReport, u *core.NodeUpstream, m *core.NodeModel) {
			for i := range reportUpstreams {
				r.Upstreams = append(r.Upstreams, core.NodeUpstream{Name: fmt.Sprint(i), Format: core.FormatOllama, Slots: 1})
			}
		},
	} {
		rep := report(2, 3, "m")
		change(&rep, &rep.Upstreams[0], &rep.Upstreams[0].Models[0])
		if w := n.hello(rep); w.Error == "" {
			t.Errorf("%s: it was taken", name)
		}
	}
	for _, text := range []string{"", "{", "[]", `{"upstreams":[{"models":[{"price":{"input_usd_per_mtok":"-1"}}]}]}`, `{"upstreams":[{"slots":1.5}]}`, `{"upstreams":[{"models":[{"features":300}]}]}`,
		`{"upstreams":[{"models":[{"features":["flying"]}]}]}`} {
		if w := n.helloText([]byte(text)); w.Error == "" {
			t.Errorf("%s: it was taken", text)
		}
	}
	if p, _ := r.edge.Offered(); len(p) != 0 || r.edge.Line("box").Stand().Up {
		t.Error("something of it counts")
	}
	if w := n.hello(core.NodeReport{}); w.Error != "" {
		t.Errorf("a node without servers: %s", w.Error)
	}
	full := report(reportSlots, reportSlots)
	full.Upstreams[0].Models = many(reportModels)
	if w := n.hello(full); w.Error != "" {
		t.Errorf("as much as is allowed: %s", w.Error)
	}
}

// TestInbox: the edge answers into the node's own inbox alone, whatever reply subject
// a node names: it may publish to other nodes', and a node may not.
func TestInbox(t *testing.T) {
	r := newEdgeRig(t)
	evil := r.connect("evil", nil)
	got := make(chan string, 100)
	if _, err := r.bus.Subscribe("hw.v1.>", func(subject, _ string, data []byte) {
		if !strings.HasPrefix(subject, "hw.v1.n.evil.") && !strings.HasSuffix(subject, ".beat") {
			got <- subject
		}
	}); err != nil {
		t.Fatal(err)
	}
	for _, reply := range []string{"", "hw.v1.j.box.f", "hw.v1.n.box.beat", "hw.v1.j.evil.f", "hw.v1.j.evil.rest", "hw.v1.j.evil"} {
		for _, of := range []string{subjectHello, subjectCalls} {
			if _, err := r.bus.send(evil.link, subject(of, "evil"), reply, []byte(`[]`)); err != nil {
				t.Fatal(err)
			}
		}
	}
	<-evil.link.Done() // that was more than mostFaults of them
	r.eventually("it was disconnected", func() bool { return len(r.disconnected()) == 1 })
	select {
	case s := <-got:
		t.Errorf("the edge said something to %s", s)
	default:
	}
}

// TestSilence: a node that says nothing is lost after its misses, and its jobs with it;
// any message is a sign of life.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEdgeRig(t)
		n := r.join("box", report(2, 4, "m"), func(j *scriptedJob) {
			j.accept()
			j.headers(200, 0)
			for range 60 {
				time.Sleep(rigBeat / 2)
				if !j.data([]byte("x")) {
					return
				}
			}
		})
		resp, err := r.post(t.Context(), "box", "")
		if err != nil {
			t.Fatal(err)
		}
		n.set(func() { n.mute = true })
		start := time.Now()
		body, err := io.ReadAll(resp.Body)
		took := time.Since(start)
		// Data comes for 3 s, then nothing.
		if min := 30*rigBeat + rigMisses*rigBeat - rigBeat; len(body) != 60 || word(err) != core.NodeGone || took < min || took > min+2*rigBeat {
			t.Errorf("%d bytes, %v after %v", len(body), err, took)
		}
		synctest.Wait()
		if got := r.disconnected(); !slices.Equal(got, []core.NodeID{"box"}) {
			t.Errorf("disconnected: %v", got)
		}
		if st, _ := r.edge.Status("box"); st.State != core.NodeLost || r.edge.Line("box").Stand().Up {
			t.Errorf("%+v", st)
		}
		if _, err := r.post(t.Context(), "box", ""); word(err) != core.NodeGone {
			t.Errorf("a call to a lost node: %v", err)
		}
		if !strings.Contains(r.log.String(), "silent") {
			t.Errorf("the log: %s", r.log)
		}
	})
}

// TestForgottenStream: a call that its node has accepted and leaves out of its beats is
// ended, wherever between two beats it began.
func TestForgottenStream(t *testing.T) {
	for part := range 10 {
		synctest.Test(t, func(t *testing.T) {
			r := newEdgeRig(t)
			n := r.join("box", report(2, 4, "m"), func(j *scriptedJob) { j.accept() })
			n.set(func() { n.hide = true })
			time.Sleep(time.Duration(part) * rigBeat / 10)
			start := time.Now()
			_, err := r.post(t.Context(), "box", "")
			if took := time.Since(start); word(err) != core.NodeGone || took < 2*rigBeat || took > 5*rigBeat {
				t.Errorf("%d tenths of a beat later: %v after %v", part, err, took)
			}
		})
	}
}

// TestEdgeBeats: the edge tells each node its jobs every heartbeat.
func TestEdgeBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEdgeRig(t)
		n := r.join("box", report(2, 4, "m"), func(j *scriptedJob) { j.accept(); j.headers(200, 0) })
		other := r.join("other", report(2, 4, "m"), nil)
		resp, err := r.post(t.Context(), "box", "")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10*rigBeat + rigBeat/2)
		var id uint64
		n.set(func() {
			for id = range n.jobs {
			}
			if n.beats < 9 || n.beats > 11 || len(n.edges) != 1 || uint64(n.edges[0]) != id {
				t.Errorf("%d beats, jobs %v", n.beats, n.edges)
			}
		})
		other.set(func() {
			if other.beats < 9 || len(other.edges) != 0 {
				t.Errorf("%d beats, jobs %v", other.beats, other.edges)
			}
		})
		_ = resp.Body.Close()
		time.Sleep(rigBeat + rigBeat/2)
		n.set(func() {
			if len(n.edges) != 0 {
				t.Errorf("jobs %v", n.edges)
			}
		})
	})
}

// TestSessions: what a session that was replaced says counts no more, nor does its
// end.
func TestSessions(t *testing.T) {
	r := newEdgeRig(t)
	jobs := make(chan *scriptedJob, 2)
	serve := func(j *scriptedJob) { j.accept(); j.headers(200, 0); jobs <- j }
	old := r.join("box", report(2, 4, "m"), serve)
	resp, err := r.post(t.Context(), "box", "")
	if err != nil {
		t.Fatal(err)
	}
	<-jobs
	fresh := r.join("box", report(3, 4, "m"), nil)
	if _, err := resp.Body.Read(make([]byte, 1)); word(err) != core.NodeGone {
		t.Errorf("a job of the old session: %v", err)
	}
	r.edge.Left("box", old.id)
	if st, _ := r.edge.Status("box"); st.State != core.NodeUp || st.Slots != 3 {
		t.Errorf("the end of the old session ended the new one: %+v", st)
	}
	r.edge.Left("box", fresh.id)
	if st, _ := r.edge.Status("box"); st.State != core.NodeLost {
		t.Errorf("%+v", st)
	}
	r.edge.Left("box", fresh.id)
	r.edge.Left("nobody", 1)
}

// TestJoinedAgainAndAgain: sessions that come and go leave nothing behind.
func TestJoinedAgainAndAgain(t *testing.T) {
	r := newEdgeRig(t)
	for i := range 50 {
		n := r.join("box", report(2, 4, fmt.Sprint(i)), answers("hi"))
		resp, err := r.post(t.Context(), "box", "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(resp.Body); err != nil {
			t.Fatal(err)
		}
		n.leave()
	}
	r.eventually("the subscriptions have ended", func() bool {
		r.bus.mu.Lock()
		defer r.bus.mu.Unlock()
		return !slices.ContainsFunc(r.bus.subs, func(s *memSub) bool { return s.link == nil })
	})
}

// TestHostileBeats: what a beat says of others is bounded, and what is none is a fault.
func TestHostileBeats(t *testing.T) {
	r := newEdgeRig(t)
	n := r.join("box", report(2, 4, "m"), nil)
	for _, text := range []string{`{"upstreams":[{"others":-5},{"name":"no","others":1},{"others":9007199254740993}],"jobs":["18446744073709551615","0"]}`, `{"jobs":null}`, `{}`} {
		if err := n.link.Publish(subject(subjectBeat, "box"), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	r.eventually("it was taken", func() bool { return r.edge.find("box").others.Load() == mostTaken })
	if st := r.edge.Line("box").Stand(); !st.Full || st.Ahead != float64(mostTaken-1)/2 {
		t.Errorf("%+v", st)
	}
	for _, text := range []string{"", "[]", `{"jobs":[1]}`, `{"jobs":["-1"]}`} {
		_ = n.link.Publish(subject(subjectBeat, "box"), []byte(text))
	}
	r.eventually("the faults were seen", func() bool { return r.edge.find("box").session.Load().fault.Load() == 4 })
}

// TestLineStand: the line as the calls under way, the beats and the calls served make
// it.
func TestLineStand(t *testing.T) {
	r := newEdgeRig(t)
	release := make(chan float64)
	n := r.join("box", report(4, 9, "m"), func(j *scriptedJob) {
		j.accept()
		j.headers(200, 0)
		took, word := 0.0, ""
		select {
		case took = <-release:
		case <-j.n.quit:
			return
		}
		if took == 0 {
			word = endCut
		}
		j.end(word, core.NodeTiming{Service: core.Some(took)})
	})
	line := r.edge.Line("box")
	stand := func(what string, want core.Stand) {
		t.Helper()
		if got := line.Stand(); got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	stand("nothing", core.Stand{Up: true})
	others := func(k int64) {
		t.Helper()
		n.set(func() { n.busy = []upstreamBeat{{Others: k}} })
		n.beatOnce()
		r.eventually("the beat was taken", func() bool { return r.edge.find("box").others.Load() == k })
	}
	others(3)
	stand("three others", core.Stand{Up: true})
	if st, _ := r.edge.Status("box"); st.SlotsInUse != 3 {
		t.Errorf("three others: %+v", st)
	}
	end := func(took float64) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		done := make(chan error)
		go func() {
			resp, err := r.post(ctx, "box", "")
			if err == nil {
				_, err = io.ReadAll(resp.Body)
			}
			done <- err
		}()
		r.eventually("it is under way", func() bool { return r.held("box") == 1 })
		stand("three others and one of ours", core.Stand{Up: true, Full: true, Ahead: 0.25, Service: line.Stand().Service})
		release <- took
		if err := <-done; err != nil && took > 0 {
			t.Error(err)
		}
	}
	end(1000)
	stand("one was served", core.Stand{Up: true, Service: core.Some(1000.0)})
	end(2000)
	stand("two were served", core.Stand{Up: true, Service: core.Some(1200.0)})
	end(0) // it failed: its time says nothing
	stand("one failed", core.Stand{Up: true, Service: core.Some(1200.0)})
	others(7)
	stand("seven others", core.Stand{Up: true, Full: true, Ahead: 1, Service: core.Some(1200.0)})
	if st, _ := r.edge.Status("box"); st.Slots != 4 || st.SlotsInUse != 4 || st.Queue != 0 || st.InFlight != 0 {
		t.Errorf("%+v", st)
	}
	others(2)
	for range 5 {
		go func() { _, _ = r.post(context.Background(), "box", "") }()
	}
	r.eventually("five are under way", func() bool { return r.held("box") == 5 })
	stand("five and two others", core.Stand{Up: true, Full: true, Ahead: 1, Service: core.Some(1200.0)})
	if st, _ := r.edge.Status("box"); st.SlotsInUse != 4 || st.Queue != 3 || st.InFlight != 5 {
		t.Errorf("%+v", st)
	}
	n.leave()
	r.eventually("none are under way", func() bool { return r.held("box") == 0 })
	if got := line.Stand(); got.Up {
		t.Errorf("%+v", got)
	}
	others(2)
	n.leave()
	r.eventually("of a lost node nobody knows who has its slots", func() bool {
		st, _ := r.edge.Status("box")
		return st.State == core.NodeLost && st.SlotsInUse == 0
	})
}

// TestWelcomeJSON holds the answer's names to FLEET.md.
func TestWelcomeJSON(t *testing.T) {
	text, err := json.Marshal(welcome{Error: "e"})
	if want := `{"heartbeat_ms":0,"misses":0,"window_frames":0,"window_bytes":0,"upload_bytes":0,"inline_bytes":0,"error":"e"}`; err != nil || string(text) != want {
		t.Errorf("%s %v", text, err)
	}
}

// TestHelloStorm: reports without end are not taken without end.
func TestHelloStorm(t *testing.T) {
	r := newEdgeRig(t)
	n := r.join("box", report(2, 3, "a"), nil)
	began, taken := time.Now(), 0
	for range mostHellos + 3 {
		if w := n.hello(report(2, 3, "a", "b")); w.Error == "" {
			taken++
		} else if w.Error != "reports come too often" {
			t.Error(w.Error)
		}
	}
	if time.Since(began) < time.Second && taken >= mostHellos {
		t.Errorf("%d more were taken", taken)
	}
	if got := r.edge.find("box").session.Load().fault.Load(); got != 0 {
		t.Errorf("%d faults", got)
	}
	r.eventually("later ones are taken", func() bool { return n.hello(report(2, 3, "a")).Error == "" })
}
