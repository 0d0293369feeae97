package sdktest

import (
	"slices"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
)

// crossing is a model that two providers of different formats have.
type crossing struct {
	c             *caller
	first, second *provider
	shape         string
	ask           ask
	fails         bool // the first does, before it says anything; else it cannot be asked
}

func (x *crossing) name() string {
	return strings.Join([]string{"cross", x.c.api, x.first.format, x.second.format, x.shape}, ".")
}

// crossings are calls of each client that one provider fails at, by its status or
// by an error in its stream, or cannot be asked, and the next one answers.
func crossings() (all []*crossing) {
	for _, c := range callers {
		for i, first := range providers {
			for _, shape := range []string{"stream", "whole"} {
				all = append(all, &crossing{c, first, providers[(i+3)%len(providers)], shape, ask{turns: []turn{system, asks}, max: 1000}, true})
			}
		}
		if c.fields["stop"] != "" {
			i := slices.IndexFunc(providers, func(p *provider) bool { return p.format == "openai-responses" })
			for _, second := range providers {
				if second.has("stop") {
					all = append(all, &crossing{c, providers[i], second, "cannot", ask{turns: []turn{asks}, max: 1000, stop: []string{"END"}}, false})
				}
			}
		}
	}
	return all
}

var hello = &say{pieces: pieces("Hello \"there\"."), usage: plainU}

func crossingCells(all []*crossing) (cells []*cell) {
	for _, x := range all {
		first := &say{fail: &failure{status: 500, after: x.shape == "stream"}}
		cells = append(cells, &cell{model: x.name() + ".first", name: x.name(), cheap: true, provider: x.first, says: []*say{first}},
			&cell{model: x.name() + ".second", name: x.name(), provider: x.second, says: []*say{hello}})
	}
	return cells
}

func testCrossings(t *testing.T, via side, m *market, all []*crossing) {
	for _, x := range all {
		t.Run(x.name(), func(t *testing.T) {
			t.Parallel()
			got := x.c.call(via, t.Context(), x.name(), &x.ask, x.shape == "stream")
			attempts := map[bool]string{true: "2", false: "1"}[x.fails]
			if got.err != nil || got.text != hello.text() || got.finish != "stop" || got.attempts != attempts {
				t.Fatalf("the answer is %q %s of %s attempts, %v; want %q of %s", got.text, got.finish, got.attempts, got.err, hello.text(), attempts)
			}
			for i, p := range []*provider{x.first, x.second} {
				at := m.cells[x.name()+[]string{".first", ".second"}[i]]
				if i == 0 && !x.fails {
					if len(at.got) != 0 {
						t.Error("who cannot be asked was asked")
					}
					continue
				}
				if len(at.got) != 1 {
					t.Fatalf("%s was asked %d times", p.format, len(at.got))
				}
				want, _, _ := becomes(x.c, p, &x.ask)
				sameLines(t, p.format+" reads", at.got[0].tidy(x.c), want)
			}
		})
	}
}

// testBetas asks as Anthropic's agents do, with a query and beta headers: no
// provider of another format gets them, and the header is named.
func testBetas(t *testing.T, via side, m *market) {
	for _, p := range providers {
		if p.native == messages {
			continue
		}
		t.Run(p.format, func(t *testing.T) {
			t.Parallel()
			tp := &tap{}
			_, err := via.anthropic(tp).Messages.New(t.Context(), anthropic.MessageNewParams{Model: anthropic.Model("betas." + p.format), MaxTokens: 1000,
				Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(asks.parts[0].text))}},
				option.WithQuery("beta", "true"), option.WithHeader("anthropic-beta", "context-1m-2025-08-07,claude-code-20250219"))
			got := m.cells["betas."+p.format].got
			if err != nil || len(got) != 1 || len(got[0].wrong) > 0 {
				t.Fatalf("the call ends with %v", err)
			}
			named(t, tp.header.Get("X-Headway-Dropped"), []string{"anthropic-beta"})
		})
	}
}

func betaCells() (cells []*cell) {
	for _, p := range providers {
		cells = append(cells, &cell{model: "betas." + p.format, provider: p, says: []*say{hello}})
	}
	return cells
}
