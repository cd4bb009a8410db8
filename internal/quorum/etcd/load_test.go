package etcd

import (
	"errors"
	"strings"
	"testing"
	"time"
)

const page = `# HELP etcd_disk_wal_fsync_duration_seconds The latency distributions of fsync called by WAL.
etcd_disk_wal_fsync_duration_seconds_bucket{le="0.001"} 10
etcd_disk_wal_fsync_duration_seconds_bucket{le="0.002"} 90
etcd_disk_wal_fsync_duration_seconds_bucket{le="8.192"} 100
etcd_disk_wal_fsync_duration_seconds_bucket{le="+Inf"} 100
etcd_disk_wal_fsync_duration_seconds_sum 1
etcd_disk_wal_fsync_duration_seconds_count 100
etcd_server_proposals_committed_total 1234
etcd_server_proposals_pending 3
go_goroutines 100
`

func TestScan(t *testing.T) {
	l, err := scan(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	if l.Pending != 3 || l.Committed != 1234 || l.Syncs != 100 || len(l.Buckets) != 4 {
		t.Errorf("load %+v", l)
	}
	if _, err := scan(strings.NewReader("go_goroutines 1\n")); !errors.Is(err, ErrNoMetrics) {
		t.Errorf("a page without etcd's series: %v", err)
	}
}

func TestFsyncIsTheDifferenceOfTwoReadings(t *testing.T) {
	earlier, _ := scan(strings.NewReader(page))
	later, _ := scan(strings.NewReader(page))
	if d := Fsync(earlier, later); d != 0 {
		t.Errorf("no fsync between, got %v", d)
	}
	later.Syncs += 100
	for i := range later.Buckets {
		later.Buckets[i].Count += 100
	}
	if d := Fsync(earlier, later); d != time.Millisecond {
		t.Errorf("all within 1 ms, got %v", d)
	}
	if d := Fsync(later, earlier); d != 0 {
		t.Errorf("etcd restarted, got %v", d)
	}
	if d := Fsync(Load{}, later); d != 0 {
		t.Errorf("nothing to compare with, got %v", d)
	}
}

func FuzzScan(f *testing.F) {
	f.Add(page)
	f.Add("etcd_server_proposals_pending NaN\netcd_disk_wal_fsync_duration_seconds_bucket{le=\"\"} 1")
	f.Fuzz(func(t *testing.T, s string) {
		l, err := scan(strings.NewReader(s))
		if err == nil {
			_ = Fsync(Load{Buckets: make([]Bucket, len(l.Buckets))}, l)
		}
	})
}

func TestIdentity(t *testing.T) {
	for body, want := range map[string]bool{
		`[{"id":10276657743932975437,"name":"a"}]`: true,
		`[{"id":"8e9e05c52164694d"}]`:              true,
		`[{"id":1}]`:                               false,
		`[]`:                                       false,
	} {
		if got, err := identity([]byte(body), 0x8e9e05c52164694d); err != nil || got != want {
			t.Errorf("%s: %v, %v", body, got, err)
		}
	}
	if _, err := identity([]byte("<html>"), 1); err == nil {
		t.Error("HTML accepted")
	}
}

func FuzzIdentity(f *testing.F) {
	f.Add([]byte(`[{"id":10276657743932975437}]`))
	f.Fuzz(func(_ *testing.T, b []byte) { _, _ = identity(b, 1) })
}
