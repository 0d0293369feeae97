package bus

import (
	"cmp"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"headway/core"
)

// Who the edge's own connections are.
const (
	userEdge   = "edge"   // the bus
	userEvents = "events" // is told of connections that end
)

// answerWithin is how long a node may take to answer what the edge asked it.
const answerWithin = time.Minute

// gate decides who may connect, and numbers the sessions of nodes.
type gate struct {
	Options
	secret string          // of the edge's own connections
	ready  chan struct{}   // closed when Open is through: nodes wait for it
	over   chan struct{}   // closed by stop
	done   chan struct{}   // closed when the goroutine that tells has ended; nil before run
	limit  *limiter        // of what strangers can have logged
	server *server.Server  // set before ready is closed, as the next two
	system *server.Account // where the server tells of connections
	events *nats.Conn      // hears of them
	own    *nats.Conn      // the bus's

	mu       sync.Mutex
	stopped  bool
	sessions map[uint64]session // by the server's number of the connection
	entering map[uint64]bool    // connections that are being checked; true: ended meanwhile
	last     uint64             // the newest session's number
	kicks    uint64             // how often Disconnect was called
	ousted   map[core.NodeID]ousted
	queue    []notice // what is to be told, in order
	wake     chan struct{}
}

type session struct {
	node   core.NodeID
	number uint64
	ousted bool // a newer one of the node comes: its connection is being closed
}

// ousted is how often a connection of a node was closed for a newer one.
type ousted struct {
	said  time.Time // when the log was told last
	since int       // how often since
}

// oustedWhile is how often at most the log is told of it for one node: two machines that
// have one credential throw each other out again and again.
const oustedWhile = time.Minute

// oustedTime is how long a connection that was told so may take to end by itself.
const oustedTime = 200 * time.Millisecond

// notice is one call of Joined or Left.
type notice struct {
	session
	left bool
	told chan struct{} // closed when it was told; nil: nobody waits
}

func newGate(o Options) *gate {
	return &gate{Options: o, secret: rand.Text(), ready: make(chan struct{}), over: make(chan struct{}), limit: &limiter{clock: o.Clock},
		sessions: map[uint64]session{}, entering: map[uint64]bool{}, ousted: map[core.NodeID]ousted{}, wake: make(chan struct{}, 1)}
}

// Check is asked by the server for each connection, on a goroutine of that
// connection: what it waits for holds up nobody else.
func (g *gate) Check(c server.ClientAuthentication) bool {
	address := c.RemoteAddress()
	if address == nil || c.Kind() != server.CLIENT {
		return false // it has ended
	}
	if address.Network() == "pipe" {
		return g.checkOwn(c)
	}
	if !g.checking(c.GetID()) {
		g.warn("a connection to the bus was refused", "from", address.String(), "reason", "it came in already, and asks to come in again")
		return false
	}
	told, err := g.checkNode(c)
	g.mu.Lock()
	delete(g.entering, c.GetID())
	g.mu.Unlock()
	switch {
	case err == nil && g.begin(told):
		return true
	case err == nil: // the bus is closing
		_ = g.server.DisconnectClientByID(c.GetID()) // as below
	case passing(err):
		g.Log.Error("a node could not be admitted now", "from", address.String(), "reason", err, "cause", cause(err))
		_ = g.server.DisconnectClientByID(c.GetID()) // without the word that it is refused: it comes again
	default:
		g.warn("a connection to the bus was refused", "from", address.String(), "reason", short(err.Error()))
	}
	return false
}

// checking notes that a connection asks to come in; false: it is a session.
func (g *gate) checking(cid uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.sessions[cid]; ok {
		return false
	}
	g.entering[cid] = false
	return true
}

// checkOwn admits the edge's own connections.
func (g *gate) checkOwn(c server.ClientAuthentication) bool {
	o := c.GetOpts()
	if subtle.ConstantTimeCompare([]byte(o.Password), []byte(g.secret)) != 1 {
		return false
	}
	u := &server.User{Username: o.Username}
	if o.Username == userEvents {
		u.Account = g.system
	}
	c.RegisterUser(u)
	return true
}

// checkNode makes a connection a session of the node that it is of; what it gives is
// closed once Joined was told.
func (g *gate) checkNode(c server.ClientAuthentication) (<-chan struct{}, error) {
	select {
	case <-g.ready:
	case <-g.over:
		return nil, errClosing()
	}
	o := c.GetOpts()
	if c.GetTLSConnectionState() == nil {
		return nil, errors.New("it does not speak TLS")
	}
	if err := signed(o.Nkey, o.Sig, c.GetNonce()); err != nil {
		return nil, err
	}
	for {
		g.mu.Lock()
		kicks := g.kicks
		g.mu.Unlock()
		node, err := g.Admit(o.Nkey, o.Token)
		if err != nil {
			return nil, err
		}
		if !validName(node) {
			return nil, core.Errorf(core.Internal, "%q is no name of a node", short(string(node)))
		}
		c.RegisterUser(&server.User{Username: string(node), Permissions: permissions(node)})
		for {
			older, told, err := g.enter(c.GetID(), node, kicks)
			if len(older) > 0 {
				g.oust(node, older, address(c))
				continue
			}
			if told != nil || err != nil {
				return told, err
			}
			break
		}
	}
}

