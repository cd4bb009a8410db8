package probe

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"
)

func TestAnswerNamesTheMachine(t *testing.T) {
	free, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := free.LocalAddr().String()
	_ = free.Close()
	ctx, stop := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		if err := answer(ctx, at, "a2"); err != nil {
			t.Error(err)
		}
	})
	defer done.Wait()
	defer stop()
	var got Sample
	for deadline := time.Now().Add(10 * time.Second); !got.OK && time.Now().Before(deadline); {
		got = askOnce(t, Target{Name: "d", URL: "udp://" + at, Timeout: time.Second})
	}
	if !got.OK || got.By != "a2" {
		t.Errorf("datagram: %+v, want one by a2", got)
	}
	if got := askOnce(t, Target{Name: "e", URL: "tcp://" + at + "?kind=echo", Modes: []Mode{ModeNew}, Timeout: 5 * time.Second}); !got.OK {
		t.Errorf("echo: %+v", got)
	}
	if err := answer(ctx, at, "b"); err == nil {
		t.Error("a port that is taken was listened on")
	}
}
