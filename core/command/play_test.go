// These tests play faults that users of other gateways have reported
// (testdata/cases, one JSON file each; its README.md defines every field)
// against the built binary: mock upstreams and clients on raw TCP write and
// read exactly what a case says, and what both sides, the receipts and the
// admin API show afterwards is compared with what the case expects.
//
// play_case_test.go reads a case, play_upstream_test.go is the mock upstream,
// play_client_test.go and play_answer_test.go are the client,
// play_gateway_test.go runs the binary, play_worker_test.go the nodes of a case,
// play_run_test.go plays it,
// play_verify_test.go, play_expect_test.go and play_state_test.go gather what
// was seen, play_check_test.go compares it, play_source_test.go looks into the
// sources. play_self_test.go and play_selfcheck_test.go test all of these
// without the binary.
package command_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// notPlayed are the cases that cannot be seen from outside. notPlayedBecause says the same from
// the case itself, and a test keeps the two together.
var notPlayed = map[string]string{
	"059-store-space-never-freed": hasStoreTest,
}

// alsoExpect are checks that follow from a case's text and are not in its JSON.
var alsoExpect = map[string]string{
	// The speed that the receipt shows is a job of the measure: without this,
	// the "no samples" of 003 could be read from the wrong place.
	"004": `{"state": {"measures": {"A": {"output_speed_samples": 1}}}}`,
	// "The failure is kept with the script's name."
	"061": `{"state": {"hook_log": {"contains": ["hook.js:1: "]}}}`,
	// "Nothing of a prompt or an answer in receipts", for the cut stream too.
	"054": `{"receipt": {"c3": {"raw": {"not_contains": ["MARK-IN-7f3a", "MARK-OUT-19c2"]}}}}`,
}

// atOnce bounds how many cases run at a time: most of a case is waiting, but a
// case on a machine without a free core measures the machine.
const atOnce = 4

func TestReportedFaults(t *testing.T) {
	files, err := caseFiles()
	if err != nil {
		t.Fatal(err)
	}
	bin := buildHeadway(t)
	free := make(chan struct{}, atOnce)
	for _, file := range files {
		name := caseName(file)
		if notPlayed[name] != "" {
			continue
		}
		for variant := range max(1, hooks(t, file)) {
			run := name
			if variant > 0 {
				run = fmt.Sprintf("%s-%d", name, variant+1)
			}
			t.Run(run, func(t *testing.T) {
				t.Parallel()
				free <- struct{}{}
				defer func() { <-free }()
				playCase(t, bin, file, variant)
			})
		}
	}
}

// hooks counts the scripts of a case, which are played one at a time.
func hooks(t *testing.T, file string) int {
	c, err := readCase(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return len(c.Given.Hooks)
}

// TestEveryCaseIsAccountedFor: a case is played, or the table says why not.
func TestEveryCaseIsAccountedFor(t *testing.T) {
	files, err := caseFiles()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 65 {
		t.Errorf("testdata/cases has %d cases, expected 65", len(files))
	}
	names := map[string]bool{}
	for i, file := range files {
		name := caseName(file)
		names[name] = true
		c, err := readCase(file, nil)
		if err != nil {
			t.Error(err)
			continue
		}
		if want := fmt.Sprintf("%03d", i+1); c.ID != want || name != c.ID+"-"+c.Slug {
			t.Errorf("%s: id %s and slug %s, expected number %s", name, c.ID, c.Slug, want)
		}
		if why := c.notPlayedBecause(); why != notPlayed[name] {
			t.Errorf("%s: not played because of %q, the table says %q", name, why, notPlayed[name])
		}
	}
	for name := range notPlayed {
		if !names[name] {
			t.Errorf("the table names %s, which is no case", name)
		}
	}
}

func caseName(file string) string { return strings.TrimSuffix(filepath.Base(file), ".json") }
