package control_test

import (
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"headway/core/control"
)

// Every path that the list documents is routed, and each needs the token.
func TestEndpointsAreThoseThatAreListed(t *testing.T) {
	r := newRig(t)
	listed := r.must("GET", "", "")["endpoints"].([]any)
	if len(listed) < 25 {
		t.Errorf("only %d endpoints are listed", len(listed))
	}
	for _, e := range listed {
		e := e.(map[string]any)
		method, path := e["method"].(string), e["path"].(string)
		if e["what"] == "" {
			t.Errorf("%s %s: says nothing of what it does", method, path)
		}
		path = strings.ReplaceAll(path, "{id}", "nothing-of-this-name")
		status, body := serve(r.desk.Local(), method, path, "", "")
		if status == http.StatusMethodNotAllowed || strings.Contains(body, "no such path") || strings.Contains(body, "no such action") {
			t.Errorf("%s %s: is listed and not there: %d %s", method, path, status, body)
		}
		for _, sent := range []string{"", "Bearer ", "Bearer " + adminToken + "x", "Basic " + adminToken, adminToken, "Bearer " + clientKey} {
			if status, body := serve(r.desk.Handler(), method, path, "", sent); status != http.StatusUnauthorized || !strings.Contains(body, `"type":"authentication_error"`) {
				t.Errorf("%s %s with %q: status %d %s, want 401", method, path, sent, status, body)
			}
		}
	}
	if status, body := serve(r.desk.Handler(), "GET", "/admin/v1/offers", "", "Bearer "+adminToken); status != http.StatusOK {
		t.Errorf("with the token: status %d %s", status, body)
	}
	if status, _ := serve(r.desk.Local(), "GET", "/admin/v1", "", ""); status != http.StatusOK {
		t.Errorf("/admin/v1: status %d", status)
	}
}

// A server that has no admin token lets nobody through.
func TestNoTokenIsNoWayIn(t *testing.T) {
	r := newRig(t)
	r.desk.AdminToken = control.Parts{}.AdminToken
	for _, sent := range []string{"", "Bearer ", "Bearer"} {
		if status, _ := serve(r.desk.Handler(), "GET", "/admin/v1/keys", "", sent); status != http.StatusUnauthorized {
			t.Errorf("%q: status %d, want 401", sent, status)
		}
	}
}

