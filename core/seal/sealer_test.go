package seal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"headway/core"
)

// records of a kind are changed or dropped as a broken disk would.
func (r *rig) all(kind string) (names []string) {
	r.t.Helper()
	if err := r.vault.All(kind, func(name string, _ []byte) bool { names = append(names, name); return true }); err != nil {
		r.t.Fatal(err)
	}
	return names
}

func (r *rig) drop(kind string, names ...string) {
	r.t.Helper()
	for _, name := range names {
		if err := r.vault.Delete(kind, name); err != nil {
			r.t.Fatal(err)
		}
	}
}

// put changes a record.
func (r *rig) change(kind, name string, change func(value []byte) []byte) {
	r.t.Helper()
	value, err := r.vault.Get(kind, name)
	if err != nil || value == nil {
		r.t.Fatal(kind, name, err)
	}
	if err := r.vault.Put(kind, name, change(bytes.Clone(value))); err != nil {
		r.t.Fatal(err)
	}
}

// snapshot keeps what the vault has, and puts it back when it is called.
func (r *rig) snapshot() func() {
	r.t.Helper()
	var kept []core.Record
	kinds := []string{KindRun, KindTree, KindLog, KindSecret, KindKeys}
	for _, kind := range kinds {
		if err := r.vault.All(kind, func(name string, value []byte) bool {
			kept = append(kept, core.Record{Kind: kind, Name: name, Value: value})
			return true
		}); err != nil {
			r.t.Fatal(err)
		}
	}
	return func() {
		for _, kind := range kinds {
			r.drop(kind, r.all(kind)...)
		}
		if err := r.vault.Write(kept, nil); err != nil {
			r.t.Fatal(err)
		}
	}
}

func TestLogGoesOn(t *testing.T) {
	r := newRig(t)
	for i := range 7 { // restarts between groups, one of them before the signature
		r.add(100, 30)
		r.seal.Record(receipt(r.made, r.now))
		r.made++
		if err := r.vault.Write(r.seal.Changed(), nil); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			if err := r.seal.Durable(); err != nil {
				t.Fatal(err)
			}
		}
		r.open()
		if st := r.seal.Status(); len(st.Broken) > 0 || st.Log.Size != uint64(r.made)+1 {
			t.Fatalf("%+v", st)
		}
		if err := r.seal.Durable(); err != nil { // what the process before owes
			t.Fatal(err)
		}
		if st := r.seal.Status(); st.Signed.Size != st.Log.Size || st.Signed.Root != st.Log.Root {
			t.Fatalf("%+v", st)
		}
	}
	report := good(t, r.export(ExportOptions{}), Check{Keys: r.seal.Keys()})
	if report.Total.Receipts != 707 {
		t.Fatal(report.Total.Receipts)
	}
}

func TestMonthEnds(t *testing.T) {
	r := newRig(t)
	r.now = time.Date(2026, 11, 30, 23, 59, 59, 900e6, time.UTC)
	r.add(300, 64) // goes over midnight in the middle of a group
	if got := r.months(); !slices.Equal(got, []Month{"2026-11", "2026-12"}) {
		t.Fatal(got)
	}
	saved := r.checkpoint("2026-11").Note
	// A clock that goes back does not open a month again.
	r.now = time.Date(2026, 10, 3, 0, 0, 0, 0, time.UTC)
	r.add(10, 5)
	// A month without a receipt has no log; an idle box ends its month all the same.
	r.now = time.Date(2027, 2, 1, 0, 0, 0, 0, time.UTC)
	if !r.seal.Due() {
		t.Fatal("the month is over, and nothing is due")
	}
	r.commit()
	if r.seal.Due() {
		t.Fatal("something is due again")
	}
	if got := r.months(); !slices.Equal(got, []Month{"2026-11", "2026-12", "2027-02"}) {
		t.Fatal(got)
	}
	r.add(5, 5)
	export := r.export(ExportOptions{})
	report := good(t, export, Check{Keys: r.seal.Keys(), Saved: saved})
	l := report.Logs
	if report.Total.Receipts != int64(r.made) || !l[0].Closed || !l[1].Closed || l[2].Closed || l[1].Follows != l[0].Origin || l[2].Follows != l[1].Origin || l[0].Saved != "same" {
		t.Fatalf("%+v", l)
	}
	// Any months of it can be exported; the report says what a log follows.
	for _, months := range [][]Month{{"2026-11"}, {"2026-12"}, {"2026-11", "2027-02"}, {"2026-12", "2027-02"}} {
		good(t, r.export(ExportOptions{}, months...), Check{Keys: r.seal.Keys()})
	}
	bad(t, r.export(ExportOptions{}, "2026-12", "2026-11"), Check{}, WrongOrder, int64(len(lines(r.export(ExportOptions{}, "2026-12"))))+1)
	// A month cut out of the file, with the line that announces it or without.
	all := lines(export)
	second, third := int64(0), int64(0)
	for i, line := range all {
		if bytes.HasPrefix(line, []byte(logFront)) && i > 1 {
			if second == 0 {
				second = int64(i + 1)
			} else {
				third = int64(i + 1)
			}
		}
	}
	gone := joined(slices.Concat(all[:second-1], all[third-1:]))
	bad(t, gone, Check{}, WrongMissing, second)
	// The saved checkpoint of a month that is not there.
	if p := bad(t, r.export(ExportOptions{}, "2026-12"), Check{Saved: saved}, WrongCutShort, 0); strings.HasPrefix(p.String(), "line ") {
		t.Errorf("a line is named that is not there: %s", p)
	}
}

