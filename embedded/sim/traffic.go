package sim

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"headway/core"
)

// Request is a client's request of the demo's traffic. Its credential is left to
// the caller.
type Request struct {
	At     time.Time // when to send it; zero: now
	Path   string    // with its query
	Header http.Header
	Body   []byte
	// Offer, where it is set, is the one offer that a probe is for (core.KindProbe):
	// ranking would never send to an offer that nothing is known of.
	Offer core.OfferID
}

// work is a kind of job: what its calls look like.
type work struct {
	group    string // x-headway-group
	weight   int
	steps    [2]int // least and most
	prompt   [2]int // tokens
	growth   int    // of the prompt at each step
	output   int    // the maximum that is asked for; 0: none
	value    string // x-headway-time-value
	large    int    // of 100 jobs, how many ask for demo-large
	streamed bool
	tools    bool
}

// stepNames are the names of a job's steps in order.
var stepNames = [...]string{"plan", "read", "search", "edit", "test", "fix", "review", "write"}

// works is what the demo's callers do.
var works = [...]work{
	{"support", 34, [2]int{1, 2}, [2]int{200, 3000}, 400, 0, "2", 20, true, false},
	{"coding", 12, [2]int{3, 8}, [2]int{2000, 6000}, 2500, 1200, "5", 60, true, true},
	{"research", 18, [2]int{1, 2}, [2]int{16_200, 40_000}, 0, 500, "1", 35, true, false},
	{"voice", 14, [2]int{1, 3}, [2]int{200, 900}, 120, 120, "30", 5, true, false},
	{"batch", 22, [2]int{1, 1}, [2]int{300, 2000}, 0, 80, "0.02", 0, false, false},
}

// call is one call to come: a Request without its body, which is made when its
// turn comes.
type call struct {
	at       time.Time
	format   core.Format
	model    core.Model
	job      string
	step     string
	work     *work
	prompt   int
	output   int
	streamed bool
	tools    bool
	offer    core.OfferID
}

func between(r *rand.Rand, b [2]int) int { return b[0] + r.IntN(b[1]-b[0]+1) }

// job makes the calls of one job that starts at a time. Its steps follow each
// other by half a minute or more.
func job(r *rand.Rand, at time.Time) []call {
	var w *work
	pick := r.IntN(100) // the weights' sum
	for i := range works {
		if w = &works[i]; pick < w.weight {
			break
		}
		pick -= w.weight
	}
	c := call{at: at, model: DemoSmall, job: fmt.Sprintf("%s-%08x", w.group, r.Uint32()), work: w,
		prompt: between(r, w.prompt), output: w.output, streamed: w.streamed, tools: w.tools}
	if r.IntN(100) < w.large {
		c.model = DemoLarge
	}
	switch n := r.IntN(100); {
	case n < 12:
		c.format = core.FormatAnthropic
	case n < 22:
		c.format = core.FormatResponses
	case n < 28:
		c.format = core.FormatGoogle
	default:
		c.format = core.FormatOpenAI
	}
	steps := between(r, w.steps)
	calls := make([]call, 0, steps)
	for i := range steps {
		if steps > 1 {
			c.step = stepNames[i]
		}
		calls = append(calls, c)
		c.at = c.at.Add(time.Duration(30+r.IntN(60)) * time.Second)
		c.prompt += w.growth
	}
	return calls
}

// prose is filler that JSON needs no escapes for.
func prose(n int) string {
	text := strings.ReplaceAll(filler, "\n", " ") + " "
	return strings.Repeat(text, n/len(text)+1)[:n]
}

