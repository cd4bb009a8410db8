package guard

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// forkers have a thread of their own that forks; nobody else may ask for the parent
// death signal, which is the thread's.
var forkers = []string{
	"internal/base/offspring/start.go",
	"internal/prove/lab/space/spawn.go", // in a namespace
	"test/robustness/process_test.go",   // a module of its own
}

func deathSignals(tr *tree) []string {
	var all []string
	for _, f := range tr.files {
		if !strings.HasSuffix(f.name, ".go") || slices.Contains(forkers, f.name) {
			continue
		}
		for i, line := range strings.Split(f.text, "\n") {
			if strings.Contains(line, "Pdeath"+"sig") {
				all = append(all, fmt.Sprintf("%s:%d: a parent death signal from any thread kills the child when that thread ends; start it by offspring.Start", f.name, i+1))
			}
		}
	}
	return all
}

func TestChildrenDieWithTheProcessNotWithAThread(t *testing.T) {
	holds(t, deathSignals)
	catches(t, deathSignals, map[string]string{
		"internal/a/a.go":                   "package a\n\nvar _ = syscall.SysProcAttr{Pdeath" + "sig: 9}\n",
		"internal/prove/lab/space/spawn.go": "package space\n\nvar _ = syscall.SysProcAttr{Pdeath" + "sig: 9}\n",
	}, "internal/a/a.go:3")
}
