package gateway_test

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"headway/adapters"
	"headway/core"
	"headway/core/gateway"
	"headway/core/ledger"
	"headway/core/market"
	"headway/core/measure"
)

// canned answers every request at once with the same bytes.
type canned struct {
	header http.Header
	body   string
}

func (c canned) RoundTripper(*core.Provider) (http.RoundTripper, error) { return c, nil }

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: c.header, ContentLength: int64(len(c.body)), Body: io.NopCloser(strings.NewReader(c.body)), Request: r}, nil
}

// forgetful is a Book that keeps nothing: it tells of receipts alone.
type forgetful struct {
	core.Book
	core.Recorder
}

func (forgetful) Open(core.Intent) error                { return nil }
func (f forgetful) Append(r *core.Receipt, done func()) { f.Record(r) }
func (forgetful) Healthy() error                        { return nil }

// sinkhole is a client that reads at once.
type sinkhole struct{ header http.Header }

func (s *sinkhole) Header() http.Header         { return s.header }
func (s *sinkhole) Write(p []byte) (int, error) { return len(p), nil }
func (s *sinkhole) WriteHeader(int)             {}
func (s *sinkhole) Flush()                      {}

const chatPath = "/v1/chat/completions"

// benchCall measures the gateway's own share of a call: no sockets, no store.
func benchCall(b *testing.B, d canned, path, body string) {
	benchLimited(b, core.KeyLimits{}, d, path, body)
}

// benchLimited is the same with a key that has limits.
func benchLimited(b *testing.B, limits core.KeyLimits, d canned, path, body string) {
	var providers []*core.Provider
	var offers []*core.Offer
	for _, name := range []string{"a", "b", "c"} {
		p := &core.Provider{ID: core.ProviderID(name), Format: core.FormatOpenAI, BaseURL: "http://" + name + "/v1", APIKey: core.NewSecret("sk")}
		providers = append(providers, p)
		offers = append(offers, &core.Offer{ID: core.OfferID(name + "/mini"), Provider: p, Model: "mini", UpstreamModel: "mini",
			Price: core.Price{Rates: core.Rates{Input: 1e6, Output: 2e6}}, Capacity: core.Some[int64](100)})
	}
	catalogue, err := market.NewCatalogue(providers, offers, nil)
	if err != nil {
		b.Fatal(err)
	}
	board, err := measure.NewBoard(time.Now, core.NewMemory())
	if err != nil {
		b.Fatal(err)
	}
	pepper := &ledger.Pepper{}
	keys := ledger.NewKeys(pepper)
	keys.Set([]*core.Key{{ID: "test", Hash: pepper.Hash(clientKey), KeyLimits: limits}})
	accounts := newAccounts(b, core.NewMemory())
	gw := gateway.New(gateway.Parts{Clock: time.Now, Log: slog.New(slog.DiscardHandler), Adapters: adapters.All(), Keys: keys, Book: forgetful{Recorder: accounts},
		Board: board, Estimator: newEstimator(b, core.NewMemory()), Accounts: accounts, Dialer: d, Metrics: gateway.NewMetrics()})
	gw.Swap(&gateway.Setup{Settings: core.DefaultSettings(), Catalogue: catalogue})
	b.ReportAllocs()
	for b.Loop() {
		r, err := http.NewRequest("POST", path, strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		r.Header = http.Header{"Authorization": {"Bearer " + clientKey}}
		gw.ServeHTTP(&sinkhole{http.Header{}}, r)
	}
}

func BenchmarkCall(b *testing.B) {
	benchCall(b, canned{http.Header{"Content-Type": {"application/json"}}, whole("fine", 200, 20)}, chatPath, strings.Replace(ask, "hi", strings.Repeat("word ", 200), 1))
}

// BenchmarkCallWithLimits is BenchmarkCall with a key that has every limit.
func BenchmarkCallWithLimits(b *testing.B) {
	most, many := core.Some[core.Money](1<<62), core.Some[int64](1<<60)
	benchLimited(b, core.KeyLimits{BudgetDay: most, BudgetWeek: most, BudgetMonth: most, RequestsPerMinute: many, TokensPerMinute: many, MaxParallel: many},
		canned{http.Header{"Content-Type": {"application/json"}}, whole("fine", 200, 20)}, chatPath, strings.Replace(ask, "hi", strings.Repeat("word ", 200), 1))
}

// BenchmarkStream is a stream of 200 events that come at once.
func BenchmarkStream(b *testing.B) {
	benchCall(b, canned{http.Header{"Content-Type": {"text/event-stream"}}, role + strings.Repeat(text("word "), 198) + finish + usage(200, 200) + done}, chatPath, strings.Replace(askStream, "hi", strings.Repeat("word ", 200), 1))
}

func BenchmarkCall400KB(b *testing.B) {
	benchCall(b, canned{http.Header{"Content-Type": {"application/json"}}, whole("fine", 200, 20)}, chatPath, strings.Replace(ask, "hi", strings.Repeat("word ", 80000), 1))
}

// messagesAsk is a call of Anthropic's format, which all providers here do not
// speak.
func messagesAsk(words int, streamed string) string {
	return `{"model":"mini","max_tokens":300,"messages":[{"role":"user","content":"` + strings.Repeat("word ", words) + `"}],"stream":` + streamed + `}`
}

func BenchmarkTranslatedCall(b *testing.B) {
	benchCall(b, canned{http.Header{"Content-Type": {"application/json"}}, whole("fine", 200, 20)}, "/v1/messages", messagesAsk(200, "false"))
}

func BenchmarkTranslatedStream(b *testing.B) {
	benchCall(b, canned{http.Header{"Content-Type": {"text/event-stream"}}, role + strings.Repeat(text("word "), 198) + finish + usage(200, 200) + done}, "/v1/messages", messagesAsk(200, "true"))
}

func BenchmarkTranslatedCall400KB(b *testing.B) {
	benchCall(b, canned{http.Header{"Content-Type": {"application/json"}}, whole("fine", 200, 20)}, "/v1/messages", messagesAsk(80000, "false"))
}
