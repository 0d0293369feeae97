package core

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// Money is an exact amount in picodollars: 1 USD is 10^12 of them, so a price
// of up to six decimals in dollars per million tokens is a whole number of
// picodollars per token. The range is ±9.22 million USD.
type Money int64

// USD is one dollar.
const USD Money = 1_000_000_000_000

// ErrMoney says that an amount is out of range or not exact.
var ErrMoney = errors.New("amount out of range")

// Times multiplies an amount of one token by a count of tokens.
func (m Money) Times(n int64) (Money, error) {
	neg := (m < 0) != (n < 0)
	hi, lo := bits.Mul64(abs(int64(m)), abs(n))
	if hi != 0 || lo > math.MaxInt64 {
		return 0, ErrMoney
	}
	if neg {
		return -Money(lo), nil
	}
	return Money(lo), nil
}

// Plus adds two amounts.
func (m Money) Plus(o Money) (Money, error) {
	s := m + o
	if o > 0 && s < m || o < 0 && s > m {
		return 0, ErrMoney
	}
	return s, nil
}

// Float is the amount in USD for drawing and for ratios; never compare or add it.
func (m Money) Float() float64 { return float64(m) / float64(USD) }

// String writes the exact decimal in USD without trailing zeros: "0.054399".
func (m Money) String() string { return decimal(int64(m), 12) }

// MarshalJSON writes the exact decimal as a JSON number.
func (m Money) MarshalJSON() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalJSON reads a JSON number or a decimal string, exactly.
func (m *Money) UnmarshalJSON(data []byte) error {
	v, err := parseDecimal(strings.Trim(string(data), `"`), 12)
	if err != nil {
		return err
	}
	*m = Money(v)
	return nil
}

// ParseMoney reads a decimal amount in USD with at most 12 decimals.
func ParseMoney(s string) (Money, error) {
	v, err := parseDecimal(s, 12)
	return Money(v), err
}

// Rate is a price in picodollars per token. Its text is the same number read as
// dollars per million tokens with up to six decimals: "0.075" is 75,000.
type Rate int64

// ParseRate reads dollars per million tokens: a decimal with at most six
// decimals, not negative.
func ParseRate(s string) (Rate, error) {
	v, err := parseDecimal(s, 6)
	if err != nil {
		return 0, err
	}
	if v < 0 {
		return 0, fmt.Errorf("%s is negative", s)
	}
	return Rate(v), nil
}

// String writes dollars per million tokens without trailing zeros.
func (r Rate) String() string { return decimal(int64(r), 6) }

// MarshalText writes dollars per million tokens, as configuration files do.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalJSON reads a decimal string, or a number whose text is one.
func (r *Rate) UnmarshalJSON(data []byte) error {
	v, err := ParseRate(strings.Trim(string(data), `"`))
	if err != nil {
		return err
	}
	*r = v
	return nil
}

func abs(n int64) uint64 {
	if n < 0 {
		return uint64(-(n + 1)) + 1
	}
	return uint64(n)
}

// decimal writes n / 10^places without trailing zeros.
func decimal(n int64, places int) string {
	digits := fmt.Sprintf("%0*d", places+1, abs(n))
	s := digits[:len(digits)-places]
	if frac := strings.TrimRight(digits[len(digits)-places:], "0"); frac != "" {
		s += "." + frac
	}
	if n < 0 {
		return "-" + s
	}
	return s
}

// parseDecimal reads a decimal, with an exponent where JSON writes one, as a
// whole number of 10^-places. More precision than that is an error.
func parseDecimal(s string, places int) (int64, error) {
	bad := fmt.Errorf("%q is not a decimal number with at most %d decimals", s, places)
	body, neg := strings.CutPrefix(s, "-")
	mantissa, exp := body, 0
	if i := strings.IndexAny(body, "eE"); i >= 0 {
		mantissa = body[:i]
		n, err := strconv.Atoi(body[i+1:])
		if err != nil || n > 30 || n < -30 {
			return 0, bad
		}
		exp = n
	}
	whole, frac, dot := strings.Cut(mantissa, ".")
	if whole == "" || dot && frac == "" {
		return 0, bad
	}
	digits := whole + frac
	scale := places + exp - len(frac)
	for ; scale < 0 && strings.HasSuffix(digits, "0"); scale++ {
		digits = digits[:len(digits)-1]
	}
	if scale < 0 && strings.Trim(digits, "0") != "" {
		return 0, bad
	}
	var v uint64
	var over bool // what follows may be no digit, so it is read on to the end
	for _, c := range []byte(digits + strings.Repeat("0", max(scale, 0))) {
		if c < '0' || c > '9' {
			return 0, bad
		}
		hi, lo := bits.Mul64(v, 10)
		v = lo + uint64(c-'0')
		over = over || hi != 0 || v > math.MaxInt64
	}
	if over {
		return 0, fmt.Errorf("%q: %w", s, ErrMoney)
	}
	if neg {
		return -int64(v), nil
	}
	return int64(v), nil
}
