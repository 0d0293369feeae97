package command

import (
	"context"
	"time"
)

// settleAfter is when a process has started: the first calls came long before.
const settleAfter = 3 * time.Second

// Settle waits until the process has started, or ctx ends, and gives back the memory
// that only starting took.
func Settle(ctx context.Context) error {
	timer := time.NewTimer(settleAfter)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
		forgetStart()
	}
	return nil
}
