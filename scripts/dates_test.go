package scripts_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	_ "time/tzdata" // the zones, where the machine has none
)

// datesSeen are expressions of dates and what they are in every time zone.
var datesSeen = [...][2]string{
	{"new Date().toISOString()", "2026-05-06T12:00:00.000Z"},
	{"new Date(2026, 0, 1, 9).toISOString()", "2026-01-01T09:00:00.000Z"},
	{"new Date(...[2026, 6, 1]).toISOString()", "2026-07-01T00:00:00.000Z"},
	{"new Date(99, 0).getFullYear()", "1999"},
	{"new Date(86400000).getDate()", "2"},
	{"new Date(new Date(5)).getTime()", "5"},
	{"new Date('2026-01-01T09:00:00').toISOString()", "2026-01-01T09:00:00.000Z"},
	{"new Date('2026-01-01T09:00:00.250').toISOString()", "2026-01-01T09:00:00.250Z"},
	{"new Date('2026-01-01T09:00').toISOString()", "2026-01-01T09:00:00.000Z"},
	{"new Date('2026-01-01').toISOString()", "2026-01-01T00:00:00.000Z"},
	{"new Date('2026-01').toISOString()", "2026-01-01T00:00:00.000Z"},
	{"new Date('2026-01-01T09:00:00Z').toISOString()", "2026-01-01T09:00:00.000Z"},
	{"new Date('2026-01-01T09:00:00+02:00').toISOString()", "2026-01-01T07:00:00.000Z"},
	{"new Date('2026-01-01T09:00:00.5-03:30').toISOString()", "2026-01-01T12:30:00.500Z"},
	{"new Date('January 5, 2026 10:00').toISOString()", "2026-01-05T10:00:00.000Z"},
	{"new Date('5 Jan 2026').toISOString()", "2026-01-05T00:00:00.000Z"},
	{"new Date('Mon, 05 Jan 2026 10:00:00 GMT').toISOString()", "2026-01-05T10:00:00.000Z"},
	{"new Date('Mon, 05 Jan 2026 10:00:00 +0200').toISOString()", "2026-01-05T08:00:00.000Z"},
	{"new Date('Mon Jan 05 2026 10:00:00 GMT+0200 (CEST)').toISOString()", "2026-01-05T08:00:00.000Z"},
	{"Date.parse(String(new Date(1e12)))", "1000000000000"},
	{"Date.parse('2026-07-01 12:30')", "1782909000000"},
	{"isNaN(Date.parse('nonsense'))", "true"},
	{"isNaN(new Date('2026-13-01'))", "true"},
	{"new Date(0)", "Thu Jan 01 1970 00:00:00 GMT+0000 (UTC)"},
	{"new Date(0).toDateString()", "Thu Jan 01 1970"},
	{"new Date(0).toTimeString()", "00:00:00 GMT+0000 (UTC)"},
	{"String(new Date(NaN))", "Invalid Date"},
	{"new Date(0).getTimezoneOffset()", "0"},
	{"new Date(0)['get' + 'Hours']()", "0"},
	{"(d => { d.setHours(5); return d.getTime(); })(new Date(0))", "18000000"},
	{"(d => { d.setFullYear(2000, 1, 29); return d.toISOString(); })(new Date(0))", "2000-02-29T00:00:00.000Z"},
	{"(d => { d['set' + 'Minutes'](90); return d.toJSON(); })(new Date(0))", "1970-01-01T01:30:00.000Z"},
	{"new Date(0) instanceof Date", "true"},
	{"Date.UTC(2026, 0, 1)", "1767225600000"},
}

// TestZoneChild is started by TestSameInEveryZone, in a zone.
func TestZoneChild(t *testing.T) {
	if os.Getenv("ZONE_CHILD") == "" {
		return
	}
	q := patient(1)
	for _, c := range datesSeen {
		fmt.Printf("SEEN %s\n", said(t, q, c[0]))
	}
}

// TestSameInEveryZone: a script sees the same dates wherever it runs.
func TestSameInEveryZone(t *testing.T) {
	for _, zone := range []string{"UTC", "Asia/Tokyo", "America/New_York", "Asia/Kathmandu", "Pacific/Apia"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestZoneChild$")
		cmd.Env = append(os.Environ(), "ZONE_CHILD=1", "TZ="+zone)
		out, err := cmd.CombinedOutput()
		var seen []string
		for line := range strings.Lines(string(out)) {
			if s, ok := strings.CutPrefix(line, "SEEN "); ok {
				seen = append(seen, strings.TrimSuffix(s, "\n"))
			}
		}
		if err != nil || len(seen) != len(datesSeen) {
			t.Fatalf("%s: %v\n%s", zone, err, out)
		}
		for i, c := range datesSeen {
			if seen[i] != c[1] {
				t.Errorf("%s: %s is %s, want %s", zone, c[0], seen[i], c[1])
			}
		}
	}
}
