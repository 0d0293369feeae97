package command

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"headway/core"
)

// table is aligned text: numbers to the right, words to the left.
type table struct {
	head  []string // a name that begins with > is of a column of numbers
	rows  [][]string
	empty string // what to say where there are no rows
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// absent stands for a value that was not measured.
const absent = "-"

func (t *table) write(w io.Writer) {
	if len(t.rows) == 0 && t.empty != "" {
		fmt.Fprintln(w, t.empty)
		return
	}
	right := make([]bool, len(t.head))
	head := make([]string, len(t.head))
	for i, name := range t.head {
		head[i], right[i] = strings.CutPrefix(name, ">")
	}
	rows := append([][]string{head}, t.rows...)
	width := make([]int, len(head))
	for n, row := range rows {
		for i := range row {
			row[i] = printable(row[i])
			if row[i] == "" && n > 0 {
				row[i] = absent
			}
			width[i] = max(width[i], utf8.RuneCountInString(row[i]))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if i > 0 {
				line.WriteString("  ")
			}
			if right[i] {
				line.WriteString(pad + cell)
			} else {
				line.WriteString(cell + pad)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

// printable takes out what would move a terminal's cursor: some words are an
// upstream's or a caller's.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, s)
}

// printJSON writes a value for machines, and for eyes too.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// ms writes milliseconds with three digits that mean something.
func ms(v core.Opt[float64]) string { return unit(v, " ms") }

func unit(v core.Opt[float64], unit string) string {
	if !v.OK {
		return absent
	}
	return figure(v.V) + unit
}

func figure(v float64) string {
	places := 0
	switch {
	case v < 1:
		places = 3
	case v < 100:
		places = 1
	}
	return strconv.FormatFloat(v, 'f', places, 64)
}

func number(v core.Opt[int64]) string {
	if !v.OK {
		return absent
	}
	return strconv.FormatInt(v.V, 10)
}

func dollars(v core.Opt[core.Money]) string {
	if !v.OK {
		return absent
	}
	return "$" + v.V.String()
}

func at(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

func when(t core.Opt[time.Time]) string {
	if !t.OK {
		return absent
	}
	return at(t.V)
}

func percent(v float64) string { return strconv.FormatFloat(100*v, 'f', 1, 64) + "%" }
