package store_test

import (
	"log/slog"
	"strconv"
	"time"
)

// children are what the test binary does as a process of its own.
var children = map[string]func(dir string) error{
	"hold":  hold,
	"crash": crash,
	"seal":  sealing,
	"idle":  idle,
	"drop":  dropping,
	"erase": erasing,
}

var (
	silent = slog.New(slog.DiscardHandler)
	clock  = time.Now
)

func itoa(n int) string { return strconv.Itoa(n) }
