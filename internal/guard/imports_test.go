package guard

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// wings are the feature areas; they meet only in cmd and fleet.
var wings = []string{"quorum", "access", "address", "prove"}

// area returns the part of the house that a package directory belongs to:
// "cmd", "base", "health", a wing, "fleet", "deploy", or "" for what no rule covers.
func area(dir string) string {
	first, rest, _ := strings.Cut(dir, "/")
	switch first {
	case "cmd", "deploy":
		return first
	case "internal":
		room, _, _ := strings.Cut(rest, "/")
		return room
	}
	return ""
}

// mayImport says whether the arrow from one area to another points down:
// cmd → fleet → wings → health → base.
func mayImport(from, to string) bool {
	switch {
	case from == to, from == "cmd", from == "", to == "deploy": // manifests alone
		return true
	case from == "fleet":
		return to != "cmd"
	case slices.Contains(wings, from):
		return to == "health" || to == "base"
	case from == "health":
		return to == "base"
	}
	return false
}

// ours lists the package directories of this module that f imports.
func ours(f *file) []string {
	var dirs []string
	for _, spec := range f.syntax.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		if dir, ok := strings.CutPrefix(name, module+"/"); ok {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

func arrows(tr *tree) []string {
	var all []string
	for _, f := range tr.files {
		// A test may bring a lab or a second wing to bear on its subject.
		if !f.isGo() || f.isTest() {
			continue
		}
		from := area(f.dir())
		for _, dir := range ours(f) {
			if to := area(dir); !mayImport(from, to) {
				all = append(all, fmt.Sprintf("%s: imports %s; arrows point down: cmd, fleet, {%s}, health, base", f.name, dir, strings.Join(wings, ", ")))
			}
		}
	}
	return all
}

func TestArrowsPointDown(t *testing.T) {
	holds(t, arrows)
	imports := func(dir string) string { return "package x\n\nimport _ \"" + module + "/" + dir + "\"\n" }
	catches(
		t, arrows, map[string]string{
			"internal/prove/drill/a.go":        imports("internal/quorum/etcd"),
			"internal/quorum/leader/a.go":      imports("internal/fleet/store"),
			"internal/base/loop/a.go":          imports("internal/health"),
			"internal/health/a.go":             imports("internal/access/slices"),
			"internal/quorum/leader/b.go":      imports("internal/base/loop"),
			"internal/prove/drill/b.go":        imports("internal/prove/lab"),
			"internal/quorum/leader/c_test.go": imports("internal/prove/lab"),
			"cmd/holdfast/main.go":             imports("internal/prove/lab"),
		},
		"prove/drill/a.go", "leader/a.go", "loop/a.go", "health/a.go",
	)
}

// smallProgram follows every import of cmd/holdfast, which must stay small
// enough for a static pod on every node, and finds the orchestrator.
func smallProgram(tr *tree) []string {
	packages := tr.packages()
	via := map[string]string{"cmd/holdfast": ""}
	for queue := []string{"cmd/holdfast"}; len(queue) > 0; queue = queue[1:] {
		for _, f := range packages[queue[0]] {
			if f.isTest() {
				continue
			}
			for _, dir := range ours(f) {
				if _, seen := via[dir]; !seen {
					via[dir] = queue[0]
					queue = append(queue, dir)
				}
			}
		}
	}
	var all []string
	for _, dir := range slices.Sorted(maps.Keys(via)) {
		if area(dir) == "fleet" {
			all = append(all, fmt.Sprintf("cmd/holdfast links %s through %s; only holdfastd may", dir, via[dir]))
		}
	}
	return all
}

func TestHoldfastDoesNotLinkFleet(t *testing.T) {
	holds(t, smallProgram)
	catches(t, smallProgram, map[string]string{
		"cmd/holdfast/main.go":    "package main\n\nimport _ \"" + module + "/internal/prove/lab\"\n",
		"internal/prove/lab/a.go": "package lab\n\nimport _ \"" + module + "/internal/fleet/store\"\n",
	}, "links internal/fleet/store through internal/prove/lab")
}
