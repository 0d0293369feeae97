package scripts_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"headway/core"
	"headway/scripts"
)

// nested is an arrow in the brackets of an arrow, n deep: goja reads each twice.
func nested(n int) string {
	s := "1"
	for i := range n {
		s = fmt.Sprintf("(a%d=%s)=>1", i, s)
	}
	return s
}

// labels are n of them, one within another.
func labels(n int) string {
	var s strings.Builder
	for i := range n {
		fmt.Fprintf(&s, "a%d:", i)
	}
	return s.String()
}

// hostile are scripts that would hang, grow or escape. Each has its line where it is
// refused or stopped; 0 is any.
var hostile = []struct {
	name, source string
	line         int
}{
	{"arrows in the brackets of arrows", "const f =\n" + nested(26) + ";\nfunction score() { return 1; }", 2},
	{"arrows in brackets that texts hide", "const s = '))))))))))';\nconst f = " + nested(40) + ";\nfunction score() { return 1; }", 2},
	{"caught by parts", "function score() {\n  try { throw 1; } catch ({ message }) { return 1; } }", 2},
	{"loop at the top", "var x = 1;\nwhile (true) {}\nfunction score() { return 0; }", 2},
	{"loop in score", "function score() {\n  for (;;) {}\n}", 2},
	{"loop that counts", "let i = 0;\nfunction score() {\n  let j = 1;\n  for (;;) { i++; j -= i; } }", 4},
	{"loop within a loop", "let i = 0;\nfunction score() {\n  for (;;) {\n    do i++; while (i < 1e9); } }", 4},
	{"loop in a getter", "const o = { get x() {\n while (true) {} } };\nfunction score() { return o.x; }", 2},
	{"loop in a comparison", "function score() {\n [2, 1, 3].sort(function () {\n for (;;) {} }); return 0; }", 3},
	{"loop in valueOf", "const o = { valueOf() {\n while (true) {} } };\nfunction score() { return o * 1; }", 2},
	{"loop in toString", "const o = { toString() {\n while (true) {} } };\nfunction score() { return 'x' + o; }", 2},
	{"loop in a toString of a key", "const o = { toString() {\n while (true) {} } };\nfunction score() { return [1][o]; }", 2},
	{"loop in what is thrown", "function score() {\n throw { toString() { for (;;) {} } }; }", 2},
	{"loop in an answer", "function score() {\n return { get length() { for (;;) {} } }; }", 0},
	{"loop in a map", "function score() { return [1, 2].map(() => {\n for (;;) {} })[0]; }", 2},
	{"loop that catches", "function score() { for (;;) { try { for (;;) {} } catch (e) {} finally {} } }", 1},
	{"loop in finally", "function score() { try { throw 1 } finally {\n for (;;) {} } }", 2},
	{"regular expression", "function score() {\n  return /^(a+)+$/.test('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab') ? 1 : 0; }", 2},
	{"RegExp", "function score() {\n  return new RegExp('^(a+)+$').test('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab') ? 1 : 0; }", 2},
	{"match", "function score() {\n  return 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab'.match('^(a+)+$') ? 1 : 0; }", 2},
	{"match by a computed name", "function score() {\n  return 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab'['mat' + 'ch']('^(a+)+$') ? 1 : 0; }", 2},
	{"match taken apart", "const { match } = 'x';\nfunction score() {\n  return match.call('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab', '^(a+)+$') ? 1 : 0; }", 3},
	{"match taken apart by a computed name", "const { ['mat' + 'ch']: m } = 'x';\nfunction score() {\n  return m.call('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab', '^(a+)+$') ? 1 : 0; }", 3},
	{"new Array filled", "function score() {\n  return new Array(5e7).fill(0).length; }", 2},
	{"Array filled by a computed name", "function score() {\n  return Array(5e7)['fi' + 'll'](0).length; }", 2},
	{"list of a length filled", "function score() { const a = []; a.length = 4294967295;\n  a.fill(0); return 0; }", 2},
	{"like a list", "function score() {\n  [].fill.call({ length: 1e15 }, 0); return 0; }", 2},
	{"like a list with two lengths", "let n = 0;\nfunction score() {\n  [].indexOf.call({ get length() { return n++ ? 1e15 : 0 } }, 0); return 0; }", 3},
	{"Array.from a length", "function score() {\n  return Array.from({ length: 1e9 }).length; }", 2},
	{"Array.from a length that changes", "let n = 0;\nfunction score() {\n  return Array.from({ get length() { return n++ ? 5 : 1e12 } }).length; }", 3},
	{"repeat in a loop", "function score() { let s = '';\n  for (;;) s = 'x'.repeat(2 ** 29); }", 2},
	{"repeat by a computed name", "const k = 'repeat';\nfunction score() {\n  return 'x'[k](2 ** 29).length; }", 3},
	{"repeat through call", "const f = ''.repeat;\nfunction score() {\n  return f.call('x', 2 ** 28).length; }", 3},
	{"padStart", "function score() {\n  return 'x'.padStart(2 ** 29).length; }", 2},
	{"text doubled", "function score() { let s = 'x';\n  for (;;) s += s; }", 2},
	{"text doubled in a field", "const o = { s: 'x' };\nfunction score() {\n  for (;;) o.s += o.s; }", 3},
	{"text doubled by a computed name", "const o = { s: 'x' }; const k = 's';\nfunction score() {\n  for (;;) o[k] += o[k]; }", 3},
	{"text doubled in a template", "function score() { let s = 'x';\n  for (;;) s = `${s}${s}${s}${s}`; }", 2},
	{"text doubled by concat", "function score() { let s = 'x';\n  for (;;) s = s.concat(s, s); }", 2},
	{"text doubled by join", "function score() { let s = 'x';\n  for (;;) s = [s, s].join(''); }", 2},
	{"text doubled by a list", "function score() { let s = 'x';\n  for (;;) s = String([s, s]); }", 2},
	{"text doubled by an error", "function score() { let s = 'x'; const e = new Error();\n  for (;;) { e.name = s; e.message = s; s = String(e); } }", 2},
	{"text doubled by replaceAll", "function score() { let s = 'xx';\n  for (;;) s = s.replaceAll('x', s); }", 2},
	{"text grown by replace with a function", "function score() {\n  return 'x'.replaceAll('x', () => 'y').length; }", 2},
	{"template of many parts", "function score() { const s = 'x'.repeat(9999);\n  return `" + strings.Repeat("${s}", 1000) + "`.length; }", 2},
	{"spread of a text", "function score() { let s = 'x'; while (s.length < 3e7) s += s;\n  return [...s].length; }", 1},
	{"fields of a text", "function score() { let s = 'x'; while (s.length < 3e7) s += s;\n  return { ...s }.length; }", 1},
	{"list doubled", "function score() { let a = [1];\n  for (;;) a = [...a, ...a]; }", 2},
	{"list doubled by concat", "function score() { let a = [1];\n  for (;;) a = a.concat(a); }", 2},
	{"list doubled by push", "function score() { let a = [1];\n  for (;;) a.push(...a); }", 2},
	{"list doubled by apply", "function score() { let a = [1];\n  for (;;) a.push.apply(a, a); }", 2},
	{"push for ever", "function score() { const a = [];\n  for (;;) a.push({ x: 1 }); }", 2},
	{"list by index for ever", "function score() { const a = []; let i = 0;\n  for (;;) a[i++] = i; }", 2},
	{"fields for ever", "function score() { const a = {}; let i = 0;\n  for (;;) a['k' + i++] = i; }", 2},
	{"Map for ever", "function score() { const m = new Map(); let i = 0;\n  for (;;) m.set(i++, [i]); }", 2},
	{"closures for ever", "function score() { let f = () => 1;\n  for (;;) { const g = f; f = () => g; } }", 2},
	{"prototypes for ever", "function score() { let o = {};\n  for (;;) o = Object.create(o); }", 2},
	{"join of holes", "function score() {\n  return new Array(3e6).join().length; }", 2},
	{"sort of holes", "function score() {\n  new Array(4e6).sort(); return 0; }", 2},
	{"reverse of holes", "function score() {\n  new Array(4e9).reverse(); return 0; }", 2},
	{"splice of holes", "function score() {\n  new Array(4e9).splice(1, 1, 2, 3); return 0; }", 2},
	{"text of holes", "function score() {\n  return ('' + new Array(3e8)).length; }", 2},
	{"list in itself many times", "function score() { let a = [1, 1]; for (let i = 0; i < 40; i++) a = [a, a];\n  return String(a).length; }", 2},
	{"list deep in itself", "function score() { let a = []; for (let i = 0; i < 1e3; i++) a = [a]; return ('' + a).length; }", 1},
	{"flat", "function score() { let a = [1, 1]; for (let i = 0; i < 40; i++) a = [a, a];\n  return a.flat(Infinity).length; }", 2},
	{"flat by a computed name", "function score() { let a = [1, 1]; for (let i = 0; i < 40; i++) a = [a, a];\n  return a['fl' + 'at'](Infinity).length; }", 2},
	{"recursion", "function f() {\n  return f() + 1; }\nfunction score() { return f(); }", 0},
	{"recursion through a built-in", "function f() {\n  return [1].map(f); }\nfunction score() { return f(); }", 0},
	{"recursion through toString", "const o = { toString() {\n  return `${o}`; } };\nfunction score() { return '' + o; }", 0},
	// Built-ins that call one another without a step of the script between: goja counts
	// functions of scripts alone, and the process ends where the stack does.
	{"trim as toString", "const a = {}; a.toString = ''.trim;\nfunction score() { return ('' + a).length; }", 2},
	{"charAt as toString by computed names", "const a = {}; a['toStr' + 'ing'] = ''['char' + 'At'];\nfunction score() {\n  return ('' + a).length; }", 3},
	{"toString as join", "const a = [1]; a.join = a.toString;\nfunction score() {\n  return String(a).length; }", 3},
	{"apply to itself", "function score() { const f = score.apply, a = [f]; a[1] = a;\n  return f.apply(f, a); }", 2},
	{"forEach of a Map to itself", "function score() { const m = new Map(); m.set(m, m.forEach);\n  m.forEach(m.forEach, m); return 1; }", 2},
	{"pop as length", "function score() { const o = { pop: [].pop }; Object.defineProperty(o, 'length', { get: [].pop });\n  return o.pop() ? 1 : 2; }", 1},
	{"push as length", "function score() { const o = { push: [].push }; Object.defineProperty(o, 'length', { set: [].push });\n  return o.push(1) ? 1 : 2; }", 1},
	{"toJSON as toISOString", "function score() { const d = new Date(); d.toISOString = d.toJSON;\n  return d.toJSON() ? 1 : 2; }", 2},
	{"an error as its message", "function score() { const e = new Error('x'); e.message = e;\n  return String(e).length; }", 2},
	{"toString as message", "function score() { const e = new Error('x'); Object.defineProperty(e, 'message', { get: e.toString });\n  return String(e).length; }", 1},
	// Built-ins that add to what they go through.
	{"Array.from of a Map that grows", "const m = new Map([[1, 2]]);\nfunction score() {\n  return Array.from(m, m.set, m).length && NaN; }", 0},
	{"Array.from of a list that grows", "const a = [1];\nfunction score() {\n  return Array.from(a, a.push, a).length && NaN; }", 0},
	// Lists that change while a built-in walks them, and prototypes, by which they could.
	{"list that grows in spread", "const b = [1, 2]; const c = () => b.length;\nObject.defineProperty(b, 0, { get() { b.length = 4e9; return 1; } });\nfunction score() { return [...b].length; }", 2},
	{"list that grows in arguments", "const b = [1, 2]; const c = () => b.length;\nObject.defineProperty(b, 0, { get() { b.length = 4e9; return 1; } });\nfunction score() { return Math.max(...b); }", 2},
	{"list that grows in push", "const b = [1, 2]; const c = () => b.length;\nObject.defineProperty(b, 0, { get() { b.length = 4e9; return 1; } });\nfunction score() { return [].push(...b); }", 2},
	{"list that grows in optional call", "const b = [1, 2]; const c = () => b.length;\nObject.defineProperty(b, 0, { get() { b.length = 4e9; return 1; } });\nfunction score() { return [].push?.(...b); }", 2},
	{"list that grows in unshift", "const b = [1, 2]; const c = () => b.length;\nObject.defineProperty(b, 0, { get() { b.length = 4e9; return 1; } });\nfunction score() { return [].unshift(...b); }", 2},
	{"list that grows in splice", "const b = [1, 2]; const c = () => b.length;\nObject.defineProperty(b, 0, { get() { b.length = 4e9; return 1; } });\nfunction score() { return [].splice(0, 1, ...b).length; }", 2},
	{"list that grows in new", "const b = [1, 2]; const c = () => b.length;\nObject.defineProperty(b, 0, { get() { b.length = 4e9; return 1; } });\nfunction score() { return new Array(...b).length; }", 2},
	{"list that grows in Set", "const b = [1, 2]; const c = () => b.length;\nObject.defineProperty(b, 0, { get() { b.length = 4e9; return 1; } });\nfunction score() { return new Set(b).size; }", 2},
	{"list that grows in concat", "const b = [1, 2]; const c = () => b.length;\nObject.defineProperty(b, 0, { get() { b.length = 4e9; return 1; } });\nfunction score() { return [].concat(b).length; }", 2},
	{"list that grows in apply", "const b = [1, 2]; const c = () => b.length;\nObject.defineProperty(b, 0, { get() { b.length = 4e9; return 1; } });\nfunction score() { return c.apply(0, b); }", 2},
	{"inherited element that grows a spread", "class L extends Array { get 0() { this.length = 4e9; return 1; } }\nfunction score() { const b = new L(2);\n  return [...b].length; }", 1},
	{"inherited element that grows concat", "class L extends Array { get 0() { this.length = 4e9; return 1; } }\nfunction score() { const b = new L(2);\n  return [].concat(b).length; }", 1},
	{"element inherited by __proto__", "function score() { const b = [, 1], p = { get 0() { b.length = 4e9; return 1; } };\n  b.__proto__ = p;\n  return [...b].length > 2 ? 1 : NaN; }", 0},
	{"element inherited by a computed name", "function score() { const b = [, 1], p = { get 0() { b.length = 4e9; return 1; } };\n  b['__pro' + 'to__'] = p;\n  return [...b].length > 2 ? 1 : NaN; }", 0},
	{"element inherited by assign", "function score() { const b = [, 1], p = { get 0() { b.length = 4e9; return 1; } };\n  Object.assign(b, Object.fromEntries([['__pro' + 'to__', p]]));\n  return [...b].length > 2 ? 1 : NaN; }", 0},
	{"element inherited by a set prototype", "function score() { const b = [, 1], p = { get 0() { b.length = 4e9; return 1; } };\n  Object['setProto' + 'typeOf'](b, p);\n  return [...b].length > 2 ? 1 : NaN; }", 2},
	{"element inherited by a literal", "function score() { const p = {\n  __proto__: [] }; return 1; }", 2},
	{"element of a prototype", "function score() { const b = [, 1], p = { get 0() { b.length = 4e9; return 1; } };\n  Array.prototype[0] = p;\n  return [...b].length > 2 ? 1 : NaN; }", 2},
	{"element of a prototype by a computed name", "function score() { const b = [, 1], p = { get 0() { b.length = 4e9; return 1; } };\n  Array['proto' + 'type'][0] = p;\n  return [...b].length > 2 ? 1 : NaN; }", 2},
	{"element of a prototype taken apart", "function score() { const {\n  prototype: p } = Array; return 1; }", 2},
	{"number that makes a list longer in with", "function score() { const a = [1, 2, 3], n = { valueOf() { a.length = 4e9; return 0; } };\n  return a.with(n, 1).length; }", 2},
	{"number that makes a list longer in fill", "function score() { const a = [1, 2, 3], n = { valueOf() { a.length = 4e9; return 0; } };\n  return a.fill(0, n).length; }", 2},
	{"number that makes a list longer in fill's end", "function score() { const a = [1, 2, 3], n = { valueOf() { a.length = 4e9; return 3; } };\n  return a.fill(0, 0, n).length; }", 2},
	{"number that makes a list longer in splice", "function score() { const a = [1, 2, 3], n = { valueOf() { a.length = 4e9; return 0; } };\n  return a.splice(n, 1, 5, 6).length; }", 2},
	{"number that makes a list longer in toSpliced", "function score() { const a = [1, 2, 3], n = { valueOf() { a.length = 4e9; return 0; } };\n  return a.toSpliced(n, 1).length; }", 2},
	{"number that makes a list longer in slice", "function score() { const a = [1, 2, 3], n = { valueOf() { a.length = 4e9; return 0; } };\n  return a.slice(n).length; }", 2},
	{"number that makes a list longer in slice's end", "function score() { const a = [1, 2, 3], n = { valueOf() { a.length = 4e9; return 3; } };\n  return a.slice(0, n).length; }", 2},
	{"number that makes a list longer in indexOf", "function score() { const a = [1, 2, 3], n = { valueOf() { a.length = 4e9; return 0; } };\n  return a.indexOf(9, n); }", 2},
	{"number that makes a list longer in lastIndexOf", "function score() { const a = [1, 2, 3], n = { valueOf() { a.length = 4e9; return -1; } };\n  return a.lastIndexOf(9, n); }", 2},
	{"number that makes a list longer in includes", "function score() { const a = [1, 2, 3], n = { valueOf() { a.length = 4e9; return 0; } };\n  return a.includes(9, n) ? 1 : 2; }", 2},
	{"number that makes a list longer in copyWithin", "function score() { const a = [1, 2, 3], n = { valueOf() { a.length = 4e9; return 0; } };\n  return a.copyWithin(n, 1).length; }", 2},
	{"number that makes a list longer in flat", "function score() { const a = [1, 2, 3], n = { valueOf() { a.length = 4e9; return 0; } };\n  return a.flat(n).length; }", 2},
	{"text that makes a list longer in join", "function score() { const a = [1, 2, 3];\n  return a.join({ toString() { a.length = 4e9; return ''; } }).length && NaN; }", 2},
	{"length set over a fixed element", "function score() { const a = [0, 1];\n  Object.defineProperty(a, '0', { get() { a.length = 0; a.length = 4e9; return 0; } }); return a; }", 2},
	{"length set over a sealed element", "function score() { const a = [0, 1];\n  Object.seal(a); a.length = 4e9; a.length = 0; return a; }", 2},
	{"length set over a sealed element by a computed name", "function score() { const a = [0, 1];\n  Object['se' + 'al'](a); a.length = 4e9; a.length = 0; return a; }", 2},
	{"length set over a frozen element", "function score() { const a = [0, 1];\n  Object.freeze(a); a.length = 4e9; return a; }", 2},
	{"fields that grow in assign", "function score() { const l = [], o = { get x() { l.length = 4e9; l.fill.call(l, 0); return 1; } };\n  return Object.assign({}, o, l) ? 1 : 2; }", 1},
	{"list that grows as it is sorted", "function score() { const a = [3, 1, 2];\n  return a.sort((x, y) => { a.length = 4e9; return x - y; }).map(x => x).length; }", 2},
	{"setter behind prototypes", "let o;\nfunction score() { o = { set x(v) { o.x = v; } };\n  for (let i = 0; i < 40000; i++) o = Object.create(o); return o.x; }", 3},
	{"getter behind prototypes", "let o;\nfunction score() { o = { get x() { return o.x; } };\n  for (let i = 0; i < 40000; i++) o = Object['cre' + 'ate'](o); return o.x; }", 3},
	{"getter behind prototypes of functions", "let o;\nfunction score() { o = { get x() { return o.x; } };\n  for (let i = 0; i < 40000; i++) { const f = function () {}; f.prototype = o; o = new f(); }; return o.x; }", 3},
	{"getter behind prototypes by assign", "let o;\nfunction score() { o = { get x() { return o.x; } };\n  for (let i = 0; i < 40000; i++) { const f = function () {}; Object.assign(f, Object.fromEntries([['proto' + 'type', o]])); o = new f(); }; return o.x; }", 3},
	{"getter behind prototypes of classes", "function score() { let c = class { static get x() { return 1; } };\n  for (let i = 0; i < 40000; i++) c = class extends c {}; return c.x; }", 2},
	{"frozen owner", "function score() { Object.freeze(Object);\n  return Object['as' + 'sign']({}, {}) ? 1 : 2; }", 2},
	// Texts and lists that built-ins make of many.
	{"text doubled by an error with a computed name", "function score() { let s = 'x';\n  for (;;) s = String({ __proto__: Error.prototype, ['na' + 'me']: s, ['mess' + 'age']: s }); }", 2},
	{"text doubled by an error with a defined name", "function score() { let s = 'x';\n  for (;;) { const e = new RangeError(s); Object.defineProperty(e, 'na' + 'me', { value: s }); s = '' + e; } }", 2},
	{"text doubled by an error that was caught", "function score() { let s = 'x';\n  for (;;) try { null.x } catch (e) { Object.assign(e, { ['na' + 'me']: s, ['mess' + 'age']: s }); s = String(e); } }", 2},
	{"text of a stack", "function score() { try { null.x } catch (e) {\n  return e.stack.length; } }", 2},
	{"text of a stack by a computed name", "function score() { try { null.x } catch (e) {\n  return e['sta' + 'ck'].length; } }", 2},
	{"text of a stack taken apart", "function score() { try { null.x } catch ({\n  stack: s }) { return s.length; } }", 1},
	{"list of many lists by concat", "function score() { const b = new Array(2048).fill(0), l = new Array(2048).fill(b);\n  return b.concat(...l).length; }", 2},
	{"fields of many objects", "function score() { const b = {}; for (let i = 0; i < 100; i++) b['k' + i] = i; const l = new Array(2048).fill(b);\n  return Object.assign({}, ...l) ? 1 : 2; }", 2},
	// Ways around the bounds.
	{"a built-in made to be listed", "const a = {};\nfunction score() { Object.defineProperty(String.prototype, 'tr' + 'im', { enumerable: true });\n a.toString = Object.values(String.prototype)[0];\n return ('' + a).length; }", 2},
	{"fill made to be listed", "function score() { Object.defineProperty(Array.prototype, 'fi' + 'll', { enumerable: true });\n return Object.values(Array.prototype)[0].call(new Array(5e7), 0).length; }", 1},
	{"frozen built-ins", "function score() { Object.freeze(String.prototype);\n  return 'x'['rep' + 'eat'](2 ** 29).length; }", 1},
	{"sealed built-ins", "function score() { Object.seal(String.prototype);\n  return 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab'['mat' + 'ch']('^(a+)+$') ? 1 : 0; }", 1},
	{"Function behind another prototype", "function score() { Object.__proto__ = {};\n  return score['constr' + 'uctor']('return /^(a+)+$/.test(1) ? 1 : 2')(); }", 2},
	{"Function behind no prototype", "function score() { Object.__proto__ = null;\n  return score['constr' + 'uctor']('return 5')(); }", 2},
	{"Date under another name", "const D = Date;\nfunction score() { return new D(2026, 0, 1).getTime(); }", 1},
	{"Date by its prototype", "function score() {\n  return new (new Date().constructor)(2026, 0, 1).getTime(); }", 2},
	{"throwing getter", "const o = { get x() {\n  throw new Error('no'); } };\nfunction score() { return o.x; }", 2},
	{"deep JSON", "function score() {\n  return JSON.parse('['.repeat(200000)).length; }", 2},
	{"JSON of a list in itself", "function score() { let a = [1]; for (let i = 0; i < 40; i++) a = [a, a];\n  return JSON.stringify(a).length; }", 2},
	{"BigInt", "function score() { let n = 3n;\n  for (;;) n = n ** n; }", 1},
	{"BigInt of a text", "function score() {\n  let n = BigInt(3); for (;;) n = n * n; }", 2},
	{"huge BigInt literal", "const n =\n  " + strings.Repeat("9", 100_000) + "n;\nfunction score() { return 0; }", 2},
	{"promise", "async function score() { return 0; }", 1},
	{"Promise", "function score() {\n  return Promise.resolve(1); }", 2},
	{"async arrow", "const f = 1;\nconst score = async () => 0;", 2},
	{"generator", "function* g() { for (;;) yield 1; }\nfunction score() { return [...g()].length; }", 1},
	{"generator method", "const o = {\n  *g() { for (;;) yield 1; } };\nfunction score() { return [...o.g()].length; }", 2},
	{"Proxy", "function score() {\n  return new Proxy({}, { get() { for (;;) {} } }).x; }", 2},
	{"Symbol", "function score() {\n  return [...{ [Symbol.iterator]: () => ({ next: Object }) }].length; }", 2},
	{"iterator without an end", "function score() { const it = [].values(); it.next = Object;\n  return [...it].length || NaN; }", 0},
	{"iterator without an end in a Set", "function score() { const it = [].keys(); it.next = Object;\n  return new Set(it).size || NaN; }", 0},
	{"iterator of a Map without an end", "function score() { const it = new Map().entries(); it.next = Object;\n  return [...it].length || NaN; }", 0},
	{"inherited iterator", "function score() { const o = Object.create(Array.prototype); o.length = 1e15;\n  return [...o].length; }", 1},
	{"inherited iterator in a Set", "function score() { const o = Object.create(Array.prototype); o.length = 1e15;\n  return new Set(o).size; }", 1},
	{"inherited iterator taken apart", "function score() { const o = Object.create(Array.prototype); o.length = 1e15;\n  const [a, ...b] = o; return 0; }", 1},
	{"inherited iterator in parameters", "function f([a, ...b]) {}\nfunction score() { const o = Object.create(Array.prototype); o.length = 1e15; f(o); return 0; }", 1},
	{"set that only looks like one", "function score() {\n  return new Set([1]).union({ size: 1, has: () => true, keys: () => ({ next: Object }) }).size; }", 2},
	{"set by a computed name", "function score() {\n  return new Set([1])['un' + 'ion']({ size: 1, has: () => true, keys: () => ({ next: Object }) }).size; }", 2},
	{"Set under another name", "const S = Set;\nfunction score() { return new S({ length: 1e15, __proto__: Array.prototype }).size; }", 1},
	{"Set inherited", "class S extends Set {}\nfunction score() { return 0; }", 1},
	{"Set by its prototype", "function score() { const S = new Set()['con' + 'structor'];\n  return new S({ length: 1e15, __proto__: Array.prototype }).size; }", 0},
	{"bound functions for ever", "function score() { let f = () => 1;\n  for (;;) f = f.bind(); }", 2},
	{"eval", "function score() {\n  return eval('/(a+)+b(?=c)/.test(1)'); }", 2},
	{"eval under another name", "const e = [eval];\nfunction score() { return e[0]('1'); }", 1},
	{"Function", "function score() {\n  return new Function('return /a/')(); }", 2},
	{"Function by its constructor", "function score() {\n  return score.constructor('for (;;) {}')(); }", 2},
	{"Function by a computed name", "function score() {\n  return score['constr' + 'uctor']('return 1n')(); }", 0},
	{"Function by an arrow's prototype", "function score() { const p = Object.getPrototypeOf(() => 1);\n  return p['constr' + 'uctor']('return 1n')(); }", 0},
	{"Function by a descriptor", "function score() { const p = Object.getPrototypeOf(() => 1);\n  return Object.getOwnPropertyDescriptor(p, 'constructor').value('return 1n')(); }", 1},
	{"global object", "const g = this;\nfunction score() { return 0; }", 1},
	{"global object in an arrow", "const g = () => this;\nfunction score() { return 0; }", 1},
	{"globalThis", "const g = globalThis;\nfunction score() { return 0; }", 1},
	{"sloppy this", "function f() { return this; }\nfunction score() {\n  return f().eval('1'); }", 3},
	{"escaped name", "function score() {\n  return \\u0065val('1'); }", 2},
	{"ArrayBuffer", "function score() {\n  return new ArrayBuffer(2 ** 31).byteLength; }", 2},
	{"typed array", "function score() {\n  return new Float64Array(3e8).length; }", 2},
	{"String.raw", "function score() {\n  return String.raw({ raw: { length: 1e9 } }).length; }", 2},
	{"normalize", "function score() {\n  return 'x'.normalize().length; }", 2},
	{"rest of fields", "function score() {\n  const { ...r } = 'x'.repeat(9999); return 0; }", 2},
	{"writing to an offer", "function score(job, offer) {\n  offer.charge_usd = 0; return 0; }", 2},
	{"writing to the job", "function score(job) {\n  job.secret = 0; return 0; }", 2},
	{"writing to labels", "function score(job, offer) {\n  offer.labels.x = 'y'; return 0; }", 2},
	{"writing to the auction", "function score(job, offer, auction) {\n  delete auction.count; return 0; }", 2},
	{"defining in an offer", "function score(job, offer) {\n  Object.defineProperty(offer, 'id', { value: 'x' }); return 0; }", 2},
	{"assigning to an offer", "function score(job, offer) {\n  Object.assign(offer, { id: 'x' }); return 0; }", 2},
	{"freezing an offer", "function score(job, offer) {\n  Object.freeze(offer); return 0; }", 2},
	{"a number that is none", "function score() { return NaN; }", 1},
	{"without end", "\nfunction score() { return 1 / 0; }", 2},
	{"nothing", "function score() {}", 1},
	{"a text", "function score() { return '1'; }", 1},
	{"a truth", "function score() { return true; }", 1},
	{"an object", "function score() { return {}; }", 1},
	{"a function", "function score() { return score; }", 1},
	{"a list of one", "function score() { return [1]; }", 1},
	{"a list of texts", "function score() { return ['1', 2]; }", 1},
	{"half a tier", "function score() { return [0.5, 2]; }", 1},
	{"a tier that is none", "function score() { return [NaN, 2]; }", 1},
	{"an answer with a getter that throws", "function score() { const a = [1, 2]; Object.defineProperty(a, '0', {\n  get() { throw new Error('x'); } }); return a; }", 1},
	{"an answer with a getter that hangs", "function score() { const a = [1, 2]; Object.defineProperty(a, '0', {\n  get() { for (;;) {} } }); return a; }", 1},
	{"no score", "const x = 1;", 0},
	{"score that is no function", "const score = 1;", 1},
	{"throw nothing", "function score() {\n  throw undefined; }", 2},
	{"throw what says a lot", "function score() {\n  throw new Error('x'.repeat(9999)); }", 2},
	{"syntax", "function score( {\n", 0},
	{"zero bytes", "function score() { return 0; }\n\x00", 2},
	{"not UTF-8", "\xff\xfe", 0},
	{"empty", "", 0},
	{"brackets", strings.Repeat("(", 100_000), 1},
	{"brackets that match", "x = " + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000), 1},
	{"arrows", strings.Repeat("a=>", 50_000) + "1", 1},
	{"nots", "x = " + strings.Repeat("!", 200_000) + "1", 1},
	{"sums", "x = " + strings.Repeat("1+", 100_000) + "1", 1},
	{"assignments", strings.Repeat("a=", 100_000) + "1", 1},
	{"calls", "a" + strings.Repeat("()", 100_000), 1},
	{"members", "a" + strings.Repeat(".a", 100_000), 1},
	{"templates", "a" + strings.Repeat("``", 100_000), 1},
	{"conditions", strings.Repeat("a?a:", 60_000) + "1", 1},
	{"ifs", strings.Repeat("if(1)", 50_000) + ";", 1},
	{"elses", strings.Repeat("if(1);else ", 20_000) + ";", 1},
	{"labels", labels(30_000) + "1", 1},
	{"source map", "function score() { return 0; }\nthrow 1\n//# sourceMappingURL=/etc/passwd", 2},
	{"too large", "//" + strings.Repeat("x", 256<<10), 0},
	{"built-ins that compare long texts as numbers", "function score() {\n  const a = [], s = '0.' + '1'.repeat(16000), t = '-' + s; for (let i = 0; i < 2048; i++) a.push(i % 3 ? s : t);\n  return a.sort(Math.max)[0]; }", 3},
	{"the same, sorted as a copy", "function score() {\n  const a = [], s = '0.' + '1'.repeat(16000); for (let i = 0; i < 2048; i++) a.push(s);\n  return a.toSorted(Math.atan2)[0]; }", 3},
	{"long texts as arguments", "function score() {\n  const a = [], s = '0.' + '1'.repeat(16000); for (let i = 0; i < 2048; i++) a.push(s);\n  return Math.max(...a); }", 3},
}

