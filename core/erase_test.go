package core

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestErased fills every text of a receipt with a mark of its own and looks for which
// are left: a field that is added must be judged here.
func TestErased(t *testing.T) {
	stays := map[string]bool{}
	for _, path := range []string{"ID", "Kind", "Outcome", "Model", "Offer", "Provider", "Node", "UsageFrom", "Operation", "Format", "UpstreamFormat",
		"FinishReason", "FiguresFrom", "Slow", "Error", "Strategy", "RankedOn", "Refused", "Region", "PromptClass", "CountedOn"} {
		stays[path] = true
	}
	for _, path := range []string{"Job", "Step", "Key", "Owner", "TraceID", "Group", "ScriptError"} {
		stays[path] = false
	}
	var r Receipt
	marks := map[string]string{} // to their fields
	var fill func(v reflect.Value, field string)
	fill = func(v reflect.Value, field string) {
		switch v.Kind() {
		case reflect.String:
			mark := "mark-" + string(rune('a'+len(marks)/26)) + string(rune('a'+len(marks)%26)) + "-"
			marks[mark] = field
			v.SetString(mark)
			if _, judged := stays[field]; !judged {
				t.Errorf("%s: is it the caller's?", field)
			}
		case reflect.Struct:
			if v.Type() == reflect.TypeFor[time.Time]() {
				return
			}
			for i := range v.NumField() {
				fill(v.Field(i), v.Type().Field(i).Name)
			}
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), field)
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0), field)
		}
	}
	fill(reflect.ValueOf(&r).Elem(), "")
	before, _ := json.Marshal(&r)
	e := r.Erased()
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	for mark, field := range marks {
		if strings.Contains(string(text), mark) != stays[field] {
			t.Errorf("%s: it stays: %v", field, !stays[field])
		}
	}
	if e.Job != JobID(r.ID) || e.Decision.ScriptError == "" {
		t.Errorf("%s", text)
	}
	r.Decision.Offers[0].Refused = RefusedOwn
	if e := r.Erased(); e.Decision.Offers[0].Refused != RefusedStrategy || r.Decision.Offers[0].Refused != RefusedOwn {
		t.Error("whose offer it was is left, or the receipt was changed")
	}
	r.Decision.Offers[0].Refused = ""
	if again, _ := json.Marshal(e.Erased()); string(again) != string(text) {
		t.Error("erased twice it differs")
	}
	if len(before) == 0 || r.Key == "" {
		t.Error("the receipt itself was changed")
	}
}
