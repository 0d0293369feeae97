package adapters

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"headway/core"
)

// TestGoogleArgsWithinBounds: a path of a function call's streamed arguments
// cannot ask for more depth or room than any arguments have.
func TestGoogleArgsWithinBounds(t *testing.T) {
	call := func(path string) string {
		return `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","partialArgs":[` + path + `]}}]}}]}`
	}
	var lists []string
	for i := range 1000 {
		lists = append(lists, fmt.Sprintf(`{"jsonPath":"$.a%d[65000]","numberValue":1}`, i))
	}
	for name, event := range map[string]string{
		"deep":  call(`{"jsonPath":"$` + strings.Repeat(".a", 3_000_000) + `","numberValue":1}`),
		"wide":  call(`{"jsonPath":"$` + strings.Repeat("[65000]", 100) + `","numberValue":1}`),
		"lists": call(strings.Join(lists, ",")),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := Google{}.Reader(&core.Job{Streamed: true}, &core.Offer{Provider: &core.Provider{}})
		raw := []byte("data: " + event + "\n\n")
		frame := core.Frame{Raw: raw, Data: raw[len("data: ") : len(raw)-2]}
		r.Read(&frame)
		events := r.Events(&frame)
		runtime.ReadMemStats(&after)
		if made := after.TotalAlloc - before.TotalAlloc; len(events) < 2 || made > 100<<20 {
			t.Errorf("%s: %d events, %d bytes", name, len(events), made)
		}
	}
}
