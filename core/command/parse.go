package command

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"headway/conf"
	"headway/core"
	"headway/core/control"
	"headway/core/gateway"
)

// Config is a file as control takes it.
func Config(f *conf.File) *control.Config {
	absolute := func(folder string) string {
		if abs, err := filepath.Abs(folder); err == nil && folder != "" {
			return abs
		}
		return folder
	}
	c := &control.Config{Path: f.Path, Settings: f.Settings, Providers: f.Providers, Offers: f.Offers, CORS: f.CORS, Shown: conf.Show(f),
		Groups: conf.SettingObjects(f), CheckScripts: f.CheckScripts,
		Fixed: map[string]string{"listen": f.Listen, "data": absolute(f.Data), "log.level": f.LogLevel.String(), "routing.scripts": absolute(f.Scripts),
			"witness.url": f.Witness.URL, "witness.key": f.Witness.Key,
			"nats.listen": f.NATS.Listen, "nats.advertise": f.NATS.Advertise, "nats.heartbeat": f.NATS.Heartbeat.String(),
			"nats.heartbeat_misses": strconv.Itoa(f.NATS.HeartbeatMisses)}}
	for _, k := range f.Keys {
		c.Keys = append(c.Keys, control.Credential(k))
	}
	for _, n := range f.Notes {
		c.Notes = append(c.Notes, n.String())
	}
	return c
}

// Parsers read what operators write: the file at path again, "" where serve was
// started without one, and the objects of admin calls.
func Parsers(path string) control.Parse {
	config := func(f *conf.File, err error) (*control.Config, error) {
		if err != nil {
			return nil, err
		}
		noteProbes(f)
		return Config(f), nil
	}
	empty := conf.Default()
	return control.Parse{
		File: func() (*control.Config, error) {
			if path == "" {
				return nil, &core.Error{Kind: core.NotFound, Msg: "the server was started without a file",
					Hint: "name one to apply, or start it with --config FILE"}
			}
			return config(conf.Load(path, os.LookupEnv))
		},
		Text: func(name string, yaml []byte) (*control.Config, error) {
			return config(conf.Parse(name, yaml, os.LookupEnv))
		},
		Provider: conf.Provider, OfferOf: conf.OfferProvider, Offer: conf.Offer, Key: conf.Key,
		Node: func(json []byte) (control.Enrolment, error) {
			e, err := conf.Enrol(json)
			return control.Enrolment(e), err
		},
		ProviderObject: conf.ProviderObject, OfferObject: conf.OfferObject, KeyObject: conf.KeyObject,
		Groups: conf.SettingObjects(&empty), StrategyHint: conf.StrategyHint,
	}
}

// Routes sends admin calls to the desk and everything else to the gateway.
func Routes(gateway http.Handler, desk *control.Desk) http.Handler {
	admin := desk.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/admin/") {
			admin.ServeHTTP(w, r)
			return
		}
		gateway.ServeHTTP(w, r)
	})
}

// load reads a file for a command; errors of what it says are not wrong usage.
func load(path string) (*conf.File, error) {
	f, err := conf.Load(path, os.LookupEnv)
	var problems conf.Problems
	if err != nil && !errors.As(err, &problems) {
		return nil, failed{err}
	}
	if err == nil {
		noteProbes(f)
	}
	return f, err
}

// noteProbes says of a limit of probes that none with a long prompt fits into, at no
// offer of the file.
func noteProbes(f *conf.File) {
	limit, least := f.Settings.Probes.PerDay, core.Opt[core.Money]{}
	var at core.OfferID
	for _, o := range f.Offers {
		if most, ok := gateway.LongProbe(o); ok && (!least.OK || most < least.V) {
			least, at = core.Some(most), o.ID
		}
	}
	if limit.OK && least.OK && limit.V < least.V {
		f.Notes = append(f.Notes, conf.Problem{File: f.Path, Path: "probes.usd_per_day",
			Reason: fmt.Sprintf("%s is too little for any probe with a long prompt: no prefill speed is measured by one", limit.V),
			Hint:   fmt.Sprintf("set aside for one is a token for each byte, $%s at %s, where it is cheapest; it usually costs a quarter", least.V, at)})
	}
}
