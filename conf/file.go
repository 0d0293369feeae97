package conf

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"headway/core"
	"headway/core/seal"
)

// fileRecord is the whole file. The names are those of SPEC §18 and §24.
func fileRecord() value[draft] {
	self := func(d *draft) *draft { return d }
	return record([]field[draft]{
		key("listen", "The address of the one HTTP listener, as host:port; port 0 takes a free one.",
			hostPort(), func(d *draft) *string { return &d.Listen }),
		key("data", "The data folder: store, receipts, socket. Relative to this file, as every path here.",
			folder(), func(d *draft) *string { return &d.Data }),
		key("admin_token", "The credential of admin calls. Left out, or a ${NAME} that is not set: one is made and kept in the data folder.",
			adminToken(), func(d *draft) *core.Secret { return &d.AdminToken }),
		key("routing", "How offers are chosen where a key does not say otherwise.", record(routingFields(), nil), self),
		key("nats", "How nodes, the machines that serve their own models, reach this box.", record([]field[draft]{
			key("listen", "The address that is listened on for nodes, as host:port. It is opened once a node is enrolled.",
				hostPort(), func(d *draft) *string { return &d.NATS.Listen }),
			key("advertise", "The host:port that join strings tell nodes to dial; left out: listen, with this machine's name where that is every address.",
				dialled(), func(d *draft) *string { return &d.NATS.Advertise }),
			key("heartbeat", "How often a node reports, and the edge to it.",
				duration(10*time.Millisecond, time.Hour), func(d *draft) *time.Duration { return &d.NATS.Heartbeat }),
			key("heartbeat_misses", "Reports missed in a row that make a node lost.",
				count(1, 1000), func(d *draft) *int { return &d.NATS.HeartbeatMisses }),
		}, nil), self),
		key("providers", "The upstream accounts and servers.",
			list(providerRecord(), 0), func(d *draft) *[]provider { return &d.providers }),
		key("keys", "The callers' keys; more can be made with `headway key create`.",
			list(keyRecord(true), 0), func(d *draft) *[]Credential { return &d.Keys }),
		key("limits", "The bounds of one call.", record(limitFields(), nil), self),
		key("breaker", "When failures take an offer out.", record([]field[draft]{
			key("within", "Two counted failures closer together than this take the offer out.",
				duration(0, day), func(d *draft) *time.Duration { return &d.Settings.Breaker.Within }),
			key("out", "How long it is out.",
				duration(0, day), func(d *draft) *time.Duration { return &d.Settings.Breaker.Out }),
			key("max_retry_after", "The longest pause that an upstream may ask for with Retry-After.",
				duration(0, day), func(d *draft) *time.Duration { return &d.Settings.Breaker.MaxRetryAfter }),
		}, nil), self),
		key("slow", "From when on a phase of a call is called slow.", record(slowFields(), nil), self),
		key("log", "What is logged.", record([]field[draft]{
			key("level", "The least level: debug, info, warn or error. No level shows a prompt, an answer or a secret.",
				level(), func(d *draft) *slog.Level { return &d.LogLevel }),
		}, nil), self),
		key("cors", "The origins whose pages may call from a browser, like https://app.example.com; \"*\" is every one.",
			names(origin(), 0), func(d *draft) *[]string { return &d.CORS }),
		key("store", "How the store keeps its files.", record([]field[draft]{
			key("log_file_bytes", "The size of one log file, in bytes: smaller files give space back sooner.",
				whole(1<<20, 1<<31-1), func(d *draft) *int64 { return &d.LogFileBytes }),
		}, nil), self),
		key("probes", "Small calls of Headway's own that keep the measures of offers with few jobs alive. They cost what any call costs.", record([]field[draft]{
			key("usd_per_day", "The most that all of them together may cost in a day (UTC), in US dollars. Left out: none are made.",
				maybe(dollars()), func(d *draft) *core.Opt[core.Money] { return &d.Settings.Probes.PerDay }),
			key("every", "The least time between two at one offer with a prompt of the same length, short or long.",
				duration(time.Minute, 7*day), func(d *draft) *time.Duration { return &d.Settings.Probes.Every }),
		}, nil), self),
		key("receipts", "strict holds the end of an answer until its receipt is durable. required refuses calls while receipts cannot be kept or signed. optional serves them all the same.",
			choice[core.ReceiptMode]("way of keeping receipts", []string{string(core.ReceiptsStrict), string(core.ReceiptsRequired), string(core.ReceiptsOptional)}),
			func(d *draft) *core.ReceiptMode { return &d.Settings.Receipts }),
		key("retention", "For how many whole months things are kept after the month that they are of (UTC). What is left out is kept for good.", record([]field[draft]{
			key("receipts_months", "Receipts, their signed logs and what usage is summed from.",
				maybe(count(1, mostMonths)), func(d *draft) *core.Opt[int] { return &d.Settings.Retention.Receipts }),
			key("measurements_months", "What is beside the charge in a receipt: times, attempts, the decision. At most as long as receipts.",
				maybe(count(1, mostMonths)), func(d *draft) *core.Opt[int] { return &d.Settings.Retention.Measurements }),
			key("audit_months", "The audit log.",
				maybe(count(1, mostMonths)), func(d *draft) *core.Opt[int] { return &d.Settings.Retention.Audit }),
		}, nil), self),
		key("witness", "Somebody else who sees each checkpoint of the receipt log and signs it too, so that nobody can show two histories.", record([]field[draft]{
			key("url", "The prefix of a C2SP tlog-witness, without /add-checkpoint.",
				witnessURL(), func(d *draft) *string { return &d.Witness.URL }),
			key("key", "Its verifier key, NAME+ID+KEY.",
				witnessKey(), func(d *draft) *string { return &d.Witness.Key }),
		}, nil), self),
	}, checkFile)
}

