package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
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
					"A budget is for a UTC day, a UTC week from Monday, or a calendar month in UTC; 0 is nothing that costs anything. A\n" +
					"call sets aside the most that it can cost, and gets 402 where that does not fit what is left.\n\n" +
					"Example:\n   headway key create ci --models small,large --budget-per-month 20 --max-parallel 10 --expires 2027-01-31",
				Flags:  serverFlags(append(keyFlags(), &cli.StringFlag{Name: "name", Usage: "the `NAME` it has in lists"}, jsonFlag())...),
				Action: createKey,
			},
			{
				Name: "list", Aliases: []string{"ls"}, Usage: "list the keys and what each has spent", UsageText: "headway key list [ID|NAME] [--json]",
				Description: "SPENT is of all time. LEFT is what is left of each budget, which begins anew at the start of the UTC day under RENEWS;\n" +
					"what calls under way have set aside is not left. LIMITS are those of rate and of calls at once. ALSO is there where a\n" +
					"key has more: price caps, lists of models, labels. With an id or a name each of the key's settings has a line, called\n" +
					"as the flag of headway key set that changes it. Nothing shows a key's text again.\n\nExample:\n   headway key list ci",
				Flags: serverFlags(jsonFlag()),
				Action: func(c *cli.Context) error {
					if c.Args().Len() > 0 {
						return onServer([]string{"ID|NAME"}, listKeys)(c)
					}
					return onServer(nil, listKeys)(c)
				},
			},
			{
				Name: "set", Usage: "change a key", UsageText: "headway key set ID|NAME [flags]",
				Description: "Changes what is named; an empty value takes it away. Each price cap and each label is a thing of its own: --label env=prod\n" +
					"leaves the other labels, --label env= takes that one away, and --label \"\" takes all away. A list of models is set\n" +
					"as a whole.\n\nExample:\n   headway key set ci --models small --budget-per-day 2.50 --owner \"\"",
				Flags:  serverFlags(append(keyFlags(), &cli.StringFlag{Name: "name", Usage: "the `NAME` it has in lists"}, jsonFlag())...),
				Action: onServer([]string{"ID|NAME"}, setKey),
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
		if errors.Is(err, strconv.ErrRange) && n > 0 {
			return nil, wrongUsage(fmt.Sprintf("--%s: %s is too large", flag, c.String(flag)), "write it like --"+flag+" 60")
		}
		if c.String(flag) != "" && err != nil {
			return nil, wrongUsage(fmt.Sprintf("--%s: %q is no whole number", flag, c.String(flag)), "write it like --"+flag+" 60")
		}
		text(flag, strings.ReplaceAll(flag, "-", "_"), func(string) any { return n })
	}
	if c.IsSet("serve-own") {
		fields["serve_own"] = c.Bool("serve-own")
	}
	caps := map[string]any{} // the server leaves the one that is not named
	for _, side := range [...]string{"input", "output"} {
		if flag := "price-cap-" + side; c.IsSet(flag) {
			caps[side] = nil
			if v := c.String(flag); v != "" {
				caps[side] = v
			}
			fields["price_cap_usd_per_mtok"] = caps
		}
	}
	if c.IsSet("label") {
		labels, err := labelFields(c.StringSlice("label"))
		if err != nil {
			return nil, err
		}
		fields["labels"] = nil
		if labels != nil {
			fields["labels"] = labels
		}
	}
	return fields, nil
}

// labelFields are labels as they were given, NAME=VALUE; one whose value is empty is
// null. nil: all are taken away.
func labelFields(list []string) (map[string]any, error) {
	if len(list) == 1 && list[0] == "" {
		return nil, nil
	}
	labels := map[string]any{}
	for _, l := range list {
		name, value, ok := strings.Cut(l, "=")
		switch _, twice := labels[name]; {
		case l == "":
			return nil, wrongUsage(`--label: "" takes all labels away and stands alone`, "--label NAME= takes one away")
		case !ok:
			return nil, wrongUsage(fmt.Sprintf("--label: %q has no =", l), "write it like --label team=search")
		case twice: // which of them is meant nobody knows
			return nil, wrongUsage(fmt.Sprintf("--label: %s is there twice", printable(name)), "a label has one value")
		}
		labels[name] = nil
		if value != "" {
			labels[name] = value
		}
	}
	return labels, nil
}

