package bfd

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestRealtimeIsGivenBack(t *testing.T) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		restore, err := realtime()
		if err != nil {
			restore()
			t.Logf("not allowed here: %v", err)
			return
		}
		if got, err := unix.SchedGetAttr(0, 0); err != nil || got.Policy != unix.SCHED_RR {
			t.Errorf("%+v, %v", got, err)
		}
		restore()
		// Still on the same thread, unless the runtime moves the goroutine,
		// and then onto one that never was in the class.
		if got, err := unix.SchedGetAttr(0, 0); err != nil || got.Policy == unix.SCHED_RR {
			t.Errorf("%+v, %v", got, err)
		}
	}()
	<-done
}
