package adapters

import (
	"bytes"
	"strconv"

	"headway/core"
)

// responsesRepair is the named repair responses-indexes (SPEC §13). OpenAI's
// SDKs put a stream together by the output_index, content_index and
// summary_index of its events, and by the events that open a part.
//
//   - llama-server sends no index and no sequence_number at all, does not open
//     the parts of its reasoning, and gives its function calls no id.
//   - Ollama does not open the parts of its reasoning summary.
//
// What is lacking is put in; an event that has all it needs keeps every byte,
// but for its sequence_number where an event was put in before it.
type responsesRepair struct {
	bare  bool // the stream has lacked more than an SDK can do without
	items []responsesItem
	next  int64 // the sequence number that comes next
	added int64 // events put in, by which the upstream's numbers are behind
	raw   []byte
	data  []byte
}

// responsesItem is what must be known of an output item under way.
type responsesItem struct {
	id                  string
	contents, summaries int // parts that were opened
}

// fix repairs one frame.
func (p *responsesRepair) fix(f *core.Frame, e *responsesEvent) {
	ours := bytes.HasPrefix(e.kind, []byte("response."))
	if !ours && (!e.seq.OK || p.added == 0) { // keepalive, error, [DONE]
		return
	}
	place := responsesPlace{index: -1, seq: p.next}
	if e.seq.OK {
		place.seq = e.seq.V + p.added
	}
	var opens opening
	lacks := false
	if ours && (e.item != nil || e.itemID != nil) {
		place.index = p.place(e)
		switch {
		case inContent(e.kind):
			place.list = `"content_index"`
			place.lacksPart = !e.content.OK
		case bytes.HasPrefix(e.kind, []byte("response.reasoning_summary_")):
			place.list = `"summary_index"`
			place.lacksPart = !e.summary.OK
		}
		if !e.output.OK || place.lacksPart {
			p.bare, lacks = true, true
		}
		place.lacksID = p.bare && e.item != nil && !has(e.item, "id")
		lacks = lacks || place.lacksID
		opens = p.part(e, &place)
	}
	// OpenAI's own streams once had no sequence numbers; their SDKs need none, so
	// that alone is no reason to touch a stream.
	p.bare = p.bare || !e.seq.OK && e.response != nil && !has(e.response, "output")
	if lacks || opens.kind != "" || p.bare && !e.seq.OK || p.added > 0 && e.seq.OK {
		p.rewrite(f, e, &place, opens)
	}
	p.next = place.seq + 1
}

// responsesPlace is where an event belongs.
type responsesPlace struct {
	seq                int64
	index              int    // of its item; -1 for none
	list               string // the name of the index of its part; "" for none
	part               int64
	lacksPart, lacksID bool
}

// part finds the part of its item that an event goes into, and the event that
// must open it: only for a part that nothing has opened, which the SDKs refuse.
func (p *responsesRepair) part(e *responsesEvent, place *responsesPlace) opening {
	if place.list == "" || place.index >= len(p.items) {
		return opening{}
	}
	item := &p.items[place.index]
	opened, said, summary := &item.contents, e.content, place.list == `"summary_index"`
	if summary {
		opened, said = &item.summaries, e.summary
	}
	if bytes.HasSuffix(e.kind, []byte("_part.added")) {
		place.part = said.Or(int64(*opened))
		*opened = max(*opened, int(place.part)+1)
		return opening{}
	}
	place.part = said.Or(int64(max(*opened-1, 0)))
	if place.part != int64(*opened) || !summary && !p.bare || item.id == "" {
		return opening{}
	}
	opens := openingOf(e.kind)
	if opens.kind != "" {
		*opened++
	}
	return opens
}

// place finds the item that an event belongs to, or takes a new one in.
func (p *responsesRepair) place(e *responsesEvent) int {
	id := e.itemID
	var contents, summaries int
	if e.item != nil {
		id, contents, summaries = itemFacts(e.item)
	}
	if string(e.kind) == "response.output_item.added" {
		index := int(e.output.Or(int64(len(p.items))))
		if index > len(p.items)+1000 {
			return index // no stream skips so many; the slots would cost memory
		}
		for len(p.items) <= index {
			p.items = append(p.items, responsesItem{})
		}
		p.items[index] = responsesItem{string(id), contents, summaries}
		return index
	}
	if e.output.OK {
		return int(e.output.V)
	}
	for i := range p.items {
		if p.items[i].id == string(id) {
			return i
		}
	}
	return max(len(p.items)-1, 0)
}

// itemFacts gives an item's id, or its call_id where it has none, and how many
// parts it has already.
func itemFacts(raw []byte) (id []byte, contents, summaries int) {
	var call []byte
	c := walk(raw)
	for key := range c.each {
		switch string(key) {
		case "id":
			id = textOf(&c)
		case "call_id":
			call = textOf(&c)
		case "content":
			contents = elements(&c)
		case "summary":
			summaries = elements(&c)
		}
	}
	if len(id) == 0 {
		id = call
	}
	return id, contents, summaries
}

