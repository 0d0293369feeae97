package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"headway/core"
	"headway/core/control"
	"headway/core/prices"
)

func importCommand() *cli.Command {
	return &cli.Command{
		Name: "import", Usage: "compare the offers with a public price sheet, and take its prices", UsageText: "headway offers import FILE [--apply] [--json]",
		Description: "FILE is litellm's model_prices_and_context_window.json, models.dev's api.json, or OpenRouter's /api/v1/models; - reads\n" +
			"standard input. Offers are looked up by the provider's address or format and by upstream_model. Prices are taken exactly\n" +
			"or not at all; what the sheet does not say stays as it is, and a 0 in the place of a price is named and not taken.\n" +
			"litellm's max_input_tokens is of input alone: context_tokens is only raised to it.\n\n" +
			"Without --apply nothing changes. With it those offers do that were made through the admin API; of those in the file the\n" +
			"lines to put there are printed.\n\n" +
			"Example:\n   curl -s https://models.dev/api.json | headway offers import -",
		Flags: serverFlags(
			&cli.BoolFlag{Name: "apply", Usage: "change the offers that were made through the admin API"},
			jsonFlag()),
		Action: onServer([]string{"FILE"}, importPrices),
	}
}

// imported is what import --json prints.
type imported struct {
	Sheet  prices.Format   `json:"sheet"`
	Apply  bool            `json:"apply"`
	Offers []importedOffer `json:"offers"`
	// Unmatched are the offers that the sheet says nothing of, and why.
	Unmatched []unmatched `json:"unmatched"`
	// Unread is what of the whole sheet was not read, UnknownProviders how many entries
	// it has of each provider that offers are not looked up by.
	Unread           []prices.Unread `json:"unread"`
	UnknownProviders map[string]int  `json:"unknown_providers"`
	// Wrong counts the entries with a price that cannot be taken.
	Wrong   int `json:"entries_with_problems"`
	Entries int `json:"entries"`
}

// importedOffer is one offer that is in the sheet.
type importedOffer struct {
	ID      core.OfferID     `json:"id"`
	From    string           `json:"from"` // file or admin
	Entry   string           `json:"entry"`
	Changes []importedChange `json:"changes"`
	Notes   []string         `json:"notes,omitempty"`
	Applied bool             `json:"applied"`
	Error   string           `json:"error,omitempty"`

	unclear  bool // some of its entry cannot be taken
	compared bool // some of its entry could be
}

// importedChange is one field of the file that is another in the sheet.
type importedChange struct {
	Field string `json:"field"`
	Now   any    `json:"now"`
	Sheet any    `json:"sheet"`
}

type unmatched struct {
	ID  core.OfferID `json:"id"`
	Why string       `json:"why"`
}

// longestSheet is more than a price sheet has, in bytes.
const longestSheet = 32 << 20

func importPrices(ctx context.Context, c *cli.Context, s *control.Client, args []string) error {
	sheet, err := readSheet(c, args[0])
	if err != nil {
		return err
	}
	offers, err := s.Offers(ctx)
	if err != nil {
		return err
	}
	providers, err := s.ProviderPlaces(ctx)
	if err != nil {
		return err
	}
	im := compareSheet(sheet, offers.Items, providers.Items)
	im.Apply = c.Bool("apply")
	bad := 0
	if im.Apply {
		for i := range im.Offers {
			o := &im.Offers[i]
			if o.From != "admin" || len(o.Changes) == 0 {
				continue
			}
			set := map[string]any{}
			for _, change := range o.Changes {
				set[change.Field] = change.Sheet
			}
			if _, err := s.SetOffer(ctx, o.ID, set); err != nil {
				o.Error = err.Error()
				bad++
				continue
			}
			o.Applied = true
		}
	}
	if c.Bool("json") {
		err = printJSON(c.App.Writer, im)
	} else {
		im.write(c.App.Writer)
	}
	if err == nil && bad > 0 {
		err = failed{&core.Error{Kind: core.Invalid, Msg: several(bad, "offer") + " could not be changed", Hint: "what the server said of each is above"}}
	}
	return err
}

