package seal

import (
	"fmt"
	"math/big"
	"math/bits"
	"strings"
	"time"

	"headway/core"
)

// What is wrong with an export, in one word.
const (
	WrongFormat      = "format"       // not a line of this format, or not where it may stand
	WrongEdited      = "edited"       // not what was signed
	WrongMissing     = "missing"      // something that was signed is not there
	WrongOrder       = "out_of_order" // it is there, later
	WrongTwice       = "twice"        // it was there already
	WrongCutShort    = "cut_short"    // it ends too early, or holds less than the saved checkpoint
	WrongSignature   = "signature"    // a signature is not that of its key
	WrongUnknownKey  = "unknown_key"  // signed by none of the known keys
	WrongUnwitnessed = "unwitnessed"  // signed by no witness that was asked for
	WrongRewritten   = "rewritten"    // signed, but not what the saved checkpoint was over
)

// Problem is the first thing that is wrong.
type Problem struct {
	Line int64  `json:"line,omitempty"` // of an export, from 1; of what is cut short the first that is not there; absent: it is in none
	File string `json:"file,omitempty"` // of a tree
	Word string `json:"problem"`
	Text string `json:"message"`
}

// String is the sentence that is shown.
func (p *Problem) String() string {
	switch {
	case p.File != "":
		return p.File + ": " + p.Text
	case p.Line == 0:
		return p.Text
	}
	return fmt.Sprintf("line %d: %s", p.Line, p.Text)
}

// Sums are what the receipts come to, exactly.
type Sums struct {
	Receipts   int64  `json:"receipts"`
	Charge     Amount `json:"charge_usd"`
	Uncharged  int64  `json:"uncharged"` // receipts of which the charge is not known
	Uncached   int64  `json:"uncached_input_tokens"`
	CacheRead  int64  `json:"cache_read_tokens"`
	CacheWrite int64  `json:"cache_write_tokens"`
	Output     int64  `json:"output_tokens"`
}

// Amount is a sum of money without an end: 128 bits hold 2^64 amounts.
type Amount struct{ hi, lo uint64 } // two's complement

func (a *Amount) add(m core.Money) { a.join(Amount{uint64(m >> 63), uint64(m)}) }

func (a *Amount) join(o Amount) {
	var carry uint64
	a.lo, carry = bits.Add64(a.lo, o.lo, 0)
	a.hi, _ = bits.Add64(a.hi, o.hi, carry)
}

// Picodollars is the amount in 10^-12 USD.
func (a Amount) Picodollars() *big.Int {
	v := new(big.Int).SetInt64(int64(a.hi))
	return v.Lsh(v, 64).Add(v, new(big.Int).SetUint64(a.lo))
}

// String is the exact decimal in USD.
func (a Amount) String() string {
	v := a.Picodollars()
	sign := ""
	if v.Sign() < 0 {
		sign = "-"
	}
	const places = 12
	digits := fmt.Sprintf("%0*s", places+1, v.Abs(v))
	whole, rest := digits[:len(digits)-places], strings.TrimRight(digits[len(digits)-places:], "0")
	if rest != "" {
		rest = "." + rest
	}
	return sign + whole + rest
}

// MarshalJSON writes the exact decimal as a JSON number, as core.Money does.
func (a Amount) MarshalJSON() ([]byte, error) { return []byte(a.String()), nil }

func (s *Sums) add(l *Leaf) {
	s.Receipts++
	if l.Charge.OK {
		s.Charge.add(l.Charge.V)
	} else {
		s.Uncharged++
	}
	s.Uncached += l.Usage.UncachedInput.V
	s.CacheRead += l.Usage.CacheRead.V
	s.CacheWrite += l.Usage.CacheWrite.V
	s.Output += l.Usage.Output.V
}

func (s *Sums) join(o *Sums) {
	s.Receipts += o.Receipts
	s.Uncharged += o.Uncharged
	s.Uncached += o.Uncached
	s.CacheRead += o.CacheRead
	s.CacheWrite += o.CacheWrite
	s.Output += o.Output
	s.Charge.join(o.Charge)
}

// Report is what a verification found.
type Report struct {
	OK bool `json:"ok"`
	// KeysFrom says whom the keys were believed from: "given", or "export", which
	// then proves only that the export agrees with itself.
	KeysFrom string      `json:"keys_from"`
	Keys     []Key       `json:"keys"` // those that signed
	Logs     []LogReport `json:"logs"`
	Total    Sums        `json:"total"`
	Lines    int64       `json:"lines,omitempty"`
	Problem  *Problem    `json:"error,omitempty"`
}

// LogReport is what is held of one log.
type LogReport struct {
	Tree
	From         uint64     `json:"from"` // of the leaves that are here
	To           uint64     `json:"to"`
	Closed       bool       `json:"closed"`            // its last leaf says that its month is over
	Follows      string     `json:"follows,omitempty"` // the log that its first leaf names
	Lost         []Tree     `json:"lost,omitempty"`    // what its first leaf says was signed and is gone
	Saved        string     `json:"saved,omitempty"`   // how it stands to the saved checkpoint: "same" or "grown"
	Cosignatures int        `json:"cosignatures"`      // of others; only a witness's that was asked for is checked
	Witness      string     `json:"witness,omitempty"` // that was asked for and has signed
	WitnessedAt  *time.Time `json:"witnessed_at,omitempty"`
	Erased       int64      `json:"erased,omitempty"`    // leaves that say that a private part was dropped
	NewKeys      []Key      `json:"new_keys,omitempty"`  // that its leaves introduce
	Measured     int64      `json:"measured,omitempty"`  // receipts with unsigned measurements beside them
	FirstTime    int64      `json:"first_time,omitzero"` // of the calls, ms since 1970
	LastTime     int64      `json:"last_time,omitzero"`
	Sums
}
