package command

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"headway/core"
	"headway/core/control"
)

func keyCommand() *cli.Command {
	return &cli.Command{
		Name: "key", Aliases: []string{"keys"}, Usage: "make and manage the callers' keys", UsageText: "headway key create|list|set|revoke",
		Description: "Keys of the file are listed too; they are changed in the file. Every change is in headway audit.\n\n" +
			"Example:\n   headway key create ci --models small --budget-per-day 5",
		Subcommands: []*cli.Command{
			{
				Name: "create", Usage: "make a key and show it, once", UsageText: "headway key create [NAME] [flags]",
				Description: "Prints the key alone on the last line. It is kept as a hash, so nobody can show it again.\n\n" +
					"A budget is for a UTC day, a UTC week from Monday, or a calendar month in UTC; 0 is nothing at all. A call sets\n" +
					"aside the most that it can cost, and gets 402 where that does not fit what is left.\n\n" +
					"Example:\n   headway key create ci --models small,large --budget-per-month 20 --max-parallel 10 --expires 2027-01-31",
				Flags:  serverFlags(append(keyFlags(), &cli.StringFlag{Name: "name", Usage: "the `NAME` it has in lists"}, jsonFlag())...),
				Action: createKey,
			},
			{
				Name: "list", Aliases: []string{"ls"}, Usage: "list the keys and what each has spent", UsageText: "headway key list [--json]",
				Description: "LEFT is what is left of each budget, which begins anew at the start of the UTC day under RENEWS; what calls under\n" +
					"way have set aside is not left. LIMITS are those of rate and of calls at once. Nothing shows a key's text again.\n\nExample:\n   headway key list",
				Flags:  serverFlags(jsonFlag()),
				Action: onServer(nil, listKeys),
			},
			{
				Name: "set", Usage: "change a key", UsageText: "headway key set ID|NAME [flags]",
				Description: "Changes what is named; an empty value takes it away.\n\nExample:\n   headway key set ci --models small --budget-per-day 2.50 --owner \"\"",
				Flags:       serverFlags(append(keyFlags(), &cli.StringFlag{Name: "name", Usage: "the `NAME` it has in lists"}, jsonFlag())...),
				Action:      onServer([]string{"ID|NAME"}, setKey),
			},
			{
				Name: "revoke", Usage: "end a key for good", UsageText: "headway key revoke ID|NAME",
				Description: "From then on calls with it get 401. It stays listed for what it has spent.\n\nExample:\n   headway key revoke ci",
				Flags:       serverFlags(jsonFlag()),
				Action:      onServer([]string{"ID|NAME"}, revokeKey),
			},
		},
	}
}

// keyFlags are the restrictions of a key.
func keyFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "models", Usage: "the only `MODELS` that it may use, with commas between"},
		&cli.StringFlag{Name: "allow-models", Usage: "`MODELS`, as --models; a model must pass both"},
		&cli.StringFlag{Name: "block-models", Usage: "`MODELS` that it may not use"},
		&cli.StringFlag{Name: "price-cap-input", Usage: "refuse it offers above this input rate, in `USD` per million tokens"},
		&cli.StringFlag{Name: "price-cap-output", Usage: "likewise for the output rate, in `USD`"},
		&cli.StringFlag{Name: "strategy", Usage: "its `STRATEGY`, instead of routing.strategy: a built-in one or a script's name"},
		&cli.StringFlag{Name: "time-value", Usage: "what an hour of waiting is worth to it, in `USD`"},
		&cli.StringFlag{Name: "requests-per-minute", Usage: "at most `N` calls in any 60 seconds"},
		&cli.StringFlag{Name: "tokens-per-minute", Usage: "at most `N` input and output tokens in any 60 seconds"},
		&cli.StringFlag{Name: "max-parallel", Usage: "at most `N` calls at once"},
		&cli.StringFlag{Name: "budget-per-day", Usage: "what it may spend in a UTC day, in `USD`"},
		&cli.StringFlag{Name: "budget-per-week", Usage: "what it may spend in a UTC week from Monday, in `USD`"},
		&cli.StringFlag{Name: "budget-per-month", Usage: "what it may spend in a calendar month, in `USD`"},
		&cli.StringFlag{Name: "owner", Usage: "the `OWNER` it belongs to: that owner's offers do not serve it"},
		&cli.BoolFlag{Name: "serve-own", Usage: "let the owner's own offers serve it"},
		&cli.StringFlag{Name: "expires", Usage: "when it stops working: a `DATE` or a time like 2027-01-31T12:00:00Z"},
		&cli.StringSliceFlag{Name: "label", Usage: "a word of your own as `NAME=VALUE`, repeatable"},
	}
}

