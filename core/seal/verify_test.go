package seal

import (
	"bytes"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"headway/core"
)

func TestExportIsWhole(t *testing.T) {
	r := newRig(t)
	for _, n := range []int{0, 1, 2, 252, 253, 1, 254, 400} { // sizes around those of tiles
		r.add(n, 64)
		r.seal.Seal(receipt(r.made, r.now))
		r.made++
		r.commit()
		export := r.export(ExportOptions{})
		for _, keys := range [][]Key{nil, r.seal.Keys()} {
			report := good(t, export, Check{Keys: keys})
			if got := report.Total.Receipts; got != int64(r.made) {
				t.Fatalf("%d receipts of %d", got, r.made)
			}
			if l := report.Logs[0]; l.Size != uint64(r.made)+1 || l.To != l.Size || l.Closed || report.Lines != int64(len(lines(export))) {
				t.Fatalf("%+v", l)
			}
		}
	}
}

func TestEveryChangeOfALine(t *testing.T) {
	r := newRig(t)
	r.add(280, 64)
	export := r.export(ExportOptions{})
	all := lines(export)
	check := Check{Keys: r.seal.Keys(), Saved: r.checkpoint("2026-11").Note}
	for i := range all {
		if slowly && i > 8 && i < len(all)-40 && i%16 != 0 {
			continue
		}
		line := int64(i + 1)
		gone := append(append([][]byte{}, all[:i]...), all[i+1:]...)
		word := WrongMissing
		switch {
		case i == 0:
			word = WrongFormat
		case i == len(all)-1:
			word = WrongCutShort
		}
		bad(t, joined(gone), check, word, line)

		twice := append(append(append([][]byte{}, all[:i+1]...), all[i]), all[i+1:]...)
		if report := verify(t, joined(twice), check); report.OK || report.Problem.Line != line+1 {
			t.Fatalf("line %d twice: %v", line, report.Problem)
		} else if report.Problem.Word != WrongTwice {
			t.Fatalf("line %d twice: %v (%s)", line, report.Problem, report.Problem.Word)
		}

		if i+1 < len(all) {
			swapped := append([][]byte{}, all...)
			swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
			report := verify(t, joined(swapped), check)
			if report.OK || report.Problem.Line != line {
				t.Fatalf("lines %d and %d swapped: %v", line, line+1, report.Problem)
			}
			if bytes.HasPrefix(all[i], []byte(leafFront)) && bytes.HasPrefix(all[i+1], []byte(leafFront)) && report.Problem.Word != WrongOrder {
				t.Fatalf("lines %d and %d swapped: %v (%s)", line, line+1, report.Problem, report.Problem.Word)
			}
		}

		bad(t, joined(all[:i]), check, WrongCutShort, line)
	}
	// Any two lines, far apart.
	random := rand.New(rand.NewPCG(1, 2))
	for range few(300) {
		i, j := random.IntN(len(all)), random.IntN(len(all))
		if i == j {
			continue
		}
		swapped := append([][]byte{}, all...)
		swapped[i], swapped[j] = swapped[j], swapped[i]
		if report := verify(t, joined(swapped), check); report.OK || report.Problem.Line != int64(min(i, j)+1) {
			t.Fatalf("lines %d and %d swapped: %v", i+1, j+1, report.Problem)
		}
		moved := append([][]byte{}, all[:i]...)
		moved = append(moved, all[i+1:]...)
		moved = append(moved[:j:j], append([][]byte{all[i]}, moved[j:]...)...)
		if report := verify(t, joined(moved), check); report.OK || report.Problem.Line != int64(min(i, j)+1) {
			t.Fatalf("line %d moved to %d: %v", i+1, j+1, report.Problem)
		}
	}
}

// few is how many of n cases are tried.
func few(n int) int {
	if slowly {
		return n / 20
	}
	return n
}

func TestEveryTruncation(t *testing.T) {
	r := newRig(t)
	r.add(300, 64)
	export := r.export(ExportOptions{})
	line := int64(1)
	for n := range export {
		if n > 2000 && n < len(export)-2000 && n%97 != 0 || slowly && n%41 != 0 { // a sample in the middle
			if export[n] == '\n' {
				line++
			}
			continue
		}
		bad(t, export[:n], Check{Keys: r.seal.Keys()}, WrongCutShort, line)
		if export[n] == '\n' {
			line++
		}
	}
}

