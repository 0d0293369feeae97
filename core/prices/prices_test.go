package prices_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"headway/core"
	"headway/core/prices"
)

func rate(s string) core.Opt[core.Rate] {
	r, err := core.ParseRate(s)
	if err != nil {
		panic(err)
	}
	return core.Some(r)
}

const liteLLM = `{
 "sample_spec": {"litellm_provider": "one of the list", "input_cost_per_token": "a text", "max_tokens": "a text"},
 "model-one": {"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 1.5e-07, "output_cost_per_token": 6E-7, "cache_read_input_token_cost": 0.000000075,
   "input_cost_per_token_priority": 3e-7, "input_cost_per_image": 0.01, "output_cost_per_image": 0, "supports_vision": true, "max_input_tokens": 128000, "max_output_tokens": 16384, "max_tokens": 16384},
 "claude-one": {"litellm_provider": "anthropic", "input_cost_per_token": 3e-6, "output_cost_per_token": 1.5e-5, "cache_read_input_token_cost": 3e-7, "cache_creation_input_token_cost": 3.75e-6,
   "cache_creation_input_token_cost_above_1hr": 6e-6, "input_cost_per_token_above_200k_tokens": 6e-6, "output_cost_per_token_above_200k_tokens": 2.25e-5, "cache_read_input_token_cost_above_200k_tokens": 6e-7,
   "cache_creation_input_token_cost_above_1hr_above_200k_tokens": 1.2e-5},
 "anthropic.claude-one-v1:0": {"litellm_provider": "bedrock_converse", "input_cost_per_token": 3e-6, "output_cost_per_token": 1.5e-5},
 "eu.anthropic.claude-one-v1:0": {"litellm_provider": "bedrock_converse", "input_cost_per_token": 3.3e-6, "output_cost_per_token": 1.65e-5},
 "bedrock/ap-northeast-1/anthropic.claude-one-v1:0": {"litellm_provider": "bedrock", "input_cost_per_token": 4e-6, "output_cost_per_token": 2e-5},
 "vertex_ai/claude-one@20260101": {"litellm_provider": "vertex_ai-anthropic_models", "input_cost_per_token": 3e-6, "output_cost_per_token": 1.5e-5},
 "gemini/gem-one": {"litellm_provider": "gemini", "input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6},
 "groq/org/open-one": {"litellm_provider": "groq", "input_cost_per_token": 1e-7, "output_cost_per_token": 2e-7},
 "twice": {"litellm_provider": "openai", "input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6},
 "openai/twice": {"litellm_provider": "openai", "input_cost_per_token": 1e-6, "output_cost_per_token": 3e-6},
 "odd": {"litellm_provider": "openai", "input_cost_per_token": 1.2345678901234e-07, "output_cost_per_token": -1e-6, "cache_read_input_token_cost": "1e-7", "max_output_tokens": "many"},
 "tiers": {"litellm_provider": "openai", "input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6, "input_cost_per_token_above_128k_tokens": 2e-6, "output_cost_per_token_above_128k_tokens": 4e-6,
   "input_cost_per_token_above_256k_tokens": 3e-6, "output_cost_per_token_above_256k_tokens": 6e-6},
 "half": {"litellm_provider": "openai", "input_cost_per_token": 1e-6, "input_cost_per_token_above_200k_tokens": 2e-6, "input_cost_per_image_above_128k_tokens": 1},
 "elsewhere": {"litellm_provider": "somebody", "input_cost_per_token": 1e-6},
 "no provider": {"input_cost_per_token": 1e-6}
}`

