package scripts

import (
	"bytes"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/dop251/goja"
	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/file"
	"github.com/dop251/goja/parser"
	"github.com/dop251/goja/token"
	"github.com/dop251/goja/unistring"

	"headway/core"
)

// What a source may be. The parser and the compiler recurse, and cannot be
// stopped: these keep both within milliseconds and a few MiB of stack.
const (
	longestSource = 256 << 10
	deepest       = 200 // brackets, and nodes of the tree
	mostArrows    = 1000
	deepArrows    = 8    // round brackets around an arrow: each is read twice where it is an arrow's own
	mostColons    = 5000 // a label is compared with each that it is within, as it is read
	mostParts     = 32   // of one template
	// checkTime is for what the counts above do not see, on a busy machine.
	checkTime = 5 * time.Second
)

// checked is a source that may run.
type checked struct {
	program *goja.Program
	uses    map[string]bool // the guards in it
	kinds   map[string]bool // the global objects it mentions that have built-ins
	caps    []string        // the names in it by which it can reach a built-in that install bounds
	line    int             // of score
}

// check reads a source, refuses what cannot be stopped or bounded while it runs,
// and puts guards (guards.go) where texts, lists and names of properties are made.
//
// A script has no way to the global object: it is strict, this at its top is
// refused, and so is the name globalThis. What it can reach of the global names is
// therefore what its text mentions.
//
// A source that takes longer than checkTime to be read is refused; its reading goes
// on to its end, as nothing can stop it.
func check(name string, source []byte) (*checked, *core.ScriptError) {
	if err := shallow(name, source); err != nil {
		return nil, err
	}
	type result struct {
		ok    *checked
		wrong *core.ScriptError
	}
	read := make(chan result, 1)
	go func() {
		ok, wrong := parse(name, source)
		read <- result{ok, wrong}
	}()
	limit := time.NewTimer(checkTime)
	defer limit.Stop()
	select {
	case r := <-read:
		return r.ok, r.wrong
	case <-limit.C:
		return nil, &core.ScriptError{Script: name, Msg: "it takes longer than " + checkTime.String() + " to be read: nest less in it"}
	}
}

// parse is check without its limits of size and time.
func parse(name string, source []byte) (ok *checked, wrong *core.ScriptError) {
	defer func() {
		if recover() != nil { // goja's parser and compiler panic at some nonsense
			ok, wrong = nil, &core.ScriptError{Script: name, Msg: "syntax: it is no JavaScript that can be read"}
		}
	}()
	tree, err := parser.ParseFile(nil, name, string(source), 0, parser.WithDisableSourceMaps)
	if err != nil {
		if list, ok := err.(parser.ErrorList); ok && len(list) > 0 {
			return nil, &core.ScriptError{Script: name, Line: list[0].Position.Line, Msg: "syntax: " + strings.TrimSpace(list[0].Message)}
		}
		return nil, &core.ScriptError{Script: name, Msg: "syntax: " + err.Error()}
	}
	c := &checker{file: tree.File, script: name, seen: map[any]bool{},
		checked: checked{uses: map[string]bool{}, kinds: map[string]bool{}}}
	for i := range tree.Body {
		c.walk(reflect.ValueOf(&tree.Body[i]).Elem(), 0)
	}
	for i := range tree.DeclarationList {
		c.walk(reflect.ValueOf(&tree.DeclarationList[i]).Elem(), 0)
	}
	if c.wrong != nil {
		return nil, c.wrong
	}
	program, err := goja.CompileAST(tree, true)
	if err != nil {
		e := &core.ScriptError{Script: name, Msg: "syntax: " + err.Error()}
		if x, ok := err.(*goja.CompilerSyntaxError); ok {
			e.Msg = "syntax: " + x.Message
			if x.File != nil {
				e.Line = x.File.Position(x.Offset).Line
			}
		}
		return nil, e
	}
	c.program = program
	return &c.checked, nil
}

