// Command headway stands between LLM clients and many providers. This file is
// what runs, and in what order it stops; core/core.go has the words, and
// core/gateway/call.go the path of one call.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"headway/adapters"
	"headway/core"
	"headway/core/command"
	"headway/core/control"
	"headway/core/estimate"
	"headway/core/fleet"
	"headway/core/gateway"
	"headway/core/ledger"
	"headway/core/measure"
	"headway/embedded/bus"
	"headway/embedded/store"
	"headway/scripts"
)

// version is set when a release is built.
var version = "dev"

func main() {
	// net/http writes to the standard logger what a provider sends unasked: the
	// rest of an answer, where its length was a lie. Nothing of ours goes there.
	stdlog.SetOutput(io.Discard)
	os.Exit(command.Main(os.Args, command.Program{Version: version, Clock: time.Now, Serve: serve}))
}

// afterDrain is how long calls that were cut off may take to leave receipts.
const afterDrain = 5 * time.Second

// serve opens everything in order, runs it, and closes it in reverse. ready is
// told the address that it listens on.
func serve(o command.ServeOptions) error {
	file, log, clock := o.File, o.Log, time.Now

	// Open: the store first, as all else reads it; what listens last.
	st, err := store.Open(file.Data, store.Options{LogFileBytes: file.LogFileBytes, Clock: clock, Log: log})
	if err != nil {
		return err
	}
	defer func() { logError(log, "store", st.Close()) }()
	secrets, err := command.OpenSecrets(file, st)
	if err != nil {
		return err
	}
	board, err := measure.NewBoard(clock, st)
	if err != nil {
		return err
	}
	accounts, err := ledger.LoadAccounts(st)
	if err != nil {
		return err
	}
	tally, err := ledger.LoadTally(st, st, clock)
	if err != nil {
		return err
	}
	estimator, err := estimate.New(clock, st)
	if err != nil {
		return err
	}
	probes, err := ledger.LoadProbes(st)
	if err != nil {
		return err
	}
	sealer, err := command.OpenReceiptLog(file, st, st, &secrets.Pepper, clock, log)
	if err != nil {
		return err
	}
	witness, err := command.OpenWitness(file, sealer, log)
	if err != nil {
		return err
	}
	st.SetRecorder(core.Recorders{board, accounts, tally, estimator, probes, sealer})
	folder := scripts.Open(file.Scripts, clock, log)
	keys := ledger.NewKeys(&secrets.Pepper)
	transports := gateway.NewTransports()
	defer transports.Close()
	// Nodes come in by the bus, and calls go out to them by the edge. The bus is not
	// open yet: neither asks the desk, which knows them both, anything before it is.
	var desk *control.Desk
	var edge *fleet.Edge
	nodes := bus.New(bus.Options{Folder: filepath.Join(file.Data, "nats"), Listen: file.NATS.Listen, Clock: clock, Log: log,
		Admit: func(public, token string) (core.NodeID, error) { return desk.AdmitNode(public, token) },
		Joined: func(node core.NodeID, session uint64) {
			owner, _ := desk.Node(node)
			edge.Joined(node, session, owner)
		},
		Left: func(node core.NodeID, session uint64) { edge.Left(node, session) }})
	defer func() { logError(log, "nodes", nodes.Close()) }()
	edge = fleet.NewEdge(fleet.EdgeParts{Clock: clock, Log: log, Bus: nodes, Book: st, Vault: st, Heartbeat: file.NATS.Heartbeat, Misses: file.NATS.HeartbeatMisses,
		Changed: func() { desk.NodesChanged() }, Disconnect: nodes.Disconnect})
	metrics := gateway.NewMetrics()
	gw := gateway.New(gateway.Parts{Clock: clock, Log: log, Adapters: adapters.All(), Providers: adapters.Providers(clock), Keys: keys,
		Book: st, Board: board, Estimator: estimator, Accounts: accounts, Scripts: folder, Dialer: dialer{edge, transports}, Metrics: metrics, ReceiptLog: control.ReceiptLogWord(sealer), ReceiptsHeld: sealer.Held})
	metrics.Watch(gw)
	metrics.WatchScripts(folder)
	metrics.WatchNodes(edge.Nodes)
	prober := gateway.NewProber(gw, board, probes)
	desk, err = control.NewDesk(control.Parts{Clock: clock, Log: log, Gateway: gw, Keys: keys, Pepper: &secrets.Pepper, AdminToken: secrets.AdminToken,
		Vault: st, Book: st, Store: st, Data: file.Data, Board: board, Accounts: accounts, Tally: tally, Prober: prober, Scripts: folder, Receipts: sealer, Witness: witness,
		Fleet: edge, Gate: command.Gate{Server: nodes, Advertise: file.NATS.Advertise}, Parse: command.Parsers(file.Path), Version: version})
	if err != nil {
		return err
	}
	if err := desk.Apply(command.Config(file)); err != nil {
		return err
	}
	if err := desk.OpenNodes(); err != nil {
		return err
	}
	front, err := net.Listen("tcp", file.Listen)
	if err != nil {
		return &core.Error{Kind: core.Internal, Msg: fmt.Sprintf("listen %s: %v", file.Listen, errors.Unwrap(err)), Hint: "set another address with --listen or listen: in the file"}
	}
	socket, err := control.Listen(file.Data)
	if err != nil {
		return errors.Join(err, front.Close())
	}

	// Run.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)
	calls, cutOff := context.WithCancelCause(context.Background()) // of every call
	defer cutOff(nil)
	public := newServer(log, calls, command.Routes(gw, desk))
	local := newServer(log, calls, desk.Local())
	writing, stopWriting := context.WithCancel(context.Background())
	defer stopWriting()
	var writer errgroup.Group
	writer.Go(func() error { return st.Run(writing) })

	run, ctx := errgroup.WithContext(calls)
	run.Go(func() error { return serveOn(public, front) })
	run.Go(func() error { return serveOn(local, socket) })
	run.Go(func() error { return board.Run(ctx) })
	run.Go(func() error { return desk.Run(ctx) })
	run.Go(func() error { return desk.Expire(ctx) })
	run.Go(func() error { return folder.Run(ctx) })
	run.Go(func() error { return prober.Run(ctx) })
	run.Go(func() error { return edge.Run(ctx) })
	run.Go(func() error { return witness.Run(ctx) })
	run.Go(func() error { return command.Settle(ctx) })
	if o.Traffic != nil {
		run.Go(func() error { return o.Traffic(ctx, front.Addr().String()) })
	}
	desk.Listening(front.Addr().String())
	o.Ready(front.Addr().String())
	stop := make(chan struct{})
	run.Go(func() error {
		defer close(stop)
		for {
			select {
			case <-ctx.Done():
				return nil
			case s := <-signals:
				if s != syscall.SIGHUP {
					return nil
				}
				desk.Reload()
			}
		}
	})

	// Stop: say so, accept no more, let open calls end, cut off the rest.
	<-stop
	log.Info("stopping", "open_calls", gw.Open(), "drain", gw.Setup().Settings.Limits.Drain.String())
	go exitOnSecond(signals)
	gw.Drain()
	drain, cancel := context.WithTimeout(context.Background(), gw.Setup().Settings.Limits.Drain)
	defer cancel()
	if public.Shutdown(drain) != nil {
		cutOff(gateway.ErrStopping) // each open call ends as its format's error, with a receipt
		last, cancel := context.WithTimeout(context.Background(), afterDrain)
		defer cancel()
		logError(log, "calls", public.Shutdown(last))
	}
	cutOff(gateway.ErrStopping)
	logError(log, "nodes", nodes.Close()) // no call is out there any more: nodes learn that the edge is gone
	logError(log, "socket", local.Close())
	err = run.Wait()
	stopWriting() // nothing is handed over any more: the queue is written out
	return errors.Join(err, writer.Wait())
}

// dialer makes the round trip of an attempt: to a node's model server by the bus, to
// any other provider over HTTP.
type dialer struct {
	edge       *fleet.Edge
	transports *gateway.Transports
}

// RoundTripper is the way to a provider.
func (d dialer) RoundTripper(p *core.Provider) (http.RoundTripper, error) {
	if p.Node != "" {
		return d.edge.RoundTripper(p)
	}
	return d.transports.RoundTripper(p)
}

// newServer makes an HTTP server with the limits of SPEC §22. It has no write
// timeout: an answer may stream for long, each write has its own limit.
func newServer(log *slog.Logger, base context.Context, h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, BaseContext: func(net.Listener) context.Context { return base },
		ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 120 * time.Second, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

func serveOn(s *http.Server, l net.Listener) error {
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// exitOnSecond ends the process at once on a second signal; the next start
// accounts for what was open.
func exitOnSecond(signals <-chan os.Signal) {
	for s := range signals {
		if s != syscall.SIGHUP {
			os.Exit(1)
		}
	}
}

func logError(log *slog.Logger, what string, err error) {
	if err != nil {
		log.Error("close", "what", what, "error", err)
	}
}