func read(t *testing.T, text string) *prices.Sheet {
	t.Helper()
	s, err := prices.Read([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func find(t *testing.T, s *prices.Sheet, a prices.Asked) *prices.Entry {
	t.Helper()
	e, why := s.Find(a)
	if e == nil {
		t.Fatalf("%+v: %s", a, why)
	}
	return e
}

func TestLiteLLM(t *testing.T) {
	s := read(t, liteLLM)
	if s.Format != prices.LiteLLM || len(s.Entries) != 14 {
		t.Fatalf("%s, %d entries", s.Format, len(s.Entries))
	}
	openai := func(model string) prices.Asked {
		return prices.Asked{Host: "api.openai.com", Format: core.FormatResponses, Model: model}
	}
	e := find(t, s, openai("model-one"))
	if e.Input != rate("0.15") || e.Output != rate("0.6") || e.CacheRead != rate("0.075") || e.CacheWrite.OK || e.MaxInput.V != 128000 || e.Context.OK || e.MaxOutput.V != 16384 ||
		!slices.Equal(e.Unread, []string{"input_cost_per_image", "input_cost_per_token_priority"}) || len(e.Problems) > 0 {
		t.Errorf("%+v", e)
	}
	e = find(t, s, prices.Asked{Host: "api.anthropic.com", Format: core.FormatAnthropic, Model: "claude-one"})
	if e.CacheWrite != rate("3.75") || e.CacheWrite1h != rate("6") || e.Above.V.InputTokens != 200_000 || e.Above.V.Input != rate("6") || e.Above.V.Output != rate("22.5") ||
		e.Above.V.CacheRead != rate("0.6") || e.Above.V.CacheWrite.OK || e.Above.V.CacheWrite1h != rate("12") || len(e.Unread)+len(e.Problems) > 0 {
		t.Errorf("%+v", e)
	}
	e = find(t, s, openai("odd"))
	if e.Input.OK || e.Output.OK || e.CacheRead.OK || e.MaxOutput.OK || len(e.Problems) != 4 || !strings.Contains(strings.Join(e.Problems, "\n"),
		`input_cost_per_token: "1.2345678901234e-07" is no whole number of picodollars for a token`) {
		t.Errorf("%+v", e)
	}
	if e = find(t, s, openai("tiers")); e.Above.OK || len(e.Problems) != 1 {
		t.Errorf("%+v", e)
	}
	if e = find(t, s, openai("half")); e.Above.OK || e.Input != rate("1") || e.Output.OK || len(e.Problems) != 1 || len(e.Unread) != 1 {
		t.Errorf("%+v", e)
	}
	for _, tt := range []struct {
		asked prices.Asked
		want  string
	}{
		{prices.Asked{Format: core.FormatConverse, Region: "us-east-1", Model: "anthropic.claude-one-v1:0"}, "anthropic.claude-one-v1:0"},
		{prices.Asked{Format: core.FormatBedrock, Region: "ap-northeast-1", Model: "anthropic.claude-one-v1:0"}, "bedrock/ap-northeast-1/anthropic.claude-one-v1:0"},
		{prices.Asked{Format: core.FormatBedrock, Model: "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.anthropic.claude-one-v1:0"}, "eu.anthropic.claude-one-v1:0"},
		{prices.Asked{Format: core.FormatVertexAnthropic, Region: "global", Model: "claude-one@20260101"}, "vertex_ai/claude-one@20260101"},
		{prices.Asked{Host: "generativelanguage.googleapis.com", Format: core.FormatGoogle, Model: "models/gem-one"}, "gemini/gem-one"},
		{prices.Asked{Host: "API.groq.com", Format: core.FormatOpenAI, Model: "org/open-one"}, "groq/org/open-one"},
	} {
		if e := find(t, s, tt.asked); e.Name != tt.want {
			t.Errorf("%+v: %s, want %s", tt.asked, e.Name, tt.want)
		}
	}
	for _, tt := range []struct {
		asked prices.Asked
		why   string
	}{
		{openai("none"), "does not have it"},
		{openai("twice"), `more than once, with other figures: "twice", "openai/twice"`},
		{openai("claude-one"), "does not have it"}, // another's
		{prices.Asked{Format: core.FormatBedrock, Model: "us.anthropic.claude-one-v1:0"}, `it has "anthropic.claude-one-v1:0", without the region`},
		{prices.Asked{Host: "127.0.0.1", Format: core.FormatOpenAI, Model: "model-one"}, "none that sheets name: it is looked up by its address (base_url)"},
		{prices.Asked{Host: "api.openai.com.evil.example", Format: core.FormatOpenAI, Model: "model-one"}, "none that sheets name"},
	} {
		if e, why := s.Find(tt.asked); e != nil || !strings.Contains(why, tt.why) {
			t.Errorf("%+v: %+v %q, want %q", tt.asked, e, why, tt.why)
		}
	}
	if got := fmt.Sprint(s.Counted()); got != "[{entries without litellm_provider 1} {input_cost_per_image 1} {input_cost_per_image_above_128k_tokens 1} {input_cost_per_token_priority 1}]" {
		t.Error(got)
	}
	if prices.Known(s.Format, "somebody") || !prices.Known(s.Format, "groq") {
		t.Error("known providers")
	}
}

func TestByteOrderMark(t *testing.T) {
	with, err := prices.Read([]byte("\ufeff" + liteLLM))
	if err != nil {
		t.Fatal(err)
	}
	without, err := prices.Read([]byte(liteLLM))
	if err != nil || len(with.Entries) == 0 || len(with.Entries) != len(without.Entries) {
		t.Fatalf("%d entries, %d without a byte order mark (%v)", len(with.Entries), len(without.Entries), err)
	}
}

func TestModelsDev(t *testing.T) {
	s := read(t, `{"openai": {"id": "openai", "env": ["X"], "models": {
	  "model-one": {"id": "model-one", "cost": {"input": 0.15, "output": 0.6, "cache_read": 0.075, "input_audio": 10, "reasoning": 0}, "limit": {"context": 128000, "output": 16384}},
	  "tiered": {"cost": {"input": 1.25, "output": 10, "context_over_200k": {"input": 2.5, "output": 15, "cache_read": 0.25}}},
	  "newer": {"cost": {"input": 5, "output": 30, "tiers": [{"input": 10, "output": 45, "tier": {"type": "context", "size": 272000}}], "context_over_200k": {"input": 9, "output": 9}}},
	  "strange": {"cost": {"input": 5, "output": 30, "tiers": [{"input": 10, "output": 45, "tier": {"type": "time", "size": 5}}]}},
	  "shapes": {"cost": {"input": 5, "output": 30, "tiers": {"a": 1}}, "limit": [1]},
	  "fine": {"cost": {"input": 0.0000001, "output": 0.1000000}}, "bare": {"limit": {"context": 0}}, "none": 5}},
	 "google-vertex": {"models": {"gem": {"cost": {"input": 1, "output": 2}}}}, "somebody": {"models": {}}, "nobody": {"name": "no models"}}`)
	asked := func(model string) *prices.Entry {
		t.Helper()
		return find(t, s, prices.Asked{Host: "api.openai.com", Format: core.FormatOpenAI, Model: model})
	}
	if e := asked("model-one"); s.Format != prices.ModelsDev || e.Input != rate("0.15") || e.Output != rate("0.6") || e.CacheRead != rate("0.075") || e.Context.V != 128000 ||
		e.MaxInput.OK || e.MaxOutput.V != 16384 || !slices.Equal(e.Unread, []string{"cost.input_audio"}) {
		t.Errorf("%+v", e)
	}
	if e := asked("tiered"); e.Above.V.InputTokens != 200_000 || e.Above.V.Input != rate("2.5") || e.Above.V.CacheRead != rate("0.25") || len(e.Problems) > 0 {
		t.Errorf("%+v", e)
	}
	if e := asked("newer"); e.Above.V.InputTokens != 272_000 || e.Above.V.Output != rate("45") || len(e.Problems) > 0 {
		t.Errorf("%+v", e)
	}
	if e := asked("strange"); e.Above.OK || len(e.Problems) != 1 {
		t.Errorf("%+v", e)
	}
	if e := asked("shapes"); e.Above.OK || len(e.Problems) != 2 {
		t.Errorf("%+v", e)
	}
	if e := asked("fine"); e.Input.OK || e.Output != rate("0.1") || len(e.Problems) != 1 {
		t.Errorf("%+v", e)
	}
	if e := asked("bare"); e.Input.OK || e.Context.OK || len(e.Problems) > 0 {
		t.Errorf("%+v", e)
	}
	if e := find(t, s, prices.Asked{Format: core.FormatVertexGoogle, Region: "us-central1", Model: "publishers/google/models/gem"}); e.Output != rate("2") {
		t.Errorf("%+v", e)
	}
}

func TestOpenRouter(t *testing.T) {
	s := read(t, `{"data": [{"id": "org/model-one", "context_length": 128000, "top_provider": {"max_completion_tokens": 16384, "context_length": 64000},
	   "pricing": {"prompt": "0.00000015", "completion": "0.0000006", "input_cache_read": "7.5e-8", "request": "0", "image": "0.001", "web_search": "0"}},
	  {"id": "org/auto", "pricing": {"prompt": "-1", "completion": "-1"}}, {"id": "org/free", "pricing": {"prompt": "0", "completion": "0"}, "top_provider": {"max_completion_tokens": null}}, {"name": "no id"}]}`)
	e := find(t, s, prices.Asked{Host: "openrouter.ai", Format: core.FormatOpenAI, Model: "org/model-one"})
	if s.Format != prices.OpenRouter || e.Input != rate("0.15") || e.Output != rate("0.6") || e.CacheRead != rate("0.075") || e.Context.V != 128000 || e.MaxOutput.V != 16384 ||
		!slices.Equal(e.Unread, []string{"pricing.image"}) {
		t.Errorf("%+v", e)
	}
	if e := find(t, s, prices.Asked{Host: "openrouter.ai", Model: "org/auto"}); e.Input.OK || e.Output.OK || len(e.Problems) != 2 {
		t.Errorf("%+v", e)
	}
	if e := find(t, s, prices.Asked{Host: "openrouter.ai", Model: "org/free"}); e.Input != rate("0") || e.MaxOutput.OK || len(e.Problems) > 0 {
		t.Errorf("%+v", e)
	}
	if _, why := s.Find(prices.Asked{Host: "api.openai.com", Model: "org/model-one"}); !strings.Contains(why, "another provider") {
		t.Error(why)
	}
}

// Decimals are read digit by digit.
func TestExact(t *testing.T) {
	for text, want := range map[string]string{
		"1.5e-07": "0.15", "0.00000015": "0.15", "15E-8": "0.15", "1.50000e-07": "0.15", "1e-12": "0.000001", "0.1": "100000", "0e9": "0", "0.0": "0", "-0": "0",
		"1.2345678901e-2": "12345.678901", "1e-13": "", "1.00000000000001e-7": "", "-1e-9": "", "1": "", "1e999999999999": "", "1e-999": "", "1e900": "",
		"3.0000000000000004e-06": "", "0.10000000000000001": "", "123456789012345678901234567890e-36": "",
	} {
		s, err := prices.Read([]byte(`{"m": {"litellm_provider": "openai", "input_cost_per_token": ` + text + `}}`))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		e := &s.Entries[0]
		if want == "" && (e.Input.OK || len(e.Problems) != 1) || want != "" && e.Input != rate(want) {
			t.Errorf("%s is read as %+v %q, want %q", text, e.Input, e.Problems, want)
		}
	}
}

func TestHostileSheets(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"empty":         {" \n", "nothing in it"},
		"not JSON":      {"<html>", "line 1: this is not JSON"},
		"a list":        {"[]", "none of the price sheets"},
		"another":       {`{"a": {"b": 1}}`, "none of the price sheets"},
		"nothing":       {`null`, "none of the price sheets"},
		"twice":         {"{\"m\": {\"litellm_provider\": \"openai\",\n\"input_cost_per_token\": 1e-6, \"input_cost_per_token\": 2e-6}}", `line 2: "input_cost_per_token" is there twice`},
		"a model twice": {`{"m": {"litellm_provider": "openai"}, "m": {"litellm_provider": "openai"}}`, `"m" is there twice`},
		"NaN":           {"{\n\"m\": {\"litellm_provider\": \"openai\", \"input_cost_per_token\": NaN}}", "line 2: this is not JSON"},
		"behind":        {`{"m": {"litellm_provider": "openai"}} {}`, "something stands behind its end"},
		"cut":           {`{"m": {"litellm_provider": "openai"`, "cut short"},
		"deep":          {strings.Repeat(`{"a":`, 100_000), "inside one another"},
		"deep lists":    {strings.Repeat("[", 1_000_000), "inside one another"},
		"many":          {`{"a":[` + strings.Repeat("1,", 600_000) + `1]}`, "more than 500000 values"},
		"long":          {`{"m": {"litellm_provider": "openai", "input_cost_per_token": 0.` + strings.Repeat("1", 1<<20) + `}}`, "a number of"},
		"huge":          {strings.Repeat(" ", 33<<20), "more than 32 MiB"},
	} {
		s, err := prices.Read([]byte(tt.text))
		var e *core.Error
		if !errors.As(err, &e) || !strings.Contains(e.Msg, tt.want) || s != nil {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		if err != nil && len(err.Error()) > 500 {
			t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
		}
	}
	// What is odd inside is named, and the rest is read.
	s := read(t, `{"ok": {"litellm_provider": "openai", "input_cost_per_token": 1e-6}, "a": 5, "b": null, "c": [], "d": {"litellm_provider": 7}, "e": {"litellm_provider": "openai", "input_cost_per_token": {}, "output_cost_per_token": [], "max_output_tokens": -1}}`)
	if len(s.Entries) != 2 || s.Unread["entries without litellm_provider"] != 4 || len(s.Entries[1].Problems) != 3 {
		t.Errorf("%+v", s)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(liteLLM))
	f.Add([]byte(`{"data":[{"id":"a","pricing":{"prompt":"1e-6"}}]}`))
	f.Add([]byte(`{"p":{"models":{"m":{"cost":{"input":1,"tiers":[{"tier":{"size":1,"type":"context"}}]}}}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := prices.Read(text)
		if err != nil {
			return
		}
		for i := range s.Entries {
			for _, r := range []core.Opt[core.Rate]{s.Entries[i].Input, s.Entries[i].Output, s.Entries[i].CacheRead, s.Entries[i].CacheWrite, s.Entries[i].CacheWrite1h} {
				if r.V < 0 {
					t.Errorf("%+v", s.Entries[i])
				}
			}
		}
	})
}
