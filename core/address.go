package core

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// The addresses that a call may go to (SPEC §22). An address is checked when it
// is set, by CheckURL, and each address that its name resolves to is checked at
// each dial, by CheckIP: a name may point elsewhere by then.

// CheckURL says why Headway must not call an upstream at raw: nil, or an
// *Error (Invalid) whose text names no part of raw that may be a secret.
// Loopback and private addresses are for providers of the configuration file
// (fromFile) and those that say so (allowPrivate).
func CheckURL(raw string, fromFile, allowPrivate bool) error {
	if len(raw) > 2048 {
		return refused("the address is longer than 2048 bytes", "")
	}
	if strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }) {
		return refused("the address has a space, a control character or a backslash in it", "")
	}
	u, err := url.Parse(raw) // its error holds raw, and raw may hold a password
	if err != nil || u.Opaque != "" {
		return refused("not a well-formed address", "write it as https://host/path")
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return refused("not an http or https address", "write it as https://host/path")
	}
	if u.User != nil {
		return refused("the address has a user name in it", "the credential belongs in api_key or headers")
	}
	if u.RawQuery != "" || u.ForceQuery {
		return refused("the address has a query", "the credential belongs in api_key or headers")
	}
	if strings.Contains(raw, "#") {
		return refused("the address has a fragment", "leave out the # and what follows it")
	}
	if !portOK(u) {
		return refused("the address has no valid port behind its colon", "ports are 1 to 65535")
	}
	return checkHost(u.Hostname(), fromFile || allowPrivate)
}

// CheckIP says why Headway must not connect to ip: nil, or an *Error
// (Invalid). IPv6 forms that carry an IPv4 address are judged by both.
func CheckIP(ip netip.Addr, allowPrivate bool) error {
	if !ip.IsValid() {
		return refused("not an IP address", "")
	}
	ip = ip.WithZone("").Unmap()
	for _, r := range neverCalled {
		if r.prefix.Contains(ip) {
			return refused(ip.String()+" is "+r.what+", which is never called", "")
		}
	}
	for _, v4 := range carried(ip) {
		if err := CheckIP(v4, true); err != nil {
			return err
		}
		if !allowPrivate && isPrivate(v4) {
			return refusePrivate(ip.String())
		}
	}
	if !allowPrivate && isPrivate(ip) {
		return refusePrivate(ip.String())
	}
	return nil
}

func refused(msg, hint string) *Error { return &Error{Kind: Invalid, Msg: msg, Hint: hint} }

func refusePrivate(what string) *Error {
	return refused(what+" is a loopback or private address",
		"only a provider with allow_private: true may be there")
}

