package gateway

import (
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"headway/core"
)

// Metrics are the Prometheus metrics of SPEC §20: by model, provider and node,
// never by key or person.
type Metrics struct {
	registry *prometheus.Registry
	handler  http.Handler

	calls, attempts, tokens, spend, refusedCalls *prometheus.CounterVec
	firstToken, decode, queue, waitError         *prometheus.HistogramVec

	unkept prometheus.Counter

	offers sync.Map // core.OfferID -> *offerMetrics
}

// offerMetrics are one offer's, found once.
type offerMetrics struct {
	firstToken, decode, queue, waitError prometheus.Observer
	input, cached, written, output, usd  prometheus.Counter
	calls, attempts                      map[core.Outcome]prometheus.Counter
}

// outcomes are the ends of a call that a gateway sees.
func outcomes() []core.Outcome {
	return []core.Outcome{core.Settled, core.Failed, core.Truncated, core.TimedOut, core.ClientGone, core.ClientStalled}
}

// NewMetrics makes the metrics with those of the Go runtime and the process.
func NewMetrics() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	by := []string{"model", "provider", "node"}
	counter := func(name, help string, more ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append(by[:len(by):len(by)], more...))
		m.registry.MustRegister(c)
		return c
	}
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets,
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour}, by)
		m.registry.MustRegister(h)
		return h
	}
	seconds := []float64{.005, .01, .025, .05, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 30, 60, 120}
	m.calls = counter("headway_calls_total", "Calls that were dispatched, by outcome.", "outcome")
	m.attempts = counter("headway_attempts_total", "Attempts at an offer, by outcome.", "outcome")
	m.tokens = counter("headway_tokens_total", "Tokens of settled receipts, by kind.", "kind")
	m.spend = counter("headway_spend_usd_total", "What calls were charged, in USD.")
	m.firstToken = histogram("headway_first_token_seconds", "Upstream send to first output of streamed calls.", seconds)
	m.decode = histogram("headway_decode_tokens_per_second", "Decode speed of calls that measured it.", []float64{1, 2, 5, 10, 20, 30, 50, 75, 100, 150, 200, 300, 500, 1000, 2000})
	m.queue = histogram("headway_queue_seconds", "Arrival to upstream send.", []float64{.0001, .0005, .001, .005, .01, .05, .1, .5, 1, 5, 10, 60})
	m.waitError = histogram("headway_predicted_wait_error_ratio", "|predicted wait - actual| / actual.", []float64{.01, .02, .05, .1, .2, .3, .5, 1, 2, 5})
	m.refusedCalls = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "headway_refused_calls_total", Help: "Calls that were refused before any dispatch, by reason."}, []string{"reason"})
	m.unkept = prometheus.NewCounter(prometheus.CounterOpts{Name: "headway_calls_without_receipt_total", Help: "Calls that were served though no receipt could be kept (receipts: optional)."})
	m.registry.MustRegister(m.refusedCalls, m.unkept, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.handler = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
	return m
}

// ServeHTTP answers /metrics.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.handler.ServeHTTP(w, r) }

// Watch adds the gauges that are read off a running gateway.
func (m *Metrics) Watch(g *Gateway) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "headway_open_calls", Help: "Calls under way."},
		func() float64 { return float64(g.Open()) }), &breakers{g: g,
		out:      prometheus.NewDesc("headway_offer_out", "1 while the breaker or a pause keeps the offer out.", []string{"offer", "model", "provider"}, nil),
		inFlight: prometheus.NewDesc("headway_offer_in_flight", "Calls that hold the offer.", []string{"offer", "model", "provider"}, nil)})
}

// WatchScripts adds the counters of scripts.
func (m *Metrics) WatchScripts(list core.ScriptList) {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"script"}, nil)
	}
	m.registry.MustRegister(&scripts{list: list,
		decisions: desc("headway_script_decisions_total", "Rankings that a script was asked for."),
		failures:  desc("headway_script_failures_total", "Rankings that failed in a script: the built-in default ranked."),
		inForce:   desc("headway_script_in_force", "1 while the script is asked to rank, 0 while it was refused or is set aside.")})
}

// WatchNodes adds the gauges of nodes; list gives them as they stand.
func (m *Metrics) WatchNodes(list func() []core.NodeStatus) {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("headway_node_"+name, help, []string{"node"}, nil)
	}
	m.registry.MustRegister(&nodes{list: list, up: desc("up", "1 while the node is connected and its offers can be called."),
		slots:  desc("slots", "Calls that its model servers work on at once."),
		inUse:  desc("slots_in_use", "Slots that are taken, by whomever."),
		queue:  desc("queue", "Calls that wait there for a slot."),
		flight: desc("in_flight", "Calls that are there, those that wait among them.")})
}

// nodes reads how the nodes stand when it is asked.
type nodes struct {
	list                            func() []core.NodeStatus
	up, slots, inUse, queue, flight *prometheus.Desc
}

func (n *nodes) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range [...]*prometheus.Desc{n.up, n.slots, n.inUse, n.queue, n.flight} {
		ch <- d
	}
}

