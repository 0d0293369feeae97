package seal

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"headway/core"
)

// Month names one log of an edge: "2026-11", or "2026-11.2" for one that was begun
// because the store had lost a part of what the first had signed. Their order is
// that of their text up to nine parts, which is what a month has at most.
type Month string

const mostParts = 9

// monthOf is the month in UTC that a time is in.
func monthOf(at time.Time) Month { return Month(at.UTC().Format("2006-01")) }

// valid tells whether it is the name of a log.
func (m Month) valid() bool {
	day, part, parted := strings.Cut(string(m), ".")
	if parted && (len(part) != 1 || part[0] < '2' || part[0] > '0'+mostParts) {
		return false
	}
	at, err := time.Parse("2006-01", day)
	return err == nil && string(monthOf(at)) == day
}

// calendar is the month itself, without a part.
func (m Month) calendar() Month { return m[:min(len(m), len("2006-01"))] }

// end is when the month is over.
func (m Month) end() time.Time {
	at, _ := time.Parse("2006-01", string(m.calendar()))
	return at.AddDate(0, 1, 0)
}

// next is the month after this one.
func (m Month) next() Month { return monthOf(m.end()) }

// part is the n-th log of the month; the first has no number.
func (m Month) part(n int) Month {
	if n < 2 {
		return m.calendar()
	}
	return m.calendar() + "." + Month('0'+rune(n))
}

// checkEdge refuses what cannot stand in a log's origin or a key's name: the name
// of an edge has 1 to 200 bytes of UTF-8 without spaces, "+" and control
// characters, such as "headway.example/k3f9".
func checkEdge(edge string) error {
	const longest = 200
	bad := func(r rune) bool { return r == '+' || unicode.IsSpace(r) || unicode.IsControl(r) }
	if edge == "" || len(edge) > longest || !utf8.ValidString(edge) || strings.ContainsFunc(edge, bad) || strings.Trim(edge, "/") != edge {
		return core.Errorf(core.Invalid, "%q cannot name the log of an edge: 1 to %d bytes without spaces and \"+\"", edge[:min(len(edge), 64)], longest)
	}
	return nil
}

// splitOrigin takes an origin apart: EDGE/MONTH.
func splitOrigin(origin string) (edge string, month Month, ok bool) {
	i := strings.LastIndexByte(origin, '/')
	if i < 0 {
		return "", "", false
	}
	edge, month = origin[:i], Month(origin[i+1:])
	return edge, month, month.valid() && checkEdge(edge) == nil
}

// EdgeOf takes an origin apart; month is "" where it is none.
func EdgeOf(origin string) (edge string, month Month) {
	edge, month, ok := splitOrigin(origin)
	if !ok {
		return "", ""
	}
	return edge, month
}

func originOf(edge string, month Month) string { return edge + "/" + string(month) }
