package sim

import (
	"net/http"
	"strings"
	"time"

	"headway/core"
)

// Demo is the world of `headway serve --demo`: four servers, and what a gateway
// knows of them. All four speak chat completions; hare speaks every format, for
// both models, and turtle every format for demo-small, so that no client finds
// itself without an offer. Own is a fifth, which is no provider: a node serves it.
type Demo struct {
	Servers   []Server
	Own       Server
	Providers []*core.Provider // several for one server: one a format
	Offers    []*core.Offer
}

// Server is one simulated server of the demo.
type Server struct {
	Name string // turtle, hare, owl, moth or beaver
	Sim  *Provider
}

// The models of the demo, as clients ask for them.
const (
	DemoSmall core.Model = "demo-small"
	DemoLarge core.Model = "demo-large"
)

// OwnModel is what the demo's own server calls DemoSmall, which is all that it has,
// and OwnSlots how many calls it works on at once.
const (
	OwnModel = "beaver-mini-1"
	OwnSlots = 2
)

// demoServer is a server's behaviour and its prices: input and output of
// demo-small, then of demo-large.
type demoServer struct {
	name, region string
	prices       [4]core.Rate
	config       Config
	formats      []core.Format
}

const cent core.Rate = 10_000 // USD 0.01 per million tokens

func demoServers() []demoServer {
	all := []core.Format{core.FormatOpenAI, core.FormatResponses, core.FormatAnthropic, core.FormatGoogle}
	exact := Config{Jitter: 0.15, OutputTokens: 260, TokensPerEvent: 4}
	turtle, hare, owl, moth := exact, exact, exact, exact

	turtle.Base, turtle.PrefillTPS, turtle.OutputTPS = 900*time.Millisecond, 1500, 22
	hare.Base, hare.PrefillTPS, hare.OutputTPS = 180*time.Millisecond, 6000, 170
	owl.Base, owl.PrefillTPS, owl.OutputTPS = 450*time.Millisecond, 24_000, 60
	moth.Base, moth.PrefillTPS, moth.OutputTPS = 320*time.Millisecond, 4000, 95
	moth.ErrorRate, moth.ErrorStatus = 0.10, http.StatusServiceUnavailable
	moth.CutRate, moth.StallRate, moth.StallFor = 0.04, 0.005, 75*time.Second

	return []demoServer{
		{"turtle", "eu", [4]core.Rate{5 * cent, 20 * cent, 20 * cent, 80 * cent}, turtle, all},     // cheap and slow
		{"hare", "us", [4]core.Rate{60 * cent, 240 * cent, 250 * cent, 1000 * cent}, hare, all},    // dear and fast
		{"owl", "eu", [4]core.Rate{10 * cent, 90 * cent, 60 * cent, 400 * cent}, owl, all[:1]},     // reads long prompts fast
		{"moth", "asia", [4]core.Rate{10 * cent, 40 * cent, 40 * cent, 160 * cent}, moth, all[:1]}, // flaky
	}
}

// NewDemo makes the demo. address gives the base of a server's URL, such as
// http://127.0.0.1:9001, by its name.
func NewDemo(address func(server string) string) (*Demo, error) {
	d := &Demo{}
	own, err := New(Config{Base: 90 * time.Millisecond, PrefillTPS: 1200, OutputTPS: 42, Jitter: 0.1, OutputTokens: 260, TokensPerEvent: 4,
		Models: []string{OwnModel}, Seed: 5})
	if err != nil {
		return nil, err
	}
	d.Own = Server{"beaver", own}
	for i, s := range demoServers() {
		upstream := map[core.Model]string{DemoSmall: s.name + "-mini-1", DemoLarge: s.name + "-grand-1"}
		s.config.Models = []string{upstream[DemoSmall], upstream[DemoLarge]}
		s.config.Speed = map[string]float64{upstream[DemoLarge]: 0.5}
		s.config.Seed = uint64(i + 1)
		sim, err := New(s.config)
		if err != nil {
			return nil, err
		}
		d.Servers = append(d.Servers, Server{s.name, sim})
		for _, format := range s.formats {
			p := provider(s, format, address(s.name))
			d.Providers = append(d.Providers, p)
			for j, model := range []core.Model{DemoSmall, DemoLarge} {
				if model == DemoLarge && s.name == "turtle" && format != core.FormatOpenAI {
					continue // the list is long enough: hare takes these
				}
				d.Offers = append(d.Offers, &core.Offer{
					ID: core.OfferID(p.ID) + "/" + core.OfferID(model), Provider: p, Model: model,
					UpstreamModel: upstream[model],
					Price:         core.Price{Rates: core.Rates{Input: s.prices[2*j], Output: s.prices[2*j+1]}},
					Limits:        core.OfferLimits{Context: core.Some[int64](128_000), MaxOutput: core.Some[int64](4096)},
					Capacity:      core.Some[int64](64),
					IncludeUsage:  core.UsageAuto,
				})
			}
		}
	}
	return d, nil
}

func provider(s demoServer, format core.Format, address string) *core.Provider {
	p := &core.Provider{ID: core.ProviderID(s.name), Format: format, BaseURL: address, Region: s.region,
		APIKey: core.NewSecret("demo"), AllowPrivate: true, FromFile: true}
	switch format {
	case core.FormatOpenAI:
		p.BaseURL += "/v1"
	case core.FormatResponses:
		p.BaseURL += "/v1"
		p.ID += "-responses"
	default:
		p.ID += core.ProviderID("-" + string(format))
	}
	return p
}

// Behind is the simulated server that a provider of the demo is an account of,
// or nil.
func (d *Demo) Behind(id core.ProviderID) *Provider {
	name, _, _ := strings.Cut(string(id), "-")
	for _, s := range d.Servers {
		if s.Name == name {
			return s.Sim
		}
	}
	return nil
}
