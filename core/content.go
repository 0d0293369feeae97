package core

// Content is a request decoded, which is done only where client and upstream
// speak different formats. Texts are kept as they stood in the client's JSON: a
// [Quoted] passes from one body to another without being unescaped.
//
// A field that is absent is its zero value. Names of fields are the client's
// own, so that an error or a header names what the client wrote.
type Content struct {
	Format   Format // the client's
	Streamed bool
	Messages []Message

	Tools      []Tool
	ToolChoice ToolChoice
	// OneTool: at most one tool call in an answer (parallel_tool_calls: false).
	OneTool bool

	MaxOutput   Opt[int64]
	Choices     int64 // 0 and 1 are one
	Temperature Number
	TopP        Number
	TopK        Number
	Seed        Number
	Frequency   Number // frequency penalty
	Presence    Number // presence penalty
	Stop        []Quoted
	// TopLogprobs: log probabilities were asked for, with that many alternatives.
	TopLogprobs Opt[int64]

	Answer    AnswerForm
	Reasoning ReasoningWish
	Shown     Shown
	User      Quoted // a tag of the end user

	// Fields are the places of the client's request where the fields above were
	// given, by the name of the neutral field (AskStop …).
	Fields map[Ask]string
	// Others are fields of the client that no other format has, by the client's
	// name: what an upstream of another format does not get. Each either only
	// decorates (it is named in x-headway-dropped) or changes the answer's
	// meaning (it is refused).
	Others []OtherField
}

// Ask is a neutral name of what a request may ask for.
type Ask string

const (
	AskMaxOutput   Ask = "max_output"
	AskChoices     Ask = "choices"
	AskTemperature Ask = "temperature"
	AskTopP        Ask = "top_p"
	AskTopK        Ask = "top_k"
	AskSeed        Ask = "seed"
	AskFrequency   Ask = "frequency_penalty"
	AskPresence    Ask = "presence_penalty"
	AskStop        Ask = "stop"
	AskLogprobs    Ask = "logprobs"
	AskTools       Ask = "tools"
	AskToolChoice  Ask = "tool_choice"
	AskOneTool     Ask = "one_tool"
	AskAnswer      Ask = "answer_form"
	AskReasoning   Ask = "reasoning"
	AskUser        Ask = "user"
	AskCache       Ask = "cache_hint"
	AskMedia       Ask = "media" // an image, document or sound; errors name its own place
)

// OtherField is a field of a request that only its own format has, or next to none.
type OtherField struct {
	Name    string
	Refused bool // leaving it out would change the answer's meaning
	// Twin names a field that one other format has too (chat completions and
	// Responses: "verbosity", "service_tier", "metadata"), and Value is its JSON.
	Twin, Value string
}

// Quoted is a JSON string as it stands in a body, quotes included; nil is absent.
type Quoted []byte

// Number is a JSON number as it stands in a body; nil is absent.
type Number []byte

// JSON is any JSON value as it stands in a body; nil is absent.
type JSON []byte

// Role is who speaks in a message.
type Role uint8

const (
	RoleSystem Role = iota // system and developer text; may stand between other messages
	RoleUser               // also the results of tools
	RoleAssistant
)

// Message is one turn. Successive messages may have the same role.
type Message struct {
	Role  Role
	Parts []Part
	// At is the place in the client's request: "messages[3]".
	At string
}

// PartKind tells what a Part is.
type PartKind uint8

const (
	PartText       PartKind = iota // Text
	PartImage                      // Media; the assistant's own where a model made it
	PartDocument                   // Media, Name
	PartAudio                      // Media
	PartToolCall                   // ID, Name, Arguments
	PartToolResult                 // ID, Name where known, Parts, Failed
	PartReasoning                  // Text (may be absent) and Seal
	PartRefusal                    // Text
)

// Part is one piece of a message.
type Part struct {
	Kind PartKind
	Text Quoted
	// Cache: the client marked the end of this part as a place to cache the
	// prompt to; "5m", "1h", or "" for none.
	Cache string

	Media Media

	ID        Quoted // of a tool call, and of the call that a result answers
	Name      Quoted // of a tool; of a document
	Arguments JSON   // of a tool call: an object
	Parts     []Part // of a tool result: text, images, documents
	Failed    bool   // the tool reported an error

	Seal Seal
}

