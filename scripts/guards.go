package scripts

import (
	"reflect"
	"strconv"
	"strings"

	"github.com/dop251/goja"
	"github.com/dop251/goja/unistring"
)

// The guards that check puts into a script are global functions whose names no
// source can spell, and which nothing can replace.
const (
	guardText   unistring.String = " text"   // what + or a template has made
	guardList   unistring.String = " list"   // what a spread or a constructor goes through
	guardFields unistring.String = " fields" // an object that is spread
	guardKey    unistring.String = " key"    // a computed name of a property
	guardDate   unistring.String = " date"   // what a Date is made of
	guardCaught unistring.String = " caught" // what a catch has caught
)

// native is a built-in function.
type native = func(goja.FunctionCall) goja.Value

// guards puts the guards in place.
func (r *run) guards() {
	if len(r.uses) == 0 {
		return
	}
	for name, f := range map[unistring.String]native{
		guardText: func(c goja.FunctionCall) goja.Value {
			if t, ok := c.Argument(0).(goja.String); ok && t.Length() > mostText {
				r.tooLong()
			}
			return c.Argument(0)
		},
		guardList:   func(c goja.FunctionCall) goja.Value { return r.walkable(c.Argument(0)) },
		guardDate:   r.moment,
		guardCaught: func(c goja.FunctionCall) goja.Value { r.caught(c.Argument(0)); return goja.Undefined() },
		guardFields: func(c goja.FunctionCall) goja.Value { r.fields(c.Argument(0)); return c.Argument(0) },
		guardKey: func(c goja.FunctionCall) goja.Value {
			v := c.Argument(0)
			if o, ok := v.(*goja.Object); ok {
				v = o.ToString()
			}
			if t, ok := v.(goja.String); ok && t.Length() < 32 {
				switch name := t.String(); {
				case unread[name]:
					panic(r.vm.NewTypeError(name + noUse))
				case capped(name):
					r.install(name)
				}
			}
			return v
		},
	} {
		if r.uses[string(name)] {
			_ = r.vm.GlobalObject().DefineDataProperty(string(name), r.vm.ToValue(f), goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_FALSE)
		}
	}
}

// What goja says of an object that is neither a text nor a number holds addresses of
// this process's memory, which are never the same: this is said in its place.
const (
	noPrimitive = "Could not convert "
	noText      = "an object cannot be made a text or a number"
)

// caught puts a fixed message in the place of one of goja's that is never the same.
func (r *run) caught(v goja.Value) {
	o, ok := v.(*goja.Object)
	if !ok || o.ClassName() != "Error" {
		return
	}
	if m, ok := o.Get("message").(goja.String); ok && strings.HasPrefix(m.String(), noPrimitive) {
		_ = o.Set("message", noText)
	}
}

// poll ends a built-in's work once the script has been stopped.
func (r *run) poll() {
	if r.stopped.Load() {
		panic(r.vm.NewTypeError("stopped"))
	}
}

// enter begins the work of a built-in. One that calls another without a step of the
// script between, as when it is an object's toString, goes on for ever without this,
// until no stack is left, and the process with it.
func (r *run) enter() {
	r.poll()
	if r.depth >= callDepth {
		panic(r.vm.NewTypeError("built-in functions call one another more than %d deep", callDepth))
	}
	r.depth++
}

func (r *run) leave() { r.depth-- }

func (r *run) tooLong() { panic(r.vm.NewTypeError("a text of more than %d characters", mostText)) }

func (r *run) tooMany(what string) {
	panic(r.vm.NewTypeError("%s of more than %d", what, mostItems))
}

// short is a value as a text that built-ins may work on.
func (r *run) short(v goja.Value) goja.String {
	r.poll()
	if o, ok := v.(*goja.Object); ok {
		v = o.ToString()
	}
	t, ok := v.(goja.String)
	if !ok { // goja leaves numbers as they are
		t, _ = r.vm.ToValue(v.String()).(goja.String)
	}
	if t.Length() > mostText {
		r.tooLong()
	}
	return t
}

