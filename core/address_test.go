package core_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"headway/core"
)

func TestCheckURL(t *testing.T) {
	// Where an address stands: nowhere, only where private ones may be, anywhere.
	const never, private, public = 0, 1, 2
	for _, c := range []struct {
		url  string
		want int
		why  string // a part of the text that refuses it
	}{
		{"https://api.openai.com/v1", public, ""},
		{"https://api.openai.com:8443/v1/", public, ""},
		{"HTTPS://API.example.com.", public, ""},
		{"http://8.8.8.8", public, ""},
		{"http://[2001:db8::1]:80/v1", public, ""},
		{"http://100.63.255.255", public, ""},
		{"http://172.32.0.1", public, ""},
		{"http://metadata.example.com", public, ""},
		{"http://xn--bcher-kva.example", public, ""},

		{"http://127.0.0.1:9/", private, "private"},
		{"http://localhost:8081", private, "private"},
		{"http://LOCALHOST.", private, "private"},
		{"http://a.localhost", private, "private"},
		{"http://localhost.localdomain", private, "private"},
		{"http://[::1]:80", private, "private"},
		{"http://[::ffff:127.0.0.1]", private, "private"},
		{"http://10.0.0.1", private, "private"},
		{"http://172.16.0.1", private, "private"},
		{"http://192.168.1.1", private, "private"},
		{"http://100.64.0.1", private, "private"},
		{"http://[fd12::1]", private, "private"},
		{"http://[2002:0a00:0001::]", private, "private"},
		{"http://[64:ff9b::10.0.0.1]", private, "private"},

		{"http://169.254.169.254/latest/", never, "link-local"},
		{"http://169.254.169.254./", never, "link-local"},
		{"http://169.254.1.2", never, "link-local"},
		{"http://2852039166/", never, "link-local"},
		{"http://0xA9FEA9FE/", never, "link-local"},
		{"http://025177524776/", never, "link-local"},
		{"http://0251.0376.0251.0376/", never, "link-local"},
		{"http://0xa9.0xfe.0xa9.0xfe/", never, "link-local"},
		{"http://169.254.43518/", never, "link-local"},
		{"http://169.16689662/", never, "link-local"},
		{"http://[::ffff:169.254.169.254]/", never, "link-local"},
		{"http://[::ffff:a9fe:a9fe]/", never, "link-local"},
		{"http://[::169.254.169.254]/", never, "link-local"},
		{"http://[::ffff:0:169.254.169.254]/", never, "link-local"},
		{"http://[2002:a9fe:a9fe::1]/", never, "link-local"},
		{"http://[64:ff9b::169.254.169.254]/", never, "link-local"},
		{"http://[64:ff9b:1::169.254.169.254]/", never, "link-local"},
		{"http://[2001:0:a9fe:a9fe::1]/", never, "link-local"},
		{"http://[2001:0:0808:0808:0:0:5601:5601]/", never, "link-local"},
		{"http://[2001:db8::5efe:169.254.169.254]/", never, "link-local"},
		{"http://[fe80::1]/", never, "link-local"},
		{"http://[fe80::1%25eth0]/", never, "IPv6"},
		{"http://[fd00:ec2::254]/", never, "metadata"},
		{"http://[fd20:ce::254]/", never, "metadata"},
		{"http://100.100.100.200/", never, "metadata"},
		{"http://1684301000/", never, "metadata"},
		{"http://168.63.129.16/", never, "metadata"},
		{"http://metadata.google.internal/", never, "metadata"},
		{"http://METADATA.Google.Internal./", never, "metadata"},
		{"http://x.metadata.google.internal", never, "metadata"},
		{"http://0.0.0.0", never, "unspecified"},
		{"http://0", never, "unspecified"},
		{"http://[::]", never, "unspecified"},
		{"http://224.0.0.1", never, "multicast"},
		{"http://[ff02::1]", never, "multicast"},
		{"http://255.255.255.255", never, "reserved"},

		{"http://127.1/", never, "127.0.0.1"},
		{"http://8.8.2056/", never, "unusual spelling of 8.8.8.8"},
		{"http://1.2.3.4.5/", never, "ends in a number"},
		{"http://256.1.1.1/", never, "ends in a number"},
		{"http://0b1.1/", never, "ends in a number"},
		{"http://169。254。169。254/", never, "letters"},
		{"http://①⑥⑨.254.169.254/", never, "ends in a number"},
		{"http://bücher.example", never, "letters"},
		{"file:///secret.txt", never, "not an http"},
		{"gopher://127.0.0.1:70/", never, "not an http"},
		{"//example.com", never, "not an http"},
		{"example.com/v1", never, "not an http"},
		{"http:example.com", never, "well-formed"},
		{"", never, "not an http"},
		{"http://", never, "no name"},
		{"http://a..b", never, "no name"},
		{"http://user:hunter2@169.254.169.254/", never, "user name"},
		{"https://user:hunter2@api.example.com/", never, "user name"},
		{"https://@api.example.com/", never, "user name"},
		{"https://api.example.com/?key=hunter2", never, "query"},
		{"https://api.example.com/?", never, "query"},
		{"https://api.example.com/#hunter2", never, "fragment"},
		{"https://api.example.com/#", never, "fragment"},
		{"https://api.example.com:0/", never, "port"},
		{"https://api.example.com:65536/", never, "port"},
		{"https://api.example.com:/", never, "port"},
		{"https://api.example.com/a b", never, "space"},
		{"https://api.example.com\r\nx: y", never, "control"},
		{`https://api.example.com\@169.254.169.254/`, never, "backslash"},
		{"https://hunter2%zz@api.example.com/", never, "well-formed"},
		{"https://" + strings.Repeat("a.", 127) + "example.com", never, "253"},
		{"https://api.example.com/" + strings.Repeat("a", 2048), never, "2048"},
	} {
		check := func(fromFile, allow, ok bool) {
			t.Helper()
			err := core.CheckURL(c.url, fromFile, allow)
			if (err == nil) != ok {
				t.Errorf("CheckURL(%q, %v, %v) = %v, want accepted: %v", c.url, fromFile, allow, err, ok)
			}
			var e *core.Error
			if err != nil && (!errors.As(err, &e) || e.Kind != core.Invalid) {
				t.Errorf("CheckURL(%q) = %T, want an Invalid *core.Error", c.url, err)
			}
			if err != nil && !strings.Contains(err.Error(), c.why) {
				t.Errorf("CheckURL(%q) = %q, want it to say %q", c.url, err, c.why)
			}
			if err != nil && strings.Contains(err.Error()+e.Hint, "hunter2") {
				t.Errorf("CheckURL(%q) shows the secret: %v", c.url, err)
			}
		}
		check(false, false, c.want == public)
		check(true, false, c.want >= private)
		check(false, true, c.want >= private)
	}
}

