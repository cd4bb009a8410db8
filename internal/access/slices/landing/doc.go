// Package landing tells which endpoint of the kubernetes Service a connection
// from this node lands on, and whether that is one its zone was hinted.
//
// # Guarantees
//
// It only looks. A connection is a handshake of TLS and nothing after it: no
// request, no credentials, nothing that an apiserver stores. The certificate that
// is shown is compared with those that the endpoints show at their own addresses,
// and never trusted for who somebody is.
//
// A stray is one that was seen: a connection that was answered by an endpoint
// which is known, and is not among those that were hinted, while what is hinted
// had not changed for Settle before the connection began, as was read anew after it. One that is lost, or
// answered by somebody who cannot be told from another, is no stray, and says
// nothing good either. That all is well is said only when chance would have
// to explain it with less than Chance.
//
// In a partition it goes by what was known before: the certificates of
// endpoints that cannot be reached any more stay known.
//
// # Why there is a need
//
// A kube-proxy that does not know its own zone passes all hints over and says so
// at verbosity 2 only. One of 1.34 to 1.37 can miss it at its start for life: its
// NodeManager has started the informer of its Node before Run
// (cmd/kube-proxy/app/server.go) makes the NodeTopologyConfig, which subscribes
// at once and knows nobody to tell until RegisterEventHandler; handleNodeEvent
// (pkg/proxy/config/config.go) keeps labels that nobody heard of as known, and
// is silent until they change. Read in 1.34.4, 1.35.4, 1.36.3 and 1.37.2. In
// 1.33.13 the informer starts after all handlers are registered; in 1.38.0-beta.0
// the handler comes with the subscription (kubernetes#143275).
//
// # Rooms
//
// expect.go knows what a datapath that honours hints would use; book.go who
// shows which certificate; trial.go judges many connections at once, watch.go
// one now and then. Those are pure. call.go makes the connections.
package landing