// report is what a child saw.
type report struct {
	Ms    float64
	Line  int
	Msg   string
	Where string // load or rank
	Peak  int64  // bytes resident at most
	Next  string // what a good script said afterwards
}

// TestHostileChild runs some of the hostile scripts; TestHostile starts it in a
// process of its own, whose memory it can look at.
func TestHostileChild(t *testing.T) {
	var from, to int
	if n, _ := fmt.Sscan(os.Getenv("HOSTILE"), &from, &to); n != 2 {
		return
	}
	good := load(t, "function score(job, offer) { return offer.charge_usd; }")
	for i := from; i < to; i++ {
		r := meet(t, hostile[i].source, hostile[i].line)
		q := auction(20)
		q.Limit = 5 * time.Second
		ranks, in := make([]core.Rank, 20), make([]bool, 20)
		if err := good.Rank(q, ranks, in); err != nil {
			r.Next = err.Error()
		} else if !in[19] || ranks[19].Cost != q.Candidates[19].Charge.Float() {
			r.Next = fmt.Sprint(in, ranks)
		}
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(status)) {
			if kb, ok := strings.CutPrefix(line, "VmHWM:"); ok {
				if _, err := fmt.Sscan(kb, &r.Peak); err != nil {
					t.Fatal(err)
				}
				r.Peak <<= 10
			}
		}
		out, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("\nREPORT %s\n", out)
	}
}

