package command_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// secretName matches the last name of an expression that holds a credential.
var secretName = regexp.MustCompile(`(?i)(secret|password|passphrase|bearer|credential|api_?key|csrf|reveal|presented)$|^(admin|csrf|session|auth|access|join|node|got|want|given)?_?token$`)

// plainComparers are the functions that stop at the first wrong byte.
var plainComparers = []string{
	"bytes.Equal", "bytes.Compare", "bytes.HasPrefix", "strings.Compare", "strings.EqualFold", "strings.HasPrefix",
	"slices.Equal", "slices.Contains", "reflect.DeepEqual",
}

// notFromCallers are the functions whose two operands are both the operator's
// own: what a reload changed is no check of a caller's credential.
var notFromCallers = []string{"sameCredential"}

// plainCompares lists the places in the product's sources, below root, where a
// credential is compared byte by byte or looked up as it is (case 065).
func plainCompares(root string) ([]string, error) {
	var found []string
	err := sources(root, func(files *token.FileSet, f *ast.File) {
		found = append(found, plainComparesOf(files, f)...)
	})
	return found, err
}

// sources parses each Go file of the module that is not a test.
func sources(root string, visit func(*token.FileSet, *ast.File)) error {
	files := token.NewFileSet()
	return filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != root && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
		if err == nil {
			visit(files, f)
		}
		return err
	})
}

func plainComparesOf(files *token.FileSet, f *ast.File) []string {
	var found []string
	add := func(n ast.Node, what string) {
		found = append(found, fmt.Sprintf("%s: %s", files.Position(n.Pos()), what))
	}
	packages := map[string]bool{}
	for _, imp := range f.Imports {
		packages[path.Base(strings.Trim(imp.Path.Value, `"`))] = true
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			return !slices.Contains(notFromCallers, n.Name.Name)
		case *ast.BinaryExpr:
			if (n.Op == token.EQL || n.Op == token.NEQ) && comparesSecret(n.X, n.Y) {
				add(n, "a credential is compared with "+n.Op.String())
			}
		case *ast.CallExpr:
			if slices.Contains(plainComparers, calledName(n)) && len(n.Args) == 2 && comparesSecret(n.Args[0], n.Args[1]) {
				add(n, "a credential is compared with "+calledName(n))
			}
		case *ast.IndexExpr:
			if isSecret(n.Index) && !isType(n.Index, packages) {
				add(n, "a credential is looked up as it is")
			}
		}
		return true
	})
	return found
}

// comparesSecret tells whether two operands are a credential and something that
// is not written in the source: a comparison with "" or nil tells nothing.
func comparesSecret(x, y ast.Expr) bool {
	return (isSecret(x) || isSecret(y)) && !isConstant(x) && !isConstant(y)
}

// isSecret goes by the last name of an expression, through conversions and slices.
func isSecret(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return secretName.MatchString(e.Name)
	case *ast.SelectorExpr:
		return secretName.MatchString(e.Sel.Name)
	case *ast.ParenExpr:
		return isSecret(e.X)
	case *ast.StarExpr:
		return isSecret(e.X)
	case *ast.SliceExpr:
		return isSecret(e.X)
	case *ast.CallExpr:
		if isConversion(e) {
			return isSecret(e.Args[0])
		}
		return isSecret(e.Fun)
	}
	return false
}

// isType tells a type argument from an index: Credential, core.Secret.
func isType(e ast.Expr, packages map[string]bool) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return e.IsExported()
	case *ast.SelectorExpr:
		pkg, ok := e.X.(*ast.Ident)
		return ok && packages[pkg.Name]
	}
	return false
}

func isConversion(e *ast.CallExpr) bool {
	if len(e.Args) != 1 {
		return false
	}
	if id, ok := e.Fun.(*ast.Ident); ok {
		return id.Name == "string"
	}
	_, ok := e.Fun.(*ast.ArrayType)
	return ok
}

func isConstant(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return true
	case *ast.Ident:
		return e.Name == "nil" || e.Name == "true" || e.Name == "false"
	case *ast.CallExpr:
		return calledName(e) == "json.Delim"
	case *ast.SelectorExpr: // the names of package go/token
		pkg, ok := e.X.(*ast.Ident)
		return ok && pkg.Name == "token"
	}
	return false
}

// calledName is the called function as it is written: "hmac.New".
func calledName(e *ast.CallExpr) string {
	if sel, ok := e.Fun.(*ast.SelectorExpr); ok {
		if pkg, ok := sel.X.(*ast.Ident); ok {
			return pkg.Name + "." + sel.Sel.Name
		}
	}
	return ""
}

// TestCredentialsAreHashedAndComparedInConstantTime is the positive half of case
// 065: keys are kept as a keyed hash, the admin token is compared in constant
// time.
func TestCredentialsAreHashedAndComparedInConstantTime(t *testing.T) {
	called := map[string]bool{}
	err := sources(moduleRoot, func(_ *token.FileSet, f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				called[calledName(call)] = true
			}
			return true
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if !called["hmac.New"] {
		t.Error("no source calls hmac.New: keys must be kept and looked up as a keyed hash")
	}
	if !called["subtle.ConstantTimeCompare"] && !called["hmac.Equal"] {
		t.Error("no source calls subtle.ConstantTimeCompare or hmac.Equal: the admin token must be compared in constant time")
	}
}