// address is where a connection comes from, for the log.
func address(c server.ClientAuthentication) string {
	if a := c.RemoteAddress(); a != nil {
		return a.String()
	}
	return ""
}

// leaving waits a little for connections to end by themselves: what is written to one
// that is closed at once may not be heard there.
func (g *gate) leaving(cids []uint64) {
	late := time.NewTimer(oustedTime)
	defer late.Stop()
	look := time.NewTicker(oustedTime / 20)
	defer look.Stop()
	for slices.ContainsFunc(cids, func(cid uint64) bool { return g.server.GetClient(cid) != nil }) {
		select {
		case <-look.C:
		case <-late.C:
			return
		case <-g.over:
			return
		}
	}
}

// enter makes a connection a session. older are connections of the node that must be
// closed first. Nothing of all: a node was disconnected since kicks, perhaps this one,
// so that its key may be void.
func (g *gate) enter(cid uint64, node core.NodeID, kicks uint64) (older []uint64, told chan struct{}, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.stopped && !g.entering[cid] && kicks == g.kicks {
		for other, s := range g.sessions {
			if s.node == node && !s.ousted {
				s.ousted = true
				g.sessions[other] = s
				older = append(older, other)
			}
		}
		if len(older) > 0 {
			return older, nil, nil
		}
	}
	switch {
	case g.stopped:
		return nil, nil, errClosing()
	case g.entering[cid]:
		return nil, nil, core.Errorf(core.Unavailable, "node %s went away while it was admitted", node)
	case kicks != g.kicks:
		return nil, nil, nil
	}
	g.last++
	s := session{node: node, number: g.last}
	g.sessions[cid] = s
	told = make(chan struct{})
	g.tell(notice{session: s, told: told})
	return nil, told, nil
}

// oust closes connections of a node before a newer one becomes its session: what came
// by them and by it would be taken for one machine's, and both would get every call.
// Each is told why first (FLEET.md §1).
func (g *gate) oust(node core.NodeID, older []uint64, from string) {
	live := older[:0]
	for _, cid := range older {
		if g.server.GetClient(cid) != nil { // else it has ended, and only its end was not heard yet
			live = append(live, cid)
		}
	}
	if len(live) == 0 {
		return
	}
	if err := g.own.Publish(jobPrefix+string(node)+oustedSubject, nil); err == nil {
		_ = g.own.FlushTimeout(connectWithin)
		g.leaving(live)
	}
	for _, cid := range live {
		_ = g.server.DisconnectClientByID(cid) // an error says that it has ended already
	}
	now := g.Clock()
	g.mu.Lock()
	o := g.ousted[node]
	o.since++
	let, times := o.said.IsZero() || now.Sub(o.said) >= oustedWhile, o.since
	if let {
		o = ousted{said: now}
	}
	g.ousted[node] = o
	g.mu.Unlock()
	if let {
		g.Log.Warn("two connections with one node's credential: the older was closed", "node", node, "from", from, "times", times,
			"hint", "where it goes on, somebody else has that node's folder: revoke it with `headway nodes revoke "+string(node)+"` and enrol it anew")
	}
}

func errClosing() error { return core.Errorf(core.Unavailable, "the bus is closing") }

// passing tells whether an error of Admit says nothing of the node.
func passing(err error) bool {
	var e *core.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Kind {
	case core.Unavailable, core.Internal, core.Timeout, core.Busy, core.Canceled:
		return true
	}
	return false
}

// signed tells whether the holder of an NKey signed the nonce.
func signed(public, signature string, nonce []byte) error {
	if public == "" {
		return errors.New("it has no key")
	}
	if !nkeys.IsValidPublicUserKey(public) {
		return errors.New("its key is not of a user")
	}
	key, err := nkeys.FromPublicKey(public)
	if err != nil {
		return errors.New("its key is malformed")
	}
	raw, err := base64.RawURLEncoding.DecodeString(signature)
	if err != nil {
		return errors.New("its signature is malformed")
	}
	if len(nonce) == 0 || key.Verify(nonce, raw) != nil {
		return errors.New("it did not sign with its key")
	}
	return nil
}

// begin waits until Joined was told, so that what it subscribed to misses nothing.
func (g *gate) begin(told <-chan struct{}) bool {
	select {
	case <-told:
		return true
	case <-g.over:
		return false
	}
}