func TestCheckIP(t *testing.T) {
	for _, c := range []struct {
		ip              string
		public, private bool
	}{
		{"1.1.1.1", true, true},
		{"2606:4700::1111", true, true},
		{"127.0.0.1", false, true},
		{"::1", false, true},
		{"::ffff:10.1.2.3", false, true},
		{"fc00::1", false, true},
		{"64:ff9b::808:808", true, true},
		{"2002:808:808::", true, true},
		{"169.254.169.254", false, false},
		{"::ffff:100.100.100.200", false, false},
		{"64:ff9b::a83f:8110", false, false},
		{"fe80::1%eth0", false, false},
		{"fd00:ec2::254", false, false},
	} {
		ip, err := netip.ParseAddr(c.ip)
		if err != nil {
			t.Fatal(err)
		}
		if err := core.CheckIP(ip, false); (err == nil) != c.public {
			t.Errorf("CheckIP(%s, false) = %v, want accepted: %v", c.ip, err, c.public)
		}
		if err := core.CheckIP(ip, true); (err == nil) != c.private {
			t.Errorf("CheckIP(%s, true) = %v, want accepted: %v", c.ip, err, c.private)
		}
	}
	if core.CheckIP(netip.Addr{}, true) == nil {
		t.Error("the zero address was accepted")
	}
}
