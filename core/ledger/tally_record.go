package ledger

import (
	"encoding/binary"
	"errors"
	"math"

	"headway/core"
)

// cellSum is a record. It is read for each day, key, model, provider and node of a
// period, so its form is one that is quick to read: the version, then the texts with
// their lengths, the counts as varints (of usage one more than they are, 0 for one that
// is not known), and of each speed how many calls, and if any the sum as 8 bytes.
type cellSum struct {
	Cell
	Sum
}

const sumVersion = 1

func (x *cellSum) texts() [5]*string {
	return [...]*string{&x.Day, (*string)(&x.Key), (*string)(&x.Model), (*string)(&x.Provider), (*string)(&x.Node)}
}

func (x *cellSum) counts() [4]*int64 {
	return [...]*int64{&x.Calls, &x.Settled, &x.Estimated, (*int64)(&x.Charge)}
}

func (s *Sum) means() [8]*Mean {
	return [...]*Mean{&s.Speed.FirstToken, &s.Speed.Prefill, &s.Speed.Decode, &s.Speed.Queued,
		&s.NodeSpeed.FirstToken, &s.NodeSpeed.Prefill, &s.NodeSpeed.Decode, &s.NodeSpeed.Queued}
}

func usages(u *core.Usage) [6]*core.Opt[int64] {
	return [...]*core.Opt[int64]{&u.UncachedInput, &u.CacheRead, &u.CacheWrite, &u.CacheWrite1h, &u.Output, &u.Reasoning}
}

// record is what it is kept as.
func (x *cellSum) record() []byte {
	dst := append(make([]byte, 0, 160), sumVersion)
	for _, text := range x.texts() {
		dst = append(binary.AppendUvarint(dst, uint64(len(*text))), *text...)
	}
	for _, n := range x.counts() {
		dst = binary.AppendUvarint(dst, uint64(*n))
	}
	for _, n := range usages(&x.Usage) {
		if n.OK {
			dst = binary.AppendUvarint(dst, uint64(n.V)+1)
		} else {
			dst = append(dst, 0)
		}
	}
	for _, m := range x.means() {
		if dst = binary.AppendUvarint(dst, uint64(m.N)); m.N != 0 {
			dst = binary.BigEndian.AppendUint64(dst, math.Float64bits(m.Sum))
		}
	}
	return dst
}

var errSum = errors.New("it is not one, or of a newer version")

// parse reads a record.
func (x *cellSum) parse(value []byte) error {
	*x = cellSum{}
	if len(value) == 0 || value[0] != sumVersion {
		return errSum
	}
	value = value[1:]
	bad := false
	number := func() uint64 {
		n, size := binary.Uvarint(value)
		if size <= 0 || n > math.MaxInt64 {
			bad, size, n = true, 0, 0
		}
		value = value[max(size, 0):]
		return n
	}
	for _, text := range x.texts() {
		n := number()
		if n > uint64(len(value)) {
			return errSum
		}
		*text, value = string(value[:n]), value[n:]
	}
	for _, n := range x.counts() {
		*n = int64(number())
	}
	for _, u := range usages(&x.Usage) {
		if n := number(); n > 0 {
			*u = core.Some(int64(n - 1))
		}
	}
	for _, m := range x.means() {
		if m.N = int64(number()); m.N == 0 {
			continue
		}
		if len(value) < 8 {
			return errSum
		}
		m.Sum, value = math.Float64frombits(binary.BigEndian.Uint64(value)), value[8:]
	}
	if bad || len(value) > 0 {
		return errSum
	}
	return nil
}
