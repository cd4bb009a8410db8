package leader

import (
	"context"
	"sync"

	"github.com/holdfast-ha/holdfast/internal/base/creds"
	"github.com/holdfast-ha/holdfast/internal/quorum/etcd"
)

// loadSource reads the own member's load from the first address that has it.
// k3s and RKE2 serve no metrics on the client port, but on a loopback one.
type loadSource struct {
	mu    sync.Mutex
	pages []*etcd.Metrics
	at    int // of the page that answered last
}

func newLoadSource(urls []string, files creds.Files) (*loadSource, error) {
	s := &loadSource{}
	for _, url := range urls {
		m, err := etcd.NewMetrics(url, files)
		if err != nil {
			return nil, err
		}
		s.pages = append(s.pages, m)
	}
	return s, nil
}

// Read asks the page that answered last, and the others if it fails.
func (s *loadSource) Read(ctx context.Context) (load etcd.Load, err error) {
	s.mu.Lock()
	first := s.at
	s.mu.Unlock()
	for i := range s.pages {
		at := (first + i) % len(s.pages)
		var failed error
		if load, failed = s.pages[at].Read(ctx); failed == nil {
			s.mu.Lock()
			s.at = at
			s.mu.Unlock()
			return load, nil
		}
		if err == nil {
			err = failed // of the address that was asked for
		}
	}
	return etcd.Load{}, err
}

// Close drops the kept connections.
func (s *loadSource) Close() {
	for _, m := range s.pages {
		m.Close()
	}
}
