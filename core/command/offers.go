package command

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/urfave/cli/v2"

	"headway/core"
	"headway/core/control"
)

func offersCommand() *cli.Command {
	return &cli.Command{
		Name: "offers", Aliases: []string{"offer"}, Usage: "see and manage the offers", UsageText: "headway offers list|test|import|pause|resume",
		Description: "Example:\n   headway offers list",
		Subcommands: []*cli.Command{
			{
				Name: "list", Aliases: []string{"ls"}, Usage: "list the offers, how each stands and what it costs", UsageText: "headway offers list [--json]",
				Description: "TTFT is the live estimate of dispatch to first output; prices are in USD per million tokens.\n\nExample:\n   headway offers list --json",
				Flags:       serverFlags(jsonFlag()),
				Action:      onServer(nil, listOffers),
			},
			{
				Name: "test", Usage: "make one tiny call to an offer, or to each", UsageText: "headway offers test [ID]… [--json]",
				Description: "Each call goes to that offer alone, also where it is paused or out. It costs what it costs, and enters no\n" +
					"measure. It fails where an offer did not answer.\n\nExample:\n   headway offers test openai/gpt-5-mini",
				Flags:  serverFlags(jsonFlag()),
				Action: testOffers,
			},
			importCommand(),
			{
				Name: "pause", Usage: "send no calls to an offer", UsageText: "headway offers pause ID",
				Description: "Holds until it is resumed, over restarts too. Calls under way end as usual.\n\nExample:\n   headway offers pause openai/gpt-5-mini",
				Flags:       serverFlags(jsonFlag()),
				Action:      onServer([]string{"ID"}, changeOffer((*control.Client).PauseOffer)),
			},
			{
				Name: "resume", Usage: "end every pause of an offer and of its provider", UsageText: "headway offers resume ID",
				Description: "Also brings back an offer that failures took out.\n\nExample:\n   headway offers resume openai/gpt-5-mini",
				Flags:       serverFlags(jsonFlag()),
				Action:      onServer([]string{"ID"}, changeOffer((*control.Client).ResumeOffer)),
			},
		},
	}
}

// standing is an offer's state with what there is to say about it.
func standing(o control.Offer) string {
	switch {
	case o.OutBy != "":
		return "out (" + o.OutBy + ")"
	case o.State == "out":
		return "out until " + when(o.OutUntil)
	case o.State == "paused" && o.PausedUntil.OK:
		return "paused (" + o.PausedBy + ") until " + when(o.PausedUntil)
	case o.State == "paused":
		return "paused (" + o.PausedBy + ")"
	}
	return o.State
}

func listOffers(ctx context.Context, c *cli.Context, s *control.Client, _ []string) error {
	offers, err := s.Offers(ctx)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, offers)
	}
	t := table{head: []string{"ID", "MODEL", "STATE", ">IN FLIGHT", ">CAPACITY", ">TTFT", ">INPUT", ">OUTPUT", "FORMAT", "FROM"},
		empty: "there are no offers: name providers in the file"}
	for _, o := range offers.Items {
		from := "admin"
		switch {
		case o.Node != "":
			from = "node"
		case o.FromFile:
			from = "file"
		}
		t.add(string(o.ID), string(o.Model), standing(o), strconv.FormatInt(o.InFlight, 10), number(o.Capacity), ms(o.TTFT),
			"$"+o.Input.String(), "$"+o.Output.String(), string(o.Format), from)
	}
	t.write(c.App.Writer)
	return nil
}

func changeOffer(do func(*control.Client, context.Context, string) (control.Offer, error)) func(context.Context, *cli.Context, *control.Client, []string) error {
	return func(ctx context.Context, c *cli.Context, s *control.Client, args []string) error {
		o, err := do(s, ctx, args[0])
		if err != nil {
			return namedOffer(ctx, s, args[0], err)
		}
		if c.Bool("json") {
			return printJSON(c.App.Writer, o)
		}
		fmt.Fprintf(c.App.Writer, "offer %s is %s\n", o.ID, standing(o))
		return nil
	}
}

