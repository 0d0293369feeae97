package sdktest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// What a caller asks and what a model answers, in no format's own words. Each
// scenario of the matrix is written in them once; the clients' side turns an ask
// into an SDK's call and an SDK's answer into a said, the providers' side turns a
// request into lines and a say into a format's answer.

// ask is what a caller asks.
type ask struct {
	turns   []turn
	tools   []function
	choice  string // auto, none, required or the name of a tool
	oneTool bool
	max     int64
	numbers map[string]float64 // temperature, top_p, top_k, seed, presence, frequency
	stop    []string
	allowed []string       // of the tools, one of which must be called
	schema  map[string]any // of the answer
	json    bool           // the answer is to be any JSON
	effort  string         // of reasoning, which is to be shown
	n       int64
	logs    int64 // log probabilities with that many alternatives
	user    string
}

// turn is what one speaker says.
type turn struct {
	role  string // system, user or assistant; results of tools are a user's
	parts []part
	// An assistant's turn that the client got before, as its SDK keeps it; what
	// the model meant by it, and whose it is.
	own *said
	say *say
	by  *provider
}

// part is a piece of a turn.
type part struct {
	kind           string // text, image, link, document, call, result
	text           string // what it says; base64; an address
	media          string // of an image
	id, name, args string
	parts          []part // of a result
	failed         bool   // the tool did
	cache          string // 5m or 1h: the prompt is to be cached up to here
}

// function is a tool.
type function struct {
	name, description string
	schema            map[string]any
}

// call is one call of a tool.
type call struct{ id, name, args string }

// said is what a client's SDK made of an answer.
type said struct {
	text, reasoning, refusal string
	calls                    []call
	finish                   string // stop, length, tools, filter, refusal or what else the SDK read
	usage                    tokens
	native                   any    // the turn as the SDK's user sends it back
	model                    string // the answer's, as the SDK shows it
	dropped, attempts        string
	id                       string
	err                      error
	trouble                  string // what the SDK cannot put together
	events                   *said  // what the events say, where the end says it again
}

// tokens are the figures of a call: in is all input, read and write are parts of
// it, thought is a part of out.
type tokens struct{ in, read, write, write1h, out, thought int64 }

// say is what a model means to answer.
type say struct {
	think   []string // pieces of reasoning
	seal    string   // the provider's signature of it, or the encrypted whole
	pieces  []string // of the text, as they stand between the quotes of a JSON string
	second  string   // the text of a second choice
	refusal string
	calls   []call
	woven   bool // the arguments of parallel calls come in turns, where a format can
	finish  string
	usage   tokens
	fail    *failure
	cut     bool // the connection ends behind the text
	unasked bool // nobody asked for the reasoning
}

// failure is how an answer goes wrong.
type failure struct {
	status int
	after  bool // the error comes in a stream, behind some text
}

const failed = "said by the upstream"

// text is what the pieces say.
func (s *say) text() string {
	var text string
	if json.Unmarshal([]byte(`"`+strings.Join(s.pieces, "")+`"`), &text) != nil {
		return "no JSON string: " + strings.Join(s.pieces, "")
	}
	return text
}

// end is the answer's finish, tools where it calls some and nothing is said.
func (s *say) end() string {
	switch {
	case s.finish != "":
		return s.finish
	case len(s.calls) > 0:
		return "tools"
	}
	return "stop"
}

// pieces cuts a text behind its spaces, as an answer's.
func pieces(text string) []string {
	quoted := quote(text)
	return slices.DeleteFunc(strings.SplitAfter(quoted[1:len(quoted)-1], " "), func(p string) bool { return p == "" })
}

// reading is what a provider reads out of a request: a line for each part of the
// conversation, and its settings by name.
type reading struct {
	lines    []string
	settings map[string]string
	wrong    []string // what the provider would refuse the request for
	calls    map[string]int
	names    []string // of the calls, by their number
	open     map[int]bool
	objects  map[string]map[string]any
}

func newReading() *reading {
	return &reading{settings: map[string]string{}, calls: map[string]int{}, open: map[int]bool{}, objects: map[string]map[string]any{}}
}

func (r *reading) refuse(format string, args ...any) {
	r.wrong = append(r.wrong, fmt.Sprintf(format, args...))
}

// line notes a part. Texts in a row are one, whatever they were cut into.
func (r *reading) line(who, what string) {
	if len(r.open) > 0 && !strings.HasPrefix(who, "assistant") && !strings.HasPrefix(who, "result") && who != "cache" {
		r.refuse("%s speaks before every call has its result", who)
	}
	if n := len(r.lines); n > 0 && strings.HasPrefix(what, `"`) && strings.HasPrefix(r.lines[n-1], who+` "`) {
		between := `\n` // some formats have one text, in which parts stand in lines of their own
		if strings.HasPrefix(who, "assistant") {
			between = ""
		}
		r.lines[n-1] = strings.TrimSuffix(r.lines[n-1], `"`) + between + what[1:]
		return
	}
	r.lines = append(r.lines, who+" "+what)
}

func (r *reading) text(who, text string) {
	if text != "" {
		r.line(who, strings.ReplaceAll(quote(text), `\n\n`, `\n`))
	}
}

