package estimate_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"headway/core"
)

// describe is what a receipt keeps of a job's prompt.
func describe(t testing.TB, job *core.Job) ([]int64, string) {
	var a core.Annex
	newRig(t).e.Read(job, "k").Describe(&a)
	return a.PromptUnits, a.PromptClass
}

// TestUnits: the counts of MEASURES.md §8, in its order: calls, tools, texts, words,
// letters, digits, numbers, marks, runs of marks, blanks, gaps, breaks, CJK, other,
// rest.
func TestUnits(t *testing.T) {
	for _, c := range []struct {
		name  string
		texts []string // as in JSON
		units []int64
		class string
	}{
		{"words", []string{"It is so"}, []int64{1, 0, 1, 3, 6, 0, 0, 0, 0, 2, 2}, "prose"},
		{"two texts", []string{"It", "is"}, []int64{1, 0, 2, 2, 4}, "prose"},
		{"accents", []string{"caf\u00e9 \u0142\u00f3d\u017a"}, []int64{1, 0, 1, 2, 8, 0, 0, 0, 0, 1, 1}, "prose"},
		{"and escaped", []string{`caf\u00e9 \u0142\u00F3d\u017a`}, []int64{1, 0, 1, 2, 8, 0, 0, 0, 0, 1, 1}, "prose"},
		{"camel case", []string{"readAll HTTPServer"}, []int64{1, 0, 1, 3, 17, 0, 0, 0, 0, 1, 1}, "prose"},
		{"numbers", []string{"12 345 x9"}, []int64{1, 0, 1, 1, 1, 6, 3, 0, 0, 2, 2}, "prose"},
		{"lines", []string{`a;\n\n\tb();`}, []int64{1, 0, 1, 2, 2, 0, 0, 4, 2, 3, 1, 2}, "code"},
		{"escapes", []string{`\"a\\b\/c\"`}, []int64{1, 0, 1, 3, 3, 0, 0, 4, 4}, "markup"},
		{"json", []string{`{\"key\":\"value\",\"n\":1}`}, []int64{1, 0, 1, 3, 9, 1, 1, 11, 5}, "markup"},
		{"chinese", []string{"你好，世界"}, []int64{1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5}, "cjk"},
		{"and escaped", []string{`\u4f60\u597d\uff0c\u4e16\u754c`}, []int64{1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5}, "cjk"},
		{"japanese, korean", []string{"こんにちは カタカナ 한국어"}, []int64{1, 0, 1, 0, 0, 0, 0, 0, 0, 2, 2, 0, 12}, "cjk"},
		{"russian", []string{"Привет мир"}, []int64{1, 0, 1, 2, 0, 0, 0, 0, 0, 1, 1, 0, 0, 18}, "other"},
		{"and escaped", []string{`\u041f\u0440 \u043c`}, []int64{1, 0, 1, 2, 0, 0, 0, 0, 0, 1, 1, 0, 0, 6}, "other"},
		{"a broken escape", []string{`\`, `\u00`, `\uzzzz`, `\x`}, []int64{1, 0, 4, 3, 7, 2, 1, 4, 4}, "code"},
	} {
		job := textJob(c.texts...)
		job.PromptBytes = 0 // no rest
		units, class := describe(t, job)
		if !slices.Equal(units, c.units) || class != c.class {
			t.Errorf("%s: %v, %s, want %v, %s", c.name, units, class, c.units, c.class)
		}
	}
}

func TestTools(t *testing.T) {
	job := textJob("so it is")
	job.Features = core.FeatureTools | core.FeatureSchema
	if units, _ := describe(t, job); units[1] != 1 {
		t.Errorf("tools offered: %v", units)
	}
}

// What is in no text is counted in bytes.
func TestRest(t *testing.T) {
	job := textJob("What is this?")
	job.PromptBytes += 3000
	if units, class := describe(t, job); len(units) != 15 || units[14] != 3000 || class != "other" {
		t.Errorf("an image: %v, %s", units, class)
	}
	long := textJob(strings.Repeat(`so it \"is\", and that is it.\n`, 4000))
	if units, _ := describe(t, long); len(units) != 12 {
		t.Errorf("a long text: %v", units)
	}
	if units, class := describe(t, &core.Job{Body: []byte(`{"prompt":[1,2]}`), PromptBytes: 8}); len(units) != 15 || units[14] != 8 || class != "other" {
		t.Errorf("tokens as numbers: %v, %s", units, class)
	}
	if units, class := describe(t, &core.Job{PromptBytes: 1000}); len(units) < 9 || units[4] < 500 || class != "prose" {
		t.Errorf("a size alone: %v, %s", units, class)
	}
}

// Every sort of text is counted, in windows, as if all of it was: also where kinds
// take turns, and where it is in many texts.
func TestWindows(t *testing.T) {
	c := newCorpus(5)
	for _, class := range allClasses {
		for _, pieces := range []int{1, 7, 3000} {
			var texts []string
			for range pieces {
				texts = append(texts, c.prompt(class, 600_000/pieces)...)
			}
			// Whole: the sum over pieces that are short enough.
			whole := make([]float64, 15)
			for _, text := range texts {
				for len(text) > 0 {
					n := min(len(text), 4000)
					if cut := strings.LastIndexAny(text[:n], " \n\"。"); n < len(text) && cut > 0 {
						n = cut
					}
					units, _ := describe(t, jobOf([]string{strings.ToValidUTF8(text[:n], "")}))
					for i, v := range units {
						whole[i] += float64(v)
					}
					text = text[n:]
				}
			}
			units, _ := describe(t, jobOf(texts))
			all := 0.
			for i, v := range units[3:] {
				all += whole[i+3]
				// Of what there is much the share must be right.
				if whole[i+3] > 50_000 && math.Abs(float64(v)-whole[i+3]) > 0.1*whole[i+3] {
					t.Errorf("%s in %d: unit %d is %d, of all of it %.0f", class, pieces, i+3, v, whole[i+3])
				}
			}
			if all < 150_000 {
				t.Fatalf("%s: only %.0f units", class, all)
			}
		}
	}
}

// Reading allocates the reading, and what it notes of the prefix.
func TestReadAllocates(t *testing.T) {
	e := newRig(t).e
	job := textJob(strings.Repeat("some words ", 20_000))
	if n := testing.AllocsPerRun(20, func() { e.Read(job, "k") }); n > 3 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"a":"b\u4f60\\"}`), 3, 9)
	f.Add([]byte(strings.Repeat(`\n`, 9000)), 1, 17_000)
	e := newRig(f).e
	f.Fuzz(func(t *testing.T, body []byte, from, to int) {
		from, to = min(max(from, 0), len(body)), min(max(to, 0), len(body))
		job := &core.Job{Body: body, PromptBytes: len(body), Turns: []core.Span{{From: min(from, to), To: max(from, to)}}}
		var a core.Annex
		r := e.Read(job, "k")
		r.Describe(&a)
		for i, n := range a.PromptUnits {
			if n < 0 || i > 2 && n > int64(3*len(body)+16) {
				t.Errorf("unit %d is %d", i, n)
			}
		}
		if n := r.Prompt("m"); n < 0 {
			t.Errorf("%d tokens", n)
		}
	})
}
