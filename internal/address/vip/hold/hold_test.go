package hold

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/internal/address/announce"
	"github.com/holdfast-ha/holdfast/internal/address/gate"
	"github.com/holdfast-ha/holdfast/internal/address/link"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
)

var vips = []netip.Addr{netip.MustParseAddr("192.0.2.100"), netip.MustParseAddr("2001:db8::100")}

// slack is what a busy machine of two cores may add.
const slack = 500 * time.Millisecond

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !f(); <-time.After(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 5 s: %s", what)
		}
	}
}

// rig is a station that may hold the addresses, and a client, station 2.
type rig struct {
	*Holder
	t       *testing.T
	segment *segment.Segment
	door    *Door
	links   *link.Handle
	heard   chan announce.Heard
}

func newRig(t *testing.T, c Config) *rig {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("this test must not be skipped in CI: run it as root")
		}
		t.Skip("namespaces need root")
	}
	g, err := segment.New(2)
	must(t, err)
	t.Cleanup(func() { _ = g.Close() })
	r := &rig{t: t, segment: g, heard: make(chan announce.Heard, 1000)}
	must(t, g.Station(1).Do(func() (err error) {
		if r.links, err = link.Open(); err != nil {
			return err
		}
		r.door, err = OpenDoor(gate.Config{})
		return err
	}))
	t.Cleanup(func() { _ = r.door.Close(); r.links.Close() })
	c.Interface, c.Addresses, c.Log = segment.Interface, vips, slog.New(slog.DiscardHandler)
	c.Heard = func(h announce.Heard) { r.heard <- h }
	r.Holder, err = New(c, r.door, r.links)
	must(t, err)
	must(t, r.Guard())
	t.Cleanup(func() { must(t, r.Close()) })
	return r
}

// run announces and hears until the test ends.
func (r *rig) run() {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	heard, ran := make(chan error, 1), make(chan bool)
	go func() { heard <- r.segment.Station(1).Do(func() error { return r.Hear(ctx) }) }()
	go func() { r.Run(ctx); close(ran) }()
	r.t.Cleanup(func() {
		cancel()
		<-ran
		if err := <-heard; err != nil {
			r.t.Errorf("hear: %v", err)
		}
	})
	eventually(r.t, "the interface is open", func() bool {
		return !errors.Is(r.Probe(ctx, announce.Probing{Count: 1, Interval: time.Millisecond}), ErrDeaf)
	})
}

// on is the interface that an address is on, or "".
func (r *rig) on(a netip.Addr) string {
	r.t.Helper()
	all, err := r.links.List()
	must(r.t, err)
	for _, e := range all {
		if e.Prefix.Addr() != a {
			continue
		}
		l, err := r.segment.Station(1).Netlink.LinkByIndex(e.Index)
		if err == nil {
			return l.Attrs().Name
		}
	}
	return ""
}

func (r *rig) nowhere() bool { return r.on(vips[0]) == "" && r.on(vips[1]) == "" }

func (r *rig) left(a netip.Addr) time.Duration {
	r.t.Helper()
	g, _ := r.door.Gate()
	d, err := g.Left(a)
	must(r.t, err)
	return d
}

// believed is the hardware address that the client has for an address.
func (r *rig) believed(a netip.Addr) string {
	r.t.Helper()
	s := r.segment.Station(2)
	eth, err := s.Netlink.LinkByName(segment.Interface)
	must(r.t, err)
	all, err := s.Netlink.NeighList(eth.Attrs().Index, unix.AF_UNSPEC)
	must(r.t, err)
	if i := slices.IndexFunc(all, func(n netlink.Neigh) bool { return n.IP.Equal(a.AsSlice()) }); i >= 0 {
		return all[i].HardwareAddr.String()
	}
	return ""
}

// mislead gives the client an entry that an announcement has to mend.
func (r *rig) mislead() {
	r.t.Helper()
	s := r.segment.Station(2)
	eth, err := s.Netlink.LinkByName(segment.Interface)
	must(r.t, err)
	for _, a := range vips {
		must(r.t, s.Netlink.NeighSet(&netlink.Neigh{LinkIndex: eth.Attrs().Index, IP: a.AsSlice(), State: unix.NUD_STALE, HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 9}}))
	}
}

