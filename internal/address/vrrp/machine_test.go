package vrrp

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

// better and worse are peers of a machine with plain's address.
var (
	better = netip.MustParseAddr("192.0.2.3")
	worse  = netip.MustParseAddr("192.0.2.1")
)

// bench drives one machine and writes down what it does.
type bench struct {
	t *testing.T
	m *Machine
	// now is 1 h after the origin of the clock, which is nobody's business.
	now time.Duration
}

func newBench(t *testing.T, change func(*Config)) *bench {
	c := plain()
	if change != nil {
		change(&c)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return &bench{t: t, m: New(c), now: time.Hour}
}

func text(actions []Action) string {
	var words []string
	for _, a := range actions {
		switch a := a.(type) {
		case Send:
			words = append(words, fmt.Sprintf("send %d", a.Priority))
		case Become:
			words = append(words, fmt.Sprintf("%s (%s)", a.State, a.Cause))
		case Announce:
			words = append(words, fmt.Sprintf("announce (%s)", a.Cause))
		case Note:
			words = append(words, fmt.Sprintf("note %s", a.Kind))
		}
	}
	return strings.Join(words, ", ")
}

func (b *bench) want(actions []Action, want string) {
	b.t.Helper()
	if got := text(actions); got != want {
		b.t.Errorf("after %s: %q, want %q", b.now-time.Hour, got, want)
	}
}

func (b *bench) start(want string) { b.t.Helper(); b.want(b.m.Start(b.now), want) }

// hear hands over an advert, otherwise as ours.
func (b *bench) hear(priority uint8, src netip.Addr, want string) {
	b.t.Helper()
	b.want(b.m.Receive(b.now, b.m.Advert(priority), src), want)
}

// tick lets the machine run for so long, as it wants to be called; it must do
// nothing but what is wanted.
func (b *bench) tick(length time.Duration, want string) {
	b.t.Helper()
	var all []string
	end := b.now + length
	for {
		at, ok := b.m.Next()
		if !ok || at > end {
			break
		}
		b.now = max(b.now, at)
		if s := text(b.m.Tick(b.now)); s != "" {
			all = append(all, s)
		}
	}
	b.now = end
	if got := strings.Join(all, "; "); got != want {
		b.t.Errorf("until %s: %q, want %q", b.now-time.Hour, got, want)
	}
}

// active starts a machine and lets it become active.
func active(t *testing.T, change func(*Config)) *bench {
	b := newBench(t, change)
	b.start("backup (start)")
	for b.m.State() != Active {
		at, _ := b.m.Next()
		b.now = at
		b.m.Tick(at)
	}
	return b
}

func TestInitialize(t *testing.T) {
	b := newBench(t, nil)
	b.hear(200, better, "")
	b.tick(time.Hour, "")
	b.want(b.m.Stop(b.now), "")
	b.want(b.m.Release(b.now), "")
	b.start("backup (start)")
	b.want(b.m.Start(b.now), "")
	// Three intervals of 100 ms, and 156/256 of one.
	b.tick(360*ms, "")
	b.tick(ms, "active (silence), announce (silence), send 100")
}

func TestOwnerStartsActive(t *testing.T) {
	owner := func(c *Config) { c.Owner, c.Priority, c.Preempt = true, 255, true }
	b := newBench(t, owner)
	b.start("backup (start), active (owner), announce (owner), send 255")
	b.want(b.m.SetPriority(b.now, 10), "")
	b.hear(255, worse, "note owner, note inferior, announce (inferior)")
	b.hear(255, better, "note owner, note superior, backup (superior)")

	b = newBench(t, func(c *Config) { owner(c); c.StartDelay = time.Second })
	b.start("backup (start)")
	b.tick(999*ms, "")
	b.tick(ms, "active (owner), announce (owner), send 255")
}

func TestBackupFollows(t *testing.T) {
	b := newBench(t, nil)
	b.start("backup (start)")
	for range 20 {
		b.tick(150*ms, "")
		b.hear(200, better, "")
	}
	if b.m.Holder() != better {
		t.Errorf("holder %s", b.m.Holder())
	}
	b.hear(100, worse, "") // equal is enough
	b.tick(300*ms, "")
	b.hear(1, better, "") // without preemption any will do
	b.tick(360*ms, "")
	b.tick(ms, "active (silence), announce (silence), send 100")
}

func TestBackupLearnsTheInterval(t *testing.T) {
	b := newBench(t, nil)
	b.start("backup (start)")
	a := b.m.Advert(200)
	a.Interval = time.Second
	b.want(b.m.Receive(b.now, a, better), "note interval")
	b.tick(3609*ms, "")
	b.tick(ms, "active (silence), announce (silence), send 100")
	b.tick(99*ms, "")
	b.tick(ms, "send 100") // its own interval again
}

func TestBackupHearsTheHolderResign(t *testing.T) {
	b := newBench(t, nil)
	b.start("backup (start)")
	b.hear(200, better, "")
	b.hear(0, worse, "note resigner")
	b.tick(50*ms, "")
	b.hear(0, better, "")
	b.tick(60*ms, "")
	b.hear(0, better, "") // said twice, it does not take longer
	b.tick(ms, "active (resigned), announce (resigned), send 100")
}

// One router takes the addresses from another that was just heard here, and resigns
// at once.
func TestBackupHearsAnotherResign(t *testing.T) {
	b := newBench(t, nil)
	b.start("backup (start)")
	b.hear(200, better, "")
	b.tick(100*ms, "")
	b.hear(150, worse, "") // better is followed: no more than one of its adverts is missing
	b.hear(0, worse, "note resigner")
	b.tick(90*ms, "")
	b.hear(200, better, "") // it is there
	b.tick(100*ms, "")
	b.hear(0, worse, "note resigner")
	b.tick(160*ms, "") // two are missing, and the skew of 61 ms
	b.tick(ms, "active (resigned), announce (resigned), send 100")
}

func TestPreemption(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Preempt = true })
	b.start("backup (start)")
	b.tick(100*ms, "")
	b.hear(99, better, "")
	b.tick(100*ms, "")
	b.hear(99, better, "")
	b.tick(100*ms, "")
	b.hear(99, better, "")
	b.tick(100*ms, "")
	b.hear(99, better, "") // 361 ms have passed: here it goes
	b.tick(7*ms, "")
	b.tick(ms, "active (preempt), announce (preempt), send 100")

	b = newBench(t, func(c *Config) { c.Preempt, c.PreemptDelay = true, time.Second })
	b.start("backup (start)")
	for range 10 {
		b.hear(99, better, "")
		b.tick(100*ms, "")
	}
	for range 3 { // the second is over
		b.hear(99, better, "")
		b.tick(100*ms, "")
	}
	b.hear(99, better, "")
	b.tick(8*ms, "active (preempt), announce (preempt), send 100")
}

