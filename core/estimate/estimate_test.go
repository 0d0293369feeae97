package estimate_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"headway/core"
	"headway/core/estimate"
)

func offerOf(m core.Model) *core.Offer {
	return &core.Offer{ID: core.OfferID("p/" + m), Model: m, Provider: &core.Provider{ID: "p"}}
}

// Before anything was learnt the plain estimates of SPEC §24 hold to the token.
func TestPlainAtFirst(t *testing.T) {
	r := newRig(t)
	for _, n := range []int{0, 1, 4, 5, 401, 100_000} {
		job := textJob(strings.Repeat("x", n))
		got, want := r.e.Read(job, "k").At(offerOf("m")), estimate.Plain(job).At(offerOf("m"))
		if got != want || got.Fresh != int64((n+3)/4) || got.Output != 500 {
			t.Errorf("%d bytes: %+v, want %+v", n, got, want)
		}
	}
}

// flat counts a token for every so many bytes.
func flat(job *core.Job, bytes float64) int64 { return int64(float64(job.PromptBytes) / bytes) }

// A class that a model has no history of takes the model's other classes, a model
// without any takes all models.
func TestPromptFallsBack(t *testing.T) {
	r, c := newRig(t), newCorpus(3)
	for range 40 {
		s := c.sample("prose")
		r.settle(s.job, "dense", flat(s.job, 2.5), 1)
	}
	near := func(what string, job *core.Job, model core.Model, want int64, share float64) {
		t.Helper()
		if got := r.prompt(job, model); math.Abs(float64(got-want)) > share*float64(want) {
			t.Errorf("%s: %d tokens, want %d", what, got, want)
		}
	}
	prose, code := c.sample("prose").job, c.sample("code").job
	near("its own class", prose, "dense", flat(prose, 2.5), 0.05)
	near("another class", code, "dense", flat(code, 2.5), 0.3)
	near("another model", prose, "new", flat(prose, 2.5), 0.05)
	for range 40 {
		s := c.sample("prose")
		r.settle(s.job, "wide", flat(s.job, 5), 1)
	}
	near("the first model still", prose, "dense", flat(prose, 2.5), 0.05)
	near("the second one", prose, "wide", flat(prose, 5), 0.05)
	if got := r.prompt(prose, "new"); got <= flat(prose, 5) || got >= flat(prose, 2.5) {
		t.Errorf("a third model: %d tokens, want one between the two", got)
	}
}

// The template around a call and its messages is learnt too.
func TestTemplate(t *testing.T) {
	r, c := newRig(t), newCorpus(4)
	count := func(texts []string) int64 { return int64(300 + 25*len(texts) + len(strings.Join(texts, ""))/4) }
	for range 100 {
		texts := c.prompt("prose", 400+c.size()/8)
		r.settle(jobOf(texts), "m", count(texts), 1)
	}
	for range 20 {
		texts := c.prompt("prose", 800)
		if got, want := r.prompt(jobOf(texts), "m"), count(texts); math.Abs(float64(got-want)) > 0.08*float64(want) {
			t.Errorf("%d texts: %d tokens, want %d", len(texts), got, want)
		}
	}
}

// worst is the median of the errors over fresh prompts.
func (r *rig) median(c *corpus, model core.Model, count func(*core.Job) int64) float64 {
	var off []float64
	for range 60 {
		job := c.sample("prose").job
		want := float64(count(job))
		off = append(off, math.Abs(float64(r.prompt(job, model))-want)/want)
	}
	return quantile(off, .5)
}

// Counts that cannot be, or that are of something else, change little.
func TestOutliers(t *testing.T) {
	r, c := newRig(t), newCorpus(6)
	true4 := func(job *core.Job) int64 { return flat(job, 3.6) }
	for i := range 300 {
		s := c.sample("prose")
		n := true4(s.job)
		switch i % 10 {
		case 3:
			n *= 3
		case 5:
			n = 1
		case 7:
			n *= 1000
		}
		r.settle(s.job, "m", n, 1)
	}
	if off := r.median(c, "m", true4); off > 0.05 {
		t.Errorf("with one wrong count in three: off by %.1f%%", 100*off)
	}
}

// A model whose tokenizer changes is followed.
func TestChangedTokenizer(t *testing.T) {
	r, c := newRig(t), newCorpus(8)
	for range 400 {
		s := c.sample("prose")
		r.settle(s.job, "m", flat(s.job, 4), 1)
	}
	now := func(job *core.Job) int64 { return flat(job, 3) } // a third more
	for range 60 {
		s := c.sample("prose")
		r.settle(s.job, "m", now(s.job), 1)
	}
	if off := r.median(c, "m", now); off > 0.05 {
		t.Errorf("60 calls later: off by %.1f%%", 100*off)
	}
}

