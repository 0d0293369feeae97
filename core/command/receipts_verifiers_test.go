package command_test

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"headway/core/seal"
)

// TestReceiptsVerifiersAgree edits what the built binary exports, and what keys of the
// test's own have signed: core/seal and the verifier of RECEIPT.md refuse the same, and
// accept the same.
func TestReceiptsVerifiersAgree(t *testing.T) {
	v := newVerifiers(t)
	t.Run("edited", v.edited)
	t.Run("leaves", v.leaves)
	t.Run("notes", v.notes)
	t.Run("logs", v.logs)
}

// TestReceiptsVerifierIsCalledWrongly: what cannot be checked is said in one line.
func TestReceiptsVerifierIsCalledWrongly(t *testing.T) {
	verifier := pythonVerifier(t)
	if verifier == "" {
		return
	}
	dir := t.TempDir()
	a := newForger("edge.example/a", t)
	l := &forged{origin: "edge.example/a/2026-11", leaves: []string{openOf(nil, a), receiptOf()}, by: []*forger{a}}
	write(t, filepath.Join(dir, "export.jsonl"), []byte(exportOf(l)))
	write(t, filepath.Join(dir, "empty"), nil)
	vkey := a.key("").String()
	for _, c := range []struct {
		args string
		code int
		say  string
	}{
		{"", 2, "usage: verify.py EXPORT [--checkpoint FILE] [VKEY ...]"},
		{"none.jsonl", 2, "none.jsonl: cannot be read: No such file or directory"},
		{".", 2, ".: cannot be read: Is a directory"},
		{"export.jsonl --checkpoint", 2, "--checkpoint needs a file"},
		{"export.jsonl --checkpoint none", 2, "none: cannot be read: No such file or directory"},
		{"export.jsonl --checkpoint empty", 1, "empty: it is not a checkpoint of a receipt log"},
		{"export.jsonl --checkpoint /dev/null", 1, "/dev/null: it is not a checkpoint of a receipt log"},
		{"export.jsonl nonsense", 2, "not a key: nonsense"},
		{"export.jsonl " + vkey + "A", 2, "not a key: " + vkey + "A"},
		{"empty " + vkey, 1, "line 1: cut short, or longer than a line is"},
		{"export.jsonl " + vkey, 0, "edge.example/a/2026-11: 1 receipt of 2 leaves, 0.000000001000 USD\ngood"},
	} {
		cmd := exec.Command("python3", append([]string{verifier}, strings.Fields(c.args)...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != c.code || string(out) != c.say+"\n" {
			t.Errorf("verify.py %s: %v\n%s", c.args, err, out)
		}
	}
	const without = `import os, runpy, sys; os.environ["PATH"] = "."; sys.argv.pop(0); runpy.run_path(sys.argv[0], run_name="__main__")`
	cmd := exec.Command("python3", "-c", without, verifier, "export.jsonl", vkey)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 2 || string(out) != "openssl is not on this machine\n" {
		t.Errorf("verify.py without openssl: %v\n%s", err, out)
	}
}

// edited is of what the product's own keys have signed.
func (v *verifiers) edited(t *testing.T) {
	e := realExports(t)
	v.keys = []seal.Key{e.old}
	saved, newest := withSaved(e.saved), withSaved(e.newest)
	for _, with := range []option{nil, saved, newest, withKeys(), withKeys(e.old, e.now), withKeys(e.now)} {
		v.accept(t, "the whole log", e.whole.text(), with)
	}
	v.accept(t, "what came since", e.since.text(), nil)
	v.accept(t, "what came since", e.since.text(), saved)
	v.accept(t, "what came since the newest", e.last.text(), newest)

	// The log's line.
	head := e.whole.at(`{"checkpoint"`)
	note := e.whole.note(head)
	signatures := strings.SplitAfter(strings.TrimSuffix(note[strings.Index(note, "\n\n")+2:], "\n"), "\n")
	if len(signatures) != 2 {
		t.Fatalf("%d have signed", len(signatures))
	}
	names := e.whole.between(head, `"vkeys":[`, `]`)
	first, second, _ := strings.Cut(names, ",")
	sig := strings.TrimSuffix(signatures[0][strings.LastIndexByte(signatures[0], ' ')+1:], "\n")
	root := strings.Split(note, "\n")[2]
	frontier := strings.Trim(e.whole.between(head, `"frontier":[`, `,`), `"`)
	for _, c := range []struct{ what, from, to string }{
		{"a signature's spare bits", sig, spare(sig)},
		{"the root's spare bits", root, spare(root)},
		{"a root's newline", root, root[:8] + `\n` + root[8:]},
		{"a form feed behind a signature", `\n","frontier"`, `\f","frontier"`},
		{"a line separator behind a signature", `\n","frontier"`, "\u2028\",\"frontier\""},
		{"no end of a signature", `\n","frontier"`, `","frontier"`},
		{"an empty line of a signature", `\n","frontier"`, `\n\n","frontier"`},
		{"another dash", "— ", "― "},
		{"no dash", "— ", ""},
		{"two spaces", "— ", "—  "},
		{"a key twice", first, first + "," + first},
		{"keys in another order", names, second + "," + first},
		{"one key of two", names, first},
		{"the other key of two", names, second},
		{"no key", names, ""},
		{"a space before a key", `["`, `[" `},
		{"keys that are an object", "[" + names + "]", "{" + first + ":0}"},
		{"hashes that are an object", `["` + frontier + `"`, `{"` + frontier + `":""`},
		{"a hash less", frontier, frontier[:len(frontier)*2/3&^3]},
		{"a field more", `"vkeys"`, `"size":0,"vkeys"`},
		{"since without a part", `"vkeys"`, `"since":` + e.last.between(e.last.at(`{"checkpoint"`), `"since":`, `,"vkeys"`) + `,"vkeys"`},
		{"a part that is all", `"vkeys"`, fmt.Sprintf(`"part":{"count":%d,"from":0,"to":%[1]d},"vkeys"`, e.size)},
	} {
		v.refuse(t, c.what, e.whole.change(head, c.from, c.to).text(), withKeys(e.old, e.now))
	}
	v.refuse(t, "one key of two, and no key given", e.whole.change(head, names, first).text(), withKeys())

	// The first line.
	logs := e.whole.between(0, `"logs":[`, "]")
	for _, c := range []struct{ what, from, to string }{
		{"an object of logs", "[" + logs + "]", "{" + logs + ":0}"},
		{"a string of logs", "[" + logs + "]", logs},
		{"no logs", logs, ""},
		{"a log twice", logs, logs + "," + logs},
		{"a log more", logs, logs + "," + strings.Replace(logs, "-", "-9", 1)},
		{"a field more", `"logs"`, `"from":0,"logs"`},
		{"another format", "log v1", "log v2"},
		{"a byte order mark", `{"format"`, "\ufeff" + `{"format"`},
		{"an empty line before it", `{"format"`, "\n" + `{"format"`},
	} {
		v.refuse(t, c.what, e.whole.change(0, c.from, c.to).text(), nil)
	}

	// A tile, and what is behind the end.
	tile := e.whole.at(`{"hashes"`)
	list := e.whole.between(tile, `"hashes":"`, `"`)
	for _, c := range []struct{ what, from, to string }{
		{"a tile's spare bits", list, spare(list)},
		{"a tile's number as a float", `"tile":0}`, `"tile":0.0}`},
		{"a tile's number as an exponent", `"tile":0}`, `"tile":0e0}`},
		{"a tile's number below zero", `"tile":0}`, `"tile":-0}`},
		{"a tile's number of 5,000 digits", `"tile":0}`, `"tile":` + strings.Repeat("9", 5000) + `}`},
		{"a tile's number as a boolean", `"tile":0}`, `"tile":false}`},
		{"a tile's level as a boolean", `"level":0`, `"level":false`},
		{"a tile's level as a string", `"level":0`, `"level":"0"`},
		{"a field more in a tile", `"tile":0}`, `"tile":0,"x":1}`},
	} {
		v.refuse(t, c.what, e.whole.change(tile, c.from, c.to).text(), nil)
	}
	whole := e.whole.text()
	for what, text := range map[string]string{
		"an empty line behind the end": whole + "\n", "a byte behind the end": whole + " ", "no last line end": whole[:len(whole)-1], "all twice": whole + whole,
		"line ends of two bytes": strings.ReplaceAll(whole, "\n", "\r\n"), "nothing": "", "a first line": string(e.whole[0]),
	} {
		v.refuse(t, what, text, nil)
	}

	// Measurements.
	at := e.whole.at(`{"id":`)
	next := at + 1 + e.whole[at+1:].at(`{"id":`)
	open, end := e.whole.at(`{"index":0,`), e.whole.at(`{"index":255,`)+1
	id := e.whole.between(at, `"id":"`, `"`)
	if !strings.HasPrefix(e.whole[end], `{"id":`) || !strings.HasPrefix(e.whole[end+1], `{"hashes":`) {
		t.Fatalf("behind leaf 255 there is %.20q, %.20q", e.whole[end], e.whole[end+1])
	}
	side := `{"id":"` + id + `","measurements":`
	for what, text := range map[string]export{
		"measurements of two receipts, each the other's": e.whole.swap(at, next),
		"measurements behind the open leaf":              e.whole.insert(open+1, e.whole[at]),
		"measurements before the first line":             e.whole.insert(0, e.whole[at]),
		"measurements behind their log's line":           e.whole.insert(head+1, e.whole[at]),
		"measurements behind the next tile":              e.whole.swap(end, end+1),
		"measurements twice":                             e.whole.insert(at, e.whole[at]),
		"measurements of another receipt":                e.whole.change(at, id, strings.Repeat("0", len(id))),
		"measurements of nobody":                         e.whole.change(at, e.whole[at], "{\"id\":garbage\n"),
		"measurements that are no JSON":                  e.whole.change(at, e.whole[at], side+"{,}}\n"),
		"measurements that are not UTF-8":                e.whole.change(at, e.whole[at], side+"{\"a\":\"\xff\"}}\n"),
		"measurements that are a number":                 e.whole.change(at, e.whole[at], side+"5}\n"),
		"measurements that have NaN":                     e.whole.change(at, e.whole[at], side+"{\"a\":NaN}}\n"),
		"measurements that are longer than a line":       e.whole.change(at, e.whole[at], padded(side, 1<<20+1)),
	} {
		v.refuse(t, what, text.text(), nil)
	}
	v.accept(t, "measurements as long as a line", e.whole.change(at, e.whole[at], padded(side, 1<<20)).text(), nil)
	v.accept(t, "measurements that are gone", slices.Delete(slices.Clone(e.whole), at, at+1).text(), nil)

	// Parts. One from 0 on is all but the last leaf.
	all := e.whole.bare()
	part := all.change(head, `"vkeys"`, fmt.Sprintf(`"part":{"count":%d,"from":0,"to":%[1]d},"vkeys"`, e.size-1))
	part = part[:len(part)-1]
	v.accept(t, "a part", part.text(), nil)
	for _, c := range []struct{ what, from, to string }{
		{"from -3", `"from":0`, `"from":-3`}, {"from -999999", `"from":0`, `"from":-999999`}, {"from -0", `"from":0`, `"from":-0`}, {"from nowhere", `"from":0,`, ``},
		{"from 0.0", `"from":0`, `"from":0.0`}, {"from false", `"from":0`, `"from":false`}, {"from null", `"from":0`, `"from":null`}, {"from a string", `"from":0`, `"from":"0"`},
		{"no count", fmt.Sprintf(`"count":%d,`, e.size-1), ``}, {"no to", fmt.Sprintf(`,"to":%d`, e.size-1), ``}, {"a field more", `"from":0`, `"from":0,"o":0`},
		{"another count", fmt.Sprintf(`"count":%d`, e.size-1), fmt.Sprintf(`"count":%d`, e.size)},
	} {
		v.refuse(t, "a part "+c.what, part.change(head, c.from, c.to).text(), nil)
	}

	// The proof that the log has grown: no byte of it is without meaning.
	since := e.since.between(head, `"since":`, `,"vkeys"`)
	for at := 1; at < len(since); at += 1 + len(since)/40 {
		edited := []byte(since)
		if edited[at] ^= 1; edited[at] == '!' || edited[at] == '#' {
			edited[at] = 'x'
		}
		v.refuse(t, fmt.Sprintf("byte %d of since", at), e.since.change(head, since, string(edited)).text(), nil)
	}
	proof, sinceRoot := e.since.between(head, `"proof":"`, `"`), e.since.between(head, `"root":"`, `"`)
	size := e.since.between(head, `"size":`, "}")
	for _, c := range []struct{ what, from, to string }{
		{"no proof", `"proof":"` + proof + `",`, ``}, {"an empty proof", proof, ``}, {"a hash less", proof, base64Of(proof)[0]}, {"a hash more", proof, base64Of(proof)[1]},
		{"no root", `"root":"` + sinceRoot + `",`, ``}, {"the root's spare bits", sinceRoot, spare(sinceRoot)}, {"the proof's spare bits", proof, spare(proof)},
		{"another size", `"size":` + size, `"size":` + size + `0`}, {"no size", `,"size":` + size, ``}, {"size 0", `"size":` + size, `"size":0`}, {"size -1", `"size":` + size, `"size":-1`},
		{"a size as a float", `"size":` + size, `"size":` + size + `.0`}, {"a field more", `"size":` + size, `"size":` + size + `,"to":0`},
	} {
		v.refuse(t, "since: "+c.what, e.since.change(head, c.from, c.to).text(), nil)
	}
	v.refuse(t, "since the newest, without its empty proof", e.last.change(head, `"proof":"",`, ``).text(), nil)

	// Less than what came since the checkpoint that was saved.
	from, to := e.savedSize, e.size
	v.refuse(t, "a part with a saved checkpoint and no proof", e.since.change(head, `,"since":`+since, ``).text(), saved)
	v.refuse(t, "a part with the newest saved and no proof", e.since.change(head, `,"since":`+since, ``).text(), newest)
	v.refuse(t, "a part with another proof", e.since.text(), newest)
	v.refuse(t, "the first of what came since are gone", e.since.cut(from, to, from+10, to).text(), saved)
	v.refuse(t, "the last of what came since are gone", e.since.cut(from, to, from, to-5).text(), saved)
	v.refuse(t, "both are gone", e.since.cut(from, to, from+10, to-5).text(), saved)
	sinceNewest := e.last.between(head, `"since":`, `,"vkeys"`)
	v.accept(t, "more than came since", e.since.change(head, since, sinceNewest).text(), newest)
	v.refuse(t, "leaves before the newest checkpoint alone", e.since.change(head, since, sinceNewest).cut(from, to, from, to-5).text(), newest)
	v.refuse(t, "a part from 0 on that has what was saved", part.text(), saved)
	v.refuse(t, "an older export", e.older.text(), newest)
	v.accept(t, "an older export", e.older.text(), saved)
	v.refuse(t, "a checkpoint with a broken signature", e.whole.text(), withSaved(strings.Replace(e.saved, sigOf(e.saved), flipped(sigOf(e.saved)), 1)))
	v.long(t)
}

// leaves are signed, and are none or stand where they cannot.
func (v *verifiers) leaves(t *testing.T) {
	a := newForger("edge.example/a", t)
	v.keys = []seal.Key{a.key("")}
	log := func(leaves ...string) string {
		return exportOf(&forged{origin: "edge.example/a/2026-11", leaves: leaves, by: []*forger{a}})
	}
	open := openOf(nil, a)
	v.accept(t, "a receipt", log(open, receiptOf()), nil)
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	fill := 1<<16 - 1 - len(receiptOf("zz", `""`))
	for what, leaf := range map[string]string{
		"no known field but its type": `{"type":"z"}`, "unknown fields": receiptOf("a", `[null,true,{"b":-5}]`), "the largest count": receiptOf("attempts", "9007199254740991"),
		"the largest charge": receiptOf("charge_picousd", `"9223372036854775807"`), "no charge": receiptOf("charge_picousd", ""), "16 inside one another": receiptOf("zz", deep(15)),
		"65,535 bytes": receiptOf("zz", `"`+strings.Repeat("x", fill)+`"`), "a name of 1,024 bytes": receiptOf("model", `"`+strings.Repeat("é", 512)+`"`),
		"a line separator": receiptOf("model", "\"a\u2028b\u007f\""), "a control character": receiptOf("model", `"a\u001f\n"`), "a close": `{"keys":[],"type":"close"}`,
		"an erase": `{"index":0,"origin":"edge.example/a/2026-11","type":"erase"}`, "a key": `{"type":"key","vkey":"` + newForger("edge.example/a", t).key("").String() + `"}`,
	} {
		v.accept(t, what, log(open, leaf), nil)
	}
	for _, charge := range []string{`"1_000"`, `" 5"`, `"5 "`, `"+5"`, `"-5"`, `"-0"`, `"007"`, `"５"`, `"1e3"`, `"1.0"`, `""`, `"9223372036854775808"`, `"` + strings.Repeat("9", 40) + `"`,
		`"` + strings.Repeat("9", 5000) + `"`, `5`, `null`, `true`} {
		v.refuse(t, "a charge of "+charge, log(open, receiptOf("charge_picousd", charge)), nil)
		v.refuse(t, "a rate of "+charge, log(open, receiptOf("prices_picousd_per_token", `{"input":`+charge+`}`)), nil)
	}
	for _, count := range []string{"9007199254740992", "-1", "-0", "1.5", "1.0", "1e2", "NaN", "Infinity", "-Infinity", "null", "true", `"1"`, "[]", strings.Repeat("9", 5000)} {
		v.refuse(t, "attempts "+count, log(open, receiptOf("attempts", count)), nil)
		v.refuse(t, "a time of "+count, log(open, receiptOf("time", count)), nil)
		v.refuse(t, count+" tokens", log(open, receiptOf("usage", `{"output_tokens":`+count+`}`)), nil)
		v.refuse(t, "leaf "+count+" erased", log(open, `{"index":`+count+`,"origin":"edge.example/a/2026-11","type":"erase"}`), nil)
	}
	for what, leaf := range map[string]string{
		"no type": `{"a":1}`, "an empty type": `{"type":""}`, "a type that is a number": `{"type":5}`, "a list": `[1]`, "null": `null`, "nothing": ``, "a field twice": `{"type":"z","type":"z"}`,
		"keys in another order": `{"type":"z","a":1}`, "a space": `{"type": "z"}`, "no id": receiptOf("id", ""), "an empty id": receiptOf("id", `""`), "no time": receiptOf("time", ""),
		"no commitment": receiptOf("private", ""), "a short commitment": receiptOf("private", `"AAAA"`), "a commitment's spare bits": receiptOf("private", `"`+spare(zeros)+`"`),
		"usage null": receiptOf("usage", "null"), "usage that is a list": receiptOf("usage", "[]"), "prices null": receiptOf("prices_picousd_per_token", "null"),
		"17 inside one another": receiptOf("zz", deep(16)), "50,000 inside one another": receiptOf("zz", strings.Repeat("[", 50_000)), "NaN": receiptOf("zz", "NaN"), "a fraction": receiptOf("zz", "1.5"),
		"65,536 bytes": receiptOf("zz", `"`+strings.Repeat("x", fill+1)+`"`), "a name of 1,025 bytes": receiptOf("model", `"a`+strings.Repeat("é", 512)+`"`),
		"a name that is null": receiptOf("node", "null"), "a lone surrogate": receiptOf("model", `"\ud800"`), "an escape more": receiptOf("model", `"\u0061"`), "an escape in capitals": receiptOf("model", `"\u001F"`),
		"no UTF-8": receiptOf("model", "\"\xff\""), "more than the shortest UTF-8": receiptOf("model", "\"\xc0\x80\""), "a second open": open, "an erase without its leaf": `{"origin":"a","type":"erase"}`,
		"a close without keys": `{"type":"close"}`, "keys that are a string": `{"keys":"` + a.key("").String() + `","type":"close"}`, "keys that are an object": `{"keys":{"` + a.key("").String() + `":0},"type":"close"}`,
		"a key without one": `{"type":"key"}`, "a key of another edge": `{"type":"key","vkey":"` + newForger("edge.example/b", t).key("").String() + `"}`,
		"a key by a log's name": `{"type":"key","vkey":"` + a.key("edge.example/a/2026-11").String() + `"}`, "a key with a space": `{"type":"key","vkey":"` + a.key("").String() + ` "}`,
		"a key that is none": `{"type":"key","vkey":"edge.example/a"}`, "a format": `{"format":"x","type":"z"}`, "a part of a tree": `{"prev_origin":"x","type":"z"}`,
		"a loss without a root": `{"lost":[{"origin":"x","size":1}],"type":"z"}`, "a loss of less than nothing": `{"lost":[{"origin":"x","root":"` + zeros + `","size":-1}],"type":"z"}`,
	} {
		v.refuse(t, what, log(open, leaf), nil)
	}
	v.refuse(t, "a leaf behind a close", log(open, `{"keys":[],"type":"close"}`, receiptOf()), nil)
	v.refuse(t, "no open", log(receiptOf()), nil)
	name := a.key("").String()
	many := make([]string, 257)
	for i := range many {
		many[i] = newForger("edge.example/a", t).key("").String()
	}
	for what, first := range map[string]string{
		"no format": `{"keys":["` + name + `"],"type":"open"}`, "another format": `{"format":"x","keys":["` + name + `"],"type":"open"}`, "no keys": `{"format":"headway receipt log v1","type":"open"}`,
		"an origin alone": strings.Replace(open, `,"type"`, `,"prev_origin":"edge.example/a/2026-10","type"`, 1), "a size alone": strings.Replace(open, `,"type"`, `,"prev_size":5,"type"`, 1),
		"257 keys": strings.Replace(open, `["`+name+`"]`, `["`+strings.Join(many, `","`)+`"]`, 1),
	} {
		v.refuse(t, "an open with "+what, log(first, receiptOf()), nil)
	}
}

// notes are checkpoints with lines that are not as they should be.
func (v *verifiers) notes(t *testing.T) {
	a, b, stranger := newForger("edge.example/a", t), newForger("edge.example/a", t), newForger("edge.example/a", t)
	v.keys = []seal.Key{a.key("")}
	l := &forged{origin: "edge.example/a/2026-11", leaves: []string{openOf(nil, a, b), receiptOf()}, by: []*forger{a, b}}
	both := withKeys(a.key(""), b.key(""))
	note := func(lines ...string) string { return exportOf(l.noted(l.signed() + "\n" + strings.Join(lines, ""))) }
	la, lb, ls := a.line(l.origin, l.signed()), b.line(l.origin, l.signed()), stranger.line(l.origin, l.signed())
	v.accept(t, "two keys", note(la, lb), both)
	v.accept(t, "two keys, one known", note(la, lb), withKeys(b.key("")))
	v.accept(t, "a key by the log's name", note(la, lb), withKeys(a.key(l.origin)))
	v.refuse(t, "a key by another log's name", note(la, lb), withKeys(a.key("edge.example/a/2026-12")))
	v.refuse(t, "a key by another edge's name", note(la, lb), withKeys(a.key("edge.example/b")))
	v.refuse(t, "a strange key", note(la, lb), withKeys(stranger.key("")))
	unknown := make([]string, 99)
	for i := range unknown {
		unknown[i] = fmt.Sprintf("— w%d AAAAAAA=\n", i)
	}
	fill := func(n int) string { return "— w " + base64.StdEncoding.EncodeToString(make([]byte, n)) + "\n" }
	most := 98_304 - len(l.signed()+"\n"+la+lb) - len(fill(0))
	for what, more := range map[string]string{"five bytes": "— witness.example/w AAAAAAA=\n", "a letter that is none of ASCII": "— wé AAAAAAA=\n", "98 others": strings.Join(unknown[:98], ""),
		"another length by the log's name": "— " + l.origin + " AAAAAAA=\n", "98,304 bytes and nearly more": fill(most / 4 * 3)} {
		v.accept(t, what, note(la, lb, more), both)
	}
	for what, more := range map[string]string{
		"four bytes": "— w AAAAAA==\n", "three bytes": "— w AAAA\n", "a name with a plus": "— w+x AAAAAAA=\n", "no name": "—  AAAAAAA=\n", "a space of another kind": "— w\u00a0x AAAAAAA=\n",
		"a tab": "— w\tx AAAAAAA=\n", "a control character": "— w\x01 AAAAAAA=\n", "spare bits": "— w AAAAAAB=\n", "no base64": "— w AAAA!AA=\n", "no dash": "w AAAAAAA=\n", "a space at the end": "— w AAAAAAA= \n",
		"the same line twice": "— w AAAAAAA=\n— w AAAAAAA=\n", "99 others": strings.Join(unknown, ""), "more than 98,304 bytes": fill(most/4*3 + 3), "no end": "— w AAAAAAA=", "an empty line": "\n",
		"a key's line again": la, "a key's line again, wrong": broken(la), "a known key's line of another length": "— " + l.origin + " " + base64.StdEncoding.EncodeToString(append(a.id(l.origin), 1, 2, 3)) + "\n",
		"a line by the log's name that no key is named for": ls,
	} {
		v.refuse(t, what, note(la, lb, more), both)
		v.refuse(t, what+", before the keys'", note(more, la, lb), both)
	}
	v.refuse(t, "the first line wrong", note(broken(la), lb), both)
	v.refuse(t, "the second line wrong", note(la, broken(lb)), both)
	v.refuse(t, "no line", note(), both)
	for what, c := range map[string]struct {
		by   []*forger
		note string
	}{
		"the first is wrong, the second named": {[]*forger{b}, broken(la) + lb}, "the second is wrong, the first named": {[]*forger{a}, la + broken(lb)},
		"two lines, the first named": {[]*forger{a}, la + lb}, "two lines, the second named": {[]*forger{b}, la + lb}, "one line, two named": {[]*forger{a, b}, la},
		"another order": {[]*forger{b, a}, la + lb}, "twice": {[]*forger{a, a, b}, la + lb}, "a stranger": {[]*forger{a, b, stranger}, la + lb}, "none": {nil, la + lb},
	} {
		x := l.noted(l.signed() + "\n" + c.note)
		x.by = c.by
		v.refuse(t, what, exportOf(x), both)
	}
	extended := *l
	extended.extra = "more\n"
	v.refuse(t, "a fourth line that is signed", exportOf(&extended), both)

	// What was saved.
	older := &forged{origin: l.origin, leaves: l.leaves[:1], by: l.by}
	other := &forged{origin: l.origin, leaves: []string{openOf(nil, a)}, by: l.by}
	longer := &forged{origin: l.origin, leaves: append(slices.Clone(l.leaves), receiptOf()), by: l.by}
	month := &forged{origin: "edge.example/a/2026-10", leaves: l.leaves, by: l.by}
	v.accept(t, "an older one saved", exportOf(l), withSaved(older.note()))
	v.accept(t, "the same saved", exportOf(l), withSaved(l.note()))
	for what, saved := range map[string]string{
		"another tree": other.note(), "more leaves": longer.note(), "another log": month.note(), "a stranger's": older.signed() + "\n" + stranger.line(l.origin, older.signed()),
		"one wrong line": older.signed() + "\n" + broken(a.line(l.origin, older.signed())) + b.line(l.origin, older.signed()),
	} {
		v.refuse(t, "saved is "+what, exportOf(l), both, withSaved(saved))
	}
	zero := fmt.Sprintf("%s\n0\n%s\n", l.origin, base64.StdEncoding.EncodeToString(make([]byte, 32)))
	for what, saved := range map[string]string{"a checkpoint of nothing": zero + "\n" + a.line(l.origin, zero), "an empty file": "", "a line end": "\n", "no UTF-8": l.note() + "— w\xff AAAAAAA=\n"} {
		v.refuse(t, "saved is "+what, exportOf(l), withSaved(saved))
	}
}

// logs are several in one export.
func (v *verifiers) logs(t *testing.T) {
	const origin = "edge.example/a/2026-"
	a, b := newForger("edge.example/a", t), newForger("edge.example/b", t)
	of := func(name string, f *forger, first string, n int) *forged {
		l := &forged{origin: name, leaves: []string{first}, by: []*forger{f}}
		for range n {
			l.leaves = append(l.leaves, receiptOf())
		}
		return l
	}
	oct := of(origin+"10", a, openOf(nil, a), 4)
	short := &forged{origin: oct.origin, leaves: oct.leaves[:3], by: oct.by}
	nov := of(origin+"11", a, openOf(oct, a), 2)
	other := of("edge.example/b/2026-11", b, openOf(nil, b), 2)
	v.keys = []seal.Key{a.key(""), b.key("")}
	v.accept(t, "two months", exportOf(oct, nov), nil)
	v.accept(t, "two edges", exportOf(oct, other, nov), nil)
	v.accept(t, "two edges and no key", exportOf(oct, other, nov), withKeys())
	v.accept(t, "another edge first", exportOf(other, oct, nov), nil)
	v.refuse(t, "two edges, one known", exportOf(oct, other), withKeys(a.key("")))
	v.refuse(t, "a month cut short", exportOf(short, nov), nil)
	v.refuse(t, "a month cut short, with another edge's between", exportOf(short, other, nov), nil)
	v.refuse(t, "months in another order", exportOf(nov, oct), nil)
	v.refuse(t, "months in another order, with another edge's between", exportOf(nov, other, oct), nil)
	v.refuse(t, "a log twice, with another edge's between", exportOf(oct, other, oct), nil)
	v.refuse(t, "logs that are named in another order", strings.Replace(exportOf(oct, nov), `["`+oct.origin+`","`+nov.origin+`"]`, `["`+nov.origin+`","`+oct.origin+`"]`, 1), nil)

	// Each edge speaks for itself.
	evil := newForger("edge.example/b", t)
	speaks := &forged{origin: nov.origin, leaves: []string{openOf(nil, a), `{"type":"key","vkey":"` + evil.key("").String() + `"}`, receiptOf()}, by: nov.by}
	v.refuse(t, "one edge names another's key", exportOf(speaks, of("edge.example/b/2026-11", evil, openOf(nil, evil), 1)), nil)
	rotated := newForger("edge.example/a", t)
	names := &forged{origin: oct.origin, leaves: []string{openOf(nil, a), `{"type":"key","vkey":"` + rotated.key("").String() + `"}`}, by: oct.by}
	later := of(nov.origin, rotated, openOf(names, rotated), 1)
	v.accept(t, "a key that the log before names", exportOf(names, later), nil)
	v.refuse(t, "a key that no log before names", exportOf(later), nil)

	// What a log says of the one before it may differ once that was lost.
	damaged := *oct
	damaged.root = zeros
	for what, c := range map[string]struct {
		origin string
		prev   *forged
		lost   bool
		good   bool
	}{
		"the same month, another root": {"10.2", &damaged, true, true}, "the same month, another size": {"10.2", short, true, true}, "the same month, nothing is told": {"10.2", short, false, true},
		"the next month's second, another size": {"11.2", short, false, true}, "the next month's second, another root": {"11.2", &damaged, true, true},
		"the next month, another size": {"11", short, true, true}, "the next month, another root": {"11", &damaged, true, true},
		"the next month, another size, nothing is lost": {"11", short, false, false}, "the next month, another root, nothing is lost": {"11", &damaged, false, false},
	} {
		first := openOf(c.prev, a)
		if c.lost {
			first = strings.Replace(first, `"prev_origin"`, fmt.Sprintf(`"lost":[{"origin":%q,"root":%q,"size":%d}],"prev_origin"`, oct.origin, oct.tree(), len(oct.leaves)), 1)
		}
		if text := exportOf(oct, of(origin+c.origin, a, first, 1)); c.good {
			v.accept(t, what, text, nil)
		} else {
			v.refuse(t, what, text, nil)
		}
	}

	// What the export does not have of it is gone, and said.
	for what, c := range map[string]struct {
		logs []*forged
		say  string
	}{
		"alone":                   {nil, "note: 5 signed leaves of " + oct.origin + " were lost before " + origin + "10.2\n"},
		"behind a part of it":     {[]*forged{short}, "note: 2 signed leaves of " + oct.origin + " were lost before " + origin + "10.2\n"},
		"behind all but one leaf": {[]*forged{of(oct.origin, a, openOf(nil, a), 3)}, "note: 1 signed leaf of " + oct.origin + " was lost before " + origin + "10.2\n"},
		"behind all of it":        {[]*forged{oct}, ""},
	} {
		first := strings.Replace(openOf(nil, a), `,"type"`, fmt.Sprintf(`,"lost":[{"origin":%q,"root":%q,"size":%d}],"type"`, oct.origin, oct.tree(), len(oct.leaves)), 1)
		said := v.accept(t, what, exportOf(append(c.logs, of(origin+"10.2", a, first, 1))...), nil)
		if is := strings.Contains(said, "note: "); v.in != nil && (is != (c.say != "") || !strings.HasSuffix(said, c.say+"good\n")) {
			t.Errorf("a log begun anew, %s: the verifier of RECEIPT.md says %s", what, said)
		}
	}

	// What a log is called.
	for _, name := range []string{"01", "12", "11.2", "11.9"} {
		v.accept(t, name, exportOf(of(origin+name, a, openOf(nil, a), 1)), nil)
	}
	for _, name := range []string{"13", "00", "11.1", "11.10", "11.02", "11.0", "11.", "11.2.2", "1", "111", "1１", "abc", "", "11/", "11\n"} {
		v.refuse(t, fmt.Sprintf("month %q", name), exportOf(of(origin+name, a, openOf(nil, a), 1)), nil)
	}
	for _, name := range []string{"edge.example/a/abc", "edge.example/a/x2026-11", "2026-11", "/2026-11"} {
		v.refuse(t, name, exportOf(of(name, a, openOf(nil, a), 1)), withKeys())
	}
	for name, ok := range map[string]bool{"é": true, "e": true, strings.Repeat("e", 200): true, strings.Repeat("e", 201): false, "a b": false, "a\u00a0b": false, "a\u0085b": false, "a+b": false,
		"a/": false, "/a": false} {
		f := newForger(name, t)
		text := exportOf(of(name+"/2026-11", f, openOf(nil, f), 1))
		if ok {
			v.accept(t, name, text, withKeys())
		} else {
			v.refuse(t, name, text, withKeys())
		}
	}
}

// long holds both against a line without an end. They read no more of it than a line has.
func (v *verifiers) long(t *testing.T) {
	endless := io.LimitReader(endlessly{}, 1<<40)
	if report, err := seal.Verify(endless, seal.Check{}); err != nil || report.OK {
		t.Error("a line without an end is taken", err)
	}
	if v.in == nil {
		return
	}
	path := filepath.Join(v.dir, "long.jsonl")
	write(t, path, nil)
	if err := os.Truncate(path, 1<<29); err != nil {
		t.Fatal(err)
	}
	ok, said, memory := v.python(t, path)
	if ok || !strings.HasPrefix(said, "line 1: ") || memory > 256<<10 {
		t.Errorf("the verifier of RECEIPT.md takes %d KiB for a line without an end, and says %s", memory, said)
	}
}

type endlessly struct{}

func (endlessly) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// verifiers are the two that an export is held against.
type verifiers struct {
	keys []seal.Key // that are known, where nothing else is said
	dir  string
	in   io.Writer // nil: there is no Python here
	out  *bufio.Scanner
}

// manyVerified runs the verifier of RECEIPT.md for each list of arguments that it reads.
// openssl is asked once for each signature: starting it takes most of the time.
const manyVerified = `import contextlib, io, json, os, subprocess, sys
source = compile(open(sys.argv[1]).read(), "verify.py", "exec")
openssl, answers = subprocess.run, {}
def run(args, cwd, **more):
    asked = tuple(open(os.path.join(cwd, f), "rb").read() for f in ("key", "text", "signature"))
    if asked not in answers:
        answers[asked] = openssl(args, cwd=cwd, **more)
    return answers[asked]
subprocess.run = run
def peak(): # in KiB; getrusage has that of the process that this one was forked from
    if not os.path.exists("/proc/self/status"):
        return 0
    return int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM:")).split()[1])
for line in sys.stdin:
    sys.argv, out, code = json.loads(line), io.StringIO(), None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            exec(source, {"__name__": "__main__"})
        except SystemExit as e:
            code = e.code
        except BaseException as e:
            code = "it dies: %r" % e
    print(json.dumps([code is None, code if isinstance(code, str) else out.getvalue(), peak()]), flush=True)
`

func newVerifiers(t *testing.T) *verifiers {
	v := &verifiers{dir: t.TempDir()}
	path := pythonVerifier(t)
	if path == "" {
		return v
	}
	cmd := exec.Command("python3", "-c", manyVerified, path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = in.Close(), cmd.Wait() })
	v.in, v.out = in, bufio.NewScanner(out)
	v.out.Buffer(nil, 1<<20)
	return v
}

func (v *verifiers) python(t *testing.T, args ...string) (ok bool, said string, memory int) {
	t.Helper()
	line, err := json.Marshal(append([]string{"verify.py"}, args...))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.in.Write(append(line, '\n')); err != nil || !v.out.Scan() {
		t.Fatal("the verifier of RECEIPT.md died", err)
	}
	if err := json.Unmarshal(v.out.Bytes(), &[]any{&ok, &said, &memory}); err != nil {
		t.Fatal(err)
	}
	return ok, said, memory
}

// option is what an export is checked with.
type option func(*seal.Check)

func withSaved(note string) option { return func(c *seal.Check) { c.Saved = []byte(note) } }

func withKeys(keys ...seal.Key) option { return func(c *seal.Check) { c.Keys = keys } }

func (v *verifiers) accept(t *testing.T, what, text string, with ...option) (said string) {
	t.Helper()
	return v.check(t, true, what, text, with)
}

func (v *verifiers) refuse(t *testing.T, what, text string, with ...option) {
	t.Helper()
	v.check(t, false, what, text, with)
}

// check gives what the verifier of RECEIPT.md says.
func (v *verifiers) check(t *testing.T, good bool, what, text string, with []option) string {
	t.Helper()
	c := seal.Check{Keys: v.keys}
	for _, o := range with {
		if o != nil {
			o(&c)
		}
	}
	report, err := seal.Verify(strings.NewReader(text), c)
	if ok := err == nil && report.OK; ok != good {
		t.Errorf("%s: core/seal says %v, %v", what, report, err)
	}
	if v.in == nil {
		return ""
	}
	path, saved := filepath.Join(v.dir, "export.jsonl"), filepath.Join(v.dir, "saved.checkpoint")
	write(t, path, []byte(text))
	args := []string{path}
	if c.Saved != nil {
		write(t, saved, c.Saved)
		args = append(args, "--checkpoint", saved)
	}
	for _, k := range c.Keys {
		args = append(args, k.String())
	}
	ok, said, _ := v.python(t, args...)
	wrong := strings.HasPrefix(said, "line ") || said == saved+": it is not a checkpoint of a receipt log\n"
	if ok != good || !good && !wrong || good && !strings.HasSuffix(said, "good\n") {
		t.Errorf("%s: the verifier of RECEIPT.md says %.300s", what, said)
	}
	return said
}

// export is one as lines, each with its end.
type export []string

func exportLines(text []byte) (e export) {
	for line := range bytes.Lines(text) {
		e = append(e, string(line))
	}
	return e
}

func (e export) text() string { return strings.Join(e, "") }

// at is the first line that begins so.
func (e export) at(front string) int {
	i := slices.IndexFunc(e, func(line string) bool { return strings.HasPrefix(line, front) })
	if i < 0 {
		panic("no line " + front)
	}
	return i
}

func (e export) between(line int, front, end string) string {
	_, rest, ok := strings.Cut(e[line], front)
	text, _, ended := strings.Cut(rest, end)
	if !ok || !ended {
		panic("no " + front)
	}
	return text
}

// change writes to for the first from of a line, which must be there.
func (e export) change(line int, from, to string) export {
	if !strings.Contains(e[line], from) {
		panic("no " + from + " in " + e[line])
	}
	e = slices.Clone(e)
	e[line] = strings.Replace(e[line], from, to, 1)
	return e
}

func (e export) swap(a, b int) export {
	e = slices.Clone(e)
	e[a], e[b] = e[b], e[a]
	return e
}

func (e export) insert(at int, line string) export { return slices.Insert(slices.Clone(e), at, line) }

// bare is without measurements.
func (e export) bare() export {
	return slices.DeleteFunc(slices.Clone(e), func(line string) bool { return strings.HasPrefix(line, `{"id":`) })
}

func (e export) note(line int) (note string) {
	var l struct{ Checkpoint string }
	if json.Unmarshal([]byte(e[line]), &l) != nil {
		panic("no log's line")
	}
	return l.Checkpoint
}

// cut makes a part smaller.
func (e export) cut(from, to, newFrom, newTo int) export {
	text := `"part":{"count":%d,"from":%d,"to":%d}`
	e = e.change(e.at(`{"checkpoint"`), fmt.Sprintf(text, to-from, from, to), fmt.Sprintf(text, newTo-newFrom, newFrom, newTo))
	return slices.DeleteFunc(e, func(line string) bool {
		rest, ok := strings.CutPrefix(line, `{"index":`)
		digits, _, _ := strings.Cut(rest, ",")
		i, _ := strconv.Atoi(digits)
		return ok && (i < newFrom || i >= newTo)
	})
}

// spare is base64 whose bits that are not used are set, or, where all are, another
// spelling that a lax reader takes.
func spare(text string) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	bare := strings.TrimRight(text, "=")
	if bare == text {
		return text[:4] + `\n` + text[4:]
	}
	last := strings.IndexByte(letters, bare[len(bare)-1])
	return bare[:len(bare)-1] + letters[last^1:last^1+1] + text[len(bare):]
}

