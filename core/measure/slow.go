package measure

import (
	"time"

	"headway/core"
)

// The slow classes of SPEC §21, in the order in which they are asked.
const (
	SlowHeaders          = "upstream_headers_slow"
	SlowOutputAfterEvent = "first_output_after_event_slow"
	SlowFirstOutput      = "first_output_slow"
	SlowTextAfterAction  = "visible_text_after_action_slow"
	SlowGeneration       = "generation_slow_tps"
	SlowAuth             = "local_auth_slow"
	SlowRouting          = "local_routing_slow"
	SlowUpload           = "client_upload_slow"
)

// Slow is the first class of SPEC §21 that a call's figures fall in, "" where
// none does. Late means at or over its limit, low below it; a limit of 0 asks
// for nothing. It names a phase, not a cause.
//
// The event and the response are held against their limits without the time
// before the dispatch (queued_ms, of the same origin): a slow upload is the
// client's, and offers tried before are not this one's fault.
func Slow(t core.Timing, lim core.SlowLimits) string {
	headers := at(t.UpstreamHeaders, 0)
	event := at(t.FirstEvent, t.Queued.V)
	response := at(t.FirstResponse, t.Queued.V)
	eventToResponse := gap(t.FirstEvent, t.FirstResponse)
	responseToText := gap(t.FirstResponse, t.FirstText)

	switch {
	case headers.late(lim.Headers):
		return SlowHeaders
	case event.inTime(lim.FirstEvent) && (response.late(lim.FirstOutput) || eventToResponse.late(lim.OutputAfterEvent)):
		return SlowOutputAfterEvent
	case headers.inTime(lim.Headers) && event.late(lim.FirstEvent) && response.late(lim.FirstOutput):
		return SlowFirstOutput
	case response.inTime(lim.FirstOutput) && responseToText.late(lim.TextAfterOutput):
		return SlowTextAfterAction
	case response.inTime(lim.FirstOutput) && responseToText.inTime(lim.TextAfterOutput) && t.VisibleTPS.OK && t.VisibleTPS.V < lim.VisibleTPS:
		return SlowGeneration
	case at(t.Auth, 0).late(lim.Auth):
		return SlowAuth
	case at(t.Distribution, 0).late(lim.Routing):
		return SlowRouting
	case at(t.BodyRead, 0).late(lim.Upload):
		return SlowUpload
	}
	return ""
}

// phase is a time in ms that may be unknown; an unknown one is neither late nor
// in time.
type phase core.Opt[float64]

// at is a figure less what came before, both from the same origin.
func at(ms core.Opt[float64], before float64) phase {
	return phase{V: ms.V - before, OK: ms.OK}
}

// gap is the time between two figures of one origin.
func gap(from, to core.Opt[float64]) phase {
	return phase{V: to.V - from.V, OK: from.OK && to.OK}
}

func (p phase) late(limit time.Duration) bool {
	return p.OK && limit > 0 && p.V >= core.Ms(limit)
}

func (p phase) inTime(limit time.Duration) bool { return p.OK && !p.late(limit) }