func (n *nodes) Collect(ch chan<- prometheus.Metric) {
	for _, st := range n.list() {
		up := int64(0)
		if st.State == core.NodeUp {
			up = 1
		}
		for _, g := range [...]struct {
			of *prometheus.Desc
			is int64
		}{{n.up, up}, {n.slots, st.Slots}, {n.inUse, st.SlotsInUse}, {n.queue, st.Queue}, {n.flight, st.InFlight}} {
			ch <- prometheus.MustNewConstMetric(g.of, prometheus.GaugeValue, float64(g.is), string(st.Name))
		}
	}
}

// scripts reads the state of the scripts when it is asked.
type scripts struct {
	list                         core.ScriptList
	decisions, failures, inForce *prometheus.Desc
}

func (s *scripts) Describe(ch chan<- *prometheus.Desc) {
	ch <- s.decisions
	ch <- s.failures
	ch <- s.inForce
}

func (s *scripts) Collect(ch chan<- prometheus.Metric) {
	for _, x := range s.list.List() {
		inForce := 0.0
		if x.InForce {
			inForce = 1
		}
		ch <- prometheus.MustNewConstMetric(s.decisions, prometheus.CounterValue, float64(x.Decisions), x.Name)
		ch <- prometheus.MustNewConstMetric(s.failures, prometheus.CounterValue, float64(x.Failures), x.Name)
		ch <- prometheus.MustNewConstMetric(s.inForce, prometheus.GaugeValue, inForce, x.Name)
	}
}

// breakers reads the state of the offers when it is asked.
type breakers struct {
	g             *Gateway
	out, inFlight *prometheus.Desc
}

func (b *breakers) Describe(ch chan<- *prometheus.Desc) { ch <- b.out; ch <- b.inFlight }

func (b *breakers) Collect(ch chan<- prometheus.Metric) {
	s, now := b.g.Setup(), b.g.Clock()
	for _, e := range s.Catalogue.Entries() {
		st := e.Status(now, s.Settings.Breaker, core.Opt[float64]{})
		labels := []string{string(st.ID), string(st.Model), string(st.Provider)}
		out := 0.0
		if st.State == "out" || st.State == "paused" {
			out = 1
		}
		ch <- prometheus.MustNewConstMetric(b.out, prometheus.GaugeValue, out, labels...)
		ch <- prometheus.MustNewConstMetric(b.inFlight, prometheus.GaugeValue, float64(st.InFlight), labels...)
	}
}

func (m *Metrics) refused(reason string) { m.refusedCalls.WithLabelValues(reason).Inc() }

func (m *Metrics) offer(o *core.Offer) *offerMetrics {
	if v, ok := m.offers.Load(o.ID); ok {
		return v.(*offerMetrics)
	}
	l := prometheus.Labels{"model": string(o.Model), "provider": string(o.Provider.ID), "node": string(o.Provider.Node)}
	tokens := m.tokens.MustCurryWith(l)
	by := func(c *prometheus.CounterVec) map[core.Outcome]prometheus.Counter {
		of, counters := c.MustCurryWith(l), map[core.Outcome]prometheus.Counter{}
		for _, x := range outcomes() {
			counters[x] = of.WithLabelValues(string(x))
		}
		return counters
	}
	v, _ := m.offers.LoadOrStore(o.ID, &offerMetrics{calls: by(m.calls), attempts: by(m.attempts),
		firstToken: m.firstToken.With(l), decode: m.decode.With(l), queue: m.queue.With(l), waitError: m.waitError.With(l),
		input: tokens.WithLabelValues("input"), cached: tokens.WithLabelValues("cache_read"), written: tokens.WithLabelValues("cache_write"),
		output: tokens.WithLabelValues("output"), usd: m.spend.With(l)})
	return v.(*offerMetrics)
}

// observe counts a call by its receipt, and each attempt at its own offer.
func (m *Metrics) observe(r *core.Receipt, tries []*try) {
	for i := range tries {
		m.offer(tries[i].pick.Offer).attempts[tries[i].Outcome].Inc()
	}
	o := m.offer(tries[len(tries)-1].pick.Offer)
	o.calls[r.Outcome].Inc()
	see := func(into prometheus.Observer, v core.Opt[float64], unit float64) {
		if v.OK {
			into.Observe(v.V / unit)
		}
	}
	see(o.firstToken, r.Timing.FirstToken, 1000)
	see(o.decode, r.Timing.DecodeTPS, 1)
	see(o.queue, r.Timing.Queued, 1000)
	if r.PredictedWait.OK && r.ActualWait.OK && r.ActualWait.V > 0 {
		o.waitError.Observe(math.Abs(r.PredictedWait.V-r.ActualWait.V) / r.ActualWait.V)
	}
	add := func(into prometheus.Counter, v core.Opt[int64]) {
		if v.V > 0 {
			into.Add(float64(v.V))
		}
	}
	add(o.input, r.Usage.UncachedInput)
	add(o.cached, r.Usage.CacheRead)
	add(o.written, r.Usage.CacheWrite)
	add(o.output, r.Usage.Output)
	if r.Charge.V > 0 {
		o.usd.Add(r.Charge.V.Float())
	}
}