// meet has a hostile script rank a call.
func meet(t *testing.T, source string, line int) report {
	// It behaves while it is tried, so that it is met in a call too.
	behaved := source
	if strings.Contains(source, "function score(") {
		behaved = strings.Replace(source, "function score(", "function evil(", 1) +
			"\nfunction score(job, offer, auction) { return job.model === 'sample' ? 0 : evil(job, offer, auction); }"
	}
	r := report{Ms: 1e9}
	for range 5 { // the machine may be busy with something else
		s, err := scripts.Load("h", "h.js", []byte(behaved))
		start := time.Now()
		if r.Where = "load"; err == nil {
			r.Where = "rank"
			q := auction(20)
			err = s.Rank(q, make([]core.Rank, 20), make([]bool, 20))
		}
		took := float64(time.Since(start).Microseconds()) / 1000
		if e := asScript(t, err); e != nil {
			r.Line, r.Msg = e.Line, e.Error()
		}
		r.Ms = min(r.Ms, took)
		if r.Ms < 50 && (line == 0 || r.Line == line || strings.Contains(r.Msg, "score gave")) {
			break
		}
	}
	// As it is written it is refused, or fails in the same way.
	if s, err := scripts.Load("h", "h.js", []byte(source)); err == nil {
		q := auction(20)
		if s.Rank(q, make([]core.Rank, 20), make([]bool, 20)) == nil {
			r.Msg = ""
		}
	}
	return r
}

