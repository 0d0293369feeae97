package core

// Frame is one piece of an upstream's stream: an SSE block, a line, an array
// element. Its bytes are valid until the next frame is asked for.
type Frame struct {
	Raw  []byte // as it came, separators included: what a same-format client gets
	Name string // the SSE event name, or an AWS message's event type, where there is one
	Data []byte // the joined data; empty for comments and keep-alives
}

// Names of frames of an AWS event stream that are no events.
const (
	// BrokenFrame is what is no message, or a message whose checksum is wrong.
	BrokenFrame = ":broken"
	// ExceptionFrame is before the type of an exception, whose body is the data.
	ExceptionFrame = ":exception:"
)

// Mark says what a frame holds, as far as measuring and relaying need it. One
// function per format makes it (Reader.Read), and every figure follows it
// (SPEC §3).
type Mark uint16

const (
	MarkText      Mark = 1 << iota // visible text
	MarkReasoning                  // thinking or its summary
	MarkTool                       // a tool call's name or arguments, by SPEC §3
	MarkRefusal                    // a refusal's text
	MarkUsageOnly                  // usage and nothing else: kept from a client that did not ask
	MarkFinish                     // the format's finish reason, or its terminal event
	MarkEnd                        // the format's end marker: nothing more belongs to the answer
	MarkError                      // an error inside the stream; its Raw is emptied where no client would take it for one
	MarkBroken                     // not of the format at all: no client can read it, so none gets it
)

// MarkOutput is every kind of effective output.
const MarkOutput = MarkText | MarkReasoning | MarkTool | MarkRefusal

// Output tells whether the frame holds effective output.
func (m Mark) Output() bool { return m&MarkOutput != 0 }

// Has tells whether any of the given bits is set.
func (m Mark) Has(b Mark) bool { return m&b != 0 }

// Answer is what a Reader knows of an upstream's answer so far.
type Answer struct {
	// OutputBytes is the size of the output text seen, of every kind, for an
	// estimate where no usage is reported.
	OutputBytes int
	Usage       Usage
	// Reported tells that the provider sent usage figures of its own.
	Reported bool
	// InputAtStart is the fresh input that the first token waited for, where a
	// later report counts more (SPEC §5, server-run tools).
	InputAtStart Opt[int64]
	// StreamedReasoning tells that reasoning was streamed; reasoning that was
	// billed but not streamed is left out of output speeds.
	StreamedReasoning bool
	// Contradiction tells that the report disagrees with itself about output:
	// output speeds are then absent.
	Contradiction bool
	// Opening tells that the output reported so far is the placeholder of a
	// stream's opening (Anthropic's message_start): it stands for nothing where
	// the stream ends before its next report.
	Opening bool
	Finish  string // as reported; "" where none came
	Figures ServerFigures
	Err     *UpstreamError
	// Repaired is an unstreamed answer in a form that official SDKs can read
	// (SPEC §13); nil where it may be passed on as it came.
	Repaired []byte
}

// ServerFigures are the model server's own times of a call, untouched.
type ServerFigures struct {
	PromptTokens Opt[int64] // processed, without cache reads
	PromptMS     Opt[float64]
	DecodeTokens Opt[int64]
	DecodeMS     Opt[float64]
}

// UpstreamError is an error that an upstream reported, in a body or a stream.
// Its text goes to the caller alone, never to a log or a store.
type UpstreamError struct {
	Status  int    // the HTTP status, or the one that the error names; 0 unknown
	Type    string // the provider's word for it: "overloaded_error"
	Code    string
	Message string
}
