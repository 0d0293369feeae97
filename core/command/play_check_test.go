package command_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// missing is a value that is not there, which is neither 0 nor null.
type missing struct{}

func (missing) MarshalJSON() ([]byte, error) { return []byte(`"(absent)"`), nil }

// slack is how far the upper ends of time ranges are moved, for slow and busy
// machines: this many times the width that the case gives. Lower ends are hard.
const slack = 3

// checkForms are the keys of an object that is a check and not a set of paths.
var checkForms = []string{"min", "max", "above", "contains", "not_contains", "one_of", "absent", "present", "length"}

// checkValue compares what was seen with one check of a case and says what is
// wrong, one line for each fault. name is the path of the value so far.
func checkValue(name string, want, got any) []string {
	switch w := want.(type) {
	case map[string]any:
		if isForm(w) {
			return checkForm(name, w, got)
		}
		return checkPaths(name, w, got)
	case []any:
		if lo, hi, ok := asRange(w); ok {
			return checkRange(name, lo, hi, got)
		}
		return checkList(name, w, got)
	}
	if !equal(want, got) {
		return fault(name, want, got)
	}
	return nil
}

func fault(name string, want, got any) []string {
	return []string{fmt.Sprintf("%s: expected %s, saw %s", name, show(want), show(got))}
}

// show prints a value as JSON, cut where it is long.
func show(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if len(out) > 400 {
		return string(out[:400]) + "…"
	}
	return string(out)
}

func isForm(w map[string]any) bool {
	for k := range w {
		if !slices.Contains(checkForms, k) {
			return false
		}
	}
	return len(w) > 0
}

func asRange(w []any) (lo, hi *big.Rat, ok bool) {
	if len(w) != 2 {
		return nil, nil, false
	}
	lo, okLo := number(w[0])
	hi, okHi := number(w[1])
	return lo, hi, okLo && okHi
}

// checkPaths reads each key of want as a path into got.
func checkPaths(name string, want map[string]any, got any) []string {
	if _, is := got.(map[string]any); !is {
		if _, list := got.([]any); !list || len(want) == 0 {
			return fault(name, want, got)
		}
	}
	var faults []string
	for _, path := range slices.Sorted(maps.Keys(want)) {
		faults = append(faults, checkValue(name+"."+path, want[path], lookUp(got, path))...)
	}
	return faults
}

// lookUp follows a dotted path; numbers are list positions. A key that has dots
// of its own, such as an event's type, is found as it is.
func lookUp(v any, path string) any {
	if m, ok := v.(map[string]any); ok {
		if found, ok := m[path]; ok {
			return found
		}
	}
	head, rest, more := strings.Cut(path, ".")
	var next any = missing{}
	switch v := v.(type) {
	case map[string]any:
		if found, ok := v[head]; ok {
			next = found
		}
	case []any:
		if i, err := strconv.Atoi(head); err == nil && i >= 0 && i < len(v) {
			next = v[i]
		}
	}
	if !more {
		return next
	}
	return lookUp(next, rest)
}

func checkList(name string, want []any, got any) []string {
	list, ok := got.([]any)
	if !ok || len(list) != len(want) {
		return fault(name, want, got)
	}
	var faults []string
	for i, w := range want {
		faults = append(faults, checkValue(fmt.Sprintf("%s.%d", name, i), w, list[i])...)
	}
	return faults
}

// checkRange checks a range, ends included. A time may be later than the case
// says, and a speed lower by as much time, but never earlier or higher.
func checkRange(name string, lo, hi *big.Rat, got any) []string {
	n, ok := number(got)
	if ok {
		lo, hi = widen(name, lo, hi)
	}
	if !ok || n.Cmp(lo) < 0 || n.Cmp(hi) > 0 {
		return fault(name, []any{json.Number(lo.FloatString(3)), json.Number(hi.FloatString(3))}, got)
	}
	return nil
}