func TestPreemptionEndsWithItsReason(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Preempt = true })
	b.start("backup (start)")
	for range 5 {
		b.hear(99, better, "")
		b.tick(100*ms-ms, "")
		b.now += ms
		if b.now-time.Hour == 400*ms {
			break
		}
	}
	b.hear(99, better, "") // 7.6 ms from here it would go
	b.want(b.m.SetPriority(b.now, 90), "")
	for range 10 {
		b.hear(99, better, "")
		b.tick(100*ms, "")
	}
}

func TestReliefOfAHolderWhosePriorityFalls(t *testing.T) {
	b := newBench(t, nil)
	b.start("backup (start)")
	b.hear(200, better, "")
	b.tick(100*ms, "")
	b.hear(120, better, "") // still better than ours
	b.tick(100*ms, "")
	b.hear(90, better, "")
	b.tick(100*ms, "")
	b.hear(90, better, "")
	b.tick(100*ms, "")
	b.hear(90, better, "")
	b.tick(100*ms, "")
	b.hear(90, better, "")
	b.tick(8*ms, "active (relieve), announce (relieve), send 100")

	// One that goes silent meanwhile is missed from its last advert on.
	b.hear(101, better, "note superior, backup (superior)")
	b.tick(100*ms, "")
	b.hear(90, better, "")
	b.tick(360*ms, "")
	b.tick(ms, "active (silence), announce (silence), send 100")

	b = newBench(t, func(c *Config) { c.Stay = true })
	b.start("backup (start)")
	b.hear(200, better, "")
	for range 10 {
		b.hear(90, better, "")
		b.tick(100*ms, "")
	}
}

func TestActive(t *testing.T) {
	b := active(t, nil)
	b.tick(300*ms, "send 100; send 100; send 100")
	b.tick(50*ms, "")
	b.hear(99, better, "note inferior, send 100, announce (inferior)")
	b.hear(100, worse, "note inferior, announce (inferior)") // not twice at once
	b.tick(50*ms, "send 100")
	b.tick(50*ms, "")
	b.hear(0, worse, "send 100, announce (resigned)")
	b.tick(99*ms, "") // the Adver_Timer began anew
	b.tick(ms, "send 100")
	b.hear(100, better, "note superior, backup (superior)")
	b.tick(360*ms, "")
	b.tick(ms, "active (silence), announce (silence), send 100")
	b.hear(101, worse, "note superior, backup (superior)")
}

func TestActiveKeepsItsRateThoughItIsCalledLate(t *testing.T) {
	b := active(t, nil)
	began := b.now
	for n := range 100 {
		at, _ := b.m.Next()
		b.now = at + 20*ms
		b.want(b.m.Tick(b.now), "send 100")
		if late := b.now - began - time.Duration(n+1)*100*ms; late != 20*ms {
			t.Fatalf("advert %d is %s late", n, late)
		}
	}
}