func readSheet(c *cli.Context, path string) (*prices.Sheet, error) {
	in := c.App.Reader
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, cannot("read", path, err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, longestSheet+1))
	if err != nil {
		return nil, cannot("read", fileName(path), err)
	}
	sheet, err := prices.Read(text)
	if err != nil {
		return nil, failed{&core.Error{Kind: core.Invalid, Msg: printable(fmt.Sprintf("%s: %v", fileName(path), err)), Hint: hintOf(err)}}
	}
	return sheet, nil
}

// compareSheet looks up every offer in a sheet.
func compareSheet(sheet *prices.Sheet, offers []control.Offer, providers []control.ProviderPlace) *imported {
	im := &imported{Sheet: sheet.Format, Offers: []importedOffer{}, Unmatched: []unmatched{}, Unread: sheet.Counted(), UnknownProviders: map[string]int{}, Entries: len(sheet.Entries)}
	for i := range sheet.Entries {
		e := &sheet.Entries[i]
		if !prices.Known(sheet.Format, e.Provider) {
			im.UnknownProviders[e.Provider]++
		}
		if len(e.Problems) > 0 {
			im.Wrong++
		}
	}
	of := map[core.ProviderID]control.ProviderPlace{}
	for _, p := range providers {
		of[p.ID] = p
	}
	for i := range offers {
		o := &offers[i]
		if o.Node != "" || o.State == "gone" {
			continue // a machine of one's own is in no sheet
		}
		p := of[o.Provider]
		asked := prices.Asked{Format: o.Format, Region: cmp.Or(p.Region, p.Location), Model: o.UpstreamModel}
		if u, err := url.Parse(p.BaseURL); err == nil {
			asked.Host = u.Hostname()
		}
		e, why := sheet.Find(asked)
		if e == nil {
			im.Unmatched = append(im.Unmatched, unmatched{o.ID, why})
			continue
		}
		found := importedOffer{ID: o.ID, From: "admin", Entry: e.Name, Changes: []importedChange{}, Notes: slices.Clone(e.Problems), unclear: len(e.Problems) > 0}
		if o.FromFile {
			found.From = "file"
		}
		if len(e.Unread) > 0 {
			found.Notes = append(found.Notes, "not read: "+strings.Join(e.Unread, ", "))
		}
		found.compare(o, e)
		im.Offers = append(im.Offers, found)
	}
	return im
}

// compare notes what of an offer is another in its entry.
func (f *importedOffer) compare(o *control.Offer, e *prices.Entry) {
	f.rates(core.Some(o.Input), core.Some(o.Output), &o.Rates, &e.Prices)
	if e.Above.OK {
		f.above(o.Above, e.Above.V)
	}
	if e.MaxInput.OK && o.Context.OK && o.Context.V < e.MaxInput.V {
		f.Changes = append(f.Changes, importedChange{"context_tokens", o.Context, e.MaxInput.V})
	}
	f.compared = f.compared || e.MaxInput.OK
	for _, n := range [...]struct {
		field string
		now   core.Opt[int64]
		sheet core.Opt[int64]
	}{{"context_tokens", o.Context, e.Context}, {"max_output_tokens", o.MaxOutput, e.MaxOutput}} {
		f.compared = f.compared || n.sheet.OK
		if n.sheet.OK && n.sheet != n.now {
			f.Changes = append(f.Changes, importedChange{n.field, n.now, n.sheet.V})
		}
	}
}

// rates are those of an offer under the names of the file.
func (f *importedOffer) rates(input, output core.Opt[core.Rate], now *core.Rates, sheet *prices.Prices) {
	for _, r := range [...]struct {
		field      string
		now, sheet core.Opt[core.Rate]
	}{
		{"input_usd_per_mtok", input, sheet.Input}, {"output_usd_per_mtok", output, sheet.Output},
		{"cache_read_usd_per_mtok", now.CacheRead, sheet.CacheRead}, {"cache_write_usd_per_mtok", now.CacheWrite, sheet.CacheWrite},
		{"cache_write_1h_usd_per_mtok", now.CacheWrite1h, sheet.CacheWrite1h},
	} {
		switch {
		case !r.sheet.OK:
		case r.sheet == r.now:
			f.compared = true
		case r.sheet.V == 0:
			f.Notes = append(f.Notes, r.field+": the sheet has 0, which is often one that is not known; it stays as it is")
		default:
			f.compared = true
			f.Changes = append(f.Changes, importedChange{r.field, r.now, r.sheet.V})
		}
	}
}

