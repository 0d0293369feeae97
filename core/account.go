package core

import "time"

// Key is a caller's credential with its restrictions. The secret itself is kept
// only as a keyed hash, which is Hash.
type Key struct {
	ID          KeyID          `json:"id"`
	Name        string         `json:"name"`
	Hash        [32]byte       `json:"-"`
	Models      []Model        `json:"models,omitempty"`       // the only ones it may use; empty: all
	AllowModels []Model        `json:"allow_models,omitempty"` // as Models; a model must pass both
	BlockModels []Model        `json:"block_models,omitempty"`
	PriceCap    PriceCap       `json:"price_cap_usd_per_mtok,omitzero"`
	Strategy    string         `json:"strategy,omitempty"`
	TimeValue   Opt[Money]     `json:"time_value_usd_per_hour,omitzero"`
	Owner       string         `json:"owner,omitempty"`
	ServeOwn    bool           `json:"serve_own,omitempty"` // lets the owner's own offers serve it
	ExpiresAt   Opt[time.Time] `json:"expires_at,omitzero"`
	KeyLimits
	Labels    map[string]string `json:"labels,omitempty"`
	FromFile  bool              `json:"from_file,omitempty"`
	Revoked   bool              `json:"revoked,omitempty"`
	CreatedAt Opt[time.Time]    `json:"created_at,omitzero"`
}

// KeyLimits are how much a key may do (SPEC §10). What is absent has no limit.
type KeyLimits struct {
	RequestsPerMinute Opt[int64] `json:"requests_per_minute,omitzero"`
	TokensPerMinute   Opt[int64] `json:"tokens_per_minute,omitzero"` // input and output
	MaxParallel       Opt[int64] `json:"max_parallel,omitzero"`      // calls at once
	BudgetDay         Opt[Money] `json:"budget_usd_per_day,omitzero"`
	BudgetWeek        Opt[Money] `json:"budget_usd_per_week,omitzero"`  // from Monday
	BudgetMonth       Opt[Money] `json:"budget_usd_per_month,omitzero"` // all of them in UTC
}

// PriceCap refuses offers whose input or output rate is above it; at the cap
// passes.
type PriceCap struct {
	Input  Opt[Rate] `json:"input,omitzero"`
	Output Opt[Rate] `json:"output,omitzero"`
}

// IsZero: no cap at all.
func (c PriceCap) IsZero() bool { return !c.Input.OK && !c.Output.OK }

// Allows tells whether rates pass the cap.
func (c *PriceCap) Allows(r *Rates) bool {
	return (!c.Input.OK || r.Input <= c.Input.V) && (!c.Output.OK || r.Output <= c.Output.V)
}
