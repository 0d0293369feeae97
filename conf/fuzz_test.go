package conf_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"headway/conf"
	"headway/core"
)

// FuzzParse: any bytes are a file or problems with places inside them, and a
// file that is shown reads as the same.
func FuzzParse(f *testing.F) {
	f.Add([]byte("listen: 127.0.0.1:0\ncors: ['*']\nlimits: {hold: 1s}\n"))
	f.Add(conf.Reference())
	for _, name := range []string{"many.bad.yaml", "anchor.bad.yaml", "syntax-flow.bad.yaml", "spec.good.yaml", "references.good.yaml"} {
		data, err := os.ReadFile("../testdata/conf/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := conf.Parse("headway.yaml", data, env)
		if err != nil {
			var problems conf.Problems
			if !errors.As(err, &problems) || len(problems) == 0 {
				t.Fatalf("%T: %v", err, err)
			}
			lines := 2 + bytes.Count(data, []byte("\n")) + bytes.Count(data, []byte("\r"))
			for _, p := range problems {
				if p.File != "headway.yaml" || p.Line < 0 || p.Line > lines+len(data) || p.Reason == "" || strings.Contains(p.String(), "hunter2") {
					t.Errorf("%+v", p)
				}
			}
			return
		}
		// A key of three stars is short: each secret gets a text of its own.
		var s strings.Builder
		for i, part := range strings.SplitAfter(string(conf.Show(file)), "'***'") {
			s.WriteString(strings.ReplaceAll(part, "'***'", fmt.Sprintf("'secret-number-%08d'", i)))
		}
		again, err := conf.Parse("headway.yaml", []byte(s.String()), env)
		if err != nil {
			t.Fatalf("what is shown does not load: %v\n%s", err, conf.Show(file))
		}
		if !bytes.Equal(conf.Show(file), conf.Show(again)) {
			t.Errorf("what is shown reads as something else:\n%s\nthen\n%s", conf.Show(file), conf.Show(again))
		}
	})
}

// FuzzParseNode: any bytes are a node's file or problems with places inside them.
func FuzzParseNode(f *testing.F) {
	f.Add(conf.NodeReference())
	f.Add([]byte("upstreams: [{url: 'http://user:hunter2@h', offers: [{model: '*', aliases: [a]}]}, {url: x, name: a}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		node, err := conf.ParseNode("node.yaml", data, nodeEnv)
		var problems conf.Problems
		switch {
		case err != nil && (!errors.As(err, &problems) || len(problems) == 0):
			t.Fatalf("%T: %v", err, err)
		case err == nil:
			for _, u := range node.Upstreams {
				if err := core.CheckURL(u.URL, false, true); err != nil {
					t.Errorf("the address %q: %v", u.URL, err)
				}
			}
		}
		for _, p := range problems {
			if p.File != "node.yaml" || p.Reason == "" {
				t.Errorf("%+v", p)
			}
		}
	})
}
