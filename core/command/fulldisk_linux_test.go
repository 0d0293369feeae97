package command_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestFullDisk fills the disk of the data folder down to the last page under load, with
// the signed log on: calls are refused with the reason, or served where receipts are
// optional; when space returns it goes on without a restart; and every receipt that was
// acknowledged is there and has its leaf, in a log that verifies.
func TestFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "mode=0700,size=256m"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("a small disk cannot be mounted: %v", err)
		}
		t.Skipf("a small disk cannot be mounted: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	server := modelServer(t, func(w http.ResponseWriter, _ *http.Request, body []byte, _ string, _ bool) {
		w.Header().Set("Content-Type", "application/json")
		send(w, chatWire(100, 1+len(body)%50).whole("ok", "{}"))
	})
	const key = "full-disk-key-0123456789"
	config := func(receipts string) map[string]any {
		return map[string]any{"listen": "127.0.0.1:0", "receipts": receipts, "log": map[string]any{"level": "error"}, "store": map[string]any{"log_file_bytes": 1 << 20},
			"providers": []any{asking("near", "openai", server.URL, "small")}, "keys": []any{map[string]any{"name": "caller", "key": key}}}
	}
	bin, data := buildHeadway(t), filepath.Join(disk, "data")
	g := startGateway(t, bin, data, config("required"), nil)
	client := patient(t)
	path, body := chatWire(0, 0).ask("small", "good morning", false)
	var mu sync.Mutex
	answered := map[string]bool{} // guarded by mu
	call := func(client *http.Client) (status int, id, said string) {
		resp, err := g.call(client, key, path, body)
		if err != nil {
			return 0, "", err.Error()
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			return 0, "", err.Error()
		}
		id = resp.Header.Get("X-Request-Id")
		if resp.StatusCode == http.StatusOK {
			mu.Lock()
			answered[id] = true
			mu.Unlock()
		}
		return resp.StatusCode, id, string(text)
	}
	await := func(what string, ok func() bool) {
		t.Helper()
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for end := time.Now().Add(time.Minute); !ok(); <-tick.C {
			if time.Now().After(end) {
				t.Fatalf("%s: never\n%s", what, g.log.tail())
			}
		}
	}

	// Load until the end.
	stop := make(chan struct{})
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			own := patient(t)
			for {
				select {
				case <-stop:
					return
				default:
				}
				switch status, _, said := call(own); status {
				case http.StatusOK:
				case http.StatusServiceUnavailable:
					if !strings.Contains(said, "the disk of the data folder is full") && !strings.Contains(said, "receipts") {
						t.Errorf("503 without its reason: %s", said)
					}
					<-time.After(20 * time.Millisecond)
				default:
					t.Errorf("%d %s", status, said)
					return
				}
			}
		})
	}
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(answered)
	}
	await("calls are answered", func() bool { return count() > 500 })

	hog := filepath.Join(disk, "hog")
	fillDisk(t, hog)
	await("a call is refused for the full disk", func() bool {
		status, _, said := call(client)
		return status == http.StatusServiceUnavailable && strings.Contains(said, "the disk of the data folder is full")
	})
	if status, raw, err := g.adminBy(client, "/readyz"); err != nil || status != http.StatusServiceUnavailable {
		t.Errorf("/readyz: %d %s %v", status, raw, err)
	}
	during := count()
	if err := os.Remove(hog); err != nil {
		t.Fatal(err)
	}
	await("calls are served again", func() bool { return count() > during+200 })
	close(stop)
	workers.Wait()

	// Every call that was answered has its receipt, with a leaf.
	receipts := map[string]string{}
	for id := range answered {
		await("the receipt of "+id, func() bool {
			status, raw, err := g.adminBy(client, "/admin/v1/calls/"+id)
			receipts[id] = string(raw)
			return err == nil && status == http.StatusOK
		})
	}
	if err := g.stop(); err != nil {
		t.Fatal(err)
	}
	g = startGateway(t, bin, data, config("optional"), nil)
	for id := range receipts {
		if status, raw, err := g.adminBy(client, "/admin/v1/calls/"+id); err != nil || status != http.StatusOK || string(raw) != receipts[id] {
			t.Fatalf("after a restart: %d %s %v", status, raw, err)
		}
	}
	t.Logf("%d receipts over a full disk", len(receipts))

	// Where receipts are optional calls are served all the same, without one.
	fillDisk(t, hog)
	await("the server sees that the disk is full", func() bool {
		_, raw, err := g.adminBy(client, "/readyz")
		return err == nil && strings.Contains(string(raw), "not kept")
	})
	status, id, said := call(client)
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, said)
	}
	if err := os.Remove(hog); err != nil {
		t.Fatal(err)
	}
	await("receipts are kept again", func() bool {
		_, raw, err := g.adminBy(client, "/readyz")
		return err == nil && string(raw) == "{\"status\":\"ready\"}\n"
	})
	if status, raw, err := g.adminBy(client, "/admin/v1/calls/"+id); err != nil || status != http.StatusNotFound {
		t.Errorf("the call that had no receipt: %d %s %v", status, raw, err)
	}
	status, id, _ = call(client)
	await("a receipt", func() bool {
		status, raw, err := g.adminBy(client, "/admin/v1/calls/"+id)
		receipts[id] = string(raw)
		return err == nil && status == http.StatusOK
	})
	if status != http.StatusOK {
		t.Error(status)
	}
	g.checkSealed(t, client, receipts)
	if err := g.stop(); err != nil {
		t.Error(err)
	}
}

// fillDisk takes all of a disk's space, down to the last page.
func fillDisk(t *testing.T, hog string) {
	t.Helper()
	f, err := os.Create(hog)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 1<<20); len(block) >= 4096; {
		if _, err := f.Write(block); err != nil {
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			block = block[:len(block)/2]
		}
	}
}
