package control

import (
	"cmp"
	"net/http"
	"slices"

	"headway/core"
	"headway/core/market"
)

// Script is a strategy in JavaScript and what uses it.
type Script struct {
	core.ScriptState
	UsedBy []string `json:"used_by"` // routing.strategy, and keys: key NAME
}

// scriptMissing is the state of one that something uses and that is not there: the
// default ranks in its place.
const scriptMissing = "missing"

func (d *Desk) listScripts(r *http.Request) (any, error) {
	used := map[string][]string{}
	use := func(strategy, by string) {
		if _, builtin := market.ByName(strategy); strategy != "" && !builtin {
			used[strategy] = append(used[strategy], by)
		}
	}
	f := d.force.Load()
	use(f.file.Settings.Routing.Strategy, "routing.strategy")
	for _, k := range f.keys {
		if !k.Revoked {
			use(k.Strategy, "key "+k.Name)
		}
	}
	list := []Script{}
	if d.Scripts != nil {
		for _, s := range d.Scripts.List() {
			list = append(list, Script{s, append([]string{}, used[s.Name]...)})
			delete(used, s.Name)
		}
	}
	for name, by := range used {
		list = append(list, Script{core.ScriptState{Name: name, State: scriptMissing}, by})
	}
	slices.SortFunc(list, func(a, b Script) int { return cmp.Compare(a.Name, b.Name) })
	return page(r, list, func(s Script) string { return s.Name })
}
