package command

import (
	"context"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"headway/conf"
	"headway/core"
	"headway/core/control"
)

// noSuch is the error for a name that nothing has: what it was to be, the command
// that lists what there is, and the names there are.
func noSuch(what, name, list string, names []string) error {
	return &core.Error{Kind: core.NotFound, Msg: fmt.Sprintf("there is no %s %q%s", what, name, conf.DidYouMean(name, names)), Hint: list + " shows what there is"}
}

// namedOffer gives an error of the server that it knows no such offer the names there are;
// any other stays.
func namedOffer(ctx context.Context, s *control.Client, id string, err error) error {
	if !isKind(err, core.NotFound) {
		return err
	}
	offers, failed := s.Offers(ctx)
	if failed != nil {
		return err
	}
	var names []string
	for _, o := range offers.Items {
		names = append(names, string(o.ID))
	}
	if slices.Contains(names, id) {
		return err // something else is not there
	}
	return noSuch("offer", id, "headway offers list", names)
}

// namedNode is namedOffer for a node.
func namedNode(ctx context.Context, s *control.Client, name string, err error) error {
	if !isKind(err, core.NotFound) {
		return err
	}
	nodes, failed := s.Nodes(ctx)
	if failed != nil {
		return err
	}
	var names []string
	for _, n := range nodes.Items {
		names = append(names, string(n.Name))
	}
	if slices.Contains(names, name) {
		return err
	}
	return noSuch("node", name, "headway nodes list", names)
}

// strangers notes which names of a command's filters nothing has now. That is no
// error: old calls may have them.
func strangers(ctx context.Context, c *cli.Context, s *control.Client) error {
	if c.String("model") == "" && c.String("provider") == "" && c.String("offer") == "" && c.String("key") == "" {
		return nil
	}
	offers, err := s.Offers(ctx)
	if err != nil {
		return err
	}
	all, err := s.Models(ctx)
	if err != nil {
		return err
	}
	keys, err := s.Keys(ctx)
	if err != nil {
		return err
	}
	var keyNames, models, providers, offerIDs []string
	for _, k := range keys.Items {
		keyNames = append(keyNames, string(k.ID), k.Name)
	}
	for _, o := range offers.Items {
		providers, offerIDs = append(providers, string(o.Provider)), append(offerIDs, string(o.ID))
	}
	model := c.String("model")
	for _, m := range all.Items {
		models = append(models, string(m.Model))
		if slices.Contains(m.Aliases, core.Model(model)) {
			fmt.Fprintf(c.App.ErrWriter, "headway: note: %s is another name of the model %s, which calls are listed under\n", printable(model), m.Model)
			models = append(models, model)
		}
	}
	for _, f := range [...]struct {
		flag string
		is   []string
	}{{"model", models}, {"provider", providers}, {"offer", offerIDs}, {"key", keyNames}} {
		if name := c.String(f.flag); name != "" && !slices.Contains(f.is, name) {
			fmt.Fprintf(c.App.ErrWriter, "headway: note: no %s is called %q now%s\n", f.flag, printable(name), conf.DidYouMean(name, f.is))
		}
	}
	return nil
}
