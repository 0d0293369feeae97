package measure_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"headway/core"
	"headway/core/measure"
)

// Every example of MEASURES.md holds: what the document says is what the code
// does.
func TestExamplesOfMeasuresMD(t *testing.T) {
	doc, err := os.ReadFile("MEASURES.md")
	if err != nil {
		t.Fatal(err)
	}
	checks := map[string]func(*testing.T, func(any)){
		"figures": exampleFigures, "values": exampleValues, "sketch": exampleSketch, "measures": exampleMeasures,
		"ttft": exampleTTFT, "predict": examplePredict, "slow": exampleSlow,
	}
	seen := map[string]int{}
	for _, m := range regexp.MustCompile("(?s)```json (\\w+)\n(.*?)\n```").FindAllSubmatch(doc, -1) {
		kind, body := string(m[1]), m[2]
		seen[kind]++
		t.Run(kind, func(t *testing.T) {
			check := checks[kind]
			if check == nil {
				t.Fatalf("no check for examples of kind %s", kind)
			}
			check(t, func(into any) {
				t.Helper()
				d := json.NewDecoder(bytes.NewReader(body))
				d.DisallowUnknownFields()
				if err := d.Decode(into); err != nil {
					t.Fatalf("%v in %s", err, body)
				}
			})
		})
	}
	for kind := range checks {
		if seen[kind] == 0 {
			t.Errorf("no example of kind %s was found", kind)
		}
	}
	if n := bytes.Count(doc, []byte("```json")); n != sum(seen) {
		t.Errorf("%d JSON blocks and %d examples", n, sum(seen))
	}
}

func sum(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}

func exampleFigures(t *testing.T, read func(any)) {
	var e struct {
		Streamed bool
		Arrivals int
		Marks    map[string]float64
		Usage    core.Usage
		AtStart  core.Opt[int64] `json:"input_at_start"`
		Server   struct {
			PromptTokens core.Opt[int64]   `json:"prompt_tokens"`
			PromptMS     core.Opt[float64] `json:"prompt_ms"`
			DecodeTokens core.Opt[int64]   `json:"decode_tokens"`
			DecodeMS     core.Opt[float64] `json:"decode_ms"`
		}
		Timing core.Timing
	}
	read(&e)
	at := func(name string) float64 {
		if ms, ok := e.Marks[name]; ok {
			return ms
		}
		return -1
	}
	ans := core.Answer{Usage: e.Usage, Reported: true, InputAtStart: e.AtStart, Figures: core.ServerFigures(e.Server)}
	tl := marks(at("t1"), at("t2"), at("t3"), at("t4"), at("t5"), at("tl"), at("t6"))
	if got := measure.Figures(tl, ans, e.Streamed, e.Arrivals); got != e.Timing {
		t.Errorf("got  %+v\nwant %+v", got, e.Timing)
	}
}

func exampleValues(t *testing.T, read func(any)) {
	var e struct {
		Receipt core.Receipt
		Gives   map[string]float64
	}
	read(&e)
	if got := measure.Values(&e.Receipt); !maps.Equal(got, e.Gives) {
		t.Errorf("%v, want %v", got, e.Gives)
	}
}

func exampleSketch(t *testing.T, read func(any)) {
	var e struct {
		Values []int64
		Bytes  string
		Median int64
	}
	read(&e)
	s := sketchOf(e.Values...)
	if got := hex.EncodeToString(s.Append(nil)); got != e.Bytes || s.Median() != e.Median {
		t.Errorf("bytes %s, median %d, want %s and %d", got, s.Median(), e.Bytes, e.Median)
	}
}

func exampleMeasures(t *testing.T, read func(any)) {
	type row struct {
		Jobs        int64
		Own         core.Opt[float64]
		ModelMedian core.Opt[float64] `json:"model_median"`
		Value       core.Opt[float64]
		Basis       core.Basis
	}
	var e struct {
		At       time.Time
		Pairs    []string
		Receipts []*core.Receipt
		Window   measure.Window
		Base     map[string]row `json:"base_latency_ms"`
	}
	read(&e)
	var pairs []measure.Pair
	for _, p := range e.Pairs {
		provider, model, _ := strings.Cut(p, "/")
		pairs = append(pairs, measure.Pair{Provider: core.ProviderID(provider), Model: core.Model(model)})
	}
	report := measure.Offline(slices.Values(e.Receipts), e.At, pairs)
	if report.Window != e.Window {
		t.Errorf("window %v, want %v", report.Window, e.Window)
	}
	got := map[string]row{}
	for _, r := range report.Measures {
		if r.Measure == measure.BaseLatency {
			got[string(r.Provider)+"/"+string(r.Model)] = row{r.Jobs, r.Own, r.ModelMedian, r.Value, r.Basis}
		}
	}
	if !maps.Equal(got, e.Base) {
		t.Errorf("got  %+v\nwant %+v", got, e.Base)
	}
}

func exampleTTFT(t *testing.T, read func(any)) {
	var e struct {
		Samples   [][2]float64
		Estimates []float64
	}
	read(&e)
	start := date(1, 0, 0)
	now := start
	b := newBoard(t, func() time.Time { return now }, newVault())
	for i, s := range e.Samples {
		now = start.Add(time.Duration(s[0]) * time.Millisecond)
		b.Record(streamedCall(now, 500, s[1]))
		if got := b.TTFT("p/m"); math.Abs(got.V-e.Estimates[i]) > 1e-9 {
			t.Errorf("after sample %d: %v, want %v", i, got, e.Estimates[i])
		}
	}
}

func examplePredict(t *testing.T, read func(any)) {
	var e struct {
		Fresh, Output int64
		Base          core.Opt[float64] `json:"base_latency_ms"`
		Prefill       core.Opt[float64] `json:"prefill_tps"`
		OutputTPS     core.Opt[float64] `json:"output_tps"`
		Queue         core.Opt[float64] `json:"queue_wait_ms"`
		Wait          core.Opt[float64] `json:"wait_ms"`
		First         core.Opt[float64] `json:"first_output_ms"`
	}
	read(&e)
	p := measure.Predict(core.Estimate{Fresh: e.Fresh, Output: e.Output}, measuresOf(e.Base, e.Prefill, e.OutputTPS), e.Queue)
	if p.Wait() != e.Wait || p.FirstOutput() != e.First {
		t.Errorf("wait %v, first output %v, want %v and %v", p.Wait(), p.FirstOutput(), e.Wait, e.First)
	}
}

func exampleSlow(t *testing.T, read func(any)) {
	var e struct {
		Timing core.Timing
		Class  string
	}
	read(&e)
	if got := measure.Slow(e.Timing, core.DefaultSettings().Slow); got != e.Class {
		t.Errorf("%q, want %q", got, e.Class)
	}
}
