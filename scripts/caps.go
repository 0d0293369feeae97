package scripts

import (
	"math"
	"strconv"
	"strings"

	"github.com/dop251/goja"
)

// A built-in runs to its end: goja cannot interrupt it. So each that walks or makes
// something takes at most this much, and those that cannot be bounded are gone.
const (
	mostItems  = 2048          // elements of a list, fields of an object
	mostText   = 16 << 10      // characters of a text
	mostListed = 16 * mostText // characters of the texts in a list that is sorted, joined to another or spread
	deepJoin   = 16            // lists within lists, as a text
	callDepth  = 200           // functions that call one another
	noSet      = " (sets are compared by hand)"
	noRegExp   = " takes a regular expression, which cannot be stopped: a script has none"
	noBound    = " has no bound: it is not there for scripts"
	noCode     = " makes code of text: it is not there for scripts"
	noUse      = " is not there for scripts"
	noPromise  = " is not there for scripts: they have no promises"
	noInherit  = " is not there for scripts: nothing inherits in them"
	noPlace    = " follows the place and language of a machine: it is not there for scripts"
)

// bannedNames are the global names that a script may not mention, and why.
// caps_test.go holds this against what goja has.
var bannedNames = map[string]string{
	"eval": noCode, "Function": noCode, "globalThis": noUse, "GoError": noUse,
	"RegExp": noUse + ": a regular expression cannot be stopped", "BigInt": noUse + ": it grows without bound",
	"Proxy": noUse, "Reflect": noUse, "Symbol": noUse, "JSON": noUse, "AggregateError": noUse,
	"Promise": noPromise, "WeakMap": noUse, "WeakSet": noUse, "WeakRef": noUse,
	"ArrayBuffer": noUse, "SharedArrayBuffer": noUse, "Atomics": noUse, "DataView": noUse, "WebAssembly": noUse,
	"Uint8Array": noUse, "Uint8ClampedArray": noUse, "Int8Array": noUse, "Uint16Array": noUse, "Int16Array": noUse,
	"Uint32Array": noUse, "Int32Array": noUse, "Float32Array": noUse, "Float64Array": noUse,
	"BigInt64Array": noUse, "BigUint64Array": noUse,
	"escape": noUse, "unescape": noUse, "encodeURI": noUse, "encodeURIComponent": noUse, "decodeURI": noUse, "decodeURIComponent": noUse,
}

// onlyNew are the constructors that take a list: nothing else is done with them, so
// that the list can be guarded.
var onlyNew = map[string]bool{"Map": true, "Set": true}

// kinds are the global objects whose built-ins install bounds.
var kinds = [...]string{"Object", "Array", "String", "Number", "Date", "Error"}

// removed are the properties that built-in objects lose; calling one is refused at
// load.
var removed = map[string]string{
	"match": noRegExp, "matchAll": noRegExp, "search": noRegExp,
	"normalize": noBound, "raw": noBound, "flat": noBound, "flatMap": noBound, "copyWithin": noBound, "toLocaleString": noBound,
	"bind": noBound, "create": noInherit, "setPrototypeOf": noInherit, "getPrototypeOf": noInherit, "__proto__": noInherit,
	"defineProperty": noUse, "defineProperties": noUse, "seal": noUse, "isSealed": noUse, "getOwnPropertyDescriptor": noUse, "getOwnPropertyDescriptors": noUse,
	"getOwnPropertyNames": noUse, "getOwnPropertySymbols": noUse,
	"union": noSet, "intersection": noSet, "difference": noSet, "symmetricDifference": noSet,
	"isSubsetOf": noSet, "isSupersetOf": noSet, "isDisjointFrom": noSet,
	"constructor": noUse, "toLocaleDateString": noPlace, "toLocaleTimeString": noPlace,
}

// unread are the properties that a script can neither read nor write by their name.
// How an error came about is no text of bounded length, and not the same wherever the
// script is run. Prototypes are what a script must not make: goja looks through them by
// recursion, which no limit ends but that of the process's stack; and an element that
// a list inherits could be a function, which would change the list while a built-in
// walks it.
var unread = setOf("stack prototype")

// Methods that are bounded by what they are called on.
var (
	cappedArrays = setOf("every fill filter find findIndex findLast findLastIndex forEach includes indexOf lastIndexOf " +
		"map reduce reduceRight reverse shift slice some splice unshift with toReversed toSpliced")
	// indexes are their arguments that are numbers: from the first of the two to before
	// the second.
	indexes = map[string][2]int{"fill": {1, 3}, "includes": {1, 2}, "indexOf": {1, 2}, "lastIndexOf": {1, 2},
		"slice": {0, 2}, "splice": {0, 2}, "toSpliced": {0, 2}, "with": {0, 1}}
	cappedTexts   = setOf("includes indexOf lastIndexOf localeCompare split toLowerCase toUpperCase toLocaleLowerCase toLocaleUpperCase")
	cappedObjects = setOf("entries keys values freeze isFrozen")
)

