package scripts_test

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"headway/core"
	"headway/scripts"
)

// said runs a script that throws what it has to say, and gives that.
func said(t *testing.T, q *core.Question, expression string) string {
	t.Helper()
	s := load(t, "function score(job, offer, auction) { if (job.model === 'sample') return 0; throw '' + ("+expression+"); }")
	err := s.Rank(q, make([]core.Rank, len(q.Candidates)), make([]bool, len(q.Candidates)))
	var e *core.ScriptError
	if !errors.As(err, &e) {
		t.Fatalf("%s: %v", expression, err)
	}
	return e.Msg
}

func patient(n int) *core.Question {
	q := auction(n)
	q.Limit = generous
	return q
}

// TestTypesAreWhatScriptsSee holds headway.d.ts against the objects.
func TestTypesAreWhatScriptsSee(t *testing.T) {
	text, err := fs.ReadFile(scripts.Files(), "headway.d.ts")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n > 60 {
		t.Errorf("headway.d.ts has %d lines: it must fit a screen", n)
	}
	q := patient(1)
	q.Candidates[0].Prediction.Queue = core.Some(1.0)
	provider := *q.Candidates[0].Offer.Provider
	provider.Node = "rack"
	q.Candidates[0].Offer.Provider = &provider
	q.Candidates[0].Offer.Price.CacheRead = core.Some[core.Rate](1)
	for object, name := range map[string]string{"Job": "job", "Offer": "offer", "Auction": "auction"} {
		body := regexp.MustCompile(`(?s)interface ` + object + ` \{\n(.*?)\n\}`).FindSubmatch(text)
		if body == nil {
			t.Fatalf("no interface %s", object)
		}
		var want []string
		for _, m := range regexp.MustCompile(`(?m)^  readonly (\w+)\??:`).FindAllStringSubmatch(string(body[1]), -1) {
			want = append(want, m[1])
		}
		got := strings.Split(said(t, q, "Object.keys("+name+").slice(0, 11) + ',' + ''"), ",")
		rest := strings.Split(said(t, q, "Object.keys("+name+").slice(11)"), ",")
		got = slices.DeleteFunc(append(got, rest...), func(s string) bool { return s == "" })
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s has\n%v, headway.d.ts says\n%v", name, got, want)
		}
	}
}

func TestWhatIsSeen(t *testing.T) {
	q := patient(2)
	q.Candidates[0].Offer.Labels = map[string]string{"__proto__": "p", "constructor": "c", "match": "m", "naïve": "ü"}
	q.Candidates[0].Prediction, q.Candidates[0].TTFT = core.Prediction{}, core.Opt[float64]{}
	q.Candidates[0].Measures = &core.Measures{}
	q.Candidates[0].Offer.Price.Above = core.Some(core.PriceAbove{InputTokens: 1000, Rates: core.Rates{Input: 5_000_000, Output: 6_500_000}})
	for expression, want := range map[string]string{
		"offer.id": "p00/m", "offer.provider": "p00", "offer.region": "eu", "offer.node": "undefined", "'node' in offer": "false", "offer.charge_usd": "0.001", "offer.price_usd": "0.002",
		"offer.labels.match": "m", "offer.labels['__proto__']": "p", "offer.labels.__proto__": "p", "offer.labels['naïve']": "ü",
		"offer.labels['con' + 'structor']": "c", "offer.labels.toString": "undefined", "offer.labels.none": "undefined",
		"job.headers['x-tenant']": "blue", "job.headers.valueOf": "undefined", "Object.keys(offer.labels)": "__proto__,constructor,match,naïve",
		"offer.ttft_ms": "undefined", "'ttft_ms' in offer": "false", "'id' in offer": "true", "offer.own_output_jobs": "0",
		"offer.predicted_wait_ms": "undefined", "offer.nothing": "undefined", "offer.full": "false",
		"offer.input_usd_per_mtok + ' ' + offer.output_usd_per_mtok": "5 6.5", // as it has more than 1,000 tokens of input
		"offer.cache_read_usd_per_mtok":                              "undefined",
		"job.model":                                                  "m", "job.streamed": "true", "job.max_output_tokens": "1000", "job.fresh_input_tokens": "1000",
		"auction.count": "2", "auction.median_ttft_ms": "300", "auction.lowest_charge_usd": "0.001", "job.time_value_usd_per_hour": "1",
		"new Date().toISOString()": "2026-05-06T12:00:00.000Z", "new Date().getHours()": "12", "new Date(0).getFullYear()": "1970",
		"typeof job.body": "undefined", "typeof require": "undefined", "typeof console": "undefined", "typeof setTimeout": "undefined",
		"offer.hasOwnProperty('id')": "true", "offer instanceof Object": "true",
	} {
		if got := said(t, q, expression); got != want {
			t.Errorf("%s is %q, want %q", expression, got, want)
		}
	}
}

