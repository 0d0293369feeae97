package core

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"
)

// RequestHead is what a client's request says outside its body.
type RequestHead struct {
	Path   string // without the query
	Query  url.Values
	Header http.Header
}

// ClientSide speaks one wire format towards clients. Its methods hold no state and
// may be called concurrently.
type ClientSide interface {
	Format() Format
	// Parse reads a client's request into a Job: the facts only, nothing of the
	// text. It refuses (Invalid, with the field) what a provider would refuse by
	// the format's own rules: broken JSON, missing or mistyped required fields.
	// The Job keeps body.
	Parse(head RequestHead, body []byte) (*Job, error)
	// Decode reads all of a request that Parse has read, for an upstream of
	// another format. The Content's slices are the job's. Errors are Invalid and
	// name the field.
	Decode(job *Job) (*Content, error)
	// Unseal gives a request's body without what other providers said in the
	// conversation that none of this format would take: the seals that Translator
	// wrapped. false: there is nothing of the kind.
	Unseal(body []byte) ([]byte, bool)
	// Writer writes Headway's own words in the format, for one answer. The job
	// may be nil where the request could not be parsed.
	Writer(job *Job) Writer
	// Translator writes the answer of an upstream that speaks another format; at
	// is when the call came.
	Translator(job *Job, at time.Time) Translator
}

// ProviderSide speaks one wire format towards providers. Its methods hold no state
// and may be called concurrently.
type ProviderSide interface {
	// Format is the wire format, see Format.Wire.
	Format() Format
	// Build makes the request for an offer. Without content the client speaks the
	// same wire format: the job's bytes with only what must change changed. With
	// it the request is written anew; dropped are the names of the client's fields
	// that are left out because the format has no place for them and the answer
	// means the same without. Errors are Invalid, with the client's field, where
	// it would not; Internal where the provider's settings cannot be used. Build
	// sets the credential.
	Build(ctx context.Context, job *Job, content *Content, head RequestHead, offer *Offer) (req *http.Request, dropped []string, err error)
	// Reader reads one upstream answer to job.
	Reader(job *Job, offer *Offer) Reader
}

// Adapter speaks one wire format in both directions.
type Adapter interface {
	ClientSide
	ProviderSide
}

// Reader says what an upstream's answer holds. One is made for each attempt and
// used by one goroutine.
type Reader interface {
	// Split tells how the stream is cut into frames.
	Split() Splitting
	// Read looks at the next frame of a stream and says what it holds. It may
	// replace frame.Raw by a repaired form (SPEC §13).
	Read(frame *Frame) Mark
	// ReadWhole looks at an unstreamed answer with a 2xx status. An error says
	// that it is not an answer of the format.
	ReadWhole(body []byte) error
	// ReadError looks at an answer with another status; what it cannot read it
	// leaves empty.
	ReadError(status int, body []byte) UpstreamError
	// Events is what the frame that Read has just looked at holds, for a client of
	// another format; nothing for one that Read marked as an error or as broken.
	// It is valid until the next Read.
	Events(frame *Frame) []Event
	// WholeEvents is the same of an unstreamed answer that ReadWhole has read.
	WholeEvents(body []byte) ([]Event, error)
	// Answer is what is known so far.
	Answer() Answer
}

// Splitting is how a stream is cut into frames.
type Splitting uint8

const (
	SplitSSE   Splitting = iota // server-sent events
	SplitArray                  // the elements of one JSON array (Google without alt=sse)
	SplitLines                  // one JSON value a line (Ollama)
	SplitAWS                    // the binary frames of AWS event streams (Bedrock)
)

// Writer writes Headway's own words in a client's format.
type Writer interface {
	// ErrorBody is an error as an unstreamed answer.
	ErrorBody(*Error) []byte
	// ErrorEvent is an error inside a stream that has begun.
	ErrorEvent(*Error) []byte
	// Fold takes the frames of a stream one by one; Folded is then the same
	// answer as one JSON body, for a call that did not ask for a stream.
	Fold(Frame)
	Folded() ([]byte, error)
	// Unfold makes a stream of an unstreamed answer, for a call that asked for
	// one; each element is one frame.
	Unfold(body []byte) ([][]byte, error)
	// ContentType is that of an answer in the shape that was asked for.
	ContentType() string
}

// Translator writes an upstream's answer in a client's format. One is made for
// each answer and used by one goroutine.
type Translator interface {
	// Event appends to dst what the client gets for an event: in a stream its
	// part of it, at once; where no stream was asked for nothing, it is kept.
	Event(dst []byte, e *Event) []byte
	// End appends what ends the answer once the upstream has ended it well, with
	// what is then known of it: the last events of a stream, or the whole answer.
	// Only the first call appends anything.
	End(dst []byte, a *Answer) []byte
}

