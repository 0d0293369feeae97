package fleet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

// outletRig is an outlet whose frames are kept, and a sender that flushes it.
type outletRig struct {
	*outlet
	mu     sync.Mutex
	frames []frame
	err    error
	late   chan *outlet
}

func newOutletRig(frames, bytes uint32) *outletRig {
	r := &outletRig{late: make(chan *outlet, 1000)}
	r.outlet = newOutlet(7, frames, bytes, time.Now, func(msg []byte) error {
		f, err := parseFrame(append([]byte(nil), msg...))
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.err != nil {
			return r.err
		}
		r.frames = append(r.frames, f)
		return err
	}, func(o *outlet) { r.late <- o })
	return r
}

func (r *outletRig) sent() []frame {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.frames
}

// sizes are the payloads' lengths.
func (r *outletRig) sizes() (n []int) {
	for _, f := range r.sent() {
		n = append(n, len(f.payload))
	}
	return n
}

func msgOf(n int) []byte { return append(make([]byte, headerBytes), bytes.Repeat([]byte("x"), n)...) }

func (r *outletRig) put(t *testing.T, n, waiting int) {
	t.Helper()
	if got, err := r.data(msgOf(n), time.Now()); err != nil || got != waiting {
		t.Fatalf("%d bytes wait, not %d, %v", got, waiting, err)
	}
}

func TestOutletSplitsAndJoins(t *testing.T) {
	r := newOutletRig(3, 100)
	r.put(t, 60, 0)
	r.put(t, 60, 20) // for 40 there was credit
	r.put(t, 30, 50)
	if len(r.late) != 0 {
		t.Fatal("the sender was told without credit")
	}
	r.credit(credit{0, 200}) // frames: one is left
	(<-r.late).flush()
	r.put(t, 10, 10)
	r.put(t, joinedBytes, joinedBytes+10)
	r.credit(credit{1, 0})
	(<-r.late).flush() // 150 bytes of credit
	r.credit(credit{1, 0})
	if len(r.late) != 0 {
		t.Fatal("the sender was told of a frame without bytes")
	}
	r.credit(credit{5, 1 << 20})
	(<-r.late).flush()
	if err := r.frame(kindEnd, []byte("end")); err != nil {
		t.Fatal(err)
	}
	want := []int{60, 40, 50, 150, joinedBytes + 10 - 150, 3}
	got := r.sizes()
	if len(got) != len(want) {
		t.Fatalf("sent %v, not %v", got, want)
	}
	for i, n := range want {
		if f := r.sent()[i]; got[i] != n || f.seq != uint32(i+1) || f.stream != 7 || i < 5 && strings.Trim(string(f.payload), "x") != "" {
			t.Fatalf("sent %v, not %v; frame %d has number %d", got, want, i, f.seq)
		}
	}
}

// The usual frame costs no memory.
func TestOutletDoesNotAllocate(t *testing.T) {
	o := newOutlet(7, 1<<30, 1<<30, time.Now, func([]byte) error { return nil }, func(*outlet) {})
	msg := msgOf(200)
	at := time.Now()
	if n := testing.AllocsPerRun(1000, func() { _, _ = o.data(msg, at) }); n > 0 {
		t.Fatalf("%v allocations for a frame", n)
	}
}

// A network that takes no more holds up whoever sends, and nobody else: credit is
// taken meanwhile.
func TestOutletCreditNeverWaits(t *testing.T) {
	stuck, free := make(chan struct{}), make(chan struct{})
	o := newOutlet(7, 10, 1000, time.Now, func([]byte) error { close(stuck); <-free; return nil }, func(*outlet) {})
	var sending sync.WaitGroup
	sending.Go(func() { _, _ = o.data(msgOf(10), time.Now()) })
	<-stuck
	done := make(chan struct{})
	sending.Go(func() { o.credit(credit{1, 1}); close(done) })
	select {
	case <-done:
	case <-time.After(within):
		t.Fatal("credit waited for the network")
	}
	close(free)
	sending.Wait()
}

func TestOutletWait(t *testing.T) {
	r := newOutletRig(1, 10)
	r.put(t, 30, 20)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	var waits sync.WaitGroup
	waits.Go(func() {
		if n, err := r.wait(ctx, 15); n != 10 || err != nil {
			t.Errorf("%d wait, %v", n, err)
		}
		if _, err := r.wait(ctx, 0); err != why {
			t.Errorf("ended by %v", err)
		}
	})
	r.credit(credit{1, 10})
	(<-r.late).flush()
	until(t, "room", func() bool { return len(r.room) == 0 })
	cancel(why)
	waits.Wait()
	r.err = io.ErrClosedPipe
	r.credit(credit{1, 10})
	(<-r.late).flush()
	if _, err := r.wait(t.Context(), 0); err != errSession {
		t.Errorf("ended by %v", err)
	}
	if _, err := r.data(msgOf(1), time.Now()); err != errSession {
		t.Errorf("sent on with %v", err)
	}
}