// shallow counts brackets without reading what they are in, texts and comments
// included: the parser must not be asked to find that out.
func shallow(name string, source []byte) *core.ScriptError {
	wrong := func(at int, msg string) *core.ScriptError {
		return &core.ScriptError{Script: name, Line: 1 + bytes.Count(source[:at], []byte("\n")), Msg: msg}
	}
	if len(source) > longestSource {
		return &core.ScriptError{Script: name, Msg: "the file is larger than 256 KiB"}
	}
	if i := bytes.IndexByte(source, 0); i >= 0 {
		return wrong(i, "there is a zero byte in it")
	}
	depth, round, arrows, colons := 0, 0, 0, 0
	for i, c := range source {
		switch c {
		case '(':
			round++
		case ')':
			round = max(round-1, 0)
		}
		switch c {
		case '(', '[', '{':
			if depth++; depth > deepest {
				return wrong(i, "brackets are nested more than 200 deep")
			}
		case ')', ']', '}':
			depth = max(depth-1, 0)
		case ':':
			if colons++; colons > mostColons {
				return wrong(i, "there are more than 5000 colons")
			}
		case '>':
			if i > 0 && source[i-1] == '=' {
				if arrows++; arrows > mostArrows {
					return wrong(i, "there are more than 1000 arrow functions")
				}
				if round > deepArrows {
					return wrong(i, "an arrow function is more than 8 round brackets deep")
				}
			}
		}
	}
	return nil
}

// checker walks a tree once, by reflection: what it looks for may be in any field
// of any node.
type checker struct {
	checked
	file   *file.File
	script string
	seen   map[any]bool
	own    int // functions and classes around, which have a this of their own
	wrong  *core.ScriptError
}

func (c *checker) lineOf(at file.Idx) int { return c.file.Position(int(at) - c.file.Base()).Line }

// refuse keeps the first fault.
func (c *checker) refuse(at file.Idx, msg string) {
	line := c.lineOf(at)
	if c.wrong == nil || c.wrong.Line > line {
		c.wrong = &core.ScriptError{Script: c.script, Line: line, Msg: msg}
	}
}

// walk looks at what a value holds, then puts guards around it.
func (c *checker) walk(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Interface:
		if v.IsNil() {
			return
		}
		c.walk(v.Elem(), depth)
		if x, ok := v.Interface().(ast.Expression); ok && v.CanSet() && c.wrong == nil {
			if guarded := c.guard(x); guarded != x {
				v.Set(reflect.ValueOf(guarded))
			}
		}
	case reflect.Pointer:
		if v.IsNil() || c.seen[v.Interface()] {
			return
		}
		node, ok := v.Interface().(ast.Node)
		if !ok {
			if v.Type() == reflect.TypeFor[*file.File]() || v.Type() == reflect.TypeFor[*big.Int]() {
				return
			}
			c.walk(v.Elem(), depth)
			return
		}
		c.seen[v.Interface()] = true
		if depth++; depth > deepest {
			c.refuse(node.Idx0(), "it is nested or chained more than 200 deep here")
			return
		}
		c.enter(node)
		switch n := node.(type) {
		case *ast.FunctionLiteral, *ast.ClassStaticBlock:
			c.own++
			c.walk(v.Elem(), depth)
			c.own--
		case *ast.FieldDefinition:
			c.walk(reflect.ValueOf(&n.Key).Elem(), depth)
			c.own++
			c.walk(reflect.ValueOf(&n.Initializer).Elem(), depth)
			c.own--
		default:
			c.walk(v.Elem(), depth)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			c.walk(v.Field(i), depth)
		}
	case reflect.Slice:
		for i := range v.Len() {
			c.walk(v.Index(i), depth)
		}
	}
}

