package control

import (
	"bytes"
	"net/http"
	"slices"
	"time"

	"headway/core"
	"headway/core/gateway"
	"headway/core/measure"
)

// rows are the measures of every offer and of what else has jobs.
func (d *Desk) rows() []measure.Row {
	var known []measure.Pair
	for _, e := range d.Gateway.Setup().Catalogue.Entries() {
		known = append(known, measure.Pair{Provider: e.Offer.Provider.ID, Model: e.Offer.Model})
	}
	return d.Board.Rows(known)
}

func (d *Desk) listMeasures(r *http.Request) (any, error) {
	return page(r, d.rows(), func(m measure.Row) string { return string(m.Provider) + "/" + string(m.Model) + "/" + m.Measure })
}

// Speed is every measure with its window, and the prediction errors.
type Speed struct {
	Window measure.Window    `json:"window"`
	Items  []measure.Row     `json:"items"` // those of the measures, all of them
	Errors []PredictionError `json:"prediction_errors"`
	// Estimates are the errors of what the waits were predicted from.
	Estimates []EstimateError `json:"estimate_errors"`
	Limits    string          `json:"limits"` // of what the figures say
}

// PredictionError is |predicted − actual| ÷ actual of one offer's waits.
type PredictionError struct {
	Offer core.OfferID `json:"offer"`
	measure.PredictionError
}

// EstimateError is |estimated − real| ÷ real of the tokens of one offer's calls:
// of the prompt, of the output, or of what of the prompt was read from the cache,
// which is held against the whole prompt.
type EstimateError struct {
	Offer core.OfferID `json:"offer"`
	Of    string       `json:"estimate"` // prompt, output or cached
	measure.PredictionError
}

// SpeedLimits says what the measures do not say (SPEC §5).
const SpeedLimits = "measures are of last week, not of now; times include the network, connection set-up and the provider's queue, " +
	"and prefill includes the base latency"

func (d *Desk) getSpeed(*http.Request) (any, error) {
	s := Speed{Window: d.Board.Window(), Items: d.rows(), Errors: []PredictionError{}, Estimates: []EstimateError{}, Limits: SpeedLimits}
	errs := d.Board.Errors()
	for _, id := range sortedKeys(errs) {
		e := errs[id]
		if e.Wait.OK {
			s.Errors = append(s.Errors, PredictionError{id, e.Wait.V})
		}
		for _, of := range [...]struct {
			name string
			err  core.Opt[measure.PredictionError]
		}{{"prompt", e.Prompt}, {"output", e.Output}, {"cached", e.Cached}} {
			if of.err.OK {
				s.Estimates = append(s.Estimates, EstimateError{id, of.name, of.err.V})
			}
		}
	}
	return s, nil
}

// Status is how the server is.
type Status struct {
	Version   string         `json:"version"`
	StartedAt time.Time      `json:"started_at"`
	Uptime    float64        `json:"uptime_s"`
	Listen    string         `json:"listen,omitempty"`
	OpenCalls int64          `json:"open_calls"`
	Healthy   bool           `json:"healthy"`           // receipts can be made durable
	Trouble   string         `json:"trouble,omitempty"` // why not
	Offers    map[string]int `json:"offers"`            // how many are in each state
	// Probes are how Headway's own small calls stand.
	Probes *gateway.Probing `json:"probes,omitempty"`
	Keys   int              `json:"keys"`
	Nodes  map[string]int   `json:"nodes,omitempty"` // how many are in each state
	// NodesListen is the address that nodes dial; absent: it is not open.
	NodesListen string `json:"nodes_listen,omitempty"`
	// ReceiptLog is how the signed log of receipts stands; absent: none is kept.
	ReceiptLog *ReceiptLogStatus `json:"receipt_log,omitempty"`
	File       string            `json:"file,omitempty"`
}

func (d *Desk) getStatus(*http.Request) (any, error) {
	f, now := d.force.Load(), d.Clock()
	s := Status{Version: d.Version, StartedAt: d.started.UTC(), Uptime: now.Sub(d.started).Round(time.Millisecond).Seconds(),
		OpenCalls: d.Gateway.Open(), Healthy: true, Offers: map[string]int{}, Keys: len(f.keys), File: f.file.Path}
	if addr := d.listens.Load(); addr != nil {
		s.Listen = *addr
	}
	if err := d.Book.Healthy(); err != nil {
		s.Healthy, s.Trouble = false, err.Error()
	}
	if d.Prober != nil {
		probes := d.Prober.Standing()
		s.Probes = &probes
	}
	for _, n := range d.nodes() {
		if s.Nodes == nil {
			s.Nodes = map[string]int{}
		}
		s.Nodes[n.State]++
	}
	if d.Gate != nil {
		s.NodesListen = d.Gate.Address()
	}
	if d.Receipts != nil {
		s.ReceiptLog = d.receiptLogStatus()
	}
	setup := d.Gateway.Setup()
	for _, e := range setup.Catalogue.Entries() {
		s.Offers[e.Status(now, setup.Settings.Breaker, core.Opt[float64]{}).State]++
	}
	return s, nil
}

// Shown is the configuration in force.
type Shown struct {
	File string `json:"file,omitempty"`
	YAML string `json:"yaml"`
}

func (d *Desk) getConfig(*http.Request) (any, error) {
	f := d.force.Load().file
	return Shown{f.Path, string(f.Shown)}, nil
}

// Applied is what a configuration brought.
type Applied struct {
	File      string   `json:"file,omitempty"`
	Providers int      `json:"providers"`
	Offers    int      `json:"offers"`
	Keys      int      `json:"keys"`
	Notes     []string `json:"notes,omitempty"`
	// Restart are the settings that differ from those in force and that only a
	// restart changes.
	Restart []string `json:"needs_restart,omitempty"`
}

func (d *Desk) postApply(r *http.Request) (any, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	var c *Config
	if len(bytes.TrimSpace(body)) == 0 {
		c, err = d.Parse.File()
	} else {
		name := r.URL.Query().Get("name")
		if name == "" {
			name = "posted.yaml"
		}
		c, err = d.Parse.Text(name, body)
	}
	if err != nil {
		return nil, err
	}
	notes, err := d.apply(c, whoOf(r))
	if err != nil {
		return nil, err
	}
	return Applied{c.Path, len(c.Providers), len(c.Offers), len(c.Keys), slices.Concat(c.Notes, d.clashNotes(), notes), d.onlyRestart(c)}, nil
}
