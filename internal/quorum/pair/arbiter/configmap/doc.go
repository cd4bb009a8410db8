// Package configmap keeps the pair's record in a ConfigMap of a Kubernetes cluster,
// replaced by its resourceVersion.
//
// Guarantees, beside those of package store:
//
//   - Reads come from etcd, not from the apiserver's cache.
//   - A change touches one key of the ConfigMap's data; what else people put there, or in
//     its labels and annotations, stays.
//   - A ConfigMap without that key is not taken for one that is not there: it is
//     somebody else's, and stays as it is.
//
// The cluster has to be another one than that which stands on the pair. Package arbiter
// finds that out (Rests).
package configmap
