package relay

import (
	"sync"
	"time"
)

// ages bounds how many connections are closed for their age per second, so
// that those opened together do not end together.
type ages struct {
	perSecond int

	mu    sync.Mutex
	level float64
	last  int64
}

// take says whether one more may be closed now. The store holds at most the
// tokens of one second.
func (a *ages) take(now int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	full := float64(a.perSecond)
	if a.last == 0 {
		a.level, a.last = 1, now
	}
	if passed := now - a.last; passed > 0 {
		a.level = min(full, a.level+full*float64(passed)/float64(time.Second))
		a.last = now
	}
	if a.level < 1 {
		return false
	}
	a.level--
	return true
}
