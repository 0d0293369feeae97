package prices

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"headway/core"
)

// What a sheet may have: the largest that are published are a tenth of it.
const (
	mostBytes  = 32 << 20
	mostValues = 500_000
	mostDepth  = 24
	mostText   = 4 << 10 // bytes of a number or a name
)

// value is a JSON value whose numbers are still text, so that none is rounded.
type value struct {
	kind   kind
	text   string // of a text or a number
	list   []value
	names  []string // of an object's members, in order; no two are the same
	fields map[string]*value
}

type kind uint8

const (
	isNull kind = iota
	isBool
	isNumber
	isText
	isList
	isObject
)

// get is a member of an object; nil: there is none, or null.
func (v *value) get(name string) *value {
	if v == nil {
		return nil
	}
	if f := v.fields[name]; f != nil && f.kind != isNull {
		return f
	}
	return nil
}

// parser reads JSON strictly: no name twice, nothing behind it, within bounds.
type parser struct {
	dec    *json.Decoder
	text   []byte
	values int
}

func parse(text []byte) (*value, error) {
	if len(text) > mostBytes {
		return nil, core.Errorf(core.TooLarge, "it has more than %d MiB, which no price sheet has", mostBytes>>20)
	}
	p := &parser{dec: json.NewDecoder(bytes.NewReader(text)), text: text}
	p.dec.UseNumber()
	v := &value{}
	if err := p.value(v, 0); err != nil {
		return nil, err
	}
	if _, err := p.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, p.wrong("something stands behind its end")
	}
	return v, nil
}

// wrong is an error at the place that was read last.
func (p *parser) wrong(format string, args ...any) error {
	at := min(int(p.dec.InputOffset()), len(p.text))
	line := 1 + bytes.Count(p.text[:at], []byte("\n"))
	return core.Errorf(core.Invalid, "line %d: "+format, append([]any{line}, args...)...)
}

func (p *parser) token() (json.Token, error) {
	t, err := p.dec.Token()
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		return t, nil
	case errors.As(err, &syntax):
		at := min(int(syntax.Offset), len(p.text))
		return nil, core.Errorf(core.Invalid, "line %d: this is not JSON: %v", 1+bytes.Count(p.text[:at], []byte("\n")), syntax)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		if len(bytes.TrimSpace(p.text)) == 0 {
			return nil, core.Errorf(core.Invalid, "there is nothing in it")
		}
		return nil, p.wrong("this is not JSON: it is cut short")
	}
	return nil, p.wrong("this is not JSON: %v", err)
}

func (p *parser) value(v *value, depth int) error {
	t, err := p.token()
	if err != nil {
		return err
	}
	if p.values++; p.values > mostValues {
		return core.Errorf(core.TooLarge, "it has more than %d values, which no price sheet has", mostValues)
	}
	switch t := t.(type) {
	case nil:
	case bool:
		v.kind = isBool
	case json.Number:
		v.kind, v.text = isNumber, string(t)
	case string:
		v.kind, v.text = isText, t
	case json.Delim:
		if depth++; depth > mostDepth {
			return p.wrong("more than %d objects and lists are inside one another", mostDepth)
		}
		if t == '[' {
			v.kind = isList
			for p.dec.More() {
				v.list = append(v.list, value{})
				if err := p.value(&v.list[len(v.list)-1], depth); err != nil {
					return err
				}
			}
		} else {
			v.kind, v.fields = isObject, map[string]*value{}
			for p.dec.More() {
				name, err := p.token()
				if err != nil {
					return err
				}
				field := fmt.Sprint(name)
				if v.fields[field] != nil {
					return p.wrong("%s is there twice", quoted(field))
				}
				v.names = append(v.names, field)
				v.fields[field] = &value{}
				if err := p.value(v.fields[field], depth); err != nil {
					return err
				}
			}
		}
		_, err := p.token() // its end
		return err
	}
	if len(v.text) > mostText && v.kind == isNumber {
		return p.wrong("a number of %d digits", len(v.text))
	}
	return nil
}

// quoted is text of a sheet as it is shown.
func quoted(s string) string {
	const most = 80
	if len(s) > most {
		s = s[:most] + "…"
	}
	return fmt.Sprintf("%q", s)
}