// enter refuses a node, or notes what it mentions.
func (c *checker) enter(node ast.Node) {
	at := node.Idx0
	switch n := node.(type) {
	case *ast.RegExpLiteral:
		c.refuse(at(), "regular expressions cannot be stopped: a script has none")
	case *ast.NumberLiteral:
		if _, big := n.Value.(*big.Int); big {
			c.refuse(at(), "a BigInt grows without bound: a script has none")
		}
	case *ast.StringLiteral:
		c.mention(n.Value.String())
	case *ast.DotExpression:
		c.mention(n.Identifier.Name.String())
		c.reads(n.Identifier.Idx, n.Identifier.Name.String())
		c.dateIn(n.Left)
	case *ast.BracketExpression:
		if s, ok := n.Member.(*ast.StringLiteral); ok {
			c.reads(s.Idx, s.Value.String())
		}
		c.dateIn(n.Left)
	case *ast.CatchStatement: // an error, also one of goja's own
		c.mention("message")
		switch caught := n.Parameter.(type) {
		case nil:
		case *ast.Identifier:
			n.Body.List = append([]ast.Statement{&ast.ExpressionStatement{Expression: c.call(guardCaught, &ast.Identifier{Name: caught.Name, Idx: caught.Idx})}}, n.Body.List...)
		default:
			c.refuse(caught.Idx0(), "what is caught has one name in a script")
		}
	case *ast.PropertyShort:
		c.mention(n.Name.Name.String())
		c.name(n.Name.Idx, n.Name.Name.String())
	case *ast.Identifier:
		c.name(n.Idx, n.Name.String())
	case *ast.ThisExpression:
		if c.own == 0 {
			c.refuse(at(), "this is nothing at the top of a script")
		}
	case *ast.Binding:
		if id, ok := n.Target.(*ast.Identifier); ok && id.Name == "score" && c.own == 0 {
			c.line = c.lineOf(id.Idx)
		}
	case *ast.FunctionLiteral:
		if n.Name != nil && n.Name.Name == "score" && c.own == 0 {
			c.line = c.lineOf(n.Function)
		}
		if n.Async {
			c.refuse(at(), "a script has no promises: the function cannot be async")
		} else if n.Generator {
			c.refuse(at(), "a script has no generators")
		}
	case *ast.ArrowFunctionLiteral:
		if n.Async {
			c.refuse(at(), "a script has no promises: the function cannot be async")
		}
	case *ast.AwaitExpression:
		c.refuse(at(), "a script has no promises: there is nothing to await")
	case *ast.ForStatement:
		n.Body = c.placed(n.For, n.Body)
	case *ast.WhileStatement:
		n.Body = c.placed(n.While, n.Body)
	case *ast.DoWhileStatement:
		n.Body = c.placed(n.Do, n.Body)
	case *ast.ArrayPattern:
		if n.Rest != nil {
			c.refuse(n.Rest.Idx0(), "the rest of a list is not taken apart like this: use slice")
		}
	case *ast.ObjectPattern:
		if n.Rest != nil {
			c.refuse(n.Rest.Idx0(), "the rest of an object is not taken apart like this: name the fields")
		}
		for _, p := range n.Properties {
			switch k := p.(type) {
			case *ast.PropertyShort:
				c.reads(k.Name.Idx, k.Name.Name.String())
			case *ast.PropertyKeyed:
				if s, ok := k.Key.(*ast.StringLiteral); ok {
					c.reads(s.Idx, s.Value.String())
				}
				if k.Computed {
					k.Key = c.call(guardKey, k.Key)
				}
			}
		}
	case *ast.TemplateLiteral:
		if len(n.Expressions) > mostParts {
			c.refuse(at(), "a template has at most 32 parts")
		}
	case *ast.NewExpression:
		if c.dateIn(n.Callee); isDate(n.Callee) && len(n.ArgumentList) > 0 {
			made := c.call(guardDate, n.ArgumentList[0])
			made.(*ast.CallExpression).ArgumentList = n.ArgumentList
			n.ArgumentList = []ast.Expression{made}
		}
		if id, ok := n.Callee.(*ast.Identifier); ok && onlyNew[id.Name.String()] {
			c.seen[id], c.kinds[id.Name.String()] = true, true
			if len(n.ArgumentList) > 0 {
				if _, spread := n.ArgumentList[0].(*ast.SpreadElement); !spread {
					n.ArgumentList[0] = c.call(guardList, n.ArgumentList[0])
				}
			}
		}
	case *ast.BinaryExpression:
		if id, ok := n.Right.(*ast.Identifier); ok && n.Operator == token.INSTANCEOF && onlyNew[id.Name.String()] {
			c.seen[id] = true
		}
		if n.Operator == token.INSTANCEOF {
			c.dateIn(n.Right)
		}
	case *ast.CallExpression:
		if called := calledName(n.Callee); called != "" {
			if why, gone := removed[called]; gone {
				c.refuse(n.Callee.Idx1()-1, called+why)
			}
		}
	case *ast.ClassLiteral:
		if n.SuperClass != nil {
			c.refuse(at(), "extends"+noInherit)
		}
	case *ast.ObjectLiteral:
		for _, p := range n.Value {
			if k, ok := p.(*ast.PropertyKeyed); ok && !k.Computed {
				if s, ok := k.Key.(*ast.StringLiteral); ok && s.Value == "__proto__" {
					c.refuse(s.Idx, "__proto__"+noInherit)
				}
			}
			if s, ok := p.(*ast.SpreadElement); ok {
				s.Expression = c.call(guardFields, s.Expression)
			}
		}
	case *ast.SpreadElement:
		if !isGuard(n.Expression, guardList) && !isGuard(n.Expression, guardFields) {
			n.Expression = c.call(guardList, n.Expression)
		}
	}
}

