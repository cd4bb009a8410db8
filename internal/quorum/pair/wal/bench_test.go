package wal

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	etcdwal "go.etcd.io/etcd/server/v3/storage/wal"
)

// A directory as etcd leaves it: segments of 64 MB on a disk, the last with space
// set aside. The wanted time is 100 ms in the median.
func BenchmarkEdit(b *testing.B) {
	for name, entries := range map[string]int{"1MB": 500, "60MB": 30_000, "200MB": 100_000} {
		b.Run(name, func(b *testing.B) {
			etcdwal.SegmentSizeBytes = 64 * 1000 * 1000
			defer func() { etcdwal.SegmentSizeBytes = segmentBytes }()
			m := begin(b, b.TempDir(), addVoter)
			m.w.SetUnsafeNoFsync()
			m.put(entries, 2000).agree().stop()
			tail := m.tail()
			info, err := os.Stat(tail)
			if err != nil {
				b.Fatal(err)
			}
			var took []time.Duration
			for b.Loop() {
				p, err := Edit(m.dir, Options{})
				if err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Duration(p.EditMS*float64(time.Millisecond)))
				if err := os.Truncate(tail, p.Offset); err != nil {
					b.Fatal(err)
				}
				if err := os.Truncate(tail, info.Size()); err != nil {
					b.Fatal(err)
				}
				if err := os.RemoveAll(filepath.Join(m.dir.Data, copies)); err != nil {
					b.Fatal(err)
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "median-ms")
			b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "most-ms")
		})
	}
}
