package adapters

import (
	"headway/core"
)

// maxCalls is far above the tool calls of any answer; one with more is broken.
const maxCalls = 4096

// chatCallPiece is one entry of tool_calls, which may be a part of a call.
type chatCallPiece struct {
	id, name  []byte
	index     core.Opt[int64]
	arguments []byte // escaped, as in their string
	extra     []byte
}

// call takes one entry of tool_calls.
func (e *chatEvents) call(t *chatTrack, c *cursor) {
	if !c.object() {
		c.skip()
		return
	}
	var p chatCallPiece
	for key := range c.rest {
		switch string(key) {
		case "id":
			p.id, _ = c.text()
		case "index":
			p.index = c.tokens()
		case "function":
			p.function(c)
		case "extra_content":
			if c.peek() == '{' {
				p.extra = c.value()
			} else {
				c.skip()
			}
		}
	}
	e.called(t, &p)
}

// function consumes a name and arguments. Arguments are JSON in a string; some
// servers give the JSON itself.
func (p *chatCallPiece) function(c *cursor) {
	for key := range c.each {
		switch string(key) {
		case "name":
			p.name, _ = c.text()
		case "arguments":
			if c.peek() == '{' {
				p.arguments = escapeJSON(c.value())
			} else if p.arguments, _ = c.text(); string(p.arguments) == "null" {
				p.arguments = nil
			}
		}
	}
}

// called adds what a piece says: a call that begins, or more of one's arguments.
func (e *chatEvents) called(t *chatTrack, p *chatCallPiece) {
	i := t.find(p)
	if i < 0 {
		if len(p.name) == 0 && len(p.id) == 0 && !p.index.OK || len(t.calls) > maxCalls {
			return
		}
		t.calls = append(t.calls, chatCall{id: string(unescape(p.id)), index: p.index})
		i = len(t.calls) - 1
	}
	call := &t.calls[i]
	if call.id == "" {
		call.id = string(unescape(p.id))
	}
	if !call.named && len(p.name) > 0 {
		e.seal(t)
		if len(p.extra) > 0 {
			e.out = append(e.out, core.Event{Kind: core.EventSeal, Choice: t.index, Seal: core.Seal{Origin: core.FormatOpenAI, Text: requote(escapeJSON(p.extra))}})
		}
		if call.id == "" {
			call.id = callID()
		}
		call.named = true
		e.out = append(e.out, core.Event{Kind: core.EventTool, Choice: t.index, Index: i, ID: call.id, Name: string(unescape(p.name))})
		if call.held != nil {
			e.arguments(t, i, call.held)
			call.held = nil
		}
	}
	switch {
	case len(p.arguments) == 0:
	case call.named:
		e.arguments(t, i, p.arguments)
	default:
		call.held = append(call.held, p.arguments...)
	}
}

func (e *chatEvents) arguments(t *chatTrack, i int, piece []byte) {
	if piece = e.halves.whole(half{t.index, i, core.EventArguments}, piece); len(piece) > 0 {
		e.out = append(e.out, core.Event{Kind: core.EventArguments, Choice: t.index, Index: i, Text: piece})
	}
}

// find gives the call that a piece goes on with, -1 where it begins one. Calls
// are told apart by their index, but some servers have none, and some give 0 to
// all: a piece with a name and another id begins another.
func (t *chatTrack) find(p *chatCallPiece) int {
	for i := len(t.calls) - 1; i >= 0; i-- {
		had := &t.calls[i]
		switch {
		case p.index.OK && had.index.OK && had.index != p.index:
			continue
		case len(p.id) == 0 || had.id == "" || had.id == string(unescape(p.id)):
			if !p.index.OK && len(p.id) == 0 && len(p.name) > 0 && had.named {
				return -1 // whole calls without id or index
			}
			return i
		case !p.index.OK:
			continue // by its id alone
		case len(p.name) == 0:
			return i
		}
		return -1
	}
	return -1
}
