package kubeapi

import (
	"errors"
	"sync"
	"time"
)

const (
	// failuresOf is how many answers of 500 in a row, and failingFor over how
	// long, end a turn: a burst of writes that one webhook fails is no sign of a
	// server without etcd, and to move for it would close every watch.
	failuresOf = 3
	failingFor = time.Second
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
	doubt
}

// doubt is what speaks against the server whose turn it is, short of proof.
type doubt struct {
	heard    time.Time // it answered then
	silence  time.Time // callers who gave up have heard nothing since; zero: none
	failures int       // answers of 500 in a row
	failing  time.Time // since the first of them
}

// answered clears server from of doubt.
func (t *turn) answered(from int, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.at == from {
		t.doubt = doubt{heard: now}
	}
}

// failed notes an answer of 500, and says whether there were too many.
func (t *turn) failed(from int, now time.Time) (enough bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.at != from {
		return false
	}
	if t.failures++; t.failures == 1 {
		t.failing = now
	}
	t.heard, t.silence = now, time.Time{}
	return t.failures >= failuresOf && now.Sub(t.failing) >= failingFor
}

// silent notes that a caller gave up on a request, and says whether callers
// together have heard nothing for as long as an attempt is given. A tenth less:
// who bounds a request like an attempt begins a little earlier.
func (t *turn) silent(from int, began, now time.Time, patience time.Duration) (enough bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.at != from {
		return false
	}
	if t.silence.IsZero() {
		t.silence = began
		if began.Before(t.heard) {
			t.silence = t.heard
		}
	}
	return now.Sub(t.silence) >= patience-patience/10
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
	t.at, t.doubt = (t.at+1)%t.of, doubt{}
	close(t.left)
	t.left = make(chan struct{})
}
