package store

import (
	"context"
	"errors"
)

// MaxObject is the most bytes that an object may have. A record has some 400.
const MaxObject = 4 << 10

// Version is a store's own name for one state of its object: an ETag, a revision,
// a resourceVersion. Empty means that there is no object.
type Version string

// Store keeps one object of a few hundred bytes, and replaces it by
// compare-and-swap. Every call has a deadline in ctx. A Store knows
// nothing of records.
//
// Its errors wrap one of those below, so that a caller can tell what they mean
// for a change that was asked for.
type Store interface {
	// Read returns the object and its version. An object that is not there is
	// no error: nil and an empty version. It never answers from a cache, and
	// returns nothing older than a Swap that has returned.
	Read(ctx context.Context) ([]byte, Version, error)
	// Swap replaces the object if it still has the version given, or
	// makes it if that is empty and there is none. It returns the new version,
	// or "" where only a read would tell. ErrLost: it has another version, nothing was
	// changed. ErrUnknown: the answer did not come, perhaps it was changed.
	// Any other error: nothing was changed.
	// It is sent once; nothing below it repeats a write.
	Swap(ctx context.Context, was Version, data []byte) (Version, error)
	// Beside is the store of another object in the same place, whose name is this
	// one's with suffix behind it. It has to be closed as well.
	Beside(suffix string) (Store, error)
	// Name says where the object is, without secrets, for log lines.
	Name() string
	// Close releases connections.
	Close() error
}

var (
	// ErrLost: somebody else changed the object first.
	ErrLost = errors.New("the record was changed by somebody else first")
	// ErrUnknown: a change was sent and its answer did not come.
	ErrUnknown = errors.New("the answer to a change did not come")
	// ErrUnreachable: the arbiter did not answer, or not with sense. It may pass.
	ErrUnreachable = errors.New("arbiter unreachable")
	// ErrDenied: the arbiter refused the credentials. A person must mend it.
	ErrDenied = errors.New("arbiter refused the credentials")
	// ErrUnfit: the arbiter cannot do a compare-and-swap.
	ErrUnfit = errors.New("arbiter unfit")
)
