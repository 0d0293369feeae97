package control_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headway/core"
	"headway/core/control"
)

// over serves a rig on its data folder's socket.
func over(t *testing.T, r *rig, dir string) {
	t.Helper()
	l, err := control.Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: r.desk.Local()}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		if _, err := os.Lstat(filepath.Join(dir, "headway.sock")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the socket is still there: %v", err)
		}
	})
}

func TestTheSocketOfAnyFolder(t *testing.T) {
	r := newRig(t)
	ctx := context.Background()
	for name, dir := range map[string]string{
		"short": t.TempDir(),
		"long":  filepath.Join(t.TempDir(), strings.Repeat("deep/", 30)),
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			// An earlier process was killed and left its socket.
			left, err := control.Listen(dir)
			if err != nil {
				t.Fatal(err)
			}
			if u, ok := left.(*net.UnixListener); ok {
				u.SetUnlinkOnClose(false)
				_ = left.Close()
			}
			over(t, r, dir)
			info, err := os.Lstat(filepath.Join(dir, "headway.sock"))
			if err != nil || info.Mode().Perm() != 0o600 || (name == "short") != (info.Mode()&os.ModeSocket != 0) {
				t.Errorf("the socket is %v: %v", info.Mode(), err)
			}
			c, err := control.Dial(dir)
			if err != nil {
				t.Fatal(err)
			}
			offers, err := c.Offers(ctx)
			if err != nil || len(offers.Items) != 3 || offers.Items[0].Input.String() != "3" || offers.Items[0].State != "active" {
				t.Errorf("the offers are %+v: %v", offers, err)
			}
			_, err = c.PauseOffer(ctx, "fast/none")
			var e *core.Error
			if !errors.As(err, &e) || e.Kind != core.NotFound || !strings.Contains(e.Msg, "there is no offer") {
				t.Errorf("a refused call is %v", err)
			}
			_, err = c.Calls(ctx, url.Values{"wrong": {"x"}})
			if !errors.As(err, &e) || e.Kind != core.Invalid || e.Param != "wrong" || !strings.Contains(e.Hint, "outcome") {
				t.Errorf("a wrong call is %+v", e)
			}
		})
	}
}

func TestAForeignFileIsNotReplaced(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "headway.sock"), 0o700); err != nil {
		t.Fatal(err)
	}
	if l, err := control.Listen(dir); err == nil {
		l.Close()
		t.Error("a folder was replaced by the socket")
	}
}

func TestNoServerRuns(t *testing.T) {
	dir := t.TempDir()
	_, err := control.Dial(dir)
	if !errors.Is(err, control.ErrNoServer) || !strings.Contains(err.Error(), dir) {
		t.Errorf("an empty folder: %v", err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "headway.sock"))
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	c, err := control.Dial(dir)
	if err == nil {
		_, err = c.Status(context.Background())
	}
	if !errors.Is(err, control.ErrNoServer) {
		t.Errorf("a socket that was left: %v", err)
	}
}

func TestARemoteServer(t *testing.T) {
	r := newRig(t)
	ctx := context.Background()
	var redirected bool
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { redirected = true }))
	defer elsewhere.Close()
	mux := http.NewServeMux()
	mux.Handle("/admin/v1/", r.desk.Handler())
	mux.Handle("/admin/v1/models", http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	s := httptest.NewServer(mux)
	defer s.Close()

	c, err := control.Remote(s.URL+"/", core.NewSecret(adminToken))
	if err != nil {
		t.Fatal(err)
	}
	k, err := c.MakeKey(ctx, map[string]any{"name": "far"})
	if err != nil || k.Text == "" {
		t.Errorf("a key is %+v: %v", k, err)
	}
	if keys, err := c.Keys(ctx); err != nil || len(keys.Items) != 2 {
		t.Errorf("the keys are %+v: %v", keys, err)
	}
	if _, err := c.Models(ctx); err == nil || redirected {
		t.Errorf("a redirect was followed with the token: %v", err)
	}
	wrong, err := control.Remote(s.URL, core.NewSecret("wrong"))
	if err != nil {
		t.Fatal(err)
	}
	var e *core.Error
	if _, err := wrong.Status(ctx); !errors.As(err, &e) || e.Kind != core.Unauthorized {
		t.Errorf("with a wrong token: %v", err)
	}
	foreign, err := control.Remote(elsewhere.URL, core.NewSecret(adminToken))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := foreign.Status(ctx); err == nil {
		t.Error("a server that is no headway is taken for one")
	}
	for _, bad := range []string{"", "127.0.0.1:8080", "ftp://x", "http://", "http://u:p@host", "http://host/path", "http://host/?q=1"} {
		if _, err := control.Remote(bad, core.NewSecret(adminToken)); err == nil {
			t.Errorf("%q is taken for the address of a server", bad)
		}
	}
	if _, err := control.Remote(s.URL, core.Secret{}); !errors.As(err, &e) || e.Kind != core.Unauthorized {
		t.Errorf("without a token: %v", err)
	}
	s.Close()
	if _, err := c.Status(ctx); !errors.As(err, &e) || e.Kind != core.Unavailable || strings.Contains(e.Msg, adminToken) {
		t.Errorf("a server that is gone: %v", err)
	}
}

func TestARunningDemoIsFound(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	if dir, ok := control.Demo(); ok {
		t.Errorf("a demo is found at %s", dir)
	}
	first, err := control.MarkDemo("/one")
	if err != nil {
		t.Fatal(err)
	}
	second, err := control.MarkDemo("/two")
	if err != nil {
		t.Fatal(err)
	}
	if err := first(); err != nil {
		t.Error(err)
	}
	if dir, ok := control.Demo(); !ok || dir != "/two" {
		t.Errorf("the demo is at %s, want /two", dir)
	}
	if err := second(); err != nil {
		t.Error(err)
	}
	if _, ok := control.Demo(); ok {
		t.Error("a demo is found after its end")
	}
}