func widen(name string, lo, hi *big.Rat) (*big.Rat, *big.Rat) {
	times := big.NewRat(slack, 1)
	last := name[strings.LastIndex(name, ".")+1:]
	switch {
	case last == "ms" || strings.HasSuffix(last, "_ms"):
		width := new(big.Rat).Sub(hi, lo)
		return lo, width.Add(lo, width.Mul(width, times))
	case strings.HasSuffix(last, "_tps") && lo.Sign() > 0:
		short, long := new(big.Rat).Inv(hi), new(big.Rat).Inv(lo)
		long.Sub(long, short)
		long.Add(short, long.Mul(long, times))
		return long.Inv(long), hi
	}
	return lo, hi
}

func checkForm(name string, form map[string]any, got any) []string {
	var faults []string
	_, gone := got.(missing)
	for _, k := range slices.Sorted(maps.Keys(form)) {
		if !holds(k, form[k], got, gone) {
			faults = append(faults, fault(name, map[string]any{k: form[k]}, got)...)
		}
	}
	return faults
}

func holds(form string, arg, got any, gone bool) bool {
	switch form {
	case "absent":
		return gone == (arg == true)
	case "present":
		return gone != (arg == true)
	case "one_of":
		options, _ := arg.([]any)
		return slices.ContainsFunc(options, func(o any) bool { return o == nil && gone || equal(o, got) })
	case "not_contains":
		return !slices.ContainsFunc(texts(arg), func(s string) bool { return strings.Contains(text(got), s) })
	case "contains":
		parts := texts(arg)
		return !gone && len(parts) > 0 && !slices.ContainsFunc(parts, func(s string) bool { return !strings.Contains(text(got), s) })
	case "length":
		return equal(arg, length(got))
	}
	n, ok := number(got)
	limit, okLimit := number(arg)
	if !ok || !okLimit {
		return false
	}
	switch form {
	case "min":
		return n.Cmp(limit) >= 0
	case "max":
		return n.Cmp(limit) <= 0
	case "above":
		return n.Cmp(limit) > 0
	}
	return false
}

func length(v any) any {
	switch v := v.(type) {
	case []any:
		return len(v)
	case string:
		return len([]rune(v))
	}
	return missing{}
}

// text is a value as it is searched: a string as it is, the rest as JSON.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case missing:
		return ""
	}
	out, _ := json.Marshal(v)
	return string(out)
}

func texts(v any) []string {
	list, ok := v.([]any)
	if !ok {
		return []string{text(v)}
	}
	out := make([]string, len(list))
	for i, e := range list {
		out[i] = text(e)
	}
	return out
}

// equal compares whole numbers exactly and others to 1e-9.
func equal(want, got any) bool {
	w, isNumber := number(want)
	g, ok := number(got)
	if !isNumber || !ok {
		if isNumber != ok {
			return false
		}
		if list, ok := want.([]any); ok {
			other, ok := got.([]any)
			return ok && slices.EqualFunc(list, other, equal)
		}
		switch want.(type) {
		case string, bool, nil:
			return want == got
		}
		return false
	}
	if w.IsInt() {
		return w.Cmp(g) == 0
	}
	diff := new(big.Rat).Sub(w, g)
	return diff.Abs(diff).Cmp(big.NewRat(1, 1_000_000_000)) <= 0
}

func number(v any) (*big.Rat, bool) {
	switch v := v.(type) {
	case json.Number:
		return new(big.Rat).SetString(string(v))
	case float64:
		r := new(big.Rat).SetFloat64(v)
		return r, r != nil
	case int:
		return big.NewRat(int64(v), 1), true
	}
	return nil, false
}

// checkOrder keeps the order of figures whose upper ends were moved: where the
// case has one range wholly before another, so must be what was seen.
func checkOrder(name string, want, got map[string]any) []string {
	var faults []string
	for a, wa := range want {
		for b, wb := range want {
			la, oka := wa.([]any)
			lb, okb := wb.([]any)
			if !oka || !okb || !strings.HasSuffix(a, "_ms") || !strings.HasSuffix(b, "_ms") {
				continue
			}
			_, hi, oka := asRange(la)
			lo, _, okb := asRange(lb)
			na, seenA := number(got[a])
			nb, seenB := number(got[b])
			if oka && okb && seenA && seenB && hi.Cmp(lo) < 0 && na.Cmp(nb) >= 0 {
				faults = append(faults, fmt.Sprintf("%s: expected %s before %s, saw %s and %s", name, a, b, show(got[a]), show(got[b])))
			}
		}
	}
	return faults
}