// Whatever is read and whenever credit comes, all goes out once, in order, within
// the credit.
func TestOutletAtRandom(t *testing.T) {
	for seed := range uint64(5) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		r := newOutletRig(2, 500)
		ctx, cancel := context.WithTimeout(t.Context(), within)
		var sender, edge sync.WaitGroup
		stop := make(chan struct{})
		sender.Go(func() {
			for {
				select {
				case o := <-r.late:
					o.flush()
				case <-stop:
					return
				}
			}
		})
		edge.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, 2))
			for ctx.Err() == nil {
				r.credit(credit{uint32(rnd.IntN(3)), uint32(rnd.IntN(4000))})
				if rnd.IntN(3) == 0 {
					time.Sleep(time.Microsecond * 50)
				}
			}
		})
		var want bytes.Buffer
		waiting := 0
		for i := range 1000 {
			var err error
			if waiting >= aheadBytes {
				if waiting, err = r.wait(ctx, aheadBytes-1); err != nil {
					t.Fatal(err)
				}
			}
			msg := append(make([]byte, headerBytes), bytes.Repeat([]byte{byte(i)}, rnd.IntN(min(3000, aheadBytes-waiting+1)))...)
			want.Write(msg[headerBytes:])
			if waiting, err = r.data(msg, time.Now()); err != nil || waiting > aheadBytes {
				t.Fatalf("%d bytes wait, %v", waiting, err)
			}
		}
		if _, err := r.wait(ctx, 0); err != nil {
			t.Fatal(err)
		}
		cancel()
		edge.Wait()
		close(stop)
		sender.Wait()
		var got bytes.Buffer
		for i, f := range r.sent() {
			if f.seq != uint32(i+1) || len(f.payload) > joinedBytes {
				t.Fatalf("frame %d has number %d and %d bytes", i, f.seq, len(f.payload))
			}
			got.Write(f.payload)
		}
		if !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Fatalf("seed %d: %d bytes came of %d", seed, got.Len(), want.Len())
		}
	}
}

// inletOf is an inlet and the credit that it gives back.
func inletOf(t *testing.T, first string, last bool, length, room int64) (*inlet, *credit) {
	t.Helper()
	i, back := &inlet{}, &credit{}
	if err := i.open([]byte(first), last, length, room, func(c credit) { back.frames += c.frames; back.bytes += c.bytes }); err != nil {
		t.Fatal(err)
	}
	return i, back
}

func TestInletReadsAgain(t *testing.T) {
	i, back := inletOf(t, "abc", false, 8, 100)
	first, ok := i.body()
	if !ok {
		t.Fatal("no body")
	}
	b := make([]byte, 2)
	if n, err := io.ReadFull(first, b); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	second, ok := i.body() // the first one reads nothing any more
	if !ok {
		t.Fatal("no body a second time")
	}
	if n, err := first.Read(b); n != 0 || err == nil {
		t.Fatal(n, err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	for _, piece := range []string{"de", "fgh"} {
		if err := i.push([]byte(piece), piece == "fgh"); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := io.ReadAll(second); string(all) != "abcdefgh" || err != nil {
		t.Fatalf("%q, %v", all, err)
	}
	if back.bytes > 8 {
		t.Fatalf("credit %+v", back)
	}
	third, ok := i.body()
	if all, err := io.ReadAll(third); !ok || string(all) != "abcdefgh" || err != nil {
		t.Fatalf("%q, %v", all, err)
	}
}

func TestInletForgetsWhatIsFarBehind(t *testing.T) {
	piece := strings.Repeat("x", keptBytes)
	i, _ := inletOf(t, piece, false, -1, 4*keptBytes)
	r, _ := i.body()
	if err := i.push([]byte("y"), false); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, keptBytes)
	if _, err := io.ReadFull(r, buf); err != nil {
		t.Fatal(err)
	}
	if _, ok := i.body(); !ok {
		t.Fatal("all that was read is still there")
	}
	r, _ = i.body()
	if _, err := io.ReadFull(r, append(buf, 0)); err != nil {
		t.Fatal(err)
	}
	if _, ok := i.body(); ok || len(i.pieces) != 0 {
		t.Fatalf("%d pieces are kept", len(i.pieces))
	}
	if err := i.push([]byte("z"), true); err != nil {
		t.Fatal(err)
	}
	if all, err := io.ReadAll(r); string(all) != "z" || err != nil {
		t.Fatalf("%q, %v", all, err)
	}
}

func TestInletBounds(t *testing.T) {
	for name, c := range map[string]struct {
		length int64
		pieces []string
		last   bool
		bad    bool
	}{
		"whole at once":     {3, nil, true, false},
		"known to be whole": {3, nil, false, false},
		"an empty last":     {3, []string{""}, true, false},
		"more than said":    {4, []string{"de"}, false, true},
		"less than said":    {9, []string{"de"}, true, true},
		"more than whole":   {3, []string{"d"}, true, true},
		"more than room":    {-1, []string{"0123456789", "0"}, false, true},
	} {
		i, _ := inletOf(t, "abc", c.last && len(c.pieces) == 0, c.length, 12)
		var err error
		for k, p := range c.pieces {
			if err == nil {
				err = i.push([]byte(p), c.last && k == len(c.pieces)-1)
			}
		}
		if (err != nil) != c.bad {
			t.Errorf("%s: %v", name, err)
		}
	}
}
