package conf

import (
	"log/slog"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"headway/core"
)

// secret is text that is never shown. It can be sent as a header's value.
func secret(least int) value[core.Secret] {
	return value[core.Secret]{
		schema: func(*core.Secret) object {
			if least > 1 {
				return object{"type": "string", "anyOf": []any{object{"minLength": least}, object{"pattern": referencePattern}}}
			}
			return object{"type": "string", "minLength": least}
		},
		read: func(b *binder, at place, to *core.Secret) bool {
			t, ok := b.text(at, "text", "!!str")
			if !ok {
				return false
			}
			switch n := utf8.RuneCountInString(t.val); {
			case n == 0:
				return b.fail(at, "leave the key out where there is no secret", "is empty")
			case n < least:
				return b.fail(at, "", "has %d characters, want %d or more", n, least)
			case strings.ContainsFunc(t.val, unicode.IsControl):
				return b.fail(at, "", "has a line break or another control character in it")
			case strings.TrimSpace(t.val) != t.val:
				return b.fail(at, "", "begins or ends with a space")
			}
			*to = core.NewSecret(t.val)
			return true
		},
		show: func(s *core.Secret) *yaml.Node {
			if s.Empty() {
				return nil
			}
			return textNode(s.String())
		},
	}
}

// folder is a path, read as relative to the file's own folder.
func folder() value[string] {
	return value[string]{
		schema: func(def *string) object {
			s := object{"type": "string", "minLength": 1}
			if def != nil && *def != "" {
				s["default"] = "./" + *def
			}
			return s
		},
		read: func(b *binder, at place, to *string) bool {
			t, ok := b.text(at, "a path", "!!str")
			switch {
			case !ok:
				return false
			case t.val == "":
				return b.fail(at, "", "is empty")
			case t.val == "~" || strings.HasPrefix(t.val, "~/"):
				return b.fail(at, "write ${HOME} for it", "~ is not expanded")
			case strings.ContainsRune(t.val, 0):
				return b.fail(at, "", "has a control character in it")
			}
			*to = t.val
			if !filepath.IsAbs(t.val) {
				*to = filepath.Join(b.dir, t.val)
			}
			return true
		},
		show: func(s *string) *yaml.Node {
			if *s == "" {
				return nil
			}
			return textNode(*s)
		},
	}
}

// level is how much is logged.
func level() value[slog.Level] {
	words := []string{"debug", "info", "warn", "error"}
	v := choice[string]("log level", words)
	return value[slog.Level]{
		schema: func(def *slog.Level) object {
			if def == nil {
				return v.schema(nil)
			}
			s := strings.ToLower(def.String())
			return v.schema(&s)
		},
		read: func(b *binder, at place, to *slog.Level) bool {
			var s string
			return v.read(b, at, &s) && to.UnmarshalText([]byte(s)) == nil
		},
		show: func(l *slog.Level) *yaml.Node { return textNode(strings.ToLower(l.String())) },
	}
}
