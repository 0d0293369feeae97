package fleet

import (
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
)

// sentHeader is what a node gets of a request's header: no credential, and nothing
// that is the connection's.
func sentHeader(h http.Header) http.Header {
	out := make(http.Header, len(h))
	for name, v := range h {
		if !unsent(name) {
			out[name] = v
		}
	}
	for _, v := range h["Connection"] {
		for name := range strings.SplitSeq(v, ",") {
			delete(out, textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name)))
		}
	}
	return out
}

// unsent tells whether a header stays here.
func unsent(name string) bool {
	switch name {
	case "Authorization", "X-Api-Key", "X-Goog-Api-Key", "Api-Key", "Cookie", "Proxy-Authorization",
		"Connection", "Proxy-Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length", "Host":
		return true
	}
	return false
}

// withoutKey is a query without the credential that it may have.
func withoutKey(query string) string {
	if !strings.Contains(query, "key") {
		return query
	}
	v, err := url.ParseQuery(query)
	if err != nil {
		return ""
	}
	v.Del("key")
	return v.Encode()
}

// canonical is a header as net/http has it: a node's could be anything.
func canonical(h http.Header) http.Header {
	out := make(http.Header, len(h))
	for name, values := range h {
		name = textproto.CanonicalMIMEHeaderKey(name)
		if name == "" || unsent(name) && name != "Content-Length" {
			continue
		}
		for _, v := range values {
			if !strings.ContainsAny(v, "\r\n\x00") {
				out[name] = append(out[name], v)
			}
		}
	}
	return out
}