const (
	day        = 24 * time.Hour
	mostMonths = 1200
)

// witnessURL is the prefix of a witness's address.
func witnessURL() value[string] {
	return word[string]("an address like https://witness.example/headway", object{"type": "string", "pattern": `^https?://[^?#]+$|` + referencePattern},
		func(s string) fault {
			u, err := url.Parse(s)
			if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
				return fault{"is no address like https://witness.example/headway", ""}
			}
			return fault{}
		})
}

// witnessKey is a verifier key, which a start would refuse if it were none.
func witnessKey() value[string] {
	return word[string]("the witness's verifier key", object{"type": "string", "minLength": 1}, func(s string) fault {
		_, err := seal.ParseWitnessKey(s)
		var e *core.Error
		if errors.As(err, &e) {
			return fault{strings.TrimPrefix(e.Msg, "this "), e.Hint}
		}
		return fault{}
	})
}

func routingFields() []field[draft] {
	return []field[draft]{
		key("strategy", "price-and-wait, cheapest, fastest, fastest-first-token, balanced, or the name of a script.",
			strategy(), func(d *draft) *string { return &d.Settings.Routing.Strategy }),
		key("time_value_usd_per_hour", "What an hour of waiting is worth, in US dollars.",
			dollars(), func(d *draft) *core.Money { return &d.Settings.Routing.TimeValue }),
		key("auto", "The pool of the Auto Router: a call for the model `auto` goes to the fastest offer of these models that its key may use.",
			names(offered(), 0), func(d *draft) *[]core.Model { return &d.Settings.Routing.Auto }),
		key("scripts", "The folder of the strategies in JavaScript: NAME.js is the strategy NAME, and is read again when it changes. Another folder takes effect at a start.",
			folder(), func(d *draft) *string { return &d.Scripts }),
		key("script_headers", "The request headers that scripts see, as job.headers; never one with a credential.",
			names(seenHeader(), 0), func(d *draft) *[]string { return &d.Settings.Routing.ScriptHeaders }),
		key("price_cap_usd_per_mtok", "Offers with a rate above it are refused; at the cap passes.",
			priceCap(), func(d *draft) *core.PriceCap { return &d.Settings.Routing.PriceCap }),
		key("allow_models", "The only models that are served; left out: all.",
			names(model("a model's name"), 1), func(d *draft) *[]core.Model { return &d.Settings.Routing.AllowModels }),
		key("block_models", "Models that are not served; auto is the Auto Router.",
			names(model("a model's name"), 0), func(d *draft) *[]core.Model { return &d.Settings.Routing.BlockModels }),
		key("serve_own", "Lets an owner's offers serve that owner's own calls, for a box with one owner.",
			flag(), func(d *draft) *bool { return &d.Settings.Routing.ServeOwn }),
	}
}

