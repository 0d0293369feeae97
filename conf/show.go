package conf

import (
	"headway/core"

	"go.yaml.in/yaml/v4"
)

// Show is the file as it was understood: with its defaults, with what its
// references stand for, with its paths resolved, and with every secret as ***.
func Show(f *File) []byte {
	d := draft{File: *f}
	for _, p := range f.Providers {
		shown := *showProvider(p)
		for _, o := range f.Offers {
			if o.Provider == p {
				shown.offers = append(shown.offers, offer{Offer: *o})
			}
		}
		d.providers = append(d.providers, shown)
	}
	out, err := yaml.Dump(fileRecord().show(&d), yaml.WithLineWidth(-1))
	if err != nil { // a tree of scalars, lists and mappings: it cannot fail
		return nil
	}
	return out
}

// showProvider is a provider without its offers, as it is shown.
func showProvider(p *core.Provider) *provider {
	shown := &provider{Provider: *p}
	if p.AllowPrivate != p.FromFile { // what is left out
		shown.private = core.Some(p.AllowPrivate)
	}
	return shown
}