// Book keeps receipts. Implementations: embedded/store, and Memory for tests.
type Book interface {
	// Open notes that a call is about to be dispatched, so that it has a receipt
	// whatever happens. It does not wait for a disk. An error (Unavailable) says
	// that no receipt could be kept now: the call must not be dispatched.
	Open(Intent) error
	// Append hands a receipt over; it is durable a little later. It never
	// blocks and never fails: room was made by Open. done, where not nil, is
	// called once the receipt is durable.
	Append(r *Receipt, done func())
	// CatchUp returns once what was handed over before is durable, so that who asks for
	// a call right after it finds its receipt; at the latest when ctx ends.
	CatchUp(ctx context.Context)
	// Receipt reads one durable receipt. NotFound: there is none. Unavailable:
	// there is one that cannot be read.
	Receipt(CallID) (*Receipt, error)
	// Receipts reads durable receipts in the order of their ids, from from
	// (included) to to (excluded), either zero for no bound, until yield
	// returns false. newest reverses the order. A record that cannot be read
	// ends it with an error (Unavailable).
	Receipts(from, to time.Time, newest bool, yield func(*Receipt) bool) error
	// JobCalls gives the ids of a job's calls, oldest first.
	JobCalls(JobID) ([]CallID, error)
	// Erase takes out of durable receipts whose they were (Receipt.Erased), and puts and
	// deletes records of the Vault, as one; ids without a receipt are passed over. It is
	// durable when it returns. TooLarge: nothing was done, and fewer at once may be.
	Erase(ids []CallID, puts, deletes []Record) error
	// Purge returns once no file has a value that was overwritten or deleted before it
	// was called, nor an intent of a call that has its receipt since. progress, where not
	// nil, is told in a few words what it does. It may be called again where it failed.
	Purge(ctx context.Context, progress func(string)) error
	// Healthy is nil while receipts can be made durable.
	Healthy() error
}

// Intent is what is known of a call before it is dispatched: enough for a
// receipt with outcome lost.
type Intent struct {
	ID        CallID     `json:"id"`
	Job       JobID      `json:"job"`
	Step      string     `json:"step,omitempty"`
	Kind      CallKind   `json:"kind"`
	At        time.Time  `json:"at"`
	Key       KeyID      `json:"key,omitempty"`
	Owner     string     `json:"owner,omitempty"`
	Model     Model      `json:"model"`
	Offer     OfferID    `json:"offer,omitempty"`
	Provider  ProviderID `json:"provider,omitempty"`
	Node      NodeID     `json:"node,omitempty"`
	Operation Operation  `json:"operation,omitempty"`
	Format    Format     `json:"format,omitempty"`
	Streamed  bool       `json:"streamed,omitempty"`
	// The tokens that the call is expected to need, and their rates: what it is charged
	// where nothing more is known of it. Short, as every call writes them.
	Input      int64 `json:"in,omitempty"`
	Output     int64 `json:"out,omitempty"`
	InputRate  Rate  `json:"in_rate,omitempty"`
	OutputRate Rate  `json:"out_rate,omitempty"`
}

// Lost is the receipt of a call whose process died (SPEC §11), made at a time. It
// was dispatched and nobody heard its usage: it is charged what was expected. An
// intent of before they said so has no charge.
func (in *Intent) Lost(at time.Time) *Receipt {
	r := &Receipt{
		ID: in.ID, Job: in.Job, Step: in.Step, Kind: in.Kind, Outcome: Lost,
		At: in.At, SettledAt: at.UTC(), Key: in.Key, Owner: in.Owner,
		Model: in.Model, Offer: in.Offer, Provider: in.Provider, Node: in.Node,
		Annex: Annex{Operation: in.Operation, Format: in.Format, Streamed: in.Streamed},
	}
	if in.Input == 0 && in.Output == 0 || min(in.Input, in.Output) < 0 || min(in.InputRate, in.OutputRate) < 0 {
		return r
	}
	input, err1 := Money(in.InputRate).Times(in.Input)
	output, err2 := Money(in.OutputRate).Times(in.Output)
	charge, err3 := input.Plus(output)
	if err1 != nil || err2 != nil || err3 != nil {
		return r
	}
	if in.Input > 0 {
		r.Usage.UncachedInput = Some(in.Input)
	}
	if in.Output > 0 {
		r.Usage.Output = Some(in.Output)
	}
	r.UsageFrom, r.Charge, r.Prices = FromEstimate, Some(charge), &Rates{Input: in.InputRate, Output: in.OutputRate}
	return r
}

