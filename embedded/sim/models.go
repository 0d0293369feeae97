package sim

import (
	"net/http"
	"strings"

	"headway/core"
)

// list answers a GET: the list of models, or one of them.
func (p *Provider) list(w wire, r *http.Request) script {
	path := strings.TrimSuffix(r.URL.Path, "/")
	if strings.HasSuffix(path, "/models") {
		return whole(w, 0, w.models(p.cfg.Models))
	}
	_, name, ok := strings.Cut(path, "/models/")
	if !ok || name == "" || !p.serves(name) {
		e := core.Errorf(core.NotFound, "%s is not served here", r.URL.Path)
		return refuse(w, e)
	}
	return whole(w, 0, w.model(name))
}
