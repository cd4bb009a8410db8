package arbiter

import "github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter/store"

// Version and Store are those of package store, where the back ends find them.
type (
	Version = store.Version
	Store   = store.Store
)

// The errors of a Store, as package store has them.
var (
	ErrLost        = store.ErrLost
	ErrUnknown     = store.ErrUnknown
	ErrUnreachable = store.ErrUnreachable
	ErrDenied      = store.ErrDenied
	ErrUnfit       = store.ErrUnfit
)
