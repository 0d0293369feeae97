package scripts

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dop251/goja"

	"headway/core"
)

const (
	// grace is the least that an interrupted script has to end; one that was allowed
	// longer has as long again. Most end within a millisecond, a built-in that is at
	// work by its caps.
	grace = 15 * time.Millisecond
	// What a ranking that is allowed longer makes the heap grow by is looked at after
	// this, and again and again.
	lookAfter, lookAgain = 10 * time.Millisecond, 5 * time.Millisecond
	mostHeap             = 32 << 20
	// mostHung rankings of one script may be left behind at once.
	mostHung = 2
	// mostLeft rankings and dry runs of all scripts may be left behind at once: they
	// hold no turn, so nothing else bounds the processors that they take.
	mostLeft = 8
	longest  = 200 // characters of an error
	exact    = 1 << 53
)

// script is a source that was checked. It never changes; each ranking has a runtime
// of its own, so nothing that one leaves behind is seen by another.
type script struct {
	*checked
	name  string
	file  string
	find  *goja.Program // gives score, or undefined
	turns chan struct{} // as many as there are processors; shared by all scripts
	hung  *atomic.Int32 // rankings of this script that were left behind
	left  *atomic.Int32 // and of all
}

// newTurns bounds how many rankings run at once, so that each gets a processor.
func newTurns() chan struct{} { return make(chan struct{}, runtime.GOMAXPROCS(0)) }

// Name is the file's without .js.
func (s *script) Name() string { return s.name }

// run is one ranking, on its own goroutine.
type run struct {
	*script
	vm        *goja.Runtime
	started   atomic.Bool
	stopped   atomic.Bool
	ended     atomic.Bool // or left behind, whichever came first
	installed map[string]bool
	owners    map[string]*goja.Object
	function  *goja.Object
	joining   int // lists that are being made texts, one within another
	depth     int // bounded built-ins that are at work, one within another
	parseDate func(goja.String) goja.Value
	dateUTC   native
	done      chan *core.ScriptError
	ranks     []core.Rank
	in        []bool
}

var (
	errBusy = errors.New("as many rankings as there are processors are under way")
	errHung = errors.New("it hung twice and did not stop")
	errLeft = errors.New("as many rankings as may be left behind do not stop: start again without their scripts")
)

// Rank scores every candidate (core.Script). It returns within q.Limit and the time
// that an interrupt takes, whatever the script does.
func (s *script) Rank(q *core.Question, ranks []core.Rank, in []bool) error {
	if s.hung.Load() >= mostHung {
		return s.fail(0, errHung.Error())
	}
	if s.left.Load() >= mostLeft {
		return &busy{s.fail(0, errLeft.Error())}
	}
	timer := time.NewTimer(min(q.Limit, lookAfter))
	defer timer.Stop()
	select {
	case s.turns <- struct{}{}:
	default:
		timer.Reset(q.Limit)
		select {
		case s.turns <- struct{}{}:
			timer.Reset(min(q.Limit, lookAfter))
		case <-timer.C:
			return &busy{s.fail(0, errBusy.Error())}
		}
	}
	vm := goja.New()
	r := &run{script: s, vm: vm, ranks: make([]core.Rank, len(q.Candidates)), in: make([]bool, len(q.Candidates)), done: make(chan *core.ScriptError, 1)}
	go func() {
		r.started.Store(true)
		err := r.rank(q)
		if r.ended.CompareAndSwap(false, true) {
			<-s.turns
		} else {
			s.behind(-1) // it was left behind
		}
		r.done <- err
		if r.stopped.Load() { // what it made is given back now: the next one may make as much
			r.vm, r.owners = nil, nil
			runtime.GC()
		}
	}()
	err, ended, why := r.watch(timer, q.Limit)
	if ended {
		return r.answer(err, ranks, in)
	}
	r.stopped.Store(true)
	vm.Interrupt(why)
	timer.Reset(max(grace, q.Limit))
	select {
	case err := <-r.done:
		if err != nil { // whatever it was, this is why it ended
			return s.fail(err.Line, why)
		}
		return r.answer(nil, ranks, in)
	case <-timer.C:
	}
	s.behind(1)
	if r.ended.CompareAndSwap(false, true) {
		<-s.turns // another one may run
	} else {
		s.behind(-1) // it has ended just now
	}
	return s.fail(0, why+" and did not stop")
}

