package conf

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// maxSecretFile bounds what ${file:PATH} reads, in bytes.
const maxSecretFile = 64 << 10

// expansion is why a text cannot be expanded. It names variables and files,
// never what they hold.
type expansion struct {
	reason, hint string
	unset        bool // a variable is not set
}

// expand replaces ${NAME}, ${NAME:-default} and ${file:PATH} by what they stand
// for, and $$ by a dollar (FOUNDATIONS H). Any other dollar is a mistake: most
// likely a $NAME that would be sent as it stands.
func expand(s, dir string, env func(string) (string, bool)) (string, *expansion) {
	var out strings.Builder
	for {
		before, rest, dollar := strings.Cut(s, "$")
		out.WriteString(before)
		if !dollar {
			return out.String(), nil
		}
		switch {
		case strings.HasPrefix(rest, "$"):
			out.WriteByte('$')
			s = rest[1:]
		case strings.HasPrefix(rest, "{"):
			inner, after, closed := strings.Cut(rest[1:], "}")
			if !closed {
				return "", &expansion{reason: "a ${ is not closed"}
			}
			text, wrong := lookUp(inner, dir, env)
			if wrong != nil {
				return "", wrong
			}
			out.WriteString(text)
			s = after
		default:
			return "", &expansion{reason: "a lone $ stands in it", hint: "write ${NAME} for a variable, and $$ for a dollar"}
		}
	}
}

func lookUp(inner, dir string, env func(string) (string, bool)) (string, *expansion) {
	if path, ok := strings.CutPrefix(inner, "file:"); ok {
		return readSecret(path, dir)
	}
	name, fallback, hasFallback := strings.Cut(inner, ":-")
	if !variable(name) || strings.Contains(fallback, "${") {
		return "", &expansion{reason: "a ${…} in it is not a reference", hint: "references are ${NAME}, ${NAME:-default} and ${file:PATH}"}
	}
	text, set := env(name)
	switch {
	case hasFallback && text == "": // as in a shell: unset or empty
		return fallback, nil
	case !set:
		hint := "set it, or write ${" + name + ":-default}"
		if forSecret(name) {
			hint = "set it where headway runs, or write ${file:PATH} of a file that holds it"
		}
		return "", &expansion{reason: "the environment variable " + name + " is not set", unset: true, hint: hint}
	}
	return text, nil
}

// forSecret tells by its name whether a variable is for a secret, which has no default.
func forSecret(name string) bool {
	for _, word := range [...]string{"KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL"} {
		if strings.Contains(strings.ToUpper(name), word) {
			return true
		}
	}
	return false
}

func readSecret(path, dir string) (string, *expansion) {
	wrong := func(why string) (string, *expansion) {
		return "", &expansion{reason: fmt.Sprintf("the file %s %s", path, why)}
	}
	if path == "" {
		return "", &expansion{reason: "a ${file:…} names no file"}
	}
	full := path
	if !filepath.IsAbs(full) {
		full = filepath.Join(dir, full)
	}
	// A pipe or a device might never end, or never begin.
	info, err := os.Stat(full)
	if err != nil {
		return wrong("cannot be read")
	}
	if !info.Mode().IsRegular() {
		return wrong("is not a regular file")
	}
	f, err := os.Open(full)
	if err != nil {
		return wrong("cannot be read")
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	if err != nil {
		return wrong("cannot be read")
	}
	if len(data) > maxSecretFile {
		return wrong("is over 64 KiB")
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r"), nil
}

func variable(name string) bool {
	for i, c := range []byte(name) {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}
