package control

import (
	"net/http"

	"headway/core"
)

func (d *Desk) listScripts(r *http.Request) (any, error) {
	var list []core.ScriptState
	if d.Scripts != nil {
		list = d.Scripts.List()
	}
	return page(r, list, func(s core.ScriptState) string { return s.Name })
}
