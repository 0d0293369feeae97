package command

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"headway/core"
	"headway/core/control"
)

func nodesCommand() *cli.Command {
	return &cli.Command{
		Name: "nodes", Usage: "see and manage the nodes: machines that serve their own models", UsageText: "headway nodes enrol|list|revoke",
		Description: "A node runs headway node beside its model server and dials in; nothing listens on it. Its models become offers\n" +
			"beside the others within a second.\n\nExample:\n   headway nodes enrol gpu",
		Subcommands: []*cli.Command{
			{
				Name: "enrol", Aliases: []string{"enroll"}, Usage: "invite a node", UsageText: "headway nodes enrol NAME [--owner OWNER] [--address HOST:PORT]",
				Description: "Prints a join string alone on the last line. It can be used once, within 10 minutes; from then on the node is\n" +
					"known by a key of its own. The first node opens the port for them, nats.listen of the file. The join string\n" +
					"names nats.advertise, or nats.listen where that is left out.\n\n" +
					"Example:\n   headway nodes enrol gpu --address box.example.com:4222",
				Flags: serverFlags(
					&cli.StringFlag{Name: "owner", Usage: "the `OWNER` of the machine: it does not serve that owner's own calls"},
					&cli.StringFlag{Name: "address", Usage: "the `HOST:PORT` of this server's that the node is to dial"}, jsonFlag()),
				Action: onServer([]string{"NAME"}, enrolNode),
			},
			{
				Name: "list", Aliases: []string{"ls"}, Usage: "list the nodes and how each stands", UsageText: "headway nodes list [--json]",
				Description: "STATE is invited (the join string was not used), up, lost (not here now) or revoked. WAITING is how many calls wait\n" +
					"for a slot.\n\nExample:\n   headway nodes list --json",
				Flags:  serverFlags(jsonFlag()),
				Action: onServer(nil, listNodes),
			},
			{
				Name: "revoke", Usage: "end a node for good, at once", UsageText: "headway nodes revoke NAME",
				Description: "Its key is void, its connection is closed, and its offers are gone. The name can be enrolled again.\n\nExample:\n   headway nodes revoke gpu",
				Flags:       serverFlags(jsonFlag()),
				Action:      onServer([]string{"NAME"}, revokeNode),
			},
		},
	}
}

func enrolNode(ctx context.Context, c *cli.Context, s *control.Client, args []string) error {
	v, err := s.EnrolNode(ctx, args[0], c.String("owner"), c.String("address"))
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, v)
	}
	say := c.App.ErrWriter
	if onlyHere(v.Address) {
		fmt.Fprintf(say, "headway: note: it names %s, which this machine alone can reach\n", v.Address)
		fmt.Fprintf(say, "headway: hint: for another machine set nats.listen to 0.0.0.0:4222 in the file and start anew, or name what leads here with --address\n")
	}
	fmt.Fprintf(say, "node %s is invited. On its machine, until %s UTC, with the address of its model server (llama-server,\n"+
		"Ollama, vLLM, or any that is compatible with OpenAI's):\n\n  headway node --upstream http://127.0.0.1:11434 --join %s\n\nThe join string alone; it is shown this once:\n",
		v.Name, v.Expires.UTC().Format(time.TimeOnly), v.Join)
	fmt.Fprintln(c.App.Writer, v.Join)
	return nil
}

// onlyHere tells whether an address leads to the machine that dials it.
func onlyHere(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

func listNodes(ctx context.Context, c *cli.Context, s *control.Client, _ []string) error {
	nodes, err := s.Nodes(ctx)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, nodes)
	}
	t := table{head: []string{"NAME", "STATE", ">SLOTS", ">IN USE", ">WAITING", "MODELS", "SERVER", "OWNER", "LAST SEEN"}, empty: "there are no nodes; headway nodes enrol NAME invites one"}
	for _, n := range nodes.Items {
		t.add(string(n.Name), nodeState(n), strconv.FormatInt(n.Slots, 10), strconv.FormatInt(n.SlotsInUse, 10), strconv.FormatInt(n.Queue, 10),
			someOf(n.Models), modelServers(n.Upstreams), n.Owner, when(n.SeenAt))
	}
	t.write(c.App.Writer)
	return nil
}

// mostNamed is how many models a cell names.
const mostNamed = 4

// someOf names the first models of a list, and counts the rest.
func someOf(models []core.Model) string {
	if len(models) <= mostNamed {
		return joined(models)
	}
	return fmt.Sprintf("%s and %d more", joined(models[:mostNamed]), len(models)-mostNamed)
}

// nodeState is a node's state with what there is to say about it.
func nodeState(n core.NodeStatus) string {
	if n.ExpiresAt.OK {
		return n.State + " until " + n.ExpiresAt.V.UTC().Format(time.TimeOnly)
	}
	return n.State
}

// modelServers are what a node's model servers say that they are.
func modelServers(list []core.NodeUpstream) string {
	var words []string
	for _, u := range list {
		word := u.Server
		if word == "" {
			word = string(u.Format)
		}
		if u.Name != "" {
			word = u.Name + ": " + word
		}
		if u.Down {
			word += " (down)"
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

func revokeNode(ctx context.Context, c *cli.Context, s *control.Client, args []string) error {
	n, err := s.RevokeNode(ctx, args[0])
	if err != nil {
		return namedNode(ctx, s, args[0], err)
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, n)
	}
	fmt.Fprintf(c.App.Writer, "node %s is revoked\n", n.Name)
	return nil
}