// Methods that are bounded as they are, and by how deep they are within others alone:
// each makes a text of what it is called on, or calls what it is given or changes it.
var (
	countedTexts = setOf("at charAt charCodeAt codePointAt endsWith slice startsWith substr substring trim trimEnd trimLeft trimRight trimStart")
	countedLists = setOf("at pop push toString")
	countedMaps  = setOf("add clear delete forEach get has set") // of Map and Set
)

// inUTC are the methods of a Date that follow a machine's time zone, and those that
// take their place: a call is ranked the same wherever it is ranked again.
var inUTC = map[string]string{"getFullYear": "getUTCFullYear", "getMonth": "getUTCMonth", "getDate": "getUTCDate", "getDay": "getUTCDay",
	"getHours": "getUTCHours", "getMinutes": "getUTCMinutes", "getSeconds": "getUTCSeconds", "getMilliseconds": "getUTCMilliseconds",
	"setFullYear": "setUTCFullYear", "setMonth": "setUTCMonth", "setDate": "setUTCDate", "setHours": "setUTCHours",
	"setMinutes": "setUTCMinutes", "setSeconds": "setUTCSeconds", "setMilliseconds": "setUTCMilliseconds"}

func setOf(words string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		set[w] = true
	}
	return set
}

// ofDates are the other names that installDate bounds or puts into UTC.
var ofDates = setOf("getTimezoneOffset parse toDateString toJSON toTimeString")

// special are the names that installOne bounds.
var special = setOf("apply assign call concat entries keys values from fromEntries padEnd padStart repeat replace replaceAll sort toSorted name message")

// capped tells whether a name needs install before it can be used.
func capped(name string) bool {
	_, gone := removed[name]
	return gone || cappedArrays[name] || cappedTexts[name] || cappedObjects[name] || special[name] || inUTC[name] != "" ||
		ofDates[name] || countedTexts[name] || countedLists[name] || countedMaps[name]
}

// install bounds every built-in method of a name, in this runtime. A script reaches
// a property only by a name that its text has, or by one that it computes, which
// passes the guard of keys: so only those that it can reach are bounded, and a
// runtime costs little.
func (r *run) install(name string) {
	if r.installed[name] {
		return
	}
	if r.installed == nil {
		r.installed = map[string]bool{}
	}
	r.installed[name] = true
	array, text, object := r.prototype("Array"), r.prototype("String"), r.owner("Object")
	if _, gone := removed[name]; gone {
		r.remove(name)
		return
	}
	if cappedArrays[name] {
		r.wrap(array, name, func(call goja.FunctionCall, orig native) goja.Value {
			// What is converted may make the list longer, so it is converted before.
			at := indexes[name]
			for i := at[0]; i < min(at[1], len(call.Arguments)); i++ {
				if o, ok := call.Arguments[i].(*goja.Object); ok {
					call.Arguments[i] = o.ToNumber()
				}
			}
			r.list(call.This)
			return orig(call)
		})
	}
	if cappedTexts[name] {
		r.wrap(text, name, func(call goja.FunctionCall, orig native) goja.Value {
			call.This = r.short(call.This)
			for i, a := range call.Arguments {
				switch a.(type) {
				case *goja.Object, goja.String:
					call.Arguments[i] = r.short(a)
				}
			}
			return orig(call)
		})
	}
	if cappedObjects[name] {
		r.wrap(object, name, func(call goja.FunctionCall, orig native) goja.Value {
			for _, a := range call.Arguments {
				r.fields(a)
			}
			return orig(call)
		})
	}
	if countedTexts[name] {
		r.count(text, name)
	}
	if countedLists[name] {
		r.count(array, name)
	}
	if countedMaps[name] {
		for _, kind := range [...]string{"Map", "Set"} {
			if r.kinds[kind] {
				r.count(r.prototype(kind), name)
			}
		}
	}
	if r.kinds["Date"] && (inUTC[name] != "" || ofDates[name]) {
		r.installDate(name)
	}
	r.installOne(name, array, text, object)
}

