package conf

import (
	"bytes"
	"encoding/json"

	"go.yaml.in/yaml/v4"
)

// Schema is the JSON Schema (2020-12) of the whole file, for editors. It knows
// shapes and bounds; what several fields say together only Parse judges.
func Schema() []byte {
	d := draft{File: Default()}
	return asSchema("headway.yaml", fileRecord().schema(&d))
}

func asSchema(title string, s object) []byte {
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = title
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(s); err != nil { // maps of strings, numbers and lists: it cannot fail
		return nil
	}
	return out.Bytes()
}

// plainValue is a shown scalar as a JSON value; nil where there is none.
func plainValue(n *yaml.Node) any {
	if n == nil {
		return nil
	}
	switch n.Tag {
	case "!!int", "!!float":
		return json.Number(n.Value)
	case "!!bool":
		return n.Value == "true"
	}
	return n.Value
}
