package vip

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Hooks run one after the other, are told what has changed, and end in time.
func TestHooks(t *testing.T) {
	told := filepath.Join(t.TempDir(), "told")
	var said strings.Builder
	say := "echo $HOLDFAST_VIP_GROUP $HOLDFAST_VIP_BEFORE $HOLDFAST_VIP_STATE $HOLDFAST_VIP_CAUSE $HOLDFAST_VIP_ADDRESSES >> " + told
	h := newHooks([]HookSettings{
		{Command: []string{"/bin/sh", "-c", say}, On: []string{stateActive, stateBackup}, Timeout: 10 * time.Second},
		{Command: []string{"/bin/sh", "-c", "sleep 60 & sleep 60"}, On: []string{stateBackup}, Timeout: 20 * time.Millisecond},
	}, slog.New(slog.NewTextHandler(&said, nil)))
	addresses := []string{"192.0.2.100", "192.0.2.101"}
	h.tell(change{"api", stateActive, stateBackup, "silence", addresses})
	h.tell(change{"api", stateYielding, stateActive, "stop", addresses})
	h.tell(change{"api", stateBackup, stateActive, "superior", addresses})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h.run(ctx) // what waits is told all the same
	got, err := os.ReadFile(told)
	want := "api backup active silence 192.0.2.100 192.0.2.101\napi active backup superior 192.0.2.100 192.0.2.101\n"
	if err != nil || string(got) != want {
		t.Errorf("told %q, %v", got, err)
	}
	if n := strings.Count(said.String(), "hook failed"); n != 1 {
		t.Errorf("said %d times:\n%s", n, said.String())
	}
	// The newest are kept for one that is too slow.
	for range 2 * mostWaiting {
		h.tell(change{state: stateInitialize})
	}
	h.tell(change{group: "last", state: stateInitialize})
	if len(h.queue) != mostWaiting {
		t.Errorf("%d wait", len(h.queue))
	}
}
