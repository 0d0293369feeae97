package adapters

import (
	"slices"
	"strings"

	"headway/core"
)

// maxSpans is how many texts each list of a job holds, 1 MB at most: a body of
// strings with a letter each would else take four times its size. What comes
// behind them is in PromptBytes alone.
const maxSpans = 1 << 16

// noted is the list that the texts of the field at hand go to.
func (r *request) noted() *[]core.Span {
	if r.lead {
		return &r.job.Lead
	}
	return &r.job.Turns
}

// noteText notes a string that was just consumed.
func (r *request) noteText(raw []byte) { r.note(r.i-1-len(raw), r.i-1) }

// note notes a place of the body that a model reads. The list is made for as many
// as the rest of the body holds if it is like what came before.
func (r *request) note(from, to int) {
	list := r.noted()
	n := len(*list)
	if to <= from || n == maxSpans {
		return
	}
	if n == cap(*list) {
		rest := len(r.b) - r.i
		room := 1 + min(rest/128, 15)
		if n > 0 {
			alike := n * rest / (to - (*list)[0].From)
			room = min(max(alike+alike/8, n), 8*n, maxSpans-n)
		}
		*list = slices.Grow(*list, room)
	}
	*list = append(*list, core.Span{From: from, To: to})
}

// tool consumes the definition of a tool and notes it but for a marker of where
// to cache the prompt to, which moves from turn to turn.
func (r *request) tool() {
	from := r.i
	first := true
	for r.object(); ; first = false {
		behind := r.i // the brace, or the member before
		key, ok := r.key()
		if !ok {
			break
		}
		switch name := string(key); {
		case name == "type":
			kind := r.written()
			r.job.Beyond = r.job.Beyond || hosted(string(kind))
			continue
		case name != "cache_control":
			// Google's tools have no type: each is a member of its own name.
			if r.job.Format == core.FormatGoogle && name != "functionDeclarations" && name != "function_declarations" {
				r.kept()
			} else {
				r.skip()
			}
			continue
		}
		r.skip()
		r.note(from, behind)
		if from = r.i; first && r.peek() == ',' {
			from = r.i + 1
		}
	}
	r.note(from, r.i)
}

// hosted tells whether a tool of that type is one that the provider runs, and whose
// results the model reads within the call. The client runs the others.
func hosted(kind string) bool {
	switch kind {
	case "", "function", "custom", "local_shell", "shell", "apply_patch", "computer", "computer_use_preview":
		return false
	}
	name, _, _ := strings.Cut(kind, "_2") // Anthropic's end in a date
	return !slices.Contains([]string{"bash", "text_editor", "computer", "memory"}, name)
}
