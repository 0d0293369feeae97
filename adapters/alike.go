package adapters

import (
	"bytes"

	"headway/core"
)

// alike knows the last event of a stream that held one piece of output, apart
// from the piece itself. Most events of a stream differ in nothing else: the
// next one that is alike is known without walking its JSON again: 20 ns in place
// of 400.
type alike struct {
	before, after []byte // around the piece, with its quotes
	mark          core.Mark
}

// piece gives the output, still escaped, of an event that is like the last one
// but for it.
func (a *alike) piece(data []byte) ([]byte, bool) {
	from, to := len(a.before), len(data)-len(a.after)
	if from == 0 || to <= from || !bytes.HasPrefix(data, a.before) || !bytes.HasSuffix(data, a.after) || stringEnd(data, from) != to {
		return nil, false
	}
	return data[from:to], true
}

// learn keeps an event whose only output, of one kind, is the text of the string
// between from and to.
func (a *alike) learn(data []byte, from, to int, mark core.Mark) {
	a.before = append(a.before[:0], data[:from]...)
	a.after = append(a.after[:0], data[to:]...)
	a.mark = mark
}
