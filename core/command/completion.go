package command

import (
	"fmt"

	"github.com/urfave/cli/v2"
)

func completionCommand() *cli.Command {
	return &cli.Command{
		Name: "completion", Usage: "print a script that completes commands in a shell", UsageText: "headway completion bash|zsh|fish",
		Description: "Examples:\n   bash: source <(headway completion bash)\n   zsh:  source <(headway completion zsh)\n" +
			"   fish: headway completion fish | source",
		Action: func(c *cli.Context) error {
			args, err := arguments(c, "bash|zsh|fish")
			if err != nil {
				return err
			}
			switch args[0] {
			case "bash":
				fmt.Fprint(c.App.Writer, bashCompletion)
			case "zsh":
				fmt.Fprint(c.App.Writer, zshCompletion)
			case "fish":
				script, err := c.App.ToFishCompletion()
				if err != nil {
					return err
				}
				fmt.Fprint(c.App.Writer, script)
			default:
				return wrongUsage(fmt.Sprintf("%q is no shell that can be completed in", args[0]), "usage: "+c.Command.UsageText)
			}
			return nil
		},
	}
}

// Both ask headway itself what can follow; -- alone would end the flags there, so
// it is asked about as -.
const (
	bashCompletion = `_headway() {
  local cur=${COMP_WORDS[COMP_CWORD]} ask=("${COMP_WORDS[@]:0:COMP_CWORD}")
  [[ $cur == -* ]] && ask+=("$cur")
  [[ $cur == -- ]] && ask[COMP_CWORD]=-
  COMPREPLY=($(compgen -W "$("${ask[@]}" --generate-bash-completion 2>/dev/null | cut -d: -f1)" -- "$cur"))
}
complete -o default -F _headway headway
`
	zshCompletion = `#compdef headway
_headway() {
  local -a ask found
  ask=("${(@)words[1,CURRENT-1]}")
  [[ ${words[CURRENT]} == -* ]] && ask+=("${words[CURRENT]}")
  [[ ${words[CURRENT]} == -- ]] && ask[-1]=-
  found=("${(@f)$("${ask[@]}" --generate-bash-completion 2>/dev/null)}")
  if [[ -n ${found[1]} ]]; then _describe headway found; else _files; fi
}
compdef _headway headway
`
)
