package command

import (
	"cmp"
	"net"
	"net/netip"
	"os"

	"headway/core"
	"headway/embedded/bus"
)

// Gate is where nodes come in: the bus, with the address that they are told.
type Gate struct {
	*bus.Server
	Advertise string // host:port; "": where the bus listens
}

// Address is the host:port that nodes dial; "" before Open.
func (g Gate) Address() string {
	host, port, err := net.SplitHostPort(g.Addr())
	switch {
	case err != nil:
		return "" // it is not open
	case g.Advertise != "":
		return g.Advertise
	}
	if a, err := netip.ParseAddr(host); err == nil && a.IsUnspecified() {
		if name, err := os.Hostname(); err == nil && name != "" {
			host = name
		}
	}
	return net.JoinHostPort(host, port)
}

// Join writes a node's join string.
func (g Gate) Join(name core.NodeID, address string, token core.Secret) string {
	return bus.Join{Name: name, Address: cmp.Or(address, g.Address()), Pin: g.Pin(), Token: token}.String()
}
