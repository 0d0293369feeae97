package adapters_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"headway/adapters"
	"headway/core"
)

func vertexOffer(format core.Format, upstream string) *core.Offer {
	o := offerOf(format, upstream)
	o.Provider.BaseURL, o.Provider.Project, o.Provider.Location = "", "proj", "europe-west1"
	o.Provider.APIKey = core.NewSecret("ya29.token")
	return o
}

func sent(t *testing.T, req *http.Request, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil || int64(len(body)) != req.ContentLength {
		t.Fatalf("%d bytes of %d, %v", len(body), req.ContentLength, err)
	}
	return string(body)
}

// TestVertexAnthropicBuild: a client's own bytes but for the model and the
// version.
func TestVertexAnthropicBuild(t *testing.T) {
	const at = "https://europe-west1-aiplatform.googleapis.com/v1/projects/proj/locations/europe-west1/publishers/anthropic/models/"
	const version = `"anthropic_version":"vertex-2023-10-16"`
	const rest = `"max_tokens":1,"messages":[{"role":"user","content":"hi \"model\": "}],"new":1e400`
	v := adapters.VertexAnthropic{}
	for _, c := range []struct{ path, body, url, want string }{
		{messagesPath, `{"model":"m",` + rest + `}`, "claude@1:rawPredict", `{` + version + `,` + rest + `}`},
		{messagesPath, `{` + rest + `,"stream":true , "model" : "m" }`, "claude@1:streamRawPredict", `{` + version + `,` + rest + `,"stream":true  }`},
		{messagesPath, ` { ` + rest + `, "mod\u0065l":"m","stream":false}`, "claude@1:rawPredict", ` {` + version + `, ` + rest + `,"stream":false}`},
		{messagesPath, `{"anthropic_version":"bedrock-2023-05-31","model":"m" ,` + rest + `}`, "claude@1:rawPredict", `{` + version + ` ,` + rest + `}`},
		{messagesPath, `{"model":"m",` + rest + `,"user":"anthropic_version"}`, "claude@1:rawPredict", `{` + version + `,` + rest + `,"user":"anthropic_version"}`},
		{messagesPath + "/count_tokens", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, "count-tokens:rawPredict",
			`{` + version + `,"model":"claude@1","messages":[{"role":"user","content":"hi"}]}`},
	} {
		head := core.RequestHead{Path: c.path, Query: url.Values{"beta": {"true"}}, Header: http.Header{"Anthropic-Beta": {"a-1"}, "X-Api-Key": {"hw_caller"}}}
		job, err := adapters.Anthropic{}.Parse(head, []byte(c.body))
		if err != nil {
			t.Fatal(err)
		}
		req, _, err := v.Build(t.Context(), job, nil, head, vertexOffer(core.FormatVertexAnthropic, "claude@1"))
		if got := sent(t, req, err); got != c.want {
			t.Errorf("%s\nis sent as\n%s\nwant\n%s", c.body, got, c.want)
		}
		if req.URL.String() != at+c.url || req.Header.Get("Authorization") != "Bearer ya29.token" || req.Header.Get("Anthropic-Beta") != "a-1" || req.Header.Get("X-Api-Key") != "" {
			t.Errorf("to %s with %v", req.URL, req.Header)
		}
	}
	r := v.Reader(&core.Job{Operation: core.OpGenerate}, nil)
	if marks := readAll(t, r, recorded(t, "ollama/v1-messages-stream.sse")); len(marks) == 0 || r.Answer().Finish == "" {
		t.Errorf("its stream is read as %v", marks)
	}
}

func TestVertexGoogleBuild(t *testing.T) {
	const body = `{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"new":1}`
	const at = "/v1/projects/proj/locations/europe-west1/publishers/google/models/"
	for _, c := range []struct{ path, query, body, want, url, upstream string }{
		{"/v1beta/models/m:generateContent", "", body, body, at + "gemini:generateContent", "gemini"},
		{"/v1beta/models/m:generateContent", "alt=json", body, body, at + "gemini:generateContent", "models/gemini"},
		{"/v1beta/models/m:streamGenerateContent", "", body, body, at + "gemini:streamGenerateContent", "gemini"},
		{"/v1/models/m:streamGenerateContent", "alt=sse&access_token=x&key=y", body, body, at + "gemini:streamGenerateContent?alt=sse", "gemini"},
		{"/v1beta/models/m:countTokens", "", `{"model":"models/m",` + body[1:], body, at + "gemini:countTokens", "gemini"},
		{"/v1beta/models/m:generateContent", "", body, body, "/v1/projects/proj/locations/europe-west1/endpoints/12:generateContent", "endpoints/12"},
		{"/v1beta/models/m:generateContent", "", body, body, "/v1/projects/proj/locations/europe-west1/publishers/x/models/y%3Fz:generateContent", "publishers/x/models/y?z"},
	} {
		query, _ := url.ParseQuery(c.query)
		head := core.RequestHead{Path: c.path, Query: query, Header: http.Header{"X-Goog-Api-Key": {"hw_caller"}}}
		job, err := adapters.Google{}.Parse(head, []byte(c.body))
		if err != nil {
			t.Fatal(err)
		}
		offer := vertexOffer(core.FormatVertexGoogle, c.upstream)
		offer.Provider.BaseURL = "https://vertex.example/below"
		req, _, err := adapters.VertexGoogle{}.Build(t.Context(), job, nil, head, offer)
		if got := sent(t, req, err); got != c.want || req.URL.String() != "https://vertex.example/below"+c.url {
			t.Errorf("%s?%s: to %s\n%s", c.path, c.query, req.URL, got)
		}
		if req.Header.Get("X-Goog-Api-Key") != "" || req.Header.Get("Authorization") != "Bearer ya29.token" {
			t.Errorf("with %v", req.Header)
		}
	}
}