func portOK(u *url.URL) bool {
	port := u.Port()
	if port == "" {
		return !strings.HasSuffix(u.Host, ":")
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

// checkHost judges a name or an address in any spelling that a resolver could
// take for one.
func checkHost(host string, allowPrivate bool) error {
	host = strings.ToLower(strings.TrimRight(host, "."))
	if strings.Contains(host, ":") {
		ip, err := netip.ParseAddr(host)
		if err != nil || ip.Zone() != "" {
			return refused("not a usable IPv6 address", "write it as http://[2001:db8::1]/ without a zone")
		}
		return CheckIP(ip, allowPrivate)
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return CheckIP(ip, allowPrivate)
	}
	labels := strings.Split(host, ".")
	if last := labels[len(labels)-1]; numeric(last) {
		// Resolvers read such names as IPv4: 2852039166, 0xA9FEA9FE, 127.1.
		ip, ok := looseIPv4(labels)
		if !ok {
			return refused("the host ends in a number and is no IPv4 address", "")
		}
		if err := CheckIP(ip, allowPrivate); err != nil {
			return err
		}
		return refused("the host is an unusual spelling of "+ip.String(), "write "+ip.String())
	}
	for _, l := range labels {
		if l == "" || len(l) > 63 || strings.Trim(l, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			// A letter outside ASCII may be mapped to a digit or a dot on the way to
			// the resolver.
			return refused("the host is no name of letters, digits, hyphens and dots", "write a name of other letters in its xn-- form")
		}
	}
	if len(host) > 253 {
		return refused("the host is longer than 253 characters", "")
	}
	for _, name := range metadataNames {
		if host == name || strings.HasSuffix(host, "."+name) {
			return refused(host+" is a cloud's metadata service, which is never called", "")
		}
	}
	if last := labels[len(labels)-1]; !allowPrivate &&
		(last == "localhost" || last == "localdomain" || host == "ip6-localhost" || host == "ip6-loopback") {
		return refusePrivate(host)
	}
	return nil
}

var metadataNames = [...]string{
	"metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal",
	"metadata.tencentyun.com",
}

// network is a range of addresses and what to call it.
type network struct {
	prefix netip.Prefix
	what   string
}

func v4(bits int, b ...byte) netip.Prefix {
	var a [4]byte
	copy(a[:], b)
	return netip.PrefixFrom(netip.AddrFrom4(a), bits)
}

func v6(bits int, words ...uint16) netip.Prefix {
	var a [16]byte
	for i, w := range words {
		a[2*i], a[2*i+1] = byte(w>>8), byte(w)
	}
	return netip.PrefixFrom(netip.AddrFrom16(a), bits)
}

// neverCalled are the ranges that no provider can be at. It is not changed.
var neverCalled = [...]network{
	{v4(32, 168, 63, 129, 16), "a cloud's metadata service"},                      // Azure
	{v4(32, 100, 100, 100, 200), "a cloud's metadata service"},                    // Alibaba
	{v4(32, 192, 0, 0, 192), "a cloud's metadata service"},                        // Oracle
	{v6(128, 0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x254), "a cloud's metadata service"}, // AWS
	{v6(128, 0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x254), "a cloud's metadata service"}, // Google
	{v4(16, 169, 254), "a link-local address"},
	{v6(10, 0xfe80), "a link-local address"},
	{v4(8, 0), "an unspecified address"},
	{v6(128), "an unspecified address"},
	{v4(4, 224), "a multicast address"},
	{v6(8, 0xff00), "a multicast address"},
	{v4(4, 240), "a reserved address"},
}

// private are the ranges that only this machine or its site can reach. It is
// not changed.
var private = [...]netip.Prefix{
	v4(8, 127), v4(8, 10), v4(12, 172, 16), v4(16, 192, 168),
	v4(10, 100, 64),         // carrier-grade NAT, also overlay networks
	v4(24, 192, 0, 0),       // protocol assignments
	v4(15, 198, 18),         // benchmarking
	v6(96, 0),               // loopback, and the old IPv4-compatible form
	v6(7, 0xfc00),           // unique local
	v6(10, 0xfec0),          // site-local, deprecated
	v6(48, 0x64, 0xff9b, 1), // translation inside a site
}

func isPrivate(ip netip.Addr) bool {
	for _, p := range private {
		if p.Contains(ip) {
			return true
		}
	}
	return false
}

// carried gives the IPv4 addresses that a packet to an IPv6 address may end up
// at: through NAT64, 6to4, Teredo, ISATAP or the older mappings.
func carried(ip netip.Addr) []netip.Addr {
	if !ip.Is6() {
		return nil
	}
	b := ip.As16()
	at := func(i int) netip.Addr { return netip.AddrFrom4([4]byte(b[i : i+4])) }
	switch {
	case v6(16, 0x2002).Contains(ip): // 6to4
		return []netip.Addr{at(2)}
	case v6(32, 0x2001, 0).Contains(ip): // Teredo: the server, and the client with its bits turned
		for i := 12; i < 16; i++ {
			b[i] ^= 0xff
		}
		return []netip.Addr{at(4), at(12)}
	case v6(96, 0x64, 0xff9b).Contains(ip), // NAT64
		v6(48, 0x64, 0xff9b, 1).Contains(ip),              // NAT64 inside a site
		v6(96, 0, 0, 0, 0, 0xffff).Contains(ip),           // translated
		v6(96).Contains(ip) && ip != netip.IPv6Loopback(): // compatible
		return []netip.Addr{at(12)}
	}
	if b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe { // ISATAP
		return []netip.Addr{at(12)}
	}
	return nil
}

// numeric tells whether a resolver takes a name's last label for a number.
func numeric(label string) bool {
	if strings.HasPrefix(label, "0x") {
		return strings.Trim(label[2:], "0123456789abcdef") == ""
	}
	return label != "" && strings.Trim(label, "0123456789") == ""
}

// looseIPv4 reads what inet_aton reads: one to four numbers, decimal, octal or
// hexadecimal, of which the last fills the bytes that are left.
func looseIPv4(parts []string) (netip.Addr, bool) {
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var v uint64
	for i, p := range parts {
		if !numeric(p) { // Go's 0b, 0o and _ are not inet_aton's
			return netip.Addr{}, false
		}
		if p == "0x" { // an empty hexadecimal number is 0
			p = "0"
		}
		n, err := strconv.ParseUint(p, 0, 64)
		left := 4 - i
		if i < len(parts)-1 {
			left = 1
		}
		if err != nil || n >= 1<<(8*left) {
			return netip.Addr{}, false
		}
		v = v<<(8*left) | n
	}
	return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}), true
}
