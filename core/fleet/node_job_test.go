package fleet

import (
	"net/http"
	"testing"
)

func TestNodeServesACall(t *testing.T) {
	next := make(chan struct{})
	srv := modelServerOf(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, s := range []string{"one", "two", "three"} {
			write(w, event(s))
			<-next
		}
		write(w, eventsEnd)
	})
	r := newNodeRig(t, rigOf{}, openAI(srv))
	r.ready(1)
	s := r.chat()
	h := s.headers()
	if h.Status != 200 || h.SlotWaitMS != 0 || h.ContentLength != -1 || h.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("headers %+v", h)
	}
	for i, want := range []string{"one", "two", "three"} {
		if f := s.kindAt(2+i, kindData); string(f.payload) != event(want) || f.micros == 0 {
			t.Fatalf("frame %d: %q at %d µs", i, f.payload, f.micros)
		}
		next <- struct{}{}
	}
	s.kindAt(5, kindData)
	e := s.end(6)
	if e.Error != "" || e.Timing.FiguresFrom != "stream" || !e.Timing.FirstToken.OK || !e.Timing.Service.OK || !e.Timing.UpstreamHeaders.OK || e.Timing.Waited() || !e.Timing.SlotWait.OK {
		t.Fatalf("end %+v", e)
	}
}
