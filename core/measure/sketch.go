package measure

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"slices"
)

// The buckets of a sketch are set by integers alone, so that a value falls into
// the same one in any language on any machine:
//
//	b[0] = 1, b[k+1] = max(b[k]+1, ⌊b[k]·101/100⌋)
//
// Bucket k holds b[k] ≤ v < b[k+1]. Below 200 every value has its own; from
// there on a step is at most 1%. The last bucket also takes what is larger.
const (
	largest     = 10_000_000_000_000 // 116 days in µs
	bucketCount = 2702               // of which the last begins at or below largest
)

// buckets is filled once and never changes: the first value of each bucket, the
// value that stands for it, and where each power of two begins.
var buckets = newTable()

type table struct {
	from   [bucketCount + 1]uint64
	middle [bucketCount]uint64
	octave [65]uint16 // the first bucket whose first value needs that many bits
}

func newTable() *table {
	t := &table{}
	t.from[0] = 1
	for k := range bucketCount {
		b := t.from[k]
		t.from[k+1] = max(b+1, b*101/100)
		t.middle[k] = geometricMiddle(b, t.from[k+1])
	}
	for n := range t.octave {
		t.octave[n] = bucketCount
		for k := bucketCount; k >= 0 && bits.Len64(t.from[k]) >= n; k-- {
			t.octave[n] = uint16(k)
		}
	}
	return t
}

// geometricMiddle is ⌊√(a·b)⌋ exactly: the float is a first guess.
func geometricMiddle(a, b uint64) uint64 {
	over := func(r uint64) bool { // r² > a·b
		ph, pl := bits.Mul64(a, b)
		rh, rl := bits.Mul64(r, r)
		return rh > ph || rh == ph && rl > pl
	}
	r := uint64(math.Sqrt(float64(a) * float64(b)))
	for over(r) {
		r--
	}
	for !over(r + 1) {
		r++
	}
	return r
}

