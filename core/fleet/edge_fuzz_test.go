package fleet

import (
	"context"
	"encoding/binary"
	"io"
	"testing"
	"time"

	"headway/core"
)

// FuzzFromNode gives an edge whatever a hostile node may send, while one job of it is
// under way. Nothing of it may panic, wait, or hold a job or a place for ever.
//
// The input is messages, each a byte that says where it goes, two bytes of length, and
// its text; a frame to the job under way has the stream and the next number put in.
func FuzzFromNode(f *testing.F) {
	add := func(messages ...[]byte) {
		var all []byte
		for _, m := range messages {
			all = binary.BigEndian.AppendUint16(append(all, m[0]), uint16(len(m)-1))
			all = append(all, m[1:]...)
		}
		f.Add(all)
	}
	to := func(where byte, text string) []byte { return append([]byte{where}, text...) }
	numbered := func(k kind, text string) []byte { return append([]byte{0, byte(k)}, text...) }
	add(numbered(kindAccepted, ""), numbered(kindHeaders, `{"status":200,"content_length":-1}`), numbered(kindData, "hello"), numbered(kindEnd, `{"timing":{"service_ms":1}}`))
	add(numbered(kindRefused, `{"reason":"busy"}`), numbered(kindData, "x"))
	add(numbered(kindHeaders, `{"status":200,"header":{"a\r\nb":["x\ny"],"":["z"]}}`), numbered(kindCredit, "\xff\xff\xff\xff\xff\xff\xff\xff"), numbered(kindCancel, ""))
	add(numbered(kindEnd, "{"), to(1, "\x01\x13\x00\x00"), to(2, `{"jobs":["1"]}`), to(3, `{"upstreams":[{"slots":1,"format":"ollama"}]}`), to(4, `[{"call":"x"}]`))
	f.Fuzz(func(t *testing.T, input []byte) {
		r := newEdgeRig(t)
		n := r.join("box", report(2, 4, "m"), nil)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if resp, err := r.post(ctx, "box", "{}"); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		}()
		session := r.edge.find("box").session.Load()
		r.eventually("the job is there", func() bool { n.mu.Lock(); defer n.mu.Unlock(); return len(n.jobs) == 1 })
		var stream uint64
		n.set(func() {
			for id := range n.jobs {
				stream = id
			}
			n.mute = true
		})
		seq := uint32(0)
		for len(input) >= 3 {
			where, size := input[0], int(binary.BigEndian.Uint16(input[1:]))
			input = input[3:]
			size = min(size, len(input))
			text := input[:size]
			input = input[size:]
			switch where % 5 {
			case 0:
				if len(text) == 0 {
					continue
				}
				fr := frame{kind: kind(text[0]), stream: stream, payload: text[1:]}
				if fr.kind.numbered() {
					seq++
					fr.seq = seq
				}
				session.onFrame("", "", fr.append(nil))
			case 1:
				session.onFrame("", "", text)
			case 2:
				session.onBeat("", "", text)
			case 3:
				session.onHello("", "hw.v1.j.box.r", text)
			case 4:
				if seq < 100 { // it may wait for receipts
					seq += 100
					session.onCalls("", "hw.v1.j.box.r", text)
				}
			}
		}
		cancel()
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
			t.Fatal("the caller was not let go")
		}
		r.eventually("nothing is held", func() bool { return r.held("box") == 0 })
		for _, p := range []core.ProviderID{"box", "box.x"} {
			r.edge.Line(p).Stand()
		}
	})
}
