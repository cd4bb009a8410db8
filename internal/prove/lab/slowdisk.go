package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/disk"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/space"
)

// watchDisk gives the member a thread to be started from whose programs have a
// disk that can be slow, if its cluster asks for that.
func (m *Member) watchDisk() error {
	if !m.cluster.SlowDisks {
		return nil
	}
	m.disk = &disk.Disk{}
	var err error
	if m.by, err = space.NewSpawnerPrepared(m.node.space, m.disk.Watch); err != nil {
		return fmt.Errorf("prepare disk of %s: %w", m.node.name, err)
	}
	return nil
}

// closeDisk ends the watch, after the member has ended.
func (m *Member) closeDisk() {
	if m.disk == nil {
		return
	}
	if m.by != nil {
		m.by.Close()
	}
	m.disk.Close()
}

// SlowDisk makes every fsync and fdatasync of the member take at least delay, 0
// none. Nothing else of it is slow.
func (m *Member) SlowDisk(delay time.Duration) error {
	if m.disk == nil {
		return errors.New("slow a disk: the cluster was built without slow_disks")
	}
	m.disk.Slow(delay)
	m.node.lab.journal.write("disk of %s: every sync takes at least %s", m.name, delay)
	return nil
}

// Syncs is what a member says of the syncs of its write-ahead log since its start.
type Syncs struct {
	Count float64
	Total time.Duration
}

// Since is the mean time of a sync since earlier; 0 when there was none.
func (s Syncs) Since(earlier Syncs) time.Duration {
	n := s.Count - earlier.Count
	if n <= 0 {
		return 0
	}
	return time.Duration(float64(s.Total-earlier.Total) / n)
}

const syncSeries = "etcd_disk_wal_fsync_duration_seconds_"

// Syncs asks the member itself.
func (m *Member) Syncs(ctx context.Context) (Syncs, error) {
	transport := &http.Transport{DialContext: m.node.DialContext, DisableKeepAlives: true}
	client := &http.Client{Transport: transport, Timeout: statusPatience}
	url := fmt.Sprintf("http://127.0.0.1:%d/metrics", m.cluster.MetricsPort())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return Syncs{}, fmt.Errorf("ask %s for its syncs: %w", m.node.name, err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return Syncs{}, fmt.Errorf("ask %s for its syncs: %w", m.node.name, err)
	}
	defer func() { _ = resp.Body.Close() }()
	var s Syncs
	found := 0
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		rest, ok := strings.CutPrefix(lines.Text(), syncSeries)
		if !ok {
			continue
		}
		series, value, _ := strings.Cut(rest, " ")
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue
		}
		switch series {
		case "count":
			s.Count = v
			found++
		case "sum":
			s.Total = time.Duration(v * float64(time.Second))
			found++
		}
	}
	if found != 2 {
		return Syncs{}, fmt.Errorf("ask %s for its syncs: its metrics have none", m.node.name)
	}
	return s, nil
}
