package estimate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"headway/core"
	"headway/core/estimate"
)

// BenchmarkRead: SPEC §6 wants microseconds, and 100 KB within 50.
func BenchmarkRead(b *testing.B) {
	prose := `The gateway reads each receipt once, and what it learns is \"kept\" beside it.\nThen it goes on to the next one, as 1,250 others did before. `
	e, err := estimate.New(time.Now, core.NewMemory())
	if err != nil {
		b.Fatal(err)
	}
	for _, size := range [...]int{1 << 10, 16 << 10, 100 << 10, 4 << 20} {
		job := textJob(strings.Repeat(prose, size/len(prose)+1)[:size])
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				e.Read(job, "k")
			}
		})
	}
}

// textJob is a job of some texts as they are in a JSON string.
func textJob(texts ...string) *core.Job {
	job := &core.Job{Operation: core.OpGenerate, Model: "m"}
	for _, t := range texts {
		from := len(job.Body)
		job.Body = append(job.Body, t...)
		job.Turns = append(job.Turns, core.Span{From: from, To: len(job.Body)})
		job.PromptBytes += len(t) - strings.Count(t, `\`)
	}
	return job
}
