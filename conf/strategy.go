package conf

import (
	"slices"
	"strings"
)

// strategies are the built-in ones of SPEC §7 that a setting may name.
var strategies = []string{"price-and-wait", "cheapest", "fastest", "fastest-first-token", "balanced"}

// scriptName is what a script, and so a strategy, may be called: its file's name
// without .js.
const scriptName = `^[a-z0-9][a-z0-9_-]{0,63}$`

// strategy is a built-in one, or the name of a script. Whether there is such a
// script is another question: File.CheckScripts.
func strategy() value[string] {
	examples := make([]any, len(strategies))
	for i, s := range strategies {
		examples[i] = s
	}
	return word[string]("a strategy's name",
		object{"type": "string", "pattern": scriptName + `|` + referencePattern, "not": object{"const": "auto"}, "examples": examples},
		func(s string) fault {
			switch {
			case s == "auto":
				return fault{"is no strategy of a setting", "auto is asked for as a model, and routing.auto is its pool"}
			case !wordOf(s, "abcdefghijklmnopqrstuvwxyz0123456789", "_-"):
				return fault{"is no name of a strategy" + DidYouMean(s, strategies),
					"one of " + strings.Join(strategies, ", ") + ", or a script's name: lower-case letters, digits, hyphens and underscores"}
			}
			return fault{}
		})
}

// scriptUse is a place that names a strategy which is not built in.
type scriptUse struct {
	name string
	at   Problem // Reason is the name as it stands there
}

func (d *draft) noteScript(b *binder, at place, name string) {
	if name == "" || slices.Contains(strategies, name) {
		return
	}
	shown := `"` + name + `"`
	if strings.Contains(at.node.Value, "$") {
		shown = shorten(at.node.Value) // never what a variable holds
	}
	d.scripts = append(d.scripts, scriptUse{name, b.problem(at, "", "%s", shown)})
}

// CheckScripts holds the strategies that the file names against the scripts that
// are there, by name. The error is Problems, one for each place that names a
// strategy which is neither built in nor one of them.
func (f *File) CheckScripts(there []string) error {
	var wrong Problems
	for _, use := range f.scripts {
		if slices.Contains(there, use.name) {
			continue
		}
		p := use.at
		p.Reason += " is no strategy" + DidYouMean(use.name, slices.Concat(strategies, there))
		p.Hint = StrategyHint(there)
		wrong = append(wrong, p)
	}
	if len(wrong) == 0 {
		return nil
	}
	sortProblems(wrong)
	return wrong
}

// StrategyHint says which strategies there are; there are the scripts' names.
func StrategyHint(there []string) string {
	hint := "built in are " + strings.Join(strategies, ", ")
	if len(there) == 0 {
		return hint + "; there are no scripts (routing.scripts of the file is their folder, from a start on)"
	}
	const most = 20
	list := strings.Join(there[:min(len(there), most)], ", ")
	if len(there) > most {
		list += ", …"
	}
	return hint + "; the scripts are " + list
}
