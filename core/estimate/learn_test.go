package estimate_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"headway/core"
	"headway/core/estimate"
)

// rig is an estimator and what it is told.
type rig struct {
	t     testing.TB
	e     *estimate.Estimator
	vault *core.Memory
	at    time.Time // when the last call settled
}

func newRig(t testing.TB) *rig {
	r := &rig{t: t, vault: core.NewMemory()}
	r.restart()
	return r
}

// restart stores what was learnt and reads it again.
func (r *rig) restart() {
	r.t.Helper()
	if r.e != nil {
		for _, c := range r.e.Changed() {
			if err := r.vault.Put(c.Kind, c.Name, c.Value); err != nil {
				r.t.Fatal(err)
			}
		}
	}
	e, err := estimate.New(time.Now, r.vault)
	if err != nil {
		r.t.Fatal(err)
	}
	r.e = e
}

// receipt is of a settled call of key k.
func (r *rig) receipt(job *core.Job, model core.Model, input, output int64) *core.Receipt {
	r.at = r.at.Add(time.Second)
	rec := &core.Receipt{Kind: core.KindJob, Outcome: core.Settled, SettledAt: r.at, UsageFrom: core.FromProvider, Key: "k", Model: model,
		Usage: core.Usage{UncachedInput: core.Some(input), Output: core.Some(output)}}
	rec.Operation = core.OpGenerate
	r.e.Read(job, "k").Describe(&rec.Annex)
	return rec
}

func (r *rig) settle(job *core.Job, model core.Model, input, output int64) {
	r.e.Record(r.receipt(job, model, input, output))
}

func (r *rig) prompt(job *core.Job, model core.Model) int64 { return r.e.Read(job, "k").Prompt(model) }

// size is of a prompt of 500 to 20,000 tokens, in bytes, small ones as often as
// large ones.
func (c *corpus) size() int { return int(2200 * math.Pow(36, c.rng.Float64()*c.rng.Float64())) }

// sample is a prompt as it is counted and as it is read.
type sample struct {
	texts []string
	job   *core.Job
}

func (c *corpus) sample(class string) sample {
	texts := c.prompt(class, c.size())
	return sample{texts, jobOf(texts)}
}

// TestPromptLearns: after 50 prompts of each class by model the median error is at
// most 5%, its p90 at most 15%, whatever the tokenizer.
func TestPromptLearns(t *testing.T) {
	for seed, fresh := range [...]int{200, 50, 50} {
		if testing.Short() && seed > 0 {
			break
		}
		c := newCorpus(uint64(seed))
		var known []map[string]sample
		for range 50 {
			one := map[string]sample{}
			for _, class := range allClasses[:4] {
				one[class] = c.sample(class)
			}
			known = append(known, one)
		}
		asked := map[string][]sample{}
		for _, class := range allClasses {
			for range fresh {
				asked[class] = append(asked[class], c.sample(class))
			}
		}
		r := newRig(t)
		all := tokenizers(c)
		if seed > 0 {
			all = all[:3]
		}
		for _, tok := range all {
			model := core.Model(tok.name)
			for _, one := range known {
				for _, class := range tok.classes {
					if s, ok := one[class]; ok {
						r.settle(s.job, model, tok.tokens(s.texts), 10)
					}
				}
			}
			for _, class := range tok.classes {
				var off, plain []float64
				for _, s := range asked[class] {
					want := float64(tok.tokens(s.texts))
					off = append(off, math.Abs(float64(r.prompt(s.job, model))-want)/want)
					plain = append(plain, math.Abs(float64(estimate.Tokens(s.job.PromptBytes))-want)/want)
				}
				line := fmt.Sprintf("%s, %s: median %.1f%%, p90 %.1f%% (bytes ÷ 4: %.1f%%, %.1f%%)", tok.name, class,
					100*quantile(off, .5), 100*quantile(off, .9), 100*quantile(plain, .5), 100*quantile(plain, .9))
				t.Log(line)
				if quantile(off, .5) > 0.05 || quantile(off, .9) > 0.15 {
					t.Errorf("seed %d: %s", seed, line)
				}
			}
		}
	}
}

// TestRests: of thousands of calls a second a tokenizer that knows enough learns from
// one in ten milliseconds, and follows a model that changes all the same.
func TestRests(t *testing.T) {
	r := newRig(t)
	job := textJob("The gateway reads each receipt once, and what it learns is kept beside it. Then it goes on to the next one, as many did before, word by word by word.")
	tell := func(calls int, every time.Duration, tokens int64) (learnt int) {
		at := r.at
		for i := range calls {
			rec := r.receipt(job, "m", tokens, 10)
			rec.SettledAt = at.Add(time.Duration(i+1) * every)
			r.e.Record(rec)
			for _, c := range r.e.Changed() {
				if c.Kind == "tokenizer" && c.Name == "m" {
					learnt++
				}
			}
		}
		r.at = at.Add(time.Duration(calls) * every)
		return learnt
	}
	if n := tell(500, time.Millisecond, 100); n < 400 || n > 411 {
		t.Errorf("of the first 500 calls, one each ms, %d were learnt from, want the 400 that it remembers and a tenth of the rest", n)
	}
	if n := tell(1000, time.Millisecond, 100); n < 99 || n > 101 {
		t.Errorf("of 1,000 calls in a second %d were learnt from, want 100", n)
	}
	if n := tell(20, 10*time.Millisecond, 100); n != 20 {
		t.Errorf("of 20 calls, one each 10 ms, %d were learnt from", n)
	}
	tell(1000, time.Millisecond, 130)
	if n := r.prompt(job, "m"); n < 120 || n > 135 {
		t.Errorf("a second after the model has counted 130 tokens in place of 100 it is estimated at %d", n)
	}
}
