package core

import "time"

// Kept is since when things are kept at a time, under a rule of Retention: the start
// of the oldest month whose things are. What is of before has expired. Zero: all is kept.
//
// This is the one rule of what has expired. Things are of the month (UTC) of their own
// time, a call's being that of its id.
func Kept(months Opt[int], now time.Time) time.Time {
	if !months.OK {
		return time.Time{}
	}
	now = now.UTC()
	return time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC).AddDate(0, -months.V, 0)
}

// Expired tells whether what is of a call is of before a time that Kept gave.
func (id CallID) Expired(kept time.Time) bool {
	if kept.IsZero() {
		return false
	}
	at, ok := id.Time()
	return ok && at.Before(kept)
}
