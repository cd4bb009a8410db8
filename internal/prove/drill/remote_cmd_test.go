package drill

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRealHostsAreAskedForInFull(t *testing.T) {
	inventory := filepath.Join(t.TempDir(), "hosts.yaml")
	text := "version: 1\nhosts:\n"
	for _, s := range []string{"a", "b", "c"} {
		text += "  - {name: cp-" + s + ", address: 192.0.2." + string(s[0]-'a'+'1') + ", user: root, key: id, site: " + s + ", role: server}\n"
	}
	if err := os.WriteFile(inventory, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := drill("run", "partial-split", "--inventory", inventory, "--dry-run")
	if err != nil || !strings.Contains(out, "cp-a (192.0.2.1, site a, server): drop everything to and from cp-b") || !strings.Contains(out, "not touched: cp-c") {
		t.Errorf("%v:\n%s", err, out)
	}
	for want, args := range map[string][]string{
		"--yes: missing":                 {"--inventory", inventory},
		"observes nothing":               {"--observe-only"},
		"connects to no host":            {"--observe-only", "--inventory", inventory},
		"are for real hosts":             {"--dry-run"},
		"give that file":                 {"--inventory", inventory, "--max-outage", "1s"},
		"out of range; choose":           {"--inventory", inventory, "--hold", "2h"},
		"read inventory":                 {"--inventory", inventory + "x"},
		"--observe-only injects nothing": {"--observe-only", "--yes", "--probe", "x"},
		"undo: --inventory: missing; ":   nil,
	} {
		full := append([]string{"run", "partial-split"}, args...)
		if args == nil {
			full, want = []string{"undo"}, "--inventory: missing; "
		}
		if _, err := drill(full...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v; want %q", full, err, want)
		}
	}
}