// behind counts the rankings that are left behind.
func (s *script) behind(n int32) { s.hung.Add(n); s.left.Add(n) }

// watch waits for a ranking until its limit, or until it has taken too much memory;
// why says which. Within 10 ms no script takes much.
func (r *run) watch(timer *time.Timer, limit time.Duration) (err *core.ScriptError, ended bool, why string) {
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	var before uint64
	for waited := min(limit, lookAfter); ; waited += lookAgain {
		select {
		case err := <-r.done:
			return err, true, ""
		case <-timer.C:
		}
		if waited >= limit {
			break
		}
		metrics.Read(heap)
		if now := heap[0].Value.Uint64(); before == 0 {
			before = now
		} else if now > before+mostHeap {
			return nil, false, fmt.Sprintf("it took more than %d MiB of memory", mostHeap>>20)
		}
		timer.Reset(min(lookAgain, limit-waited))
	}
	if !r.started.Load() { // the machine had no time to begin with it
		timer.Reset(min(limit, lookAfter))
		select {
		case err := <-r.done:
			return err, true, ""
		case <-timer.C:
		}
	}
	return nil, false, "it took longer than " + limit.String()
}

// busy says that the machine had no time, which is not the script's fault.
type busy struct{ *core.ScriptError }

// Unwrap is the error that is shown.
func (b *busy) Unwrap() error { return b.ScriptError }

func (r *run) answer(err *core.ScriptError, ranks []core.Rank, in []bool) error {
	if err != nil {
		return err
	}
	copy(ranks, r.ranks)
	copy(in, r.in)
	return nil
}

// fail is an error at a line; 0 is that of score.
func (s *script) fail(line int, msg string) *core.ScriptError {
	if line == 0 {
		line = s.line
	}
	return &core.ScriptError{Script: s.file, Line: line, Msg: plain(msg)}
}

// plain is text of a script as one short line.
func plain(msg string) string {
	msg = strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f || c == 0x2028 || c == 0x2029 {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(msg, "?"))
	if short := []rune(msg); len(short) > longest {
		msg = string(short[:longest]) + "…"
	}
	return msg
}

// rank runs the script and asks it for each candidate.
func (r *run) rank(q *core.Question) (wrong *core.ScriptError) {
	defer func() {
		switch x := recover().(type) {
		case nil:
		case error:
			wrong = r.wrong(x)
		default: // of goja's own: the process goes on
			wrong = r.fail(0, fmt.Sprintf("the engine failed: %v", x))
		}
	}()
	score, err := r.start(q.At, q.Seed)
	if err != nil {
		return r.wrong(err)
	}
	job := r.vm.NewDynamicObject(&view[*core.Question]{r, "job", q, jobPlaces, jobFields})
	auction := r.vm.NewDynamicObject(&view[*core.Question]{r, "auction", q, auctionPlaces, auctionFields})
	views := make([]view[*core.Candidate], len(q.Candidates))
	for i := range q.Candidates {
		c := &q.Candidates[i]
		views[i] = view[*core.Candidate]{r, "offer", c, offerPlaces, offerFields}
		v, err := score(goja.Undefined(), job, r.vm.NewDynamicObject(&views[i]), auction)
		if err != nil {
			return r.wrong(err)
		}
		var bad string
		if thrown := r.vm.Try(func() { bad = r.place(i, c, v) }); thrown != nil {
			return r.wrong(thrown)
		}
		if bad != "" {
			return r.fail(0, fmt.Sprintf("score gave %s for %s: want a finite number, [tier, number] or null", bad, c.Offer.ID))
		}
	}
	return nil
}