// above is the second tier; what the sheet does not say of it stays.
func (f *importedOffer) above(now core.Opt[core.PriceAbove], sheet prices.Above) {
	if sheet.Input.V == 0 || sheet.Output.V == 0 {
		f.Notes = append(f.Notes, "above: the sheet has 0, which is often one that is not known; it stays as it is")
		return
	}
	f.compared = true
	is := core.PriceAbove{InputTokens: sheet.InputTokens, Rates: core.Rates{Input: sheet.Input.V, Output: sheet.Output.V}}
	for _, r := range [...]struct {
		to         *core.Opt[core.Rate]
		now, sheet core.Opt[core.Rate]
	}{
		{&is.CacheRead, now.V.CacheRead, sheet.CacheRead}, {&is.CacheWrite, now.V.CacheWrite, sheet.CacheWrite}, {&is.CacheWrite1h, now.V.CacheWrite1h, sheet.CacheWrite1h},
	} {
		if *r.to = r.now; r.sheet.OK && r.sheet.V > 0 {
			*r.to = r.sheet
		}
	}
	if core.Some(is) != now {
		f.Changes = append(f.Changes, importedChange{"above", now, is})
	}
}

// tier is a second tier as the file writes it.
func tier(p core.PriceAbove) string {
	out := fmt.Sprintf(`{input_tokens: %d, input_usd_per_mtok: "%s", output_usd_per_mtok: "%s"`, p.InputTokens, p.Input, p.Output)
	for _, r := range [...]struct {
		name string
		rate core.Opt[core.Rate]
	}{{"cache_read", p.CacheRead}, {"cache_write", p.CacheWrite}, {"cache_write_1h", p.CacheWrite1h}} {
		if r.rate.OK {
			out += fmt.Sprintf(`, %s_usd_per_mtok: "%s"`, r.name, r.rate.V)
		}
	}
	return out + "}"
}

// shown is a value of a change in a table.
func shown(v any) string {
	if now, ok := v.(core.Opt[core.PriceAbove]); ok && now.OK {
		v = now.V
	}
	p, ok := v.(core.PriceAbove)
	if !ok {
		return strings.Trim(asYAML(v), `"`)
	}
	out := fmt.Sprintf("over %d: %s in, %s out", p.InputTokens, p.Input, p.Output)
	for _, r := range [...]struct {
		name string
		rate core.Opt[core.Rate]
	}{{"read", p.CacheRead}, {"write", p.CacheWrite}, {"write 1h", p.CacheWrite1h}} {
		if r.rate.OK {
			out += fmt.Sprintf(", %s %s", r.rate.V, r.name)
		}
	}
	return out
}

// asYAML is a value of a change as the file writes it; "" for one that is absent.
func asYAML(v any) string {
	switch v := v.(type) {
	case core.Rate:
		return `"` + v.String() + `"`
	case core.Opt[core.Rate]:
		if v.OK {
			return asYAML(v.V)
		}
	case int64:
		return strconv.FormatInt(v, 10)
	case core.Opt[int64]:
		if v.OK {
			return asYAML(v.V)
		}
	case core.PriceAbove:
		return tier(v)
	case core.Opt[core.PriceAbove]:
		if v.OK {
			return tier(v.V)
		}
	}
	return ""
}

// same is what there is to say where no change is.
func (im *imported) same() string {
	compared := 0
	for _, o := range im.Offers {
		if o.compared {
			compared++
		}
	}
	switch {
	case len(im.Offers)+len(im.Unmatched) == 0:
		return "there is no offer to look up"
	case len(im.Offers) == 0:
		return "no offer was found in the sheet"
	case compared == 0:
		return "nothing could be compared: the sheet has no figure that can be taken of the offers found in it"
	case compared < len(im.Offers)+len(im.Unmatched):
		return "no offer that could be compared differs from the sheet"
	}
	return "no offer differs from the sheet"
}