// KindLeaves is the kind of the records that hold the leaves of the receipt logs.
const KindLeaves = "seal-run"

// Vault keeps small named records that operators make (keys, providers, pauses),
// the audit log and the day sketches. Put, Delete and Write are durable when they
// return.
type Vault interface {
	Get(kind, name string) ([]byte, error) // nil, nil: there is none
	Put(kind, name string, value []byte) error
	Delete(kind, name string) error
	// Write puts and deletes records as one: where it fails nothing is changed,
	// also where the process dies meanwhile. At most 1,000 records and 512 KiB of
	// names and values, else TooLarge.
	Write(puts []Record, deletes []Record) error // the values of deletes do not count
	All(kind string, yield func(name string, value []byte) bool) error
	// Scan reads the records of a kind in the order of their names, from from
	// (included) to to (excluded), either "" for no bound, until yield returns
	// false. newest begins with the last name. The value is the caller's.
	Scan(kind, from, to string, newest bool, yield func(name string, value []byte) bool) error
}

// Recorder is told of each receipt by the one goroutine that makes receipts
// durable, in order and once, so that what it derives from them is stored in
// the same transaction.
type Recorder interface {
	// Record takes one receipt, and keeps nothing of it. It may set CountedOn, which is
	// then stored with the rest.
	Record(r *Receipt)
	// Changed gives the values that changed since it was last asked.
	Changed() []Record
}

// Signer is a Recorder that signs what the writer of receipts has made durable.
// Both methods are the writer's, as those of Recorder are.
type Signer interface {
	// Durable is told that all that Changed has given is durable now. An error says
	// that it could not be signed; the next call tries that too.
	Durable() error
	// Due tells that Changed has something although no receipt was recorded.
	Due() bool
}

// Record is one named value for the Vault.
type Record struct {
	Kind, Name string
	Value      []byte
}

// Scripts are the operator's own strategies.
type Scripts interface {
	// Find gives the script of a name. The error, a *ScriptError, says why there is
	// none to be asked: no such file, refused when it was loaded, or set aside.
	Find(name string) (Script, error)
}

// ScriptList tells how each script stands, sorted by name.
type ScriptList interface{ List() []ScriptState }

// Dialer makes the round trip of an attempt: a provider's transport, or a node's.
type Dialer interface {
	RoundTripper(*Provider) (http.RoundTripper, error)
}

// Line is the line of calls before a node's model server. It is asked in every
// decision and must answer at once.
type Line interface{ Stand() Stand }

// Bus carries messages between the edge and its nodes. The messages of one
// publisher arrive in their order; one may be lost without a word, so that what
// must not be is numbered or asked for again by whoever sends it.
type Bus interface {
	// Publish sends one message of at most MaxPayload bytes. It keeps nothing of
	// data, and waits only where the connection takes no more.
	Publish(subject string, data []byte) error
	// Subscribe calls handle for each message of a subject (the last part may be
	// ">", any part "*"), one after the other; data is the handler's to keep. A
	// handler that answers a Request does so by the reply subject.
	Subscribe(subject string, handle func(subject, reply string, data []byte)) (Subscription, error)
	// Request sends one message and waits for its answer or the end of ctx.
	Request(ctx context.Context, subject string, data []byte) ([]byte, error)
	MaxPayload() int
}

// Link is a node's connection to its edge: one session. It is not made again by
// itself once it has ended.
type Link interface {
	Bus
	Done() <-chan struct{} // closed when the connection has ended
	Close()
}

// Subscription is ended by Stop; no message is handled after it.
type Subscription interface{ Stop() }

// Closer is what main closes on the way out.
type Closer = io.Closer

// Recorders are several Recorders that are told together.
type Recorders []Recorder

// Record tells each.
func (rs Recorders) Record(r *Receipt) {
	for _, x := range rs {
		x.Record(r)
	}
}

// Changed joins what each has.
func (rs Recorders) Changed() (out []Record) {
	for _, x := range rs {
		out = append(out, x.Changed()...)
	}
	return out
}

// Durable tells each that is a Signer.
func (rs Recorders) Durable() error {
	var failed []error
	for _, x := range rs {
		if s, ok := x.(Signer); ok {
			failed = append(failed, s.Durable())
		}
	}
	return errors.Join(failed...)
}

// Due asks each that is a Signer.
func (rs Recorders) Due() bool {
	for _, x := range rs {
		if s, ok := x.(Signer); ok && s.Due() {
			return true
		}
	}
	return false
}
