// Package pki makes the TLS files of an etcd or Kubernetes cluster the way
// kubeadm does.
//
// Guarantees:
//
//   - One authority per cluster; a certificate of one cluster is worth nothing
//     in another.
//   - The names of the files, the key usages and the subjects are those of
//     kubeadm (kubernetes/cmd/kubeadm/app/phases/certs): server.crt and
//     peer.crt serve and dial, healthcheck-client.crt only dials and carries no
//     address. Of the Kubernetes files, apiserver.crt serves and the others
//     dial.
//   - Private keys are readable by their owner alone.
package pki
