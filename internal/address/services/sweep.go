package services

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

const (
	// goneAfter is when a member that says nothing is taken for gone for good: ten
	// times of its saying that it is there.
	goneAfter = 10 * time.Minute
	// idleAfter is when a Lease of an address that no Service has is removed. By
	// then every machine has heard of it, or its own lease has long run out.
	idleAfter = 2 * time.Minute
)

// sweeper removes Leases that are of no use any more.
type sweeper struct {
	// remove deletes a Lease if it is of that version.
	remove func(ctx context.Context, name, version string) error
	log    *slog.Logger
	idle   map[string]idle
}

// idle is a Lease whose address no Service has.
type idle struct {
	version uint64
	since   time.Time
}

// sweep removes members that are gone and Leases that nobody needs: those that
// are given up, and unchanged for so long that no holder can be alive.
func (s *sweeper) sweep(ctx context.Context, m *members, needed map[string]bool, leases map[string]seenLease) error {
	var errs []error
	for name, version := range m.silent(goneAfter) {
		errs = append(errs, s.clear(ctx, name, version))
	}
	was := s.idle
	s.idle = map[string]idle{}
	for name, l := range leases {
		if needed[name] {
			continue
		}
		i := idle{l.version, time.Now()}
		if before := was[name]; before.version == l.version {
			i.since = before.since
		}
		s.idle[name] = i
		if quiet := time.Since(i.since); quiet > goneAfter || l.free && quiet > idleAfter {
			errs = append(errs, s.clear(ctx, name, strconv.FormatUint(l.version, 10)))
		}
	}
	return errors.Join(errs...)
}

// seenLease is what a sweep looks at.
type seenLease struct {
	version uint64
	free    bool // nobody has it
}

// clear removes a Lease, unless it has changed.
func (s *sweeper) clear(ctx context.Context, name, version string) error {
	err := s.remove(ctx, name, version)
	switch code := kubeapi.Code(err); {
	case code == http.StatusNotFound || code == http.StatusConflict:
		return nil
	case err != nil:
		return fmt.Errorf("remove lease %s: %w", name, err)
	}
	s.log.Info("lease removed: nobody needs it", keyLease, name)
	return nil
}