// Who has resigned is succeeded within an interval: it answers beside a successor
// that it could not hear no longer than that.
func TestYieldingThatDidNotRun(t *testing.T) {
	b := active(t, nil)
	b.want(b.m.Release(b.now), "yielding (release), send 0")
	b.tick(200*ms, "send 0; send 0") // called twice an interval, it goes on
	b.now += 101 * ms
	b.want(b.m.Tick(b.now), "note lapsed, backup (lapsed)")

	b = active(t, nil)
	b.want(b.m.Stop(b.now), "yielding (stop), send 0")
	b.now += 101 * ms
	b.want(b.m.Tick(b.now), "note lapsed, initialize (lapsed)")
}

func TestActiveThatDidNotRun(t *testing.T) {
	b := active(t, nil)
	b.now += 299 * ms
	b.want(b.m.Tick(b.now), "send 100")
	b.now += 300 * ms
	b.want(b.m.Tick(b.now), "note lapsed, backup (lapsed)")
	b.tick(360*ms, "") // as if it had just started
	b.tick(ms, "active (silence), announce (silence), send 100")

	b.now += time.Hour
	b.hear(50, worse, "note lapsed, backup (lapsed)") // found in the socket
	b.tick(300*ms, "")
}

func TestBackupThatDidNotRun(t *testing.T) {
	b := newBench(t, nil)
	b.start("backup (start)")
	b.hear(200, better, "")
	b.now += time.Minute
	b.want(b.m.Tick(b.now), "note late")
	b.tick(100*ms, "")
	b.hear(200, better, "")
	b.now += time.Minute
	b.want(b.m.Tick(b.now), "note late")
	b.now += 101 * ms
	b.want(b.m.Tick(b.now), "note late")
	b.tick(360*ms, "")
	b.tick(ms, "active (silence), announce (silence), send 100")
}

// TestOldNewsIsNoNews: what a process finds in its socket when it goes on may
// be an old resignation, and the adverts that followed it may be lost.
func TestOldNewsIsNoNews(t *testing.T) {
	b := newBench(t, nil)
	b.start("backup (start)")
	b.hear(200, better, "")
	b.now += time.Minute
	b.hear(200, better, "note late")
	b.hear(0, better, "note resigner")
	b.hear(90, better, "") // it has had another priority, another time
	b.tick(100*ms, "")
	b.hear(90, better, "")
	b.hear(0, better, "")
	b.tick(61*ms, "active (resigned), announce (resigned), send 100")
}

func TestSetPriority(t *testing.T) {
	b := newBench(t, nil)
	b.start("backup (start)")
	b.hear(200, better, "")
	b.want(b.m.SetPriority(b.now, 228), "")
	b.tick(310*ms, "") // 300 ms and 28/256 of 100 ms
	b.tick(ms, "active (silence), announce (silence), send 228")
	b.tick(50*ms, "")
	b.want(b.m.SetPriority(b.now, 0), "send 1")
	b.want(b.m.SetPriority(b.now, 1), "")
	b.want(b.m.SetPriority(b.now, 255), "send 254")
	b.tick(99*ms, "")
	b.tick(ms, "send 254")
	if b.m.Priority() != 254 {
		t.Error(b.m.Priority())
	}
}

func TestStop(t *testing.T) {
	b := active(t, nil)
	b.want(b.m.Stop(b.now), "yielding (stop), send 0")
	if !b.m.State().Holds() {
		t.Error("does not hold while it yields")
	}
	b.tick(100*ms, "send 0")
	b.hear(0, worse, "")
	b.hear(50, worse, "initialize (handed-over)")
	b.tick(time.Hour, "")

	b = active(t, func(c *Config) { c.Linger = 250 * ms })
	b.want(b.m.Stop(b.now), "yielding (stop), send 0")
	b.tick(249*ms, "send 0; send 0")
	b.want(b.m.Stop(b.now), "")
	b.tick(ms, "initialize (linger)")
	b.start("backup (start)")

	b = newBench(t, nil)
	b.start("backup (start)")
	b.want(b.m.Stop(b.now), "initialize (stop)")
	b.want(b.m.Fault(b.now, true), "")
	b.want(b.m.Fault(b.now, false), "")
}