func limitFields() []field[draft] {
	limit := func(name, doc string, least time.Duration, in func(*core.Limits) *time.Duration) field[draft] {
		return key(name, doc, duration(least, day), func(d *draft) *time.Duration { return in(&d.Settings.Limits) })
	}
	return []field[draft]{
		key("body_mib", "The largest request body, in MiB.",
			scaled(1, 1024, 1<<20), func(d *draft) *int64 { return &d.Settings.Limits.Body }),
		key("event_mib", "The largest single event of a stream, in MiB.",
			scaled(1, 1024, 1<<20), func(d *draft) *int64 { return &d.Settings.Limits.Event }),
		limit("header_timeout", "The longest wait from dispatch to an upstream's headers.", time.Millisecond,
			func(l *core.Limits) *time.Duration { return &l.HeaderTimeout }),
		limit("first_output_min", "The least first-output limit of an attempt.", 0,
			func(l *core.Limits) *time.Duration { return &l.FirstOutputMin }),
		key("first_output_factor", "The first-output limit of an attempt, times its predicted first output.",
			number(1, 1000), func(d *draft) *float64 { return &d.Settings.Limits.FirstOutputFactor }),
		limit("hold", "How long frames before the first output are held back, so that another offer can still be tried.", 0,
			func(l *core.Limits) *time.Duration { return &l.Hold }),
		limit("stream_idle", "The longest silence inside a stream.", time.Millisecond,
			func(l *core.Limits) *time.Duration { return &l.StreamIdle }),
		limit("client_write", "The longest time that a write to a client may block.", time.Millisecond,
			func(l *core.Limits) *time.Duration { return &l.ClientWrite }),
		limit("drain", "How long a stop waits for open calls.", 0,
			func(l *core.Limits) *time.Duration { return &l.Drain }),
		key("script", "The time limit of one ranking by a script in a call; the built-in default ranks a call where it runs out. A dry run, when a file is read or tested, has 500 ms: one that passes it may still be too slow.",
			duration(time.Millisecond, 10*time.Second), func(d *draft) *time.Duration { return &d.Settings.Limits.Script }),
	}
}

func slowFields() []field[draft] {
	from := func(name, doc string, in func(*core.SlowLimits) *time.Duration) field[draft] {
		return key(name, doc, duration(0, day), func(d *draft) *time.Duration { return in(&d.Settings.Slow) })
	}
	return []field[draft]{
		from("headers", "Upstream headers later than this.", func(l *core.SlowLimits) *time.Duration { return &l.Headers }),
		from("first_event", "A first stream event later than this.", func(l *core.SlowLimits) *time.Duration { return &l.FirstEvent }),
		from("first_output", "A first output later than this.", func(l *core.SlowLimits) *time.Duration { return &l.FirstOutput }),
		from("output_after_event", "A first output this long after the first event.",
			func(l *core.SlowLimits) *time.Duration { return &l.OutputAfterEvent }),
		from("text_after_output", "A first visible text this long after the first output.",
			func(l *core.SlowLimits) *time.Duration { return &l.TextAfterOutput }),
		key("visible_tps", "Fewer visible output tokens per second than this.",
			number(0, 1_000_000), func(d *draft) *float64 { return &d.Settings.Slow.VisibleTPS }),
		from("auth", "A check of the key that took longer.", func(l *core.SlowLimits) *time.Duration { return &l.Auth }),
		from("routing", "A choice of the offer that took longer.", func(l *core.SlowLimits) *time.Duration { return &l.Routing }),
		from("upload", "A read of the request body that took longer.", func(l *core.SlowLimits) *time.Duration { return &l.Upload }),
	}
}

func priceCap() value[core.PriceCap] {
	return record([]field[core.PriceCap]{
		key("input", "The highest input rate, in US dollars per million tokens.",
			maybe(rate()), func(c *core.PriceCap) *core.Opt[core.Rate] { return &c.Input }),
		key("output", "The highest output rate, in US dollars per million tokens.",
			maybe(rate()), func(c *core.PriceCap) *core.Opt[core.Rate] { return &c.Output }),
	}, nil)
}

// model is the name of a model that clients ask for.
func model(want string) value[core.Model] { return label[core.Model](want) }

