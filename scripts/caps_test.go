package scripts_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/dop251/goja"

	"headway/core/market"
	"headway/scripts"
)

// free are the built-ins that a script may use as they are, by what has them: each
// takes a bounded time whatever it is given, or calls back into the script at each
// step. A newer goja with a new one fails here until somebody has judged it.
var free = map[string]string{
	"":                   "Object Array String Number Boolean Date Math Error TypeError ReferenceError SyntaxError RangeError EvalError URIError NaN undefined Infinity isNaN isFinite parseInt parseFloat",
	"Object":             "length name prototype hasOwn is isExtensible preventExtensions",
	"Object.prototype":   "hasOwnProperty isPrototypeOf propertyIsEnumerable toString valueOf",
	"Function.prototype": "length name caller arguments toString", // the source: at most 256 KiB
	"Array":              "length name prototype isArray of",
	"Array.prototype":    "length",
	"String":             "length name prototype fromCharCode fromCodePoint",
	"String.prototype":   "length toString valueOf",
	"Number": "length name prototype EPSILON MAX_SAFE_INTEGER MAX_VALUE MIN_SAFE_INTEGER MIN_VALUE NEGATIVE_INFINITY NaN POSITIVE_INFINITY " +
		"isFinite isInteger isNaN isSafeInteger parseFloat parseInt",
	"Number.prototype":  "toExponential toFixed toPrecision toString valueOf",
	"Boolean":           "length name prototype",
	"Boolean.prototype": "toString valueOf",
	"Map":               "length name prototype",
	"Map.prototype":     "size",
	"Set":               "length name prototype",
	"Set.prototype":     "size",
	"Error":             "length name prototype isError",
	"Error.prototype":   "toString stack", // the first is bounded wherever there can be an error, the second refused
	"Date":              "length name prototype UTC now",
	"Math":              "*", // of numbers
	"Date.prototype": "getTime getUTCDate getUTCDay getUTCFullYear getUTCHours getUTCMilliseconds getUTCMinutes getUTCMonth getUTCSeconds setTime " +
		"setUTCDate setUTCFullYear setUTCHours setUTCMilliseconds setUTCMinutes setUTCMonth setUTCSeconds toISOString toString toUTCString valueOf",
}

// always are bounded in every runtime.
var always = map[string]string{"Array.prototype": "join"}

func TestEveryBuiltInIsJudged(t *testing.T) {
	vm := goja.New()
	names := func(expression string) (list []string) {
		v, err := vm.RunString("Object.getOwnPropertyNames(" + expression + ")")
		if err != nil {
			t.Fatal(err)
		}
		if err := vm.ExportTo(v, &list); err != nil {
			t.Fatal(err)
		}
		return list
	}
	for _, name := range names("globalThis") {
		if !scripts.Banned(name) && !slices.Contains(strings.Fields(free[""]), name) {
			t.Errorf("the global %s is neither banned nor free", name)
		}
	}
	for owner, list := range free {
		if owner == "" || list == "*" {
			continue
		}
		expression := owner
		if owner == "Function.prototype" {
			expression = "Object.getPrototypeOf(Object)"
		}
		for _, name := range names(expression) {
			if !scripts.Capped(name) && !slices.Contains(strings.Fields(list+" "+always[owner]), name) {
				t.Errorf("%s.%s is neither bounded nor free", owner, name)
			}
		}
	}
}

// A name that is refused in a file must be that of no built-in strategy, and the
// other way round.
func TestNamesOfBuiltInStrategies(t *testing.T) {
	want := []string{"auto"}
	for _, s := range market.Strategies() {
		want = append(want, s.Name())
	}
	got := slices.Sorted(slices.Values(scripts.BuiltIn()))
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