// TestEndOfMonthIsOwed kills the process between the commit that ends a month and
// its signatures.
func TestEndOfMonthIsOwed(t *testing.T) {
	r := newRig(t)
	r.add(20, 20)
	r.now = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	r.seal.Record(receipt(r.made, r.now))
	r.made++
	if err := r.vault.Write(r.seal.Changed(), nil); err != nil {
		t.Fatal(err)
	}
	r.open()
	if err := r.seal.Durable(); err != nil {
		t.Fatal(err)
	}
	report := good(t, r.export(ExportOptions{}), Check{Keys: r.seal.Keys()})
	if !report.Logs[0].Closed || report.Total.Receipts != 21 {
		t.Fatalf("%+v", report)
	}
}

// TestLastLeafEndsATile ends a month right after a start, at every size around that
// of a tile.
func TestLastLeafEndsATile(t *testing.T) {
	for n := 252; n < 258; n++ {
		r := newRig(t)
		r.add(n, 64)
		r.open()
		r.now = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
		r.add(1, 1)
		report := good(t, r.export(ExportOptions{}), Check{Keys: r.seal.Keys()})
		if !report.Logs[0].Closed || report.Total.Receipts != int64(n)+1 {
			t.Fatalf("%d: %+v", n, report.Logs[0])
		}
		c := r.checkpoint("2026-11")
		if got := Recover(r.seal.Source(), c.Origin, c); got.Verdict != Whole {
			t.Fatal(n, got.Err)
		}
	}
}

func TestKeyIsRotated(t *testing.T) {
	r := newRig(t)
	r.add(300, 64)
	first := r.seal.Keys()
	r.seal.Rotate()
	if !r.seal.Due() {
		t.Fatal("a new key is not due")
	}
	r.add(20, 64)
	both := r.seal.Keys()
	if len(both) != 2 || r.seal.Status().Key != both[1].String() {
		t.Fatal(both)
	}
	r.open() // the ring was kept
	r.now = time.Date(2026, 12, 5, 0, 0, 0, 0, time.UTC)
	r.add(300, 64)
	r.now = time.Date(2027, 1, 5, 0, 0, 0, 0, time.UTC)
	r.add(20, 64)
	r.now = time.Date(2027, 2, 5, 0, 0, 0, 0, time.UTC)
	r.add(20, 64)
	seeds := 0
	for _, k := range r.seal.ring.Load().keys {
		if k.Seed != nil {
			seeds++
		}
	}
	if seeds != 1 {
		t.Errorf("%d secret keys are kept", seeds)
	}
	for m, want := range map[Month]int{"2026-11": 2, "2026-12": 2, "2027-01": 1, "2027-02": 1} {
		c, err := ParseCheckpoint(r.checkpoint(m).Note, both)
		if err != nil || len(c.Signed) != want {
			t.Errorf("log %s is signed by %v: %v", m, c, err)
		}
	}
	oldOnly, newOnly := Check{Keys: first}, Check{Keys: both[1:]}
	across := r.export(ExportOptions{})
	for _, check := range []Check{oldOnly, newOnly, {}, {Keys: both}} {
		report := good(t, across, check)
		if n := len(report.Logs[0].NewKeys) + len(report.Keys); len(check.Keys) == 1 && check.Keys[0] == first[0] && n != 3 {
			t.Errorf("%+v", report)
		}
	}
	// Who knows the old key alone follows the logs that it still signs, and not the
	// ones after it.
	good(t, r.export(ExportOptions{}, "2026-12", "2027-01"), oldOnly)
	bad(t, r.export(ExportOptions{}, "2027-01"), oldOnly, WrongUnknownKey, 2)
	good(t, r.export(ExportOptions{}, "2027-01", "2027-02"), newOnly)
	// A key of another edge with the same bytes is not this edge's.
	other := both[1]
	other.Name = "headway.example/other"
	bad(t, across, Check{Keys: []Key{other}}, WrongUnknownKey, 2)
	// The key of one log is good for that log alone.
	month := both[0]
	month.Name = originOf(testEdge, "2026-11")
	good(t, r.export(ExportOptions{}, "2026-11"), Check{Keys: []Key{month}})
	bad(t, r.export(ExportOptions{}, "2026-12"), Check{Keys: []Key{month}}, WrongUnknownKey, 2)
}

