package bus

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"headway/core"
)

func TestServerLog(t *testing.T) {
	var out strings.Builder
	l := &serverLog{log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})), limit: &limiter{clock: time.Now},
		node: func(c uint64) core.NodeID {
			if c == 7 {
				return "box"
			}
			return ""
		}}
	for _, c := range []struct{ said, want string }{
		{`1.2.3.4:5 - cid:7 - "v1.55.0:go:box" - "$G/nkey:UABC" - Publish Violation - Subject "hw.v1.n.x"`,
			`level=WARN msg="the bus refused something" says="Publish Violation - Subject \"hw.v1.n.x\"" from=1.2.3.4:5 node=box`},
		{`[::1]:5 - cid:8 - Client parser ERROR, state=0, i=0: proto='"secret\r\n"...'`, `level=WARN msg="the bus refused something" says="Client parser ERROR, state …" from=[::1]:5`},
		{`1.2.3.4:5 - cid:9 - "a \" - Publish Violation - %s" - processPub Bad or Missing Size: "secret"`, `level=DEBUG msg=nats says="processPub Bad or Missing Size …" from=1.2.3.4:5`},
		{`1.2.3.4:5 - cid:10 - "evil - cid:7 - Publish Violation - Subject x`, `level=DEBUG msg=nats says=" …" from=1.2.3.4:5`},
		{`1.2.3.4:5 - cid:10 - Client connection closed: Slow Consumer (Write Deadline)`, `level=DEBUG msg=nats says="Client connection closed: Slow Consumer (Write Deadline)" from=1.2.3.4:5`},
		{`1.2.3.4:5 - cid:10 - Slow Consumer Detected: MaxPending of 5 Exceeded`, `level=WARN msg="the bus refused something" says="Slow Consumer Detected: MaxPending of 5 Exceeded" from=1.2.3.4:5`},
		{`1.2.3.4:5 - cid:x`, `level=DEBUG msg=nats says="1.2.3.4 …"`},
		{`Server is ready`, `level=DEBUG msg=nats says="Server is ready"`},
	} {
		out.Reset()
		l.Errorf("%s", c.said)
		if got := strings.TrimSpace(out.String()); !strings.HasSuffix(got, c.want) {
			t.Errorf("%s\n got %s\nwant %s", c.said, got, c.want)
		}
	}
}

func TestLimiter(t *testing.T) {
	now := time.Unix(1000, 0)
	l := &limiter{clock: func() time.Time { return now }}
	var out strings.Builder
	log := slog.New(slog.NewTextHandler(&out, nil))
	for range 1000 {
		l.warn(log, "x")
		now = now.Add(time.Millisecond)
	}
	if n := strings.Count(out.String(), "\n"); n != limiterLines {
		t.Error(n)
	}
	now = now.Add(limiterWhile)
	l.warn(log, "y")
	if !strings.Contains(out.String(), "lines=980") || !strings.HasSuffix(out.String(), "msg=y\n") {
		t.Error(out.String())
	}
}