func TestBadRequests(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		method, path, body string
		status             int
		say                string
	}{
		{"GET", "nothing", "", 404, "no such path"},
		{"GET", "calls/x/y", "", 404, "no such path"},
		{"DELETE", "calls", "", 405, "not allowed"},
		{"BREW", "keys", "", 405, "not allowed"},
		{"POST", "offers/fast/small/explode", "", 404, "no such action"},
		{"GET", "calls?limit=0", "", 400, "limit: want"},
		{"GET", "calls?limit=1001", "", 400, "limit: want"},
		{"GET", "calls?limit=ten", "", 400, "limit: want"},
		{"GET", "calls?mdoel=small", "", 400, "mdoel: this path has no such parameter"},
		{"GET", "calls?model=a&model=b", "", 400, "model: is there twice"},
		{"GET", "calls?next=abc", "", 400, "next: is not"},
		{"GET", "calls?since=yesterday", "", 400, `since: "yesterday" is not a time`},
		{"GET", "usage?from=0001-01-01", "", 400, `from: "0001-01-01" is not within the years`},
		{"GET", "usage?to=9999-12-31", "", 400, `to: "9999-12-31" is not within the years`},
		{"GET", "calls?since=-1h", "", 400, "since:"},
		{"GET", "usage?from=1970-01-01&to=9999-12-31", "", 400, "to:"},
		{"GET", "usage?to=9999-12-31T23:59:59-14:00", "", 400, "to:"},
		{"GET", "usage?from=0000-01-01", "", 400, "from:"},
		{"GET", "calls?%zz", "", 400, "query"},
		{"GET", "offers?next=gone/offer", "", 400, "next: is nothing"},
		{"GET", "usage?by=owner", "", 400, `by: "owner" is nothing`},
		{"GET", "usage?from=2026-01-02&to=2026-01-01T00:00:00Z", "", 400, "from: is not before to"},
		{"GET", "usage?from=2999-01-02", "", 400, `from: "2999-01-02" is not in the past`},
		{"GET", "calls/01m8mr4mfa24sg8d2qweqtaj02", "", 404, "there is no call"},
		{"GET", "jobs/none", "", 404, `there is no call or job "none"`},
		{"GET", "offers/none", "", 404, `there is no offer "none"`},
		{"GET", "keys/none", "", 404, `there is no key "none"`},
		{"POST", "keys", "", 400, "is not JSON"},
		{"POST", "keys", `{"name": "a"`, 400, "is not JSON"},
		{"POST", "keys", `{"name": "a", "nmae": "b"}`, 400, "keys.nmae: is no known key"},
		{"POST", "keys", `{"name": "a\r\nb"}`, 400, "keys.name"},
		{"POST", "keys", `{"name": "a", "key": "short"}`, 400, "keys.key"},
		{"POST", "keys", strings.Repeat(" ", 1<<20) + "{}", 413, "larger than 1 MiB"},
		{"POST", "providers", `{"id": "x", "format": "openai", "base_url": "http://169.254.169.254/v1"}`, 400, "providers.base_url"},
		{"POST", "providers", `{"id": "x", "format": "openai", "base_url": "http://127.0.0.1:9/v1"}`, 400, "loopback or private"},
		{"POST", "offers", `{"provider": "none", "model": "m", "input_usd_per_mtok": "1", "output_usd_per_mtok": "1"}`, 400, `there is no provider "none"`},
		{"PATCH", "keys/none", `[]`, 400, "want a JSON object"},
		{"PATCH", "keys/none", `{}`, 404, "there is no key"},
	} {
		r.refused(c.method, c.path, c.body, c.status, c.say)
	}
	if strings.Contains(r.log.String(), "level=ERROR") {
		t.Errorf("a caller's mistake was logged as an error:\n%s", r.log.String())
	}
}

func TestListsAreCutIntoPages(t *testing.T) {
	r := newRig(t)
	for _, list := range []string{"offers", "measures", "models", "providers"} {
		whole := r.items(list)
		var parts []map[string]any
		next := ""
		for {
			v := r.must("GET", list+"?limit=1"+next, "")
			for _, item := range v["items"].([]any) {
				parts = append(parts, item.(map[string]any))
			}
			cursor, more := v["next"].(string)
			if !more {
				break
			}
			next = "&next=" + strings.ReplaceAll(cursor, "/", "%2F")
		}
		if len(parts) != len(whole) || len(whole) < 2 {
			t.Errorf("%s: %d items one by one, %d at once", list, len(parts), len(whole))
		}
	}
}

// API.md and the router are one list.
func TestTheDocumentIsTheRouter(t *testing.T) {
	text, err := os.ReadFile("API.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^\\| ([A-Z]+) \\| `([^`]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		documented = append(documented, m[1]+" "+m[2])
	}
	var routed []string
	for _, e := range newRig(t).must("GET", "", "")["endpoints"].([]any) {
		e := e.(map[string]any)
		routed = append(routed, e["method"].(string)+" "+e["path"].(string))
		query, _ := e["query"].([]any)
		for _, name := range query {
			if !strings.Contains(string(text), "?"+name.(string)+"=") && !strings.Contains(string(text), "&"+name.(string)+"=") {
				t.Errorf("%s has ?%s=, which API.md does not name", e["path"], name)
			}
		}
	}
	slices.Sort(documented)
	slices.Sort(routed)
	if !slices.Equal(documented, routed) {
		t.Errorf("API.md has\n%s\nthe router\n%s", strings.Join(documented, "\n"), strings.Join(routed, "\n"))
	}
}
