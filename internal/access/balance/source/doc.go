// Package source finds the backends of a balancer: a static list, the
// EndpointSlices of a Service, DNS and a file, several at once.
//
// # Guarantees
//
// Never empty: once a backend was known, the list has one. A source that
// fails, answers nothing or answers nonsense keeps the list it gave before.
//
// In a partition: a source without news changes nothing. The list may be old;
// health checks, not this package, judge who on it can serve.
//
// After a crash or a cold start without an API server: the last good list is
// read from disk and offered unverified beside the static one, until the
// source it came from has answered. It is written atomically, after the fact,
// by a goroutine that nothing waits for; a full or hanging disk harms no
// service. A truncated or foreign file is ignored.
//
// With a wrong clock: nothing compares times of two machines, and nothing
// expires.
//
// With a hostile or broken source: each entry is judged alone. Loopback,
// multicast, unspecified and own addresses, port 0, names, duplicates and all
// beyond a thousand are left out, counted and told in Status; the rest serves.
//
// # Confirmation
//
// What a discovery lists is confirmed. A static backend that no discovery
// lists, while one lists others, is demoted: used only when no confirmed one
// is. So an installation outlives the machines it was set up with, and a
// discovery gone wrong still has the static list beneath it. An empty answer,
// and a list from disk, confirm and demote nothing.
//
// # Rooms
//
// merge.go, vet.go and book.go decide (pure); set.go runs the sources and
// waits 50 ms for others to speak too; state.go is the file. slices.go, dns.go
// and file.go are the sources, beside endpointslice.go and fileformat.go,
// which decode.
package source
