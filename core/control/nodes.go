package control

import (
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"headway/core"
)

// Fleet is what is known of the nodes that were here since the start; core/fleet
// has it.
type Fleet interface {
	// Offered are the providers and offers of all of them, also of those that are
	// lost now. The values never change.
	Offered() ([]*core.Provider, []*core.Offer)
	// Line is the line of calls before the model server that a provider is.
	Line(core.ProviderID) core.Line
	// Status is how one stands; false: it was not here.
	Status(core.NodeID) (core.NodeStatus, bool)
	// Forget makes the offers of one go away for good.
	Forget(core.NodeID)
	// Calls are what nodes told of the attempts of a call beside its receipt.
	Calls(core.CallID) ([]core.NodeCall, error)
	// DropCalls deletes those of calls of before a time.
	DropCalls(before time.Time) (int, error)
}

// Gate is where nodes come in.
type Gate interface {
	// Open listens; once it does, it does nothing.
	Open() error
	// Address is the host:port that nodes dial; "" before Open.
	Address() string
	// Join writes the join string of a node; address, where not "", is what it dials
	// in the place of Address.
	Join(name core.NodeID, address string, token core.Secret) string
	// Disconnect ends the sessions of a node at once.
	Disconnect(core.NodeID)
}

// tokenLife is how long a join string can be used (SPEC §14).
const tokenLife = 10 * time.Minute

// node is a machine that an operator invited, as the vault keeps it.
type node struct {
	Name     core.NodeID         `json:"name"`
	Owner    string              `json:"owner,omitempty"`
	Enrolled time.Time           `json:"enrolled_at"`   // UTC
	Token    string              `json:"token"`         // the keyed hash of the join string's token, hexadecimal
	Expires  time.Time           `json:"expires_at"`    // of the token, UTC
	Key      string              `json:"key,omitempty"` // the public half of its NKey; "" until it joined
	Joined   core.Opt[time.Time] `json:"joined_at,omitzero"`
	Revoked  core.Opt[time.Time] `json:"revoked_at,omitzero"`
	Burnt    []string            `json:"burnt,omitempty"` // the keys of those of that name who were revoked
}

// mostBurnt is how many revoked keys of one name are remembered, the newest.
const mostBurnt = 256

// burnt tells whether a key was revoked: somebody else may have it.
func (n *node) burnt(key string) bool {
	return n.Revoked.OK && n.Key == key || slices.Contains(n.Burnt, key)
}

// allBurnt are the keys that may not come once another has the name of a node that was
// revoked, or never came.
func (n *node) allBurnt() []string {
	keys := slices.Clone(n.Burnt)
	if n.Key != "" {
		keys = append(keys, n.Key)
	}
	return keys[max(0, len(keys)-mostBurnt):]
}

// here tells whether the node joined and may come.
func (n *node) here() bool { return n.Key != "" && !n.Revoked.OK }

// invited tells whether its join string can still be used.
func (n *node) invited(now time.Time) bool {
	return n.Key == "" && !n.Revoked.OK && now.Before(n.Expires)
}

// has tells whether a token is that of its join string, by its sum.
func (n *node) has(sum string) bool { return hmac.Equal([]byte(n.Token), []byte(sum)) }

// holds tells whether the node has its name for itself.
func (n *node) holds(now time.Time) bool { return n.here() || n.invited(now) }

func loadNode(m made, name string, value []byte) error {
	n := new(node)
	if err := json.Unmarshal(value, n); err != nil {
		return err
	}
	if n.Name != core.NodeID(name) {
		return errors.New("it is the record of another node")
	}
	m.nodes[n.Name] = n
	return nil
}

// put is the record of a node, which goes into what was made.
func (m made) put(n *node) ([]core.Record, error) {
	value, err := json.Marshal(n)
	m.nodes[n.Name] = n
	return []core.Record{{Kind: vaultNode, Name: string(n.Name), Value: value}}, err
}

// OpenNodes opens the port for nodes where one may come: it is not opened before
// the first is enrolled.
func (d *Desk) OpenNodes() error {
	for _, n := range d.force.Load().made.nodes {
		if d.Gate != nil && n.holds(d.Clock()) {
			return d.Gate.Open()
		}
	}
	return nil
}