// mention notes a name by which a property can be reached.
func (c *checker) mention(name string) {
	if capped(name) && !slices.Contains(c.caps, name) {
		c.caps = append(c.caps, name)
	}
}

// reads refuses a property that a script names and has no use for.
func (c *checker) reads(at file.Idx, name string) {
	if unread[name] {
		c.refuse(at, name+noUse)
	}
}

func isDate(x ast.Expression) bool {
	id, ok := x.(*ast.Identifier)
	return ok && id.Name == "Date"
}

// dateIn lets Date stand where it does.
func (c *checker) dateIn(x ast.Expression) {
	if isDate(x) {
		c.seen[x], c.kinds["Date"] = true, true
	}
}

// name refuses the global names that a script has no use for that could be bounded.
func (c *checker) name(at file.Idx, name string) {
	if why, banned := bannedNames[name]; banned {
		c.refuse(at, name+why)
	} else if onlyNew[name] {
		c.refuse(at, name+" can only stand behind new")
	} else if name == "Date" {
		c.refuse(at, "Date can only stand behind new, or in front of now, parse or UTC")
	} else if strings.HasSuffix(name, "Error") {
		c.mention("message") // of any of them, whatever is set by a computed name
		if name == "Error" {
			c.kinds[name] = true
		}
	} else if slices.Contains(kinds[:], name) {
		c.kinds[name] = true
	}
}

// calledName is the property that a call names; "" where it names none.
func calledName(callee ast.Expression) string {
	switch n := callee.(type) {
	case *ast.DotExpression:
		return n.Identifier.Name.String()
	case *ast.BracketExpression:
		if s, ok := n.Member.(*ast.StringLiteral); ok {
			return s.Value.String()
		}
	case *ast.Optional:
		return calledName(n.Expression)
	case *ast.OptionalChain:
		return calledName(n.Expression)
	}
	return ""
}

// guard gives the expression that takes an expression's place, or itself.
func (c *checker) guard(x ast.Expression) ast.Expression {
	switch n := x.(type) {
	case *ast.BinaryExpression:
		if n.Operator == token.PLUS && !number(n.Left) && !number(n.Right) {
			return c.call(guardText, n)
		}
	case *ast.AssignExpression:
		if n.Operator != token.PLUS || number(n.Right) {
			return x
		}
		if !pure(n.Left) {
			c.refuse(n.Left.Idx0(), "write this as x = x + y")
			return x
		}
		sum := &ast.BinaryExpression{Operator: token.PLUS, Left: n.Left, Right: n.Right}
		return &ast.AssignExpression{Operator: token.ASSIGN, Left: n.Left, Right: c.call(guardText, sum)}
	case *ast.TemplateLiteral:
		if n.Tag == nil && len(n.Expressions) > 0 {
			return c.call(guardText, n)
		}
	case *ast.BracketExpression:
		if _, text := n.Member.(*ast.StringLiteral); !text && !number(n.Member) && !isGuard(n.Member, guardKey) {
			n.Member = c.call(guardKey, n.Member)
		}
	}
	return x
}

