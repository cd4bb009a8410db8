package vip

import (
	"sync"
	"time"
)

// inbox is what a loop is to do, told by others. It never blocks them.
type inbox struct {
	wake chan struct{} // of one

	mu    sync.Mutex
	queue []func(now time.Duration)
}

func newInbox() inbox { return inbox{wake: make(chan struct{}, 1)} }

func (i *inbox) put(f func(now time.Duration)) {
	i.mu.Lock()
	i.queue = append(i.queue, f)
	i.mu.Unlock()
	i.nudge()
}

// nudge has the loop turn.
func (i *inbox) nudge() {
	select {
	case i.wake <- struct{}{}:
	default:
	}
}

func (i *inbox) take() []func(now time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	all := i.queue
	i.queue = nil
	return all
}
