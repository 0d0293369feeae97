package gateway_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"headway/core"
)

// damage changes bytes of an answer in one to three places: a bit, a cut, a gap,
// a repetition, something that is not of the format.
func damage(b []byte, rnd *rand.Rand) []byte {
	odd := []string{"\x00", "\n\n", "{", "}", "\"", "data: ", "event: error\n", "[DONE]", ",", "\r", "\f", "null", "]", "[", ":\n\n", "\xff", "-1", "1e999"}
	for range 1 + rnd.IntN(3) {
		at := rnd.IntN(len(b))
		switch rnd.IntN(5) {
		case 0:
			b[at] ^= 1 << rnd.IntN(8)
		case 1:
			b = b[:at+1]
		case 2:
			b = slices.Delete(b, at, min(len(b), at+1+rnd.IntN(60)))
			b = append(b, '\n')
		case 3:
			b = slices.Insert(b, at, b[at:min(len(b), at+rnd.IntN(200))]...)
		case 4:
			b = slices.Insert(b, at, []byte(odd[rnd.IntN(len(odd))])...)
		}
	}
	return b
}

// TestDamagedAnswers: whatever is wrong with an answer, the client gets what its
// SDK can read, an error where the receipt says so and none where it does not.
func TestDamagedAnswers(t *testing.T) {
	const answers = 200 // thousands more were tried
	for _, w := range wires() {
		for seed := range uint64(answers) {
			rnd := rand.New(rand.NewPCG(1, seed))
			streamed := w.name == "google array" || rnd.IntN(3) > 0
			head, body := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n", w.whole("tea is good")
			if streamed {
				head, body = w.head(), w.opening+w.says("tea ")+w.says("is ")+w.says("good")+w.ending
			}
			script := []step{{0, head}}
			rest := damage([]byte(body), rnd)
			for len(rest) > 0 {
				n := min(len(rest), 1+rnd.IntN(300))
				script = append(script, step{time.Duration(len(script)) * ms, chunk(string(rest[:n]))})
				rest = rest[n:]
			}
			script = append(script, step{time.Duration(len(script)) * ms, []string{lastChunk, cutOff}[rnd.IntN(2)]})
			t.Run(fmt.Sprintf("%s %d", w.name, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, nil, w.offer("a", script...))
					a := w.post(r, streamed)
					rec := r.only()
					defer func() {
						if t.Failed() {
							t.Logf("the upstream wrote %s\nthe client got %d %q\noutcome %s, %s", fmt.Sprintf("%+v", script), a.status, a.body, rec.Outcome, rec.Attempts[0].Error)
						}
					}()
					switch {
					case a.err != nil:
						t.Error(a.err)
					case a.status == 502 || a.status == 429:
						w.failure(t, a)
					case a.status != 200:
						t.Errorf("status %d", a.status)
					case streamed:
						got, err := w.sdk(a.body)
						if err != nil || (rec.Outcome == core.Settled) != (got.failed == "") {
							t.Errorf("an SDK reads %+v, %v", got, err)
						}
					}
					if o := rec.Outcome; o != core.Settled && o != core.Failed && o != core.Truncated {
						t.Errorf("outcome %s", o)
					}
					if rec.Usage.Input() < 0 || rec.Usage.Output.V < 0 || rec.Charge.V < 0 {
						t.Errorf("usage %+v", rec.Usage)
					}
				})
			})
		}
	}
}
