// Package deploy has the manifests of this directory that the programs need, so that
// what they use is what users apply.
package deploy

import _ "embed"

// CheckRole are the rights that `holdfast check --kubeconfig` needs, and no others: a
// ClusterRole, its binding, and a ServiceAccount kube-system/holdfast-check.
//
//go:embed check-role.yaml
var CheckRole string
