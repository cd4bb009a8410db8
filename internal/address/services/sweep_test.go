package services

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/elect/lease"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

// Leases go when nobody needs them: given up ones after two minutes, those of holders
// that have fallen silent after ten, those that change or are needed never.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gone []string
		var refusal error
		s := &sweeper{log: slog.New(slog.DiscardHandler), remove: func(_ context.Context, name, version string) error {
			gone = append(gone, name+" "+version)
			return refusal
		}}
		m := &members{self: lease.Peer{Name: "self"}, report: func(error) {}, all: map[string]member{}}
		m.all["member-quiet"] = member{peer: lease.Peer{Name: "quiet"}, version: "7", seen: time.Now()}
		m.all["member-self"] = member{peer: lease.Peer{Name: "self"}, version: "7", seen: time.Now()}
		leases := map[string]seenLease{
			"needed": {version: 1, free: true}, "free": {version: 2, free: true}, "held": {version: 3}, "lively": {version: 4},
		}
		begun := time.Now()
		when := map[string]time.Duration{}
		for time.Since(begun) < 12*time.Minute {
			l := leases["lively"]
			l.version++
			leases["lively"] = l
			if err := s.sweep(t.Context(), m, map[string]bool{"needed": true}, leases); err != nil {
				t.Fatal(err)
			}
			for _, g := range gone {
				var name, version string
				_, _ = fmt.Sscan(g, &name, &version)
				when[g] = time.Since(begun)
				delete(leases, name)
				delete(m.all, name)
			}
			gone = nil
			time.Sleep(30 * time.Second)
		}
		want := map[string]time.Duration{"free 2": 150 * time.Second, "held 3": 630 * time.Second, "member-quiet 7": 630 * time.Second}
		if fmt.Sprint(when) != fmt.Sprint(want) {
			t.Errorf("removed %v, want %v", when, want)
		}

		// An outage of the API is nobody's silence.
		m.all["member-quiet"] = member{peer: lease.Peer{Name: "quiet"}, version: "7", seen: time.Now()}
		time.Sleep(time.Hour)
		m.heard(fmt.Errorf("connection refused"))
		if err := s.sweep(t.Context(), m, nil, nil); err != nil || len(gone) > 0 {
			t.Errorf("after an outage: %v, %v", gone, err)
		}

		// What has changed meanwhile stays, and is no error; what may not be removed is.
		time.Sleep(time.Hour)
		for _, code := range []int{http.StatusConflict, http.StatusForbidden} {
			refusal = &kubeapi.StatusError{Op: "delete", Code: code}
			if err := s.sweep(t.Context(), m, nil, nil); (err != nil) != (code == http.StatusForbidden) {
				t.Errorf("%d: %v", code, err)
			}
		}
		if !slices.Equal(gone, []string{"member-quiet 7", "member-quiet 7"}) {
			t.Errorf("tried to remove %v", gone)
		}
	})
}