// given takes out what is null: of a new key there is nothing to take away.
func given(fields map[string]any) map[string]any {
	maps.DeleteFunc(fields, func(_ string, v any) bool { return v == nil })
	for _, v := range fields {
		if inner, ok := v.(map[string]any); ok {
			given(inner)
		}
	}
	return fields
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
	fields = given(fields)
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

func listKeys(ctx context.Context, c *cli.Context, s *control.Client, args []string) error {
	keys, err := s.Keys(ctx)
	if err != nil {
		return err
	}
	if len(args) > 0 {
		all := keys.Items
		if keys.Items = keysCalled(all, args[0]); len(keys.Items) == 0 {
			return noKey(all, args[0])
		}
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, keys)
	}
	if len(args) > 0 {
		for i := range keys.Items {
			if i > 0 {
				fmt.Fprintln(c.App.Writer)
			}
			for _, line := range keyLines(&keys.Items[i]) {
				fmt.Fprintf(c.App.Writer, "%-19s  %s\n", line[0], printable(line[1]))
			}
		}
		return nil
	}
	t := table{head: []string{"ID", "NAME", "STATE", ">SPENT", "LEFT", "RENEWS", "LIMITS", "STRATEGY", "MODELS", "OWNER", "EXPIRES", "FROM"}, empty: "there are no keys; headway key create makes one"}
	further := slices.ContainsFunc(keys.Items, func(k control.Key) bool { return also(&k.Key) != "" })
	if further {
		t.head = append(t.head, "ALSO")
	}
	for _, k := range keys.Items {
		models := "all"
		if len(k.Models) > 0 {
			models = joined(k.Models)
		}
		left, renews := budgets(k.Budget)
		row := []string{string(k.ID), k.Name, k.State, "$" + k.Spend.String(), left, renews, rates(&k.Key), k.Strategy, models, k.Owner, when(k.ExpiresAt), source(&k.Key)}
		if further {
			row = append(row, also(&k.Key))
		}
		t.add(row...)
	}
	t.write(c.App.Writer)
	return nil
}

// source is where a key is changed.
func source(k *core.Key) string {
	if k.FromFile {
		return "file"
	}
	return "admin"
}

// also is what a key has beside what the columns say, in one cell.
func also(k *core.Key) string {
	var words []string
	for _, l := range [...]struct {
		word  string
		names []core.Model
	}{{"allows ", k.AllowModels}, {"blocks ", k.BlockModels}} {
		if len(l.names) > 0 {
			words = append(words, l.word+joined(l.names))
		}
	}
	for _, l := range [...]struct {
		word string
		cap  core.Opt[core.Rate]
	}{{"input", k.PriceCap.Input}, {"output", k.PriceCap.Output}} {
		if l.cap.OK {
			words = append(words, l.word+" at most $"+l.cap.V.String())
		}
	}
	if k.ServeOwn {
		words = append(words, "serves own")
	}
	if k.TimeValue.OK {
		words = append(words, "time value "+dollars(k.TimeValue))
	}
	if len(k.Labels) > 0 {
		words = append(words, "labels "+strings.Join(labelWords(k.Labels), " "))
	}
	return strings.Join(words, ", ")
}

// labelWords are labels as --label takes them.
func labelWords(labels map[string]string) (words []string) {
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		words = append(words, name+"="+labels[name])
	}
	return words
}

