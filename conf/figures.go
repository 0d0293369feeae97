package conf

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"headway/core"
)

// whole is an integer between two bounds.
func whole(least, most int64) value[int64] { return scaled(least, most, 1) }

// scaled is an integer between two bounds, kept times unit.
func scaled(least, most, unit int64) value[int64] {
	return scalar[int64]{
		want: "a whole number", tags: "!!int !!float",
		schema: either(object{"type": "integer", "minimum": least, "maximum": most}),
		parse: func(s string) (int64, fault) {
			n, err := strconv.ParseInt(s, 10, 64)
			// Digits that no int64 holds are the nearest one, which is out of bounds too.
			far := errors.Is(err, strconv.ErrRange) && strings.Trim(strings.TrimPrefix(s, "-"), "0123456789") == ""
			switch {
			case !far && (err != nil || strconv.FormatInt(n, 10) != s):
				return 0, fault{"is no whole number in plain digits", "write it like 128000"}
			case n < least:
				return 0, fault{is: "is less than " + strconv.FormatInt(least, 10)}
			case n > most:
				return 0, fault{is: "is more than " + strconv.FormatInt(most, 10)}
			}
			return n * unit, fault{}
		},
		show: func(n int64) *yaml.Node {
			return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.FormatInt(n/unit, 10)}
		},
	}.value()
}

// count is a whole number that is kept as an int.
func count(least, most int64) value[int] {
	v := whole(least, most)
	return value[int]{
		schema: func(def *int) object {
			if def == nil {
				return v.schema(nil)
			}
			n := int64(*def)
			return v.schema(&n)
		},
		read: func(b *binder, at place, to *int) bool {
			var n int64
			if !v.read(b, at, &n) {
				return false
			}
			*to = int(n)
			return true
		},
		show: func(n *int) *yaml.Node { w := int64(*n); return v.show(&w) },
	}
}

// number is a figure that is no money.
func number(least, most float64) value[float64] {
	return scalar[float64]{
		want: "a number", tags: "!!int !!float",
		schema: either(object{"type": "number", "minimum": least, "maximum": most}),
		parse: func(s string) (float64, fault) {
			n, err := strconv.ParseFloat(s, 64)
			switch {
			case err != nil && !errors.Is(err, strconv.ErrRange) || math.IsNaN(n) || strings.ContainsAny(s, "_xXpP"):
				return 0, fault{is: "is no number"}
			case n < least:
				return 0, fault{is: "is less than " + decimal(least)}
			case n > most:
				return 0, fault{is: "is more than " + decimal(most)}
			}
			return n, fault{}
		},
		show: func(n float64) *yaml.Node {
			return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!float", Value: decimal(n)}
		},
	}.value()
}

func decimal(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// flag is true or false.
func flag() value[bool] {
	return scalar[bool]{
		want: "true or false", tags: "!!bool", schema: either(object{"type": "boolean"}),
		parse: func(s string) (bool, fault) {
			if s != "true" && s != "false" {
				return false, fault{is: "is not true or false"}
			}
			return s == "true", fault{}
		},
		show: func(v bool) *yaml.Node {
			return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(v)}
		},
	}.value()
}

// amount is an exact decimal, quoted or not: it is read from its text, so that
// 0.1 never becomes a binary fraction.
func amount[V ~int64](what string, places int, parse func(string) (V, error), most V, show func(V) string) value[V] {
	return scalar[V]{
		want: "a decimal number", tags: "!!int !!float !!str",
		schema: object{"type": []any{"number", "string"}, "minimum": 0,
			"pattern": `^[0-9]+(\.[0-9]{1,` + strconv.Itoa(places) + `}0*)?([eE][+-]?[0-9]{1,2})?$|` + referencePattern},
		parse: func(s string) (V, fault) {
			bad := fault{"is no decimal number with at most " + strconv.Itoa(places) + " decimals", what + `, like "0.25"`}
			digits, negative := strings.CutPrefix(s, "-")
			v, err := parse(digits)
			large := errors.Is(err, core.ErrMoney) // a decimal, but one that no amount holds
			switch {
			case err != nil && !large || strings.HasPrefix(digits, "-"):
				return 0, bad
			case negative:
				return 0, fault{"is negative", what}
			case large || v > most:
				return 0, fault{"is more than " + show(most), what}
			}
			return v, fault{}
		},
		show: func(v V) *yaml.Node { return textNode(show(v)) },
	}.value()
}

// rate is a price in USD per million tokens.
func rate() value[core.Rate] {
	return amount("prices are US dollars per million tokens", 6, core.ParseRate, 100_000_000_000, core.Rate.String)
}

// dollars is an amount in USD.
func dollars() value[core.Money] {
	return amount("the amount is in US dollars", 12, core.ParseMoney, 1_000_000*core.USD, core.Money.String)
}

// longTime is of a duration as it is written. One that cannot be read all the same is
// longer than any that is kept.
var longTime = regexp.MustCompile(`^(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`)

// duration is a time like 30s, between two bounds.
func duration(least, most time.Duration) value[time.Duration] {
	return scalar[time.Duration]{
		want: "a time like 30s", tags: "!!str !!int !!float",
		schema: object{"type": []any{"string", "integer"}, "minimum": 0, "maximum": 0, // an integer: 0 alone
			"pattern": `^([0-9.]+(ns|us|µs|μs|ms|s|m|h))+$|^0$|` + referencePattern},
		parse: func(s string) (time.Duration, fault) {
			d, err := time.ParseDuration(s)
			switch {
			case strings.HasPrefix(s, "-"):
				return 0, fault{is: "is negative"}
			case err != nil && s != "" && strings.Trim(s, "0123456789.") == "":
				return 0, fault{"has no unit", "write it like " + s + "s"}
			case err != nil && longTime.MatchString(s):
				return 0, fault{is: "is more than " + most.String()}
			case err != nil || strings.HasPrefix(s, "+"):
				return 0, fault{"is no time", "write it like 500ms, 30s, 10m or 1h30m"}
			case d < least:
				return 0, fault{is: "is less than " + least.String()}
			case d > most:
				return 0, fault{is: "is more than " + most.String()}
			}
			return d, fault{}
		},
		show: func(d time.Duration) *yaml.Node { return textNode(short(d)) },
	}.value()
}

// short is a duration without the zero parts that String adds: 10m, not 10m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// moment is a time of the calendar.
func moment() value[time.Time] {
	return scalar[time.Time]{
		want: "a time like 2027-01-31T00:00:00Z", tags: "!!str !!timestamp",
		schema: object{"type": "string", "pattern": `^[0-9]{4}-[0-9]{2}-[0-9]{2}|` + referencePattern},
		parse: func(s string) (time.Time, fault) {
			if t, err := time.Parse(time.RFC3339, s); err == nil {
				return t.UTC(), fault{}
			}
			if t, err := time.Parse(time.DateOnly, s); err == nil { // its first moment, UTC
				return t, fault{}
			}
			return time.Time{}, fault{"is no time", "write it like 2027-01-31 (its first moment, UTC) or 2027-01-31T12:00:00Z"}
		},
		show: func(t time.Time) *yaml.Node { return textNode(t.Format(time.RFC3339)) },
	}.value()
}
