package conf

import (
	_ "embed"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v4"

	"headway/core"
)

//go:embed node.yaml
var nodeReference string

// NodeReference is the commented file of a node that has every key.
func NodeReference() []byte { return []byte(nodeReference) }

// Node is the file of a node (headway node --config), as it was read.
type Node struct {
	Path      string // as it was given
	Join      core.Secret
	Data      string // the data folder
	Upstreams []Upstream
	LogLevel  slog.Level
	Notes     []Problem // advice on what is allowed and is likely not meant
}

// Upstream is a model server of a node's own machine.
type Upstream struct {
	Name   string // "" for one
	URL    string // its root, without a slash at the end and without /v1
	Format core.Format
	APIKey core.Secret
	Slots  core.Opt[int64]
	Queue  core.Opt[int64]
	Fixed  bool
	Offers []core.NodeModel
}

// EveryModel as the model of a node's offer is each that has none of its own.
const EveryModel core.Model = "*"

// DefaultNode is an empty file of a node. It is the only place of defaults.
func DefaultNode() Node { return Node{Data: "headway-node", LogLevel: slog.LevelInfo} }

// LoadNode reads the file of a node, as Load does.
func LoadNode(path string, env func(string) (string, bool)) (*Node, error) {
	data, err := readFile(path, "--join and --upstream do without one")
	if err != nil {
		return nil, err
	}
	return ParseNode(path, data, env)
}

// ParseNode reads data as the file of a node, as Parse does.
func ParseNode(name string, data []byte, env func(string) (string, bool)) (*Node, error) {
	d := nodeDraft{Node: DefaultNode()}
	d.Path, d.Data = name, filepath.Join(filepath.Dir(name), d.Data)
	notes, err := readDraft(name, data, env, nodeRecord(), &d)
	if err != nil {
		return nil, err
	}
	d.Notes = notes
	for i := range d.upstreams {
		d.Upstreams = append(d.Upstreams, d.upstreams[i].build())
	}
	return &d.Node, nil
}

// NodeSchema is the JSON Schema of the file of a node.
func NodeSchema() []byte {
	d := nodeDraft{Node: DefaultNode()}
	return asSchema("node.yaml", nodeRecord().schema(&d))
}

// nodeDraft is the file of a node while it is read.
type nodeDraft struct {
	Node
	upstreams []upstream
}

// upstream is an Upstream while it is read.
type upstream struct {
	Upstream
	offers []offer
}

func (u *upstream) build() Upstream {
	out := u.Upstream
	for _, o := range u.offers {
		out.Offers = append(out.Offers, core.NodeModel{Model: o.Model, Upstream: o.UpstreamModel, Aliases: o.Aliases,
			Price: o.Price, Limits: o.Limits, Features: o.Features, Labels: o.Labels})
	}
	return out
}

func nodeRecord() value[nodeDraft] {
	return record([]field[nodeDraft]{
		key("join", "The join string that `headway nodes enrol` printed on the edge. It is used once; left out, or a ${NAME} that is not set: what the data folder keeps of an earlier start.",
			adminToken(), func(d *nodeDraft) *core.Secret { return &d.Join }),
		key("data", "The folder that keeps the node's credential, and what the edge has not taken yet. Relative to this file.",
			folder(), func(d *nodeDraft) *string { return &d.Data }),
		key("upstreams", "The model servers of this machine.",
			list(upstreamRecord(), 1), func(d *nodeDraft) *[]upstream { return &d.upstreams }),
		key("log", "What is logged.", record([]field[nodeDraft]{
			key("level", "The least level: debug, info, warn or error. No level shows a prompt, an answer or a secret.",
				level(), func(d *nodeDraft) *slog.Level { return &d.LogLevel }),
		}, nil), func(d *nodeDraft) *nodeDraft { return d }),
	}, checkUpstreams)
}

