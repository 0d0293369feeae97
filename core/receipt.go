package core

import "time"

// Outcome is how a call or an attempt ended (SPEC §11).
type Outcome string

const (
	Settled       Outcome = "settled"   // a complete answer, length cuts and refusals among them
	Failed        Outcome = "failed"    //
	Truncated     Outcome = "truncated" // ended after output without its finish
	TimedOut      Outcome = "timeout"
	ClientGone    Outcome = "client_gone"
	ClientStalled Outcome = "client_stalled"
	Lost          Outcome = "lost" // the process died in between
)

// CallKind tells real work from Headway's own.
type CallKind string

const (
	KindJob   CallKind = "job"
	KindProbe CallKind = "probe"
	KindBench CallKind = "bench"
	KindTest  CallKind = "test"
)

// UsageFrom says where a receipt's token counts are from.
type UsageFrom string

const (
	FromProvider UsageFrom = "provider"
	FromEstimate UsageFrom = "estimate"
	FromMixed    UsageFrom = "mixed"
)

// Receipt is what is kept of a call that was dispatched. Its JSON is that of
// GET /admin/v1/calls/ID. It never holds text of a request or an answer.
type Receipt struct {
	// What was charged.
	ID        CallID     `json:"id"`
	Job       JobID      `json:"job"`
	Step      string     `json:"step,omitempty"`
	Kind      CallKind   `json:"kind"`
	Outcome   Outcome    `json:"outcome"`
	At        time.Time  `json:"at"`         // received, UTC
	SettledAt time.Time  `json:"settled_at"` // UTC
	Key       KeyID      `json:"key,omitempty"`
	Owner     string     `json:"owner,omitempty"` // the key's
	Model     Model      `json:"model"`
	Offer     OfferID    `json:"offer,omitempty"` // the last that was tried
	Provider  ProviderID `json:"provider,omitempty"`
	Node      NodeID     `json:"node,omitempty"`
	Usage     Usage      `json:"usage"`
	UsageFrom UsageFrom  `json:"usage_from,omitempty"`
	Prices    *Rates     `json:"prices,omitempty"` // the rates that were applied
	Charge    Opt[Money] `json:"charge_usd,omitzero"`

	Annex
}

// Annex is the unsigned part of a receipt: measurements, and why.
type Annex struct {
	Status         int          `json:"status,omitempty"` // what the client got
	Operation      Operation    `json:"operation,omitempty"`
	Format         Format       `json:"format,omitempty"`
	UpstreamFormat Format       `json:"upstream_format,omitempty"`
	Streamed       bool         `json:"streamed"`
	FinishReason   string       `json:"finish_reason,omitempty"`
	Timing         Timing       `json:"timing"`
	NodeTiming     *NodeTiming  `json:"node_timing,omitempty"` // the node's own, of the attempt that answered
	Slow           string       `json:"slow,omitempty"`
	Attempts       []Attempt    `json:"attempts,omitempty"`
	Decision       *Decision    `json:"decision,omitempty"`
	PredictedWait  Opt[float64] `json:"predicted_wait_ms,omitzero"`
	ActualWait     Opt[float64] `json:"actual_wait_ms,omitzero"` // what the prediction is held against: t1 → last output
	StreamEvents   Opt[int64]   `json:"stream_events,omitzero"`
	TextDeltas     Opt[int64]   `json:"text_deltas,omitzero"`
	InFlight       Opt[int64]   `json:"in_flight,omitzero"` // calls at that offer at dispatch, this one not counted
	Region         string       `json:"region,omitempty"`
	TraceID        string       `json:"trace_id,omitempty"`
	Group          string       `json:"group,omitempty"`
	PromptBytes    int          `json:"prompt_bytes,omitempty"`
	// What the prompt was made of, in numbers that estimates are learnt from: what
	// most of it was, and how many there were of each unit (core/measure/MEASURES.md §8).
	PromptClass string  `json:"prompt_class,omitempty"`
	PromptUnits []int64 `json:"prompt_units,omitempty"`
	// CountedOn is the day, YYYY-MM-DD in UTC, whose measures a receipt is in that was
	// recorded too late for the day on which it settled.
	CountedOn string `json:"counted_on,omitempty"`
	// Expected is what the decision expected of the offer, where the decision itself is
	// left out.
	Expected *Expected `json:"expected,omitempty"`
}

