package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"headway/core"
)

// Entry is one change of what is configured, as the audit log keeps it
// (SPEC §10). Nothing of it is secret: what is secret shows as ***.
type Entry struct {
	ID     core.CallID `json:"id"`     // their order is that of the changes
	Number int64       `json:"number"` // counts the changes from 1, without a gap
	At     time.Time   `json:"at"`     // UTC
	Who    string      `json:"who"`    // admin token, socket or file
	// Via is, of a configuration file, what put it into force: start, SIGHUP, or who
	// applied it. A script's own file has none.
	Via    string `json:"via,omitempty"`
	File   string `json:"file,omitempty"`
	Action string `json:"action"` // such as key.create
	Target string `json:"target"` // the id of what was changed, or the group of settings
	Name   string `json:"name,omitempty"`
	// Before and After are objects under the names of the file, of what was made or
	// is gone all of it, of what was changed the fields that differ. A secret that
	// differs is *** in both.
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

// Who made a change.
const (
	whoToken  = "admin token"
	whoSocket = "socket"
	whoFile   = "file"
	viaStart  = "start"
	viaSignal = "SIGHUP"
)

// What the audit log keeps beside retention (retention.go). More entries are removed
// with the next change, and every pruneEvery.
const (
	// AuditEntries is the most entries that are kept.
	AuditEntries = 100_000
	pruneEvery   = time.Hour
	lookEvery    = time.Second // at the scripts
	pruneMost    = 200         // entries that one write removes
)

// auditLog is the log in the vault. Its writer holds the Desk's mu.
type auditLog struct {
	vault core.Vault
	clock core.Clock
	// last and number are of the newest entry; oldest and first of the oldest.
	last, oldest  core.CallID
	number, first int64
	since         time.Time // entries of before have expired; zero: none has
}

func openAudit(v core.Vault, clock core.Clock) (*auditLog, error) {
	l := &auditLog{vault: v, clock: clock}
	return l, l.ends()
}

// auditEnd is what the vault keeps of the newest entry, which may be removed.
type auditEnd struct {
	Last   core.CallID `json:"last"`
	Number int64       `json:"number"`
}

const auditEndName = "1"

// ends finds the oldest and the newest entry.
func (l *auditLog) ends() error {
	value, err := l.vault.Get(vaultAuditEnd, auditEndName)
	var end auditEnd
	if err == nil && value != nil {
		err = json.Unmarshal(value, &end)
	}
	oldest := Entry{Number: end.Number + 1} // where there is none
	if err == nil {
		var bad error
		err = l.vault.Scan(vaultAudit, "", "", false, func(_ string, value []byte) bool {
			bad = json.Unmarshal(value, &oldest)
			return false
		})
		err = errors.Join(err, bad)
	}
	if err != nil {
		return fmt.Errorf("the audit log cannot be read: %w", err)
	}
	l.last, l.number, l.oldest, l.first = end.Last, end.Number, oldest.ID, oldest.Number
	return nil
}

// endRecord is what the vault keeps of the newest entry.
func endRecord(last core.CallID, number int64) (core.Record, error) {
	value, err := json.Marshal(auditEnd{last, number})
	return core.Record{Kind: vaultAuditEnd, Name: auditEndName, Value: value}, err
}

// write makes changes durable together with their entries: all of it or nothing.
func (l *auditLog) write(puts, deletes []core.Record, entries ...Entry) error {
	now := l.clock()
	last, number := l.last, l.number
	for i := range entries {
		last = after(last, core.NewCallID(now))
		number++
		entries[i].ID, entries[i].Number, entries[i].At = last, number, now.UTC()
		value, err := json.Marshal(&entries[i])
		if err != nil {
			return err
		}
		puts = append(puts, core.Record{Kind: vaultAudit, Name: string(last), Value: value})
	}
	end, err := endRecord(last, number)
	if err != nil {
		return err
	}
	puts = append(puts, end)
	old, err := l.old(number)
	if err != nil {
		return err
	}
	if err := l.vault.Write(puts, append(deletes, old...)); err != nil {
		return err
	}
	if len(old) > 0 {
		return l.ends()
	}
	if l.oldest == "" && len(entries) > 0 {
		l.oldest, l.first = entries[0].ID, entries[0].Number
	}
	l.last, l.number = last, number
	return nil
}

// old are entries beyond what is kept once number is the newest one's.
func (l *auditLog) old(number int64) (old []core.Record, err error) {
	beyond := number - l.first + 1 - AuditEntries
	if l.oldest == "" || beyond <= 0 && !l.oldest.Expired(l.since) {
		return nil, nil
	}
	err = l.vault.Scan(vaultAudit, "", "", false, func(name string, _ []byte) bool {
		if int64(len(old)) >= beyond && !core.CallID(name).Expired(l.since) {
			return false
		}
		old = append(old, core.Record{Kind: vaultAudit, Name: name})
		return len(old) < pruneMost
	})
	return old, err
}

// after is an id behind last: at where it is, so that a clock that stands or goes
// back changes no order.
func after(last, at core.CallID) core.CallID {
	if at > last {
		return at
	}
	const digits = "0123456789abcdefghjkmnpqrstvwxyz"
	next := []byte(last)
	for i := len(next) - 1; i >= 0; i-- {
		for d := range digits {
			if digits[d] == next[i] {
				if d+1 < len(digits) {
					next[i] = digits[d+1]
					return core.CallID(next)
				}
				break
			}
		}
		next[i] = digits[0]
	}
	return core.CallID(next)
}

// Run keeps the audit log until ctx ends: it notes which scripts were changed,
// and removes old entries.
func (d *Desk) Run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var failed string
	for n := 0; ; n++ {
		err := d.lookAtScripts()
		if n%int(pruneEvery/lookEvery) == 0 {
			err = errors.Join(err, d.prune(ctx))
		}
		if err == nil {
			failed = ""
		} else if say := err.Error(); say != failed { // once, and not each second
			failed = say
			d.Log.Warn("the audit log cannot be kept", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (d *Desk) prune(ctx context.Context) error {
	for ctx.Err() == nil {
		d.mu.Lock()
		old, err := d.audit.old(d.audit.number)
		if err == nil && len(old) > 0 {
			err = d.audit.write(nil, nil)
		}
		d.mu.Unlock()
		if err != nil || len(old) == 0 {
			return err
		}
	}
	return nil
}

// listAudit reads the log a page at a time, the newest first.
func (d *Desk) listAudit(r *http.Request) (any, error) {
	n, err := limit(r)
	if err != nil {
		return nil, err
	}
	q := r.URL.Query()
	since, err := moment("since", q.Get("since"), d.Clock(), false)
	if err != nil {
		return nil, err
	}
	var from string
	if since = later(since, d.kept().audit); !since.IsZero() {
		from = string(core.NewCallID(since)[:10]) // its time alone
	}
	next := core.CallID(q.Get("next"))
	if _, ok := next.Time(); next != "" && !ok {
		return nil, core.Field("next", "is not what an earlier page said")
	}
	target, action := q.Get("target"), q.Get("action")
	list := List[Entry]{Items: []Entry{}}
	var bad error
	err = d.Vault.Scan(vaultAudit, from, string(next), true, func(_ string, value []byte) bool {
		var e Entry
		if bad = json.Unmarshal(value, &e); bad != nil {
			return false
		}
		if target != "" && target != e.Target && target != e.Name || action != "" && action != e.Action || e.At.Before(since) {
			return r.Context().Err() == nil
		}
		if len(list.Items) == n {
			list.Next = string(list.Items[n-1].ID)
			return false
		}
		list.Items = append(list.Items, e)
		return r.Context().Err() == nil
	})
	return list, errors.Join(err, bad, r.Context().Err())
}

// whoKey is where a request's context says who makes it.
type whoKey struct{}

func as(who string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), whoKey{}, who)))
	})
}

func whoOf(r *http.Request) string {
	who, _ := r.Context().Value(whoKey{}).(string)
	return who
}