// TestFlippedBits flips single bits of an export: of everything that is not a leaf,
// and a sample of the rest.
func TestFlippedBits(t *testing.T) {
	r := newRig(t)
	r.add(280, 64)
	export := r.export(ExportOptions{})
	check := Check{Keys: r.seal.Keys()}
	random := rand.New(rand.NewPCG(3, 4))
	flips := 10_000
	if testing.Short() || slowly {
		flips = 500
	}
	front := bytes.IndexByte(export, '\n') + 1
	front += bytes.IndexByte(export[front:], '\n') + 1
	for i := range flips {
		at := random.IntN(len(export))
		switch i % 4 {
		case 0: // the first two lines have the most to say
			at = random.IntN(front)
		case 1:
			at = len(export) - 1 - random.IntN(2000)
		}
		flipped := bytes.Clone(export)
		flipped[at] ^= 1 << random.IntN(8)
		report := verify(t, flipped, check)
		want := int64(bytes.Count(export[:at], []byte("\n")) + 1)
		if report.OK || report.Problem.Line != want {
			t.Fatalf("byte %d of line %d, %q to %q: %v", at, want, export[at], flipped[at], report.Problem)
		}
		// What is wrong is named as what it is: what was signed in a leaf or a tile was
		// edited; a number or a line end may look like a line that is missing or twice.
		words := []string{WrongEdited, WrongSignature, WrongUnknownKey, WrongFormat, WrongMissing, WrongTwice, WrongOrder, WrongCutShort}
		line := export[bytes.LastIndexByte(export[:at], '\n')+1:]
		if inner := bytes.Index(line, []byte(leafInner)); bytes.HasPrefix(line, []byte(leafFront)) && len(export)-len(line)+inner+len(leafInner) <= at && export[at] != '\n' {
			words = words[:1]
		}
		if !slices.Contains(words, report.Problem.Word) {
			t.Fatalf("byte %d of line %d, %q to %q: %v (%s)", at, want, export[at], flipped[at], report.Problem, report.Problem.Word)
		}
		// The export's own keys must not make it pass either.
		if i%8 == 0 && verify(t, flipped, Check{}).OK {
			t.Fatalf("byte %d of line %d, %q to %q: accepted with the export's keys", at, want, export[at], flipped[at])
		}
	}
}

func TestSumsAreExact(t *testing.T) {
	r := newRig(t)
	r.add(500, 100)
	report := good(t, r.export(ExportOptions{}), Check{})
	var want Sums
	total := new(big.Int)
	for i := range 500 {
		x := receipt(i, r.now)
		want.add(&Leaf{Charge: x.Charge, Usage: x.Usage})
		total.Add(total, big.NewInt(int64(x.Charge.V)))
	}
	if want != report.Total || report.Total.Charge.Picodollars().Cmp(total) != 0 || want.Uncharged == 0 {
		t.Fatalf("%v, it should be %v", report.Total, want)
	}
}

// TestAmount adds a million amounts of every size, against math/big.
func TestAmount(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	var a Amount
	want := new(big.Int)
	for i := range 1_000_000 {
		m := core.Money(random.Uint64() >> random.IntN(64))
		if i%3 == 0 {
			m = -m
		}
		a.add(m)
		want.Add(want, big.NewInt(int64(m)))
	}
	if a.Picodollars().Cmp(want) != 0 {
		t.Errorf("%v, it should be %v", a.Picodollars(), want)
	}
	var largest, smallest Amount
	for range 1_000_000 {
		largest.add(math.MaxInt64)
		smallest.add(math.MinInt64)
	}
	// A million times the largest and the smallest that there is, in USD.
	if largest.String() != "9223372036854.775807" || smallest.String() != "-9223372036854.775808" {
		t.Error(largest, smallest)
	}
	for want, m := range map[string]core.Money{"0": 0, "0.000000000001": 1, "-0.000000000001": -1, "1": core.USD, "-1.5": -core.USD * 3 / 2} {
		a := Amount{}
		a.add(m)
		if a.String() != want || a.String() != m.String() {
			t.Error(a, want, m)
		}
	}
}
