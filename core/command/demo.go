package command

import (
	"github.com/urfave/cli/v2"

	"headway/core"
)

// demo runs the server with simulated providers.
func demo(*cli.Context, Program, ServeOptions) error {
	return &core.Error{Kind: core.Invalid, Msg: "--demo is not in this build yet"}
}
