package seal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"headway/core"
	"headway/core/ledger"
	"headway/core/seal"
)

// TestOverStore seals what a real store makes durable, while others ask, and finds
// all of it again after a restart.
func TestOverStore(t *testing.T) {
	dir := t.TempDir()
	pepper := ledger.NewPepper()
	if err := os.WriteFile(filepath.Join(dir, "pepper"), pepper[:], 0o600); err != nil {
		t.Fatal(err)
	}
	clock := func() time.Time { return time.Now().UTC() }
	const each = 400
	var ids []core.CallID
	for round := range 2 {
		st, s := openIn(t, dir)
		if err := s.Durable(); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		var running, asking sync.WaitGroup
		running.Go(func() {
			if err := st.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		done := make(chan struct{})
		asking.Go(func() { ask(t, s, done) })
		var durable sync.WaitGroup
		for i := range each {
			at := clock()
			r := &core.Receipt{ID: core.NewCallID(at), Kind: core.KindJob, Outcome: core.Settled, At: at, SettledAt: at, Key: "key-1", Model: "m", Offer: "o",
				Charge: core.Some(core.Money(i))}
			r.Job = core.JobID(r.ID)
			ids = append(ids, r.ID)
			if err := st.Open(core.Intent{ID: r.ID, Job: r.Job, Kind: r.Kind, At: at, Model: r.Model}); err != nil {
				t.Fatal(err)
			}
			durable.Add(1)
			st.Append(r, func() {
				// The store's writer itself calls this, after the commit: it is where the
				// log is signed.
				if err := s.Durable(); err != nil {
					t.Error(err)
				}
				durable.Done()
			})
		}
		durable.Wait()
		close(done)
		asking.Wait()
		stop()
		running.Wait()
		if status := s.Status(); status.Log.Size != uint64((round+1)*each)+1 || status.Signed == nil || *status.Signed != status.Log || status.Unsealed > 0 {
			t.Fatalf("%+v", status)
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
	}
	st, s := openIn(t, dir)
	defer st.Close()
	months, err := s.Months()
	if err != nil {
		t.Fatal(err)
	}
	var parts []seal.Part
	for _, m := range months {
		c, err := s.Checkpoint(m)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, seal.Part{Checkpoint: c})
		if r := seal.Recover(s.Source(), c.Origin, c); r.Verdict != seal.Whole {
			t.Fatal(r.Err)
		}
	}
	var out bytes.Buffer
	if err := seal.Export(&out, s.Source(), parts, seal.ExportOptions{}); err != nil {
		t.Fatal(err)
	}
	report, err := seal.Verify(&out, seal.Check{Keys: s.Keys()})
	if err != nil || !report.OK || report.Total.Receipts != 2*each {
		t.Fatal(report.Problem, err)
	}
	for _, id := range []core.CallID{ids[0], ids[each], ids[2*each-1]} {
		at, err := seal.Find(st, id, 0)
		if err != nil {
			t.Fatal(err)
		}
		proof, err := s.Prove(at)
		if err != nil {
			t.Fatal(err)
		}
		p, err := seal.VerifyProof(proof, s.Keys())
		if err != nil || p.Leaf.ID != id {
			t.Fatal(p, err)
		}
		r, err := st.Receipt(id)
		if err != nil {
			t.Fatal(err)
		}
		o, err := s.Reveal(at, r) // from the receipt as the store gives it
		if err != nil || o.Check(p.Leaf) != nil {
			t.Fatal(o, err)
		}
	}
}

// ask does what the admin API will, while receipts are sealed.
func ask(t *testing.T, s *seal.Sealer, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		default:
		}
		s.Status()
		s.Due()
		months, err := s.Months()
		if err != nil || len(months) == 0 {
			continue
		}
		c, err := s.Checkpoint(months[len(months)-1])
		if err != nil {
			var e *core.Error
			if !errors.As(err, &e) || e.Kind != core.NotFound {
				t.Error(err)
			}
			continue
		}
		if _, err := s.Prove(seal.Position{Month: months[len(months)-1], Index: c.Size - 1}); err != nil {
			t.Error(err)
		}
		reader, writer := io.Pipe()
		var wait sync.WaitGroup
		wait.Go(func() {
			writer.CloseWithError(seal.Export(writer, s.Source(), []seal.Part{{Checkpoint: c}}, seal.ExportOptions{}))
		})
		report, err := seal.Verify(reader, seal.Check{Keys: s.Keys(), Saved: c.Note})
		if err != nil || !report.OK {
			t.Error(fmt.Sprint(report), err)
		}
		reader.Close()
		wait.Wait()
	}
}
