package conf_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"headway/conf"
	"headway/core"
)

// env are the variables that the test files may use.
func env(name string) (string, bool) {
	v, ok := map[string]string{
		"CI_KEY": "0123456789-hunter2-ci", "FAST_KEY": "sk-hunter2-fast", "EMPTY": "", "B": "b",
		"OPENAI_API_KEY": "sk-hunter2-openai", "ANTHROPIC_API_KEY": "sk-hunter2-anthropic", "GEMINI_API_KEY": "sk-hunter2-gemini",
		"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "sk-hunter2-aws", "AWS_SESSION_TOKEN": "sk-hunter2-session",
		"GOOGLE_CLOUD_PROJECT": "example-project",
		"HOME":                 "/home/someone", "MIB": "8", "YES": "true", "PRICE": "1.5", "URL": "https://api.example.com/v1/",
	}[name]
	return v, ok
}

// TestBadFiles holds each file, which has one mistake, against the exact
// messages in the comments at its top: "# want:" for each problem, "# hint:"
// for the first one's hint, and "# schema: refuses" where the JSON Schema
// finds it too.
func TestBadFiles(t *testing.T) {
	schema := compile(t)
	for _, path := range glob(t, "*.bad.yaml") {
		name := strings.TrimSuffix(filepath.Base(path), ".bad.yaml")
		t.Run(name, func(t *testing.T) {
			data := read(t, path)
			want, hint := expected(data)
			switch name { // those that cannot hold a comment
			case "empty":
				want, hint = []string{"headway.yaml:1:1: is empty"}, "headway init writes a file to start from"
			case "utf16":
				want = []string{"headway.yaml:1:1: is not UTF-8"}
			}
			_, err := conf.Load(path, env)
			var problems conf.Problems
			if !errors.As(err, &problems) {
				t.Fatalf("got %v, want Problems", err)
			}
			got := strings.ReplaceAll(problems.Error(), path, "headway.yaml")
			if got != strings.Join(want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
			}
			if problems[0].Hint != hint {
				t.Errorf("got the hint %q, want %q", problems[0].Hint, hint)
			}
			var e *core.Error
			if !errors.As(err, &e) || e.Kind != core.Invalid || e.Msg != problems.Error() || e.Hint != hint {
				t.Errorf("as a core.Error: %+v", e)
			}
			for _, p := range problems {
				if strings.Contains(p.Reason+p.Hint+p.Path, "hunter2") {
					t.Errorf("the secret is shown: %+v", p)
				}
			}
			if v, ok := plainYAML(data); ok {
				refuses := schema.Validate(v) != nil
				if says := bytes.Contains(data, []byte("# schema: refuses\n")); refuses != says {
					t.Errorf("the schema refuses it: %v, but the file says %v", refuses, says)
				}
			}
		})
	}
}

func TestGoodFiles(t *testing.T) {
	schema := compile(t)
	paths := append(glob(t, "*.good.yaml"), "headway.yaml")
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			f, err := conf.Load(path, env)
			if err != nil {
				t.Fatal(err)
			}
			v, ok := plainYAML(read(t, path))
			if !ok {
				t.Fatal("it is not YAML to the test")
			}
			if err := schema.Validate(v); err != nil {
				t.Error(err)
			}
			shown := conf.Show(f)
			if bytes.Contains(shown, []byte("hunter2")) {
				t.Errorf("a secret is shown:\n%s", shown)
			}
			again := reload(t, shown)
			if again := conf.Show(again); !bytes.Equal(shown, again) {
				t.Errorf("what is shown reads as something else:\n%s\nthen\n%s", shown, again)
			}
			if fmt.Sprint(f.Settings, f.NATS, f.CORS, f.LogLevel, f.LogFileBytes, f.Scripts) !=
				fmt.Sprint(again.Settings, again.NATS, again.CORS, again.LogLevel, again.LogFileBytes, again.Scripts) {
				t.Errorf("the settings that are shown read as others")
			}
			for i, o := range f.Offers {
				o, p, other := *o, *o.Provider, *again.Offers[i]
				q := *other.Provider
				o.Provider, other.Provider = nil, nil
				p.APIKey, q.APIKey, p.Headers, q.Headers = core.Secret{}, core.Secret{}, nil, nil
				if fmt.Sprintf("%+v %+v", o, p) != fmt.Sprintf("%+v %+v", other, q) {
					t.Errorf("the offer %s reads as another: %+v, %+v", o.ID, o, other)
				}
			}
		})
	}
}

// reload reads a shown file, with a text of its own for each secret.
func reload(t *testing.T, shown []byte) *conf.File {
	t.Helper()
	parts := strings.Split(string(shown), "'***'")
	var s strings.Builder
	for i, p := range parts {
		s.WriteString(p)
		if i < len(parts)-1 {
			fmt.Fprintf(&s, "'secret-number-%08d'", i)
		}
	}
	f, err := conf.Parse("headway.yaml", []byte(s.String()), nil)
	if err != nil {
		t.Fatalf("what is shown does not load: %v\n%s", err, shown)
	}
	return f
}

func expected(data []byte) (want []string, hint string) {
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\r\n")
		if w, ok := strings.CutPrefix(line, "# want: "); ok {
			want = append(want, w)
		} else if h, ok := strings.CutPrefix(line, "# hint: "); ok {
			hint = h
		}
	}
	return want, hint
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", "testdata", "conf", pattern))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no file is %s: %v", pattern, err)
	}
	return paths
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func compile(t *testing.T) *jsonschema.Schema {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(conf.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("headway.schema.json", v); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("headway.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// plainYAML is a file as an editor hands it to a schema; false where it is no
// single YAML document.
func plainYAML(data []byte) (any, bool) {
	var doc yaml.Node
	if err := yaml.Load(data, &doc); err != nil || len(doc.Content) != 1 || !utf8.Valid(data) || bytes.Contains(data, []byte("&")) {
		return nil, false
	}
	return plain(doc.Content[0]), true
}

func plain(n *yaml.Node) any {
	switch {
	case n.Kind == yaml.SequenceNode:
		list := []any{}
		for _, c := range n.Content {
			list = append(list, plain(c))
		}
		return list
	case n.Kind == yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i < len(n.Content); i += 2 {
			m[n.Content[i].Value] = plain(n.Content[i+1])
		}
		return m
	case slices.Contains([]string{"!!int", "!!float", "!!bool", "!!null"}, n.Tag):
		var v any
		if n.Load(&v) != nil {
			return n.Value
		}
		if f, ok := v.(float64); ok && f != f {
			return n.Value // JSON has no NaN
		}
		if _, err := json.Marshal(v); err == nil && n.Tag != "!!null" && n.Tag != "!!bool" {
			return json.Number(fmt.Sprint(v))
		}
		return v
	}
	return n.Value
}
