package scripts_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"headway/core"
	"headway/core/market"
	"headway/scripts"
)

// generous is a time limit that no good script meets on a busy machine.
const generous = 10 * time.Second

func example(t testing.TB, name string) core.Script {
	t.Helper()
	source, err := fs.ReadFile(scripts.Files(), "examples/"+name+".js")
	if err != nil {
		t.Fatal(err)
	}
	s, err := scripts.Load(name, name+".js", source)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func order(t *testing.T, auction []byte, s core.Script, at time.Time, seed uint64) (ids []core.OfferID) {
	t.Helper()
	res, err := market.RankScript(auction, s, at, seed, generous)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range res.Order {
		ids = append(ids, o.Offer)
	}
	return ids
}

// twins are the built-in strategies and the examples that are the same.
func twins(t testing.TB) map[string]core.Script {
	m := map[string]core.Script{}
	for _, s := range market.Strategies() {
		m[s.Name()] = example(t, "my-"+s.Name())
	}
	return m
}

func TestTwinsOnTheVectors(t *testing.T) {
	data, err := os.ReadFile("../testdata/vectors/rank.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name    string          `json:"name"`
		Auction json.RawMessage `json:"auction"`
		Want    struct {
			Order []core.OfferID `json:"order"`
		} `json:"want"`
	}
	if err := json.Unmarshal(data, &cases); err != nil || len(cases) == 0 {
		t.Fatal(len(cases), err)
	}
	twin := twins(t)
	for _, c := range cases {
		var a struct {
			Strategy string `json:"strategy"`
		}
		if err := json.Unmarshal(c.Auction, &a); err != nil {
			t.Fatal(err)
		}
		s := twin[a.Strategy]
		if s == nil {
			t.Fatalf("%s: no twin of %q", c.Name, a.Strategy)
		}
		if got := order(t, c.Auction, s, time.Time{}, 1); !slices.Equal(got, c.Want.Order) {
			t.Errorf("%s: %v, want %v", c.Name, got, c.Want.Order)
		}
	}
}

// Random auctions have few values each, so that there are many ties.
func TestTwinsOnRandomAuctions(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	pick := func(vs ...any) any { return vs[r.IntN(len(vs))] }
	twin := twins(t)
	for name, s := range twin {
		for range 100 {
			var offers []any
			for i := range 1 + r.IntN(10) {
				o := map[string]any{"id": fmt.Sprintf("o%02d", i), "input_usd_per_mtok": pick("1", 2), "output_usd_per_mtok": pick("1", "2")}
				for field, vs := range map[string][]any{"ttft_ms": {500, 750, 751}, "base_latency_ms": {200, 300}, "prefill_tps": {4000},
					"output_tps": {50, 100}, "own_output_jobs": {4, 5}, "own_output_tps": {50, 100}} {
					if v := pick(append(vs, nil)...); v != nil || r.IntN(8) > 0 {
						o[field] = v
					}
				}
				offers = append(offers, o)
			}
			auction, err := json.Marshal(map[string]any{"strategy": name, "time_value_usd_per_hour": pick("0", "1", 1000), "offers": offers,
				"job": map[string]any{"fresh_input_tokens": 1000, "expected_output_tokens": 0, "max_output_tokens": 500}})
			if err != nil {
				t.Fatal(err)
			}
			want, err := market.Rank(auction)
			if err != nil {
				t.Fatal(err)
			}
			if got := order(t, auction, s, time.Time{}, 1); !slices.Equal(got, want.Order) {
				t.Fatalf("%s: %v, want %v of %s", name, got, want.Order, auction)
			}
		}
	}
}

// auctionOf is one of offers of the same price, each with more fields.
func auctionOf(job string, offers ...string) []byte {
	var list []string
	for i, more := range offers {
		list = append(list, fmt.Sprintf(`{"id": "o%d", "input_usd_per_mtok": "1", "output_usd_per_mtok": "1"%s}`, i, more))
	}
	return []byte(`{"job": {"fresh_input_tokens": 1000, "expected_output_tokens": 100` + job + `}, "offers": [` + strings.Join(list, ",") + `]}`)
}

func TestPreferOwnNodes(t *testing.T) {
	s := example(t, "prefer-own-nodes")
	for queue, want := range map[string]core.OfferID{"0": "o1", "5000": "o1", "5001": "o0"} {
		a := auctionOf("", `, "cache_read_usd_per_mtok": "1"`, `, "input_usd_per_mtok": "9"`)
		a = []byte(strings.Replace(string(a), `"id": "o1", "input_usd_per_mtok": "1", "output_usd_per_mtok": "1", "input_usd_per_mtok": "9"`,
			`"id": "o1", "labels": {"own": "yes"}, "queue_wait_ms": `+queue+`, "input_usd_per_mtok": "9", "output_usd_per_mtok": "1"`, 1))
		if got := order(t, a, s, time.Time{}, 1); got[0] != want {
			t.Errorf("a queue of %s ms: %v, want %s first", queue, got, want)
		}
	}
	node := auctionOf("", "", `, "node": "rack", "queue_wait_ms": 10, "cache_read_usd_per_mtok": "1"`)
	if got := order(t, node, s, time.Time{}, 1); got[0] != "o1" {
		t.Errorf("a node without a label: %v", got)
	}
	full := auctionOf("", "", `, "labels": {"own": "yes"}, "full": true`)
	if got := order(t, full, s, time.Time{}, 1); got[0] != "o0" {
		t.Errorf("a full node: %v", got)
	}
}

func TestOfficeHours(t *testing.T) {
	s := example(t, "office-hours")
	a := []byte(`{"job": {"fresh_input_tokens": 10, "expected_output_tokens": 10}, "offers": [
		{"id": "quick", "input_usd_per_mtok": 9, "output_usd_per_mtok": 9, "ttft_ms": 10},
		{"id": "cheap", "input_usd_per_mtok": 1, "output_usd_per_mtok": 1, "ttft_ms": 900}]}`)
	for at, want := range map[string]core.OfferID{
		"2026-11-30T06:59:59Z": "cheap", "2026-11-30T07:00:00Z": "quick", "2026-11-30T16:59:59Z": "quick", "2026-11-30T17:00:00Z": "cheap",
		"2026-11-28T12:00:00Z": "cheap", "2026-11-30T23:30:00+14:00": "quick", // 09:30 UTC
	} {
		moment, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		if got := order(t, a, s, moment, 1); got[0] != want {
			t.Errorf("%s: %v, want %s first", at, got, want)
		}
	}
}

func TestSticky(t *testing.T) {
	s := example(t, "sticky")
	first := map[core.OfferID]int{}
	for i := range 300 {
		job := fmt.Sprintf(`, "headers": {"x-tenant": "tenant-%d"}`, i)
		three, two := order(t, auctionOf(job, "", "", ""), s, time.Time{}, 1), order(t, auctionOf(job, "", ""), s, time.Time{}, uint64(i))
		first[three[0]]++
		if three[0] != "o2" && two[0] != three[0] {
			t.Fatalf("%s: %v, without o2 %v", job, three, two)
		}
	}
	for id, n := range first {
		if n < 60 || n > 140 {
			t.Errorf("%s is the first of %d of 300 tenants", id, n)
		}
	}
	if len(first) != 3 {
		t.Errorf("%v", first)
	}
}

func TestABTest(t *testing.T) {
	s := example(t, "ab-test")
	a := []byte(`{"job": {"fresh_input_tokens": 10}, "offers": [
		{"id": "quick", "input_usd_per_mtok": 9, "output_usd_per_mtok": 9, "base_latency_ms": 10, "prefill_tps": 1000},
		{"id": "cheap", "input_usd_per_mtok": 1, "output_usd_per_mtok": 1, "base_latency_ms": 900, "prefill_tps": 1000}]}`)
	quick := 0
	for seed := range uint64(1000) {
		got := order(t, a, s, time.Time{}, seed)
		if again := order(t, a, s, time.Time{}, seed); !slices.Equal(got, again) {
			t.Fatalf("seed %d: %v, then %v", seed, got, again)
		}
		if got[0] == "quick" {
			quick++
		}
	}
	if quick < 70 || quick > 130 {
		t.Errorf("%d of 1000 calls by the wait, want about 100", quick)
	}
}

// TestEveryExampleIsTested: each has a test above.
func TestEveryExampleIsTested(t *testing.T) {
	tested := []string{"prefer-own-nodes", "office-hours", "sticky", "ab-test"}
	for _, s := range market.Strategies() {
		tested = append(tested, "my-"+s.Name())
	}
	list, err := fs.Glob(scripts.Files(), "examples/*.js")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range list {
		name := strings.TrimSuffix(strings.TrimPrefix(path, "examples/"), ".js")
		if !slices.Contains(tested, name) {
			t.Errorf("%s is not tested", path)
		}
		source, err := fs.ReadFile(scripts.Files(), path)
		if err != nil || !strings.HasPrefix(string(source), "/// <reference path=\"../headway.d.ts\" />\n// ") {
			t.Errorf("%s: %v, %.80q", path, err, source)
		}
	}
	if len(list) != len(tested) {
		t.Errorf("%d examples, %d tested", len(list), len(tested))
	}
}
