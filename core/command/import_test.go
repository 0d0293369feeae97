package command_test

import (
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"headway/core"
	"headway/core/control"
)

// TestImportPrices takes prices of small sheets of each format: nothing without
// --apply, the offers that were made with it, lines for those of the file.
func TestImportPrices(t *testing.T) {
	dir := t.TempDir()
	h := &history{t: t, data: filepath.Join(dir, "data"), rnd: rand.New(rand.NewPCG(1, 1)), now: time.Now(), file: `providers:
  - id: openai
    format: openai
    base_url: https://api.openai.com/v1
    offers:
      - {model: one, upstream_model: model-one, input_usd_per_mtok: "0.2", output_usd_per_mtok: "0.6", context_tokens: 100000}
      - {model: same, input_usd_per_mtok: "1", output_usd_per_mtok: "2"}
      - {model: unknown, input_usd_per_mtok: "1", output_usd_per_mtok: "2"}
  - {id: claude, format: anthropic, base_url: https://api.anthropic.com}
  - {id: router, format: openai, base_url: https://openrouter.ai/api/v1}
  - {id: own, format: openai, base_url: http://127.0.0.1:1/v1, offers: [{model: mine, input_usd_per_mtok: "0", output_usd_per_mtok: "0"}]}
`}
	h.start()
	defer func() { h.stop() }()
	post := func(path, body string) {
		t.Helper()
		resp, err := overSocket(h.data).Post("http://headway/admin/v1/"+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusCreated {
			t.Fatalf("%s: %d %s", body, resp.StatusCode, text)
		}
	}
	post("offers", `{"provider":"claude","model":"claude-one","input_usd_per_mtok":"2","output_usd_per_mtok":"10","cache_read_usd_per_mtok":"0.2","cache_write_usd_per_mtok":"9","max_output_tokens":8192,
		"above":{"input_tokens":200000,"input_usd_per_mtok":"1","output_usd_per_mtok":"1","cache_write_usd_per_mtok":"7"}}`)
	post("offers", `{"provider":"router","model":"routed","upstream_model":"org/model-one","input_usd_per_mtok":"9","output_usd_per_mtok":"9"}`)
	post("providers", `{"id":"made","format":"openai","base_url":"https://api.groq.com/openai/v1","api_key":"a-key-of-the-test","offers":[{"model":"open","upstream_model":"org/open","input_usd_per_mtok":"5","output_usd_per_mtok":"5"}]}`)

	sheet := filepath.Join(dir, "sheet.json")
	write(t, sheet, []byte(`{"sample_spec": {"litellm_provider": "text"},
	 "model-one": {"litellm_provider": "openai", "input_cost_per_token": 1.5e-07, "output_cost_per_token": 6e-07, "cache_read_input_token_cost": 7.5e-08, "max_input_tokens": 128000, "input_cost_per_image": 1},
	 "same": {"litellm_provider": "openai", "input_cost_per_token": 1e-06, "output_cost_per_token": 2e-06, "cache_read_input_token_cost": 0},
	 "claude-one": {"litellm_provider": "anthropic", "input_cost_per_token": 3e-06, "output_cost_per_token": 1.23456789e-05, "cache_read_input_token_cost": 3e-07, "max_output_tokens": 64000, "max_input_tokens": 200000,
	   "input_cost_per_token_above_200k_tokens": 6e-06, "output_cost_per_token_above_200k_tokens": 2.25e-05},
	 "groq/org/open": {"litellm_provider": "groq", "input_cost_per_token": 1e-07, "output_cost_per_token": 2.00000000000001e-07},
	 "z": {"litellm_provider": "somebody"}}`))
	offer := func(id string) control.Offer {
		t.Helper()
		list, err := h.client().Offers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list.Items {
			if string(o.ID) == id {
				return o
			}
		}
		t.Fatalf("there is no %s", id)
		return control.Offer{}
	}
	says := func(out string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !regexp.MustCompile(`(?m)` + w).MatchString(out) {
				t.Errorf("it does not say %q:\n%s", w, out)
			}
		}
	}

	before := offer("claude/claude-one")
	out, _ := run(t, true, "offers", "import", "--data", h.data, sheet)
	says(out, `^openai/one +input_usd_per_mtok +0\.2 +0\.15 +file +is in the file$`, `^openai/one +cache_read_usd_per_mtok +- +0\.075 +file `, `^openai/one +context_tokens +100000 +128000 +file `,
		`^claude/claude-one +input_usd_per_mtok +2 +3 +admin +not changed$`, `^claude/claude-one +max_output_tokens +8192 +64000 +admin `, `^made/open +input_usd_per_mtok +5 +0\.1 +admin `,
		`^claude/claude-one +above +over 200000: 1 in, 1 out, 7 write +over 200000: 6 in, 22\.5 out, 7 write +admin `,
		`^openai/one \(model-one\): not read: input_cost_per_image$`, `^openai/same \(same\): cache_read_usd_per_mtok: the sheet has 0`,
		`^made/open \(groq/org/open\): output_cost_per_token: "2.00000000000001e-07" is no whole number of picodollars`,
		"^  # openai/one\n  input_usd_per_mtok: \"0.15\"\n  cache_read_usd_per_mtok: \"0.075\"\n  context_tokens: 128000\n", `^openai/unknown +the sheet does not have it$`, `^own/mine +its provider is none that sheets name: it is looked up by its address \(base_url\)$`,
		`^litellm sheet of 5 entries: 4 offers found in it, 1 the same$`, `^not read: input_cost_per_image \(1\)$`, `^2 entries have a figure that cannot be taken$`, `^1 entry is of providers that .*: somebody$`,
		`^nothing was changed: --apply changes the 2 offers made through the admin API$`)
	if strings.Contains(out, "openai/same  ") {
		t.Errorf("what is the same is listed:\n%s", out)
	}
	if now := offer("claude/claude-one"); now.Input != before.Input {
		t.Errorf("a dry run has changed %+v", now)
	}

	out, _ = run(t, true, "offers", "import", "--data", h.data, "--apply", sheet)
	says(out, `^claude/claude-one +input_usd_per_mtok +2 +3 +admin +changed$`, `^2 offers changed$`, `^openai/one .* is in the file$`)
	now := offer("claude/claude-one")
	if want := (core.Rates{Input: 3_000_000, Output: 12_345_679}); now.Input != want.Input || now.CacheRead.V != 300_000 || now.CacheWrite.V != 9_000_000 || now.MaxOutput.V != 64_000 || now.Context.OK ||
		now.Above.V.Input != 6_000_000 || now.Above.V.CacheWrite.V != 7_000_000 {
		t.Errorf("%+v", now)
	}
	if now.Output != 10_000_000 { // 12.3456789 is no whole picodollar for a token
		t.Errorf("output is $%s", now.Output)
	}
	if made := offer("made/open"); made.Input != 100_000 || made.Output != 5_000_000 {
		t.Errorf("%+v", made)
	}
	if file := offer("openai/one"); file.Input != 200_000 {
		t.Errorf("%+v", file)
	}
	audit, err := h.client().Audit(t.Context(), map[string][]string{"action": {"offer.set"}})
	if err != nil || len(audit.Items) != 2 {
		t.Errorf("%+v %v", audit, err)
	}
	out, _ = run(t, true, "offers", "import", "--data", h.data, "--apply", sheet)
	says(out, `^nothing was changed$`)

	// The other formats, and JSON.
	write(t, sheet, []byte(`{"data": [{"id": "org/model-one", "pricing": {"prompt": "0.00000015", "completion": "6e-7", "image": "1"}}]}`))
	out, _ = run(t, true, "offers", "import", "--data", h.data, "--apply", "--json", sheet)
	var v struct {
		Sheet  string
		Apply  bool
		Offers []struct {
			ID, From, Entry string
			Applied         bool
			Changes         []struct {
				Field      string
				Now, Sheet any
			}
		}
		Unmatched []struct{ ID, Why string }
	}
	if err := json.Unmarshal([]byte(out), &v); err != nil || v.Sheet != "openrouter" || !v.Apply || len(v.Offers) != 1 || v.Offers[0].ID != "router/routed" || !v.Offers[0].Applied ||
		len(v.Offers[0].Changes) != 2 || v.Offers[0].Changes[0].Now != "9" || v.Offers[0].Changes[0].Sheet != "0.15" || len(v.Unmatched) != 6 {
		t.Errorf("%v %s", err, out)
	}
	if routed := offer("router/routed"); routed.Input != 150_000 || routed.Output != 600_000 {
		t.Errorf("%+v", routed)
	}
	write(t, sheet, []byte(`{"anthropic": {"models": {"claude-one": {"cost": {"input": 4, "output": 20}, "limit": {"context": 100}}}}}`))
	out, _ = run(t, true, "offers", "import", "--data", h.data, "--apply", sheet)
	says(out, `^claude/claude-one +context_tokens +- +100 +admin +changed$`, `^models.dev sheet of 1 entry: 1 offer found in it, 0 the same$`)
	if now := offer("claude/claude-one"); now.Input != 4_000_000 || now.Output != 20_000_000 || now.Context.V != 100 {
		t.Errorf("%+v", now)
	}
	// Where nothing was compared it does not say that all is the same.
	for text, want := range map[string]string{
		`{"nobody": {"models": {"claude-one": {"cost": {"input": 4, "output": 20}}}}}`:                 `\Ano offer was found in the sheet$`,
		`{"anthropic": {"models": {"claude-one": {"cost": {"input": "much", "output": 0.00000001}}}}}`: `\Anothing could be compared: `,
		`{"anthropic": {"models": {"claude-one": {"cost": {"input": 0, "output": 0}}}}}`:               `\Anothing could be compared: `,
		`{"anthropic": {"models": {"claude-one": {"cost": {"input": 4, "output": "much"}}}}}`:          `\Ano offer that could be compared differs from the sheet$`,
	} {
		write(t, sheet, []byte(text))
		out, _ = run(t, true, "offers", "import", "--data", h.data, sheet)
		says(out, want, `, 0 the same$`, `^nothing was changed$`)
	}
	write(t, sheet, []byte(`{"some": "thing"}`))
	if _, errs := run(t, false, "offers", "import", "--data", h.data, sheet); !strings.Contains(errs, "sheet.json: it is none of the price sheets that are known") {
		t.Error(errs)
	}
	if _, errs := run(t, false, "offers", "import", "--data", h.data, filepath.Join(dir, "none.json")); !strings.Contains(errs, "cannot be read") {
		t.Error(errs)
	}
}