// number tells whether an expression is certainly no text and no object.
func number(x ast.Expression) bool {
	switch n := x.(type) {
	case *ast.NumberLiteral, *ast.BooleanLiteral, *ast.NullLiteral:
		return true
	case *ast.UnaryExpression:
		return n.Operator != token.TYPEOF
	case *ast.BinaryExpression:
		switch n.Operator {
		case token.PLUS:
			return number(n.Left) && number(n.Right)
		case token.LOGICAL_AND, token.LOGICAL_OR, token.COALESCE:
			return false
		}
		return true
	case *ast.ConditionalExpression:
		return number(n.Consequent) && number(n.Alternate)
	}
	return false
}

// pure tells whether an expression can be evaluated twice.
func pure(x ast.Expression) bool {
	switch n := x.(type) {
	case *ast.Identifier, *ast.ThisExpression, *ast.NumberLiteral, *ast.StringLiteral:
		return true
	case *ast.DotExpression:
		return pure(n.Left)
	case *ast.PrivateDotExpression:
		return pure(n.Left)
	case *ast.BracketExpression:
		return pure(n.Left) && pure(n.Member)
	case *ast.CallExpression: // a guard's
		id, ok := n.Callee.(*ast.Identifier)
		return ok && id.Name == guardKey && pure(n.ArgumentList[0])
	case *ast.BinaryExpression:
		return pure(n.Left) && pure(n.Right)
	}
	return false
}

// call wraps an expression into the call of a guard, at its own place in the file.
func (c *checker) call(guard unistring.String, x ast.Expression) ast.Expression {
	id := &ast.Identifier{Name: guard, Idx: x.Idx0()}
	c.seen[id], c.uses[string(guard)] = true, true
	return &ast.CallExpression{Callee: id, LeftParenthesis: x.Idx0(), ArgumentList: []ast.Expression{x}, RightParenthesis: x.Idx0()}
}

func isGuard(x ast.Expression, guard unistring.String) bool {
	call, ok := x.(*ast.CallExpression)
	if !ok {
		return false
	}
	id, ok := call.Callee.(*ast.Identifier)
	return ok && id.Name == guard
}

// placed gives a loop that has no step with a place in the file such a step, so that
// its line is known when it is stopped there.
func (c *checker) placed(loop file.Idx, body ast.Statement) ast.Statement {
	if stands(reflect.ValueOf(body), 0) {
		return body
	}
	step := &ast.ExpressionStatement{Expression: &ast.Identifier{Name: "undefined", Idx: loop}}
	return &ast.BlockStatement{LeftBrace: loop, List: []ast.Statement{step, body}, RightBrace: loop}
}

// stands tells whether there is something in a statement that the compiler notes the
// place of.
func stands(v reflect.Value, depth int) bool {
	if depth > 4*deepest {
		return true // walk refuses it
	}
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() || v.Type() == reflect.TypeFor[*file.File]() {
			return false
		}
		switch v.Interface().(type) {
		case *ast.CallExpression, *ast.DotExpression, *ast.BracketExpression, *ast.NewExpression, *ast.ThrowStatement:
			return true
		case *ast.FunctionLiteral, *ast.ArrowFunctionLiteral, *ast.ClassLiteral, *big.Int:
			return false
		}
		return stands(v.Elem(), depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			if stands(v.Field(i), depth+1) {
				return true
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if stands(v.Index(i), depth+1) {
				return true
			}
		}
	}
	return false
}