// TestVertexTranslated: what another format's client asks for, in the bodies of
// Anthropic and Google.
func TestVertexTranslated(t *testing.T) {
	content := &core.Content{Format: core.FormatOpenAI, Messages: []core.Message{{Role: core.RoleUser, At: "messages[0]", Parts: []core.Part{{Text: jsonString("hi")}}}},
		MaxOutput: core.Some[int64](7)}
	for _, streamed := range []bool{false, true} {
		job := &core.Job{Format: core.FormatOpenAI, Operation: core.OpGenerate, Model: "m", Streamed: streamed}
		content.Streamed = streamed
		head := core.RequestHead{Path: "/v1/chat/completions", Header: http.Header{}}
		method, action := ":rawPredict", ":generateContent"
		if streamed {
			method, action = ":streamRawPredict", ":streamGenerateContent?alt=sse"
		}

		req, _, err := adapters.VertexAnthropic{}.Build(t.Context(), job, content, head, vertexOffer(core.FormatVertexAnthropic, "claude"))
		var body struct {
			Model    *string
			Version  string `json:"anthropic_version"`
			Stream   bool
			Max      int `json:"max_tokens"`
			Messages []any
		}
		if err := json.Unmarshal([]byte(sent(t, req, err)), &body); err != nil || body.Model != nil || body.Version != "vertex-2023-10-16" ||
			body.Stream != streamed || body.Max != 7 || len(body.Messages) != 1 {
			t.Errorf("sent %+v, %v", body, err)
		}
		if !strings.HasSuffix(req.URL.String(), "/publishers/anthropic/models/claude"+method) {
			t.Errorf("to %s", req.URL)
		}

		req, _, err = adapters.VertexGoogle{}.Build(t.Context(), job, content, head, vertexOffer(core.FormatVertexGoogle, "gemini"))
		if got := sent(t, req, err); !strings.Contains(got, `"contents"`) || strings.Contains(got, `"model"`) {
			t.Errorf("sent %s", got)
		}
		if !strings.HasSuffix(req.URL.String(), "/publishers/google/models/gemini"+action) {
			t.Errorf("to %s", req.URL)
		}
		if r := (adapters.VertexGoogle{}).Reader(job, nil); r.Split() != core.SplitSSE {
			t.Error("a stream that was asked for with alt=sse is cut as an array")
		}
	}
}

