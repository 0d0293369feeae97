package market

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"headway/core"
)

// Figures outside of these are no measurements.
const (
	largest = 1e15 // of any number
	slowest = 1e-6 // tokens per second
)

// fields reads a JSON object by hand, so that every mistake is named by its
// place ("offers[3].prefill_tps"), which encoding/json cannot. The first mistake
// stays in err, which all objects of a document share; what cannot be read is
// absent.
type fields struct {
	path   string // "" for the document itself
	values map[string]json.RawMessage
	err    *error
}

// readDocument reads the outermost object.
func readDocument(data []byte, known ...string) (fields, error) {
	var raw json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		var at int64
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			at = syntax.Offset
		}
		read := data[:min(max(at, 0), int64(len(data)))]
		line := bytes.Count(read, []byte("\n")) + 1
		return fields{}, core.Errorf(core.Invalid, "not JSON: line %d, column %d: %v",
			line, len(read)-bytes.LastIndexByte(read, '\n')-1, err)
	}
	var err error
	f := readObject("", raw, &err, known)
	return f, err
}

func readObject(path string, raw json.RawMessage, failed *error, known []string) fields {
	f := fields{path: path, values: map[string]json.RawMessage{}, err: failed}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		f.fail("", "", "must be an object")
		return f
	}
	for dec.More() {
		token, _ := dec.Token() // raw is valid JSON: a key, then its value
		name, _ := token.(string)
		var value json.RawMessage
		_ = dec.Decode(&value)
		if !slices.Contains(known, name) {
			f.fail(name, "the fields are "+strings.Join(known, ", "), "is not a field here")
		} else if _, twice := f.values[name]; twice {
			f.fail(name, "", "is there twice")
		}
		if string(value) != "null" {
			f.values[name] = value
		}
	}
	return f
}

// at is the place of a field; of the object itself where name is "".
func (f fields) at(name string) string {
	switch {
	case f.path == "" && name == "":
		return "auction"
	case f.path == "":
		return name
	case name == "":
		return f.path
	}
	return f.path + "." + name
}

// fail keeps the first mistake, with its hint.
func (f fields) fail(name, hint, format string, args ...any) {
	if *f.err == nil {
		err := core.Field(f.at(name), format, args...)
		err.Hint = hint
		*f.err = err
	}
}

func (f fields) object(name string, known ...string) fields {
	raw, ok := f.values[name]
	if !ok {
		raw = json.RawMessage("{}")
	}
	return readObject(f.at(name), raw, f.err, known)
}

func (f fields) list(name string, known ...string) []fields {
	var elements []json.RawMessage
	if raw, ok := f.values[name]; ok && json.Unmarshal(raw, &elements) != nil {
		f.fail(name, "", "must be a list")
	}
	out := make([]fields, len(elements))
	for i, raw := range elements {
		out[i] = readObject(fmt.Sprintf("%s[%d]", f.at(name), i), raw, f.err, known)
	}
	return out
}

func (f fields) text(name string) core.Opt[string] {
	raw, ok := f.values[name]
	if !ok {
		return core.Opt[string]{}
	}
	var v string
	if json.Unmarshal(raw, &v) != nil {
		f.fail(name, "", "must be a text")
		return core.Opt[string]{}
	}
	return core.Some(v)
}

func (f fields) flag(name string) (v bool) {
	if raw, ok := f.values[name]; ok && json.Unmarshal(raw, &v) != nil {
		f.fail(name, "", "must be true or false")
	}
	return v
}

// words reads texts by name.
func (f fields) words(name string) (v map[string]string) {
	if raw, ok := f.values[name]; ok && json.Unmarshal(raw, &v) != nil {
		f.fail(name, "", "must be texts by name")
	}
	return v
}

func (f fields) need(name string) string {
	v := f.text(name).V
	if v == "" {
		f.fail(name, "", "is missing")
	}
	return v
}

// number reads a JSON number that is not negative.
func (f fields) number(name string) core.Opt[float64] {
	raw, ok := f.values[name]
	if !ok {
		return core.Opt[float64]{}
	}
	v, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || v < 0 || v > largest {
		f.fail(name, "", "%s must be a number from 0 to %g", short(raw), largest)
		return core.Opt[float64]{}
	}
	return core.Some(v)
}

// time reads milliseconds.
func (f fields) time(name string) core.Opt[float64] { return f.number(name) }

// speed reads tokens per second, enough of them that a wait is a finite number.
func (f fields) speed(name string) core.Opt[float64] {
	v := f.number(name)
	if v.OK && v.V < slowest {
		f.fail(name, "leave out what was not measured", "%s is not a speed", short(f.values[name]))
	}
	return v
}

// count reads a whole number.
func (f fields) count(name string) core.Opt[int64] {
	v := f.number(name)
	if !v.OK {
		return core.Opt[int64]{}
	}
	if v.V != math.Trunc(v.V) {
		f.fail(name, "", "%s must be a whole number", short(f.values[name]))
		return core.Opt[int64]{}
	}
	return core.Some(int64(v.V))
}

func (f fields) rate(name string) core.Opt[core.Rate] { return decimal(f, name, core.ParseRate) }

func (f fields) needRate(name string) core.Rate {
	if _, ok := f.values[name]; !ok {
		f.fail(name, "prices are USD per million tokens, 0 where it is free", "is missing")
	}
	return f.rate(name).V
}

func (f fields) money(name string) core.Opt[core.Money] {
	v := decimal(f, name, core.ParseMoney)
	if v.OK && v.V < 0 {
		f.fail(name, "", "%s is negative", v.V)
	}
	return v
}

// decimal reads an exact amount, written as a decimal text or a number.
func decimal[T any](f fields, name string, parse func(string) (T, error)) core.Opt[T] {
	raw, ok := f.values[name]
	if !ok {
		return core.Opt[T]{}
	}
	digits := string(raw)
	if raw[0] == '"' {
		digits = f.text(name).V
	} else if strings.ContainsAny(digits[:1], "{[tf") {
		f.fail(name, "", "must be a decimal number, as a text or a number")
		return core.Opt[T]{}
	}
	v, err := parse(digits)
	if err != nil {
		f.fail(name, "", "%v", err)
		return core.Opt[T]{}
	}
	return core.Some(v)
}

// short is a value as it was written, for an error.
func short(raw json.RawMessage) string {
	const most = 40
	if len(raw) > most {
		return string(raw[:most]) + "…"
	}
	return string(raw)
}
