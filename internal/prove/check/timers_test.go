package check

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/base/exit"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rules"
	"github.com/holdfast-ha/holdfast/internal/prove/check/source"
)

// The paths of clusters as their documents set them up. What is uncovered is told by
// the rules, which have examples of their own.
func TestTimersOfSaneClusters(t *testing.T) {
	dirs, err := filepath.Glob("testdata/sane/*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("%v, %v", dirs, err)
	}
	for _, dir := range dirs {
		facts, err := source.Open(dir, source.DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		timersOf(facts, now).printPaths(&b)
		golden := filepath.Join("testdata/timers", filepath.Base(dir)+".txt")
		if *update {
			if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil || b.String() != string(want) {
			t.Errorf("%s: %v, or it changed; see with -update:\n%s", golden, err, b.String())
		}
	}
}

// What a rule says no detector ends is never shown as covered, and is on the twin.
func TestTimersAgreeWithRules(t *testing.T) {
	for _, tc := range []struct{ rule, fault string }{
		{"HF-VIP-004", "an apiserver that hangs on the machine that has"},
		{"HF-VIP-010", "an apiserver that hangs on a machine that announces"},
		{"HF-BAL-001", "an apiserver that hangs"},
		{"HF-ZONE-018", "losing an apiserver"},
		{"HF-TIME-003", " that acts"},
	} {
		for _, twin := range []string{"broken", "healthy"} {
			facts, err := source.Open(filepath.Join(examples, tc.rule, twin), source.DefaultLimits())
			if err != nil {
				t.Fatal(err)
			}
			covered, told := false, false
			view := timersOf(facts, now)
			for _, p := range view.Paths {
				covered = covered || strings.Contains(p.Fault, tc.fault) && !strings.HasPrefix(p.Client, "kubelets")
			}
			for _, u := range view.Uncovered {
				told = told || u.Rule == tc.rule
			}
			if want := twin == "healthy"; covered != want || told == want {
				t.Errorf("%s/%s: covered %t, named as uncovered %t: %+v", tc.rule, twin, covered, told, view.Paths)
			}
		}
	}
}

// Every detector of every example has a window with its derivation, timers and a
// place.
func TestDetectorsAreWhole(t *testing.T) {
	dirs, err := filepath.Glob(examples + "/*/*")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, dir := range dirs {
		facts, err := source.Open(dir, source.DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range rules.Stack(facts) {
			for _, d := range p.Detectors {
				seen++
				if d.Name == "" || d.Set == "" || d.At.File == "" || d.Window.Max <= 0 || d.Window.Max < d.Window.Min || len(d.Window.Why) == 0 {
					t.Errorf("%s: %s: %+v", dir, p.Fault, d)
				}
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d detectors in all examples", seen)
	}
}

func TestTimersCommand(t *testing.T) {
	out, err := command("timers", "--json", "testdata/sane/keepalived")
	if err != nil {
		t.Fatal(err)
	}
	var view timers
	if err := json.Unmarshal([]byte(out), &view); err != nil {
		t.Fatal(err)
	}
	if len(view.Paths) != 2 || view.Paths[1].MaxMS <= view.Paths[1].Detectors[0].MaxMS || len(view.NotEvaluated) == 0 {
		t.Errorf("%s", out)
	}
	for _, tc := range []struct{ args, says string }{
		{"timers " + examples + "/HF-CLI-001/healthy", "no detector in"},
		{"timers", "no target"},
		{"timers /nonexistent", "no such file"},
	} {
		if _, err := command(strings.Fields(tc.args)...); exit.Code(err) != exit.Unknown || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("check %s: %v", tc.args, err)
		}
	}
}
