package seal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"strings"
	"testing"
	"time"

	"headway/core"
)

// canonical writes JSON anew by the rules of RFC 8785, with encoding/json's own
// order of keys and escapes: another way to the same bytes.
func canonical(t *testing.T, text []byte) []byte {
	t.Helper()
	var v any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	// encoding/json escapes two characters more than RFC 8785 does.
	again := bytes.ReplaceAll(bytes.TrimSuffix(out.Bytes(), []byte("\n")), []byte(`\u2028`), []byte("\u2028"))
	return bytes.ReplaceAll(again, []byte(`\u2029`), []byte("\u2029"))
}

var oddStrings = []string{"", "plain", `quote " and \ slash /`, "\x00\x01\x1f\x7f", "\b\t\n\f\r", "<&>", "\u2028\u2029", "é€😀", "\ufeff", "bad \xff\xc3 utf-8",
	"\xed\xa0\x80", "a\xf0\x9f", strings.Repeat("x", maxName), "\u00a0", `\u0041`}

func TestLeafIsCanonical(t *testing.T) {
	at := time.Date(2026, 11, 30, 1, 2, 3, 4e6, time.UTC)
	var receipts []*core.Receipt
	for i := range 40 {
		receipts = append(receipts, receipt(i, at))
	}
	for i, s := range oddStrings {
		r := receipt(i, at)
		r.Model, r.Offer, r.Provider, r.Node = core.Model(s), core.OfferID(s), core.ProviderID(s), core.NodeID(s)
		r.Owner, r.Step, r.Job, r.Key = s, s, core.JobID(s), core.KeyID(s)
		receipts = append(receipts, r)
	}
	for _, n := range []core.Money{0, 1, math.MaxInt64} {
		r := receipt(8, at)
		r.Charge = core.Some(n)
		r.Prices.Input = math.MaxInt64
		r.Usage.Output = core.Some(int64(maxInteger))
		receipts = append(receipts, r)
	}
	for _, r := range receipts {
		x := sealed{key: "k", owner: "o", private: commit(nil, &[saltSize]byte{1}, appendPrivate(nil, r))}
		leaf, err := appendReceipt(nil, r, &x)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range [][]byte{leaf, appendPrivate(nil, r)} {
			if again := canonical(t, text); !bytes.Equal(again, text) {
				t.Errorf("%s\nis canonical as\n%s", text, again)
			}
		}
		l, err := ParseLeaf(leaf)
		if err != nil {
			t.Fatalf("%s: %v", leaf, err)
		}
		if l.ID != r.ID || l.Time != r.At.UnixMilli() || l.Charge != r.Charge || l.Usage != r.Usage || l.Private.V != x.private || l.Kind != r.Kind ||
			l.Outcome != r.Outcome || string(l.Model) != utf8Text(string(r.Model)) || l.Attempts.V != int64(len(r.Attempts)) || l.UsageFrom != r.UsageFrom {
			t.Errorf("%s\nis read as\n%+v", leaf, l)
		}
		if (l.Prices == nil) != (r.Prices == nil) || l.Prices != nil && *l.Prices != *r.Prices {
			t.Errorf("%s\nis read with %+v", leaf, l.Prices)
		}
	}
}

// utf8Text is a text as encoding/json has it.
func utf8Text(s string) (out string) {
	data, _ := json.Marshal(s)
	_ = json.Unmarshal(data, &out)
	return out
}

func TestOtherLeavesAreCanonical(t *testing.T) {
	tree := &Tree{Origin: "a/b/2026-11", Size: 17, Root: Hash{1}}
	for _, leaf := range [][]byte{
		openLeaf{keys: []string{"k"}}.append(nil), openLeaf{prev: tree}.append(nil),
		openLeaf{prev: tree, lost: []Tree{*tree, *tree}, keys: []string{"k", "l"}}.append(nil), openLeaf{lost: []Tree{*tree, *tree}}.append(nil),
		appendClose(nil, []string{"k"}), appendRotate(nil, "k"), appendErase(nil, "a/b/2026-10", 12), appendHeader(nil, []string{"a/b/2026-10"}),
	} {
		if again := canonical(t, leaf); !bytes.Equal(again, leaf) {
			t.Errorf("%s\nis canonical as\n%s", leaf, again)
		}
	}
	l, err := ParseLeaf(openLeaf{prev: tree, lost: []Tree{*tree, *tree}, keys: []string{"k", "l"}}.append(nil))
	if err != nil || *l.Prev != *tree || len(l.Lost) != 2 || l.Lost[1] != *tree || len(l.Keys) != 2 {
		t.Errorf("%+v, %v", l, err)
	}
}

