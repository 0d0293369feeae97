package command_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// faultCase is one file of testdata/cases; its README.md says what each field
// means. Decoding is strict, so that a field this runner does not know fails
// instead of being passed over.
type faultCase struct {
	ID     string          `json:"id"`
	Slug   string          `json:"slug"`
	Kind   string          `json:"kind"`
	Title  string          `json:"title"`
	Story  caseStory       `json:"story"`
	Given  caseGiven       `json:"given"`
	Expect caseExpect      `json:"expect"`
	Source json.RawMessage `json:"source"`
}

type caseStory struct {
	Did   string `json:"did"`
	Saw   string `json:"saw"`
	Right string `json:"right"`
}

type caseGiven struct {
	Setup    caseSetup               `json:"setup"`
	Client   []caseCall              `json:"client"`
	Upstream map[string][]mockScript `json:"upstream"`
	Admin    []caseAdmin             `json:"admin"`
	Steps    []caseStep              `json:"steps"`
	Hooks    []caseHook              `json:"hooks"`
}

// caseHook is a strategy in JavaScript; those with a variant are run one at a time.
type caseHook struct {
	Models  []string `json:"models"` // whose calls it is for: its source lets the others pass
	Variant int      `json:"variant"`
	Source  string   `json:"source"`
}

type caseSetup struct {
	Offers   []caseOffer            `json:"offers"`
	Strategy string                 `json:"strategy"`
	Keys     []caseKey              `json:"keys"`
	AdminKey *string                `json:"admin_key"`
	Config   map[string]json.Number `json:"config"`
}

type caseOffer struct {
	Name    string      `json:"name"`
	Format  string      `json:"format"`
	Model   string      `json:"model"`
	Order   int         `json:"order"`
	Prices  *casePrices `json:"usd_per_mtok"`
	BaseURL string      `json:"base_url"`
	Via     string      `json:"via"` // worker, or ""
	Worker  *caseWorker `json:"worker"`
}

// caseWorker is the node behind an offer.
type caseWorker struct {
	Name     string `json:"name"`
	Slots    int    `json:"slots"`
	Upstream string `json:"upstream"` // the mock that is its model server
}

// upstream is the name of the mock that an offer is served by.
func (o caseOffer) upstream() string {
	if o.Worker != nil {
		return o.Worker.Upstream
	}
	return o.Name
}

// casePrices are kept as text: prices are decimals, not floats.
type casePrices struct {
	Input        json.Number `json:"input"`
	CacheRead    json.Number `json:"cache_read"`
	CacheWrite5m json.Number `json:"cache_write_5m"`
	CacheWrite1h json.Number `json:"cache_write_1h"`
	Output       json.Number `json:"output"`
	InputTokens  json.Number `json:"input_tokens"` // in Above alone
	Above        *casePrices `json:"above"`
}

type caseKey struct {
	Name        string      `json:"name"`
	Models      []string    `json:"models"`
	BudgetUSD   json.Number `json:"budget_usd"`
	RPM         json.Number `json:"rpm"`
	MaxParallel json.Number `json:"max_parallel"`
}

type caseCall struct {
	ID      string             `json:"id"`
	Method  string             `json:"method"`
	Path    string             `json:"path"`
	Headers map[string]*string `json:"headers"`
	Body    json.RawMessage    `json:"body"`
	Raw     *string            `json:"raw"`
	Fill    *caseFill          `json:"fill"`
	AtMS    int                `json:"at_ms"`
	Copies  int                `json:"copies"`
	Read    *caseRead          `json:"read"`
}

type caseFill struct {
	Mark   string `json:"mark"`
	Text   string `json:"text"`
	Repeat int    `json:"repeat"`
}

type caseRead struct {
	Stop      string `json:"stop"`
	AfterMS   int    `json:"after_ms"`
	AfterText string `json:"after_text"`
}

type caseAdmin struct {
	ID     string         `json:"id"`
	Do     string         `json:"do"`
	Fields map[string]any `json:"fields"`
}

