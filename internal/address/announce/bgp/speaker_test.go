package bgp

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"testing"
	"time"
)

// port finds one that nothing listens on.
func port(t *testing.T, host string) string {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, p, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// pair are two speakers on lo; each listens, or does not.
func pair(t *testing.T, aListens, bListens bool, password string) (a, b *Speaker, stop func()) {
	t.Helper()
	portA, portB := port(t, "127.0.0.1"), port(t, "127.0.0.2")
	settings := func(own, other, ownPort, otherPort string, as, peer uint32, listens bool) Settings {
		p := PeerSettings{Address: other, AS: peer, LocalAddress: own, PasswordFile: password, Families: []string{"ipv4"}, NextHopIPv4: "192.0.2.2"}
		if _, err := fmt.Sscan(otherPort, &p.Port); err != nil {
			t.Fatal(err)
		}
		s := Settings{AS: as, RouterID: own, Wait: time.Millisecond, Peers: []PeerSettings{p}}
		if listens {
			s.Listen = []string{own + ":" + ownPort}
		}
		return s
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	start := func(s Settings) *Speaker {
		sp, err := New(s, Options{})
		if err != nil {
			t.Fatal(err)
		}
		go func() { ended <- sp.Run(ctx) }()
		return sp
	}
	a = start(settings("127.0.0.1", "127.0.0.2", portA, portB, 65001, 65002, aListens))
	b = start(settings("127.0.0.2", "127.0.0.1", portB, portA, 65002, 65001, bListens))
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(stop)
	return a, b, stop
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !f(); <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

func established(s *Speaker) bool { return s.Status()[0].State == Established }

func TestSpeakersMeet(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "password")
	writeFile(t, secret, "open sesame\n")
	for _, c := range []struct {
		name     string
		a, b     bool
		password string
	}{
		{"one listens", true, false, ""},
		{"the other listens", false, true, ""},
		{"both dial and listen", true, true, ""},
		{"password", true, true, secret},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b, stop := pair(t, c.a, c.b, c.password)
			a.Up(netip.MustParseAddr("203.0.113.10"))
			eventually(t, "both are up", func() bool { return established(a) && established(b) })
			eventually(t, "the route is told", func() bool { return a.Status()[0].Announced == 1 })
			a.Down(netip.MustParseAddr("203.0.113.10"))
			eventually(t, "the route is withdrawn", func() bool { return a.Status()[0].Announced == 0 })
			stop()
			if s := a.Status()[0]; s.State != Idle || s.Ups == 0 {
				t.Errorf("after the end: %+v", s)
			}
		})
	}
}

func TestStrangersAreRefused(t *testing.T) {
	at := port(t, "127.0.0.1")
	s, err := New(Settings{
		AS: 65001, RouterID: "127.0.0.1", Listen: []string{"127.0.0.1:" + at},
		Peers: []PeerSettings{{Address: "192.0.2.1", AS: 65002, Passive: true}},
	}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	c, err := net.Dial("tcp", "127.0.0.1:"+at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("a stranger is told %d octets, %v", n, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