// rival is somebody else on the segment.
func (r *rig) rival() *announce.Speaker {
	r.t.Helper()
	var s *announce.Speaker
	must(r.t, r.segment.Station(2).Do(func() (err error) {
		s, err = announce.Open(announce.Options{Interface: segment.Interface})
		return err
	}))
	r.t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestTakeRenewDrop(t *testing.T) {
	r := newRig(t, Config{})
	r.run()
	if err := r.Renew(time.Second); !errors.Is(err, gate.ErrShut) {
		t.Errorf("renewed what is not held: %v", err)
	}
	r.mislead()
	must(t, r.Take(time.Now(), time.Second))
	for _, a := range vips {
		if on := r.on(a); on != segment.Interface {
			t.Errorf("%s is on %q", a, on)
		}
		eventually(t, "the client is told of "+a.String(), func() bool { return r.believed(a) == r.segment.Station(1).MAC.String() })
	}
	must(t, r.Renew(time.Hour))
	for _, a := range vips {
		if left := r.left(a); left < time.Minute {
			t.Errorf("%s is open for %s after a renewal for an hour", a, left)
		}
	}
	if tally := r.Tally(); !tally.Held || tally.Renewals != 1 || tally.Bursts == 0 || tally.Requests == 0 || tally.Advertisements == 0 {
		t.Errorf("tally %+v", tally)
	}
	must(t, r.Drop())
	must(t, r.Drop())
	if !r.nowhere() || r.left(vips[0]) != 0 || r.left(vips[1]) != 0 {
		t.Error("dropped, and there still")
	}
}

// Nobody renews any more: a dead or frozen agent.
func TestWhatIsNotRenewedEndsByItself(t *testing.T) {
	r := newRig(t, Config{})
	begun := time.Now()
	must(t, r.Take(begun, 300*time.Millisecond))
	eventually(t, "the gate is shut", func() bool { return r.left(vips[0]) == 0 && r.left(vips[1]) == 0 })
	if took := time.Since(begun); took > 300*time.Millisecond+slack {
		t.Errorf("the gate shut after %s", took)
	}
	if err := r.Renew(time.Second); !errors.Is(err, gate.ErrShut) {
		t.Errorf("renewed too late: %v", err)
	}
	eventually(t, "the addresses are gone", r.nowhere)
	if took := time.Since(begun); took > 2500*time.Millisecond+slack {
		t.Errorf("the addresses went after %s", took)
	}
	// Only Take makes them answer again.
	must(t, r.Mend())
	if !r.nowhere() {
		t.Error("mended what is not held")
	}
	must(t, r.Take(time.Now(), time.Second))
	if r.nowhere() {
		t.Error("taken again, and nowhere")
	}
}

// A process that stood still decides nothing about the present.
func TestTakeIsTooLate(t *testing.T) {
	r := newRig(t, Config{})
	for what, err := range map[string]error{
		"take":  r.Take(time.Now().Add(-time.Second), 300*time.Millisecond),
		"until": r.TakeUntil(time.Now().Add(-time.Millisecond)),
	} {
		if !errors.Is(err, gate.ErrLate) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if !r.nowhere() || r.Tally().Held {
		t.Error("held all the same")
	}
}

func TestMendPutsBackWhatWasTakenAway(t *testing.T) {
	r := newRig(t, Config{})
	r.run()
	must(t, r.Take(time.Now(), time.Hour))
	bursts := r.Tally().Bursts
	for _, a := range vips {
		must(t, r.links.Remove(link.Address{Prefix: netip.PrefixFrom(a, a.BitLen()), Interface: segment.Interface}))
	}
	must(t, r.Mend())
	if r.on(vips[0]) == "" || r.on(vips[1]) == "" {
		t.Error("not put back")
	}
	eventually(t, "it is announced again", func() bool { return r.Tally().Bursts > bursts && r.Tally().Mended == 1 })
}

func TestFlushedRulesAreThereAgainWithTheNextTake(t *testing.T) {
	r := newRig(t, Config{})
	must(t, r.Take(time.Now(), time.Hour))
	must(t, r.segment.Station(1).Do(func() error { return exec.Command("nft", "flush", "ruleset").Run() }))
	if err := r.Renew(time.Hour); !errors.Is(err, gate.ErrFlushed) {
		t.Errorf("renewed without rules: %v", err)
	}
	must(t, r.Take(time.Now(), time.Hour))
	for _, a := range vips {
		if r.left(a) == 0 {
			t.Errorf("%s is shut", a)
		}
	}
}

// A rival is answered while the address is held, and not once it was given away.
func TestRivalIsAnsweredUntilYielded(t *testing.T) {
	r := newRig(t, Config{Pace: announce.Pace{Burst: []time.Duration{0}, Refresh: -1, Floor: 10 * time.Millisecond}})
	r.run()
	rival := r.rival()
	must(t, r.Take(time.Now(), time.Hour))
	for _, a := range vips {
		bursts := r.Tally().Bursts
		must(t, rival.Announce(a))
		h := <-r.heard
		for h.Address != a { // an IPv4 address is claimed by two frames
			h = <-r.heard
		}
		if h.Kind != announce.Claim || net.HardwareAddr(h.MAC[:]).String() != r.segment.Station(2).MAC.String() {
			t.Errorf("heard %+v", h)
		}
		eventually(t, "the rival is answered", func() bool { return r.Tally().Bursts > bursts })
	}
	r.Yield()
	bursts, claims := r.Tally().Bursts, r.Tally().Claims
	must(t, rival.Announce(vips[0]))
	eventually(t, "the rival is heard", func() bool { return r.Tally().Claims == claims+2 })
	r.Again()
	if got := r.Tally().Bursts; got != bursts {
		t.Errorf("%d bursts after the address was given away", got-bursts)
	}
	if r.on(vips[0]) == "" || r.left(vips[0]) == 0 {
		t.Error("it no longer answers, before somebody else does")
	}
}

func TestProbeNamesTheStranger(t *testing.T) {
	r := newRig(t, Config{})
	if err := r.Probe(t.Context(), announce.Probing{}); !errors.Is(err, ErrDeaf) {
		t.Errorf("probed without ears: %v", err)
	}
	r.run()
	probing := announce.Probing{Count: 3, Interval: 100 * time.Millisecond}
	must(t, r.Probe(t.Context(), probing))
	s := r.segment.Station(2)
	eth, err := s.Netlink.LinkByName(segment.Interface)
	must(t, err)
	must(t, s.Netlink.AddrAdd(eth, &netlink.Addr{IPNet: &net.IPNet{IP: vips[1].AsSlice(), Mask: net.CIDRMask(128, 128)}, Flags: unix.IFA_F_NODAD}))
	var used *announce.InUse
	if err := r.Probe(t.Context(), probing); !errors.As(err, &used) || used.Address != vips[1] {
		t.Errorf("probed what a stranger has: %v", err)
	}
}

// The interface of a virtual router comes, goes and is mended with its addresses.
func TestVirtualInterface(t *testing.T) {
	v := link.Virtual{Name: link.VirtualName(4, 7, segment.Interface), Parent: segment.Interface, MAC: net.HardwareAddr{0, 0, 0x5e, 0, 1, 7}, Owner: "test"}
	r := newRig(t, Config{Virtual: v})
	r.run()
	nl := r.segment.Station(1).Netlink
	up := func() bool {
		l, err := nl.LinkByName(v.Name)
		return err == nil && l.Attrs().Flags&net.FlagUp != 0
	}
	if up() {
		t.Error("up while nothing is held")
	}
	r.mislead()
	must(t, r.Take(time.Now(), time.Hour))
	for _, a := range vips {
		if on := r.on(a); on != v.Name || !up() {
			t.Errorf("%s is on %q", a, on)
		}
		eventually(t, "the client is told of "+a.String(), func() bool { return r.believed(a) == v.MAC.String() })
	}
	for what, spoil := range map[string]func(netlink.Link) error{"removed": nl.LinkDel, "set down": nl.LinkSetDown} {
		l, err := nl.LinkByName(v.Name)
		must(t, err)
		must(t, spoil(l))
		must(t, r.Mend())
		if !up() || r.on(vips[0]) != v.Name || r.on(vips[1]) != v.Name {
			t.Errorf("not mended after it was %s", what)
		}
	}
	must(t, r.Guard()) // as after its parent was made anew
	if !up() || r.on(vips[0]) != v.Name {
		t.Error("Guard ended what is held")
	}
	must(t, r.Drop())
	if up() || !r.nowhere() {
		t.Error("dropped, and up still")
	}
	must(t, r.Close())
	if _, err := nl.LinkByName(v.Name); err == nil {
		t.Error("left behind")
	}
}

func TestLookFindsTheMachinesOwn(t *testing.T) {
	r := newRig(t, Config{})
	s := r.segment.Station(1)
	must(t, r.Take(time.Now(), time.Hour))
	look := func(name string) (f Facts) {
		must(t, s.Do(func() error { f = Look(name, vips); return nil }))
		return f
	}
	f := look(segment.Interface)
	if f.Index == 0 || !f.Up || f.Four != s.Four || f.Six != netip.MustParseAddr("fe80::1") {
		t.Errorf("facts %+v", f)
	}
	must(t, s.Unplug())
	eventually(t, "the carrier is seen to be gone", func() bool { return !look(segment.Interface).Up })
	if f := look("eth7"); f != (Facts{}) {
		t.Errorf("facts of what is not there: %+v", f)
	}
}

// While the kernel makes changes of addresses wait, the gate is renewed, and shut,
// all the same.
func TestGateWaitsForNoAddress(t *testing.T) {
	r := newRig(t, Config{})
	must(t, r.Take(time.Now(), time.Minute))
	r.ground.Lock()
	must(t, r.Renew(2*time.Minute))
	must(t, r.RenewUntil(time.Now().Add(3*time.Minute)))
	dropped := make(chan error, 1)
	go func() { dropped <- r.Drop() }()
	g, _ := r.door.Gate()
	eventually(t, "the addresses are mute", func() bool {
		left, err := g.Left(vips[0])
		return err == nil && left == 0
	})
	if err := r.Renew(time.Minute); !errors.Is(err, gate.ErrShut) {
		t.Errorf("renewed after it was dropped: %v", err)
	}
	r.ground.Unlock()
	must(t, <-dropped)
	if r.on(vips[0]) != "" {
		t.Error("the address is still there")
	}
}

// The addresses outlive their two seconds by upkeep alone.
func TestUpkeep(t *testing.T) {
	r := newRig(t, Config{})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); r.Run(ctx) }()
	must(t, r.Take(time.Now(), time.Minute))
	for began := time.Now(); time.Since(began) < 4*time.Second; <-time.After(50 * time.Millisecond) {
		if r.on(vips[0]) == "" || r.on(vips[1]) == "" {
			t.Fatalf("gone after %v", time.Since(began))
		}
	}
	stop()
	<-ended
}
