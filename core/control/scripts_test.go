package control_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAScriptRanksCalls goes through a whole server: a script that is a key's
// strategy, its errors, and what operators see of them.
func TestAScriptRanksCalls(t *testing.T) {
	r := newRig(t)
	folder := filepath.Join(r.dir, "scripts")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, source := range map[string]string{
		"mine": "function score(job, offer) {\n  if (job.headers['x-tenant'] === 'none') return null;\n" +
			"  if (job.headers['x-tenant'] === 'boom') throw new Error('no tenant ' + offer.provider + job.headers.authorization);\n  return offer.provider === 'slow' ? 0 : 1; }",
		"broken": "function score() {\n  return /x/; }",
		"gone":   "function score() { return 0; }",
	} {
		if err := os.WriteFile(filepath.Join(folder, name+".js"), []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Not by default: every call of the machine at once may take longer than 10 ms here.
	r.write(strings.Replace(file, "providers:", "limits: {script: 10s}\nrouting: {scripts: ./scripts, script_headers: [x-tenant]}\nproviders:", 1) +
		"  - {name: mine, key: hw_mine_0000000000000000000, strategy: mine}\n  - {name: broken, key: hw_broken_00000000000000000, strategy: broken}\n" +
		"  - {name: gone, key: hw_gone_0000000000000000000, strategy: gone}\n  - {name: built, key: hw_built_000000000000000000, strategy: cheapest}\n")
	r.restart()

	decided := func(key string, headers ...string) map[string]any {
		t.Helper()
		status, id := r.call(key, "small", headers...)
		if status != http.StatusOK {
			t.Fatalf("status %d", status)
		}
		c := r.receipt(id)
		d := c["decision"].(map[string]any)
		d["first"] = c["offer"]
		return d
	}
	const mine, broken = "hw_mine_0000000000000000000", "hw_broken_00000000000000000"
	if d := decided(mine); d["strategy"] != "mine" || d["ranked_on"] != "script" || d["script_error"] != nil || d["first"] != "slow/small" {
		t.Errorf("%v", d)
	}
	if d := decided(mine, "X-Tenant", "boom"); d["strategy"] != "mine" || d["script_error"] != "mine.js:3: Error: no tenant fastundefined" || d["first"] != "fast/small" || d["ranked_on"] == "script" {
		t.Errorf("%v", d)
	}
	if d := decided(broken); d["script_error"] != "broken.js:2: regular expressions cannot be stopped: a script has none" || d["first"] != "fast/small" {
		t.Errorf("%v", d)
	}
	if status, _ := r.call(mine, "small", "X-Tenant", "none"); status != http.StatusServiceUnavailable {
		t.Errorf("a call whose offers were all left out has status %d", status)
	}
	if err := os.Remove(filepath.Join(folder, "gone.js")); err != nil {
		t.Fatal(err)
	}
	list := map[string]map[string]any{}
	r.while(func(await func(string, func() bool)) {
		await("that a script is gone is told", func() bool {
			for _, s := range r.items("scripts") {
				list[s["name"].(string)] = s
			}
			return list["gone"]["state"] == "missing"
		})
	})
	if s := list["mine"]; s["state"] != "active" || s["in_force"] != true || s["decisions"] != 3.0 || s["failures"] != 1.0 ||
		s["error"].(map[string]any)["line"] != 3.0 || fmt.Sprint(s["used_by"]) != "[key mine]" {
		t.Errorf("%v", s)
	}
	if s := list["broken"]; s["state"] != "refused" || s["in_force"] != false || s["decisions"] != 0.0 || s["error"].(map[string]any)["line"] != 2.0 {
		t.Errorf("%v", s)
	}
	if s := list["gone"]; s["in_force"] != false || fmt.Sprint(s["used_by"]) != "[key gone]" || len(list) != 3 {
		t.Errorf("%v", list)
	}
}