func TestRelease(t *testing.T) {
	preempt := func(c *Config) { c.Preempt = true }
	b := active(t, preempt)
	b.want(b.m.Release(b.now), "yielding (release), send 0")
	b.hear(50, worse, "backup (handed-over)")
	for range 20 {
		b.tick(100*ms, "")
		b.hear(50, worse, "")
	}
	b.hear(0, worse, "")
	b.tick(61*ms, "active (resigned), announce (resigned), send 100")

	b.want(b.m.Release(b.now), "yielding (release), send 0")
	b.tick(900*ms, strings.Repeat("send 0; ", 8)+"send 0")
	b.tick(100*ms, "active (unclaimed), announce (unclaimed), send 100")

	b.want(b.m.Release(b.now), "yielding (release), send 0")
	b.want(b.m.Stop(b.now), "")
	b.hear(50, worse, "initialize (handed-over)")

	b = active(t, preempt)
	b.want(b.m.Release(b.now), "yielding (release), send 0")
	b.now += time.Second
	b.want(b.m.Tick(b.now), "note lapsed, backup (lapsed)")
}

func TestFault(t *testing.T) {
	b := active(t, nil)
	b.want(b.m.Fault(b.now, true), "send 0, initialize (fault)")
	b.want(b.m.Fault(b.now, true), "")
	b.tick(time.Hour, "")
	b.want(b.m.Fault(b.now, false), "backup (recovered)")
	b.want(b.m.Fault(b.now, true), "initialize (fault)")
	b.want(b.m.Stop(b.now), "")
	b.want(b.m.Fault(b.now, false), "")

	b = newBench(t, nil) // at fault before it starts
	b.want(b.m.Fault(b.now, true), "")
	b.start("")
	b.want(b.m.Fault(b.now, false), "backup (recovered)")

	b = active(t, nil)
	b.m.Stop(b.now)
	b.want(b.m.Fault(b.now, true), "initialize (fault)")
}

func TestStartDelay(t *testing.T) {
	b := newBench(t, func(c *Config) { c.StartDelay = time.Second })
	b.start("backup (start)")
	b.hear(200, better, "")
	b.hear(0, better, "")
	b.tick(999*ms, "")
	b.tick(ms, "active (resigned), announce (resigned), send 100")
}

func TestAdvertsThatDoNotCount(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Addresses = ips("192.0.2.100", "192.0.2.101") })
	b.start("backup (start)")
	tests := []struct {
		change func(*Advert)
		src    netip.Addr
		note   string
	}{
		{func(a *Advert) { a.VRID = 52 }, better, "note vrid"},
		{func(a *Advert) { a.Version = 2 }, better, "note version"},
		{func(a *Advert) {}, ip("fe80::1"), "note family"},
		{func(a *Advert) {}, ip("192.0.2.2"), "note echo"},
		{func(a *Advert) { a.Addresses = ips("192.0.2.200") }, better, "note stranger"},
	}
	for _, test := range tests {
		a := b.m.Advert(200)
		test.change(&a)
		b.want(b.m.Receive(b.now, a, test.src), test.note)
		if b.m.Holder().IsValid() {
			t.Errorf("%s: it counts", test.note)
		}
	}
	a := b.m.Advert(200)
	a.Addresses = ips("192.0.2.101", "192.0.2.102")
	b.want(b.m.Receive(b.now, a, better), "note addresses")
	a.Addresses = ips("192.0.2.101", "192.0.2.100") // the order is free
	b.want(b.m.Receive(b.now, a, ip("::ffff:192.0.2.3")), "")
	if b.m.Holder() != better {
		t.Error("an advert with other addresses does not count")
	}
}

func TestWithoutAnAddressOneGivesWay(t *testing.T) {
	b := active(t, func(c *Config) { c.Address = netip.Addr{} })
	b.hear(100, worse, "note superior, backup (superior)")
	b = active(t, nil)
	b.m.SetAddress(ip("192.0.2.9"))
	b.hear(100, better, "note inferior, announce (inferior)")
}

func TestVersion2(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Version, c.Interval = 2, 10*time.Second })
	b.start("backup (start)")
	// Three intervals, and 156/256 of a second.
	b.tick(30609*ms, "")
	b.tick(ms, "active (silence), announce (silence), send 100")
}

func TestOddMachineCalls(t *testing.T) {
	var a Advert
	b := newBench(t, nil)
	b.start("backup (start)")
	b.want(b.m.Receive(b.now, a, netip.Addr{}), "note vrid")
	if got := b.m.Advert(7); got.Priority != 7 || !slices.Equal(got.Addresses, plain().Addresses) {
		t.Errorf("%+v", got)
	}
}

// BenchmarkAdvert is what one advert costs a backup, from bytes to timer.
func BenchmarkAdvert(b *testing.B) {
	c := plain()
	m := New(c)
	m.Start(0)
	a := m.Advert(200)
	packet := a.Append(nil, better, Multicast4)
	now := time.Duration(0)
	b.ReportAllocs()
	for b.Loop() {
		now += c.Interval
		got, err := Parse(packet, better, Multicast4)
		if err != nil {
			b.Fatal(err)
		}
		if len(m.Receive(now, got, better)) != 0 {
			b.Fatal("it did something")
		}
	}
}
