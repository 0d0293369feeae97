package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"headway/conf"
	"headway/core"
	"headway/core/seal"
	"headway/embedded/store"
)

// restored says what a backup has, as far as it was restored and checked.
type restored struct {
	File     string              `json:"file"`
	OK       bool                `json:"ok"`
	Problems []string            `json:"problems,omitempty"`
	Made     time.Time           `json:"made"`    // UTC
	Version  string              `json:"version"` // of the headway that made it
	Bytes    int64               `json:"bytes"`
	Records  int64               `json:"records"` // all that the store has
	Receipts int64               `json:"receipts"`
	First    core.Opt[time.Time] `json:"first_call,omitzero"`
	Last     core.Opt[time.Time] `json:"last_call,omitzero"`
	Logs     []restoredLog       `json:"logs"`
}

// restoredLog is one signed log, recomputed.
type restoredLog struct {
	Log        seal.Month       `json:"log"`
	Size       uint64           `json:"size"`                 // leaves that are there
	SignedSize core.Opt[uint64] `json:"signed_size,omitzero"` // absent: nothing of it was signed
	Root       string           `json:"root,omitempty"`       // base64, of what was signed
	Verdict    seal.Verdict     `json:"verdict"`
	Problem    string           `json:"problem,omitempty"`
	// GivenUp: a later log's first leaf says that what was signed of this one is gone.
	GivenUp bool `json:"given_up,omitempty"`
}

// check opens a restored folder, reads all of its receipts and recomputes its logs. An
// error says that it cannot be used; what is wrong in what it holds is a problem of the
// report.
func (r *restored) check(ctx context.Context, dir string, clock core.Clock, step *steps) error {
	log := slog.New(slog.DiscardHandler)
	st, err := store.Open(dir, store.Options{Clock: clock, Log: log})
	if err != nil {
		return err
	}
	err = r.read(ctx, dir, st, clock, log, step)
	return errors.Join(err, st.Close())
}

func (r *restored) read(ctx context.Context, dir string, st *store.Store, clock core.Clock, log *slog.Logger, step *steps) error {
	err := st.Receipts(time.Time{}, time.Time{}, false, func(c *core.Receipt) bool {
		r.Receipts++
		if !r.First.OK {
			r.First = core.Some(c.At)
		}
		r.Last = core.Some(c.At)
		step.say("checking: %d receipts", r.Receipts)
		return ctx.Err() == nil
	})
	if err := errors.Join(ctx.Err(), err); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, pepperFile)); err != nil {
		return &core.Error{Kind: core.Invalid, Msg: "has no pepper, without which no key of its store is valid", Hint: "take another backup"}
	}
	f := conf.Default()
	f.Data = dir
	secrets, err := OpenSecrets(&f, st)
	if err != nil {
		return err
	}
	sealer, err := OpenReceiptLog(&f, st, st, &secrets.Pepper, clock, log)
	if err != nil {
		return err
	}
	months, err := sealer.Months()
	if err != nil {
		return err
	}
	edge, err := st.Get(vaultEdge, vaultEdgeName)
	if err != nil {
		return err
	}
	r.Logs = []restoredLog{}
	gone := map[seal.Tree]bool{}
	for _, m := range slices.Backward(months) { // a log says what is gone of those before
		step.say("checking: log %s", m)
		l := restoredLog{Log: m}
		if lost, err := seal.Lost(sealer.Source(), m); err == nil {
			for _, t := range lost {
				gone[t] = true
			}
		}
		head, err := sealer.Checkpoint(m)
		var known *core.Error
		if errors.As(err, &known) && known.Kind == core.NotFound {
			head, err = nil, nil
		}
		if err == nil {
			found := seal.Recover(sealer.Source(), string(edge)+"/"+string(m), head)
			l.Size, l.Verdict, err = found.Have.Size, found.Verdict, found.Err
		} else {
			l.Verdict = seal.Damaged
		}
		if head != nil {
			l.SignedSize, l.Root = core.Some(head.Size), head.Root.String()
		}
		if err != nil {
			l.Problem = err.Error()
			if l.GivenUp = head != nil && gone[head.Tree]; !l.GivenUp {
				r.Problems = append(r.Problems, l.Problem)
			}
		}
		r.Logs = append(r.Logs, l)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	slices.Reverse(r.Logs)
	slices.Reverse(r.Problems)
	r.OK = len(r.Problems) == 0
	return nil
}

// write shows it as a table.
func (r *restored) write(w io.Writer) {
	t := table{head: []string{"LOG", ">LEAVES", ">SIGNED", "ROOT", "FOUND"}, empty: "no log: nothing was sealed yet"}
	for _, l := range r.Logs {
		t.add(string(l.Log), strconv.FormatUint(l.Size, 10), leafCount(l.SignedSize), l.Root, string(l.Verdict))
	}
	t.write(w)
	for _, l := range r.Logs {
		if l.GivenUp {
			fmt.Fprintf(w, "note: %s; the log behind it says so\n", printable(l.Problem))
		}
	}
	span := ""
	if r.First.OK {
		span = fmt.Sprintf(", of calls from %s to %s UTC", at(r.First.V), at(r.Last.V))
	}
	fmt.Fprintf(w, "%s%s; %s in the store\n", several(int(r.Receipts), "receipt"), span, several(int(r.Records), "record"))
}

func verifyBackup(c *cli.Context, p Program) (err error) {
	args, err := arguments(c, "FILE")
	if err != nil {
		return err
	}
	step := newSteps(c, p)
	defer step.done()
	f, b, err := openBackup(c.Context, args[0], step)
	if err != nil {
		return err
	}
	defer f.Close()
	dir, err := os.MkdirTemp(c.String("tmp"), "headway-verify-*")
	if err != nil {
		return cannot("made", c.String("tmp"), err)
	}
	defer func() {
		if e := os.RemoveAll(dir); err == nil && e != nil {
			err = cannot("removed", dir, e)
		}
	}()
	r, err := unpack(c.Context, b, filepath.Join(dir, "data"), p.Clock, nil, step)
	if err == nil {
		err = r.check(c.Context, filepath.Join(dir, "data"), p.Clock, step)
	}
	if err != nil {
		return ofFile(args[0], err)
	}
	step.done()
	r.File = args[0]
	if c.Bool("json") {
		if err := printJSON(c.App.Writer, r); err != nil {
			return err
		}
	} else {
		r.write(c.App.Writer)
	}
	if !r.OK {
		return failed{&core.Error{Kind: core.Invalid, Msg: printable(args[0] + ": " + r.Problems[0]), Hint: "the backup is as the server was: see headway receipts list there"}}
	}
	if !c.Bool("json") {
		fmt.Fprintf(c.App.Writer, "%s is good: %s, made %s UTC\n", printable(args[0]), bytesOf(r.Bytes), at(r.Made))
	}
	return nil
}
