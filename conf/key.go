package conf

import (
	"time"

	"headway/core"
)

// leastKey is the length of a key that is given in a file, in characters
// (SPEC §24).
const leastKey = 16

// Key reads the JSON body of POST /admin/v1/keys: the object of the file. The
// secret is empty where the body gives none, and one is to be made. The key has
// no ID, hash or creation time yet. The error is Problems with paths like
// "keys.models[0]".
func Key(data []byte) (*core.Key, core.Secret, error) {
	var c Credential
	if err := bindJSON("keys", data, keyRecord(false), &c); err != nil {
		return nil, core.Secret{}, err
	}
	return &c.Key, c.Secret, nil
}

// keyRecord is one key; text says that its text must be there.
func keyRecord(text bool) value[Credential] {
	secretKey := key("key", "The key's text: any 16 characters or more. In a file a ${NAME}, so that the file holds no secret.",
		secret(leastKey), func(c *Credential) *core.Secret { return &c.Secret })
	secretKey.must = text
	return record([]field[Credential]{
		key("name", "What the key is called in lists and receipts.",
			label[string]("a name"), func(c *Credential) *string { return &c.Name }).required(),
		secretKey,
		key("models", "The only models that it may use; left out: all.",
			names(model("a model's name"), 1), func(c *Credential) *[]core.Model { return &c.Models }),
		key("allow_models", "As models; a model must pass both.",
			names(model("a model's name"), 1), func(c *Credential) *[]core.Model { return &c.AllowModels }),
		key("block_models", "Models that it may not use; auto is the Auto Router.",
			names(model("a model's name"), 0), func(c *Credential) *[]core.Model { return &c.BlockModels }),
		key("price_cap_usd_per_mtok", "Offers with a rate above it are refused to this key; at the cap passes.",
			priceCap(), func(c *Credential) *core.PriceCap { return &c.PriceCap }),
		key("strategy", "Instead of routing.strategy, for this key: a built-in strategy or a script's name.",
			strategy(), func(c *Credential) *string { return &c.Strategy }),
		key("time_value_usd_per_hour", "Instead of routing.time_value_usd_per_hour, for this key.",
			maybe(dollars()), func(c *Credential) *core.Opt[core.Money] { return &c.TimeValue }),
		key("owner", "Who the key belongs to: that owner's offers do not serve it.",
			label[string]("a name"), func(c *Credential) *string { return &c.Owner }),
		key("serve_own", "Lets the owner's own offers serve it.",
			flag(), func(c *Credential) *bool { return &c.ServeOwn }),
		key("expires_at", "When it stops working: 2027-01-31 (the first moment of that day, UTC) or 2027-01-31T12:00:00Z.",
			maybe(moment()), func(c *Credential) *core.Opt[time.Time] { return &c.ExpiresAt }),
		key("requests_per_minute", "The most calls in any 60 seconds; one above it gets 429.",
			maybe(whole(1, 1_000_000_000)), func(c *Credential) *core.Opt[int64] { return &c.RequestsPerMinute }),
		key("tokens_per_minute", "The most input and output tokens in any 60 seconds; a call above it gets 429.",
			maybe(whole(1, 1_000_000_000_000)), func(c *Credential) *core.Opt[int64] { return &c.TokensPerMinute }),
		key("max_parallel", "The most calls at once; one above it gets 429.",
			maybe(whole(1, 1_000_000)), func(c *Credential) *core.Opt[int64] { return &c.MaxParallel }),
		key("budget_usd_per_day", "What it may spend in a UTC day, in US dollars; a call that could go above it gets 402. 0: nothing that costs anything.",
			maybe(dollars()), func(c *Credential) *core.Opt[core.Money] { return &c.BudgetDay }),
		key("budget_usd_per_week", "Likewise in a UTC week, which begins on Monday.",
			maybe(dollars()), func(c *Credential) *core.Opt[core.Money] { return &c.BudgetWeek }),
		key("budget_usd_per_month", "Likewise in a calendar month, UTC.",
			maybe(dollars()), func(c *Credential) *core.Opt[core.Money] { return &c.BudgetMonth }),
		key("labels", "Words of your own to tell keys apart.",
			labels(), func(c *Credential) *map[string]string { return &c.Labels }),
	}, nil)
}

// checkKeys refuses names and texts that two keys share.
func checkKeys(b *binder, at place, keys []Credential) {
	byName, byText := map[string]place{}, map[string]place{}
	for i, k := range keys {
		if k.Name != "" {
			once(b, byName, k.Name, at.item(i).child("name"), "is the name of another key")
		}
		if !k.Secret.Empty() {
			once(b, byText, k.Secret.Reveal(), at.item(i).child("key"), "is the text of another key")
		}
	}
}

// once fails where a thing was seen before; the message names that place.
func once(b *binder, seen map[string]place, thing string, at place, what string) {
	if first, twice := seen[thing]; twice {
		b.fail(at, "", "%s, %s", what, first.path)
		return
	}
	seen[thing] = at
}
