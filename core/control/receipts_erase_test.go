package control_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"headway/core"
	"headway/core/seal"
)

// keepAll puts receipts into the store and waits until they are signed.
func (r *rig) keepAll(list []*core.Receipt) {
	r.t.Helper()
	var durable sync.WaitGroup
	for _, c := range list {
		if err := r.store.Open(core.Intent{ID: c.ID, Job: c.Job, Kind: c.Kind, At: c.At, Model: c.Model}); err != nil {
			r.t.Fatal(err)
		}
		durable.Add(1)
		r.store.Append(c, durable.Done)
	}
	durable.Wait()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); ; <-tick.C {
		if st := r.sealer.Status(); st.Signed != nil && *st.Signed == st.Log {
			return
		}
		if time.Now().After(end) {
			r.t.Fatal("the log is never signed")
		}
	}
}

// export is all that is signed, checked.
func (r *rig) export(check seal.Check, query string) *seal.Report {
	r.t.Helper()
	status, text := serve(r.desk.Local(), "GET", "/admin/v1/receipts/export"+query, "", "")
	if status != 200 {
		r.t.Fatalf("%d %s", status, text)
	}
	report, err := seal.Verify(strings.NewReader(text), check)
	if err != nil || !report.OK {
		r.t.Fatal(report, err)
	}
	return report
}

// totals are the usage of everything, and by key.
func (r *rig) totals() (total string, byKey map[string]float64) {
	r.t.Helper()
	u := r.must("GET", "usage?from=2026-09-01&to=2026-12-31&by=key,day%2Bmodel", "")
	byKey = map[string]float64{}
	for _, v := range u["by"].(map[string]any)["key"].([]any) {
		g := v.(map[string]any)
		key, _ := g["key"].(string)
		byKey[key] = g["calls"].(float64)
	}
	text, _ := json.Marshal([]any{u["total"], u["by"].(map[string]any)["day+model"], u["speed_by_model"]})
	return string(text), byKey
}