// nodeFormats are those of a node's model servers.
var nodeFormats = []string{string(core.FormatLlamaCpp), string(core.FormatOllama), string(core.FormatOpenAI)}

// MostSlots bounds slots and queue, as the edge does.
const MostSlots = 10_000

func upstreamRecord() value[upstream] {
	return record([]field[upstream]{
		key("url", "Where it answers: its root, such as http://127.0.0.1:11434. A /v1 at its end is not needed.",
			word[string]("an address", object{"type": "string", "pattern": `^[hH][tT][tT][pP][sS]?://|` + referencePattern},
				func(string) fault { return fault{} }), // judged by checkUpstream
			func(u *upstream) *string { return &u.URL }).required(),
		key("name", "What it is called beside others: the provider is then NODE.NAME in lists. One of them needs none.",
			nodeName[string](), func(u *upstream) *string { return &u.Name }),
		key("format", "What it is: llamacpp, ollama or openai (any server that is compatible with it). Left out: found out by asking it.",
			choice[core.Format]("format", nodeFormats), func(u *upstream) *core.Format { return &u.Format }),
		key("api_key", "Its own credential, where it wants one: ${NAME} or ${file:PATH}. It stays on this machine.",
			secret(1), func(u *upstream) *core.Secret { return &u.APIKey }),
		key("slots", "The calls that it works on at once. Left out: what it says itself, else what its kind usually has.",
			maybe(whole(1, MostSlots)), func(u *upstream) *core.Opt[int64] { return &u.Slots }),
		key("queue", "The calls that may wait for a slot; one more goes elsewhere. 0: none waits.",
			maybe(whole(0, MostSlots)), func(u *upstream) *core.Opt[int64] { return &u.Queue }),
		key("fixed", "Whether only the models of offers are there, and the server is not asked which it has.",
			flag(), func(u *upstream) *bool { return &u.Fixed }),
		key("offers", "What there is to say of its models: names, prices, limits. Those that are not named are served too, for free.",
			list(nodeOfferRecord(), 0), func(u *upstream) *[]offer { return &u.offers }),
	}, checkUpstream)
}

// nodeOfferRecord is an offer as a node may say it: free unless it has a price, as
// it is the user's own machine; its provider, capacity and cache are the node's.
func nodeOfferRecord() value[offer] {
	var fields []field[offer]
	for _, f := range offerFields() {
		switch f.name {
		case "id", "capacity", "include_usage", "cache_min_tokens", "cache_lifetime":
			continue
		case "model":
			f = key("model", "What clients ask for; \"*\" is every model of the server that has no entry of its own.",
				offered(), func(o *offer) *core.Model { return &o.Model }).required()
		case "upstream_model":
			f.doc = "What the server calls it; left out: the same."
		case "input_usd_per_mtok", "output_usd_per_mtok":
			f.must, f.doc = false, strings.TrimSuffix(f.doc, `; "0" where calls are free.`)+`; left out: 0, as it is your own machine.`
		}
		fields = append(fields, f)
	}
	return record(fields, func(b *binder, at place, o *offer) {
		if o.Model == EveryModel {
			for name, there := range map[string]bool{"upstream_model": o.UpstreamModel != "", "aliases": len(o.Aliases) > 0} {
				if there {
					b.fail(at.child(name), "give the model an entry of its own", "%q is every model, which have names of their own", EveryModel)
				}
			}
			return
		}
		checkOffer(b, at, o)
	})
}

