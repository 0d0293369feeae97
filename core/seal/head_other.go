//go:build !linux

package seal

import "os"

// syncWrites makes each write durable before it returns.
const syncWrites = os.O_SYNC
