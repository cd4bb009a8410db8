package relay

import "sync/atomic"

// Pulse asks every loop for a sign of life. The channel is closed when all have
// given it, which takes them a moment; one that never is tells of a loop that
// is stuck or has ended.
func (e *Engine) Pulse() <-chan struct{} {
	answered := make(chan struct{})
	left := &atomic.Int64{}
	left.Store(int64(len(e.loops)))
	for _, l := range e.loops {
		l.post(func(*loop) {
			if left.Add(-1) == 0 {
				close(answered)
			}
		})
	}
	return answered
}