// request makes the call's request. n is its number among all, which its prompt
// names, so that no two are alike.
func (c call) request(n int) Request {
	r := Request{At: c.at, Offer: c.offer, Header: http.Header{"Content-Type": {"application/json"}}}
	if c.work != nil {
		r.Header.Set("X-Headway-Group", c.work.group)
		r.Header.Set("X-Headway-Time-Value", c.work.value)
	}
	if c.job != "" {
		r.Header.Set("X-Headway-Job", c.job)
	}
	if c.step != "" {
		r.Header.Set("X-Headway-Step", c.step)
	}
	text := fmt.Sprintf("Request %d. ", n)
	ask := " What follows from this?"
	if c.tools && n%3 == 0 {
		ask = " Use a tool."
	}
	text += prose(max(4*c.prompt-len(text)-len(ask), 0)) + ask
	model, stream, most := string(c.model), strconv.FormatBool(c.streamed), c.output
	schema := `{"type":"object","properties":{"path":{"type":"string"},"line":{"type":"integer","minimum":1}},"required":["path"]}`
	function := `"name":"open_file","description":"Opens a file.",`
	maximum := func(name string) string {
		if most == 0 {
			return ""
		}
		return fmt.Sprintf(`,%q:%d`, name, most)
	}
	body := ""
	switch c.format {
	case core.FormatAnthropic:
		r.Path = "/v1/messages"
		r.Header.Set("Anthropic-Version", "2023-06-01")
		if most == 0 {
			most = 1024 // the format wants one
		}
		body = `{"model":"` + model + `","stream":` + stream + maximum("max_tokens")
		if c.tools {
			body += `,"tools":[{` + function + `"input_schema":` + schema + `}]`
		}
		body += `,"messages":[{"role":"user","content":"` + text + `"}]}`
	case core.FormatResponses:
		r.Path = "/v1/responses"
		body = `{"model":"` + model + `","stream":` + stream + maximum("max_output_tokens")
		if c.tools {
			body += `,"tools":[{"type":"function",` + function + `"parameters":` + schema + `}]`
		}
		body += `,"input":"` + text + `"}`
	case core.FormatGoogle:
		r.Path = "/v1beta/models/" + model + ":generateContent"
		if c.streamed {
			r.Path = "/v1beta/models/" + model + ":streamGenerateContent?alt=sse"
		}
		body = `{"contents":[{"role":"user","parts":[{"text":"` + text + `"}]}]`
		if c.tools {
			body += `,"tools":[{"functionDeclarations":[{` + function + `"parameters":` + schema + `}]}]`
		}
		if most > 0 {
			body += `,"generationConfig":{` + maximum("maxOutputTokens")[1:] + `}`
		}
		body += `}`
	default:
		r.Path = "/v1/chat/completions"
		body = `{"model":"` + model + `","stream":` + stream + maximum("max_tokens")
		if c.tools {
			body += `,"tools":[{"type":"function","function":{` + function + `"parameters":` + schema + `}}]`
		}
		body += `,"messages":[{"role":"user","content":"` + text + `"}]}`
	}
	r.Body = []byte(body)
	return r
}

// Traffic is the light live traffic of the demo: one request after the other,
// without an end. It is used by one goroutine.
type Traffic struct {
	r     *rand.Rand
	most  int
	next  []call
	count int
}

// leastTokens of a call are needed for a prompt and an answer.
const leastTokens = 400

// NewTraffic makes a source of requests of at most that many input and output
// tokens each, at least 400.
func NewTraffic(seed uint64, tokens int) *Traffic {
	return &Traffic{r: rand.New(rand.NewPCG(seed, 0)), most: max(tokens, leastTokens)}
}

// Next is the next request, to be sent at once, and how long to pause after
// that: 2 to 12 s.
func (t *Traffic) Next() (Request, time.Duration) {
	if len(t.next) == 0 {
		t.next = job(t.r, time.Time{})
	}
	c := t.next[0]
	t.next = t.next[1:]
	c.at = time.Time{}
	if c.output == 0 || c.output > t.most/2 {
		c.output = t.most / 2
	}
	const around = 80 // tokens of tools around the prompt
	c.prompt = min(c.prompt, t.most-c.output-around)
	t.count++
	return c.request(t.count), 2*time.Second + time.Duration(t.r.Int64N(int64(10*time.Second)))
}
