package leader

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A certificate that is not there yet and a telemetry port that is taken can
// both pass: the agent says each once, and goes on.
func TestProcessWaitsForWhatCanPass(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	s := plainSettings()
	s.Etcd.Endpoints = []string{"https://127.0.0.1:1"}
	s.Etcd.CA = filepath.Join(t.TempDir(), "ca.crt")
	s.Telemetry.Listen = taken.Addr().String()
	said := &lines{seen: make(chan string, 16)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, said, s) }()
	missing := map[string]bool{"ca.crt": true, "telemetry.listen": true}
	for len(missing) > 0 {
		select {
		case line := <-said.seen:
			for word := range missing {
				if strings.Contains(line, word) {
					delete(missing, word)
				}
			}
		case err := <-ended:
			t.Fatalf("the agent ended: %v", err)
		case <-time.After(20 * time.Second):
			t.Fatalf("nothing said about %v", missing)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("asked to stop, it ended with %v", err)
	}
}

func TestStatusBeforeTheAgentHasStarted(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	s := plainSettings()
	s.Etcd.Endpoints, s.Etcd.CA = []string{"https://127.0.0.1:1"}, filepath.Join(t.TempDir(), "ca.crt")
	s.Telemetry.Listen = addr
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, io.Discard, s) }()
	for deadline := time.Now().Add(20 * time.Second); ; {
		resp, err := http.Get("http://" + addr + "/status")
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusServiceUnavailable {
				t.Errorf("status %d", resp.StatusCode)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		if !pause(ctx, 20*time.Millisecond) {
			break
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// lines hands over what is written, line by line.
type lines struct{ seen chan string }

func (l *lines) Write(b []byte) (int, error) {
	select {
	case l.seen <- string(b):
	default:
	}
	return len(b), nil
}
