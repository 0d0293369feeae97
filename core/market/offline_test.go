package market_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"headway/core"
	"headway/core/market"
)

func TestRankResultFields(t *testing.T) {
	res, err := market.Rank([]byte(`{"strategy":"price-and-wait","time_value_usd_per_hour":36,
		"job":{"fresh_input_tokens":1000,"cached_input_tokens":0,"expected_output_tokens":0,"max_output_tokens":500},
		"offers":[{"id":"a","provider":"p","input_usd_per_mtok":0.1,"output_usd_per_mtok":1,"base_latency_ms":500,
		"prefill_tps":1000,"queue_wait_ms":500,"cached_input_tokens":null}]}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(res)
	want := `{"order":["a"],"ranked_on":"price-and-wait","score_usd":{"a":0.0201},"predicted_wait_ms":{"a":2000},"charge_usd":{"a":0.0001}}`
	if err != nil || string(got) != want {
		t.Errorf("got  %s %v\nwant %s", got, err, want)
	}
}

func TestRankDefaults(t *testing.T) {
	res, err := market.Rank([]byte(`{"offers":[{"id":"a","input_usd_per_mtok":1,"output_usd_per_mtok":1,"base_latency_ms":3600000}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if res.RankedOn != "price-and-wait" || res.Score["a"] != 1 {
		t.Errorf("%+v, want price-and-wait at $1 an hour", res)
	}
}

func TestRankErrors(t *testing.T) {
	const good = `"input_usd_per_mtok":"1","output_usd_per_mtok":"1"`
	one := func(fields string) string { return `{"job":{},"offers":[{"id":"a",` + good + fields + `}]}` }
	for in, want := range map[string]string{
		``:                                   "not JSON: line 1, column 0: unexpected end of JSON input",
		"{\n \"job\": }":                     "not JSON: line 2, column 9: invalid character '}' looking for beginning of value",
		`{} {}`:                              "not JSON: line 1, column 4: invalid character '{' after top-level value",
		`[]`:                                 "auction: must be an object",
		`{"offers":[]}`:                      "offers: there is none to rank",
		`{"offers":{}}`:                      "offers: must be a list",
		`{"offers":[3]}`:                     "offers[0]: must be an object",
		`{"job":1,"offers":[]}`:              "job: must be an object",
		`{"speed":1}`:                        "speed: is not a field here",
		`{"strategy":7}`:                     "strategy: must be a text",
		`{"strategy":"","offers":[]}`:        `strategy: "" is not a strategy`,
		`{"strategy":"best","offers":[]}`:    `strategy: "best" is not a strategy`,
		`{"time_value_usd_per_hour":"x"}`:    `time_value_usd_per_hour: "x" is not a decimal number with at most 12 decimals`,
		`{"time_value_usd_per_hour":-1}`:     "time_value_usd_per_hour: -1 is negative",
		`{"job":{"tokens":1},"offers":[]}`:   "job.tokens: is not a field here",
		`{"offers":[{` + good + `}]}`:        "offers[0].id: is missing",
		`{"offers":[{"id":"a"}]}`:            "offers[0].input_usd_per_mtok: is missing",
		one(`,"Prefill_tps":1`):              "offers[0].Prefill_tps: is not a field here",
		one(`,"id":"b"`):                     "offers[0].id: is there twice",
		one(`,"prefill_tps":0`):              "offers[0].prefill_tps: 0 is not a speed",
		one(`,"output_tps":"50"`):            `offers[0].output_tps: "50" must be a number from 0 to 1e+15`,
		one(`,"ttft_ms":-1`):                 "offers[0].ttft_ms: -1 must be a number from 0 to 1e+15",
		one(`,"ttft_ms":1e999`):              "offers[0].ttft_ms: 1e999 must be a number from 0 to 1e+15",
		one(`,"own_output_jobs":1.5`):        "offers[0].own_output_jobs: 1.5 must be a whole number",
		one(`,"fresh_input_tokens":1e30`):    "offers[0].fresh_input_tokens: 1e30 must be a number from 0 to 1e+15",
		one(`,"cache_read_usd_per_mtok":[]`): "offers[0].cache_read_usd_per_mtok: must be a decimal number, as a text or a number",
		one(`,"cache_read_usd_per_mtok":-1`): "offers[0].cache_read_usd_per_mtok: -1 is negative",
		one(`},{"id":"a",` + good):           `offers[1].id: "a" is already the id of offers[0]`,
		one(`,"output_tps":1e-300`):          "offers[0].output_tps: 1e-300 is not a speed",
		one(`,"fresh_input_tokens":1e14`):    "offers[0]: its price for so many tokens is out of range",
		`{"offers":[{"id":"a","input_usd_per_mtok":"1.1234567","output_usd_per_mtok":1}]}`: `offers[0].input_usd_per_mtok: "1.1234567" is not a decimal number with at most 6 decimals`,
	} {
		res, err := market.Rank([]byte(in))
		var e *core.Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %+v, %v, want an error", in, res, err)
		} else if e.Kind != core.Invalid || e.Msg != want {
			t.Errorf("%s:\ngot  %s\nwant %s", in, e.Msg, want)
		}
	}
}

func TestRankHints(t *testing.T) {
	for in, want := range map[string]string{
		`{"strategy":"best","offers":[]}`: "it is one of price-and-wait, cheapest, fastest, fastest-first-token, balanced",
		`{"speed":1}`:                     "the fields are strategy, time_value_usd_per_hour, job, offers",
		// A later mistake's hint does not stick to the first one.
		`{"strategy":7,"offers":[{"id":"a","x":1}]}`: "",
	} {
		_, err := market.Rank([]byte(in))
		var e *core.Error
		if !errors.As(err, &e) || e.Hint != want {
			t.Errorf("%s: %v with hint %q, want %q", in, err, e.Hint, want)
		}
	}
}

func FuzzRank(f *testing.F) {
	f.Add([]byte(`{"strategy":"balanced","job":{},"offers":[{"id":"a","input_usd_per_mtok":1,"output_usd_per_mtok":"1","ttft_ms":5}]}`))
	f.Add([]byte(`{"offers":[{"id":"a","input_usd_per_mtok":{},"output_usd_per_mtok":"1"}]}`))
	f.Add([]byte(`{"strategy":"` + strings.Repeat("x", 100) + `"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		res, err := market.Rank(data)
		if (res == nil) == (err == nil) {
			t.Errorf("%q: %v and %v", data, res, err)
		}
		if err == nil {
			if _, err := json.Marshal(res); err != nil {
				t.Errorf("%q: %v", data, err)
			}
		}
	})
}
