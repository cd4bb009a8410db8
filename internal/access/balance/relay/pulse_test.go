package relay

import (
	"context"
	"sync"
	"testing"
)

func TestPulseNeedsEveryLoop(t *testing.T) {
	e, err := New(Options{Loops: 2})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = e.Run(ctx) })
	defer wg.Wait()
	defer end()
	<-e.Pulse()
	free, other := make(chan struct{}), make(chan struct{})
	e.loops[0].post(func(*loop) { <-free })
	stuck := e.Pulse()
	e.loops[1].post(func(*loop) { close(other) })
	<-other
	select {
	case <-stuck:
		t.Error("a loop answers that is stuck")
	default:
	}
	close(free)
	<-stuck
}
