package adapters

import "headway/core"

// converseMessage is what one message of a stream says, or one whole answer.
type converseMessage struct {
	block   converseBlock
	whole   func(*converseBlock) // is told each block of a whole answer
	content bool                 // there is a list of blocks
	stop    []byte
	usage   converseUsage
}

// converseBlock is a block, or the opening or a piece of one. Its slices are the
// message's, texts as they stand between their quotes.
type converseBlock struct {
	tool, server        bool // a tool call; of a tool that runs on the server
	id, name            []byte
	text, reasoning     []byte
	signature, redacted []byte
	arguments           []byte // a piece of a tool's input
	input               []byte // the whole of it: a value
}

// converseUsage is a usage object: input, cache reads and writes do not overlap.
type converseUsage struct {
	input, read, write, write1h, output core.Opt[int64]
}

func (m *converseMessage) read(c *cursor) bool {
	if c.peek() != '{' {
		return false
	}
	for key := range c.each {
		switch string(key) {
		case "start", "delta":
			m.block.read(c)
		case "output":
			for key := range c.each {
				if string(key) == "message" {
					m.message(c)
				}
			}
		case "stopReason":
			m.stop = textOf(c)
		case "usage":
			m.usage.readFrom(c)
		}
	}
	return true
}

func (m *converseMessage) message(c *cursor) {
	for key := range c.each {
		if string(key) != "content" || !c.array() {
			continue
		}
		m.content = true
		for c.element() {
			var b converseBlock
			b.read(c)
			if c.err == nil && m.whole != nil {
				m.whole(&b)
			}
		}
	}
}

func (b *converseBlock) read(c *cursor) {
	for key := range c.each {
		switch string(key) {
		case "text":
			b.text = textOf(c)
		case "reasoningContent":
			b.readReasoning(c)
		case "toolUse":
			b.readTool(c)
		case "toolResult":
			b.server = true // of a tool that ran on the server: the client has no part in it
			c.skip()
		case "citationsContent":
			b.readCited(c)
		}
	}
}

// readReasoning reads a piece of reasoning, or a whole block of it, which has
// text and signature one level deeper.
func (b *converseBlock) readReasoning(c *cursor) {
	for key := range c.each {
		switch string(key) {
		case "reasoningText":
			b.readReasoning(c)
		case "text":
			b.reasoning = textOf(c)
		case "signature":
			b.signature = textOf(c)
		case "redactedContent":
			b.redacted = textOf(c)
		}
	}
}

func (b *converseBlock) readTool(c *cursor) {
	for key := range c.each {
		switch string(key) {
		case "toolUseId":
			b.id = textOf(c)
			b.tool = true
		case "name":
			b.name = textOf(c)
		case "type":
			b.server = string(textOf(c)) == "server_tool_use"
		case "input":
			if c.peek() == '"' {
				b.arguments = textOf(c)
			} else {
				b.input = c.value()
			}
		}
	}
}

// readCited reads text that has its sources beside it.
func (b *converseBlock) readCited(c *cursor) {
	for key := range c.each {
		if string(key) != "content" || !c.array() {
			continue
		}
		for c.element() {
			for key := range c.each {
				if string(key) == "text" {
					b.text = append(b.text[:len(b.text):len(b.text)], textOf(c)...)
				}
			}
		}
	}
}

// readFrom reads the figures; some have two names.
func (u *converseUsage) readFrom(c *cursor) {
	for key := range c.each {
		switch string(key) {
		case "inputTokens":
			u.input = c.tokens()
		case "outputTokens":
			u.output = c.tokens()
		case "cacheReadInputTokens", "cacheReadInputTokenCount":
			u.read = c.tokens()
		case "cacheWriteInputTokens", "cacheWriteInputTokenCount":
			u.write = c.tokens()
		case "cacheDetails":
			u.readDetails(c)
		}
	}
	if u.write1h.V > u.write.V { // a part cannot be more than the whole
		u.write1h = core.Opt[int64]{}
	}
}

// readDetails reads how long each part of what was written is kept.
func (u *converseUsage) readDetails(c *cursor) {
	if !c.array() {
		c.skip()
		return
	}
	for c.element() {
		var tokens core.Opt[int64]
		var life string
		for key := range c.each {
			switch string(key) {
			case "inputTokens":
				tokens = c.tokens()
			case "ttl":
				life = c.word()
			}
		}
		if life == "1h" && tokens.OK {
			u.write1h = core.Some(u.write1h.V + tokens.V)
		}
	}
}
