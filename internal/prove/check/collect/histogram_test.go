package collect

import (
	"strings"
	"testing"
	"time"
)

const someFsync = `# TYPE etcd_disk_wal_fsync_duration_seconds histogram
etcd_disk_wal_fsync_duration_seconds_bucket{le="0.001"} 500
etcd_disk_wal_fsync_duration_seconds_bucket{le="0.002"} 980
etcd_disk_wal_fsync_duration_seconds_bucket{le="0.004"} 1000
etcd_disk_wal_fsync_duration_seconds_bucket{le="+Inf"} 1000
etcd_disk_wal_fsync_duration_seconds_sum 1.2
etcd_disk_wal_fsync_duration_seconds_count 1000
`

func TestQuantile(t *testing.T) {
	const name = "etcd_disk_wal_fsync_duration_seconds"
	few := strings.NewReplacer("500", "5", "980", "9", "1000", "10").Replace(someFsync)
	for _, tc := range []struct {
		what, text string
		want       time.Duration
	}{
		{"half way through 2 to 4 ms", someFsync, 3 * time.Millisecond},
		{"none", "", 0},
		{"too few", few, 0},
		{"another histogram", strings.ReplaceAll(someFsync, "wal", "backend"), 0},
		{"beyond the last bound", strings.Replace(someFsync, `"+Inf"} 1000`, `"+Inf"} 2000`, 1), 4 * time.Millisecond},
		{"not cumulative", strings.Replace(someFsync, "980", "400", 1), 0},
		{"no number", strings.Replace(someFsync, `"+Inf"} 1000`, `"+Inf"} NaN`, 1), 0},
	} {
		if got := quantile(strings.NewReader(tc.text), name, 0.99); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.what, got, tc.want)
		}
	}
}

func FuzzQuantile(f *testing.F) {
	f.Add(someFsync)
	f.Add("etcd_disk_wal_fsync_duration_seconds_bucket{le=\"-1\"} 1e308 7\n")
	f.Fuzz(func(t *testing.T, text string) {
		if d := quantile(strings.NewReader(text), "etcd_disk_wal_fsync_duration_seconds", 0.99); d < 0 || d > maxBound*time.Second {
			t.Errorf("%s", d)
		}
	})
}
