package sdktest

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// The documented fields of a request, read from an SDK's types.
//
// A field is a path as a caller would point at it: a list's elements are
// `stop[]`; the forms of a union are `content[image_url]`, by their type (or
// role) in the wire format, and `tool_choice:string` where they are no object.

// fieldsOf gives every field of a type at a path, in the type's order. It goes
// no deeper where whole says that one sample stands for all that is below.
func fieldsOf(t reflect.Type, whole func(path string) bool) []string {
	w := walker{whole: whole}
	w.object(t, "")
	return w.paths
}

type walker struct {
	whole func(path string) bool
	on    []reflect.Type // the types that the walk is in
	paths []string
}

// value notes what may stand at a path.
func (w *walker) value(t reflect.Type, path string) {
	switch {
	case w.whole(path):
		w.paths = append(w.paths, path)
	case t.Kind() == reflect.Pointer:
		w.value(t.Elem(), path)
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		w.element(t.Elem(), path)
	case t.Kind() != reflect.Struct || t.PkgPath() == "time":
		w.paths = append(w.paths, path)
	case strings.HasPrefix(t.Name(), "Opt["):
		w.paths = append(w.paths, path)
	case isUnion(t):
		w.union(t, path)
	default:
		w.object(t, path)
	}
}

// element notes what may stand in a list.
func (w *walker) element(t reflect.Type, path string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Struct && isUnion(t) {
		w.union(t, path)
		return
	}
	w.value(t, path+"[]")
}

// object notes the members of a struct.
func (w *walker) object(t reflect.Type, path string) {
	if slices.Contains(w.on, t) { // a type inside itself
		w.paths = append(w.paths, path)
		return
	}
	w.on = append(w.on, t)
	n := len(w.paths)
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "" || name == "-" {
			continue
		}
		if word := constantOf(f.Type); word != "" { // it is the form's name in the path
			continue
		}
		w.value(f.Type, strings.TrimPrefix(path+"."+name, "."))
	}
	if len(w.paths) == n {
		w.paths = append(w.paths, path) // it is all that there is to say
	}
	w.on = w.on[:len(w.on)-1]
}

// union notes the forms of a value.
func (w *walker) union(t reflect.Type, path string) {
	if slices.Contains(w.on, t) {
		w.paths = append(w.paths, path)
		return
	}
	w.on = append(w.on, t)
	defer func() { w.on = w.on[:len(w.on)-1] }()
	for i := range t.NumField() {
		f := t.Field(i)
		name, ok := strings.CutPrefix(f.Name, "Of")
		if !ok {
			continue
		}
		v := f.Type
		for v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		switch {
		case v.Kind() == reflect.Slice:
			w.value(v, path)
		case v.Kind() == reflect.Struct && isUnion(v):
			w.union(v, path)
		case v.Kind() == reflect.Struct && !strings.HasPrefix(v.Name(), "Opt["):
			w.value(v, path+"["+formOf(v, name)+"]")
		default:
			w.value(v, path+":string")
		}
	}
}

func isUnion(t reflect.Type) bool {
	for i := range t.NumField() {
		if f := t.Field(i); strings.HasPrefix(f.Name, "Of") && strings.Contains(f.Tag.Get("json"), "inline") {
			return true
		}
	}
	return false
}

// formOf is the word by which a form of a union is told from the others.
func formOf(t reflect.Type, name string) string {
	words := map[string]string{}
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if word := constantOf(f.Type); word != "" {
			words[tag] = word
		}
	}
	for _, tag := range []string{"type", "role"} {
		if words[tag] != "" {
			return words[tag]
		}
	}
	return strings.ToLower(name[:1] + upper.ReplaceAllString(name[1:], "_$0"))
}

var upper = regexp.MustCompile(`[A-Z]`)

// constantOf is the only value of a type of constants, "" for another.
func constantOf(t reflect.Type) string {
	if t.Kind() != reflect.String {
		return ""
	}
	m := reflect.Zero(t).MethodByName("Default")
	if !m.IsValid() {
		return ""
	}
	return m.Call(nil)[0].String()
}
