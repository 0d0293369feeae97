package estimate_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headway/adapters"
	"headway/core"
	"headway/core/estimate"
)

// recorded is a request that a real provider has counted.
type recorded struct {
	Format, Model, Request string
	Path                   string `json:"url_path"`
	Tags                   []string
	Usage                  struct {
		Input int64 `json:"all_input"`
		Tools int64 `json:"tool_prompt"`
	}
}

// grown tells whether tools that the server ran read more than the prompt.
func (r recorded) grown() bool {
	return slices.ContainsFunc(r.Tags, func(tag string) bool {
		return strings.HasPrefix(tag, "server-tool") || strings.HasPrefix(tag, "block:") && tag != "block:redacted_thinking" || tag == "part:executableCode"
	}) || r.Usage.Tools > 0
}

// job reads the request, as it is sent: recordings are indented.
func (r recorded) job(t *testing.T, dir string) *core.Job {
	raw, err := os.ReadFile(filepath.Join(dir, r.Request))
	if err != nil {
		t.Fatal(err)
	}
	var body bytes.Buffer
	if err := json.Compact(&body, raw); err != nil {
		return nil // no JSON: cut when it was recorded
	}
	format := map[string]core.Format{"openai-chat": core.FormatOpenAI, "openai-completions": core.FormatOpenAI, "openai-responses": core.FormatResponses,
		"anthropic-messages": core.FormatAnthropic, "google-generatecontent": core.FormatGoogle}[r.Format]
	path := r.Path
	switch r.Format {
	case "openai-chat":
		path = "/v1/chat/completions"
	case "openai-responses":
		path = "/v1/responses"
	case "google-generatecontent":
		path = "/v1beta/models/" + r.Model + ":generateContent"
	}
	for _, a := range adapters.All() {
		if a.Format() == format {
			job, err := a.Parse(core.RequestHead{Path: path, Query: url.Values{}}, body.Bytes())
			if err != nil {
				return nil
			}
			return job
		}
	}
	return nil // no format of clients
}

// TestRecordings learns from every recorded request that has a count, in order,
// and prints how far off estimates were: before anything was learnt, at that point,
// and afterwards. Few models have more than one, so the last is of what was learnt
// from all.
func TestRecordings(t *testing.T) {
	dir := os.Getenv("HEADWAY_WIRE")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "wire")
	}
	data, err := os.ReadFile(filepath.Join(dir, "labels.json"))
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("no recordings: %v", err)
		}
		t.Skipf("no recordings in %s: set HEADWAY_WIRE", dir)
	}
	var labels struct{ Files []recorded }
	if err := json.Unmarshal(data, &labels); err != nil {
		t.Fatal(err)
	}
	r := newRig(t)
	off := func(job *core.Job, model core.Model, want int64) float64 {
		return math.Abs(float64(r.prompt(job, model)-want)) / float64(want)
	}
	type known struct {
		job   *core.Job
		label recorded
	}
	var all []known
	var plain, then []float64
	for _, l := range labels.Files {
		if l.Request == "" || l.Usage.Input <= 0 || l.grown() {
			continue
		}
		job := l.job(t, dir)
		if job == nil {
			continue
		}
		all = append(all, known{job, l})
		plain = append(plain, math.Abs(float64(estimate.Tokens(job.PromptBytes)-l.Usage.Input))/float64(l.Usage.Input))
		then = append(then, off(job, core.Model(l.Model), l.Usage.Input))
		r.settle(job, core.Model(l.Model), l.Usage.Input, 1)
	}
	if len(all) < 80 {
		t.Fatalf("only %d requests could be read", len(all))
	}
	var after, large []float64
	for i, k := range all {
		after = append(after, off(k.job, core.Model(k.label.Model), k.label.Usage.Input))
		if k.label.Usage.Input >= 500 {
			large = append(large, after[i])
		}
		if testing.Verbose() {
			t.Logf("%6d tokens: bytes ÷ 4 off by %4.0f%%, then %4.0f%%, after %4.0f%%: %s, %s", k.label.Usage.Input, 100*plain[i], 100*then[i], 100*after[i],
				strings.TrimSuffix(k.label.Request, ".request.json"), k.label.Model)
		}
	}
	line := func(name string, v []float64) string {
		return fmt.Sprintf("%s %d: median %.0f%%, p90 %.0f%%", name, len(v), 100*quantile(v, .5), 100*quantile(v, .9))
	}
	t.Log(line("bytes ÷ 4,", plain))
	t.Log(line("as learnt until then,", then))
	t.Log(line("after all,", after))
	t.Log(line("after all, of 500 tokens and more,", large))
	if quantile(after, .5) > quantile(plain, .5)/2 {
		t.Error("learning did not halve the median error")
	}
}
