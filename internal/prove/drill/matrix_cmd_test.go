package drill

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/matrix"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

func TestMatrixMistakesGetOneLine(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "x"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"no-such"}, `scenario "no-such": no such scenario; choose one of `},
		{[]string{"zz*"}, `scenario "zz*": it fits none; choose of `},
		{[]string{"["}, `scenario "[": it is no pattern; write one such as pair-*`},
		{[]string{"--quick", "--full"}, "--quick, --full: they exclude one another; give one"},
		{[]string{"--parallel", "0"}, "--parallel: 0 is out of range; choose 1 to 64"},
		{[]string{"--resume"}, "--resume: it needs the directory of the matrix that was interrupted; give --out"},
		{[]string{"--kubernetes", "9"}, `--kubernetes: "9" is unknown; choose `},
	} {
		_, err := drill(append([]string{"matrix"}, tc.args...)...)
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: %v, want %s", tc.args, err, tc.want)
		}
	}
	o := MatrixOptions{Out: full}
	if _, err := o.open(nil); err == nil || !strings.Contains(err.Error(), "is not empty; choose another directory, or go on with --resume") {
		t.Errorf("a directory in use: %v", err)
	}
	o.Resume = true
	if _, err := o.open(nil); err == nil || !strings.Contains(err.Error(), "holds no matrix (plan.json is missing)") {
		t.Errorf("a directory without a matrix: %v", err)
	}
}

func TestMatrixPlanTellsHowLong(t *testing.T) {
	out, err := drill("matrix", "--plan", "one-way", "flap", "pair-planned", "--parallel", "4")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"one-way main, with ", "flap main, without ", "flap main, with ", "pair-planned main, with ", "4 runs, about "} {
		if !strings.Contains(out, want) {
			t.Errorf("the plan lacks %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "one-way main, without") {
		t.Errorf("nothing compares the runs of one-way, so a quick one makes one:\n%s", out)
	}
	out, err = drill("matrix", "--plan", "--full", "one-way")
	if err != nil || !strings.Contains(out, "one-way main, without") || strings.Count(out, "hold 20s") < 4 {
		t.Errorf("the full plan has both runs of both variants as documented: %v\n%s", err, out)
	}
}

// A quick matrix of all drills is short enough for a coffee: 25 minutes on two cores.
func TestQuickMatrixIsShort(t *testing.T) {
	o := MatrixOptions{Room: 4}
	var err error
	if o.Scenarios, err = chosen(nil); err != nil {
		t.Fatal(err)
	}
	if total, runs, err := o.Expect(); err != nil || total > 25*time.Minute || runs < len(scenario.Names()) {
		t.Errorf("%d runs take about %s: %v", runs, total, err)
	}
}

// Names and patterns may overlap; each scenario is drilled once.
func TestChosenOnce(t *testing.T) {
	got, err := chosen([]string{"vip-handover", "vip-*", "vip-handover"})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, s := range got {
		if seen[s.Name] || !strings.HasPrefix(s.Name, "vip-") {
			t.Errorf("%s is there twice, or unasked", s.Name)
		}
		seen[s.Name] = true
	}
	if got[0].Name != "vip-handover" {
		t.Errorf("first is %s", got[0].Name)
	}
}

func TestLedgerRefusesAnotherMatrix(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "m")
	runs := []job{{Run: matrix.Run{Scenario: "x", Variant: "main", Agents: true}}}
	o := MatrixOptions{Out: dir}
	first, err := o.open(runs)
	if err != nil {
		t.Fatal(err)
	}
	first.LastedMS = 1500
	if err := first.write(dir); err != nil {
		t.Fatal(err)
	}
	o.Resume = true
	again, err := o.open(runs)
	if err != nil || again.LastedMS != 1500 || !again.Started.Equal(first.Started) {
		t.Errorf("the same matrix: %+v, %v", again, err)
	}
	for _, other := range []MatrixOptions{{Out: dir, Resume: true, Full: true}, {Out: dir, Resume: true, Peer: "3.5"}} {
		if _, err := other.open(runs); err == nil || !strings.Contains(err.Error(), "give the same names and flags, or another --out") {
			t.Errorf("%+v: %v", other, err)
		}
	}
	if _, err := o.open(append(runs, runs...)); err == nil {
		t.Error("a matrix of other runs goes on")
	}
	if err := os.WriteFile(filepath.Join(dir, ledgerFile), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := o.open(runs); err == nil || !strings.Contains(err.Error(), "begin anew in another --out") {
		t.Errorf("half a ledger: %v", err)
	}
}

// On a terminal or not: a result is one line, whatever the systems under test say.
func TestBoardWritesOneLinePerDrill(t *testing.T) {
	var out strings.Builder
	b := newBoard(&out, time.Minute)
	run := matrix.Run{Scenario: "x", Variant: "main", Agents: true}
	w := &phases{board: b, run: run}
	if _, err := w.Write([]byte("x, leader in a, with the agents: hold 8.3s\n")); err != nil || b.running[0].phase != "hold 8.3s" {
		t.Errorf("phase %+v, %v", b.running, err)
	}
	b.Phase(run, "")
	b.Drilled(&report.Report{Scenario: "x", Verdict: report.Fail, Reasons: []string{"bad\x1b[2J\nnews"}}, 1, 2)
	b.close()
	if got, want := out.String(), "fail          x (1 of 2): bad [2J news\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A drill that this machine lacks something for is told and proves nothing; the others count.
func TestMatrixWithWhatIsLacking(t *testing.T) {
	needLab(t)
	t.Setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
	s, err := scenario.Load("zonal-gateway")
	if err != nil {
		t.Fatal(err)
	}
	o := MatrixOptions{Scenarios: []*scenario.Scenario{s}, Out: filepath.Join(t.TempDir(), "m"), Room: 1}
	o.Board = newBoard(t.Output(), 0)
	jobs, err := o.plan()
	if err != nil {
		t.Fatal(err)
	}
	tab := &table{o: o, jobs: map[string][]job{s.Name: jobs}, broken: map[string][]string{s.Name: {"main, with: gateways need a program"}}}
	m, err := tab.result(&ledger{})
	if err != nil {
		t.Fatal(err)
	}
	if m.Verdict != report.Inconclusive || len(m.Drills) != 1 || !strings.Contains(m.Reasons[0], "gateways need a program") {
		data, _ := json.Marshal(m)
		t.Errorf("%s", data)
	}
}
