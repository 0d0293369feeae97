package measure_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"headway/core"
	"headway/core/measure"
)

// vector reads a file of testdata/vectors.
func vector(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "vectors", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

type measureVector struct {
	Name     string
	At       time.Time
	Pairs    []measure.Pair
	Receipts []*core.Receipt
	Want     struct {
		Window   measure.Window
		Measures []wantRow
	}
}

type wantRow struct {
	Provider   core.ProviderID
	Model      core.Model
	Measure    string
	Jobs       int64
	Own, Value *[2]float64
	Basis      core.Basis
}

// within tells whether a value is within 1.1% of some number of an interval, and
// absent exactly where there is none.
func within(got core.Opt[float64], want *[2]float64) bool {
	if want == nil || !got.OK {
		return want == nil && !got.OK
	}
	return got.V >= want[0]/1.011 && got.V <= want[1]*1.011
}

func checkRows(t *testing.T, got []measure.Row, want []wantRow) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d rows, want %d", len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		if g.Provider != w.Provider || g.Model != w.Model || g.Measure != w.Measure {
			t.Fatalf("row %d is of %s/%s %s, want %s/%s %s", i, g.Provider, g.Model, g.Measure, w.Provider, w.Model, w.Measure)
		}
		if g.Jobs != w.Jobs || g.Basis != w.Basis || !within(g.Own, w.Own) || !within(g.Value, w.Value) {
			t.Errorf("%s/%s %s: %+v, want %+v (own %v, value %v)", w.Provider, w.Model, w.Measure, g, w, w.Own, w.Value)
		}
	}
}

func TestMeasureVectors(t *testing.T) {
	var cases []measureVector
	vector(t, "measure.json", &cases)
	if len(cases) == 0 {
		t.Fatal("no vectors")
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			got := measure.Offline(slices.Values(c.Receipts), c.At, c.Pairs)
			if got.Window != c.Want.Window {
				t.Errorf("window %v, want %v", got.Window, c.Want.Window)
			}
			checkRows(t, got.Measures, c.Want.Measures)

			// The order of the receipts is nothing to a median.
			slices.Reverse(c.Receipts)
			again := measure.Offline(slices.Values(c.Receipts), c.At, nil)
			for _, row := range again.Measures {
				if !slices.Contains(got.Measures, row) {
					t.Errorf("in reverse order: %+v", row)
				}
			}
		})
	}
}

// A router that was told of the same receipts as they settled has the same
// numbers at that time, after a restart too; only what the strict rules leave
// absent may be filled from the day that is not over.
func TestBoardAgreesWithOffline(t *testing.T) {
	var cases []measureVector
	vector(t, "measure.json", &cases)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			strict := measure.Offline(slices.Values(c.Receipts), c.At, c.Pairs)
			slices.SortStableFunc(c.Receipts, func(a, b *core.Receipt) int { return a.SettledAt.Compare(b.SettledAt) })
			now := c.Receipts[0].SettledAt
			clock := func() time.Time { return now }
			store := newVault()
			board := newBoard(t, clock, store)
			for _, r := range c.Receipts {
				now = r.SettledAt
				board.Record(r)
			}
			store.take(t, board)
			now = c.At
			for _, b := range []*measure.Board{board, newBoard(t, clock, store)} {
				rows := b.Rows(c.Pairs)
				if b.Window() != strict.Window {
					t.Errorf("window %v, want %v", b.Window(), strict.Window)
				}
				for i, want := range strict.Measures {
					got := rows[i]
					if want.Basis == core.BasisNone && got.Basis == core.BasisToday {
						continue
					}
					if got != want {
						t.Errorf("%+v, want %+v", got, want)
					}
				}
			}
		})
	}
}

func TestTTFTVectors(t *testing.T) {
	var cases []struct {
		Samples [][2]float64
		Want    []float64
	}
	vector(t, "ttft-ewma.json", &cases)
	if len(cases) == 0 {
		t.Fatal("no vectors")
	}
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for i, c := range cases {
		now := start
		clock := func() time.Time { return now }
		store := newVault()
		board := newBoard(t, clock, store)
		for k, s := range c.Samples {
			now = start.Add(time.Duration(s[0]) * time.Millisecond)
			r := streamedCall(now, 500, s[1])
			board.Record(r)
			store.take(t, board)
			if k%2 == 1 { // a restart forgets nothing
				board = newBoard(t, clock, store)
			}
			if got := board.TTFT(r.Offer); !got.OK || math.Abs(got.V-c.Want[k]) > 1e-9 {
				t.Errorf("case %d after sample %d: %v, want %v", i, k, got, c.Want[k])
			}
		}
	}
}