// Media is an image, a document or a sound: by its bytes or by its address.
type Media struct {
	Type   string // "image/png"; "" where an address alone is known
	Base64 []byte // as it stands between the quotes, nil where URL says where it is
	URL    Quoted
	Detail string // OpenAI's low, high, auto; "" for none
}

// Seal is what a provider gave with its reasoning so that the next turn can show
// that it is its own: a signature, or the reasoning itself, encrypted. It is sent
// back only to where it came from. Towards clients of another format it is
// wrapped with its origin, see adapters.
type Seal struct {
	Origin Format // the wire format that made it; "" for none
	Text   Quoted
	// Encrypted: Text holds all of the reasoning (redacted thinking, encrypted
	// content), it does not sign the part's text.
	Encrypted bool
	// ID is the item's (Responses: rs_…), which goes back with it.
	ID Quoted
}

// Tool is a function that the model may call.
type Tool struct {
	Name        Quoted
	Description Quoted
	Schema      JSON // of its arguments, absent for none
	Strict      Opt[bool]
	Cache       string // as Part.Cache
	At          string // the place in the client's request: "tools[2]"
}

// ChoiceMode says whether the model must call a tool.
type ChoiceMode uint8

const (
	ChoiceUnsaid ChoiceMode = iota // the format's default
	ChoiceAuto
	ChoiceNone
	ChoiceRequired
	ChoiceNamed // one of Names; the tool of that name where there is one
)

// ToolChoice says which tools the model may or must call.
type ToolChoice struct {
	Mode  ChoiceMode
	Names []Quoted
}

// AnswerForm is the form that the answer's text must have.
type AnswerForm struct {
	JSON   bool // a JSON object or, with Schema, a value of it
	Schema JSON
	Name   Quoted // of the schema
	Strict Opt[bool]
}

// ReasoningWish is what the client asked of the model's reasoning.
type ReasoningWish struct {
	// Effort is none, minimal, low, medium, high or xhigh; "" where unsaid.
	Effort string
	// Budget is a limit in tokens.
	Budget Opt[int64]
	// Visible: reasoning, or its summary, is to be shown; absent where unsaid.
	Visible Opt[bool]
}

// Shown is what of the reasoning of a provider of another format the client is
// given: one that did not ask may take the first block of an answer for its text.
type Shown uint8

const (
	ShowAll   Shown = iota
	ShowSeals       // not its text
	ShowNone
)

// EventKind tells what an Event is.
type EventKind uint8

const (
	EventStart     EventKind = iota // ID and Model of the answer, once, first
	EventText                       // Text: a piece of visible text
	EventReasoning                  // Text: a piece of reasoning
	EventSeal                       // Seal: of the reasoning so far, or of the tool call that follows
	EventRefusal                    // Text: a piece of a refusal
	EventTool                       // Index, ID, Name: a tool call begins
	EventArguments                  // Index, Text: a piece of its arguments, which are JSON in a string
	EventFinish                     // Finish, StopText: of this choice; it may come again
	EventMedia                      // Media: a picture or another file, whole, in its place among the text
)

// Event is one step of an answer in no format's own words, for a client that
// speaks another format than the upstream. Reasoning, text and tool calls come
// in the order of the answer. Its slices are valid until the next frame is read.
type Event struct {
	Kind   EventKind
	Choice int // of several answers (n), from 0
	Index  int // of tool calls in this choice, from 0
	// Text is what stands between the quotes of a JSON string: escaped, so that it
	// passes to another format as it came. It is whole characters.
	Text   []byte
	ID     string
	Name   string
	Model  string
	Seal   Seal
	Media  *Media
	Finish Finish
	// StopText is the stop sequence that ended the answer, where it is known.
	StopText Quoted
}

// Finish is why an answer ended.
type Finish string

const (
	FinishStop    Finish = "stop"    // its natural end, or a stop sequence
	FinishLength  Finish = "length"  // the output maximum or the context
	FinishTools   Finish = "tools"   // tool calls wait for their results
	FinishFilter  Finish = "filter"  // a content filter
	FinishRefusal Finish = "refusal" // the model declined
	FinishPause   Finish = "pause"   // a long turn to be gone on with (Anthropic's pause_turn)
)