// keyFields are the flags that were given, as fields of the file's object; an
// empty one is null.
func keyFields(c *cli.Context) (map[string]any, error) {
	fields := map[string]any{}
	text := func(flag, field string, read func(string) any) {
		if !c.IsSet(flag) {
			return
		}
		fields[field] = nil
		if v := c.String(flag); v != "" {
			fields[field] = read(v)
		}
	}
	word := func(s string) any { return s }
	list := func(s string) any {
		var names []string
		for name := range strings.SplitSeq(s, ",") {
			names = append(names, strings.TrimSpace(name))
		}
		return names
	}
	text("name", "name", word)
	text("models", "models", list)
	text("allow-models", "allow_models", list)
	text("block-models", "block_models", list)
	text("strategy", "strategy", word)
	text("time-value", "time_value_usd_per_hour", word)
	text("owner", "owner", word)
	text("expires", "expires_at", word)
	for _, period := range [...]string{"day", "week", "month"} {
		text("budget-per-"+period, "budget_usd_per_"+period, word)
	}
	for _, flag := range [...]string{"requests-per-minute", "tokens-per-minute", "max-parallel"} {
		n, err := strconv.ParseInt(c.String(flag), 10, 64)
		if c.String(flag) != "" && err != nil {
			return nil, wrongUsage(fmt.Sprintf("--%s: %q is no whole number", flag, c.String(flag)), "write it like --"+flag+" 60")
		}
		text(flag, strings.ReplaceAll(flag, "-", "_"), func(string) any { return n })
	}
	if c.IsSet("serve-own") {
		fields["serve_own"] = c.Bool("serve-own")
	}
	limits := map[string]any{}
	for _, side := range [...]string{"input", "output"} {
		if flag := "price-cap-" + side; c.IsSet(flag) {
			fields["price_cap_usd_per_mtok"] = nil
			if v := c.String(flag); v != "" {
				limits[side] = v
			}
		}
	}
	if len(limits) > 0 {
		fields["price_cap_usd_per_mtok"] = limits
	}
	if c.IsSet("label") {
		labels := map[string]string{}
		for _, l := range c.StringSlice("label") {
			name, value, ok := strings.Cut(l, "=")
			if !ok {
				return nil, wrongUsage(fmt.Sprintf("--label: %q has no =", l), "write it like --label team=search")
			}
			labels[name] = value
		}
		fields["labels"] = labels
	}
	return fields, nil
}

func createKey(c *cli.Context) error {
	if c.Args().Len() > 1 {
		_, err := arguments(c, "NAME")
		return err
	}
	fields, err := keyFields(c)
	if err != nil {
		return err
	}
	for field, v := range fields {
		if v == nil {
			delete(fields, field)
		}
	}
	if name := c.Args().First(); name != "" {
		if c.IsSet("name") {
			return wrongUsage("the name is there twice", "give it as an argument or as --name")
		}
		fields["name"] = name
	}
	if fields["name"] == nil {
		fields["name"] = "key"
	}
	s, err := server(c)
	if err != nil {
		return err
	}
	k, err := s.MakeKey(c.Context, fields)
	if err != nil {
		return err
	}
	keyNotes(c, k)
	if c.Bool("json") {
		return printJSON(c.App.Writer, k)
	}
	fmt.Fprintf(c.App.ErrWriter, "key %s (%s) is made; it is shown this once:\n", k.ID, k.Name)
	fmt.Fprintln(c.App.Writer, k.Text)
	return nil
}

// keyNotes shows what is likely not meant, beside the answer.
func keyNotes(c *cli.Context, k control.Key) {
	for _, note := range k.Notes {
		fmt.Fprintf(c.App.ErrWriter, "headway: note: %s\n", printable(note))
	}
}

