package ledger

import (
	"fmt"
	"time"

	"headway/core"
)

// dropAtOnce bounds the sums that one write drops or changes.
const dropAtOnce = 200

// Drop deletes the sums of the days before a day, and tells how many.
func (t *Tally) Drop(before time.Time) (dropped int, err error) {
	for {
		var names []core.Record
		err := t.vault.Scan(tallyKind, firstDay, utcDay(before), false, func(name string, _ []byte) bool {
			names = append(names, core.Record{Kind: tallyKind, Name: name})
			return len(names) < dropAtOnce
		})
		if err == nil && len(names) > 0 {
			err = t.vault.Write(nil, names)
		}
		if err != nil {
			return dropped, fmt.Errorf("drop sums of what was used: %w", err)
		}
		if len(names) == 0 {
			return dropped, nil
		}
		dropped += len(names)
	}
}

// firstDay sorts before every day, and behind what is no sum.
const firstDay = "0"

// DropSpeeds takes the speeds out of the sums of the days before a day, and tells of how
// many.
func (t *Tally) DropSpeeds(before time.Time) (dropped int, err error) {
	for from := firstDay; from != ""; {
		var puts []core.Record
		next := ""
		var bad error
		err := t.vault.Scan(tallyKind, from, utcDay(before), false, func(name string, value []byte) bool {
			var x cellSum
			if bad = x.parse(value); bad != nil {
				bad = damagedSum(name, bad)
				return false
			}
			if x.Speed == (Speeds{}) && x.NodeSpeed == (Speeds{}) {
				return true
			}
			x.HideSpeeds()
			puts = append(puts, core.Record{Kind: tallyKind, Name: name, Value: x.record()})
			if len(puts) == dropAtOnce {
				next = name + "\x00"
			}
			return next == ""
		})
		if err == nil {
			err = bad
		}
		if err == nil && len(puts) > 0 {
			err = t.vault.Write(puts, nil)
		}
		if err != nil {
			return dropped, fmt.Errorf("drop speeds of what was used: %w", err)
		}
		dropped += len(puts)
		from = next
	}
	return dropped, nil
}

// HideSpeeds takes what was measured out of a sum.
func (s *Sum) HideSpeeds() { s.Speed, s.NodeSpeed = Speeds{}, Speeds{} }