// NodesChanged puts what nodes offer now into force. It is not in the audit log:
// no operator changed anything.
func (d *Desk) NodesChanged() {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.force.Load()
	s, err := d.build(now.file, now.made)
	if err != nil {
		d.Log.Error("what nodes offer is not in force", "reason", err)
		return
	}
	d.install(s)
}

// Node tells whether a node may come, and whose it is.
func (d *Desk) Node(name core.NodeID) (owner string, ok bool) {
	n := d.force.Load().made.nodes[name]
	if n == nil || !n.here() {
		return "", false
	}
	return n.Owner, true
}

// AdmitNode tells whose an NKey's public half is. A key that is not known yet is
// taken for the node whose token comes with it: the token is then used up, and
// used again only with the same key. A key that was revoked never comes again. The
// error's text is for the log; its kind is Forbidden, or Unavailable where it says
// nothing of the node.
func (d *Desk) AdmitNode(public, token string) (core.NodeID, error) {
	refuse := func(format string, args ...any) (core.NodeID, error) {
		return "", core.Errorf(core.Forbidden, format, args...)
	}
	switch name, revoked := d.keyOf(public); {
	case revoked:
		return refuse("node %s was revoked, and its key with it: a new join string wants a new key", name)
	case name != "":
		return name, nil
	case token == "":
		return refuse("a key that no node has, and no token")
	}
	sum := d.tokenSum(token)
	for _, n := range d.force.Load().made.nodes {
		if n.has(sum) {
			name := n.Name
			err := d.change("node "+string(name), func(m made) (step, error) { return d.join(m, name, public, sum) })
			var e *core.Error
			if err != nil && (!errors.As(err, &e) || e.Kind != core.Forbidden) { // it says nothing of the node, which may come again
				err = &core.Error{Kind: core.Unavailable, Msg: "the key of node " + string(name) + " cannot be kept", Err: err}
			}
			if err != nil {
				return "", err
			}
			return name, nil
		}
	}
	return refuse("a key that no node has, and a token that is of no join string")
}

// keyOf is the node that has a key; revoked: and may not come with it any more.
func (d *Desk) keyOf(public string) (name core.NodeID, revoked bool) {
	for _, n := range d.force.Load().made.nodes {
		switch {
		case public == "":
		case n.burnt(public):
			return n.Name, true
		case n.Key == public:
			name = n.Name
		}
	}
	return name, false
}

// join makes a key that of the node whose token it came with.
func (d *Desk) join(m made, name core.NodeID, public, sum string) (step, error) {
	now, old := d.Clock(), m.nodes[name]
	switch {
	case old == nil || !old.has(sum):
		return step{}, core.Errorf(core.Forbidden, "a token that is of no join string")
	case old.Revoked.OK:
		return step{}, core.Errorf(core.Forbidden, "node %s was revoked", name)
	case old.Key == public:
		return step{}, nil // another connection of it was faster
	case old.Key != "":
		return step{}, core.Errorf(core.Forbidden, "the join string of node %s was used by another key", name)
	case !now.Before(old.Expires):
		return step{}, core.Errorf(core.Forbidden, "the join string of node %s is older than %v", name, tokenLife)
	}
	n := *old
	n.Key, n.Joined = public, core.Some(now.UTC())
	puts, err := m.put(&n)
	if err != nil {
		return step{}, err
	}
	entry, _ := Entry{Action: "node.join", Target: string(name)}.changed(
		object{Fields: fields{"state": core.NodeInvited}}, object{Fields: fields{"state": "joined", "key": public}})
	return step{puts: puts, entry: entry}, nil
}

// tokenSum is what is kept of a token.
func (d *Desk) tokenSum(token string) string {
	sum := d.Pepper.Hash("headway: the token of a join string\n" + token)
	return hex.EncodeToString(sum[:])
}

// Enrolment is the body of POST nodes.
type Enrolment struct {
	Name    core.NodeID
	Owner   string
	Address string // host:port that the node dials; "": the gate's own
}

// Invitation is the answer to it. Its join string is shown nowhere else.
type Invitation struct {
	Name    core.NodeID `json:"name"`
	Join    string      `json:"join"`
	Address string      `json:"address"`
	Expires time.Time   `json:"expires_at"` // UTC
}