// elements consumes a value and gives the length of a list.
func elements(c *cursor) (n int) {
	if !c.array() {
		c.skip()
		return 0
	}
	for ; c.element(); n++ {
		c.skip()
	}
	return n
}

// inContent tells whether events of a kind belong to a part of an item's content.
func inContent(kind []byte) bool {
	for _, family := range []string{"response.content_part.", "response.output_text.", "response.refusal.", "response.reasoning_text."} {
		if bytes.HasPrefix(kind, []byte(family)) {
			return true
		}
	}
	return false
}

// opening is an event that opens a part, but for what says where.
type opening struct{ kind, part string }

// openingOf is what opens the part that an event of a kind goes into; the zero
// opening for kinds that go into none.
func openingOf(kind []byte) opening {
	const content, summary = "response.content_part.added", "response.reasoning_summary_part.added"
	switch string(kind) {
	case "response.output_text.delta", "response.output_text.done":
		return opening{content, `{"type":"output_text","text":"","annotations":[]}`}
	case "response.refusal.delta", "response.refusal.done":
		return opening{content, `{"type":"refusal","refusal":""}`}
	case "response.reasoning_text.delta", "response.reasoning_text.done":
		return opening{content, `{"type":"reasoning_text","text":""}`}
	case "response.reasoning_summary_text.delta", "response.reasoning_summary_text.done":
		return opening{summary, `{"type":"summary_text","text":""}`}
	}
	return opening{}
}

// rewrite puts into the frame what it lacks, and an opening event before it.
func (p *responsesRepair) rewrite(f *core.Frame, e *responsesEvent, place *responsesPlace, opens opening) {
	raw := p.raw[:0]
	if opens.kind != "" {
		if f.Name != "" {
			raw = concat(raw, "event: ", opens.kind, "\n")
		}
		raw = concat(raw, `data: {"type":"`, opens.kind, `","item_id":"`)
		raw = append(raw, e.itemID...)
		raw = member(concat(raw, `",`), `"output_index"`, int64(place.index))
		raw = member(raw, place.list, place.part)
		if e.seq.OK || p.bare {
			raw = member(raw, `"sequence_number"`, place.seq)
		}
		raw = concat(raw, `"part":`, opens.part, "}\n\n")
		p.added++
		place.seq++
	}
	p.patch(f.Data, e, place)

	if at := bytes.Index(f.Raw, f.Data); at >= 0 {
		raw = append(append(raw, f.Raw[:at]...), p.data...)
		raw = append(raw, f.Raw[at+len(f.Data):]...)
	} else { // several data lines: they become one
		if f.Name != "" {
			raw = concat(raw, "event: ", f.Name, "\n")
		}
		raw = append(concat(raw, "data: "), bytes.ReplaceAll(p.data, []byte{'\n'}, []byte{' '})...)
		raw = concat(raw, "\n\n")
	}
	p.raw, f.Raw = raw, raw
}

// patch makes p.data, the event with what it lacks.
func (p *responsesRepair) patch(data []byte, e *responsesEvent, place *responsesPlace) {
	at := bytes.IndexByte(data, '{') + 1
	out := append(p.data[:0], data[:at]...)
	if !e.seq.OK && p.bare {
		out = member(out, `"sequence_number"`, place.seq)
	}
	if place.index >= 0 && !e.output.OK {
		out = member(out, `"output_index"`, int64(place.index))
	}
	if place.lacksPart {
		out = member(out, place.list, place.part)
	}
	number := func() {
		if e.seq.OK {
			out = strconv.AppendInt(append(out, data[at:e.seqAt.From]...), place.seq, 10)
			at = e.seqAt.To
		}
	}
	if e.seqAt.From < e.itemAt {
		number()
	}
	if id, _, _ := itemFacts(e.item); place.lacksID && len(id) > 0 {
		out = append(out, data[at:e.itemAt+1]...)
		out = concat(append(concat(out, `"id":"`), id...), `",`)
		at = e.itemAt + 1
	}
	if e.seqAt.From >= e.itemAt {
		number()
	}
	p.data = append(out, data[at:]...)
}

func concat(b []byte, parts ...string) []byte {
	for _, s := range parts {
		b = append(b, s...)
	}
	return b
}

// member adds a member with a number, and the comma behind it.
func member(b []byte, name string, n int64) []byte {
	return append(strconv.AppendInt(concat(b, name, ":"), n, 10), ',')
}

// has tells whether an object has a member of that name.
func has(object []byte, name string) bool {
	c := walk(object)
	for key := range c.each {
		if string(key) == name {
			return true
		}
	}
	return false
}
