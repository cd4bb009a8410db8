package check

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"
)

//go:generate go test -run TestRulesAreDocumented -update .

var update = flag.Bool("update", false, "write docs/rules.md and the golden files")

const rulesDocument = "../../../docs/rules.md"

func TestRulesAreDocumented(t *testing.T) {
	var b bytes.Buffer
	if err := document(&b); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(rulesDocument, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(rulesDocument)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(written, b.Bytes()) {
		t.Error("docs/rules.md is stale; run make docs")
	}
}

func TestRulesAreExplained(t *testing.T) {
	for args, want := range map[string]string{
		"explain HF-VIP-001": "Proved by: holdfast drill run vip-etcd-stalls",
		"explain bgp":        "HF-BGP-001",
		"explain":            "HF-MAINT-001",
	} {
		out, err := command(strings.Fields(args)...)
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v\n%s", args, err, out)
		}
	}
	if _, err := command("explain", "HF-NO-001"); err == nil {
		t.Error("an unknown rule was explained")
	}
}

// command runs `holdfast check` with arguments.
func command(args ...string) (out string, err error) {
	var b bytes.Buffer
	cmd := Command()
	cmd.SetArgs(args)
	cmd.SetOut(&b)
	cmd.SetErr(&b)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err = cmd.Execute()
	return b.String(), err
}
