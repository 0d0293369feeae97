package bus

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"headway/core"
)

// serverLog is where the NATS server logs: what somebody outside did wrong as
// warnings, the rest for debugging. The server quotes what it was sent, which may be
// a token or a prompt, where it does not understand it: that part is left out.
type serverLog struct {
	log   *slog.Logger
	limit *limiter
	node  func(connection uint64) core.NodeID

	mu  sync.Mutex
	end error // of the server, where it could not begin
}

// warnings begin what the server says of a connection that did what it may not, or
// was refused.
var warnings = []string{"Publish Violation", "Subscription Violation", "TLS handshake error", "Slow Consumer", "maximum connections exceeded",
	"maximum subscriptions exceeded", "maximum payload", "parser ERROR", "Maximum Payload"}

// Noticef, Errorf and Warnf are the server's words of different weight; which of them
// it takes for what is not of use.
func (l *serverLog) Noticef(format string, v ...any) { l.say(format, v) }

// Errorf is as Noticef.
func (l *serverLog) Errorf(format string, v ...any) { l.say(format, v) }

// Warnf is as Noticef.
func (l *serverLog) Warnf(format string, v ...any) { l.say(format, v) }

// Debugf is only called where debugging is logged.
func (l *serverLog) Debugf(format string, v ...any) {
	l.log.Debug("nats", "says", withoutQuotes(fmt.Sprintf(format, v...)))
}

// Tracef is never called: it would have every message.
func (l *serverLog) Tracef(string, ...any) {}

// Fatalf says that the server cannot begin, and why.
func (l *serverLog) Fatalf(_ string, v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range v {
		if err, ok := x.(error); ok {
			l.end = errors.Join(l.end, err)
		}
	}
}

// fatal is why the server could not begin.
func (l *serverLog) fatal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

func (l *serverLog) say(format string, v []any) {
	said := fmt.Sprintf(format, v...)
	for _, w := range warnings {
		if i := strings.Index(said, w); i >= 0 {
			args := []any{"says", short(withoutQuotes(said[i:]))}
			if from, cid, ok := origin(said); ok {
				args = append(args, "from", from)
				if node := l.node(cid); node != "" {
					args = append(args, "node", string(node))
				}
			}
			l.limit.warn(l.log, "the bus had to refuse something", args...)
			return
		}
	}
	l.log.Debug("nats", "says", withoutQuotes(said))
}

// origin is the address and the number of the connection that the server speaks of.
func origin(said string) (from string, cid uint64, ok bool) {
	from, rest, ok := strings.Cut(said, " - cid:")
	if !ok {
		return "", 0, false
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(rest)
	}
	cid, err := strconv.ParseUint(rest[:end], 10, 64)
	return from, cid, err == nil
}

// withoutQuotes cuts off what the server quotes of what it was sent.
func withoutQuotes(said string) string {
	before, _, cut := strings.Cut(said, "proto=")
	if cut {
		return before + "…"
	}
	return said
}

// short keeps what strangers wrote from filling the log.
func short(s string) string {
	const most = 200
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// limiter lets a few lines in each while through that strangers can cause.
type limiter struct {
	clock core.Clock

	mu      sync.Mutex
	began   time.Time
	lines   int
	omitted int
}

const (
	limiterWhile = 10 * time.Second
	limiterLines = 20
)

func (l *limiter) warn(log *slog.Logger, msg string, args ...any) {
	now := l.clock()
	l.mu.Lock()
	var omitted int
	if now.Sub(l.began) >= limiterWhile || l.began.IsZero() {
		l.began, l.lines = now, 0
		omitted, l.omitted = l.omitted, 0
	}
	l.lines++
	let := l.lines <= limiterLines
	if !let {
		l.omitted++
	}
	l.mu.Unlock()
	if omitted > 0 {
		log.Warn("lines of the bus were left out", "lines", omitted)
	}
	if let {
		log.Warn(msg, args...)
	}
}

// cause is what the log is told beside an error's own words.
func cause(err error) string {
	var e *core.Error
	if errors.As(err, &e) && e.Err != nil {
		return e.Err.Error()
	}
	return ""
}
