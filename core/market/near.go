package market

import (
	"cmp"
	"slices"
	"strings"

	"headway/core"
)

const (
	mostNear    = 3   // names that a 404 offers
	longestName = 256 // bytes; a longer name is near to none
)

// Near gives up to three names that a key may ask for (as Models) and that are
// close to a name that is unknown, the closest first: a slip of the keyboard, or
// a name cut short. A name of any length costs no more than a long real one.
func (c *Catalogue) Near(name core.Model, key *core.Key, r *core.Routing) []core.Model {
	if len(name) > longestName {
		return nil
	}
	type near struct {
		name     core.Model
		distance int
	}
	asked := strings.ToLower(string(name))
	var found []near
	for _, known := range c.Models(key, r) {
		if len(known) > longestName {
			continue
		}
		k := strings.ToLower(string(known))
		most := max(2, min(len(asked), len(k))/3)
		d, ok := distance(asked, k, most)
		if len(asked) >= 3 && strings.HasPrefix(k, asked) {
			d, ok = min(d, 2), true
		}
		if ok {
			found = append(found, near{known, d})
		}
	}
	slices.SortStableFunc(found, func(a, b near) int { return cmp.Compare(a.distance, b.distance) })
	var names []core.Model
	for _, n := range found[:min(len(found), mostNear)] {
		names = append(names, n.name)
	}
	return names
}

// distance is the number of bytes to insert, delete or replace between a and b,
// both of at most longestName; false, with most+1, where it is more than most.
func distance(a, b string, most int) (int, bool) {
	if max(len(a)-len(b), len(b)-len(a)) > most {
		return most + 1, false
	}
	var row [longestName + 1]int // of the distance from a[:i] to each b[:j]
	for j := range len(b) + 1 {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		least := row[0]
		for j := range len(b) {
			step := diagonal
			if a[i] != b[j] {
				step = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], step
			least = min(least, step)
		}
		if least > most {
			return most + 1, false
		}
	}
	return row[len(b)], row[len(b)] <= most
}
