package command

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"headway/core/control"
)

func renewReceiptsCommand() *cli.Command {
	return &cli.Command{
		Name: "renew", Usage: "go on in another signed log, where the one there is damaged", UsageText: "headway receipts renew [--yes]",
		Description: "A log that is short of what was signed, or damaged, is never signed again, and calls are refused until it is known why\n" +
			"(unless receipts: optional). If a backup has it whole, restore that. Else this begins another log, whose first leaf\n" +
			"says what is gone; the damaged one stays as it is. It cannot be undone.\n\nExample:\n   headway status && headway receipts renew --yes",
		Flags: serverFlags(yesFlag()),
		Action: onServer(nil, func(ctx context.Context, c *cli.Context, s *control.Client, _ []string) error {
			if err := confirmed(c, "what is gone from the log stays gone", "headway receipts list says what is wrong with it"); err != nil {
				return err
			}
			if err := s.RenewReceipts(ctx); err != nil {
				return err
			}
			_, err := fmt.Fprintln(c.App.Writer, "another log is begun with the next receipt; calls are served")
			return err
		}),
	}
}
