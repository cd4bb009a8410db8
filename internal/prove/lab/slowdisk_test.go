package lab

import (
	"testing"
	"time"
)

// The disk of one member of real etcd is slow by that member's own word and by what
// its clients see, and by nobody else's.
func TestSlowDisk(t *testing.T) {
	spec := mustDefault(t, "lan")
	spec.Etcd[0].SlowDisks = true
	l := startLab(t, spec)
	ctx := deadline(t, time.Minute)
	if err := l.StartEtcd(ctx); err != nil {
		t.Fatal(err)
	}
	if err := l.MoveLeader(ctx, "main", "a"); err != nil {
		t.Fatal(err)
	}
	member := func(site string) *Member {
		m, err := l.Member("main", site)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	put := func(m *Member) time.Duration {
		t.Helper()
		c, err := m.Client()
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := c.Put(ctx, "key", "value"); err != nil {
			t.Fatal(err)
		}
		return time.Since(began)
	}
	syncs := func(m *Member) Syncs {
		t.Helper()
		s, err := m.Syncs(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	a, b := member("a"), member("b")
	put(b)
	beforeA, beforeB := syncs(a), syncs(b)
	const delay = 400 * time.Millisecond
	if err := a.SlowDisk(delay); err != nil {
		t.Fatal(err)
	}
	if took := put(b); took < delay {
		t.Errorf("a write took %s though the leader's disk takes %s for a sync", took, delay)
	}
	waitFor(t, 10*time.Second, "a tells of its slow disk", func() bool { return syncs(a).Since(beforeA) >= delay })
	if mean := syncs(b).Since(beforeB); mean >= delay/2 {
		t.Errorf("a sync took %s on b, whose disk is not slow", mean)
	}
	if err := a.SlowDisk(0); err != nil {
		t.Fatal(err)
	}
	waitFor(t, 10*time.Second, "writes are fast again", func() bool { return put(b) < delay })
	plain := mustDefault(t, "lan").Etcd[0]
	if err := (&Member{cluster: &cluster{Cluster: plain}}).SlowDisk(delay); err == nil {
		t.Error("a disk that nobody watches was slowed")
	}
}
