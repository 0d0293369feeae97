package fleet

import (
	"time"

	"headway/core"
)

// DropCalls deletes what nodes told of calls of before a time, and tells of how many
// attempts.
func (e *Edge) DropCalls(before time.Time) (dropped int, err error) {
	t := &e.calls
	for {
		t.mu.Lock()
		var drops []core.Record
		err := e.Vault.Scan(kindTold, "", "", false, func(name string, _ []byte) bool {
			id := core.CallID(name[:min(len(name), len(core.NewCallID(before)))])
			if !id.Expired(before) {
				return false // they are in the order of their calls' times
			}
			drops = append(drops, core.Record{Kind: kindTold, Name: name})
			return len(drops) < dropTold
		})
		if err == nil && len(drops) > 0 {
			err = e.Vault.Write(nil, drops)
		}
		if err == nil && t.known {
			t.n -= len(drops)
		}
		t.mu.Unlock()
		if err != nil || len(drops) == 0 {
			return dropped, err
		}
		dropped += len(drops)
	}
}