// base64Of gives a proof with a hash less, and with one more.
func base64Of(proof string) [2]string {
	raw, err := base64.StdEncoding.DecodeString(proof)
	if err != nil || len(raw) < 64 {
		panic("no proof of two hashes")
	}
	return [2]string{base64.StdEncoding.EncodeToString(raw[:len(raw)-32]), base64.StdEncoding.EncodeToString(append(raw, raw[:32]...))}
}

// sigOf is the base64 of a note's last line.
func sigOf(note string) string { return strings.TrimSpace(note[strings.LastIndexByte(note, ' ')+1:]) }

func flipped(sig string) string {
	raw, err := base64.StdEncoding.DecodeString(sig)
	if err != nil {
		panic(err)
	}
	raw[len(raw)/2] ^= 1
	return base64.StdEncoding.EncodeToString(raw)
}

func broken(line string) string { return strings.Replace(line, sigOf(line), flipped(sigOf(line)), 1) }

// padded is a line of measurements with so many bytes before its end.
func padded(front string, size int) string {
	front += `{"a":"`
	return front + strings.Repeat("x", size-len(front)-len(`"}}`)) + "\"}}\n"
}

// made is what a gateway has exported.
type made struct {
	whole     export // with measurements; two keys have signed it
	since     export // since saved
	last      export // since newest
	older     export // from when saved was
	saved     string
	savedSize int
	newest    string
	size      int
	old, now  seal.Key
}

