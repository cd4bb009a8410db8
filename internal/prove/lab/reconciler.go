package lab

import (
	"fmt"
	"strings"
)

// Reconcile sets who keeps the EndpointSlice of default/kubernetes, "lease" or
// "none", from the next start of the apiserver on.
func (a *APIServer) Reconcile(kind string) error {
	const flag = "--endpoint-reconciler-type="
	if kind != "lease" && kind != "none" {
		return fmt.Errorf("reconciler %q: write lease or none", kind)
	}
	for i, arg := range a.argv {
		if strings.HasPrefix(arg, flag) {
			a.argv[i] = flag + kind
			return nil
		}
	}
	a.argv = append(a.argv, flag+kind)
	return nil
}
