package conf

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"headway/core"
)

// Problem is one mistake of a configuration, or one piece of advice about it.
// No part of it holds the value of a secret or of an environment variable.
type Problem struct {
	File   string // the file's name as it was given; "" for the body of an admin call
	Line   int    // from 1; 0 where the place is not known
	Column int    // from 1, in characters; 0 where the place is not known
	Path   string // "providers[0].offers[2].model"; "" for the whole file
	Reason string // lower case, no full stop
	Hint   string // what to do about it; may be ""
}

// String is "headway.yaml:41:7: providers[0].id: is missing", without the
// parts that are not known.
func (p Problem) String() string {
	var s strings.Builder
	if p.File != "" {
		s.WriteString(p.File)
		if p.Line > 0 {
			fmt.Fprintf(&s, ":%d", p.Line)
		}
		if p.Column > 0 {
			fmt.Fprintf(&s, ":%d", p.Column)
		}
		s.WriteString(": ")
	}
	if p.Path != "" {
		s.WriteString(p.Path + ": ")
	}
	return s.String() + p.Reason
}

// Problems are all the mistakes of a configuration, in the order of their
// places. It is the error that everything in this package returns for a mistake
// of the operator's.
type Problems []Problem

// Error has one problem a line.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, one := range p {
		lines[i] = one.String()
	}
	return strings.Join(lines, "\n")
}

// Unwrap is the same as a core.Error (Invalid), with the first problem's path
// and hint, for code that answers with one.
func (p Problems) Unwrap() error {
	e := &core.Error{Kind: core.Invalid, Msg: p.Error()}
	if len(p) > 0 {
		e.Param, e.Hint = p[0].Path, p[0].Hint
	}
	return e
}

func sortProblems(p []Problem) {
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// DidYouMean is ", did you mean X" for the nearest of names, where one is near.
func DidYouMean(word string, names []string) string {
	best, at := "", min(3, 1+len(word)/3)+1
	if len(word) <= 64 {
		for _, n := range names {
			if d := distance(strings.ToLower(word), n); d < at {
				best, at = n, d
			}
		}
	}
	if best == "" {
		return ""
	}
	return ", did you mean " + best
}

// distance counts the letters to add, drop, change or swap with the next.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
		for j := 1; i == 0 && j <= len(b); j++ {
			rows[0][j] = j
		}
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := 0
			if a[i-1] != b[j-1] {
				change = 1
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
