package probe

import (
	"net"
	"strings"
	"testing"
	"time"
)

// station answers datagrams with what answer makes of them.
func station(t *testing.T, answer func(string) []string) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		b := make([]byte, maxAnswer)
		for {
			n, from, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			for _, text := range answer(string(b[:n])) {
				_, _ = conn.WriteTo([]byte(text), from)
			}
		}
	}()
	return conn.LocalAddr().String()
}

// askOnce takes one sample of a target with one path.
func askOnce(t *testing.T, target Target) Sample {
	t.Helper()
	got := probeOnce(t, target)
	if len(got) != 1 {
		t.Fatalf("%d samples, want 1", len(got))
	}
	return got[0]
}

func TestDatagramNamesWhoAnswered(t *testing.T) {
	for text, by := range map[string]string{" a1": "a1", "": "", " a1 and more": "a1", " \x00": "", " " + strings.Repeat("x", 65): ""} {
		at := station(t, func(word string) []string { return []string{"something else", word + text} })
		got := askOnce(t, Target{Name: "d", URL: "udp://" + at, Modes: []Mode{ModeNew}, Timeout: 5 * time.Second})
		if !got.OK || got.By != by || got.Path != "d/datagram/new" {
			t.Errorf("answer %q: sample %+v, want one by %q", text, got, by)
		}
	}
}

func TestDatagramFails(t *testing.T) {
	silent := station(t, func(string) []string { return nil })
	if got := askOnce(t, Target{Name: "d", URL: "udp://" + silent, Timeout: 50 * time.Millisecond}); got.OK || got.Class != ClassTimeout {
		t.Errorf("silence: %+v", got)
	}
	other := station(t, func(string) []string { return []string{"holdfast-probe-0000000000000000 a1"} })
	if got := askOnce(t, Target{Name: "d", URL: "udp://" + other, Timeout: 50 * time.Millisecond}); got.OK || got.Class != ClassTimeout {
		t.Errorf("the answer to another question: %+v", got)
	}
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := conn.LocalAddr().String()
	_ = conn.Close()
	if got := askOnce(t, Target{Name: "d", URL: "udp://" + at, Timeout: 5 * time.Second}); got.OK || got.Class != ClassRefused {
		t.Errorf("nobody listens: %+v", got)
	}
}