// list demands a list that built-ins may walk, and says how long it is.
func (r *run) list(v goja.Value) int64 {
	r.poll()
	o, ok := v.(*goja.Object)
	if !ok || o.ClassName() != "Array" {
		panic(r.vm.NewTypeError("this works on lists alone, in a script"))
	}
	n := o.Get("length").ToInteger()
	if n > mostItems {
		r.tooMany("a list")
	}
	return n
}

var (
	typeMap = reflect.TypeFor[[][2]any]()
	typeSet = reflect.TypeFor[[]any]()
)

// walkable demands what may be gone through natively: a list, a text, a Map or a Set,
// or nothing. Anything else could go on for ever without a step of the script. A list
// is given as a copy: the engine asks how long it is at each step, and nobody else has
// the copy, to make it longer meanwhile.
func (r *run) walkable(v goja.Value) goja.Value {
	switch v := v.(type) {
	case goja.String:
		return r.short(v)
	case *goja.Object:
		if t := v.ExportType(); v.ClassName() == "Object" && (t == typeMap || t == typeSet) {
			r.poll()
			return v
		}
		return r.copyOf(v)
	}
	return v
}

// copyOf is a list with what another one has.
func (r *run) copyOf(v goja.Value) *goja.Object {
	n := r.list(v)
	return r.items(v.(*goja.Object), n)
}

// items is a list of the first n elements of what is one, or like one. What gets it, as
// Math.max does, may read each text as a number, again and again where it compares.
func (r *run) items(o *goja.Object, n int64) *goja.Object {
	out, size := make([]any, max(n, 0)), 0
	for i := range out {
		r.poll()
		v := o.Get(strconv.Itoa(i))
		switch t := v.(type) {
		case nil:
			v = goja.Undefined()
		case goja.String:
			if size += t.Length(); size > mostListed {
				panic(r.vm.NewTypeError("a list of more than %d characters", mostListed))
			}
		}
		out[i] = v
	}
	return r.vm.NewArray(out...)
}

// fields demands an object whose fields built-ins may walk, and says how many they
// are.
func (r *run) fields(v goja.Value) (n int) {
	switch v := v.(type) {
	case goja.String:
		if n = v.Length(); n > mostItems {
			r.tooLong()
		}
	case *goja.Object:
		r.poll()
		if v.ClassName() == "Array" {
			return int(r.list(v))
		}
		if n = len(v.Keys()); n > mostItems {
			r.tooMany("an object with fields")
		}
	}
	return n
}

// part is a property of an error as a text.
func (r *run) part(e *goja.Object, name, other string) string {
	v := e.Get(name)
	if v == nil || goja.IsUndefined(v) {
		return other
	}
	return r.short(v).String()
}

// listed makes a list of what an iterator of a list would give.
func (r *run) listed(v goja.Value, what string) goja.Value {
	r.list(v)
	o := v.(*goja.Object)
	out := make([]any, o.Get("length").ToInteger())
	for i := range out {
		value := o.Get(strconv.Itoa(i))
		if value == nil {
			value = goja.Undefined()
		}
		switch what {
		case "keys":
			out[i] = i
		case "values":
			out[i] = value
		default:
			out[i] = r.vm.NewArray(i, value)
		}
	}
	return r.vm.NewArray(out...)
}

// drain makes a list of what a Map's or a Set's iterator gives.
func (r *run) drain(iterator goja.Value) goja.Value {
	var out []any
	r.vm.ForOf(iterator, func(v goja.Value) bool {
		r.poll()
		if out = append(out, v); len(out) > mostItems {
			r.tooMany("a list")
		}
		return true
	})
	return r.vm.NewArray(out...)
}

