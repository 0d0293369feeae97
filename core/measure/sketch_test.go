package measure_test

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"headway/core/measure"
)

func sketchOf(values ...int64) *measure.Sketch {
	s := &measure.Sketch{}
	for _, v := range values {
		s.Add(v)
	}
	return s
}

// The boundaries by their rule; an hour in µs lies in bucket 1,904 and there are
// 2,702 up to 10^13 (FOUNDATIONS C).
func TestBoundaries(t *testing.T) {
	got := measure.Boundaries()
	want := uint64(1)
	hour, all := -1, 0
	for k, b := range got {
		if b != want {
			t.Fatalf("b[%d] = %d, want %d", k, b, want)
		}
		if b >= 100 && want > 100 && float64(b) > float64(got[k-1])*1.01 {
			t.Errorf("the step to b[%d] = %d is over 1%%", k, b)
		}
		if b <= 3_600_000_000 {
			hour++
		}
		if b <= 10_000_000_000_000 {
			all++
		}
		want = max(want+1, want*101/100)
	}
	if hour != 1904 || all != 2702 {
		t.Errorf("an hour in bucket %d and %d boundaries up to 10^13, want 1904 and 2702", hour, all)
	}
}

// A single value comes back to 0.5%, at the edges of each bucket and between.
func TestOneValueIsRightToHalfAPercent(t *testing.T) {
	edges := measure.Boundaries()
	for k := range len(edges) - 1 {
		for _, v := range []int64{int64(edges[k]), int64(edges[k]+edges[k+1]) / 2, int64(edges[k+1]) - 1} {
			got := sketchOf(v).Median()
			if off := math.Abs(float64(got)-float64(v)) / float64(v); off > 0.005 || v < 200 && got != v {
				t.Fatalf("median of %d is %d, off by %.3f%%", v, got, off*100)
			}
		}
	}
}

func TestSketchBorders(t *testing.T) {
	tests := []struct {
		name string
		got  int64
		want int64
	}{
		{"empty", sketchOf().Median(), 0},
		{"below one counts as one", sketchOf(0).Median(), 1},
		{"negative counts as one", sketchOf(-5).Median(), 1},
		{"lower of two", sketchOf(100, 150).Median(), 100},
		{"middle of three", sketchOf(150, 100, 120).Median(), 120},
		{"lower middle of four", sketchOf(100, 110, 120, 130).Median(), 110},
		{"p90 of ten", sketchOf(1, 2, 3, 4, 5, 6, 7, 8, 9, 10).Quantile(900), 9},
		{"p90 of eleven", sketchOf(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11).Quantile(900), 10},
		{"lowest", sketchOf(7, 9).Quantile(0), 7},
		{"highest", sketchOf(7, 9).Quantile(1000), 9},
		{"over the highest", sketchOf(7, 9).Quantile(5000), 9},
		{"larger than the table", sketchOf(math.MaxInt64).Median(), sketchOf(10_000_000_000_000).Median()},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, tt.got, tt.want)
		}
	}
}

// Seven log-normal days, merged: the median is the exact lower median to 0.5%,
// and the bytes are those of one pass over all values, in whatever order.
func TestMergedDaysAreOnePass(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for trial := range 100 {
		var all []int64
		merged, pass := &measure.Sketch{}, &measure.Sketch{}
		var days []*measure.Sketch
		for range 7 {
			day := &measure.Sketch{}
			for range 1 + r.IntN(200) {
				v := int64(math.Exp(13 + 0.7*r.NormFloat64()))
				day.Add(v)
				pass.Add(v)
				all = append(all, v)
			}
			days = append(days, day)
		}
		for _, i := range r.Perm(len(days)) {
			merged.Merge(days[i])
		}
		if !bytes.Equal(merged.Append(nil), pass.Append(nil)) {
			t.Fatalf("trial %d: the merge differs from one pass", trial)
		}
		slices.Sort(all)
		exact := float64(all[(len(all)-1)/2])
		if off := math.Abs(float64(merged.Median())-exact) / exact; off > 0.005 {
			t.Errorf("trial %d: median off by %.3f%%", trial, off*100)
		}
	}
}

