package command_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestScriptScores: what a script gave each offer is in the receipt of the call, in
// headway trace, and is given again when the call is ranked again.
func TestScriptScores(t *testing.T) {
	s := modelServer(t, func(w http.ResponseWriter, _ *http.Request, _ []byte, _ string, _ bool) {
		w.Header().Set("Content-Type", "application/json")
		send(w, chatWire(3, 5).whole("ok", "{}"))
	})
	const source = `function score(job, offer) {
  if (offer.provider === 'third') return null;
  return offer.provider === 'first' ? [2, 0.5 + Math.random()] : 7.25;
}`
	folder := t.TempDir()
	file := filepath.Join(folder, "mine.js")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	var providers []any
	for _, id := range []string{"first", "second", "third"} {
		p := asking(id, "openai", s.URL, killModel)
		p["offers"] = []any{map[string]any{"model": killModel, "input_usd_per_mtok": "1", "output_usd_per_mtok": "2"}}
		providers = append(providers, p)
	}
	config := map[string]any{"listen": "127.0.0.1:0", "providers": providers, "keys": []any{map[string]any{"name": "caller", "key": killKeys[0]}},
		"routing": map[string]any{"strategy": "mine", "scripts": folder}}
	bin, data := buildHeadway(t), t.TempDir()
	g := startGateway(t, bin, data, config, nil)
	resp, err := g.call(patient(t), killKeys[0], "/v1/chat/completions", fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hi"}]}`, killModel))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	id := resp.Header.Get("X-Request-Id")
	if resp.StatusCode != http.StatusOK || resp.Header.Get("X-Headway-Offer") != "second/"+killModel {
		t.Fatalf("status %d by %s", resp.StatusCode, resp.Header.Get("X-Headway-Offer"))
	}
	if err := g.stop(); err != nil {
		t.Fatal(err)
	}
	g = startGateway(t, bin, data, config, nil) // it is read from the disk
	raw, err := g.receipt(id)
	if err != nil {
		t.Fatal(err)
	}
	var receipt struct {
		Decision struct {
			RankedOn string `json:"ranked_on"`
			Offers   []struct {
				Offer       string   `json:"offer"`
				Tier        *int     `json:"tier"`
				ScriptScore *float64 `json:"script_score"`
			} `json:"offers"`
		} `json:"decision"`
	}
	if err := decodeJSON(raw, &receipt); err != nil {
		t.Fatal(err)
	}
	d := receipt.Decision
	if d.RankedOn != "script" || len(d.Offers) != 3 {
		t.Fatalf("the receipt is %s", raw)
	}
	second, first, third := d.Offers[0], d.Offers[1], d.Offers[2]
	if second.Tier == nil || *second.Tier != 0 || second.ScriptScore == nil || *second.ScriptScore != 7.25 ||
		first.Tier == nil || *first.Tier != 2 || first.ScriptScore == nil || *first.ScriptScore < 0.5 || *first.ScriptScore >= 1.5 ||
		third.Tier != nil || third.ScriptScore != nil {
		t.Errorf("the decision is %s", raw)
	}
	code, out, errs := headway(bin, t.TempDir(), nil, "trace", id, "--data", data)
	for _, says := range []string{"the script's own scores", " 7.25 ", " TIER  ", "left_out"} {
		if code != 0 || !strings.Contains(out, says) {
			t.Errorf("headway trace does not say %q: exit code %d\n%s%s", says, code, out, errs)
		}
	}
	code, out, errs = headway(bin, t.TempDir(), nil, "strategy", "replay", file, "--last", "1d", "--data", data)
	if code != 0 || !strings.Contains(out, "1 call") {
		t.Errorf("headway strategy replay: exit code %d\n%s%s", code, out, errs)
	}
	if err := g.stop(); err != nil {
		t.Error(err)
	}
}
