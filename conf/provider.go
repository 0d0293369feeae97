package conf

import (
	"errors"
	"net/url"
	"strings"

	"headway/core"
)

// provider is a provider with its offers while it is read.
type provider struct {
	core.Provider
	private core.Opt[bool] // allow_private, where it was said
	offers  []offer
}

// Provider reads the JSON body of POST /admin/v1/providers: the object of the
// file, which may also have allow_private. The body itself is what to keep: it
// reads again to the same. The error is Problems with paths like
// "providers.base_url".
func Provider(data []byte) (*core.Provider, []*core.Offer, error) {
	var d provider
	if err := bindJSON("providers", data, providerRecord(), &d); err != nil {
		return nil, nil, err
	}
	p, offers := d.build(false)
	return p, offers, nil
}

// build gives the provider and its offers, which point at it.
func (d *provider) build(fromFile bool) (*core.Provider, []*core.Offer) {
	p := d.Provider
	p.FromFile = fromFile
	p.BaseURL = strings.TrimRight(p.BaseURL, "/")
	offers := make([]*core.Offer, len(d.offers))
	for i := range d.offers {
		o := d.offers[i].Offer
		o.Provider = &p
		offers[i] = &o
	}
	return &p, offers
}

func providerRecord() value[provider] {
	return record([]field[provider]{
		key("id", "The provider's name: letters, digits, dots, hyphens and underscores.",
			word[core.ProviderID]("a name", object{"type": "string", "pattern": providerID + `|` + referencePattern}, func(s string) fault {
				if !wordOf(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", "._-") {
					return fault{"is no name of a provider", "up to 64 letters, digits, dots, hyphens and underscores, a letter or digit first"}
				}
				return fault{}
			}), func(p *provider) *core.ProviderID { return &p.ID }).required(),
		key("format", "The wire format that it speaks: openai (chat completions), openai-responses, anthropic, google, bedrock (InvokeModel), bedrock-converse, vertex-anthropic, vertex-google, ollama (its own API) or llamacpp.",
			choice[core.Format]("format", formats), func(p *provider) *core.Format { return &p.Format }).required(),
		key("dialect", "What differs between servers of one format, by name: ollama, vllm, mistral, deepseek …",
			word[string]("a name", object{"type": "string", "pattern": dialectName + `|` + referencePattern}, func(s string) fault {
				if !wordOf(s, "abcdefghijklmnopqrstuvwxyz0123456789", "-") {
					return fault{"is no name of a dialect", "lower-case letters, digits and hyphens"}
				}
				return fault{}
			}), func(p *provider) *string { return &p.Dialect }),
		key("base_url", "Where it answers. It ends in /v1 for openai and openai-responses; anthropic, google, ollama and llamacpp have no path; bedrock and vertex formats need none.",
			word[string]("an address", object{"type": "string", "pattern": `^[hH][tT][tT][pP][sS]?://|` + referencePattern},
				func(s string) fault { // the rest is judged by checkProvider, with allow_private
					if s == "" {
						return fault{is: "is empty"}
					}
					return fault{}
				}),
			func(p *provider) *string { return &p.BaseURL }),
		key("api_key", "Its credential: ${NAME} or ${file:PATH}, so that the file holds no secret.",
			secret(1), func(p *provider) *core.Secret { return &p.APIKey }),
		key("headers", "Headers that are set on every request to it.",
			dict(secret(1), headerFault, strings.ToLower), func(p *provider) *map[string]core.Secret { return &p.Headers }),
		key("owner", "Who it belongs to: its offers do not serve that owner's own calls.",
			label[string]("a name"), func(p *provider) *string { return &p.Owner }),
		key("region", "Where it is, as a label; for bedrock formats the AWS region.",
			label[string]("a name"), func(p *provider) *string { return &p.Region }),
		key("access_key_id", "Of bedrock formats: the id of an AWS access key. Left out: AWS's usual places.",
			label[string]("a name"), func(p *provider) *string { return &p.AccessKeyID }),
		key("secret_access_key", "Of bedrock formats: the secret of access_key_id, as ${NAME} or ${file:PATH}.",
			secret(1), func(p *provider) *core.Secret { return &p.SecretKey }),
		key("session_token", "Of bedrock formats: the session token of access_key_id, where it has one.",
			secret(1), func(p *provider) *core.Secret { return &p.SessionToken }),
		key("project", "Of vertex formats: the Google Cloud project.",
			label[string]("a name"), func(p *provider) *string { return &p.Project }),
		key("location", "Of vertex formats: the Google Cloud location, like europe-west1 or global.",
			label[string]("a name"), func(p *provider) *string { return &p.Location }),
		key("allow_private", "Lets its address be private or loopback. Providers of a file may be that unless this is false.",
			maybe(flag()), func(p *provider) *core.Opt[bool] { return &p.private }),
		key("offers", "The models that it serves, each with its price.",
			list(offerRecord(false), 0), func(p *provider) *[]offer { return &p.offers }),
	}, checkProvider)
}

// The same as patterns of the schema, for wordOf.
const (
	providerID  = `^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`
	dialectName = `^[a-z0-9][a-z0-9-]{0,63}$`
)

// wordOf tells whether s is up to 64 of the letters, or of the others but not
// in the first place.
func wordOf(s, letters, others string) bool {
	return s != "" && len(s) <= 64 && strings.Contains(letters, s[:1]) && strings.Trim(s, letters+others) == ""
}

