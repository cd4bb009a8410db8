package etcd

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/creds"
)

// Metrics reads the few series of etcd's /metrics that a decision needs. The
// page is some 100 kB, so it is scanned line by line, never kept.
type Metrics struct {
	url    string
	client *http.Client
}

// NewMetrics reads from the /metrics page under base, a client URL or one of
// --listen-metrics-urls.
func NewMetrics(base string, tlsFiles creds.Files) (*Metrics, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("metrics URL %q: not a URL; write https://HOST:PORT", base)
	}
	var tc *tls.Config
	if u.Scheme == "https" {
		if tc, err = tlsFiles.Client(u.Hostname()); err != nil {
			return nil, err
		}
	}
	t := &http.Transport{TLSClientConfig: tc, MaxIdleConnsPerHost: 1,
		TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}}
	return &Metrics{url: strings.TrimSuffix(base, "/") + "/metrics", client: &http.Client{Transport: t, CheckRedirect: NoRedirect}}, nil
}

// Close drops the kept connection.
func (m *Metrics) Close() { m.client.CloseIdleConnections() }

// Load is the part of /metrics that says how busy a member is.
type Load struct {
	// Pending is the number of proposals waiting to commit.
	Pending float64
	// Committed counts committed proposals since start.
	Committed float64
	// Syncs counts WAL fsyncs and SyncBuckets their durations, cumulative by
	// upper bound in seconds, as in the histogram.
	Syncs   float64
	Buckets []Bucket
}

// Bucket is one bucket of a cumulative histogram.
type Bucket struct{ UpTo, Count float64 }

// ErrNoMetrics says that /metrics answered without etcd's series.
var ErrNoMetrics = errors.New("no etcd series on the page; point etcd.metrics at the client URL or at --listen-metrics-urls")

// Read fetches and scans the page.
func (m *Metrics) Read(ctx context.Context) (Load, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.url, nil)
	if err != nil {
		return Load{}, fmt.Errorf("read metrics: %w", err)
	}
	resp, err := m.client.Do(req)
	if err != nil {
		return Load{}, fmt.Errorf("read metrics: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return Load{}, fmt.Errorf("read metrics %s: HTTP %d", m.url, resp.StatusCode)
	}
	return scan(resp.Body)
}

const fsyncBucket = `etcd_disk_wal_fsync_duration_seconds_bucket{le="`

func scan(r io.Reader) (Load, error) {
	var l Load
	found := false
	lines := bufio.NewScanner(io.LimitReader(r, 8<<20))
	lines.Buffer(make([]byte, 0, 4096), 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if !strings.HasPrefix(line, "etcd_") {
			continue
		}
		if v, ok := value(line, "etcd_server_proposals_pending "); ok {
			l.Pending, found = v, true
		} else if v, ok := value(line, "etcd_server_proposals_committed_total "); ok {
			l.Committed = v
		} else if v, ok := value(line, "etcd_disk_wal_fsync_duration_seconds_count "); ok {
			l.Syncs = v
		} else if rest, ok := strings.CutPrefix(line, fsyncBucket); ok {
			l.bucket(rest)
		}
	}
	if err := lines.Err(); err != nil {
		return Load{}, fmt.Errorf("scan metrics: %w", err)
	}
	if !found {
		return Load{}, ErrNoMetrics
	}
	return l, nil
}

func value(line, prefix string) (float64, bool) {
	rest, ok := strings.CutPrefix(line, prefix)
	if !ok {
		return 0, false
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
	return v, err == nil
}

// bucket reads `0.001"} 42`.
func (l *Load) bucket(rest string) {
	bound, count, ok := strings.Cut(rest, `"} `)
	if !ok {
		return
	}
	b, err1 := strconv.ParseFloat(bound, 64)
	c, err2 := strconv.ParseFloat(strings.TrimSpace(count), 64)
	if err1 == nil && err2 == nil {
		l.Buckets = append(l.Buckets, Bucket{b, c})
	}
}

// Fsync returns the 99th percentile of WAL fsyncs between two readings, as
// the upper bound of its bucket; 0 when none happened or earlier is newer
// (etcd restarted).
func Fsync(earlier, later Load) time.Duration {
	total := later.Syncs - earlier.Syncs
	if total <= 0 || len(earlier.Buckets) != len(later.Buckets) {
		return 0
	}
	for i, b := range later.Buckets {
		if b.Count-earlier.Buckets[i].Count >= 0.99*total {
			if math.IsInf(b.UpTo, 1) {
				b.UpTo = 8.192 // etcd's largest finite bucket: at least that
			}
			return time.Duration(b.UpTo * float64(time.Second))
		}
	}
	return 0
}
