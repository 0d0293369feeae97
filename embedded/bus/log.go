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

// warnings are how the server begins what it says of a connection that did what it
// may not, or was refused. whole: what follows is nothing that may be secret.
var warnings = []struct {
	begins string
	whole  bool
}{
	{"Publish Violation", true}, // the subject
	{"Subscription Violation", true},
	{"TLS handshake error", true},
	{"Slow Consumer", true},
	{"maximum ", false}, // connections, subscriptions, payload
	{"Client parser ERROR", false},
}

// Noticef, Errorf and Warnf are the server's words of different weight; which of them
// it takes for what is not of use.
func (l *serverLog) Noticef(format string, v ...any) { l.say(format, v) }

// Errorf is as Noticef.
func (l *serverLog) Errorf(format string, v ...any) { l.say(format, v) }

// Warnf is as Noticef.
func (l *serverLog) Warnf(format string, v ...any) { l.say(format, v) }

// Debugf is only called where debugging is logged.
func (l *serverLog) Debugf(format string, v ...any) {
	l.debug(fmt.Sprintf(format, v...))
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
	o := originOf(said)
	for _, w := range warnings {
		if strings.HasPrefix(o.rest, w.begins) {
			if !w.whole {
				o.rest = withoutQuotes(o.rest)
			}
			l.limit.warn(l.log, "the bus refused something", append([]any{"says", short(o.rest)}, l.from(o)...)...)
			return
		}
	}
	l.debug(said)
}

func (l *serverLog) debug(said string) {
	o := originOf(said)
	if !strings.HasPrefix(o.rest, "Client connection closed: ") { // the reason is one of the server's own
		o.rest = withoutQuotes(o.rest)
	}
	l.log.Debug("nats", append([]any{"says", short(o.rest)}, l.from(o)...)...)
}

// from is what the log is told of the connection that the server speaks of.
func (l *serverLog) from(o origin) (args []any) {
	if o.address != "" {
		args = append(args, "from", o.address)
		if node := l.node(o.connection); node != "" {
			args = append(args, "node", string(node))
		}
	}
	return args
}

// origin is which connection the server speaks of, where it does, and what it says.
type origin struct {
	address    string
	connection uint64
	rest       string
}

// originOf reads what the server puts in front: ADDRESS - cid:NUMBER, then two texts in
// quotes once it knows who that is, of which the first is the client's own.
func originOf(said string) origin {
	address, rest, ok := strings.Cut(said, " - cid:")
	if !ok {
		return origin{rest: said}
	}
	number, rest, _ := strings.Cut(rest, " - ")
	connection, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return origin{rest: withoutQuotes(said)}
	}
	for range 2 {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			break
		}
		rest = strings.TrimPrefix(rest[len(quoted):], " - ")
	}
	return origin{address, connection, rest}
}

// withoutQuotes cuts off what may be of what the server was sent.
func withoutQuotes(said string) string {
	if i := strings.IndexAny(said, ":=\"'`{"); i >= 0 {
		return said[:i] + " …"
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
