package seal

import (
	"bytes"
	"testing"
)

// BenchmarkRun packs groups of leaves as they are stored, and says how many bytes a leaf
// then takes.
func BenchmarkRun(b *testing.B) {
	for _, size := range []int{1, 8, 64} {
		b.Run(string(rune('0'+size/10))+string(rune('0'+size%10)), func(b *testing.B) {
			r := newRig(b)
			r.add(size, size)
			var leaves [][]byte
			_ = r.seal.Source().Leaves("2026-11", 1, uint64(size)+1, func(_ uint64, leaf []byte) bool {
				leaves = append(leaves, bytes.Clone(leaf))
				return true
			})
			nonce := bytes.Repeat([]byte{7}, saltSize)
			bytes := 0
			var run run
			var record []byte
			for b.Loop() {
				run.begin(0)
				for _, leaf := range leaves {
					run.add(nonce, leaf)
				}
				record = run.record(record[:0])
				bytes = len(record)
			}
			b.ReportMetric(float64(bytes)/float64(size), "bytes/leaf")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size), "ns/leaf")
		})
	}
}
