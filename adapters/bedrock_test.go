package adapters_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"headway/adapters"
	"headway/core"
)

// awsNow is the time of all signatures.
var awsNow = time.Date(2026, 3, 1, 12, 30, 45, 0, time.UTC)

func bedrock() adapters.Bedrock {
	return adapters.Bedrock{AWS: adapters.NewAWS(func() time.Time { return awsNow })}
}

func converse() adapters.Converse {
	return adapters.Converse{AWS: adapters.NewAWS(func() time.Time { return awsNow })}
}

// awsOffer is an offer of a provider with keys of its own.
func awsOffer(format core.Format, model string) *core.Offer {
	return &core.Offer{ID: "p/m", Model: "m", UpstreamModel: model, Provider: &core.Provider{
		ID: "p", Format: format, Region: "eu-west-1", AccessKeyID: "AKIDEXAMPLE", SecretKey: core.NewSecret("wJalrXUtnFEMI"), SessionToken: core.NewSecret("session+token")}}
}

// awsMessage is a message of an event stream, written by AWS's own encoder.
func awsMessage(t testing.TB, payload string, headers ...string) []byte {
	t.Helper()
	m := eventstream.Message{Payload: []byte(payload)}
	for i := 0; i < len(headers); i += 2 {
		m.Headers.Set(headers[i], eventstream.StringValue(headers[i+1]))
	}
	var b bytes.Buffer
	if err := eventstream.NewEncoder().Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func awsEvent(t testing.TB, kind, payload string) []byte {
	t.Helper()
	return awsMessage(t, payload, ":message-type", "event", ":event-type", kind, ":content-type", "application/json")
}

// chunk is one of Anthropic's events in a message of InvokeModel.
func chunk(t testing.TB, event string) []byte {
	t.Helper()
	return awsEvent(t, "chunk", `{"bytes":"`+base64.StdEncoding.EncodeToString([]byte(event))+`","p":"abc"}`)
}

func bodyOf(t testing.TB, req *http.Request) string {
	t.Helper()
	b, err := io.ReadAll(req.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestBedrockBody(t *testing.T) {
	for _, c := range []struct {
		name, in string
		betas    string
		own      string // the provider's own beta flags
		want     string
		dropped  []string
	}{
		{name: "model first", in: `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"a"}],"stream":true}`,
			want: `{"anthropic_version":"bedrock-2023-05-31","max_tokens":5,"messages":[{"role":"user","content":"a"}]}`},
		{name: "all else as it came", in: "{ \"max_tokens\" : 5e0,\n\"stream\":false, \"mod\\u0065l\":\"m\" ,\"x\":[1, 2],\"messages\":[{\"role\":\"user\",\"content\":\"\\u00e9\"}] }",
			want: "{\"anthropic_version\":\"bedrock-2023-05-31\", \"max_tokens\" : 5e0 ,\"x\":[1, 2],\"messages\":[{\"role\":\"user\",\"content\":\"\\u00e9\"}] }"},
		{name: "stream first", in: `{"stream":true,"model":"m","messages":[{"role":"user","content":"a"}],"max_tokens":5}`,
			want: `{"anthropic_version":"bedrock-2023-05-31","messages":[{"role":"user","content":"a"}],"max_tokens":5}`},
		{name: "a version that is there", in: `{"messages":[{"role":"user","content":"a"}],"max_tokens":5,"model":"m","anthropic_version":"2023-06-01"}`,
			want: `{"anthropic_version":"bedrock-2023-05-31","messages":[{"role":"user","content":"a"}],"max_tokens":5}`},
		{name: "beta flags", in: `{"model":"m","messages":[{"role":"user","content":"a"}],"max_tokens":5,"anthropic_beta":["own"]}`,
			betas: "claude-code-20250219, interleaved-thinking-2025-05-14,context-1m-2025-08-07,context-1m-2025-08-07",
			want: `{"anthropic_version":"bedrock-2023-05-31","anthropic_beta":["interleaved-thinking-2025-05-14","context-1m-2025-08-07","own"],` +
				`"messages":[{"role":"user","content":"a"}],"max_tokens":5}`,
			dropped: []string{"anthropic-beta:claude-code-20250219"}},
		{name: "the provider's own flags win", in: `{"model":"m","messages":[{"role":"user","content":"a"}],"max_tokens":5}`, betas: "context-1m-2025-08-07", own: "x,y",
			want: `{"anthropic_version":"bedrock-2023-05-31","anthropic_beta":["x","y"],"messages":[{"role":"user","content":"a"}],"max_tokens":5}`},
		{name: "what Bedrock refuses", in: `{"model":"m","service_tier":"auto","messages":[{"role":"user","content":"a"}],"max_tokens":5}`,
			want: `{"anthropic_version":"bedrock-2023-05-31","messages":[{"role":"user","content":"a"}],"max_tokens":5}`, dropped: []string{"service_tier"}},
	} {
		head := core.RequestHead{Path: messagesPath, Header: http.Header{"Anthropic-Beta": {c.betas}}}
		job, err := adapters.Anthropic{}.Parse(head, []byte(c.in))
		if err != nil {
			t.Fatal(c.name, err)
		}
		offer := awsOffer(core.FormatBedrock, "x")
		if c.own != "" {
			offer.Provider.Headers = map[string]core.Secret{"anthropic-beta": core.NewSecret(c.own)}
		}
		req, dropped, err := bedrock().Build(t.Context(), job, nil, head, offer)
		if err != nil {
			t.Fatal(c.name, err)
		}
		if got := bodyOf(t, req); got != c.want || !slices.Equal(dropped, c.dropped) {
			t.Errorf("%s:\n%s\nwant\n%s\ndropped %q", c.name, got, c.want, dropped)
		}
		if len(req.Header["Anthropic-Beta"])+len(req.Header["Anthropic-Version"]) > 0 {
			t.Errorf("%s: the flags are headers too: %v", c.name, req.Header)
		}
	}
}

func TestBedrockRequest(t *testing.T) {
	const body = `{"model":"m","messages":[{"role":"user","content":"a"}],"max_tokens":5`
	head := core.RequestHead{Path: messagesPath, Query: url.Values{"beta": {"true"}}, Header: http.Header{
		"Anthropic-Version": {"2023-06-01"}, "Traceparent": {"00-1-2-01"}, "Authorization": {"Bearer hw_caller"}}}
	for _, c := range []struct{ model, stream, want string }{
		{"anthropic.claude-x-v1:0", ``, "https://bedrock-runtime.eu-west-1.amazonaws.com/model/anthropic.claude-x-v1%3A0/invoke"},
		{"arn:aws:bedrock:eu-west-1:1:application-inference-profile/abc", `,"stream":true`,
			"https://bedrock-runtime.eu-west-1.amazonaws.com/model/arn%3Aaws%3Abedrock%3Aeu-west-1%3A1%3Aapplication-inference-profile%2Fabc/invoke-with-response-stream"},
	} {
		job, err := adapters.Anthropic{}.Parse(head, []byte(body+c.stream+"}"))
		if err != nil {
			t.Fatal(err)
		}
		req, _, err := bedrock().Build(t.Context(), job, nil, head, awsOffer(core.FormatBedrock, c.model))
		if err != nil {
			t.Fatal(err)
		}
		if req.URL.String() != c.want || req.Method != http.MethodPost {
			t.Errorf("%s %s, want %s", req.Method, req.URL, c.want)
		}
		if req.Header.Get("Traceparent") == "" || req.Header.Get("Anthropic-Version") != "" || strings.Contains(req.Header.Get("Authorization"), "hw_caller") {
			t.Errorf("headers %v", req.Header)
		}
		checkSignature(t, req, "wJalrXUtnFEMI", "eu-west-1")
	}

	job, err := adapters.Anthropic{}.Parse(core.RequestHead{Path: messagesPath + "/count_tokens"}, []byte(`{"model":"m","messages":[{"role":"user","content":"a"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req, _, err := bedrock().Build(t.Context(), job, nil, head, awsOffer(core.FormatBedrock, "x"))
	if err != nil {
		t.Fatal(err)
	}
	var count struct {
		Input struct{ InvokeModel struct{ Body []byte } }
	}
	if err := json.Unmarshal([]byte(bodyOf(t, req)), &count); err != nil || !strings.HasSuffix(req.URL.Path, "/model/x/count-tokens") ||
		string(count.Input.InvokeModel.Body) != `{"max_tokens":1,"anthropic_version":"bedrock-2023-05-31","messages":[{"role":"user","content":"a"}]}` {
		t.Errorf("%s %s (%v)", req.URL, count.Input.InvokeModel.Body, err)
	}
	r := bedrock().Reader(job, nil)
	if err := r.ReadWhole([]byte(`{"inputTokens":12}`)); err != nil || string(r.Answer().Repaired) != `{"input_tokens":12}` {
		t.Errorf("a count is read as %s (%v)", r.Answer().Repaired, err)
	}
	if bedrock().Reader(job, nil).ReadWhole([]byte(`{"message":"no"}`)) == nil {
		t.Error("what is no count is taken for one")
	}
}

// checkSignature computes the signature of a request by AWS's description of it
// (Signature Version 4) and holds the request's own against it.
func checkSignature(t *testing.T, req *http.Request, secret, region string) {
	t.Helper()
	hash := func(b []byte) string { s := sha256.Sum256(b); return hex.EncodeToString(s[:]) }
	mac := func(key []byte, text string) []byte {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	body := bodyOf(t, req)
	_, list, _ := strings.Cut(req.Header.Get("Authorization"), "SignedHeaders=")
	list, signature, _ := strings.Cut(list, ", Signature=")
	var path strings.Builder // each segment is encoded twice
	for i, s := range strings.Split(req.URL.EscapedPath(), "/") {
		if i > 0 {
			path.WriteByte('/')
		}
		path.WriteString(strings.ReplaceAll(url.QueryEscape(s), "+", "%20"))
	}
	canonical := req.Method + "\n" + path.String() + "\n" + req.URL.RawQuery + "\n"
	for _, name := range strings.Split(list, ";") {
		v := req.Header.Get(name)
		switch name {
		case "host":
			v = req.URL.Host
		case "content-length":
			v = "" + jsonInt(len(body))
		}
		canonical += name + ":" + strings.TrimSpace(v) + "\n"
	}
	for _, must := range []string{"host", "x-amz-date", "content-type"} {
		if !slices.Contains(strings.Split(list, ";"), must) {
			t.Errorf("%s is not signed: %s", must, list)
		}
	}
	canonical += "\n" + list + "\n" + hash([]byte(body))
	day := awsNow.Format("20060102")
	scope := day + "/" + region + "/bedrock/aws4_request"
	text := "AWS4-HMAC-SHA256\n" + awsNow.Format("20060102T150405Z") + "\n" + scope + "\n" + hash([]byte(canonical))
	key := mac(mac(mac(mac([]byte("AWS4"+secret), day), region), "bedrock"), "aws4_request")
	if want := hex.EncodeToString(mac(key, text)); want != signature || !strings.HasPrefix(req.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"+scope) {
		t.Errorf("signed %s, want %s over\n%s", req.Header.Get("Authorization"), want, canonical)
	}
	if req.Header.Get("X-Amz-Date") != awsNow.Format("20060102T150405Z") {
		t.Errorf("signed at %s", req.Header.Get("X-Amz-Date"))
	}
}

func jsonInt(n int) string { b, _ := json.Marshal(n); return string(b) }

// built is a request of Bedrock's for a provider.
func builtFor(t *testing.T, b adapters.Bedrock, p core.Provider) (*http.Request, error) {
	t.Helper()
	job := &core.Job{Format: core.FormatAnthropic, Operation: core.OpGenerate, Body: []byte(`{"model":"m"}`)}
	p.ID = "p"
	req, _, err := b.Build(t.Context(), job, nil, core.RequestHead{}, &core.Offer{Model: "m", Provider: &p})
	return req, err
}

func TestAWSCredentials(t *testing.T) {
	dir := t.TempDir()
	for _, name := range os.Environ() {
		if name, _, _ := strings.Cut(name, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
		}
	}
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(dir, "config"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(dir, "credentials"))

	now := awsNow
	b := adapters.Bedrock{AWS: adapters.NewAWS(func() time.Time { return now })}
	_, err := builtFor(t, b, core.Provider{Region: "eu-west-1"})
	var e *core.Error
	if !errors.As(err, &e) || e.Kind != core.Internal || e.Code != core.NoCredential || e.Hint == "" {
		t.Fatalf("no credentials: %v", err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// What is not there is not looked for with every call.
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDENV")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "env")
	if _, err = builtFor(t, b, core.Provider{Region: "eu-west-1"}); err == nil {
		t.Error("a failure is forgotten at once")
	}
	b = adapters.Bedrock{AWS: adapters.NewAWS(func() time.Time { return now })}
	for _, c := range []struct {
		name     string
		provider core.Provider
		want     string // of the credential
		host     string
	}{
		{"keys of the environment", core.Provider{Region: "eu-west-1"}, "Credential=AKIDENV/20260301/eu-west-1/bedrock/", "bedrock-runtime.eu-west-1.amazonaws.com"},
		{"keys of its own", core.Provider{Region: "us-east-1", AccessKeyID: "AKIDOWN", SecretKey: core.NewSecret("s")}, "Credential=AKIDOWN/20260301/us-east-1/", "bedrock-runtime.us-east-1.amazonaws.com"},
		{"an API key", core.Provider{Region: "us-east-1", APIKey: core.NewSecret("bedrock-key")}, "Bearer bedrock-key", "bedrock-runtime.us-east-1.amazonaws.com"},
		{"an address of its own", core.Provider{Region: "us-east-1", BaseURL: "http://127.0.0.1:9/x", AccessKeyID: "AKIDOWN", SecretKey: core.NewSecret("s")}, "Credential=AKIDOWN/20260301/us-east-1/", "127.0.0.1:9"},
		{"a header of its own", core.Provider{BaseURL: "http://127.0.0.1:9", Headers: map[string]core.Secret{"authorization": core.NewSecret("Basic x")}}, "Basic x", "127.0.0.1:9"},
	} {
		req, err := builtFor(t, b, c.provider)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := req.Header.Get("Authorization"); !strings.Contains(got, c.want) || req.URL.Host != c.host {
			t.Errorf("%s: %s at %s", c.name, got, req.URL.Host)
		}
	}
	if _, err := builtFor(t, b, core.Provider{}); err == nil {
		t.Error("a request without a region")
	}

	// Region and keys of the files, and AWS's name for an API key.
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	write("config", "[default]\nregion = ap-south-1\n[profile broken]\nregion = x\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = none\n")
	write("credentials", "[default]\naws_access_key_id = AKIDFILE\naws_secret_access_key = file\naws_session_token = token\n")
	b = adapters.Bedrock{AWS: adapters.NewAWS(func() time.Time { return now })}
	req, err := builtFor(t, b, core.Provider{})
	if err != nil || !strings.Contains(req.Header.Get("Authorization"), "AKIDFILE/20260301/ap-south-1") || req.Header.Get("X-Amz-Security-Token") != "token" ||
		req.URL.Host != "bedrock-runtime.ap-south-1.amazonaws.com" {
		t.Errorf("from the files: %v %v", req, err)
	}
	t.Setenv("AWS_BEARER_TOKEN_BEDROCK", "from-env")
	b = adapters.Bedrock{AWS: adapters.NewAWS(func() time.Time { return now })}
	if req, err = builtFor(t, b, core.Provider{Region: "eu-west-1"}); err != nil || req.Header.Get("Authorization") != "Bearer from-env" {
		t.Errorf("AWS_BEARER_TOKEN_BEDROCK: %v %v", req, err)
	}

	// A failure is believed for a while, and then no more.
	t.Setenv("AWS_BEARER_TOKEN_BEDROCK", "")
	t.Setenv("AWS_PROFILE", "broken")
	b = adapters.Bedrock{AWS: adapters.NewAWS(func() time.Time { return now })}
	if _, err = builtFor(t, b, core.Provider{Region: "eu-west-1"}); err == nil {
		t.Error("a profile that cannot be used")
	}
	t.Setenv("AWS_PROFILE", "default")
	now = now.Add(11 * time.Second)
	if _, err = builtFor(t, b, core.Provider{Region: "eu-west-1"}); err != nil {
		t.Errorf("once it can: %v", err)
	}
}

func TestBedrockErrors(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		want   core.UpstreamError
	}{
		{429, `{"message":"Too many tokens"}`, core.UpstreamError{Status: 429, Message: "Too many tokens"}},
		{403, `{"Message":"not authorized"}`, core.UpstreamError{Status: 403, Message: "not authorized"}},
		{400, `{"__type":"com.amazon.coral.service#ValidationException","message":"Input is too long for requested model."}`,
			core.UpstreamError{Status: 400, Type: "ValidationException", Code: "context_length_exceeded", Message: "Input is too long for requested model."}},
		{502, `<html>`, core.UpstreamError{Status: 502}},
	} {
		for _, side := range []core.ProviderSide{bedrock(), converse()} {
			if got := side.Reader(&core.Job{}, nil).ReadError(c.status, []byte(c.body)); got != c.want {
				t.Errorf("%s: %s is %+v", side.Format(), c.body, got)
			}
		}
	}
	for kind, status := range map[string]int{"throttlingException": 429, "validationException": 400, "internalServerException": 500,
		"serviceUnavailableException": 503, "modelTimeoutException": 504, "modelStreamErrorException": 502, "somethingNewException": 502} {
		for _, side := range []core.ProviderSide{bedrock(), converse()} {
			r := side.Reader(&core.Job{Operation: core.OpGenerate}, nil)
			f := cut(t, core.SplitAWS, awsMessage(t, `{"message":"m"}`, ":message-type", "exception", ":exception-type", kind))[0]
			if mark := r.Read(&f); mark != core.MarkError || f.Raw != nil || *r.Answer().Err != (core.UpstreamError{Status: status, Type: kind, Message: "m"}) {
				t.Errorf("%s: %s is %b %+v", side.Format(), kind, mark, r.Answer().Err)
			}
			if len(r.Events(&f)) > 0 {
				t.Errorf("%s: an exception has events", side.Format())
			}
		}
	}
}

// TestBedrockStream: a client of Anthropic's format gets Anthropic's events.
func TestBedrockStream(t *testing.T) {
	for _, c := range []struct {
		name string
		in   []byte
		mark core.Mark
		want string
	}{
		{"a delta", chunk(t, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\"é"}}`), core.MarkText,
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\\\"é\"}}\n\n"},
		{"a type that comes last", chunk(t, `{"index":0,"type":"content_block_stop"}`), 0, "event: content_block_stop\ndata: {\"index\":0,\"type\":\"content_block_stop\"}\n\n"},
		{"line ends", chunk(t, "{\n\"type\":\"ping\"\r\n}"), 0, "event: ping\ndata: { \"type\":\"ping\"  }\n\n"},
		{"no type", chunk(t, `{"x":1}`), 0, "data: {\"x\":1}\n\n"},
		{"the end", chunk(t, `{"type":"message_stop","amazon-bedrock-invocationMetrics":{"inputTokenCount":1}}`), core.MarkFinish | core.MarkEnd,
			"event: message_stop\ndata: {\"type\":\"message_stop\",\"amazon-bedrock-invocationMetrics\":{\"inputTokenCount\":1}}\n\n"},
		{"an error of Anthropic's", chunk(t, `{"type":"error","error":{"type":"overloaded_error","message":"m"}}`), core.MarkError,
			"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"m\"}}\n\n"},
		{"another event of AWS's", awsEvent(t, "initial-response", `{}`), 0, ""},
		{"no base64", awsEvent(t, "chunk", `{"bytes":"!"}`), core.MarkBroken, ""},
		{"no bytes", awsEvent(t, "chunk", `{"p":"abc"}`), core.MarkBroken, ""},
		{"no JSON", chunk(t, `{"type":"content_block_delta",`), core.MarkBroken, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\n\n"},
		{"half a message", awsEvent(t, "chunk", `{}`)[:20], core.MarkBroken, ""},
	} {
		f := cut(t, core.SplitAWS, c.in)[0]
		if mark := bedrock().Reader(&core.Job{Operation: core.OpGenerate}, nil).Read(&f); mark != c.mark || string(f.Raw) != c.want {
			t.Errorf("%s: %b %q, want %b %q", c.name, mark, f.Raw, c.mark, c.want)
		}
	}
}

// TestBedrockTranslated: a client of another format is asked for in Anthropic's
// words, and its events are those of Anthropic's own stream.
func TestBedrockTranslated(t *testing.T) {
	job := &core.Job{Format: core.FormatOpenAI, Operation: core.OpGenerate, Streamed: true}
	content := &core.Content{Format: core.FormatOpenAI, Streamed: true, Messages: []core.Message{says(core.RoleUser, txt("hi"))}, MaxOutput: core.Some(int64(9)), Seed: core.Number("1"),
		Fields: map[core.Ask]string{core.AskSeed: "seed"}}
	req, dropped, err := bedrock().Build(t.Context(), job, content, core.RequestHead{}, awsOffer(core.FormatBedrock, oldClaude))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"anthropic_version":"bedrock-2023-05-31","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`
	if got := bodyOf(t, req); got != want || !slices.Equal(dropped, []string{"seed"}) || !strings.HasSuffix(req.URL.Path, "/invoke-with-response-stream") {
		t.Errorf("%s %s, dropped %q, want %s", req.URL, got, dropped, want)
	}
	if _, _, err := bedrock().Build(t.Context(), job, &core.Content{Messages: content.Messages, Choices: 2}, core.RequestHead{}, awsOffer(core.FormatBedrock, oldClaude)); err == nil {
		t.Error("two answers were asked for")
	}

	image := core.Part{Kind: core.PartImage, Media: core.Media{URL: q("https://x/a.png")}}
	for _, side := range []core.ProviderSide{bedrock(), adapters.VertexAnthropic{Tokens: &adapters.GoogleTokens{}}} {
		for _, p := range []core.Part{image, {Kind: core.PartToolResult, ID: q("c"), Parts: []core.Part{image}}} {
			_, _, err := side.Build(t.Context(), job, &core.Content{Messages: []core.Message{says(core.RoleUser, txt("hi"), p)}}, core.RequestHead{}, awsOffer(side.Format(), oldClaude))
			var e *core.Error
			if !errors.As(err, &e) || e.Kind != core.Invalid || e.Param != "messages[0].content[1]" {
				t.Errorf("%s: an image by its address: %v", side.Format(), err)
			}
		}
	}

	var packed, plain []byte
	for _, event := range []string{
		`{"type":"message_start","message":{"id":"msg_1","role":"assistant","model":"m","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"sig"}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\":1}"}}`,
		`{"type":"content_block_stop","index":1}`,
		`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":5}}`,
		`{"type":"message_stop"}`,
	} {
		packed = append(packed, chunk(t, event)...)
		var e struct{ Type string }
		if err := json.Unmarshal([]byte(event), &e); err != nil {
			t.Fatal(err)
		}
		plain = append(plain, "event: "+e.Type+"\ndata: "+event+"\n\n"...)
	}
	events := func(side core.ProviderSide, stream []byte) (all []core.Event) {
		r := side.Reader(&core.Job{Operation: core.OpGenerate, Streamed: true}, nil)
		for _, f := range cut(t, r.Split(), stream) {
			r.Read(&f)
			for _, e := range r.Events(&f) {
				e.Text = append([]byte(nil), e.Text...)
				all = append(all, e)
			}
		}
		return all
	}
	own := events(adapters.Anthropic{}, plain)
	if len(own) < 6 {
		t.Fatalf("%d events", len(own))
	}
	sameEvents(t, "in AWS's messages", events(bedrock(), packed), own)
}

func FuzzBedrock(f *testing.F) {
	f.Add([]byte(`{"bytes":"eyJ0eXBlIjoicGluZyJ9"}`), "chunk")
	f.Add([]byte(`{"contentBlockIndex":0,"delta":{"text":"a\ud83d"}}`), "contentBlockDelta")
	f.Add([]byte(`{"contentBlockIndex":0,"delta":{"reasoningContent":{"text":"a","signature":"x"}}}`), "contentBlockDelta")
	f.Add([]byte(`{"start":{"toolUse":{"toolUseId":"a","name":"b"}}}`), "contentBlockStart")
	f.Add([]byte(`{"stopReason":"end_turn"}`), "messageStop")
	f.Add([]byte(`{"usage":{"inputTokens":1,"outputTokens":2,"cacheDetails":[{"inputTokens":1,"ttl":"1h"}]}}`), "metadata")
	f.Add([]byte(`{"output":{"message":{"content":[{"text":"a"},{"toolUse":{"toolUseId":"i","name":"n","input":{"a":1}}}]}},"stopReason":"tool_use"}`), "")
	f.Fuzz(func(t *testing.T, payload []byte, kind string) {
		if len(kind) > 200 || len(payload) > 1<<20 {
			return
		}
		stream := append(awsEvent(t, kind, string(payload)), awsEvent(t, kind, string(payload))...)
		for _, side := range []core.ProviderSide{bedrock(), converse()} {
			r := side.Reader(&core.Job{Operation: core.OpGenerate}, nil)
			for _, frame := range cut(t, core.SplitAWS, stream) {
				r.Read(&frame)
				checkEvents(t, r.Events(&frame))
			}
			r = side.Reader(&core.Job{Operation: core.OpGenerate}, nil)
			if r.ReadWhole(payload) == nil {
				events, err := r.WholeEvents(payload)
				if err != nil {
					t.Fatal(err)
				}
				checkEvents(t, events)
			}
		}
	})
}

// checkEvents: texts are what may stand between the quotes of a JSON string.
func checkEvents(t *testing.T, events []core.Event) {
	t.Helper()
	for _, e := range events {
		if len(e.Text) > 0 && !json.Valid([]byte(`"`+string(e.Text)+`"`)) {
			t.Fatalf("%q is no escaped text", e.Text)
		}
		if len(e.Seal.Text) > 0 && !json.Valid(e.Seal.Text) {
			t.Fatalf("%q is no JSON string", e.Seal.Text)
		}
	}
}

func sameEvents(t *testing.T, name string, got []core.Event, want []core.Event) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d events, want %d: %+v", name, len(got), len(want), got)
		return
	}
	for i := range got {
		got[i].Text = append([]byte(nil), got[i].Text...)
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("%s: event %d is %+v %q, want %+v", name, i, got[i], got[i].Text, want[i])
		}
	}
}
