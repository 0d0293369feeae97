package seal

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"hash"
	"strconv"
	"unicode/utf8"

	"headway/core"
)

const (
	// maxLeaf is what an entry bundle of tlog-tiles holds, whose lengths have 16 bits.
	maxLeaf = 1<<16 - 1
	// maxName bounds each name in a leaf. Eight of them, each byte escaped with six,
	// are well below maxLeaf.
	maxName = 1024
)

// The types of leaves.
const (
	typeOpen    = "open"
	typeReceipt = "receipt"
	typeKey     = "key"
	typeErase   = "erase"
	typeClose   = "close"
)

// formatName is in the first leaf of each log and in the first line of each export.
const formatName = "headway receipt log v1"

// sealed is what a receipt's leaf has beside the receipt itself.
type sealed struct {
	key, owner string   // the month's pseudonyms; "": there is none
	private    [32]byte // the commitment to the private part
}

// appendReceipt writes a receipt's leaf: who was asked for what, what was used and
// what it cost, and nothing of how long it took (SPEC §11). Errors name the field
// that cannot be sealed.
func appendReceipt(dst []byte, r *core.Receipt, s *sealed) ([]byte, error) {
	if err := checkReceipt(r); err != nil {
		return dst, err
	}
	dst = append(dst, '{')
	if n := len(r.Attempts); n > 0 { // a lost call's are not known
		dst = append(dst, `"attempts":`...)
		dst = strconv.AppendInt(dst, int64(n), 10)
		dst = append(dst, ',')
	}
	if r.Charge.OK {
		dst = appendDecimal(append(dst, `"charge_picousd":`...), int64(r.Charge.V))
		dst = append(dst, ',')
	}
	dst = appendString(append(dst, `"id":`...), string(r.ID))
	dst = appendName(dst, "key", s.key)
	dst = appendName(dst, "kind", string(r.Kind))
	dst = appendName(dst, "model", string(r.Model))
	dst = appendName(dst, "node", string(r.Node))
	dst = appendName(dst, "offer", string(r.Offer))
	dst = appendName(dst, "outcome", string(r.Outcome))
	dst = appendName(dst, "owner", s.owner)
	if r.Prices != nil {
		dst = appendPrices(append(dst, `,"prices_picousd_per_token":`...), r.Prices)
	}
	dst = append(dst, `,"private":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, s.private[:])
	dst = append(dst, '"')
	dst = appendName(dst, "provider", string(r.Provider))
	dst = append(dst, `,"time":`...)
	dst = strconv.AppendInt(dst, r.At.UnixMilli(), 10)
	dst = append(dst, `,"type":"receipt"`...)
	if r.Usage != (core.Usage{}) {
		dst = appendUsage(append(dst, `,"usage":`...), &r.Usage)
	}
	dst = appendName(dst, "usage_from", string(r.UsageFrom))
	return append(dst, '}'), nil
}

// checkReceipt refuses what a leaf has no room for.
func checkReceipt(r *core.Receipt) error {
	for _, n := range [...]struct{ name, value string }{
		{"id", string(r.ID)}, {"kind", string(r.Kind)}, {"model", string(r.Model)}, {"node", string(r.Node)}, {"offer", string(r.Offer)},
		{"outcome", string(r.Outcome)}, {"provider", string(r.Provider)}, {"usage_from", string(r.UsageFrom)},
	} {
		if size := writtenSize(n.value); size > maxName {
			return core.Field(n.name, "%d bytes cannot be sealed, the most are %d", size, maxName)
		}
	}
	if r.Charge.V < 0 {
		return core.Field("charge", "%d picodollars cannot be sealed, a charge is not negative", r.Charge.V)
	}
	if p := r.Prices; p != nil && min(p.Input, p.Output, p.CacheRead.V, p.CacheWrite.V, p.CacheWrite1h.V) < 0 {
		return core.Field("prices", "a negative rate cannot be sealed")
	}
	u := &r.Usage
	for _, n := range [...]struct {
		name  string
		value core.Opt[int64]
	}{
		{"usage.cache_read_tokens", u.CacheRead}, {"usage.cache_write_1h_tokens", u.CacheWrite1h}, {"usage.cache_write_tokens", u.CacheWrite},
		{"usage.output_tokens", u.Output}, {"usage.reasoning_tokens", u.Reasoning}, {"usage.uncached_input_tokens", u.UncachedInput},
	} {
		if n.value.V < 0 || n.value.V > maxInteger {
			return core.Field(n.name, "%d cannot be sealed, a count is between 0 and 2^53-1", n.value.V)
		}
	}
	if r.ID == "" {
		return core.Field("id", "a receipt without one cannot be sealed")
	}
	if ms := r.At.UnixMilli(); ms < 0 || ms > maxInteger {
		return core.Field("at", "a receipt of the year %d cannot be sealed", r.At.Year())
	}
	return nil
}

// writtenSize is how many bytes a text has as it is written, where what is not UTF-8
// becomes U+FFFD.
func writtenSize(s string) int {
	if utf8.ValidString(s) {
		return len(s)
	}
	return len(string([]rune(s)))
}

// appendName writes a field in the middle of an object; one that is empty is left out.
func appendName(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	dst = append(append(append(dst, `,"`...), name...), `":`...)
	return appendString(dst, value)
}

// appendDecimal writes a number as a decimal string, as amounts are: they do not
// fit into the integers that every reader of JSON takes exactly.
func appendDecimal(dst []byte, n int64) []byte {
	return append(strconv.AppendInt(append(dst, '"'), n, 10), '"')
}

func appendPrices(dst []byte, p *core.Rates) []byte {
	dst = append(dst, '{')
	for _, f := range [...]struct {
		name  string
		value core.Opt[core.Rate]
	}{
		{"cache_read", p.CacheRead}, {"cache_write", p.CacheWrite}, {"cache_write_1h", p.CacheWrite1h},
		{"input", core.Some(p.Input)}, {"output", core.Some(p.Output)},
	} {
		if f.value.OK {
			dst = appendDecimal(appendKey(dst, f.name), int64(f.value.V))
		}
	}
	return append(dst, '}')
}

func appendUsage(dst []byte, u *core.Usage) []byte {
	dst = append(dst, '{')
	for _, f := range [...]struct {
		name  string
		value core.Opt[int64]
	}{
		{"cache_read_tokens", u.CacheRead}, {"cache_write_1h_tokens", u.CacheWrite1h}, {"cache_write_tokens", u.CacheWrite},
		{"output_tokens", u.Output}, {"reasoning_tokens", u.Reasoning}, {"uncached_input_tokens", u.UncachedInput},
	} {
		if f.value.OK {
			dst = strconv.AppendInt(appendKey(dst, f.name), f.value.V, 10)
		}
	}
	return append(dst, '}')
}

// appendKey writes the name of an object's next field; dst ends in the object's
// bracket or in the field before.
func appendKey(dst []byte, name string) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return append(append(append(dst, '"'), name...), `":`...)
}

// appendPrivate writes the part of a receipt that its leaf only commits to: whose
// call it was.
func appendPrivate(dst []byte, r *core.Receipt) []byte {
	dst = append(dst, '{')
	for _, f := range [...]struct{ name, value string }{
		{"job", string(r.Job)}, {"key", string(r.Key)}, {"owner", r.Owner}, {"step", r.Step},
	} {
		if f.value != "" {
			dst = appendString(appendKey(dst, f.name), f.value)
		}
	}
	return append(dst, '}')
}

// saltSize is that of a salt, and of the nonce that it is made of.
const saltSize = 32

// commit is what a leaf says of a private part: SHA-256 of salt ‖ part. Without
// the salt nobody can tell whether a guess at the part is right.
func commit(buffer []byte, salt *[saltSize]byte, part []byte) [32]byte {
	return sha256.Sum256(append(append(buffer[:0], salt[:]...), part...))
}

// masks are what is derived from a month's secret: the pseudonyms of keys and
// owners, and the salts. Once the secret is dropped nobody can derive them again.
type masks struct {
	mac   hash.Hash
	sum   []byte
	names map[string]string // by the kind and the name
}

const mostNames = 4096 // kept in memory; more are derived again

func newMasks(secret []byte) *masks {
	return &masks{mac: hmac.New(sha256.New, secret), sum: make([]byte, 0, sha256.Size), names: map[string]string{}}
}

func (m *masks) derive(kind byte, value []byte) []byte {
	m.mac.Reset()
	m.sum = append(m.sum[:0], kind)
	_, _ = m.mac.Write(m.sum)
	_, _ = m.mac.Write(value)
	m.sum = m.mac.Sum(m.sum[:0])
	return m.sum
}

// What is derived differs by its first byte, so that no name of a key is a salt.
const (
	deriveKey   = 'k'
	deriveOwner = 'o'
	deriveSalt  = 's'
)

var crockford = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// pseudonym is what a name is called in a month's leaves: 24 characters (120 bits)
// of HMAC-SHA256 in lower-case Crockford base32; "" for no name.
func (m *masks) pseudonym(kind byte, name string) string {
	if name == "" {
		return ""
	}
	if p, ok := m.known(kind, name); ok {
		return p
	}
	p := crockford.EncodeToString(m.derive(kind, []byte(name))[:15])
	if len(m.names) >= mostNames {
		clear(m.names)
	}
	m.names[string(kind)+name] = p
	return p
}

func (m *masks) known(kind byte, name string) (string, bool) {
	var buffer [64]byte
	p, ok := m.names[string(append(append(buffer[:0], kind), name...))]
	return p, ok
}

// salt is a receipt's, made of the random nonce that is kept beside its leaf.
func (m *masks) salt(nonce []byte) (salt [saltSize]byte) {
	copy(salt[:], m.derive(deriveSalt, nonce))
	return salt
}

// openLeaf is the first of a log: what the one before it ended with, the keys that
// may sign this one, and what was signed and is gone, where that is so.
type openLeaf struct {
	prev *Tree // of the log before; nil: there is none
	lost []Tree
	keys []string
}

func (o openLeaf) append(dst []byte) []byte {
	dst = appendStrings(append(dst, `{"format":"`+formatName+`","keys":`...), o.keys)
	for i := range o.lost {
		if i == 0 {
			dst = append(dst, `,"lost":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = append(appendTree(append(dst, '{'), "", &o.lost[i]), '}')
	}
	if len(o.lost) > 0 {
		dst = append(dst, ']')
	}
	if o.prev != nil {
		dst = appendTree(append(dst, ','), "prev_", o.prev)
	}
	return append(dst, `,"type":"`+typeOpen+`"}`...)
}

// appendTree writes three fields whose names begin with prefix.
func appendTree(dst []byte, prefix string, t *Tree) []byte {
	dst = appendString(append(append(append(dst, '"'), prefix...), `origin":`...), t.Origin)
	dst = append(append(append(dst, `,"`...), prefix...), `root":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, t.Root[:])
	dst = append(append(append(dst, `","`...), prefix...), `size":`...)
	return strconv.AppendUint(dst, t.Size, 10)
}

// appendClose writes the last leaf of a log; keys are those that will sign the next.
func appendClose(dst []byte, keys []string) []byte {
	dst = appendStrings(append(dst, `{"keys":`...), keys)
	return append(dst, `,"type":"`+typeClose+`"}`...)
}

// appendRotate writes the leaf that introduces a key, under the one that signs.
func appendRotate(dst []byte, vkey string) []byte {
	dst = append(dst, `{"type":"`+typeKey+`","vkey":`...)
	return append(appendString(dst, vkey), '}')
}

// appendErase writes that the private part of a leaf was dropped.
func appendErase(dst []byte, origin string, index uint64) []byte {
	dst = strconv.AppendUint(append(dst, `{"index":`...), index, 10)
	dst = appendString(append(dst, `,"origin":`...), origin)
	return append(dst, `,"type":"`+typeErase+`"}`...)
}

// Leaf is what a leaf says. Which fields are there depends on its type (RECEIPT.md §2).
type Leaf struct {
	Type string `json:"type"`

	// Of a receipt.
	ID        core.CallID          `json:"id,omitempty"`
	Time      int64                `json:"time,omitempty"` // when the call came, ms since 1970
	Key       string               `json:"key,omitempty"`  // the month's pseudonym
	Owner     string               `json:"owner,omitempty"`
	Kind      core.CallKind        `json:"kind,omitempty"`
	Model     core.Model           `json:"model,omitempty"`
	Offer     core.OfferID         `json:"offer,omitempty"`
	Provider  core.ProviderID      `json:"provider,omitempty"`
	Node      core.NodeID          `json:"node,omitempty"`
	Outcome   core.Outcome         `json:"outcome,omitempty"`
	Attempts  core.Opt[int64]      `json:"attempts,omitzero"`
	Usage     core.Usage           `json:"usage,omitzero"`
	UsageFrom core.UsageFrom       `json:"usage_from,omitempty"`
	Prices    *core.Rates          `json:"prices,omitempty"`
	Charge    core.Opt[core.Money] `json:"charge_usd,omitzero"`
	Private   core.Opt[[32]byte]   `json:"-"` // the commitment

	// Of the others.
	Keys []string `json:"keys,omitempty"`   // open, close: who may sign; key: the new one
	Prev *Tree    `json:"prev,omitempty"`   // open
	Lost []Tree   `json:"lost,omitempty"`   // open
	Of   string   `json:"origin,omitempty"` // erase: the log of the leaf
	At   uint64   `json:"index,omitempty"`  // erase: the leaf
}

// ParseLeaf reads a leaf. It must be canonical JSON; fields that are not known are
// passed over. Invalid: it is not a leaf, with what is wrong.
func ParseLeaf(text []byte) (*Leaf, error) {
	var l Leaf
	if err := l.parse(text); err != nil {
		return nil, err
	}
	return &l, nil
}

func (l *Leaf) parse(text []byte) error {
	*l = Leaf{}
	if len(text) > maxLeaf {
		return core.Errorf(core.Invalid, "%d bytes are no leaf, the most are %d", len(text), maxLeaf)
	}
	r := reader{text: text}
	var prev Tree
	here := 0 // the fields of prev that are there
	var has struct{ time, format, keys, vkey, origin, index bool }
	r.object(func(key []byte) {
		switch string(key) {
		case "type":
			l.Type = string(r.string())
		case "id":
			l.ID = core.CallID(r.name())
		case "time":
			l.Time, has.time = int64(r.count()), true
		case "key":
			l.Key = string(r.name())
		case "owner":
			l.Owner = string(r.name())
		case "kind":
			l.Kind = core.CallKind(r.name())
		case "model":
			l.Model = core.Model(r.name())
		case "offer":
			l.Offer = core.OfferID(r.name())
		case "provider":
			l.Provider = core.ProviderID(r.name())
		case "node":
			l.Node = core.NodeID(r.name())
		case "outcome":
			l.Outcome = core.Outcome(r.name())
		case "attempts":
			l.Attempts = core.Some(int64(r.count()))
		case "usage":
			r.usage(&l.Usage)
		case "usage_from":
			l.UsageFrom = core.UsageFrom(r.name())
		case "prices_picousd_per_token":
			l.Prices = new(core.Rates)
			r.prices(l.Prices)
		case "charge_picousd":
			l.Charge = core.Some(core.Money(r.decimal()))
		case "private":
			l.Private = core.Some(r.hash())
		case "keys":
			r.list(func() { l.Keys = append(l.Keys, string(r.string())) })
			has.keys = true
		case "vkey":
			l.Keys, has.vkey = append(l.Keys, string(r.string())), true
		case "format":
			if has.format = string(r.string()) == formatName; !has.format {
				r.fail("the format is not " + formatName)
			}
		case "lost":
			r.list(func() {
				var t Tree
				here := 0
				r.object(func(key []byte) {
					if r.tree(key, &t) {
						here++
					}
				})
				if here != 3 {
					r.fail("a part of a log's origin, size and root")
				}
				l.Lost = append(l.Lost, t)
			})
		case "prev_origin", "prev_root", "prev_size":
			r.tree(key[len("prev_"):], &prev)
			here++
		case "origin":
			l.Of, has.origin = string(r.string()), true
		case "index":
			l.At, has.index = r.count(), true
		default:
			r.skip()
		}
	})
	complete := false
	switch l.Type {
	case typeReceipt:
		complete = l.ID != "" && has.time && l.Private.OK
	case typeOpen:
		complete = has.format && has.keys
	case typeKey:
		complete = has.vkey
	case typeErase:
		complete = has.origin && has.index
	case typeClose:
		complete = has.keys
	default:
		complete = l.Type != "" // one that is not known
	}
	if !complete {
		r.fail("a leaf without its type, or without a field that all of its type have")
	}
	if here == 3 {
		l.Prev = &prev
	} else if here != 0 {
		r.fail("a part of a log's origin, size and root")
	}
	return r.end()
}

func (r *reader) usage(u *core.Usage) {
	r.object(func(key []byte) {
		var to *core.Opt[int64]
		switch string(key) {
		case "cache_read_tokens":
			to = &u.CacheRead
		case "cache_write_1h_tokens":
			to = &u.CacheWrite1h
		case "cache_write_tokens":
			to = &u.CacheWrite
		case "output_tokens":
			to = &u.Output
		case "reasoning_tokens":
			to = &u.Reasoning
		case "uncached_input_tokens":
			to = &u.UncachedInput
		default:
			r.skip()
			return
		}
		*to = core.Some(int64(r.count()))
	})
}

func (r *reader) prices(p *core.Rates) {
	r.object(func(key []byte) {
		switch string(key) {
		case "cache_read":
			p.CacheRead = core.Some(core.Rate(r.decimal()))
		case "cache_write":
			p.CacheWrite = core.Some(core.Rate(r.decimal()))
		case "cache_write_1h":
			p.CacheWrite1h = core.Some(core.Rate(r.decimal()))
		case "input":
			p.Input = core.Rate(r.decimal())
		case "output":
			p.Output = core.Rate(r.decimal())
		default:
			r.skip()
		}
	})
}

// tree reads one of the three fields that a tree has; false: it is another.
func (r *reader) tree(field []byte, t *Tree) bool {
	switch string(field) {
	case "origin":
		t.Origin = string(r.string())
	case "root":
		t.Root = r.hash()
	case "size":
		t.Size = r.count()
	default:
		r.skip()
		return false
	}
	return true
}

// name reads a string that checkReceipt bounds.
func (r *reader) name() []byte {
	text := r.string()
	if len(text) > maxName {
		r.fail("a name of more than " + strconv.Itoa(maxName) + " bytes")
	}
	return text
}

// decimal reads a string of a whole number that is not negative and that 64 bits hold.
func (r *reader) decimal() int64 {
	text := r.string()
	if r.bad != nil {
		return 0
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	var buffer [20]byte
	if err != nil || n < 0 || string(strconv.AppendInt(buffer[:0], n, 10)) != string(text) {
		r.fail("not a whole number in a string")
		return 0
	}
	return n
}

// hash reads the base64 of 32 bytes.
func (r *reader) hash() (h [32]byte) {
	text := r.string()
	if r.bad != nil {
		return h
	}
	h, ok := parseHash(text)
	if !ok {
		r.fail("not the base64 of a hash")
	}
	return h
}

// parseHash reads the one base64 that 32 bytes have.
func parseHash(text []byte) (h [32]byte, ok bool) {
	var raw [33]byte
	if len(text) != 44 {
		return h, false
	}
	n, err := base64.StdEncoding.Decode(raw[:], text)
	if err != nil || n != len(h) {
		return h, false
	}
	h = [32]byte(raw[:])
	var again [44]byte
	base64.StdEncoding.Encode(again[:], h[:])
	return h, string(again[:]) == string(text)
}
