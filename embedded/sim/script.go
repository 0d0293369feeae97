package sim

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"headway/core"
)

// script decides all about the answer to a request that arrived at now.
func (p *Provider) script(r *http.Request, body []byte, tooLarge bool, now time.Time) script {
	w := wireOf(r)
	if tooLarge {
		return refuse(w, core.Errorf(core.TooLarge, "the request is larger than %d MiB", largestBody>>20))
	}
	if r.Method == http.MethodGet {
		return p.list(w, r)
	}
	parse := route(w, r.URL.Path)
	if parse == nil {
		return refuse(w, core.Errorf(core.NotFound, "%s %s is not served here", r.Method, r.URL.Path))
	}
	if r.Method != http.MethodPost {
		s := failure(w, http.StatusMethodNotAllowed, core.Errorf(core.Invalid, "%s is not a method of %s", r.Method, r.URL.Path))
		s.header.Set("Allow", http.MethodPost)
		return s
	}
	q, fault := parse(r, body)
	if fault == nil {
		fault = q.override(r.Header)
	}
	if fault == nil && !p.serves(q.model) {
		fault = core.Errorf(core.NotFound, "the model %q is not served here", q.name)
		fault.Param, fault.Code = "model", "model_not_found"
	}
	if fault != nil {
		return refuse(w, fault)
	}
	if c := p.cfg.Cache; c != nil && !q.cached.OK && q.op == core.OpGenerate {
		p.cache.read(c, q, now)
	} else {
		q.cached = core.Some(min(q.cached.Or(int(p.cfg.Cached*float64(q.prompt))), q.prompt))
	}
	return p.answer(q, body, now)
}

// answer schedules the answer to a good request.
func (p *Provider) answer(q *request, body []byte, now time.Time) script {
	luck := p.draw()
	base := times(p.cfg.Base, luck.base)
	if q.op == core.OpCountTokens {
		return whole(q.wire, base, counted(q))
	}
	if luck.fault == failed {
		s := failure(q.wire, p.cfg.ErrorStatus, core.Errorf(core.Upstream, "this call fails, as the simulated error rate wants it"))
		s.head = base
		if secs := int(math.Ceil(p.cfg.RetryAfter.Seconds())); secs > 0 {
			s.header.Set("Retry-After", strconv.Itoa(secs))
		}
		return s
	}
	speed := p.speed(q.model)
	first := base + times(span(q.prompt-q.cached.V, p.cfg.PrefillTPS*speed), luck.prefill)
	if q.op == core.OpEmbeddings {
		return p.spoil(whole(q.wire, first, embeddings(q)), luck)
	}
	a := p.write(q, seed(p.cfg.Seed, body), luck.id, now)
	if c := p.cfg.Cache; c != nil && c.Answers && q.op == core.OpGenerate {
		p.cache.answered(c, a, now)
	}
	end := first + times(span(a.tokens, p.cfg.OutputTPS*speed), luck.output)
	if !q.stream {
		return p.spoil(whole(q.wire, end, q.wire.whole(a)), luck)
	}
	f := q.wire.stream(a)
	begin, middle := len(f.open)+len(f.before), len(a.pieces)
	return p.spoil(script{
		status: http.StatusOK, header: q.wire.header(f.contentType, luck.id), head: base, length: -1,
		steps: begin + middle + len(f.after),
		step: func(i int) (time.Duration, []byte) {
			switch j := i - begin; {
			case i < len(f.open):
				return base, f.open[i]
			case j < 0:
				return first, f.before[i-len(f.open)]
			case j >= middle:
				return end, f.after[j-middle]
			case j == 0:
				return first, f.piece(j)
			default: // the last of them exactly at the end
				share := float64(j) / float64(middle-1)
				return first + times(end-first, share), f.piece(j)
			}
		},
		end: end,
	}, luck)
}

// frames are a stream in its parts. Piece i carries a.pieces[i].
type frames struct {
	contentType string
	open        [][]byte // sent with the headers: nothing of it is output
	before      [][]byte // sent right before the first piece
	piece       func(i int) []byte
	after       [][]byte // sent when all output is over
}

// spoil makes an answer break off or fall silent where luck says so. Of an
// answer that comes in one piece, half is sent.
func (p *Provider) spoil(s script, l luck) script {
	if l.fault != cut && l.fault != stalled {
		return s
	}
	all := s.step
	if s.length >= 0 {
		at, data := all(0)
		s.step = func(int) (time.Duration, []byte) { return at, data[:len(data)/2] }
		s.end = at
	} else {
		s.steps = int(l.at * float64(s.steps)) // never all of them
		s.end, _ = all(s.steps)                // when the first that is missing would have come
	}
	if l.fault == stalled {
		s.end = s.head
		if s.steps > 0 {
			s.end, _ = s.step(s.steps - 1)
		}
		s.end += p.cfg.StallFor
	}
	s.broken = true
	return s
}

// whole is an answer that comes as one body, at a time.
func whole(w wire, at time.Duration, body []byte) script {
	return script{
		status: http.StatusOK, header: w.header("application/json", 0), head: at, length: len(body),
		steps: 1, step: func(int) (time.Duration, []byte) { return at, body }, end: at,
	}
}

// refuse answers a request that is at fault, at once.
func refuse(w wire, e *core.Error) script { return failure(w, e.Status(), e) }

func failure(w wire, status int, e *core.Error) script {
	s := whole(w, 0, w.fail(status, e))
	s.status = status
	return s
}

// span is how long n tokens take.
func span(n int, tps float64) time.Duration {
	return time.Duration(math.Round(float64(n) / tps * float64(time.Second)))
}

// times multiplies a time, to the nearest nanosecond.
func times(d time.Duration, by float64) time.Duration {
	return time.Duration(math.Round(float64(d) * by))
}

// seed makes what an answer says and how long it is follow from its request.
func seed(own uint64, body []byte) *rand.Rand {
	h := fnv.New64a()
	h.Write(body)
	return rand.New(rand.NewPCG(own, h.Sum64()))
}

// identity is an id in the manner of providers.
func identity(prefix string, n uint64) string { return fmt.Sprintf("%s%016x", prefix, n) }
