package probe

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

func TestEcho(t *testing.T) {
	noLeaks(t)
	var conns atomic.Int64
	address := serve(t, func(c net.Conn) {
		if conns.Add(1) == 2 { // the first of the two paths' connections to break
			_, _ = io.CopyN(c, c, 100)
			reset(c)
			return
		}
		_, _ = io.Copy(c, c)
	})
	cfg := &Config{
		Interval: 10 * time.Millisecond, Timeout: 300 * time.Millisecond, Control: Control{Off: true},
		Targets: []Target{{Name: "e", URL: "tcp://" + address + "?kind=echo", Modes: []Mode{ModeReused}},
			{Name: "f", URL: "tcp://" + address + "?kind=echo", Modes: []Mode{ModeReused}}},
	}
	paths := follow(t, cfg, after(50))
	failed := 0
	for _, samples := range paths {
		for _, s := range samples {
			if !s.OK {
				failed++
				if s.Class != ClassReset {
					t.Errorf("%s: %s: %s", s.Path, s.Class, s.Error)
				}
			}
		}
	}
	if failed == 0 || failed > 3 || conns.Load() != 3 {
		t.Errorf("%d failures, %d connections:\n%s", failed, conns.Load(), letters(paths))
	}
}

func TestEchoHasToEcho(t *testing.T) {
	for name, handle := range map[string]func(net.Conn){
		"silent": hang,
		"babble": func(c net.Conn) { _, _ = io.WriteString(c, "hello\n") },
	} {
		got := probeOnce(t, Target{Name: "e", URL: "tcp://" + serve(t, handle) + "?kind=echo", Timeout: 100 * time.Millisecond})
		for _, s := range got {
			if s.Class != ClassTimeout {
				t.Errorf("%s: %s: %q %s", name, s.Path, s.Class, s.Error)
			}
		}
	}
}

// An idle connection is good on the word of the peer's kernel, and fails when
// the peer closes it.
func TestHeldConnection(t *testing.T) {
	noLeaks(t)
	opened := make(chan net.Conn, 2)
	address := serve(t, func(c net.Conn) { opened <- c })
	cfg := &Config{Control: Control{Off: true}, Targets: []Target{{Name: "t", URL: "tcp://" + address, Modes: []Mode{ModeStream}}}}
	var first net.Conn
	paths := follow(t, cfg, func(_ string, samples []Sample) bool {
		if len(samples) == 15 && samples[14].OK {
			first = <-opened
			reset(first)
		}
		return first != nil && Summarise("", samples).Errors[ClassReset] > 0 && samples[len(samples)-1].OK
	})
	if s := Summarise("", paths["t/connect/stream"]); s.Outages != 1 || len(s.Errors) != 1 {
		t.Errorf("%s", letters(paths))
	}
}
