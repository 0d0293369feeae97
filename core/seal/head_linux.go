package seal

import "syscall"

// syncWrites makes each write durable before it returns, without the file's times.
const syncWrites = syscall.O_DSYNC