func (im *imported) write(w io.Writer) {
	t := table{head: []string{"OFFER", "FIELD", "NOW", "SHEET", "FROM", "RESULT"}, empty: im.same()}
	same, file, made, applied := 0, 0, 0, 0
	for _, o := range im.Offers {
		result := "not changed"
		switch {
		case len(o.Changes) == 0:
			if o.compared && !o.unclear {
				same++
			}
		case o.From == "file":
			file++
			result = "is in the file"
		case o.Error != "":
			result = o.Error
		case o.Applied:
			applied++
			result = "changed"
		default:
			made++
		}
		for _, c := range o.Changes {
			t.add(string(o.ID), c.Field, shown(c.Now), shown(c.Sheet), o.From, result)
		}
	}
	t.write(w)
	for _, o := range im.Offers {
		for _, n := range o.Notes {
			fmt.Fprintf(w, "%s (%s): %s\n", printable(string(o.ID)), printable(o.Entry), printable(n))
		}
	}
	if file > 0 {
		fmt.Fprint(w, "\nTo put into the file, in the place of what is there:\n")
		for _, o := range im.Offers {
			if o.From != "file" || len(o.Changes) == 0 {
				continue
			}
			fmt.Fprintf(w, "  # %s\n", printable(string(o.ID)))
			for _, c := range o.Changes {
				fmt.Fprintf(w, "  %s: %s\n", c.Field, asYAML(c.Sheet))
			}
		}
	}
	if len(im.Unmatched) > 0 {
		fmt.Fprintln(w)
		t := table{head: []string{"NOT IN THE SHEET", "WHY"}}
		for _, u := range im.Unmatched {
			t.add(string(u.ID), u.Why)
		}
		t.write(w)
	}
	fmt.Fprintf(w, "\n%s sheet of %s: %s found in it, %d the same\n", im.Sheet, severalOf(im.Entries, "entry", "entries"), several(len(im.Offers), "offer"), same)
	im.sayUnread(w)
	switch {
	case applied > 0:
		fmt.Fprintf(w, "%s changed\n", several(applied, "offer"))
	case im.Apply:
		fmt.Fprintln(w, "nothing was changed")
	case made > 0:
		fmt.Fprintf(w, "nothing was changed: --apply changes the %s made through the admin API\n", several(made, "offer"))
	default:
		fmt.Fprintln(w, "nothing was changed")
	}
}

// shownUnread is how many kinds of what was not read are named.
const shownUnread = 8

// sayUnread says in short what of the sheet was not read.
func (im *imported) sayUnread(w io.Writer) {
	if len(im.Unread) > 0 {
		var words []string
		for _, u := range im.Unread[:min(len(im.Unread), shownUnread)] {
			words = append(words, fmt.Sprintf("%s (%d)", u.What, u.Count))
		}
		if more := len(im.Unread) - shownUnread; more > 0 {
			words = append(words, fmt.Sprintf("and %d more kinds, which --json names", more))
		}
		fmt.Fprintf(w, "not read: %s\n", printable(strings.Join(words, ", ")))
	}
	if im.Wrong > 0 {
		fmt.Fprintf(w, "%s a figure that cannot be taken\n", severalOf(im.Wrong, "entry has", "entries have"))
	}
	if n := len(im.UnknownProviders); n > 0 {
		names := slices.SortedFunc(maps.Keys(im.UnknownProviders), func(a, b string) int {
			return cmp.Or(cmp.Compare(im.UnknownProviders[b], im.UnknownProviders[a]), cmp.Compare(a, b))
		})
		total := 0
		for _, k := range im.UnknownProviders {
			total += k
		}
		short := strings.Join(names[:min(n, shownUnread)], ", ")
		if n > shownUnread {
			short += fmt.Sprintf(" and %d more", n-shownUnread)
		}
		fmt.Fprintf(w, "%s of providers that offers are not looked up by: %s\n", severalOf(total, "entry is", "entries are"), printable(short))
	}
}

// severalOf counts with a plural of its own.
func severalOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