// checkUpstream looks at one as a whole.
func checkUpstream(b *binder, at place, u *upstream) {
	if address := at.child("url"); address.node != at.node && address.node.Kind == yaml.ScalarNode {
		root, err := UpstreamURL(u.URL)
		var e *core.Error
		if errors.As(err, &e) { // its text shows nothing of the address, which may hold a secret
			b.fail(address, e.Hint, "%s", e.Msg)
		}
		u.URL = root
	}
	if u.Fixed && len(u.offers) == 0 {
		b.fail(at.child("fixed"), "name its models under offers", "leaves it without a model")
	}
	leads := map[core.Model]int{} // which offer each name is of
	for i := range u.offers {
		o, here := &u.offers[i], at.child("offers").item(i)
		if u.Fixed && o.Model == EveryModel {
			b.fail(here.child("model"), "name the models", "%q stands for what the server is asked for, and with fixed it is not asked", EveryModel)
		}
		names := append([]core.Model{o.Model}, o.Aliases...)
		for j, name := range names {
			where := here.child("model")
			if j > 0 {
				where = here.child("aliases").item(j - 1)
			}
			if first, taken := leads[name]; taken && name != "" {
				b.fail(where, "a name leads to one model of a server", "%s is a name of %s already", shorten(string(name)), at.child("offers").item(first).path)
				continue
			}
			leads[name] = i
		}
	}
}

// checkUpstreams looks at what several say together.
func checkUpstreams(b *binder, at place, d *nodeDraft) {
	seen := map[string]place{}
	for i, u := range d.upstreams {
		here := at.child("upstreams").item(i)
		where := here.child("name")
		if u.Name == "" && seen[""].node != nil {
			b.fail(where, "give it a name", "has no name, as %s", seen[""].path)
			continue
		}
		if u.Name == "" {
			seen[""] = here
			continue
		}
		once(b, seen, u.Name, where, "is the name of another one")
	}
}

// UpstreamURL brings the address of a model server to the form that Upstream has.
// The error is Invalid.
func UpstreamURL(text string) (string, error) {
	text = strings.TrimRight(text, "/")
	if err := core.CheckURL(text, false, true); err != nil {
		return "", err
	}
	return strings.TrimRight(strings.TrimSuffix(text, "/v1"), "/"), nil
}

// NodeName tells whether a text can be the name of a node, or of one of its model
// servers (FLEET.md §1).
func NodeName(s string) bool {
	return s != "" && len(s) <= 63 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" && s[0] != '-' && s[len(s)-1] != '-'
}

func nodeName[V ~string]() value[V] {
	return word[V]("a name", object{"type": "string", "pattern": `^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$|` + referencePattern},
		func(s string) fault {
			if !NodeName(s) {
				return fault{"is no name of a node", "up to 63 small letters, digits and hyphens, no hyphen first or last"}
			}
			return fault{}
		})
}

// Enrolment is the body of POST /admin/v1/nodes.
type Enrolment struct {
	Name    core.NodeID
	Owner   string
	Address string // host:port that the node is to dial; "": the edge's own
}

// Enrol reads the JSON body of POST /admin/v1/nodes. The error is Problems with
// paths like "nodes.name".
func Enrol(data []byte) (Enrolment, error) {
	var e Enrolment
	err := bindJSON("nodes", data, record([]field[Enrolment]{
		key("name", "What the node is called, in lists and as the provider of its models.",
			nodeName[core.NodeID](), func(e *Enrolment) *core.NodeID { return &e.Name }).required(),
		key("owner", "Who the machine belongs to: it does not serve that owner's own calls.",
			label[string]("a name"), func(e *Enrolment) *string { return &e.Owner }),
		key("address", "The host:port that the node dials, where it is not nats.advertise.",
			dialled(), func(e *Enrolment) *string { return &e.Address }),
	}, nil), &e)
	return e, err
}

// dialled is an address that somebody else dials.
func dialled() value[string] {
	v := hostPortLike("write the name or the address of this machine, and its port, like box.example.com:4222")
	read := v.read
	v.read = func(b *binder, at place, to *string) bool {
		var s string
		if !read(b, at, &s) {
			return false
		}
		host, port, _ := net.SplitHostPort(s) // it was read
		if host == "" || port == "0" || net.ParseIP(host).IsUnspecified() {
			return b.fail(at, "write the name or the address of this machine, and its port", "is no address that a node can dial")
		}
		*to = s
		return true
	}
	return v
}