func TestMergeLeavesTheOtherAlone(t *testing.T) {
	a, b := sketchOf(100, 300, 500), sketchOf(200, 300, 600)
	before := b.Append(nil)
	a.Merge(b)
	a.Add(200)
	a.Merge(&measure.Sketch{})
	if !bytes.Equal(b.Append(nil), before) {
		t.Error("merging changed what was merged")
	}
	if want := sketchOf(100, 200, 200, 300, 300, 500, 600); !bytes.Equal(a.Append(nil), want.Append(nil)) || a.Jobs() != 7 {
		t.Errorf("merged to %x", a.Append(nil))
	}
	a.Reset()
	a.Merge(b)
	if !bytes.Equal(a.Append(nil), before) {
		t.Error("a reset sketch still holds something")
	}
}

func TestSketchBytes(t *testing.T) {
	// 1 is bucket 0 and 3 bucket 2: version, n, (0,1), (2,2).
	if got, want := sketchOf(3, 1, 3).Append(nil), []byte{1, 3, 0, 1, 2, 2}; !bytes.Equal(got, want) {
		t.Errorf("bytes %v, want %v", got, want)
	}
	if got, want := sketchOf().Append([]byte{9}), []byte{9, 1, 0}; !bytes.Equal(got, want) {
		t.Errorf("bytes %v, want %v", got, want)
	}
}

func TestParseRefusesDamage(t *testing.T) {
	good := sketchOf(1, 3, 3, 5_000_000).Append(nil)
	if s, err := measure.ParseSketch(good); err != nil || !bytes.Equal(s.Append(nil), good) {
		t.Fatalf("the good one: %v", err)
	}
	tests := map[string][]byte{
		"nothing":               {},
		"version alone":         {1},
		"another version":       {2, 0},
		"sum too small":         {1, 3, 0, 1, 2, 1},
		"sum too large":         {1, 3, 0, 1, 2, 3},
		"count of 0":            {1, 1, 0, 0, 2, 1},
		"a bucket twice":        {1, 2, 3, 1, 0, 1},
		"padded number":         {1, 0x81, 0x00, 0, 1},
		"bucket without count":  {1, 1, 0},
		"bucket out of range":   {1, 1, 0x8e, 0x15, 1},
		"far out of range":      {1, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 1},
		"number over 64 bits":   {1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02},
		"more jobs than can be": {1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
		"a byte behind":         append(slices.Clone(good), 1),
	}
	for i := range good {
		tests["cut at "+string(rune('0'+i))] = good[:i]
	}
	for name, data := range tests {
		if _, err := measure.ParseSketch(data); !errors.Is(err, measure.ErrSketch) {
			t.Errorf("%s: %v, want ErrSketch", name, err)
		}
	}
}

func FuzzParseSketch(f *testing.F) {
	f.Add([]byte{1, 0})
	f.Add(sketchOf(1, 3, 3, 5_000_000).Append(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := measure.ParseSketch(data)
		if err != nil {
			return
		}
		if !bytes.Equal(s.Append(nil), data) {
			t.Errorf("%x reads as %x", data, s.Append(nil))
		}
		twice := &measure.Sketch{}
		twice.Merge(s)
		twice.Merge(s)
		if twice.Jobs() != 2*s.Jobs() || twice.Median() != s.Median() {
			t.Errorf("%x merged with itself: %d jobs, median %d", data, twice.Jobs(), twice.Median())
		}
	})
}

func BenchmarkAdd(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	values := make([]int64, 4096)
	for i := range values {
		values[i] = int64(math.Exp(13 + 0.7*r.NormFloat64()))
	}
	s := sketchOf(values...)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.Add(values[i%len(values)])
	}
}

func BenchmarkWeekMedian(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	var days [7]measure.Sketch
	for i := range days {
		for range 1000 {
			days[i].Add(int64(math.Exp(13 + 0.7*r.NormFloat64())))
		}
	}
	week := &measure.Sketch{}
	b.ReportAllocs()
	for b.Loop() {
		week.Reset()
		for i := range days {
			week.Merge(&days[i])
		}
		if week.Median() == 0 {
			b.Fatal("no median")
		}
	}
}
