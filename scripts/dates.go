package scripts

import (
	"time"

	"github.com/dop251/goja"
)

// A script's dates are in UTC, whatever the time zone of the machine: a call that is
// ranked again elsewhere is ranked the same. goja follows the process's zone where
// JavaScript does; those places are put into UTC here, and the methods by inUTC.

// dates makes ready what the text of a script need not name.
func (r *run) dates() {
	date, prototype := r.owner("Date"), r.prototype("Date")
	parse, _ := date.Get("parse").Export().(native)
	utc, _ := date.Get("UTC").Export().(native)
	r.parseDate = func(text goja.String) goja.Value {
		// What names no zone is in UTC. In front of words a zone gives way to one that
		// comes behind; a time with a T takes none in front, and a second one never.
		s := text.String()
		for _, s := range [...]string{"GMT " + s, s + "Z", s} {
			if v := parse(goja.FunctionCall{Arguments: []goja.Value{r.vm.ToValue(s)}}); !goja.IsNaN(v) {
				return v
			}
		}
		return goja.NaN()
	}
	r.dateUTC = utc
	r.dated(prototype, "toString", "Mon Jan 02 2006 15:04:05 GMT-0700 (MST)") // every date that becomes a text goes through it
}

// dated makes a method give a date's text in UTC.
func (r *run) dated(prototype *goja.Object, name, layout string) {
	r.put(prototype, name, r.vm.ToValue(func(c goja.FunctionCall) goja.Value {
		o, ok := c.This.(*goja.Object)
		if !ok || o.ClassName() != "Date" {
			panic(r.vm.NewTypeError("%s is for dates", name))
		}
		at, ok := o.Export().(time.Time)
		if !ok {
			return r.vm.ToValue("Invalid Date")
		}
		return r.vm.ToValue(at.UTC().Format(layout))
	}))
}

// installDate bounds and puts into UTC what a script names of dates.
func (r *run) installDate(name string) {
	date, prototype := r.owner("Date"), r.prototype("Date")
	switch name {
	case "parse":
		r.put(date, name, r.vm.ToValue(func(c goja.FunctionCall) goja.Value {
			r.enter()
			defer r.leave()
			return r.parseDate(r.short(c.Argument(0)))
		}))
	case "toDateString":
		r.dated(prototype, name, "Mon Jan 02 2006")
	case "toTimeString":
		r.dated(prototype, name, "15:04:05 GMT-0700 (MST)")
	case "getTimezoneOffset":
		r.put(prototype, name, r.vm.ToValue(func(goja.FunctionCall) goja.Value { return r.vm.ToValue(0) }))
	case "toJSON":
		r.count(prototype, name)
	default:
		r.put(prototype, name, prototype.Get(inUTC[name]))
	}
}

// moment is what a Date is made of, so that it is the same in every zone: of a year,
// a month and so on the milliseconds, of a text too; the rest as it is.
func (r *run) moment(c goja.FunctionCall) goja.Value {
	r.enter()
	defer r.leave()
	if len(c.Arguments) > 1 {
		return r.dateUTC(goja.FunctionCall{Arguments: c.Arguments})
	}
	switch v := c.Argument(0).(type) {
	case goja.String:
		return r.parseDate(r.short(v))
	case *goja.Object:
		if v.ClassName() != "Date" {
			panic(r.vm.NewTypeError("a Date is made of numbers, a text or a Date, in a script"))
		}
	}
	return c.Argument(0)
}
