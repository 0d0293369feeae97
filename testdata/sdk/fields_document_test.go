package sdktest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// document writes FIELDS.md, or holds it against what was found.
func document(t *testing.T, all []*spoken, tables []map[string][]outcome) {
	var b strings.Builder
	b.WriteString(fieldsIntroduction)
	for i, s := range all {
		fmt.Fprintf(&b, "\n## %s\n\n", s.title)
		width := 0
		for _, sample := range s.samples {
			width = max(width, len(sample.field)+2)
		}
		cells := func(first string, cell func(n int) string) {
			fmt.Fprintf(&b, "| %-*s |", width, first)
			for n, to := range targets {
				if to.format != providerOf(s.api) {
					fmt.Fprintf(&b, " %-*s |", max(len(to.short), len(refused)), cell(n))
				}
			}
			b.WriteString("\n")
		}
		cells("field", func(n int) string { return targets[n].short })
		cells(strings.Repeat("-", width), func(n int) string { return strings.Repeat("-", max(len(targets[n].short), len(refused))) })
		for _, sample := range s.samples {
			cells("`"+sample.field+"`", func(n int) string { return string(tables[i][sample.field][n]) })
		}
		if len(s.needless) > 0 {
			b.WriteString("\n")
		}
		for _, n := range s.needless {
			fmt.Fprintf(&b, "- `%s`: %s\n", n.field, n.why)
		}
	}
	file := filepath.Join("..", "..", "adapters", "FIELDS.md")
	if *update && !t.Failed() {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	now, err := os.ReadFile(file)
	if err != nil || string(now) != b.String() {
		t.Errorf("%s is not what the adapters do: write it anew with go test -run TestFields -update (%v)", file, err)
	}
}

const fieldsIntroduction = `# What becomes of a field at a provider of another format

A call to a provider of the client's own format passes as it came. To a provider of another format it is translated, and
this is what becomes of each documented field of the client's:

| word | meaning |
|---|---|
| ✓ | it reaches the provider in its own form |
| dropped | the provider has no place for it, and the answer means the same without it: it is left out and named in ` + "`x-headway-dropped`" + ` |
| refused | the provider has no place for it, and the answer would mean something else without it: the call fails with 400 and an error that names it |
| – | it is nothing that a provider of another format is asked; why stands below the table |

The fields are those of the official Go SDKs' types, by the names on the wire. A list's elements are ` + "`stop[]`" + `; ` + "`content[image_url]`" + `
is the form of that type or role, ` + "`stop:string`" + ` the form that is no object. A field without parts stands for all that is in it.
Providers: ` + "`openai`" + ` is a server without a dialect, ` + "`responses`" + ` openai-responses, ` + "`converse`" + ` bedrock-converse, ` + "`vertex-a`" + `
vertex-anthropic, ` + "`vertex-g`" + ` vertex-google. What some of them take depends on the model: here it is Claude Sonnet 4.5 and Gemini 3 Pro.
OpenAI's own chat completions (dialect ` + "`openai`" + `) take ` + "`verbosity`" + ` and ` + "`service_tier`" + ` too.

A picture in an answer of Gemini's, or of a server of chat completions (` + "`images`" + `), comes to a chat client as ` + "`images`" + `
of the message or delta, to a Responses client as an ` + "`image_generation_call`" + ` item, to a Google client as ` + "`inlineData`" + `, and to
an Anthropic client, whose format has none, as a text block of its own: a Markdown picture with a data URL. Sent back, it goes to
Google and OpenRouter as their own. A file of another kind that a format has no place for is told of in the answer's text.

This page is made from what the code does: ` + "`cd testdata/sdk && go test -run TestFields . -args -update`" + `.
`
