package core

import (
	"encoding/json"
	"slices"
)

// Operation is what a call asks a provider to do.
type Operation string

const (
	OpGenerate    Operation = "generate"     // chat completions, Responses, Messages, generateContent
	OpCompletions Operation = "completions"  // the old /v1/completions
	OpEmbeddings  Operation = "embeddings"   // vectors, no output tokens
	OpCountTokens Operation = "count_tokens" // costs nothing, measures nothing
)

// Generates tells whether the operation writes output tokens.
func (o Operation) Generates() bool { return o == OpGenerate || o == OpCompletions }

// Feature is something a request asks for that not every offer has.
type Feature uint8

const (
	FeatureTools Feature = 1 << iota
	FeatureImages
	FeatureSchema // a response format other than text
	FeatureAudio
	FeatureDocuments
)

// FeatureNames are the names of the features in configuration files, in the
// order of their bits.
var FeatureNames = [...]string{"tools", "images", "schema", "audio", "documents"}

// Names are those of the features in f, never nil.
func (f Feature) Names() []string {
	names := []string{}
	for bit, name := range FeatureNames {
		if f>>bit&1 == 1 {
			names = append(names, name)
		}
	}
	return names
}

// MarshalJSON writes the names.
func (f Feature) MarshalJSON() ([]byte, error) { return json.Marshal(f.Names()) }

// UnmarshalJSON reads them.
func (f *Feature) UnmarshalJSON(b []byte) error {
	var names []string
	if err := json.Unmarshal(b, &names); err != nil {
		return err
	}
	*f = 0
	for _, name := range names {
		bit := slices.Index(FeatureNames[:], name)
		if bit < 0 {
			return Errorf(Invalid, "there is no feature of that name")
		}
		*f |= 1 << bit
	}
	return nil
}

// Job is a request reduced to what choosing and charging need. The text of the
// request stays in Body, which only an adapter reads.
type Job struct {
	Format    Format
	Operation Operation
	Model     Model // as the client asked for it
	Streamed  bool  // asked for as a stream
	// MaxOutput is the requested output maximum, absent where none was asked.
	MaxOutput Opt[int64]
	// Choices is how many answers were asked for, each as long as MaxOutput
	// allows (chat's n); 0 and 1 are one.
	Choices  int64
	Features Feature
	// AskedUsage: the client asked for the usage chunk of a stream
	// (stream_options.include_usage); other formats always report.
	AskedUsage bool
	// SSE: a Google stream was asked for with alt=sse; without it the stream is
	// one JSON array.
	SSE bool
	// Bound names the field that ties the call to a provider of its own format,
	// which holds state that the field points at (previous_response_id); "" for
	// none.
	Bound string
	// Body is the request as the client sent it: valid JSON with the required
	// fields of its format, read once and never changed.
	Body []byte
	// PromptBytes is the size of the parts of Body that a model reads, each image,
	// sound or document counted as a fixed number of bytes.
	PromptBytes int
	// Beyond: a model also reads what nobody here knows the size of: what the provider
	// keeps, a file that is no picture, what the provider's own tools find.
	Beyond bool
	// Lead and Turns are where in Body the texts are that a model reads, in the
	// order in which providers cache them: first tools, system text that is a field
	// of its own and the answer's schema, then the conversation, each in the order of
	// the body. A string is the bytes between its quotes, still escaped; a tool or a
	// value that is none is its JSON. Roles and ids are not noted, and of media there
	// is nothing. The bytes of one turn begin those of the next one, wherever the
	// client's markers for the cache stand. Each list ends at 65,536 texts.
	Lead, Turns []Span
	// Headers are those of the call that strategies may see
	// (Routing.ScriptHeaders), by their names in lower case.
	Headers map[string]string
	// Edits are the places of Body that a same-format upstream may need changed.
	Edits Edits
}

// Edits are byte ranges of a Job's body, found while it was parsed, so that
// changing one field leaves every other byte as it came.
type Edits struct {
	Model         Span // the value of the top-level "model"
	StreamOptions Span // the value of the top-level "stream_options", where there is one
	IncludeUsage  Span // the value of its "include_usage", where there is one
	Open          int  // just behind the opening brace
}

// Span is a byte range; the zero Span is "not there".
type Span struct{ From, To int }

// Present tells whether the range is there.
func (s Span) Present() bool { return s.To > s.From }

// Estimate is what a job is expected to need at one offer.
type Estimate struct {
	Fresh  int64 // input tokens to be processed
	Cached int64 // input tokens expected to be read from the cache
	Output int64 // output tokens expected
	// MaxOutput is the requested output maximum, or the offer's own.
	MaxOutput int64
}

// Input is how many tokens the prompt is expected to have.
func (e *Estimate) Input() int64 { return e.Fresh + e.Cached }

// Usage is what a provider reported or what was estimated. Input tokens are in
// three parts that do not overlap: uncached, read from the cache, written to it.
type Usage struct {
	UncachedInput Opt[int64] `json:"uncached_input_tokens,omitzero"`
	CacheRead     Opt[int64] `json:"cache_read_tokens,omitzero"`
	// CacheWrite is all that was written; CacheWrite1h is a part of it.
	CacheWrite   Opt[int64] `json:"cache_write_tokens,omitzero"`
	CacheWrite1h Opt[int64] `json:"cache_write_1h_tokens,omitzero"`
	// Output includes Reasoning.
	Output    Opt[int64] `json:"output_tokens,omitzero"`
	Reasoning Opt[int64] `json:"reasoning_tokens,omitzero"`
}

// Fresh is the input that had to be processed; absent where neither part is known.
func (u Usage) Fresh() Opt[int64] {
	if !u.UncachedInput.OK && !u.CacheWrite.OK {
		return Opt[int64]{}
	}
	return Some(u.UncachedInput.V + u.CacheWrite.V)
}

// Input is all input, cache reads included.
func (u Usage) Input() int64 { return u.UncachedInput.V + u.CacheRead.V + u.CacheWrite.V }