// Expected are the tokens that a call was decided on.
type Expected struct {
	Fresh  Opt[int64] `json:"fresh_input_tokens,omitzero"`
	Cached Opt[int64] `json:"cached_input_tokens,omitzero"`
	Output Opt[int64] `json:"expected_output_tokens,omitzero"`
}

// ExpectedThere is what was expected of the offer that answered, or was tried last;
// nil: nothing is known.
func (r *Receipt) ExpectedThere() *Expected {
	if r.Decision == nil {
		return r.Expected
	}
	for i := range r.Decision.Offers {
		if d := &r.Decision.Offers[i]; d.Offer == r.Offer && d.Refused == "" {
			return &Expected{d.Fresh, d.Cached, d.Output}
		}
	}
	return nil
}

// Measured is what of the unsigned part measures are recomputed from, which is small
// whatever the call was like.
func (r *Receipt) Measured() Annex {
	return Annex{Operation: r.Operation, Streamed: r.Streamed, Timing: r.Timing, NodeTiming: r.NodeTiming,
		PredictedWait: r.PredictedWait, ActualWait: r.ActualWait, CountedOn: r.CountedOn, Expected: r.ExpectedThere()}
}

// Timing are the figures of SPEC §2 and §4, in ms unless they say otherwise.
// Those of t1 to t6 are of the attempt that answered.
type Timing struct {
	Auth            Opt[float64] `json:"auth_ms,omitzero"`
	Distribution    Opt[float64] `json:"distribution_ms,omitzero"`
	BodyRead        Opt[float64] `json:"body_read_ms,omitzero"`
	UpstreamHeaders Opt[float64] `json:"upstream_headers_ms,omitzero"`
	FirstEvent      Opt[float64] `json:"first_sse_event_ms,omitzero"`
	FirstResponse   Opt[float64] `json:"first_response_ms,omitzero"`
	FirstText       Opt[float64] `json:"first_text_delta_ms,omitzero"`
	UpstreamDone    Opt[float64] `json:"upstream_done_ms,omitzero"`
	TotalHandler    Opt[float64] `json:"total_handler_ms,omitzero"`
	VisibleTPS      Opt[float64] `json:"visible_output_tps,omitzero"`

	Queued      Opt[float64] `json:"queued_ms,omitzero"`
	FirstToken  Opt[float64] `json:"first_token_ms,omitzero"`
	Prompt      Opt[float64] `json:"prompt_ms,omitzero"`
	PromptTPS   Opt[float64] `json:"prompt_tps,omitzero"`
	Decode      Opt[float64] `json:"decode_ms,omitzero"`
	DecodeTPS   Opt[float64] `json:"decode_tps,omitzero"`
	FiguresFrom string       `json:"figures_from,omitempty"` // "server" or "stream"

	DispatchToFirstToken Opt[float64] `json:"dispatch_to_first_token_ms,omitzero"`
	FirstTokenToEnd      Opt[float64] `json:"first_token_to_end_ms,omitzero"`
	Arrivals             Opt[int64]   `json:"arrivals,omitzero"`
	StreamedOutputTokens Opt[int64]   `json:"streamed_output_tokens,omitzero"`
	FreshInputTokens     Opt[int64]   `json:"fresh_input_tokens,omitzero"`

	Connection
}

