package hold

import (
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/gate"
	"github.com/holdfast-ha/holdfast/internal/address/link"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
)

// Holders are renewed together, each until its own deadline. One that holds nothing
// any more is left alone, and one that has fallen mute is no harm to the others.
func TestRenewTogether(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("this test must not be skipped in CI: run it as root")
		}
		t.Skip("namespaces need root")
	}
	g, err := segment.New(1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	var door *Door
	var links *link.Handle
	holders := map[string]*Holder{}
	err = g.Station(1).Do(func() (err error) {
		if door, err = OpenDoor(gate.Config{}); err != nil {
			return err
		}
		if links, err = link.Open(); err != nil {
			return err
		}
		for _, a := range []string{"192.0.2.101", "192.0.2.102", "192.0.2.103", "2001:db8::101"} {
			c := Config{Interface: segment.Interface, Addresses: []netip.Addr{netip.MustParseAddr(a)}, Quiet: true, Log: slog.New(slog.DiscardHandler)}
			if holders[a], err = New(c, door, links); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { links.Close(); _ = door.Close() })
	now, all := time.Now(), map[*Holder]time.Time{}
	for i, h := range []*Holder{holders["192.0.2.101"], holders["192.0.2.102"], holders["192.0.2.103"], holders["2001:db8::101"]} {
		if err := h.TakeUntil(now.Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
		all[h] = now.Add(time.Duration(60+10*i) * time.Second)
	}
	left := func(a string) time.Duration {
		t.Helper()
		g, _ := door.Gate()
		d, err := g.Left(netip.MustParseAddr(a))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if err := holders["192.0.2.102"].Drop(); err != nil {
		t.Fatal(err)
	}
	if failed := RenewTogether(all); len(failed) > 0 {
		t.Errorf("failed: %v", failed)
	}
	if left("192.0.2.102") != 0 || holders["192.0.2.102"].Tally().Held {
		t.Error("what was dropped is held again")
	}
	if a, b := left("192.0.2.101"), left("2001:db8::101"); a < 50*time.Second || a > 61*time.Second || b < 80*time.Second || b > 91*time.Second {
		t.Errorf("open for %s and %s", a, b)
	}
	mute, _ := door.Gate()
	if err := mute.Shut(netip.MustParseAddr("192.0.2.103")); err != nil {
		t.Fatal(err)
	}
	for h := range all {
		all[h] = now.Add(120 * time.Second)
	}
	failed := RenewTogether(all)
	if len(failed) != 1 || failed[holders["192.0.2.103"]] == nil {
		t.Errorf("failed: %v", failed)
	}
	if a := left("192.0.2.101"); a < 100*time.Second || left("192.0.2.103") != 0 {
		t.Errorf("open for %s and %s", a, left("192.0.2.103"))
	}

	// Somebody flushes the rules: who may hold takes the address again.
	if err := g.Station(1).Do(func() error { return exec.Command("nft", "flush", "ruleset").Run() }); err != nil {
		t.Fatalf("flush the rules by nft, which scripts/setup installs: %v", err)
	}
	for h, err := range RenewTogether(all) {
		if err == nil {
			t.Error("renewed without rules")
		}
		if err := h.TakeUntil(all[h]); err != nil {
			t.Errorf("not taken again: %v", err)
		}
	}
	for _, a := range []string{"192.0.2.101", "192.0.2.103", "2001:db8::101"} {
		if left(a) < 100*time.Second {
			t.Errorf("%s is open for %s", a, left(a))
		}
	}
}
