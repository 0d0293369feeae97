package gateway

import (
	"net/http"
	"strings"

	"headway/core"
)

// mostHops is how many Headways one call may come through.
const mostHops = 16

// looped refuses a call that has come through this process before: a provider's address,
// or that of a node's model server, leads back here.
func (g *Gateway) looped(h http.Header) error {
	v := h.Get(core.HopsHeader)
	if v == "" {
		return nil
	}
	n := 0
	for hop := range strings.SplitSeq(v, ",") {
		if n++; n > mostHops || strings.TrimSpace(hop) == g.hop {
			return &core.Error{Kind: core.Invalid, Code: "loop", Msg: "the call came back to where it began",
				Hint: "an upstream's address is that of a Headway: name that of the model server itself"}
		}
	}
	return nil
}

// mark adds this process to those that a call came through, where the upstream may be
// another Headway: what is called over http:// is a machine near by, or a node.
func (c *call) mark(r *http.Request, p *core.Provider) {
	if !strings.HasPrefix(p.BaseURL, "http://") {
		return
	}
	hops := c.g.hop
	if before := c.head.Header.Get(core.HopsHeader); before != "" {
		hops = before + ", " + hops
	}
	r.Header[core.HopsHeader] = []string{hops}
}

// inHeader is a name as a header may have it: bytes that are not ASCII are escaped as
// in URLs.
func inHeader(name string) string {
	const hex = "0123456789ABCDEF"
	plain := true
	for i := range len(name) {
		plain = plain && name[i] >= ' ' && name[i] <= '~'
	}
	if plain {
		return name
	}
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; c >= ' ' && c <= '~' && c != '%' {
			b.WriteByte(c)
		} else {
			b.WriteString(string([]byte{'%', hex[c>>4], hex[c&15]}))
		}
	}
	return b.String()
}
