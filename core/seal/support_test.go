package seal

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"headway/core"
	"headway/core/ledger"
)

var receiptCount = flag.Int("receipts", 20_000, "how many receipts the tests of size use")

// rig is a Sealer over a vault in memory, with a clock that a test sets.
type rig struct {
	t     testing.TB
	parts Parts
	vault *core.Memory
	now   time.Time
	log   *bytes.Buffer
	seal  *Sealer
	made  int
}

const testEdge = "headway.example/k3f9"

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{t: t, vault: core.NewMemory(), now: time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC), log: &bytes.Buffer{}}
	pepper := ledger.NewPepper()
	r.parts = Parts{Clock: func() time.Time { return r.now }, Log: slog.New(slog.NewTextHandler(r.log, nil)), Vault: r.vault,
		Secrets: pepper.Sealer(), Dir: t.TempDir(), Edge: testEdge}
	r.open()
	return r
}

func (r *rig) open() {
	r.t.Helper()
	s, err := Open(r.parts)
	if err != nil {
		r.t.Fatal(err)
	}
	r.seal = s
}

// receipt is the i-th of a made-up life: every field varies, some are absent.
func receipt(i int, at time.Time) *core.Receipt {
	r := &core.Receipt{Kind: core.KindJob, Outcome: core.Settled, At: at, SettledAt: at.Add(time.Second), Key: core.KeyID(fmt.Sprintf("key-%d", i%7)),
		Owner: fmt.Sprintf("owner-%d", i%3), Model: "demo-large", Offer: "fast/demo-large", Provider: "fast", UsageFrom: core.FromProvider,
		Prices: &core.Rates{Input: 3_000_000, Output: 15_000_000, CacheRead: core.Some(core.Rate(300_000))},
		Charge: core.Some(core.Money(1_234_567 + int64(i)*1_000_003))}
	r.ID = testID(i, at)
	r.Job = core.JobID("job-" + string(r.ID[20:]))
	r.Usage.UncachedInput, r.Usage.Output = core.Some(int64(i%5000)), core.Some(int64(i%900))
	r.Attempts = []core.Attempt{{Offer: r.Offer, Outcome: core.Settled}}
	switch i % 11 {
	case 3:
		r.Node, r.Step = "box-1", "plan"
	case 5:
		r.Outcome, r.Charge, r.UsageFrom, r.Usage, r.Prices, r.Attempts = core.Lost, core.Opt[core.Money]{}, "", core.Usage{}, nil, nil
	case 7:
		r.Key, r.Owner, r.Kind = "", "", core.KindProbe
	case 8:
		r.Usage.CacheRead, r.Usage.CacheWrite, r.Usage.CacheWrite1h = core.Some(int64(12)), core.Some(int64(9)), core.Some(int64(4))
		r.Usage.Reasoning = core.Some(int64(1))
		r.Prices.CacheWrite, r.Prices.CacheWrite1h = core.Some(core.Rate(3_750_000)), core.Some(core.Rate(6_000_000))
	}
	return r
}

// testID is that of the i-th receipt, with its time.
func testID(i int, at time.Time) core.CallID {
	id := []byte(core.NewCallID(at))
	var raw [10]byte
	binary.BigEndian.PutUint64(raw[:], uint64(i)*0x9e3779b97f4a7c15)
	binary.BigEndian.PutUint16(raw[8:], uint16(i))
	return core.CallID(append(id[:10], crockford.EncodeToString(raw[:])...))
}

// add seals n receipts in groups, each committed and signed.
func (r *rig) add(n, group int) {
	r.t.Helper()
	for n > 0 {
		for range min(n, group) {
			r.seal.Record(receipt(r.made, r.now))
			r.made++
			r.now = r.now.Add(time.Millisecond)
		}
		n -= min(n, group)
		r.commit()
	}
	if r.seal.unsealed.Load() > 0 {
		r.t.Fatal(r.log.String())
	}
}

