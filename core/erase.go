package core

// Erased is a receipt without what says whose call it was: its key and owner, and the
// names that the caller gave it (job, step, group, trace). The call is then a job of its
// own. What it used, cost and measured stays, and so do the decision and its figures, but
// for a script's own words, which may hold what it was shown of the caller, and for which
// offers were the owner's own.
func (r *Receipt) Erased() *Receipt {
	e := *r
	e.Key, e.Owner, e.Step, e.Job = "", "", "", JobID(r.ID)
	e.TraceID, e.Group = "", ""
	if r.Decision == nil {
		return &e
	}
	d := *r.Decision
	if d.ScriptError != "" {
		d.ScriptError = "erased"
	}
	d.Offers = append([]Ranked(nil), d.Offers...)
	for i := range d.Offers {
		if d.Offers[i].Refused == RefusedOwn {
			d.Offers[i].Refused = RefusedStrategy
		}
	}
	e.Decision = &d
	return &e
}
