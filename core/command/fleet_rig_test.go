// The fleet_*_test.go play whole nodes: `headway serve` and `headway node` as
// processes of their own, over real sockets, before model servers of the test.
package command_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	fleetKey   = "fleet-key-0123456789"
	fleetModel = "mini"
)

// fleetRig is an edge, whose calls go to the nodes that joined it.
type fleetRig struct {
	*gateway
	bin    string
	config map[string]any
	client *http.Client
}

// newFleetRig starts an edge whose port for nodes is the same after each start. more
// changes its configuration before.
func newFleetRig(t *testing.T, more func(config map[string]any)) *fleetRig {
	t.Helper()
	r := &fleetRig{bin: buildHeadway(t), config: map[string]any{"listen": "127.0.0.1:0", "nats": map[string]any{"listen": freeAddress(t)},
		"routing": map[string]any{"strategy": "cheapest"}, "log": map[string]any{"level": "debug"}, "breaker": map[string]any{"out": "300ms"},
		"limits": map[string]any{"drain": "1s"}, "providers": []any{},
		"keys": []any{map[string]any{"name": "caller", "key": fleetKey}}}}
	if more != nil {
		more(r.config)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	t.Cleanup(transport.CloseIdleConnections)
	r.client = &http.Client{Transport: transport, Timeout: 4 * callLimit}
	r.start(t, t.TempDir())
	return r
}

// start starts the edge, anew where it has been killed.
func (r *fleetRig) start(t *testing.T, data string) {
	t.Helper()
	r.gateway = startGateway(t, r.bin, data, r.config, nil)
}

// freeAddress is an address of the loopback interface whose port is free.
func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// fleetNode is a node's process.
type fleetNode struct {
	*worker
	name, file string
	join       string
}

// invite enrols a node and gives its join string; address, where not "", is where
// the node finds the edge.
func (r *fleetRig) invite(t *testing.T, name, address string) string {
	t.Helper()
	body := map[string]any{"name": name}
	if address != "" {
		body["address"] = address
	}
	status, answer, err := r.admin(http.MethodPost, "/admin/v1/nodes", body)
	var invited struct{ Join string }
	if err == nil {
		err = json.Unmarshal(answer, &invited)
	}
	if err != nil || status != http.StatusCreated {
		t.Fatalf("node %s was not invited: status %d, %v: %s", name, status, err, answer)
	}
	return invited.Join
}

// join enrols and starts a node before a model server, and waits until it is up.
// settings are those of its upstream beside the address.
func (r *fleetRig) join(t *testing.T, name, address, server string, settings map[string]any) *fleetNode {
	t.Helper()
	n := r.prepare(t, name, address, server, settings)
	n.start(t, r)
	r.up(t, n)
	return n
}

// prepare enrols a node, and leaves it to the caller to start it.
func (r *fleetRig) prepare(t *testing.T, name, address, server string, settings map[string]any) *fleetNode {
	t.Helper()
	upstream := map[string]any{"url": server, "format": "openai", "slots": 300, "queue": 300}
	for k, v := range settings {
		upstream[k] = v
	}
	return &fleetNode{name: name, join: r.invite(t, name, address), file: nodeFile(t, map[string]any{"join": "${JOIN}", "data": "node",
		"log": map[string]any{"level": "debug"}, "upstreams": []any{upstream}})}
}

func (n *fleetNode) start(t *testing.T, r *fleetRig) {
	t.Helper()
	n.worker = startWorker(t, r.bin, n.file, append(os.Environ(), "JOIN="+n.join))
}

// up waits until a node is up and has its offers in force.
func (r *fleetRig) up(t *testing.T, n *fleetNode) {
	t.Helper()
	err := poll(func() error {
		select {
		case <-n.ended:
			return fmt.Errorf("node %s has ended", n.name)
		default:
		}
		v, err := r.get("/admin/v1/nodes/" + n.name)
		if err != nil || v["state"] != "up" {
			return fmt.Errorf("node %s is %v: %v", n.name, v["state"], err)
		}
		offers, err := r.items("/admin/v1/offers?limit=1000")
		for _, o := range offers {
			if o["node"] == n.name {
				return nil
			}
		}
		return fmt.Errorf("node %s has no offer: %v", n.name, err)
	})
	if err != nil {
		t.Fatalf("%v\nthe node says\n%s\nthe edge says\n%s", err, n.log.tail(), r.log.tail())
	}
}

// idle waits until no node has a call, and every slot is free.
func (r *fleetRig) idle(t *testing.T) {
	t.Helper()
	err := poll(func() error {
		nodes, err := r.items("/admin/v1/nodes")
		for _, n := range nodes {
			if fmt.Sprintf("%v %v %v", n["in_flight"], n["slots_in_use"], n["queue"]) != "0 0 0" {
				return fmt.Errorf("node %v: %v in flight, %v slots in use, %v wait", n["name"], n["in_flight"], n["slots_in_use"], n["queue"])
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// goroutines are those of the edge.
func (r *fleetRig) goroutines(t *testing.T) int {
	t.Helper()
	_, metrics, err := r.admin(http.MethodGet, "/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(metrics), "\ngo_goroutines ")
	line, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.Atoi(line)
	if err != nil {
		t.Fatalf("/metrics says go_goroutines %q", line)
	}
	return n
}

// settled waits until the edge has no more goroutines than it had.
func (r *fleetRig) settled(t *testing.T, was int) {
	t.Helper()
	r.client.CloseIdleConnections() // each has one
	err := poll(func() error {
		if n := r.goroutines(t); n > was {
			return fmt.Errorf("the edge has %d goroutines, and had %d", n, was)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// dump ends a node's process in the way that has it write down its goroutines.
func (n *fleetNode) dump(t *testing.T) string {
	t.Helper()
	n.gone = true
	said := len(n.log.all())
	if err := n.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-n.ended:
	case <-time.After(callLimit):
		t.Fatal("the node does not end")
	}
	return n.log.all()[said:]
}

// atRest ends a node, whose goroutines must be those of one without jobs.
func (n *fleetNode) atRest(t *testing.T) {
	t.Helper()
	stacks := n.dump(t)
	if !strings.Contains(stacks, "fleet.(*Node).Run") {
		t.Errorf("node %s does not show its goroutines:\n%s", n.name, stacks)
	}
	for _, of := range []string{"nodeJob", "inlet", "outlet"} {
		if strings.Contains(stacks, "fleet.(*"+of+")") {
			t.Errorf("node %s has no call, and goroutines of %s:\n%s", n.name, of, stacks)
		}
	}
	if got := strings.Count(stacks, "\ngoroutine "); got > mostAtRest {
		t.Errorf("node %s has %d goroutines, expected at most %d:\n%s", n.name, got, mostAtRest, stacks)
	}
}

// mostAtRest is how many goroutines a node without calls has at most: those of its
// store, of its session, and two for each connection to its model server that is kept.
const mostAtRest = 120

// fleetReceipt is what these tests need of GET calls/ID.
type fleetReceipt struct {
	ID, Job, Outcome, Node, Offer string
	Status                        int
	Attempts                      []struct {
		Offer, Node, Outcome, Error string
		Status                      int
	}
	NodeTiming *fleetTiming `json:"node_timing"`
	NodeCalls  []struct {
		Call, Node, Provider, Model, Outcome string
		Attempt                              int
		Timing                               fleetTiming `json:"node_timing"`
	} `json:"node_calls"`
	Decision struct {
		Offers []struct {
			Offer, Refused string
			Wait           *float64 `json:"predicted_wait_ms"`
			Score          *float64 `json:"score_usd"`
			Charge         *digits  `json:"charge_usd"`
			Terms          struct {
				Base    *float64 `json:"base_ms"`
				Prefill *float64 `json:"prefill_ms"`
				Output  *float64 `json:"output_ms"`
				Queue   *float64 `json:"queue_ms"`
			}
		}
	}
}

type fleetTiming struct {
	Queued   *float64 `json:"queued_ms"`
	SlotWait *float64 `json:"slot_wait_ms"`
	Headers  *float64 `json:"upstream_headers_ms"`
	First    *float64 `json:"first_token_ms"`
	Service  *float64 `json:"service_ms"`
}

// told waits for a call's receipt.
func (r *fleetRig) told(t *testing.T, id string) (c fleetReceipt) {
	t.Helper()
	raw, err := r.receipt(id)
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err != nil {
		t.Fatalf("call %s: %v", id, err)
	}
	return c
}

// fleetServer is a model server. A prompt is JOB EVENTS GAP SIZE: it answers with so
// many events, so far apart, each with a text of so many bytes; GAP "hold" is one that
// never ends, "never" one that does not begin.
type fleetServer struct {
	*httptest.Server
	mu     sync.Mutex // guards what follows
	models []string
	asked  map[string]int       // how often, by job
	when   map[string]time.Time // when first
	left   map[string]time.Time // when the connection of a job ended before its answer
	sent   map[string]int       // events so far
	ended  map[string]bool      // jobs whose answer was sent to its end
	quick  bool                 // whatever the prompt says, there is one event
}

// fleetPrompt is a job's prompt in a request of any format.
var fleetPrompt = regexp.MustCompile(`(j[a-z0-9]{12}) (\d+) (\w+) (\d+)`)

func newFleetServer(t *testing.T, models ...string) *fleetServer {
	t.Helper()
	s := &fleetServer{models: models, asked: map[string]int{}, when: map[string]time.Time{}, left: map[string]time.Time{}, sent: map[string]int{}, ended: map[string]bool{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			s.list(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		s.answer(w, r, body)
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

// list tells which models there are.
func (s *fleetServer) list(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1/models" {
		http.NotFound(w, r)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	models := []any{}
	for _, m := range s.models {
		models = append(models, map[string]any{"id": m, "object": "model"})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": models})
}

func (s *fleetServer) answer(w http.ResponseWriter, r *http.Request, body []byte) {
	p := fleetPrompt.FindStringSubmatch(string(body))
	if p == nil {
		http.Error(w, "a prompt is JOB EVENTS GAP SIZE", http.StatusBadRequest)
		return
	}
	job, pace := p[1], p[3]
	events, _ := strconv.Atoi(p[2])
	size, _ := strconv.Atoi(p[4])
	gap, _ := time.ParseDuration(pace)
	s.mu.Lock()
	if s.asked[job]++; s.asked[job] == 1 {
		s.when[job] = time.Now()
	}
	if s.quick { // and leaves nothing behind at who asked
		events, pace, gap = 1, "", 0
		w.Header().Set("Connection", "close")
	}
	s.mu.Unlock()
	gone := func() bool {
		s.note(func() { s.left[job] = time.Now() })
		return false
	}
	wait := func(d time.Duration) bool {
		if d == 0 {
			return r.Context().Err() == nil || gone()
		}
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return true
		case <-r.Context().Done():
			return gone()
		}
	}
	if pace == "never" {
		wait(time.Hour)
		return
	}
	f := chatWire(3, 5)
	begin(w, f.open)
	for i := range events {
		if !wait(gap) {
			return
		}
		send(w, f.text(fleetText(job, i, size)))
		s.note(func() { s.sent[job]++ })
	}
	if pace == "hold" {
		wait(time.Hour)
		return
	}
	send(w, f.end)
	s.note(func() { s.ended[job] = true })
}

func (s *fleetServer) note(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// fleetText is the text of a job's event.
func fleetText(job string, event, size int) string {
	head := job + "." + strconv.Itoa(event) + " "
	return head + strings.Repeat("x", max(size-len(head), 0))
}

// fleetAnswer is the whole answer to a prompt.
func fleetAnswer(job string, events, size int) []byte {
	f := chatWire(3, 5)
	var b bytes.Buffer
	b.WriteString(f.open)
	for i := range events {
		b.WriteString(f.text(fleetText(job, i, size)))
	}
	b.WriteString(f.end)
	return b.Bytes()
}

// twice are the jobs that were asked for more than once.
func (s *fleetServer) twice() (jobs []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for job, n := range s.asked {
		if n > 1 {
			jobs = append(jobs, job)
		}
	}
	return jobs
}

// closed waits until the connection of a job has ended before its answer, and tells
// when it did.
func (s *fleetServer) closed(job string) (at time.Time, err error) {
	err = poll(func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		at = s.left[job]
		if at.IsZero() {
			return fmt.Errorf("the model server was not left by the call of job %s", job)
		}
		return nil
	})
	return at, err
}

// fleetJob is one call, by its prompt.
type fleetJob struct {
	name   string
	events int
	gap    string
	size   int
}

func newJob(events int, gap string, size int) fleetJob {
	return fleetJob{"j" + strings.ToLower(rand.Text()[:12]), events, gap, size}
}

// body is the request, which asks for usage so that the answer passes unchanged.
func (j fleetJob) body() string {
	return fmt.Sprintf(`{"model":%q,"stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"%s %d %s %d"}]}`,
		fleetModel, j.name, j.events, j.gap, j.size)
}

// fleetResult is how a call ended for its client.
type fleetResult struct {
	job    fleetJob
	id     string
	status int
	body   []byte
	err    error
	took   time.Duration
	ended  time.Time
}

// begin makes a call; its answer's body is the caller's.
func (r *fleetRig) begin(j fleetJob) (*http.Response, error) {
	return r.beginFor(context.Background(), j)
}

// beginFor makes a call that ends with ctx.
func (r *fleetRig) beginFor(ctx context.Context, j fleetJob) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+r.addr+"/v1/chat/completions", strings.NewReader(j.body()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+fleetKey)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Headway-Job", j.name)
	return r.client.Do(req)
}

// run makes a call and reads its answer.
func (r *fleetRig) run(j fleetJob) (out fleetResult) {
	at := time.Now()
	out.job = j
	defer func() { out.ended = time.Now(); out.took = out.ended.Sub(at) }()
	resp, err := r.begin(j)
	if err != nil {
		out.err = err
		return out
	}
	defer resp.Body.Close()
	return out.read(resp)
}

// read reads an answer.
func (f fleetResult) read(resp *http.Response) fleetResult {
	f.id, f.status = resp.Header.Get("X-Request-Id"), resp.StatusCode
	f.body, f.err = io.ReadAll(resp.Body)
	return f
}

// whole is nil where the client got the whole answer, byte for byte.
func (f fleetResult) whole() error {
	switch want := fleetAnswer(f.job.name, f.job.events, f.job.size); {
	case f.err != nil:
		return f.err
	case f.status != http.StatusOK:
		return fmt.Errorf("status %d: %s", f.status, f.body)
	case !bytes.Equal(f.body, want):
		return fmt.Errorf("%d bytes came that are not the %d that were sent; they end in %q", len(f.body), len(want), f.body[max(0, len(f.body)-200):])
	}
	return nil
}

// cutOff is nil where the client got a part of the answer, and then an error of the
// stream's format.
func (f fleetResult) cutOff() error {
	a := clientAnswer{call: &caseCall{Path: "/v1/chat/completions"}, header: http.Header{"Content-Type": {"text/event-stream"}}, body: f.body}
	if said := a.read(); f.err != nil || f.status != http.StatusOK || !said.InStream {
		return fmt.Errorf("status %d, error %v, it ends in %q", f.status, f.err, f.body[max(0, len(f.body)-300):])
	}
	return nil
}

// fleetNet is the network between an edge and its nodes: a proxy, each direction of
// which can be cut. What is cut takes no byte in and lets none out, and no end of a
// connection either, as where packets are lost.
type fleetNet struct {
	ln       net.Listener
	to       string
	up, down fleetGate // from nodes to the edge, and back
	all      sync.WaitGroup

	mu    sync.Mutex // guards what follows
	conns []net.Conn
	over  bool
}

// fleetGate lets through while it is open.
type fleetGate struct {
	mu   sync.Mutex
	shut chan struct{} // closed when the gate opens; nil: it is open
}

func (g *fleetGate) pass() {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut != nil {
		<-shut
	}
}

func (g *fleetGate) set(open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case open && g.shut != nil:
		close(g.shut)
		g.shut = nil
	case !open && g.shut == nil:
		g.shut = make(chan struct{})
	}
}

func newFleetNet(t *testing.T, to string) *fleetNet {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &fleetNet{ln: ln, to: to}
	n.all.Go(n.accept)
	t.Cleanup(n.stop)
	return n
}

func (n *fleetNet) address() string { return n.ln.Addr().String() }

func (n *fleetNet) stop() {
	n.ln.Close()
	n.mu.Lock()
	n.over = true
	for _, c := range n.conns {
		c.Close()
	}
	n.mu.Unlock()
	n.up.set(true)
	n.down.set(true)
	n.all.Wait()
}

func (n *fleetNet) accept() {
	for {
		from, err := n.ln.Accept()
		if err != nil {
			return
		}
		n.all.Go(func() { n.serve(from) })
	}
}

// keep notes a connection, to be closed at the end; false: it has come.
func (n *fleetNet) keep(c net.Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conns = append(n.conns, c)
	return !n.over
}

func (n *fleetNet) serve(from net.Conn) {
	defer from.Close()
	n.up.pass()
	to, err := net.Dial("tcp", n.to)
	if err != nil {
		return
	}
	defer to.Close()
	if !n.keep(from) || !n.keep(to) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { n.copy(to, from, &n.up) })
	both.Go(func() { n.copy(from, to, &n.down) })
	both.Wait()
}

// copy carries one direction until its sender has ended.
func (n *fleetNet) copy(to, from net.Conn, gate *fleetGate) {
	buf := make([]byte, 32<<10)
	for {
		gate.pass()
		k, err := from.Read(buf)
		gate.pass()
		if _, werr := to.Write(buf[:k]); err != nil || werr != nil {
			// Both ends learn of it, as far as their directions are open.
			_ = to.(*net.TCPConn).CloseWrite()
			if !errors.Is(err, io.EOF) {
				_ = from.Close()
			}
			return
		}
	}
}

// files are the paths in a folder and below it.
func files(dir string) (all []string) {
	_ = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			all = append(all, path)
		}
		return nil
	})
	return all
}

// keeps tells whether a file of a folder has some bytes in it.
func keeps(dir, text string) bool {
	for _, f := range files(dir) {
		if raw, err := os.ReadFile(f); err == nil && bytes.Contains(raw, []byte(text)) {
			return true
		}
	}
	return false
}

// memory is what a process has in memory, in MiB.
func memory(t *testing.T, cmd *exec.Cmd) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil {
		t.Skip("the memory of a process is not shown here: ", err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	line, _, _ := strings.Cut(rest, " kB")
	kib, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	return float64(kib) / 1024
}

// processor is the time that a process has used, in its own code and for it in the
// kernel.
func processor(t *testing.T, cmd *exec.Cmd) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
	if err != nil {
		t.Skip("the time of a process is not shown here: ", err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond // of Linux, on every architecture
}
