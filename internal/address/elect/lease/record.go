package lease

import (
	"slices"
	"time"
)

// Mark tells a write from all others.
type Mark struct{ Incarnation, Serial uint64 }

// Record is what the API keeps about one address. Slices in it are never changed.
type Record struct {
	// Holder is who has the address; empty: nobody.
	Holder string
	// Given: the last holder named Holder as its successor, who has yet to claim.
	Given bool
	// Fresh: nobody has it, but somebody may who held it when the record was
	// deleted. So it is waited for like a holder.
	Fresh bool
	// Turn grows when the holder changes.
	Turn uint64
	// Mark is that of the last write.
	Mark Mark
	// Duration is how long others wait after they saw the last write.
	Duration time.Duration
	// Peers may take it over, nobody else.
	Peers []Peer
	// Key signs what peers say; empty where it comes from a file.
	Key []byte
}

// Names says that the record has a peer of that name.
func (r *Record) Names(name string) bool {
	return slices.ContainsFunc(r.Peers, func(p Peer) bool { return p.Name == name })
}

// free says that the last holder let go of it.
func (r *Record) free() bool { return r.Holder == "" && !r.Fresh }

// Seen is what a read, a write or a watch shows.
type Seen struct {
	Record Record
	// Version is for compare-and-swap. It grows from write to write; 0: there is
	// no record.
	Version uint64
	// Foreign says why the record is not one of ours; Record then names nobody, so
	// that nobody takes it, and who held it lets go.
	Foreign string
}

// Outcome is how a call ended.
type Outcome uint8

const (
	// Done: the API has done it.
	Done Outcome = iota
	// Conflict: the record was another one, and nothing was done.
	Conflict
	// Failed: no answer, or one that says nothing. A write may have been done, or
	// may yet be.
	Failed
)
