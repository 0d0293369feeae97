package command

import "github.com/urfave/cli/v2"

// NewApp gives tests the table of commands.
func NewApp(p Program) *cli.App { return newApp(p) }