// bucketOf finds the bucket of a value, which is 1 or more.
func bucketOf(v uint64) uint16 {
	if v >= buckets.from[bucketCount] {
		return bucketCount - 1
	}
	n := bits.Len64(v)
	// The bucket is the one before the first that begins above v; that one lies
	// within the octave or is the first of the next.
	lo, hi := int(buckets.octave[n]), int(buckets.octave[n+1])
	for lo < hi {
		mid := (lo + hi) / 2
		if buckets.from[mid] <= v {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return uint16(lo - 1)
}

// Sketch counts values in steps of 1%, exactly mergeable in any order. Values
// are integers of 1 and more: µs for times, thousandths of a token per second
// for speeds, millionths for ratios. The zero Sketch is empty and ready. It is
// not safe for concurrent use.
type Sketch struct {
	at    []uint16 // the buckets that hold something, ascending
	count []uint64
	n     uint64
}

// Jobs is how many values were counted.
func (s *Sketch) Jobs() int64 { return int64(s.n) }

// Add counts one value; what is below 1 counts as 1.
func (s *Sketch) Add(v int64) {
	s.n++
	k := bucketOf(uint64(max(v, 1)))
	i, found := slices.BinarySearch(s.at, k)
	if found {
		s.count[i]++
		return
	}
	s.at = slices.Insert(s.at, i, k)
	s.count = slices.Insert(s.count, i, 1)
}

// Merge adds all of another sketch, which stays as it is.
func (s *Sketch) Merge(o *Sketch) {
	s.n += o.n
	// How many buckets are new decides the new length; then both are merged in
	// place from the back, so that a merge into a sketch with room allocates
	// nothing.
	fresh := len(o.at)
	for i, j := 0, 0; i < len(s.at) && j < len(o.at); {
		switch a, b := s.at[i], o.at[j]; {
		case a < b:
			i++
		case a > b:
			j++
		default:
			fresh--
			i++
			j++
		}
	}
	i, j := len(s.at)-1, len(o.at)-1
	s.at = slices.Grow(s.at, fresh)[:len(s.at)+fresh]
	s.count = slices.Grow(s.count, fresh)[:len(s.count)+fresh]
	for to := len(s.at) - 1; j >= 0; to-- {
		switch {
		case i >= 0 && s.at[i] > o.at[j]:
			s.at[to], s.count[to] = s.at[i], s.count[i]
			i--
		case i >= 0 && s.at[i] == o.at[j]:
			s.at[to], s.count[to] = s.at[i], s.count[i]+o.count[j]
			i--
			j--
		default:
			s.at[to], s.count[to] = o.at[j], o.count[j]
			j--
		}
	}
}

// Reset empties the sketch and keeps its room.
func (s *Sketch) Reset() { s.at, s.count, s.n = s.at[:0], s.count[:0], 0 }

// Median is the value of rank ⌊(n−1)/2⌋, the lower of an even count's middle
// two, as the geometric middle of its bucket: off by 0.5% at most. It is 0 for
// an empty sketch.
func (s *Sketch) Median() int64 { return s.Quantile(500) }

// Quantile is the value of rank ⌊(n−1)·permille/1000⌋, counted from 0, by the
// rule of Median.
func (s *Sketch) Quantile(permille int64) int64 {
	if s.n == 0 {
		return 0
	}
	hi, lo := bits.Mul64(s.n-1, uint64(min(max(permille, 0), 1000)))
	rank, _ := bits.Div64(hi, lo, 1000)
	i := 0
	for ; s.count[i] <= rank; i++ {
		rank -= s.count[i]
	}
	return int64(buckets.middle[s.at[i]])
}

// sketchVersion is the first byte of a stored sketch.
const sketchVersion = 1

// mostJobs bounds a stored count, so that no merge can overflow.
const mostJobs = 1 << 48

// ErrSketch says that bytes are not a sketch that Append wrote.
var ErrSketch = errors.New("sketch bytes are damaged")

// Append writes the sketch behind dst: the version byte, then as unsigned
// varints the count of values and, for each bucket that holds something in
// ascending order, its distance from the one before (from 0 for the first) and
// its count.
func (s *Sketch) Append(dst []byte) []byte {
	dst = append(dst, sketchVersion)
	dst = binary.AppendUvarint(dst, s.n)
	var last uint16
	for i, k := range s.at {
		dst = binary.AppendUvarint(dst, uint64(k-last))
		dst = binary.AppendUvarint(dst, s.count[i])
		last = k
	}
	return dst
}

// ParseSketch reads what Append wrote. Bytes that Append would not have written
// are refused with ErrSketch: another version, a cut or padded number, buckets
// out of order or range, counts of 0 or that do not add up, anything behind.
func ParseSketch(data []byte) (*Sketch, error) {
	if len(data) < 2 || data[0] != sketchVersion {
		return nil, ErrSketch
	}
	rest, ok := data[1:], true
	next := func() uint64 {
		v, n := binary.Uvarint(rest)
		// A last byte of 0 is padding: the same number in more bytes.
		if n <= 0 || n > 1 && rest[n-1] == 0 {
			ok, rest = false, nil
			return 0
		}
		rest = rest[n:]
		return v
	}
	s := &Sketch{n: next()}
	if s.n > mostJobs {
		return nil, ErrSketch
	}
	var at, sum uint64
	for ok && len(rest) > 0 {
		step, count := next(), next()
		if step >= bucketCount || step == 0 && len(s.at) > 0 || count == 0 || count > s.n {
			return nil, ErrSketch
		}
		at += step
		sum += count
		if at >= bucketCount || sum > s.n {
			return nil, ErrSketch
		}
		s.at = append(s.at, uint16(at))
		s.count = append(s.count, count)
	}
	if !ok || sum != s.n {
		return nil, ErrSketch
	}
	return s, nil
}
