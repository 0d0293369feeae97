package command_test

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// vectors reads a file of testdata/vectors.
func vectors(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(moduleRoot, "testdata", "vectors", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

// said runs the binary and reads the JSON that it prints.
func said(t *testing.T, bin string, in []byte, args ...string) map[string]any {
	t.Helper()
	cmd := exec.Command(bin, args...)
	cmd.Stdin = bytes.NewReader(in)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil || errs.Len() > 0 {
		t.Fatalf("headway %v: %v: %s", args, err, errs.String())
	}
	var v map[string]any
	if err := json.Unmarshal(out, &v); err != nil {
		t.Fatalf("headway %v: %v: %s", args, err, out)
	}
	return v
}

func TestRankVectorsThroughTheBinary(t *testing.T) {
	var cases []struct {
		Name    string
		Auction json.RawMessage
		Want    map[string]any
	}
	vectors(t, "rank.json", &cases)
	if len(cases) == 0 {
		t.Fatal("no vectors")
	}
	bin := buildHeadway(t)
	for _, c := range cases {
		got := said(t, bin, c.Auction, "rank", "-f", "-", "--json")
		if len(got) != len(c.Want) {
			t.Errorf("%s: fields of %v, want those of %v", c.Name, got, c.Want)
		}
		for field, want := range c.Want {
			if !near(got[field], want) {
				t.Errorf("%s: %s is %v, want %v", c.Name, field, got[field], want)
			}
		}
	}
}

// near compares JSON values, figures within 1e-9 of each other.
func near(a, b any) bool {
	switch a := a.(type) {
	case float64:
		b, ok := b.(float64)
		return ok && math.Abs(a-b) <= 1e-9*math.Max(math.Abs(a), math.Abs(b))
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, near)
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			if w, ok := b[k]; !ok || !near(v, w) {
				return false
			}
		}
		return true
	}
	return a == b
}

func TestMeasureVectorsThroughTheBinary(t *testing.T) {
	var cases []struct {
		Name, At string
		Pairs    []struct{ Provider, Model string }
		Receipts []json.RawMessage
		Want     struct {
			Window   map[string]any
			Measures []map[string]any
		}
	}
	vectors(t, "measure.json", &cases)
	if len(cases) == 0 {
		t.Fatal("no vectors")
	}
	bin := buildHeadway(t)
	for _, c := range cases {
		file := filepath.Join(t.TempDir(), "receipts.jsonl")
		var lines bytes.Buffer
		for _, r := range c.Receipts {
			if err := json.Compact(&lines, r); err != nil {
				t.Fatal(err)
			}
			lines.WriteByte('\n')
		}
		if err := os.WriteFile(file, lines.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		args := []string{"measure", "-f", file, "--at", c.At, "--json"}
		for _, p := range c.Pairs {
			args = append(args, "--pair", p.Provider+"/"+p.Model)
		}
		got := said(t, bin, nil, args...)
		if !near(got["window"], map[string]any(c.Want.Window)) {
			t.Errorf("%s: window %v, want %v", c.Name, got["window"], c.Want.Window)
		}
		rows := got["measures"].([]any)
		if len(rows) != len(c.Want.Measures) {
			t.Errorf("%s: %d rows, want %d", c.Name, len(rows), len(c.Want.Measures))
			continue
		}
		for i, want := range c.Want.Measures {
			row := rows[i].(map[string]any)
			for _, field := range []string{"provider", "model", "measure", "jobs", "basis"} {
				if row[field] != want[field] {
					t.Errorf("%s, row %d: %s is %v, want %v", c.Name, i, field, row[field], want[field])
				}
			}
			for _, field := range []string{"own", "value"} {
				if !inside(row[field], want[field]) {
					t.Errorf("%s, row %d: %s is %v, want within %v", c.Name, i, field, row[field], want[field])
				}
			}
		}
	}
}

// inside tells whether a value is within 1.1% of some number of an interval, and
// absent exactly where there is none.
func inside(got, want any) bool {
	v, there := got.(float64)
	interval, wanted := want.([]any)
	if !wanted || !there {
		return wanted == there
	}
	return v >= interval[0].(float64)/1.011 && v <= interval[1].(float64)*1.011
}