func TestVertexAddress(t *testing.T) {
	head := core.RequestHead{Path: "/v1beta/models/m:generateContent", Header: http.Header{}}
	job, err := adapters.Google{}.Parse(head, []byte(`{"contents":[{"parts":[{"text":"hi"}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for location, host := range map[string]string{
		"global": "aiplatform.googleapis.com", "us": "aiplatform.us.rep.googleapis.com", "us-east5": "us-east5-aiplatform.googleapis.com",
	} {
		offer := vertexOffer(core.FormatVertexGoogle, "gemini")
		offer.Provider.Location = location
		req, _, err := adapters.VertexGoogle{}.Build(t.Context(), job, nil, head, offer)
		if err != nil || req.URL.Host != host || !strings.Contains(req.URL.Path, "/locations/"+location+"/") {
			t.Errorf("%s: %v, %v", location, req.URL, err)
		}
		if offer.Provider.BaseURL != "" {
			t.Error("the provider is changed")
		}
	}
	offer := vertexOffer(core.FormatVertexGoogle, "gemini")
	for key, want := range map[string]string{"AIzaKey": "X-Goog-Api-Key", "AQ.Key": "X-Goog-Api-Key", "other": "Authorization"} {
		offer.Provider.APIKey = core.NewSecret(key)
		req, _, err := adapters.VertexGoogle{}.Build(t.Context(), job, nil, head, offer)
		if err != nil || !strings.HasSuffix(req.Header.Get(want), key) || len(req.Header["Authorization"])+len(req.Header["X-Goog-Api-Key"]) != 1 {
			t.Errorf("%s: %v, %v", key, req.Header, err)
		}
	}
	offer.Provider.APIKey, offer.Provider.Headers = core.Secret{}, map[string]core.Secret{"authorization": core.NewSecret("Bearer own")}
	if req, _, err := (adapters.VertexGoogle{}).Build(t.Context(), job, nil, head, offer); err != nil || req.Header.Get("Authorization") != "Bearer own" {
		t.Errorf("%v, %v", req, err)
	}
}

// tokens is a server of access tokens; each answer has one of its own that lasts
// as long as given.
func tokens(t *testing.T, lasts time.Duration) (*httptest.Server, func() int) {
	t.Helper()
	var mu sync.Mutex
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		n++
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Metadata-Flavor", "Google")
		fmt.Fprintf(w, `{"access_token":"token-%d","expires_in":%d,"token_type":"Bearer"}`, n, int(lasts.Seconds()))
	}))
	t.Cleanup(s.Close)
	return s, func() int { mu.Lock(); defer mu.Unlock(); return n }
}

// account writes the file of a service account whose tokens come from url, as
// GOOGLE_APPLICATION_CREDENTIALS.
func account(t *testing.T, url string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "account.json")
	data, _ := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "a@example.iam.gserviceaccount.com", "private_key_id": "1", "token_uri": url,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), "quota_project_id": "quota",
	})
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
}

// buildWith makes one request with the tokens and gives its credential.
func buildWith(ctx context.Context, found *adapters.GoogleTokens) (http.Header, error) {
	head := core.RequestHead{Path: "/v1beta/models/m:generateContent", Header: http.Header{}}
	job, err := adapters.Google{}.Parse(head, []byte(`{"contents":[{"parts":[{"text":"hi"}]}]}`))
	if err != nil {
		return nil, err
	}
	offer := &core.Offer{Provider: &core.Provider{ID: "v", Project: "p", Location: "global"}, UpstreamModel: "gemini"}
	req, _, err := adapters.VertexGoogle{Tokens: found}.Build(ctx, job, nil, head, offer)
	if err != nil {
		return nil, err
	}
	return req.Header, nil
}

// TestVertexTokens: one token serves all calls until it ends.
func TestVertexTokens(t *testing.T) {
	s, asked := tokens(t, time.Hour)
	account(t, s.URL)
	found := &adapters.GoogleTokens{}
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			h, err := buildWith(t.Context(), found)
			if err != nil || h.Get("Authorization") != "Bearer token-1" || h.Get("X-Goog-User-Project") != "quota" {
				t.Errorf("%v, %v", h, err)
			}
		})
	}
	wait.Wait()
	if asked() != 1 {
		t.Errorf("asked for %d tokens", asked())
	}

	s, _ = tokens(t, time.Second) // too short to be used again
	account(t, s.URL)
	found = &adapters.GoogleTokens{}
	for n := 1; n <= 2; n++ {
		if h, err := buildWith(t.Context(), found); err != nil || h.Get("Authorization") != fmt.Sprintf("Bearer token-%d", n) {
			t.Errorf("%v, %v", h, err)
		}
	}
}

// TestVertexNoTokens: what went wrong is said without what a file or a server
// said, and a call that ends waits for no token.
func TestVertexNoTokens(t *testing.T) {
	file := filepath.Join(t.TempDir(), "broken.json")
	if err := os.WriteFile(file, []byte(`{"type":"hunter2"`), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	found := &adapters.GoogleTokens{}
	if _, err := buildWith(t.Context(), found); err == nil || !strings.Contains(err.Error(), "no Google credentials were found") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v", err)
	}
	refuse := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, `{"error":"invalid_grant","error_description":"hunter2"}`, http.StatusBadRequest)
	}))
	defer refuse.Close()
	account(t, refuse.URL) // the same tokens look again once there is something to find
	if _, err := buildWith(t.Context(), found); err == nil || !strings.Contains(err.Error(), "gave no access token") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v", err)
	}

	release := make(chan struct{})
	hang := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer hang.Close()
	defer close(release)
	account(t, hang.URL)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := buildWith(ctx, &adapters.GoogleTokens{}); err == nil {
		t.Error("a call that ended got a token")
	}
}

// TestVertexMetadata: a machine at Google has an account of its own.
// TestVertexMetadata runs in a process of its own: Google's library finds out once
// whether there is a metadata server, and another test may have asked it first.
func TestVertexMetadata(t *testing.T) {
	const own = "HEADWAY_TEST_OWN_PROCESS"
	if os.Getenv(own) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestVertexMetadata$")
		cmd.Env = append(os.Environ(), own+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	s, _ := tokens(t, time.Hour)
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(s.URL, "http://"))
	if h, err := buildWith(t.Context(), &adapters.GoogleTokens{}); err != nil || !strings.HasPrefix(h.Get("Authorization"), "Bearer token-") {
		t.Errorf("%v, %v", h, err)
	}
}
