// Package zonal keeps, for each Service with the annotation
// holdfast.dev/zonal: "true", a second Service NAME-zonal whose only endpoint is
// the ClusterIP of the first. A proxy that builds its upstreams from
// EndpointSlices then sees one address instead of the pods of all zones, and the
// datapath behind that address picks a pod in the zone of the proxy.
//
// Guarantees:
//
//   - What this package did not make it never changes or deletes: an object is
//     ours only by its label and its controlling owner together. A foreign object
//     with one of our names is told of in the log, an Event and status.
//   - No slice of a mirror is ever written without an endpoint, and a mirror whose
//     Service changes is pointed at the new address before anything else.
//   - Nothing is deleted on the word of a cache: the Service is read anew from the
//     API first, and the deletion names the version it is about.
//   - In a partition nothing changes: the mirrors stay as they are, and so does
//     what proxies do. Of several replicas one acts, by a Lease (package lease).
//   - After a crash at any point the next pass completes the work; every write is
//     based on a version, and one that comes too late is refused by the API.
//   - Wrong clocks do not matter: nothing here compares wall-clock times.
//
// For whom it is meant: proxies that read EndpointSlices and dial endpoints
// themselves (Envoy of a Gateway, ingress controllers, Caddy, HAProxy). The price:
// one upstream, so their retries on another endpoint, outlier detection and
// balancing per request lose their meaning; the datapath balances per connection.
// Who dials the mirror's own ClusterIP through kube-proxy gets nowhere: one
// connection is translated once, and would have to be twice.
package zonal
