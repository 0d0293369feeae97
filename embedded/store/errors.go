package store

import (
	"errors"
	"fmt"

	"headway/core"
)

const restoreHint = "restore the last backup with `headway restore`"

// asError wraps what Badger or the system said in a sentence of ours; nil, and an
// error that has one, stay as they are.
func asError(err error, format string, args ...any) error {
	var ours *core.Error
	if err == nil || errors.As(err, &ours) {
		return err
	}
	return &core.Error{Kind: core.Unavailable, Msg: fmt.Sprintf(format, args...), Err: err}
}

func errClosed() error { return core.Errorf(core.Unavailable, "the store is closed") }

// damagedRecord says that there is a record that cannot be read.
func damagedRecord(what string, cause error) error {
	return &core.Error{
		Kind: core.Unavailable, Msg: what + " cannot be read: the store is damaged", Hint: restoreHint, Err: cause,
	}
}

func damagedFolder(dir string, cause error) error {
	return &core.Error{Kind: core.Unavailable, Msg: dir + " cannot be opened: the store is damaged", Hint: restoreHint, Err: cause}
}

// caught turns a panic of Badger's, which damaged blocks can cause, into an error.
func caught(err *error) {
	if p := recover(); p != nil {
		*err = panicError(p)
	}
}

// panicError has the kind of the panic's value alone: its text can hold data.
func panicError(p any) error { return fmt.Errorf("panic of %T", p) }

// cause is what the log is told beside an error's own words.
func cause(err error) string {
	var e *core.Error
	if errors.As(err, &e) && e.Err != nil {
		return e.Err.Error()
	}
	return ""
}