// seenHeader is a request header that scripts may see, in lower case.
func seenHeader() value[string] {
	return word[string]("the name of a header in lower case", object{"type": "string", "pattern": `^[a-z0-9-]+$|` + referencePattern},
		func(s string) fault {
			switch {
			case s == "" || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") != "":
				return fault{"is no header's name in lower case", "write it like x-tenant"}
			case slices.Contains([]string{"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "x-goog-api-key"}, s):
				return fault{"holds a credential, which no script sees", ""}
			}
			return fault{}
		})
}

func hostPort() value[string] {
	return hostPortLike("write it like 127.0.0.1:8080, or :8080 for every address of this machine")
}

// hostPortLike is one with another hint.
func hostPortLike(hint string) value[string] {
	return word[string]("an address like 127.0.0.1:8080", object{"type": "string", "pattern": `:[0-9]+$|` + referencePattern},
		func(s string) fault {
			host, port, err := net.SplitHostPort(s)
			if err != nil {
				return fault{"is not host:port", hint}
			}
			if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
				return fault{"has no port from 0 to 65535", ""}
			}
			if _, err := netip.ParseAddr(host); err != nil &&
				strings.Trim(strings.ToLower(host), "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" {
				return fault{"has no host that is an address or a name", ""}
			}
			return fault{}
		})
}

// origin is what a browser sends as Origin.
func origin() value[string] {
	return word[string]("an origin like https://app.example.com",
		object{"type": "string", "pattern": `^\*$|^https?://[^/]+$|` + referencePattern},
		func(s string) fault {
			u, err := url.Parse(s)
			switch {
			case s == "*":
				return fault{}
			case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil:
				return fault{"is no origin", "write it like https://app.example.com"}
			case s != u.Scheme+"://"+strings.ToLower(u.Host):
				return fault{"is no origin as browsers send it: scheme, host and port in lower case, and nothing behind", "write it as " + u.Scheme + "://" + strings.ToLower(u.Host)}
			}
			return fault{}
		})
}

// adminToken is a secret whose variable need not be set (SPEC §24).
func adminToken() value[core.Secret] {
	v := secret(1)
	read := v.read
	v.read = func(b *binder, at place, to *core.Secret) bool {
		if at.node.Tag == "!!str" && strings.Contains(at.node.Value, "$") {
			if val, wrong := expand(at.node.Value, b.dir, b.env); wrong != nil && wrong.unset || wrong == nil && val == "" {
				return true
			}
		}
		return read(b, at, to)
	}
	return v
}

// noteAuto says of lists that allow the Auto Router by its name that this opens
// nothing: what counts is each model of its pool.
func (d *draft) noteAuto(b *binder, at place) {
	note := func(at place, models []core.Model) {
		if i := slices.Index(models, core.AutoModel); i >= 0 {
			b.note(at.item(i), "name those models of routing.auto that may be used; auto is then served too", "auto is no model: it opens nothing here")
		}
	}
	note(at.child("routing").child("allow_models"), d.Settings.Routing.AllowModels)
	for i, k := range d.Keys {
		key := at.child("keys").item(i)
		note(key.child("models"), k.Models)
		note(key.child("allow_models"), k.AllowModels)
	}
}

// checkFile looks at what several parts of a file say together.
func checkFile(b *binder, at place, d *draft) {
	checkProviders(b, at.child("providers"), d.providers)
	checkKeys(b, at.child("keys"), d.Keys)
	if t := d.AdminToken; !t.Empty() && len(t.Reveal()) < 16 {
		b.note(at.child("admin_token"), "use 16 characters or more", "is short")
	}
	d.noteAuto(b, at)
	if probes := at.child("probes"); probes.node != at.node && !d.Settings.Probes.PerDay.OK {
		b.note(probes, "give it usd_per_day, the most that they may cost", "makes no probes")
	}
	if w := at.child("witness"); (w.child("url").node == w.node) != (w.child("key").node == w.node) {
		b.fail(w, "give it both, url and key", "has one of url and key without the other")
	}
	if r := d.Settings.Retention; r.Receipts.OK && r.Measurements.OK && r.Measurements.V > r.Receipts.V {
		b.note(at.child("retention").child("measurements_months"), "", "is longer than receipts_months: measurements go with their receipts")
	}
	d.noteScript(b, at.child("routing").child("strategy"), d.Settings.Routing.Strategy)
	for i, k := range d.Keys {
		d.noteScript(b, at.child("keys").item(i).child("strategy"), k.Strategy)
	}
	if len(d.providers) == 0 {
		return // its models come from nodes and admin calls
	}
	var served []string
	for _, p := range d.providers {
		for _, o := range p.offers {
			served = append(served, string(o.Model))
			for _, alias := range o.Aliases {
				served = append(served, string(alias))
			}
		}
	}
	// A name that is blocked need not be served; one that is nearly served is
	// likely misspelt, and then blocks nothing.
	known := func(at place, models []core.Model, blocked bool) {
		for i, m := range models {
			near := DidYouMean(string(m), served)
			if m != "" && m != core.AutoModel && !slices.Contains(served, string(m)) && (near != "" || !blocked) {
				b.note(at.item(i), "a node or an offer made by an admin call may still serve it",
					"no offer of this file serves %s%s", shorten(string(m)), near)
			}
		}
	}
	routing := at.child("routing")
	known(routing.child("auto"), d.Settings.Routing.Auto, false)
	known(routing.child("allow_models"), d.Settings.Routing.AllowModels, false)
	known(routing.child("block_models"), d.Settings.Routing.BlockModels, true)
	for i, k := range d.Keys {
		key := at.child("keys").item(i)
		known(key.child("models"), k.Models, false)
		known(key.child("allow_models"), k.AllowModels, false)
		known(key.child("block_models"), k.BlockModels, true)
	}
}
