package scripts

import (
	"maps"
	"slices"

	"github.com/dop251/goja"

	"headway/core"
)

// field is one name that a script sees. A figure that is not known is nil, and
// undefined in a script.
type field[T any] struct {
	name string
	get  func(*run, T) goja.Value
}

// fields of each object, in the order in which a script goes through them. They are
// those of SPEC §15, headway.d.ts says what each is.
var offerFields = []field[*core.Candidate]{
	{"id", func(r *run, c *core.Candidate) goja.Value { return r.vm.ToValue(string(c.Offer.ID)) }},
	{"provider", func(r *run, c *core.Candidate) goja.Value {
		if c.Offer.Provider == nil {
			return nil
		}
		return r.word(string(c.Offer.Provider.ID))
	}},
	{"model", func(r *run, c *core.Candidate) goja.Value { return r.word(string(c.Offer.Model)) }},
	{"region", func(r *run, c *core.Candidate) goja.Value {
		if c.Offer.Provider == nil {
			return nil
		}
		return r.word(c.Offer.Provider.Region)
	}},
	{"node", func(r *run, c *core.Candidate) goja.Value {
		if c.Offer.Provider == nil {
			return nil
		}
		return r.word(string(c.Offer.Provider.Node))
	}},
	{"labels", func(r *run, c *core.Candidate) goja.Value { return r.dict("offer.labels", c.Offer.Labels) }},
	{"full", func(r *run, c *core.Candidate) goja.Value { return r.vm.ToValue(c.Full) }},
	{"input_usd_per_mtok", func(r *run, c *core.Candidate) goja.Value { return r.rate(core.Some(rates(c).Input)) }},
	{"output_usd_per_mtok", func(r *run, c *core.Candidate) goja.Value { return r.rate(core.Some(rates(c).Output)) }},
	{"cache_read_usd_per_mtok", func(r *run, c *core.Candidate) goja.Value { return r.rate(rates(c).CacheRead) }},
	{"fresh_input_tokens", func(r *run, c *core.Candidate) goja.Value { return r.vm.ToValue(c.Estimate.Fresh) }},
	{"cached_input_tokens", func(r *run, c *core.Candidate) goja.Value { return r.vm.ToValue(c.Estimate.Cached) }},
	{"charge_usd", func(r *run, c *core.Candidate) goja.Value { return r.vm.ToValue(c.Charge.Float()) }},
	{"price_usd", func(r *run, c *core.Candidate) goja.Value { return r.vm.ToValue(c.Price.Float()) }},
	{"predicted_wait_ms", func(r *run, c *core.Candidate) goja.Value { return r.number(c.Prediction.Wait()) }},
	{"queue_wait_ms", func(r *run, c *core.Candidate) goja.Value { return r.number(c.Prediction.Queue) }},
	{"ttft_ms", func(r *run, c *core.Candidate) goja.Value { return r.number(c.TTFT) }},
	{"base_latency_ms", func(r *run, c *core.Candidate) goja.Value { return r.number(measures(c).BaseLatency.Value) }},
	{"prefill_tps", func(r *run, c *core.Candidate) goja.Value { return r.number(measures(c).Prefill.Value) }},
	{"output_tps", func(r *run, c *core.Candidate) goja.Value { return r.number(measures(c).Output.Value) }},
	{"own_output_jobs", func(r *run, c *core.Candidate) goja.Value { return r.vm.ToValue(measures(c).Output.Jobs) }},
	{"own_output_tps", func(r *run, c *core.Candidate) goja.Value { return r.number(measures(c).Output.Own) }},
}

var jobFields = []field[*core.Question]{
	{"model", func(r *run, q *core.Question) goja.Value { return r.word(string(q.Job.Model)) }},
	{"streamed", func(r *run, q *core.Question) goja.Value { return r.vm.ToValue(q.Job.Streamed) }},
	{"fresh_input_tokens", func(r *run, q *core.Question) goja.Value { return r.vm.ToValue(most(q).Fresh) }},
	{"cached_input_tokens", func(r *run, q *core.Question) goja.Value { return r.vm.ToValue(most(q).Cached) }},
	{"expected_output_tokens", func(r *run, q *core.Question) goja.Value { return r.vm.ToValue(most(q).Output) }},
	{"max_output_tokens", func(r *run, q *core.Question) goja.Value {
		if !q.Job.MaxOutput.OK {
			return nil
		}
		return r.vm.ToValue(q.Job.MaxOutput.V)
	}},
	{"headers", func(r *run, q *core.Question) goja.Value { return r.dict("job.headers", q.Job.Headers) }},
	{"time_value_usd_per_hour", func(r *run, q *core.Question) goja.Value { return r.vm.ToValue(q.Auction.TimeValue.Float()) }},
}

