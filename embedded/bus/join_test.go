package bus

import (
	"encoding/base64"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"headway/core"
)

func someJoin() Join {
	return Join{Name: "gpu-box", Address: "edge.example:4222", Pin: strings.Repeat("0f", 32), Token: core.NewSecret("Abc123")}
}

func TestJoinString(t *testing.T) {
	j := someJoin()
	got, err := ParseJoin("  " + j.String() + "\n")
	if err != nil || got != j {
		t.Fatal(got, err)
	}
	text, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(j.String(), joinPrefix))
	if want := `{"v":1,"name":"gpu-box","addr":"edge.example:4222","pin":"` + j.Pin + `","token":"Abc123"}`; err != nil || string(text) != want {
		t.Error(string(text), err) // as FLEET.md §1 has it
	}
	encode := func(text string) string { return joinPrefix + base64.RawURLEncoding.EncodeToString([]byte(text)) }
	good := j.String()
	for what, s := range map[string]string{
		"empty": "", "prefix alone": joinPrefix, "another prefix": "sk-" + good, "cut": good[:len(good)-3], "cut in the middle": good[:len(good)/2],
		"padded": good + "=", "space inside": good[:40] + " " + good[40:], "more": good + good, "endless": joinPrefix + strings.Repeat("A", 1<<20),
		"no JSON":          encode("hello"),
		"another version":  encode(strings.Replace(string(text), `"v":1`, `"v":2`, 1)),
		"no version":       encode(strings.Replace(string(text), `"v":1,`, ``, 1)),
		"a field too many": encode(strings.Replace(string(text), `"v":1`, `"v":1,"x":1`, 1)),
		"JSON behind it":   encode(string(text) + "{}"),
		"name":             encode(strings.Replace(string(text), "gpu-box", "GPU.box", 1)),
		"name wildcard":    encode(strings.Replace(string(text), "gpu-box", ">", 1)),
		"no port":          encode(strings.Replace(string(text), ":4222", "", 1)),
		"port 0":           encode(strings.Replace(string(text), ":4222", ":0", 1)),
		"no host":          encode(strings.Replace(string(text), "edge.example", "", 1)),
		"host with spaces": encode(strings.Replace(string(text), "edge.example", "edge example", 1)),
		"short pin":        encode(strings.Replace(string(text), "0f0f", "0f", 1)),
		"pin in capitals":  encode(strings.Replace(string(text), "0f0f", "0F0F", 1)),
		"no token":         encode(strings.Replace(string(text), "Abc123", "", 1)),
		"token of two":     encode(strings.Replace(string(text), "Abc123", "Abc 123", 1)),
	} {
		_, err := ParseJoin(s)
		if kindOf(err) != core.Invalid {
			t.Errorf("%s: %v", what, err)
		} else if strings.Contains(err.Error(), "Abc") {
			t.Errorf("%s: the token is in the error", what)
		}
	}
}

func FuzzParseJoin(f *testing.F) {
	f.Add(someJoin().String())
	f.Add(joinPrefix + "e30")
	f.Fuzz(func(t *testing.T, s string) {
		j, err := ParseJoin(s)
		if err != nil {
			if kindOf(err) != core.Invalid {
				t.Fatal(err)
			}
			return
		}
		if again, err := ParseJoin(j.String()); err != nil || again != j {
			t.Fatal(again, err)
		}
	})
}

func TestValidName(t *testing.T) {
	for name, want := range map[string]bool{"a": true, "gpu-1": true, "0": true, strings.Repeat("a", 63): true, strings.Repeat("a", 64): false,
		"": false, "-a": false, "a-": false, "A": false, "a.b": false, "*": false, ">": false, "a b": false, "ä": false, "a_b": false} {
		if got := validName(core.NodeID(name)); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

func TestCredential(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "node")
	if _, ok, err := LoadCredential(folder); ok || err != nil {
		t.Fatal(ok, err)
	}
	c, err := NewCredential(someJoin())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(folder, credentialFile)
	if err := os.WriteFile(name+".new", []byte("of a start that was cut off"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := c.Save(folder); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
	got, ok, err := LoadCredential(folder)
	if !ok || err != nil || !reflect.DeepEqual(got, c) {
		t.Fatal(got, ok, err)
	}
	if left, _ := filepath.Glob(filepath.Join(folder, "*.new")); left != nil {
		t.Error(left)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "credential", c, "join", c.Join)
	for _, said := range []string{log.String(), fmt.Sprintf("%#v", c.Seed), fmt.Sprint(c.Token)} {
		if strings.Contains(said, c.Seed.Reveal()) || strings.Contains(said, c.Token.Reveal()) || strings.Contains(said, strings.TrimPrefix(c.Join.String(), joinPrefix)) {
			t.Error("a secret shows:", said)
		}
	}
	text, _ := os.ReadFile(name)
	for what, damaged := range map[string]string{"empty": "", "cut": string(text[:len(text)/2]), "another seed": strings.Replace(string(text), `"seed": "S`, `"seed": "T`, 1),
		"no seed": strings.Replace(string(text), c.Seed.Reveal(), "", 1), "name": strings.Replace(string(text), "gpu-box", "..", 1)} {
		if err := os.WriteFile(name, []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := LoadCredential(folder); kindOf(err) != core.Internal || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), c.Seed.Reveal()) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := os.Chmod(folder, 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(folder, 0o700) })
	blocked := filepath.Join(folder, credentialFile, "inside-a-file")
	if err := c.Save(blocked); kindOf(err) != core.Unavailable {
		t.Error(err)
	}
}

// TestRejoin: another join string makes another key, one that was given before none.
func TestRejoin(t *testing.T) {
	join := func(token, address string) Join {
		return Join{Name: "gpu-box", Address: address, Pin: strings.Repeat("ab", 32), Token: core.NewSecret(token)}
	}
	first, err := NewCredential(join("one", "edge:1"))
	if err != nil {
		t.Fatal(err)
	}
	if is, changed, err := first.Rejoin(join("one", "edge:1")); err != nil || changed || !reflect.DeepEqual(is, first) {
		t.Errorf("by its own string: %v %v", changed, err)
	}
	if is, changed, err := first.Rejoin(join("one", "edge:2")); err != nil || !changed || is.Seed != first.Seed || is.Address != "edge:2" {
		t.Errorf("at another address: %v %v %v", is.Address, changed, err)
	}
	second, changed, err := first.Rejoin(join("two", "edge:1"))
	if err != nil || !changed || second.Seed == first.Seed || second.Token.Reveal() != "two" {
		t.Fatalf("by another string: %v %v", changed, err)
	}
	folder := t.TempDir()
	if err := second.Save(folder); err != nil {
		t.Fatal(err)
	}
	kept, _, err := LoadCredential(folder)
	if err != nil {
		t.Fatal(err)
	}
	if is, changed, err := kept.Rejoin(join("one", "edge:9")); err != nil || changed || !reflect.DeepEqual(is, second) {
		t.Errorf("by the string of before: %v %v, at %s", changed, err, is.Address)
	}
	for n := range 3 * mostSpent {
		if kept, _, err = kept.Rejoin(join(fmt.Sprint("more", n), "edge:1")); err != nil {
			t.Fatal(err)
		}
	}
	if len(kept.spent) != mostSpent {
		t.Errorf("%d are remembered", len(kept.spent))
	}
}
