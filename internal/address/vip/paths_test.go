package vip

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/bfd"
	"github.com/holdfast-ha/holdfast/internal/health"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
)

var discard = slog.New(slog.DiscardHandler)

var (
	pathUp      = bfd.Change{From: bfd.Init, To: bfd.Up, Remote: bfd.Up}
	pathSilent  = bfd.Change{From: bfd.Up, To: bfd.Down, Diag: bfd.DiagDetectionExpired, Remote: bfd.Down}
	pathDeaf    = bfd.Change{From: bfd.Up, To: bfd.Down, Diag: bfd.DiagNeighborDown, Remote: bfd.Down, RemoteDiag: bfd.DiagDetectionExpired}
	pathPutAway = bfd.Change{From: bfd.Up, To: bfd.Down, Diag: bfd.DiagNeighborDown, Remote: bfd.AdminDown, RemoteDiag: bfd.DiagAdminDown}
	pathAnew    = bfd.Change{From: bfd.Up, To: bfd.Down, Diag: bfd.DiagNeighborDown, Remote: bfd.Down}
	pathNeverUp = bfd.Change{From: bfd.Init, To: bfd.Down, Diag: bfd.DiagDetectionExpired}
)

// What a session says, in the order in which it says it.
func TestPathVerdicts(t *testing.T) {
	for _, c := range []struct {
		name    string
		changes []bfd.Change
		wait    time.Duration
		want    health.Grade
		reason  string
	}{
		{"never up", []bfd.Change{pathNeverUp}, 0, health.Unknown, "not heard"},
		{"up", []bfd.Change{pathUp}, 0, health.Ready, ""},
		{"silent", []bfd.Change{pathUp, pathSilent}, 0, health.Unreachable, "no path to 192.0.2.1"},
		{"deaf", []bfd.Change{pathUp, pathDeaf}, 0, health.Unreachable, "192.0.2.1 does not hear us"},
		{"up again", []bfd.Change{pathUp, pathSilent, pathUp}, 0, health.Ready, ""},
		{"put away", []bfd.Change{pathUp, pathPutAway}, time.Hour, health.Ready, ""},
		{"begun anew", []bfd.Change{pathUp, pathAnew}, anewWithin - 1, health.Ready, ""},
		{"begun anew and up", []bfd.Change{pathUp, pathAnew, pathUp}, time.Hour, health.Ready, ""},
		{"begun anew and not up", []bfd.Change{pathUp, pathAnew}, anewWithin, health.Unreachable, "begun anew"},
		{"failed, and not begun anew", []bfd.Change{pathUp, pathSilent, pathNeverUp}, time.Hour, health.Unreachable, "no path"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &path{to: neighbor{address: netip.MustParseAddr("192.0.2.1")}, verdict: health.Verdict{Reason: "not heard"}}
				told := w.Verdict().Grade
				w.follow(func(v health.Verdict) {
					told = w.Verdict().Grade // who is told may ask
					if v.Grade != told || v.At.IsZero() {
						t.Errorf("told of %+v", v)
					}
				})
				for _, ch := range c.changes {
					w.change(ch)
				}
				<-time.After(c.wait)
				synctest.Wait()
				if v := w.Verdict(); v.Grade != c.want || told != c.want || !strings.Contains(v.Reason, c.reason) || c.reason == "" && v.Reason != "" {
					t.Errorf("says %s: %q, told %s", v.Grade, v.Reason, told)
				}
			})
		})
	}
}

// BGP and checks rest on one session, and a check alone has its own.
func TestPathsShareOneSession(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("this test must not be skipped in CI: run it as root")
		}
		t.Skip("namespaces need root")
	}
	g, err := segment.New(2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	timers := bfd.Timers{DesiredMinTx: 50 * time.Millisecond, RequiredMinRx: 50 * time.Millisecond, DetectMult: 3}
	s, err := decode(t, `
groups:
  - {name: a, addresses: [203.0.113.1], anycast: {}, announce: [bgp], health: [{kind: bfd, address: 192.0.2.2}]}
  - {name: b, addresses: [203.0.113.2], anycast: {}, announce: [bgp], health: [{kind: bfd, address: "2001:db8::2"}]}
bgp: {as: 65010, peers: [{address: 192.0.2.2, as: 65001, bfd: {interval: 50ms}}]}
`)
	if err != nil {
		t.Fatal(err)
	}
	var ours *paths
	var theirs *bfd.Manager
	if err := g.Station(1).Do(func() (err error) { ours, err = openPaths(&s, discard); return err }); err != nil {
		t.Fatal(err)
	}
	if err := g.Station(2).Do(func() (err error) { theirs, err = bfd.New(bfd.Options{}); return err }); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- g.Station(1).Do(func() error { return ours.run(ctx) }) }()
	go func() { ended <- g.Station(2).Do(func() error { return theirs.Run(ctx) }) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, <-ended); err != nil {
			t.Error(err)
		}
	})

	gate := newHealthGate(&s.Groups[0], discard)
	gate.paths = ours
	if reason, _ := gate.verdict(); reason != "bfd is unknown: BFD has not heard 192.0.2.2 yet" {
		t.Errorf("before the first packet: %q", reason)
	}
	heard := make(chan bfd.State, 100)
	peer := netip.MustParseAddr("192.0.2.2")
	if _, err := ours.Add(bfd.SessionConfig{Peer: peer, Timers: timers, OnChange: func(c bfd.Change) { heard <- c.To }}); err != nil {
		t.Fatal(err)
	}
	for _, a := range []string{"192.0.2.1", "2001:db8::1"} {
		if _, err := theirs.Add(bfd.SessionConfig{Peer: netip.MustParseAddr(a), Timers: timers}); err != nil {
			t.Fatal(err)
		}
	}
	checks := []*path{ours.of(&s.Groups[0].Health[0]), ours.of(&s.Groups[1].Health[0])}
	up := make(chan health.Grade, 100)
	for _, w := range checks {
		w.follow(func(v health.Verdict) { up <- v.Grade })
	}
	within := time.After(20 * time.Second)
	for good := 0; good < 2; {
		select {
		case v := <-up:
			if v == health.Ready {
				good++
			}
		case <-within:
			t.Fatalf("the checks say %+v and %+v", checks[0].Verdict(), checks[1].Verdict())
		}
	}
	for s := bfd.Down; s != bfd.Up; {
		select {
		case s = <-heard:
		case <-within:
			t.Fatal("the one who added the session was not told")
		}
	}
	if all, _ := ours.status(); len(all) != 2 {
		t.Errorf("%d sessions, not 2", len(all))
	}
	if err := g.Station(2).Silence(); err != nil {
		t.Fatal(err)
	}
	for bad := 0; bad < 2; {
		select {
		case v := <-up:
			if v == health.Unreachable {
				bad++
			}
		case <-within:
			t.Fatalf("the checks say %+v and %+v", checks[0].Verdict(), checks[1].Verdict())
		}
	}
}

// Without anything to announce by there are checks all the same: BFD lasts until
// the end.
func TestRoutingLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := false
		go func() {
			(&routing{log: discard}).run(ctx)
			ended = true
		}()
		synctest.Wait()
		if ended {
			t.Error("it has ended by itself")
		}
		cancel()
		synctest.Wait()
		if !ended {
			t.Error("it has not ended")
		}
	})
}