// TestReceiptsAreErased: a person's calls are erased, by key in a month, by owner and by
// their ids; usage stays as it was under no key, the log stays valid, and nothing that
// tells of it names the person.
func TestReceiptsAreErased(t *testing.T) {
	r := newRig(t)
	r.signed = true
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	r.hands.Store(&now)
	r.restart()
	var list []*core.Receipt
	for i := range 300 {
		at := now.Add(-time.Duration(i*37%50)*24*time.Hour - time.Duration(i)*time.Second)
		c := &core.Receipt{ID: core.NewCallID(at), Kind: core.KindJob, Outcome: core.Settled, At: at, SettledAt: at.Add(time.Second), Key: core.KeyID(fmt.Sprintf("key-%d", i%4)),
			Owner: fmt.Sprintf("owner-of-%d", i%4), Job: core.JobID(fmt.Sprintf("job-%d", i%9)), Step: "plan", Model: "small", Offer: "fast/small", Provider: "fast",
			Charge: core.Some(core.Money(i) * 1_000_003), UsageFrom: core.FromProvider}
		c.TraceID, c.Usage.Output = "trace-of-somebody", core.Some(int64(i))
		c.Timing.FirstToken = core.Some(float64(i) / 4)
		list = append(list, c)
	}
	r.keepAll(list)
	keys := r.sealer.Keys()
	saved, err := r.sealer.Checkpoint("2026-11")
	if err != nil {
		t.Fatal(err)
	}
	check := seal.Check{Keys: keys, Saved: saved.Note}
	total, byKey := r.totals()
	if len(byKey) != 4 || byKey["key-1"] != 75 {
		t.Fatal(byKey)
	}
	erased := map[core.CallID]bool{}
	same := func(what string) {
		t.Helper()
		now, by := r.totals()
		if now != total {
			t.Errorf("%s: usage was\n%s\nand is\n%s", what, total, now)
		}
		want := map[string]float64{}
		for _, c := range list {
			if erased[c.ID] {
				want[""]++
			} else {
				want[string(c.Key)]++
			}
		}
		if fmt.Sprint(by) != fmt.Sprint(want) {
			t.Errorf("%s: by key %v, want %v", what, by, want)
		}
		for _, c := range list {
			got, err := r.store.Receipt(c.ID)
			if err != nil {
				t.Fatal(err)
			}
			if is := got.Key == "" && got.Owner == "" && got.TraceID == ""; is != erased[c.ID] {
				t.Errorf("%s: receipt %s: %+v", what, c.ID, got)
			}
		}
		if n := r.export(check, "").Total.Receipts; n != 300 {
			t.Errorf("%s: %d receipts", what, n)
		}
	}
	mark := func(is func(*core.Receipt) bool) (n float64) {
		for _, c := range list {
			if is(c) && !erased[c.ID] {
				erased[c.ID] = true
				n++
			}
		}
		return n
	}
	erase := func(body string, want float64) {
		t.Helper()
		n := 0.0
		for {
			v := r.must("POST", "receipts/erase", body)
			n += v["receipts"].(float64)
			if v["next"] == nil {
				break
			}
			body = strings.TrimSuffix(body, "}") + `,"next":"` + v["next"].(string) + `"}`
		}
		if n != want {
			t.Errorf("%s: %v erased, want %v", body, n, want)
		}
	}
	october := func(c *core.Receipt) bool { return c.At.Month() == time.October }
	one := mark(func(c *core.Receipt) bool { return c.Key == "key-1" && october(c) })
	erase(`{"key":"key-1","month":"2026-10"}`, one)
	same("a key's in a month")
	erase(`{"key":"key-1","month":"2026-10"}`, 0)
	erase(`{"owner":"owner-of-2"}`, mark(func(c *core.Receipt) bool { return c.Owner == "owner-of-2" }))
	same("an owner's")
	three := fmt.Sprintf(`{"ids":[%q,%q,%q,%q]}`, list[3].ID, list[7].ID, list[1].ID, list[3].ID) // one of them is erased
	erase(three, mark(func(c *core.Receipt) bool { return c == list[3] || c == list[7] || c == list[1] }))
	same("by id")
	entries := len(r.items("audit?action=receipts.erase"))
	if v := r.must("POST", "receipts/erase", three); v["receipts"] != 0.0 || v["erased_before"] != 3.0 || v["unknown"] != nil {
		t.Errorf("again: %v", v)
	}
	if n := len(r.items("audit?action=receipts.erase")); n != entries {
		t.Errorf("what was not done is in the audit log: %d entries, and %d before", n, entries)
	}
	report := r.export(check, "")
	sum := int64(0)
	for _, l := range report.Logs {
		sum += l.Erased
	}
	if sum != int64(len(erased)) {
		t.Errorf("%d leaves tell of %d erasures", sum, len(erased))
	}
	r.refused("GET", "receipts/"+string(list[3].ID)+"/opening", "", 404, "was erased")
	o := r.must("GET", "receipts/"+string(list[0].ID)+"/opening", "")
	if !strings.Contains(o["private"].(string), "key-0") {
		t.Error(o)
	}
	// One that is nobody's has a leaf like any other.
	bare := core.Receipt{ID: core.NewCallID(now), Kind: core.KindTest, Outcome: core.Settled, At: now, SettledAt: now, Model: "small"}
	bare.Job = core.JobID(bare.ID)
	r.keepAll([]*core.Receipt{&bare})
	for i, want := range []string{"1 <nil>", "0 1"} {
		v := r.must("POST", "receipts/erase", fmt.Sprintf(`{"ids":[%q]}`, bare.ID))
		if got := fmt.Sprint(v["receipts"], " ", v["erased_before"]); got != want {
			t.Errorf("nobody's receipt, time %d: %s, want %s", i+1, got, want)
		}
	}
	// New calls of an erased key are its own.
	more := *list[2]
	more.ID = core.NewCallID(now)
	r.keepAll([]*core.Receipt{&more})
	if _, by := r.totals(); by["key-2"] != 1 {
		t.Error(by)
	}
	erase(`{"key":"key-2"}`, 1)

	_, text := serve(r.desk.Local(), "POST", "/admin/v1/receipts/purge", "", "")
	if lines := strings.Split(strings.TrimSpace(text), "\n"); len(lines) < 3 || lines[len(lines)-1] != `{"done":true}` {
		t.Errorf("%q", text)
	}
	for _, e := range r.items("audit") {
		entry, _ := json.Marshal(e)
		if e["action"] == "receipts.erase" && bytes.Contains(entry, []byte("owner-of")) {
			t.Errorf("%s", entry)
		}
	}
	for _, bad := range []string{``, `[]`, `{}`, `{"key":"a","owner":"b"}`, `{"ids":["x"]}`, `{"key":"a","month":"november"}`, `{"secret":true}`, `{"secret":true,"key":"a","month":"2026-10"}`,
		`{"ids":["` + string(list[0].ID) + `"],"month":"2026-10"}`, `{"key":"a","next":"x"}`, `{"keys":"a"}`, `{"key":"a"}{}`} {
		if status, v := r.admin("POST", "receipts/erase", bad); status != 400 {
			t.Errorf("%s: %d %v", bad, status, v)
		}
	}
	if v := r.must("POST", "receipts/erase", fmt.Sprintf(`{"ids":[%q]}`, core.NewCallID(now))); len(v["unknown"].([]any)) != 1 {
		t.Error(v)
	}
	r.restart()
	if _, by := r.totals(); by["key-2"] != 0 || by["key-0"] == 0 {
		t.Error(by)
	}
	// A month's secret goes once the month is over.
	if status, v := r.admin("POST", "receipts/erase", `{"secret":true,"month":"2026-11"}`); status != 400 || !strings.Contains(fmt.Sprint(v), "not closed") ||
		!strings.Contains(fmt.Sprint(v), "once the month is over") {
		t.Errorf("%d %v", status, v)
	}
	r.refused("POST", "receipts/erase", `{"secret":true,"month":"2026-09"}`, 404, "no log of")
	r.must("POST", "receipts/erase", `{"key":"nobody"}`)
	for _, e := range r.items("audit") {
		if e["action"] == "receipts.drop_secret" || e["target"] == "nobody" {
			t.Errorf("the audit log tells of what was not done: %v", e)
		}
	}
	december := time.Date(2026, 12, 2, 0, 0, 0, 0, time.UTC)
	r.hands.Store(&december)
	late := *list[0]
	late.ID, late.At, late.SettledAt = core.NewCallID(december), december, december
	r.keepAll([]*core.Receipt{&late})
	if v := r.must("POST", "receipts/erase", `{"secret":true,"month":"2026-11"}`); fmt.Sprint(v["logs"]) != "[2026-11]" {
		t.Error(v)
	}
	if e := r.items("audit")[0]; e["action"] != "receipts.drop_secret" || e["target"] != "2026-11" {
		t.Errorf("the audit log ends with %v", e)
	}
	r.refused("GET", "receipts/"+string(list[0].ID)+"/opening", "", 404, "secret")
	r.export(check, "")
}

