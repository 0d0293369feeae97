package conf

import (
	"encoding/json"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"headway/core"
)

// What a configuration holds, as the JSON objects of admin calls: with defaults,
// and every secret as ***. They are what the audit log compares.

// ProviderObject is a provider without its offers.
func ProviderObject(p *core.Provider) json.RawMessage {
	return asJSON(providerRecord().show(showProvider(p)))
}

// OfferObject is an offer, with its provider's id.
func OfferObject(o *core.Offer) json.RawMessage {
	return asJSON(offerRecord(true).show(&offer{Offer: *o, provider: o.Provider.ID}))
}

// KeyObject is a key without its text.
func KeyObject(k *core.Key) json.RawMessage {
	return asJSON(keyRecord(false).show(&Credential{Key: *k}))
}

// SettingObjects are the groups of settings that hold without a restart, by their
// name in the file; one that is no mapping there is an object with itself alone.
func SettingObjects(f *File) map[string]json.RawMessage {
	groups := map[string]json.RawMessage{}
	node := fileRecord().show(&draft{File: *f})
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, v := node.Content[i].Value, node.Content[i+1]
		switch {
		case slices.Contains([]string{"listen", "data", "admin_token", "nats", "keys", "providers", "log", "store"}, name):
			continue
		case v.Kind != yaml.MappingNode:
			v = &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{node.Content[i], v}}
		}
		groups[name] = asJSON(v)
	}
	return groups
}

// asJSON writes what show gives; nil is an empty object.
func asJSON(n *yaml.Node) json.RawMessage {
	if n == nil {
		return json.RawMessage("{}")
	}
	text, err := json.Marshal(plainOf(n))
	if err != nil { // a tree of texts, numbers, lists and mappings: it cannot fail
		return json.RawMessage("{}")
	}
	return text
}

func plainOf(n *yaml.Node) any {
	switch {
	case n.Kind == yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, c := range n.Content {
			list[i] = plainOf(c)
		}
		return list
	case n.Kind == yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			m[undoubled(n.Content[i].Value)] = plainOf(n.Content[i+1])
		}
		return m
	case n.Tag == "!!int" || n.Tag == "!!float":
		return json.Number(n.Value)
	case n.Tag == "!!bool":
		return n.Value == "true"
	}
	return undoubled(n.Value)
}

// undoubled takes back what textNode does for a file, whose dollars begin
// references.
func undoubled(s string) string { return strings.ReplaceAll(s, "$$", "$") }