// image notes an image or a document by its address, which may hold it.
func (r *reading) image(who, address string) {
	if rest, ok := strings.CutPrefix(address, "data:"); ok {
		media, data, _ := strings.Cut(rest, ";base64,")
		r.data(who, media, data)
		return
	}
	r.line(who, "link "+address)
}

func (r *reading) data(who, media, data string) {
	r.line(who, "data "+media+" "+data)
}

// call notes a call of a tool; one without an id is known by its number.
func (r *reading) call(id, name, args string) {
	n := len(r.names) + 1
	if id == "" {
		id = "#" + strconv.Itoa(n)
	}
	if r.calls[id] != 0 {
		r.refuse("two calls have the id %s", id)
	}
	r.calls[id] = n
	r.names = append(r.names, name)
	r.open[n] = true
	r.line("assistant", fmt.Sprintf("call #%d %s %s", n, name, plain(args)))
}

// result closes a call, by its id or by the name of its tool, and gives who
// speaks in it.
func (r *reading) result(id, name string, failed bool) string {
	n := r.calls[id]
	for i := 1; id == "" && i <= len(r.names) && n == 0; i++ {
		if r.open[i] && r.names[i-1] == name {
			n = i
		}
	}
	if !r.open[n] {
		r.refuse("a result of no call that waits for one: %q %q", id, name)
	}
	if name != "" && n > 0 && r.names[n-1] != name {
		r.refuse("the result of call #%d is said to be of %s", n, name)
	}
	delete(r.open, n)
	if failed {
		return fmt.Sprintf("result #%d failed", n)
	}
	return fmt.Sprintf("result #%d", n)
}

// set notes a setting; nothing where it is absent.
func (r *reading) set(name, value string) {
	if value != "" {
		r.settings[name] = value
	}
}

// tool notes a tool that the model may call. One without arguments is said in
// several ways.
func (r *reading) tool(name, description, schema string) {
	if schema == `{"type":"object"}` || schema == `{"properties":{},"type":"object"}` {
		schema = ""
	}
	r.set("tool "+name, description+" "+schema)
}

// finish looks for what nobody read.
func (r *reading) finish() {
	for at, members := range r.objects {
		for name := range members {
			r.refuse("unknown member %s.%s", at, name)
		}
	}
	if len(r.open) > 0 {
		r.refuse("calls without results")
	}
	slices.Sort(r.wrong)
}

// all is everything that was read, as lines.
func (r *reading) all() []string {
	all := slices.Clone(r.lines)
	for _, name := range slices.Sorted(maps.Keys(r.settings)) {
		all = append(all, "set "+name+" = "+r.settings[name])
	}
	for _, w := range r.wrong {
		all = append(all, "REFUSED: "+w)
	}
	return all
}

// node is a place in a request. Whatever is read is taken out of its object, so
// that in the end only what the provider does not know is left.
type node struct {
	r  *reading
	at string
	v  any
}

func parse(r *reading, body []byte) node {
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		r.refuse("the body is no JSON: %v", err)
	}
	return node{r, "", v}
}

func (n node) there() bool { return n.v != nil }

func (n node) get(name string) node {
	at := strings.TrimPrefix(n.at+"."+name, ".")
	if n.v == nil {
		return node{n.r, at, nil}
	}
	m, ok := n.v.(map[string]any)
	if !ok {
		n.r.refuse("%s is no object", n.at)
		return node{n.r, at, nil}
	}
	v := m[name]
	delete(m, name)
	n.r.objects[n.at] = m
	return node{n.r, at, v}
}

func (n node) list() (list []node) {
	l, ok := n.v.([]any)
	if !ok && n.v != nil {
		n.r.refuse("%s is no list", n.at)
	}
	for i, v := range l {
		list = append(list, node{n.r, fmt.Sprintf("%s[%d]", n.at, i), v})
	}
	return list
}

func (n node) str() string {
	s, ok := n.v.(string)
	if !ok && n.v != nil {
		n.r.refuse("%s is no text: %v", n.at, n.v)
	}
	return s
}

func (n node) isText() bool {
	_, ok := n.v.(string)
	return ok
}

func (n node) yes() bool {
	b, ok := n.v.(bool)
	if !ok && n.v != nil {
		n.r.refuse("%s is neither true nor false: %v", n.at, n.v)
	}
	return b
}

// num is a number in one spelling, "" where it is absent.
func (n node) num() string {
	if n.v == nil {
		return ""
	}
	text, ok := n.v.(json.Number)
	f, err := text.Float64()
	if !ok || err != nil {
		n.r.refuse("%s is no number: %v", n.at, n.v)
	}
	return number(f)
}

// number writes a number as it is compared: some SDKs have 32 bits for one.
func number(f float64) string { return strconv.FormatFloat(float64(float32(f)), 'g', 6, 64) }

// json is any value in one spelling, "" where it is absent.
func (n node) json() string {
	if n.v == nil {
		return ""
	}
	b, err := json.Marshal(n.v)
	if err != nil {
		return err.Error()
	}
	return plain(string(b))
}

// object is json of what must be an object.
func (n node) object() string {
	if _, ok := n.v.(map[string]any); !ok {
		n.r.refuse("%s is no object: %v", n.at, n.v)
	}
	return n.json()
}