func realExports(t *testing.T) (e made) {
	server := modelServer(t, func(w http.ResponseWriter, r *http.Request, body []byte, _ string, _ bool) {
		w.Header().Set("Content-Type", "application/json")
		send(w, chatWire(100, 1+len(body)%50).whole("ok", "{}"))
	})
	const key = "receipts-key-0123456789"
	config := map[string]any{"listen": "127.0.0.1:0", "log": map[string]any{"level": "warn"}, "providers": []any{asking("near", "openai", server.URL, "small")},
		"keys": []any{map[string]any{"name": "caller", "key": key}}}
	bin, data, client, dir := buildHeadway(t), t.TempDir(), patient(t), t.TempDir()
	g := startGateway(t, bin, data, config, nil)
	calls := func(n int) { g.greetings(t, client, key, n) }
	run := func(args ...string) {
		t.Helper()
		cmd := exec.Command(bin, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("headway %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	read := func(args ...string) export {
		t.Helper()
		run(append([]string{"receipts", "export", "--data", data, "--out", "export.jsonl"}, args...)...)
		text, err := os.ReadFile(filepath.Join(dir, "export.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(dir, "export.jsonl")); err != nil {
			t.Fatal(err)
		}
		return exportLines(text)
	}
	state := func(file string) (note string, k seal.Key) {
		t.Helper()
		logs := g.receiptLogs(t, client)
		if len(logs.Items) != 1 {
			t.Fatal("a month has ended while the test ran")
		}
		k, err := seal.ParseKey(logs.Key)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, file), []byte(logs.Items[0].Checkpoint))
		return logs.Items[0].Checkpoint, k
	}
	e.savedSize, e.size = 489, 533 // two tiles and something; the proof has hashes
	calls(e.savedSize - 1)
	g.awaitLeaves(t, client, e.savedSize)
	e.saved, e.old = state("saved.checkpoint")
	e.older = read()
	run("receipts", "rotate", "--data", data, "--yes")
	calls(e.size - e.savedSize - 1)
	g.awaitLeaves(t, client, e.size)
	e.newest, e.now = state("newest.checkpoint")
	e.whole, e.since, e.last = read("--measurements"), read("--since", "saved.checkpoint"), read("--since", "newest.checkpoint")
	if e.old == e.now {
		t.Fatal("there is no new key")
	}
	return e
}

// forger signs as an edge.
type forger struct {
	edge    string
	public  [ed25519.PublicKeySize]byte
	private ed25519.PrivateKey
}

func newForger(edge string, t *testing.T) *forger {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &forger{edge, [ed25519.PublicKeySize]byte(public), private}
}

// key is under the edge's name, or under that of a log.
func (f *forger) key(origin string) seal.Key {
	if origin == "" {
		origin = f.edge
	}
	return seal.Key{Name: origin, Public: f.public}
}

func (f *forger) id(origin string) []byte {
	text := strings.TrimPrefix(f.key(origin).String(), origin+"+")
	id, err := hex.DecodeString(text[:8])
	if err != nil {
		panic(err)
	}
	return id
}

func (f *forger) line(origin, text string) string {
	return "— " + origin + " " + base64.StdEncoding.EncodeToString(append(f.id(origin), ed25519.Sign(f.private, []byte(text))...)) + "\n"
}

// forged is a log of less than 256 leaves, whatever is in them.
type forged struct {
	origin string
	leaves []string
	by     []*forger
	root   string // "": that of the leaves
	extra  string // that is signed too
	as     string // the checkpoint; "": the one that by sign
}

func (l *forged) tree() string {
	if l.root != "" {
		return l.root
	}
	log := seal.NewLog(l.origin)
	for _, leaf := range l.leaves {
		log.Append([]byte(leaf), nil)
	}
	return log.Tree().Root.String()
}

func (l *forged) signed() string {
	return fmt.Sprintf("%s\n%d\n%s\n%s", l.origin, len(l.leaves), l.tree(), l.extra)
}

func (l *forged) note() string {
	if l.as != "" {
		return l.as
	}
	note := l.signed() + "\n"
	for _, f := range l.by {
		note += f.line(l.origin, l.signed())
	}
	return note
}

func (l *forged) noted(note string) *forged {
	x := *l
	x.as = note
	return &x
}

func exportOf(logs ...*forged) string {
	var out strings.Builder
	origins := []string{}
	for _, l := range logs {
		origins = append(origins, l.origin)
	}
	fmt.Fprintf(&out, "{\"format\":\"headway receipt log v1\",\"logs\":%s}\n", jsonOf(origins))
	for _, l := range logs {
		names, hashes := []string{}, []byte{}
		for _, f := range l.by {
			names = append(names, f.key(l.origin).String())
		}
		for _, leaf := range l.leaves {
			h := sha256.Sum256([]byte("\x00" + leaf))
			hashes = append(hashes, h[:]...)
		}
		fmt.Fprintf(&out, "{\"checkpoint\":%s,\"frontier\":[%s],\"vkeys\":%s}\n", jsonOf(l.note()), jsonOf(hashes), jsonOf(names))
		for i, leaf := range l.leaves {
			fmt.Fprintf(&out, "{\"index\":%d,\"leaf\":%s}\n", i, leaf)
		}
	}
	return out.String()
}

// jsonOf writes strings as RFC 8785 has them.
func jsonOf(v any) string {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	text := strings.TrimSuffix(out.String(), "\n")
	return strings.NewReplacer(`\u2028`, "\u2028", `\u2029`, "\u2029").Replace(text)
}

// zeros is the base64 of a hash.
const zeros = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

// receiptOf is a receipt's leaf, with fields (name, value; an empty value: without it)
// that differ.
func receiptOf(fields ...string) string {
	values := map[string]string{"attempts": "1", "charge_picousd": `"1000"`, "id": `"01kbkx3q00rdxhvqqk3f9q9r5w"`, "kind": `"job"`, "outcome": `"settled"`, "private": `"` + zeros + `"`,
		"time": "1764400000000", "type": `"receipt"`, "usage": `{"output_tokens":1}`}
	for i := 0; i < len(fields); i += 2 {
		values[fields[i]] = fields[i+1]
	}
	names := []string{}
	for name, value := range values {
		if value != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for i, name := range names {
		names[i] = `"` + name + `":` + values[name]
	}
	return "{" + strings.Join(names, ",") + "}"
}

// openOf is a first leaf, behind a log or behind none.
func openOf(prev *forged, by ...*forger) string {
	names := []string{}
	for _, f := range by {
		names = append(names, f.key("").String())
	}
	before := ""
	if prev != nil {
		before = fmt.Sprintf(`"prev_origin":%s,"prev_root":%q,"prev_size":%d,`, jsonOf(prev.origin), prev.tree(), len(prev.leaves))
	}
	return `{"format":"headway receipt log v1","keys":` + jsonOf(names) + `,` + before + `"type":"open"}`
}
