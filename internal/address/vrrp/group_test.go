package vrrp

import (
	"strings"
	"testing"
	"time"
)

type groupBench struct {
	t   *testing.T
	g   *Group
	now time.Duration
}

func newGroup(t *testing.T, n int) *groupBench {
	var members []*Machine
	for range n {
		members = append(members, New(plain()))
	}
	g, err := NewGroup(members...)
	if err != nil {
		t.Fatal(err)
	}
	return &groupBench{t: t, g: g, now: time.Hour}
}

func stepText(steps []Step) string {
	var words []string
	for _, s := range steps {
		words = append(words, string(rune('0'+s.Member))+" "+text([]Action{s.Action}))
	}
	return strings.Join(words, ", ")
}

func (b *groupBench) want(steps []Step, want string) {
	b.t.Helper()
	if got := stepText(steps); got != want {
		b.t.Errorf("after %s:\n%s, want\n%s", b.now-time.Hour, got, want)
	}
}

func (b *groupBench) hear(member int, priority uint8, want string) {
	b.t.Helper()
	b.want(b.g.Receive(b.now, member, b.g.Member(member).Advert(priority), better), want)
}

func (b *groupBench) tick(length time.Duration, want string) {
	b.t.Helper()
	var all []string
	end := b.now + length
	for {
		at, ok := b.g.Next()
		if !ok || at > end {
			break
		}
		b.now = max(b.now, at)
		if s := stepText(b.g.Tick(b.now)); s != "" {
			all = append(all, s)
		}
	}
	b.now = end
	if got := strings.Join(all, "; "); got != want {
		b.t.Errorf("until %s:\n%s, want\n%s", b.now-time.Hour, got, want)
	}
}

const bothActive = "0 active (silence), 0 announce (silence), 0 send 100, 1 active (silence), 1 announce (silence), 1 send 100"

func TestGroupTakesAllOrNothing(t *testing.T) {
	b := newGroup(t, 2)
	b.want(b.g.Start(b.now), "0 backup (start), 1 backup (start)")
	for range 10 {
		b.hear(1, 200, "")
		b.tick(100*time.Millisecond, "")
	}
	if b.g.State() != Backup || b.g.Len() != 2 {
		t.Error(b.g.State())
	}
	b.tick(261*time.Millisecond, bothActive)
	if b.g.State() != Active {
		t.Error(b.g.State())
	}
}

func TestGroupGivesWayTogether(t *testing.T) {
	b := newGroup(t, 2)
	b.g.Start(b.now)
	b.tick(361*time.Millisecond, bothActive)
	b.hear(0, 200, "0 note superior, 0 backup (superior), 1 yielding (group), 1 send 0")
	b.hear(1, 200, "1 backup (handed-over)")

	b.tick(361*time.Millisecond, bothActive)
	b.hear(1, 200, "1 note superior, 1 backup (superior), 0 yielding (group), 0 send 0")
	for range 9 {
		b.tick(100*time.Millisecond, "0 send 0")
		b.hear(1, 200, "")
	}
	b.tick(100*time.Millisecond, "0 backup (linger)")
}

func TestGroupAtFault(t *testing.T) {
	b := newGroup(t, 2)
	b.g.Start(b.now)
	b.tick(361*time.Millisecond, bothActive)
	b.want(b.g.Fault(b.now, 1, true), "0 send 0, 0 initialize (fault), 1 send 0, 1 initialize (fault)")
	b.want(b.g.Fault(b.now, 0, true), "")
	b.want(b.g.Fault(b.now, 1, false), "")
	b.want(b.g.Fault(b.now, 0, false), "0 backup (recovered), 1 backup (recovered)")
}

func TestGroupReleased(t *testing.T) {
	b := newGroup(t, 2)
	b.g.Start(b.now)
	b.tick(361*time.Millisecond, bothActive)
	b.want(b.g.SetPriority(b.now, 90), "0 send 90, 1 send 90")
	b.want(b.g.Release(b.now), "0 yielding (release), 0 send 0, 1 yielding (release), 1 send 0")
	b.tick(999*time.Millisecond, strings.TrimSuffix(strings.Repeat("0 send 0, 1 send 0; ", 9), "; "))
	b.tick(time.Millisecond, "0 active (unclaimed), 0 announce (unclaimed), 0 send 90, 1 active (unclaimed), 1 announce (unclaimed), 1 send 90")

	b.g.Release(b.now)
	b.hear(0, 50, "0 backup (handed-over)")
	b.tick(999*time.Millisecond, strings.TrimSuffix(strings.Repeat("1 send 0; ", 9), "; "))
	b.tick(time.Millisecond, "1 backup (linger)")

	b = newGroup(t, 2)
	b.g.Start(b.now)
	b.tick(361*time.Millisecond, bothActive)
	b.want(b.g.Stop(b.now), "0 yielding (stop), 0 send 0, 1 yielding (stop), 1 send 0")
	b.hear(1, 50, "1 initialize (handed-over)")
	b.hear(0, 50, "0 initialize (handed-over)")
}

func TestGroupThatDidNotRun(t *testing.T) {
	b := newGroup(t, 2)
	b.g.Start(b.now)
	b.tick(361*time.Millisecond, bothActive)
	b.now += time.Second
	// No advert of priority 0 leaves: somebody else holds the addresses.
	b.hear(0, 50, "0 note lapsed, 0 backup (lapsed), 1 note lapsed, 1 backup (lapsed)")
}

func TestGroupOfOne(t *testing.T) {
	b := newGroup(t, 1)
	b.g.Start(b.now)
	b.tick(361*time.Millisecond, "0 active (silence), 0 announce (silence), 0 send 100")
	b.want(b.g.Release(b.now), "0 yielding (release), 0 send 0")
}

func TestGroupsThatCannotBe(t *testing.T) {
	if _, err := NewGroup(); err == nil {
		t.Error("a group of nothing")
	}
	m := New(plain())
	m.Start(0)
	if _, err := NewGroup(m); err == nil {
		t.Error("a group of what runs already")
	}
}
