package estimate_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"headway/core"
)

// corpus makes texts up: of words, names and characters that are some often and
// most rarely, as in a language.
type corpus struct {
	rng   *rand.Rand
	words []string
	chars []rune
}

func newCorpus(seed uint64) *corpus {
	c := &corpus{rng: rand.New(rand.NewPCG(seed, 7))}
	for range 3000 {
		var w strings.Builder
		for range 1 + c.rng.IntN(2) + c.rng.IntN(3) {
			w.WriteString(oneOf(c.rng, "b", "d", "f", "k", "l", "m", "n", "p", "r", "s", "st", "t", "tr", "v", "w", ""))
			w.WriteString(oneOf(c.rng, "a", "e", "i", "o", "u", "ea", "ou"))
			w.WriteString(oneOf(c.rng, "", "", "n", "r", "s", "t", "ng"))
		}
		c.words = append(c.words, w.String())
	}
	for range 2500 {
		c.chars = append(c.chars, rune(0x4E00+c.rng.IntN(0x5000)))
	}
	return c
}

func oneOf[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

// rare is a place in a list of n, small ones far more often than large ones.
func (c *corpus) rare(n int) int { return int(math.Pow(float64(n), c.rng.Float64())) - 1 }

func (c *corpus) word() string { return c.words[c.rare(len(c.words))] }

func (c *corpus) title() string {
	w := c.word()
	return strings.ToUpper(w[:1]) + w[1:]
}

// text is at least size bytes of a class.
func (c *corpus) text(class string, size int) string {
	var b strings.Builder
	switch class {
	case "prose":
		for b.Len() < size {
			b.WriteString(c.title())
			for range 4 + c.rng.IntN(16) {
				b.WriteString(oneOf(c.rng, " ", " ", " ", " ", " ", " ", " ", " ", ", ") + c.word())
			}
			b.WriteString(oneOf(c.rng, ". ", ". ", ". ", "? ", ": ", ".\n\n", " – "))
			if c.rng.IntN(12) == 0 {
				fmt.Fprintf(&b, "In %d, ", 1900+c.rng.IntN(120))
			}
		}
	case "code":
		for depth := 0; b.Len() < size; {
			b.WriteString(strings.Repeat("    ", depth))
			switch c.rng.IntN(6) {
			case 0:
				fmt.Fprintf(&b, "if (%s.%s%s != %d) {\n", c.word(), c.word(), c.title(), c.rng.IntN(300))
				depth = min(depth+1, 6)
			case 1:
				depth = max(depth-1, 0)
				b.WriteString("}\n")
			case 2:
				fmt.Fprintf(&b, "// %s %s %s %s\n", c.title(), c.word(), c.word(), c.word())
			case 3:
				fmt.Fprintf(&b, "%s_%s = %s(%s, %q)[%d];\n", c.word(), c.word(), c.word()+c.title(), c.word(), c.word(), c.rng.IntN(10))
			case 4:
				fmt.Fprintf(&b, "for %s := range %s%s { %s += 0x%x }\n", c.word(), c.word(), c.title(), c.word(), c.rng.IntN(1<<16))
			default:
				fmt.Fprintf(&b, "return &%s{%s: %s->%s()}\n\n", c.title(), c.title(), c.word(), c.word())
			}
		}
	case "json":
		b.WriteString("[")
		for b.Len() < size {
			row := map[string]any{c.word(): c.word() + " " + c.word(), c.word(): c.rng.IntN(100_000), c.word() + "_id": fmt.Sprintf("%08x", c.rng.Uint32()),
				c.word(): c.rng.IntN(2) == 0, c.word(): []any{c.rng.Float64(), nil, c.title()}}
			line, _ := json.Marshal(row)
			b.Write(line)
			b.WriteString(",")
		}
		b.WriteString("{}]")
	case "cjk":
		for b.Len() < size {
			for range 5 + c.rng.IntN(25) {
				b.WriteRune(c.chars[c.rare(len(c.chars))])
			}
			b.WriteString(oneOf(c.rng, "，", "。", "。", "、", "？", "。\n"))
			if c.rng.IntN(8) == 0 {
				b.WriteString(c.title() + fmt.Sprint(c.rng.IntN(50)))
			}
		}
	}
	return b.String()
}

// prompt is a conversation of about that many bytes, of one class or of several.
func (c *corpus) prompt(class string, size int) []string {
	n := 1 + c.rng.IntN(8)
	texts := make([]string, n)
	for i := range texts {
		of := class
		if class == "mixed" {
			of = oneOf(c.rng, "prose", "code", "json", "cjk")
		}
		texts[i] = c.text(of, size/n)
	}
	return texts
}

// jobOf is a job with texts as a client's JSON has them.
func jobOf(texts []string) *core.Job {
	job := &core.Job{Operation: core.OpGenerate, Model: "m"}
	for _, t := range texts {
		quoted, _ := json.Marshal(t)
		from := len(job.Body) + 1
		job.Body = append(job.Body, quoted...)
		job.Turns = append(job.Turns, core.Span{From: from, To: len(job.Body) - 1})
		job.PromptBytes += len(t)
	}
	return job
}

// tokenizer counts as a made-up model does: its texts, and a template around them.
type tokenizer struct {
	name       string
	call, text int
	count      func(string) int
	classes    []string // what it is tried on
}

func (t *tokenizer) tokens(texts []string) int64 {
	n := t.call
	for _, x := range texts {
		n += t.text + t.count(x)
	}
	return int64(n)
}

var allClasses = []string{"prose", "code", "json", "cjk", "mixed"}

// greedy is a tokenizer with a vocabulary of its own: some whole words, pieces of
// others, runs of blanks and marks; the longest that fits is taken, what nothing
// fits goes byte by byte.
func greedy(c *corpus, seed uint64, share float64) func(string) int {
	rng := rand.New(rand.NewPCG(seed, 11))
	vocabulary := map[string]bool{"    ": true, "        ": true, "\n\n": true, "\":": true, "\",\"": true, "},{": true, "();": true, " = ": true, ". ": true, ":\"": true}
	const longest = 10
	add := func(s string) {
		if len(s) <= longest {
			vocabulary[s] = true
		}
	}
	for i, w := range c.words {
		if rng.Float64() < share*(1-float64(i)/float64(len(c.words))) {
			add(w)
			add(" " + w)
		}
		for n := 2; n <= 3; n++ {
			if from := rng.IntN(len(w)); from+n <= len(w) && rng.IntN(2) == 0 {
				add(w[from : from+n])
			}
		}
	}
	for i, r := range c.chars {
		if rng.Float64() < 1.2-float64(i)/float64(len(c.chars)) {
			add(string(r))
		}
		if i < 200 && rng.IntN(2) == 0 {
			add(string(r) + string(c.chars[rng.IntN(100)]))
		}
	}
	for n := range 100 {
		add(fmt.Sprint(n))
	}
	return func(s string) (n int) {
		for len(s) > 0 {
			size := 1
			for l := min(longest, len(s)); l > 1; l-- {
				if vocabulary[s[:l]] {
					size = l
					break
				}
			}
			s = s[size:]
			n++
		}
		return n
	}
}

// tokenizers are those that estimates are tried on; the first three have
// vocabularies of their own.
func tokenizers(c *corpus) []*tokenizer {
	pieces := regexp.MustCompile(`'s|'t| ?\p{L}{1,7}| ?\d{1,3}| ?[^\s\pL\pN]{1,3}|\s+`)
	return []*tokenizer{
		{"greedy", 7, 4, greedy(c, 1, 1), allClasses},
		{"small vocabulary", 0, 3, greedy(c, 2, 0.1), allClasses},
		{"long template", 60, 12, greedy(c, 3, 0.5), allClasses},
		{"bytes / 3.1", 11, 5, func(s string) int { return int(float64(len(s)) / 3.1) }, allClasses},
		{"a byte each", 1, 0, func(s string) int { return len(s) }, allClasses},
		// Without blanks it has no words.
		{"words * 1.3", 20, 4, func(s string) int { return int(float64(len(strings.Fields(s))) * 1.3) }, []string{"prose", "code"}},
		{"pieces", 3, 4, func(s string) int { return len(pieces.FindAllStringIndex(s, -1)) }, allClasses},
		{"characters", 3, 4, func(s string) int {
			n := 0.
			for _, r := range s {
				switch {
				case unicode.Is(unicode.Han, r):
					n += 1.5
				default:
					n += 0.27
				}
			}
			return int(n)
		}, allClasses},
		{"runes / 2", 3, 4, func(s string) int { return utf8.RuneCountInString(s) / 2 }, allClasses},
	}
}

// quantile of values in any order, as SPEC §5 counts ranks.
func quantile(values []float64, q float64) float64 {
	slices.Sort(values)
	return values[int(float64(len(values)-1)*q)]
}