// What says nothing of the tokenizer teaches nothing.
func TestNotLearnt(t *testing.T) {
	for name, spoil := range map[string]func(*core.Receipt){
		"failed":        func(r *core.Receipt) { r.Outcome = core.Failed },
		"truncated":     func(r *core.Receipt) { r.Outcome = core.Truncated },
		"estimated":     func(r *core.Receipt) { r.UsageFrom = core.FromEstimate },
		"mixed":         func(r *core.Receipt) { r.UsageFrom = core.FromMixed },
		"a test":        func(r *core.Receipt) { r.Kind = core.KindTest },
		"no counts":     func(r *core.Receipt) { r.Usage = core.Usage{} },
		"server tools":  func(r *core.Receipt) { r.Timing.FreshInputTokens = core.Some[int64](5) },
		"no units":      func(r *core.Receipt) { r.PromptUnits = nil },
		"units of more": func(r *core.Receipt) { r.PromptUnits = make([]int64, 99) },
		"below nothing": func(r *core.Receipt) { r.PromptUnits[2] = -5 },
		"another class": func(r *core.Receipt) { r.PromptClass = "verse" },
	} {
		r := newRig(t)
		job := textJob(strings.Repeat("some words ", 300))
		rec := r.receipt(job, "m", 500, 7)
		spoil(rec)
		rec.Operation = core.OpEmbeddings // whose output is nothing to learn from
		r.e.Record(rec)
		if got := r.prompt(job, "m"); got != 825 {
			t.Errorf("%s: %d tokens, want the plain 825", name, got)
		}
		if n := len(r.e.Changed()); n != 0 {
			t.Errorf("%s: %d records", name, n)
		}
	}
}

// An embedding's prompt is one like any other, and cached tokens are tokens.
func TestLearnsFromAll(t *testing.T) {
	r := newRig(t)
	job := textJob(strings.Repeat("some words ", 300))
	rec := r.receipt(job, "m", 100, 0)
	rec.Operation, rec.Kind = core.OpEmbeddings, core.KindBench
	rec.Usage = core.Usage{UncachedInput: core.Some[int64](100), CacheRead: core.Some[int64](400), CacheWrite: core.Some[int64](200)}
	for range 20 {
		r.e.Record(rec)
	}
	if got := r.prompt(job, "m"); got < 690 || got > 710 {
		t.Errorf("%d tokens, want 700", got)
	}
	if got := r.e.Read(job, "k").At(offerOf("m")).Output; got != 500 {
		t.Errorf("output %d of calls that write none", got)
	}
}

