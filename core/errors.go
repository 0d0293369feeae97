package core

import (
	"fmt"
	"net/http"
	"time"
)

// Kind is what code branches on; the list is closed.
type Kind uint8

const (
	Internal     Kind = iota // a fault of Headway's own
	Invalid                  // the caller's request is wrong
	Unauthorized             // no valid key
	Forbidden                // a valid key that may not
	NotFound                 // no such model, call or path
	TooLarge                 // over a size limit
	Busy                     // over a rate, try later
	OverBudget               // the key's budget is used up
	NoOffer                  // nothing eligible is left
	Upstream                 // the provider failed
	Timeout                  // a time limit ran out
	Canceled                 // the caller left
	Unavailable              // the store cannot take a receipt
	Upgrade                  // the protocol asked for is not spoken
	WrongMethod              // a path's method is another one
)

// KindInfo is what the outside sees of a Kind.
type KindInfo struct {
	Name   string // the error type in a body
	Status int    // the HTTP status
	Exit   int    // the exit code of a command
}

// Kinds is the one table of kinds; the documents print it.
var Kinds = map[Kind]KindInfo{
	Internal:     {"internal_error", http.StatusInternalServerError, 1},
	Invalid:      {"invalid_request_error", http.StatusBadRequest, 2},
	Unauthorized: {"authentication_error", http.StatusUnauthorized, 1},
	Forbidden:    {"permission_error", http.StatusForbidden, 1},
	NotFound:     {"not_found_error", http.StatusNotFound, 1},
	TooLarge:     {"request_too_large", http.StatusRequestEntityTooLarge, 1},
	Busy:         {"rate_limit_error", http.StatusTooManyRequests, 1},
	OverBudget:   {"budget_exceeded", http.StatusPaymentRequired, 1},
	NoOffer:      {"no_offer_available", http.StatusServiceUnavailable, 1},
	Upstream:     {"upstream_error", http.StatusBadGateway, 1},
	Timeout:      {"timeout_error", http.StatusGatewayTimeout, 1},
	Canceled:     {"client_gone", 499, 1},
	Unavailable:  {"store_unavailable", http.StatusServiceUnavailable, 1},
	Upgrade:      {"upgrade_required", http.StatusUpgradeRequired, 1},
	WrongMethod:  {"method_not_allowed", http.StatusMethodNotAllowed, 1},
}

// Error is every error that reaches a user. Msg and Hint are safe to show; Err
// is for the log alone.
type Error struct {
	Kind       Kind
	Msg        string // lower case, no full stop, the thing before the fault
	Hint       string // what to do about it
	Param      string // the field at fault, where there is one
	Code       string // a machine's word, where Kind's name is too coarse
	RetryAfter time.Duration
	Err        error
}

// NoCredential is the Code of a call for which Headway has no credential of its
// own: none is configured, and a cloud's usual places give none.
const NoCredential = "no_credential"

// VersionHeader is on a Headway's lists of models and on its errors, so that nobody
// takes it for a model server. Its value is the protocol's version, 1.
const VersionHeader = "X-Headway-Version"

// HopsHeader names the Headways that a call has come through, each by the random id of
// its process, so that one that comes back is refused (Code "loop").
const HopsHeader = "X-Headway-Hops"

// Errorf makes an Error of a kind.
func Errorf(k Kind, format string, args ...any) *Error {
	return &Error{Kind: k, Msg: fmt.Sprintf(format, args...)}
}

// Field makes an Invalid error that names a field.
func Field(name, format string, args ...any) *Error {
	return &Error{Kind: Invalid, Param: name, Msg: name + ": " + fmt.Sprintf(format, args...)}
}

// Error is the safe message.
func (e *Error) Error() string { return e.Msg }

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// Status is the HTTP status of the error.
func (e *Error) Status() int { return Kinds[e.Kind].Status }
