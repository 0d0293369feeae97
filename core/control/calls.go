package control

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"headway/core"
)

// span is which calls a list is of, the newest first: those received from from on
// and before to, either zero for no bound, and behind those of earlier pages.
type span struct {
	from, to time.Time
	next     core.CallID // the last of an earlier page; "": there was none
}

func (d *Desk) spanOf(q url.Values) (s span, err error) {
	now := d.Clock()
	if s.from, err = moment("since", q.Get("since"), now, false); err != nil {
		return s, err
	}
	if s.to, err = moment("until", q.Get("until"), now, true); err != nil {
		return s, err
	}
	s.next = core.CallID(q.Get("next"))
	if _, ok := s.next.Time(); s.next != "" && !ok {
		return s, core.Field("next", "is not what an earlier page said")
	}
	return s, nil
}

// before is where the page begins: the end of what is left.
func (s span) before() time.Time {
	if at, ok := s.next.Time(); ok {
		if at = at.Add(time.Millisecond); s.to.IsZero() || at.Before(s.to) {
			return at
		}
	}
	return s.to
}

// newest gives the receipts of a span that no earlier page had, until take returns
// false or the client has left, which is the error then.
func (d *Desk) newest(ctx context.Context, s span, take func(*core.Receipt) bool) error {
	err := d.Book.Receipts(s.from, s.before(), true, func(c *core.Receipt) bool {
		if s.next != "" && c.ID >= s.next {
			return ctx.Err() == nil
		}
		return take(c) && ctx.Err() == nil
	})
	if err != nil {
		return err
	}
	return ctx.Err()
}

// checkFilters refuses an outcome or a kind that no call can have: a list without
// calls would be read as that there were none.
func checkFilters(q url.Values) error {
	for _, f := range [...]struct{ name, words string }{
		{"outcome", words(core.Settled, core.Failed, core.Truncated, core.TimedOut, core.ClientGone, core.ClientStalled, core.Lost)},
		{"kind", words(core.KindJob, core.KindProbe, core.KindBench, core.KindTest)},
	} {
		if is := q.Get(f.name); is != "" && !slices.Contains(strings.Split(f.words, ", "), is) {
			err := core.Field(f.name, "%s is no %s of a call", quoted(is), f.name)
			err.Hint = "it is one of " + f.words
			return err
		}
	}
	return nil
}

// words are joined by commas.
func words[T ~string](list ...T) string {
	texts := make([]string, len(list))
	for i, w := range list {
		texts[i] = string(w)
	}
	return strings.Join(texts, ", ")
}

// listCalls gives receipts without their decisions, which are long.
func (d *Desk) listCalls(r *http.Request) (any, error) {
	n, err := limit(r)
	if err != nil {
		return nil, err
	}
	q := r.URL.Query()
	span, err := d.spanOf(q)
	if err != nil {
		return nil, err
	}
	if err := checkFilters(q); err != nil {
		return nil, err
	}
	wanted := func(c *core.Receipt) bool {
		for _, f := range [...]struct{ name, is string }{
			{"model", string(c.Model)}, {"offer", string(c.Offer)}, {"provider", string(c.Provider)}, {"key", string(c.Key)}, {"owner", c.Owner},
			{"outcome", string(c.Outcome)}, {"kind", string(c.Kind)}, {"job", string(c.Job)},
		} {
			if want := q.Get(f.name); want != "" && want != f.is {
				return false
			}
		}
		return true
	}
	list := List[*core.Receipt]{Items: []*core.Receipt{}}
	err = d.newest(r.Context(), span, func(c *core.Receipt) bool {
		if !wanted(c) {
			return true
		}
		if len(list.Items) == n {
			list.Next = string(list.Items[n-1].ID)
			return false
		}
		short := *c
		short.Decision = nil
		list.Items = append(list.Items, &short)
		return true
	})
	return list, err
}

// Call is the whole receipt of a call, with what nodes told of its attempts once it
// was written: of those whose end did not reach the edge.
type Call struct {
	*core.Receipt
	NodeCalls []core.NodeCall `json:"node_calls,omitempty"`
}

func (d *Desk) getCall(r *http.Request) (any, error) { return d.call(core.CallID(r.PathValue("id"))) }

func (d *Desk) call(id core.CallID) (c Call, err error) {
	if c.Receipt, err = d.Book.Receipt(id); err == nil && d.Fleet != nil && !id.Expired(d.kept().measurements) {
		c.NodeCalls, err = d.Fleet.Calls(id)
	}
	return c, err
}

func (d *Desk) getJob(r *http.Request) (any, error) {
	id := r.PathValue("id")
	ids, err := d.Book.JobCalls(core.JobID(id))
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		err := core.Errorf(core.NotFound, "there is no call or job %s", quoted(id))
		err.Hint = "a call that was refused before it went to an offer is in the server's log alone"
		return nil, err
	}
	if len(ids) > mostItems {
		ids = ids[len(ids)-mostItems:] // the newest
	}
	list := List[Call]{Items: make([]Call, len(ids))}
	for i, call := range ids {
		if list.Items[i], err = d.call(call); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// settled waits for a receipt that is on its way to be durable.
func (d *Desk) settled(ctx context.Context, id core.CallID) (*core.Receipt, error) {
	const most, every = 10 * time.Second, 5 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		c, err := d.Book.Receipt(id)
		if err == nil || !isKind(err, core.NotFound) {
			return c, err
		}
		select {
		case <-ctx.Done():
			return nil, core.Errorf(core.Unavailable, "the receipt of call %s is not durable yet", id)
		case <-tick.C:
		}
	}
}