// keyLines are all that a key has, each with its name: what can be changed under that
// of its flag.
func keyLines(k *control.Key) (lines [][2]string) {
	add := func(name, value string) {
		if value != "" && value != absent {
			lines = append(lines, [2]string{name, value})
		}
	}
	rate := func(name string, r core.Opt[core.Rate]) {
		if r.OK {
			add(name, "$"+r.V.String()+" per million tokens")
		}
	}
	add("id", string(k.ID))
	add("name", k.Name)
	add("state", k.State)
	add("from", source(&k.Key))
	add("created", when(k.CreatedAt))
	add("spent", "$"+k.Spend.String())
	if k.Reserved > 0 {
		add("set aside", "$"+k.Reserved.String()+" by calls under way")
	}
	for _, b := range k.Budget {
		left := " left"
		if b.Over.OK {
			left = ""
		}
		add("budget-per-"+b.Period, budget(b)+left+", renews "+b.Renews.UTC().Format(time.DateOnly))
	}
	add("requests-per-minute", number(k.RequestsPerMinute))
	add("tokens-per-minute", number(k.TokensPerMinute))
	add("max-parallel", number(k.MaxParallel))
	add("models", joined(k.Models))
	add("allow-models", joined(k.AllowModels))
	add("block-models", joined(k.BlockModels))
	rate("price-cap-input", k.PriceCap.Input)
	rate("price-cap-output", k.PriceCap.Output)
	add("strategy", k.Strategy)
	if k.TimeValue.OK {
		add("time-value", dollars(k.TimeValue)+" an hour")
	}
	add("owner", k.Owner)
	if k.ServeOwn {
		add("serve-own", "yes")
	}
	add("expires", when(k.ExpiresAt))
	for _, l := range labelWords(k.Labels) {
		add("label", l)
	}
	return lines
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
		lefts = append(lefts, budget(b)+" a "+b.Period)
		days = append(days, b.Renews.UTC().Format(time.DateOnly))
	}
	return strings.Join(lefts, ", "), strings.Join(days, ", ")
}

// budget is what is left of a budget, of how much.
func budget(b control.Budget) string {
	word := "$" + b.Left.String()
	if b.Over.OK {
		word = "over by $" + b.Over.V.String()
	}
	return word + " of $" + b.Limit.String()
}

func joined[T ~string](names []T) string {
	words := make([]string, len(names))
	for i, n := range names {
		words[i] = string(n)
	}
	return strings.Join(words, ",")
}

// keysCalled are the keys that a word may mean: the one of that id, else those of
// that name. The id of a key of the file is its name, which others may have too, so
// such a key is one of them.
func keysCalled(keys []control.Key, word string) (found []control.Key) {
	for _, k := range keys {
		switch {
		case string(k.ID) == word && !k.FromFile:
			return []control.Key{k}
		case k.Name == word:
			found = append(found, k)
		}
	}
	return found
}

// noKey is the error of a word that no key goes by.
func noKey(keys []control.Key, word string) error {
	if strings.HasPrefix(word, "hw_") { // not shown again: it may be a secret
		return wrongUsage("a key goes by its id or its name, never by its text", "headway key list shows them")
	}
	var names []string
	for _, k := range keys {
		names = append(names, k.Name, string(k.ID))
	}
	return noSuch("key", word, "headway key list", names)
}

// keyID finds a key by its id or by a name that only it has; past says that it is
// for the key's calls, which a revoked one has too, where no other has the name.
func keyID(ctx context.Context, s *control.Client, word string, past bool) (core.KeyID, error) {
	keys, err := s.Keys(ctx)
	if err != nil {
		return "", err
	}
	called := keysCalled(keys.Items, word)
	if len(called) == 1 && string(called[0].ID) == word {
		return called[0].ID, nil
	}
	var found, ended, made []core.KeyID // made: those of found that have an id of their own
	for _, k := range called {
		switch {
		case k.Revoked:
			ended = append(ended, k.ID)
			continue
		case !k.FromFile:
			made = append(made, k.ID)
		}
		found = append(found, k.ID)
	}
	if len(found) == 0 && past {
		found, made = ended, ended
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
	case len(ended) > 0:
		return "", &core.Error{Kind: core.NotFound, Msg: fmt.Sprintf("the key %q (%s) is revoked", word, joined(ended)), Hint: "headway key create makes another one"}
	case past && !strings.HasPrefix(word, "hw_"):
		return core.KeyID(word), nil // old calls may have it
	default:
		return "", noKey(keys.Items, word)
	}
	hint := "name one of them by its id: " + strings.ReplaceAll(joined(made), ",", ", ")
	switch {
	case len(made) == len(found):
	case past: // no word means it alone as long as another is called so
		hint += "; the id of the key of the file is its name, so for that one give the other another name first: headway key set " + string(made[0]) + " --name NAME"
	default:
		hint += "; the key of the file is changed in the file"
	}
	return "", wrongUsage(fmt.Sprintf("%d keys are called %q", len(found), word), hint)
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