func TestOutput(t *testing.T) {
	r := newRig(t)
	job := textJob("hello")
	expect := func(what string, key core.KeyID, model core.Model, want int64) {
		t.Helper()
		if got := r.e.Read(job, key).At(offerOf(model)).Output; got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	answer := func(key core.KeyID, model core.Model, tokens ...int64) {
		for _, n := range tokens {
			rec := r.receipt(job, model, 10, n)
			rec.Key = key
			r.e.Record(rec)
		}
	}
	answer("a", "m", 40, 1000, 60, 50, 70) // median 60
	expect("all keys of the model are this one", "a", "m", 60)
	expect("another key", "b", "m", 60)
	expect("another model", "a", "other", 60)
	answer("b", "m", 200, 200, 200, 200, 200, 200, 200) // the model's: 200 of twelve; lower median
	expect("few of its own", "a", "m", (5*60+10*200+7)/15)
	expect("the model's", "c", "m", 200)
	answer("b", "other", 900, 900, 900)
	expect("of the other model", "a", "other", 900)
	expect("of no model", "a", "third", 200)

	limit := func(what string, asked, own core.Opt[int64], want int64) {
		t.Helper()
		o := offerOf("other")
		o.Limits.MaxOutput = own
		j := *job
		j.MaxOutput = asked
		if got := r.e.Read(&j, "b").At(o); got.Output != want || got.MaxOutput < want {
			t.Errorf("%s: %+v, want %d", what, got, want)
		}
	}
	limit("asked for", core.Some[int64](300), core.Opt[int64]{}, 300)
	limit("asked for more", core.Some[int64](3000), core.Opt[int64]{}, 900)
	limit("the offer's own", core.Opt[int64]{}, core.Some[int64](100), 100)
	limit("asked for nothing", core.Some[int64](0), core.Opt[int64]{}, 0)
	j := *job
	j.Operation = core.OpEmbeddings
	if got := r.e.Read(&j, "b").At(offerOf("other")); got.Output != 0 || got.MaxOutput != 0 {
		t.Errorf("an embedding: %+v", got)
	}
	// The last ones count.
	for range 70 {
		answer("b", "other", 20)
	}
	expect("later", "b", "other", 20)

	for name, spoil := range map[string]func(*core.Receipt){
		"failed":    func(r *core.Receipt) { r.Outcome = core.Failed },
		"estimated": func(r *core.Receipt) { r.UsageFrom = core.FromMixed },
		"a probe":   func(r *core.Receipt) { r.Kind = core.KindProbe },
		"no count":  func(r *core.Receipt) { r.Usage.Output = core.Opt[int64]{} },
		"counted":   func(r *core.Receipt) { r.Operation = core.OpCountTokens },
	} {
		for range 100 {
			rec := r.receipt(job, "other", 10, 5000)
			rec.Key = "b"
			spoil(rec)
			r.e.Record(rec)
		}
		expect(name, "b", "other", 20)
	}
}

// What was learnt survives a restart, and learning goes on from there.
func TestRestart(t *testing.T) {
	r, c := newRig(t), newCorpus(9)
	tok := tokenizers(c)[0]
	odd := core.Model("org/-:7b %2F ü")
	for i := range 120 {
		s := c.sample(allClasses[i%5])
		for _, m := range []core.Model{"m", odd, "-"} {
			r.settle(s.job, m, tok.tokens(s.texts), int64(i))
		}
	}
	jobs := []sample{c.sample("prose"), c.sample("code"), c.sample("mixed")}
	before := r.e
	r.restart()
	if n := len(r.e.Changed()); n != 0 {
		t.Errorf("%d records changed by reading them", n)
	}
	for range 2 {
		for _, s := range jobs {
			for _, m := range []core.Model{"m", odd, "-", "unknown"} {
				a, b := before.Read(s.job, "k").At(offerOf(m)), r.e.Read(s.job, "k").At(offerOf(m))
				if math.Abs(float64(a.Fresh-b.Fresh)) > 1+0.001*float64(a.Fresh) || a.Output != b.Output {
					t.Errorf("%s: %+v before, %+v after", m, a, b)
				}
			}
			rec := r.receipt(s.job, "m", tok.tokens(s.texts), 3)
			before.Record(rec)
			r.e.Record(rec)
		}
	}
}

// A record that cannot be read is an error that names it, never a missing one.
func TestDamage(t *testing.T) {
	r := newRig(t)
	r.settle(textJob(strings.Repeat("some words ", 300)), "m", 500, 7)
	for _, c := range r.e.Changed() {
		for name, value := range map[string][]byte{
			"cut":     c.Value[:len(c.Value)-1],
			"longer":  append(append([]byte{}, c.Value...), 0),
			"version": append([]byte{99}, c.Value[1:]...),
		} {
			vault := core.NewMemory()
			if err := vault.Put(c.Kind, c.Name, value); err != nil {
				t.Fatal(err)
			}
			_, err := estimate.New(time.Now, vault)
			var e *core.Error
			if !errors.As(err, &e) || e.Kind != core.Unavailable || !strings.Contains(err.Error(), c.Name) {
				t.Errorf("%s %s, %s: %v", c.Kind, c.Name, name, err)
			}
		}
	}
}

// Memory is bounded: what nobody used for longest goes, here and in the vault.
func TestBounded(t *testing.T) {
	r := newRig(t)
	job := textJob(strings.Repeat("some words ", 300))
	for i := range 1500 {
		r.settle(job, core.Model(fmt.Sprint("m", i)), 500, 7)
		r.settle(job, "often", 1000, 7)
		if i%100 == 0 {
			r.restart()
		}
	}
	r.restart()
	count := func(kind string) (n int) {
		_ = r.vault.All(kind, func(string, []byte) bool { n++; return true })
		return n
	}
	if n := count("tokenizer"); n > 1001 || n < 900 {
		t.Errorf("%d tokenizers are kept", n)
	}
	if got := r.prompt(job, "often"); got < 950 || got > 1050 {
		t.Errorf("the model that is used often: %d tokens, want 1000", got)
	}
	for i := range 12_000 {
		rec := r.receipt(job, "m", 500, 7)
		rec.Key = core.KeyID(fmt.Sprint("key", i))
		r.e.Record(rec)
	}
	r.restart()
	if n := count("answers"); n > 10_000 || n < 8000 {
		t.Errorf("%d keys and models are kept", n)
	}
}

// Calls read while receipts are recorded.
func TestConcurrent(t *testing.T) {
	r := newRig(t)
	job := textJob(strings.Repeat("some words ", 300))
	rec := r.receipt(job, "m", 500, 7)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := range 200 {
				switch i {
				case 0:
					other := *rec
					other.Model = core.Model(fmt.Sprint("m", n%20))
					r.e.Record(&other)
				case 1:
					r.e.Changed()
				default:
					if est := r.e.Read(job, "k").At(offerOf("m")); est.Fresh <= 0 || est.Output < 0 {
						t.Errorf("%+v", est)
					}
				}
			}
		})
	}
	all.Wait()
}
