package core

import "time"

// Settings are what the configuration decides about calls, apart from
// providers, offers and keys. They are swapped as a whole on a reload.
type Settings struct {
	Routing Routing
	Limits  Limits
	Breaker Breaker
	Slow    SlowLimits
	Probes  Probes

	Receipts  ReceiptMode
	Retention Retention
}

// ReceiptMode is what becomes of calls while receipts cannot be kept, and how long an
// answer waits for its own (SPEC §11).
type ReceiptMode string

const (
	// ReceiptsStrict holds the end of an answer until its receipt is durable.
	ReceiptsStrict ReceiptMode = "strict"
	// ReceiptsRequired refuses new calls while receipts cannot be kept or signed; no
	// answer waits.
	ReceiptsRequired ReceiptMode = "required"
	// ReceiptsOptional serves calls all the same; what has no receipt is counted.
	ReceiptsOptional ReceiptMode = "optional"
)

// Retention is for how many whole months things are kept after the one that they are
// of, by UTC; absent: for good.
type Retention struct {
	Receipts     Opt[int]
	Measurements Opt[int] // times, attempts and decisions of calls
	Audit        Opt[int]
}

// Routing is how offers are chosen where a key does not say otherwise.
type Routing struct {
	Strategy    string
	TimeValue   Money // USD per hour of waiting
	PriceCap    PriceCap
	AllowModels []Model
	BlockModels []Model
	ServeOwn    bool
	// Auto are the models among which a call for the model AutoModel is routed.
	Auto []Model
	// ScriptHeaders are the request headers that scripts see, in lower case.
	ScriptHeaders []string
}

// AutoModel is the name that the Auto Router is asked for by (SPEC §7).
const AutoModel Model = "auto"

// IsAuto tells whether a name is the Auto Router's, which takes :latest as a model's
// does (SPEC §24): no model can have it.
func (m Model) IsAuto() bool { return m == AutoModel || m == AutoModel+":latest" }

// Probes are small calls of Headway's own that keep measures alive where real
// jobs are few (SPEC §5). Off unless there is a limit of what they may cost.
type Probes struct {
	PerDay Opt[Money]    // USD per UTC day, all of them together
	Every  time.Duration // the least time between two at one offer with a prompt of one length
}

// Limits bound one call.
type Limits struct {
	Body              int64         // bytes of a request
	Event             int64         // bytes of one event of a stream
	HeaderTimeout     time.Duration // dispatch to upstream headers
	FirstOutputMin    time.Duration // the least first-output limit of an attempt
	FirstOutputFactor float64       // times the predicted first output
	Hold              time.Duration // longest hold-back of frames before the first output
	StreamIdle        time.Duration // longest silence inside a stream
	ClientWrite       time.Duration // longest time a write to the client may block
	Drain             time.Duration // how long a stop waits for open calls
	Script            time.Duration // longest ranking by a script
}

// Breaker is when an offer is out (SPEC §9).
type Breaker struct {
	Within        time.Duration // two counted failures closer than this …
	Out           time.Duration // … remove the offer for this long
	MaxRetryAfter time.Duration // the longest pause an upstream may ask for
}

// SlowLimits are the limits of the slow classes (SPEC §21).
type SlowLimits struct {
	Headers, FirstEvent, FirstOutput, OutputAfterEvent, TextAfterOutput time.Duration
	VisibleTPS                                                          float64
	Auth, Routing, Upload                                               time.Duration
}

// DefaultSettings are the values of SPEC §9, §18, §21 and §24.
func DefaultSettings() Settings {
	return Settings{
		Routing: Routing{Strategy: "price-and-wait", TimeValue: USD},
		Limits: Limits{
			Body: 64 << 20, Event: 16 << 20,
			HeaderTimeout: 120 * time.Second, FirstOutputMin: 10 * time.Second, FirstOutputFactor: 4,
			Hold: 5 * time.Second, StreamIdle: 60 * time.Second, ClientWrite: 30 * time.Second, Drain: 60 * time.Second,
			Script: 10 * time.Millisecond,
		},
		Breaker: Breaker{Within: 60 * time.Second, Out: 60 * time.Second, MaxRetryAfter: 10 * time.Minute},
		Probes:  Probes{Every: time.Hour}, Receipts: ReceiptsRequired,
		Slow: SlowLimits{
			Headers: 3 * time.Second, FirstEvent: 3 * time.Second, FirstOutput: 3 * time.Second,
			OutputAfterEvent: 5 * time.Second, TextAfterOutput: 3 * time.Second, VisibleTPS: 15,
			Auth: 200 * time.Millisecond, Routing: 100 * time.Millisecond, Upload: 2 * time.Second,
		},
	}
}