// installOne bounds those that need more than a look at what they are given.
func (r *run) installOne(name string, array, text, object *goja.Object) {
	switch name {
	case "entries", "keys", "values":
		// Lists in the place of iterators: those of a script would run natively.
		r.wrap(array, name, func(call goja.FunctionCall, _ native) goja.Value { return r.listed(call.This, name) })
		for _, kind := range [...]string{"Map", "Set"} {
			if r.kinds[kind] {
				r.wrap(r.prototype(kind), name, func(call goja.FunctionCall, orig native) goja.Value { return r.drain(orig(call)) })
			}
		}
	case "concat":
		r.wrap(array, name, func(call goja.FunctionCall, orig native) goja.Value {
			total := r.list(call.This)
			call.This = r.copyOf(call.This)
			for i, a := range call.Arguments {
				if o, ok := a.(*goja.Object); ok && o.ClassName() == "Array" {
					if total += r.list(o); total > mostItems {
						r.tooMany("a list")
					}
					call.Arguments[i] = r.copyOf(o)
				}
			}
			return orig(call)
		})
		r.wrap(text, name, func(call goja.FunctionCall, orig native) goja.Value {
			size := 0
			args := make([]goja.Value, len(call.Arguments))
			for i, a := range call.Arguments {
				t := r.short(a)
				size += t.Length()
				args[i] = t
			}
			this := r.short(call.This)
			if size+this.Length() > mostText {
				r.tooLong()
			}
			return orig(goja.FunctionCall{This: this, Arguments: args})
		})
	case "sort", "toSorted":
		// A copy is sorted: what compares may change the list.
		r.wrap(array, name, func(call goja.FunctionCall, orig native) goja.Value {
			list, sorted := call.This, r.copyOf(call.This)
			if goja.IsUndefined(call.Argument(0)) {
				call.Arguments = []goja.Value{r.vm.ToValue(func(c goja.FunctionCall) goja.Value {
					r.poll()
					return r.vm.ToValue(r.short(c.Argument(0)).CompareTo(r.short(c.Argument(1))))
				})}
			}
			call.This = sorted
			answer := orig(call)
			if name == "toSorted" {
				return answer
			}
			for i := range int(sorted.Get("length").ToInteger()) {
				at := strconv.Itoa(i)
				if list.(*goja.Object).Set(at, sorted.Get(at)) != nil {
					panic(r.vm.NewTypeError("a frozen list cannot be sorted: use toSorted"))
				}
			}
			return list
		})
	case "from":
		r.wrap(r.owner("Array"), name, func(call goja.FunctionCall, orig native) goja.Value {
			call.Arguments = append([]goja.Value{r.copied(call.Argument(0))}, call.Arguments[min(1, len(call.Arguments)):]...)
			return orig(call)
		})
	case "fromEntries":
		r.wrap(object, name, func(call goja.FunctionCall, orig native) goja.Value {
			return orig(goja.FunctionCall{This: call.This, Arguments: []goja.Value{r.walkable(call.Argument(0))}})
		})
	case "assign":
		r.install("__proto__") // which it would set
		r.wrap(object, name, func(call goja.FunctionCall, orig native) goja.Value {
			to := call.Argument(0)
			if _, f := goja.AssertFunction(to); f {
				panic(r.vm.NewTypeError("nothing is assigned to a function, in a script"))
			}
			to = orig(goja.FunctionCall{This: call.This, Arguments: []goja.Value{to}})
			total := r.fields(to)
			for _, from := range call.Arguments[1:] { // one after another, as a getter of one may add to the next
				if total += r.fields(from); total > mostItems {
					r.tooMany("objects with fields")
				}
				orig(goja.FunctionCall{This: call.This, Arguments: []goja.Value{to, from}})
			}
			return to
		})
	case "call":
		r.count(r.functions(), name)
	case "apply":
		r.wrap(r.functions(), name, func(call goja.FunctionCall, orig native) goja.Value {
			if a := call.Argument(1); !goja.IsUndefined(a) && !goja.IsNull(a) {
				call.Arguments[1] = r.copyOf(a)
			}
			return orig(call)
		})
	case "repeat", "padStart", "padEnd":
		r.wrap(text, name, func(call goja.FunctionCall, orig native) goja.Value {
			this, n := r.short(call.This), call.Argument(0).ToFloat()
			size := n
			if name == "repeat" {
				size = n * float64(max(this.Length(), 1))
			}
			if size > mostText {
				r.tooLong()
			}
			if math.IsNaN(n) {
				n = 0
			}
			args := []goja.Value{r.vm.ToValue(n)}
			if len(call.Arguments) > 1 && !goja.IsUndefined(call.Argument(1)) {
				args = append(args, r.short(call.Argument(1)))
			}
			return orig(goja.FunctionCall{This: this, Arguments: args})
		})
	case "replace", "replaceAll":
		r.wrap(text, name, func(call goja.FunctionCall, _ native) goja.Value {
			if _, f := goja.AssertFunction(call.Argument(1)); f {
				panic(r.vm.NewTypeError("%s takes a text, not a function, in a script", name))
			}
			this, old, by := r.short(call.This).String(), r.short(call.Argument(0)).String(), r.short(call.Argument(1)).String()
			n := 1
			if name == "replaceAll" {
				n = strings.Count(this, old)
			}
			if len(this)+n*len(by) > mostText {
				r.tooLong()
			}
			return r.vm.ToValue(strings.Replace(this, old, by, n))
		})
	case "name", "message":
		if r.installed["error"] {
			return
		}
		r.installed["error"] = true
		r.wrap(r.prototype("Error"), "toString", func(call goja.FunctionCall, _ native) goja.Value {
			e := call.This.ToObject(r.vm)
			name, msg := r.part(e, "name", "Error"), r.part(e, "message", "")
			switch {
			case len(name)+len(msg) > mostText:
				r.tooLong()
			case name == "" || msg == "":
				return r.vm.ToValue(name + msg)
			}
			return r.vm.ToValue(name + ": " + msg)
		})
	}
}