type caseStep struct {
	Do         string          `json:"do"`
	AtMS       int             `json:"at_ms"`
	ForMS      int             `json:"for_ms"`
	Worker     string          `json:"worker"`
	Signal     string          `json:"signal"`
	Keys       json.RawMessage `json:"keys"`
	ValueBytes json.RawMessage `json:"value_bytes"`
	Rounds     json.RawMessage `json:"rounds"`
}

// caseExpect holds the checks; their values are plain JSON, with numbers as text.
type caseExpect struct {
	Client   map[string]map[string]any `json:"client"`
	Upstream map[string]map[string]any `json:"upstream"`
	Receipt  map[string]map[string]any `json:"receipt"`
	Admin    map[string]map[string]any `json:"admin"`
	Log      map[string]any            `json:"log"`
	State    map[string]any            `json:"state"`
}

// caseFiles lists the files of the cases, in the order of their numbers.
func caseFiles() ([]string, error) {
	files, err := filepath.Glob(filepath.Join(moduleRoot, "testdata", "cases", "[0-9]*.json"))
	slices.Sort(files)
	return files, err
}

var placeholder = regexp.MustCompile(`\{\{([A-Z_]+)(?::([A-Za-z0-9_]+))?\}\}`)

// readCase reads one case. value gives the text for each placeholder, such as
// {{UPSTREAM:A}}, by its two parts; nil leaves them as they are.
func readCase(file string, value func(name, of string) string) (*faultCase, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if value != nil {
		data = placeholder.ReplaceAllFunc(data, func(m []byte) []byte {
			parts := placeholder.FindSubmatch(m)
			return []byte(value(string(parts[1]), string(parts[2])))
		})
		if left := bytes.Index(data, []byte("{{")); left >= 0 && bytes.Contains(data[left:], []byte("}}")) {
			return nil, fmt.Errorf("%s: a placeholder was not filled in", filepath.Base(file))
		}
	}
	c := new(faultCase)
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(file), err)
	}
	return c, nil
}

// wireFormats are the cases' names of formats and the configuration's.
var wireFormats = map[string]string{
	"openai-chat": "openai", "openai-responses": "openai-responses",
	"anthropic-messages": "anthropic", "gemini": "google", "ollama": "ollama",
}

// clientFormat is the format that a path of the gateway speaks; "" is none.
func clientFormat(path string) string {
	switch {
	case strings.HasPrefix(path, "/v1/chat/completions"):
		return "openai-chat"
	case strings.HasPrefix(path, "/v1/responses"):
		return "openai-responses"
	case strings.HasPrefix(path, "/v1/messages"):
		return "anthropic-messages"
	case strings.HasPrefix(path, "/v1beta/models"):
		return "gemini"
	}
	return ""
}

// The reason for which a case is not played.
const (
	hasStoreTest = "cannot be seen from outside: a test of embedded/store plays it"
)

// notPlayedBecause tells from the case alone why it is not played; "" is played.
func (c *faultCase) notPlayedBecause() string {
	for _, s := range c.Given.Steps {
		if s.Do == "store_write" {
			return hasStoreTest
		}
	}
	return ""
}

// models are those that an offer stands for: "*" is each that the calls use.
func (c *faultCase) models(o caseOffer) (names []string) {
	if o.Model != "*" {
		return []string{o.Model}
	}
	for _, call := range c.Given.Client {
		var body struct {
			Model string `json:"model"`
		}
		if json.Unmarshal(call.content(), &body) == nil && body.Model != "" && !slices.Contains(names, body.Model) {
			names = append(names, body.Model)
		}
	}
	return names
}

// content is what the call sends as its body.
func (call *caseCall) content() []byte {
	if call.Raw == nil {
		return call.Body
	}
	raw := *call.Raw
	if f := call.Fill; f != nil {
		raw = strings.ReplaceAll(raw, f.Mark, strings.Repeat(f.Text, f.Repeat))
	}
	return []byte(raw)
}