func testOffers(c *cli.Context) error {
	s, err := server(c)
	if err != nil {
		return err
	}
	ids := c.Args().Slice()
	if len(ids) == 0 {
		offers, err := s.Offers(c.Context)
		if err != nil {
			return err
		}
		for _, o := range offers.Items {
			if o.State != "gone" {
				ids = append(ids, string(o.ID))
			}
		}
	}
	t := table{head: []string{"OFFER", "RESULT", ">HEADERS AFTER", ">FIRST TOKEN AFTER", ">CHARGE", "CALL"}, empty: "there are no offers"}
	receipts := control.List[*core.Receipt]{Items: []*core.Receipt{}}
	var bad []string
	var last error
	var unreached, bare bool
	progress := terminal(c.App.ErrWriter)
	for i, id := range ids {
		if progress {
			fmt.Fprintf(c.App.ErrWriter, "%d of %d: %s\n", i+1, len(ids), id)
		}
		r, err := s.TestOffer(c.Context, id)
		if err != nil {
			err = namedOffer(c.Context, s, id, err)
			if isKind(err, core.Unavailable) || isKind(err, core.Canceled) || len(ids) == 1 {
				return err
			}
			bad, last = append(bad, id), err
			t.add(id, err.Error(), absent, absent, absent, absent)
			continue
		}
		receipts.Items = append(receipts.Items, r)
		var a core.Attempt
		if n := len(r.Attempts); n > 0 {
			a = r.Attempts[n-1]
		}
		result := "answers"
		if r.Outcome != core.Settled {
			result = string(r.Outcome) + ": " + reason(a)
			switch a.Error {
			case core.NoCredential:
				bare = true
			case "connect", "dns", "refused", "tls":
				unreached = unreached || a.Status == 0 // "refused" is also what an upstream does
			}
			bad, last = append(bad, id), &core.Error{Kind: core.Upstream, Msg: id + ": " + result}
		}
		t.add(id, result, ms(a.Timing.UpstreamHeaders), ms(a.Timing.FirstToken), dollars(r.Charge), string(r.ID))
	}
	if c.Bool("json") {
		err = printJSON(c.App.Writer, receipts)
	} else {
		t.write(c.App.Writer)
	}
	hint := "headway trace CALL shows more"
	if unreached {
		hint += "; where there was no connection, or it broke: see base_url in the file, and that the server can reach it"
	}
	if bare {
		hint += "; no_credential: put one in the file, or in the cloud's usual places where the server runs; its log says which"
	}
	switch {
	case len(bad) == 1:
		return &core.Error{Kind: core.Upstream, Msg: last.Error(), Hint: hint}
	case len(bad) > 1:
		return &core.Error{Kind: core.Upstream, Msg: fmt.Sprintf("%d of %d offers do not answer", len(bad), len(ids)), Hint: hint}
	}
	return err
}

func isKind(err error, k core.Kind) bool {
	var e *core.Error
	return errors.As(err, &e) && e.Kind == k
}

// reason is why an attempt did not answer.
func reason(a core.Attempt) string {
	switch {
	case a.Status != 0 && a.Error != "" && a.Error != "refused" && a.Error != "status":
		return fmt.Sprintf("status %d, %s", a.Status, a.Error)
	case a.Status != 0:
		return fmt.Sprintf("status %d", a.Status)
	case a.Error != "":
		return a.Error
	}
	return absent
}

// alsoCalled are a model's other names, or the models that the Auto Router
// chooses among.
func alsoCalled(m control.Model) string {
	if len(m.Pool) > 0 {
		return "the Auto Router, over " + joined(m.Pool)
	}
	return joined(m.Aliases)
}

func modelsCommand() *cli.Command {
	return &cli.Command{
		Name: "models", Aliases: []string{"model"}, Usage: "list the models that are served", UsageText: "headway models [--json]",
		Description: "Prices are the lowest of the model's offers, in USD per million tokens.\n\nExample:\n   headway models",
		Flags:       serverFlags(jsonFlag()),
		Action: onServer(nil, func(ctx context.Context, c *cli.Context, s *control.Client, _ []string) error {
			models, err := s.Models(ctx)
			if err != nil {
				return err
			}
			if c.Bool("json") {
				return printJSON(c.App.Writer, models)
			}
			t := table{head: []string{"MODEL", ">OFFERS", ">ACTIVE", ">INPUT FROM", ">OUTPUT FROM", ">CONTEXT", "ALIASES"}, empty: "there are no models: name providers with offers in the file"}
			for _, m := range models.Items {
				t.add(string(m.Model), strconv.Itoa(len(m.Offers)), strconv.Itoa(m.Active), "$"+m.Input.String(), "$"+m.OutRate.String(), number(m.Context), alsoCalled(m))
			}
			t.write(c.App.Writer)
			return nil
		}),
	}
}