// TestReceiptKeyIsRotated by the API, with its entry, and not without end.
func TestReceiptKeyIsRotated(t *testing.T) {
	r := newRig(t)
	r.signed = true
	r.restart()
	first := r.sealer.Keys()
	r.keepAll([]*core.Receipt{{ID: core.NewCallID(time.Now()), Kind: core.KindJob, Outcome: core.Settled, At: time.Now(), SettledAt: time.Now(), Job: "j", Model: "small"}})
	months, err := r.sealer.Months()
	if err != nil {
		t.Fatal(err)
	}
	saved, err := r.sealer.Checkpoint(months[0])
	if err != nil {
		t.Fatal(err)
	}
	for range 7 {
		v := r.must("POST", "receipts/rotate", "")
		if v["old_key"] == v["new_key"] || v["new_key"] != r.sealer.Status().Key {
			t.Error(v)
		}
	}
	r.refused("POST", "receipts/rotate", "", 400, "8 keys sign already")
	if n := len(r.items("audit?action=receipts.rotate")); n != 7 {
		t.Errorf("%d entries", n)
	}
	r.keepAll(nil)
	r.export(seal.Check{Keys: first, Saved: saved.Note}, "?since="+url.QueryEscape(string(saved.Note)))
	r.export(seal.Check{Keys: r.sealer.Keys()[7:]}, "")
	r.refused("GET", "receipts/export?since=x", "", 400, "since")
	r.refused("GET", "receipts/export?since=", "", 400, "since")
	r.refused("GET", "receipts/export?witnessed=true", "", 404, "no witness is configured")
	r.refused("GET", "receipts/tree?month=2001-01", "", 404, "")
}
