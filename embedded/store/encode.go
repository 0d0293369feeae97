package store

import (
	"encoding"
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"headway/core"
)

// encoder appends a value's JSON. It gives the bytes that encoding/json gives, in
// a sixth of the time: a plan of the type is made once, and absent values cost
// nothing. The value must be addressable. Only a figure that is not a number
// differs: encoding/json refuses the whole receipt, here it counts as absent.
type encoder func(dst []byte, v reflect.Value) []byte

// encoderOf plans a type of package core.
func encoderOf(t reflect.Type) encoder {
	switch t {
	case reflect.TypeFor[core.Money]():
		return func(dst []byte, v reflect.Value) []byte { return appendDecimal(dst, v.Int(), 12) }
	case reflect.TypeFor[core.Rate]():
		return func(dst []byte, v reflect.Value) []byte {
			return append(appendDecimal(append(dst, '"'), v.Int(), 6), '"')
		}
	case reflect.TypeFor[time.Time]():
		return func(dst []byte, v reflect.Value) []byte {
			at := v.Addr().Interface().(*time.Time)
			return append(at.AppendFormat(append(dst, '"'), time.RFC3339Nano), '"')
		}
	}
	if isOpt(t) {
		value := encoderOf(t.Field(0).Type)
		return func(dst []byte, v reflect.Value) []byte {
			if !present(v) {
				return append(dst, "null"...)
			}
			return value(dst, v.Field(0))
		}
	}
	if t.Implements(reflect.TypeFor[json.Marshaler]()) || t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return encodeAny
	}
	switch t.Kind() {
	case reflect.String:
		return func(dst []byte, v reflect.Value) []byte { return appendString(dst, v.String()) }
	case reflect.Bool:
		return func(dst []byte, v reflect.Value) []byte { return strconv.AppendBool(dst, v.Bool()) }
	case reflect.Int, reflect.Int64:
		return func(dst []byte, v reflect.Value) []byte { return strconv.AppendInt(dst, v.Int(), 10) }
	case reflect.Float64:
		return func(dst []byte, v reflect.Value) []byte { return appendFloat(dst, v.Float()) }
	case reflect.Struct:
		return encodeStruct(t)
	case reflect.Slice:
		return encodeSlice(t)
	case reflect.Pointer:
		elem := encoderOf(t.Elem())
		return func(dst []byte, v reflect.Value) []byte {
			if v.IsNil() {
				return append(dst, "null"...)
			}
			return elem(dst, v.Elem())
		}
	}
	return encodeAny
}

// encodeAny is for a type that has no plan.
func encodeAny(dst []byte, v reflect.Value) []byte {
	text, err := json.Marshal(v.Interface())
	if err != nil {
		return append(dst, "null"...)
	}
	return append(dst, text...)
}

// field is one member of an object.
type field struct {
	index  []int
	name   string // with the quotes and the colon
	absent func(reflect.Value) bool
	encode encoder
}

func encodeStruct(t reflect.Type) encoder {
	fields := fieldsOf(t, nil)
	return func(dst []byte, v reflect.Value) []byte {
		dst = append(dst, '{')
		first := true
		for i := range fields {
			f := &fields[i]
			m := v
			for _, n := range f.index {
				m = m.Field(n)
			}
			if f.absent != nil && f.absent(m) {
				continue
			}
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = f.encode(append(dst, f.name...), m)
		}
		return append(dst, '}')
	}
}

// fieldsOf lists the members in order, those of embedded structs in their place.
func fieldsOf(t reflect.Type, at []int) []field {
	var list []field
	for i := range t.NumField() {
		sf := t.Field(i)
		index := append(append([]int{}, at...), i)
		name, option, _ := strings.Cut(sf.Tag.Get("json"), ",")
		if sf.Anonymous && name == "" {
			list = append(list, fieldsOf(sf.Type, index)...)
			continue
		}
		if name == "-" {
			continue
		}
		if name == "" {
			name = sf.Name
		}
		list = append(list, field{index, `"` + name + `":`, absence(sf.Type, option), encoderOf(sf.Type)})
	}
	return list
}

// absence tells when a member is left out; nil: never.
func absence(t reflect.Type, option string) func(reflect.Value) bool {
	switch {
	case option == "omitempty" && (t.Kind() == reflect.Slice || t.Kind() == reflect.Map):
		return func(v reflect.Value) bool { return v.Len() == 0 }
	case option == "omitempty" && t.Kind() != reflect.Struct:
		return reflect.Value.IsZero
	case option == "omitzero" && isOpt(t):
		return func(v reflect.Value) bool { return !present(v) }
	case option == "omitzero":
		if reflect.PointerTo(t).Implements(reflect.TypeFor[zeroer]()) {
			return func(v reflect.Value) bool { return v.Addr().Interface().(zeroer).IsZero() }
		}
		return reflect.Value.IsZero
	}
	return nil
}

type zeroer interface{ IsZero() bool }

// isOpt tells whether t is a core.Opt.
func isOpt(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t.PkgPath() == reflect.TypeFor[core.Opt[int]]().PkgPath() && strings.HasPrefix(t.Name(), "Opt[")
}

// present tells whether an Opt has a value that JSON can hold.
func present(opt reflect.Value) bool {
	if v := opt.Field(0); v.Kind() == reflect.Float64 && (math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0)) {
		return false
	}
	return opt.Field(1).Bool()
}

func encodeSlice(t reflect.Type) encoder {
	if t.Elem().Kind() == reflect.Uint8 {
		return encodeAny
	}
	elem := encoderOf(t.Elem())
	return func(dst []byte, v reflect.Value) []byte {
		if v.IsNil() {
			return append(dst, "null"...)
		}
		dst = append(dst, '[')
		for i := range v.Len() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = elem(dst, v.Index(i))
		}
		return append(dst, ']')
	}
}

// appendString writes plain text itself and leaves what must be escaped to
// encoding/json.
func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			text, _ := json.Marshal(s) // a string always has JSON
			return append(dst, text...)
		}
	}
	return append(append(append(dst, '"'), s...), '"')
}

// appendFloat writes a number as encoding/json does: as ES6, with an exponent of
// at least two digits cut to what is needed.
func appendFloat(dst []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(dst, "null"...)
	}
	abs := math.Abs(f)
	// Figures have three decimals (core.Micro). With at most 15 digits a decimal
	// is the only one for its number, so it is also the shortest.
	if n := math.Round(f * 1000); abs > 0 && abs < 1e12 && n/1000 == f {
		return appendDecimal(dst, int64(n), 3)
	}
	if abs == 0 || abs >= 1e-6 && abs < 1e21 {
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	if n := len(dst); n >= 4 && dst[n-4] == 'e' && dst[n-3] == '-' && dst[n-2] == '0' {
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}

// appendDecimal writes n / 10^places without trailing zeros, as core.Money and
// core.Rate do.
func appendDecimal(dst []byte, n int64, places int) []byte {
	u := uint64(n)
	if n < 0 {
		dst = append(dst, '-')
		u = -u
	}
	var digits [24]byte // at least one before the point
	i := len(digits)
	for k := 0; u > 0 || k <= places; k++ {
		i--
		digits[i] = '0' + byte(u%10)
		u /= 10
	}
	point := len(digits) - places
	end := len(digits)
	for end > point && digits[end-1] == '0' {
		end--
	}
	dst = append(dst, digits[i:point]...)
	if end > point {
		dst = append(append(dst, '.'), digits[point:end]...)
	}
	return dst
}