// TestOrdinaryCode: what scripts are written with works.
func TestOrdinaryCode(t *testing.T) {
	q := patient(1)
	for expression, want := range map[string]string{
		"[3, 1, 2].sort()": "1,2,3", "[10, 9, 1].sort()": "1,10,9", "[10, 9, 1].sort((a, b) => a - b)": "1,9,10", "[1, 2].concat([3], 4)": "1,2,3,4",
		"[1, 2, 3].map(x => x * 2).filter(x => x > 2)": "4,6", "[1, 2, 3].reduce((a, b) => a + b)": "6", "[1, 2, 3].includes(2)": "true",
		"Math.max(...[1, 5, 2])": "5", "Math.max.apply(null, [1, 5, 2])": "5", "[...'abc'].reverse().join('')": "cba", "[...new Set([1, 1, 2])]": "1,2",
		"[...new Map([['a', 1]]).keys()]": "a", "new Map(Object.entries({ a: 1 })).get('a')": "1", "Object.entries({ a: 1, b: 2 })": "a,1,b,2",
		"Object.values({ ...{ a: 1 }, b: 2 })": "1,2", "Object.keys(Object.assign({}, { a: 1 }))": "a", "Object.fromEntries([['a', 1]]).a": "1",
		"'abc'.padStart(5, '-')": "--abc", "'abc'.padEnd(5) + '|'": "abc  |", "'ab'.repeat(3)": "ababab", "'x'.repeat(0)": "",
		"'a-b-c'.replace('-', '+')": "a+b-c", "'a-b-c'.replaceAll('-', '+')": "a+b+c", "'a,b'.split(',').length": "2", "'Ab'.toLowerCase()": "ab",
		"`${1}-${'x'}`": "1-x", "'a'.concat('b', 1)": "ab1", "'abc'.includes('b')": "true", "'b'.localeCompare('a')": "1", "'abc'.at(-1)": "c",
		"Array.from({ length: 3 }, (_, i) => i * i)": "0,1,4", "Array.from('abc')": "a,b,c", "Array.from(new Set([1]))": "1", "new Array(3).fill(7)": "7,7,7",
		"(() => { let s = ''; for (const [i, x] of ['a', 'b'].entries()) s += i + x; return s; })()":                                                              "0a1b",
		"(() => { const o = { n: 1, s: 'x' }; o.n += 2; o['s'] += o.n; o.s += 'y'; return o.s; })()":                                                              "x3y",
		"(() => { const m = {}; for (const k of ['a', 'b', 'a']) m[k] = (m[k] || 0) + 1; return m.a; })()":                                                        "2",
		"(() => { const { id, ttft_ms: t = 5 } = offer; return id + t; })()":                                                                                      "p00/m200",
		"(() => { const [a, , b = 9] = [1, 2]; return a + b; })()":                                                                                                "10",
		"(() => { class A { #x = 1; get x() { return this.#x; } static of() { return new A(); } constructor() { this.y = 2; } } return A.of().x + A.of().y; })()": "3",
		"(() => { try { null.x } catch (e) { return e instanceof TypeError ? e.name : e } })()":                                                                   "TypeError",
		"(() => { try { throw new Error('no') } catch (e) { return '' + e } })()":                                                                                 "Error: no",
		"(() => { const a = [3, 1, 2]; a.sort((x, y) => { a.length = 0; return x - y; }); return a; })()":                                                         "1,2,3",
		"(() => { const a = [1, 2, 3, 4]; a.splice({ valueOf: () => 1 }, 2, 'x'); return a; })()":                                                                 "1,x,4",
		"(() => { const a = [2, 1]; return a.sort() === a; })()":                                                                                                  "true",
		"(() => { const a = [1, 2, 3]; return [a.with({ valueOf: () => -1 }, 9), a.indexOf(3, { valueOf: () => 1 }), a.lastIndexOf(1, 0), a.slice(1)]; })()":      "1,2,9,2,0,2,3",
		"(() => { const a = [1]; return [a.concat(2, [3, [4]]).length, Math.max(...a, 5), Math.max.apply(null, [1, 7])]; })()":                                    "4,5,7",
		"(() => { const o = { a: 1 }; return Object.assign(o, { b: 2 }, null, [3]) === o && o.b + o[0]; })()":                                                     "5",
		"(() => { const o = {}; o.__proto__ = { x: 1 }; return o.x; })()":                                                                                         "undefined",
		"Object.assign({}, Object.fromEntries([['__pro' + 'to__', { x: 1 }]])).x":                                                                                 "undefined",
		"(() => { let n = 0; outer: for (let i = 0; i < 9; i++) { for (;;) { n++; if (n > 3) break outer; continue outer; } } return n; })()":                     "4",
		"(() => { function f(...xs) { return xs.length; } return f(1, 2, ...[3]); })()":                                                                           "3",
		"offer?.labels?.['ki' + 'nd'] ?? 'x'":                                                                                                                     "node", "offer.labels.kind === 'node' ? 1 : 2": "1", "(5).toFixed(2)": "5.00", "parseFloat('1.5x')": "1.5", "Number('7') + 1": "8",
		"[1, [2, [3]]]": "1,2,3", "[1, undefined, null, 2]": "1,,,2", "String([])": "", "[1, 2, 3].at(-1)": "3", "[3, 1].toSorted()": "1,3", "2 ** 10": "1024",
		"new Date(Date.UTC(2026, 0, 2)).getDay()": "5", "Date.now()": "1778068800000", "typeof Math.random()": "number", "isNaN(NaN)": "true",
	} {
		if got := said(t, q, expression); got != want {
			t.Errorf("%s is %q, want %q", expression, got, want)
		}
	}
}

