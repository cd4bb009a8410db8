package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/telemetry"
)

// RetryEvery is how often something that a person may be mending is tried again:
// a certificate that is not there yet, a port that is still taken.
const RetryEvery = 5 * time.Second

// Late is an agent A as a program: its telemetry is served at once, and the agent
// started when what it needs is there. The fields are set before Run.
type Late[A any] struct {
	// Outlet serves telemetry; its Status and Again are set here.
	Outlet telemetry.Outlet
	// Make makes the agent; its error says what is missing.
	Make func() (*A, error)
	// Missing is the condition of Outlet.Ready that says so too.
	Missing string
	// Status is the document that the agent answers with.
	Status func(*A) any
	// Work runs the agent until ctx ends.
	Work func(ctx context.Context, agent *A)

	agent atomic.Pointer[A]
}

// Run returns when ctx has ended, and the agent with it.
func (l *Late[A]) Run(ctx context.Context) {
	l.Outlet.Status, l.Outlet.Again = telemetry.Document(l.status), RetryEvery
	var wg sync.WaitGroup
	wg.Go(func() { l.Outlet.Serve(ctx) })
	wg.Go(func() {
		if agent := l.start(ctx); agent != nil {
			l.agent.Store(agent)
			l.Work(ctx, agent)
		}
	})
	wg.Wait()
}

// start makes the agent; nil means that ctx ended first.
func (l *Late[A]) start(ctx context.Context) *A {
	said := ""
	for {
		agent, err := l.Make()
		if err == nil {
			return agent
		}
		if text := err.Error(); text != said {
			said = text
			l.Outlet.Log.Warn("the agent cannot start yet; it tries again", "error", text)
		}
		l.Outlet.Ready.Set(l.Missing, err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(RetryEvery):
		}
	}
}

// status is the agent's, once there is one.
func (l *Late[A]) status() (any, error) {
	if agent := l.agent.Load(); agent != nil {
		return l.Status(agent), nil
	}
	err := l.Outlet.Ready.Err()
	if err == nil {
		err = errors.New("not yet")
	}
	return nil, fmt.Errorf("the agent has not started: %w", err)
}
