package core

import (
	"bytes"
	"encoding/json"
)

// Opt is a value that may be absent. With the JSON option omitzero an absent
// value is left out; a present 0 is written as 0.
type Opt[T any] struct {
	V  T
	OK bool
}

// Some is a present value.
func Some[T any](v T) Opt[T] { return Opt[T]{V: v, OK: true} }

// IsZero tells encoding/json's omitzero that the value is absent.
func (o Opt[T]) IsZero() bool { return !o.OK }

// Or returns the value, or other where it is absent.
func (o Opt[T]) Or(other T) T {
	if o.OK {
		return o.V
	}
	return other
}

// MarshalJSON writes the value; an absent one that was not left out is null.
func (o Opt[T]) MarshalJSON() ([]byte, error) {
	if !o.OK {
		return []byte("null"), nil
	}
	return json.Marshal(o.V)
}

// UnmarshalJSON reads a value; null is absent.
func (o *Opt[T]) UnmarshalJSON(data []byte) error {
	if bytes.Equal(data, []byte("null")) {
		*o = Opt[T]{}
		return nil
	}
	if err := json.Unmarshal(data, &o.V); err != nil {
		return err
	}
	o.OK = true
	return nil
}
