package gateway

import (
	"encoding/json"
	"net/http"

	"headway/core"
)

// longestTiming is more than a node's figures take.
const longestTiming = 4 << 10

// nodeTiming reads a node's own figures of an answer, from its trailer; nil: there
// are none. They are the node's word, held only to what can be: nothing that it did for
// a call took longer than the call was with it.
func (c *call) nodeTiming(t *try, trailer http.Header) *core.NodeTiming {
	text := trailer.Get(core.NodeTimingTrailer)
	if text == "" || len(text) > longestTiming {
		return nil
	}
	var n core.NodeTiming
	if json.Unmarshal([]byte(text), &n) != nil {
		return nil
	}
	n = n.Sound().Within(c.g.Clock().Sub(t.line.T1), t.line.T1.Sub(c.t0))
	if n == (core.NodeTiming{}) {
		return nil
	}
	return &n
}
