//go:build race

package seal

// slowly: the race detector makes everything some ten times slower, so that tests of
// many cases try fewer.
const slowly = true
