// Package core holds the words of Headway: the types that every other package
// speaks in, and the contracts between packages. It imports only the standard
// library and does no I/O.
//
// # Glossary
//
//   - Provider: an upstream account or server that answers calls.
//   - Model: the exact name that clients ask for. Headway never substitutes another.
//   - Offer: one provider serving one model at a price, with limits, capacity and
//     an owner. The thing that is ranked.
//   - Key: a caller's API key, with its restrictions and owner.
//   - Job: what a caller is doing, reduced to what choosing and charging need; one
//     or more calls share a job when they carry the same x-headway-job.
//   - Call: one client request and its answer.
//   - Attempt: one try of a call at one offer.
//   - Fresh input tokens: input that the provider had to process: uncached plus
//     written to its cache. Tokens read from the cache are not fresh.
//   - Decision: the ranked offers of a call with the figures that ranked them.
//   - Receipt: what is kept of a call that was dispatched.
//   - Measure: a median over a provider's and model's jobs of the last week.
//
// A value that was not measured is absent ([Opt]), never 0.
package core

import (
	"crypto/rand"
	"time"
)

type (
	// ProviderID names a provider of the configuration, such as "openai".
	ProviderID string
	// Model is the exact name that clients ask for.
	Model string
	// OfferID is provider/model unless the configuration sets another.
	OfferID string
	// KeyID names a caller's key; it is not the secret.
	KeyID string
	// CallID is Headway's own id of a call: 26 characters of lower-case
	// Crockford base32, the first ten of which are its time in ms since 1970.
	CallID string
	// JobID groups calls; a call without x-headway-job is its own job.
	JobID string
	// NodeID names a worker machine.
	NodeID string
)

// Clock tells the time; the only implementation outside tests is time.Now,
// whose values carry the monotonic reading that durations are taken from.
type Clock func() time.Time

const crockford = "0123456789abcdefghjkmnpqrstvwxyz"

// NewCallID makes an id whose order is the order of at, to the millisecond.
func NewCallID(at time.Time) CallID {
	var raw [16]byte
	_, _ = rand.Read(raw[6:]) // never fails: the runtime aborts instead
	ms := uint64(at.UnixMilli())
	for i := range 6 {
		raw[i] = byte(ms >> (40 - 8*i))
	}
	var out [26]byte
	// 26 digits of 5 bits hold 130 bits: the first digit has the top three.
	var acc uint32
	bits := 2
	pos := 0
	for _, b := range raw {
		acc = acc<<8 | uint32(b)
		bits += 8
		for bits >= 5 {
			bits -= 5
			out[pos] = crockford[acc>>bits&31]
			pos++
		}
	}
	return CallID(out[:])
}

// Time returns the millisecond that a CallID was made in, and false where id
// is not one that NewCallID made.
func (id CallID) Time() (time.Time, bool) {
	if len(id) != 26 {
		return time.Time{}, false
	}
	var ms uint64
	for i := range 26 {
		d := digit(id[i])
		if d < 0 || i == 0 && d > 7 {
			return time.Time{}, false
		}
		if i < 10 {
			ms = ms<<5 | uint64(d)
		}
	}
	return time.UnixMilli(int64(ms)).UTC(), true
}

// Seed is a number made of the id's random part: two calls hardly share one.
func (id CallID) Seed() (seed uint64) {
	for i := 10; i < len(id); i++ {
		seed = seed<<5 ^ seed>>59 ^ uint64(digit(id[i]))
	}
	return seed
}

func digit(c byte) int {
	for i := range len(crockford) {
		if crockford[i] == c {
			return i
		}
	}
	return -1
}
