package e2e

import (
	"sync"
	"testing"
)

// TestSlices publishes with no more rights than the manifest gives, while an
// onlooker judges every state in between. Each of its stories has a lab of its
// own, and all run at once: what they do most is wait.
func TestSlices(t *testing.T) {
	var all sync.WaitGroup
	for name, tell := range map[string]func(*testing.T){
		"reconciler": besideReconciler, "faults": withFaults, "lapses": withLapses,
	} {
		all.Go(func() { t.Run(name, tell) })
	}
	all.Wait()
}
