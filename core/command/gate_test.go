package command_test

import (
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"headway/core"
	"headway/core/command"
	"headway/embedded/bus"
)

// TestGateAddress: what a join string tells a node to dial.
func TestGateAddress(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ listen, advertise, asked, host string }{
		{"127.0.0.1:0", "", "", "127.0.0.1"},
		{"0.0.0.0:0", "", "", host},
		{":0", "", "", host},
		{"0.0.0.0:0", "box.example.com:4222", "", "box.example.com"},
		{"127.0.0.1:0", "box.example.com:4222", "10.0.0.1:5000", "10.0.0.1"},
	} {
		none := func(core.NodeID, uint64) {}
		server := bus.New(bus.Options{Folder: t.TempDir(), Listen: c.listen, Clock: time.Now, Log: slog.New(slog.DiscardHandler),
			Admit: func(string, string) (core.NodeID, error) { return "", core.Errorf(core.Forbidden, "nobody") }, Joined: none, Left: none})
		g := command.Gate{Server: server, Advertise: c.advertise}
		if got := g.Address(); got != "" {
			t.Errorf("before it is open its address is %q", got)
		}
		if err := g.Open(); err != nil {
			t.Fatal(err)
		}
		join, err := bus.ParseJoin(g.Join("gpu", c.asked, core.NewSecret("token")))
		if err != nil {
			t.Fatal(err)
		}
		got, port, err := net.SplitHostPort(join.Address)
		_, real, _ := net.SplitHostPort(g.Addr())
		if err != nil || got != c.host || c.advertise == "" && port != real || join.Name != "gpu" || join.Pin != g.Pin() {
			t.Errorf("listening on %s with advertise %q, asked for %q: the join string has %s", c.listen, c.advertise, c.asked, join.Address)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
}