func (r *rig) commit() {
	r.t.Helper()
	if err := r.vault.Write(r.seal.Changed(), nil); err != nil {
		r.t.Fatal(err)
	}
	if err := r.seal.Durable(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) months() []Month {
	r.t.Helper()
	list, err := r.seal.Months()
	if err != nil {
		r.t.Fatal(err)
	}
	return list
}

func (r *rig) checkpoint(m Month) *Checkpoint {
	r.t.Helper()
	c, err := r.seal.Checkpoint(m)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// export writes all logs, or those that are named.
func (r *rig) export(o ExportOptions, months ...Month) []byte {
	r.t.Helper()
	if len(months) == 0 {
		months = r.months()
	}
	var parts []Part
	for _, m := range months {
		parts = append(parts, Part{Checkpoint: r.checkpoint(m)})
	}
	return r.exportParts(o, parts...)
}

func (r *rig) exportParts(o ExportOptions, parts ...Part) []byte {
	r.t.Helper()
	var out bytes.Buffer
	if err := Export(&out, r.seal.Source(), parts, o); err != nil {
		r.t.Fatal(err)
	}
	return out.Bytes()
}

// verify checks an export that must be readable.
func verify(t testing.TB, export []byte, c Check) *Report {
	t.Helper()
	report, err := Verify(bytes.NewReader(export), c)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// good checks one that must be right.
func good(t testing.TB, export []byte, c Check) *Report {
	t.Helper()
	report := verify(t, export, c)
	if !report.OK || report.Problem != nil {
		t.Fatalf("refused: %v", report.Problem)
	}
	return report
}

// bad checks one that must be refused, with the word and at the line.
func bad(t testing.TB, export []byte, c Check, word string, line int64) *Problem {
	t.Helper()
	report := verify(t, export, c)
	if report.OK || report.Problem == nil {
		t.Fatalf("accepted; it should be %s at line %d", word, line)
	}
	if p := report.Problem; p.Word != word || p.Line != line {
		t.Fatalf("%q (%s); it should be %s at line %d", p, p.Word, word, line)
	}
	return report.Problem
}

// Slowly is slowly for tests outside of the package.
const Slowly = slowly

// lines are those of an export, each with its end.
func lines(export []byte) [][]byte {
	list := bytes.SplitAfter(export, []byte("\n"))
	return list[:len(list)-1]
}

func joined(list [][]byte) []byte { return bytes.Join(list, nil) }

// madeUp is a Source of leaves that are made as they are asked for, so that a
// million of them take no memory.
type madeUp struct {
	month Month
	size  uint64
	at    time.Time
	trees map[string]Hash
}

func (s *madeUp) leaf(dst []byte, index uint64) []byte {
	if index == 0 {
		return openLeaf{keys: []string{}}.append(dst)
	}
	r := receipt(int(index), s.at.Add(time.Duration(index)*time.Millisecond))
	var x sealed
	x.key, x.owner = "k"+string(r.Key), "o"+r.Owner
	binary.BigEndian.PutUint64(x.private[:], index)
	dst, err := appendReceipt(dst, r, &x)
	if err != nil {
		panic(err)
	}
	return dst
}

func newMadeUp(size uint64) *madeUp {
	return &madeUp{month: "2026-11", size: size, at: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), trees: map[string]Hash{}}
}

// build makes the log once and gives its checkpoint.
func (s *madeUp) build(t testing.TB, ring *ring) *Checkpoint {
	t.Helper()
	log := NewLog(originOf(testEdge, s.month))
	var buffer []byte
	for i := range s.size {
		buffer = s.leaf(buffer[:0], i)
		log.Append(buffer, func(level int, n uint64, h Hash) { s.trees[treeName(s.month, level, n)] = h })
	}
	c, err := ring.sign(log.Tree())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (s *madeUp) Leaves(_ Month, from, to uint64, yield func(uint64, []byte) bool) error {
	var buffer []byte
	for i := from; i < min(to, s.size); i++ {
		buffer = s.leaf(buffer[:0], i)
		if !yield(i, buffer) {
			break
		}
	}
	return nil
}

func (s *madeUp) Subtrees(m Month, level int, from, to uint64) (list []Hash, err error) {
	for n := from; n < to; n++ {
		h, ok := s.trees[treeName(m, level, n)]
		if !ok {
			return nil, io.ErrUnexpectedEOF
		}
		list = append(list, h)
	}
	return list, nil
}

func newTestRing(t testing.TB) *ring {
	t.Helper()
	ring, err := newRing(testEdge)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func contains(t testing.TB, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%.300q does not say %q", text, part)
	}
}

// needs finds a program that a test cannot do without. Where it is not there the
// test is left out, but not in CI.
func needs(t testing.TB, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil && os.Getenv("CI") != "true" {
		t.Skipf("%s is not here", program)
	}
	if err != nil {
		t.Fatalf("%s is not here", program)
	}
	return path
}
