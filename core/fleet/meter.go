package fleet

import (
	"bytes"
	"mime"
	"net/http"
	"strings"
	"time"

	"headway/core"
	"headway/core/measure"
	"headway/core/relay"
)

const (
	// meteredEvent is the longest event of a stream that is read for figures.
	meteredEvent = 16 << 20
	// meteredBody is the longest unstreamed answer that is.
	meteredBody = 4 << 20
	// sniffed is how much white space may come before an answer shows what it is.
	sniffed = 4 << 10
)

// shape is how an answer comes.
type shape uint8

const (
	shapeOff    shape = iota // it is not read, or not any more
	shapeSniff               // asked for as a stream, and of another type: its first byte tells
	shapeStream              //
	shapeWhole               //
)

// meter reads an answer that passes, once it has been sent on, for the figures of
// SPEC §4 on the node's own clock. It never holds up or breaks the answer: what it
// cannot read it lets be.
type meter struct {
	line     core.Timeline
	reader   core.Reader
	split    *relay.Splitter
	shape    shape
	broken   bool // it was read, up to what could not be
	body     []byte
	frame    core.Frame
	arrivals relay.Arrivals
	fresh    bool // this read held output
	finished bool // the format's finish or end marker was seen
	failed   bool // an error was, in the stream
	refused  bool // another status than 2xx
	streamed bool // the answer came as a stream
	result   core.Answer
}

// answer looks at the head of an answer, whose headers came at a time.
func (m *meter) answer(side core.ProviderSide, format core.Format, st *start, resp *http.Response, at time.Time) {
	m.line.T2 = at
	m.refused = resp.StatusCode < 200 || resp.StatusCode > 299
	if side == nil || m.refused || !plain(resp.Header.Get("Content-Encoding")) || st.Operation == core.OpCountTokens {
		return
	}
	p := &core.Provider{Format: format}
	job := &core.Job{Format: format.Wire(), Operation: st.Operation, Model: st.Model, Streamed: st.Streamed}
	m.reader = side.Reader(job, &core.Offer{Provider: p, Model: st.Model})
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	events := "text/event-stream"
	if m.reader.Split() == core.SplitLines {
		events = "application/x-ndjson"
	}
	switch {
	case st.Streamed && kind == events:
		m.stream()
	case st.Streamed:
		m.shape = shapeSniff
	case kind == "application/json":
		m.shape = shapeWhole
	}
}

func plain(encoding string) bool { return encoding == "" || strings.EqualFold(encoding, "identity") }

func (m *meter) stream() {
	m.shape, m.streamed = shapeStream, true
	m.split = relay.NewSplitter(m.reader.Split(), meteredEvent)
}

// read takes bytes of the body that were read at a time.
func (m *meter) read(p []byte, at time.Time) {
	if m.shape == shapeOff {
		return
	}
	defer m.guard()
	switch m.shape {
	case shapeSniff:
		m.sniff(p, at)
	case shapeStream:
		m.events(p, at)
	case shapeWhole:
		m.keep(p)
	}
}

// guard keeps a reader's fault from the answer.
func (m *meter) guard() {
	if recover() != nil {
		m.stop()
	}
}

// stop ends the reading: figures that need the whole of it are not known.
func (m *meter) stop() { m.shape, m.broken, m.body = shapeOff, true, nil }

func (m *meter) sniff(p []byte, at time.Time) {
	m.keep(p)
	head := bytes.TrimLeft(m.body, " \t\r\n")
	if m.shape == shapeOff || len(head) == 0 && len(m.body) < sniffed {
		return
	}
	m.shape = shapeWhole
	if len(head) > 0 && m.reader.Split() == core.SplitSSE && head[0] != '{' && head[0] != '<' {
		all := m.body
		m.body = nil
		m.stream()
		m.events(all, at)
	}
}

