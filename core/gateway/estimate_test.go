package gateway_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"headway/core"
)

// TestEstimatesLearn: what providers count is learnt from the receipts, in every
// client format, by the model's name and not by the alias that was asked for; the
// next decisions expect it.
func TestEstimatesLearn(t *testing.T) {
	text := strings.Repeat(`some words of the 2500 \"quoted\" ones follow here\nand then so on and on. `, 40)
	for _, c := range []struct{ path, body string }{
		{"/v1/chat/completions", `{"model":"mini","messages":[{"role":"user","content":"%s"}]}`},
		{"/v1/responses", `{"model":"mini","input":"%s"}`},
		{"/v1/messages", `{"model":"mini","max_tokens":5000,"messages":[{"role":"user","content":"%s"}]}`},
		{"/v1beta/models/mini:generateContent", `{"contents":[{"role":"user","parts":[{"text":"%s"}]}]}`},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, nil, offer{name: "a", script: []step{{10 * ms, status(200, "", whole("fine", 900, 77))}}})
			e := newEstimator(t, r.book)
			r.gw.Estimator = e
			r.book.Recorder = core.Recorders{r.board, r.accounts, e}
			body := fmt.Sprintf(c.body, text)
			expect := func() (*core.Receipt, *core.Ranked) {
				a := r.post(c.path, body)
				if a.status != 200 {
					t.Fatalf("%s: %d %s", c.path, a.status, a.body)
				}
				rec := r.receipt(a.id())
				return rec, &rec.Decision.Offers[0]
			}
			rec, first := expect()
			if first.Fresh.V != (int64(rec.PromptBytes)+3)/4 || first.Output.V != 500 {
				t.Errorf("%s: the first call expects %d and %d", c.path, first.Fresh.V, first.Output.V)
			}
			if rec.PromptClass != "prose" || len(rec.PromptUnits) < 9 || rec.PromptUnits[3] < 300 {
				t.Errorf("%s: the prompt is %s of %v", c.path, rec.PromptClass, rec.PromptUnits)
			}
			for range 10 {
				expect()
			}
			_, now := expect()
			if in := now.Fresh.V + now.Cached.V; in < 880 || in > 920 || now.Output.V != 77 {
				t.Errorf("%s: after eleven calls it expects %d and %d, want about 900, and 77", c.path, in, now.Output.V)
			}
			if off := r.board.Errors()["a/mini"]; off.Prompt.V.Jobs != 12 || off.Prompt.V.Median > 0.05 || off.Output.V.Median > 0.01 {
				t.Errorf("%s: errors %+v", c.path, off)
			}
		})
	}
}