// permissions are what FLEET.md §1 lets a node do.
func permissions(node core.NodeID) *server.Permissions {
	return &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: []string{nodePrefix + string(node) + ".>"}},
		Subscribe: &server.SubjectPermission{Allow: []string{jobPrefix + string(node) + ".>"}},
		Response:  &server.ResponsePermission{MaxMsgs: 1, Expires: answerWithin},
	}
}

// ended hears from the server that a connection has ended, of whomever.
func (g *gate) ended(m *nats.Msg) {
	var event struct {
		Client struct {
			ID uint64 `json:"id"`
		} `json:"client"`
	}
	if json.Unmarshal(m.Data, &event) == nil {
		g.end(event.Client.ID)
	}
}

// end ends the session of a connection, where it is one.
func (g *gate) end(cid uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s, ok := g.sessions[cid]; ok {
		delete(g.sessions, cid)
		g.tell(notice{session: s, left: true})
	} else if _, ok := g.entering[cid]; ok {
		g.entering[cid] = true
	}
}

// sweep ends the sessions whose connections have ended untold.
func (g *gate) sweep() {
	g.mu.Lock()
	var all []uint64
	for cid := range g.sessions {
		all = append(all, cid)
	}
	g.mu.Unlock()
	for _, cid := range all {
		if g.server.GetClient(cid) == nil {
			g.end(cid)
		}
	}
}

// tell queues a notice; the mutex is held.
func (g *gate) tell(n notice) {
	g.queue = append(g.queue, n)
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// run starts the goroutine that calls Joined and Left, until finish.
func (g *gate) run() {
	g.done = make(chan struct{})
	go func() {
		defer close(g.done)
		for {
			g.mu.Lock()
			queue, over := g.queue, g.stopped && len(g.sessions) == 0
			g.queue = nil
			g.mu.Unlock()
			for _, n := range queue {
				if n.left {
					g.Left(n.node, n.number)
				} else {
					g.Joined(n.node, n.number)
					close(n.told)
				}
			}
			if over && len(queue) == 0 {
				return
			}
			if len(queue) == 0 {
				<-g.wake
			}
		}
	}()
}

// kick gives the connections of a node, and has those asked for again that are being
// admitted.
func (g *gate) kick(node core.NodeID) (cids []uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.kicks++
	for cid, s := range g.sessions {
		if s.node == node {
			cids = append(cids, cid)
		}
	}
	return cids
}

// nodeOf is whose a connection is; "" where that is not known.
func (g *gate) nodeOf(cid uint64) core.NodeID {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sessions[cid].node
}

// stop lets nobody in any more.
func (g *gate) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.stopped {
		g.stopped = true
		close(g.over)
	}
}

// finish tells that the sessions that are left have ended, and waits for a while until
// all has been told.
func (g *gate) finish() {
	g.mu.Lock()
	var rest []session
	for _, s := range g.sessions {
		rest = append(rest, s)
	}
	slices.SortFunc(rest, func(a, b session) int { return cmp.Compare(a.number, b.number) })
	clear(g.sessions)
	for _, s := range rest {
		g.tell(notice{session: s, left: true})
	}
	select {
	case g.wake <- struct{}{}:
	default:
	}
	g.mu.Unlock()
	if g.done == nil {
		return // Open did not get that far
	}
	late := time.NewTimer(closeWithin)
	defer late.Stop()
	select {
	case <-g.done:
	case <-late.C:
	}
}

// dropped tells of messages that one of the edge's subscriptions had no room for, once
// for each time that it falls behind.
func (g *gate) dropped(_ *nats.Conn, sub *nats.Subscription, err error) {
	if sub == nil {
		g.warn("the bus", "error", err)
		return
	}
	n, _ := sub.Dropped()
	g.warn("messages of nodes were dropped: what takes them is too slow", "subject", sub.Subject, "dropped", n, "error", err)
}

// rejected tells of a reply subject that its sender may not use.
func (g *gate) rejected(subject, reply string) {
	g.warn("a node asked for an answer to a subject that is not its own", "subject", short(subject), "reply", short(reply))
}

// warn is a log line that strangers can cause.
func (g *gate) warn(msg string, args ...any) { g.limit.warn(g.Log, msg, args...) }

// dial makes one of the edge's own connections, in the process. It is made again
// should it end; what is published meanwhile is an error, not kept.
func (g *gate) dial(user string, more ...nats.Option) (*nats.Conn, error) {
	return nats.Connect("", append([]nats.Option{nats.InProcessServer(g.server), nats.UserInfo(user, g.secret), nats.Name(user),
		nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond), nats.ReconnectJitter(0, 0), nats.ReconnectBufSize(-1),
		nats.Timeout(connectWithin), nats.PingInterval(0)}, more...)...)
}
