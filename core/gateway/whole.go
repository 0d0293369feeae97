package gateway

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"headway/core"
	"headway/core/relay"
)

// mostAnswer bounds an unstreamed answer in memory.
const mostAnswer = 256 << 20

var errTooLarge = errors.New("the answer is larger than 256 MiB")

// decode undoes a compression that was not asked for: the answer is read here,
// and the client did not ask for it either.
func decode(resp *http.Response) error {
	var r io.ReadCloser
	var err error
	switch enc := strings.ToLower(resp.Header.Get("Content-Encoding")); enc {
	case "", "identity":
		return nil
	case "gzip", "x-gzip":
		r, err = gzip.NewReader(resp.Body)
	case "deflate":
		r, err = zlib.NewReader(resp.Body)
	default:
		return fmt.Errorf("content encoding %.20q", enc)
	}
	if err != nil {
		return err
	}
	resp.Header.Del("Content-Encoding")
	resp.ContentLength = -1
	resp.Body = struct {
		io.Reader
		io.Closer
	}{r, resp.Body}
	return nil
}

// whole handles an answer that does not come as a stream, or was not asked for
// as one.
func (c *call) whole(ctx context.Context, t *try, resp *http.Response, reader core.Reader) *try {
	body, err := readWhole(resp)
	t.line.T6 = c.g.Clock()
	if err == errTooLarge {
		return c.failed(t, verdict{word: "bad_answer", counts: true, next: true}, err)
	}
	if err != nil {
		return c.broke(ctx, t, err)
	}
	out, err := c.shape(body, reader)
	t.result = reader.Answer()
	if err != nil {
		v := verdict{word: "bad_answer", counts: true, next: true}
		if t.result.Err != nil {
			v = streamVerdict(t, relay.End{Outcome: core.Failed})
		}
		return c.failed(t, v, err)
	}
	t.Outcome = core.Settled
	if err := c.settle(t, resp); err != nil {
		t.err = known(err)
		return t
	}
	if err := c.deliver(t, resp, out); err != nil {
		t.Outcome = relay.ClientOutcome(err)
		t.Error = string(t.Outcome)
	}
	return t
}

func readWhole(resp *http.Response) ([]byte, error) {
	room := min(max(resp.ContentLength, 0), 8<<20) + bytes.MinRead
	buf := bytes.NewBuffer(make([]byte, 0, room))
	_, err := buf.ReadFrom(io.LimitReader(resp.Body, mostAnswer+1))
	if err == nil && buf.Len() > mostAnswer {
		err = errTooLarge
	}
	return buf.Bytes(), err
}

// shape reads an answer and brings it to the shape that was asked for.
func (c *call) shape(body []byte, reader core.Reader) ([]byte, error) {
	foreign, ok := reader.(*translated)
	switch {
	case ok && (events(body) || c.job.Streamed && reader.Split() == core.SplitLines):
		var out []byte
		err := frames(body, reader, func(f core.Frame) { out = append(out, f.Raw...) })
		return foreign.End(out), err
	case ok:
		return foreign.whole(body)
	case events(body):
		if err := frames(body, reader, c.writer.Fold); err != nil {
			return nil, err
		}
		return c.writer.Folded()
	}
	if err := reader.ReadWhole(body); err != nil {
		return nil, err
	}
	if repaired := reader.Answer().Repaired; repaired != nil {
		body = repaired
	}
	if !c.job.Streamed {
		return body, nil
	}
	frames, err := c.writer.Unfold(body)
	return bytes.Join(frames, nil), err
}

// events tells whether a body is a stream of events, whatever its type says.
func events(body []byte) bool {
	head := bytes.TrimLeft(body[:min(len(body), 256)], "\xef\xbb\xbf \r\n")
	for _, p := range [...]string{"data:", "event:", "id:", "retry:", ":"} {
		if bytes.HasPrefix(head, []byte(p)) {
			return true
		}
	}
	return false
}

// frames reads a stream that came whole, and gives each frame to take. An error
// says that it is no complete answer.
func frames(body []byte, reader core.Reader, each func(core.Frame)) error {
	kind := core.SplitSSE
	if reader.Split() == core.SplitLines {
		kind = core.SplitLines
	}
	split := relay.NewSplitter(kind, len(body)+1)
	defer split.Release()
	complete, broken := false, false
	var f core.Frame
	take := func() {
		mark := reader.Read(&f)
		broken = broken || mark.Has(core.MarkBroken) && !complete
		complete = complete || mark.Has(core.MarkFinish|core.MarkEnd)
		each(f)
	}
	for rest := body; len(rest) > 0; {
		room, err := split.Room()
		if err != nil {
			return err
		}
		n := copy(room, rest)
		split.Filled(n)
		rest = rest[n:]
		for split.Next(&f) {
			take()
		}
	}
	if split.Rest(&f) {
		take()
	}
	if reader.Answer().Err != nil {
		return errors.New("an error in the stream")
	}
	if broken { // a part of the answer could not be read
		return relay.ErrBroken
	}
	if !complete {
		return relay.ErrNoAnswer
	}
	return nil
}

// deliver writes an unstreamed answer, or a stream made of one.
func (c *call) deliver(t *try, resp *http.Response, out []byte) error {
	sink := c.sink(t, resp)
	sink.header().Set("Content-Type", c.writer.ContentType())
	if !c.job.Streamed {
		sink.header().Set("Content-Length", strconv.Itoa(len(out)))
	}
	last := max(len(out)-1, 0) // without it no client has its answer
	if err := sink.Write(out[:last], c.g.Clock()); err != nil {
		return err
	}
	c.hold.Ended()
	if err := sink.Write(out[last:], c.g.Clock()); err != nil {
		return err
	}
	return sink.Flush()
}