// TestKeyBeforeRotation holds an export from before a rotation against both keys.
func TestKeyBeforeRotation(t *testing.T) {
	r := newRig(t)
	r.add(30, 64)
	before := r.export(ExportOptions{})
	r.seal.Rotate()
	r.add(30, 64)
	keys := r.seal.Keys()
	good(t, before, Check{Keys: keys})
	good(t, before, Check{Keys: keys[:1]})
	bad(t, before, Check{Keys: keys[1:]}, WrongUnknownKey, 2)
}

func TestErase(t *testing.T) {
	r := newRig(t)
	var at []Position
	var receipts []*core.Receipt
	for i := range 300 {
		x := receipt(i, r.now)
		p, err := r.seal.Seal(x)
		if err != nil {
			t.Fatal(err)
		}
		at, receipts = append(at, p), append(receipts, x)
		if i%50 == 49 {
			r.commit()
		}
	}
	saved := r.checkpoint("2026-11").Note
	o, err := r.seal.Reveal(at[7], receipts[7])
	if err != nil || !strings.Contains(o.Private, string(receipts[7].Job)) {
		t.Fatal(o, err)
	}
	if _, err := r.seal.Reveal(at[7], receipts[8]); err == nil {
		t.Fatal("a leaf is opened with another receipt")
	}
	for _, i := range []int{7, 8, 299, 120} {
		if err := r.seal.Erase(at[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.seal.Erase(Position{"2026-11", 0}); err == nil {
		t.Error("the first leaf of a log is erased")
	}
	if err := r.seal.Erase(Position{"2026-11", 5000}); err == nil {
		t.Error("a leaf that is not there is erased")
	}
	r.commit()
	for i := range receipts {
		_, err := r.seal.Reveal(at[i], receipts[i])
		erased := slices.Contains([]int{7, 8, 299, 120}, i)
		if (err != nil) != erased {
			t.Fatalf("receipt %d: %v", i, err)
		}
	}
	// Nothing of the nonces that were dropped is kept.
	if r.seal.Due() {
		t.Error("something is due still")
	}
	report := good(t, r.export(ExportOptions{}), Check{Keys: r.seal.Keys(), Saved: saved})
	if report.Total.Receipts != 300 || report.Logs[0].Erased != 4 || report.Logs[0].Saved != "grown" {
		t.Fatalf("%+v", report.Logs[0])
	}
	// A month later, in another log.
	r.now = time.Date(2026, 12, 5, 0, 0, 0, 0, time.UTC)
	if err := r.seal.Erase(at[1]); err != nil {
		t.Fatal(err)
	}
	r.commit()
	if _, err := r.seal.Reveal(at[1], receipts[1]); err == nil {
		t.Error("an erased leaf can be opened")
	}
	good(t, r.export(ExportOptions{}), Check{Keys: r.seal.Keys(), Saved: saved})
	// A month's secret is dropped: no leaf of it can be opened, all of it is valid.
	r.drop(KindSecret, "2026-11")
	if _, err := r.seal.Reveal(at[2], receipts[2]); err == nil {
		t.Error("a leaf is opened without its month's secret")
	}
	if _, _, err := r.seal.Pseudonyms("2026-11", "key-1", "owner-1"); err == nil {
		t.Error("a pseudonym is known without its month's secret")
	}
	good(t, r.export(ExportOptions{}), Check{Keys: r.seal.Keys(), Saved: saved})
}

func TestPseudonyms(t *testing.T) {
	r := newRig(t)
	r.add(10, 10)
	r.now = time.Date(2026, 12, 5, 0, 0, 0, 0, time.UTC)
	r.add(10, 10)
	key, owner, err := r.seal.Pseudonyms("2026-11", "key-1", "owner-1")
	if err != nil || len(key) != 24 || len(owner) != 24 || key == owner {
		t.Fatal(key, owner, err)
	}
	export := r.export(ExportOptions{}, "2026-11")
	if !bytes.Contains(export, []byte(`"key":"`+key+`"`)) || !bytes.Contains(export, []byte(`"owner":"`+owner+`"`)) {
		t.Error("the pseudonyms are not those of the leaves")
	}
	next, _, err := r.seal.Pseudonyms("2026-12", "key-1", "owner-1")
	if err != nil || next == key {
		t.Error("a key has the same pseudonym in two months", err)
	}
	same, sameOwner, err := r.seal.Pseudonyms("2026-11", "owner-1", "key-1")
	if err != nil || same == owner || sameOwner == key {
		t.Error("a key and an owner of one name have one pseudonym", err)
	}
}

func TestUnsealable(t *testing.T) {
	r := newRig(t)
	r.add(3, 3)
	x := receipt(3, r.now)
	x.Model = core.Model(strings.Repeat("m", maxName+1))
	r.seal.Record(x)
	r.seal.Record(receipt(4, r.now))
	r.commit()
	if st := r.seal.Status(); st.Unsealed != 1 || st.Log.Size != 5 {
		t.Fatalf("%+v", st)
	}
	contains(t, r.log.String(), string(x.ID))
	good(t, r.export(ExportOptions{}), Check{})
}

func TestLargeLeaves(t *testing.T) {
	r := newRig(t)
	for i := range 40 {
		x := receipt(i, r.now)
		x.Model, x.Offer = core.Model(strings.Repeat("\x01", maxName)), core.OfferID(strings.Repeat("\x02", maxName))
		r.seal.Record(x)
	}
	size, got := r.seal.Size(), 0
	list := r.seal.Changed()
	for _, record := range list {
		if got += len(record.Name) + len(record.Value); len(record.Value) > 256<<10 {
			t.Errorf("a record of %s has %d bytes", record.Kind, len(record.Value))
		}
	}
	if size < got {
		t.Errorf("at most %d bytes were announced, and are %d", size, got)
	}
	if err := r.vault.Write(list, nil); err != nil {
		t.Fatal(err)
	}
	if err := r.seal.Durable(); err != nil {
		t.Fatal(err)
	}
	good(t, r.export(ExportOptions{}), Check{})
}

func TestFind(t *testing.T) {
	r := newRig(t)
	want := map[core.CallID]Position{}
	put := func(x *core.Receipt) {
		t.Helper()
		at, err := r.seal.Seal(x)
		if err != nil {
			t.Fatal(err)
		}
		if r.made++; r.made%64 == 0 {
			r.commit()
		}
		want[x.ID] = at
	}
	long := receipt(1_000_000, r.now) // a call that takes a day
	for i := range 1000 {
		put(receipt(i, r.now))
		r.now = r.now.Add(time.Minute)
	}
	put(long)
	for i := range 1000 { // calls that end in another order than they came
		put(receipt(2000+i, r.now.Add(-time.Duration(i*7919%1000)*time.Second)))
		r.now = r.now.Add(time.Second)
	}
	x := receipt(300_000, r.now) // it came in November and ended in December
	r.now = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	put(x)
	put(receipt(300_001, r.now))
	r.now = time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC) // the clock was set back
	put(receipt(300_002, r.now))
	r.commit()
	for id, want := range want {
		if want.Month == "2026-11" && want.Index%23 != 0 && id != long.ID {
			continue // a vault in memory is sorted for each look
		}
		got, err := Find(r.vault, id, 0)
		if err != nil || got != want {
			t.Errorf("%v, %v; it is at %v", got, err, want)
		}
	}
	var some []*core.Receipt
	for id := range want {
		at, _ := id.Time()
		if some = append(some, &core.Receipt{ID: id, SettledAt: at}); len(some) == 200 {
			break
		}
	}
	all, err := FindAll(r.vault, append(some, receipt(5000, r.now)))
	if err != nil || len(all) != len(some) {
		t.Errorf("%d of %d are found: %v", len(all), len(some), err)
	}
	for id, at := range all {
		if at != want[id] {
			t.Errorf("%v; it is at %v", at, want[id])
		}
	}
	if _, err := Find(r.vault, receipt(5000, r.now).ID, 0); err == nil {
		t.Error("a call that was not sealed is found")
	}
	if _, err := Find(r.vault, "nonsense", 0); err == nil {
		t.Error("nonsense is found")
	}
}

// TestSecretsAreSealed looks for what must not be readable in the records.
func TestSecretsAreSealed(t *testing.T) {
	r := newRig(t)
	r.add(50, 10)
	seed := r.seal.ring.Load().keys[0].Seed
	plain, _ := json.Marshal(seed)
	for _, kind := range []string{KindRun, KindTree, KindLog, KindSecret, KindKeys} {
		_ = r.vault.All(kind, func(name string, value []byte) bool {
			if bytes.Contains(value, seed) || bytes.Contains(value, bytes.Trim(plain, `"`)) || kind == KindSecret && len(value) < 48 {
				t.Errorf("%s %s can be read", kind, name)
			}
			for i := range 7 {
				if name := fmt.Sprintf("key-%d", i); bytes.Contains(value, []byte(name)) {
					t.Errorf("%s %s says %s", kind, name, name)
				}
			}
			return true
		})
	}
	names, err := filepath.Glob(filepath.Join(r.parts.Dir, "*"))
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	info, err := os.Stat(names[0])
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
}

func TestEdgeKeepsItsName(t *testing.T) {
	r := newRig(t)
	r.parts.Edge = "another.example/k3f9"
	if _, err := Open(r.parts); err == nil {
		t.Error("the log is opened under another name")
	}
	for _, edge := range []string{"", "a b", "a+b", "/a", "a/", "a\nb", "a\u00a0b", strings.Repeat("x", 201), "\xff"} {
		if checkEdge(edge) == nil {
			t.Errorf("%q is taken for the name of an edge", edge)
		}
	}
}

func TestDrop(t *testing.T) {
	r := newRig(t)
	for _, m := range []time.Month{9, 10, 11} {
		r.now = time.Date(2026, m, 5, 0, 0, 0, 0, time.UTC)
		r.add(700, 64)
	}
	whole := r.export(ExportOptions{})
	if _, err := r.seal.Secret("2026-11"); err == nil || r.seal.Drop("2026-11") == nil {
		t.Error("the current log is dropped")
	}
	if r.seal.Drop("2026-08") == nil {
		t.Error("a log that is not there is dropped")
	}
	secret, err := r.seal.Secret("2026-10")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.vault.Delete(secret.Kind, secret.Name); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.seal.Pseudonyms("2026-10", "key-1", ""); err == nil {
		t.Error("a pseudonym is known without its secret")
	}
	good(t, r.export(ExportOptions{}), Check{})
	if err := r.seal.Drop("2026-09"); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{KindRun, KindTree, KindLog, KindSecret} {
		for _, name := range r.all(kind) {
			if strings.HasPrefix(name, "2026-09") {
				t.Errorf("%s %s is there still", kind, name)
			}
		}
	}
	r.open()
	if st := r.seal.Status(); len(st.Broken) > 0 {
		t.Fatalf("%+v", st)
	}
	r.add(10, 5)
	good(t, r.export(ExportOptions{}), Check{Keys: r.seal.Keys()})
	good(t, whole, Check{Keys: r.seal.Keys()})
	if _, err := r.seal.Prove(Position{"2026-09", 5}); err == nil {
		t.Error("a leaf of a dropped log is proven")
	}
	if err := Export(discard{}, r.seal.Source(), []Part{{Checkpoint: r.checkpoint("2026-09")}}, ExportOptions{}); err == nil {
		t.Error("a dropped log is exported")
	}
}

// TestManyKeys has a log that names more keys than anybody needs.
func TestManyKeys(t *testing.T) {
	r := newRig(t)
	r.add(1, 1)
	for range mostKeys + 5 {
		r.seal.add(appendRotate(nil, newTestRing(t).current().String()), noNonce[:])
	}
	r.commit()
	if report := verify(t, r.export(ExportOptions{}), Check{}); report.OK || report.Problem.Word != WrongFormat {
		t.Fatal(report.Problem)
	}
}
