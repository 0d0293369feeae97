package gateway

import (
	"encoding/json"
	"net/http"

	"headway/core"
)

// longestTiming is more than a node's figures take.
const longestTiming = 4 << 10

// nodeTiming reads a node's own figures of an answer, from its trailer; nil: there
// are none. They are the node's word, held only to what can be.
func nodeTiming(trailer http.Header) *core.NodeTiming {
	text := trailer.Get(core.NodeTimingTrailer)
	if text == "" || len(text) > longestTiming {
		return nil
	}
	var t core.NodeTiming
	if json.Unmarshal([]byte(text), &t) != nil {
		return nil
	}
	if t = t.Sound(); t == (core.NodeTiming{}) {
		return nil
	}
	return &t
}
