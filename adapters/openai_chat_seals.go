package adapters

import (
	"bytes"
	"slices"
	"strconv"
	"unicode/utf8"

	"headway/core"
)

// What a provider of another format gave with its reasoning reaches a chat
// client in reasoning_details: one entry for each block of reasoning, with the
// seal wrapped in data. The text of all blocks stands in reasoning_content; an
// entry behind the first says where its block begins there, in bytes of the
// text: "@120:" before the seal. A seal of a tool call is in the call's
// extra_content, where Google's own endpoint for this format has it.

// chatSeal is a seal in reasoning_details and where its block of reasoning begins.
type chatSeal struct {
	core.Seal
	from int
}

// details consumes reasoning_details.
func (m *chatTurn) details() {
	d := m.d
	if !d.array() {
		d.skip()
		return
	}
	for d.element() {
		if !d.object() {
			d.skip()
			continue
		}
		var text core.Quoted
		encrypted := false
		for key := range d.rest {
			raw, ok := d.text()
			switch {
			case !ok:
				d.skip()
			case string(key) == "data":
				text, encrypted = d.quotes(raw), true
			case string(key) == "signature":
				text = d.quotes(raw)
			}
		}
		if len(text) <= 2 {
			continue
		}
		seal := chatSeal{}
		if rest, ok := bytes.CutPrefix(inner(text), []byte("@")); ok {
			from, rest, ok := bytes.Cut(rest, []byte(":"))
			if n, err := strconv.Atoi(string(from)); ok && err == nil && n >= 0 {
				seal.from, text = n, requote(rest)
			}
		}
		seal.Seal = openSeal(text, core.FormatOpenAI, encrypted, nil)
		m.seals = append(m.seals, seal)
	}
}

// reasoning appends the blocks of reasoning: the text, cut where the seals say.
func (m *chatTurn) reasoning(parts []core.Part) []core.Part {
	text := m.thought
	if len(text) <= 2 {
		text = m.same
	}
	if len(m.seals) == 0 {
		if len(text) > 2 {
			parts = append(parts, core.Part{Kind: core.PartReasoning, Text: text})
		}
		return parts
	}
	var whole []byte
	if len(m.seals) > 1 {
		whole = unescape(inner(text))
	}
	for i, s := range m.seals {
		part := core.Part{Kind: core.PartReasoning, Seal: s.Seal}
		switch from, to := s.from, len(whole); {
		case len(m.seals) == 1:
			part.Text = text
		default:
			if i+1 < len(m.seals) {
				to = m.seals[i+1].from
			}
			if from < to && to <= len(whole) && cutsText(whole, from) && cutsText(whole, to) {
				part.Text = encode(string(whole[from:to]))
			}
		}
		parts = append(parts, part)
	}
	return parts
}

// cutsText tells whether a text may be cut there.
func cutsText(text []byte, at int) bool { return at == len(text) || utf8.RuneStart(text[at]) }

// extra consumes a tool call's extra_content and gives the seal in it.
func (d *chatDecoder) extra() (seal core.Seal) {
	if !d.object() {
		d.skip()
		return seal
	}
	for key := range d.rest {
		if string(key) != "google" || !d.object() {
			continue
		}
		for key := range d.rest {
			if raw, ok := d.text(); !ok {
				d.skip()
			} else if string(key) == "thought_signature" {
				seal = openSeal(d.quotes(raw), core.FormatOpenAI, false, nil)
			}
		}
	}
	return seal
}

// A server of this format seals its reasoning in one of three ways, each of
// which is kept as the text of a seal:
//
//   - an entry of reasoning_details with a signature or with encrypted reasoning
//     (OpenRouter), without its text;
//   - a tool call's extra_content (Google's own endpoint);
//   - not at all: then the text is empty and says no more than whose reasoning
//     it is, which several servers want back as it was.

// sealedDetail is the entry of reasoning_details that a part of this format's
// stands for, nil for none.
func sealedDetail(p *core.Part) core.JSON {
	detail := bytes.TrimSpace(unescape(inner(p.Seal.Text)))
	switch detailKind(detail) {
	case "":
		return nil
	case "reasoning.text":
		if len(p.Text) > 2 {
			return slices.Concat(core.JSON(`{"text":`), core.JSON(p.Text), core.JSON(","), core.JSON(detail[1:]))
		}
	}
	return detail
}

// detailKind is the type of an entry of reasoning_details; "" for anything else.
func detailKind(detail []byte) (kind string) {
	c := walk(detail)
	if !c.object() {
		return ""
	}
	for key := range c.rest {
		if string(key) == "type" {
			kind = c.word()
		}
	}
	if c.end() != nil {
		return ""
	}
	return kind
}

// sealedExtra is the extra_content of a tool call that the part before it stands
// for, nil for none.
func sealedExtra(p *core.Part) core.JSON {
	if p.Kind != core.PartReasoning || p.Seal.Origin != core.FormatOpenAI {
		return nil
	}
	extra := unescape(inner(p.Seal.Text))
	c := walk(extra)
	if c.peek() != '{' || detailKind(extra) != "" {
		return nil
	}
	if c.skip(); c.end() != nil {
		return nil
	}
	return extra
}
