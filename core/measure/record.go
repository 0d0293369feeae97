package measure

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"headway/core"
)

// The kinds of the records that a Board keeps in the vault.
//
//	day   YYYY-MM-DD/MEASURE/PROVIDER/MODEL        a Sketch (Sketch.Append)
//	day   YYYY-MM-DD/ERROR/OFFER                   a Sketch (errorNames)
//	ttft  OFFER                                    {"ms": …, "at": …}
//
// The parts of a name are escaped as path segments of a URL.
const (
	kindDay  = "day"
	kindTTFT = "ttft"
)

// entry names one sketch of one day: of a pair's measure, or of an offer's
// errors.
type entry struct {
	day   day
	what  string
	pair  Pair
	offer core.OfferID
}

func (e entry) name() string {
	head := e.day.String() + "/" + e.what + "/"
	if slices.Contains(errorNames[:], e.what) {
		return head + url.PathEscape(string(e.offer))
	}
	return head + url.PathEscape(string(e.pair.Provider)) + "/" + url.PathEscape(string(e.pair.Model))
}

// parseEntry reads a name; false: it is not one that name writes.
func parseEntry(name string) (entry, bool) {
	parts := strings.Split(name, "/")
	if len(parts) < 3 {
		return entry{}, false
	}
	at, err := time.Parse(time.DateOnly, parts[0])
	if err != nil {
		return entry{}, false
	}
	e := entry{day: dayOf(at), what: parts[1]}
	for i := range parts[2:] {
		if parts[2+i], err = url.PathUnescape(parts[2+i]); err != nil {
			return entry{}, false
		}
	}
	if slices.Contains(errorNames[:], e.what) {
		e.offer = core.OfferID(parts[2])
		return e, len(parts) == 3
	}
	if len(parts) != 4 {
		return entry{}, false
	}
	e.pair = Pair{core.ProviderID(parts[2]), core.Model(parts[3])}
	return e, true
}

// load fills a new board from the vault. A record that cannot be read is an
// error, never a missing one. Days older than keepDays and estimates that have
// expired are deleted.
func (b *Board) load() error {
	now := b.clock()
	oldest := dayOf(now) - keepDays
	var stale []core.Record
	var bad error
	err := b.vault.All(kindDay, func(name string, value []byte) bool {
		e, ok := parseEntry(name)
		if !ok {
			bad = damaged(kindDay, name, nil)
			return false
		}
		if e.day < oldest {
			stale = append(stale, core.Record{Kind: kindDay, Name: name})
			return true
		}
		s, err := ParseSketch(value)
		if err != nil {
			bad = damaged(kindDay, name, err)
			return false
		}
		if into := sketchOf(b.days, e); into != nil {
			*into = *s
		}
		return true
	})
	if err == nil && bad == nil {
		err = b.vault.All(kindTTFT, func(name string, value []byte) bool {
			var s sample
			if err := json.Unmarshal(value, &s); err != nil || !(s.MS > 0) {
				bad = damaged(kindTTFT, name, err)
				return false
			}
			if !s.alive(now) {
				stale = append(stale, core.Record{Kind: kindTTFT, Name: name})
				return true
			}
			b.recent.put(core.OfferID(name), s)
			return true
		})
	}
	if bad != nil {
		return bad
	}
	if err != nil {
		return fmt.Errorf("read measures: %w", err)
	}
	for _, r := range stale {
		if err := b.vault.Delete(r.Kind, r.Name); err != nil {
			return fmt.Errorf("drop old measures: %w", err)
		}
	}
	return nil
}

// drop forgets the days before oldest. Where the vault does not take it the day
// stays and is tried again with the next roll.
func (b *Board) drop(oldest day) {
	b.mu.Lock()
	stale := map[day][]string{}
	for d, s := range b.days {
		if d >= oldest {
			continue
		}
		for p, of := range s.pairs {
			for m := range of {
				if of[m].Jobs() > 0 {
					stale[d] = append(stale[d], entry{day: d, what: measureNames[m], pair: p}.name())
				}
			}
		}
		for o, of := range s.errors {
			for kind := range of {
				if of[kind].Jobs() > 0 {
					stale[d] = append(stale[d], entry{day: d, what: errorNames[kind], offer: o}.name())
				}
			}
		}
	}
	b.mu.Unlock()
	for d, names := range stale {
		if slices.ContainsFunc(names, func(name string) bool { return b.vault.Delete(kindDay, name) != nil }) {
			continue
		}
		b.mu.Lock()
		delete(b.days, d)
		b.mu.Unlock()
	}
}

func damaged(kind, name string, err error) error {
	return &core.Error{
		Kind: core.Unavailable,
		Msg:  fmt.Sprintf("measures: record %s %q cannot be read", kind, name),
		Hint: "restore the data folder from a backup, or start the version of headway that wrote it",
		Err:  err,
	}
}

// sketchOf is the sketch of an entry, made where there is none; nil for a measure
// that this version does not know.
func sketchOf(days map[day]*daySketches, e entry) *Sketch {
	d := made(days, e.day)
	if d.pairs == nil {
		d.pairs, d.errors = map[Pair]*sketches{}, map[core.OfferID]*offErrors{}
	}
	if kind := slices.Index(errorNames[:], e.what); kind >= 0 {
		return &made(d.errors, e.offer)[kind]
	}
	for m, name := range measureNames {
		if name == e.what {
			return &made(d.pairs, e.pair)[m]
		}
	}
	return nil
}
