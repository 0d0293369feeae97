package control_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"headway/core"
	"headway/core/control"
)

// told is what an entry says, on one line.
func told(e map[string]any) string {
	side := func(name string) string {
		if e[name] == nil {
			return "-"
		}
		text, _ := json.Marshal(e[name])
		return string(text)
	}
	who := fmt.Sprint(e["who"])
	if e["via"] != nil {
		who += "/" + fmt.Sprint(e["via"])
	}
	return fmt.Sprintf("%s %s %s %s > %s", who, e["action"], e["target"], side("before"), side("after"))
}

// since gives the entries behind a number, the oldest first, and the newest number.
func (r *rig) since(number float64) (list []map[string]any, newest float64) {
	r.t.Helper()
	all := r.items("audit?limit=1000")
	slices.Reverse(all)
	for i, e := range all {
		if e["number"] != float64(i+1) {
			r.t.Errorf("entry %d has the number %v", i+1, e["number"])
		}
		if e["number"].(float64) > number {
			list = append(list, e)
		}
	}
	return list, float64(len(all))
}

// Every admin call that changes something leaves one entry, with what was before
// and after; what is refused, or changes nothing, leaves none.
func TestEveryChangeIsInTheAuditLog(t *testing.T) {
	r := newRig(t)
	_, at := r.since(0)
	const canary = "canary-of-a-provider"
	provider := func(secret, price string) string {
		return r.fill(`{"id": "made", "format": "openai", "base_url": "UPSTREAM/v1", "allow_private": true, "api_key": "` + secret + `",
			"headers": {"X-Team": "` + secret + `-2"}, "offers": [{"model": "small", "input_usd_per_mtok": "` + price + `", "output_usd_per_mtok": "2"}]}`)
	}
	offer := func(model string) string {
		return `{"provider": "made", "model": "` + model + `", "input_usd_per_mtok": 1, "output_usd_per_mtok": "2", "labels": {"a": "b"}}`
	}
	const offerText = `"include_usage":"auto","input_usd_per_mtok":"1","labels":{"a":"b"},"model":"large","output_usd_per_mtok":"2","provider":"made","upstream_model":"large"}`
	providerText := func(price string) string {
		return r.fill(`{"allow_private":true,"api_key":"***","base_url":"UPSTREAM/v1","format":"openai","headers":{"X-Team":"***"},"id":"made",` +
			`"offers":{"made/small":{"id":"made/small","include_usage":"auto","input_usd_per_mtok":"` + price + `","model":"small","output_usd_per_mtok":"2","provider":"made","upstream_model":"small"}}}`)
	}
	step := func(method, path, body, want string) map[string]any {
		t.Helper()
		v := r.must(method, path, body)
		list, newest := r.since(at)
		at = newest
		got := make([]string, len(list))
		for i, e := range list {
			got[i] = told(e)
		}
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || got[0] != "socket "+want) {
			t.Errorf("%s %s leaves\n%s\nwant\nsocket %s", method, path, strings.Join(got, "\n"), want)
		}
		return v
	}
	refused := func(method, path, body string, status int) {
		t.Helper()
		r.refused(method, path, body, status, "")
		if list, _ := r.since(at); len(list) > 0 {
			t.Errorf("%s %s %s, which is refused, leaves %s", method, path, body, told(list[0]))
		}
	}

	step("POST", "providers", provider(canary, "1"), `provider.create made - > `+providerText("1"))
	step("PUT", "providers/made", provider(canary, "1"), "")
	step("PUT", "providers/made", provider(canary, "1.5"), `provider.replace made {"offers":{"made/small":{"input_usd_per_mtok":"1"}}} > {"offers":{"made/small":{"input_usd_per_mtok":"1.5"}}}`)
	step("PUT", "providers/made", provider(canary+"-new", "1.5"), `provider.replace made {"api_key":"***","headers":{"X-Team":"***"}} > {"api_key":"***","headers":{"X-Team":"***"}}`)
	step("POST", "offers", offer("large"), `offer.create made/large - > {"id":"made/large",`+offerText)
	step("POST", "offers/made%2Flarge/pause", "", `offer.pause made/large {"state":"active"} > {"paused_by":"operator","state":"paused"}`)
	step("POST", "offers/made%2Flarge/pause", "", "")
	step("POST", "offers/made%2Flarge/resume", "", `offer.resume made/large {"paused_by":"operator","state":"paused"} > {"state":"active"}`)
	step("POST", "offers/made%2Flarge/resume", "", "")
	step("POST", "offers/fast%2Fsmall/test", "", "")
	refused("POST", "providers", provider(canary, "1"), 409)
	refused("PUT", "providers/other", provider(canary, "1"), 400)
	refused("PUT", "providers/fast", strings.Replace(provider(canary, "1"), `"made"`, `"fast"`, 1), 409)
	refused("POST", "offers", offer("large"), 409)
	refused("POST", "offers", `{}`, 400)
	refused("POST", "offers/none/pause", "", 404)
	refused("DELETE", "offers/fast%2Fsmall", "", 409)
	refused("DELETE", "providers/made", "", 409)
	step("DELETE", "offers/made%2Flarge", "", `offer.delete made/large {"id":"made/large",`+offerText+` > -`)
	step("DELETE", "providers/made", "", `provider.delete made `+providerText("1.5")+` > -`)

	k := r.must("POST", "keys", `{"name": "agent", "key": "canary-of-a-caller", "budget_usd_per_day": 1.5, "max_parallel": 3, "strategy": "cheapest"}`)
	id := k["id"].(string)
	list, newest := r.since(at)
	if at = newest; len(list) != 1 || list[0]["name"] != "agent" || told(list[0]) != `socket key.create `+id+
		` - > {"budget_usd_per_day":"1.5","max_parallel":3,"name":"agent","serve_own":false,"strategy":"cheapest"}` {
		t.Errorf("a key that was made leaves %v", list)
	}
	step("PATCH", "keys/"+id, `{"budget_usd_per_day": "2", "requests_per_minute": 60, "max_parallel": null}`,
		`key.set `+id+` {"budget_usd_per_day":"1.5","max_parallel":3} > {"budget_usd_per_day":"2","requests_per_minute":60}`)
	step("POST", "keys/"+id, `{"budget_usd_per_day": 2}`, "")
	step("POST", "keys/"+id, `{"name": "other"}`, `key.set `+id+` {"name":"agent"} > {"name":"other"}`)
	refused("PATCH", "keys/"+id, `{"max_parallel": 0}`, 400)
	refused("PATCH", "keys/"+id, `{"strategy": "none"}`, 400)
	refused("POST", "keys", `{"name": "x", "strategy": "none"}`, 400)
	refused("POST", "keys", `{"name": "x", "key": "canary-of-a-caller"}`, 409)
	refused("DELETE", "keys/ci", "", 409)
	step("POST", "keys/"+id+"/revoke", "", `key.revoke `+id+` {"state":"active"} > {"state":"revoked"}`)
	step("DELETE", "keys/"+id, "", "")
	step("POST", "apply", "", "")
	refused("POST", "apply", "listen: nowhere", 400)

	r.restart() // no part of it is lost, and nothing is told twice
	if list, _ := r.since(at); len(list) > 0 {
		t.Errorf("a restart leaves %s", told(list[0]))
	}

	// Who it was, over the server's own address.
	if status, _ := serve(r.desk.Handler(), "POST", "/admin/v1/keys", `{"name": "k"}`, "Bearer "+adminToken); status != http.StatusCreated {
		t.Fatalf("status %d", status)
	}
	if list, _ := r.since(at); len(list) != 1 || list[0]["who"] != "admin token" {
		t.Errorf("it leaves %v", list)
	}
	r.must("POST", "keys", `{"name": "k"}`)
	if e := r.items("audit?limit=1")[0]; e["who"] != "socket" {
		t.Errorf("it is by %v", e["who"])
	}

	// No secret is in an entry, nor, but where it is sealed or hashed, in the store.
	_, text := serve(r.desk.Local(), "GET", "/admin/v1/audit?limit=1000", "", "")
	secrets := []string{canary, "canary-of-a-caller", "file-secret-1", clientKey, adminToken, k["id"].(string) + "_"}
	for _, s := range secrets {
		if strings.Contains(text, s) {
			t.Errorf("the audit log shows %s", s)
		}
	}
	for _, kind := range []string{"audit", "applied"} {
		n := 0
		err := r.store.All(kind, func(name string, value []byte) bool {
			n++
			for _, s := range secrets {
				if bytes.Contains(value, []byte(s)) {
					t.Errorf("record %s of kind %s holds %s: %s", name, kind, s, value)
				}
			}
			return true
		})
		if err != nil || n == 0 {
			t.Errorf("%d records of kind %s, %v", n, kind, err)
		}
	}
	r.stop()
	err := filepath.WalkDir(filepath.Join(r.dir, "data"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "admin-token" || d.Type()&fs.ModeType != 0 {
			return err
		}
		text, err := os.ReadFile(path)
		for _, s := range secrets[:4] {
			if bytes.Contains(text, []byte(s)) {
				t.Errorf("%s holds %s", path, s)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	r.start()
}

// What a file changes is told thing by thing, also what changed while no server ran.
func TestFilesInTheAuditLog(t *testing.T) {
	r := newRig(t)
	var at float64
	check := func(what string, want ...string) {
		t.Helper()
		list, newest := r.since(at)
		at = newest
		var got []string
		for _, e := range list {
			got = append(got, told(e))
			if e["file"] != r.path {
				t.Errorf("%s: an entry names the file %v", what, e["file"])
			}
		}
		if text, whole := strings.Join(got, "\n"), strings.Join(want, "\n"); text != whole {
			t.Errorf("%s leaves\n%s\nwant\n%s", what, text, whole)
		}
	}
	provider := func(id, rest string) string {
		return r.fill(`file/start provider.create ` + id + ` - > {` + rest + `"base_url":"UPSTREAM/v1","format":"openai","id":"` + id + `"`)
	}
	offer := func(id, model, in, out, rest, more string) string {
		return `file/start offer.create ` + id + `/` + model + ` - > {` + rest + `"id":"` + id + `/` + model + `","include_usage":"auto","input_usd_per_mtok":"` + in +
			`","model":"` + model + `","output_usd_per_mtok":"` + out + `","provider":"` + id + `","upstream_model":"` + model + `"}`
	}
	check("the first start",
		provider("fast", `"api_key":"***",`)+`,"region":"eu"}`, provider("slow", "")+`}`,
		offer("fast", "large", "3", "6.5", "", ""), offer("fast", "small", "1", "2", `"aliases":["tiny"],"capacity":64,`, ""), offer("slow", "small", "2", "4", "", ""),
		`file/start key.create ci - > {"key":"***","models":["small"],"name":"ci","serve_own":false}`)
	r.restart()
	r.desk.Reload()
	r.must("POST", "apply", "")
	check("a start and a reload without a change")

	next := strings.NewReplacer(`"6.5"`, `"7"`, clientKey, "another-key-of-this-test", "models: [small]", "models: [small], budget_usd_per_week: 9",
		"file-secret-1", "file-secret-2").Replace(file) + "routing: {strategy: balanced}\ncors: [\"https://a.example\"]\n"
	r.write(next)
	r.desk.Reload()
	changed := func(via string) []string {
		return []string{
			`file/` + via + ` config.apply cors {} > {"cors":["https://a.example"]}`,
			`file/` + via + ` config.apply routing {"strategy":"price-and-wait"} > {"strategy":"balanced"}`,
			`file/` + via + ` provider.replace fast {"api_key":"***"} > {"api_key":"***"}`,
			`file/` + via + ` offer.set fast/large {"output_usd_per_mtok":"6.5"} > {"output_usd_per_mtok":"7"}`,
			`file/` + via + ` key.set ci {"key":"***","models":["small"]} > {"budget_usd_per_week":"9","key":"***"}`,
		}
	}
	want := changed("SIGHUP")
	want[4] = `file/SIGHUP key.set ci {"key":"***"} > {"budget_usd_per_week":"9","key":"***"}`
	check("a reload", want...)

	r.write(strings.Replace(next, "id: slow", "id: quick", 1) + "\nslow: {headers: 1x}\n")
	r.desk.Reload()
	check("a reload of a bad file")

	// Back again while no server runs, and one provider less.
	r.stop()
	r.write(file[:strings.Index(file, "  - id: slow")] + file[strings.Index(file, "keys:"):])
	r.start()
	check("a start after an edit",
		`file/start config.apply cors {"cors":["https://a.example"]} > {}`,
		`file/start config.apply routing {"strategy":"balanced"} > {"strategy":"price-and-wait"}`,
		`file/start provider.replace fast {"api_key":"***"} > {"api_key":"***"}`,
		r.fill(`file/start provider.delete slow {"base_url":"UPSTREAM/v1","format":"openai","id":"slow"} > -`),
		`file/start offer.set fast/large {"output_usd_per_mtok":"7"} > {"output_usd_per_mtok":"6.5"}`,
		strings.Replace(offer("slow", "small", "2", "4", "", ""), "create slow/small - > ", "delete slow/small ", 1)+` > -`,
		`file/start key.set ci {"budget_usd_per_week":"9","key":"***"} > {"key":"***"}`)

	// A text that is posted, by whoever posts it.
	other := filepath.Join(r.dir, "other.yaml")
	if status, text := serve(r.desk.Handler(), "POST", "/admin/v1/apply?name="+other, "limits: {drain: 5s}", "Bearer "+adminToken); status != http.StatusOK {
		t.Fatal(text)
	}
	list, _ := r.since(at)
	if len(list) != 5 || list[0]["file"] != other || told(list[0]) != `file/admin token config.apply limits {"drain":"1m"} > {"drain":"5s"}` ||
		told(list[4]) != `file/admin token key.delete ci {"key":"***","models":["small"],"name":"ci","serve_own":false} > -` {
		t.Errorf("a posted text leaves %v", list)
	}
}

// The log is read a page at a time and by what it says.
func TestTheAuditLogIsRead(t *testing.T) {
	r := newRig(t)
	r.now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) // a clock that stands
	r.restart()
	var want []string
	for i := range 7 {
		if i == 5 {
			r.now = r.now.Add(-time.Hour) // or goes back
		}
		want = append([]string{fmt.Sprint("k", i)}, want...)
		r.must("POST", "keys", fmt.Sprintf(`{"name": "k%d"}`, i))
	}
	names := func(query string) (got []string) {
		t.Helper()
		for pages := 0; ; pages++ {
			page := r.must("GET", "audit?action=key.create&"+query, "")
			for _, e := range page["items"].([]any) {
				if e := e.(map[string]any); e["via"] == nil {
					got = append(got, e["name"].(string))
				}
			}
			next, more := page["next"].(string)
			if !more || pages > 20 {
				return got
			}
			query = strings.SplitN(query, "&next", 2)[0] + "&next=" + next
		}
	}
	for _, query := range []string{"limit=1", "limit=2", "limit=3", "limit=7", "limit=50"} {
		if got := names(query); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	if got := names("limit=2&target=k3"); !slices.Equal(got, []string{"k3"}) {
		t.Errorf("by its name: %v", got)
	}
	if got := names("since=2026-11-30T11:30:00Z"); !slices.Equal(got, []string{"k4", "k3", "k2", "k1", "k0"}) {
		t.Errorf("since: %v", got)
	}
	if got := names("since=2026-11-30T13:00:00Z"); got != nil {
		t.Errorf("since later: %v", got)
	}
	id := r.items("audit?limit=1")[0]["target"].(string)
	if got := names("target=" + id); !slices.Equal(got, []string{"k6"}) {
		t.Errorf("by its id: %v", got)
	}
	r.refused("GET", "audit?next=nonsense", "", 400, "next")
	r.refused("GET", "audit?since=nonsense", "", 400, "since")
	r.refused("GET", "audit?who=me", "", 400, "who")
}

// A change whose entry cannot be written does not happen.
func TestAChangeThatCannotBeToldDoesNotHappen(t *testing.T) {
	r := newRig(t)
	k := r.must("POST", "keys", `{"name": "k"}`)
	r.must("POST", "providers", r.fill(posted))
	_, at := r.since(0)
	r.onWrite = func() error { return errors.New("the disk is full") }
	for _, c := range [][3]string{
		{"POST", "keys", `{"name": "x"}`}, {"PATCH", "keys/" + k["id"].(string), `{"owner": "me"}`}, {"DELETE", "keys/" + k["id"].(string), ""},
		{"POST", "offers/fast%2Fsmall/pause", ""}, {"DELETE", "providers/posted", ""}, {"POST", "apply", "limits: {drain: 5s}"},
	} {
		if status, v := r.admin(c[0], c[1], c[2]); status != 503 && status != 500 {
			t.Errorf("%s %s: status %d %v", c[0], c[1], status, v)
		}
	}
	r.onWrite = nil
	if list, _ := r.since(at); len(list) > 0 {
		t.Errorf("there are %v", list)
	}
	check := func() {
		t.Helper()
		if v := r.item("keys", k["id"].(string)); v["state"] != "active" || v["owner"] != nil {
			t.Errorf("the key is %v", v)
		}
		if len(r.items("keys")) != 2 || r.item("providers", "posted") == nil || r.item("offers", "fast/small")["state"] != "active" {
			t.Error("something changed")
		}
	}
	check()
	r.restart()
	check()
}

// A file with more changes than one write takes is told whole, or not at all.
func TestManyChangesOfAFile(t *testing.T) {
	r := newRig(t)
	_, at := r.since(0)
	var text strings.Builder
	text.WriteString(file)
	const many = 900
	for i := range many {
		fmt.Fprintf(&text, "  - {name: k%d, key: the-key-with-number-%d, labels: {long: %s}}\n", i, i, strings.Repeat("x", 200))
	}
	r.write(text.String())
	writes := 0
	r.onWrite = func() error {
		if writes++; writes == 3 {
			return errors.New("the disk is full")
		}
		return nil
	}
	if status, _ := r.admin("POST", "apply", ""); status/100 != 5 {
		t.Errorf("status %d", status)
	}
	r.onWrite = nil
	if list, newest := r.since(at); len(list) > 0 || newest != at || len(r.items("keys?limit=1000")) != 1 {
		t.Errorf("%d entries of a file that is not in force", len(list))
	}
	r.must("POST", "apply", "")
	page := r.must("GET", "audit?limit=1000&action=key.create", "")
	if n := len(page["items"].([]any)); n != many+1 || len(r.items("keys?limit=1000")) != many+1 {
		t.Errorf("%d entries", n)
	}
	r.must("POST", "apply", "")
	r.restart()
	if v := r.items("audit?limit=1")[0]; v["number"] != at+many {
		t.Errorf("the newest is %v", v)
	}
}

// while runs the desk and the folder of scripts beside do, which can wait for things.
func (r *rig) while(do func(await func(what string, holds func() bool))) {
	r.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- r.desk.Run(ctx) }()
	go func() { ended <- r.scripts.Run(ctx) }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	do(func(what string, holds func() bool) {
		r.t.Helper()
		for end := time.Now().Add(30 * time.Second); !holds(); <-tick.C {
			if time.Now().After(end) {
				r.t.Errorf("it does not come to it that %s", what)
				return
			}
		}
	})
	stop()
	if err := errors.Join(<-ended, <-ended); err != nil {
		r.t.Error(err)
	}
}

// A strategy may be a script that is there, and what is done to scripts is told.
func TestScriptsAreStrategies(t *testing.T) {
	r := newRig(t)
	script := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(r.dir, "scripts", name+".js"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(r.dir, "scripts"), 0o700); err != nil {
		t.Fatal(err)
	}
	const good = "function score(job, offer) { return offer.charge_usd }"
	script("mine", good)
	script("broken", "function score(")
	scripted := file + "routing: {strategy: mine, scripts: ./scripts}\n"
	r.refused("POST", "apply", r.fill(scripted), 400, "routing.scripts takes effect at a start") // the folder is read at the start
	r.write(scripted)
	r.restart()
	k := r.must("POST", "keys", `{"name": "k", "strategy": "mine"}`)
	r.must("POST", "keys", `{"name": "l", "strategy": "broken"}`) // the default ranks until it is mended
	r.refused("POST", "keys", `{"name": "m", "strategy": "none"}`, 400, `keys.strategy: "none" is no strategy`)
	_, v := r.admin("POST", "keys", `{"name": "m", "strategy": "none"}`)
	if hint := v["error"].(map[string]any)["hint"]; !strings.HasPrefix(fmt.Sprint(hint), "built in are price-and-wait, ") || !strings.HasSuffix(fmt.Sprint(hint), "; the scripts are broken, mine") {
		t.Errorf("the hint is %v", hint)
	}
	r.write(strings.Replace(scripted, "strategy: mine", "strategy: none", 1))
	before := r.must("GET", "config", "")["yaml"]
	r.refused("POST", "apply", "", 400, `headway.yaml:20:21: routing.strategy: "none" is no strategy`)
	if r.must("GET", "config", "")["yaml"] != before {
		t.Error("a refused file is in force")
	}
	r.write(scripted)

	entries := func(target string) (list []string) {
		for _, e := range r.items("audit?target=" + target) {
			list = append(list, told(e))
		}
		slices.Reverse(list)
		return list
	}
	sum := func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }
	side := func(text, state string) string { return `{"sha256":"` + sum(text) + `","state":"` + state + `"}` }
	want := []string{"file script.create mine - > " + side(good, "active")}
	r.while(func(await func(string, func() bool)) {
		await("the scripts are told", func() bool { return len(entries("mine")) == 1 && len(entries("broken")) == 1 })
		script("mine", good+"// as it is")
		await("a change is told", func() bool { return len(entries("mine")) == 2 })
		script("mine", "score(")
		await("a refused one is told", func() bool { return len(entries("mine")) == 3 })
	})
	want = append(want, `file script.set mine {"sha256":"`+sum(good)+`"} > {"sha256":"`+sum(good+"// as it is")+`"}`,
		"file script.set mine "+side(good+"// as it is", "active")+" > "+side("score(", "refused"))
	if got := entries("mine"); !slices.Equal(got, want) {
		t.Errorf("there are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	// One that is gone keeps neither the start nor other changes of its key out.
	if err := os.Remove(filepath.Join(r.dir, "scripts", "mine.js")); err != nil {
		t.Fatal(err)
	}
	r.write(file + "routing: {scripts: ./scripts}\n")
	r.restart()
	r.while(func(await func(string, func() bool)) {
		await("that it is gone is told", func() bool { return len(entries("mine")) == 4 })
	})
	if got := entries("mine")[3]; got != "file script.delete mine "+side("score(", "refused")+" > -" {
		t.Errorf("then there is %s", got)
	}
	r.must("PATCH", "keys/"+k["id"].(string), `{"owner": "me"}`)
	r.refused("PATCH", "keys/"+k["id"].(string), `{"strategy": "gone"}`, 400, "is no strategy")
	if status, _ := r.call(k["key"].(string), "small"); status != http.StatusOK {
		t.Errorf("a call has status %d", status)
	}
}

// Entries beyond the most that are kept go.
func TestTheAuditLogIsBounded(t *testing.T) {
	r := newRig(t)
	r.now = time.Now()
	count := func() (n int) {
		t.Helper()
		if err := r.store.All("audit", func(string, []byte) bool { n++; return true }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	var all []core.Record
	if err := r.store.All("audit", func(n string, _ []byte) bool { all = append(all, core.Record{Kind: "audit", Name: n}); return true }); err != nil {
		t.Fatal(err)
	}
	r.must("POST", "keys", `{"name": "again"}`)
	if err := r.store.Write(nil, all); err != nil { // that one is left
		t.Fatal(err)
	}

	// By their number: as if as many had been written as are kept.
	e := map[string]any{}
	var name core.CallID
	if err := r.store.All("audit", func(n string, v []byte) bool { name = core.CallID(n); return json.Unmarshal(v, &e) == nil }); err != nil {
		t.Fatal(err)
	}
	e["number"] = e["number"].(float64) - control.AuditEntries + 1
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	older := core.NewCallID(r.now.Add(-time.Minute))
	if err := r.store.Write([]core.Record{{Kind: "audit", Name: string(older), Value: bytes.Replace(text, []byte(name), []byte(older), 1)}}, nil); err != nil {
		t.Fatal(err)
	}
	r.restart()
	if count() != 2 {
		t.Fatalf("%d entries", count())
	}
	r.must("POST", "keys", `{"name": "one more"}`)
	if n := count(); n != 2 || r.items("audit")[1]["name"] != "again" {
		t.Errorf("%d entries, %v", n, r.items("audit"))
	}
}

// Of what is too long for an entry the long fields are told by a sum, which tells
// that they changed.
func TestLongThingsInTheAuditLog(t *testing.T) {
	r := newRig(t)
	_, at := r.since(0)
	var offers []string
	for i := range 900 {
		offers = append(offers, fmt.Sprintf(`{"model": "model-%d", "input_usd_per_mtok": "1", "output_usd_per_mtok": "2"}`, i))
	}
	provider := func() string {
		return r.fill(`{"id": "made", "format": "openai", "base_url": "UPSTREAM/v1", "allow_private": true, "offers": [` + strings.Join(offers, ",") + `]}`)
	}
	r.must("POST", "providers", provider())
	offers[7] = strings.Replace(offers[7], `"2"`, `"3"`, 1)
	r.must("PUT", "providers/made", provider())
	models := func(last string) string {
		names := make([]string, 3000)
		for i := range names {
			names[i] = fmt.Sprintf("a-model-with-a-long-name-%d", i)
		}
		names[len(names)-1] = last
		return "models: [" + strings.Join(names, ", ") + "]"
	}
	r.write(strings.Replace(file, "models: [small]", models("x"), 1))
	r.must("POST", "apply", "")
	r.write(strings.Replace(file, "models: [small]", models("y"), 1))
	r.must("POST", "apply", "")
	list, newest := r.since(at)
	for i, e := range list {
		text := told(e)
		if len(text) > 20_000 {
			t.Errorf("entry %d has %d bytes", i, len(text))
		}
		list[i] = map[string]any{"text": regexp.MustCompile(`[0-9]+ bytes, sum [0-9a-f]{8}`).ReplaceAllString(text, "…")}
	}
	want := []string{
		r.fill(`socket provider.create made - > {"allow_private":true,"base_url":"UPSTREAM/v1","format":"openai","id":"made","offers":"… …"}`),
		`socket provider.replace made {"offers":{"made/model-7":{"output_usd_per_mtok":"2"}}} > {"offers":{"made/model-7":{"output_usd_per_mtok":"3"}}}`,
		`file/socket key.set ci {"models":["small"]} > {"models":"… …"}`,
		`file/socket key.set ci {"models":"… …"} > {"models":"… …"}`,
	}
	var got []string
	for _, e := range list {
		got = append(got, e["text"].(string))
	}
	if !slices.Equal(got, want) {
		t.Errorf("there are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	r.must("POST", "apply", "")
	r.restart()
	if list, _ := r.since(newest); len(list) > 0 {
		t.Errorf("nothing changed, and there is %s", told(list[0]))
	}
}