var auctionFields = []field[*core.Question]{
	{"time_value_usd_per_hour", func(r *run, q *core.Question) goja.Value { return r.vm.ToValue(q.Auction.TimeValue.Float()) }},
	{"lowest_ttft_ms", func(r *run, q *core.Question) goja.Value { return r.number(q.Auction.LowestTTFT) }},
	{"median_ttft_ms", func(r *run, q *core.Question) goja.Value { return r.number(q.Auction.MedianTTFT) }},
	{"lowest_charge_usd", func(r *run, q *core.Question) goja.Value { return r.vm.ToValue(q.Auction.LowestCharge.Float()) }},
	{"count", func(r *run, q *core.Question) goja.Value { return r.vm.ToValue(len(q.Candidates)) }},
	{"complete", func(r *run, q *core.Question) goja.Value { return r.vm.ToValue(q.Auction.Complete) }},
}

// rates are those that hold for a call with that much input.
func rates(c *core.Candidate) *core.Rates {
	return c.Offer.Price.For(c.Estimate.Input())
}

func measures(c *core.Candidate) *core.Measures {
	if c.Measures == nil {
		return &core.Measures{}
	}
	return c.Measures
}

// most is what the job needs at the offer that has the least of it cached.
func most(q *core.Question) (e core.Estimate) {
	for i := range q.Candidates {
		if c := &q.Candidates[i]; i == 0 || c.Estimate.Fresh > e.Fresh {
			e = c.Estimate
		}
	}
	return e
}

func (r *run) number(v core.Opt[float64]) goja.Value {
	if !v.OK {
		return nil
	}
	return r.vm.ToValue(v.V)
}

// rate is in USD per million tokens, as files have it.
func (r *run) rate(v core.Opt[core.Rate]) goja.Value {
	if !v.OK {
		return nil
	}
	return r.vm.ToValue(float64(v.V) / 1e6)
}

func (r *run) word(s string) goja.Value {
	if s == "" {
		return nil
	}
	return r.vm.ToValue(s)
}

// view shows a script one of Go's values, so that it cannot be changed.
type view[T any] struct {
	r     *run
	what  string
	of    T
	names map[string]int
	list  []field[T]
}

// Get is undefined for a figure that is not known, whatever a prototype has.
func (v *view[T]) Get(name string) goja.Value {
	i, ok := v.names[name]
	if !ok {
		return nil
	}
	if x := v.list[i].get(v.r, v.of); x != nil {
		return x
	}
	return goja.Undefined()
}

// Has tells whether the figure is known.
func (v *view[T]) Has(name string) bool {
	i, ok := v.names[name]
	return ok && v.list[i].get(v.r, v.of) != nil
}

// Set refuses.
func (v *view[T]) Set(name string, _ goja.Value) bool { return v.r.readOnly(v.what, name) }

// Delete refuses.
func (v *view[T]) Delete(name string) bool { return v.r.readOnly(v.what, name) }

// Keys are the names of the figures that are known.
func (v *view[T]) Keys() (names []string) {
	for _, f := range v.list {
		if f.get(v.r, v.of) != nil {
			names = append(names, f.name)
		}
	}
	return names
}

func (r *run) readOnly(what, name string) bool {
	if len(name) > 40 {
		name = name[:40] + "…"
	}
	panic(r.vm.NewTypeError("%s.%s cannot be written: a script only looks", what, name))
}

// dict shows words by name: labels, headers. It inherits nothing, so that a name
// that is not there is undefined whatever it is.
type dict struct {
	r    *run
	what string
	of   map[string]string
}

func (r *run) dict(what string, of map[string]string) goja.Value {
	o := r.vm.NewDynamicObject(&dict{r, what, of})
	_ = o.SetPrototype(nil)
	return o
}

// Get gives one word.
func (d *dict) Get(name string) goja.Value {
	if v, ok := d.of[name]; ok {
		return d.r.vm.ToValue(v)
	}
	return nil
}

// Has tells whether it is there.
func (d *dict) Has(name string) bool { _, ok := d.of[name]; return ok }

// Set refuses.
func (d *dict) Set(name string, _ goja.Value) bool { return d.r.readOnly(d.what, name) }

// Delete refuses.
func (d *dict) Delete(name string) bool { return d.r.readOnly(d.what, name) }

// Keys are the names, sorted.
func (d *dict) Keys() []string { return slices.Sorted(maps.Keys(d.of)) }

func places[T any](list []field[T]) map[string]int {
	m := make(map[string]int, len(list))
	for i, f := range list {
		m[f.name] = i
	}
	return m
}

var offerPlaces, jobPlaces, auctionPlaces = places(offerFields), places(jobFields), places(auctionFields)