func asScript(t *testing.T, err error) *core.ScriptError {
	var e *core.ScriptError
	if err != nil && !errors.As(err, &e) {
		t.Fatalf("%T: %v", err, err)
	}
	return e
}

func TestHostile(t *testing.T) {
	const each = 10 // in one process
	for from := 0; from < len(hostile); from += each {
		to := min(from+each, len(hostile))
		t.Run(fmt.Sprintf("%d to %d", from, to-1), func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestHostileChild$")
			cmd.Env = append(os.Environ(), fmt.Sprintf("HOSTILE=%d %d", from, to))
			out, err := cmd.CombinedOutput()
			reports := strings.Split(string(out), "\nREPORT ")[1:]
			if err != nil || len(reports) != to-from {
				t.Fatalf("%v after %s\n%.3000s", err, hostile[from+min(len(reports), to-from-1)].name, out)
			}
			for i, text := range reports {
				h := hostile[from+i]
				var r report
				if err := json.NewDecoder(strings.NewReader(text)).Decode(&r); err != nil {
					t.Fatal(err)
				}
				t.Logf("%s: %s in %.1f ms, %d MiB: %s", h.name, r.Where, r.Ms, r.Peak>>20, r.Msg)
				if r.Msg == "" {
					t.Errorf("%s: it ranked", h.name)
				}
				// Where score itself is at fault, the line is that of the score around it.
				if h.line != 0 && r.Line != h.line && !strings.Contains(r.Msg, "score gave") && !(raceDetector && strings.Contains(r.Msg, "longer than")) {
					t.Errorf("%s: line %d, want %d: %s", h.name, r.Line, h.line, r.Msg)
				}
				if r.Ms > 50 {
					t.Errorf("%s: it took %.1f ms", h.name, r.Ms)
				}
				if r.Peak > 200<<20 && !raceDetector {
					t.Errorf("%s: %d MiB", h.name, r.Peak>>20)
				}
				if r.Next != "" {
					t.Errorf("%s: the next ranking: %s", h.name, r.Next)
				}
			}
		})
	}
}
