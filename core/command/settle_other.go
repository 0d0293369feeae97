//go:build !linux

package command

// forgetStart does nothing here.
func forgetStart() {}
