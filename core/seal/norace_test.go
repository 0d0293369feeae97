//go:build !race

package seal

const slowly = false
