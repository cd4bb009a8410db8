package vip

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// change is what a hook is told.
type change struct {
	group, state, before, cause string
	addresses                   []string
}

// mostWaiting bounds what waits for a hook that is slow; the oldest is dropped,
// for the newest state is what counts.
const mostWaiting = 16

// hooks runs the programs of a group, one change after the other.
type hooks struct {
	settings []HookSettings
	queue    chan change
	log      *slog.Logger
}

func newHooks(settings []HookSettings, log *slog.Logger) *hooks {
	return &hooks{settings: settings, queue: make(chan change, mostWaiting), log: log}
}

// tell never waits.
func (h *hooks) tell(c change) {
	if len(h.settings) == 0 {
		return
	}
	for {
		select {
		case h.queue <- c:
			return
		default:
		}
		select {
		case old := <-h.queue:
			h.log.Warn("hook is too slow; a change is not told", keyGroup, old.group, keyState, old.state)
		default:
		}
	}
}

// run runs the programs until ctx ends and the queue is empty.
func (h *hooks) run(ctx context.Context) {
	for {
		select {
		case c := <-h.queue:
			h.do(c)
		case <-ctx.Done():
			select {
			case c := <-h.queue:
				h.do(c)
			default:
				return
			}
		}
	}
}

func (h *hooks) do(c change) {
	for i := range h.settings {
		s := &h.settings[i]
		if len(s.On) > 0 && !slices.Contains(s.On, c.state) {
			continue
		}
		if err := s.exec(c); err != nil {
			h.log.Warn("hook failed", keyGroup, c.group, keyState, c.state, keyHook, s.Command[0], keyError, err)
		}
	}
}

func (s *HookSettings) exec(c change) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.Command[0], s.Command[1:]...)
	cmd.Env = append(
		os.Environ(), "HOLDFAST_VIP_GROUP="+c.group, "HOLDFAST_VIP_STATE="+c.state, "HOLDFAST_VIP_BEFORE="+c.before,
		"HOLDFAST_VIP_CAUSE="+c.cause, "HOLDFAST_VIP_ADDRESSES="+strings.Join(c.addresses, " "),
	)
	// What it has started ends with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 100 * time.Millisecond
	return cmd.Run()
}
