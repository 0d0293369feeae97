package estimate

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/url"
	"strings"

	"headway/core"
)

// The kinds of the records that an Estimator keeps in the vault. The parts of a
// name are escaped as path segments of a URL; "-" is what all have in common, and
// an empty value is of what was forgotten.
//
//	tokenizer  MODEL or -               a fit
//	answers    KEY/MODEL, -/MODEL, -/-  the last answers' tokens
const (
	kindTokenizer = "tokenizer"
	kindAnswers   = "answers"

	common = "-"
)

// recordVersion is the first byte of every record: another version counts other
// units.
const recordVersion = 1

func segment(s string) string {
	if s == "" {
		return common
	}
	if s == common {
		return "%2D"
	}
	return url.PathEscape(s)
}

func parseSegment(s string) (string, bool) {
	if s == common {
		return "", true
	}
	out, err := url.PathUnescape(s)
	return out, err == nil && out != ""
}

func (p pair) name() string { return segment(string(p.key)) + "/" + segment(string(p.model)) }

// numbers are those of a record, in order.
func (f *fit) numbers(yield func(*float64)) {
	for i := range f.info {
		yield(&f.info[i])
	}
	for i := range f.right {
		yield(&f.right[i])
	}
	for i := range f.level {
		yield(&f.level[i])
	}
	for i := range f.seen {
		yield(&f.seen[i])
	}
}

// append writes a fit: the version, then its numbers as little-endian 32-bit
// floats, of which it needs no more.
func (f *fit) append(dst []byte) []byte {
	dst = append(dst, recordVersion)
	f.numbers(func(v *float64) { dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(float32(*v))) })
	return dst
}

// parse reads what append wrote; false: it is something else.
func (f *fit) parse(data []byte) bool {
	if len(data) == 0 || data[0] != recordVersion {
		return false
	}
	data = data[1:]
	ok := true
	f.numbers(func(v *float64) {
		if len(data) < 4 {
			ok = false
			return
		}
		*v = float64(math.Float32frombits(binary.LittleEndian.Uint32(data)))
		ok = ok && !math.IsNaN(*v) && !math.IsInf(*v, 0)
		data = data[4:]
	})
	return ok && len(data) == 0
}

// append writes the version, then as unsigned varints how many answers there were
// and the tokens of the last ones.
func (a *answers) append(dst []byte) []byte {
	dst = binary.AppendUvarint(append(dst, recordVersion), uint64(a.n.Load()))
	for _, n := range a.last {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	return dst
}

func (a *answers) parse(data []byte) bool {
	if len(data) == 0 || data[0] != recordVersion {
		return false
	}
	n, size := binary.Uvarint(data[1:])
	if size <= 0 || n == 0 || n > math.MaxInt64/2 {
		return false
	}
	data = data[1+size:]
	for len(data) > 0 {
		v, size := binary.Uvarint(data)
		if size <= 0 || v > math.MaxUint32 || len(a.last) == lastAnswers {
			return false
		}
		a.last = append(a.last, uint32(v))
		data = data[size:]
	}
	if uint64(len(a.last)) != min(n, lastAnswers) {
		return false
	}
	a.settle(int64(n))
	return true
}

// load fills what is empty from the vault. A record that cannot be read is an
// error, never a missing one.
func (e *Estimator) load(v core.Vault) error {
	var stale []core.Record
	tokenizers, err := e.loadTokenizers(v, &stale)
	if err == nil {
		err = e.loadAnswers(v, &stale)
	}
	if err != nil {
		return err
	}
	for _, r := range stale {
		if err := v.Delete(r.Kind, r.Name); err != nil {
			return fmt.Errorf("drop old estimates: %w", err)
		}
	}
	if t := tokenizers[""]; t != nil {
		e.prompts.all = t.fit
		e.prompts.shareAll()
		delete(tokenizers, "")
	}
	for _, t := range tokenizers {
		t.publish(e.prompts.start())
	}
	e.prompts.models.Store(&tokenizers)
	return nil
}

func (e *Estimator) loadTokenizers(v core.Vault, stale *[]core.Record) (map[core.Model]*tokenizer, error) {
	found := map[core.Model]*tokenizer{}
	var bad error
	err := v.All(kindTokenizer, func(name string, value []byte) bool {
		model, ok := parseSegment(name)
		t := &tokenizer{}
		switch {
		case len(value) == 0 || len(found) > mostModels:
			*stale = append(*stale, core.Record{Kind: kindTokenizer, Name: name})
		case !ok || !t.fit.parse(value):
			bad = damaged(kindTokenizer, name)
		default:
			found[core.Model(model)] = t
		}
		return bad == nil
	})
	if err != nil {
		return nil, fmt.Errorf("read estimates: %w", err)
	}
	return found, bad
}

func (e *Estimator) loadAnswers(v core.Vault, stale *[]core.Record) error {
	var bad error
	err := v.All(kindAnswers, func(name string, value []byte) bool {
		first, second, _ := strings.Cut(name, "/")
		key, ok := parseSegment(first)
		model, ok2 := parseSegment(second)
		a := &answers{}
		switch {
		case len(value) == 0 || len(e.outputs.pairs) >= mostAnswers:
			*stale = append(*stale, core.Record{Kind: kindAnswers, Name: name})
		case !ok || !ok2 || !a.parse(value):
			bad = damaged(kindAnswers, name)
		default:
			e.outputs.pairs[pair{core.KeyID(key), core.Model(model)}] = a
		}
		return bad == nil
	})
	if err != nil {
		return fmt.Errorf("read estimates: %w", err)
	}
	return bad
}

func damaged(kind, name string) error {
	return &core.Error{
		Kind: core.Unavailable,
		Msg:  fmt.Sprintf("estimates: record %s %q cannot be read", kind, name),
		Hint: "restore the data folder from a backup, or start the version of headway that wrote it",
	}
}

// changed are the records of what was learnt since it was last asked.
func (e *Estimator) changed() (out []core.Record) {
	p, o := e.prompts, e.outputs
	models := *p.models.Load()
	for m := range p.dirty {
		out = append(out, core.Record{Kind: kindTokenizer, Name: segment(string(m)), Value: models[m].fit.append(nil)})
	}
	if len(out) > 0 {
		out = append(out, core.Record{Kind: kindTokenizer, Name: common, Value: p.all.append(nil)})
	}
	for m := range p.gone {
		out = append(out, core.Record{Kind: kindTokenizer, Name: segment(string(m))})
	}
	for k := range o.dirty {
		out = append(out, core.Record{Kind: kindAnswers, Name: k.name(), Value: o.pairs[k].append(nil)})
	}
	for k := range o.gone {
		out = append(out, core.Record{Kind: kindAnswers, Name: k.name()})
	}
	clear(p.dirty)
	clear(p.gone)
	clear(o.dirty)
	clear(o.gone)
	return out
}
