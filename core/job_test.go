package core

import (
	"encoding/json"
	"testing"
)

func TestFeatureNames(t *testing.T) {
	for f, want := range map[Feature]string{0: `[]`, FeatureTools: `["tools"]`, FeatureImages | FeatureDocuments: `["images","documents"]`} {
		text, err := json.Marshal(f)
		if err != nil || string(text) != want {
			t.Errorf("%d: %s %v", f, text, err)
		}
		var got Feature
		if err := json.Unmarshal(text, &got); err != nil || got != f {
			t.Errorf("%s: %d %v", text, got, err)
		}
	}
	for _, bad := range []string{`4`, `["flying"]`, `"tools"`} {
		if json.Unmarshal([]byte(bad), new(Feature)) == nil {
			t.Errorf("%s is read", bad)
		}
	}
}
