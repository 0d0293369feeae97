package adapters

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	"golang.org/x/sync/singleflight"
)

// GoogleTokens are access tokens from Google's usual places: the file that
// GOOGLE_APPLICATION_CREDENTIALS names, that of `gcloud auth
// application-default login`, the metadata server of a machine at Google. They
// are looked for with the first call that needs one, and a token is used until
// it ends. The zero value is ready.
type GoogleTokens struct {
	fetching singleflight.Group // guards source and project
	source   oauth2.TokenSource
	project  string // that calls are counted for, where the credential says one
	last     atomic.Pointer[oauth2.Token]
}

// cloudScope is the right to use Google Cloud.
const cloudScope = "https://www.googleapis.com/auth/cloud-platform"

// tokenTime bounds one call for a token.
const tokenTime = 20 * time.Second

// Errors of token. What the places themselves said may hold what no log may.
var (
	errNoCredentials = errors.New("no Google credentials were found")
	errNoToken       = errors.New("Google gave no access token for the credentials that were found")
)

// token gives an access token and the project that calls with it are counted
// for. It waits no longer than ctx lasts.
func (t *GoogleTokens) token(ctx context.Context) (string, string, error) {
	if last := t.last.Load(); last.Valid() {
		return last.AccessToken, t.project, nil
	}
	select {
	case <-ctx.Done():
		return "", "", context.Cause(ctx)
	case r := <-t.fetching.DoChan("", t.fetch):
		if r.Err != nil {
			return "", "", r.Err
		}
		return r.Val.(*oauth2.Token).AccessToken, t.project, nil
	}
}

// fetch finds the credentials, once, and gets a token. It runs once at a time:
// calls that need one meanwhile wait for the same.
func (t *GoogleTokens) fetch() (any, error) {
	if last := t.last.Load(); last.Valid() {
		return last, nil
	}
	if t.source == nil {
		ctx := context.WithValue(context.Background(), oauth2.HTTPClient, &http.Client{Timeout: tokenTime})
		found, err := google.FindDefaultCredentials(ctx, cloudScope)
		if err != nil {
			return nil, errNoCredentials
		}
		var file struct {
			Project string `json:"quota_project_id"`
		}
		if json.Unmarshal(found.JSON, &file) == nil {
			t.project = file.Project
		}
		t.source = found.TokenSource
	}
	token, err := t.source.Token()
	if err != nil || !sendable(token.AccessToken) {
		return nil, errNoToken
	}
	t.last.Store(token)
	return token, nil
}