func TestAnswers(t *testing.T) {
	q := patient(3)
	s := load(t, `const by = { 'p00/m': null, 'p01/m': [-2, 1.5], 'p02/m': -3 };
function score(job, offer) { return job.model === 'sample' ? 0 : by[offer.id]; }`)
	ranks, in := make([]core.Rank, 3), make([]bool, 3)
	if err := s.Rank(q, ranks, in); err != nil {
		t.Fatal(err)
	}
	want := []core.Rank{{}, {Tier: -2, Cost: 1.5, Price: q.Candidates[1].Price}, {Cost: -3, Price: q.Candidates[2].Charge}}
	const far = "function score(job) { return job.model === 'sample' ? 0 : [9e16, 1]; }"
	if err := load(t, far).Rank(q, make([]core.Rank, 3), make([]bool, 3)); err == nil || !strings.Contains(err.Error(), "the tier 90000000000000000, which is beyond 2^53") {
		t.Errorf("a tier that is too large: %v", err)
	}
	if !slices.Equal(ranks, want) || !slices.Equal(in, []bool{false, true, true}) {
		t.Errorf("%v %v", ranks, in)
	}
}

// Offers are objects of their own, and nothing stays from one ranking to the next.
func TestNothingStays(t *testing.T) {
	s := load(t, `let n = 0; const seen = []; Object.ttft_ms = 1; Array.poison = 1;
function score(job, offer) {
  if (Object.poisoned || [].map.poisoned) throw new Error('LEAK');
  Object.poisoned = [].map.poisoned = undefined; Math.max = () => 0;
  seen.push(offer);
  for (let i = 0; i < seen.length; i++) if (seen.indexOf(seen[i]) !== i || seen[i].id === offer.id && seen[i] !== offer) throw new Error('MIXED');
  return n++;
}`)
	clean := load(t, `function score(job, offer) {
  if (Object.ttft_ms !== undefined || Array.poison !== undefined || Math.max(1, 2) !== 2) throw new Error('LEAK');
  return offer.ttft_ms ?? 0;
}`)
	for range 3 {
		for _, x := range []core.Script{s, clean} {
			q := patient(5)
			ranks, in := make([]core.Rank, 5), make([]bool, 5)
			if err := x.Rank(q, ranks, in); err != nil {
				t.Fatal(err)
			}
			for i := range ranks {
				if want := float64(i); x == s && ranks[i].Cost != want {
					t.Errorf("rank %d is %v", i, ranks[i])
				}
			}
		}
	}
}