func listKeys(ctx context.Context, c *cli.Context, s *control.Client, _ []string) error {
	keys, err := s.Keys(ctx)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, keys)
	}
	t := table{head: []string{"ID", "NAME", "STATE", ">SPENT", "LEFT", "RENEWS", "LIMITS", "STRATEGY", "MODELS", "OWNER", "EXPIRES", "FROM"}, empty: "there are no keys; headway key create makes one"}
	for _, k := range keys.Items {
		from := "admin"
		if k.FromFile {
			from = "file"
		}
		models := "all"
		if len(k.Models) > 0 {
			models = joined(k.Models)
		}
		left, renews := budgets(k.Budget)
		t.add(string(k.ID), k.Name, k.State, "$"+k.Spend.String(), left, renews, rates(&k.Key), k.Strategy, models, k.Owner, when(k.ExpiresAt), from)
	}
	t.write(c.App.Writer)
	return nil
}

// rates are a key's limits beside its budgets, in one cell.
func rates(k *core.Key) string {
	var words []string
	for _, l := range [...]struct {
		n  core.Opt[int64]
		of string
	}{{k.RequestsPerMinute, "requests/min"}, {k.TokensPerMinute, "tokens/min"}, {k.MaxParallel, "at once"}} {
		if l.n.OK {
			words = append(words, number(l.n)+" "+l.of)
		}
	}
	return strings.Join(words, ", ")
}

// budgets are what is left of each budget and when each renews, in one cell each.
func budgets(list []control.Budget) (left, renews string) {
	var lefts, days []string
	for _, b := range list {
		word := "$" + b.Left.String()
		if b.Over.OK {
			word = "over by $" + b.Over.V.String()
		}
		lefts = append(lefts, word+" of $"+b.Limit.String()+" a "+b.Period)
		days = append(days, b.Renews.UTC().Format(time.DateOnly))
	}
	return strings.Join(lefts, ", "), strings.Join(days, ", ")
}

func joined[T ~string](names []T) string {
	words := make([]string, len(names))
	for i, n := range names {
		words[i] = string(n)
	}
	return strings.Join(words, ",")
}

// keyID finds a key by its id or by a name that only it has; revoked says that a
// revoked one is meant too, where no other has the name.
func keyID(ctx context.Context, s *control.Client, word string, revoked bool) (core.KeyID, error) {
	keys, err := s.Keys(ctx)
	if err != nil {
		return "", err
	}
	var found, ended []core.KeyID
	var names []string
	for _, k := range keys.Items {
		if string(k.ID) == word {
			return k.ID, nil
		}
		names = append(names, k.Name, string(k.ID))
		switch {
		case k.Name == word && k.Revoked:
			ended = append(ended, k.ID)
		case k.Name == word:
			found = append(found, k.ID)
		}
	}
	if len(found) == 0 && revoked {
		found = ended
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
	case strings.HasPrefix(word, "hw_"): // not shown again: it may be a secret
		return "", wrongUsage("a key goes by its id or its name, never by its text", "headway key list shows them")
	case len(ended) > 0:
		return "", &core.Error{Kind: core.NotFound, Msg: fmt.Sprintf("the key %q (%s) is revoked", word, joined(ended)), Hint: "headway key create makes another one"}
	case revoked:
		return core.KeyID(word), nil // old calls may have it
	default:
		return "", noSuch("key", word, "headway key list", names)
	}
	return "", wrongUsage(fmt.Sprintf("%d keys are called %q", len(found), word), "name one of them by its id: "+strings.ReplaceAll(joined(found), ",", ", "))
}

func setKey(ctx context.Context, c *cli.Context, s *control.Client, args []string) error {
	fields, err := keyFields(c)
	if err != nil {
		return err
	}
	if len(fields) == 0 {
		return wrongUsage("nothing to change is named", "headway key set --help lists what can be changed")
	}
	id, err := keyID(ctx, s, args[0], false)
	if err != nil {
		return err
	}
	k, err := s.SetKey(ctx, id, fields)
	if err != nil {
		return err
	}
	keyNotes(c, k)
	if c.Bool("json") {
		return printJSON(c.App.Writer, k)
	}
	fmt.Fprintf(c.App.Writer, "key %s (%s) is changed\n", k.ID, k.Name)
	return nil
}

func revokeKey(ctx context.Context, c *cli.Context, s *control.Client, args []string) error {
	id, err := keyID(ctx, s, args[0], false)
	if err != nil {
		return err
	}
	k, err := s.RevokeKey(ctx, id)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, k)
	}
	fmt.Fprintf(c.App.Writer, "key %s (%s) is revoked\n", k.ID, k.Name)
	return nil
}
