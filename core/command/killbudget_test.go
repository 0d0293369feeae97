package command_test

import (
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// budgetCalls is for how many more calls each round of TestKillBudget has money.
const budgetCalls = 20

// TestKillBudget kills a gateway, again and again, while more calls come with a
// key than its budget covers. After each start what the key is listed with is what
// its receipts were charged, to the last digit, nothing is reserved any more, and
// the budget is never passed: not by what the provider was asked for either, calls
// that were under way when the gateway was killed among it.
func TestKillBudget(t *testing.T) {
	// A call may cost 100 output tokens of 1000 USD a million, and does.
	const each = "0.1"
	var asked atomic.Int64
	s := modelServer(t, func(w http.ResponseWriter, r *http.Request, _ []byte, _ string, streamed bool) {
		f := chatWire(0, 100)
		takes := rand.N(30 * time.Millisecond)
		if asked.Add(1)%7 == 0 {
			takes = callLimit // it is under way when the gateway is killed
		}
		select {
		case <-time.After(takes):
		case <-r.Context().Done():
		}
		if streamed {
			begin(w, f.open, f.text("ok"), f.end)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		send(w, f.whole("ok", "{}"))
	})
	provider := asking("near", "openai", s.URL, killModel)
	provider["offers"] = []any{map[string]any{"model": killModel, "input_usd_per_mtok": "0", "output_usd_per_mtok": "1000"}}
	key := map[string]any{"name": "caller", "key": killKeys[0]}
	config := map[string]any{"listen": "127.0.0.1:0", "log": map[string]any{"level": "warn"}, "providers": []any{provider}, "keys": []any{key}}
	bin, data := buildHeadway(t), t.TempDir()
	spent, total, lost := new(big.Rat), 0, 0
	rounds := max(*kills/3, 3)
	for round := range rounds {
		limit := new(big.Rat).Mul(amount(t, each), big.NewRat(budgetCalls, 1))
		limit.Add(limit, spent)
		key["budget_usd_per_month"] = limit.FloatString(12)
		g := startGateway(t, bin, data, config, nil)
		var workers sync.WaitGroup
		var answered, refused atomic.Int64
		for w := range killWorkers {
			workers.Go(func() {
				client := patient(t)
				for n := 0; g.alive(); n++ {
					body := fmt.Sprintf(`{"model":%q,"stream":%v,"max_tokens":100,"messages":[{"role":"user","content":"hi %d %d"}]}`, killModel, n%2 == 0, w, n)
					resp, err := g.call(client, killKeys[0], "/v1/chat/completions", body)
					if err != nil {
						continue // the gateway was killed
					}
					_, err = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
					switch {
					case resp.StatusCode == http.StatusPaymentRequired:
						refused.Add(1)
						time.Sleep(5 * time.Millisecond) // no need to ask as fast as one can
					case resp.StatusCode != http.StatusOK:
						t.Errorf("a call was answered with status %d", resp.StatusCode)
					case err == nil:
						answered.Add(1)
					}
				}
			})
		}
		// One round in three is killed a while after its budget is used up, the others
		// anywhere: receipts are durable a tenth of a second after their calls.
		for deadline := time.Now().Add(callLimit); g.alive() && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
			if round%3 == 0 && refused.Load() > 0 || round%3 != 0 && answered.Load() > 0 {
				break
			}
		}
		time.Sleep(rand.N(400 * time.Millisecond))
		g.kill()
		workers.Wait()
		if answered.Load() > budgetCalls {
			t.Errorf("round %d: %d calls were answered, there was money for %d", round, answered.Load(), budgetCalls)
		}
		total += int(answered.Load())
		if round%3 == 0 && refused.Load() == 0 {
			t.Errorf("round %d: no call was refused: nothing was tested", round)
		}

		g = startGateway(t, bin, data, config, nil)
		spent, lost = checkBudget(t, g, limit)
		bill := new(big.Rat).Mul(amount(t, each), big.NewRat(asked.Load(), 1))
		if bill.Cmp(spent) > 0 {
			t.Errorf("round %d: the provider asks for %s, the key was charged %s", round, bill.FloatString(2), spent.FloatString(2))
		}
		if round == rounds-1 {
			if err := g.stop(); err != nil {
				t.Error(err)
			}
		} else {
			g.kill()
		}
	}
	t.Logf("%d kills, %d calls answered of %d that the provider got, %d lost, %s USD spent", rounds, total, asked.Load(), lost, spent.FloatString(2))
	if spent.Sign() == 0 || lost == 0 {
		t.Error("nothing was charged, or no call was lost: nothing was tested")
	}
}

func amount(t *testing.T, s any) *big.Rat {
	t.Helper()
	r, ok := new(big.Rat).SetString(fmt.Sprint(s))
	if !ok {
		t.Fatalf("%v is no amount", s)
	}
	return r
}

// checkBudget compares a restarted gateway's list of keys with its receipts, and
// gives what was spent, and how many calls are lost.
func checkBudget(t *testing.T, g *gateway, limit *big.Rat) (sum *big.Rat, lost int) {
	t.Helper()
	all, err := g.allCalls(patient(t))
	if err != nil {
		t.Fatal(err)
	}
	sum = new(big.Rat)
	for _, r := range all {
		if r.Outcome == "lost" {
			lost++
		}
		if r.Charge != nil {
			sum.Add(sum, amount(t, *r.Charge))
		}
	}
	keys, err := g.items("/admin/v1/keys")
	if err != nil || len(keys) != 1 {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	if spend := amount(t, keys[0]["spend_usd"]); spend.Cmp(sum) != 0 || sum.Cmp(limit) > 0 {
		t.Errorf("spent %v, the receipts say %s, the budget is %s", keys[0]["spend_usd"], sum.FloatString(12), limit.FloatString(12))
	}
	if v, ok := keys[0]["reserved_usd"]; ok && amount(t, v).Sign() != 0 {
		t.Errorf("a restarted gateway has %v reserved", v)
	}
	return sum, lost
}