func (m *meter) keep(p []byte) {
	if len(m.body)+len(p) > meteredBody {
		m.stop()
		return
	}
	m.body = append(m.body, p...)
}

func (m *meter) events(p []byte, at time.Time) {
	m.fresh = false
	for len(p) > 0 {
		room, err := m.split.Room()
		if err != nil {
			m.stop()
			return
		}
		n := copy(room, p)
		p = p[n:]
		m.split.Filled(n)
		for m.split.Next(&m.frame) {
			if m.mark(at); m.shape == shapeOff {
				return
			}
		}
	}
	if m.fresh {
		m.arrivals.Add(at.Sub(m.line.T1))
	}
}

// mark sets what one frame says.
func (m *meter) mark(at time.Time) {
	if len(m.frame.Data) > 0 && m.line.T3.IsZero() {
		m.line.T3 = at
	}
	mark := m.reader.Read(&m.frame)
	if mark.Output() {
		if m.line.T4.IsZero() {
			m.line.T4 = at
		}
		m.line.TL, m.fresh = at, true
	}
	if mark.Has(core.MarkText) && m.line.T5.IsZero() {
		m.line.T5 = at
	}
	m.finished = m.finished || mark.Has(core.MarkFinish|core.MarkEnd)
	m.failed = m.failed || mark.Has(core.MarkError)
	if mark.Has(core.MarkBroken) && !m.finished {
		m.stop()
	}
}

// end takes the end of the body, or of the wish for it; whole tells that all of it
// came.
func (m *meter) end(at time.Time, whole bool) {
	m.line.T6 = at
	defer m.release()
	defer m.guard()
	switch {
	case m.shape == shapeStream && whole:
		m.fresh = false
		if m.split.Rest(&m.frame) {
			m.mark(at)
		}
		if m.fresh {
			m.arrivals.Add(at.Sub(m.line.T1))
		}
	case m.shape == shapeWhole && whole:
		if m.reader.ReadWhole(m.body) != nil {
			m.stop()
		} else {
			m.finished = true
		}
	}
	if m.body = nil; m.reader != nil {
		m.result = m.reader.Answer()
	}
}

func (m *meter) release() {
	if m.split != nil {
		m.split.Release()
		m.split = nil
	}
}

// outcome is how a job ended as the node saw it: word is its end's, cause why it was
// cancelled, nil where it was not.
func (m *meter) outcome(word string, cause error) core.Outcome {
	switch {
	case cause != nil && m.finished && !m.failed: // it had all that was to come
		return core.Settled
	case cause == errSession:
		return core.Lost
	case cause == errSlow:
		return core.ClientStalled
	case cause == errStopping:
		return core.Failed
	case cause != nil:
		return core.ClientGone
	case m.refused || m.failed:
		return core.Failed
	case word == "" && (m.finished || m.reader == nil || m.broken):
		return core.Settled // as far as it could be read
	case !m.line.T4.IsZero():
		return core.Truncated
	}
	return core.Failed
}

// usage is what the server reported.
func (m *meter) usage() core.Usage {
	if !m.result.Reported {
		return core.Usage{}
	}
	return m.result.Usage
}

// timing are the figures: admission is how long the edge had the call, wait how long
// it waited for its slot, absent where it got none.
func (m *meter) timing(admission float64, wait core.Opt[float64]) core.NodeTiming {
	t := core.NodeTiming{SlotWait: wait, UpstreamHeaders: m.line.Headers(), Service: m.line.Upstream()}
	if wait.OK {
		t.Queued = core.Some(core.Micro(admission + wait.V))
	}
	f := measure.Figures(m.line, m.result, m.streamed, int(m.arrivals.Count()))
	t.FirstToken = f.FirstToken
	if !m.broken {
		t.Prompt, t.PromptTPS, t.Decode, t.DecodeTPS, t.FiguresFrom = f.Prompt, f.PromptTPS, f.Decode, f.DecodeTPS, f.FiguresFrom
	}
	return t
}