// copied is what Array.from may go through: a list of its own of what it is given,
// also of what is only like a list. What it calls for each may add to the given one,
// which it would then never come to the end of.
func (r *run) copied(v goja.Value) goja.Value {
	o, ok := v.(*goja.Object)
	if !ok {
		return r.walkable(v)
	}
	if t := o.ExportType(); o.ClassName() == "Object" && (t == typeMap || t == typeSet) {
		return r.drain(o)
	}
	length := o.Get("length")
	if length == nil || goja.IsUndefined(length) {
		return r.vm.NewArray()
	}
	n := length.ToInteger()
	if n > mostItems {
		r.tooMany("a list")
	}
	return r.items(o, n)
}

// join is Array.prototype.join, which every list goes through that becomes a text:
// one that holds itself many times over is longer than any time limit.
func (r *run) join(call goja.FunctionCall) goja.Value {
	o, sep := call.This.ToObject(r.vm), ","
	if s := call.Argument(0); !goja.IsUndefined(s) {
		sep = r.short(s).String()
	}
	n := r.list(o) // now: what separates may have made it longer
	if r.joining >= deepJoin {
		panic(r.vm.NewTypeError("lists nested too deep to be a text"))
	}
	r.joining++
	defer func() { r.joining-- }()
	var out strings.Builder
	for i := range int(n) {
		if i > 0 {
			out.WriteString(sep)
		}
		if v := o.Get(strconv.Itoa(i)); v != nil && !goja.IsUndefined(v) && !goja.IsNull(v) {
			out.WriteString(r.short(v).String())
		}
		if out.Len() > mostText {
			r.tooLong()
		}
	}
	return r.vm.ToValue(out.String())
}

// owner is a global object as it was before the script ran.
func (r *run) owner(name string) *goja.Object {
	if o := r.owners[name]; o != nil {
		return o
	}
	if r.owners == nil {
		r.owners = make(map[string]*goja.Object, 8)
	}
	o := r.vm.GlobalObject().Get(name).(*goja.Object)
	r.owners[name] = o
	return o
}

func (r *run) prototype(name string) *goja.Object {
	return r.owner(name).Get("prototype").(*goja.Object)
}

// functions is the prototype of all functions, as the first that asks finds it: a
// script may give Object another one.
func (r *run) functions() *goja.Object {
	if r.function == nil {
		r.function = r.owner("Object").Prototype()
	}
	return r.function
}

// wrap puts a function in the place of a built-in one.
func (r *run) wrap(owner *goja.Object, name string, by func(goja.FunctionCall, native) goja.Value) {
	f, ok := owner.Get(name).(*goja.Object)
	if !ok {
		return
	}
	orig, ok := f.Export().(native)
	if !ok {
		return
	}
	r.put(owner, name, r.vm.ToValue(func(call goja.FunctionCall) goja.Value {
		r.enter()
		defer r.leave()
		return by(call, orig)
	}))
}

// count bounds how deep a built-in may be within others, and no more of it.
func (r *run) count(owner *goja.Object, name string) {
	r.wrap(owner, name, func(call goja.FunctionCall, orig native) goja.Value { return orig(call) })
}

// put sets a property of a built-in object, and remove deletes one. Where a script has
// frozen or sealed the object meanwhile what is there would stay, without bounds: it
// is not to be had then.
func (r *run) put(owner *goja.Object, name string, v goja.Value) {
	if owner.Set(name, v) != nil {
		panic(r.vm.NewTypeError("%s was frozen before it was used", name))
	}
}

// remove takes a name from every built-in object that has it.
func (r *run) remove(name string) {
	owners := []*goja.Object{r.functions()}
	if name != "constructor" {
		owners = append(owners, r.owner("Object"), r.prototype("Object"), r.prototype("Array"), r.owner("String"), r.prototype("String"))
		if name == "toLocaleString" {
			owners = append(owners, r.prototype("Number"))
		}
	}
	for _, kind := range [...]string{"Map", "Set", "Date"} {
		if r.kinds[kind] {
			owners = append(owners, r.prototype(kind))
		}
	}
	for _, o := range owners {
		if o.Delete(name) != nil {
			panic(r.vm.NewTypeError("%s was sealed before it was used", name))
		}
	}
}
