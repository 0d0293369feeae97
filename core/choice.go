package core

import (
	"fmt"
	"time"
)

// Basis says where a measure's value is from (SPEC §5).
type Basis string

const (
	BasisOwn   Basis = "own"
	BasisModel Basis = "model"
	BasisAll   Basis = "all"
	BasisToday Basis = "today"
	BasisNone  Basis = "none"
)

// Measure is one figure of one provider and model. Value is absent where Basis
// is none.
type Measure struct {
	Value       Opt[float64]
	Jobs        int64        // of this provider and model, in this measure
	Own         Opt[float64] // the median of those
	ModelMedian Opt[float64] // the median of all jobs of the model
	Basis       Basis
}

// Measures are the three figures of SPEC §5 for one provider and model.
type Measures struct {
	BaseLatency Measure // ms
	Prefill     Measure // fresh input tokens per second
	Output      Measure // output tokens per second
}

// Prediction is the wait of SPEC §6 in its terms, in ms. A term that needs a
// measure which is absent makes it incomplete.
type Prediction struct {
	Base, Prefill, Output, Queue Opt[float64]
	// Complete: every measure that the job needs is there.
	Complete bool
}

// Wait is the sum of the terms; absent where the prediction is incomplete.
func (p Prediction) Wait() Opt[float64] {
	if !p.Complete {
		return Opt[float64]{}
	}
	return Some(p.Queue.V + p.Base.V + p.Prefill.V + p.Output.V)
}

// FirstOutput is the predicted time to the first output.
func (p Prediction) FirstOutput() Opt[float64] {
	if !p.Complete {
		return Opt[float64]{}
	}
	return Some(p.Queue.V + p.Base.V + p.Prefill.V)
}

// Candidate is an offer in the running.
type Candidate struct {
	Offer      *Offer
	Estimate   Estimate
	Charge     Money // fresh input, cached reads and expected output
	Price      Money // uncached input and the requested output maximum: what prices are compared by
	Prediction Prediction
	TTFT       Opt[float64] // the live estimate, ms
	Measures   *Measures    // what the prediction is from; shared, never written
	Full       bool         // a node without a free slot
}

// Auction is what is known of all candidates together.
type Auction struct {
	TimeValue   Money // USD per hour
	Complete    bool  // every candidate has a complete prediction
	LowestTTFT  Opt[float64]
	MedianTTFT  Opt[float64]
	LowestPrice Money
	// LowestCharge is the least Charge of a candidate.
	LowestCharge Money
}

// Rank is a strategy's word on one candidate: every lower tier first, then the
// lower cost; ties by Price, then Tie, then the offer's id. Price is money
// because money is compared exactly: the charge where a strategy weighs charges,
// the candidate's Price where it compares prices.
type Rank struct {
	Tier  int
	Cost  float64
	Price Money
	Tie   float64
}

// Strategy scores one candidate; false leaves it out. Ordering is not its
// business. Implementations are pure and may be called concurrently.
type Strategy interface {
	Name() string
	// RankedOn names what the order of this auction follows.
	RankedOn(*Auction) string
	// Score gives a candidate its place; false leaves it out. It writes nothing.
	Score(*Job, *Auction, *Candidate) (Rank, bool)
}

// Script is a strategy in a language that can fail. Implementations may be
// called concurrently; the same question has the same answer.
type Script interface {
	Name() string
	// Rank scores every candidate: ranks[i] is the place of candidate i, and in[i]
	// tells whether it is in the running. Both have the candidates' length. The
	// error is a *ScriptError; nothing of ranks counts then.
	Rank(q *Question, ranks []Rank, in []bool) error
}

// Question is one auction that a script is asked to rank.
type Question struct {
	Job        *Job
	Auction    *Auction
	Candidates []Candidate
	At         time.Time     // what the script's clock says
	Seed       uint64        // of its random numbers
	Limit      time.Duration // how long it may take
}

// ScriptError is what went wrong in a script. It is safe to show to operators.
type ScriptError struct {
	Script string
	Line   int // 0: not known
	Msg    string
}

// Error names the script, the line and the fault.
func (e *ScriptError) Error() string {
	if e.Line == 0 {
		return e.Script + ": " + e.Msg
	}
	return fmt.Sprintf("%s:%d: %s", e.Script, e.Line, e.Msg)
}

// How a script's file stands.
const (
	ScriptActive  = "active"
	ScriptRefused = "refused"   // the file as it is now; an earlier state of it may be in force
	ScriptAside   = "set_aside" // it failed too often: the default ranks until the file changes
)

// ScriptState is what operators see of a script.
type ScriptState struct {
	Name      string       `json:"name"`
	State     string       `json:"state"`
	InForce   bool         `json:"in_force"` // it is asked to rank
	Error     *ScriptFault `json:"error,omitempty"`
	Decisions int64        `json:"decisions"` // since the start
	Failures  int64        `json:"failures"`  // of these
	// Sum is the SHA-256 of the file as it was last read, in hex.
	Sum string `json:"sha256,omitempty"`
}

// ScriptFault is what was wrong last.
type ScriptFault struct {
	Message string `json:"message"`
	Line    int    `json:"line,omitempty"`
}

// Refusal is the code of why an offer is not in the running, in the order of
// SPEC §8.
type Refusal string

const (
	RefusedModel    Refusal = "model_not_allowed"
	RefusedPrice    Refusal = "over_price_cap"
	RefusedContext  Refusal = "context_too_small"
	RefusedOutput   Refusal = "output_too_small"
	RefusedFeature  Refusal = "feature_missing"
	RefusedFormat   Refusal = "format_not_spoken"
	RefusedPaused   Refusal = "paused"
	RefusedOut      Refusal = "breaker_open"
	RefusedNode     Refusal = "node_lost"
	RefusedCapacity Refusal = "no_capacity"
	RefusedOwn      Refusal = "own_offer"
	RefusedStrategy Refusal = "left_out" // the strategy's own word, after all of the above
)
