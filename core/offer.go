package core

import "time"

// Format is a wire format, of a client's call or of a provider.
type Format string

const (
	FormatOpenAI    Format = "openai"           // chat completions, completions, embeddings
	FormatResponses Format = "openai-responses" //
	FormatAnthropic Format = "anthropic"        // Messages
	FormatGoogle    Format = "google"           // generateContent
	FormatLlamaCpp  Format = "llamacpp"         // llama-server: chat completions at its root

	// Spoken towards providers alone.
	FormatBedrock         Format = "bedrock"          // InvokeModel with Anthropic's bodies
	FormatConverse        Format = "bedrock-converse" //
	FormatVertexAnthropic Format = "vertex-anthropic" //
	FormatVertexGoogle    Format = "vertex-google"    //
	FormatOllama          Format = "ollama"           // its own API
)

// Wire is the adapter that speaks the format: llama-server speaks OpenAI's.
func (f Format) Wire() Format {
	if f == FormatLlamaCpp {
		return FormatOpenAI
	}
	return f
}

// Native tells whether a provider of this format takes the body of a client of
// that format, with no more changed than an adapter's edits.
func (f Format) Native(client Format) bool {
	switch f {
	case FormatBedrock, FormatVertexAnthropic:
		return client == FormatAnthropic
	case FormatVertexGoogle:
		return client == FormatGoogle
	}
	return f.Wire() == client
}

// Provider is an upstream account or server. It is data, not code.
type Provider struct {
	ID      ProviderID
	Format  Format
	Dialect string // names what differs between servers of one format; "" is the format's own
	BaseURL string // without a slash at the end
	APIKey  Secret
	Headers map[string]Secret // set on every request, over Headway's own
	Owner   string
	Region  string
	// Node is the machine whose model server this is; "" for one that is called over
	// HTTP. Its BaseURL is then a path of the node's own.
	Node NodeID
	// Project and Location are Google Cloud's (vertex-*): "europe-west1", "global".
	Project, Location string
	// AccessKeyID, SecretKey and SessionToken are Amazon's (bedrock*); without them
	// and APIKey credentials are looked for in the usual places.
	AccessKeyID             string
	SecretKey, SessionToken Secret
	// NodeCredential changes with the credential that the node has for the server.
	NodeCredential string
	// AllowPrivate lets the address be private or loopback. The configuration
	// file implies it; link-local and metadata addresses are never dialled.
	AllowPrivate bool
	FromFile     bool // from the file: shown as such, not editable elsewhere
}

// Offer is one provider serving one model at a price.
type Offer struct {
	ID            OfferID
	Provider      *Provider
	Model         Model
	Aliases       []Model
	UpstreamModel string
	Price         Price
	Limits        OfferLimits
	Cache         OfferCache
	Capacity      Opt[int64] // calls at once; absent: no limit
	Features      Opt[Feature]
	IncludeUsage  IncludeUsage
	Labels        map[string]string
}

// OfferLimits are what one call may hold there.
type OfferLimits struct {
	Context   Opt[int64] `json:"context_tokens,omitzero"` // input and output tokens together
	MaxOutput Opt[int64] `json:"max_output_tokens,omitzero"`
}

// unknownOutput is how long an answer is taken to be at most where nobody says it.
const unknownOutput = 16_384

// MostOutput is how many tokens an answer has at most, where none were asked for.
func (l *OfferLimits) MostOutput() int64 { return l.MaxOutput.Or(l.Context.Or(unknownOutput)) }

// OfferCache is what the operator knows of the provider's prompt cache; absent: what
// its kind is known for, and what is learnt (core/estimate).
type OfferCache struct {
	MinTokens Opt[int64]         // of the shortest prefix that is cached
	Lifetime  Opt[time.Duration] // how long it stays after it was last read or written
}

// IncludeUsage says whether streams ask the upstream for their usage.
type IncludeUsage string

const (
	UsageAuto  IncludeUsage = "auto"  // where the dialect needs to be asked
	UsageNever IncludeUsage = "never" // for servers that reject the field
)

// Price is what tokens cost at an offer.
type Price struct {
	Rates
	// Above replaces the rates for the whole call where all its input is more
	// than Above.Input tokens.
	Above Opt[PriceAbove] `json:"above,omitzero"`
}

// PriceAbove is the second tier of a price.
type PriceAbove struct {
	InputTokens int64 `json:"input_tokens"`
	Rates
}

// Rates are prices in USD per million tokens. A cache rate that is absent is
// the input rate; an absent 1 h write rate is the write rate.
type Rates struct {
	Input        Rate      `json:"input_usd_per_mtok"`
	Output       Rate      `json:"output_usd_per_mtok"`
	CacheRead    Opt[Rate] `json:"cache_read_usd_per_mtok,omitzero"`
	CacheWrite   Opt[Rate] `json:"cache_write_usd_per_mtok,omitzero"`
	CacheWrite1h Opt[Rate] `json:"cache_write_1h_usd_per_mtok,omitzero"`
}

// For gives the rates that hold for a call with that much input in all.
func (p *Price) For(input int64) *Rates {
	if p.Above.OK && input > p.Above.V.InputTokens {
		return &p.Above.V.Rates
	}
	return &p.Rates
}

// Secret is text that must never be shown: it prints as "***" everywhere.
type Secret struct{ text string }

// NewSecret wraps a secret text.
func NewSecret(text string) Secret { return Secret{text} }

// Reveal returns the text, for the one place that sends it.
func (s Secret) Reveal() string { return s.text }

// Empty tells whether there is no secret.
func (s Secret) Empty() bool { return s.text == "" }

// String hides the text.
func (s Secret) String() string {
	if s.text == "" {
		return ""
	}
	return "***"
}

// GoString hides the text.
func (s Secret) GoString() string { return s.String() }

// MarshalText hides the text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
