package ledger_test

import (
	"regexp"
	"testing"
	"time"

	"headway/core"
	"headway/core/ledger"
)

func rate(t *testing.T, s string) core.Rate {
	t.Helper()
	r, err := core.ParseRate(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestCharge(t *testing.T) {
	n := core.Some[int64]
	full := core.Price{Rates: core.Rates{
		Input: rate(t, "3"), Output: rate(t, "15"), CacheRead: core.Some(rate(t, "0.3")),
		CacheWrite: core.Some(rate(t, "3.75")), CacheWrite1h: core.Some(rate(t, "6")),
	}}
	plain := core.Price{Rates: core.Rates{Input: rate(t, "2"), Output: rate(t, "8")}}
	tiered := plain
	tiered.Above = core.Some(core.PriceAbove{InputTokens: 200000, Rates: core.Rates{Input: rate(t, "4"), Output: rate(t, "12")}})
	for _, c := range []struct {
		name  string
		usage core.Usage
		price core.Price
		want  string
	}{
		{"a write is charged once", core.Usage{UncachedInput: n(3), CacheWrite: n(12304), Output: n(550)}, full, "0.054399"},
		{"an hour's write apart", core.Usage{UncachedInput: n(0), CacheWrite: n(3000), CacheWrite1h: n(1000), Output: n(0)}, full, "0.0135"},
		{"reads at their rate", core.Usage{UncachedInput: n(1000), CacheRead: n(9000), Output: n(10)}, full, "0.00585"},
		{"reads without a rate", core.Usage{UncachedInput: n(1000), CacheRead: n(1000), Output: n(0)}, plain, "0.004"},
		{"at the tier's limit", core.Usage{UncachedInput: n(200000), Output: n(1000)}, tiered, "0.408"},
		{"above it, the whole call", core.Usage{UncachedInput: n(100001), CacheRead: n(100000), Output: n(1000)}, tiered, "0.812004"},
		{"reasoning is output", core.Usage{UncachedInput: n(0), Output: n(100), Reasoning: n(90)}, plain, "0.0008"},
		{"nothing known", core.Usage{}, plain, "0"},
	} {
		got, _, err := ledger.Charge(c.usage, c.price)
		if err != nil || got.String() != c.want {
			t.Errorf("%s: %s, want %s (%v)", c.name, got, c.want, err)
		}
	}
	if _, _, err := ledger.Charge(core.Usage{UncachedInput: n(1 << 60)}, plain); err == nil {
		t.Error("an amount out of range is no error")
	}
}

func TestAdmit(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	pepper := &ledger.Pepper{1, 2, 3}
	keys := ledger.NewKeys(pepper)
	id, secret := ledger.NewSecret()
	keys.Set([]*core.Key{
		{ID: core.KeyID(id), Hash: pepper.Hash(secret)},
		{ID: "old", Hash: pepper.Hash("expired-key-text"), ExpiresAt: core.Some(now)},
		{ID: "gone", Hash: pepper.Hash("revoked-key-text"), Revoked: true},
	})
	if k, err := keys.Admit(secret, now); err != nil || k.ID != core.KeyID(id) {
		t.Errorf("the key itself: %v %v", k, err)
	}
	words := map[string]bool{}
	for _, s := range []string{"", "x", secret + "x", secret[:len(secret)-1], "expired-key-text", "revoked-key-text", string(make([]byte, 9000))} {
		k, err := keys.Admit(s, now)
		if err == nil {
			t.Errorf("%.20q is let in as %v", s, k)
			continue
		}
		words[err.Error()] = true
	}
	if len(words) != 1 {
		t.Errorf("refusals differ: %v", words)
	}
	if other := (&ledger.Pepper{9}).Hash(secret); other == pepper.Hash(secret) {
		t.Error("the hash does not depend on the pepper")
	}
}

func TestNewSecret(t *testing.T) {
	form := regexp.MustCompile(`^hw_[0-9A-Za-z]{6,7}_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}$`)
	seen := map[string]bool{}
	for range 1000 {
		id, s := ledger.NewSecret()
		if !form.MatchString(s) || seen[s] || len(id) < 6 {
			t.Fatalf("secret %q, id %q", s, id)
		}
		seen[s] = true
	}
}

func BenchmarkAdmit(b *testing.B) {
	pepper := &ledger.Pepper{1}
	keys := ledger.NewKeys(pepper)
	_, secret := ledger.NewSecret()
	keys.Set([]*core.Key{{Hash: pepper.Hash(secret)}})
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := keys.Admit(secret, now); err != nil {
			b.Fatal(err)
		}
	}
}

func TestSealer(t *testing.T) {
	p := ledger.NewPepper()
	s := p.Sealer()
	sealed := s.Seal("a", []byte("sk-secret"))
	if got, err := s.Open("a", sealed); err != nil || string(got) != "sk-secret" {
		t.Errorf("opened %q, %v", got, err)
	}
	if _, err := s.Open("b", sealed); err == nil {
		t.Error("opens as another record")
	}
	other := ledger.NewPepper()
	if _, err := other.Sealer().Open("a", sealed); err == nil {
		t.Error("opens under another pepper")
	}
}
