package measure

// Boundaries are the first values of the buckets, for the test that holds them
// against the rule.
func Boundaries() []uint64 { return buckets.from[:] }