// formats are those that a provider may speak.
var formats = []string{
	string(core.FormatOpenAI), string(core.FormatResponses), string(core.FormatAnthropic), string(core.FormatGoogle),
	string(core.FormatBedrock), string(core.FormatConverse), string(core.FormatVertexAnthropic), string(core.FormatVertexGoogle),
	string(core.FormatOllama), string(core.FormatLlamaCpp),
}

// headerFault says why a header cannot be set on every request.
func headerFault(name string) string {
	if name == "" || strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~") != "" {
		return "is no name of a header"
	}
	switch strings.ToLower(name) {
	case "connection", "content-length", "host", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade":
		return "is a header of the connection, which is not set by hand"
	}
	return ""
}

// checkProvider looks at a provider as a whole.
func checkProvider(b *binder, at place, p *provider) {
	p.AllowPrivate = p.private.Or(!b.api)
	if p.BaseURL != "" {
		checkBaseURL(b, at.child("base_url"), p)
	}
	checkCloud(b, at, p)
	ids := map[string]place{}
	leads := map[core.Model]core.Model{} // what each name of this provider's leads to
	for i := range p.offers {
		o, here := &p.offers[i], at.child("offers").item(i)
		if o.Model == "" {
			continue
		}
		if o.ID == "" && p.ID != "" {
			o.ID = defaultID(p.ID, o.Model)
		}
		where := here.child("id")
		if where.node == here.node {
			where = here.child("model")
		}
		if first, twice := ids[string(o.ID)]; twice && o.ID != "" {
			b.fail(where, "id: tells two offers of one model apart", "%s is the offer of %s already", shorten(string(o.ID)), first.path)
		}
		ids[string(o.ID)] = where
		leads[o.Model] = o.Model
	}
	for i, o := range p.offers {
		for j, alias := range o.Aliases {
			where := at.child("offers").item(i).child("aliases").item(j)
			to, taken := leads[alias]
			switch {
			case alias == "" || o.Model == "":
			case alias == o.Model:
				b.fail(where, "", "is the offer's own model")
			case taken && to != o.Model:
				b.fail(where, "a name leads to one model of a provider", "leads to the model %s of this provider already", shorten(string(to)))
			default:
				leads[alias] = o.Model
			}
		}
	}
}

// checkBaseURL holds the address against SPEC §22 and the format's form of it
// (SPEC §24).
func checkBaseURL(b *binder, at place, p *provider) {
	if err := core.CheckURL(p.BaseURL, false, p.AllowPrivate); err != nil {
		hint := ""
		var e *core.Error
		if errors.As(err, &e) {
			hint = e.Hint
		}
		b.fail(at, hint, "%s", err)
		return
	}
	u, err := url.Parse(p.BaseURL)
	if err != nil {
		b.fail(at, "", "is no address") // CheckURL read it
		return
	}
	path := strings.Trim(u.Path, "/")
	last := path[strings.LastIndexByte(path, '/')+1:]
	version := len(last) > 1 && last[0] == 'v' && '0' <= last[1] && last[1] <= '9'
	root := u.Scheme + "://" + u.Host
	switch p.Format.Wire() {
	case core.FormatOpenAI, core.FormatResponses:
		switch {
		case p.Format == core.FormatLlamaCpp && path != "":
			b.fail(at, "write "+root, "has a path, and llama-server's address has none")
		case strings.HasSuffix(path, "chat/completions") || last == "responses" || last == "completions":
			b.fail(at, "leave the endpoint out: the address ends in /v1", "ends in an endpoint")
		case p.Format != core.FormatLlamaCpp && !strings.Contains("/"+path, "/v"):
			b.note(at, "most servers of this format answer below "+strings.TrimRight(p.BaseURL, "/")+"/v1", "has no /v1")
		}
	case core.FormatOllama:
		switch {
		case path == "v1":
			b.fail(at, "write "+root+"; at /v1 Ollama speaks format: openai", "has a path, and Ollama's own API has none before /api")
		case path != "":
			b.fail(at, "write "+root, "has a path, and Ollama's own API has none before /api")
		}
	case core.FormatAnthropic, core.FormatGoogle, core.FormatVertexAnthropic, core.FormatVertexGoogle, core.FormatBedrock, core.FormatConverse:
		switch {
		case version:
			b.fail(at, "write "+strings.TrimRight(root+"/"+strings.TrimRight(strings.TrimSuffix(path, last), "/"), "/"),
				"ends in /%s, which calls of the format %s add themselves", last, p.Format)
		case last == "messages":
			b.fail(at, "write "+root, "ends in an endpoint")
		case path != "":
			b.note(at, "right for a server that answers below a path of its own", "has a path: calls go to /%s/%s…", path, below(p.Format))
		}
	}
}

func defaultID(p core.ProviderID, m core.Model) core.OfferID {
	return core.OfferID(string(p) + "/" + string(m))
}

// checkProviders refuses ids that two providers, or their offers, share.
func checkProviders(b *binder, at place, providers []provider) {
	ids := map[string]place{}
	offers := map[core.OfferID]int{} // whose each is
	for i, p := range providers {
		if p.ID != "" {
			once(b, ids, string(p.ID), at.item(i).child("id"), "is the id of another provider")
		}
		for j, o := range p.offers {
			first, taken := offers[o.ID]
			if taken && first != i && o.ID != "" && providers[first].ID != p.ID {
				b.fail(at.item(i).child("offers").item(j).child("id"), "",
					"%s is an offer of the provider %s already", shorten(string(o.ID)), providers[first].ID)
			}
			offers[o.ID] = i
		}
	}
}
