package health

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/creds"
)

// TestCheckerOnConnections puts a Checker, its Judge and a real Prober
// together: the order of grades, on a clock that nobody controls.
func TestCheckerOnConnections(t *testing.T) {
	files := newAuthority(t).issue("server", tomorrow, false)
	s := newCounted(t, files)
	m, err := Check{Kind: HTTPS, TLS: creds.Files{CA: files.CA}}.Open()
	if err != nil {
		t.Fatal(err)
	}
	p, err := m.Prober("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	grades := make(chan Grade, 1000)
	last := Unknown
	c := NewChecker(p, Default(), func(v Verdict) {
		if v.Grade != last {
			last = v.Grade
			grades <- v.Grade
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { c.Run(ctx); close(done) }()
	defer func() { cancel(); <-done }()

	becomes := func(want Grade) {
		t.Helper()
		deadline := time.After(amply)
		for {
			select {
			case g := <-grades:
				if g == want {
					return
				}
				t.Logf("on the way to %s: %s", want, g) // a noisy machine
			case <-deadline:
				t.Fatalf("never %s; %+v", want, c.Verdict())
			}
		}
	}
	becomes(Ready)
	s.code.Store(0) // requests hang
	becomes(Frozen)
	s.code.Store(500)
	close(s.hang)
	becomes(NotReady)
	s.code.Store(200)
	becomes(Ready)
	if v := c.Verdict(); v.RTT <= 0 || v.Failures == 0 || v.At.IsZero() {
		t.Errorf("at the end: %+v", v)
	}
	s.Listener.Close()
	s.cut()
	becomes(Refused)
}