// enrolNode invites a node.
func (d *Desk) enrolNode(who string, body []byte) (Invitation, error) {
	e, err := d.Parse.Node(body)
	if err != nil {
		return Invitation{}, err
	}
	if d.Gate == nil {
		return Invitation{}, core.Errorf(core.Unavailable, "this server takes no nodes")
	}
	token := core.NewSecret(rand.Text())
	now := d.Clock().UTC()
	n := &node{Name: e.Name, Owner: e.Owner, Enrolled: now, Token: d.tokenSum(token.Reveal()), Expires: now.Add(tokenLife)}
	err = d.change(who, func(m made) (step, error) {
		if old := m.nodes[n.Name]; old != nil {
			if old.holds(now) {
				return step{}, enrolled(old)
			}
			n.Burnt = old.allBurnt()
		}
		if p := namesake(n.Name, slices.Concat(d.force.Load().file.Providers, made.list(m))); p != nil {
			err := conflict("provider %q has that name, and a node's providers are called by the node", p.ID)
			err.Hint = "give the node another name"
			return step{}, err
		}
		puts, err := m.put(n)
		if err != nil {
			return step{}, err
		}
		if err := d.Gate.Open(); err != nil { // before anybody is told to come
			return step{}, err
		}
		return step{puts: puts, entry: Entry{Action: "node.enrol", Target: string(n.Name)}.made(n.object(core.NodeInvited))}, nil
	})
	if err != nil {
		return Invitation{}, err
	}
	return Invitation{Name: n.Name, Join: d.Gate.Join(n.Name, e.Address, token), Address: cmp.Or(e.Address, d.Gate.Address()), Expires: n.Expires}, nil
}

// enrolled is the error for a name that is taken.
func enrolled(old *node) error {
	e := conflict("there is a node %q already", old.Name)
	e.Hint = "revoke it first, or take another name"
	if old.Key == "" {
		e.Msg += ", which was invited and has not joined"
		e.Hint = "use the join string that was printed, or revoke it first"
	}
	return e
}

// list are the providers that operators made.
func (m made) list() (all []*core.Provider) {
	for _, id := range sortedKeys(m.providers) {
		all = append(all, m.providers[id])
	}
	return all
}

// namesake is a provider that a node of that name cannot be beside: the providers
// of a node are NODE and NODE.UPSTREAM.
func namesake(name core.NodeID, providers []*core.Provider) *core.Provider {
	for _, p := range providers {
		if string(p.ID) == string(name) || strings.HasPrefix(string(p.ID), string(name)+".") {
			return p
		}
	}
	return nil
}

// object is a node as the audit log shows it.
func (n *node) object(state string) object {
	f := fields{"name": string(n.Name), "state": state}
	if n.Owner != "" {
		f["owner"] = n.Owner
	}
	if state == core.NodeInvited {
		f["expires_at"] = n.Expires.Format(time.RFC3339)
	}
	return object{Fields: f}
}

// revokeNode ends a node for good: its key, its sessions, its offers.
func (d *Desk) revokeNode(who string, name core.NodeID) error {
	done := false
	err := d.change(who, func(m made) (step, error) {
		old := m.nodes[name]
		switch {
		case old == nil:
			return step{}, unknown("node", shorten(string(name)))
		case old.Revoked.OK:
			return step{}, nil
		}
		n := *old
		n.Revoked = core.Some(d.Clock().UTC())
		puts, err := m.put(&n)
		if err != nil {
			return step{}, err
		}
		was := "joined"
		if n.Key == "" {
			was = core.NodeInvited
		}
		done = true
		entry, _ := Entry{Action: "node.revoke", Target: string(name)}.changed(
			object{Fields: fields{"state": was}}, object{Fields: fields{"state": core.NodeRevoked}})
		return step{puts: puts, entry: entry}, nil
	})
	if err == nil && done && d.Gate != nil {
		d.Fleet.Forget(name)
		d.Gate.Disconnect(name)
	}
	return err
}

