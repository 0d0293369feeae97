package prices

import (
	"strconv"
	"strings"

	"headway/core"
)

// places of a decimal in USD: for a token, so that its last is a picodollar, and for a
// million tokens, whose last is that of a token too.
const (
	perToken   = 12
	perMillion = 6
)

// highest is what a rate may be at most: 100,000 USD for a million tokens, as in a
// configuration file.
const highest = core.Rate(100_000_000_000)

// exactly reads a decimal as JSON writes it, perhaps with an exponent, as a whole number
// of 10^-places. It is read digit by digit: what is no whole number is refused, never
// rounded.
func exactly(text string, places int) (core.Rate, error) {
	body, negative := strings.CutPrefix(text, "-")
	mantissa, exponent := body, 0
	if i := strings.IndexAny(body, "eE"); i >= 0 {
		n, err := strconv.Atoi(strings.TrimPrefix(body[i+1:], "+"))
		if err != nil || n > 1000 || n < -1000 {
			return 0, core.Errorf(core.Invalid, "%s is no price", quoted(text))
		}
		mantissa, exponent = body[:i], n
	}
	whole, fraction, point := strings.Cut(mantissa, ".")
	if whole == "" || point && fraction == "" || strings.Trim(whole+fraction, "0123456789") != "" {
		return 0, core.Errorf(core.Invalid, "%s is no price", quoted(text))
	}
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return 0, nil
	}
	if negative {
		return 0, core.Errorf(core.Invalid, "%s is negative", quoted(text))
	}
	// digits·10^shift is the number of 10^-places.
	shift := exponent - len(fraction) + places
	short := strings.TrimRight(digits, "0")
	shift += len(digits) - len(short)
	switch {
	case shift < 0:
		return 0, core.Errorf(core.Invalid, "%s is no whole number of picodollars for a token", quoted(text))
	case len(short)+shift > 18:
		return 0, core.Errorf(core.Invalid, "%s is more than $%s for a million tokens", quoted(text), highest)
	}
	n, err := strconv.ParseInt(short+strings.Repeat("0", shift), 10, 64)
	if err != nil || core.Rate(n) > highest {
		return 0, core.Errorf(core.Invalid, "%s is more than $%s for a million tokens", quoted(text), highest)
	}
	return core.Rate(n), nil
}

// count reads a number of tokens.
func count(text string) (int64, bool) {
	n, err := exactly(text, 0)
	return int64(n), err == nil && n >= 1 && n <= 1<<31-1
}
