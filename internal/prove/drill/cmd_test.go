package drill

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/base/exit"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares text with a file below testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; look at it with `go test ./internal/prove/drill -update` and git diff", path)
	}
}

func TestPlanGolden(t *testing.T) {
	var b strings.Builder
	for _, name := range scenario.Names() {
		s, err := scenario.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range s.VariantNames() {
			b.WriteString(Plan(mustCase(t, name, v)))
		}
	}
	golden(t, "plan.txt", []byte(b.String()))
}

// drill runs the command as a person would and returns its output and error.
func drill(args ...string) (string, error) {
	cmd := Command()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	err := cmd.Execute()
	return out.String(), err
}

func TestListNamesEveryScenario(t *testing.T) {
	out, err := drill("list")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range scenario.Names() {
		if !strings.Contains(out, name) {
			t.Errorf("list does not name %s", name)
		}
	}
	if out, err = drill("list", "--sample"); err != nil || out != string(scenario.Sample) {
		t.Errorf("list --sample: %v", err)
	}
}

func TestMistakesGetOneLineAndCodeTwo(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"run", "nosuch"}, `scenario "nosuch": no such scenario; choose one of `},
		{[]string{"run", "/does/not/exist.yaml"}, "read scenario: open /does/not/exist.yaml: no such file"},
		{[]string{"run", "flap", "--variant", "leader-z"}, `variant "leader-z": scenario flap has no such variant; choose one of main`},
		{[]string{"run", "flap", "--preset", "moon"}, `flap, variant main: lab.preset: "moon" is unknown; choose one of lan, rtt, one-way`},
		{[]string{"run", "flap", "--hold", "10ms"}, `flap, variant main: phases.hold: 10ms is out of range; choose 1s to 1h`},
		{[]string{"run", "flap", "--repeat", "0"}, `--repeat: 0 is out of range; choose 1 to 1000`},
		{[]string{"run", "flap", "--kubernetes", "9"}, `--kubernetes: "9" is unknown; choose 1.35 or 1.37`},
		{[]string{"judge", t.TempDir()}, "it holds neither run.json nor runs/; give the directory that"},
		{[]string{"report", t.TempDir()}, "has no report.json"},
		{[]string{"compare", t.TempDir(), t.TempDir()}, "has no report.json"},
	} {
		_, err := drill(tc.args...)
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("drill %v: %v, want one line with %q", tc.args, err, tc.want)
		}
		if code := exit.Code(err); code != exit.Unknown {
			t.Errorf("drill %v: exit code %d, want 2", tc.args, code)
		}
	}
}

func TestVerdictIsTheExitCode(t *testing.T) {
	for v, want := range map[report.Verdict]int{report.Pass: 0, report.Fail: 1, report.Inconclusive: 2} {
		err := verdict(&report.Report{Scenario: "flap", Verdict: v, Reasons: []string{"one", "two"}})
		if got := exit.Code(err); got != want {
			t.Errorf("verdict %s gives exit code %d, want %d", v, got, want)
		}
		if err != nil && !strings.HasSuffix(err.Error(), "one (and 1 more)") {
			t.Errorf("verdict %s: %v", v, err)
		}
	}
}

func TestSummarise(t *testing.T) {
	one := func(v report.Verdict, ms float64) *report.Report {
		return &report.Report{Verdict: v, Numbers: map[string]float64{"with_recovery_ms": ms}}
	}
	got := summarise([]*report.Report{one(report.Pass, 3100), one(report.Pass, 4100), one(report.Pass, 3300)})
	if got.Numbers["with_recovery_ms"] != 4100 || got.Numbers["with_recovery_ms_median"] != 3300 || got.Numbers["with_recovery_ms_worst"] != 4100 {
		t.Errorf("numbers %v", got.Numbers)
	}
	got = summarise([]*report.Report{one(report.Fail, 3000), one(report.Pass, 4000)})
	if got.Verdict != report.Fail {
		t.Errorf("verdict %s, want that of the worst", got.Verdict)
	}
}

func TestOldDrillIsKeptUnlessTold(t *testing.T) {
	out := t.TempDir()
	old := filepath.Join(out, runsDir, "main-with")
	if err := os.MkdirAll(old, 0o755); err != nil {
		t.Fatal(err)
	}
	o := Options{Out: out}
	if err := o.clear(); err == nil || !strings.Contains(err.Error(), "--overwrite") {
		t.Errorf("clear of an old drill: %v, want a hint at --overwrite", err)
	}
	o.Overwrite = true
	if err := o.clear(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Errorf("the old run is still there: %v", err)
	}
}

func TestUnwritableReportDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Judge(file); err == nil || errors.Is(err, os.ErrExist) {
		t.Errorf("Judge of a file: %v", err)
	}
}