// nodeView is how a node stands; false: a join string that was never used, and is
// too old for it.
func (d *Desk) nodeView(n *node) (core.NodeStatus, bool) {
	v := core.NodeStatus{State: core.NodeLost}
	switch {
	case n.Revoked.OK:
		v.State = core.NodeRevoked
	case n.Key == "":
		if !n.invited(d.Clock()) {
			return v, false
		}
		v.State, v.ExpiresAt = core.NodeInvited, core.Some(n.Expires)
	default:
		if d.Fleet != nil {
			if is, ok := d.Fleet.Status(n.Name); ok {
				v = is
			}
		}
	}
	v.Name, v.Owner, v.EnrolledAt = n.Name, n.Owner, core.Some(n.Enrolled)
	if v.Models == nil {
		v.Models = []core.Model{}
	}
	return v, true
}

// nodes are all that there are to be listed, by their names.
func (d *Desk) nodes() (all []core.NodeStatus) {
	kept := d.force.Load().made.nodes
	for _, name := range sortedKeys(kept) {
		if v, ok := d.nodeView(kept[name]); ok {
			all = append(all, v)
		}
	}
	return all
}

func (d *Desk) listNodes(r *http.Request) (any, error) {
	return page(r, d.nodes(), func(n core.NodeStatus) string { return string(n.Name) })
}

func (d *Desk) node(name core.NodeID) (core.NodeStatus, error) {
	if n := d.force.Load().made.nodes[name]; n != nil {
		if v, ok := d.nodeView(n); ok {
			return v, nil
		}
	}
	return core.NodeStatus{}, unknown("node", shorten(string(name)))
}

func (d *Desk) getNode(r *http.Request) (any, error) {
	return d.node(core.NodeID(r.PathValue("name")))
}

func (d *Desk) postNode(r *http.Request) (any, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	v, err := d.enrolNode(whoOf(r), body)
	if err != nil {
		return nil, err
	}
	return made201{v}, nil
}

func (d *Desk) dropNode(r *http.Request) (any, error) {
	name := core.NodeID(r.PathValue("name"))
	if err := d.revokeNode(whoOf(r), name); err != nil {
		return nil, err
	}
	return d.node(name)
}

// nodeProvider is a provider of a node in force, or nil.
func (d *Desk) nodeProvider(id core.ProviderID) *core.Provider {
	for _, e := range d.Gateway.Setup().Catalogue.Entries() {
		if p := e.Offer.Provider; p.ID == id && p.Node != "" {
			return p
		}
	}
	return nil
}

// ofNode is the error for an edit of what a node says.
func ofNode(what, id string, name core.NodeID) error {
	e := conflict("%s %q is of the node %q and cannot be deleted here", what, id, name)
	e.Hint = "pause its offers, or revoke the node"
	return e
}

// fromNodes adds what nodes offer to the providers and offers of the file and the
// admin API. An offer whose id is taken is left out.
func (d *Desk) fromNodes(s *snapshot, m made, providers []*core.Provider, offers []*core.Offer) ([]*core.Provider, []*core.Offer) {
	if d.Fleet == nil {
		return providers, offers
	}
	taken, known := map[core.OfferID]bool{}, map[*core.Provider]bool{}
	for _, o := range offers {
		taken[o.ID] = true
	}
	ps, os := d.Fleet.Offered()
	for _, p := range ps {
		// One that was revoked is still there for a moment.
		if n := m.nodes[p.Node]; n != nil && n.here() {
			known[p] = true
			providers = append(providers, p)
		}
	}
	for _, o := range os {
		switch {
		case !known[o.Provider]:
		case taken[o.ID] || o.Model.IsAuto() || slices.ContainsFunc(o.Aliases, core.Model.IsAuto):
			s.clashes = append(s.clashes, o)
		default:
			taken[o.ID] = true
			offers = append(offers, o)
		}
	}
	return providers, offers
}

const clashReason = "another has its id, or it has the Auto Router's name"

// clashNotes are notes on the offers of nodes that are left out.
func (d *Desk) clashNotes() (notes []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range sortedKeys(d.clashes) {
		notes = append(notes, fmt.Sprintf("offer %s of a node is left out: %s", id, clashReason))
	}
	return notes
}

// sayClashes says which offers of nodes are left out, each once for as long as it
// is.
func (d *Desk) sayClashes(clashes []*core.Offer) {
	now := map[core.OfferID]bool{}
	for _, o := range clashes {
		now[o.ID] = true
		if !d.clashes[o.ID] {
			d.Log.Warn("an offer of a node is left out: "+clashReason, "offer", o.ID, "node", o.Provider.Node)
		}
	}
	d.clashes = now
}