// start makes the runtime ready, runs the top of the script and finds score.
func (r *run) start(at time.Time, seed uint64) (goja.Callable, error) {
	r.vm.SetMaxCallStackSize(callDepth)
	r.vm.SetTimeSource(func() time.Time { return at })
	r.vm.SetRandSource(rand.New(rand.NewPCG(seed, 0x686561647761790a)).Float64)
	r.put(r.prototype("Array"), "join", r.vm.ToValue(r.join))
	if r.kinds["Date"] {
		r.dates()
	}
	r.guards()
	if r.uses[string(guardKey)] { // those that a computed name may need, before the script can replace them
		for kind := range r.kinds {
			r.owner(kind)
		}
		r.functions()
	}
	for _, name := range r.caps {
		r.install(name)
	}
	if _, err := r.vm.RunProgram(r.program); err != nil {
		return nil, err
	}
	v, err := r.vm.RunProgram(r.find)
	if err != nil {
		return nil, err
	}
	score, ok := goja.AssertFunction(v)
	if !ok {
		return nil, r.fail(0, "there is no function score(job, offer, auction)")
	}
	return score, nil
}

// place reads what score gave; the text says what else it was.
func (r *run) place(i int, c *core.Candidate, v goja.Value) string {
	rank := core.Rank{Price: c.Price}
	switch {
	case goja.IsNull(v):
		return ""
	case isNumber(v):
		// As the built-in strategies do: what weighs charges breaks its ties by the
		// charge, what is in tiers by the price.
		rank.Cost, rank.Price = v.ToFloat(), c.Charge
	default:
		o, ok := v.(*goja.Object)
		if !ok || o.ClassName() != "Array" || o.Get("length").ToInteger() != 2 {
			return what(v)
		}
		tier, cost := o.Get("0"), o.Get("1")
		if tier == nil || cost == nil || !isNumber(tier) || !isNumber(cost) {
			return "a list that is not [tier, number]"
		}
		t := tier.ToFloat()
		if t != math.Trunc(t) {
			return "the tier " + tier.String() + ", which is no whole number"
		}
		if math.Abs(t) > exact {
			return "the tier " + tier.String() + ", which is beyond 2^53"
		}
		rank.Tier, rank.Cost = int(t), cost.ToFloat()
	}
	if math.IsNaN(rank.Cost) || math.IsInf(rank.Cost, 0) {
		return fmt.Sprint(r.vm.ToValue(rank.Cost))
	}
	r.ranks[i], r.in[i] = rank, true
	return ""
}

func isNumber(v goja.Value) bool {
	switch v.Export().(type) {
	case int64, float64:
		_, object := v.(*goja.Object)
		return !object
	}
	return false
}

// what names a value that is no score.
func what(v goja.Value) string {
	o, ok := v.(*goja.Object)
	switch {
	case !ok && goja.IsUndefined(v):
		return "undefined"
	case !ok && v.ExportType() != nil && v.ExportType().Kind().String() == "bool":
		return v.String()
	case !ok:
		return "a text"
	case o.ClassName() == "Array":
		return "a list that is not [tier, number]"
	}
	if _, f := goja.AssertFunction(o); f {
		return "a function"
	}
	return "an object"
}

// wrong is a failure with its line.
func (r *run) wrong(err error) *core.ScriptError {
	var known *core.ScriptError
	var thrown *goja.Exception
	var stopped *goja.InterruptedError
	var deep *goja.StackOverflowError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &stopped):
		return r.fail(lineOf(stopped.Stack()), fmt.Sprint(stopped.Value()))
	case errors.As(err, &deep):
		return r.fail(lineOf(deep.Stack()), fmt.Sprintf("functions call one another more than %d deep", callDepth))
	case errors.As(err, &thrown):
		return r.fail(lineOf(thrown.Stack()), r.said(thrown))
	}
	return r.fail(0, "the engine failed: "+err.Error())
}

// said is what was thrown, as a text, made under the same limits.
func (r *run) said(thrown *goja.Exception) (msg string) {
	defer func() {
		if recover() != nil {
			msg = "it threw what cannot be shown"
		}
	}()
	if failed := r.vm.Try(func() { r.caught(thrown.Value()); msg = r.short(thrown.Value()).String() }); failed != nil {
		msg = "it threw what cannot be shown"
	}
	return msg
}

// lineOf is the line of the innermost frame that is of the script.
func lineOf(stack []goja.StackFrame) int {
	for i := range stack {
		if line := stack[i].Position().Line; line > 0 {
			return line
		}
	}
	return 0
}
