package command

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"headway/conf"
	"headway/core"
	"headway/core/control"
	"headway/embedded/store"
)

// What says where a running server is (SPEC §16).
const (
	dataVariable  = "HEADWAY_DATA"
	tokenVariable = "HEADWAY_ADMIN_TOKEN"
)

// serverFlags are those of every command on a running server.
func serverFlags(more ...cli.Flag) []cli.Flag {
	return append(more,
		&cli.StringFlag{Name: "data", EnvVars: []string{dataVariable}, Usage: "the data `FOLDER` of the server; left out: that of ./headway.yaml, ./data, where there is neither a running demo's"},
		&cli.StringFlag{Name: "server", Usage: "the `URL` of a server, with its admin token in " + tokenVariable},
	)
}

func jsonFlag() cli.Flag { return &cli.BoolFlag{Name: "json", Usage: "print JSON"} }

// server finds the running server that a command is for.
func server(c *cli.Context) (*control.Client, error) {
	if url := c.String("server"); url != "" {
		client, err := control.Remote(url, core.NewSecret(os.Getenv(tokenVariable)))
		return client, err
	}
	if data := c.String("data"); data != "" {
		return control.Dial(data)
	}
	folders, own := dataFolders()
	var missing error
	for _, folder := range folders {
		client, err := served(c.Context, folder)
		if err == nil {
			return client, nil
		}
		missing = cmp.Or(missing, err)
	}
	if demo, ok := control.Demo(); ok {
		client, err := served(c.Context, demo)
		if err == nil && !own {
			return client, nil
		}
		if known := (*core.Error)(nil); err == nil && errors.As(missing, &known) {
			known.Hint = "start it with `headway serve`; a demo runs too: --data " + demo
		}
	}
	return nil, missing
}

// served is a client of the server of a folder; an error: nobody serves it.
func served(ctx context.Context, folder string) (*control.Client, error) {
	client, err := control.Dial(folder)
	if err != nil {
		return nil, err
	}
	if _, err := client.Status(ctx); errors.Is(err, control.ErrNoServer) {
		return nil, err
	}
	return client, nil
}

// dataFolders are the places to look for a server of this folder's, in order; at least
// one. own tells whether this folder is one of a server: what is meant for that one must
// not change a demo because it is down.
func dataFolders() (folders []string, own bool) {
	if folder, ok := fileData(usualFile); ok {
		folders, own = append(folders, folder), true
	}
	folder := conf.Default().Data
	return append(folders, folder), own || store.Is(folder)
}

// fileData is the data folder that a file names, whatever else is wrong with it:
// the variables that the server was started with need not be set here.
func fileData(path string) (string, bool) {
	if f, err := conf.Load(path, os.LookupEnv); err == nil {
		return f.Data, true
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", false
	}
	folder := conf.Default().Data
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, "data:"); ok {
			v, _, _ = strings.Cut(v, " #")
			if v = strings.Trim(strings.TrimSpace(v), `"'`); v != "" && !strings.Contains(v, "$") {
				folder = v
			}
		}
	}
	if !filepath.IsAbs(folder) {
		folder = filepath.Join(filepath.Dir(path), folder)
	}
	return folder, true
}

// onServer runs a command on the server that it is for.
func onServer(names []string, do func(ctx context.Context, c *cli.Context, s *control.Client, args []string) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		args, err := arguments(c, names...)
		if err != nil {
			return err
		}
		s, err := server(c)
		if err != nil {
			return err
		}
		return do(c.Context, c, s, args)
	}
}

// pageItems is the most that a page of a list has.
const pageItems = 1000

// gathered gets the first most items of a list, page by page. query has the list's
// filters; what it says of pages is changed.
func gathered[T any](ctx context.Context, most int, query url.Values, get func(context.Context, url.Values) (control.List[T], error)) (control.List[T], error) {
	list := control.List[T]{Items: []T{}}
	for len(list.Items) < most {
		query.Set("limit", strconv.Itoa(min(most-len(list.Items), pageItems)))
		page, err := get(ctx, query)
		if err != nil {
			return list, err
		}
		list.Items, list.Next = append(list.Items, page.Items...), page.Next
		if page.Next == "" {
			break
		}
		query.Set("next", page.Next)
	}
	return list, nil
}