// TestLeafInPython has a third opinion where there is one.
func TestLeafInPython(t *testing.T) {
	python := needs(t, "python3")
	var in bytes.Buffer
	for _, s := range oddStrings {
		in.Write(appendString(nil, s))
		in.WriteByte('\n')
	}
	cmd := exec.Command(python, "-c", `import json,sys
for line in sys.stdin.buffer:
    line = line.rstrip(b"\n")
    again = json.dumps(json.loads(line), ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
    assert again == line, (again, line)`)
	cmd.Stdin = &in
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestLeafRefuses(t *testing.T) {
	at := time.Date(2026, 11, 30, 1, 2, 3, 0, time.UTC)
	long := strings.Repeat("x", maxName+1)
	for field, change := range map[string]func(*core.Receipt){
		"model":               func(r *core.Receipt) { r.Model = core.Model(long) },
		"offer":               func(r *core.Receipt) { r.Offer = core.OfferID(long) },
		"provider":            func(r *core.Receipt) { r.Provider = core.ProviderID(long) },
		"node":                func(r *core.Receipt) { r.Node = core.NodeID(long) },
		"outcome":             func(r *core.Receipt) { r.Outcome = core.Outcome(long) },
		"id":                  func(r *core.Receipt) { r.ID = "" },
		"offer.":              func(r *core.Receipt) { r.Offer = core.OfferID(strings.Repeat("\xff", maxName/3+1)) }, // each becomes three bytes
		"charge":              func(r *core.Receipt) { r.Charge = core.Some(core.Money(-1)) },
		"prices":              func(r *core.Receipt) { r.Prices.CacheRead = core.Some(core.Rate(-1)) },
		"at":                  func(r *core.Receipt) { r.At = time.Time{} },
		"usage.output_tokens": func(r *core.Receipt) { r.Usage.Output = core.Some(int64(1 << 53)) },
		"usage.uncached_input_tokens": func(r *core.Receipt) {
			r.Usage.UncachedInput = core.Some(int64(-1))
		},
	} {
		r := receipt(1, at)
		change(r)
		_, err := appendReceipt(nil, r, &sealed{})
		if e, ok := err.(*core.Error); !ok || e.Param != strings.TrimSuffix(field, ".") {
			t.Errorf("%s: %v", field, err)
		}
	}
	// The longest that a leaf can be.
	r := receipt(8, at)
	worst := strings.Repeat("\x01", maxName)
	r.Model, r.Offer, r.Provider, r.Node = core.Model(worst), core.OfferID(worst), core.ProviderID(worst), core.NodeID(worst)
	r.Outcome, r.Kind, r.UsageFrom, r.ID = core.Outcome(worst), core.CallKind(worst), core.UsageFrom(worst), core.CallID(worst)
	r.Charge, r.Prices.Input, r.Prices.Output = core.Some(core.Money(math.MaxInt64)), math.MaxInt64, math.MaxInt64
	leaf, err := appendReceipt(nil, r, &sealed{key: strings.Repeat("k", 24), owner: strings.Repeat("k", 24)})
	if err != nil || len(leaf) > maxLeaf {
		t.Errorf("%d bytes, %v", len(leaf), err)
	}
}

// TestLeafHolds says what is in a leaf, and what is not (SPEC §11).
func TestLeafHolds(t *testing.T) {
	r := receipt(1, time.UnixMilli(1_764_400_000_000).UTC())
	r.Timing.FirstToken, r.TraceID, r.Group, r.Region = core.Some(123.5), "trace-1", "group-1", "region-1"
	r.Decision = &core.Decision{Strategy: "strategy-1"}
	r.Step, r.Owner = "step-1", "owner-1"
	leaf, err := appendReceipt(nil, r, &sealed{key: "pseudonym-1", owner: "pseudonym-2"})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"attempts":1,"charge_picousd":"2234570","id":"` + string(r.ID) + `","key":"pseudonym-1","kind":"job","model":"demo-large",` +
		`"offer":"fast/demo-large","outcome":"settled","owner":"pseudonym-2",` +
		`"prices_picousd_per_token":{"cache_read":"300000","input":"3000000","output":"15000000"},` +
		`"private":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","provider":"fast","time":1764400000000,"type":"receipt",` +
		`"usage":{"output_tokens":1,"uncached_input_tokens":1},"usage_from":"provider"}`
	if string(leaf) != want {
		t.Errorf("%s\nshould be\n%s", leaf, want)
	}
	for _, secret := range []string{string(r.Key), r.Owner, string(r.Job), r.Step, "123.5", "trace-1", "group-1", "region-1", "strategy-1", r.SettledAt.Format("05.000")} {
		if bytes.Contains(leaf, []byte(secret)) {
			t.Errorf("the leaf says %q", secret)
		}
	}
	if got := string(appendPrivate(nil, r)); got != fmt.Sprintf(`{"job":%q,"key":"key-1","owner":"owner-1","step":"step-1"}`, r.Job) {
		t.Error(got)
	}
}

func TestParseLeafRefuses(t *testing.T) {
	for _, text := range []string{
		"", "{", "{}", "[]", `"x"`, `{"type":"receipt"} `, ` {"type":"receipt"}`, `{"type": "receipt"}`, `{"type":"a","type":"a"}`, `{"type":"a","a":1}`,
		`{"id":"\u0041","type":"receipt"}`, `{"id":"\/","type":"receipt"}`, `{"id":"` + "\xff" + `","type":"receipt"}`, `{"id":"` + "\n" + `","type":"receipt"}`,
		`{"time":1.5,"type":"receipt"}`, `{"time":01,"type":"receipt"}`, `{"time":-0,"type":"receipt"}`, `{"time":9007199254740992,"type":"receipt"}`,
		`{"time":1e3,"type":"receipt"}`, `{"charge_picousd":5,"type":"receipt"}`, `{"charge_picousd":"05","type":"receipt"}`, `{"charge_picousd":"+5","type":"receipt"}`,
		`{"charge_picousd":"9223372036854775808","type":"receipt"}`, `{"private":"AAAA","type":"receipt"}`,
		`{"private":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB=","type":"receipt"}`, `{"type":"open","x":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`,
		`{"prev_size":5,"type":"open"}`, `{"type":"receipt",}`, `{"type":"receipt"`, `{"type":"receipt","x":tru}`, `{"type":null}`,
	} {
		if l, err := ParseLeaf([]byte(text)); err == nil {
			t.Errorf("%q is read as %+v", text, l)
		}
	}
	if _, err := ParseLeaf([]byte(`{"new":[true,false,null,-1,{"a":"b"}],"type":"later"}`)); err != nil {
		t.Errorf("a leaf of a later kind: %v", err)
	}
}
