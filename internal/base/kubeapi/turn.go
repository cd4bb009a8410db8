package kubeapi

import (
	"errors"
	"sync"
)

// errTurned ends the streams of a server that lost its turn: one that no longer
// answers questions does not tell of changes either, and would leave its
// watchers without news for as long as silence lasts.
var errTurned = errors.New("the server no longer answers; turning to the next one")

// turn remembers which of several servers is asked. Whoever has it keeps it
// until it fails: there is no way back by time, so that a server which comes and
// goes is not asked again and again.
type turn struct {
	mu   sync.Mutex
	of   int
	at   int
	left chan struct{} // closed when at changes
}

func newTurn(of int) *turn { return &turn{of: of, left: make(chan struct{})} }

// now returns whose turn it is, and what tells that it is over.
func (t *turn) now() (at int, left <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.at, t.left
}

// away ends the turn of server from, unless another ended it already.
func (t *turn) away(from int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of < 2 || t.at != from {
		return
	}
	t.at = (t.at + 1) % t.of
	close(t.left)
	t.left = make(chan struct{})
}