// Connection are the facts of an attempt's connection, so that network time and
// provider time can be told apart.
type Connection struct {
	Reused  Opt[bool]    `json:"connection_reused,omitzero"`
	DNS     Opt[float64] `json:"dns_ms,omitzero"`
	Connect Opt[float64] `json:"connect_ms,omitzero"`
	TLS     Opt[float64] `json:"tls_ms,omitzero"`
}

// Attempt is one try of a call at one offer.
type Attempt struct {
	Offer   OfferID `json:"offer"`
	Node    NodeID  `json:"node,omitempty"`   // whose offer it is
	Status  int     `json:"status,omitempty"` // the upstream's; 0: none came
	Error   string  `json:"error,omitempty"`  // a word of ours, never the upstream's text
	Outcome Outcome `json:"outcome"`
	Timing  Timing  `json:"timing"`
}

// Decision is the ranked offers of a call, with the figures that ranked them.
type Decision struct {
	Strategy string     `json:"strategy"`
	RankedOn string     `json:"ranked_on,omitempty"`
	Offers   []Ranked   `json:"offers"`
	TimeUSD  Opt[Money] `json:"time_value_usd_per_hour,omitzero"`
	// MaxOutput is the output maximum that the request asked for.
	MaxOutput Opt[int64] `json:"max_output_tokens,omitzero"`
	// ScriptError holds a script's message and line when the default ranked.
	ScriptError string `json:"script_error,omitempty"`
}

// Ranked is one offer of a decision: in the running, in order, or refused.
type Ranked struct {
	Offer         OfferID      `json:"offer"`
	Charge        Opt[Money]   `json:"charge_usd,omitzero"`
	PredictedWait Opt[float64] `json:"predicted_wait_ms,omitzero"`
	Score         Opt[float64] `json:"score_usd,omitzero"`
	// Tier and ScriptScore are the place that a script gave it, where one ranked: lower
	// tiers first, then lower scores.
	Tier        Opt[int64]   `json:"tier,omitzero"`
	ScriptScore Opt[float64] `json:"script_score,omitzero"`
	TTFT        Opt[float64] `json:"ttft_ms,omitzero"`
	Terms       Terms        `json:"terms,omitzero"`
	Fresh       Opt[int64]   `json:"fresh_input_tokens,omitzero"`
	Cached      Opt[int64]   `json:"cached_input_tokens,omitzero"`
	Output      Opt[int64]   `json:"expected_output_tokens,omitzero"`
	Refused     Refusal      `json:"refused,omitempty"`
	// Basis are the figures that a strategy saw beside those above, kept so that
	// another one can be tried on the decision later; also where the strategy itself
	// left the offer out.
	Basis *RankedBasis `json:"basis,omitempty"`
}

// RankedBasis is what an offer of a decision cost and how fast it was known to be,
// as far as Ranked does not say it: the base latency is a term, as it was used.
type RankedBasis struct {
	Input     Rate      `json:"input_usd_per_mtok"` // the rates that held for that much input
	Output    Rate      `json:"output_usd_per_mtok"`
	CacheRead Opt[Rate] `json:"cache_read_usd_per_mtok,omitzero"`
	// MaxOutput is the output that prices were compared by. Absent: the requested
	// maximum, or the expected output where that is more.
	MaxOutput Opt[int64]   `json:"max_output_tokens,omitzero"`
	Prefill   Opt[float64] `json:"prefill_tps,omitzero"`
	OutputTPS Opt[float64] `json:"output_tps,omitzero"`
	OwnJobs   int64        `json:"own_output_jobs,omitempty"`
	OwnTPS    Opt[float64] `json:"own_output_tps,omitzero"`
	Full      bool         `json:"full,omitempty"`
}

// Terms are a prediction's parts in ms.
type Terms struct {
	Base    Opt[float64] `json:"base_ms,omitzero"`
	Prefill Opt[float64] `json:"prefill_ms,omitzero"`
	Output  Opt[float64] `json:"output_ms,omitzero"`
	Queue   Opt[float64] `json:"queue_ms,omitzero"`
}
