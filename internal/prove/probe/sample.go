package probe

import "time"

// Mode says how a path reaches its target. The three are separate paths,
// because a half-broken network breaks them at different times.
type Mode string

const (
	// ModeNew opens a fresh connection for every sample.
	ModeNew Mode = "new"
	// ModeReused sends every sample over one kept connection.
	ModeReused Mode = "reused"
	// ModeStream holds one long-lived stream (an etcd watch, a chunked
	// response, an idle TCP connection) and samples its progress.
	ModeStream Mode = "stream"
)

// Class is the kind of failure of a sample; "" means the sample succeeded.
type Class string

const (
	ClassOK          Class = ""
	ClassRefused     Class = "refused"
	ClassReset       Class = "reset"
	ClassTimeout     Class = "timeout"
	ClassUnreachable Class = "unreachable"
	ClassTLS         Class = "tls"
	ClassDNS         Class = "dns"
	// ClassHTTP is an answer with a code outside the target's expected set;
	// Sample.Code tells which.
	ClassHTTP Class = "http"
	// ClassServer is a typed answer of the server that is not success
	// ("etcdserver: no leader"); it proves that something answered.
	ClassServer Class = "server"
	ClassOther  Class = "other"
)

// Sample is one attempt on one path. Times are wall-clock for correlation
// with other logs; they were taken from one monotonic origin, so differences
// within a run are exact.
type Sample struct {
	// Path is the name of the path, unique in a run
	// ("b/etcd/put/new": site, target, kind, mode).
	Path string `json:"path"`
	// Seq counts samples of this path from 0 in the order of Scheduled.
	Seq uint64 `json:"seq"`
	// Scheduled is when the open-loop clock wanted the sample sent, Sent when
	// it was, Done when its result was known. Sent-Scheduled is the prober's
	// own lag.
	Scheduled time.Time `json:"scheduled"`
	Sent      time.Time `json:"sent"`
	Done      time.Time `json:"done"`
	OK        bool      `json:"ok"`
	Class     Class     `json:"class,omitempty"`
	// Code is the HTTP status, or 0 ("000") when nothing answered.
	Code int `json:"code,omitempty"`
	// Error is the first line of the error text.
	Error string `json:"error,omitempty"`
	// Local and Peer are the socket addresses used, where known.
	Local string `json:"local,omitempty"`
	Peer  string `json:"peer,omitempty"`
	// Hops are the next hops of a route, in order: gateways, or "on link". Empty
	// says that there is no route; nil, that this is no sample of a route, or
	// that the kernel did not say.
	Hops []string `json:"hops,omitzero"`
	// By is who answered, where the answer to a datagram says so.
	By string `json:"by,omitempty"`
	// Key is the etcd key of a sample of kind write, Revision the revision at
	// which it was acknowledged, 0 if it was not.
	Key      string `json:"key,omitempty"`
	Revision int64  `json:"revision,omitempty"`
}

// Latency is how long the target took, from Sent to Done.
func (s Sample) Latency() time.Duration { return s.Done.Sub(s.Sent) }

// Lag is how late the prober itself sent the sample. A lag beyond LagLimit
// says that the prober was starved and its verdicts are not worth much.
func (s Sample) Lag() time.Duration { return s.Sent.Sub(s.Scheduled) }