func TestTheSameAgain(t *testing.T) {
	s := load(t, `const first = Math.random(); function score(job, offer) { return first + Math.random() + Date.now() % 1000 / 7; }`)
	rank := func(seed uint64, at time.Time) string {
		q := patient(10)
		q.Seed, q.At = seed, at
		ranks := make([]core.Rank, 10)
		if err := s.Rank(q, ranks, make([]bool, 10)); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(ranks)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 123e6, time.UTC)
	one := rank(1, now)
	if rank(1, now) != one {
		t.Error("the same call is ranked in another way")
	}
	if rank(2, now) == one || rank(1, now.Add(time.Millisecond)) == one {
		t.Error("another call is ranked in the same way")
	}
}

// What goja says of an object that is no text has addresses of memory in it.
func TestTheSameMessage(t *testing.T) {
	for _, made := range []string{"job.headers", "offer.labels", "{ toString() { return {}; } }", "[[offer.labels]]"} {
		for _, use := range []string{"'' + x", "x * 2", "`${x}`", "[1][x]", "String(x)", "x < 1"} {
			source := fmt.Sprintf("function score(job, offer) { const x = %s; let said = ''; try { return { length: %s }; } catch (e) { said = e.message + e; } throw said; }", made, use)
			_, err := scripts.Load("s", "s.js", []byte(source))
			e := asScript(t, err)
			if e == nil {
				continue // it is one: of a list of lists, or compared
			}
			if strings.Contains(e.Msg, "0x") || strings.Contains(e.Msg, "Could not convert") {
				t.Errorf("%s of %s: %s", use, made, e.Msg)
			}
			uncaught := fmt.Sprintf("function score(job, offer) { const x = %s; return %s; }", made, use)
			if _, err := scripts.Load("s", "s.js", []byte(uncaught)); err != nil && (strings.Contains(err.Error(), "0x") || strings.Contains(err.Error(), "Could not convert")) {
				t.Errorf("%s of %s: %v", use, made, err)
			}
		}
	}
}

func TestManyAtOnce(t *testing.T) {
	s := load(t, `let n = 0; const o = {}; function score(job, offer) { o[offer.id] = ++n; return offer.charge_usd * n / o[offer.id]; }`)
	bad := load(t, `function score(job) { if (job.model !== 'sample') for (;;) {} return 0; }`)
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			q := patient(1 + i%7)
			ranks, in := make([]core.Rank, len(q.Candidates)), make([]bool, len(q.Candidates))
			if i%10 == 0 {
				q.Limit = time.Millisecond
				if bad.Rank(q, ranks, in) == nil {
					t.Error("it ranked")
				}
				return
			}
			if err := s.Rank(q, ranks, in); err != nil {
				t.Error(err)
				return
			}
			for j := range ranks {
				if !in[j] || ranks[j].Cost != q.Candidates[j].Charge.Float()*float64(j+1)/float64(j+1) {
					t.Errorf("rank %d is %v", j, ranks[j])
				}
			}
		})
	}
	wg.Wait()
}

func FuzzLoad(f *testing.F) {
	list, err := fs.Glob(scripts.Files(), "examples/*.js")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range list {
		source, err := fs.ReadFile(scripts.Files(), path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(source))
	}
	for _, h := range hostile {
		if len(h.source) < 1000 && !strings.Contains(h.source, "for (;;)") && !strings.Contains(h.source, "while (true)") {
			f.Add(h.source)
		}
	}
	f.Add("function 08[...f(000000") // goja's parser panics
	f.Fuzz(func(t *testing.T, source string) {
		s, err := scripts.Load("fuzz", "fuzz.js", []byte(source))
		if (s == nil) == (err == nil) {
			t.Fatalf("%v and %v", s, err)
		}
		if err == nil {
			q := auction(3)
			_ = s.Rank(q, make([]core.Rank, 3), make([]bool, 3)) // it may fail, not panic
		}
	})
}
