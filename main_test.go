package main

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mayImport is the import rule of ARCHITECTURE §2: what of the module a package
// may use besides headway/core.
var mayImport = map[string][]string{
	"headway":                {"*"},
	"headway/core":           {},
	"headway/core/measure":   {},
	"headway/core/relay":     {},
	"headway/core/ledger":    {},
	"headway/core/estimate":  {"headway/core/measure"},
	"headway/core/prices":    {},
	"headway/core/seal":      {},
	"headway/core/market":    {"headway/core/measure", "headway/core/estimate"},
	"headway/core/fleet":     {"headway/core/measure", "headway/core/relay"},
	"headway/core/gateway":   {"headway/core/market", "headway/core/measure", "headway/core/relay", "headway/core/ledger", "headway/core/estimate"},
	"headway/core/control":   {"headway/core/gateway", "headway/core/market", "headway/core/measure", "headway/core/ledger", "headway/core/estimate", "headway/core/seal"},
	"headway/core/command":   {"*"},
	"headway/adapters":       {},
	"headway/conf":           {"headway/core/seal"},
	"headway/scripts":        {},
	"headway/embedded/bus":   {},
	"headway/embedded/store": {},
	"headway/embedded/sim":   {},
}

// onlyIn says which packages alone may use a library.
var onlyIn = map[string][]string{
	"github.com/aws/":             {"headway/adapters"},
	"github.com/dgraph-io/badger": {"headway/embedded/store"},
	"github.com/urfave/cli":       {"headway", "headway/core/command"},
	"github.com/dop251/goja":      {"headway/scripts"},
	"github.com/nats-io/":         {"headway/embedded/bus"},
	"go.yaml.in/yaml":             {"headway/conf"},
	"golang.org/x/mod":            {"headway/core/seal"},
	"golang.org/x/oauth2":         {"headway/adapters"},
}

type listed struct {
	ImportPath, Dir, Doc string
	GoFiles, Imports     []string
}

func packages(t *testing.T) (all []listed) {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Dir,Doc,GoFiles,Imports", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func TestImports(t *testing.T) {
	for _, p := range packages(t) {
		may, known := mayImport[p.ImportPath]
		if !known {
			t.Errorf("%s: a new package must be added to the import rule, with its reason in ARCHITECTURE.md", p.ImportPath)
			continue
		}
		if p.Doc == "" {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
		for _, i := range p.Imports {
			if p.ImportPath == "headway/core" && strings.Contains(strings.Split(i, "/")[0], ".") {
				t.Errorf("headway/core imports %s: it may use the standard library alone", i)
			}
			if strings.HasPrefix(i, "headway") && i != "headway/core" && !slices.Contains(may, i) && !slices.Contains(may, "*") {
				t.Errorf("%s imports %s: arrows point from main to core (ARCHITECTURE §2)", p.ImportPath, i)
			}
			for lib, in := range onlyIn {
				if strings.HasPrefix(i, lib) && !slices.Contains(in, p.ImportPath) {
					t.Errorf("%s imports %s: only %v may", p.ImportPath, i, in)
				}
			}
		}
	}
}

// starts are the files in which a goroutine may be started: by a Run that main
// runs, or joined before the function that starts it returns. Those of the bus end with
// its Close. A script that cannot be stopped is left behind, two rankings of it at most.
var starts = []string{"main.go", "core/command/history.go", "embedded/bus/admit.go", "embedded/bus/server.go", "scripts/check.go", "scripts/run.go"}

func TestShape(t *testing.T) {
	for _, p := range packages(t) {
		for _, name := range p.GoFiles {
			path := filepath.Join(p.Dir, name)
			rel, err := filepath.Rel(".", strings.TrimPrefix(path, mustWD(t)+"/"))
			if err != nil {
				t.Fatal(err)
			}
			files := token.NewFileSet()
			f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncDecl:
					if n.Name.Name == "init" && n.Recv == nil {
						t.Errorf("%s: init() hides what happens at start", files.Position(n.Pos()))
					}
				case *ast.GoStmt:
					if !slices.Contains(starts, filepath.ToSlash(rel)) {
						t.Errorf("%s: a goroutine is started by a Run that main runs, or joined before the function returns (ARCHITECTURE §7)", files.Position(n.Pos()))
					}
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && n.Sel.Name == "Now" && rel != "main.go" {
						t.Errorf("%s: time.Now: take a core.Clock", files.Position(n.Pos()))
					}
				}
				return true
			})
		}
	}
}

func mustWD(t *testing.T) string {
	t.Helper()
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return wd
}

// TestTopLevel keeps the top of the repository to what a newcomer expects there.
func TestTopLevel(t *testing.T) {
	allowed := []string{"main.go", "main_test.go", "go.mod", "go.sum", "core", "adapters", "scripts", "embedded", "conf", "testdata",
		"README.md", "ARCHITECTURE.md", "CHANGELOG.md", "LICENSE"}
	out, err := exec.Command("git", "ls-files").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range strings.Fields(string(out)) {
		if top, _, _ := strings.Cut(f, "/"); !slices.Contains(allowed, top) && !strings.HasPrefix(top, ".") {
			t.Errorf("%s does not belong at the top", top)
		}
	}
}

// TestBadgerFloor holds the version below which dropped prefixes lose
// acknowledged writes and deleted keys come back.
func TestBadgerFloor(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`dgraph-io/badger/v4 v4\.(\d+)\.(\d+)`).FindStringSubmatch(string(mod))
	if m == nil || m[1] < "9" || m[1] == "9" && m[2] < "4" {
		t.Errorf("Badger must be at least v4.9.4, go.mod has %v", m)
	}
}

// TestLinks: every file that a document names is there.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)[^)]*\)`)
	program := regexp.MustCompile("(?ms)^```.*?^```") // may have what looks like one
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != "." {
			return fs.SkipDir
		}
		if filepath.Ext(path) != ".md" || strings.HasPrefix(path, "testdata") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range link.FindAllStringSubmatch(program.ReplaceAllString(string(text), ""), -1) {
			if m[1] == "https" {
				continue // of elsewhere
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), m[1])); err != nil {
				t.Errorf("%s names %s, which is not there", path, m[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
