package control_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"headway/core"
	"headway/core/control"
	"headway/core/measure"
)

// The stored sketches are those of the receipts, whole, and read back as they are; what
// is not whole is refused with its line.
func TestDays(t *testing.T) {
	r := newRig(t)
	for i := range 600 { // more sketches than one page of them
		c := &core.Receipt{At: time.Now(), Provider: "fast", Model: core.Model("m" + string(rune('a'+i%26)) + string(rune('a'+i/26))), Offer: "fast/m",
			Usage: core.Usage{UncachedInput: core.Some(int64(100)), Output: core.Some(int64(100))}, Annex: core.Annex{Streamed: true}}
		c.Timing.DispatchToFirstToken = core.Some(100 + float64(i))
		r.keep(c)
	}
	status, text := serve(r.desk.Local(), "GET", "/admin/v1/measures/days", "", "")
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	s, err := control.ReadDays(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	day := time.Now().UTC().Format(time.DateOnly)
	if len(s.Sketches) != 600 || s.Log != nil || s.End != nil || s.First == "" || len(s.Medians) < 600*3 {
		t.Errorf("%d sketches, %d medians, %+v", len(s.Sketches), len(s.Medians), s.DaysHead)
	}
	for _, k := range s.Sketches {
		sketch, err := measure.ParseSketch(k.Sketch)
		if err != nil || k.Day > day || k.Measure != measure.BaseLatency || k.Provider != "fast" || k.Jobs != 1 || sketch.Jobs() != 1 {
			t.Fatalf("%+v %v", k, err)
		}
	}
	if slices.ContainsFunc(s.Sketches[1:], func(k measure.DaySketch) bool { return k.Model == s.Sketches[0].Model }) {
		t.Error("a sketch is there twice")
	}

	lines := strings.SplitAfter(text, "\n")
	for name, tt := range map[string]struct{ text, want string }{
		"nothing":        {"", "cut short"},
		"a page":         {"<html>", "line 1: this is not a line"},
		"another answer": {`{"items":[]}`, "line 1: this is not a line"},
		"no head":        {lines[1], "line 1: these are not the stored day sketches"},
		"a later format": {strings.Replace(lines[0], "sketches v1", "sketches v2", 1), "line 1: these are not the stored day sketches"},
		"cut":            {strings.Join(lines[:100], ""), "line 101: they are cut short"},
		"cut in a line":  {text[:len(text)-20], "this is not a line"},
		"one less":       {lines[0] + strings.Join(lines[2:], ""), "599 and"},
		"behind its end": {text + lines[1], "it goes on behind its end"},
		"two values":     {lines[0] + strings.TrimSpace(lines[1]) + lines[1], "line 2: this is not a line"},
		"a long line":    {lines[0] + `{"sketch":{"day":"` + strings.Repeat("x", 1<<20), "line 2: it is longer"},
	} {
		if _, err := control.ReadDays(strings.NewReader(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}
