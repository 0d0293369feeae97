package command_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"
)

var resident = regexp.MustCompile(`(?m)^VmRSS:\s+(\d+) kB$`)

// TestIdleMemory: what an idle edge and an idle node hold once they have started.
func TestIdleMemory(t *testing.T) {
	const mostKiB = 30 << 10
	llama := newLlamaServer(t)
	llama.has("qwen")
	bin := buildHeadway(t)
	g := startGateway(t, bin, t.TempDir(), map[string]any{"listen": "127.0.0.1:0", "nats": map[string]any{"listen": "127.0.0.1:0"}}, nil)
	status, answer, err := g.admin(http.MethodPost, "/admin/v1/nodes", map[string]any{"name": "gpu"})
	var invited struct{ Join string }
	if err != nil || status != http.StatusCreated || json.Unmarshal(answer, &invited) != nil {
		t.Fatalf("status %d, %v: %s", status, err, answer)
	}
	node := startWorker(t, bin, nodeFile(t, map[string]any{"join": "${JOIN}", "data": "node", "upstreams": []any{map[string]any{"url": llama.URL}}}),
		append(os.Environ(), "JOIN="+invited.Join))
	<-node.log.ready
	for what, pid := range map[string]int{"an edge with a node": g.cmd.Process.Pid, "a node": node.cmd.Process.Pid} {
		kib := 0
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for end := time.Now().Add(callLimit); kib == 0 || kib > mostKiB && time.Now().Before(end); <-tick.C {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			if err != nil {
				t.Fatal(err)
			}
			if m := resident.FindSubmatch(text); m != nil {
				kib, _ = strconv.Atoi(string(m[1]))
			}
		}
		t.Logf("%s: resident %d KiB", what, kib)
		if kib > mostKiB {
			t.Errorf("%s: resident %d KiB, more than %d", what, kib, mostKiB)
		}
	}
}
