package leader

import (
	"context"
	"errors"
	"sync"
)

// decisionRecord is what this agent knows of the key <prefix>/decision.
type decisionRecord struct {
	mu       sync.Mutex
	revision int64  // of the key as last read through a quorum; 0: it did not exist
	term     uint64 // in which it was read as leader; 0: never
}

// known reports whether the key was read since the own member came to lead in term.
func (d *decisionRecord) known(term uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.term != 0 && d.term == term
}

// forget makes the key unknown: it was that of another cluster.
func (d *decisionRecord) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.revision, d.term = 0, 0
}

// read reads the key through a quorum on behalf of a leader of term. With
// errNonsense the key is known too: it can be replaced, and else one bad value
// would forbid every move for ever.
func (d *decisionRecord) read(ctx context.Context, s *store, url string, term uint64) (Penalty, error) {
	p, revision, err := s.decision(ctx, url)
	if err != nil && !errors.Is(err, errNonsense) {
		return Penalty{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.revision, d.term = revision, term
	return p, err
}

// write replaces the key if nobody did since it was read. Being overtaken
// makes it unknown again, so that it is read before the next decision.
func (d *decisionRecord) write(ctx context.Context, s *store, url string, p Penalty) error {
	d.mu.Lock()
	revision := d.revision
	d.mu.Unlock()
	written, err := s.decide(ctx, url, p, revision)
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err == nil:
		d.revision = written
	case isNoSpace(err):
		// refused before anything was written
	default: // overtaken, or it is open whether it was written
		d.term = 0
	}
	return err
}
